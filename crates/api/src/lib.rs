//! The control socket of a node and of a controller: its requests, its answers, a client.
//!
//! One JSON object per line goes each way over a Unix stream socket. A [`Request`] is a line of the
//! client. The daemon answers it with a line: what was asked for, `{"done":true}` where there is
//! nothing to tell, or `{"error":"..."}`. [docs/control-socket.md] shows every request with an
//! answer, for programs in other languages.
//!
//! A new question of `plexus show` is one entry of the registry in [`question`] and the type of its
//! answer in [`answer`]. The compiler then names the two places that lack it: the daemon's answer
//! and the client's table.
//!
//! [docs/control-socket.md]: https://github.com/plexus-net/plexus/blob/main/docs/control-socket.md

pub mod answer;
pub mod client;
pub mod question;
pub mod request;

pub use client::{Client, ClientError};
pub use question::{Answer, Topic};
pub use request::{Apply, Common, CommonApply, Config, Request, Silence, Trace};

/// Version of the requests and answers. It grows when one changes its meaning or goes; new requests
/// and new fields leave it as it is, and readers skip fields that they do not know.
pub const VERSION: u32 = 1;

/// The word of an enum's value in JSON: `too_small`.
pub fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("?").to_string()
}
