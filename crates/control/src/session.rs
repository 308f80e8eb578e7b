//! Authenticates one peer, and encrypts the conversation with it.
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
//! - [`frame`]: the format of messages, and checks of their form.
//! - [`Handshake`]: Hellos, their retransmission, and simultaneous starts.
//! - [`Session`]: one pair of directional keys, a counter, a replay window.
//! - [`Channel`]: all of it for one peer. This is what a port, or a routed peer, uses.
//! - [`keyed`]: messages under a key that the controller has distributed.
//!
//! Neither side seals with new keys before the peer has them. Each side keeps opening messages with
//! the old keys until the peer has used the new ones, and a little longer for messages in flight.
//! So a change of keys loses nothing.

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
pub(crate) use noise::Seeded;
pub use random::Random;
pub use refused::{Refusals, Refused};
pub use transport::{PLAINTEXT_LEN_MAX, Session};
pub use window::{REPLAY_WINDOW, ReplayWindow};
