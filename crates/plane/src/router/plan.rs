//! What the control plane tells the data plane of a router: its interfaces, its neighbours'
//! Ethernet addresses, and what each group of next hops stands for.
//!
//! An interface is a VLAN of the box: frames of that VLAN to the interface's Ethernet address are
//! routed, all others are switched within it. A routed port has a VLAN of its own; a kernel's
//! device, where routing daemons run, is another member of the VLAN.
//!
//! The forwarding table (addresses to groups) is beside the plan, not in it: it changes in place,
//! a million times a second if need be. So an entry may name a group only after every worker has
//! picked up a plan that has it, and a group's number may be used anew only after no entry names
//! it any more and every worker has passed by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use plexus_config::ReversePath;
use plexus_io::PortId;
use plexus_table::MacKey;
use plexus_table::lpm::GroupId;
use plexus_wire::MacAddr;

use super::ETHERNET;
use super::fib::FibReaders;

/// Where plans are published. Readers never wait.
pub type PublishedRouter = Arc<ArcSwap<RouterPlan>>;

/// Where a router's workers find plan and tables.
#[derive(Clone)]
pub struct RouterSource {
    /// The plan.
    pub plan: PublishedRouter,
    /// The forwarding tables.
    pub fib: FibReaders,
}

impl std::fmt::Debug for RouterSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterSource").finish_non_exhaustive()
    }
}

/// VLAN numbers are 12 bits.
const VLANS: usize = 4096;
/// The VLAN of the interface that is a fabric as a whole: no port's VLAN has this number.
pub const GROUP_VLAN: u16 = 0;
/// Most members of a group, each counted as often as its weight says.
pub const MEMBERS_MAX: usize = 256;

/// An IP interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfacePlan {
    /// The VLAN that it is.
    pub vlan: u16,
    /// The router's Ethernet address there.
    pub mac: MacAddr,
    /// Its longest IP packet, in bytes.
    pub mtu: u16,
    /// The only port that packets leave by; without one they are switched within the VLAN.
    pub port: Option<PortId>,
    /// The port of the kernel's device, which gets packets for the box itself; without one the
    /// control plane gets them.
    pub kernel: Option<PortId>,
    /// Which packets are dropped because of their source (RFC 3704, 2.2 and 2.4).
    pub reverse_path: ReversePath,
}

/// A neighbour, in the form of the packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(4))]
pub struct Adjacency {
    /// Destination and source address of its frames.
    pub(crate) addresses: [u8; 12],
    /// The port that leads there; [`PORT_NONE`](plexus_io::PORT_NONE): where the switch says.
    pub(crate) port: PortId,
    /// The VLAN that its interface is.
    pub(crate) vlan: u16,
    /// The longest IP packet there.
    pub(crate) mtu: u16,
    /// Whether its Ethernet address is known.
    pub(crate) resolved: bool,
}

/// No neighbour.
const NOBODY: Adjacency =
    Adjacency { addresses: [0; 12], port: plexus_io::PORT_NONE, vlan: 0, mtu: 0, resolved: false };

impl Adjacency {
    /// The neighbour's Ethernet address.
    pub(crate) fn destination(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.addresses;
        MacAddr([a, b, c, d, e, f])
    }

    /// Takes over the interface's part: source address, port and MTU. `mtu`: the neighbour's own.
    fn set_interface(&mut self, interface: &InterfacePlan, mtu: u16) {
        self.addresses[6..].copy_from_slice(&interface.mac.0);
        self.port = interface.port.unwrap_or(plexus_io::PORT_NONE);
        self.mtu = interface.mtu.min(mtu);
    }
}

/// How packets are treated whose route leads to a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupKind {
    /// There is no such group.
    #[default]
    None,
    /// They are sent to a member.
    Forward,
    /// They are for a host of a connected subnet whose Ethernet address is not known.
    Glean,
    /// They are for the box itself.
    Local,
    /// They are for all hosts of a connected subnet: a router does not send these (RFC 2644).
    Broadcast,
    /// They are dropped without an error message.
    Blackhole,
    /// They are dropped; the sender is told that the destination is unreachable.
    Unreachable,
    /// They are dropped; the sender is told that the destination is prohibited.
    Prohibited,
}

/// A group, in the form of the packet path. The usual one has one member, whose neighbour is known:
/// all of it is here, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Group {
    /// The one member's, if packets can be sent to it as they come; otherwise no neighbour.
    pub(crate) adjacency: Adjacency,
    pub(crate) kind: GroupKind,
    /// How many members; one is by far the most frequent.
    count: u16,
    /// The neighbour that is the one member; of several, where they begin in `members`.
    first: u32,
    /// For reverse paths: the interface of all members, if they are behind one.
    vlan: u16,
    /// Bytes of the longest frame that can be sent as it comes to the one member; 0 if none can.
    frame_max: u16,
}

