//! Packets that another node of the fabric has sent to the router of this one.

use plexus_io::fast::memory::Fate;
use plexus_io::fast::{Action, Flow, Front, Key, Step, Tag};
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::{MacAddr, Time};

use super::chain::{InChain, Owing, cables, next, turned};
use super::fabric::{before, links, set_link};
use super::tables::{Bench, Hook, InKernel, Socket};
use super::{Ip, OUT, ROUTED, STEP, end, left_to_the_pipeline, net, settled, wait};

/// The rule of such packets.
pub(crate) fn key(ip: &Ip) -> Key {
    let Key::Routed(pair) = ip.key() else { panic!("a routed flow") };
    Key::Routed(pair.from_node())
}

/// Such a packet, as it comes in by port 0.
pub(crate) fn frame(ip: &Ip, reverse: &[u8]) -> Vec<u8> {
    behind(&ip.frame(), reverse)
}

fn behind(packet: &[u8], reverse: &[u8]) -> Vec<u8> {
    [&before(links()[0].back, &[ROUTER_HOP], reverse, 0)[..], packet].concat()
}

/// The treatments of such packets that leave by port 1, and what is then before them: a header of
/// the fabric, or nothing.
fn actions() -> [(Action, Vec<u8>); 2] {
    let mut header = before(links()[1].out, &[7, 8], &[ROUTER_HOP], 0);
    header[19] |= 1;
    let front = Front::new(&links()[1].out, &header[14..]);
    [(Action { front, ..ROUTED }, header), (ROUTED, vec![])]
}

fn set_links(bench: &mut dyn Bench) {
    (0..).zip(links()).for_each(|(port, link)| set_link(bench.table(), port, &link));
}

pub(crate) fn packets_from_nodes_are_routed(bench: &mut dyn Bench) {
    set_links(bench);
    for sound in [Ip::v4(60), Ip::v6(60)] {
        let key = key(&sound);
        for wrong in [OUT, Action { tag: Tag::Push(7), ..ROUTED }] {
            assert!(bench.table().insert(&key, &wrong).is_err(), "{wrong:?}");
        }
        for (action, in_front) in actions() {
            let id = settled(bench.table(), &key, &action);
            let after = [&in_front[..], &sound.after(None)].concat();
            let (mut bytes, mut taken_off) = (0, 0);
            // Further hops and the flag of a router before this one count for nothing.
            let hops = [ROUTER_HOP, 5, ROUTER_HOP, 7, 8, 9, 10, 11];
            for (forward, reverse) in [(1, 0), (1, 1), (1, 3), (2, 9), (3, 2), (8, 30), (1, 90)] {
                for of_router in [0, 1] {
                    let reverse = vec![9; reverse];
                    let mut header = before(links()[0].back, &hops[..forward], &reverse, 0);
                    header[19] |= of_router;
                    let frame = [&header[..], &sound.frame()].concat();
                    assert_eq!(bench.pass(0, &frame), Fate::Sent(1, after.clone()), "{frame:02x?}");
                    bytes += frame.len() as u64;
                    taken_off += header.len() as u64;
                    let counts = bench.table().read(id);
                    assert_eq!((counts.bytes, counts.taken_off), (bytes, taken_off));
                }
            }
            let header = |forward: &[u8], kind| before(links()[0].back, forward, &[3], kind);
            let to_router = header(&[ROUTER_HOP], 0);
            let changed = |at: usize| {
                let mut frame = sound.frame();
                frame[at] ^= 1;
                frame
            };
            for frame in [
                sound.frame(),
                [&header(&[7], 0)[..], &sound.frame()].concat(),
                [&header(&[7, ROUTER_HOP], 0)[..], &sound.frame()].concat(),
                [&header(&[ROUTER_HOP; 9], 0)[..], &sound.frame()].concat(),
                [&header(&[ROUTER_HOP], 1)[..], &sound.frame()].concat(),
                [&before(links()[0].out, &[ROUTER_HOP], &[3], 0)[..], &sound.frame()].concat(),
                // Another destination, source and type, and the ends of the addresses.
                [&to_router[..], &changed(5)].concat(),
                [&to_router[..], &changed(11)].concat(),
                [&to_router[..], &changed(13)].concat(),
                [&to_router[..], &changed(14 + if sound.is_v4() { 15 } else { 23 })].concat(),
                [&to_router[..], &changed(14 + if sound.is_v4() { 19 } else { 39 })].concat(),
                [&to_router[..], &sound.frame()[..13]].concat(),
                [&to_router[..], &sound.frame()[..14 + 19]].concat(),
            ] {
                assert_eq!(bench.pass(0, &frame), Fate::Passed, "{frame:02x?}");
            }
            assert_eq!(bench.table().passed(id), 0);
            end(bench, &key, id);
            assert_eq!(bench.pass(0, &frame(&sound, &[3])), Fate::Passed);
        }
        // A port may have the same flow without a header.
        let [(action, in_front), _] = actions();
        let other = Step { addresses: [2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8], ..STEP };
        let plain = settled(bench.table(), &sound.key(), &Action { step: Some(other), ..OUT });
        let id = settled(bench.table(), &key, &action);
        let mut by_other = sound.after(None);
        by_other[..12].copy_from_slice(&other.addresses);
        assert_eq!(bench.pass(0, &sound.frame()), Fate::Sent(1, by_other));
        let after = Fate::Sent(1, [&in_front[..], &sound.after(None)].concat());
        assert_eq!(bench.pass(0, &frame(&sound, &[])), after);
        end(bench, &sound.key(), plain);
        assert_eq!(bench.pass(0, &sound.frame()), Fate::Passed);
        let switched = Key::Flow(Flow::of(0, &sound.frame()).unwrap());
        let plain = settled(bench.table(), &switched, &OUT);
        assert_eq!(bench.pass(0, &sound.frame()), Fate::Sent(1, sound.frame()));
        assert_eq!(bench.pass(0, &frame(&sound, &[])), after);
        end(bench, &key, id);
        assert_eq!(bench.pass(0, &frame(&sound, &[])), Fate::Passed);
        assert_eq!(bench.pass(0, &sound.frame()), Fate::Sent(1, sound.frame()));
        end(bench, &switched, plain);
    }
    (0..2).for_each(|port| bench.close_and_open(port));
}

