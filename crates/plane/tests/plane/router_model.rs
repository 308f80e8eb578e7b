//! The router of the data plane against a model of it that is too simple to be wrong, on random
//! interfaces, routes, groups, neighbours and packets, good and damaged, many to a batch: every
//! packet leaves by the port that the model says, with the model's bytes, or ends for its reason.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::{self, mac};
use crate::router_rig::{
    BLACKHOLE, BROADCAST, GLEAN, LOCAL, PROHIBITED, Router, UNREACHABLE, VLANS, fix_sum, ipv4,
    ipv6, own,
};
use plexus_config::ReversePath;
use plexus_plane::{DropReason, Punt};
use plexus_wire::{MacAddr, checksum};
use proptest::prelude::*;

/// Neighbours 0 to 5, of which the last has no address, are behind interface `n mod 3`. Group `n`
/// leads to neighbour `n`, group 6 to any of the first three.
const NEIGHBOURS: u16 = 6;
const UNKNOWN: u16 = 5;
const SEVERAL: u16 = 6;
/// Where the neighbours in the bridged VLAN are.
const BRIDGED: usize = 4;
const MTUS: [u16; 3] = [1500, 1280, 576];

struct World {
    modes: [ReversePath; 3],
    /// Prefixes of 10/8, and what they lead to: second byte, length, group.
    v4: Vec<(u8, u8, u16)>,
    /// Prefixes of 2001:db8::/32 likewise.
    v6: Vec<(u8, u8, u16)>,
}

/// What becomes of a packet: the one fate, or one of several.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Sent(usize, Vec<u8>),
    Dropped(DropReason),
    Punted(Punt),
    /// Dropped, and the control plane may hear of it.
    Told(DropReason, Punt),
}

impl World {
    fn v4_address(second: u8) -> [u8; 4] {
        [10, second, 7, 9]
    }

    fn v6_address(second: u8) -> String {
        format!("2001:db8:{second:02x}00::9")
    }

    fn group(&self, routes: &[(u8, u8, u16)], inside: bool, second: u8) -> Option<u16> {
        let mut best: Option<(u8, u16)> = None;
        for &(base, len, group) in routes {
            let covers = inside && (len == 0 || (base ^ second) >> (8 - len) == 0);
            // Of equal prefixes the last holds.
            if covers && best.is_none_or(|(known, _)| len >= known) {
                best = Some((len, group));
            }
        }
        best.map(|(_, group)| group)
    }

    fn group4(&self, a: &[u8]) -> Option<u16> {
        self.group(&self.v4, a[0] == 10, a[1])
    }

    fn group6(&self, a: &[u8]) -> Option<u16> {
        self.group(&self.v6, a[..4] == [0x20, 0x01, 0x0D, 0xB8], a[4])
    }

    /// The interfaces by which a route leads out; none if it leads nowhere.
    fn ways(group: Option<u16>) -> Vec<usize> {
        match group {
            Some(GLEAN) => vec![1],
            Some(SEVERAL) => vec![0, 1, 2],
            Some(n) if n < NEIGHBOURS => vec![usize::from(n) % 3],
            _ => vec![],
        }
    }

    fn lets_in(&self, interface: usize, group: Option<u16>) -> bool {
        match self.modes[interface] {
            ReversePath::Off => true,
            ReversePath::Loose => !World::ways(group).is_empty(),
            ReversePath::Strict => World::ways(group).contains(&interface),
        }
    }

