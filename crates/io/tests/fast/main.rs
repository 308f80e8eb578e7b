//! One suite that every fast table has to pass, and what only the kernel's can show.

mod chain;
mod chaos;
mod fabric;
#[path = "../common/mod.rs"]
mod net;
mod order;
mod router_hop;
mod samples;
mod tables;
mod xdp;

use std::time::{Duration, Instant};

use plexus_io::fast::chaos::Faults;
use plexus_io::fast::memory::Fate;
use plexus_io::fast::xdp::Xdp;
use plexus_io::fast::{Action, Counts, FastTable, Flow, Held, Key, Routed, RuleId, Step, Tag, tcx};
use plexus_io::{Batch, Checksum, Offload, Port, PortId, Segmentation};
use plexus_wire::{MacAddr, Time, checksum};

use self::tables::{Bench, Hook, InKernel, InMemory, RULES, Socket, poll};

const PATIENCE: Duration = Duration::from_secs(20);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

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

const OUT: Action = Action { out_port: 1, tag: Tag::Keep, front: None, step: None };

/// A rule whose packets are forwarded.
fn settled(table: &mut dyn FastTable, key: &Key, action: &Action) -> RuleId {
    let id = table.insert(key, action).unwrap();
    table.settle(id, 0);
    id
}

/// Ends a rule.
fn end(bench: &mut dyn Bench, key: &Key, id: RuleId) {
    bench.table().remove(key, id);
    bench.table().forget(id);
}

fn suite(bench: &mut dyn Bench) {
    switch_and_router(bench);
    fabric::hops_are_processed(bench);
    fabric::flows_enter(bench);
    fabric::packets_leave(bench);
    router_hop::packets_from_nodes_are_routed(bench);
    router_hop::packets_that_a_router_does_not_send_on_as_they_are_pass(bench);
    router_hop::flows_from_nodes_may_part(bench);
}

fn switch_and_router(bench: &mut dyn Bench) {
    forwards_what_matches_and_nothing_else(bench);
    passes_packets_until_all_have_left(bench);
    holds_packets_back_when_told(bench);
    tags_are_kept_added_and_taken_off(bench);
    a_closed_port_voids_the_rules_to_it(bench);
    a_full_table_refuses(bench);
    packets_are_routed_as_a_router_does(bench);
    packets_that_a_router_does_not_send_on_as_they_are_pass(bench);
    rules_of_routed_flows_are_independent(bench);
    flows_between_two_addresses_may_part(bench);
}

fn forwards_what_matches_and_nothing_else(bench: &mut dyn Bench) {
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed, "no rule yet");
    let id = settled(bench.table(), &key(None), &OUT);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    let len = frame(None).len() as u64;
    assert_eq!(bench.table().read(id), Counts { packets: 1, bytes: len, held: 0, taken_off: 0 });
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
    end(bench, &key(None), id);
}

fn holds_packets_back_when_told(bench: &mut dyn Bench) {
    let id = bench.table().insert(&key(None), &OUT).unwrap();
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    bench.table().hold(id, Held::All);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Dropped);
    bench.table().hold(id, Held::Nothing);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
    bench.table().hold(id, Held::All);
    bench.table().settle(id, 2);
    assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    assert_eq!((bench.table().read(id).held, bench.table().passed(id)), (1, 2));
    end(bench, &key(None), id);
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
        end(bench, &key(before), id);
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
    end(bench, &key(None), id);
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
    end(bench, &key(None), id);
}

/// An IP packet in a frame, and after a step of [`STEP`].
#[derive(Clone)]
pub(crate) struct Ip {
    tag: Option<u16>,
    /// From the IP header on.
    packet: Vec<u8>,
}

const STEP: Step = Step { addresses: [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8], mtu: 200 };

impl Ip {
    fn v4(len: usize) -> Ip {
        let mut packet = vec![0x45, 0, 0, len as u8, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1];
        packet.extend([10, 9, 0, 2]);
        packet.resize(len, 0xA7);
        Ip { tag: None, packet }.summed()
    }