pub(crate) fn packets_that_a_router_does_not_send_on_as_they_are_pass(bench: &mut dyn Bench) {
    set_links(bench);
    for (sound, cases) in [true, false].map(left_to_the_pipeline) {
        for (action, in_front) in actions() {
            let id = settled(bench.table(), &key(&sound), &action);
            let mut passed = 0;
            for ((name, ip, waits), reverse) in cases.iter().zip((0..).map(|n| vec![9; n])) {
                let packet = [&sound.frame()[..14], &ip.packet].concat();
                assert_eq!(bench.pass(0, &behind(&packet, &reverse)), Fate::Passed, "{name}");
                passed += u64::from(*waits);
                assert_eq!(bench.table().passed(id), passed, "{name}");
                bench.table().settle(id, passed);
                let after = [&in_front[..], &sound.after(None)].concat();
                assert_eq!(bench.pass(0, &frame(&sound, &reverse)), Fate::Sent(1, after), "{name}");
            }
            // As short and long as may be, and with bytes behind the packet.
            let mut padded = sound.clone();
            padded.packet.extend([0; 20]);
            let (least, most) = match sound.is_v4() {
                true => (Ip::v4(20), Ip::v4(200)),
                false => (Ip::v6(40), Ip::v6(200)),
            };
            for ip in [least, most, padded] {
                let after = [&in_front[..], &ip.after(None)].concat();
                assert_eq!(bench.pass(0, &frame(&ip, &[3])), Fate::Sent(1, after));
            }
            end(bench, &key(&sound), id);
        }
    }
    (0..2).for_each(|port| bench.close_and_open(port));
}

