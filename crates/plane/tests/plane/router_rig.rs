//! A router in memory. Ports 0 and 1 are routed ports (VLANs 101 and 102), ports 2 to 4 are bridged
//! in VLAN 10, port 3 with tags; each is an interface. Interface `n` has the address `gateway(n)`.

use std::collections::BTreeMap;

use plexus_config::ReversePath;
use plexus_plane::{
    DropReason, FibReaders, GroupKind, GroupSpec, Hop, InterfacePlan, PublishedRouter, Punt,
    RouterSource, RouterTables,
};
use plexus_table::lpm::{Fib4, Fib6, GroupId, Limits};
use plexus_wire::MacAddr;

use crate::common::{self, Plan, Rig, access, mac, trunk};

/// The VLANs of the three interfaces.
pub(crate) const VLANS: [u16; 3] = [101, 102, 10];
/// Groups that every rig has, beside those of its neighbours.
pub(crate) const LOCAL: u16 = 1000;
pub(crate) const BLACKHOLE: u16 = 1001;
pub(crate) const PROHIBITED: u16 = 1002;
pub(crate) const UNREACHABLE: u16 = 1003;
pub(crate) const BROADCAST: u16 = 1004;
/// Of the subnet behind interface 1.
pub(crate) const GLEAN: u16 = 1005;

pub(crate) struct Router {
    pub(crate) rig: Rig,
    pub(crate) tables: RouterTables,
    v4: Fib4,
    v6: Fib6,
    published: PublishedRouter,
    /// The VLAN of each neighbour.
    vlans: BTreeMap<u16, u16>,
}

/// What waits for the control plane: why, port, VLAN, bytes.
pub(crate) type Punted = (Punt, u16, u16, Vec<u8>);

/// The router's own Ethernet address on an interface.
pub(crate) fn own(interface: usize) -> MacAddr {
    mac(0xFF00 + interface as u64)
}

impl Router {
    pub(crate) fn new() -> Router {
        Router::with(|_| {})
    }

    /// With other interfaces than the usual ones.
    pub(crate) fn with(change: impl Fn(&mut InterfacePlan)) -> Router {
        Router::on(change, |_| {})
    }

    /// The same, on a box that is more besides.
    pub(crate) fn on(change: impl Fn(&mut InterfacePlan), more: impl FnOnce(&mut Plan)) -> Router {
        let v4 = Fib4::new(Limits::default()).unwrap();
        let v6 = Fib6::new(Limits::default()).unwrap();
        let mut tables = RouterTables::new();
        for (i, vlan) in VLANS.into_iter().enumerate() {
            let port = (i < 2).then_some(i as u16);
            let mut interface = InterfacePlan {
                vlan,
                mac: own(i),
                mtu: 1500,
                port,
                kernel: None,
                reverse_path: ReversePath::Off,
            };
            change(&mut interface);
            tables.set_interface(vlan, Some(interface));
        }
        let kinds = [
            (LOCAL, GroupKind::Local),
            (BLACKHOLE, GroupKind::Blackhole),
            (PROHIBITED, GroupKind::Prohibited),
            (UNREACHABLE, GroupKind::Unreachable),
            (BROADCAST, GroupKind::Broadcast),
            (GLEAN, GroupKind::Glean),
        ];
        for (id, kind) in kinds {
            let vlan = if kind == GroupKind::Glean { VLANS[1] } else { 0 };
            tables.set_group(id, Some(GroupSpec { kind, members: vec![], vlan }));
        }
        let published = (*tables.plan()).clone().publish();
        let mut plan = Plan::new(6);
        plan.ports = vec![
            access(101),
            access(102),
            access(10),
            trunk(&[(10, 10)], None),
            access(10),
            // A kernel's device, where a test wants one.
            access(101),
        ];
        plan.ports[0].learning = false;
        plan.ports[1].learning = false;
        plan.ports[5].learning = false;
        let fib = FibReaders::new(v4.reader(), v6.reader());
        plan.router = Some(RouterSource { plan: published.clone(), fib });
        more(&mut plan);
        Router { rig: plan.build(), tables, v4, v6, published, vlans: BTreeMap::new() }
    }

