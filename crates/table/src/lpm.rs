//! Longest-prefix match: the routes of a router, IPv4 and IPv6, and the lookup of a packet's
//! destination among them.
//!
//! A [`Fib`] belongs to the one writer on the control side. It keeps every prefix with the number
//! of its next-hop group, so that a removed prefix uncovers the shorter one. What lookups touch is
//! shared with any number of [`Reader`]s; each worker has its own, begins a [`Batch`] with it and
//! looks up as many addresses as it likes. Neither ever waits for the other.
//!
//! # What a lookup sees of an update
//! For every address, an update is one store of one integer: before it a lookup finds the old
//! answer, from it on the new one. A prefix that covers many addresses takes many stores, so of two
//! addresses one may have changed already and the other not yet. No lookup finds an answer that
//! did not hold at some instant between its beginning and its end.
//!
//! * What a link leads to is written before the link is stored with release order; lookups load
//!   links with acquire order. Data that changes in place is single atomic integers.
//! * What a link led to is not written again until every batch that could have loaded the link has
//!   ended (`grace.rs`). A reader between two batches, asleep or gone, holds nothing up; a batch
//!   that never ends holds up memory, until inserts are [`Refused`], and never the writer.
//!
//! How each family's table looks, and why, is in `dir24.rs` and `trees.rs`; how else it could be
//! done, and how fast that was, in `docs/design/tables.md` and `bench/history`.

mod dir24;
mod lanes;
mod prefixes;
mod rib;
mod trees;

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

pub use crate::grace::Instant;
use crate::grace::{self, Periods, Presence};
use crate::pages;
pub use prefixes::{Prefix, PrefixError, parse_prefixes};
use rib::{Rib, Way};

/// The number of an ECMP next-hop group, 0 to [`GroupId::MAX`]. What a group is, its owner knows.
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

/// What a table may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes: the Internet's cost the writer some 8 bytes (IPv4) and 70 (IPv6) each.
    pub routes: usize,
    /// Bytes of what lookups touch. There is no use for more than 48 MiB (IPv4) and 124 (IPv6).
    pub lookup_bytes: usize,
}

impl Default for Limits {
    /// Four times the Internet's tables of 2026.
    fn default() -> Limits {
        Limits { routes: 4_000_000, lookup_bytes: 64 << 20 }
    }
}

