//! The named-data forwarder in memory, one core: exchanges of an Interest and its Data.
//!
//! Names have four components and the FIB prefixes of one to three; Data has 100 bytes of content.
//! Each packet comes in with an 8-byte PIT token of its sender, and what goes out is copied into a
//! buffer. They come in batches as faces read them, [`BATCH`] at a time, and [`WINDOW`] Interests
//! before their Data, so that as many are pending.
//! "miss" goes through FIB, PIT and content store, which is always full and never has it; "hit" is
//! answered by the store.
//!
//! Latency is that of an exchange which is alone: from an Interest handed in until its Data has
//! come out again, both packets' time in the forwarder together, one packet at a time. The clock is
//! read in between, which is in it. Memory is that of a pending Interest whose name has up to 64
//! bytes, in a table of a million that is full.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrayvec::ArrayVec;
use plexus_ndn::face::{Face, FaceId};
use plexus_ndn::fib::{Fib, NameLimits, NextHop};
use plexus_ndn::forwarder::{Arrived, Config, Forwarder, Output};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Plan;
use plexus_ndn::store::ContentStore;
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_ndn_faces::BATCH;
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signed};
use plexus_wire::ndn::{NameBuf, data, interest};

use super::random::Random;
use super::{Row, Setting};

const PREFIXES: usize = 1_000_000;
/// Names that are asked for in turn.
const NAMES: usize = 1 << 18;
/// Packets that the store holds.
const STORED: usize = 1 << 15;
/// Bytes for them, two pieces of 256 each.
const STORED_BYTES: u64 = 512 * STORED as u64;
/// Interests that are pending.
const WINDOW: usize = 1 << 10;
/// An Interest's last element: its lifetime.
const LIFETIME_LEN: usize = 4;
const CONTENT: &[u8] = &[0xAB; 100];

pub(super) fn rows(bench: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut rig = Rig::new(setting.effort.shrink)?;
    let mut row = |kind: &str, names: Range<usize>| {
        let name = format!("{bench}-{kind}");
        let turn = || Ok((rig.rate(names.clone(), setting)?, None));
        Row::measure(&name, "M exchanges/s", None, setting.effort.runs, turn)
    };
    let shrink = setting.effort.shrink;
    // Those that the store has learned to keep are not among those that it is to miss.
    let kept = STORED / 2 / shrink;
    let (hit, miss) = (0..kept, kept..NAMES / shrink);
    let mut rows = vec![row("miss", miss.clone())?, row("hit", hit.clone())?];
    for (kind, names) in [("miss", miss), ("hit", hit)] {
        let turns = (0..setting.effort.runs).map(|_| rig.latencies(names.clone()));
        let turns = turns.collect::<Result<Vec<_>, _>>()?;
        for (at, quantile) in ["p50", "p99"].into_iter().enumerate() {
            let turns = turns.iter().map(|turn| (turn[at], None)).collect();
            rows.push(Row::of_turns(&format!("{bench}-{kind}-{quantile}"), "ns", None, turns));
        }
    }
    let bytes = rig.forwarder.bytes_per_pending() as f64;
    rows.push(Row::once(&format!("{bench}-pit-entry"), "bytes", bytes));
    Ok(rows)
}

/// Packets one behind the other.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    fn push(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }
}

/// What went out: Interests, by their nonce, which is the number of the name, and their token; and
/// Data.
struct Sink {
    buffer: Vec<u8>,
    asked: Vec<(u32, [u8; 8])>,
    data: usize,
    upstream: FaceId,
}

impl Output for Sink {
    #[inline]
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        self.buffer.clear();
        packet.for_each(|piece| self.buffer.extend_from_slice(piece));
        match headers.pit_token.and_then(|token| token.try_into().ok()) {
            Some(token) if face == self.upstream => {
                let nonce = self.buffer[..self.buffer.len() - LIFETIME_LEN].last_chunk();
                let number = nonce.map_or(0, |nonce| u32::from_be_bytes(*nonce));
                self.asked.push((number, token));
            }
            _ => self.data += 1,
        }
    }
}

struct Rig {
    forwarder: Forwarder<Vec<u8>>,
    interests: Packets,
    data: Packets,
    downstream: FaceId,
    sink: Sink,
    now_ns: u64,
}

fn prefix(i: usize) -> NameBuf {
    let name = NameBuf::new().with(format!("site-{:06}", i / 3));
    (0..i % 3).fold(name, |name, level| name.with(format!("part{level}")))
}

