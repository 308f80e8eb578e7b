//! Tests of tunnels beyond the port contract: strangers, source ports, and ICMP errors.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};

use plexus_io::udp::{UdpEnds, UdpPort};
use plexus_io::{Batch, Link, OpenError, Pool, Port};
use plexus_wire::Time;

use crate::benches::roomy_socket;
use crate::net;
use crate::suite::{assert_takes_nothing, frame, gather, take};

fn address(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 18_773).into()
}

fn ends() -> UdpEnds {
    UdpEnds { local: address(1), peer: address(2) }
}

/// Both ends' addresses and a stranger's on the loopback device.
fn lay_out() {
    net::ip("link set lo mtu 1700 up");
    for n in 1..=3 {
        net::ip(&format!("address add {} dev lo", address(n).ip()));
    }
}

fn open(ends: UdpEnds) -> (Pool, UdpPort) {
    let mut pool = Pool::new(512, 2048).unwrap();
    let port = UdpPort::open("t", ends, &mut pool).unwrap();
    (pool, port)
}

fn send(port: &mut UdpPort, pool: &mut Pool, frames: &[Vec<u8>]) {
    let mut batch: Batch = frames.iter().map(|bytes| pool.alloc_from(bytes).unwrap()).collect();
    assert_eq!(port.transmit(Time::ZERO, pool, &mut batch), frames.len());
}

fn close(mut pool: Pool, mut port: UdpPort) {
    port.close(&mut pool);
    assert_eq!(pool.available(), pool.frames());
}

/// A fabric frame of a host's flow, behind the header of a path of one hop.
fn of_flow(port: u16) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x70, 1, 0, 0, 5];
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 53, 0, 8, 0, 0]);
    bytes
}

#[test]
fn foreign_and_invalid_datagrams_are_dropped_and_counted() {
    net::in_quiet_namespace("strangers", || {
        lay_out();
        let (mut pool, mut port) = open(ends());
        let (peer, stranger) = (UdpSocket::bind(address(2)).unwrap(), address(3));
        let stranger = UdpSocket::bind(stranger).unwrap();
        for _ in 0..100 {
            stranger.send_to(&frame(60, 1), address(1)).unwrap();
        }
        // Nothing, less than an Ethernet header, more than a frame of the pool (which the kernel
        // truncates), and so much that it arrives in fragments.
        for len in [0, 13, pool.max_len() + 1, 5000] {
            peer.send_to(&vec![2; len], address(1)).unwrap();
        }
        peer.send_to(&frame(60, 2), address(1)).unwrap();
        assert_eq!(take(&mut port, &mut pool, 1), [frame(60, 2)]);
        let stats = port.stats();
        assert_eq!((stats.rx_foreign, stats.rx_invalid, stats.rx_packets), (100, 4, 1));
        close(pool, port);
    });
}

#[test]
fn flows_have_source_ports_and_keep_them() {
    net::in_quiet_namespace("entropy", || {
        lay_out();
        let (mut pool, mut port) = open(ends());
        // A program that uses some of our source ports is no obstacle.
        let (mut other_pool, mut other) =
            open(UdpEnds { local: (address(1).ip(), 18_774).into(), peer: address(3) });
        let peer = roomy_socket(address(2));
        let mut ports: BTreeMap<Vec<u8>, BTreeSet<u16>> = BTreeMap::new();
        for _ in 0..3 {
            for flows in (0..320).collect::<Vec<u16>>().chunks(64) {
                let frames: Vec<_> = flows.iter().map(|n| of_flow(1000 + n)).collect();
                send(&mut port, &mut pool, &frames);
            }
            send(&mut other, &mut other_pool, &[of_flow(1)]);
        }
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = peer.recv_from(&mut buffer) {
            assert!(from.port() >= 0xC000, "{from}");
            ports.entry(buffer[..len].to_vec()).or_default().insert(from.port());
        }
        assert_eq!(ports.len(), 320, "every flow has arrived");
        assert!(ports.values().all(|p| p.len() == 1), "a flow keeps its source port");
        let all: BTreeSet<u16> = ports.values().flatten().copied().collect();
        assert_eq!(all.len(), 16, "{all:?}");
        close(pool, port);
        close(other_pool, other);
    });
}

