//! One suite that every fast table has to pass, and what only the kernel's can show.

#[path = "../common/mod.rs"]
mod net;

use std::time::{Duration, Instant};

use plexus_io::af_packet::AfPacketPort;
use plexus_io::fast::memory::{Fate, Memory};
use plexus_io::fast::tcx::{self, Tcx};
use plexus_io::fast::{Action, Counts, FabricLink, FastTable, Flow, Key, RuleId, Tag};
use plexus_io::{Batch, Checksum, Link, Offload, Pool, Port, PortId, SUPER_FRAME, Segmentation};
use plexus_wire::{MacAddr, Time};

/// Rules of a table.
const RULES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A table under test with ports 0 and 1, and the far ends of their cables.
trait Bench {
    fn table(&mut self) -> &mut dyn FastTable;
    /// What becomes of a frame that comes in by a port.
    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate;
    fn close_and_open(&mut self, port: PortId);
}

struct InMemory(Memory);

impl Bench for InMemory {
    fn table(&mut self) -> &mut dyn FastTable {
        &mut self.0
    }

    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate {
        self.0.receive(port, frame)
    }

    fn close_and_open(&mut self, port: PortId) {
        self.0.close(port);
        self.0.open_without_kernel(port);
    }
}

/// A packet socket and its frames.
struct Socket {
    port: AfPacketPort,
    pool: Pool,
}

impl Socket {
    fn on(device: &str) -> Socket {
        let mut pool = Pool::new(64, SUPER_FRAME).unwrap();
        let mut port = AfPacketPort::open(device, device, &pool).unwrap();
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up);
        Socket { port, pool }
    }

    fn send(&mut self, frame: &[u8], offload: Offload) {
        let mut packet = self.pool.alloc_from(frame).unwrap();
        packet.offload = offload;
        let mut batch = Batch::new();
        batch.push(packet);
        wait(|| self.port.transmit(Time::ZERO, &mut self.pool, &mut batch) == 1);
        assert_eq!(self.port.stats().tx_rejected, 0);
    }

    fn take(&mut self) -> Option<(Vec<u8>, Offload)> {
        let mut batch = Batch::new();
        self.port.receive(Time::ZERO, &mut self.pool, &mut batch);
        assert!(batch.len() < 2, "one frame at a time");
        let packet = batch.pop()?;
        let taken = (self.pool.data(&packet).to_vec(), packet.offload);
        self.pool.free(packet);
        Some(taken)
    }
}

struct InKernel {
    table: Tcx,
    near: Vec<Socket>,
    far: Vec<Socket>,
    rules: Vec<RuleId>,
}

impl InKernel {
    fn new() -> InKernel {
        net::veth("p0", "h0");
        net::veth("p1", "h1");
        let near = ["p0", "p1"].map(Socket::on);
        let far = ["h0", "h1"].map(Socket::on);
        let mut table = Tcx::parts(1, RULES, 2).unwrap().pop().unwrap();
        for (id, socket) in (0..).zip(&near) {
            table.open(id, socket.port.kernel_end().unwrap()).unwrap();
        }
        InKernel { table, near: near.into(), far: far.into(), rules: vec![] }
    }

    fn held(&self) -> u64 {
        self.rules.iter().map(|rule| self.table.read(*rule).held).sum()
    }
}

impl Bench for InKernel {
    fn table(&mut self) -> &mut dyn FastTable {
        &mut self.table
    }

    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate {
        self.rules = (0..RULES as u32).map(RuleId).collect();
        let held = self.held();
        self.far[usize::from(port)].send(frame, Offload::NONE);
        let began = Instant::now();
        loop {
            if let Some((bytes, _)) = self.near[usize::from(port)].take() {
                assert_eq!(bytes, frame, "as it was");
                return Fate::Passed;
            }
            for out in 0..2 {
                if let Some((bytes, _)) = self.far[out].take() {
                    return Fate::Sent(out as PortId, bytes);
                }
            }
            if self.held() > held {
                return Fate::Dropped;
            }
            assert!(began.elapsed() < PATIENCE, "the frame is lost");
            std::thread::yield_now();
        }
    }

    fn close_and_open(&mut self, port: PortId) {
        self.table.close(port);
        let end = self.near[usize::from(port)].port.kernel_end().unwrap();
        self.table.open(port, end).unwrap();
    }
}

fn wait(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain");
        std::thread::yield_now();
    }
}

