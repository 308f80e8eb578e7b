//! What only the table at the XDP hook has to show.

use plexus_io::Link;
use plexus_io::fast::Entrance;
use plexus_wire::checksum::Sum;
use plexus_wire::{Protocol, partial};

use super::*;

/// Sends a frame to the box, and says whether it was forwarded; else it came in as it was.
fn is_forwarded(bench: &mut InKernel, frame: &[u8]) -> bool {
    match bench.pass(0, frame) {
        Fate::Sent(1, bytes) => {
            assert_eq!(bytes, frame, "as it was");
            true
        }
        Fate::Passed => false,
        other => panic!("{other:?}"),
    }
}

/// The sum that a sender leaves in the field of a checksum.
fn pseudo(ip: &Ip, protocol: u8) -> [u8; 2] {
    let packet = &ip.packet;
    let protocol = Protocol(protocol);
    let sum = if ip.is_v4() {
        let [from, to] = [12, 16].map(|at| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
        let len = (packet.len() - 20) as u16;
        Sum::pseudo_v4(from.into(), to.into(), protocol, len)
    } else {
        let [from, to] = [8, 24].map(|at| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
        let len = (packet.len() - 40) as u32;
        Sum::pseudo_v6(from.into(), to.into(), protocol, len)
    };
    sum.folded().to_be_bytes()
}

#[test]
fn packets_that_owe_their_checksum_go_to_the_socket() {
    net::in_quiet_namespace("fast_xdp_owed", || {
        let mut bench = InKernel::new(Hook::Xdp);
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (random >> 33) as u8
        };
        let tags = [None, Some(3 << 13 | 9)];
        let kinds = [(true, 6), (true, 17), (false, 6), (false, 17)];
        for (tag, (is_v4, protocol)) in tags.iter().flat_map(|tag| kinds.map(|kind| (tag, kind))) {
            let sample = if is_v4 { Ip::v4(80) } else { Ip::v6(100) };
            let sample = Ip { tag: *tag, ..sample.with(if is_v4 { 9 } else { 6 }, protocol) };
            let header = if is_v4 { 20 } else { 40 };
            let field = header + if protocol == 6 { 16 } else { 6 };
            let (switched, routed) = (Flow::of(0, &sample.frame()).unwrap(), sample.key());
            let id = settled(bench.table(), &Key::Flow(switched), &OUT);
            for round in 0..64 {
                let mut ip = sample.clone();
                ip.packet[header - 8..].iter_mut().for_each(|byte| *byte = next());
                if is_v4 {
                    ip = ip.summed();
                }
                let owed = pseudo(&ip, protocol);
                for (change, owes) in [(0, true), (1 << (round % 8), false)] {
                    let sum = [owed[0] ^ change, owed[1]];
                    ip.packet[field..field + 2].copy_from_slice(&sum);
                    let frame = ip.frame();
                    assert_eq!(partial::find(&frame).is_some(), owes);
                    let passed = bench.table.passed(id);
                    assert_eq!(is_forwarded(&mut bench, &frame), !owes, "{frame:02x?}");
                    if owes {
                        // The rule waits until the packet has left.
                        assert_eq!(bench.table.passed(id), passed + 1);
                        bench.table.settle(id, passed + 1);
                    }
                }
            }
            end(&mut bench, &Key::Flow(switched), id);
            // A routed flow's packets as well.
            let id = settled(bench.table(), &routed, &ROUTED);
            let mut ip = sample.clone();
            assert_eq!(bench.pass(0, &ip.frame()), Fate::Sent(1, ip.after(*tag)));
            ip.packet[field..field + 2].copy_from_slice(&pseudo(&sample, protocol));
            assert_eq!(bench.pass(0, &ip.frame()), Fate::Passed);
            end(&mut bench, &routed, id);
        }
    });
}

/// The program remembers fewer rules than there are here, so flows share the places for them.
#[test]
fn flows_that_share_a_remembered_place_keep_their_own_rules() {
    const FLOWS: u16 = 600;
    net::in_quiet_namespace("fast_xdp_recent", || {
        let mut bench = InKernel::new(Hook::Xdp);
        bench.table = Box::new(Xdp::parts(1, FLOWS.into(), 2).unwrap().remove(0));
        for (id, socket) in (0..).zip(&bench.near) {
            bench.table.open(id, socket.port.kernel_end().unwrap()).unwrap();
        }
        let from = |n: u16| {
            let mut frame = frame(None);
            frame[8..10].copy_from_slice(&n.to_be_bytes());
            frame
        };
        let key = |n: u16| Key::Flow(Flow::of(0, &from(n)).unwrap());
        let tagged = |n: u16| {
            let [a, b] = (1 + n).to_be_bytes();
            [&from(n)[..12], &[0x81, 0, a, b], &from(n)[12..]].concat()
        };
        let rule = |n: u16| Action { tag: Tag::Push(1 + n), ..OUT };
        let ids: Vec<RuleId> =
            (0..FLOWS).map(|n| settled(bench.table(), &key(n), &rule(n))).collect();
        for n in (0..FLOWS).chain((0..FLOWS).rev()) {
            assert_eq!(bench.pass(0, &from(n)), Fate::Sent(1, tagged(n)), "flow {n}");
        }
        assert!(ids.iter().all(|id| bench.table.read(*id).packets == 2));
        // The last one is remembered.
        bench.table.remove(&key(0), ids[0]);
        assert_eq!(bench.pass(0, &from(0)), Fate::Passed);
    });
}

#[test]
fn whatever_may_owe_a_checksum_deeper_inside_goes_to_the_socket() {
    net::in_quiet_namespace("fast_xdp_inside", || {
        let mut bench = InKernel::new(Hook::Xdp);
        let v4 = Ip::v4(80);
        let v6 = Ip::v6(100);
        let port = |ip: &Ip, header: usize, port: u16| {
            let [a, b] = port.to_be_bytes();
            ip.clone().with(header + 2, a).with(header + 3, b)
        };
        let cases = [
            (v4.clone().with(9, 1), true),
            (v4.clone().with(9, 50), true),
            (v4.clone().with(6, 0x20).with(9, 6), true),
            (v4.clone().with(7, 1).with(9, 4), true),
            (v4.clone().with(9, 4), false),
            (v4.clone().with(9, 41), false),
            (v4.clone().with(9, 47), false),
            (v4.clone().with(9, 132), false),
            (v4.clone().with(0, 0x46).with(9, 1), false),
            (port(&v4, 20, 4788), true),
            (port(&v4, 20, 4789), false),
            (port(&v4, 20, 6081), false),
            (v6.clone().with(6, 58), true),
            (v6.clone().with(6, 0), false),
            (v6.clone().with(6, 4), false),
            (v6.clone().with(6, 43), false),
            (v6.clone().with(6, 44), false),
            (v6.clone().with(6, 60), false),
            (v6.clone().with(6, 132), false),
            (port(&v6.clone().with(6, 17), 40, 4788), true),
            (port(&v6.clone().with(6, 17), 40, 4789), false),
        ];
        for (ip, forwards) in cases {
            let key = Key::Flow(Flow::of(0, &ip.frame()).unwrap());
            let id = settled(bench.table(), &key, &OUT);
            assert_eq!(is_forwarded(&mut bench, &ip.frame()), forwards, "{:02x?}", ip.packet);
            end(&mut bench, &key, id);
        }
    });
}

#[test]
fn a_host_that_leaves_checksums_to_its_device_gets_whole_packets() {
    net::in_quiet_namespace("fast_xdp_host", || {
        let mut bench = InKernel::new(Hook::Xdp);
        let mut ip = Ip::v4(80);
        let sum = pseudo(&ip, 17);
        ip.packet[26..28].copy_from_slice(&sum);
        let key = Key::Flow(Flow::of(0, &ip.frame()).unwrap());
        settled(bench.table(), &key, &OUT);
        let owed = Offload {
            checksum: Checksum::Partial,
            checksum_start: 34,
            checksum_offset: 6,
            ..Offload::NONE
        };
        bench.far[0].send(&ip.frame(), owed);
        let mut got = None;
        wait(|| {
            got = bench.near[0].take();
            got.is_some()
        });
        // The port's owner completes it.
        let (bytes, offload) = got.unwrap();
        assert_eq!((bytes, offload.checksum), (ip.frame(), Checksum::Partial));
        assert_eq!(bench.far[1].take(), None);
    });
}

#[test]
fn no_rule_leads_to_a_cable_whose_far_end_does_not_poll() {
    net::in_quiet_namespace("fast_xdp_polls", || {
        let mut bench = InKernel::new(Hook::Xdp);
        let id = settled(bench.table(), &key(None), &OUT);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        poll("h1", false);
        bench.table.maintain(1);
        assert!(!bench.table.is_valid(id), "the kernel would drop its frames");
        assert!(bench.table.is_open(1), "its own frames may go on to come in");
        assert_eq!([0, 1].map(|port| bench.table.sends(port)), [true, false]);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Passed);
        assert_eq!(bench.table.passed(id), 0, "it may begin anew only as another rule");
        let refused = bench.table.insert(&key(None), &OUT).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
        end(&mut bench, &key(None), id);
        // Nor when it is opened.
        bench.close_and_open(1);
        assert!(bench.table.insert(&key(None), &OUT).is_err());
        let other = key_from(1);
        let back = settled(bench.table(), &other, &Action { out_port: 0, ..OUT });
        assert_eq!(bench.pass(1, &frame(None)), Fate::Sent(0, frame(None)));
        end(&mut bench, &other, back);

        poll("h1", true);
        bench.table.maintain(1);
        let id = settled(bench.table(), &key(None), &OUT);
        assert!(bench.table.is_valid(id));
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    });
}

