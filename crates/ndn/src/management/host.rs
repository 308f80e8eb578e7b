//! What management asks of the node that it is a part of.

use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{FaceStatus, GeneralStatus};
use plexus_wire::ndn::{Name, NameBuf};

use crate::face::FaceId;
use crate::fib::{FibError, NextHop};
use crate::strategy::StrategyError;

/// A face that is asked for (NFD wiki, "FaceMgmt", "Create a face").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceRequest {
    /// The other end.
    pub remote: FaceUri,
    /// This end, if it matters.
    pub local: Option<FaceUri>,
    /// What else is asked for; the persistency is always there.
    pub settings: FaceSettings,
}

/// What can be set on a face; what is `None` stays as it is, or as is usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceSettings {
    /// How long it stays: of [`persistency`](plexus_wire::ndn::nfd::persistency).
    pub persistency: Option<u64>,
    /// The peer may use the headers of applications.
    pub local_fields: Option<bool>,
    /// Link packets are acknowledged and sent again.
    pub reliability: Option<bool>,
    /// Packets are marked when they wait for too long.
    pub congestion_marking: Option<bool>,
    /// Time between two marks, in nanoseconds.
    pub congestion_interval_ns: Option<u64>,
    /// Bytes in the queue from which on packets are marked.
    pub congestion_threshold: Option<u64>,
    /// Longest link packet in bytes.
    pub mtu: Option<u64>,
}

/// Why a face was not made or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceRefusal {
    /// A face leads there already: this one.
    Exists(Box<FaceStatus>),
    /// These settings cannot be changed so; nothing was changed.
    Settings(FaceSettings),
    /// There is no such face.
    Unknown,
    /// Nothing here can make such a face.
    Unsupported(String),
    /// It could be made, but not now.
    Failed(String),
}

/// The content store, as `cs/info` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    /// Packets that it may hold.
    pub capacity: u64,
    /// Packets that it holds.
    pub entries: u64,
    /// Data that comes is taken in.
    pub admits: bool,
    /// Interests are answered from it.
    pub serves: bool,
    /// Interests that it answered.
    pub hits: u64,
    /// Interests that it did not.
    pub misses: u64,
}

/// A change of the content store; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheChange {
    /// Packets that it may hold.
    pub capacity: Option<u64>,
    /// Data that comes is taken in.
    pub admits: Option<bool>,
    /// Interests are answered from it.
    pub serves: Option<bool>,
}

/// What came of erasing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Packets that were erased.
    pub count: u64,
    /// There are more under the prefix.
    pub more: bool,
}

/// The node: what management asks and orders. It has no face of its own there: what comes of an
/// order to a face is told to [`Management::face_up`](super::Management::face_up) and
/// [`Management::face_down`](super::Management::face_down) like everything else that happens to
/// faces.
pub trait Host {
    /// Makes a face.
    ///
    /// # Errors
    /// [`FaceRefusal`].
    fn create_face(&mut self, now: Time, request: &FaceRequest) -> Result<FaceStatus, FaceRefusal>;

    /// Whether a face that was made has no connection yet. Until it has, it goes down if none comes
    /// about; as permanent as it was to be it is made by [`update_face`](Host::update_face) then.
    fn is_connecting(&self, face: FaceId) -> bool;

    /// Changes a face: all that is asked for, or nothing.
    ///
    /// # Errors
    /// [`FaceRefusal`].
    fn update_face(
        &mut self,
        now: Time,
        face: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, FaceRefusal>;

    /// Destroys a face. One that is not there is no error.
    fn destroy_face(&mut self, now: Time, face: FaceId);

    /// Tells of every face.
    fn faces(&self, now: Time, each: &mut dyn FnMut(&FaceStatus));

    /// Tells where faces can come from: the local ends that are listened on.
    fn channels(&self, each: &mut dyn FnMut(&FaceUri));

    /// Where a prefix leads from now on: the cheapest first, at most
    /// [`HOPS_MAX`](crate::fib::HOPS_MAX). Without any, the prefix leaves the FIB.
    ///
    /// # Errors
    /// [`FibError`]: nothing was changed.
    fn set_next_hops(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError>;

    /// Which strategy a prefix has from now on, by its full name; `None`: that of the next shorter
    /// prefix.
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

    /// The forwarder's counters. What is said of FIB, start and present time is not looked at.
    fn status(&self) -> GeneralStatus;
}

/// Carries next hops of the RIB's into the FIB.
pub(super) fn publish(
    host: &mut impl Host,
) -> impl FnMut(Name<'_>, &[NextHop]) -> Result<(), FibError> {
    |prefix, hops| host.set_next_hops(prefix, hops)
}
