//! Both tiers of the content store together.

use plexus_wire::ndn::{Name, types};
use xxhash_rust::xxh3::xxh3_64;

use super::log::{Found, Lookup, Request, SegmentLog};
use super::memory::{Evicted, MemoryStore};
use super::policy::Policy;
use super::{Buffer, Data, Packet, Query};

/// Memory entries that one call of an erasure examines.
const ERASE_LOOKS: usize = 1024;

/// Result of a lookup.
pub enum Answer<'a> {
    /// Found.
    Hit(Packet<'a>),
    /// A disk read was started; the waiter will be told.
    Reading,
    /// In neither tier.
    Miss,
}

/// Lookups of a worker's store, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentStats {
    /// Found in memory, including buffers being written to a disk.
    pub memory_hits: u64,
    /// Found on a disk.
    pub disk_hits: u64,
    /// Not found.
    pub misses: u64,
}

impl ContentStats {
    /// All lookups.
    pub fn total(&self) -> u64 {
        self.memory_hits + self.disk_hits + self.misses
    }

    /// Those since an earlier count.
    #[must_use]
    pub fn since(&self, before: &ContentStats) -> ContentStats {
        ContentStats {
            memory_hits: self.memory_hits - before.memory_hits,
            disk_hits: self.disk_hits - before.disk_hits,
            misses: self.misses - before.misses,
        }
    }
}

/// Where an erasure by prefix continues; the default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erasing(usize);

/// Result of one step of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// Packets erased from memory.
    pub count: usize,
    /// Where to continue; `None` when there are no more.
    pub next: Option<Erasing>,
}

/// Data packets in memory and on disks; one worker's own.
pub struct ContentStore<P, B> {
    memory: MemoryStore<P>,
    disks: Vec<SegmentLog<B>>,
    /// The disk whose request comes next.
    turn: usize,
    /// A name in one piece.
    name: Vec<u8>,
    admits: bool,
    serves: bool,
    /// Chunks that are read together.
    batch: u64,
    stats: ContentStats,
}

/// The disk for a name. The function has no key, because the result has to be the same after a
/// restart. A producer that chooses names accordingly can fill one disk first, which evicts only
/// its own.
fn disk_of(name: &[u8], disks: usize) -> usize {
    if disks < 2 { 0 } else { (xxh3_64(name) % disks as u64) as usize }
}

/// Passes a packet evicted from memory to a disk if it is worth it. `name` is a buffer for its
/// name.
fn hand_down<B: Buffer>(
    disks: &mut [SegmentLog<B>],
    name: &mut Vec<u8>,
    evicted: &Evicted<'_>,
    now_ms: u64,
) {
    if !evicted.is_worthy || disks.is_empty() {
        return;
    }
    let at = evicted.packet.name_at();
    name.clear();
    let mut passed = 0;
    for piece in evicted.packet.pieces() {
        let from = at.start.saturating_sub(passed).min(piece.len());
        let to = at.end.saturating_sub(passed).min(piece.len());
        name.extend_from_slice(&piece[from..to]);
        passed += piece.len();
        if passed >= at.end {
            break;
        }
    }
    let disk = disk_of(name, disks.len());
    let (stale, was_there) = (evicted.stale_at_ms, evicted.was_on_disk);
    disks[disk].insert(name, &evicted.packet, stale, was_there, now_ms);
}

impl<P: Policy, B: Buffer> ContentStore<P, B> {
    /// A store with one memory tier and any number of disks, whose order must not change.
    pub fn new(memory: MemoryStore<P>, disks: Vec<SegmentLog<B>>) -> ContentStore<P, B> {
        let name = Vec::with_capacity(super::memory::PACKET_MAX);
        let stats = ContentStats::default();
        ContentStore { memory, disks, turn: 0, name, admits: true, serves: true, batch: 1, stats }
    }

    /// The memory tier.
    pub fn memory(&self) -> &MemoryStore<P> {
        &self.memory
    }

    /// The disk tier.
    pub fn disks(&self) -> &[SegmentLog<B>] {
        &self.disks
    }

    /// Packets that were read from the disks ahead ([`ContentStore::set_batch`]), and how many of
    /// them an Interest asked for later.
    pub fn ahead(&self) -> (u64, u64) {
        let disks = self.disks.iter().map(SegmentLog::stats);
        let (read, joined) = disks
            .fold((0, 0), |(read, joined), disk| (read + disk.ahead, joined + disk.ahead_joined));
        (read, joined + self.memory.stats().ahead_hits)
    }

