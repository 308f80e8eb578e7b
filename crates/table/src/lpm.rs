//! Longest-prefix match: a router's IPv4 and IPv6 routes, and the lookup of a packet's destination
//! among them.
//!
//! The single writer on the control side owns the [`Fib`]. It stores every prefix with the number
//! of its next-hop group, so that removing a prefix uncovers the shorter one. The lookup structure
//! is shared with any number of [`Reader`]s; each worker has its own, begins a [`Batch`] with it
//! and looks up as many addresses as it likes. Neither side ever waits for the other.
//!
//! # What a lookup sees of an update
//! For every address, an update is one store of one integer: before it a lookup finds the old
//! answer, from then on the new one. A prefix that covers many addresses takes many stores, so one
//! address may have changed already and another one not yet. No lookup returns an answer that was
//! not valid at some instant between its beginning and its end.
//!
//! * Data is written before the link to it is stored with release order; lookups load links with
//!   acquire order. Data that changes in place is single atomic integers.
//! * Unlinked data is not overwritten until every batch that could have loaded the link has ended
//!   (`grace.rs`). A reader between two batches, asleep or gone, delays nothing; a batch that never
//!   ends holds up memory, until inserts are [`Refused`], but never the writer.
//!
//! The tables of both families are explained in `dir24.rs` and `trees.rs`. Alternatives and their
//! speed are in `docs/design/tables.md` and `bench/history`.

mod dir24;
mod lanes;
mod prefixes;
mod rib;
mod space;
mod trees;

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::grace::Instant;
use crate::grace::{self, Periods, Presence};
use crate::pages;
pub use prefixes::{Prefix, PrefixError, parse_prefixes};
use rib::{Rib, Way};

/// The number of an ECMP next-hop group, 0 to [`GroupId::MAX`]. Its meaning is the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(NonZeroU16); // One more than the number, as tables keep it.

impl GroupId {
    /// The greatest number: tables have 15 bits for "none" and the groups.
    pub const MAX: u16 = (1 << 15) - 2;

    /// The group of that number, if it is not too great.
    pub const fn new(number: u16) -> Option<GroupId> {
        if number > GroupId::MAX {
            return None;
        }
        match NonZeroU16::new(number + 1) {
            Some(entry) => Some(GroupId(entry)),
            None => None,
        }
    }

    /// Its number.
    #[inline(always)]
    pub const fn number(self) -> u16 {
        self.0.get() - 1
    }

    #[inline(always)]
    fn from_entry(entry: u16) -> Option<GroupId> {
        NonZeroU16::new(entry).map(GroupId)
    }

    #[inline(always)]
    fn entry(self) -> u16 {
        self.0.get()
    }
}

/// Limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes. Those of the Internet cost the writer some 8 bytes (IPv4) and 70 (IPv6) each.
    pub routes: usize,
    /// Bytes of the lookup structure. More than 48 MiB (IPv4) or 124 (IPv6) are never used.
    pub lookup_bytes: usize,
}

impl Default for Limits {
    /// Four times the Internet's tables of 2026.
    fn default() -> Limits {
        Limits { routes: 4_000_000, lookup_bytes: 64 << 20 }
    }
}

/// Why a route was not inserted or removed; the table is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The prefix is longer than an address.
    #[error("a prefix of {len} bits is longer than an address, which has {most}")]
    Length {
        /// The length asked for.
        len: u8,
        /// Bits of an address.
        most: u8,
    },
    /// The limit of routes is reached.
    #[error("the table holds {limit} routes, as many as it may: raise the limit")]
    Routes {
        /// How many that is.
        limit: usize,
    },
    /// The lookup structure would exceed its limit.
    #[error(
        "the lookup table would outgrow its limit of {limit} bytes: raise the limit, or announce \
         fewer long prefixes"
    )]
    LookupFull {
        /// The limit, bytes.
        limit: usize,
    },
    /// A batch that has not ended holds up memory.
    #[error("a worker has not ended its batch for thousands of updates: memory waits for it")]
    ReaderBusy,
    /// The limit is below the minimum of a table with few routes.
    #[error("a limit of {asked} bytes is too small: a table of few routes may take {least}")]
    TooSmall {
        /// The minimum, in bytes.
        least: usize,
        /// The requested limit, in bytes.
        asked: usize,
    },
    /// The system refused the address space.
    #[error("the system does not give {bytes} bytes of address space")]
    OutOfMemory {
        /// The requested size, in bytes.
        bytes: usize,
    },
}

/// Memory of a table in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The lookup structure, including retired blocks that wait for readers.
    pub lookup: usize,
    /// The writer's data: the routes, and lists of free blocks.
    pub writer: usize,
}

/// The table's answer for an address, with its reasons: [`Fib::explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained<A> {
    /// The group that lookups find.
    pub group: Option<GroupId>,
    /// Every prefix that covers the address, shortest first: base, length, group. The last decides.
    pub covers: Vec<(A, u8, GroupId)>,
}

