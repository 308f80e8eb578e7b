//! The life of a tree: computed, installed at every node, used by its heads, and removed, in that
//! order.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_config::Members;
use plexus_wire::fabric::CREDITS_MAX;
use plexus_wire::fabric::message::{
    BODY_MAX, GroupRoute, GroupRoutes, TreeEntry, TreeUpdate, TreesReady,
};
use plexus_wire::{MacAddr, Time};

use super::shape::{credits, grow, mix};
use super::{Head, Key, RETIRE_AFTER, Standing, served};
use crate::Controller;
use crate::controller::Timer;
use crate::event::Drop;
use crate::topology::Place;
use crate::trees::FAR;

/// How long changes are gathered, unless a tree is broken.
const GATHER: Duration = Duration::from_millis(20);
/// Bytes of a `TreeUpdate` without entries: kind, request, flag and two counts.
const UPDATE_LEN: usize = 10;
/// Most bytes of a `GroupRoute`.
const ROUTE_LEN: usize = 27;

impl Controller {
    /// A node has installed trees.
    pub(crate) fn trees_ready(&mut self, now: Time, node: u32, ready: &TreesReady) {
        for number in &ready.trees {
            let Some(key) = self.multicast.numbers.get(number).cloned() else { continue };
            let Some(tree) = self.multicast.trees.get_mut(&key) else { continue };
            let Some((standing, waiting)) = &mut tree.coming else { continue };
            if standing.number != *number || !waiting.remove(&node) || !waiting.is_empty() {
                continue;
            }
            let coming = tree.coming.take().map(|(standing, _)| standing);
            let old = std::mem::replace(&mut tree.used, coming);
            self.retire(now, old);
            self.tell_heads(&key);
        }
    }

    fn retire(&mut self, now: Time, standing: Option<Standing>) {
        let Some(standing) = standing else { return };
        self.multicast.retiring.push_back((now + RETIRE_AFTER, standing));
        let first = self.multicast.retiring.front().map(|(at, _)| *at);
        self.rearm(first, Timer::Retire);
    }

    /// Removes the trees whose time is over.
    pub(crate) fn retire_due(&mut self, now: Time) {
        while let Some((at, _)) = self.multicast.retiring.front()
            && *at <= now
        {
            let Some((_, standing)) = self.multicast.retiring.pop_front() else { break };
            self.multicast.numbers.remove(&standing.number);
            for node in standing.shape.ports.keys() {
                self.multicast.removes.entry(*node).or_default().push(standing.number);
            }
        }
        let first = self.multicast.retiring.front().map(|(at, _)| *at);
        self.rearm(first, Timer::Retire);
    }

    /// At the end of an input: repairs broken trees now, and gathers other changes.
    pub(crate) fn groups_settle(&mut self, now: Time) {
        // Without a cable nothing can be changed, and the present trees stay.
        if self.multicast.dirty.is_empty() || !self.control.is_attached() {
            return;
        }
        if !std::mem::take(&mut self.multicast.urgent) {
            if !std::mem::replace(&mut self.multicast.is_armed, true) {
                self.arm(now + GATHER, Timer::Groups);
            }
            return;
        }
        let learn_until = self.multicast.learn_until.filter(|until| now < *until);
        if learn_until.is_none() {
            self.multicast.inherited.clear();
        }
        for (key, anew) in std::mem::take(&mut self.multicast.dirty) {
            let is_inherited = self.multicast.inherited.contains(&key.group);
            if let Some(until) = learn_until.filter(|_| is_inherited) {
                *self.multicast.later.entry(key).or_default() |= anew;
                self.rearm(Some(until), Timer::Learned);
                continue;
            }
            self.rebuild(now, &key, anew);
        }
    }

    /// Current senders and listeners of a tree; true: every host is a listener.
    pub(super) fn parties(&self, key: &Key) -> (BTreeSet<Head>, BTreeSet<Place>, bool) {
        let reach = self.control.reach();
        let is_near = |at: &Place| reach(at.node) && self.topology.is_host_port(*at);
        let mut senders = BTreeSet::new();
        let mut all = false;
        for (head, ip) in self.multicast.senders.get(&key.group).into_iter().flatten() {
            let host = self.hosts.get(head.1).filter(|h| h.at == head.0 && h.groups == key.class);
            let members = served(&self.config, *ip).filter(|_| host.is_some() && is_near(&head.0));
            if let Some(members) = members {
                senders.insert(*head);
                all |= members == Members::All;
            }
        }
        let mut listening = BTreeSet::new();
        if all {
            let may = self.hosts.iter().filter(|(_, h)| self.groups.may_ask(&key.class, &h.groups));
            listening.extend(may.map(|(_, h)| h.at).filter(|at| is_near(at)));
        }
        for ((at, mac), ip) in self.multicast.listeners.get(&key.group).into_iter().flatten() {
            let is_device = self.is_device(*at);
            let may = self.hosts.get(*mac).is_some_and(|h| {
                h.at == *at && (is_device || self.groups.may_ask(&key.class, &h.groups))
            });
            if may && is_near(at) && served(&self.config, *ip) == Some(Members::Joined) {
                listening.insert(*at);
            }
        }
        (senders, listening, all)
    }