    /// What may become of a frame that comes in untagged.
    fn fates(&self, interface: usize, frame: &[u8]) -> Vec<Fate> {
        let drop = |reason| vec![Fate::Dropped(reason)];
        let tell = |reason| vec![Fate::Told(reason, Punt::Error(reason))];
        if frame[..6] != own(interface).0 {
            // To a stranger: the only other port of interface 0's VLAN is the sixth.
            return match interface {
                0 => vec![Fate::Sent(5, frame.to_vec())],
                _ => drop(DropReason::NoEgress),
            };
        }
        if frame[6] & 1 != 0 {
            return drop(DropReason::BadSource);
        }
        if frame[6..12] == own(interface).0 {
            return drop(DropReason::OwnAddress);
        }
        let packet = &frame[14..];
        let (ttl_at, total_len, group) = match [frame[12], frame[13]] {
            [0x08, 0x00] => {
                let head = usize::from(packet.first().map_or(0, |b| b & 15)) * 4;
                if packet.len() < 20 || packet[0] >> 4 != 4 || head < 20 {
                    return drop(DropReason::BadIpHeader);
                }
                let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                if total < head || total > packet.len() {
                    return drop(DropReason::BadIpHeader);
                }
                if checksum::checksum(&packet[..head]) != 0 {
                    return drop(DropReason::IpChecksum);
                }
                let mut options = &packet[20..head];
                while let [kind, rest @ ..] = options {
                    options = match kind {
                        0 => &[],
                        1 => rest,
                        _ => {
                            let len = usize::from(rest.first().copied().unwrap_or(0));
                            if len < 2 || len > options.len() {
                                return tell(DropReason::BadIpOption);
                            }
                            if matches!(kind, 131 | 137) {
                                return tell(DropReason::SourceRouted);
                            }
                            &options[len..]
                        }
                    };
                }
                let (from, to) = (&packet[12..16], &packet[16..20]);
                let is_nowhere = |a: &[u8]| matches!(a[0], 0 | 127 | 224..);
                let is_near = |a: &[u8]| a[..2] == [169, 254];
                let may_be_near = self.group4(to) == Some(LOCAL);
                if is_nowhere(from)
                    || is_nowhere(to)
                    || (is_near(from) || is_near(to)) && !may_be_near
                {
                    return drop(DropReason::Martian);
                }
                if !self.lets_in(interface, self.group4(from)) {
                    return drop(DropReason::ReversePath);
                }
                (8, total, self.group4(to))
            }
            [0x86, 0xDD] => {
                if packet.len() < 40 || packet[0] >> 4 != 6 {
                    return drop(DropReason::BadIpHeader);
                }
                let total = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
                if total > packet.len() {
                    return drop(DropReason::BadIpHeader);
                }
                let (from, to) = (&packet[8..24], &packet[24..40]);
                let is_martian = |a: &[u8]| {
                    let zeros = a[..10].iter().all(|b| *b == 0);
                    let one = zeros && a[10..15] == [0; 5] && a[15] <= 1;
                    a[0] == 0xFF || one || (zeros && a[10..12] == [0xFF; 2])
                };
                if is_martian(from) || is_martian(to) {
                    return drop(DropReason::Martian);
                }
                let is_near = |a: &[u8]| a[0] == 0xFE && a[1] >> 6 == 2;
                if is_near(to) {
                    return vec![Fate::Punted(Punt::Local)];
                }
                if is_near(from) {
                    return match self.group6(to) {
                        Some(LOCAL) => vec![Fate::Punted(Punt::Local)],
                        _ => tell(DropReason::BeyondScope),
                    };
                }
                if !self.lets_in(interface, self.group6(from)) {
                    return drop(DropReason::ReversePath);
                }
                (7, total, self.group6(to))
            }
            _ => return drop(DropReason::NotForUs),
        };
        let expired = packet[ttl_at] <= 1;
        let members = match group {
            None => return tell(DropReason::NoRoute),
            Some(LOCAL) => return vec![Fate::Punted(Punt::Local)],
            Some(BLACKHOLE) => return drop(DropReason::Blackhole),
            Some(BROADCAST) => return drop(DropReason::DirectedBroadcast),
            Some(PROHIBITED) => return tell(DropReason::Prohibited),
            Some(UNREACHABLE) => return tell(DropReason::Unreachable),
            Some(_) if expired => return tell(DropReason::TtlExpired),
            Some(GLEAN) => return vec![Fate::Punted(Punt::Unresolved(None))],
            Some(UNKNOWN) => return vec![Fate::Punted(Punt::Unresolved(Some(UNKNOWN)))],
            Some(SEVERAL) => 0..3,
            Some(n) => n..n + 1,
        };
        let fate = |n: u16| {
            let out = usize::from(n) % 3;
            if total_len > usize::from(MTUS[out]) {
                return Fate::Told(DropReason::TooBig, Punt::TooBig(MTUS[out]));
            }
            // Whatever its header says of its length: ports send no longer frames.
            if frame.len() > 1514 {
                return Fate::Dropped(DropReason::TooLong);
            }
            let mut sent = frame.to_vec();
            sent[..6].copy_from_slice(&mac(n.into()).0);
            sent[6..12].copy_from_slice(&own(out).0);
            sent[14 + ttl_at] -= 1;
            if sent[12] == 0x08 {
                fix_sum(&mut sent);
            }
            Fate::Sent(if out == 2 { BRIDGED } else { out }, sent)
        };
        members.map(fate).collect()
    }

