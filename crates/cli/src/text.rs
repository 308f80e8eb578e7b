//! Words of more than one command.

use std::io::{ErrorKind, Write};

use crate::exit::{Failure, Outcome};

/// Writes to standard output; a reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::unusable(e)),
        _ => Ok(()),
    }
}

/// A number of things: `1 port`, `2 ports`.
pub(crate) fn plural(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