fn frame(tag: Option<u16>) -> Vec<u8> {
    let mut bytes = [B.0, A.0].concat();
    if let Some(tci) = tag {
        bytes.extend([0x81, 0]);
        bytes.extend(tci.to_be_bytes());
    }
    bytes.extend([0x88, 0xB5]);
    bytes.extend((0..60).map(|n| n as u8));
    bytes
}

fn key(tag: Option<u16>) -> Key {
    Key::Flow(Flow { in_port: 0, tag, destination: B, source: A, ethertype: 0x88B5 })
}

const OUT: Action = Action { out_port: 1, tag: Tag::Keep, header: None };

/// A rule whose packets are forwarded.
fn settled(table: &mut dyn FastTable, key: &Key, action: &Action) -> RuleId {
    let id = table.insert(key, action).unwrap();
    table.settle(id, 0);
    id
}

fn suite(bench: &mut dyn Bench) {
    forwards_what_matches_and_nothing_else(bench);
    passes_packets_until_all_have_left(bench);
    holds_packets_back_when_told(bench);
    tags_are_kept_added_and_taken_off(bench);
    a_closed_port_voids_the_rules_to_it(bench);
    a_full_table_refuses(bench);
    hops_of_the_fabric_are_processed(bench);
}

fn forwards_what_matches_and_nothing_else(bench: &mut dyn Bench) {
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed, "no rule yet");
    let id = settled(bench.table(), &key(None), &OUT);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    let len = frame(None).len() as u64;
    assert_eq!(bench.table().read(id), Counts { packets: 1, bytes: len, held: 0 });
    // Each part of the key counts.
    assert_eq!(bench.pass(1, &frame(None)), Fate::Passed);
    assert_eq!(bench.pass(0, &frame(Some(7))), Fate::Passed);
    for changed in [0, 6, 12] {
        let mut other = frame(None);
        other[changed + 1] ^= 0x10;
        assert_eq!(bench.pass(0, &other), Fate::Passed, "byte {changed}");
    }
    bench.table().remove(&key(None), id);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    bench.table().forget(id);
}

fn passes_packets_until_all_have_left(bench: &mut dyn Bench) {
    let id = bench.table().insert(&key(None), &OUT).unwrap();
    for passed in 1..4 {
        assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
        assert_eq!(bench.table().passed(id), passed);
    }
    bench.table().settle(id, 2);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed, "the third has not left");
    bench.table().settle(id, 4);
    for _ in 0..3 {
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    }
    assert_eq!(bench.table().passed(id), 4);
    bench.table().remove(&key(None), id);
    bench.table().forget(id);
}

fn holds_packets_back_when_told(bench: &mut dyn Bench) {
    let id = bench.table().insert(&key(None), &OUT).unwrap();
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    bench.table().hold(id, true);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Dropped);
    bench.table().hold(id, false);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    bench.table().hold(id, true);
    bench.table().settle(id, 2);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    assert_eq!((bench.table().read(id).held, bench.table().passed(id)), (1, 2));
    bench.table().remove(&key(None), id);
    bench.table().forget(id);
}

fn tags_are_kept_added_and_taken_off(bench: &mut dyn Bench) {
    const TAG: Option<u16> = Some(5 << 13 | 7);
    for (before, tag, after) in [
        (TAG, Tag::Keep, TAG),
        (TAG, Tag::Pop, None),
        (None, Tag::Push(5 << 13 | 7), TAG),
        (Some(0), Tag::Keep, Some(0)),
    ] {
        let id = settled(bench.table(), &key(before), &Action { tag, ..OUT });
        assert_eq!(bench.pass(0, &frame(before)), Fate::Sent(1, frame(after)), "{tag:?}");
        assert_eq!(bench.table().read(id).bytes, frame(None).len() as u64, "less the tag");
        bench.table().remove(&key(before), id);
        bench.table().forget(id);
    }
}

fn a_closed_port_voids_the_rules_to_it(bench: &mut dyn Bench) {
    let id = settled(bench.table(), &key(None), &OUT);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    assert!(bench.table().is_valid(id));
    bench.close_and_open(1);
    assert!(bench.table().is_open(1) && !bench.table().is_valid(id));
    // It may lead to other stations now, and packets of this rule have passed meanwhile.
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    assert_eq!((bench.table().read(id).packets, bench.table().passed(id)), (1, 0));
    bench.table().remove(&key(None), id);
    bench.table().forget(id);
    bench.table().close(1);
    assert!(!bench.table().is_open(1));
    assert!(bench.table().insert(&key(None), &OUT).is_err(), "it is closed");
    bench.close_and_open(1);
}