fn key_from(in_port: PortId) -> Key {
    Key::Flow(Flow { in_port, tag: None, destination: B, source: A, ethertype: 0x88B5 })
}

#[test]
fn the_program_goes_with_the_port() {
    net::in_quiet_namespace("fast_xdp_port", || {
        let mut bench = InKernel::new(Hook::Xdp);
        settled(bench.table(), &key(None), &OUT);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
        let has_program = || net::ip("link show p0").contains("xdp");
        assert!(has_program());
        let Socket { port, pool } = &mut bench.near[0];
        port.close(pool);
        assert!(!has_program());
        bench.far[0].send(&frame(None), Offload::NONE);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(bench.far[1].take(), None);
    });
}

#[test]
fn each_hook_refuses_the_ports_of_the_other() {
    net::in_quiet_namespace("fast_hooks", || {
        net::veth("p0", "h0");
        net::veth("p1", "h1");
        for (hook, other, device) in [(Hook::Tcx, Hook::Xdp, "p0"), (Hook::Xdp, Hook::Tcx, "p1")] {
            let socket = hook.port(device);
            let mut table = other.table();
            let refused = table.open(0, socket.port.kernel_end().unwrap()).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported);
            assert!(!table.is_open(0));
        }
    });
}

/// What the unit of a node has (docs/operating.md). CAP_PERFMON and CAP_SYS_ADMIN would let the
/// verifier allow more.
const CAPABILITIES: &str = "--bounding-set=-all,+bpf,+net_admin,+net_raw,+ipc_lock";

