//! The sockets behind the faces of a named-data forwarder.
//!
//! One [`Faces`] belongs to one thread. It owns sockets and the link protocol of each face; its
//! driver owns the clock:
//!
//! 1. [`Faces::sleep`] until a socket is ready, the [`Waker`](plexus_io::wake::Waker) is used, or
//!    [`Faces::next_deadline`].
//! 2. [`Faces::turn`] with the time by then: reads in batches, passes Interests, Data and Nacks in
//!    batches to a [`Receiver`], and writes what the receiver sends, also in batches.
//!
//! The interface to the forwarder is [`Receiver`] in and [`Table::send`] out; a packet that another
//! thread passes over a ring is sent by [`Faces::table_mut`] before the next turn.
//!
//! It uses one `epoll` through `rustix`, which is a dependency anyway: level-triggered, so that no
//! socket has to be drained before another one has its turn. `polling` would add a thread-safe
//! registry and one-shot modes that a single-threaded loop does not need.
//!
//! Packets that a face cannot write yet wait in a queue, bounded in bytes per face and in total;
//! packets that do not fit are dropped and counted. A connection whose peer reads none of its
//! backlog is closed after a minute, so that it does not hold memory for ever.

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

/// Lifetime of a face (NFD developer guide, "Face persistency").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistency {
    /// Created for an arriving packet or connection; removed when idle, or with the connection.
    OnDemand,
    /// Stays until it is destroyed, or its connection ends.
    Persistent,
    /// Stays until it is destroyed; a connection that ends is re-established.
    Permanent,
}

impl Persistency {
    /// NFD's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Persistency::OnDemand => "on-demand",
            Persistency::Persistent => "persistent",
            Persistency::Permanent => "permanent",
        }
    }
}

/// Properties of a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its number.
    pub id: FaceId,
    /// Local end.
    pub local: FaceUri,
    /// Remote end.
    pub remote: FaceUri,
    /// Whether the remote end is on this machine.
    pub scope: Scope,
    /// Link type.
    pub link_type: LinkType,
    /// How long it lives.
    pub persistency: Persistency,
}

/// Why a face went down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// It was destroyed by [`Faces::destroy`].
    Destroyed,
    /// It received nothing for too long.
    Idle,
    /// Its peer read none of the backlog for too long.
    Unread,
    /// The peer closed the connection.
    Closed,
    /// The peer's stream could not be parsed any more.
    Broken(String),
    /// The operating system reports an error.
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

/// Most packets passed on together.
pub const BATCH: usize = 16;

/// Receives packets from the faces: the forwarder.
pub trait Receiver {
    /// Packets arrived, at most [`BATCH`], each with its face. The receiver sends answers through
    /// `out`.
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table);

    /// A face was added. No packet of it has been passed on before.
    fn face_up(&mut self, _now: Time, _face: &Facts) {}

    /// A face was removed: no more packets arrive on it, and packets sent to it are dropped. Its
    /// number is reused only after 4096 other faces in its slot.
    fn face_down(&mut self, _now: Time, _face: FaceId, _why: &Down) {}

    /// A permanent face has lost or regained its connection. Packets sent to it in between are
    /// dropped.
    fn face_link(&mut self, _now: Time, _face: FaceId, _is_up: bool) {}

    /// Which of these faces have ever answered an Interest: where faces are scarce or a port is
    /// crowded, the others are evicted first. It is called only then, and for each face no more
    /// once it has answered.
    fn answered(&mut self, _faces: &[FaceId]) -> Vec<FaceId> {
        Vec::new()
    }
}
