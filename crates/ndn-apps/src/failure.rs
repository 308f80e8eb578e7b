//! Why a consumer gives up.

use plexus_wire::ndn::NameBuf;

/// Why something was not fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The forwarder has no next hop.
    #[error("no route to {0}: nobody has registered a prefix of it, or there is no way there")]
    NoRoute(NameBuf),
    /// Nobody answered.
    #[error("no answer to {name} after {tries} Interests")]
    NoAnswer {
        /// What was asked for.
        name: NameBuf,
        /// How often.
        tries: u32,
    },
    /// The producer says that there is no such Data (content type Nack).
    #[error("the producer has no {0}")]
    Absent(NameBuf),
    /// What came cannot be what was asked for.
    #[error("what came for {name} does not fit: {why}")]
    Misfit {
        /// What was asked for.
        name: NameBuf,
        /// Why not.
        why: String,
    },
}

impl Failure {
    /// The same, told of what is wanted in place of a question about it.
    pub(crate) fn about(self, wanted: NameBuf) -> Failure {
        match self {
            Failure::NoRoute(_) => Failure::NoRoute(wanted),
            Failure::NoAnswer { tries, .. } => Failure::NoAnswer { name: wanted, tries },
            Failure::Absent(_) => Failure::Absent(wanted),
            Failure::Misfit { why, .. } => Failure::Misfit { name: wanted, why },
        }
    }
}
