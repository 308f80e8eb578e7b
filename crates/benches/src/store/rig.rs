//! A content store on a file, filled and asked as a worker does it.

use std::path::Path;
use std::time::{Duration, Instant};

use plexus_io::disk::{AlignedBuffer, Completion, Disk};
use plexus_ndn::store::log::{Health, LogLimits, Part};
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::S3Fifo;
use plexus_ndn::store::{Answer, ContentStore, Data, Query};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::event::{PollFd, PollFlags, poll};

use plexus_daemon::cache_disk::{self, BUFFERS};

use super::super::random::splitmix;

/// Bytes of content in a packet.
pub(super) const CONTENT: usize = 8192;
/// Bytes before the content: a head, and a name of one component of eight bytes.
const NAME_AT: usize = 8;
const NAME: usize = 10;
const PACKET: usize = NAME_AT + NAME + CONTENT;
/// Bytes that a record of such a packet takes on the disk.
pub(super) const RECORD: usize = (48 + PACKET).next_multiple_of(512);
const SEGMENT: u32 = 1 << 20;
/// Any instant will do: nothing here grows stale.
const NOW_MS: u64 = 1_700_000_000_000;

/// A store in use.
pub(super) struct Rig {
    store: ContentStore<S3Fifo, AlignedBuffer>,
    disk: Disk,
    depth: usize,
    /// Packets have the names 0 to this.
    objects: u64,
}

/// What came of asking for a while.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) memory_hits: u64,
    pub(super) disk_hits: u64,
    /// Reads for them: who asks for what is being read joins in.
    pub(super) reads: u64,
    pub(super) misses: u64,
}

fn name(key: u64) -> [u8; NAME] {
    let mut name = [8; NAME];
    name[2..].copy_from_slice(&key.to_be_bytes());
    name
}

/// In the place of the forwarder's hash of a name.
fn hash(name: &[u8]) -> u64 {
    let key: [u8; 8] = name.get(2..).and_then(|k| k.try_into().ok()).unwrap_or_default();
    splitmix(u64::from_be_bytes(key))
}

/// Bytes of a file that holds so many packets.
pub(super) fn file_bytes(objects: u64) -> u64 {
    let per_segment = (SEGMENT as usize - SEGMENT as usize / 32) / RECORD;
    4096 + (objects.div_ceil(per_segment as u64) + 2).max(4) * u64::from(SEGMENT)
}

impl Rig {
    /// Makes a store on a new file and fills it with packets, of which memory holds `memory`
    /// bytes and the file all others.
    pub(super) fn fill(
        path: &Path,
        objects: u64,
        memory: u64,
        depth: usize,
    ) -> Result<Rig, String> {
        let limits = LogLimits {
            bytes: file_bytes(objects),
            segment_bytes: SEGMENT,
            objects: objects as usize,
            packet_bytes: 8800,
            reads: depth,
            waiters: depth,
            block_bytes: 4096,
        };
        let (disk, log) = cache_disk::open(path, limits, Part::WHOLE, 0x5EED)?;
        let entries = memory as usize / PACKET + 1;
        let memory = MemoryStore::new(MemoryLimits { bytes: memory, entries }, S3Fifo::new);
        let store = ContentStore::new(memory, vec![log]);
        let mut rig = Rig { store, disk, depth, objects };
        rig.settle()?;
        let mut packet = vec![0xA5; PACKET];
        for key in 0..objects {
            packet[NAME_AT..][..NAME].copy_from_slice(&name(key));
            let name = name(key);
            let at = NAME_AT..NAME_AT + NAME;
            let data = Data::new(&packet, at, hash(&name), &[]).ok_or("the name is outside")?;
            rig.store.insert(&data, u64::from(u32::MAX), NOW_MS);
            // Asked for once, so that it goes to the disk when it leaves memory.
            rig.store.lookup(&query(&name), 0, NOW_MS);
            while rig.store.disks()[0].under_way() >= BUFFERS - 1 {
                rig.turn(&mut Vec::new(), true)?;
            }
        }
        rig.store.flush(NOW_MS);
        rig.settle()?;
        if rig.store.disks()[0].health() != Health::Good {
            return Err(format!("{}: the disk failed: {:?}", path.display(), rig.stats()));
        }
        Ok(rig)
    }