#[test]
fn a_peer_that_does_not_listen_harms_nothing() {
    net::in_quiet_namespace("refused", || {
        lay_out();
        let (mut pool, mut port) = open(ends());
        for n in 0..20 {
            send(&mut port, &mut pool, &[frame(60, n), frame(60, n)]);
        }
        let stats = port.stats();
        assert_eq!((stats.tx_packets, stats.tx_rejected), (40, 0));
        assert!(stats.tx_refused > 0, "the ICMP answers are counted");
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Up, "the way is there");
        // It listens at last.
        let peer = roomy_socket(address(2));
        send(&mut port, &mut pool, &[frame(60, 99)]);
        let mut buffer = [0; 2048];
        let got = gather(1, "the frame at the peer", || {
            peer.recv(&mut buffer).map_or(vec![], |len| vec![buffer[..len].to_vec()])
        });
        assert_eq!(got, [frame(60, 99)]);
        close(pool, port);
    });
}

#[test]
fn the_path_says_how_long_frames_may_be() {
    net::in_quiet_namespace("path", || {
        lay_out();
        let (mut pool, mut port) = open(ends());
        assert_eq!(port.capabilities().max_frame, 1700 - 28);
        net::ip("link set lo mtu 1500");
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Up);
        assert_eq!(port.capabilities().max_frame, 1472);
        send(&mut port, &mut pool, &[frame(1473, 1), frame(1472, 2)]);
        assert_eq!((port.stats().tx_packets, port.stats().tx_rejected), (1, 1));
        // The path is shorter than was known a moment ago.
        net::ip("link set lo mtu 1400");
        send(&mut port, &mut pool, &[frame(1472, 1), frame(1372, 2)]);
        assert_eq!((port.stats().tx_packets, port.stats().tx_rejected), (2, 2));
        net::ip("link set lo mtu 65536");
        port.maintain(Time::ZERO, &mut pool);
        assert_eq!(port.capabilities().max_frame, pool.max_len(), "what the pool's frames hold");
        close(pool, port);
    });
}

#[test]
fn without_a_route_or_an_address_the_link_is_down() {
    net::in_quiet_namespace("routes", || {
        net::ip("link set lo up");
        net::veth("near", "far");
        let ends = UdpEnds { local: address(1), peer: ([198, 51, 100, 2], 18_773).into() };
        let (mut pool, mut port) = open(ends);
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Down, "no address yet");
        assert!(port.fd().is_none());
        net::ip("address add 192.0.2.1/24 dev near");
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Down, "no route yet");
        net::ip("route add 198.51.100.0/24 via 192.0.2.2");
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Up);
        send(&mut port, &mut pool, &[frame(60, 1)]);
        // Removed before the next call: sent packets stay with the caller.
        net::ip("route del 198.51.100.0/24");
        assert_takes_nothing(&mut port, &mut pool);
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Down);
        assert_eq!(port.stats().link_downs, 1);
        close(pool, port);
    });
}

#[test]
fn a_port_number_in_use_and_mixed_families_are_refused() {
    net::in_quiet_namespace("busy", || {
        lay_out();
        let (mut pool, port) = open(ends());
        let error = UdpPort::open("again", ends(), &mut pool).err().unwrap();
        assert!(matches!(error, OpenError::Busy { .. }), "{error}");
        let mixed = UdpEnds { peer: "[2001:db8::1]:18773".parse().unwrap(), ..ends() };
        let error = UdpPort::open("mixed", mixed, &mut pool).err().unwrap();
        assert!(matches!(error, OpenError::Invalid { .. }), "{error}");
        close(pool, port);
    });
}