    /// Statistics so far.
    pub fn stats(&self) -> ContentStats {
        self.stats
    }

    /// Whether it accepts Data.
    pub fn admits(&self) -> bool {
        self.admits
    }

    /// Whether it answers Interests.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// Sets whether it accepts Data from the network, and whether it answers; its contents stay.
    pub fn enable(&mut self, admits: bool, serves: bool) {
        (self.admits, self.serves) = (admits, serves);
    }

    /// Sets how many chunks form a batch that is read together ([`ContentStore::read_batch`]); 0 or
    /// 1, the default: each alone.
    pub fn set_batch(&mut self, chunks: u64) {
        self.batch = chunks.max(1);
    }

    /// How many chunks form a batch; 1: each is read alone.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Sets how many packets memory may hold ([`MemoryStore::set_capacity`]); returns the new
    /// value.
    pub fn set_capacity(&mut self, entries: usize) -> usize {
        self.memory.set_capacity(entries)
    }

    /// Evicts some of the packets that exceed the last [`ContentStore::set_capacity`]; true if more
    /// remain.
    #[inline]
    pub fn trim(&mut self, now_ms: u64) -> bool {
        if self.memory.is_over() {
            let (disks, name) = (&mut self.disks, &mut self.name);
            self.memory.trim(|evicted| hand_down(disks, name, &evicted, now_ms));
        }
        self.memory.is_over()
    }

