//! A forwarder whose disk has a whole catalogue, and flows that ask it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plexus_daemon::cache_disk::{self, BUFFERS};
use plexus_io::disk::{AlignedBuffer, Completion, Disk};
use plexus_ndn::face::{Face, FaceId};
use plexus_ndn::fib::{Fib, NameLimits};
use plexus_ndn::forwarder::{Arrived, Config, Forwarder, Output, Store};
use plexus_ndn::names::{NameHasher, NameHashes};
use plexus_ndn::plan::Plan;
use plexus_ndn::store::log::{Health, LogLimits, Part};
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_ndn::store::{self, ContentStats, Query};
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signed};
use plexus_wire::ndn::{Data, NameBuf, data, interest, types};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) const SEED: u64 = 1;
/// Bytes of content of a chunk.
pub(super) const CONTENT: usize = 8000;
const CHUNKS: u64 = 1250;
/// Who asks, each with a face of its own.
pub(super) const FLOWS: usize = 64;
const EXPONENT: f64 = 0.8;
/// Reads under way.
pub(super) const READS: usize = 256;
const SEGMENT: u32 = 1 << 20;
/// The second cache is so many times the first.
const RATIO: u64 = 10;
/// Nothing is under way for longer.
const PATIENCE_S: i64 = 10;
/// Any instant will do: nothing here grows stale.
const UNIX_MS: u64 = 1_700_000_000_000;

/// What came of asking for a while.
pub(super) struct Outcome {
    pub(super) seconds: f64,
    /// Data that flows got.
    pub(super) data: u64,
    pub(super) counted: ContentStats,
    /// Reads that the disk was asked for, those that nobody had asked for, and how many of these
    /// somebody asked for later.
    pub(super) reads: u64,
    pub(super) ahead: u64,
    pub(super) used: u64,
    /// Median, 99th percentile and mean.
    pub(super) latency_us: [f64; 3],
}

/// What went out: who got Data, and whether it was what it asked for.
#[derive(Default)]
struct Sink {
    buffer: Vec<u8>,
    answered: Vec<usize>,
    /// What each flow asks for.
    wanted: Vec<(u64, u64)>,
    /// Data that nobody asked for, or with another content.
    wrong: u64,
    /// Interests and Nacks: what the disk did not have.
    refused: u64,
}

impl Output for Sink {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        self.buffer.clear();
        packet.for_each(|piece| self.buffer.extend_from_slice(piece));
        let flow = face.place().filter(|flow| *flow < self.wanted.len());
        match (flow, headers.nack, Data::new_checked(&self.buffer)) {
            (Some(flow), None, Ok(data)) => {
                let (item, chunk) = self.wanted[flow];
                let content = data.content();
                let is_right = content.len() == CONTENT && content[..16] == mark(item, chunk);
                self.wrong += u64::from(!is_right);
                self.answered.push(flow);
            }
            _ => self.refused += 1,
        }
    }
}

/// The first bytes of a chunk's content.
fn mark(item: u64, chunk: u64) -> [u8; 16] {
    (u128::from(item) << 64 | u128::from(chunk)).to_be_bytes()
}

fn name(item: u64, chunk: u64) -> NameBuf {
    NameBuf::new().with("bench").with(item.to_string()).with_number(types::SEGMENT, chunk)
}

pub(super) struct Rig {
    forwarder: Forwarder<AlignedBuffer>,
    disk: Disk,
    sink: Sink,
    zipf: Zipf<f64>,
    random: Pcg64,
    started: Instant,
}

