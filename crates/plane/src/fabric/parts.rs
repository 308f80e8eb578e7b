//! Where a packet to the group's router is routed, if forwarders hold parts of the table
//! (SPEC.md, 16): by the part of its destination, or, if the group's own networks have that, by the
//! part of its source, so that the forwarder can look up both.

use std::net::IpAddr;
use std::sync::Arc;

use plexus_wire::address::is_link_local;
use plexus_wire::fabric::{Holders, PART_LEN_V4, Partition};
use plexus_wire::{FlowKey, MacAddr, Prefix};

/// The bits of all places.
pub(super) const EVERYWHERE: u8 = u8::MAX;

/// The parts as the control plane says them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// `None`: each forwarder holds the whole table.
    partition: Option<Partition>,
    /// The holders of each part of IPv4: a look in the cache costs less than their weights.
    v4: Arc<[Holders]>,
    /// The forwarder that this node is.
    own: Option<u8>,
    networks: Arc<Networks>,
    /// The stations that lead to other networks, in order.
    leading: Arc<[u64]>,
}

/// The group's own networks, which do not overlap: first and last address of each, in order.
#[derive(Clone, Debug, Default)]
struct Networks {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    fn contain(&self, address: IpAddr) -> bool {
        self.find(address).is_some()
    }

    /// Which of the networks of its version an address is in.
    fn find(&self, address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(a) => find_in(&self.v4, a.to_bits()),
            IpAddr::V6(a) => find_in(&self.v6, a.to_bits()),
        }
    }
}

fn find_in<A: Copy + Ord>(networks: &[(A, A)], address: A) -> Option<usize> {
    let at = networks.partition_point(|(first, _)| *first <= address).checked_sub(1)?;
    networks.get(at).is_some_and(|(_, last)| address <= *last).then_some(at)
}

