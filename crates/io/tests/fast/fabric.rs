//! Frames that pass, enter and leave the fabric.

use plexus_io::Segmentation;
use plexus_io::fast::memory::Fate;
use plexus_io::fast::{Action, FabricLink, FastTable, Flow, Front, Key, Step};
use plexus_wire::MacAddr;

use super::chain::{InChain, Owing, cables, next, turned};
use super::tables::{Bench, Hook, InKernel, Socket};
use super::{A, B, Ip, OUT, ROUTED, STEP, end, frame, net, router_hop, settled, wait};

/// The links of ports 0 and 1.
pub(crate) fn links() -> [FabricLink; 2] {
    let link = |own: MacAddr, peer: MacAddr| {
        let header = |to: MacAddr, from: MacAddr| {
            [&to.0[..], &from.0, &[0x88, 0xB6]].concat().try_into().unwrap()
        };
        FabricLink { out: header(peer, own), back: header(own, peer), takes_owed: true }
    };
    let mac = |n| MacAddr([2, 0, 0, 0, 1, n]);
    [link(mac(0), mac(10)), link(mac(1), mac(11))]
}

/// A frame of the fabric behind the Ethernet header of a link.
fn in_fabric(header: [u8; 14], forward: &[u8], reverse: &[u8], kind: u8) -> Vec<u8> {
    [&before(header, forward, reverse, kind)[..], &frame(None)].concat()
}

/// The headers before a host's frame.
pub(crate) fn before(header: [u8; 14], forward: &[u8], reverse: &[u8], kind: u8) -> Vec<u8> {
    let (f, r) = (forward.len() as u16, reverse.len() as u16);
    let len = 6 + f + r;
    let mut bytes = header.to_vec();
    bytes.extend([kind << 4 | (len >> 12) as u8, (len >> 4) as u8]);
    // Flags that nobody knows yet stay as they are.
    bytes.extend([(len << 4) as u8 | (f >> 8) as u8, f as u8, (r >> 4) as u8, (r << 4) as u8 | 4]);
    bytes.extend([forward, reverse].concat());
    bytes
}

