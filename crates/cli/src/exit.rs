//! Exit codes (DESIGN): 0, 1 when it ran and the answer is no, 2 for bad usage or input.

use std::process::ExitCode;

pub(crate) use plexus_report::Failure;

/// The result of a subcommand.
pub(crate) type Outcome = Result<(), Failure>;

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