const _: () = assert!(size_of::<Group>() == 32);

impl Group {
    /// The neighbour that is the one member.
    #[inline(always)]
    pub(crate) fn neighbour(&self) -> u16 {
        self.first as u16
    }

    /// How many members it has, each counted as often as its weight says.
    pub(crate) fn members(&self) -> u16 {
        self.count
    }

    /// Whether flows to it part.
    pub(crate) fn has_several(&self) -> bool {
        self.kind == GroupKind::Forward && self.count > 1
    }

    /// Bytes of the longest frame that can be sent as it comes. A longer one may be sent too, if it
    /// is only padding that is too long.
    #[inline(always)]
    pub(crate) fn frame_max(&self) -> usize {
        self.frame_max.into()
    }
}

/// How many neighbours there can be.
const NEIGHBOURS: usize = 1 << u16::BITS;

/// A plan's marks of neighbours that packets were sent to.
#[derive(Clone, Copy)]
pub(crate) struct Marks<'a>(&'a [AtomicBool; NEIGHBOURS]);

impl Marks<'_> {
    /// Notes that a packet is sent to a neighbour.
    #[inline(always)]
    pub(crate) fn set(&self, neighbour: u16) {
        // Read first: until the marks are taken, workers share the line without writing to it.
        let mark = &self.0[usize::from(neighbour)];
        if !mark.load(Ordering::Relaxed) {
            mark.store(true, Ordering::Relaxed);
        }
    }
}

/// No group.
const NO_GROUP: Group =
    Group { adjacency: NOBODY, kind: GroupKind::None, count: 0, first: 0, vlan: 0, frame_max: 0 };

/// The data plane's part of a router, as one immutable value.
#[derive(Clone, Debug, Default)]
pub struct RouterPlan {
    interfaces: Vec<InterfacePlan>,
    /// By VLAN: one more than the interface's place in `interfaces`, or 0.
    by_vlan: Vec<u16>,
    /// By group number and one, as tables have them: the first is no group.
    groups: Vec<Group>,
    /// Neighbours of groups with several, and for reverse paths the VLANs of their interfaces.
    members: Vec<u16>,
    member_vlans: Vec<u16>,
    adjacencies: Vec<Adjacency>,
    /// By neighbour: whether packets were sent to it since the marks were last taken. All plans of
    /// a router share these marks. Workers write nothing else of a plan.
    used: Arc<[AtomicBool]>,
}

impl RouterPlan {
    /// The same plan with marks of its own.
    pub(crate) fn detached(&self) -> RouterPlan {
        let used = self.used.iter().map(|_| AtomicBool::new(false)).collect();
        RouterPlan { used, ..self.clone() }
    }

    /// Whether another plan has the same interfaces, at the same addresses and ports.
    pub(crate) fn is_reached_as(&self, other: &RouterPlan) -> bool {
        let place = |i: &InterfacePlan| (i.vlan, i.mac, i.port, i.kernel);
        self.interfaces.iter().map(place).eq(other.interfaces.iter().map(place))
    }

    /// The interface that a VLAN is.
    #[inline(always)]
    pub fn interface(&self, vlan: u16) -> Option<&InterfacePlan> {
        let index = *self.by_vlan.get(usize::from(vlan))?;
        self.interfaces.get(usize::from(index).wrapping_sub(1))
    }

