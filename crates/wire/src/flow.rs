//! The flow of a frame, and its hash: packets of one flow must take one path, otherwise they are
//! reordered.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::bytes::u16_at;
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::{ipv4, ipv6, vlan};

/// The five-tuple and the VLAN.
///
/// No packet of a fragmented datagram has ports, the first fragment included: only it could have
/// them, and would then part from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The VLAN of the outermost tag; none if untagged or priority-tagged.
    pub vlan: Option<u16>,
    /// Source address, of the same family as the destination's.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The upper-layer protocol.
    pub protocol: Protocol,
    /// Source and destination port of TCP, UDP and SCTP; none for other protocols, fragments, and
    /// frames that end before the ports.
    pub ports: Option<(u16, u16)>,
}

impl FlowKey {
    /// The key of a frame; none if it carries no IP packet that can be read.
    #[inline]
    pub fn from_frame(frame: &[u8]) -> Option<FlowKey> {
        let frame = ethernet::Frame::new_checked(frame).ok()?;
        let stack = vlan::stack(&frame).ok()?;
        let payload = &frame.as_bytes()[stack.payload_offset..];
        let (src, dst, protocol, upper): (IpAddr, IpAddr, _, _) = match stack.ethertype {
            EtherType::IPV4 => {
                let p = ipv4::Packet::new_checked(payload).ok()?;
                let upper = (!p.is_fragment()).then(|| p.payload());
                (p.src().into(), p.dst().into(), p.protocol(), upper)
            }
            EtherType::IPV6 => {
                let p = ipv6::Packet::new_checked(payload).ok()?;
                let u = p.upper().ok()?;
                // An atomic fragment is a whole packet (RFC 6946). Of the others, all fragments
                // agree only on the fragment header's next header.
                match u.fragment.filter(|f| !f.is_atomic()) {
                    None => {
                        let upper = p.payload().get(u.offset..);
                        (p.src().into(), p.dst().into(), u.protocol, upper)
                    }
                    Some(f) => (p.src().into(), p.dst().into(), f.next_header, None),
                }
            }
            _ => return None,
        };
        let ports = match protocol {
            Protocol::TCP | Protocol::UDP | Protocol::SCTP => {
                upper.filter(|u| u.len() >= 4).map(|u| (u16_at(u, 0), u16_at(u, 2)))
            }
            _ => None,
        };
        Some(FlowKey { vlan: stack.vlan(), src, dst, protocol, ports })
    }

    /// The key of the opposite direction.
    pub fn reversed(self) -> FlowKey {
        let ports = self.ports.map(|(src, dst)| (dst, src));
        FlowKey { src: self.dst, dst: self.src, ports, ..self }
    }

    /// The key of all packets from one host to another, fragments included.
    pub fn of_hosts(self) -> FlowKey {
        FlowKey { vlan: None, ports: None, protocol: Protocol(0), ..self }
    }

    /// A 64-bit hash, every bit of which depends on every bit of the key and of `seed`. The same
    /// on all machines. A secret seed keeps outsiders from steering flows blindly, but this is no
    /// cryptographic hash.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        let (s, d, v6) = match (self.src, self.dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => (v4_words(s), v4_words(d), 0),
            (s, d) => (v6_words(s), v6_words(d), 1),
        };
        let (src_port, dst_port) = self.ports.unwrap_or((0, 0));
        // Nothing overlaps: ports 0–31, protocol 32–39, VLAN 40–51, then the three presences.
        let last = u64::from(src_port) << 16
            | u64::from(dst_port)
            | u64::from(self.protocol.0) << 32
            | u64::from(self.vlan.unwrap_or(0) & 0xFFF) << 40
            | u64::from(self.vlan.is_some()) << 52
            | u64::from(self.ports.is_some()) << 53
            | v6 << 54;
        let seed = seed ^ K[0];
        let mut h = mix(s[1] ^ K[1], d[1] ^ seed);
        if v6 == 1 {
            h = mix(s[0] ^ K[2] ^ h, d[0] ^ seed.rotate_left(23));
        }
        h = mix(last ^ K[3] ^ h, h.rotate_left(32) ^ seed.rotate_left(47));
        mix(h ^ K[1], seed ^ K[2])
    }
}

/// Such a hash of any words.
#[inline]
pub fn hash_words(words: impl IntoIterator<Item = u64>, seed: u64) -> u64 {
    let seed = seed ^ K[0];
    let take = |h: u64, word| mix(word ^ K[3] ^ h, h.rotate_left(32) ^ seed.rotate_left(47) ^ K[2]);
    mix(words.into_iter().fold(seed, take) ^ K[1], seed ^ K[2])
}

