//! A forwarder with faces, packets by text, and a record of what it sends.

use std::sync::Arc;
use std::time::Duration;

use plexus_ndn::face::{Face, FaceId, Fate};
use plexus_ndn::fib::{Fib, FibReader, NameLimits, NextHop};
use plexus_ndn::forwarder::{Config, Forwarder, Output, Store};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Plan;
use plexus_ndn::store::ContentStore;
use plexus_ndn::store::log::SegmentLog;
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_wire::Time;
use plexus_wire::ndn::data::MetaInfo;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signed};
use plexus_wire::ndn::{Data, Interest, NameBuf, data, interest};

/// A packet that the forwarder sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) to: FaceId,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) nack: Option<NackReason>,
    pub(crate) incoming_face: Option<u64>,
    pub(crate) mark: Option<u64>,
    pub(crate) packet: Vec<u8>,
}

impl Sent {
    pub(crate) fn interest(&self) -> Interest<'_> {
        Interest::new_checked(&self.packet).unwrap()
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data::new_checked(&self.packet).unwrap()
    }

    pub(crate) fn is_data(&self) -> bool {
        self.packet[0] == 6
    }

    pub(crate) fn headers(&self) -> Headers<'_> {
        Headers { pit_token: self.token.as_deref(), nack: self.nack, ..Headers::default() }
    }
}

#[derive(Default)]
pub(crate) struct Log(pub Vec<Sent>);

impl Output for Log {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        self.0.push(Sent {
            to: face,
            token: headers.pit_token.map(Into::into),
            nack: headers.nack,
            incoming_face: headers.incoming_face,
            mark: headers.congestion_mark,
            packet: packet.flatten().copied().collect(),
        });
    }
}

pub(crate) fn face(place: u32) -> FaceId {
    FaceId::new(place, 0).unwrap()
}

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

pub(crate) fn hasher() -> NameHasher {
    NameHasher::new([11, 12])
}

/// An Interest with a nonce, changed as the test needs.
pub(crate) fn interest_with(
    text: &str,
    nonce: u32,
    change: impl FnOnce(&mut interest::Repr<'_>),
) -> Vec<u8> {
    let name = name(text);
    let mut repr = interest::Repr::new(name.as_name());
    repr.nonce = Some(nonce.to_be_bytes());
    change(&mut repr);
    repr.to_bytes().unwrap()
}

pub(crate) fn interest(text: &str, nonce: u32) -> Vec<u8> {
    interest_with(text, nonce, |_| {})
}

pub(crate) fn data_fresh(text: &str, content: &[u8], freshness_ms: u64) -> Vec<u8> {
    let name = name(text);
    let meta = MetaInfo { freshness_ms: Some(freshness_ms), ..MetaInfo::default() };
    let repr = data::Repr { name: name.as_name(), meta: Some(meta), content: Some(content) };
    let signer = Signed { info: SignatureInfo::new(SignatureType(0)), value: &[0; 32] };
    repr.to_bytes(&signer).unwrap()
}

pub(crate) fn data(text: &str) -> Vec<u8> {
    data_fresh(text, b"content", 10_000)
}

/// A route: prefix, face's slot, cost.
pub(crate) type Route<'a> = (&'a str, u32, u64);

/// The FIB and plan.
pub(crate) struct Ways {
    pub(crate) fib: FibReader,
    pub(crate) plan: Arc<Plan>,
}