    fn rebuild(&mut self, now: Time, key: &Key, anew: bool) {
        self.multicast.considered += 1;
        let (senders, listening, all) = self.parties(key);
        if senders.is_empty() || listening.is_empty() {
            return self.end_tree(now, key);
        }
        let limit = self.config.limits.trees as usize;
        if !self.multicast.trees.contains_key(key) && self.multicast.trees.len() >= limit {
            return self.dropped(Drop::TooManyTrees);
        }
        let cores = listening.iter().map(|at| at.node);
        let core = cores.max_by_key(|n| (mix(key.group, self.id(*n), 0), *n)).unwrap_or(0);
        let mut nodes: BTreeSet<u32> = listening.iter().map(|at| at.node).collect();
        nodes.extend(senders.iter().map(|(at, _)| at.node));
        let distance = self.flows.trees.to(&self.topology, core);
        if nodes.iter().any(|n| distance[*n as usize] == FAR) {
            // Both are within the controller's reach, so this is temporary.
            return self.dropped(Drop::NoTree);
        }
        let shape = grow(&self.topology, distance, key.group, &nodes, &listening);
        if senders.iter().any(|(at, _)| credits(shape.links_from(at.node)) > CREDITS_MAX) {
            self.dropped(Drop::NoTree);
            return self.end_tree(now, key);
        }
        let tree = self.multicast.trees.entry(key.clone()).or_default();
        (tree.listeners, tree.all) = (listening.len(), all);
        let newest = tree.coming.as_ref().map(|(s, _)| s).or(tree.used.as_ref());
        if !anew && newest.is_some_and(|s| s.shape == shape) {
            return self.tell_heads(key);
        }
        let abandoned = tree.coming.take().map(|(standing, _)| standing);
        self.retire(now, abandoned);
        let number = self.multicast.next_number();
        self.multicast.numbers.insert(number, key.clone());
        for (node, ports) in &shape.ports {
            let entry = TreeEntry { tree: number, ports: ports.iter().copied().collect() };
            self.multicast.adds.entry(*node).or_default().push(entry);
        }
        let waiting = shape.ports.keys().copied().collect();
        if let Some(tree) = self.multicast.trees.get_mut(key) {
            tree.coming = Some((Standing { number, shape }, waiting));
        }
        // Former senders are told now.
        self.tell_heads(key);
    }

    /// No sender or no listener is left.
    fn end_tree(&mut self, now: Time, key: &Key) {
        let Some(tree) = self.multicast.trees.remove(key) else { return };
        for head in tree.told.into_keys() {
            self.tell_head(key.group, head, None);
        }
        self.retire(now, tree.used);
        self.retire(now, tree.coming.map(|(standing, _)| standing));
    }

    /// Tells the nodes of senders which tree to use, unless they know.
    fn tell_heads(&mut self, key: &Key) {
        let (senders, _, _) = self.parties(key);
        let Some(tree) = self.multicast.trees.get_mut(key) else { return };
        let Some(used) = &tree.used else { return };
        let mut changed: Vec<(Head, Option<(u32, u8)>)> = Vec::new();
        tree.told.retain(|head, _| {
            let stays = senders.contains(head);
            if !stays {
                changed.push((*head, None));
            }
            stays
        });
        for head in senders {
            // A sender at a node outside the tree waits for the next tree.
            let links = used.shape.links_from(head.0.node);
            if links == FAR {
                continue;
            }
            let way = (used.number, credits(links));
            if tree.told.insert(head, way) != Some(way) {
                changed.push((head, Some(way)));
            }
        }
        for (head, way) in changed {
            self.tell_head(key.group, head, way);
        }
    }

    fn tell_head(&mut self, group: MacAddr, (at, source): Head, way: Option<(u32, u8)>) {
        // Its host now belongs to other groups, whose tree includes it.
        let has_another = |key: &Key| {
            self.multicast.trees.get(key).is_some_and(|t| t.told.contains_key(&(at, source)))
        };
        if way.is_none() && self.multicast.keys_of(group).iter().any(has_another) {
            return;
        }
        let version = self.flows.next_version();
        let (tree, credits) = (way.map(|w| w.0), way.map_or(0, |w| w.1));
        let route = GroupRoute { port: at.port, source, group, version, tree, credits };
        self.multicast.routes.entry(at.node).or_default().push(route);
    }

    /// Sends the changes caused by one input.
    pub(crate) fn groups_finish(&mut self) {
        for (node, entries) in std::mem::take(&mut self.multicast.adds) {
            let (mut add, mut len) = (Vec::new(), UPDATE_LEN);
            for entry in entries {
                let more = 6 + entry.ports.len();
                if len + more > BODY_MAX {
                    let add = std::mem::take(&mut add);
                    self.send_reliably(node, 0, tree_update(add, vec![]));
                    len = UPDATE_LEN;
                }
                len += more;
                add.push(entry);
            }
            self.send_reliably(node, 0, tree_update(add, vec![]));
        }
        for (node, numbers) in std::mem::take(&mut self.multicast.removes) {
            for numbers in numbers.chunks((BODY_MAX - UPDATE_LEN) / 4) {
                self.send_reliably(node, 0, tree_update(vec![], numbers.to_vec()));
            }
        }
        for (node, routes) in std::mem::take(&mut self.multicast.routes) {
            for routes in routes.chunks((BODY_MAX - 7) / ROUTE_LEN) {
                self.send_reliably(node, 0, GroupRoutes { routes: routes.to_vec() });
            }
        }
    }
}

fn tree_update(add: Vec<TreeEntry>, remove: Vec<u32>) -> TreeUpdate {
    TreeUpdate { earlier: false, add, remove }
}
