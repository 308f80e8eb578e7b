//! Groups: each set of next hops is stored once, however many prefixes use it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::input::{InterfaceId, NEXT_HOPS_MAX, NeighbourId, NextHop, Route};
use super::interfaces::{Interfaces, is_link_local, is_unicast};
use super::neighbours::Neighbours;
use super::output::{Group, GroupId, Member};
use super::refusal::Refusal;
use plexus_wire::Prefix;

/// Most groups: as many as entries of the forwarding table can number.
pub(super) const GROUPS_MAX: usize = 32_767;

/// Whether a next hop can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopState {
    /// It is usable.
    Usable,
    /// Its interface is down, or there is no such interface.
    InterfaceDown,
    /// Its gateway is in no prefix of its interface.
    NotConnected,
    /// Its gateway is the box itself.
    OwnAddress,
    /// There is no room for one more gateway among the neighbours.
    NeighboursFull,
}

/// What a group stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Routes like this, in normal form.
    Route(Route),
    /// A neighbour's host prefix. Unlike a gateway's, it does not keep the neighbour in the table.
    Host(InterfaceId, IpAddr),
}

/// Which changes of a group to publish now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Those that only remove members.
    Smaller,
    Any,
}

/// A next hop of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) next: NextHop,
    pub(super) state: HopState,
    /// Its gateway, while the group is in use.
    pub(super) neighbour: Option<NeighbourId>,
}

#[derive(Debug)]
struct Slot {
    way: Arc<Way>,
    /// Number of routes that use it.
    refs: u32,
    /// Number of prefixes in the forwarding table that use it.
    uses: u32,
    hops: Vec<Hop>,
    told: Option<Group>,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    slots: Vec<Option<Slot>>,
    free: VecDeque<GroupId>,
    by_way: BTreeMap<Arc<Way>, GroupId>,
    /// The groups in use, by gateway.
    by_gateway: BTreeSet<(NeighbourId, GroupId)>,
}

/// A route in normal form, in which equal routes compare equal: next hops sorted, without
/// duplicates.
pub(super) fn normal(prefix: &Prefix, route: Route) -> Result<Route, Refusal> {
    let Route::Via(mut hops) = route else { return Ok(route) };
    let gateway_fits =
        |gateway: IpAddr| is_unicast(gateway) && (prefix.addr().is_ipv4() || gateway.is_ipv6());
    if hops.iter().any(|h| h.weight == 0 || !h.gateway.is_none_or(gateway_fits)) {
        return Err(Refusal::BadNextHop);
    }
    hops.sort_unstable();
    hops.dedup_by(|next, kept| {
        let is_same = (next.interface, next.gateway) == (kept.interface, kept.gateway);
        if is_same {
            kept.weight = kept.weight.saturating_add(next.weight);
            kept.on_link |= next.on_link;
        }
        is_same
    });
    match hops.as_mut_slice() {
        [] => return Err(Refusal::BadNextHop),
        [one] => one.weight = 1,
        more if more.len() > NEXT_HOPS_MAX => return Err(Refusal::TooManyNextHops),
        more if more.iter().any(|h| h.gateway.is_none()) => return Err(Refusal::MixedOnLink),
        _ => {}
    }
    Ok(Route::Via(hops))
}

fn hop_state(hop: &NextHop, interfaces: &Interfaces) -> HopState {
    let Some(facts) = interfaces.get(hop.interface) else { return HopState::InterfaceDown };
    let Some(gateway) = hop.gateway else { return HopState::Usable };
    if facts.is_own(gateway) || (interfaces.is_own(gateway) && !is_link_local(gateway)) {
        HopState::OwnAddress
    } else if hop.on_link || interfaces.is_on_link(hop.interface, gateway) {
        HopState::Usable
    } else {
        HopState::NotConnected
    }
}

/// The next hops of a target.
fn next_hops(way: &Way) -> Vec<NextHop> {
    match way {
        Way::Route(Route::Via(hops)) => hops.clone(),
        Way::Route(_) => Vec::new(),
        Way::Host(interface, address) => {
            let (interface, gateway) = (*interface, Some(*address));
            vec![NextHop { interface, gateway, on_link: true, weight: 1 }]
        }
    }
}

impl Groups {
    fn slot(&self, id: GroupId) -> Option<&Slot> {
        self.slots.get(usize::from(id.0))?.as_ref()
    }