pub(crate) fn plan(routes: &[Route<'_>], strategies: &[(&str, &str)], regions: &[&str]) -> Ways {
    let limits = NameLimits { prefixes: 64, record_bytes: 1 << 16 };
    let mut fib = Fib::new(hasher(), limits).unwrap();
    let mut prefixes: Vec<_> = routes.iter().map(|r| r.0).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    for prefix in prefixes {
        let hops: Vec<_> = routes.iter().filter(|r| r.0 == prefix).collect();
        let hops: Vec<_> = hops.iter().map(|r| NextHop { face: face(r.1), cost: r.2 }).collect();
        fib.set(name(prefix).as_name(), &hops).unwrap();
    }
    let head = "/localhost/nfd/strategy";
    let choices: Vec<_> =
        strategies.iter().map(|(p, s)| (name(p), name(&format!("{head}/{s}")))).collect();
    let regions = regions.iter().map(|r| name(r)).collect();
    let plan = Arc::new(Plan::new(&hasher(), &choices, regions).unwrap());
    Ways { fib: fib.reader(), plan }
}

/// A content store with a capacity of this many packets in memory.
pub(crate) fn store(entries: usize, disks: Vec<SegmentLog<Vec<u8>>>) -> Store<Vec<u8>> {
    let limits = MemoryLimits { bytes: 1 << 20, entries };
    let build = |slots, bytes| PolicyKind::Lru.build(slots, bytes);
    ContentStore::new(MemoryStore::new(limits, build), disks)
}

pub(crate) struct Rig {
    pub(crate) forwarder: Forwarder<Vec<u8>>,
    pub(crate) now: Time,
    faces: u32,
}

impl Rig {
    pub(crate) fn new(faces: &[Face], routes: &[Route<'_>]) -> Rig {
        Rig::with(faces, plan(routes, &[], &[]), |_| {})
    }

    pub(crate) fn with(faces: &[Face], ways: Ways, change: impl FnOnce(&mut Config)) -> Rig {
        Rig::with_store(faces, ways, store(1 << 12, vec![]), change)
    }

    pub(crate) fn with_store(
        faces: &[Face],
        ways: Ways,
        store: Store<Vec<u8>>,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        let mut config = Config::new(0, hasher(), 1);
        (config.pit_capacity, config.dead_nonces, config.measurements) = (64, 1024, 64);
        change(&mut config);
        let mut forwarder = Forwarder::new(config, ways.fib, ways.plan, store);
        for (place, kind) in faces.iter().enumerate() {
            forwarder.add_face(face(place as u32), *kind);
        }
        Rig { forwarder, now: Time::from_secs(1), faces: faces.len() as u32 }
    }

    /// Receives a packet with headers; returns what was sent for it.
    pub(crate) fn receive_with(
        &mut self,
        from: u32,
        headers: &Headers<'_>,
        packet: &[u8],
    ) -> Vec<Sent> {
        self.receive_by(face(from), headers, packet)
    }

    /// The same, from a face that may be another one's successor.
    pub(crate) fn receive_by(
        &mut self,
        from: FaceId,
        headers: &Headers<'_>,
        packet: &[u8],
    ) -> Vec<Sent> {
        let mut log = Log::default();
        self.forwarder.receive(self.now, from, headers, packet, &mut log);
        self.check();
        log.0
    }

    pub(crate) fn receive(&mut self, from: u32, packet: &[u8]) -> Vec<Sent> {
        self.receive_with(from, &Headers::default(), packet)
    }

    /// Lets time pass.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.forwarder.tick(self.now);
        self.check();
    }

    pub(crate) fn fate(&self, at: u32, fate: Fate) -> u64 {
        self.forwarder.face_counters(face(at)).unwrap().fate(fate)
    }

    /// Asserts that every packet is accounted for.
    pub(crate) fn check(&self) {
        for place in 0..self.faces {
            if let Some(counters) = self.forwarder.face_counters(face(place)) {
                assert!(counters.adds_up(), "face {place}: {counters:?}");
            }
        }
    }
}

impl Drop for Rig {
    /// Asserts that every packet is accounted for once nothing is pending.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.wait_ms(10_000_000);
            assert_eq!(self.forwarder.pending(), 0);
            assert_eq!(self.forwarder.counters().asked.held(), 0);
        }
    }
}

/// Where packets went, in order.
pub(crate) fn to(sent: &[Sent]) -> Vec<u32> {
    sent.iter().map(|s| s.to.place().unwrap() as u32).collect()
}