    pub(crate) fn publish(&mut self) {
        self.published.store(self.tables.plan());
    }

    /// Neighbour `n` on an interface, at `mac(n)`, and the group of the same number that leads to
    /// it.
    pub(crate) fn neighbour(&mut self, n: u16, interface: usize) {
        let at = (VLANS[interface], mac(n.into()));
        assert!(self.tables.set_neighbour(n, Some(at)));
        self.vlans.insert(n, VLANS[interface]);
        self.group(n, &[n]);
    }

    /// Neighbour `n` on an interface, whose Ethernet address is unknown, and its group.
    pub(crate) fn silent_neighbour(&mut self, n: u16, interface: usize) {
        assert!(self.tables.set_neighbour(n, None));
        self.vlans.insert(n, VLANS[interface]);
        self.group(n, &[n]);
    }

    pub(crate) fn group(&mut self, id: u16, members: &[u16]) {
        let hop = |n: &u16| Hop { neighbour: *n, vlan: self.vlans[n] };
        let members = members.iter().map(hop).collect();
        let group = GroupSpec { kind: GroupKind::Forward, members, vlan: 0 };
        self.tables.set_group(id, Some(group));
        self.publish();
    }

    pub(crate) fn route4(&mut self, prefix: [u8; 4], len: u8, group: u16) {
        self.v4.insert(u32::from_be_bytes(prefix), len, GroupId::new(group).unwrap()).unwrap();
    }

    pub(crate) fn unroute4(&mut self, prefix: [u8; 4], len: u8) {
        self.v4.remove(u32::from_be_bytes(prefix), len).unwrap();
    }

    pub(crate) fn unroute6(&mut self, prefix: &str, len: u8) {
        let bits = prefix.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
        self.v6.remove(bits, len).unwrap();
    }

    pub(crate) fn route6(&mut self, prefix: &str, len: u8, group: u16) {
        let bits = prefix.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
        self.v6.insert(bits, len, GroupId::new(group).unwrap()).unwrap();
    }

    pub(crate) fn send(&mut self, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.rig.send(port, frame)
    }

    /// What waits for the control plane.
    pub(crate) fn punted(&mut self) -> Vec<Punted> {
        let mut all = Vec::new();
        self.rig.workers[0].take_control(|punt, port, vlan, bytes| {
            all.push((punt, port, vlan, bytes.to_vec()));
        });
        all
    }

    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        (0..6).map(|port| self.rig.drops(port, reason)).sum()
    }
}

/// What still waits for the control plane is taken before the rig takes stock.
impl Drop for Router {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.rig.settle();
            self.punted();
        }
    }
}

/// An Ethernet frame with an IPv4 packet of UDP from `src` to `dst`.
pub(crate) fn ipv4(to: MacAddr, src: [u8; 4], dst: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    common::ipv4([to, mac(0x77)], [src, dst], (0, ttl, 17), payload)
}

/// Computes the IPv4 header's checksum afresh.
pub(crate) fn fix_sum(frame: &mut [u8]) {
    let end = frame.len().min(14 + usize::from(frame[14] & 15) * 4);
    frame[24..26].fill(0);
    let sum = plexus_wire::checksum::checksum(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// An Ethernet frame with an IPv6 packet of this next header.
pub(crate) fn ipv6(to: MacAddr, src: &str, dst: &str, next: u8, hops: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = [to.0, mac(0x77).0].concat();
    frame.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
    frame.extend((data.len() as u16).to_be_bytes());
    frame.extend([next, hops]);
    for address in [src, dst] {
        frame.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    frame.extend(data);
    frame
}

/// What a router makes of a frame: new addresses, one hop less, the rest as it was.
pub(crate) fn hop(frame: &[u8], to: MacAddr, from: MacAddr) -> Vec<u8> {
    let mut sent = frame.to_vec();
    sent[..6].copy_from_slice(&to.0);
    sent[6..12].copy_from_slice(&from.0);
    if sent[12..14] == [0x08, 0x00] {
        sent[22] -= 1;
        fix_sum(&mut sent);
    } else {
        sent[21] -= 1;
    }
    sent
}
