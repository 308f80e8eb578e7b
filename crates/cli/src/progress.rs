//! How far long work is, for a person.

use std::io::{IsTerminal, Write};

/// One line that changes on a terminal, plain lines elsewhere.
pub(crate) struct Progress {
    terminal: bool,
    /// What was said last.
    shown: String,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), shown: String::new() }
    }

    pub(crate) fn say(&mut self, text: &str) {
        if self.shown == text {
            return;
        }
        self.shown = text.to_string();
        let mut err = std::io::stderr();
        // A terminal that is gone is no reason to stop.
        let _ = if self.terminal {
            write!(err, "\r\x1b[K{text}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{text}")
        };
    }

    /// What changes every second: a terminal only, elsewhere it would be a line each time.
    pub(crate) fn detail(&mut self, text: &str) {
        if self.terminal {
            self.say(text);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.terminal && !self.shown.is_empty() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.shown.clear();
        }
    }
}
