//! A host or a router of somebody else's: it asks for link addresses and answers who asks for its
//! own, answers pings, and keeps what it was sent.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plexus_wire::MacAddr;

use super::packet::{ARP, IPV4, IPV6, Seen, frame, icmp, read, v4, v6};

pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) addresses: Vec<IpAddr>,
    gateways: Vec<IpAddr>,
    /// Link addresses that it knows.
    pub(crate) cache: BTreeMap<IpAddr, MacAddr>,
    waiting: Vec<(IpAddr, Vec<u8>)>,
    /// It answers; otherwise it hears nothing.
    pub(crate) is_alive: bool,
    /// Questions for its link address that it has answered.
    pub(crate) asked: usize,
    /// IP packets to its link address, but for those about link addresses.
    pub(crate) received: Vec<Vec<u8>>,
    /// Frames that it sends.
    pub(crate) out: Vec<Vec<u8>>,
}

impl Host {
    pub(crate) fn new(mac: MacAddr, addresses: &[IpAddr], gateways: &[IpAddr]) -> Host {
        Host {
            mac,
            addresses: addresses.to_vec(),
            gateways: gateways.to_vec(),
            cache: BTreeMap::new(),
            waiting: Vec::new(),
            is_alive: true,
            asked: 0,
            received: Vec::new(),
            out: Vec::new(),
        }
    }

    pub(crate) fn address(&self, like: IpAddr) -> IpAddr {
        let mut all = self.addresses.iter();
        *all.find(|a| a.is_ipv4() == like.is_ipv4()).expect("it has an address of the family")
    }

    /// Sends a packet by its gateway, which it asks for first.
    pub(crate) fn send(&mut self, packet: Vec<u8>) {
        let is_v4 = packet[0] >> 4 == 4;
        let mut gateways = self.gateways.iter();
        let next = *gateways.find(|g| g.is_ipv4() == is_v4).expect("it has a gateway");
        if let Some(mac) = self.cache.get(&next) {
            let ethertype = if is_v4 { IPV4 } else { IPV6 };
            return self.out.push(frame(*mac, self.mac, ethertype, &packet));
        }
        self.waiting.push((next, packet));
        self.ask(next);
    }

    fn ask(&mut self, target: IpAddr) {
        match (self.address(target), target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let ask = self.arp(1, own.octets(), MacAddr([0; 6]), target.octets());
                self.out.push(frame(MacAddr::BROADCAST, self.mac, ARP, &ask));
            }
            (own, IpAddr::V6(to)) => {
                let octets = to.octets();
                let mut group = [0; 16];
                group[..2].copy_from_slice(&[0xFF, 2]);
                group[11..13].copy_from_slice(&[1, 0xFF]);
                group[13..].copy_from_slice(&octets[13..]);
                let option = [&[1, 1][..], &self.mac.0].concat();
                let data = [&octets[..], &option].concat();
                let ask = icmp((own, v6(&group)), 255, [135, 0], [0; 4], &data);
                let to = MacAddr([0x33, 0x33, 0xFF, octets[13], octets[14], octets[15]]);
                self.out.push(frame(to, self.mac, IPV6, &ask));
            }
            _ => panic!("{target} is of another family"),
        }
    }

    fn arp(&self, operation: u8, own: [u8; 4], to: MacAddr, target: [u8; 4]) -> Vec<u8> {
        let head = [0, 1, 8, 0, 6, 4, 0, operation];
        [&head[..], &self.mac.0, &own, &to.0, &target].concat()
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        let waits = self.waiting.iter().any(|(next, _)| *next == address);
        if waits || self.cache.contains_key(&address) {
            self.cache.insert(address, mac);
        }
        for (_, packet) in self.waiting.extract_if(.., |(next, _)| *next == address) {
            let ethertype = if packet[0] >> 4 == 4 { IPV4 } else { IPV6 };
            self.out.push(frame(mac, self.mac, ethertype, &packet));
        }
    }

    /// A frame has come.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        let to = MacAddr(bytes[..6].try_into().expect("a whole header"));
        let is_group = to.0[0] & 1 == 1;
        if !self.is_alive || !(to == self.mac || is_group) {
            return;
        }
        let from = MacAddr(bytes[6..12].try_into().expect("a whole header"));
        assert_ne!(from, self.mac, "its own address comes back");
        match (u16::from_be_bytes([bytes[12], bytes[13]]), &bytes[14..]) {
            (ARP, arp) => self.hear_arp(arp),
            (IPV6, packet) if packet[6] == 58 && matches!(packet[40], 135 | 136) => {
                self.hear_nd(packet, from);
            }
            (_, packet) => {
                assert!(!is_group, "an IP packet to everybody: {packet:02x?}");
                self.received.push(packet.to_vec());
            }
        }
    }

    fn hear_arp(&mut self, arp: &[u8]) {
        let mac = MacAddr(arp[8..14].try_into().expect("a whole packet"));
        let (sender, target) = (v4(&arp[14..18]), v4(&arp[24..28]));
        self.learn(sender, mac);
        if arp[7] == 1 && self.addresses.contains(&target) {
            self.asked += 1;
            let octets = |at: usize| [arp[at], arp[at + 1], arp[at + 2], arp[at + 3]];
            let answer = self.arp(2, octets(24), mac, octets(14));
            self.out.push(frame(mac, self.mac, ARP, &answer));
        }
    }

    fn hear_nd(&mut self, packet: &[u8], from: MacAddr) {
        let Seen::Icmp { src, kind, data, .. } = read(packet) else { return };
        assert_eq!(packet[7], 255, "neighbour discovery that a router has touched");
        let target = v6(&data[..16]);
        if kind == 136 {
            let mac = MacAddr(data[18..24].try_into().expect("a link address"));
            assert_eq!(data[16..18], [2, 1]);
            return self.learn(target, mac);
        }
        if self.addresses.contains(&target) {
            self.asked += 1;
            let answer = [&data[..16], &[2, 1], &self.mac.0].concat();
            // Solicited, and counts more than what is known.
            let answer = icmp((target, src), 255, [136, 0], [0x60, 0, 0, 0], &answer);
            self.out.push(frame(from, self.mac, IPV6, &answer));
        }
    }

    /// What it has received since it was last asked.
    pub(crate) fn take(&mut self) -> Vec<Seen> {
        self.received.drain(..).map(|packet| read(&packet)).collect()
    }

    /// The numbers of the datagrams that it has received since it was last asked.
    pub(crate) fn take_ids(&mut self) -> Vec<u32> {
        let numbers = self.take().into_iter().filter_map(|seen| match seen {
            Seen::Datagram { id, .. } => Some(id),
            _ => None,
        });
        numbers.collect()
    }
}
