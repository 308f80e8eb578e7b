//! Failures of a consumer.

use plexus_wire::ndn::NameBuf;

/// Why a fetch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The forwarder has no next hop.
    #[error("no route to {0}: no producer has registered a prefix of it, or no path leads to it")]
    NoRoute(NameBuf),
    /// No answer arrived.
    #[error("no answer to {name} after {tries} Interests")]
    NoAnswer {
        /// The requested name.
        name: NameBuf,
        /// Number of Interests sent.
        tries: u32,
    },
    /// The producer says that there is no such Data (content type Nack).
    #[error("the producer has no {0}")]
    Absent(NameBuf),
    /// The answer is invalid.
    #[error("what came for {name} does not fit: {why}")]
    Misfit {
        /// The requested name.
        name: NameBuf,
        /// The reason.
        why: String,
    },
}

impl Failure {
    /// The same failure, reported for the wanted object instead of the Interest.
    pub(crate) fn about(self, wanted: NameBuf) -> Failure {
        match self {
            Failure::NoRoute(_) => Failure::NoRoute(wanted),
            Failure::NoAnswer { tries, .. } => Failure::NoAnswer { name: wanted, tries },
            Failure::Absent(_) => Failure::Absent(wanted),
            Failure::Misfit { why, .. } => Failure::Misfit { name: wanted, why },
        }
    }
}
