//! How a new box gets its identity: it asks the first box of a group, with a one-time code.
//!
//! The first box prints a [`JoinCode`]: a secret, the fingerprint of the group's authority, and the
//! address at which the box listens. The exchange is `Noise_XNpsk0_25519_ChaChaPoly_BLAKE2s` (Noise
//! revision 34) with a key derived from the code:
//!
//! ```text
//!  new box (Joiner)                                first box (Invitation)
//!     │ version, e                                    │ proves that it knows the code
//!     ├──────────────────────────────────────────────►│ otherwise: a wrong guess
//!     │ e, ee                                         │
//!     │◄──────────────────────────────────────────────┤
//!     │ s, se, {name}                                 │ proves that it has the key
//!     ├──────────────────────────────────────────────►│ the operator confirms name and key
//!     │ {credential, authority} or {reason}           │
//!     │◄──────────────────────────────────────────────┤
//!     │ {stored}                                      │ the code is used up
//!     ├──────────────────────────────────────────────►│
//! ```
//!
//! The new box accepts only an authority that has the code's fingerprint, and only a credential for
//! its own key that this authority has signed. So a box that has merely overheard the code cannot
//! answer in the authority's place. A recorded exchange is worthless: both sides use new ephemeral
//! keys, and an invitation is used once.

mod code;
mod exchange;
mod invitation;

use std::fmt;

pub use code::{JoinCode, fingerprint};
pub use exchange::{Applicant, Asked, Joiner, MESSAGE_LEN_MAX, Waiting};
pub use invitation::{Invitation, WRONG_MAX};

/// Why an exchange ended without an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The peer speaks another version, or another protocol.
    Version,
    /// A message has the wrong form, or was altered.
    Malformed,
    /// The peer does not know the invitation's code.
    WrongCode,
    /// The invitation has expired.
    Expired,
    /// The invitation was used.
    Used,
    /// There were [`WRONG_MAX`] wrong guesses.
    Guessed,
    /// The authority is not the one whose fingerprint the code has.
    OtherAuthority,
    /// The credential is not for this box's key and name.
    OtherBox,
    /// The first box has refused, for this reason.
    Refused(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinError::Version => "the peer speaks another version of the protocol",
            JoinError::Malformed => "a message is malformed or was altered",
            JoinError::WrongCode => "the code is not that of the invitation",
            JoinError::Expired => "the invitation has expired",
            JoinError::Used => "the invitation was used",
            JoinError::Guessed => "the invitation is closed, because too many guesses were wrong",
            JoinError::OtherAuthority => {
                "the box that answered shows another authority than the code names"
            }
            JoinError::OtherBox => "the credential is not for this box",
            JoinError::Refused(why) => return write!(f, "the first box has refused: {why}"),
        })
    }
}

impl std::error::Error for JoinError {}

#[cfg(test)]
mod tests;
