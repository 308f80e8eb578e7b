//! The sockets behind a named-data forwarder's faces.
//!
//! One [`Faces`] belongs to one thread. It owns sockets and the link protocol of each face; who
//! drives it owns the clock:
//!
//! 1. [`Faces::sleep`] until a socket has something, the [`Waker`](plexus_io::wake::Waker) is used,
//!    or [`Faces::next_deadline`].
//! 2. [`Faces::turn`] with the time by then: reads in batches, hands Interests, Data and Nacks in
//!    batches to a [`Receiver`], and writes what the receiver had to send, also in batches.
//!
//! The boundary to the forwarder is [`Receiver`] in and [`Table::send`] out; a packet that comes by
//! a ring from another thread is sent by [`Faces::table_mut`] before the next turn.
//!
//! It is one `epoll` through `rustix`, which is here anyway: level-triggered, so that no socket has
//! to be emptied before the next has its turn. `polling` would add a thread-safe registry and
//! one-shot modes that a loop of one thread has no use for.
//!
//! What a face has not been able to write waits in a queue of bounded bytes, which are bounded in
//! all too; what finds no room is dropped and counted. A connection whose peer takes nothing of
//! what waits is ended after a minute, so that it does not keep its memory for ever.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod backlog;
mod driver;
mod ether;
mod listen;
mod stream;
mod table;
mod udp;
mod websocket;

use std::fmt;

use plexus_ndn::face::{FaceId, LinkType, Scope};
use plexus_ndn::link::Received;
use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;

pub use driver::{Bounds, Faces};
pub use ether::{ETHERTYPE, Ends as EthernetEnds, GROUP as ETHERNET_GROUP, read as read_frame};
pub use listen::Listen;
pub use table::{FaceCounters, Refusal, Settings, Table};
pub use udp::Group;

/// How long a face lives (NFD developer guide, "Face persistency").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistency {
    /// Made by a packet or connection that came; goes when it is idle, or with the connection.
    OnDemand,
    /// Until it is destroyed, or its connection ends.
    Persistent,
    /// Until it is destroyed; a connection that ends is made again.
    Permanent,
}

impl Persistency {
    /// Its name in answers, NFD's.
    pub fn name(self) -> &'static str {
        match self {
            Persistency::OnDemand => "on-demand",
            Persistency::Persistent => "persistent",
            Persistency::Permanent => "permanent",
        }
    }
}

/// What is known of a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its number.
    pub id: FaceId,
    /// This end.
    pub local: FaceUri,
    /// The other.
    pub remote: FaceUri,
    /// Whether that is on this machine.
    pub scope: Scope,
    /// How many are behind it.
    pub link_type: LinkType,
    /// How long it lives.
    pub persistency: Persistency,
}

/// Why a face went down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// It was destroyed by [`Faces::destroy`].
    Destroyed,
    /// Nothing came for too long.
    Idle,
    /// Something waited for it for too long, of which it took nothing.
    Unread,
    /// The peer closed the connection.
    Closed,
    /// What the peer sent could not be told apart any more.
    Broken(String),
    /// The operating system says so.
    Failed(String),
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Down::Destroyed => f.write_str("destroyed"),
            Down::Idle => f.write_str("idle"),
            Down::Unread => f.write_str("the peer reads nothing"),
            Down::Closed => f.write_str("closed by the peer"),
            Down::Broken(why) => write!(f, "the peer sent {why}"),
            Down::Failed(why) => f.write_str(why),
        }
    }
}

/// Packets that are handed on together, at most.
pub const BATCH: usize = 16;

/// Who takes what the faces receive: the forwarder.
pub trait Receiver {
    /// Packets have come, [`BATCH`] at most, each by its face. What is to be sent because of them
    /// goes to `out`.
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table);

    /// There is a new face. No packet of it has come before.
    fn face_up(&mut self, now: Time, face: &Facts);

    /// The face has gone: nothing comes of it any more, what is sent to it is dropped. Its number
    /// is not used again before 4096 others in its place.
    fn face_down(&mut self, now: Time, face: FaceId, why: &Down);

    /// A permanent face has lost its connection, or has one again. In between, what is sent to it
    /// is dropped.
    fn face_link(&mut self, _now: Time, _face: FaceId, _is_up: bool) {}

    /// Which of these faces have ever answered what they were asked: where there are too many
    /// stations, those that have not go first. It is asked only then, and of each no more once it
    /// has.
    fn answered(&mut self, faces: &[FaceId]) -> Vec<FaceId>;
}
