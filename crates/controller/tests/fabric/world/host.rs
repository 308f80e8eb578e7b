//! Hosts: they know nothing of the fabric. They use ARP, send numbered UDP packets, and accept
//! packets addressed to them; anything else that reaches one is a failure of the fabric.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::dhcpv4::{self, MessageType};
use plexus_wire::fabric::encapsulation;
use plexus_wire::{EtherType, MacAddr, Protocol, arp, ethernet, frame, ipv4, udp};

use super::{End, World};

/// Destination port of numbered packets.
const NUMBERED: u16 = 9000;

pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) ip: Ipv4Addr,
    /// Where it sends packets for other networks; its own has 24 bits.
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) arp: HashMap<Ipv4Addr, MacAddr>,
    /// Packets that wait for a link address: destination, next hop and number.
    waiting: Vec<(Ipv4Addr, Ipv4Addr, u32)>,
    pub(crate) received: Vec<(MacAddr, u32)>,
    /// The time to live of the last of them.
    pub(crate) ttl: u8,
    /// ICMP messages: sender, type and code.
    pub(crate) icmp: Vec<(Ipv4Addr, u8, u8)>,
    /// The MTUs that such messages have told.
    pub(crate) mtus: Vec<u16>,
    /// Fragments, as IP packets in the order in which they came.
    pub(crate) fragments: Vec<Vec<u8>>,
    pub(crate) dhcp: Vec<dhcpv4::Repr>,
    /// It sends packets for others to its gateway, and has sent so many.
    pub(crate) forwards: Option<u32>,
    /// It also accepts frames for others: an attacker with many addresses.
    pub(crate) is_promiscuous: bool,
    /// It does not answer.
    pub(crate) is_mute: bool,
    /// Its multicast groups, and whether it answers queries for them.
    pub(crate) groups: BTreeSet<IpAddr>,
    pub(crate) answers_queries: bool,
}

impl Host {
    pub(crate) fn new(id: usize) -> Host {
        let n = id as u8 + 1;
        Host {
            mac: MacAddr([2, 0, 0, 0, 0, n]),
            ip: Ipv4Addr::new(10, 0, 0, n),
            gateway: None,
            arp: HashMap::new(),
            waiting: vec![],
            received: vec![],
            ttl: 0,
            icmp: vec![],
            mtus: vec![],
            fragments: vec![],
            dhcp: vec![],
            forwards: None,
            is_promiscuous: false,
            is_mute: false,
            groups: BTreeSet::new(),
            answers_queries: true,
        }
    }
}

impl Host {
    /// Whether an address is in its network.
    pub(crate) fn is_near(&self, ip: Ipv4Addr) -> bool {
        self.ip.octets()[..3] == ip.octets()[..3]
    }
}

/// A UDP packet in its frame.
pub(crate) fn packet(
    (src, from): (MacAddr, Ipv4Addr),
    (dst, to): (MacAddr, Ipv4Addr),
    ports: (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    frame::udp((src, dst), (from.into(), to.into()), ports, payload).unwrap()
}

/// An IPv4 packet as a router sends it on.
fn forwarded_by(src: MacAddr, dst: MacAddr, bytes: &[u8]) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    ethernet::Repr { dst, src, ethertype: EtherType::IPV4 }.emit(&mut frame).unwrap();
    // The time to live.
    frame[22] -= 1;
    ipv4::Packet::new_checked(&mut frame[14..]).unwrap().fill_checksum();
    frame
}

/// An ARP frame.
pub(crate) fn arp_frame(
    dst: MacAddr,
    operation: arp::Operation,
    (sender_mac, sender_ip): (MacAddr, Ipv4Addr),
    (target_mac, target_ip): (MacAddr, Ipv4Addr),
) -> Vec<u8> {
    frame::arp(dst, &arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip })
}

impl World {
    /// A host's frame, as it is.
    pub(crate) fn emit(&mut self, host: usize, frame: Vec<u8>) {
        self.transmit(End::Host(host), frame);
    }

    /// A host sends a numbered packet to another's address, resolving it first if needed.
    pub(crate) fn send(&mut self, from: usize, to: Ipv4Addr, number: u32) {
        let host = &mut self.hosts[from];
        let by = host.gateway.filter(|_| !host.is_near(to)).unwrap_or(to);
        match host.arp.get(&by).copied() {
            Some(mac) => self.data(from, (mac, to), number),
            None => {
                host.waiting.push((to, by, number));
                self.ask(from, by);
            }
        }
    }

    pub(crate) fn data(&mut self, from: usize, to: (MacAddr, Ipv4Addr), number: u32) {
        let own = (self.hosts[from].mac, self.hosts[from].ip);
        let ports = (10_000 + (number % 1000) as u16, NUMBERED);
        self.emit(from, packet(own, to, ports, &number.to_be_bytes()));
    }

    pub(crate) fn ask(&mut self, from: usize, ip: Ipv4Addr) {
        let own = (self.hosts[from].mac, self.hosts[from].ip);
        let (request, target) = (arp::Operation::REQUEST, (MacAddr::default(), ip));
        self.emit(from, arp_frame(MacAddr::BROADCAST, request, own, target));
    }