    /// Its addresses in VLANs that are switched.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = MacKey> {
        let in_vlan = self.interfaces.iter().filter(|i| i.vlan != GROUP_VLAN);
        in_vlan.map(|interface| MacKey::new(interface.vlan, interface.mac))
    }

    /// Whether any packet is routed.
    pub(crate) fn has_interfaces(&self) -> bool {
        !self.interfaces.is_empty()
    }

    pub(crate) fn group(&self, id: Option<GroupId>) -> &Group {
        self.known_group(id).unwrap_or(&NO_GROUP)
    }

    /// The same, or nothing if there is no such group.
    #[inline(always)]
    pub(crate) fn known_group(&self, id: Option<GroupId>) -> Option<&Group> {
        self.groups.get(id.map_or(0, |id| usize::from(id.number()) + 1))
    }

    /// Whether any group has several members: most routers need no look-up to know that none has.
    pub(crate) fn has_groups_of_several(&self) -> bool {
        !self.members.is_empty()
    }

    /// The neighbour that a flow goes to, if its Ethernet address is known: of several the one for
    /// its hash, of one without a hash.
    pub(crate) fn resolved_member(
        &self,
        group: &Group,
        hash: Option<u64>,
    ) -> Option<(u16, &Adjacency)> {
        if group.kind != GroupKind::Forward || hash.is_some() != group.has_several() {
            return None;
        }
        let neighbour = self.member(group, || hash.unwrap_or(0));
        Some((neighbour, self.adjacency(neighbour))).filter(|(_, adjacency)| adjacency.resolved)
    }

    /// The neighbour that a flow of this hash goes to.
    #[inline(always)]
    pub(crate) fn member(&self, group: &Group, hash: impl FnOnce() -> u64) -> u16 {
        if group.count == 1 {
            return group.neighbour();
        }
        let scaled = (u128::from(hash()) * u128::from(group.count)) >> 64;
        self.members.get(group.first as usize + scaled as usize).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub(crate) fn adjacency(&self, neighbour: u16) -> &Adjacency {
        self.adjacencies.get(usize::from(neighbour)).unwrap_or(&NOBODY)
    }

    /// The marks, one for each neighbour that there can be; a plan that came from no
    /// [`RouterTables`] has none.
    #[inline(always)]
    pub(crate) fn marks(&self) -> Option<Marks<'_>> {
        self.used.first_chunk().map(Marks)
    }

    /// Notes that a packet is sent to a neighbour.
    pub(crate) fn mark_used(&self, neighbour: u16) {
        if let Some(marks) = self.marks() {
            marks.set(neighbour);
        }
    }

    /// Whether a packet from an address with this group may have come in by this VLAN.
    #[cold]
    pub(crate) fn leads_to(&self, group: &Group, vlan: u16) -> bool {
        if !matches!(group.kind, GroupKind::Forward | GroupKind::Glean) {
            return false;
        }
        if group.vlan != 0 || group.count <= 1 {
            return group.vlan == vlan;
        }
        let from = group.first as usize;
        let vlans = self.member_vlans.get(from..from + usize::from(group.count));
        vlans.unwrap_or(&[]).contains(&vlan)
    }

    /// Whether a station is one of a group's neighbours.
    #[cold]
    pub(crate) fn is_behind(&self, group: &Group, station: &[u8]) -> bool {
        if group.kind != GroupKind::Forward {
            return false;
        }
        let from = group.first as usize;
        let several = self.members.get(from..from + usize::from(group.count)).unwrap_or(&[]);
        let one = [group.neighbour()];
        let members = if group.count == 1 { &one[..] } else { several };
        let mut members = members.iter().map(|n| self.adjacency(*n));
        members.any(|a| a.resolved && a.addresses[..6] == *station)
    }

    /// A place to publish this and later plans.
    pub fn publish(self) -> PublishedRouter {
        Arc::new(ArcSwap::from_pointee(self))
    }
}

/// A group, as the control plane says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// What it is.
    pub kind: GroupKind,
    /// Where it leads, if to neighbours: each as often as its weight says.
    pub members: Vec<Hop>,
    /// For [`GroupKind::Glean`]: the VLAN of the subnet.
    pub vlan: u16,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Which neighbour.
    pub neighbour: u16,
    /// The VLAN that its interface is, also while its Ethernet address is not known.
    pub vlan: u16,
}

/// Where the control plane keeps the plan that it is changing.
#[derive(Debug)]
pub struct RouterTables {
    plan: RouterPlan,
    specs: Vec<Option<GroupSpec>>,
    /// By neighbour: the longest IP packet that it takes, if it is not its interface's.
    mtus: BTreeMap<u16, u16>,
}

impl Default for RouterTables {
    fn default() -> RouterTables {
        RouterTables::new()
    }
}

impl RouterTables {
    /// A router without interfaces.
    pub fn new() -> RouterTables {
        let used = (0..NEIGHBOURS).map(|_| AtomicBool::new(false)).collect();
        let plan = RouterPlan { used, ..RouterPlan::default() };
        RouterTables { plan, specs: Vec::new(), mtus: BTreeMap::new() }
    }

    /// The plan as it stands, to be published.
    pub fn plan(&mut self) -> Arc<RouterPlan> {
        self.lay_out();
        Arc::new(self.plan.clone())
    }

    /// Adds an interface, or replaces the one of the VLAN; `None` removes it. Its neighbours
    /// follow: their frames have its new address, port and MTU; without the interface they are not
    /// known.
    pub fn set_interface(&mut self, vlan: u16, interface: Option<InterfacePlan>) {
        let interface = interface.filter(|i| i.vlan == vlan);
        let adjacencies = (0..).zip(&mut self.plan.adjacencies);
        for (neighbour, adjacency) in adjacencies.filter(|(_, a)| a.vlan == vlan) {
            let mtu = self.mtus.get(&neighbour).copied().unwrap_or(u16::MAX);
            match &interface {
                Some(interface) => adjacency.set_interface(interface, mtu),
                None => adjacency.resolved = false,
            }
        }
        self.plan.interfaces.retain(|i| i.vlan != vlan);
        self.plan.interfaces.extend(interface);
        self.plan.by_vlan.clear();
        self.plan.by_vlan.resize(VLANS, 0);
        for (index, interface) in self.plan.interfaces.iter().enumerate() {
            if let Some(place) = self.plan.by_vlan.get_mut(usize::from(interface.vlan)) {
                *place = index as u16 + 1;
            }
        }
    }

