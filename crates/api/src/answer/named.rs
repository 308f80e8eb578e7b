//! Of a forwarder of named data.

use serde::{Deserialize, Serialize};

use super::node::Counts;

/// Of `show faces`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faces {
    /// The node's name.
    pub node: String,
    /// The faces.
    pub faces: Vec<Face>,
    /// Bytes that wait to be sent.
    pub queued_bytes: usize,
    /// Connections that ended because their other end read nothing.
    pub ended_unread: u64,
    /// Packets that came in parts.
    pub reassembly: Reassembly,
}

/// A face.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Face {
    /// Its number.
    pub face: u64,
    /// Where it leads, as a FaceUri.
    pub remote: String,
    /// Its own end, as a FaceUri.
    pub local: String,
    /// `local` or `non-local`.
    pub scope: String,
    /// `point-to-point`, `multi-access` or `ad-hoc`.
    pub link: String,
    /// `on-demand`, `persistent` or `permanent`.
    pub persistency: String,
    /// The longest packet that is sent whole, in bytes; absent without a limit.
    pub mtu: Option<usize>,
    /// Lost packets are sent again.
    pub reliability: bool,
    /// Local fields are on (NDNLPv2).
    pub local_fields: bool,
    /// Packets that came in, each once.
    pub received: Packets,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: Packets,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Copies of received packets that further workers got.
    pub received_copies: u64,
    /// The fates of received packets. A packet that several workers got has one at each.
    pub fates: Counts,
    /// Packets that came to nothing, at least.
    pub dropped_least: u64,
    /// The same at most.
    pub dropped: u64,
    /// Not sent: this face's queue was full.
    pub unsent_queue_full: u64,
    /// Not sent: all faces' queues were full.
    pub unsent_queues_full: u64,
    /// Not sent: the socket refused.
    pub unsent_refused: u64,
    /// Packets sent with a congestion mark.
    pub congestion_marked: u64,
    /// Received bytes that are no packet.
    pub link_malformed: u64,
    /// Received link packets with fields that must not be ignored.
    pub link_refused: u64,
    /// Fragments without a place.
    pub fragments_refused: u64,
    /// Packets received twice.
    pub duplicates: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets sent again too often.
    pub given_up: u64,
}

/// Packets by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Interests.
    pub interests: u64,
    /// Data.
    pub data: u64,
    /// Nacks.
    pub nacks: u64,
    /// Anything else.
    pub other: u64,
}

impl Packets {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.interests + self.data + self.nacks + self.other
    }
}

/// Packets that came in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reassembly {
    /// Memory of those that lack parts.
    pub used_bytes: usize,
    /// Given up since the rest did not come.
    pub timed_out: u64,
    /// Given up for lack of memory.
    pub evicted: u64,
}

/// Of `show names`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// The node's name.
    pub node: String,
    /// Routes that the answer leaves out.
    pub routes_more: usize,
    /// Routes.
    pub routes: Vec<Route>,
    /// Strategies by prefix.
    pub strategies: Vec<StrategyChoice>,
    /// By how many components of a name a worker is picked.
    pub dispatch: Vec<Dispatch>,
    /// Prefixes that have routes.
    pub prefixes: usize,
    /// The FIBs of the workers.
    pub fib: Fib,
    /// Pending Interests.
    pub pending: usize,
    /// Interests that Data answered.
    pub satisfied: u64,
    /// Interests that expired.
    pub unsatisfied: u64,
    /// Interests sent on.
    pub asked: Asked,
    /// Management commands.
    pub commands: Commands,
    /// Each worker's share.
    pub workers: Vec<Worker>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The prefix, as a URI.
    pub prefix: String,
    /// The face that it leads to.
    pub face: u64,
    /// Its cost.
    pub cost: u64,
    /// Its origin.
    pub origin: Origin,
    /// It also holds for longer names that have routes of their own.
    pub inherit: bool,
    /// Routes of shorter prefixes do not hold here.
    pub capture: bool,
    /// When it ends; absent: never.
    pub expires_s: Option<f64>,
}

/// A route's origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Origin {
    /// As NFD's tools call it.
    Name(String),
    /// A number that they have no name for.
    Number(u64),
}

/// A strategy and where it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyChoice {
    /// The prefix, as a URI.
    pub prefix: String,
    /// The strategy's name, as a URI.
    pub strategy: String,
}

/// By how many components a worker is picked for a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Of names under this prefix.
    pub prefix: String,
    /// Components that are hashed.
    pub components: usize,
}

