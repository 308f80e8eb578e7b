//! The group's forwarding table, and its copies on the nodes (SPEC.md, 15).
//!
//! The router of the group ([`plexus_control::router`]) chooses among the routes of the settings
//! and those of the kernel beside the controller. What it decides is a list of changes with
//! versions, in which each set and each prefix is once, where it last changed. A node that has a
//! version gets what is behind it, in order: a new node the whole table, any other the rest. So
//! there is one way to fill a table, to change it and to go on after an outage.

mod feed;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use plexus_control::router::{
    Event as RouterEvent, Group, GroupId, Input as RouterInput, InterfaceFacts, InterfaceId,
    Limits, Member, NextHop, Output, Refusal, Route, Router, Source,
};
use plexus_wire::fabric::message::{FibAck, FibHop, FibTarget};
use plexus_wire::{Prefix, Time};

use crate::Controller;
use crate::controller::Timer;
use crate::event::{Drop, Event};
use feed::Feed;
use table::{Share, Table};

/// The router's one interface: the fabric as a whole.
const GROUP: InterfaceId = InterfaceId(0);

/// How long routes of daemons are waited for that have just begun, and how long after the first.
const HOLD: Duration = Duration::from_secs(20);
const SETTLED: Duration = Duration::from_secs(3);

/// The table and its copies.
#[derive(Debug)]
pub(crate) struct Fib {
    router: Router,
    table: Table,
    /// The sets of the router's groups.
    sets: BTreeMap<GroupId, u32>,
    next_set: u32,
    /// By the node's dense number.
    feeds: BTreeMap<u32, Feed>,
    /// The last tables of nodes that got one and then no more.
    past: BTreeMap<u32, u64>,
    /// Nodes that may be sent more.
    hungry: BTreeSet<u32>,
    /// Nodes that are not told yet that they have all: the routes of the table before stay.
    withheld: BTreeSet<u32>,
    /// When a node has not answered for too long.
    due: BTreeSet<(Time, u32)>,
    /// The kernel's routes are all there, or are not waited for: nodes may be told that they have
    /// all. Until then those of an earlier incarnation stay.
    is_whole: bool,
    /// When they are no longer waited for.
    whole_at: Time,
    /// The deadline that the controller's timer has.
    armed: Time,
}

impl Fib {
    pub(crate) fn new(seed: [u8; 32]) -> Fib {
        Fib {
            router: Router::new(Limits::default(), seed),
            table: Table::default(),
            sets: BTreeMap::new(),
            next_set: 0,
            feeds: BTreeMap::new(),
            past: BTreeMap::new(),
            hungry: BTreeSet::new(),
            withheld: BTreeSet::new(),
            due: BTreeSet::new(),
            is_whole: false,
            whole_at: Time::FOREVER,
            armed: Time::FOREVER,
        }
    }

    /// The table's version, and how many routes it has.
    pub(crate) fn version(&self) -> (u64, usize) {
        (self.table.version(), self.table.routes(Share::Whole))
    }

    /// The table's version, and whether it is whole.
    pub(crate) fn state(&self) -> (u64, bool) {
        (self.table.version(), self.is_whole)
    }

    /// The router, for questions.
    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// How many routes were refused because there were too many, and whether there still are.
    pub(crate) fn refused(&self) -> (u64, bool) {
        (self.router.refused(Refusal::RoutesFull), self.router.is_full())
    }

    /// The routes from a prefix on, in order.
    pub(crate) fn from(&self, first: &Prefix) -> impl Iterator<Item = (Prefix, &FibTarget)> {
        self.table.from(first)
    }

    /// The hosts that lead to other networks.
    pub(crate) fn vias(&self) -> impl Iterator<Item = IpAddr> {
        self.table.vias()
    }

    /// How many routes a node gets; `None`: it gets no table.
    pub(crate) fn routes_of(&self, node: u32) -> Option<usize> {
        self.feeds.get(&node).map(|feed| self.table.routes(feed.share()))
    }

    /// The version that a node has, if it has said so in this session.
    pub(crate) fn version_of(&self, node: u32) -> Option<u64> {
        self.feeds.get(&node).and_then(Feed::version)
    }

    /// The nodes that get the table, or go on with the one before.
    pub(crate) fn holders(&self) -> impl Iterator<Item = u32> {
        self.feeds.keys().chain(&self.withheld).copied()
    }

