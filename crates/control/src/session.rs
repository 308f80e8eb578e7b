//! Proving an identity to one peer, and talking to it afterwards.
//!
//! Read section 4.2.1 of the Axon seed first: Hellos are authenticated before a port counts as
//! connected. We prove a private key instead of sharing one secret among all boxes: the handshake
//! is `Noise_XX_25519_ChaChaPoly_BLAKE2s` (Noise revision 34), and its second and third message
//! carry the sender's [`Credential`](crate::identity::Credential).
//!
//! ```text
//!  initiator                                            responder
//!     │ Hello 1: e                                          │
//!     ├────────────────────────────────────────────────────►│ keeps one pending handshake
//!     │ Hello 2: e, ee, s, es, {sessions, credential, facts}│
//!     │◄────────────────────────────────────────────────────┤
//!     │ Hello 3: s, se, {sessions, credential, facts}       │ established: both have the keys
//!     ├────────────────────────────────────────────────────►│
//!     │ Sealed: (empty)                                     │
//!     │◄────────────────────────────────────────────────────┤ the confirmation
//!     │ established: both have the keys                     │
//! ```
//!
//! - [`frame`]: what the messages look like, and whatever can be told from that.
//! - [`Handshake`]: Hellos, their retransmission, both sides starting at once.
//! - [`Session`]: one pair of directional keys, a counter, a replay window.
//! - [`Channel`]: all of it for one peer. This is what a port, or a routed peer, uses.
//! - [`keyed`]: messages under a key that was handed out by the controller.
//!
//! Nobody seals with new keys before the peer has them, and whoever gets new keys goes on opening
//! with the old ones until the peer has used the new, and a little longer for what is still on its
//! way. So a change of keys loses nothing.

mod channel;
pub mod frame;
mod handshake;
pub mod keyed;
mod noise;
mod random;
mod refused;
mod transport;
mod window;

pub use channel::{Channel, Established, Handled, Limits, OLD_SESSION_GRACE, SealError};
pub use handshake::{
    ATTEMPT_TIME, Agreed, BACK_OFF_MAX, BACK_OFF_MIN, FACTS_LEN_MAX, Facts, Handshake, Peer,
    RESPONDER_TIME, RoleWanted, Step,
};
pub use random::Random;
pub use refused::{Refusals, Refused};
pub use transport::{PLAINTEXT_LEN_MAX, Session};
pub use window::{REPLAY_WINDOW, ReplayWindow};