/// The FIBs of the workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fib {
    /// How many there are: one for each node of memory.
    pub replicas: usize,
    /// The memory of all.
    pub memory_bytes: usize,
    /// Which one each worker reads.
    pub of_worker: Vec<usize>,
}

/// Interests that were sent on, and what became of them:
/// `written = answered + nacked + expired + evicted + replaced + withdrawn + held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Sent on.
    pub written: u64,
    /// Data came.
    pub answered: u64,
    /// A Nack came.
    pub nacked: u64,
    /// Nothing came in time.
    pub expired: u64,
    /// Ended for lack of room.
    pub evicted: u64,
    /// Sent on again.
    pub replaced: u64,
    /// Ended with the face of the asker or the asked.
    pub withdrawn: u64,
    /// Not decided yet.
    pub held: u64,
}

/// Management commands, by what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Carried out.
    pub done: u64,
    /// Could not be carried out.
    pub failed: u64,
    /// No such command.
    pub unknown: u64,
    /// Without a signature.
    pub unsigned: u64,
    /// With a wrong signature.
    pub forged: u64,
    /// Signed by a key that is not trusted.
    pub untrusted: u64,
    /// With a signature that cannot be checked.
    pub unverified: u64,
    /// Seen before.
    pub replayed: u64,
    /// Too old.
    pub stale: u64,
}

/// A worker's share. The first worker gives packets to the others and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Turns of its loop.
    pub turns: u64,
    /// Pending Interests.
    pub pending: usize,
    /// Packets in its content store's memory.
    pub cached: u64,
    /// Interests that the content store answered.
    pub cache_hits: u64,
    /// Packets for a face that is gone.
    pub unknown_face: u64,
    /// Interests sent on.
    pub asked: Asked,
    /// Packets given to it.
    pub given: u64,
    /// Packets that it had no room for.
    pub given_dropped: u64,
    /// Packets that it returned.
    pub returned: u64,
    /// Packets that the first worker had no room for.
    pub returned_dropped: u64,
}

/// Of `show cache`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// The node's name.
    pub node: String,
    /// Data is taken in.
    pub admits: bool,
    /// Interests are answered.
    pub serves: bool,
    /// The first floor.
    pub memory: Memory,
    /// Interests that disks answered.
    pub disk_hits: u64,
    /// Chunks read from disks ahead.
    pub prefetch: Prefetch,
    /// Interests that neither floor answered.
    pub misses: u64,
    /// The second floor.
    pub disks: Vec<Disk>,
}

/// The content store's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Packets.
    pub packets: u64,
    /// Packets that it has room for.
    pub capacity: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that it may use.
    pub capacity_bytes: u64,
    /// Interests answered.
    pub hits: u64,
    /// Packets taken in.
    pub inserted: u64,
    /// Packets that made room.
    pub evicted: u64,
    /// Packets not taken in.
    pub refused: u64,
}

/// Reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefetch {
    /// Chunks that are read together; 1: none are read ahead.
    pub chunks: u64,
    /// Chunks read ahead.
    pub read_ahead: u64,
    /// Those of them that were asked for.
    pub used: u64,
}

/// A disk of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Its file.
    pub file: String,
    /// Its size.
    pub capacity_bytes: u64,
    /// `io_uring` or `threads`.
    pub engine: String,
    /// Past the kernel's cache (`O_DIRECT`).
    pub direct: bool,
    /// `opening`, `good`, `stalled`, `read-only`, `discarded` or `foreign`.
    pub health: String,
    /// Memory of its index.
    pub index_bytes: usize,
    /// Packets on it.
    pub packets: u64,
    /// Packets found on it at the start.
    pub recovered: u64,
    /// Why it was cleared at the start, in words.
    pub cleared: Option<String>,
    /// Interests answered.
    pub hits: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Lookups that found too many reads under way.
    pub busy: u64,
    /// Reads.
    pub reads: u64,
    /// Lookups that shared a read.
    pub coalesced: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Reads that came too late.
    pub late: u64,
    /// Reads of something else.
    pub mismatches: u64,
    /// Packets taken in.
    pub inserted: u64,
    /// Packets not taken in.
    pub refused: u64,
    /// Writes.
    pub writes: u64,
    /// Writes that failed.
    pub write_errors: u64,
}

impl Disk {
    /// Reads and writes that came to nothing.
    pub fn errors(&self) -> u64 {
        self.read_errors + self.write_errors + self.late + self.mismatches
    }
}