    fn v6(len: usize) -> Ip {
        let mut packet = vec![0x60, 0, 0, 0, 0, (len - 40) as u8, 59, 64];
        packet.extend([0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0x20, 1, 0xD, 0xB8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        packet.resize(len, 0xA7);
        Ip { tag: None, packet }
    }

    fn is_v4(&self) -> bool {
        self.packet[0] >> 4 == 4
    }

    /// With the right checksum.
    fn summed(mut self) -> Ip {
        self.packet[10..12].fill(0);
        let sum = checksum::checksum(&self.packet[..20]);
        self.packet[10..12].copy_from_slice(&sum.to_be_bytes());
        self
    }

    /// With a byte of the packet set; a checksum is right again.
    fn with(mut self, at: usize, byte: u8) -> Ip {
        self.packet[at] = byte;
        if self.is_v4() { self.summed() } else { self }
    }

    fn frame_of(&self, addresses: [u8; 12]) -> Vec<u8> {
        let tag = self.tag.map(|tci| [&[0x81, 0][..], &tci.to_be_bytes()].concat());
        let ethertype = if self.is_v4() { [8, 0] } else { [0x86, 0xDD] };
        [&addresses[..], &tag.unwrap_or_default(), &ethertype, &self.packet].concat()
    }

    fn frame(&self) -> Vec<u8> {
        self.frame_of([B.0, A.0].concat().try_into().unwrap())
    }

    fn key(&self) -> Key {
        let flow = Flow::of(0, &self.frame()).unwrap();
        Key::Routed(Routed::of(flow, &self.frame()).unwrap())
    }

    /// The frame after the step.
    fn after(&self, tag: Option<u16>) -> Vec<u8> {
        let ttl = if self.is_v4() { 8 } else { 7 };
        let one_less = self.packet[ttl] - 1;
        Ip { tag, ..self.clone().with(ttl, one_less) }.frame_of(STEP.addresses)
    }
}

const ROUTED: Action = Action { step: Some(STEP), ..OUT };

fn packets_are_routed_as_a_router_does(bench: &mut dyn Bench) {
    const TAG: Option<u16> = Some(5 << 13 | 7);
    let cases = [
        (TAG, Tag::Keep, TAG),
        (TAG, Tag::Pop, None),
        (None, Tag::Push(5 << 13 | 7), TAG),
        (TAG, Tag::Swap(3 << 13 | 9), Some(3 << 13 | 9)),
        (None, Tag::Keep, None),
    ];
    for (ip, (before, tag, after)) in
        [Ip::v4(60), Ip::v6(60)].iter().flat_map(|ip| cases.map(|case| (ip, case)))
    {
        let ip = Ip { tag: before, ..ip.clone() };
        let id = settled(bench.table(), &ip.key(), &Action { tag, ..ROUTED });
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(after)), "{tag:?}");
        let counts = Counts { packets: 1, bytes: 14 + 60, held: 0, taken_off: 0 };
        assert_eq!(bench.table().read(id), counts);
        end(bench, &ip.key(), id);
    }
    // Every time to live, and checksums on both sides of a carry; as short and long as may be.
    let id = settled(bench.table(), &Ip::v4(60).key(), &ROUTED);
    let v6 = settled(bench.table(), &Ip::v6(60).key(), &ROUTED);
    for ttl in 2..=255 {
        let ip = Ip::v4(60).with(8, ttl).with(4, ttl.wrapping_mul(37)).with(5, ttl);
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)), "{ttl}");
        let ip = Ip::v6(60).with(7, ttl);
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)), "{ttl}");
    }
    for identity in 0..=255 {
        // The checksum takes every value of its upper byte.
        let ip = Ip::v4(60).with(4, identity);
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)), "{identity}");
    }
    // One step takes this checksum to zero, not to 0xFFFF.
    let on_the_edge = (0..=u16::MAX).map(|identity| {
        let [a, b] = identity.to_be_bytes();
        Ip::v4(60).with(4, a).with(5, b)
    });
    let on_the_edge = on_the_edge.into_iter().find(|ip| ip.packet[10..12] == [0xFE, 0xFF]);
    let ip = on_the_edge.expect("every checksum has its packet");
    assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)));
    for ip in [Ip::v4(20), Ip::v4(200), Ip::v6(40), Ip::v6(200)] {
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)));
    }
    // Bytes behind the packet go along and do not count.
    let mut padded = Ip::v4(200);
    padded.packet.extend([0; 20]);
    assert_eq!(bench.pass(0, &padded.frame()), Fate::Sent(1, padded.after(None)));
    for (ip, id) in [(Ip::v4(60), id), (Ip::v6(60), v6)] {
        end(bench, &ip.key(), id);
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Passed);
    }
}