impl Rig {
    fn new(shrink: usize) -> Result<Rig, String> {
        let face = |place| FaceId::new(place, 0).ok_or("no such face");
        let (downstream, upstream) = (face(0)?, face(1)?);
        let hasher = NameHasher::new([0x5EED, 0xFEED]);
        let prefixes = PREFIXES / shrink;
        let limits = NameLimits { prefixes, record_bytes: 64 * prefixes };
        let mut fib = Fib::new(hasher, limits).map_err(|e| e.to_string())?;
        for i in 0..prefixes {
            let hops = [NextHop { face: upstream, cost: 1 }];
            fib.set(prefix(i).as_name(), &hops).map_err(|e| e.to_string())?;
        }
        let plan = Plan::new(&hasher, &[], vec![]).map_err(|e| e.to_string())?;
        let limits = MemoryLimits { bytes: STORED_BYTES, entries: STORED / shrink };
        let memory = MemoryStore::new(limits, |n, bytes| PolicyKind::default().build(n, bytes));
        let store = ContentStore::new(memory, vec![]);
        let config = Config::new(0, hasher, 1);
        let mut forwarder = Forwarder::new(config, fib.reader(), Arc::new(plan), store);
        for id in [downstream, upstream] {
            forwarder.add_face(id, Face::NEIGHBOUR);
        }
        let (mut interests, mut packets) = (Packets::default(), Packets::default());
        let mut random = Random::AS_PEERS;
        let mut buffer = vec![0; 1 << 10];
        for i in 0..NAMES / shrink {
            let mut name =
                prefix((random.next() >> 16) as usize % prefixes).with(format!("object{i:06}"));
            while name.as_name().len() < 4 {
                name = name.with("v1");
            }
            let mut repr = interest::Repr::new(name.as_name());
            repr.nonce = Some((i as u32).to_be_bytes());
            repr.lifetime_ms = Some(1_000);
            let len = repr.buffer_len();
            repr.emit(&mut buffer[..len]).map_err(|e| e.to_string())?;
            interests.push(&buffer[..len]);
            let signer = Signed { info: SignatureInfo::new(SignatureType(0)), value: &[0; 32] };
            let repr = data::Repr { name: name.as_name(), meta: None, content: Some(CONTENT) };
            let len = repr.emit(&signer, &mut buffer).map_err(|e| e.to_string())?;
            packets.push(&buffer[..len]);
        }
        let asked = Vec::with_capacity(WINDOW);
        let sink = Sink { buffer: Vec::new(), asked, data: 0, upstream };
        Ok(Rig { forwarder, interests, data: packets, downstream, sink, now_ns: 0 })
    }

    /// Millions of exchanges per second over these names, of which the store has all or hardly any.
    fn rate(&mut self, names: Range<usize>, setting: &Setting) -> Result<f64, String> {
        self.once(names.clone()); // the store is as it will be
        let (mut asked, before) = (0, self.sink.data);
        let start = Instant::now();
        while asked == 0 || start.elapsed() < setting.effort.time {
            asked += names.len();
            self.once(names.clone());
        }
        let seconds = start.elapsed().as_secs_f64();
        match self.sink.data - before == asked {
            true => Ok(asked as f64 / seconds / 1e6),
            false => Err(format!("{asked} asked, {} answered", self.sink.data - before)),
        }
    }

    /// Median and 99th percentile of what an exchange takes, in ns.
    fn latencies(&mut self, names: Range<usize>) -> Result<[f64; 2], String> {
        self.once(names.clone());
        let Rig { forwarder, interests, data, downstream, sink, now_ns } = self;
        let token = 0x0123_4567_89AB_CDEF_u64.to_be_bytes();
        let asks = Headers { pit_token: Some(&token), ..Headers::default() };
        let mut taken = Vec::with_capacity(names.len());
        for at in names {
            *now_ns += 250;
            let (now, before) = (Time::from_nanos(*now_ns), sink.data);
            let start = Instant::now();
            forwarder.receive(now, *downstream, &asks, interests.get(at), sink);
            if let Some((_, token)) = sink.asked.pop() {
                let headers = Headers { pit_token: Some(&token), ..Headers::default() };
                forwarder.receive(now, sink.upstream, &headers, data.get(at), sink);
            }
            taken.push(start.elapsed().as_nanos() as f64);
            if sink.data != before + 1 {
                return Err(format!("name {at} was answered {} times", sink.data - before));
            }
        }
        taken.sort_by(f64::total_cmp);
        Ok([taken[taken.len() / 2], taken[taken.len() * 99 / 100]])
    }

    fn once(&mut self, names: Range<usize>) {
        let Rig { forwarder, interests, data, downstream, sink, now_ns } = self;
        let token = 0x0123_4567_89AB_CDEF_u64.to_be_bytes();
        let asks = Headers { pit_token: Some(&token), ..Headers::default() };
        for begin in names.clone().step_by(WINDOW) {
            *now_ns += 250 * WINDOW as u64;
            let now = Time::from_nanos(*now_ns);
            let window = begin..names.end.min(begin + WINDOW);
            for begin in window.clone().step_by(BATCH) {
                let mut batch = ArrayVec::<_, BATCH>::new();
                for at in begin..window.end.min(begin + BATCH) {
                    let packet = interests.get(at);
                    batch.push(Arrived { face: *downstream, headers: asks, packet });
                }
                forwarder.receive_batch(now, &batch, sink);
            }
            let asked = std::mem::take(&mut sink.asked);
            for asked in asked.chunks(BATCH) {
                let mut batch = ArrayVec::<_, BATCH>::new();
                for (number, token) in asked {
                    let headers = Headers { pit_token: Some(token), ..Headers::default() };
                    let packet = data.get(*number as usize);
                    batch.push(Arrived { face: sink.upstream, headers, packet });
                }
                forwarder.receive_batch(now, &batch, sink);
            }
            sink.asked = asked;
            sink.asked.clear();
        }
    }
}
