//! Why a run did not end well.

use std::fmt::Display;

/// Why a run did not end well; the text is for a person.
#[derive(Debug)]
pub enum Failure {
    /// It ran, and the answer is no (an assertion failed, a host did not answer).
    No(String),
    /// It could not run: bad arguments, a bad file, a missing privilege.
    Unusable(String),
}

impl Failure {
    /// It could not run, for this reason.
    pub fn unusable(why: impl Display) -> Failure {
        Failure::Unusable(why.to_string())
    }
}
