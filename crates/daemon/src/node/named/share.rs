//! One worker's share of the forwarder: its tables, its content store with its disks, and its
//! counters. Only the worker's own thread touches it.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use plexus_api::answer::named::Disk;
use plexus_config::NamedSettings;
use plexus_io::clock::unix_ms;
use plexus_io::disk::AlignedBuffer;
use plexus_io::process::go_before_others;
use plexus_ndn::face::{Face, FaceCounters, FaceId, Packets};
use plexus_ndn::fib::FibReader;
use plexus_ndn::forwarder::{Arrived, Config, Counters, Forwarder, Output, Store};
use plexus_ndn::management::{CacheChange, CacheInfo, Erased};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Published;
use plexus_ndn::store::memory::{MemoryLimits, MemoryStats, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_ndn::store::{ContentStats, Erasing};
use plexus_wire::ndn::{Data, Interest, Name};
use plexus_wire::{Time, add_fields};

use super::disks::Disks;
use super::{answers, random};

/// Most parts, of a thousand entries each, that a worker erases for one command.
const ERASE_PARTS: usize = 1024;

/// What a worker's share is made of.
pub(super) struct Plot {
    /// Which worker, of how many.
    pub(super) index: usize,
    pub(super) workers: usize,
    pub(super) settings: Arc<NamedSettings>,
    pub(super) hasher: NameHasher,
    pub(super) fib: FibReader,
    pub(super) published: Published,
    pub(super) started: Instant,
}

/// A worker's part of a total for all workers.
fn part(total: u64, index: usize, workers: usize) -> u64 {
    let (index, workers) = (index as u64, workers as u64);
    total / workers + u64::from(index < total % workers)
}

fn part_of_entries(total: usize, index: usize, workers: usize) -> usize {
    part(total as u64, index, workers) as usize
}

/// The share.
pub(super) struct Share {
    index: usize,
    workers: usize,
    pub(super) forwarder: Forwarder<AlignedBuffer>,
    disks: Disks,
    /// Packets that closed faces had received and sent.
    gone: (Packets, Packets),
    /// Received packets that another worker has counted, by face; and those of closed faces.
    copies: HashMap<FaceId, Packets>,
    gone_copies: Packets,
    turns: u64,
}

/// A worker's state between two of its batches.
#[derive(Clone, Default)]
pub(super) struct Report {
    /// Rounds of its loop.
    pub(super) turns: u64,
    pub(super) counters: Counters,
    pub(super) pending: usize,
    /// Packets that all faces since the start have received and sent. Each worker counts a packet
    /// that several workers got.
    pub(super) received: Packets,
    /// The part of `received` that another worker has counted; and the same for each face, if the
    /// question asked for faces.
    pub(super) copies: Packets,
    pub(super) copies_of: HashMap<FaceId, Packets>,
    pub(super) sent: Packets,
    /// The counters of each open face, if the question asked for faces.
    pub(super) faces: HashMap<FaceId, FaceCounters>,
    pub(super) cache: CacheInfo,
    pub(super) store: ContentStats,
    pub(super) memory: MemoryStats,
    pub(super) memory_bytes: u64,
    pub(super) memory_capacity_bytes: u64,
    /// Chunks that are read from disks together; chunks read ahead, and how many were used.
    pub(super) prefetch: u64,
    pub(super) ahead: (u64, u64),
    /// Its disks, as they are shown.
    pub(super) disks: Vec<Disk>,
    /// Packets sent to it by the first worker, and those dropped because their face had no room.
    pub(super) given: (u64, u64),
    /// Packets that it sent back, and those dropped because there was no room.
    pub(super) returned: (u64, u64),
}

/// Pins the calling thread to its worker's processor, if the file names one. Memory that it touches
/// first from now on belongs to that processor's NUMA node. So every worker does this before it
/// makes its tables, in the thread that will use them.
///
/// # Errors
/// In words, when there is no such processor.
pub(super) fn pin_to_processor(settings: &NamedSettings, index: usize) -> Result<(), String> {
    go_before_others();
    let Some(cpu) = settings.cpus.get(index).map(|cpu| usize::from(*cpu)) else { return Ok(()) };
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| format!("worker {index} cannot run on processor {cpu} ([named] cpus): {e}"))
}

