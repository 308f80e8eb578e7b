//! What management requires of the node that it runs in.

use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{FaceStatus, GeneralStatus};
use plexus_wire::ndn::{Name, NameBuf};

use crate::face::FaceId;
use crate::fib::{FibError, NextHop};
use crate::strategy::StrategyError;

/// A request for a face (NFD wiki, "FaceMgmt", "Create a face").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceRequest {
    /// Remote end.
    pub remote: FaceUri,
    /// Local end, if it matters.
    pub local: Option<FaceUri>,
    /// Other requested settings; the persistency is always set.
    pub settings: FaceSettings,
}

/// Settings of a face; `None` keeps the present or default value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceSettings {
    /// Persistency, one of [`persistency`](plexus_wire::ndn::nfd::persistency).
    pub persistency: Option<u64>,
    /// The peer may use application headers.
    pub local_fields: Option<bool>,
    /// Link packets are acknowledged and retransmitted.
    pub reliability: Option<bool>,
    /// Packets are marked when the queue is long.
    pub congestion_marking: Option<bool>,
    /// Time between two marks, in nanoseconds.
    pub congestion_interval_ns: Option<u64>,
    /// Bytes in the queue above which packets are marked.
    pub congestion_threshold: Option<u64>,
    /// Longest link packet in bytes.
    pub mtu: Option<u64>,
}

/// Why a face was not created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceRefusal {
    /// This face already leads there.
    Exists(Box<FaceStatus>),
    /// These settings cannot be changed that way; nothing was changed.
    Settings(FaceSettings),
    /// There is no such face.
    Unknown,
    /// This node does not support such a face.
    Unsupported(String),
    /// It is supported, but creating it failed.
    Failed(String),
}

/// The content store, as `cs/info` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    /// Capacity in packets.
    pub capacity: u64,
    /// Packets stored.
    pub entries: u64,
    /// Arriving Data is inserted.
    pub admits: bool,
    /// Interests are answered from it.
    pub serves: bool,
    /// Cache hits.
    pub hits: u64,
    /// Cache misses.
    pub misses: u64,
}

/// A change of the content store; `None` keeps a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheChange {
    /// Capacity in packets.
    pub capacity: Option<u64>,
    /// Arriving Data is inserted.
    pub admits: Option<bool>,
    /// Interests are answered from it.
    pub serves: Option<bool>,
}

/// Result of an erasure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Packets that were erased.
    pub count: u64,
    /// More packets are left under the prefix.
    pub more: bool,
}

/// The node, as management queries and commands it. The driver reports the outcome of a face
/// command like any other face event, to [`Management::face_up`](super::Management::face_up) and
/// [`Management::face_down`](super::Management::face_down).
pub trait Host {
    /// Creates a face.
    ///
    /// # Errors
    /// [`FaceRefusal`].
    fn create_face(&mut self, now: Time, request: &FaceRequest) -> Result<FaceStatus, FaceRefusal>;

    /// Whether a created face is still connecting. Until it is connected, it is removed if the
    /// connection fails; [`update_face`](Host::update_face) then makes it as permanent as
    /// requested.
    fn is_connecting(&self, face: FaceId) -> bool;

    /// Changes a face: all requested settings, or none.
    ///
    /// # Errors
    /// [`FaceRefusal`].
    fn update_face(
        &mut self,
        now: Time,
        face: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, FaceRefusal>;

    /// Destroys a face. A missing face is not an error.
    fn destroy_face(&mut self, now: Time, face: FaceId);

    /// Calls `each` for every face.
    fn faces(&self, now: Time, each: &mut dyn FnMut(&FaceStatus));

    /// Calls `each` for every channel: the local ends that accept faces.
    fn channels(&self, each: &mut dyn FnMut(&FaceUri));

    /// Sets a prefix's next hops, the cheapest first, at most [`HOPS_MAX`](crate::fib::HOPS_MAX).
    /// An empty list removes the prefix from the FIB.
    ///
    /// # Errors
    /// [`FibError`]: nothing was changed.
    fn set_next_hops(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError>;

    /// Sets a prefix's strategy by its full name; `None`: inherit that of the next shorter prefix.
    ///
    /// # Errors
    /// [`StrategyError`]: nothing was changed.
    fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError>;

    /// The content store.
    fn cache(&self) -> CacheInfo;

    /// Changes the content store.
    fn set_cache(&mut self, change: CacheChange);

    /// Erases up to `count` packets under a prefix from the content store.
    fn erase(&mut self, prefix: Name<'_>, count: u64) -> Erased;

    /// The forwarder's counters. Its values for FIB, start and current time are ignored.
    fn status(&self) -> GeneralStatus;
}

/// Publishes the RIB's next hops to the FIB.
pub(super) fn publish(
    host: &mut impl Host,
) -> impl FnMut(Name<'_>, &[NextHop]) -> Result<(), FibError> {
    |prefix, hops| host.set_next_hops(prefix, hops)
}