    /// Prefetches the memory where the search for this hash begins. Done for all packets of a batch
    /// before the first lookup.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.memory.prefetch(hash);
    }

    /// Prefetches the memory that inserting a packet with this hash changes.
    #[inline(always)]
    pub fn prefetch_insert(&self, hash: u64) {
        self.memory.prefetch_insert(hash);
    }

    /// Once that has arrived, prefetches what the search is likely to find in memory; false if that
    /// is nothing.
    #[inline(always)]
    pub fn prefetch_found(&self, hash: u64) -> bool {
        self.memory.prefetch_found(hash)
    }

    /// Looks up a query: by prefix in memory only, by name in both tiers. If a disk read is needed,
    /// [`ContentStore::on_read`] returns `waiter`.
    pub fn lookup(&mut self, query: &Query<'_>, waiter: u64, now_ms: u64) -> Answer<'_> {
        if !self.serves {
            self.stats.misses += 1;
            return Answer::Miss;
        }
        if let Some(packet) = self.memory.get(query, now_ms) {
            self.stats.memory_hits += 1;
            return Answer::Hit(packet);
        }
        let disk = disk_of(query.name, self.disks.len());
        let Some(disk) = self.disks.get_mut(disk) else {
            self.stats.misses += 1;
            return Answer::Miss;
        };
        match disk.lookup(query.name, query.must_be_fresh, waiter, now_ms) {
            Lookup::Found(found) => {
                self.stats.memory_hits += 1;
                Answer::Hit(found.packet)
            }
            Lookup::Reading => Answer::Reading,
            Lookup::Miss => {
                self.stats.misses += 1;
                Answer::Miss
            }
        }
    }

    /// After [`Answer::Reading`] for a name that ends with a segment number: reads the other chunks
    /// of its batch that are not in memory, so that following Interests find them there (seed
    /// augustus, "Main design challenges": a batch is chunk ÷ batch size). `hash` is the function
    /// of [`Query::hash`]. The packets read come out of [`ContentStore::on_read`].
    pub fn read_batch(&mut self, name: Name<'_>, mut hash: impl FnMut(Name<'_>) -> Option<u64>) {
        if self.batch < 2 {
            return;
        }
        let Some(chunk) = name.last().and_then(|c| c.number(types::SEGMENT)) else { return };
        let first = chunk / self.batch * self.batch;
        let parent = name.len() - 1;
        let mut other = name.prefix(parent).to_buf();
        for number in (first..first.saturating_add(self.batch)).filter(|n| *n != chunk) {
            other.truncate(parent);
            other = other.with_number(types::SEGMENT, number);
            let (name, disks) = (other.as_name(), self.disks.len());
            let in_memory = hash(name).is_none_or(|h| self.memory.contains(h, name.value()));
            if !in_memory && let Some(disk) = self.disks.get_mut(disk_of(name.value(), disks)) {
                disk.read_ahead(name.value());
            }
        }
    }

    /// Notes that an Interest waits for Data under the prefix with this hash.
    pub fn ask_prefix(&mut self, hash: u64) {
        self.memory.ask_prefix(hash);
    }

    /// Inserts Data from the network, which is fresh for this long (FreshnessPeriod of NDN packet
    /// format 0.3, "Data Packet"; 0 if it has none).
    pub fn insert(&mut self, data: &Data<'_>, freshness_ms: u64, now_ms: u64) {
        if self.admits {
            self.put(data, now_ms.saturating_add(freshness_ms), false, now_ms);
        }
    }

    /// Inserts into memory a packet that [`ContentStore::on_read`] returned, with
    /// [`Found::is_ahead`].
    pub fn promote(&mut self, data: &Data<'_>, stale_at_ms: u64, is_ahead: bool, now_ms: u64) {
        // The network may have delivered a newer version meanwhile.
        if !self.memory.contains(data.hash, data.name()) {
            self.put(data, stale_at_ms, true, now_ms);
            if is_ahead {
                self.memory.note_ahead(data.hash, data.name());
            }
        }
    }

    fn put(&mut self, data: &Data<'_>, stale_at_ms: u64, from_disk: bool, now_ms: u64) {
        let (disks, name) = (&mut self.disks, &mut self.name);
        self.memory.insert(data, stale_at_ms, from_disk, |evicted| {
            hand_down(disks, name, &evicted, now_ms);
        });
    }

    /// The next request to a disk, and which disk.
    pub fn poll_request(&mut self) -> Option<(usize, Request<B>)> {
        for _ in 0..self.disks.len() {
            let disk = self.turn;
            self.turn = (disk + 1) % self.disks.len();
            if let Some(request) = self.disks[disk].poll_request() {
                return Some((disk, request));
            }
        }
        None
    }

    /// A disk completed a read. Calls `answer` for each waiter. Insert the packet found into memory
    /// by [`ContentStore::promote`], which needs the hashes of its name.
    pub fn on_read<'r>(
        &mut self,
        disk: usize,
        token: u32,
        result: std::io::Result<&'r [u8]>,
        now_ms: u64,
        mut answer: impl FnMut(u64, Option<&Found<'r>>),
    ) -> Option<Found<'r>> {
        let stats = &mut self.stats;
        self.disks.get_mut(disk)?.on_read(token, result, now_ms, |waiter, found| {
            let counter = if found.is_some() { &mut stats.disk_hits } else { &mut stats.misses };
            *counter += 1;
            answer(waiter, found);
        })
    }

    /// When [`ContentStore::expire`] is due, at the earliest: Unix time, milliseconds.
    pub fn next_late_ms(&self) -> Option<u64> {
        self.disks.iter().filter_map(SegmentLog::next_late_ms).min()
    }

    /// Calls `answer` for each waiter whose disk read timed out: it is a miss
    /// ([`SegmentLog::expire`]).
    pub fn expire(&mut self, now_ms: u64, mut answer: impl FnMut(u64)) {
        let stats = &mut self.stats;
        for disk in &mut self.disks {
            disk.expire(now_ms, |waiter| {
                stats.misses += 1;
                answer(waiter);
            });
        }
    }

    /// A disk completed a write, or failed.
    pub fn on_written(&mut self, disk: usize, token: u32, result: std::io::Result<()>) {
        if let Some(disk) = self.disks.get_mut(disk) {
            disk.on_written(token, result);
        }
    }

    /// Erases the packet with exactly this name.
    pub fn erase(&mut self, hash: u64, name: &[u8]) -> bool {
        let disk = disk_of(name, self.disks.len());
        let on_disk = self.disks.get_mut(disk).is_some_and(|disk| disk.erase(name));
        self.memory.erase(hash, name) || on_disk
    }

    /// Erases packets whose names begin with a prefix, at most `limit` of those in memory, for
    /// management (NFD `cs/erase`). It works in steps so that forwarding does not wait: call it
    /// with the last returned position until there is none. The last step erases on the disks,
    /// where the number is unknown.
    pub fn erase_under(
        &mut self,
        prefix: &[u8],
        from: Erasing,
        limit: usize,
        now_ms: u64,
    ) -> Erased {
        let (count, next) = self.memory.erase_under(prefix, from.0, ERASE_LOOKS, limit);
        if next.is_none() {
            self.disks.iter_mut().for_each(|disk| disk.erase_under(prefix, now_ms));
        }
        Erased { count, next: next.map(Erasing) }
    }

    /// Writes partly filled segments to the disks: call it at shutdown, so that a restart finds
    /// more.
    pub fn flush(&mut self, now_ms: u64) {
        self.disks.iter_mut().for_each(|disk| disk.flush(now_ms));
    }
}

#[cfg(test)]
mod tests;
