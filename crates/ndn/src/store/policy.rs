//! Eviction policies: which entry a full cache evicts.
//!
//! A policy knows entries by their *slot*, a small number that the cache allocates and reuses, so
//! all its state lies in arrays allocated once. It adds up the entries' *weight*, in bytes or 1
//! each, and the cache asks it for victims until there is room.

mod ghost;
mod one_queue;
mod queues;
mod s3_fifo;
mod sieve;
mod tiny_lfu;
mod two_queue;

#[cfg(test)]
mod tests;

pub use one_queue::{Fifo, Lru, OneQueue};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use tiny_lfu::TinyLfu;
pub use two_queue::TwoQueue;

/// An eviction policy over slots.
///
/// The cache calls `on_insert` once for a slot, then `on_hit` any number of times. After `victim`
/// has returned the slot or `on_remove` was called, the slot may be inserted again. Nothing is
/// allocated after construction.
pub trait Policy {
    /// An entry with this keyed hash was inserted into a free slot. True if the policy remembers
    /// that it was evicted recently: then it has been requested at least twice.
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool;

    /// The entry was requested.
    fn on_hit(&mut self, slot: u32);

    /// Returns the entry to evict and forgets its slot; `None` when there are no entries.
    fn victim(&mut self) -> Option<u32>;

    /// The entry was removed for another reason than eviction.
    fn on_remove(&mut self, slot: u32);

    /// Prefetches the memory that inserting or evicting an entry with this hash touches.
    #[inline(always)]
    fn prefetch(&self, _hash: u64) {}

    /// Slots and hashes of the two entries likely to be evicted next, if known at no cost.
    #[inline(always)]
    fn upcoming(&self) -> [Option<(u32, u64)>; 2] {
        [None; 2]
    }
}

/// The policies by name, for configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Three queues: entries requested once are evicted early (Yang et al., SOSP 2023).
    #[default]
    S3Fifo,
    /// A small window before a segmented LRU, admission by frequency (Einziger et al., 2017).
    TinyLfu,
    /// A queue and a hand that skips requested entries (Zhang et al., NSDI 2024).
    Sieve,
    /// A queue for new entries, an LRU for those that return (Johnson and Shasha, VLDB 1994).
    TwoQueue,
    /// Evicts the least recently used entry.
    Lru,
    /// Evicts the oldest entry.
    Fifo,
}

impl PolicyKind {
    /// Every policy, the default first.
    pub const ALL: [PolicyKind; 6] = [
        PolicyKind::S3Fifo,
        PolicyKind::TinyLfu,
        PolicyKind::Sieve,
        PolicyKind::TwoQueue,
        PolicyKind::Lru,
        PolicyKind::Fifo,
    ];

    /// Its name in files and output.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::S3Fifo => "s3-fifo",
            PolicyKind::TinyLfu => "w-tinylfu",
            PolicyKind::Sieve => "sieve",
            PolicyKind::TwoQueue => "2q",
            PolicyKind::Lru => "lru",
            PolicyKind::Fifo => "fifo",
        }
    }

    /// Creates it for `slots` entries with a total weight of `capacity`.
    pub fn build(self, slots: usize, capacity: u64) -> AnyPolicy {
        match self {
            PolicyKind::S3Fifo => AnyPolicy::S3Fifo(S3Fifo::new(slots, capacity)),
            PolicyKind::TinyLfu => AnyPolicy::TinyLfu(TinyLfu::new(slots, capacity)),
            PolicyKind::Sieve => AnyPolicy::Sieve(Sieve::new(slots)),
            PolicyKind::TwoQueue => AnyPolicy::TwoQueue(TwoQueue::new(slots, capacity)),
            PolicyKind::Lru => AnyPolicy::Lru(Lru::new(slots)),
            PolicyKind::Fifo => AnyPolicy::Fifo(Fifo::new(slots)),
        }
    }
}

/// A policy chosen at run time. The branch always goes the same way, so its cost is not measurable
/// beside the entry's own cache line.
pub enum AnyPolicy {
    /// See [`S3Fifo`].
    S3Fifo(S3Fifo),
    /// See [`TinyLfu`].
    TinyLfu(TinyLfu),
    /// See [`Sieve`].
    Sieve(Sieve),
    /// See [`TwoQueue`].
    TwoQueue(TwoQueue),
    /// See [`Lru`].
    Lru(Lru),
    /// See [`Fifo`].
    Fifo(Fifo),
}

/// Forwards a call to the chosen policy.
macro_rules! each {
    ($any:expr, $policy:ident => $call:expr) => {
        match $any {
            AnyPolicy::S3Fifo($policy) => $call,
            AnyPolicy::TinyLfu($policy) => $call,
            AnyPolicy::Sieve($policy) => $call,
            AnyPolicy::TwoQueue($policy) => $call,
            AnyPolicy::Lru($policy) => $call,
            AnyPolicy::Fifo($policy) => $call,
        }
    };
}

impl Policy for AnyPolicy {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        each!(self, policy => policy.on_insert(slot, hash, weight))
    }

    fn on_hit(&mut self, slot: u32) {
        each!(self, policy => policy.on_hit(slot));
    }

    fn victim(&mut self) -> Option<u32> {
        each!(self, policy => policy.victim())
    }

    fn on_remove(&mut self, slot: u32) {
        each!(self, policy => policy.on_remove(slot));
    }

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        each!(self, policy => policy.prefetch(hash));
    }

    #[inline(always)]
    fn upcoming(&self) -> [Option<(u32, u64)>; 2] {
        each!(self, policy => policy.upcoming())
    }
}
