//! The same packet at several ports: with the fabric's header or without, before a box has routed
//! it and after.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use plexus_wire::fabric::{self, Kind, encapsulation};
use plexus_wire::{EtherType, Protocol, describe, ethernet, ipv4, ipv6};

/// The fields of an IP packet that no box on the way changes: addresses, and a hash of the rest but
/// the time to live and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) rest: u64,
}

/// An IP packet as it passes a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: Key,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Hops that its fabric header has left, and that it has behind it; absent: it has no header.
    pub(crate) hops: Option<(usize, usize)>,
    /// In a line.
    pub(crate) text: String,
}

/// The packet in a frame, if there is one.
pub(crate) fn seen(frame: &[u8]) -> Option<Seen> {
    let plain = |frame: &[u8], hops| {
        let (key, ttl) = key(frame)?;
        Some(Seen { key, ttl, hops, text: describe(frame).to_string() })
    };
    let in_fabric = |bytes: &[u8]| {
        let frame = fabric::Frame::new_checked(bytes).ok()?;
        let hops = (frame.forward().len(), frame.reverse().len());
        (frame.kind() == Kind::Ethernet).then(|| plain(frame.payload(), Some(hops)))?
    };
    let outer = ethernet::Frame::new_checked(frame).ok()?;
    match outer.ethertype() {
        encapsulation::ETHERTYPE => in_fabric(outer.payload()),
        // On a link without encapsulation the header comes first.
        _ => plain(frame, None).or_else(|| in_fabric(frame)),
    }
}

fn key(frame: &[u8]) -> Option<(Key, u8)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let mut hash = DefaultHasher::new();
    let (source, destination, ttl): (IpAddr, IpAddr, u8) = match frame.ethertype() {
        EtherType::IPV4 => {
            let p = ipv4::Packet::new_checked(frame.payload()).ok().filter(|p| p.checksum_ok())?;
            (p.identification(), p.fragment_offset(), p.total_len()).hash(&mut hash);
            hash_payload(&mut hash, p.protocol(), p.fragment_offset() == 0, p.payload());
            (p.src().into(), p.dst().into(), p.ttl())
        }
        EtherType::IPV6 => {
            let p = ipv6::Packet::new_checked(frame.payload()).ok()?;
            let upper = p.upper().ok()?;
            (p.flow_label(), upper.offset).hash(&mut hash);
            let payload = p.payload().get(upper.offset..)?;
            hash_payload(&mut hash, upper.protocol, upper.fragment.is_none(), payload);
            (p.src().into(), p.dst().into(), p.hop_limit())
        }
        _ => return None,
    };
    Some((Key { source, destination, rest: hash.finish() }, ttl))
}

/// Without the checksum: a host's offload leaves it to the first box.
fn hash_payload(hash: &mut DefaultHasher, protocol: Protocol, has_head: bool, payload: &[u8]) {
    let checksum_at = match protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        Protocol::ICMPV6 => 2,
        _ => usize::MAX,
    };
    let (head, rest) = match checksum_at.checked_add(2) {
        Some(end) if has_head && payload.len() >= end => (&payload[..checksum_at], &payload[end..]),
        _ => (payload, &[][..]),
    };
    (protocol.0, head, rest).hash(hash);
}

#[cfg(test)]
mod tests {
    use plexus_wire::MacAddr;

    use super::*;

    fn udp(ttl: u8, id: u8, last: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 12];
        let mac = MacAddr([2, 0, 0, 0, 0, ttl]);
        let header = ethernet::Repr { dst: mac, src: mac, ethertype: EtherType::IPV4 };
        header.emit(&mut frame).unwrap();
        let ip = ipv4::Repr {
            ttl,
            ..ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), Protocol::UDP, 12)
        };
        ip.emit(&mut frame[14..]).unwrap();
        frame[14 + 5] = id;
        ipv4::Packet::new_checked(&mut frame[14..]).unwrap().fill_checksum();
        *frame.last_mut().unwrap() = last;
        frame
    }

    fn with_header(path: &[u8], frame: &[u8]) -> Vec<u8> {
        let header = fabric::Repr::new(Kind::Ethernet, path).unwrap().to_bytes().unwrap();
        [&header[..], frame].concat()
    }

    #[test]
    fn a_packet_is_the_same_wherever_it_passes() {
        let host = seen(&udp(64, 1, 9)).unwrap();
        let mut routed = udp(63, 1, 9);
        // The first box has filled the checksum in.
        routed[14 + 20 + 6] = 0xAB;
        let native = with_header(&[3, 1], &routed);
        let (a, b) = (MacAddr([2, 1, 0, 0, 0, 1]), MacAddr([2, 1, 0, 0, 0, 2]));
        let ethertype = [&encapsulation::ethertype_header(a, b)[..], &native].concat();
        for (frame, hops) in [(&routed, None), (&native, Some(2)), (&ethertype, Some(2))] {
            let seen = seen(frame).unwrap();
            assert_eq!((seen.key, seen.ttl), (host.key, 63), "{}", seen.text);
            assert_eq!(seen.hops.map(|(forward, _)| forward), hops);
        }
    }

    #[test]
    fn another_packet_is_not() {
        let first = seen(&udp(64, 1, 9)).unwrap().key;
        assert_ne!(seen(&udp(64, 2, 9)).unwrap().key, first);
        assert_ne!(seen(&udp(64, 1, 8)).unwrap().key, first);
        // Heartbeats and ARP are no packets.
        let hello = [&[1, 0x80, 0xC2, 0, 0, 0xE, 2, 0, 0, 0, 0, 1, 0x88, 0xB5][..], &[0; 60]];
        assert_eq!(seen(&hello.concat()), None);
        assert_eq!(seen(&[0; 14]), None);
        assert_eq!(seen(&[]), None);
    }
}