pub(crate) fn flows_from_nodes_may_part(bench: &mut dyn Bench) {
    set_links(bench);
    for (sound, header) in [(Ip::v4(60), 20), (Ip::v6(60).with(6, 17), 40)] {
        let flow = |from: u8| sound.clone().with(header + 1, from).with(header + 3, 9);
        let rules = (1..).zip(actions()).map(|(from, (action, in_front))| {
            let Key::Routed(pair) = key(&flow(from)) else { panic!("a routed flow") };
            let key = Key::Routed(pair.with_ports_of(&flow(from).frame()).unwrap());
            let id = settled(bench.table(), &key, &action);
            let after = [&in_front[..], &flow(from).after(None)].concat();
            assert_eq!(bench.pass(0, &frame(&flow(from), &[3, 4])), Fate::Sent(1, after));
            (key, id)
        });
        let rules: Vec<_> = rules.collect();
        assert_eq!(bench.pass(0, &frame(&flow(3), &[3])), Fate::Passed);
        assert!(bench.table().insert(&key(&sound), &ROUTED).is_err(), "the pair parts");
        rules.iter().for_each(|(key, id)| end(bench, key, *id));
        assert_eq!(bench.pass(0, &frame(&flow(1), &[3])), Fate::Passed);
    }
    (0..2).for_each(|port| bench.close_and_open(port));
}

#[test]
fn a_packet_is_measured_as_it_leaves() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        net::in_quiet_namespace("fast_router_hop_mtu", move || {
            let mut bench = InKernel::new(hook);
            net::ip("link set p1 mtu 186");
            wait(|| {
                let Socket { port, pool } = &mut bench.near[1];
                port.maintain(Time::ZERO, pool);
                port.capabilities().max_frame == 200
            });
            bench.table.open(1, bench.near[1].port.kernel_end().unwrap()).unwrap();
            set_links(&mut bench);
            for (action, in_front) in actions() {
                let id = settled(bench.table(), &key(&Ip::v4(60)), &action);
                // The header that it comes behind is shorter and longer than the one that it gets.
                for reverse in [0, 20] {
                    let longest = 200 - in_front.len() - 14;
                    for (len, passes) in [(longest, false), (longest + 1, true)] {
                        let ip = Ip::v4(len);
                        let frame = frame(&ip, &vec![9; reverse]);
                        let after = [&in_front[..], &ip.after(None)].concat();
                        let fate = if passes { Fate::Passed } else { Fate::Sent(1, after) };
                        assert_eq!(bench.pass(0, &frame), fate, "{len} {reverse}");
                    }
                }
                assert_eq!(bench.table().passed(id), 0);
                end(&mut bench, &key(&Ip::v4(60)), id);
            }
        });
    }
}

/// The kernel puts nothing before a packet of more than some 16,000 bytes that is whole.
#[test]
fn a_packet_that_is_too_long_for_a_header_makes_the_rule_wait() {
    net::in_quiet_namespace("fast_router_hop_long", || {
        let mut bench = InKernel::new(Hook::Tcx);
        for (n, device) in ["p0", "h0", "p1", "h1"].into_iter().enumerate() {
            net::ip(&format!("link set {device} mtu 20000"));
            wait(|| {
                let sockets = if n % 2 == 0 { &mut bench.near } else { &mut bench.far };
                let Socket { port, pool } = &mut sockets[n / 2];
                port.maintain(Time::ZERO, pool);
                port.capabilities().max_frame == 20_014
            });
        }
        for port in 0..2 {
            let socket = &bench.near[usize::from(port)];
            bench.table.open(port, socket.port.kernel_end().unwrap()).unwrap();
        }
        set_links(&mut bench);
        for (action, in_front) in actions() {
            let step = Some(Step { mtu: 20_000, ..STEP });
            let id = settled(bench.table(), &key(&Ip::v4(60)), &Action { step, ..action });
            for len in [15_900u16, 16_000] {
                let mut ip = Ip::v4(60);
                ip.packet.resize(len.into(), 0xA7);
                let [a, b] = len.to_be_bytes();
                let ip = ip.with(2, a).with(3, b);
                let after = [&in_front[..], &ip.after(None)].concat();
                let waits = len == 16_000 && action.front.is_some();
                let fate = if waits { Fate::Passed } else { Fate::Sent(1, after) };
                assert!(bench.pass(0, &frame(&ip, &[9])) == fate, "{len}");
                assert_eq!(bench.table().passed(id), u64::from(waits));
            }
            end(&mut bench, &key(&Ip::v4(60)), id);
        }
    });
}

const LONG: Step = Step { mtu: 2000, ..STEP };

