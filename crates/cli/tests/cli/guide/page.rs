//! The pages of the documentation: which commands they name, and what they say that these print.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Said, until};

/// Programs whose commands a page may name within its text.
const PROGRAMS: [&str; 8] =
    ["plexus ", "sudo ", "docker ", "make ", "scripts/", "openssl ", "source ", "chown "];

/// Commands whose answer is no.
const NEGATIVE: [&str; 3] = [
    "plexus config diff n1",
    "plexus trace --explain --node ring/c1 --from h1 --to 8.8.8.8",
    // Interrupted before its traffic has arrived.
    "plexus sim run labs/ring.toml --web",
];

/// Lines that depend on the machine: its kernel, its clock, its network cards.
pub(crate) const NOT_PRINTED: [&str; 4] = [
    "ok       kernel      Linux 6.8.0-45-generic",
    "warning  clock       nothing keeps it right: leases, logs and certificates go by it",
    "                       timedatectl set-ntp true",
    "ok       eth1        native XDP with zero copy (ixgbe)",
];

/// A command of a page, and the lines that the page shows below it.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The machine of the prompt, as in `n1# `; empty if the prompt or the text names none.
    pub(crate) at: String,
    /// Whether it stands within the text.
    pub(crate) is_inline: bool,
    pub(crate) command: String,
    pub(crate) shown: Vec<String>,
}

impl Step {
    /// Runs the command, which ends as it should and prints the lines that the page shows.
    #[track_caller]
    pub(crate) fn run(&self, run: impl Fn() -> Said) -> Said {
        let (mut said, code) = (run(), self.code());
        // Tables show the present, which takes a moment to be what it should.
        let asks =
            ["plexus show ", "plexus trace ", "plexus doctor", "ping ", "config common versions"];
        if asks.iter().any(|ask| self.command.contains(ask)) {
            until(|| {
                let is_good = said.code == Some(code) && self.missing(&said.out).is_none();
                if !is_good {
                    said = run();
                }
                is_good
            });
        }
        assert_eq!(said.code, Some(code), "{}: {said:#?}", self.command);
        self.assert_shows(&said.out);
        said
    }

    /// The exit code that it should have.
    pub(crate) fn code(&self) -> i32 {
        i32::from(NEGATIVE.contains(&self.command.as_str()))
    }

    /// Asserts that the lines that the page shows are among those that the command printed.
    #[track_caller]
    pub(crate) fn assert_shows(&self, printed: &str) {
        let missing = self.missing(printed);
        assert_eq!(missing, None, "{} prints:\n{printed}", self.command);
    }

    /// A line that the page shows and that the command has not printed.
    pub(crate) fn missing(&self, printed: &str) -> Option<&str> {
        let printed: Vec<String> = printed.lines().map(shape).collect();
        let is_there = |line: &str| match line.strip_suffix(" ...") {
            Some(begin) => printed.iter().any(|line| line.starts_with(&shape(begin))),
            None => printed.contains(&shape(line)),
        };
        let is_asked = |line: &&str| !["", "..."].contains(line) && !NOT_PRINTED.contains(line);
        self.shown.iter().map(String::as_str).filter(is_asked).find(|line| !is_there(line))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    // A backslash continues a command on the next line.
    fs::read_to_string(root().join(page)).unwrap().replace("\\\n", " ")
}

/// A line of a page, and the kind of the block that it is in.
fn lines(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut block: Option<&str> = None;
    text.lines().filter_map(move |line| match line.strip_prefix("```") {
        Some(kind) => {
            block = if block.is_none() { Some(kind) } else { None };
            None
        }
        None => Some((block, line)),
    })
}

/// The commands of a page in their order: those of its blocks of kind `console` or `sh`, and those
/// within the text.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let text = read(page);
    let (mut steps, mut prose) = (Vec::new(), String::new());
    for (block, line) in lines(&text).chain([(None, "")]) {
        let is_prose = block.is_none() && !line.is_empty();
        if is_prose {
            prose = prose + line + " ";
            continue;
        }
        steps.extend(inline(&std::mem::take(&mut prose)));
        if !matches!(block, Some("console" | "sh")) {
            continue;
        }
        match prompt(line) {
            Some((at, command)) => {
                let at = at.to_string();
                // Remarks are for the reader.
                let command = command.split("   # ").next().unwrap();
                let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
                steps.push(Step { at, is_inline: false, command, shown: vec![] });
            }
            None => steps.last_mut().unwrap().shown.push(line.to_string()),
        }
    }
    steps
}

/// The lines of a page's blocks of kind `text`.
pub(crate) fn texts(page: &str) -> Vec<String> {
    let text = read(page);
    lines(&text).filter(|(block, _)| *block == Some("text")).map(|(_, l)| l.to_string()).collect()
}

fn inline(prose: &str) -> Vec<Step> {
    // A line's end within a command is a space.
    let words = |span: &str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    let spans = prose.split('`').skip(1).step_by(2).map(words);
    let ours = spans.filter(|span| PROGRAMS.iter().any(|program| span.starts_with(program)));
    let step = |command| Step { is_inline: true, command, ..Step::default() };
    ours.map(step).collect()
}

/// The machine and the command of a line that begins with a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (prompt, command) = line.split_once(' ')?;
    let at = prompt.strip_suffix(['$', '#'])?;
    at.chars().all(|c| c.is_ascii_alphanumeric()).then_some((at, command))
}

/// A line without what differs from run to run: numbers, keys, Ethernet addresses, and how columns
/// are filled up.
fn shape(line: &str) -> String {
    line.split_whitespace().map(|word| word_shape(word) + " ").collect()
}

fn word_shape(word: &str) -> String {
    let groups = |by: char| word.split(by).map(str::len).collect::<Vec<_>>();
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
    if groups(':') == [2; 6] {
        return "MAC".into();
    } else if groups('-').len() > 8 {
        return "CODE".into();
    } else if is_hex && word.len() >= 16 {
        return "KEY".into();
    }
    let mut shape = String::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            // The magnitude of a rate.
            let unit = rest.trim_start_matches(['k', 'M', 'G']);
            if unit.starts_with("bit") {
                rest = unit;
            }
            shape.push('#');
        } else {
            rest = &rest[c.len_utf8()..];
            shape.push(c);
        }
    }
    shape
}

#[test]
fn a_page_is_read_as_its_reader_reads_it() {
    let prose = "Ask `plexus show drops`, or\n`docker kill --signal HUP`; `plexus` is a name.";
    let commands: Vec<String> =
        inline(&prose.replace('\n', " ")).into_iter().map(|step| step.command).collect();
    assert_eq!(commands, ["plexus show drops", "docker kill --signal HUP"]);
    assert_eq!(prompt("n1# plexus doctor"), Some(("n1", "plexus doctor")));
    assert_eq!(prompt("ok   n1 is up"), None);
    assert_eq!(shape("h1  up 45.2Mbit"), shape("h2 up  1Gbit"));
    assert_ne!(shape("h1 up"), shape("h1 down"));
    assert_eq!(shape("02:ed:87:b3:d9:3a 1"), "MAC # ");
    let shown = vec!["a 1 ...".to_string(), "...".into()];
    let step = Step { at: String::new(), is_inline: false, command: "x".into(), shown };
    assert_eq!(step.missing("b\na 2 and more"), None);
    assert_eq!(step.missing("b 2"), Some("a 1 ..."));
}