impl Parts {
    /// Whether forwarders hold parts of the table, and not all of it.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.partition.is_some()
    }

    /// `own`: the place of a forwarder that this node is.
    pub(super) fn set_partition(&mut self, partition: Option<Partition>, own: Option<usize>) {
        self.own = own.and_then(|place| partition.as_ref()?.forwarder(place));
        if self.partition != partition {
            self.v4 =
                partition.as_ref().map_or_else(Default::default, |p| p.holders_v4().collect());
            self.partition = partition;
        }
    }

    pub(super) fn set_networks(&mut self, prefixes: impl IntoIterator<Item = Prefix>) {
        let mut networks = Networks::default();
        for prefix in prefixes {
            match (prefix.addr(), prefix.last()) {
                (IpAddr::V4(a), IpAddr::V4(b)) => networks.v4.push((a.to_bits(), b.to_bits())),
                (IpAddr::V6(a), IpAddr::V6(b)) => networks.v6.push((a.to_bits(), b.to_bits())),
                _ => {}
            }
        }
        networks.v4.sort_unstable();
        networks.v6.sort_unstable();
        self.networks = Arc::new(networks);
    }

    /// Whether two addresses of one version are in the same network of the group, or both in none.
    pub(super) fn are_together(&self, a: IpAddr, b: IpAddr) -> bool {
        self.networks.find(a) == self.networks.find(b)
    }

    /// False if they are known.
    pub(super) fn set_leading(&mut self, stations: impl IntoIterator<Item = MacAddr>) -> bool {
        let mut stations: Vec<u64> = stations.into_iter().map(MacAddr::to_u64).collect();
        stations.sort_unstable();
        stations.dedup();
        let is_news = *self.leading != stations[..];
        self.leading = stations.into();
        is_news
    }

    /// Whether an address is of the group's own networks or of one cable: no route leads there.
    fn is_near(&self, address: IpAddr) -> bool {
        self.networks.contain(address) || is_link_local(address)
    }

    /// The forwarders that can route a packet; `None`: each of them can.
    fn holders(&self, key: &FlowKey) -> Option<Holders> {
        let partition = self.partition.as_ref()?;
        let far = [key.dst, key.src].into_iter().find(|address| !self.is_near(*address))?;
        Some(match far {
            IpAddr::V4(a) => {
                let part = a.to_bits() >> (32 - PART_LEN_V4);
                self.v4.get(part as usize).copied().unwrap_or_default()
            }
            IpAddr::V6(_) => partition.holders(far),
        })
    }

    /// The places where a packet can be routed, as bits.
    pub(super) fn places(&self, key: &FlowKey) -> u8 {
        match (self.holders(key), &self.partition) {
            (Some(holders), Some(partition)) => partition.places_of(holders),
            _ => EVERYWHERE,
        }
    }

    /// Whether a packet of this node's own hosts can be routed here, if this node routes.
    pub(super) fn is_here(&self, frame: &[u8]) -> bool {
        let key = self.is_partitioned().then(|| FlowKey::from_frame(frame)).flatten();
        key.is_none_or(|key| self.has(&key))
    }

    /// The same by its key.
    pub(crate) fn has(&self, key: &FlowKey) -> bool {
        let holders = self.holders(key);
        holders.is_none_or(|holders| self.own.is_some_and(|own| holders.contains(own)))
    }

    /// Whether a packet is right although this node has no route back to its source, or another
    /// one: it goes on to another network, comes from a station that leads to such, and the route
    /// to its source is with other forwarders.
    #[cold]
    pub(crate) fn may_pass(&self, frame: &[u8]) -> bool {
        let station = frame.get(6..12).and_then(<[u8]>::first_chunk);
        let key = self.is_partitioned().then(|| FlowKey::from_frame(frame)).flatten();
        key.zip(station).is_some_and(|(key, station)| self.lies_beyond(&key, MacAddr(*station)))
    }

    /// The same for packets with this key, which a station has sent.
    pub(crate) fn lies_beyond(&self, key: &FlowKey, station: MacAddr) -> bool {
        let Some(partition) = &self.partition else { return false };
        let is_held = |own| partition.holders(key.src).contains(own);
        !self.is_near(key.dst)
            && !self.is_near(key.src)
            && !self.own.is_some_and(is_held)
            && self.leading.binary_search(&station.to_u64()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn key(src: &str, dst: &str) -> FlowKey {
        let (src, dst) = (ip(src), ip(dst));
        FlowKey { vlan: None, src, dst, protocol: plexus_wire::Protocol::UDP, ports: None }
    }

    #[test]
    fn the_part_of_the_address_that_is_far_away_decides() {
        let partition = Partition::new(&[1, 2, 1, 1], 1).unwrap();
        let mut parts = Parts::default();
        parts.set_networks(["10.2.0.0/16", "10.0.0.0/24", "fd00::/64"].map(|p| p.parse().unwrap()));
        assert_eq!(parts.places(&key("10.0.0.1", "192.0.2.1")), EVERYWHERE);
        parts.set_partition(Some(partition.clone()), None);
        let of = |address: &str| partition.places_of(partition.holders(ip(address)));
        for (src, dst, decides) in [
            ("10.0.0.1", "192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1", "10.0.0.255", Some("192.0.2.1")),
            ("192.0.2.1", "10.0.1.0", Some("10.0.1.0")),
            ("198.51.100.1", "203.0.113.1", Some("203.0.113.1")),
            ("10.0.0.1", "10.2.255.255", None),
            ("fe80::1", "fd00::1", None),
            ("fd00::1", "2001:db8::1", Some("2001:db8::1")),
            ("fd00:0:0:1::1", "fd00::1", Some("fd00:0:0:1::1")),
        ] {
            let expected = decides.map_or(EVERYWHERE, of);
            assert_eq!(parts.places(&key(src, dst)), expected, "{src} to {dst}");
        }
        // Any address is of exactly one network or of none.
        for (address, is_near) in
            [("9.255.255.255", false), ("10.0.0.0", true), ("10.1.255.255", false), ("::", false)]
        {
            assert_eq!(parts.is_near(ip(address)), is_near, "{address}");
        }
    }
}
