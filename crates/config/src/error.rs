//! Errors in files, for their authors: what is wrong, where, and what to do.

use std::fmt::{self, Write as _};
use std::ops::Range;

/// A range of bytes in a file.
pub type Span = Range<usize>;

/// Longest piece of a line, in characters, that a message shows.
const LINE_SHOWN: usize = 96;
/// Most problems that a message shows.
const PROBLEMS_SHOWN: usize = 20;

/// Why a single value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// What is wrong, naming the value.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl ValueError {
    /// A refusal in these words.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> ValueError {
        ValueError { message: message.into(), help: help.into() }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.help)
    }
}

impl std::error::Error for ValueError {}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, in bytes; `None` where it is the file as a whole.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What to do; empty where the message says it.
    pub help: String,
}

/// Everything that is wrong with a file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    file: String,
    text: String,
    problems: Vec<Problem>,
}

impl FileError {
    /// Problems in `text`, the contents of `file`.
    pub fn new(file: &str, text: &str, mut problems: Vec<Problem>) -> FileError {
        problems.sort_by_key(|p| p.span.as_ref().map_or(0, |s| s.start));
        problems.dedup();
        FileError { file: file.to_string(), text: text.to_string(), problems }
    }

    /// A file that could not be read at all.
    pub fn whole(file: &str, message: impl Into<String>, help: impl Into<String>) -> FileError {
        let problem = Problem { span: None, message: message.into(), help: help.into() };
        FileError { file: file.to_string(), text: String::new(), problems: vec![problem] }
    }