    fn slot_mut(&mut self, id: GroupId) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(id.0))?.as_mut()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_way.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = GroupId> {
        self.by_way.values().copied()
    }

    pub(super) fn way(&self, id: GroupId) -> Option<&Way> {
        self.slot(id).map(|slot| &*slot.way)
    }

    /// The link of a group's destinations.
    pub(super) fn link(&self, id: GroupId) -> Option<InterfaceId> {
        match self.slot(id)?.hops[..] {
            [Hop { next: NextHop { interface, gateway: None, .. }, .. }] => Some(interface),
            _ => None,
        }
    }

    /// The published group.
    pub(super) fn told(&self, id: GroupId) -> Option<&Group> {
        self.slot(id)?.told.as_ref()
    }

    /// Number of prefixes in the forwarding table that use it.
    pub(super) fn uses(&self, id: GroupId) -> u32 {
        self.slot(id).map_or(0, |slot| slot.uses)
    }

    pub(super) fn hops(&self, id: GroupId) -> &[Hop] {
        self.slot(id).map_or(&[], |slot| &slot.hops)
    }

    /// The group of a route, with one more user. At most `max` groups are created.
    pub(super) fn acquire(
        &mut self,
        way: Way,
        interfaces: &Interfaces,
        max: usize,
    ) -> Result<GroupId, Refusal> {
        if let Some(&id) = self.by_way.get(&way) {
            if let Some(slot) = self.slot_mut(id) {
                slot.refs += 1;
            }
            return Ok(id);
        }
        if self.len() >= max {
            return Err(Refusal::GroupsFull);
        }
        // Once all numbers have been used, the one that has been free for longest.
        let next = u16::try_from(self.slots.len()).ok();
        let id = match next.filter(|id| usize::from(*id) < GROUPS_MAX) {
            Some(id) => {
                self.slots.push(None);
                GroupId(id)
            }
            None => self.free.pop_front().ok_or(Refusal::GroupsFull)?,
        };
        let hop = |next| Hop { next, state: hop_state(&next, interfaces), neighbour: None };
        let hops = next_hops(&way).into_iter().map(hop).collect();
        let way = Arc::new(way);
        self.by_way.insert(way.clone(), id);
        let slot = Slot { way, refs: 1, uses: 0, hops, told: None };
        self.slots[usize::from(id.0)] = Some(slot);
        Ok(id)
    }

    /// Removes a user of this group.
    pub(super) fn release(&mut self, id: GroupId) {
        let Some(slot) = self.slot_mut(id) else { return };
        slot.refs -= 1;
        if slot.refs > 0 {
            return;
        }
        debug_assert_eq!(slot.uses, 0, "a group without routes is in use");
        let way = slot.way.clone();
        self.by_way.remove(&way);
        self.slots[usize::from(id.0)] = None;
        self.free.push_back(id);
    }

    /// True if a route with this group is usable.
    pub(super) fn is_active(&self, id: GroupId) -> bool {
        self.slot(id).is_some_and(|slot| {
            slot.hops.is_empty() || slot.hops.iter().any(|h| h.state == HopState::Usable)
        })
    }

    /// Counts one prefix more or less. True if the group has come into use or gone out of use.
    pub(super) fn count_use(&mut self, id: GroupId, is_more: bool) -> bool {
        let Some(slot) = self.slot_mut(id) else { return false };
        slot.uses = if is_more { slot.uses + 1 } else { slot.uses - 1 };
        slot.uses == u32::from(is_more)
    }

    /// Re-evaluates each next hop. True if the group became usable or unusable.
    pub(super) fn refresh(&mut self, id: GroupId, interfaces: &Interfaces) -> bool {
        let before = self.is_active(id);
        if let Some(slot) = self.slot_mut(id) {
            slot.hops.iter_mut().for_each(|hop| hop.state = hop_state(&hop.next, interfaces));
        }
        self.is_active(id) != before
    }

    /// Sets the neighbour of a next hop, or why it has none.
    pub(super) fn set_neighbour(
        &mut self,
        id: GroupId,
        at: usize,
        neighbour: Result<Option<NeighbourId>, HopState>,
    ) {
        let Some(hop) = self.slot_mut(id).and_then(|slot| slot.hops.get_mut(at)) else { return };
        let old = hop.neighbour;
        match neighbour {
            Ok(neighbour) => hop.neighbour = neighbour,
            Err(state) => (hop.state, hop.neighbour) = (state, None),
        }
        let new = hop.neighbour;
        old.map(|n| self.by_gateway.remove(&(n, id)));
        new.map(|n| self.by_gateway.insert((n, id)));
    }

    /// The groups in use with this gateway.
    pub(super) fn of_gateway(&self, id: NeighbourId) -> Vec<GroupId> {
        let range = (id, GroupId(0))..=(id, GroupId(u16::MAX));
        self.by_gateway.range(range).map(|(_, group)| *group).collect()
    }

    /// The new state of a group to publish, if it has changed.
    pub(super) fn news(
        &mut self,
        id: GroupId,
        neighbours: &Neighbours,
        turn: Turn,
    ) -> Option<Option<Group>> {
        let slot = self.slot_mut(id)?;
        let group = (slot.uses > 0).then(|| meaning(slot, neighbours));
        if slot.told == group || (turn == Turn::Smaller && !is_smaller(&slot.told, &group)) {
            return None;
        }
        slot.told = group;
        Some(slot.told.clone())
    }
}

fn is_smaller(old: &Option<Group>, new: &Option<Group>) -> bool {
    match (old, new) {
        (Some(Group::Via(old)), Some(Group::Via(new))) => new.iter().all(|m| old.contains(m)),
        _ => false,
    }
}

fn meaning(slot: &Slot, neighbours: &Neighbours) -> Group {
    match &*slot.way {
        Way::Route(Route::Local) => return Group::Local,
        Way::Route(Route::Broadcast) => return Group::Broadcast,
        Way::Route(Route::Blackhole) => return Group::Blackhole,
        Way::Route(Route::Unreachable) => return Group::Unreachable,
        Way::Route(Route::Prohibited) => return Group::Prohibited,
        Way::Route(Route::Via(_)) | Way::Host(..) => {}
    }
    let usable = || slot.hops.iter().filter(|hop| hop.state == HopState::Usable);
    if let Some(hop) = usable().find(|hop| hop.next.gateway.is_none()) {
        return Group::Glean(hop.next.interface);
    }
    let members: Vec<Member> = usable()
        .filter_map(|hop| {
            let NextHop { interface, weight, .. } = hop.next;
            hop.neighbour.map(|neighbour| Member { neighbour, interface, weight })
        })
        .collect();
    let resolved: Vec<Member> =
        members.iter().copied().filter(|m| neighbours.mac(m.neighbour).is_some()).collect();
    match (resolved.is_empty(), members.is_empty()) {
        (false, _) => Group::Via(resolved),
        (true, false) => Group::Via(members),
        // There was no room for any gateway: its prefixes are about to leave the group.
        (true, true) => Group::Unreachable,
    }
}
