//! Next-hop objects, which many routes share and which change in one place.

use std::collections::{BTreeSet, HashMap};

use super::event::{KernelEvent, KernelRoute};
use super::parse::Object;

/// All objects by number, with the round of dumps in which each was last named.
#[derive(Default)]
pub(super) struct NextHops {
    objects: HashMap<u32, (u64, Object)>,
}

impl NextHops {
    /// Whether one of them uses this device.
    pub(super) fn name(&self, device: u32) -> bool {
        self.objects.values().any(|(_, object)| match object {
            Object::Single(KernelRoute::Via(hops)) => hops.iter().any(|h| h.device == device),
            _ => false,
        })
    }

    /// What happens to packets on a route with this object; `None` if it is unknown.
    pub(super) fn resolve(&self, id: u32) -> Option<KernelRoute> {
        match &self.objects.get(&id)?.1 {
            Object::Single(route) => Some(route.clone()),
            Object::Group(members) => {
                let mut hops = Vec::with_capacity(members.len());
                for (member, weight) in members {
                    // Groups do not hold groups.
                    match &self.objects.get(member)?.1 {
                        Object::Single(KernelRoute::Via(one)) => {
                            hops.extend(one.iter().map(|h| super::Hop { weight: *weight, ..*h }));
                        }
                        Object::Single(other) => return Some(other.clone()),
                        Object::Group(_) => return None,
                    }
                }
                hops.sort_unstable();
                (!hops.is_empty()).then_some(KernelRoute::Via(hops))
            }
        }
    }

    /// Sets an object, and reports what that changes for routes that use it.
    pub(super) fn set(&mut self, round: u64, id: u32, to: Object, events: &mut Vec<KernelEvent>) {
        let old = self.objects.insert(id, (round, to));
        // No route with a new object has been reported yet.
        if old.is_some_and(|(_, old)| old != self.objects[&id].1) {
            let mut changed = self.groups_with(id);
            changed.insert(id);
            self.tell(changed, events);
        }
    }

    /// Removes an object, also from its groups; an empty group is removed as well. The kernel
    /// reports only a part of that, and nothing if a device is the cause.
    pub(super) fn remove(&mut self, id: u32, events: &mut Vec<KernelEvent>) {
        if self.objects.remove(&id).is_none() {
            return;
        }
        let mut changed = self.groups_with(id);
        for group in &changed {
            if let Some((_, Object::Group(members))) = self.objects.get_mut(group) {
                members.retain(|(member, _)| *member != id);
                if members.is_empty() {
                    self.objects.remove(group);
                }
            }
        }
        changed.insert(id);
        self.tell(changed, events);
    }

    /// Removes objects that the dumps of this round have not named.
    pub(super) fn forget_unnamed(&mut self, round: u64, events: &mut Vec<KernelEvent>) {
        let old = self.objects.iter().filter(|(_, (named, _))| *named < round);
        let old: BTreeSet<u32> = old.map(|(id, _)| *id).collect();
        for id in old {
            self.remove(id, events);
        }
    }

    fn groups_with(&self, id: u32) -> BTreeSet<u32> {
        let has = |o: &Object| matches!(o, Object::Group(m) if m.iter().any(|(m, _)| *m == id));
        self.objects.iter().filter(|(_, (_, o))| has(o)).map(|(group, _)| *group).collect()
    }

    fn tell(&self, ids: BTreeSet<u32>, events: &mut Vec<KernelEvent>) {
        for id in ids {
            let route = self.resolve(id);
            // A group whose members are not known yet is not reported.
            if route.is_some() || !self.objects.contains_key(&id) {
                events.push(KernelEvent::NextHop { id, route });
            }
        }
    }
}