impl Rig {
    /// Makes a store on a new file, which then has all chunks of so many items; memory has room
    /// for a tenth of them.
    pub(super) fn fill(path: &Path, items: u64) -> Result<Rig, String> {
        let objects = items * CHUNKS;
        // A record takes 8 KiB, and a segment's head a 32nd of it. There is room to write all that
        // memory holds once more: nothing is overwritten.
        let per_segment = u64::from(SEGMENT / 32 * 31) / 8192;
        let room = objects + 3 * objects / RATIO;
        let limits = LogLimits {
            bytes: 4096 + (room.div_ceil(per_segment) + 4) * u64::from(SEGMENT),
            segment_bytes: SEGMENT,
            objects: objects as usize * 2,
            packet_bytes: 8800,
            reads: READS,
            waiters: READS,
            block_bytes: 4096,
        };
        let (disk, log) = cache_disk::open(path, limits, Part::WHOLE, 0x5EED)?;
        let bytes = objects * 8192 / RATIO;
        let entries = (objects / RATIO) as usize;
        let memory = MemoryStore::new(MemoryLimits { bytes, entries }, |n, bytes| {
            PolicyKind::S3Fifo.build(n, bytes)
        });
        let hasher = NameHasher::new([0x5EED, 0xFEED]);
        let names = NameLimits { prefixes: 16, record_bytes: 4096 };
        let fib = Fib::new(hasher, names).map_err(|e| e.to_string())?;
        let plan = Plan::new(&hasher, &[], vec![]).map_err(|e| e.to_string())?;
        let config = Config {
            pit_capacity: 4096,
            dead_nonces: 1 << 16,
            measurements: 1 << 10,
            unix_ms_at_zero: UNIX_MS,
            ..Config::new(0, hasher, SEED)
        };
        let store = Store::new(memory, vec![log]);
        let mut forwarder = Forwarder::new(config, fib.reader(), Arc::new(plan), store);
        for flow in 0..FLOWS {
            let id = FaceId::new(flow as u32, 0).ok_or("no such face")?;
            forwarder.add_face(id, Face::NEIGHBOUR);
        }
        let zipf = Zipf::new(items as f64, EXPONENT).map_err(|e| e.to_string())?;
        let random = Pcg64::seed_from_u64(SEED);
        let (sink, started) = (Sink::default(), Instant::now());
        let mut rig = Rig { forwarder, disk, sink, zipf, random, started };
        rig.settle()?;
        rig.insert(&hasher, items)?;
        let log = &rig.forwarder.store().disks()[0];
        let (health, held) = (log.health(), log.stats().objects);
        if health != Health::Good || held + objects / RATIO < objects {
            return Err(format!("{}: {health:?}, {held} of {objects} chunks", path.display()));
        }
        Ok(rig)
    }

    /// Puts all chunks into the store, each asked for once, so that it goes to the disk when it
    /// leaves memory; the first of them twice, so that the last leave it.
    fn insert(&mut self, hasher: &NameHasher, items: u64) -> Result<(), String> {
        let signer = Signed { info: SignatureInfo::new(SignatureType(200)), value: &[] };
        let (mut content, mut packet) = (vec![0xA5; CONTENT], vec![0; 9000]);
        let mut hashes = NameHashes::default();
        let again = items.div_ceil(RATIO) + 1;
        for item in (1..=items).chain(1..=again.min(items)) {
            for chunk in 0..CHUNKS {
                let name = name(item, chunk);
                content[..16].copy_from_slice(&mark(item, chunk));
                let repr = data::Repr { name: name.as_name(), meta: None, content: Some(&content) };
                let len = repr.emit(&signer, &mut packet).map_err(|e| e.to_string())?;
                let data = Data::new_checked(&packet[..len]).map_err(|e| e.to_string())?;
                let hashed = hasher.hash(data.name(), &mut hashes).ok_or("a name is too long")?;
                let query = Query {
                    name: hashed.bytes(),
                    hash: hashed.hash(),
                    can_be_prefix: false,
                    must_be_fresh: false,
                };
                let data = store::Data::of(&data, hashed.hash(), hashed.proper());
                let data = data.ok_or("a name is not in its packet")?;
                let store = self.forwarder.store_mut();
                store.insert(&data, u64::from(u32::MAX), UNIX_MS);
                store.lookup(&query, 0, UNIX_MS);
                while self.forwarder.store().disks()[0].under_way() >= BUFFERS - 1 {
                    self.turn(true)?;
                }
            }
        }
        self.forwarder.store_mut().flush(UNIX_MS);
        self.settle()
    }