impl Share {
    /// Makes the tables and opens the disks.
    ///
    /// # Errors
    /// In words, when a disk cannot be opened.
    pub(super) fn open(plot: Plot) -> Result<Share, String> {
        let Plot { index, workers, settings, hasher, fib, published, started } = plot;
        let (disks, logs) = Disks::open(&settings.disks, index, workers)?;
        let limits = MemoryLimits::of(part(settings.cache, index, workers));
        let memory =
            MemoryStore::new(limits, |slots, bytes| PolicyKind::S3Fifo.build(slots, bytes));
        let whole = Config::new(index as u8, hasher, random()?);
        let mine = |total| part_of_entries(total, index, workers);
        let config = Config {
            unix_ms_at_zero: unix_ms().saturating_sub(started.elapsed().as_millis() as u64),
            pit_capacity: mine(whole.pit_capacity),
            dead_nonces: mine(whole.dead_nonces),
            measurements: mine(whole.measurements),
            ..whole
        };
        let mut store = Store::new(memory, logs);
        store.set_batch(settings.prefetch);
        let forwarder = Forwarder::new(config, fib, published.load(), store);
        Ok(Share {
            index,
            workers,
            forwarder,
            disks,
            gone: Default::default(),
            copies: HashMap::new(),
            gone_copies: Packets::default(),
            turns: 0,
        })
    }

    /// Counts a packet that arrived here if it is a copy. Copies are rare. They are counted apart
    /// so that a report can count each received packet once.
    pub(super) fn count_copy(&mut self, is_copy: bool, arrived: &Arrived<'_>) {
        if !is_copy || self.forwarder.face(arrived.face).is_none() {
            return;
        }
        // Interests have one worker.
        let counted = self.copies.entry(arrived.face).or_default();
        // The same distinction that the forwarder makes.
        match arrived.headers.nack {
            Some(_) if Interest::new_checked(arrived.packet).is_ok() => counted.nacks += 1,
            None if Data::new_checked(arrived.packet).is_ok() => counted.data += 1,
            _ => counted.other += 1,
        }
    }

    /// A face was opened, or its properties have changed.
    pub(super) fn add_face(&mut self, id: FaceId, face: Face) {
        self.forwarder.add_face(id, face);
    }

    /// A face was closed.
    pub(super) fn remove_face(&mut self, id: FaceId) {
        if let Some(counted) = self.forwarder.remove_face(id) {
            self.gone.0.add(&counted.received);
            self.gone.1.add(&counted.sent);
        }
        if let Some(copies) = self.copies.remove(&id) {
            self.gone_copies.add(&copies);
        }
    }

    /// The faces among these that have answered an Interest.
    pub(super) fn answered(&self, faces: &[FaceId]) -> Vec<FaceId> {
        let counted = |id: &FaceId| self.forwarder.face_counters(*id);
        let has = |id: &FaceId| counted(id).is_some_and(FaceCounters::has_answered);
        faces.iter().copied().filter(has).collect()
    }

    /// Changes the content store; the capacity is that of all workers.
    pub(super) fn set_cache(&mut self, change: CacheChange) {
        let (index, workers) = (self.index, self.workers);
        let store = self.forwarder.store_mut();
        let (admits, serves) = (store.admits(), store.serves());
        store.enable(change.admits.unwrap_or(admits), change.serves.unwrap_or(serves));
        if let Some(capacity) = change.capacity.map(|all| part(all, index, workers)) {
            store.set_capacity(usize::try_from(capacity).unwrap_or(usize::MAX));
        }
    }

    /// Sets how many chunks are read from disks together.
    pub(super) fn set_prefetch(&mut self, chunks: u64) {
        self.forwarder.store_mut().set_batch(chunks);
    }

    /// Erases up to `count` packets under a prefix from the content store.
    pub(super) fn erase(&mut self, prefix: Name<'_>, count: u64) -> Erased {
        let unix_ms = self.forwarder.unix_ms();
        let store = self.forwarder.store_mut();
        let (mut erased, mut from) = (0, Some(Erasing::default()));
        // At most a million entries, because packets wait meanwhile.
        for _ in 0..ERASE_PARTS {
            let Some(at) = from.filter(|_| erased < count) else { break };
            let limit = usize::try_from(count - erased).unwrap_or(usize::MAX);
            let part = store.erase_under(prefix.value(), at, limit, unix_ms);
            erased += part.count as u64;
            from = part.next;
        }
        Erased { count: erased, more: from.is_some() }
    }

    /// Does what is due, and gives the disks their turn.
    pub(super) fn turn(&mut self, now: Time, out: &mut impl Output) {
        self.turns += 1;
        self.forwarder.tick(now);
        self.disks.turn(now, &mut self.forwarder, out);
    }