fn a_full_table_refuses(bench: &mut dyn Bench) {
    let keys: Vec<Key> = (0..RULES as u16).map(|n| key(Some(n + 1))).collect();
    let ids: Vec<RuleId> =
        keys.iter().map(|key| bench.table().insert(key, &OUT).unwrap()).collect();
    let refused = bench.table().insert(&key(None), &OUT).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    keys.iter().zip(&ids).for_each(|(key, id)| bench.table().remove(key, *id));
    assert!(bench.table().insert(&key(None), &OUT).is_err(), "their numbers are still in use");
    ids.iter().for_each(|id| bench.table().forget(*id));
    let id = bench.table().insert(&key(None), &OUT).unwrap();
    bench.table().remove(&key(None), id);
    bench.table().forget(id);
}

/// A frame of the fabric behind the Ethernet header of a link.
fn in_fabric(header: [u8; 14], forward: &[u8], reverse: &[u8], kind: u8) -> Vec<u8> {
    let (f, r) = (forward.len() as u16, reverse.len() as u16);
    let len = 6 + f + r;
    let mut bytes = header.to_vec();
    bytes.extend([kind << 4 | (len >> 12) as u8, (len >> 4) as u8]);
    bytes.extend([(len << 4) as u8 | (f >> 8) as u8, f as u8, (r >> 4) as u8, (r << 4) as u8 | 5]);
    bytes.extend([forward, reverse].concat());
    bytes.extend(frame(None));
    bytes
}

fn hops_of_the_fabric_are_processed(bench: &mut dyn Bench) {
    let link = |own: MacAddr, peer: MacAddr| {
        let header = |to: MacAddr, from: MacAddr| {
            [&to.0[..], &from.0, &[0x88, 0xB6]].concat().try_into().unwrap()
        };
        FabricLink { out: header(peer, own), back: header(own, peer) }
    };
    let mac = |n| MacAddr([2, 0, 0, 0, 1, n]);
    let links = [link(mac(0), mac(10)), link(mac(1), mac(11))];
    for (port, link) in (0..).zip(&links) {
        bench.table().set_link(port, link).unwrap();
    }
    let key = Key::Hop { in_port: 0, hop: 7 };
    let out = Action { header: Some(links[1].out), ..OUT };
    let other = Action { header: Some(links[0].out), ..OUT };
    assert!(bench.table().insert(&key, &other).is_err(), "the port has another header");
    let id = settled(bench.table(), &key, &out);
    // One to eight hops, and from none to many that were taken.
    let hops: Vec<u8> = (7..40).collect();
    for forward in 1..=8 {
        for reverse in [0, 1, 5, 20] {
            let (forward, reverse) = (&hops[..forward], &hops[33 - reverse..]);
            let before = in_fabric(links[0].back, forward, reverse, 0);
            let after = in_fabric(links[1].out, &forward[1..], &[&[0], reverse].concat(), 0);
            assert_eq!(bench.pass(0, &before), Fate::Sent(1, after), "{forward:?} {reverse:?}");
        }
    }
    // Whatever is not a host's frame with hops left, from the peer, is the pipeline's.
    let sound = in_fabric(links[0].back, &hops[..2], &hops[..1], 0);
    let mut cases = vec![
        in_fabric(links[0].out, &hops[..2], &[], 0),
        in_fabric(links[0].back, &hops[..2], &[], 1),
        in_fabric(links[0].back, &hops[..2], &[], 3),
        in_fabric(links[0].back, &[], &hops[..2], 0),
        in_fabric(links[0].back, &hops[..9], &[], 0),
        in_fabric(links[0].back, &hops[1..3], &[], 0),
    ];
    for (at, change) in [(15, 0x10), (16, 0x10), (17, 1), (18, 0xF0), (19, 0x10)] {
        let mut wrong = sound.clone();
        wrong[at] ^= change;
        cases.push(wrong);
    }
    cases.push(sound[..14 + 6 + 2].to_vec());
    cases.push([&sound[..14], &[0, 0x3F, 0xF0, 1, 0x3F, 0x80], &sound[20..]].concat());
    for case in cases {
        assert_eq!(bench.pass(0, &case), Fate::Passed, "{case:02x?}");
    }
    assert!(matches!(bench.pass(0, &sound), Fate::Sent(1, _)));
    bench.table().remove(&key, id);
    bench.table().forget(id);
    assert_eq!(bench.pass(0, &sound), Fate::Passed);
    bench.close_and_open(1);
    assert!(bench.table().insert(&key, &out).is_err(), "a port that was closed has no header");
}