/// A sound packet, and others that are left to the pipeline: why, and whether the rule is to wait,
/// since the packet may leave later.
fn left_to_the_pipeline(is_v4: bool) -> (Ip, Vec<(&'static str, Ip, bool)>) {
    let damaged = |mut ip: Ip, at: usize| {
        ip.packet[at] ^= 0x10;
        ip
    };
    let long = |mut ip: Ip| {
        ip.packet.push(0);
        match ip.is_v4() {
            true => ip.with(3, 201),
            false => ip.with(5, 161),
        }
    };
    // Its options are zeroes, so its checksum is right without them too.
    let mut with_options = Ip::v4(60);
    with_options.packet[20..24].fill(0);
    let with_options = with_options.with(0, 0x46);
    let mut version_5 = Ip::v4(60).with(0, 0x55);
    version_5 = version_5.summed();
    let v4 = vec![
        ("end of life", Ip::v4(60).with(8, 1), false),
        ("no life", Ip::v4(60).with(8, 0), false),
        ("checksum", damaged(Ip::v4(60), 10), false),
        ("checksum of another byte", damaged(Ip::v4(60), 1), false),
        ("header too short", Ip::v4(60).with(0, 0x44), false),
        ("version", version_5, false),
        ("longer than the frame", Ip::v4(60).with(3, 61), false),
        ("shorter than its header", Ip::v4(60).with(3, 19), false),
        ("options", with_options, true),
        ("longer than the MTU", long(Ip::v4(200)), true),
    ];
    let v6 = vec![
        ("end of life", Ip::v6(60).with(7, 1), false),
        ("no life", Ip::v6(60).with(7, 0), false),
        ("version", Ip::v6(60).with(0, 0x50), false),
        ("longer than the frame", Ip::v6(60).with(5, 21), false),
        ("longer than the MTU", long(Ip::v6(200)), true),
    ];
    if is_v4 { (Ip::v4(60), v4) } else { (Ip::v6(60), v6) }
}

fn packets_that_a_router_does_not_send_on_as_they_are_pass(bench: &mut dyn Bench) {
    for (sound, cases) in [true, false].map(left_to_the_pipeline) {
        let id = settled(bench.table(), &sound.key(), &ROUTED);
        let mut passed = 0;
        for (name, ip, waits) in &cases {
            // A frame's type and its packet's version are two things.
            let frame = [&sound.frame()[..14], &ip.packet].concat();
            assert_eq!(bench.pass(0, &frame), Fate::Passed, "{name}");
            if *waits {
                assert_eq!(bench.pass(0, &sound.frame()), Fate::Passed, "{name}: it is to wait");
                passed += 2;
                bench.table().settle(id, passed);
            }
            assert_eq!(bench.table().passed(id), passed, "{name}");
            let sent = Fate::Sent(1, sound.after(None));
            assert_eq!(bench.pass(0, &sound.frame()), sent, "{name}");
        }
        // So short that there are no addresses.
        let cut = &sound.frame()[..14 + 19];
        assert_eq!(bench.pass(0, cut), Fate::Passed);
        end(bench, &sound.key(), id);
    }
}

fn rules_of_routed_flows_are_independent(bench: &mut dyn Bench) {
    let one = Ip::v4(60);
    let to_another = Ip::v4(60).with(19, 3);
    let from_another = Ip::v4(60).with(15, 3);
    let v6 = Ip::v6(60);
    let all = [&one, &to_another, &from_another, &v6];
    let ids = all.map(|ip| settled(bench.table(), &ip.key(), &ROUTED));
    for (n, ip) in all.into_iter().enumerate() {
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)));
        end(bench, &ip.key(), ids[n]);
        assert_eq!(bench.pass(0, &ip.frame()), Fate::Passed);
        for ip in &all[n + 1..] {
            assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)));
        }
    }
    let id = settled(bench.table(), &one.key(), &ROUTED);
    let unknown = Ip::v4(60).with(12, 11);
    assert_eq!(bench.pass(0, &unknown.frame()), Fate::Passed);
    assert_eq!(bench.table().passed(id), 0, "no rule of its own");
    end(bench, &one.key(), id);
}

