//! The entry of one prefix, and the keys of the maps: compact, because there are a million of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::input::Source;
use super::super::output::GroupId;
use plexus_wire::Prefix;

/// The origin of a route, the best first. A neighbour's host prefix comes last: it only provides
/// the link address and does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Origin {
    Connected,
    Static,
    Kernel,
    Neighbour,
}

pub(in super::super) const ORIGINS: [Origin; 4] =
    [Origin::Connected, Origin::Static, Origin::Kernel, Origin::Neighbour];

impl From<Source> for Origin {
    fn from(source: Source) -> Origin {
        match source {
            Source::Static => Origin::Static,
            Source::Kernel => Origin::Kernel,
        }
    }
}

/// No group.
pub(super) const NONE: u16 = u16::MAX;

fn some(group: u16) -> Option<GroupId> {
    (group != NONE).then_some(GroupId(group))
}

/// One prefix.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Entry {
    /// By origin: the group of its route with the lowest metric.
    pub(super) groups: [u16; 4],
    /// Metrics of the static and the kernel route.
    metrics: [u32; 2],
    /// The group in the forwarding table.
    pub(super) told: u16,
    /// By origin: the round in which the route was last listed.
    pub(super) rounds: u8,
}

pub(super) const EMPTY: Entry = Entry { groups: [NONE; 4], metrics: [0; 2], told: NONE, rounds: 0 };

impl Entry {
    pub(in super::super) fn group(&self, origin: Origin) -> Option<GroupId> {
        some(self.groups[origin as usize])
    }

    pub(in super::super) fn metric(&self, origin: Origin) -> u32 {
        match origin {
            Origin::Static => self.metrics[0],
            Origin::Kernel => self.metrics[1],
            Origin::Connected | Origin::Neighbour => 0,
        }
    }

    pub(in super::super) fn told(&self) -> Option<GroupId> {
        some(self.told)
    }

    pub(super) fn put(&mut self, origin: Origin, metric: u32, group: GroupId, round: bool) {
        self.groups[origin as usize] = group.0;
        match origin {
            Origin::Static => self.metrics[0] = metric,
            Origin::Kernel => self.metrics[1] = metric,
            Origin::Connected | Origin::Neighbour => {}
        }
        let bit = 1 << origin as u8;
        self.rounds = self.rounds & !bit | if round { bit } else { 0 };
    }

    pub(super) fn round(&self, origin: Origin) -> bool {
        self.rounds >> (origin as u8) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups == [NONE; 4] && self.told == NONE
    }
}

/// An IPv6 prefix: address and length, packed so that keys have 24 bytes and not 32.
pub(super) type Key6 = (u64, u64, u8);

pub(super) fn key4(addr: Ipv4Addr, len: u8) -> u64 {
    u64::from(addr.to_bits()) << 8 | u64::from(len)
}

pub(super) fn key6(addr: Ipv6Addr, len: u8) -> Key6 {
    let bits = addr.to_bits();
    ((bits >> 64) as u64, bits as u64, len)
}

pub(super) fn prefix4(key: u64) -> Prefix {
    known(Ipv4Addr::from_bits((key >> 8) as u32).into(), key as u8)
}

pub(super) fn prefix6((high, low, len): Key6) -> Prefix {
    known(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into(), len)
}

/// The prefix of a key.
pub(super) fn known(addr: IpAddr, len: u8) -> Prefix {
    Prefix::around(addr, len).unwrap_or_else(|_| Prefix::host(addr))
}