/// A packet enters the fabric at a node that does not route, is routed at the next, and leaves at a
/// third.
#[test]
fn super_packets_and_what_packets_owe_are_routed_whole() {
    net::in_quiet_namespace("fast_router_hop_owed", || {
        cables(&[("h0", "p0"), ("p1", "h1")], &[("q0", "q1"), ("r0", "r1")]);
        let [mut sender, mut receiver] = ["h0", "h1"].map(Socket::on);
        let [link, other] = links();
        let to_router = before(link.out, &[ROUTER_HOP], &[0], 0);
        let mut path = before(other.out, &[8], &[ROUTER_HOP], 0);
        path[19] |= 1;
        let enters = Action { front: Front::new(&link.out, &to_router[14..]), ..OUT };
        let routed = Action { step: Some(LONG), ..OUT };
        let onward = Action { front: Front::new(&other.out, &path[14..]), ..routed };
        let destination = MacAddr(*STEP.addresses.first_chunk().unwrap());
        let delivery = Key::Delivery { in_port: 0, hop: 8, destination, is_routed: true };
        let all = Owing::all();
        let keys = |owing: &Owing| [owing.flow(), key(&owing.packet), delivery];
        let actions = [enters, onward, routed];
        let mut old = keys(&all[0]);
        let ends = [
            (["p0", "q0"], [None, Some(link)]),
            (["q1", "r0"], [Some(turned(link)), Some(other)]),
            (["r1", "p1"], [Some(turned(other)), None]),
        ];
        let mut nodes = [0, 1, 2].map(|n| InChain::new(ends[n].0, ends[n].1, old[n], actions[n]));
        for owing in &all {
            let (now, Owing { packet, owed }) = (keys(owing), owing);
            for (n, node) in nodes.iter_mut().enumerate() {
                node.set((&old[n], &now[n]), &actions[n]);
            }
            old = now;
            sender.send(&packet.frame(), *owed);
            let (bytes, mut offload) = next(&mut receiver);
            offload.header_len = owed.header_len;
            assert!(bytes == packet.after(None), "{owed:?}: {:02x?}", &bytes[..60]);
            assert_eq!(offload, *owed);
            assert_eq!(nodes.each_ref().map(InChain::forwarded), [1; 3], "{owed:?}");
        }
    });
}

/// The node that routes them has the host that they are for. Segments are measured behind the
/// header, as those without one are.
#[test]
fn what_packets_owe_goes_to_a_host_at_the_router_if_its_segments_are_no_longer_than_the_mtu() {
    net::in_quiet_namespace("fast_router_hop_here", || {
        cables(&[("h0", "p0"), ("p1", "h1")], &[("q0", "q1")]);
        let [mut sender, mut receiver] = ["h0", "h1"].map(Socket::on);
        let [link, _] = links();
        let before = before(link.out, &[ROUTER_HOP], &[0, 1, 2], 0);
        let enters = Action { front: Front::new(&link.out, &before[14..]), ..OUT };
        let routed = |mtu| Action { step: Some(Step { mtu, ..STEP }), ..OUT };
        let all = Owing::all();
        let keys = |owing: &Owing| [owing.flow(), key(&owing.packet)];
        let mut old = keys(&all[0]);
        let mut front = InChain::new(["p0", "q0"], [None, Some(link)], old[0], enters);
        let links = [Some(turned(link)), None];
        let mut back = InChain::new(["q1", "p1"], links, old[1], routed(LONG.mtu));
        let longest = [20 + 32 + 1448, 40 + 32 + 1448, 280, 280];
        for (owing, longest) in all.iter().zip(longest) {
            for (mtu, is_whole) in [(longest - 1, false), (longest, true)] {
                let (now, Owing { packet, owed }) = (keys(owing), owing);
                front.set((&old[0], &now[0]), &enters);
                back.set((&old[1], &now[1]), &routed(mtu));
                old = now;
                sender.send(&packet.frame(), *owed);
                let to = if is_whole { &mut receiver } else { &mut back.ports[0] };
                let (bytes, mut offload) = next(to);
                let with_header = [&before[..], &packet.frame()].concat();
                let expected = if is_whole { packet.after(None) } else { with_header };
                assert!(bytes == expected, "{owed:?} {mtu}: {:02x?}", &bytes[..60]);
                if is_whole {
                    offload.header_len = owed.header_len;
                    assert_eq!(offload, *owed);
                }
                assert_eq!(back.forwarded(), u64::from(is_whole), "{owed:?} {mtu}");
            }
        }
    });
}