    fn build(&self) -> Router {
        let mut router = Router::with(|interface| {
            let index = VLANS.iter().position(|v| *v == interface.vlan).unwrap();
            interface.mtu = MTUS[index];
            interface.reverse_path = self.modes[index];
        });
        for n in 0..NEIGHBOURS {
            router.neighbour(n, usize::from(n) % 3);
        }
        router.silent_neighbour(UNKNOWN, usize::from(UNKNOWN) % 3);
        router.group(SEVERAL, &[0, 1, 2]);
        for &(second, len, group) in &self.v4 {
            let base = [10, second & !(0xFF_u16 >> len) as u8, 0, 0];
            router.route4(base, 8 + len, group);
        }
        for &(second, len, group) in &self.v6 {
            let base = second & !(0xFF_u16 >> len) as u8;
            router.route6(&format!("2001:db8:{base:02x}00::"), 32 + len, group);
        }
        // The switch knows where the bridged neighbours are.
        for n in 0..NEIGHBOURS {
            router.send(BRIDGED, &common::frame(MacAddr::BROADCAST, mac(n.into())));
        }
        router
    }
}

/// Bytes of a payload in front of its number.
const LENGTHS: [usize; 12] = [0, 0, 0, 532, 533, 552, 553, 1236, 1237, 1256, 1257, 1477];

/// Bytes of a packet that is dropped which the control plane sees.
const EXCERPT: usize = 14 + 1280;

/// A packet from 16 random bytes, with its number at the end of its excerpt; the interface it comes
/// in by.
fn packet(draw: [u8; 16], number: u32) -> (usize, Vec<u8>) {
    let [which, family, second, from, ttl, size, damage, at, value, mend, ..] = draw;
    let interface = usize::from(which) % 3;
    let ttl = [64, 64, 64, 2, 1, 0][usize::from(ttl) % 6];
    let (to, long) = match damage {
        0..8 if interface < 2 => (mac(0x999), 0),
        // Short ones, and those as long as an MTU allows, and a byte longer: IPv6 and IPv4.
        _ => (own(interface), LENGTHS[usize::from(size) % LENGTHS.len()]),
    };
    let payload = vec![0xA5; long + 4];
    let source = World::v4_address(from);
    let mut frame = match family % 2 {
        0 => ipv4(to, source, World::v4_address(second), ttl, &payload),
        _ => {
            let source = if from == 1 { "fe80::7".into() } else { World::v6_address(from) };
            let target = if second == 1 { "fe80::8".into() } else { World::v6_address(second) };
            ipv6(to, &source, &target, 17, ttl, &payload[..payload.len().min(1460)])
        }
    };
    let end = frame.len().min(EXCERPT);
    frame[end - 4..end].copy_from_slice(&number.to_be_bytes());
    if family % 2 == 0 {
        frame[20] |= 0x40;
        fix_sum(&mut frame);
    }
    match damage {
        8 => frame[6] |= 1,
        9 => frame[6..12].copy_from_slice(&own(interface).0),
        10 => frame[13] ^= 1,
        // One byte of the header, but not of those that allow fragments.
        11..80 => {
            let at = 14 + usize::from(at) % if family % 2 == 0 { 20 } else { 40 };
            if frame[12] != 0x08 || !(20..22).contains(&at) {
                frame[at] = value;
            }
            if frame[12] == 0x08 && mend % 2 == 0 && frame.len() >= 14 + 60 {
                fix_sum(&mut frame);
            }
        }
        80..90 => {
            let kept = 14 + usize::from(at) % (frame.len() - 14);
            frame.truncate(kept);
        }
        _ => {}
    }
    (interface, frame)
}

/// The number at the end of a packet's excerpt.
fn number(frame: &[u8]) -> [u8; 4] {
    *frame[..frame.len().min(EXCERPT)].last_chunk().unwrap()
}