    /// The engine and whether the page cache is passed by.
    pub(super) fn engine(&self) -> String {
        cache_disk::engine(&self.disk)
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Until nothing is under way.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            self.turn(false)?;
            if self.forwarder.store().disks()[0].under_way() == 0 {
                return Ok(());
            }
            self.turn(true)?;
        }
    }

    /// Gives the disk what the forwarder asks for, and the forwarder what the disk brings; waits
    /// for it if nothing is there.
    fn turn(&mut self, waits: bool) -> Result<(), String> {
        while let Some((_, request)) = self.forwarder.poll_request() {
            if cache_disk::request(&mut self.disk, request).is_err() {
                return Err("the disk was opened for fewer requests than the log".into());
            }
        }
        self.disk.submit().map_err(|e| format!("submitting: {e}"))?;
        if self.complete() == 0 && waits {
            let limit = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::new(&self.disk.fd(), PollFlags::IN)], Some(&limit))
                .map_err(|e| format!("waiting for the disk: {e}"))?;
            if ready == 0 {
                return Err(format!("the disk does not answer for {PATIENCE_S} s"));
            }
            self.complete();
        }
        Ok(())
    }

    fn complete(&mut self) -> usize {
        let now = self.now();
        let Rig { forwarder, disk, sink, .. } = self;
        disk.complete(|over| match over {
            Completion::Written { token, result } => forwarder.on_written(0, token, result),
            Completion::Read { token, result } => forwarder.on_read(now, 0, token, result, sink),
        })
    }

    /// Lets all flows ask for so long, so many Interests at a time; the same of the same seed.
    pub(super) fn run(
        &mut self,
        batch: usize,
        prefetch: bool,
        time: Duration,
        seed: u64,
    ) -> Result<Outcome, String> {
        self.settle()?;
        self.random = Pcg64::seed_from_u64(seed);
        let chunks = if prefetch { batch as u64 } else { 1 };
        self.forwarder.store_mut().set_batch(chunks);
        let before = (self.forwarder.store().stats(), self.forwarder.store().disks()[0].stats());
        let ahead_before = self.forwarder.store().ahead();
        // Each begins anywhere in an item, as if it had been at it for a while.
        self.sink.wanted =
            (0..FLOWS).map(|_| (self.draw(), self.random.random_range(0..CHUNKS))).collect();
        self.sink.answered.clear();
        let mut latency = Histogram::<u64>::new(3).map_err(|e| e.to_string())?;
        let start = Instant::now();
        let mut since = [start; FLOWS];
        let mut idle: Vec<usize> = (0..FLOWS).collect();
        let mut data = 0;
        loop {
            let is_over = start.elapsed() >= time;
            if is_over && idle.len() == FLOWS {
                break;
            }
            let asks = idle.len() >= batch && !is_over;
            if asks {
                let asking: Vec<usize> = idle.drain(..batch).collect();
                self.ask(&asking)?;
            }
            self.turn(!asks && self.sink.answered.is_empty())?;
            let now = Instant::now();
            let answered = std::mem::take(&mut self.sink.answered);
            for flow in answered {
                let taken = now.duration_since(since[flow]).as_nanos() as u64;
                latency.record(taken).map_err(|e| e.to_string())?;
                since[flow] = now;
                data += 1;
                let (item, chunk) = self.sink.wanted[flow];
                self.sink.wanted[flow] = match chunk + 1 < CHUNKS {
                    true => (item, chunk + 1),
                    false => (self.draw(), 0),
                };
                idle.push(flow);
            }
            if self.sink.wrong + self.sink.refused > 0 {
                let Sink { wrong, refused, .. } = self.sink;
                return Err(format!("{wrong} Data were wrong, {refused} packets went elsewhere"));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        self.settle()?;
        let log = self.forwarder.store().disks()[0].stats();
        let (ahead, used) = self.forwarder.store().ahead();
        let quantile = |q| latency.value_at_quantile(q) as f64 / 1e3;
        Ok(Outcome {
            seconds,
            data,
            counted: self.forwarder.store().stats().since(&before.0),
            reads: log.reads - before.1.reads,
            ahead: ahead - ahead_before.0,
            used: used - ahead_before.1,
            latency_us: [quantile(0.5), quantile(0.99), latency.mean() / 1e3],
        })
    }

    fn draw(&mut self) -> u64 {
        self.zipf.sample(&mut self.random) as u64
    }

    /// Hands in a batch of Interests, one of each of these flows.
    fn ask(&mut self, flows: &[usize]) -> Result<(), String> {
        let mut packets = Vec::with_capacity(flows.len());
        for &flow in flows {
            let (item, chunk) = self.sink.wanted[flow];
            let name = name(item, chunk);
            let mut repr = interest::Repr::new(name.as_name());
            repr.nonce = Some(self.random.random());
            let packet = repr.to_bytes().map_err(|e| e.to_string())?;
            packets.push((FaceId::new(flow as u32, 0).ok_or("no such face")?, packet));
        }
        let arrived: Vec<Arrived<'_>> = packets
            .iter()
            .map(|(face, packet)| Arrived { face: *face, headers: Headers::default(), packet })
            .collect();
        let now = self.now();
        self.forwarder.receive_batch(now, &arrived, &mut self.sink);
        Ok(())
    }
}
