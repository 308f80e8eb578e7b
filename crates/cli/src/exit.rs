//! Exit codes (DESIGN): 0, 1 when it ran and the answer is no, 2 for bad usage or input.

use std::fmt::Display;
use std::process::ExitCode;

/// What a subcommand ends with.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a subcommand did not end well; the text is for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It ran, and the answer is no (an assertion failed, a host did not answer).
    No(String),
    /// It could not run: bad arguments, a bad file, a missing privilege.
    Unusable(String),
}

impl Failure {
    /// It could not run, for this reason.
    pub(crate) fn unusable(why: impl Display) -> Failure {
        Failure::Unusable(why.to_string())
    }
}

/// Prints the reason, if any, and gives the exit code.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    let (code, why) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::No(why)) => (1, why),
        Err(Failure::Unusable(why)) => (2, why),
    };
    if !why.is_empty() {
        eprintln!("plexus: {why}");
    }
    ExitCode::from(code)
}