/// Why a route was not taken in (or out); the table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The prefix is longer than an address.
    Length {
        /// The length asked for.
        len: u8,
        /// Bits of an address.
        most: u8,
    },
    /// There are as many routes as there may be.
    Routes {
        /// How many that is.
        limit: usize,
    },
    /// What lookups touch would outgrow its limit.
    LookupFull {
        /// The limit, bytes.
        limit: usize,
    },
    /// Memory is held up by a batch that has not ended.
    ReaderBusy,
    /// The limit is below what a table may take however few routes it has.
    TooSmall {
        /// What it takes, bytes.
        least: usize,
        /// The limit asked for, bytes.
        asked: usize,
    },
    /// The system did not give the address space.
    OutOfMemory {
        /// What was asked for, bytes.
        bytes: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Length { len, most } => {
                write!(f, "a prefix of {len} bits is longer than an address, which has {most}")
            }
            Refused::Routes { limit } => {
                write!(f, "the table holds {limit} routes, as many as it may: raise the limit")
            }
            Refused::LookupFull { limit } => write!(
                f,
                "the lookup table would outgrow its limit of {limit} bytes: raise the limit, or \
                 announce fewer long prefixes"
            ),
            Refused::ReaderBusy => f.write_str(
                "a worker has not ended its batch for thousands of updates: memory waits for it",
            ),
            Refused::TooSmall { least, asked } => write!(
                f,
                "a limit of {asked} bytes is too small: a table of few routes may take {least}"
            ),
            Refused::OutOfMemory { bytes } => {
                write!(f, "the system does not give {bytes} bytes of address space")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Bytes of memory that a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What lookups touch, retired blocks that wait for readers included.
    pub lookup: usize,
    /// What the writer keeps beside it: the routes, and lists of free blocks.
    pub writer: usize,
}

/// What the table says of an address, and why: [`Fib::explain`].
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

/// What lookups touch.
#[doc(hidden)]
pub trait Table<A>: Send + Sync + Sized {
    type Writer: Writer<A, Table = Self>;
    fn lookup(&self, addr: A) -> Option<GroupId>;
    fn lookup_batch(&self, addrs: &[A], answers: &mut [Option<GroupId>]);
}

/// Keeps what lookups touch as the routes say.
#[doc(hidden)]
pub trait Writer<A>: Sized {
    type Table;
    fn new(lookup_bytes: usize) -> Result<(Self::Table, Self), Refused>;
    /// Makes sure that there will be memory for a new route.
    fn reserve(
        &mut self,
        table: &Self::Table,
        periods: &Periods,
        way: &Way<A>,
    ) -> Result<(), Refused>;
    /// Makes sure that there will be memory for a route to change or go.
    fn reserve_change(&mut self, table: &Self::Table, periods: &Periods) -> Result<(), Refused>;
    /// Follows a route that is in the RIB now, where it may have had another group.
    fn inserted(
        &mut self,
        table: &Self::Table,
        rib: &mut Rib<A>,
        periods: &Periods,
        way: Way<A>,
        old: Option<GroupId>,
    );
    /// Follows a route that was in the RIB, with that group; prunes the RIB.
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
}

impl<A: Address> Fib<A> {
    /// A table without routes.
    ///
    /// # Errors
    /// [`Refused::TooSmall`], [`Refused::OutOfMemory`].
    pub fn new(limits: Limits) -> Result<Fib<A>, Refused> {
        let (table, writer) = <A::Table as Table<A>>::Writer::new(limits.lookup_bytes)?;
        let shared = Arc::new(Shared { table, periods: Periods::new() });
        Ok(Fib { rib: Rib::new(), writer, shared, limits })
    }

    /// A table with these routes; of equal prefixes the last holds. Sorted routes build fastest.
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

    /// Puts a route in, or gives it another group; returns the group it had.
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
        let Shared { table, periods } = &*self.shared;
        match known {
            None => self.writer.reserve(table, periods, &way)?,
            Some(_) => self.writer.reserve_change(table, periods)?,
        }
        self.rib.insert(&mut way, group);
        self.writer.inserted(table, &mut self.rib, periods, way, known);
        Ok(known)
    }

    /// Takes a route out; returns its group, or none if it was not there.
    ///
    /// # Errors
    /// [`Refused::ReaderBusy`]: nothing was changed.
    pub fn remove(&mut self, addr: A, len: u8) -> Result<Option<GroupId>, Refused> {
        if len > A::BITS {
            return Ok(None);
        }
        let way = self.rib.way(addr.network(len), len);
        let Shared { table, periods } = &*self.shared;
        self.writer.reserve_change(table, periods)?;
        let old = self.rib.remove(&way);
        if let Some(old) = old {
            self.writer.removed(table, &mut self.rib, periods, way, old);
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

    /// The present instant, to be told later from batches that began before it.
    pub fn instant(&mut self) -> Instant {
        self.shared.periods.instant()
    }

    /// True once every batch has ended that had begun by that instant: what was published before
    /// it, to be read within batches, is what every reader sees from now on.
    pub fn has_passed(&self, instant: Instant) -> bool {
        self.shared.periods.has_passed(instant)
    }

    /// Takes back the memory of retired blocks that no batch can reach any more. Updates do so
    /// themselves now and then.
    pub fn collect(&mut self) {
        let Shared { table, periods } = &*self.shared;
        self.writer.collect(table, periods);
    }

    /// What the table takes of memory.
    pub fn memory(&self) -> Memory {
        let writer = self.rib.bytes() + self.writer.bytes();
        Memory { lookup: self.writer.lookup_bytes(), writer }
    }
}

/// Looks up. Each thread has its own; a clone is a new one.
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
    /// Begins a batch: some nanoseconds, so one for many lookups. End it before sleeping.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_, A> {
        self.presence.enter(&self.shared.periods);
        Batch { presence: &self.presence, table: &self.shared.table }
    }
}

/// A short time in which a reader looks up; it ends when this is dropped.
pub struct Batch<'a, A: Address> {
    presence: &'a Presence,
    table: &'a A::Table,
}

impl<A: Address> Batch<'_, A> {
    /// The group of the longest prefix that covers an address.
    #[inline(always)]
    pub fn lookup(&self, addr: A) -> Option<GroupId> {
        self.table.lookup(addr)
    }

    /// The same for many addresses, faster than one by one. As many are looked up as there are
    /// addresses and answers.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[A], answers: &mut [Option<GroupId>]) {
        self.table.lookup_batch(addrs, answers);
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
