//! Errors of a lab, for the user.

use std::io;
use std::path::PathBuf;

use plexus_report::Failure;

/// Why a lab operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The topology file is wrong; the text names file and line.
    #[error("{0}")]
    File(String),
    /// The file requires something that a lab cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// A tool is not installed.
    #[error("the command `{tool}` is missing: apt-get install {package}")]
    Tool {
        /// The command.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A tool ran and refused.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The command and its arguments.
        command: String,
        /// Its message.
        said: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no lab of this name.
    #[error("no lab named {name:?} is up (see `plexus lab status`)")]
    NoLab {
        /// The name.
        name: String,
    },
    /// A lab of this name is up already, from something else.
    #[error(
        "a lab named {name:?} is up already, from {}: `plexus lab down {name}` first",
        file.display()
    )]
    Taken {
        /// The name.
        name: String,
        /// The file it was made from.
        file: PathBuf,
    },
    /// The lab said no; in its words.
    #[error("{0}")]
    Refused(String),
    /// Interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The operating system's error, with the operation that failed.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::System { what: what.into(), source: source.into() }
    }
}

/// Adds the failed operation to a system error.
pub(crate) trait Doing<T> {
    /// Names the operation.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::system(what(), e))
    }
}

/// A lab that is not there is an answer; all else could not be done.
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::NoLab { .. } => Failure::No(error.to_string()),
            error => Failure::unusable(error),
        }
    }
}