/// A flow's weight for a place: the highest wins, so that flows of the other places stay where they
/// are when one is lost (highest random weight, Thaler and Ravishankar, 1998).
#[inline]
pub fn weight(hash: u64, place: usize) -> u64 {
    let product = u128::from(hash ^ (place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        * 0xBF58_476D_1CE4_E5B9;
    product as u64 ^ (product >> 64) as u64
}

/// Odd numbers with about as many ones as zeros: the fractions of √2, √3, √5 and √7.
const K: [u64; 4] =
    [0x6A09_E667_F3BC_C909, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B, 0xA54F_F53A_5F1D_36F1];

/// The two halves of the product, added without carry: one multiplication spreads every bit.
/// Adding the factors back keeps a factor of zero from wiping out the other one.
#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    (p as u64) ^ ((p >> 64) as u64) ^ a.rotate_left(17) ^ b.rotate_left(41)
}

#[inline(always)]
fn v4_words(a: Ipv4Addr) -> [u64; 2] {
    [0, u64::from(a.to_bits())]
}

#[inline(always)]
fn v6_words(a: IpAddr) -> [u64; 2] {
    let bits = match a {
        IpAddr::V6(a) => a.to_bits(),
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vid) = self.vlan {
            write!(f, "vlan {vid} ")?;
        }
        let end = |f: &mut fmt::Formatter<'_>, addr: IpAddr, port: Option<u16>| match (addr, port) {
            (IpAddr::V6(a), Some(p)) => write!(f, "[{a}]:{p}"),
            (a, Some(p)) => write!(f, "{a}:{p}"),
            (a, None) => write!(f, "{a}"),
        };
        end(f, self.src, self.ports.map(|p| p.0))?;
        f.write_str(" > ")?;
        end(f, self.dst, self.ports.map(|p| p.1))?;
        write!(f, " {}", self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::ipv6_ext::Fragment;

    fn v4_frame(fragment_offset: usize, more_fragments: bool) -> Vec<u8> {
        let mut f = vec![0; 14 + 20];
        f[12..14].copy_from_slice(&[8, 0]);
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut repr = ipv4::Repr::new(src, dst, Protocol::UDP, 8);
        repr.fragment_offset = fragment_offset;
        repr.more_fragments = more_fragments;
        f.extend([0x04, 0xD2, 0, 53, 0, 8, 0, 0]);
        repr.emit(&mut f[14..]).unwrap();
        f
    }

    fn v6_frame(fragment: Option<Fragment>) -> Vec<u8> {
        let mut f = vec![0; 14 + 40];
        f[12..14].copy_from_slice(&[0x86, 0xDD]);
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let mut next = Protocol::TCP;
        if let Some(fragment) = fragment {
            let mut b = [0; 8];
            fragment.emit(&mut b).unwrap();
            f.extend(b);
            next = Protocol::FRAGMENT;
        }
        f.extend([0x04, 0xD2, 0, 80, 0, 0, 0, 0]);
        let repr = ipv6::Repr::new(src, dst, next, f.len() - 54);
        repr.emit(&mut f[14..]).unwrap();
        f
    }

    fn tagged(mut frame: Vec<u8>, tci: u16) -> Vec<u8> {
        frame.splice(0..0, [0; 4]);
        vlan::push(&mut frame, EtherType::VLAN, tci).unwrap();
        frame
    }

    #[test]
    fn whole_packets_have_ports() {
        let key = FlowKey::from_frame(&v4_frame(0, false)).unwrap();
        assert_eq!(key.to_string(), "10.0.0.1:1234 > 10.0.0.2:53 UDP");
        assert_eq!(key.reversed().to_string(), "10.0.0.2:53 > 10.0.0.1:1234 UDP");
        let key = FlowKey::from_frame(&tagged(v6_frame(None), 0xE007)).unwrap();
        assert_eq!(key.to_string(), "vlan 7 [2001:db8::1]:1234 > [2001:db8::2]:80 TCP");
        let key = FlowKey::from_frame(&tagged(v6_frame(None), 0xE000)).unwrap();
        assert_eq!(key.vlan, None, "a priority tag names no VLAN");
    }

    #[test]
    fn all_fragments_of_a_packet_have_one_key_without_ports() {
        let first = FlowKey::from_frame(&v4_frame(0, true)).unwrap();
        assert_eq!(first.ports, None);
        assert_eq!(FlowKey::from_frame(&v4_frame(8, false)), Some(first));
        let piece = |offset, more| {
            let fragment = Fragment { next_header: Protocol::TCP, offset, more, identification: 7 };
            FlowKey::from_frame(&v6_frame(Some(fragment))).unwrap()
        };
        assert_eq!(piece(0, true).ports, None);
        assert_eq!(piece(0, true), piece(8, true));
        assert_eq!(piece(0, true), piece(16, false));
        assert_eq!(piece(0, false).ports, Some((1234, 80)), "an atomic fragment is whole");
    }

    #[test]
    fn frames_without_ip_have_no_key() {
        let mut f = v4_frame(0, false);
        f[13] = 6;
        assert_eq!(FlowKey::from_frame(&f), None);
        let f = v4_frame(0, false);
        for n in 0..f.len() {
            assert_eq!(FlowKey::from_frame(&f[..n]), None);
        }
    }

    #[test]
    fn each_bit_of_key_and_seed_moves_half_the_hash() {
        let v4 = FlowKey::from_frame(&v4_frame(0, false)).unwrap();
        let v6 = FlowKey::from_frame(&v6_frame(None)).unwrap();
        for (frame, offsets) in [
            (tagged(v4_frame(0, false), 7), [30usize..38, 38..42]),
            (tagged(v6_frame(None), 7), [26..58, 58..62]),
        ] {
            let base = FlowKey::from_frame(&frame).unwrap().hash(1);
            for bit in offsets.into_iter().flatten().flat_map(|byte| byte * 8..byte * 8 + 8) {
                let mut f = frame.clone();
                f[bit / 8] ^= 1 << (bit % 8);
                let moved = FlowKey::from_frame(&f).unwrap().hash(1) ^ base;
                assert!((12..=52).contains(&moved.count_ones()), "bit {bit}: {moved:016x}");
            }
        }
        for key in [v4, v6] {
            for bit in 0..64 {
                let moved = (key.hash(1) ^ key.hash(1 ^ 1 << bit)).count_ones();
                assert!((12..=52).contains(&moved), "seed bit {bit}: {moved}");
            }
            assert_ne!(key.hash(1), key.reversed().hash(1));
            assert_ne!(key.hash(1), FlowKey { vlan: Some(0), ..key }.hash(1));
            assert_ne!(key.hash(1), FlowKey { ports: None, ..key }.hash(1));
        }
    }

    #[test]
    fn each_bit_of_words_and_seed_moves_half_their_hash() {
        for words in [[0, 0, 0], [0x0200_0000_0005, 0x0200_0000_0006, 0x1_0000_0800]] {
            let base = hash_words(words, 1);
            for bit in 0..64 {
                let with = |at: usize| {
                    let mut words: [u64; 3] = words;
                    words[at] ^= 1 << bit;
                    hash_words(words, 1)
                };
                for hash in [with(0), with(1), with(2), hash_words(words, 1 ^ 1 << bit)] {
                    let moved = hash ^ base;
                    assert!((12..=52).contains(&moved.count_ones()), "bit {bit}: {moved:016x}");
                }
            }
        }
    }

    #[test]
    fn neighbouring_flows_spread_evenly_in_low_and_high_bits() {
        let base = FlowKey::from_frame(&v4_frame(0, false)).unwrap();
        let (mut low, mut high) = ([0u32; 64], [0u32; 64]);
        for host in 0..64u8 {
            for port in 0..1000u16 {
                let src = IpAddr::from([10, 0, 0, host]);
                let h = FlowKey { src, ports: Some((port, 80)), ..base }.hash(0);
                low[(h & 63) as usize] += 1;
                high[(h >> 58) as usize] += 1;
            }
        }
        // 64,000 flows in 64 buckets: 1,000 each, standard deviation 31; six of them are allowed.
        for n in low.into_iter().chain(high) {
            assert!((814..=1186).contains(&n), "{n}");
        }
    }

    #[test]
    fn families_do_not_collide() {
        let base = FlowKey::from_frame(&v4_frame(0, false)).unwrap();
        let mapped = |a: IpAddr| match a {
            IpAddr::V4(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits().into())),
            a => a,
        };
        let six = FlowKey { src: mapped(base.src), dst: mapped(base.dst), ..base };
        assert_ne!(base.hash(0), six.hash(0));
    }
}