    /// Does something with a node's feed, and takes note of when it is due.
    fn with_feed<R>(
        &mut self,
        node: u32,
        what: impl FnOnce(&mut Feed, &Table, bool) -> R,
    ) -> Option<R> {
        let feed = self.feeds.get_mut(&node)?;
        self.due.remove(&(feed.due(), node));
        let is_whole = self.is_whole && !self.withheld.contains(&node);
        let result = what(feed, &self.table, is_whole);
        if feed.due() < Time::FOREVER {
            self.due.insert((feed.due(), node));
        }
        Some(result)
    }

    /// Passes an input to the router. Gives what is to be logged.
    fn handle(&mut self, now: Time, input: RouterInput) -> Vec<RouterEvent> {
        self.router.handle(now, input);
        let mut events = Vec::new();
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Group { id, group } => self.set_group(id, group),
                Output::Fib { prefix, group } => {
                    let set = group.and_then(|id| self.sets.get(&id)).copied();
                    self.table.set_route(prefix, set);
                }
                Output::Tell(event) => events.push(event),
                // It has no data plane of its own, and asks nobody.
                Output::Send { .. } | Output::Again { .. } | Output::Adjacency { .. } => {}
            }
        }
        events
    }

    fn set_group(&mut self, id: GroupId, group: Option<Group>) {
        let target = group.and_then(|group| self.target(&group));
        match target {
            Some(target) => {
                let next = &mut self.next_set;
                let set = *self.sets.entry(id).or_insert_with(|| {
                    *next += 1;
                    *next
                });
                self.table.set_target(set, Some(target));
            }
            None => {
                if let Some(set) = self.sets.remove(&id) {
                    self.table.set_target(set, None);
                }
            }
        }
    }

    /// A node's part for a group of the router. `None`: nodes know their own addresses and the
    /// subnets by themselves, and cannot reach the networks of the kernel's other devices.
    fn target(&self, group: &Group) -> Option<FibTarget> {
        let hop = |member: &Member| {
            let via = self.router.address_of(member.neighbour)?;
            Some(FibHop { via, weight: member.weight })
        };
        match group {
            Group::Via(members) => {
                let hops: Vec<FibHop> = members.iter().filter_map(hop).collect();
                (!hops.is_empty()).then_some(FibTarget::Hosts(hops))
            }
            Group::Blackhole => Some(FibTarget::Blackhole),
            Group::Unreachable => Some(FibTarget::Unreachable),
            Group::Prohibited => Some(FibTarget::Prohibited),
            Group::Glean(_) | Group::Local | Group::Broadcast => None,
        }
    }
}

impl Controller {
    /// The settings are in force, initially or after a change: the group's addresses and static
    /// routes.
    pub(crate) fn configure_router(&mut self, now: Time) {
        let before = self.fib.table.version();
        let subnets = self.config.subnets.iter();
        let addresses: Vec<(IpAddr, u8)> =
            subnets.filter_map(|s| Some((s.gateway?, s.prefix.len()))).collect();
        let facts = InterfaceFacts {
            name: "group".into(),
            mac: self.config.group_mac,
            mtu: u16::MAX,
            addresses,
            kernel: false,
            is_told: true,
        };
        let facts = Some(facts).filter(|facts| !facts.addresses.is_empty());
        self.fib.router.limit_routes(self.config.limits.routes as usize);
        self.tell_router(now, RouterInput::Interface { id: GROUP, facts });
        let mut by_prefix: BTreeMap<Prefix, Vec<NextHop>> = BTreeMap::new();
        for route in &self.config.routes {
            let (interface, gateway) = (GROUP, Some(route.via));
            let hop = NextHop { interface, gateway, on_link: false, weight: 1 };
            by_prefix.entry(route.prefix).or_default().push(hop);
        }
        let source = Source::Static;
        self.tell_router(now, RouterInput::Begin(source));
        for (prefix, hops) in by_prefix {
            let route = Some(Route::Via(hops));
            self.tell_router(now, RouterInput::Route { source, prefix, metric: 0, route });
        }
        self.tell_router(now, RouterInput::End(source));
        self.feed_all(before);
        self.share_out(now);
        // Nodes that route no more need no table.
        let feeds = self.fib.feeds.keys().copied();
        let ended: Vec<u32> = feeds.filter(|node| !self.is_forwarder(*node)).collect();
        for node in ended {
            self.fib.with_feed(node, |feed, _, _| feed.close());
            let feed = self.fib.feeds.remove(&node);
            self.fib.past.extend(feed.map(|feed| (node, feed.table())));
        }
        // A group that has become a router has nodes that were not asked yet.
        for node in 0..self.sessions.len() as u32 {
            if self.sessions[node as usize].is_open && !self.fib.feeds.contains_key(&node) {
                self.fib_of_node_up(now, node);
            }
        }
        if self.config.subnets.iter().all(|s| s.device.is_none()) {
            self.set_whole();
        }
    }

