//! The boundary to the content store, and a store in memory behind it.

mod lru;

use plexus_wire::Time;
use plexus_wire::ndn::Data;

use crate::names::HashedName;
pub use lru::{Lru, LruLimits};

/// What an Interest asks a store for. A name with an implicit digest is asked for without it; the
/// forwarder compares the digest.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The components' bytes.
    pub name: &'a [u8],
    /// Their keyed hash.
    pub hash: u64,
    /// A longer name will do.
    pub can_be_prefix: bool,
    /// Only within its FreshnessPeriod.
    pub must_be_fresh: bool,
}

/// What a store says.
pub enum Answer<P> {
    /// Here it is.
    Hit(P),
    /// A disk is asked; [`Forwarder::on_read`](crate::forwarder::Forwarder::on_read) will be told.
    Reading,
    /// It has none.
    Miss,
}

/// A content store.
pub trait Cache {
    /// A packet's bytes, in one piece or several.
    type Pieces<'a>: Iterator<Item = &'a [u8]> + Clone
    where
        Self: 'a;

    /// Looks for what a query asks for. If the answer is [`Answer::Reading`], what comes of it is
    /// told once, with the same `waiter`.
    fn lookup(&mut self, query: &Query<'_>, waiter: u64, now: Time) -> Answer<Self::Pieces<'_>>;

    /// Asks for the memory where a search for this hash begins: a batch of packets does so for
    /// all of them before the first is looked up.
    fn prefetch(&self, _hash: u64) {}

    /// When that has come, asks for what the search is likely to find.
    fn prefetch_found(&self, _hash: u64) {}

    /// Takes Data in.
    fn insert(&mut self, data: &Data<'_>, name: &HashedName<'_>, now: Time);
}