    /// Sets the VLAN of a neighbour's interface and its Ethernet address there; `None`: not known,
    /// or not any more. False if there is no such interface.
    pub fn set_neighbour(&mut self, neighbour: u16, at: Option<(u16, MacAddr)>) -> bool {
        let adjacency = match at {
            None => NOBODY,
            Some((vlan, mac)) => {
                let Some(interface) = self.plan.interface(vlan) else { return false };
                let mut adjacency = Adjacency { vlan, resolved: true, ..NOBODY };
                adjacency.addresses[..6].copy_from_slice(&mac.0);
                let mtu = self.mtus.get(&neighbour).copied().unwrap_or(u16::MAX);
                adjacency.set_interface(interface, mtu);
                adjacency
            }
        };
        let index = usize::from(neighbour);
        if at.is_none() {
            // The next neighbour of this number has been sent nothing yet.
            self.plan.used[index].store(false, Ordering::Relaxed);
        }
        if index >= self.plan.adjacencies.len() {
            self.plan.adjacencies.resize(index + 1, NOBODY);
        }
        self.plan.adjacencies[index] = adjacency;
        true
    }

    /// One more than the highest number of a neighbour so far.
    pub fn neighbours(&self) -> u16 {
        self.plan.adjacencies.len().try_into().unwrap_or(u16::MAX)
    }

    /// Sets the longest IP packet that a neighbour takes, also before it is known; `None`: what its
    /// interface carries.
    pub fn set_neighbour_mtu(&mut self, neighbour: u16, mtu: Option<u16>) {
        match mtu {
            Some(mtu) => self.mtus.insert(neighbour, mtu),
            None => self.mtus.remove(&neighbour),
        };
        if let Some(adjacency) = self.plan.adjacencies.get_mut(usize::from(neighbour))
            && let Some(interface) = self.plan.interfaces.iter().find(|i| i.vlan == adjacency.vlan)
            && adjacency.resolved
        {
            adjacency.set_interface(interface, mtu.unwrap_or(u16::MAX));
        }
    }

    /// The neighbours that packets were sent to since the last call.
    pub fn take_used(&mut self) -> Vec<u16> {
        let marks = self.plan.used.iter().take(self.plan.adjacencies.len()).zip(0..);
        let is_used =
            |mark: &AtomicBool| mark.load(Ordering::Relaxed) && mark.swap(false, Ordering::Relaxed);
        marks.filter(|(mark, _)| is_used(mark)).map(|(_, neighbour)| neighbour).collect()
    }

    /// Sets a group, or removes it with `None`. Of more members than [`MEMBERS_MAX`] the first are
    /// used.
    pub fn set_group(&mut self, id: u16, group: Option<GroupSpec>) {
        let index = usize::from(id);
        if index >= self.specs.len() {
            self.specs.resize(index + 1, None);
        }
        self.specs[index] = group;
    }

    /// Writes the groups out as the packet path reads them.
    fn lay_out(&mut self) {
        let RouterTables { plan, specs, .. } = self;
        plan.members.clear();
        plan.member_vlans.clear();
        plan.groups.clear();
        plan.groups.push(NO_GROUP);
        for spec in specs.iter() {
            let Some(spec) = spec else {
                plan.groups.push(NO_GROUP);
                continue;
            };
            let members = &spec.members[..spec.members.len().min(MEMBERS_MAX)];
            let first = match members {
                [only] => u32::from(only.neighbour),
                _ => plan.members.len() as u32,
            };
            let vlans = members.iter().map(|m| m.vlan);
            let (least, most) = (vlans.clone().min(), vlans.max());
            let shared = if least == most { least.unwrap_or(spec.vlan) } else { 0 };
            let only = match (spec.kind, members) {
                (GroupKind::Forward, [only]) => plan.adjacencies.get(usize::from(only.neighbour)),
                _ => None,
            };
            let only = only.filter(|a| a.resolved);
            plan.groups.push(Group {
                adjacency: *only.unwrap_or(&NOBODY),
                frame_max: only.map_or(0, |a| a.mtu.saturating_add(ETHERNET as u16)),
                kind: if members.is_empty() && spec.kind == GroupKind::Forward {
                    GroupKind::Unreachable
                } else {
                    spec.kind
                },
                count: members.len() as u16,
                first,
                vlan: shared,
            });
            if members.len() > 1 {
                plan.members.extend(members.iter().map(|m| m.neighbour));
                plan.member_vlans.extend(members.iter().map(|m| m.vlan));
            }
        }
    }
}