    /// A node's share of the table.
    fn share_of(&self, node: u32) -> Share {
        let name = &self.topology.node(node).name;
        let place = self.config.forwarders.iter().position(|forwarder| forwarder.node == *name);
        match (self.fib.table.partition(), place) {
            (Some(_), Some(place)) => Share::Of(place as u8),
            _ => Share::Whole,
        }
    }

    /// Nodes get the parts of the table that the settings say.
    fn share_out(&mut self, now: Time) {
        let is_other = self.fib.table.partition() != self.config.partition().as_ref();
        self.fib.table.set_partition(self.config.partition());
        let feeds = self.fib.feeds.iter();
        let shares = feeds.map(|(node, feed)| (*node, feed.share(), self.share_of(*node)));
        let changed = shares.filter(|(node, before, after)| {
            self.is_forwarder(*node) && (is_other || before != after)
        });
        let changed: Vec<(u32, Share)> = changed.map(|(node, _, after)| (node, after)).collect();
        self.change_forwarders(now);
        for (node, share) in changed {
            let question = self.fib.with_feed(node, |feed, _, _| feed.change_share(now, share));
            if let Some(question) = question.flatten() {
                self.send(node, 0, question);
            }
        }
    }

    /// Keeps these nodes as they are, whatever they lack: they are not told that their tables are
    /// complete, so that the routes of those before stay.
    pub(crate) fn withhold(&mut self, nodes: BTreeSet<u32>) {
        self.fib.withheld = nodes;
    }

    /// Whether a node goes on with the table before.
    pub(crate) fn is_withheld(&self, node: u32) -> bool {
        self.fib.withheld.contains(&node)
    }

    /// A node's table has gone, or is wrong.
    fn keep_no_more(&mut self, node: u32) {
        self.fib.withheld.remove(&node);
    }

    /// Tells all nodes that their tables are complete.
    pub(crate) fn release_tables(&mut self) {
        if !std::mem::take(&mut self.fib.withheld).is_empty() {
            let before = self.fib.table.version();
            self.fib.table.touch();
            self.feed_all(before);
        }
    }

    /// All routes are known, or the time is over in which the rest was waited for.
    pub(crate) fn set_whole(&mut self) {
        self.fib.whole_at = Time::FOREVER;
        self.rearm(None, Timer::Whole);
        if !std::mem::replace(&mut self.fib.is_whole, true) {
            let before = self.fib.table.version();
            self.fib.table.touch();
            self.feed_all(before);
        }
    }

    /// Routes of the kernel beside the controller, where routing daemons write them.
    pub(crate) fn kernel_routes(&mut self, now: Time, inputs: Vec<RouterInput>) {
        let before = self.fib.table.version();
        for input in inputs {
            let is_of_kernel = match &input {
                RouterInput::Begin(source) | RouterInput::End(source) => *source == Source::Kernel,
                RouterInput::Route { source, .. } => *source == Source::Kernel,
                _ => false,
            };
            let is_end = matches!(input, RouterInput::End(_));
            if is_of_kernel {
                self.tell_router(now, input);
            }
            if is_of_kernel && is_end {
                self.kernel_is_read(now);
            }
        }
        if self.fib.whole_at < Time::FOREVER && self.fib.table.routes(Share::Whole) > 0 {
            self.hold_until((now + SETTLED).min(self.fib.whole_at));
        }
        self.feed_all(before);
    }