fn flows_between_two_addresses_may_part(bench: &mut dyn Bench) {
    for (sound, header, protocol) in [(Ip::v4(60), 20, 9), (Ip::v6(60).with(6, 17), 40, 6)] {
        // The low bytes of the ports.
        let flow = |from: u8, to: u8| sound.clone().with(header + 1, from).with(header + 3, to);
        let with_ports = |ip: &Ip| {
            let Key::Routed(pair) = ip.key() else { panic!() };
            Key::Routed(pair.with_ports_of(&ip.frame()).unwrap())
        };
        let other = Step { addresses: [2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8], ..STEP };
        let [one, two, tcp] = [flow(1, 9), flow(2, 9), flow(1, 9).with(protocol, 6)];
        let id = settled(bench.table(), &with_ports(&one), &ROUTED);
        let id_2 = settled(bench.table(), &with_ports(&two), &Action { step: Some(other), ..OUT });
        assert_eq!(bench.pass(0, &one.frame()), Fate::Sent(1, one.after(None)));
        let mut by_other = two.after(None);
        by_other[..12].copy_from_slice(&other.addresses);
        assert_eq!(bench.pass(0, &two.frame()), Fate::Sent(1, by_other));
        let mut cases = vec![
            flow(3, 9),
            flow(1, 8),
            tcp.clone(),
            one.clone().with(protocol, 132),
            // Its ports are padding.
            if one.is_v4() { one.clone().with(3, 23) } else { one.clone().with(5, 3) },
        ];
        if one.is_v4() {
            // The first fragment, and one that is not.
            cases.extend([one.clone().with(6, 0x20), one.clone().with(7, 1)]);
        }
        for case in cases {
            assert_eq!(bench.pass(0, &case.frame()), Fate::Passed, "{:02x?}", case.packet);
        }
        let passed = [id, id_2].map(|id| bench.table().passed(id));
        assert_eq!(passed, [0, 0], "they are of other flows");
        if one.is_v4() {
            // Its ports are behind the options.
            let mut options = one.clone();
            options.packet.splice(20..20, [1; 4]);
            options.packet[0] = 0x46;
            options.packet[3] += 4;
            assert_eq!(bench.pass(0, &options.frame()), Fate::Passed);
            assert_eq!(bench.table().passed(id), 1, "the rule waits for it");
            bench.table().settle(id, 1);
        }
        assert!(bench.table().insert(&one.key(), &ROUTED).is_err(), "the pair parts");
        let id_3 = settled(bench.table(), &with_ports(&tcp), &ROUTED);
        assert_eq!(bench.pass(0, &tcp.frame()), Fate::Sent(1, tcp.after(None)));
        for (ip, id) in [(&two, id_2), (&tcp, id_3), (&one, id)] {
            assert_eq!(bench.pass(0, &one.frame()), Fate::Sent(1, one.after(None)));
            end(bench, &with_ports(ip), id);
            assert_eq!(bench.pass(0, &ip.frame()), Fate::Passed);
        }
        let id = settled(bench.table(), &one.key(), &ROUTED);
        assert!(bench.table().insert(&with_ports(&one), &ROUTED).is_err(), "the pair has a rule");
        for ip in [&one, &two, &tcp] {
            assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(None)));
        }
        end(bench, &one.key(), id);
    }
}

#[test]
fn the_table_in_memory() {
    suite(&mut InMemory::new(Faults::default()));
}

#[test]
fn the_table_at_the_traffic_control_hook() {
    net::in_quiet_namespace("fast_tcx", || suite(&mut InKernel::new(Hook::Tcx)));
}

#[test]
fn the_table_at_the_traffic_control_hook_of_tap_devices() {
    net::in_quiet_namespace("fast_tap", || {
        switch_and_router(&mut InKernel::with_taps(Hook::Tcx));
    });
}

#[test]
fn the_table_at_the_xdp_hook() {
    net::in_quiet_namespace("fast_xdp", || suite(&mut InKernel::new(Hook::Xdp)));
}

/// A super-packet of TCP as a host leaves it to its device, and its metadata.
fn switched_super_packet() -> (Vec<u8>, Offload) {
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
    (frame, owed)
}

impl InKernel {
    /// Sends a packet into the first port, and returns it as it leaves by the second.
    fn carry(&mut self, frame: &[u8], owed: Offload) -> (Vec<u8>, Offload) {
        self.far[0].send(frame, owed);
        let mut got = None;
        wait(|| {
            got = self.far[1].take();
            got.is_some()
        });
        got.unwrap()
    }
}

