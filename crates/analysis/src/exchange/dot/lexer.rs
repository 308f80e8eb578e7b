//! The words, strings and signs of DOT.

use plexus_config::error::Span;

/// A piece of a DOT file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or number, or a keyword.
    Word(String),
    /// A text in quotes or angle brackets: never a keyword.
    Quoted(String),
    /// `--`, or `->` where it is true.
    Edge(bool),
    /// One of `{}[]=;,:`.
    Sign(char),
    /// Nothing follows.
    End,
}

/// What is wrong, where, and what to do.
type LexError = (Span, &'static str, &'static str);

pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    pub(super) fn next(&mut self) -> Result<(Token, Span), LexError> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start..start)) };
        let token = match first {
            '{' | '}' | '[' | ']' | '=' | ';' | ',' | ':' => {
                self.at += 1;
                Token::Sign(first)
            }
            '-' if rest.starts_with("--") || rest.starts_with("->") => {
                self.at += 2;
                Token::Edge(rest.starts_with("->"))
            }
            '"' => Token::Quoted(self.string()?),
            '<' => Token::Quoted(self.html()?),
            '-' | '.' | '0'..='9' => Token::Word(self.number()?),
            c if is_letter(c) => {
                let end = rest.find(|c: char| !is_letter(c) && !c.is_ascii_digit());
                let word = &rest[..end.unwrap_or(rest.len())];
                self.at += word.len();
                Token::Word(word.to_string())
            }
            c => {
                let help = "put names with other signs than letters and digits in quotes";
                return Err((start..start + c.len_utf8(), "this sign means nothing here", help));
            }
        };
        Ok((token, start..self.at))
    }

    /// Blanks, comments of C and C++, and lines of the C preprocessor.
    fn skip_blanks(&mut self) -> Result<(), LexError> {
        loop {
            let rest = &self.text[self.at..];
            let blank =
                rest.len() - rest.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).len();
            if blank > 0 {
                self.at += blank;
                continue;
            }
            let fresh_line = self.at == 0 || self.text[..self.at].ends_with('\n');
            if rest.starts_with("//") || (rest.starts_with('#') && fresh_line) {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    let span = self.at..self.at + 2;
                    return Err((span, "this comment has no end", "write \"*/\" behind it"));
                };
                self.at += 2 + end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// `"..."`, and further such behind `+`.
    fn string(&mut self) -> Result<String, LexError> {
        let mut out = String::new();
        loop {
            let start = self.at;
            let unclosed = (start..start + 1, "this text has no end", "write a quote behind it");
            let mut chars = self.text[start + 1..].char_indices();
            loop {
                match chars.next().ok_or(unclosed.clone())? {
                    (i, '"') => {
                        self.at = start + 1 + i + 1;
                        break;
                    }
                    (_, '\\') => match chars.next().ok_or(unclosed.clone())?.1 {
                        '"' => out.push('"'),
                        // A line that goes on.
                        '\n' => {}
                        other => out.extend(['\\', other]),
                    },
                    (_, c) => out.push(c),
                }
            }
            let behind = self.at;
            self.skip_blanks()?;
            if !self.text[self.at..].starts_with('+') {
                self.at = behind;
                return Ok(out);
            }
            self.at += 1;
            self.skip_blanks()?;
            if !self.text[self.at..].starts_with('"') {
                let span = self.at..self.at;
                return Err((span, "\"+\" joins two texts in quotes", "write another text"));
            }
        }
    }

    /// `<...>` with balanced brackets.
    fn html(&mut self) -> Result<String, LexError> {
        let start = self.at;
        let mut depth = 0_usize;
        for (i, byte) in self.text[start..].bytes().enumerate() {
            match byte {
                b'<' => depth += 1,
                b'>' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.at = start + i + 1;
                return Ok(self.text[start + 1..start + i].to_string());
            }
        }
        Err((start..start + 1, "this bracket has no end", "write \">\" behind it, or use quotes"))
    }

    /// `-?(.digits | digits(.digits?)?)`.
    fn number(&mut self) -> Result<String, LexError> {
        let rest = &self.text[self.at..];
        let unsigned = rest.strip_prefix('-').unwrap_or(rest);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(unsigned);
        let point = unsigned[whole..].starts_with('.');
        let part = if point { digits(&unsigned[whole + 1..]) } else { 0 };
        if whole + part == 0 {
            let span = self.at..self.at + 1;
            return Err((span, "this is no number", "put names that begin so in quotes"));
        }
        let len = rest.len() - unsigned.len() + whole + usize::from(point) + part;
        self.at += len;
        Ok(rest[..len].to_string())
    }
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use plexus_config::error::quote;

    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next().unwrap_or_else(|e| panic!("{}: {e:?}", quote(text))) {
                (Token::End, _) => return tokens,
                (token, _) => tokens.push(token),
            }
        }
    }

    #[test]
    fn reads_the_languages_words() {
        let word = |w: &str| Token::Word(w.to_string());
        let quoted = |w: &str| Token::Quoted(w.to_string());
        assert_eq!(tokens("a1--é"), [word("a1"), Token::Edge(false), word("é")]);
        assert_eq!(tokens("1->-.5"), [word("1"), Token::Edge(true), word("-.5")]);
        assert_eq!(tokens("\"a\\\"\" + /* so */ \"b\" c"), [quoted("a\"b"), word("c")]);
        assert_eq!(tokens("# line 1\n<a<b>>// end"), [quoted("a<b>")]);
        assert_eq!(tokens("3.5.5"), [word("3.5"), word(".5")]);
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for text in ["\"a", "\"a\\", "<a<b>", "/* a", "\"a\" +", "-", "%", "."] {
            let mut lexer = Lexer::new(text);
            let found = (0..9).map(|_| lexer.next()).find_map(Result::err);
            assert!(found.is_some(), "{text}");
        }
    }
}
