//! Hosts that are not simulated: what they send crosses the network, and comes out when it should.

use std::net::Ipv4Addr;

use plexus_io::{Checksum, Offload};
use plexus_sim::{Leaving, Sim, SimTime};
use plexus_topo::{Fidelity, Topology};
use plexus_wire::{MacAddr, arp, frame};

use crate::run::settle;

/// Two nodes and a host at each; every cable takes 1 ms and 1 byte takes 80 ns.
const FILE: &str = "name = \"out\"\n[[node]]\nname = \"s1\"\n[[node]]\nname = \"s2\"\n\
    [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
    [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
    [[host]]\nname = \"h3\"\naddress = \"10.0.0.3/24\"\n\
    [[link]]\nends = [\"h1\", \"s1.p1\"]\nrate = \"100Mbit\"\ndelay = \"1ms\"\n\
    [[link]]\nends = [\"h3\", \"s1.p3\"]\nrate = \"100Mbit\"\ndelay = \"1ms\"\n\
    [[link]]\nends = [\"h2\", \"s2.p1\"]\nrate = \"100Mbit\"\ndelay = \"1ms\"\n\
    [[link]]\nends = [\"s1.x\", \"s2.x\"]\nrate = \"100Mbit\"\ndelay = \"1ms\"\n";

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 99]);

fn question(target: [u8; 4]) -> Vec<u8> {
    let repr = arp::Repr {
        operation: arp::Operation::REQUEST,
        sender_mac: MAC,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::default(),
        target_ip: target.into(),
    };
    frame::arp(MacAddr::BROADCAST, &repr)
}

fn all(sim: &mut Sim) -> Vec<Leaving> {
    std::iter::from_fn(|| sim.poll_outside()).collect()
}

#[test]
fn a_frame_from_outside_is_answered_after_the_time_of_its_way() {
    let topology = Topology::parse("out.toml", FILE).unwrap();
    let mut sim = Sim::new(&topology, 1).unwrap();
    sim.attach(0).unwrap();
    settle(&mut sim);
    all(&mut sim);
    let begin = sim.now();
    assert!(sim.send_from_outside(0, &question([10, 0, 0, 2]), Offload::default()));
    assert!(!sim.send_from_outside(7, &question([10, 0, 0, 2]), Offload::default()));
    let mut answers = vec![];
    while answers.is_empty() {
        let next = sim.next_event().unwrap();
        assert!(next < begin + std::time::Duration::from_millis(100).into(), "no answer");
        sim.run_until(next);
        answers = all(&mut sim);
    }
    let [Leaving { host: 0, at, frame }] = &answers[..] else { panic!("{answers:?}") };
    // Three cables there, three back: delay, and 72 bytes of 80 ns each.
    let way = SimTime::from_picos(6 * (1_000_000_000 + 72 * 80_000));
    assert_eq!(*at - begin, way);
    let answer = arp::Packet::new_checked(&frame[14..]).and_then(|p| arp::Repr::parse(&p)).unwrap();
    assert_eq!((&frame[..6], answer.sender_ip), (&MAC.0[..], Ipv4Addr::new(10, 0, 0, 2)));
}

#[test]
fn what_comes_to_an_attached_host_nobody_answers_for_it() {
    let topology = Topology::parse("out.toml", FILE).unwrap();
    let mut sim = Sim::new(&topology, 1).unwrap();
    sim.attach(0).unwrap();
    sim.attach(1).unwrap();
    settle(&mut sim);
    all(&mut sim);
    let mut asked = question([10, 0, 0, 2]);
    let long = vec![0; 1 << 16];
    assert!(!sim.send_from_outside(0, &long, Offload::default()), "longer than any frame");
    assert!(sim.send_from_outside(0, &asked, Offload::default()));
    sim.run_until(sim.now() + std::time::Duration::from_millis(50).into());
    // The question comes out at the other one, and nothing comes back.
    let out = all(&mut sim);
    asked.truncate(out[0].frame.len());
    assert!(out.len() == 1 && out[0].host == 1 && out[0].frame == asked, "{out:?}");
    // Nobody's frame is lost at the end.
    assert!(sim.report().facts.passed);
}

/// TAP devices and virtual machines leave checksums to the hardware (virtio 1.2, 5.1.6.2).
#[test]
fn a_checksum_that_is_owed_is_completed_on_the_way() {
    let topology = Topology::parse("out.toml", FILE).unwrap();
    let mut sim = Sim::new(&topology, 1).unwrap();
    [0, 1].into_iter().for_each(|host| sim.attach(host).unwrap());
    settle(&mut sim);
    let ends = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
    let mut frame = frame::udp((MAC, MacAddr::BROADCAST), ends, (1, 2), &[7; 18]).unwrap();
    // The field holds the sum of the pseudo-header: addresses, protocol, length.
    let words = [0x0A00, 0x0001, 0x0A00, 0x0002, 17, 26];
    frame[40..42].copy_from_slice(&words.iter().sum::<u16>().to_be_bytes());
    let offload = Offload {
        checksum: Checksum::Partial,
        checksum_start: 34,
        checksum_offset: 6,
        ..Offload::NONE
    };
    assert!(sim.send_from_outside(0, &frame, offload));
    sim.run_until(sim.now() + std::time::Duration::from_millis(50).into());
    let arrived = all(&mut sim);
    // Others announce their addresses meanwhile.
    let is_it = |l: &&Leaving| l.host == 1 && l.frame[12..14] == [0x08, 0x00];
    let got = arrived.iter().find(is_it).unwrap();
    let all_words = got.frame[34..60].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = all_words.sum::<u32>() + words.iter().map(|w| u32::from(*w)).sum::<u32>();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "{:02x?}", got.frame);
}

#[test]
fn without_queues_nobody_outside_is_let_in() {
    let topology = Topology::parse("out.toml", FILE).unwrap();
    let control = Topology { fidelity: Fidelity::Control, ..topology.clone() };
    let told = Sim::new(&control, 1).unwrap().attach(1).unwrap_err();
    assert!(told.starts_with("host h2: ") && told.contains("fidelity = \"full\""), "{told}");
    let told = Sim::new(&topology, 1).unwrap().attach(3).unwrap_err();
    assert_eq!(told, "there is no host number 3");
}