#[test]
fn super_packets_and_what_packets_owe_pass_whole() {
    for new in [InKernel::new, InKernel::with_taps] {
        net::in_quiet_namespace("fast_owed", move || {
            let mut bench = new(Hook::Tcx);
            let (in_port, tag) = (0, None);
            let tcp =
                Key::Flow(Flow { in_port, tag, destination: B, source: A, ethertype: 0x0800 });
            let id = settled(bench.table(), &tcp, &OUT);
            let (mut frame, owed) = switched_super_packet();
            let (bytes, mut offload) = bench.carry(&frame, owed);
            offload.header_len = owed.header_len;
            assert!(bytes == frame && offload == owed, "{offload:?}");
            assert_eq!(bench.near[0].take(), None);
            // A rule that waits may hold them back, and nothing else.
            bench.table().remove(&tcp, id);
            let id = bench.table().insert(&tcp, &OUT).unwrap();
            bench.table().hold(id, Held::SuperPackets);
            bench.far[0].send(&frame, owed);
            wait(|| bench.table.read(id).held == 1);
            assert_eq!(bench.near[0].take(), None);
            frame.truncate(60);
            assert_eq!(bench.pass(0, &frame), Fate::Passed);
        });
    }
}

#[test]
fn segments_of_a_routed_super_packet_are_no_longer_than_the_mtu() {
    net::in_quiet_namespace("fast_segments", || {
        let mut bench = InKernel::new(Hook::Tcx);
        // Headers of TCP with 12 bytes of options, and of UDP.
        let kinds = [
            (true, Segmentation::TcpV4, 20 + 32 + 1448),
            (false, Segmentation::TcpV6, 40 + 32 + 1448),
            (true, Segmentation::Udp, usize::MAX),
            (false, Segmentation::Udp, usize::MAX),
        ];
        for (is_v4, segmentation, longest) in kinds {
            let ip = super_packet(is_v4, segmentation);
            for (mtu, passes) in [(longest - 1, true), (longest, false)] {
                // Segments of UDP go to the socket in any case.
                let (mtu, passes) = (mtu.min(9000) as u16, passes || longest == usize::MAX);
                let step = Some(Step { mtu, ..STEP });
                let id = settled(bench.table(), &ip.key(), &Action { step, ..OUT });
                let header = if is_v4 { 34 } else { 54 };
                let is_tcp = segmentation != Segmentation::Udp;
                let owed = Offload {
                    checksum: Checksum::Partial,
                    checksum_start: header,
                    checksum_offset: if is_tcp { 16 } else { 6 },
                    segmentation,
                    segment_size: 1448,
                    header_len: header + if is_tcp { 32 } else { 8 },
                };
                bench.far[0].send(&ip.frame(), owed);
                let mut got = None;
                let InKernel { near, far, .. } = &mut bench;
                let to = if passes { &mut near[0] } else { &mut far[1] };
                wait(|| {
                    got = to.take();
                    got.is_some()
                });
                let expected = if passes { ip.frame() } else { ip.after(None) };
                let (bytes, offload) = got.unwrap();
                assert!(bytes == expected, "{segmentation:?} {mtu}");
                assert_eq!((offload.segmentation, offload.segment_size), (segmentation, 1448));
                end(&mut bench, &ip.key(), id);
            }
        }
    });
}

/// A super-packet with 10,000 bytes behind its headers.
pub(crate) fn super_packet(is_v4: bool, segmentation: Segmentation) -> Ip {
    let (protocol, transport) = match segmentation {
        Segmentation::Udp => (17, [0, 9, 0, 9, 0, 0, 0, 0].to_vec()),
        _ => (6, [&[0; 12][..], &[8 << 4], &[0; 19]].concat()),
    };
    let mut ip = if is_v4 { Ip::v4(20).with(9, protocol) } else { Ip::v6(40).with(6, protocol) };
    ip.packet.extend(transport);
    ip.packet.resize(ip.packet.len() + 10_000, 0xA7);
    let len = ip.packet.len();
    if is_v4 {
        ip.packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        return ip.summed();
    }
    ip.packet[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
    if protocol == 17 {
        ip.packet[44..46].copy_from_slice(&10_008u16.to_be_bytes());
    }
    ip
}

#[test]
fn a_program_before_ours_is_noticed_and_costs_a_frame_on_each_processor() {
    net::in_quiet_namespace("fast_lost", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let index = |socket: &Socket| socket.port.kernel_end().unwrap().index;
        let ways = [index(&bench.near[0]), index(&bench.near[1])];
        bench.table.detach(0);
        let before = tcx::redirect(ways[0], ways[1]).unwrap();
        bench.table.open(0, bench.near[0].port.kernel_end().unwrap()).unwrap();
        settled(bench.table(), &key(None), &OUT);
        // The other program takes the frame, and ours does not carry out what it has decided.
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        assert!(bench.table.is_open(0), "nothing is known yet");
        // That costs a frame on each processor which the sender uses. The socket's filter comes
        // before the other program.
        let processors = std::thread::available_parallelism().map_or(64, |count| count.get());
        let mut lost = 1;
        while bench.table.is_open(0) {
            bench.far[0].send(&frame(None), Offload::NONE);
            wait(|| bench.far[1].take().is_some());
            lost += usize::from(bench.near[0].take().is_none());
            assert!(lost <= processors, "{lost}");
        }
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
        // A child process that another test starts just now may keep the last attachment.
        let InKernel { table, near, .. } = &mut bench;
        wait(|| table.open(0, near[0].port.kernel_end().unwrap()).is_ok());
        // The same child may keep the other program, by which frames go past the rule.
        wait(|| bench.pass(0, &frame(None)) == Fate::Sent(1, frame(None)));
    });
}