    /// The problems, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Line and column (in characters), both from 1, of a byte of the file.
    pub fn position(&self, byte: usize) -> (usize, usize) {
        let (line, column, _) = locate(&self.text, byte);
        (line, column)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().take(PROBLEMS_SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            self.render(problem, f)?;
        }
        if self.problems.len() > PROBLEMS_SHOWN {
            write!(f, "\n\n… and {} more", self.problems.len() - PROBLEMS_SHOWN)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileError {}

impl FileError {
    fn render(&self, problem: &Problem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &problem.span {
            None => write!(f, "{}: {}", self.file, problem.message)?,
            Some(span) => {
                let (line, column, content) = locate(&self.text, span.start);
                writeln!(f, "{}:{line}:{column}: {}", self.file, problem.message)?;
                // The marked part ends with the line, and is at least one caret long.
                let start = floor_boundary(&self.text, span.start);
                let end = ceil_boundary(&self.text, span.end.max(start));
                let first_line = self.text[start..end].split('\n').next().unwrap_or("");
                let marked = first_line.trim_end().chars().count().max(1);
                let (shown, offset) = excerpt(content, column - 1);
                let marked = marked.min(shown.chars().count().saturating_sub(offset).max(1));
                let gutter = line.to_string().len().max(4);
                writeln!(f, "{line:>gutter$} | {shown}")?;
                write!(f, "{:>gutter$} | {:offset$}{:^<marked$}", "", "", "")?;
            }
        }
        if !problem.help.is_empty() {
            write!(f, "\n      help: {}", problem.help)?;
        }
        Ok(())
    }
}

/// The largest character boundary not above `byte`.
fn floor_boundary(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The smallest character boundary not below `byte`.
fn ceil_boundary(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Line and column from 1, and the whole line, of a byte.
fn locate(text: &str, byte: usize) -> (usize, usize, &str) {
    let at = floor_boundary(text, byte);
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    let column = text[start..at].chars().count() + 1;
    (line, column, text[start..end].trim_end_matches('\r'))
}

/// At most [`LINE_SHOWN`] characters of a line around the character `at`, and where that one is
/// in them. Control characters are shown as a dot: a file must not steer the reader's terminal.
fn excerpt(line: &str, at: usize) -> (String, usize) {
    let skip = if at > LINE_SHOWN * 2 / 3 { at - LINE_SHOWN / 2 } else { 0 };
    let mut shown: String = if skip > 0 { "…".to_string() } else { String::new() };
    let offset = at - skip + usize::from(skip > 0);
    let mut rest = line.chars().skip(skip);
    for c in rest.by_ref().take(LINE_SHOWN) {
        let plain = match c {
            '\t' => ' ',
            c if c.is_control() => '·',
            c => c,
        };
        shown.push(plain);
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    (shown, offset)
}

/// A value as a message shows it: in quotes, control characters escaped, cut when long.
pub fn quote(text: &str) -> String {
    const SHOWN: usize = 48;
    let mut out = String::from("\"");
    for (i, c) in text.chars().enumerate() {
        if i == SHOWN {
            out.push('…');
            break;
        }
        if c.is_control() || c == '"' || c == '\\' {
            let _ = write!(out, "{}", c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
}

/// The candidate that was probably meant: at most a third of its letters differ.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word is no slip of the finger, and the distance below is quadratic.
    if word.len() > 40 {
        return None;
    }
    let near = |candidate: &str| {
        // "xdp" means "af_xdp", and "rate_limit" means "rate".
        let part = |a: &str, b: &str| b.len() >= 3 && a.contains(b);
        if part(candidate, word) || part(word, candidate) {
            return Some(1);
        }
        let longest = word.chars().count().max(candidate.chars().count());
        let distance = edit_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (distance <= longest.div_ceil(3)).then_some(distance)
    };
    candidates
        .into_iter()
        .filter(|c| *c != word)
        .filter_map(|c| near(c).map(|distance| (distance, c)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Fewest insertions, removals, replacements and swaps of neighbours between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differ);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(span: Option<Span>) -> Problem {
        Problem { span, message: "wrong".into(), help: "mend it".into() }
    }

    #[test]
    fn shows_file_line_column_and_a_caret() {
        let text = "a = 1\nbé = \"x\" # c\n";
        let start = text.find("\"x\"").unwrap();
        let error = FileError::new("f.toml", text, vec![problem(Some(start..start + 3))]);
        assert_eq!(
            error.to_string(),
            "f.toml:2:6: wrong\n   2 | bé = \"x\" # c\n     |      ^^^\n      help: mend it"
        );
    }

    #[test]
    fn shows_only_a_piece_of_a_long_or_hostile_line() {
        let text = format!("k = \"{}\u{1b}[2J{}\"", "é".repeat(100_000), "b".repeat(100_000));
        let at = text.find('\u{1b}').unwrap();
        let shown = FileError::new("f", &text, vec![problem(Some(at..at + 90_000))]).to_string();
        assert!(shown.len() < 800, "{}", shown.len());
        assert!(!shown.contains('\u{1b}'));
        let caret = shown.lines().nth(2).unwrap().chars().position(|c| c == '^').unwrap();
        assert_eq!(shown.lines().nth(1).unwrap().chars().nth(caret), Some('·'));
    }

    #[test]
    fn positions_outside_or_inside_a_character_do_not_panic() {
        let text = "é";
        for start in 0..4 {
            for end in 0..4 {
                let span = Some(Span { start, end });
                let _ = FileError::new("f", text, vec![problem(span)]).to_string();
            }
        }
        let _ = FileError::new("f", "", vec![problem(Some(7..9))]).to_string();
    }

    #[test]
    fn many_problems_are_counted() {
        let many = (0..50).map(|i| problem(Some(i..i + 1))).collect();
        let shown = FileError::new("f", &"x".repeat(60), many).to_string();
        assert!(shown.ends_with("… and 30 more"));
        assert_eq!(shown.matches("help:").count(), 20);
    }

    #[test]
    fn finds_what_was_meant() {
        let keys = ["rate", "trunk", "learning", "mac_limit"];
        assert_eq!(closest("raet", keys), Some("rate"));
        assert_eq!(closest("Trunk", keys), Some("trunk"));
        assert_eq!(closest("mac-limit", keys), Some("mac_limit"));
        assert_eq!(closest("rate_limit", keys), Some("rate"));
        assert_eq!(closest("colour", keys), None);
    }
}