pub(crate) fn hops_are_processed(bench: &mut dyn Bench) {
    let links = links();
    for (port, link) in (0..).zip(&links) {
        bench.table().set_link(port, link).unwrap();
    }
    let key = Key::Hop { in_port: 0, hop: 7 };
    let out = Action { front: Front::new(&links[1].out, &[]), ..OUT };
    let other = Action { front: Front::new(&links[0].out, &[]), ..OUT };
    assert!(bench.table().insert(&key, &other).is_err(), "the port has another header");
    let id = settled(bench.table(), &key, &out);
    // One to eight hops, and from none to many that were taken.
    let hops: Vec<u8> = (7..40).collect();
    for forward in 1..=8 {
        for reverse in [0, 1, 5, 20] {
            let (forward, reverse) = (&hops[..forward], &hops[33 - reverse..]);
            let mut before = in_fabric(links[0].back, forward, reverse, 0);
            let mut after = in_fabric(links[1].out, &forward[1..], &[&[0], reverse].concat(), 0);
            for of_router in [0, 1] {
                (before[19], after[19]) = (before[19] | of_router, after[19] | of_router);
                let sent = Fate::Sent(1, after.clone());
                assert_eq!(bench.pass(0, &before), sent, "{forward:?} {reverse:?}");
            }
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
    end(bench, &key, id);
    assert_eq!(bench.pass(0, &sound), Fate::Passed);
    bench.close_and_open(1);
    assert!(bench.table().insert(&key, &out).is_err(), "a port that was closed has no header");
}

/// An IP packet from A to B.
fn ip(is_v4: bool) -> Vec<u8> {
    if is_v4 { Ip::v4(60).frame() } else { Ip::v6(80).frame() }
}

fn flow(is_v4: bool) -> Key {
    let ethertype = if is_v4 { 0x0800 } else { 0x86DD };
    Key::Flow(Flow { in_port: 0, tag: None, destination: B, source: A, ethertype })
}

pub(crate) fn flows_enter(bench: &mut dyn Bench) {
    let links = links();
    set_link(bench.table(), 1, &links[1]);
    for is_v4 in [true, false] {
        let key = flow(is_v4);
        let other = Action { front: Front::new(&links[0].out, &[0; 8]), ..OUT };
        assert!(bench.table().insert(&key, &other).is_err(), "the port has another header");
        for hops in [0, 1, 2, 7, 19] {
            let hops: Vec<u8> = (7..7 + hops).collect();
            let header = before(links[1].out, &hops, &[0], 0);
            let front = Front::new(&links[1].out, &header[14..]);
            let id = settled(bench.table(), &key, &Action { front, ..OUT });
            let after = [&header[..], &ip(is_v4)].concat();
            assert_eq!(bench.pass(0, &ip(is_v4)), Fate::Sent(1, after), "{hops:?}");
            assert_eq!(bench.pass(0, &frame(None)), Fate::Passed, "of another type");
            assert_eq!(bench.table().read(id).bytes, ip(is_v4).len() as u64);
            end(bench, &key, id);
        }
    }
    assert_eq!(Front::new(&links[1].out, &[0; 27]), None, "too long");
    // Where there are several routes, flows of TCP and UDP have rules of their own.
    for (sound, header) in [(Ip::v4(60), 20), (Ip::v6(80).with(6, 17), 40)] {
        let flow = |from: u8| sound.clone().with(header + 1, from).with(header + 3, 9);
        let rules = [(1, 7), (2, 8)].map(|(from, hop)| {
            let Key::Routed(pair) = flow(from).key() else { panic!() };
            let key = Key::Routed(pair.with_ports_of(&flow(from).frame()).unwrap());
            let header = before(links[1].out, &[hop], &[0], 0);
            let front = Front::new(&links[1].out, &header[14..]);
            let id = settled(bench.table(), &key, &Action { front, ..OUT });
            let after = [&header[..], &flow(from).frame()].concat();
            assert_eq!(bench.pass(0, &flow(from).frame()), Fate::Sent(1, after));
            (key, id)
        });
        assert_eq!(bench.pass(0, &flow(3).frame()), Fate::Passed);
        rules.iter().for_each(|(key, id)| end(bench, key, *id));
        // A router of the fabric takes its step before.
        let header = before(links[1].out, &[7, 8], &[0], 0);
        let front = Front::new(&links[1].out, &header[14..]);
        let id = settled(bench.table(), &sound.key(), &Action { front, ..ROUTED });
        let after = [&header[..], &sound.after(None)].concat();
        assert_eq!(bench.pass(0, &sound.frame()), Fate::Sent(1, after));
        let ttl = if sound.is_v4() { 8 } else { 7 };
        assert_eq!(bench.pass(0, &sound.clone().with(ttl, 1).frame()), Fate::Passed);
        assert_eq!(bench.table().read(id).packets, 1);
        end(bench, &sound.key(), id);
    }
    bench.close_and_open(1);
}

pub(crate) fn packets_leave(bench: &mut dyn Bench) {
    let links = links();
    bench.table().set_link(0, &links[0]).unwrap();
    let hop = 7;
    let key = |is_routed| Key::Delivery { in_port: 0, hop, destination: B, is_routed };
    let id = settled(bench.table(), &key(false), &OUT);
    let mut taken_off = 0;
    for is_v4 in [true, false] {
        for (forward, reverse) in [(1, 1), (1, 0), (1, 9), (3, 2), (8, 30), (1, 90)] {
            let forward: Vec<u8> = (hop..hop + forward).collect();
            let header = before(links[0].back, &forward, &vec![9; reverse], 0);
            let before = [&header[..], &ip(is_v4)].concat();
            assert_eq!(bench.pass(0, &before), Fate::Sent(1, ip(is_v4)), "{forward:?} {reverse}");
            taken_off += header.len() as u64;
            assert_eq!(bench.table().read(id).taken_off, taken_off);
        }
    }
    // To another station or port, of a router, of another type, cut off.
    let header = before(links[0].back, &[hop], &[1, 2], 0);
    let mut to_another = ip(true);
    to_another[5] ^= 1;
    let mut routed = header.clone();
    routed[19] |= 1;
    let of_router = routed.clone();
    for (header, frame) in [
        (header.clone(), to_another),
        (before(links[0].back, &[8], &[], 0), ip(true)),
        (routed, ip(true)),
        (header.clone(), frame(None)),
        (header.clone(), ip(true)[..13].to_vec()),
        (header.clone(), ip(true)[..14 + 19].to_vec()),
        (header.clone(), ip(false)[..14 + 39].to_vec()),
        (before(links[0].back, &[hop], &[1, 2], 1), ip(true)),
    ] {
        let frame = [header, frame].concat();
        assert_eq!(bench.pass(0, &frame), Fate::Passed, "{frame:02x?}");
    }
    // Packets that a router has sent get its address, and no other step.
    let routed = settled(bench.table(), &key(true), &ROUTED);
    for is_v4 in [true, false] {
        let mut after = ip(is_v4);
        after[..12].copy_from_slice(&STEP.addresses);
        assert_eq!(bench.pass(0, &[&of_router[..], &ip(is_v4)].concat()), Fate::Sent(1, after));
        let other = Fate::Sent(1, ip(is_v4));
        assert_eq!(bench.pass(0, &[&header[..], &ip(is_v4)].concat()), other);
    }
    assert_eq!(bench.table().read(routed).packets, 2);
    end(bench, &key(true), routed);
    assert_eq!(bench.pass(0, &[of_router, ip(true)].concat()), Fate::Passed);
    end(bench, &key(false), id);
    assert_eq!(bench.pass(0, &[header, ip(true)].concat()), Fate::Passed);
    bench.close_and_open(0);
}

/// Tells a table of a link, and waits until it knows where the cable leads.
pub(crate) fn set_link(table: &mut dyn FastTable, port: u16, link: &FabricLink) {
    table.set_link(port, link).unwrap();
    wait(|| {
        table.maintain(port);
        table.takes_owed(port)
    });
}

/// A frame enters the fabric at one node, passes the next, and leaves it at a third.
#[test]
fn super_packets_and_what_packets_owe_pass_a_fabric_whole() {
    net::in_quiet_namespace("fast_fabric_owed", || {
        cables(&[("h0", "p0"), ("p1", "h1")], &[("q0", "q1"), ("r0", "r1")]);
        let [mut sender, mut receiver] = ["h0", "h1"].map(Socket::on);
        let [link, other] = links();
        let path = before(link.out, &[7, 8], &[0], 0);
        // The keys and actions of the three nodes.
        let rules = |owing: &Owing, is_routed: bool| {
            let mut path = path.clone();
            path[19] |= u8::from(is_routed);
            let routed = Action { step: Some(Step { mtu: 2000, ..STEP }), ..OUT };
            let (key, action) =
                if is_routed { (owing.packet.key(), routed) } else { (owing.flow(), OUT) };
            let push = Action { front: Front::new(&link.out, &path[14..]), ..action };
            let pass = Action { front: Front::new(&other.out, &[]), ..OUT };
            let destination = match is_routed {
                true => MacAddr(*STEP.addresses.first_chunk().unwrap()),
                false => B,
            };
            let hop = Key::Hop { in_port: 0, hop: 7 };
            let delivery = Key::Delivery { in_port: 0, hop: 8, destination, is_routed };
            [(key, push), (hop, pass), (delivery, action)]
        };
        let whole = Owing::all().map(|owing| (owing, true));
        // Of these the kernel takes no header off.
        let udp = (Owing::new(true, Segmentation::Udp), false);
        let all: Vec<_> = whole.into_iter().chain([udp]).collect();
        let mut old = rules(&all[0].0, false);
        let ends = [
            (["p0", "q0"], [None, Some(link)]),
            (["q1", "r0"], [Some(turned(link)), Some(other)]),
            (["r1", "p1"], [Some(turned(other)), None]),
        ];
        let mut nodes = [0, 1, 2].map(|n| InChain::new(ends[n].0, ends[n].1, old[n].0, old[n].1));
        for ((owing, is_whole), is_routed) in
            all.iter().flat_map(|case| [(case, false), (case, true)])
        {
            let (now, Owing { packet, owed }) = (rules(owing, is_routed), owing);
            for (node, (old, now)) in nodes.iter_mut().zip(old.iter().zip(&now)) {
                node.set((&old.0, &now.0), &now.1);
            }
            old = now;
            let frame = packet.frame();
            let after = if is_routed && *is_whole { packet.after(None) } else { frame.clone() };
            sender.send(&frame, *owed);
            let to = if *is_whole { &mut receiver } else { &mut nodes[0].ports[0] };
            let (bytes, mut offload) = next(to);
            offload.header_len = owed.header_len;
            assert!(bytes == after, "{owed:?} {is_routed}: {:02x?}", &bytes[..60]);
            assert_eq!(offload, *owed);
            let forwarded = nodes.each_ref().map(InChain::forwarded);
            assert_eq!(forwarded, [u64::from(*is_whole); 3], "{owed:?}");
        }
    });
}

/// A port's link takes what packets owe while its cable leads to a socket of a node that does.
#[test]
fn what_packets_owe_goes_to_nodes_that_take_it_and_nowhere_else() {
    net::in_quiet_namespace("fast_fabric_far", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let links = links();
        let path = before(links[1].out, &[7, 8], &[0], 0);
        let enters = Action { front: Front::new(&links[1].out, &path[14..]), ..OUT };
        let table = &mut *bench.table;
        net::command("ip", "link add br0 type bridge");
        set_link(table, 0, &links[0]);
        set_link(table, 1, &links[1]);
        let id = table.insert(&flow(true), &enters).unwrap();
        // A bridge takes the far end.
        net::command("ip", "link set h1 master br0");
        wait(|| {
            table.maintain(1);
            !table.takes_owed(1)
        });
        assert!(!table.is_valid(id));
        assert!(table.insert(&flow(true), &enters).is_err());
        // Packets that come by the other link may owe something.
        let hop = Key::Hop { in_port: 0, hop: 7 };
        let passes = Action { front: Front::new(&links[1].out, &[]), ..OUT };
        assert!(table.insert(&hop, &passes).is_err());
        let to_router = router_hop::key(&Ip::v4(60));
        let routed = Action { step: Some(STEP), ..enters };
        assert!(table.insert(&to_router, &routed).is_err());
        // Once that has a bridge too, nothing does.
        net::command("ip", "link set h0 master br0");
        wait(|| {
            table.maintain(0);
            !table.takes_owed(0)
        });
        settled(table, &hop, &passes);
        settled(table, &to_router, &routed);
        let frame = in_fabric(links[0].back, &[7, 8], &[5], 0);
        assert!(matches!(bench.pass(0, &frame), Fate::Sent(1, _)));
        let forwarded = router_hop::frame(&Ip::v4(60), &[5]);
        assert!(matches!(bench.pass(0, &forwarded), Fate::Sent(1, _)));
        // A rule that was made before does not carry it either.
        net::command("ip", "link set h0 nomaster");
        wait(|| {
            bench.table.maintain(0);
            bench.table.takes_owed(0)
        });
        assert_eq!(bench.pass(0, &frame), Fate::Passed);
        assert_eq!(bench.pass(0, &forwarded), Fate::Passed);
        // The bridge lets it go, and the far end has an XDP program.
        net::command("ip", "link set h1 nomaster");
        set_link(&mut *bench.table, 1, &links[1]);
        bench.far.pop();
        let _other = Socket::of_xdp("h1");
        wait(|| {
            bench.table.maintain(1);
            !bench.table.takes_owed(1)
        });
    });
}