#[test]
fn the_programs_load_with_the_capabilities_of_a_unit() {
    net::in_quiet_namespace("fast_capabilities", || {
        for device in ["0", "1"] {
            net::veth(&format!("p{device}"), &format!("h{device}"));
        }
        let own = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new("setpriv");
        command.arg(CAPABILITIES).arg(own).args(["--ignored", "--exact", INSIDE]);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.contains("1 passed"), "{out}");
    });
}

const INSIDE: &str = "xdp::opens_tables_in_the_namespace_that_it_is_in";

#[test]
#[ignore = "the test above runs it"]
fn opens_tables_in_the_namespace_that_it_is_in() {
    for (hook, device) in [(Hook::Tcx, "p0"), (Hook::Xdp, "p1")] {
        let socket = hook.port(device);
        hook.table().open(0, socket.port.kernel_end().unwrap()).unwrap();
    }
}

#[test]
fn a_port_whose_program_somebody_detaches_attaches_one_anew() {
    net::in_quiet_namespace("fast_xdp_detached", || {
        let mut bench = InKernel::new(Hook::Xdp);
        settled(bench.table(), &key(None), &OUT);
        assert!(is_forwarded(&mut bench, &frame(None)));
        let Entrance::Xdp(program) = bench.near[0].port.kernel_end().unwrap().entrance else {
            panic!("an AF_XDP port has a program");
        };
        program.detach().unwrap();
        let Socket { port, pool } = &mut bench.near[0];
        assert_eq!(port.maintain(Time::ZERO, pool), Link::Down);
        // The worker that is told closes the table's port.
        bench.table.close(0);
        wait(|| {
            let Socket { port, pool } = &mut bench.near[0];
            port.maintain(Time::ZERO, pool) == Link::Up
        });
        assert_eq!(bench.pass(0, &frame(None)), Fate::Passed, "by the port's own program");
        bench.close_and_open(0);
        assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
    });
}