/// An address in host order: `u32` is IPv4, `u128` IPv6. The trait is sealed.
pub trait Address: Copy + Eq + Ord + Send + Sync + fmt::Debug + sealed::Sealed + 'static {
    /// Bits of an address.
    const BITS: u8;
    #[doc(hidden)]
    const ZERO: Self;
    #[doc(hidden)]
    type Table: Table<Self>;
    /// The address with all but its first `len` bits zero.
    fn network(self, len: u8) -> Self;
    #[doc(hidden)]
    fn byte(self, depth: usize) -> u8;
    #[doc(hidden)]
    fn with_byte(self, depth: usize, byte: u8) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

macro_rules! address {
    ($type:ty, $table:ty) => {
        impl Address for $type {
            const BITS: u8 = <$type>::BITS as u8;
            const ZERO: $type = 0;
            type Table = $table;

            fn network(self, len: u8) -> $type {
                self & !<$type>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            #[inline(always)]
            fn byte(self, depth: usize) -> u8 {
                (self >> (<$type>::BITS as usize - 8 - 8 * depth)) as u8
            }

            #[inline(always)]
            fn with_byte(self, depth: usize, byte: u8) -> $type {
                let shift = <$type>::BITS as usize - 8 - 8 * depth;
                self & !((0xFF as $type) << shift) | <$type>::from(byte) << shift
            }
        }
    };
}

address!(u32, dir24::Dir24);
address!(u128, trees::Trees);

/// The lookup structure.
#[doc(hidden)]
pub trait Table<A>: Send + Sync + Sized {
    type Writer: Writer<A, Table = Self>;
    fn lookup(&self, addr: A) -> Option<GroupId>;
    fn lookup_batch(&self, addrs: &[A], answers: &mut [Option<GroupId>]);
}

/// Updates the lookup structure after changes of the routes.
#[doc(hidden)]
pub trait Writer<A>: Sized {
    type Table;
    fn new(lookup_bytes: usize) -> Result<(Self::Table, Self), Refused>;
    /// Reserves memory for a new route.
    fn reserve(
        &mut self,
        table: &Self::Table,
        periods: &Periods,
        way: &Way<A>,
    ) -> Result<(), Refused>;
    /// Reserves memory for a change or removal of a route.
    fn reserve_change(&mut self, table: &Self::Table, periods: &Periods) -> Result<(), Refused>;
    /// Updates after an insertion: the route is in the RIB now, maybe with another group than
    /// before.
    fn inserted(
        &mut self,
        table: &Self::Table,
        rib: &mut Rib<A>,
        periods: &Periods,
        way: Way<A>,
        old: Option<GroupId>,
    );
    /// Updates after the removal of a route with that group, and prunes the RIB.
    fn removed(
        &mut self,
        table: &Self::Table,
        rib: &mut Rib<A>,
        periods: &Periods,
        way: Way<A>,
        old: GroupId,
    );
    fn collect(&mut self, table: &Self::Table, periods: &Periods);
    fn lookup_bytes(&self) -> usize;
    fn bytes(&self) -> usize;
}

/// The IPv4 table.
pub type Fib4 = Fib<u32>;
/// The IPv6 table.
pub type Fib6 = Fib<u128>;

/// The routes of one family, and the way to change them. Addresses are in host order; bits beyond
/// a prefix's length do not matter.
pub struct Fib<A: Address> {
    rib: Rib<A>,
    writer: <A::Table as Table<A>>::Writer,
    shared: Arc<Shared<A>>,
    limits: Limits,
}

struct Shared<A: Address> {
    table: A::Table,
    periods: Periods,
    changes: Changes,
}

/// Changes of the table so far. The writer alone counts them, up to a million times a second: on a
/// cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Changes(AtomicU64);

impl<A: Address> Shared<A> {
    /// Counts a change that is done: a reader of this count finds it in the table.
    fn count_change(&self) {
        let Changes(count) = &self.changes;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl<A: Address> Fib<A> {
    /// A table without routes.
    ///
    /// # Errors
    /// [`Refused::TooSmall`], [`Refused::OutOfMemory`].
    pub fn new(limits: Limits) -> Result<Fib<A>, Refused> {
        let (table, writer) = <A::Table as Table<A>>::Writer::new(limits.lookup_bytes)?;
        let (periods, changes) = (Periods::new(), Changes::default());
        let shared = Arc::new(Shared { table, periods, changes });
        Ok(Fib { rib: Rib::new(), writer, shared, limits })
    }

    /// A table with these routes; of equal prefixes the last wins. Sorted routes build fastest.
    ///
    /// # Errors
    /// The first [`Refused`].
    pub fn build(
        limits: Limits,
        routes: impl IntoIterator<Item = (A, u8, GroupId)>,
    ) -> Result<Fib<A>, Refused> {
        let mut fib = Fib::new(limits)?;
        for (addr, len, group) in routes {
            fib.insert(addr, len, group)?;
        }
        Ok(fib)
    }

    /// Inserts a route, or changes its group; returns its previous group.
    ///
    /// # Errors
    /// [`Refused`]: nothing was changed.
    pub fn insert(&mut self, addr: A, len: u8, group: GroupId) -> Result<Option<GroupId>, Refused> {
        if len > A::BITS {
            return Err(Refused::Length { len, most: A::BITS });
        }
        let mut way = self.rib.way(addr.network(len), len);
        let known = self.rib.get(&way);
        if known == Some(group) {
            return Ok(known);
        }
        if known.is_none() && self.rib.len() >= self.limits.routes {
            return Err(Refused::Routes { limit: self.limits.routes });
        }
        let Shared { table, periods, .. } = &*self.shared;
        match known {
            None => self.writer.reserve(table, periods, &way)?,
            Some(_) => self.writer.reserve_change(table, periods)?,
        }
        self.rib.insert(&mut way, group);
        self.writer.inserted(table, &mut self.rib, periods, way, known);
        self.shared.count_change();
        Ok(known)
    }

    /// Removes a route; returns its group, or none if it was not there.
    ///
    /// # Errors
    /// [`Refused::ReaderBusy`]: nothing was changed.
    pub fn remove(&mut self, addr: A, len: u8) -> Result<Option<GroupId>, Refused> {
        if len > A::BITS {
            return Ok(None);
        }
        let way = self.rib.way(addr.network(len), len);
        let Shared { table, periods, .. } = &*self.shared;
        self.writer.reserve_change(table, periods)?;
        let old = self.rib.remove(&way);
        if let Some(old) = old {
            self.writer.removed(table, &mut self.rib, periods, way, old);
            self.shared.count_change();
        }
        Ok(old)
    }

    /// The group of exactly this prefix.
    pub fn get(&self, addr: A, len: u8) -> Option<GroupId> {
        if len > A::BITS { None } else { self.rib.get(&self.rib.way(addr, len)) }
    }

    /// Every route: by address, and at the same address the shorter prefix first.
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, GroupId)> + '_ {
        self.rib.iter()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What lookups find for an address, and every prefix that covers it. Slow.
    pub fn explain(&self, addr: A) -> Explained<A> {
        let covers = self.rib.covers(addr).into_iter();
        let covers = covers.map(|(len, group)| (addr.network(len), len, group)).collect();
        Explained { group: self.shared.table.lookup(addr), covers }
    }

    /// A new reader.
    pub fn reader(&self) -> Reader<A> {
        Reader { presence: self.shared.periods.join(), shared: self.shared.clone() }
    }

    /// The present instant, for comparing with batches that began before it.
    pub fn instant(&mut self) -> Instant {
        self.shared.periods.instant()
    }

    /// True once every batch that had begun by that instant has ended: then every reader sees what
    /// was published before it.
    pub fn has_passed(&self, instant: Instant) -> bool {
        self.shared.periods.has_passed(instant)
    }

    /// Frees retired blocks that no batch can reach any more. Updates do that themselves from time
    /// to time.
    pub fn collect(&mut self) {
        let Shared { table, periods, .. } = &*self.shared;
        self.writer.collect(table, periods);
    }

    /// The memory of the table.
    pub fn memory(&self) -> Memory {
        let writer = self.rib.bytes() + self.writer.bytes();
        Memory { lookup: self.writer.lookup_bytes(), writer }
    }
}

/// A reader. Each thread has its own; a clone is independent.
pub struct Reader<A: Address> {
    presence: Presence,
    shared: Arc<Shared<A>>,
}

impl<A: Address> Clone for Reader<A> {
    fn clone(&self) -> Reader<A> {
        Reader { presence: self.shared.periods.join(), shared: self.shared.clone() }
    }
}

impl<A: Address> Reader<A> {
    /// Begins a batch. That takes some nanoseconds, so use one batch for many lookups. End it
    /// before sleeping.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_, A> {
        self.presence.enter(&self.shared.periods);
        Batch { presence: &self.presence, shared: &self.shared }
    }
}

/// A short period in which a reader looks up addresses; it ends when this is dropped.
pub struct Batch<'a, A: Address> {
    presence: &'a Presence,
    shared: &'a Shared<A>,
}

impl<A: Address> Batch<'_, A> {
    /// The group of the longest prefix that covers an address.
    #[inline(always)]
    pub fn lookup(&self, addr: A) -> Option<GroupId> {
        self.shared.table.lookup(addr)
    }

    /// The same for many addresses, faster than one by one. As many are looked up as there are
    /// addresses and answers.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[A], answers: &mut [Option<GroupId>]) {
        self.shared.table.lookup_batch(addrs, answers);
    }

    /// How often routes have changed: a lookup after this finds all of these changes, and perhaps
    /// later ones.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.shared.changes.0.load(Ordering::Acquire)
    }
}

impl<A: Address> Drop for Batch<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.presence.leave();
    }
}

#[cfg(test)]
mod tests;
