//! One suite that every back-end and every wrapper has to pass. A back-end comes with a [`Bench`]:
//! it opens a port and holds the other end of its cable.
//!
//! Kernel back-ends run on veth pairs in a network namespace that ends with the test's thread;
//! without the rights to create one they are skipped, with a message.

mod benches;
#[path = "../common/mod.rs"]
mod net;
mod offload;
mod sharing;
mod suite;
mod tunnel;

use benches::{Memory, Pcap, Station, Tap, Tunnel, Veth, Wrapped, drain};
use plexus_io::af_xdp::{AfXdpPort, XdpOptions};
use plexus_io::pcap::{LinkType, PcapOptions, PcapPort};
use plexus_io::wrap::{FaultSettings, Faults, Plugged};
use plexus_io::{Pool, Port};
use plexus_wire::Time;

/// The suite on back-ends: with `in_namespace` those of the kernel, each in a namespace of its own.
macro_rules! conform {
    (in_namespace: $($name:ident = $bench:expr;)*) => {$(
        #[test]
        fn $name() {
            net::in_quiet_namespace(stringify!($name), || suite::run(&mut $bench));
        }
    )*};
    ($($name:ident = $bench:expr;)*) => {$(
        #[test]
        fn $name() {
            suite::run(&mut $bench);
        }
    )*};
}

conform! {
    memory = Memory::new();
    memory_with_a_faultless_cable = Wrapped { inner: Memory::new(), wrap: faultless };
    memory_plugged_in = Wrapped { inner: Memory::new(), wrap: plugged };
}

conform! { in_namespace:
    af_packet = Veth::af_packet(2048);
    af_packet_with_large_frames = Veth::af_packet(plexus_io::SUPER_FRAME);
    af_xdp_native = Veth::af_xdp_native(2048);
    af_xdp_native_with_frames_of_a_page = Veth::af_xdp_native(4096);
    af_xdp_generic = Veth::af_xdp_generic();
    tap = Tap::new(2048);
    tap_with_large_frames = Tap::new(plexus_io::SUPER_FRAME);
    udp_over_ipv4 = Tunnel::v4();
    udp_over_ipv6 = Tunnel::v6();
    af_packet_in_all_wrappers = Wrapped { inner: Veth::af_packet(2048), wrap: all_of_them };
    af_xdp_in_all_wrappers = Wrapped { inner: Veth::af_xdp_native(2048), wrap: all_of_them };
}

/// A device spreads frames over its queues by their flows, and none of them may be missed.
#[test]
fn af_xdp_serves_all_receive_queues() {
    net::in_quiet_namespace("af_xdp queues", || {
        net::veth("near", "far");
        for device in ["near", "far"] {
            net::command("ethtool", &format!("-L {device} rx 2 tx 2"));
        }
        let mut pool = Pool::new(8192, 2048).unwrap();
        let mut port = AfXdpPort::open("port", "near", XdpOptions::default(), &mut pool).unwrap();
        let mut station = Station::on("far");
        station.wait();
        let frames: Vec<Vec<u8>> = (0..64).map(flow).collect();
        station.send(&frames);
        let mut came = drain(&mut port, &mut pool, Time::ZERO);
        came.sort();
        suite::assert_same(&came, &frames);
        port.close(&mut pool);
    });
}

/// A UDP packet of the flow of this number.
fn flow(number: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].fill(0xFF);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&[8, 0]);
    // Version and header length, total length, time to live, UDP, addresses.
    frame[14] = 0x45;
    frame[17] = 46;
    frame[22] = 64;
    frame[23] = 17;
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&(1000 + number).to_be_bytes());
    frame[39] = 26;
    frame
}

fn faultless(port: Box<dyn Port>) -> Box<dyn Port> {
    Box::new(Faults::new(port, FaultSettings::default()))
}

fn plugged(port: Box<dyn Port>) -> Box<dyn Port> {
    Box::new(Plugged::new(port))
}

fn all_of_them(port: Box<dyn Port>) -> Box<dyn Port> {
    plugged(faultless(port))
}

#[test]
fn pcap() {
    let mut bench = Pcap::new();
    suite::run_sending(&mut bench);
    // What one port wrote, another receives: in order, to the byte, in a small pool.
    let frames: Vec<_> = suite::lengths().iter().map(|&n| suite::frame(n, n as u8)).collect();
    let file = std::fs::File::create(&bench.path).unwrap();
    let mut writer = plexus_io::pcap::Writer::new(file, LinkType::Ethernet, "p").unwrap();
    for frame in &frames {
        writer.packet(1, plexus_io::pcap::Direction::Out, frame).unwrap();
    }
    let input = Some(bench.path.clone());
    let mut port = PcapPort::open("p", PcapOptions { input, ..PcapOptions::default() }).unwrap();
    let mut pool = Pool::new(16, 2048).unwrap();
    suite::assert_same(&drain(&mut port, &mut pool, Time::ZERO), &frames);
    assert!(port.is_at_end());
    assert_eq!(port.stats().rx_packets, frames.len() as u64);
    port.close(&mut pool);
    port.close(&mut pool);
    assert_eq!(pool.available(), 16);
}
