//! How far long work is, for a person.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use plexus_wire::Time;

use crate::si;

/// Characters of a bar.
const BAR: usize = 20;

/// One line that changes on a terminal, plain lines elsewhere.
pub struct Progress {
    terminal: bool,
    /// What was said last.
    shown: String,
}

impl Progress {
    /// On standard error; nothing is said yet.
    #[allow(clippy::new_without_default)] // it looks at the terminal
    pub fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), shown: String::new() }
    }

    /// Replaces the line on a terminal, and adds one elsewhere.
    pub fn say(&mut self, text: &str) {
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
    pub fn detail(&mut self, text: &str) {
        if self.terminal {
            self.say(text);
        }
    }

    /// Whether [`Progress::detail`] is for anybody.
    pub fn is_seen(&self) -> bool {
        self.terminal
    }

    /// A bar for the share that is done, 0 to 1, and what else there is to say.
    pub fn share(&mut self, share: f64, text: &str) {
        self.detail(&bar(share, text));
    }

    /// Clears the line on a terminal.
    pub fn clear(&mut self) {
        if self.terminal && !self.shown.is_empty() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.shown.clear();
        }
    }
}

/// How many packets have passed and how fast: one line that changes on a terminal, lines of their
/// own elsewhere.
pub struct PacketProgress {
    terminal: bool,
    every: Duration,
    /// When the next line is due; absent before the first count.
    next: Option<Time>,
    last: (Time, u64, u64),
}

impl PacketProgress {
    /// Lines every `every` from the first count on.
    pub fn new(every: Duration) -> PacketProgress {
        let terminal = std::io::stderr().is_terminal();
        PacketProgress { terminal, every, next: None, last: (Time::ZERO, 0, 0) }
    }

    /// Prints a line if it is due, with the rates since the last one.
    pub fn show(&mut self, now: Time, what: &str, packets: u64, bytes: u64) {
        let Some(next) = self.next else {
            (self.next, self.last) = (Some(now + self.every), (now, packets, bytes));
            return;
        };
        if now < next {
            return;
        }
        let seconds = now.since(self.last.0).as_secs_f64();
        let pps = (packets - self.last.1) as f64 / seconds;
        let bps = (bytes - self.last.2) as f64 * 8.0 / seconds;
        let line = format!("{what} {packets}  {}/s  {}bit/s", si(pps), si(bps));
        if self.terminal {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
        let _ = std::io::stderr().flush();
        self.last = (now, packets, bytes);
        self.next = Some(now + self.every);
    }

    /// Clears the line on a terminal.
    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn bar(share: f64, text: &str) -> String {
    let share = share.clamp(0.0, 1.0);
    let done = (share * BAR as f64) as usize;
    format!("[{:<BAR$}] {:3.0} %  {text}", "#".repeat(done), (share * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_as_work_is_done() {
        assert_eq!(bar(0.0, "x"), format!("[{}]   0 %  x", " ".repeat(BAR)));
        assert_eq!(
            bar(0.5, ""),
            format!("[{}{}]  50 %  ", "#".repeat(BAR / 2), " ".repeat(BAR / 2))
        );
        // Not before all is done.
        assert!(bar(0.999, "").contains("99 %"));
        assert_eq!(bar(7.0, "x"), format!("[{}] 100 %  x", "#".repeat(BAR)));
    }
}