#[test]
fn the_table_in_memory() {
    suite(&mut InMemory(Memory::new(RULES, &[0, 1])));
}

#[test]
fn the_table_in_the_kernel() {
    net::in_quiet_namespace("fast_table", || suite(&mut InKernel::new()));
}

#[test]
fn super_packets_and_what_packets_owe_pass_whole() {
    net::in_quiet_namespace("fast_owed", || {
        let mut bench = InKernel::new();
        let (in_port, tag) = (0, None);
        let tcp = Key::Flow(Flow { in_port, tag, destination: B, source: A, ethertype: 0x0800 });
        settled(&mut bench.table, &tcp, &OUT);
        let mut frame = [B.0, A.0].concat();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((40 + 60_000) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([4, 0, 5, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        frame.extend((0..60_000).map(|n| n as u8));
        let owed = Offload {
            checksum: Checksum::Partial,
            checksum_start: 34,
            checksum_offset: 16,
            segmentation: Segmentation::TcpV4,
            segment_size: 1448,
            header_len: 54,
        };
        bench.far[0].send(&frame, owed);
        let mut got = None;
        wait(|| {
            got = bench.far[1].take();
            got.is_some()
        });
        let (bytes, mut offload) = got.unwrap();
        offload.header_len = owed.header_len;
        assert!(bytes == frame && offload == owed, "{offload:?}");
        assert_eq!(bench.near[0].take(), None);
    });
}

#[test]
fn a_program_before_ours_is_noticed_and_costs_one_frame() {
    net::in_quiet_namespace("fast_lost", || {
        let mut bench = InKernel::new();
        let index = |socket: &Socket| socket.port.kernel_end().unwrap().index;
        let ways = [index(&bench.near[0]), index(&bench.near[1])];
        bench.table.detach(0);
        let before = tcx::redirect(ways[0], ways[1]).unwrap();
        bench.table.open(0, bench.near[0].port.kernel_end().unwrap()).unwrap();
        settled(&mut bench.table, &key(None), &OUT);
        // The other program takes the frame, and ours does not carry out what it has decided.
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        assert!(bench.table.is_open(0), "nothing is known yet");
        for _ in 0..3 {
            bench.far[0].send(&frame(None), Offload::NONE);
            let (mut to_socket, mut by_other) = (None, None);
            wait(|| {
                to_socket = to_socket.take().or_else(|| bench.near[0].take());
                by_other = by_other.take().or_else(|| bench.far[1].take());
                to_socket.is_some() && by_other.is_some()
            });
            assert!(!bench.table.is_open(0));
        }
        drop(before);
        bench.table.close(0);
        bench.table.open(0, bench.near[0].port.kernel_end().unwrap()).unwrap();
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)), "as before");
    });
}

#[test]
fn a_frame_that_is_too_long_for_the_output_port_passes() {
    net::in_quiet_namespace("fast_mtu", || {
        let mut bench = InKernel::new();
        net::ip("link set p1 mtu 1000");
        wait(|| {
            let Socket { port, pool } = &mut bench.near[1];
            port.maintain(Time::ZERO, pool);
            port.capabilities().max_frame == 1014
        });
        bench.table.open(1, bench.near[1].port.kernel_end().unwrap()).unwrap();
        settled(&mut bench.table, &key(None), &OUT);
        let mut long = frame(None);
        for (len, fate) in [(1014, None), (1015, Some(Fate::Passed))] {
            long.resize(len, 0);
            assert_eq!(bench.pass(0, &long), fate.unwrap_or(Fate::Sent(1, long.clone())));
        }
    });
}

#[test]
fn nothing_is_forwarded_once_the_table_is_gone() {
    net::in_quiet_namespace("fast_gone", || {
        let mut bench = InKernel::new();
        settled(&mut bench.table, &key(None), &OUT);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        bench.table = Tcx::parts(1, RULES, 2).unwrap().pop().unwrap();
        // Its filter is still there, and may cost one frame until it finds out.
        bench.far[0].send(&frame(None), Offload::NONE);
        let _ = bench.near[0].take();
        for _ in 0..3 {
            assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
        }
    });
}