    /// When [`Share::turn`] will have something to do, at the earliest.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let due = [self.forwarder.next_deadline(), self.forwarder.next_late_read()];
        due.into_iter().flatten().min()
    }

    /// Its disks, to sleep on.
    pub(super) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Writes what is left, so that a restart finds it.
    pub(super) fn close(&mut self, now: Time, out: &mut impl Output) {
        self.disks.close(now, &mut self.forwarder, out);
    }

    /// Its state, with each face's counters if `with_faces`.
    pub(super) fn report(&self, with_faces: bool) -> Report {
        let store = self.forwarder.store();
        let (memory, stats) = (store.memory(), store.stats());
        let (mut received, mut sent) = self.gone;
        for (_, counted) in self.forwarder.faces() {
            received.add(&counted.received);
            sent.add(&counted.sent);
        }
        let faces = self.forwarder.faces().filter(|_| with_faces);
        let mut copies = self.gone_copies;
        self.copies.values().for_each(|of_face| copies.add(of_face));
        Report {
            turns: self.turns,
            counters: *self.forwarder.counters(),
            pending: self.forwarder.pending(),
            received,
            copies,
            copies_of: if with_faces { self.copies.clone() } else { HashMap::new() },
            sent,
            faces: faces.map(|(id, counted)| (id, *counted)).collect(),
            cache: CacheInfo {
                capacity: memory.capacity() as u64,
                entries: memory.len() as u64,
                admits: store.admits(),
                serves: store.serves(),
                hits: stats.memory_hits + stats.disk_hits,
                misses: stats.misses,
            },
            store: stats,
            memory: memory.stats(),
            memory_bytes: memory.used_bytes(),
            memory_capacity_bytes: memory.capacity_bytes(),
            prefetch: store.batch(),
            ahead: store.ahead(),
            disks: answers::disks(&self.disks, store),
            ..Report::default()
        }
    }
}

impl Report {
    /// Packets that all faces since the start have received, each counted once.
    pub(super) fn received_once(&self) -> Packets {
        self.received.without(&self.copies)
    }

    /// A face's counters, with each received packet counted once; and how many copies are among the
    /// fates of its packets.
    pub(super) fn face(&self, id: FaceId) -> Option<(FaceCounters, u64)> {
        let counted = self.faces.get(&id)?;
        let copies = self.copies_of.get(&id).copied().unwrap_or_default();
        let mut once = *counted;
        once.received = counted.received.without(&copies);
        Some((once, copies.total()))
    }

    /// The least and the greatest number of a face's packets that were dropped: a packet that one
    /// worker drops may have answered an Interest of another worker that got a copy.
    pub(super) fn dropped(counted: &FaceCounters, copies: u64) -> RangeInclusive<u64> {
        let dropped = counted.dropped();
        dropped.saturating_sub(copies)..=dropped
    }

    /// The sum of all workers. A packet in a ring is in no worker's counters.
    pub(super) fn sum(workers: &[Report]) -> Report {
        let mut sum = workers.first().cloned().unwrap_or_default();
        workers.iter().skip(1).for_each(|other| sum.add(other));
        sum
    }

    fn add(&mut self, other: &Report) {
        add_fields!(self, other; turns, pending, memory_bytes, memory_capacity_bytes);
        // Names every field, so that a new one cannot be left out of the sum.
        let Counters { unknown_face, cache_hits, cache_misses, satisfied, unsatisfied, asked } =
            other.counters;
        let sum = &mut self.counters;
        sum.unknown_face += unknown_face;
        sum.cache_hits += cache_hits;
        sum.cache_misses += cache_misses;
        sum.satisfied += satisfied;
        sum.unsatisfied += unsatisfied;
        add_fields!(sum.asked, asked;
            written, answered, nacked, expired, evicted, replaced, withdrawn);
        add_fields!(self.cache, other.cache; capacity, entries, hits, misses);
        add_fields!(self.store, other.store; memory_hits, disk_hits, misses);
        add_fields!(self.memory, other.memory; hits, misses, inserted, evicted, refused);
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.copies.add(&other.copies);
        for (id, copies) in &other.copies_of {
            self.copies_of.entry(*id).or_default().add(copies);
        }
        for (id, counted) in &other.faces {
            self.faces.entry(*id).or_default().add(counted);
        }
        self.ahead.0 += other.ahead.0;
        self.ahead.1 += other.ahead.1;
        self.disks.extend(other.disks.iter().cloned());
    }
}