#[test]
fn a_program_that_somebody_detaches_is_noticed_and_attached_anew() {
    net::in_quiet_namespace("fast_detached", || {
        net::command("mount", "-t bpf bpf /sys/fs/bpf");
        let mut bench = InKernel::new(Hook::Tcx);
        let persist = tcx::Persist::prepare(Duration::from_secs(60)).unwrap();
        bench.table = Box::new(tcx::Tcx::parts(1, RULES, 2, Some(persist)).unwrap().remove(0));
        [0, 1].into_iter().for_each(|port| bench.close_and_open(port));
        settled(bench.table(), &key(None), &OUT);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        // Another process can do that with any program (`bpftool link detach`).
        tcx::end_persisting(["p0"]).unwrap();
        wait(|| {
            bench.far[0].send(&frame(None), Offload::NONE);
            !bench.table.is_open(0)
        });
        for number in 1..4 {
            let mut numbered = frame(None);
            numbered[20] = 0xF0 | number;
            bench.far[0].send(&numbered, Offload::NONE);
            wait(|| bench.near[0].take_all().iter().any(|(bytes, _)| *bytes == numbered));
        }
        assert_eq!(bench.far[1].take_all(), []);
        bench.close_and_open(0);
        // Another processor may still have some of those frames for the socket.
        wait(|| bench.pass(0, &frame(None)) == Fate::Sent(1, frame(None)));
    });
}

#[test]
fn a_frame_that_is_too_long_for_the_output_port_passes() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        net::in_quiet_namespace("fast_mtu", move || {
            let mut bench = InKernel::new(hook);
            net::ip("link set p1 mtu 1000");
            wait(|| {
                let Socket { port, pool } = &mut bench.near[1];
                port.maintain(Time::ZERO, pool);
                port.capabilities().max_frame == 1014
            });
            bench.table.open(1, bench.near[1].port.kernel_end().unwrap()).unwrap();
            settled(bench.table(), &key(None), &OUT);
            let mut long = frame(None);
            for (len, fate) in [(1014, None), (1015, Some(Fate::Passed))] {
                long.resize(len, 0);
                assert_eq!(bench.pass(0, &long), fate.unwrap_or(Fate::Sent(1, long.clone())));
            }
        });
    }
}

#[test]
fn nothing_is_forwarded_once_the_table_is_gone() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        net::in_quiet_namespace("fast_gone", move || {
            let mut bench = InKernel::new(hook);
            settled(bench.table(), &key(None), &OUT);
            assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
            bench.table = hook.table();
            // A child process that another test starts just now keeps the programs until it runs
            // another one. The filter is still there, and may cost a frame on each processor.
            wait(|| {
                bench.far[0].send(&frame(None), Offload::NONE);
                !bench.near[0].take_all().is_empty()
            });
            for number in 1..4 {
                let mut numbered = frame(None);
                numbered[20] = 0xF0 | number;
                bench.far[0].send(&numbered, Offload::NONE);
                // Earlier frames may come late, if the sender has changed processors.
                wait(|| bench.near[0].take_all().iter().any(|(bytes, _)| *bytes == numbered));
                let forwarded = bench.far[1].take_all();
                assert!(!forwarded.iter().any(|(bytes, _)| *bytes == numbered), "{number}");
            }
        });
    }
}