    /// A gratuitous ARP.
    pub(crate) fn announce(&mut self, host: usize) {
        let ip = self.hosts[host].ip;
        self.ask(host, ip);
    }

    pub(crate) fn host_frame(&mut self, h: usize, bytes: &[u8]) {
        let frame = ethernet::Frame::new_checked(bytes).unwrap();
        let host = &mut self.hosts[h];
        if frame.dst() != host.mac && !frame.dst().is_multicast() {
            assert!(host.is_promiscuous, "host {h} got a frame for {}", frame.dst());
        }
        match frame.ethertype() {
            EtherType::ARP => {
                let packet = arp::Packet::new_checked(frame.payload()).unwrap();
                let repr = arp::Repr::parse(&packet).unwrap();
                self.host_arp(h, &repr);
            }
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(frame.payload()).unwrap();
                if ip.dst().is_multicast() {
                    return self.group_frame(h, bytes);
                }
                if ip.dst() != host.ip
                    && let Some(forwarded) = &mut host.forwards
                {
                    *forwarded += 1;
                    let gateway = host.gateway.map(|ip| host.arp[&ip]);
                    let own = host.mac;
                    return self.emit(h, forwarded_by(own, gateway.expect("a gateway"), bytes));
                }
                if ip.more_fragments() || ip.fragment_offset() > 0 {
                    assert!(ip.checksum_ok(), "host {h} got a damaged header");
                    return host.fragments.push(frame.payload()[..ip.total_len()].to_vec());
                }
                if ip.protocol() == Protocol::ICMPV4 {
                    assert!(ip.checksum_ok() && (host.is_promiscuous || ip.dst() == host.ip));
                    let message = ip.payload();
                    if message[..2] == [3, 4] {
                        host.mtus.push(u16::from_be_bytes([message[6], message[7]]));
                    }
                    return host.icmp.push((ip.src(), message[0], message[1]));
                }
                let datagram = udp::Datagram::new_checked(ip.payload()).unwrap();
                let pseudo = Sum::pseudo_v4(
                    ip.src(),
                    ip.dst(),
                    Protocol::UDP,
                    datagram.datagram_len() as u16,
                );
                assert!(datagram.checksum_ok(pseudo), "host {h} got a damaged packet");
                match datagram.dst_port() {
                    NUMBERED => {
                        assert!(host.is_promiscuous || ip.dst() == host.ip);
                        let number = datagram.payload()[..4].try_into().unwrap();
                        assert!(ip.checksum_ok(), "host {h} got a damaged header");
                        host.received.push((frame.src(), u32::from_be_bytes(number)));
                        host.ttl = ip.ttl();
                    }
                    dhcpv4::CLIENT_PORT => {
                        let packet = dhcpv4::Packet::new_checked(datagram.payload()).unwrap();
                        host.dhcp.push(dhcpv4::Repr::parse(&packet).unwrap());
                    }
                    _ => {}
                }
            }
            EtherType::IPV6 => self.group_frame(h, bytes),
            // Hosts ignore unknown frames; of the fabric they may see only Hellos.
            encapsulation::ETHERTYPE => assert_eq!(frame.dst(), encapsulation::NEAREST_BRIDGE),
            other => panic!("host {h} got a frame of type {other:?}"),
        }
    }

    fn host_arp(&mut self, h: usize, repr: &arp::Repr) {
        let host = &mut self.hosts[h];
        if host.is_mute {
            return;
        }
        if !repr.sender_ip.is_unspecified() {
            host.arp.insert(repr.sender_ip, repr.sender_mac);
        }
        let own = (host.mac, host.ip);
        if repr.operation == arp::Operation::REQUEST && repr.target_ip == host.ip {
            let to = (repr.sender_mac, repr.sender_ip);
            self.emit(h, arp_frame(to.0, arp::Operation::REPLY, own, to));
        }
        let waiting = std::mem::take(&mut self.hosts[h].waiting);
        for (to, by, number) in waiting {
            match self.hosts[h].arp.get(&by).copied() {
                Some(mac) => self.data(h, (mac, to), number),
                None => self.hosts[h].waiting.push((to, by, number)),
            }
        }
    }

    /// A DHCP client's message.
    pub(crate) fn dhcp(&mut self, host: usize, kind: MessageType, wanted: Option<Ipv4Addr>) {
        let none = Ipv4Addr::UNSPECIFIED;
        let mac = self.hosts[host].mac;
        let wanted = wanted
            .map(|ip| dhcpv4::DhcpOption::addresses(dhcpv4::option::REQUESTED_ADDRESS, &[ip]));
        let repr = dhcpv4::Repr {
            is_request: true,
            hops: 0,
            xid: 7,
            secs: 0,
            broadcast: false,
            ciaddr: none,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            chaddr: mac,
            message_type: kind,
            options: wanted.into_iter().collect(),
        };
        let mut payload = vec![0; repr.buffer_len()];
        repr.emit(&mut payload).unwrap();
        let to = (MacAddr::BROADCAST, Ipv4Addr::BROADCAST);
        let ports = (dhcpv4::CLIENT_PORT, dhcpv4::SERVER_PORT);
        self.emit(host, packet((mac, none), to, ports, &payload));
    }
}