fn routes() -> impl Strategy<Value = Vec<(u8, u8, u16)>> {
    let groups = prop::sample::select(vec![
        0,
        1,
        2,
        3,
        4,
        0,
        1,
        2,
        UNKNOWN,
        SEVERAL,
        SEVERAL,
        LOCAL,
        BLACKHOLE,
        PROHIBITED,
        UNREACHABLE,
        BROADCAST,
        GLEAN,
    ]);
    prop::collection::vec((any::<u8>(), 0..=8u8, groups), 0..24)
}

fn mode() -> impl Strategy<Value = ReversePath> {
    let (off, loose, strict) = (ReversePath::Off, ReversePath::Loose, ReversePath::Strict);
    prop::sample::select(vec![off, off, loose, strict])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 160,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn every_packet_meets_the_fate_that_the_model_says(
        modes in [mode(), mode(), mode()],
        v4 in routes(),
        v6 in routes(),
        batches in prop::collection::vec(prop::collection::vec(any::<[u8; 16]>(), 1..48), 1..6),
    ) {
        let world = World { modes, v4, v6 };
        let mut router = world.build();
        router.punted();
        let mut dropped: HashMap<DropReason, u64> = HashMap::new();
        for &reason in DropReason::ALL.iter() {
            dropped.insert(reason, router.drops(reason));
        }
        // Reasons for one of which a packet has been dropped.
        let mut unclear: Vec<Vec<DropReason>> = Vec::new();
        let mut count = 0u32;
        for batch in batches {
            router.rig.now = router.rig.now + Duration::from_secs(1);
            // By their last bytes: a packet that lost them is dropped.
            let mut fates: HashMap<[u8; 4], Vec<Fate>> = HashMap::new();
            for draw in batch {
                count += 1;
                let (interface, frame) = packet(draw, count ^ 0x5EED_0000);
                let fate = world.fates(interface, &frame);
                if let [Fate::Dropped(reason) | Fate::Told(reason, _)] = fate[..] {
                    *dropped.get_mut(&reason).unwrap() += 1;
                }
                if fate.len() > 1 || !matches!(fate[0], Fate::Dropped(_)) {
                    prop_assert!(fates.insert(number(&frame), fate).is_none());
                }
                router.rig.offer(if interface == 2 { 2 } else { interface }, &frame);
            }
            router.rig.settle();
            for (port, sent) in router.rig.take() {
                let expected = fates.remove(&number(&sent));
                let is = Fate::Sent(port, sent);
                prop_assert!(expected.as_ref().is_some_and(|f| f.contains(&is)),
                    "{is:?} is none of {expected:?}");
            }
            for (punt, _, _, bytes) in router.punted() {
                let expected = fates.remove(&number(&bytes)).unwrap_or_default();
                let fate = expected.iter().find(|fate| match fate {
                    Fate::Punted(p) | Fate::Told(_, p) => *p == punt,
                    _ => false,
                });
                prop_assert!(fate.is_some(), "{punt:?} is none of {expected:?}");
                // Which of several next hops a packet has taken, only this tells.
                if let (2.., Some(Fate::Told(reason, _))) = (expected.len(), fate) {
                    *dropped.get_mut(reason).unwrap() += 1;
                }
            }
            // A drop without an ICMP error (beyond the rate, or of a kind without one) is counted
            // too: with several next hops for the reason of one of them.
            fates.retain(|_, fates| {
                let reasons: Vec<DropReason> = fates.iter().filter_map(|fate| match fate {
                    Fate::Dropped(reason) | Fate::Told(reason, _) => Some(*reason),
                    _ => None,
                }).collect();
                let is_counted = !reasons.is_empty();
                if fates.len() > 1 {
                    unclear.push(reasons);
                }
                !is_counted
            });
            prop_assert!(fates.is_empty(), "{fates:?}");
        }
        for reasons in unclear {
            let one = reasons.iter().find(|reason| router.drops(**reason) > dropped[*reason]);
            prop_assert!(one.is_some(), "none of {reasons:?}");
            one.into_iter().for_each(|reason| *dropped.get_mut(reason).unwrap() += 1);
        }
        for (reason, expected) in dropped {
            prop_assert_eq!(router.drops(reason), expected, "{:?}", reason);
        }
    }
}