    /// All routes of the kernel are known. If there are none, its daemons have just begun: nodes
    /// keep those of an earlier controller for some time.
    fn kernel_is_read(&mut self, now: Time) {
        if self.fib.is_whole {
            return;
        }
        match self.fib.table.routes(Share::Whole) {
            0 => self.hold_until(now + HOLD),
            _ => self.set_whole(),
        }
    }

    fn hold_until(&mut self, at: Time) {
        self.fib.whole_at = at;
        self.rearm(Some(at), Timer::Whole);
    }

    fn tell_router(&mut self, now: Time, input: RouterInput) {
        for event in self.fib.handle(now, input) {
            match event {
                RouterEvent::RoutesFull => self.log(Event::RoutesFull),
                RouterEvent::RoutesFit => self.log(Event::RoutesFit),
                RouterEvent::GroupsFull => self.log(Event::GroupsFull),
                // Nodes ask for neighbours, and have tables of their own.
                _ => {}
            }
        }
    }

    /// Every node may be sent more, if the table has changed since this version.
    fn feed_all(&mut self, before: u64) {
        if self.fib.table.version() != before {
            let nodes = self.fib.feeds.keys().copied();
            self.fib.hungry.extend(nodes);
        }
    }

    /// A node's session is new: it is asked which version it has.
    pub(crate) fn fib_of_node_up(&mut self, now: Time, node: u32) {
        if self.config.subnets.iter().all(|s| s.gateway.is_none()) || !self.is_forwarder(node) {
            return;
        }
        let (epoch, share) = (self.epoch, self.share_of(node));
        let past = self.fib.past.get(&node).copied();
        self.fib.feeds.entry(node).or_insert_with(|| Feed::new(epoch, past, share));
        self.keep_no_more(node);
        self.ask_for_version(now, node);
    }

    /// Asks a node for the version that it has. Until it answers it has none.
    pub(crate) fn ask_for_version(&mut self, now: Time, node: u32) {
        if let Some(question) = self.fib.with_feed(node, |feed, _, _| feed.ask(now)) {
            self.send(node, 0, question);
        }
    }

    /// A node's session has ended: nothing waits for its answers.
    pub(crate) fn fib_of_node_down(&mut self, node: u32) {
        self.keep_no_more(node);
        self.fib.with_feed(node, |feed, _, _| feed.close());
    }

    /// A node has said which version it has.
    pub(crate) fn fib_ack(&mut self, now: Time, node: u32, ack: &FibAck) {
        let heard = self.fib.with_feed(node, |feed, table, _| feed.heard(now, table, ack));
        let Some(heard) = heard else { return self.dropped(Drop::UnexpectedBody) };
        if let Some(question) = heard.question {
            self.send(node, 0, question);
        }
        if heard.is_wrong {
            self.keep_no_more(node);
            let node = self.id(node);
            self.log(Event::TableWrong { node });
        }
        // A repeated answer may mean that something is to be sent again.
        self.fib.hungry.insert(node);
        if heard.is_news {
            self.prune();
        }
    }

    /// Sends the nodes what they may be sent; called at the end of each input.
    pub(crate) fn feed_nodes(&mut self, now: Time) {
        for node in std::mem::take(&mut self.fib.hungry) {
            let more = |feed: &mut Feed, table: &Table, is_whole| feed.more(now, table, is_whole);
            for update in self.fib.with_feed(node, more).into_iter().flatten() {
                self.send(node, 0, update);
            }
        }
        let first = self.fib.due.first().map_or(Time::FOREVER, |(at, _)| *at);
        if std::mem::replace(&mut self.fib.armed, first) != first {
            self.rearm((first < Time::FOREVER).then_some(first), Timer::Feeds);
        }
    }

    /// Nodes have not answered for too long: they are asked what they have.
    pub(crate) fn feeds_due(&mut self, now: Time) {
        self.fib.armed = Time::FOREVER;
        while let Some(&(at, node)) = self.fib.due.first().filter(|(at, _)| *at <= now) {
            let question = self.fib.with_feed(node, |feed, _, _| feed.again(now)).flatten();
            self.fib.due.remove(&(at, node));
            if let Some(question) = question {
                self.send(node, 0, question);
            }
        }
    }

    /// Forgets what has been withdrawn from every node.
    fn prune(&mut self) {
        if !self.fib.table.has_gone() {
            return;
        }
        let told = self.fib.feeds.values().map(Feed::floor).min();
        self.fib.table.prune(told.unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests;
