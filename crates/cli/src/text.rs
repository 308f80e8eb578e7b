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

/// A question, without the end of its line.
pub(crate) fn ask(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
