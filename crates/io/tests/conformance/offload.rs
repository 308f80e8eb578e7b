//! Checksum and segmentation state crosses the kernel unharmed, and a worker can sleep on ports.

use std::os::fd::AsRawFd;
use std::time::Duration;

use plexus_config::Backend;
use plexus_io::af_packet::Only;
use plexus_io::spec::{self, PortSpec};
use plexus_io::wake::Sleeper;
use plexus_io::{Batch, Checksum, Link, Offload, Packet, Pool, Port, SUPER_FRAME, Segmentation};
use plexus_wire::checksum::Sum;
use plexus_wire::{MacAddr, Protocol, Time, ipv4, udp};

use crate::benches::Station;
use crate::net;
use crate::suite::{assert_takes_nothing, take, wait};

const HEADERS: usize = 14 + 20 + 20;

/// A TCP segment over IPv4 with an unfinished checksum and this many bytes of payload.
fn segment(pool: &mut Pool, payload: usize, segment_size: u16) -> Packet {
    let ip_len = (20 + 20 + payload).min(65_535) as u16;
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    bytes.extend([0x45, 0]);
    bytes.extend(ip_len.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend([4, 0, 5, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    bytes.extend((0..payload).map(|i| i as u8));
    let mut packet = pool.alloc_from(&bytes).unwrap();
    packet.offload = Offload {
        checksum: Checksum::Partial,
        checksum_start: 34,
        checksum_offset: 16,
        ..Offload::NONE
    };
    if segment_size > 0 {
        packet.offload.segmentation = Segmentation::TcpV4;
        packet.offload.segment_size = segment_size;
        packet.offload.header_len = HEADERS as u16;
    }
    packet
}

fn open(device: &str, backend: Backend, pool: &mut Pool) -> Box<dyn Port> {
    let spec =
        PortSpec { name: device.into(), device: device.into(), backend, ..PortSpec::default() };
    let mut opened = spec::open(&spec, pool).unwrap();
    assert_eq!(opened.backend, backend);
    wait(|| opened.port.maintain(Time::ZERO, pool) == Link::Up, "the link to come up");
    opened.port
}

fn pass(
    from: (&mut Box<dyn Port>, &mut Pool),
    to: (&mut Box<dyn Port>, &mut Pool),
    packet: Packet,
) -> (Offload, Vec<u8>) {
    let mut batch = Batch::new();
    batch.push(packet);
    from.0.transmit(Time::ZERO, from.1, &mut batch);
    assert_eq!((batch.len(), from.0.stats().tx_rejected), (0, 0));
    wait(|| to.0.receive(Time::ZERO, to.1, &mut batch) > 0, "the packet");
    let packet = batch.pop().unwrap();
    let result = (packet.offload, to.1.data(&packet).to_vec());
    to.1.free(packet);
    result
}

/// Between a back-end and a packet socket, in both directions.
fn round_trip(a: (&str, Backend), b: (&str, Backend)) {
    let mut pool_a = Pool::new(64, SUPER_FRAME).unwrap();
    let mut pool_b = Pool::new(64, SUPER_FRAME).unwrap();
    let mut port_a = open(a.0, a.1, &mut pool_a);
    let mut port_b = open(b.0, b.1, &mut pool_b);
    for (payload, size) in [(100, 0), (3000, 1000), (60_000, 1448)] {
        for _ in 0..2 {
            let packet = segment(&mut pool_a, payload, size);
            let (mut owed, bytes) = (packet.offload, pool_a.data(&packet).to_vec());
            let sender = (&mut port_a, &mut pool_a);
            let (mut got, arrived) = pass(sender, (&mut port_b, &mut pool_b), packet);
            // How much of the frame the kernel keeps in one piece is its own affair.
            if size > 0 {
                assert!(usize::from(got.header_len) >= HEADERS);
            }
            (owed.header_len, got.header_len) = (0, 0);
            assert_eq!(got, owed);
            assert!(arrived == bytes, "{payload} bytes of payload");
            std::mem::swap(&mut port_a, &mut port_b);
            std::mem::swap(&mut pool_a, &mut pool_b);
        }
    }
    port_a.close(&mut pool_a);
    port_b.close(&mut pool_b);
    assert_eq!((pool_a.available(), pool_b.available()), (64, 64));
}

#[test]
fn packet_sockets_carry_what_is_owed() {
    net::in_quiet_namespace("owed", || {
        net::veth("near", "far");
        round_trip(("near", Backend::AfPacket), ("far", Backend::AfPacket));
    });
}

#[test]
fn tap_devices_carry_what_is_owed() {
    net::in_quiet_namespace("owed_tap", || {
        net::ip("tuntap add mode tap vnet_hdr name near");
        net::ip("link set near up");
        round_trip(("near", Backend::Tap), ("near", Backend::AfPacket));
    });
}

/// An earlier user of a device that lasts has set the length of the header of virtio 1.0.
#[test]
fn a_tap_device_that_had_longer_headers_carries_what_is_owed() {
    net::in_quiet_namespace("owed_tap_again", || {
        net::ip("tuntap add mode tap vnet_hdr name near");
        net::ip("link set near up");
        let earlier = std::fs::File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: a structure of integers and bytes, of which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, byte) in request.ifr_name.iter_mut().zip(b"near") {
            *to = *byte as libc::c_char;
        }
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        let len: libc::c_int = 12;
        // SAFETY: the calls read and write one structure, and read one integer.
        let done = unsafe {
            [
                libc::ioctl(earlier.as_raw_fd(), libc::TUNSETIFF, &raw mut request),
                libc::ioctl(earlier.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len),
            ]
        };
        assert_eq!(done, [0, 0]);
        drop(earlier);
        round_trip(("near", Backend::Tap), ("near", Backend::AfPacket));
    });
}

#[test]
fn a_super_packet_that_does_not_fit_is_counted() {
    net::in_quiet_namespace("too_long", || {
        net::veth("near", "far");
        let mut large = Pool::new(8, SUPER_FRAME).unwrap();
        let mut small = Pool::new(8, 2048).unwrap();
        let mut from = open("near", Backend::AfPacket, &mut large);
        let mut to = open("far", Backend::AfPacket, &mut small);
        assert!(from.capabilities().segmentation && !to.capabilities().segmentation);
        let mut batch = Batch::new();
        batch.push(segment(&mut large, 5000, 1000));
        from.transmit(Time::ZERO, &mut large, &mut batch);
        wait(
            || {
                to.receive(Time::ZERO, &mut small, &mut batch);
                to.stats().rx_invalid == 1
            },
            "the packet to be counted",
        );
        assert!(batch.is_empty());
        to.close(&mut small);
        assert_eq!(small.available(), 8);
    });
}

#[test]
fn a_worker_sleeps_until_a_packet_or_its_time_comes() {
    net::in_quiet_namespace("sleep", || {
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut outside = Pool::new(64, 2048).unwrap();
        let mut ports =
            [open("a0", Backend::AfXdp, &mut pool), open("b0", Backend::AfPacket, &mut pool)];
        let (mut sleeper, _waker) = Sleeper::new().unwrap();
        for (i, far) in ["a1", "b1"].into_iter().enumerate() {
            let mut station = open(far, Backend::AfPacket, &mut outside);
            let fds = ports.iter().filter_map(|p| p.fd());
            sleeper.sleep(fds, Some(Duration::ZERO)).unwrap();
            let mut batch = Batch::new();
            batch.push(outside.alloc_from(&[i as u8; 60]).unwrap());
            station.transmit(Time::ZERO, &mut outside, &mut batch);
            // Without a timeout: if the packet does not wake it, the test's limit ends it.
            sleeper.sleep(ports.iter().filter_map(|p| p.fd()), None).unwrap();
            wait(|| ports[i].receive(Time::ZERO, &mut pool, &mut batch) == 1, "the packet");
            batch.drain(..).for_each(|p| pool.free(p));
            station.close(&mut outside);
        }
        ports.iter_mut().for_each(|p| p.close(&mut pool));
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_lost_carrier_is_a_link_that_is_down() {
    net::in_quiet_namespace("carrier", || {
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        let mut pool = Pool::new(512, 2048).unwrap();
        for (near, far, backend) in [("a0", "a1", Backend::AfXdp), ("b0", "b1", Backend::AfPacket)]
        {
            let mut port = open(near, backend, &mut pool);
            net::ip(&format!("link set {far} down"));
            wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Down, "the link to go down");
            assert_takes_nothing(port.as_mut(), &mut pool);
            net::ip(&format!("link set {far} up"));
            wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to return");
            assert_eq!(port.stats().link_downs, 1);
            port.close(&mut pool);
        }
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn auto_takes_what_the_device_can_do_and_says_so() {
    net::in_quiet_namespace("auto", || {
        net::veth("a0", "a1");
        let spec = PortSpec { name: "p".into(), device: "a0".into(), ..PortSpec::default() };
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut opened = spec::open(&spec, &mut pool).unwrap();
        assert_eq!(opened.backend, Backend::AfXdp, "{}", opened.how);
        assert!(opened.how.contains("native"));
        opened.port.close(&mut pool);
        // Too large an MTU for native XDP, and for the frames: a packet socket, and why.
        net::ip("link set a0 mtu 9000");
        let mut opened = spec::open(&spec, &mut pool).unwrap();
        assert_eq!(opened.backend, Backend::AfPacket);
        assert!(opened.how.contains("MTU of 9000"), "{}", opened.how);
        opened.port.close(&mut pool);
        assert_eq!(pool.available(), 512);
    });
}

/// Specifications of ports on these devices, with these back-ends.
fn specs(ports: &[(&str, Backend)]) -> Vec<PortSpec> {
    let spec = |&(device, backend): &(&str, Backend)| PortSpec {
        name: device.into(),
        device: device.into(),
        backend,
        ..PortSpec::default()
    };
    ports.iter().map(spec).collect()
}

fn backends(share: &spec::Share) -> Vec<Backend> {
    share.ports.iter().map(|p| p.backend).collect()
}

/// Hosts behind virtual devices send super-packets: `auto` opens packet sockets there, with frames
/// large enough for them.
#[test]
fn auto_ports_lose_no_super_packet_of_virtual_devices() {
    net::in_quiet_namespace("macvlan", || {
        net::veth("v0", "v1");
        net::ip("link add m0 link v0 type macvlan mode bridge");
        net::ip("link add m1 link v0 type macvlan mode bridge");
        net::ip("link set m0 up");
        net::ip("link set m1 up");
        net::veth("a0", "a1");
        let both = specs(&[("a0", Backend::Auto), ("m0", Backend::Auto)]);
        let mut share = spec::open_all(&both, 64).map_err(|(_, e)| e).unwrap();
        assert_eq!(backends(&share), [Backend::AfPacket; 2]);
        for (opened, driver) in share.ports.iter().zip(["veth", "macvlan"]) {
            let why = format!("not AF_XDP: {driver} is a virtual device");
            assert!(opened.how.contains(&why), "{}", opened.how);
        }
        assert_eq!(share.pool.frame_size(), SUPER_FRAME);
        let mut outside = Pool::new(64, SUPER_FRAME).unwrap();
        let mut from = open("m1", Backend::AfPacket, &mut outside);
        let mut packet = segment(&mut outside, 60_000, 1448);
        // To all, so that the macvlan bridge passes it on.
        outside.data_mut(&mut packet)[..6].fill(0xFF);
        let port = &mut share.ports[1].port;
        wait(|| port.maintain(Time::ZERO, &mut share.pool) == Link::Up, "the link to come up");
        let (owed, _) = pass((&mut from, &mut outside), (port, &mut share.pool), packet);
        assert_eq!(owed.segmentation, Segmentation::TcpV4);
        assert_eq!(port.stats().rx_invalid, 0);
        share.ports.iter_mut().for_each(|p| p.port.close(&mut share.pool));
        assert_eq!(share.pool.available(), share.pool.frames());
    });
}

#[test]
fn auto_ports_agree_with_the_ports_that_are_set() {
    net::in_quiet_namespace("resolve", || {
        net::veth("v0", "v1");
        net::ip("link add m0 link v0 type macvlan mode bridge");
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        use Backend::{AfPacket, AfXdp, Auto, Tap};
        for (ports, expected, frame_size) in [
            (vec![("a0", Auto), ("b0", Auto)], vec![AfPacket, AfPacket], SUPER_FRAME),
            (vec![("a0", Auto), ("b0", AfXdp)], vec![AfXdp, AfXdp], 2048),
            (vec![("a0", Auto), ("b0", AfPacket)], vec![AfPacket, AfPacket], SUPER_FRAME),
            (vec![("a0", Auto), ("m0", Auto), ("b0", AfXdp)], vec![AfXdp, AfPacket, AfXdp], 2048),
            (vec![("a0", Auto), ("t0", Tap)], vec![AfPacket, Tap], SUPER_FRAME),
        ] {
            let specs = specs(&ports);
            let mut share = spec::open_all(&specs, 64).map_err(|(_, e)| e).unwrap();
            assert_eq!(backends(&share), expected, "{ports:?}");
            assert_eq!(share.pool.frame_size(), frame_size, "{ports:?}");
            share.ports.iter_mut().for_each(|p| p.port.close(&mut share.pool));
            assert_eq!(share.pool.available(), share.pool.frames());
        }
        // A device that is missing is the port's fault, by whatever back-end.
        let missing = specs(&[("a0", Auto), ("no-such-dev", Auto)]);
        let (port, error) = spec::open_all(&missing, 64).err().unwrap();
        assert_eq!(port, Some(1), "{error}");
    });
}

#[test]
fn a_port_follows_the_mtu_of_its_device() {
    net::in_quiet_namespace("mtu", || {
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        let mut pool = Pool::new(512, 2048).unwrap();
        for (device, backend) in
            [("a0", Backend::AfXdp), ("b0", Backend::AfPacket), ("t0", Backend::Tap)]
        {
            let mut port = open(device, backend, &mut pool);
            assert_eq!(port.capabilities().max_frame, 1514);
            net::ip(&format!("link set {device} mtu 1400"));
            port.maintain(Time::ZERO, &mut pool);
            assert_eq!(port.capabilities().max_frame, 1414, "{backend}");
            let mut batch = Batch::new();
            batch.push(pool.alloc_from(&[1; 1500]).unwrap());
            port.transmit(Time::ZERO, &mut pool, &mut batch);
            assert_eq!((batch.len(), port.stats().tx_rejected), (0, 1), "{backend}");
            port.close(&mut pool);
        }
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_packet_socket_for_one_protocol_leaves_the_device_and_the_rest_to_the_kernel() {
    net::in_quiet_namespace("only", || {
        net::veth("a0", "a1");
        let group = MacAddr([0x01, 0, 0x5E, 0, 0x17, 0xAA]);
        let only = Some(Only { ethertype: 0x8624, group });
        let spec = |backend| PortSpec {
            name: "p".into(),
            device: "a0".into(),
            backend,
            only,
            ..PortSpec::default()
        };
        let mut opened = spec::open_all(&[spec(Backend::AfPacket)], 0).unwrap();
        let (pool, port) = (&mut opened.pool, &mut opened.ports[0].port);
        // It has no super-packets.
        assert_eq!(pool.frame_size(), 2048);
        let shown = net::ip("-d link show a0");
        assert!(shown.contains("promiscuity 0 "), "{shown}");
        let mut station = Station::on("a1");
        station.wait();
        wait(|| port.maintain(Time::ZERO, pool) == Link::Up, "the link to come up");
        let own = plexus_io::device_facts("a0").unwrap().mac;
        let frame = |to: MacAddr, kind: u16, last: u8| {
            let head = [&to.0[..], &[2, 0, 0, 0, 0, 9], &kind.to_be_bytes()].concat();
            [head, vec![last; 50]].concat()
        };
        let wanted = [frame(group, 0x8624, 1), frame(own, 0x8624, 2)];
        let others = [frame(own, 0x0800, 3), frame(MacAddr::BROADCAST, 0x0806, 4)];
        station.send(&[&others[..], &wanted].concat());
        assert_eq!(take(port.as_mut(), pool, wanted.len()), wanted);
        port.close(pool);
    });
}

/// Packets of the kernel's own sockets over a device with default offloads: either the port reports
/// the unfinished checksum and its position, or the checksum is complete.
#[test]
fn checksums_that_the_kernel_left_to_its_device_are_owed_or_right() {
    net::in_quiet_namespace("default_offloads", || {
        net::veth("x0", "x1");
        net::veth("p0", "p1");
        let mut pool = Pool::new(512, 2048).unwrap();
        for (device, host, backend) in [
            ("x1", "x0", Backend::AfXdp),
            ("p1", "p0", Backend::AfPacket),
            ("t0", "t0", Backend::Tap),
        ] {
            let mut port = open(device, backend, &mut pool);
            net::ip(&format!("address add 192.0.2.1/24 dev {host}"));
            let mac = "lladdr 02:00:00:00:00:02";
            net::ip(&format!("neigh replace 192.0.2.2 {mac} dev {host} nud permanent"));
            let socket = std::net::UdpSocket::bind("192.0.2.1:1000").unwrap();
            socket.send_to(&[7; 333], "192.0.2.2:2000").unwrap();
            let (mut frame, owed) = wait_for_udp(&mut port, &mut pool);
            if owed.checksum == Checksum::Partial {
                assert_eq!((owed.checksum_start, owed.checksum_offset), (34, 6), "{backend}");
                let sum = Sum::new().with(&frame[34..]).finish_udp();
                frame[40..42].copy_from_slice(&sum.to_be_bytes());
            }
            let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
            let udp = udp::Datagram::new_checked(ip.payload()).unwrap();
            let len = udp.datagram_len() as u16;
            let pseudo = Sum::pseudo_v4(ip.src(), ip.dst(), Protocol::UDP, len);
            assert!(udp.checksum_ok(pseudo), "{backend}");
            net::ip(&format!("address del 192.0.2.1/24 dev {host}"));
            port.close(&mut pool);
        }
        assert_eq!(pool.available(), 512);
    });
}

/// The next UDP datagram that arrives; the kernel says other things too.
fn wait_for_udp(port: &mut Box<dyn Port>, pool: &mut Pool) -> (Vec<u8>, Offload) {
    let mut found = None;
    let mut look = || {
        let mut batch = Batch::new();
        port.receive(Time::ZERO, pool, &mut batch);
        for packet in batch.drain(..) {
            let frame = pool.data(&packet);
            if frame[12..14] == [8, 0] && frame[23] == 17 {
                found = Some((frame.to_vec(), packet.offload));
            }
            pool.free(packet);
        }
        found.is_some()
    };
    wait(&mut look, "the datagram");
    found.unwrap()
}