    /// The engine and whether the page cache is passed by.
    pub(super) fn engine(&self) -> String {
        cache_disk::engine(&self.disk)
    }

    /// Whether the page cache is passed by.
    pub(super) fn is_direct(&self) -> bool {
        self.disk.is_direct()
    }

    pub(super) fn stats(&self) -> plexus_ndn::store::log::LogStats {
        self.store.disks()[0].stats()
    }

    /// Until nothing is under way.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            self.turn(&mut Vec::new(), false)?;
            if self.store.disks()[0].under_way() == 0 {
                return Ok(());
            }
            self.turn(&mut Vec::new(), true)?;
        }
    }

    /// Gives the disk what the store asks for, and the store what the disk brings; waits for it
    /// if nothing is there. Who got which packet's name goes to `answered`.
    fn turn(&mut self, answered: &mut Vec<(u64, bool)>, waits: bool) -> Result<(), String> {
        let (store, disk) = (&mut self.store, &mut self.disk);
        while let Some((_, request)) = store.poll_request() {
            if cache_disk::request(disk, request).is_err() {
                return Err("the disk was opened for fewer requests than the log".into());
            }
        }
        disk.submit().map_err(|e| format!("submitting: {e}"))?;
        if complete(store, disk, answered) == 0 && waits {
            poll(&mut [PollFd::new(&disk.fd(), PollFlags::IN)], None)
                .map_err(|e| format!("waiting for the disk: {e}"))?;
            complete(store, disk, answered);
        }
        Ok(())
    }

    /// Asks for packets at random for so long, as many at a time as the disk's depth.
    pub(super) fn ask(&mut self, time: Duration, seed: u64) -> Result<Outcome, String> {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut outcome = Outcome::default();
        let mut answered = Vec::with_capacity(self.depth);
        let mut under_way = 0;
        let reads_before = self.stats().reads;
        let start = Instant::now();
        while start.elapsed() < time || outcome.disk_hits == 0 {
            while under_way < self.depth {
                let key = random.random_range(0..self.objects);
                match self.store.lookup(&query(&name(key)), key, NOW_MS) {
                    Answer::Hit(_) => outcome.memory_hits += 1,
                    Answer::Reading => under_way += 1,
                    Answer::Miss => outcome.misses += 1,
                }
            }
            self.turn(&mut answered, true)?;
            under_way -= answered.len();
            for (key, is_right) in answered.drain(..) {
                if !is_right {
                    return Err(format!("packet {key} came back wrong, or not"));
                }
                outcome.disk_hits += 1;
            }
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        self.settle()?;
        outcome.reads = self.stats().reads - reads_before;
        Ok(outcome)
    }
}

fn query(name: &[u8; NAME]) -> Query<'_> {
    Query { name, hash: hash(name), can_be_prefix: false, must_be_fresh: false }
}

fn complete(
    store: &mut ContentStore<S3Fifo, AlignedBuffer>,
    disk: &mut Disk,
    answered: &mut Vec<(u64, bool)>,
) -> usize {
    disk.complete(|completion| match completion {
        Completion::Written { token, result } => store.on_written(0, token, result),
        Completion::Read { token, result } => {
            let found = store.on_read(0, token, result, NOW_MS, |waiter, found| {
                let wanted = |f: &plexus_ndn::store::log::Found<'_>| {
                    let named = f.packet.pieces().next().and_then(|p| p.get(f.packet.name_at()));
                    named == Some(&name(waiter)[..]) && f.packet.len() == PACKET
                };
                answered.push((waiter, found.is_some_and(wanted)));
            });
            let Some(found) = found else { return };
            let at = found.packet.name_at();
            let Some(bytes) = found.packet.pieces().next() else { return };
            let hash = hash(&bytes[at.clone()]);
            if let Some(data) = Data::new(bytes, at, hash, &[]) {
                store.promote(&data, found.stale_at_ms, found.is_ahead, NOW_MS);
            }
        }
    })
}
