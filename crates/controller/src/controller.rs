//! The state machine: dispatches inputs, fires timers, and collects the outputs that one input
//! causes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::fabric::message::{BODY_MAX, Body, PortBlock, Refusal, RouteEntry, RouteUpdate};
use plexus_wire::{MacAddr, Time};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::claims::Claims;
use crate::classes::Classes;
use crate::common::Common;
use crate::control::ControlPaths;
use crate::counters::Reports;
use crate::daemons::{Daemons, multicast_rules};
use crate::dhcp::Dhcp;
use crate::event::{Drop, Event};
use crate::explain::Traces;
use crate::fib::Fib;
use crate::flows::{FlowKey, Flows};
use crate::follow::{Waiting, digest};
use crate::forwarders::Forwarders;
use crate::groups::Groups;
use crate::hosts::Hosts;
use crate::io::{Input, Output, Start};
use crate::keyed::Seed;
use crate::multicast::Multicast;
use crate::node::{Reported, Session};
use crate::resolve::{Exchanges, Searches};
use crate::router::Advertiser;
use crate::scan::{Scans, ms};
use crate::shares::Shares;
use crate::standbys::Standbys;
use crate::topology::{Place, Topology};
use crate::{Config, NodeId};

/// Timers of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A node may have timed out.
    Silence,
    /// A station did not answer a probe for its address.
    Claim(u64),
    /// No station answered for an address.
    Search(IpAddr),
    /// Exchanges expire.
    Exchanges,
    /// Routes reported by nodes are checked against the topology.
    Adopt,
    /// Flows without a path may have one again.
    Recover,
    /// Some flows may have better routes now.
    Improve,
    /// A closed port reopens.
    Open(Place),
    /// A lease, an offer or a quarantine expires.
    Leases,
    /// A host is due for a router advertisement.
    Advertise,
    /// Trees of multicast groups have to follow changes.
    Groups,
    /// Groups with trees of an earlier incarnation get new ones.
    Learned,
    /// Trees that are no longer used are removed.
    Retire,
    /// A node's trees of earlier incarnations expire.
    Earlier(u32),
    /// Nodes have not answered about the forwarding table.
    Feeds,
    /// Routing daemons have had time to tell their routes.
    Whole,
    /// Forwarders have had time to get the table.
    Forwarders,
    /// Functions have had time to be heard.
    Classes,
    /// Nodes have not told what becomes of a packet.
    Traces,
    /// Nodes have had time to answer about the common file.
    Common,
    /// Nodes are told of the controllers that stand by.
    Standbys,
}

/// Delay between restored links and the retry of flows without a path: long enough for the Hello of
/// a link's other end, short compared with the outage.
const RECOVER_AFTER: Duration = Duration::from_millis(5);
/// How long links have to be up before flows that have routes are moved onto them.
const IMPROVE_AFTER: Duration = Duration::from_secs(1);
const IMPROVE_EVERY: Duration = Duration::from_millis(10);
/// Flows examined in one step of improvement.
const IMPROVED_AT_ONCE: u32 = 512;

/// The controller; see the crate's documentation.
#[derive(Debug)]
pub struct Controller {
    pub(crate) config: Config,
    /// A digest of them.
    pub(crate) digest: u64,
    pub(crate) epoch: u64,
    /// It stands by, and makes no promises.
    pub(crate) follows: bool,
    pub(crate) waiting: Waiting,
    /// It leads, and its lease may have ended: another one may lead by now.
    in_doubt: bool,
    /// It leads without the store, and makes none either.
    pub(crate) is_provisional: bool,
    pub(crate) topology: Topology,
    pub(crate) flows: Flows,
    pub(crate) hosts: Hosts,
    pub(crate) groups: Groups,
    pub(crate) scans: Scans,
    pub(crate) claims: Claims,
    pub(crate) exchanges: Exchanges,
    pub(crate) searches: Searches,
    pub(crate) dhcp: Dhcp,
    pub(crate) advertiser: Advertiser,
    pub(crate) reported: Reported,
    pub(crate) control: ControlPaths,
    pub(crate) multicast: Multicast,
    pub(crate) fib: Fib,
    pub(crate) daemons: Daemons,
    pub(crate) forwarders: Forwarders,
    pub(crate) classes: Classes,
    /// Counts changes of the list of revoked keys.
    pub(crate) revoked_version: u64,
    pub(crate) shares: Shares,
    pub(crate) reports: Reports,
    pub(crate) traces: Traces,
    pub(crate) common: Common,
    pub(crate) standbys: Standbys,
    /// The write of a version of it.
    pub(crate) common_ticket: Option<u64>,
    /// By the node's dense number.
    pub(crate) sessions: Vec<Session>,
    pub(crate) rng: Pcg64,
    timers: BTreeSet<(Time, Timer)>,
    outputs: VecDeque<Output>,
    /// Changed entries by node; each entry appears once.
    updates: BTreeMap<u32, BTreeMap<FlowKey, RouteEntry>>,
    drops: BTreeMap<Drop, u64>,
    /// The next flow to improve; `u32::MAX` when none is left.
    improve_next: u32,
    /// Links were found since this round of improvement began: another one follows.
    improve_again: bool,
}

impl Controller {
    /// A controller of a new incarnation, which knows only the stored records.
    pub fn new(start: Start) -> Controller {
        let mut controller = Controller::empty(&start);
        controller.arm_leases();
        controller.set_group_policy();
        controller.configure_router(start.now);
        controller
    }

    /// One that knows the stored records, and does nothing by itself.
    pub(crate) fn empty(start: &Start) -> Controller {
        let Start { config, epoch, provisional, now, unix_s, stored, seed } = start;
        let mut rng = Pcg64::from_seed(*seed);
        let flows = Flows::new(config.policy, *epoch, rng.next_u64());
        let seed = Seed([rng.next_u64(), rng.next_u64()]);
        Controller {
            groups: Groups::new(config),
            dhcp: Dhcp::new(config, *now, *unix_s, stored),
            config: config.clone(),
            digest: digest(config),
            epoch: *epoch,
            follows: false,
            waiting: Waiting::default(),
            in_doubt: false,
            is_provisional: *provisional,
            topology: Topology::default(),
            flows,
            hosts: Hosts::new(seed, config.subnets.iter().map(|subnet| subnet.prefix).collect()),
            scans: Scans::new(seed),
            claims: Claims::default(),
            exchanges: Exchanges::new(seed),
            searches: Searches::default(),
            advertiser: Advertiser::default(),
            reported: Reported::default(),
            control: ControlPaths::default(),
            multicast: Multicast::new(*epoch),
            fib: Fib::new(seed_of(&mut rng)),
            daemons: Daemons::default(),
            forwarders: Forwarders::default(),
            classes: Classes::default(),
            revoked_version: 0,
            shares: Shares::default(),
            reports: Reports::default(),
            traces: Traces::default(),
            common: Common::new(stored),
            standbys: Standbys::default(),
            common_ticket: None,
            sessions: Vec::new(),
            rng,
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
            updates: BTreeMap::new(),
            drops: BTreeMap::new(),
            improve_next: u32::MAX,
            improve_again: false,
        }
    }

    /// Processes an input; timers that are due fire first.
    pub fn handle(&mut self, now: Time, input: Input) {
        while let Some(&(at, timer)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, timer));
            self.fire(now, timer);
        }
        match input {
            Input::Tick => {}
            Input::Watched => self.watched(now),
            Input::Explain { question, start } => self.explain(now, question, start),
            Input::Common { question, .. } if self.is_provisional => {
                let why = "this controller leads provisionally, without its store";
                self.output(Output::CommonTold { question, told: Err(why.into()) });
            }
            Input::Common { question, ask } => {
                let unix_s = self.dhcp.unix(now);
                self.common.ask(now, unix_s, question, ask);
            }
            Input::Attached { to } => self.attached(now, to),
            Input::NodeUp { node, name, version } => self.node_up(now, node, &name, version),
            Input::NodeDown { node } => match self.topology.index(node) {
                Some(index) => self.node_down(now, index, false),
                None => self.dropped(Drop::UnknownNode),
            },
            Input::Message { node, request, body } => self.message(now, node, request, body),
            Input::Stored { ticket } => {
                self.stored(now, ticket);
                self.common_stored(now, ticket);
            }
            Input::Configure(config) => self.configure(now, *config),
            Input::Kernel(inputs) => self.kernel_routes(now, inputs),
            Input::Device { device, port } => self.device(device, port),
            Input::Others(others) => self.others(now, others),
            Input::Doubt(in_doubt) => self.doubt(in_doubt),
        }
        self.finish(now);
    }

    /// The next output, or `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`handle`](Controller::handle) with [`Input::Tick`], unless another input comes
    /// before.
    pub fn next_deadline(&self) -> Time {
        self.timers.first().map_or(Time::FOREVER, |(at, _)| *at)
    }

    /// Messages and frames not acted on, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        self.drops.iter().map(|(drop, count)| (*drop, *count))
    }

    fn fire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Silence => self.check_silence(now),
            Timer::Claim(exchange) => self.claim_unanswered(now, exchange),
            Timer::Search(ip) => self.search_failed(now, ip),
            Timer::Exchanges => self.forget_exchanges(now),
            Timer::Adopt => self.adopt_reported(now),
            Timer::Recover => self.recover(),
            Timer::Improve => self.improve(now),
            Timer::Open(port) => self.open_port(now, port),
            Timer::Leases => self.leases_due(now),
            Timer::Advertise => self.advertise_due(now),
            Timer::Groups => self.multicast.gathered(),
            Timer::Learned => self.multicast.learned(),
            Timer::Retire => self.retire_due(now),
            Timer::Earlier(node) => self.end_earlier(node),
            Timer::Feeds => self.feeds_due(now),
            Timer::Whole => self.set_whole(),
            Timer::Traces => self.traces_due(now),
            Timer::Standbys => self.tell_standbys(),
            // What follows each input looks after them.
            Timer::Forwarders | Timer::Classes | Timer::Common => {}
        }
    }

    fn message(&mut self, now: Time, node: NodeId, request: u32, body: Body) {
        let session = self.topology.index(node).filter(|i| self.sessions[*i as usize].is_open);
        let Some(index) = session else { return self.dropped(Drop::UnknownNode) };
        self.topology.node_mut(index).heard = now;
        if self.follows {
            return self.followed_message(now, index, request, body);
        }
        match body {
            Body::ControllerHello(hello) => self.controller_hello(now, index, request, hello),
            Body::ResolveRequest(ask) => self.resolve_request(now, index, request, ask, None),
            Body::ShortRequest(ask) => self.short_request(now, index, ask),
            Body::HostSeen(seen) => self.host_seen(now, index, request, &seen),
            other => {
                // These get no separate answer.
                match other {
                    Body::HostReport(report) => self.host_report(now, index, &report),
                    Body::FlowReport(report) => self.flow_report(now, index, report),
                    Body::ResolveFailed(failed) => self.resolve_failed(index, &failed),
                    Body::HostGone(gone) => self.host_gone(now, index, &gone),
                    Body::HostProbeReply(reply) => self.probe_reply(now, index, &reply),
                    Body::HostFrame(frame) => self.host_frame(now, index, &frame),
                    Body::Invalidate(stale) => self.invalidate(now, index, &stale),
                    Body::TreesReady(ready) => self.trees_ready(now, index, &ready),
                    Body::GroupMembership(said) => self.group_membership(index, said),
                    Body::GroupSender(said) => self.group_sender(index, &said),
                    Body::Load(load) => self.load(now, index, &load),
                    Body::Explained(told) => self.explained(now, index, told),
                    Body::Counters(part) => self.reports.hear(now, index, part),
                    Body::Names(told) => self.reports.hear_names(index, told),
                    Body::CommonState(state) => self.common.hear(now, index, state),
                    Body::FibAck(ack) => self.fib_ack(now, index, &ack),
                    Body::Ack(_) => return,
                    _ => return self.dropped(Drop::UnexpectedBody),
                }
                self.ack(index, request);
            }
        }
    }

    /// Applies new settings: flows that are no longer allowed end.
    fn configure(&mut self, now: Time, config: Config) {
        if config.policy != self.config.policy {
            self.flows.set_policy(&self.topology, config.policy);
        }
        self.groups = Groups::new(&config);
        self.dhcp.configure(&config);
        let (now_set, before) = (&config, &self.config);
        let is_new = !multicast_rules(now_set).eq(multicast_rules(before));
        let has_revoked = now_set.revoked != before.revoked;
        (self.digest, self.config) = (digest(&config), config);
        if has_revoked {
            self.revoked_changed();
        }
        self.place_drained();
        self.touch_all_groups();
        if is_new {
            self.set_group_policy();
            (0..self.topology.nodes.len() as u32).for_each(|node| self.send_settings(node));
        }
        let stations: Vec<MacAddr> = self.hosts.iter().map(|(mac, _)| mac).collect();
        stations.into_iter().for_each(|mac| self.regroup(mac));
        // Rules may have changed although no host's groups have.
        let flows = self.flows.iter().map(|(id, _)| id).collect();
        self.end_forbidden(flows);
        self.configure_router(now);
        self.forwarders.forget_all();
        self.shares.forget_all();
        // Every node gets the group's addresses anew.
        for index in 0..self.topology.nodes.len() as u32 {
            self.welcome_again(index);
        }
        self.schedule_improvement(now);
    }

    /// Finds the drained nodes among those that are known. Routes avoid them from now on, and those
    /// that lead through one are improved in turn.
    pub(crate) fn place_drained(&mut self) {
        let nodes = self.topology.nodes.iter().zip(0..);
        let is_drained = |name: &String| self.config.drained.contains(name);
        let drained = nodes.filter(|(node, _)| is_drained(&node.name)).map(|(_, index)| index);
        let drained: std::collections::BTreeSet<u32> = drained.collect();
        if drained != *self.flows.drained() {
            self.flows.drain(drained);
        }
    }

    /// Retries flows without a path.
    fn recover(&mut self) {
        for id in self.flows.stranded.clone() {
            self.reroute(id, None);
        }
    }

    fn improve(&mut self, now: Time) {
        let end = self.flows.ids_end();
        let next = self.improve_next.saturating_add(IMPROVED_AT_ONCE).min(end);
        for id in self.improve_next.min(end)..next {
            if self.flows.improve(&self.topology, id) {
                self.announce(id);
            }
        }
        self.improve_next = next;
        if next < end {
            self.arm(now + IMPROVE_EVERY, Timer::Improve);
        } else if std::mem::take(&mut self.improve_again) {
            self.schedule_improvement(now);
        }
    }

    /// Links were added: flows without a path are retried soon, those with one later.
    pub(crate) fn links_found(&mut self, now: Time) {
        self.arm(now + RECOVER_AFTER, Timer::Recover);
        self.schedule_improvement(now);
    }

    /// A cable that comes and goes does not put off a round that is scheduled.
    fn schedule_improvement(&mut self, now: Time) {
        if self.timers.iter().any(|(_, timer)| *timer == Timer::Improve) {
            self.improve_again |= self.improve_next > 0;
            return;
        }
        self.improve_next = 0;
        self.arm(now + IMPROVE_AFTER, Timer::Improve);
    }

    pub(crate) fn arm(&mut self, at: Time, timer: Timer) {
        self.timers.insert((at, timer));
    }

    /// Rearms a singleton timer.
    pub(crate) fn rearm(&mut self, at: Option<Time>, timer: Timer) {
        if self.timers.iter().any(|t| Some(t.0) == at && t.1 == timer) {
            return;
        }
        self.timers.retain(|(_, other)| *other != timer);
        if let Some(at) = at {
            self.arm(at, timer);
        }
    }

    pub(crate) fn disarm(&mut self, at: Time, timer: Timer) {
        self.timers.remove(&(at, timer));
    }

    pub(crate) fn dropped(&mut self, drop: Drop) {
        *self.drops.entry(drop).or_default() += 1;
    }

    pub(crate) fn log(&mut self, event: Event) {
        // The leader logs it.
        if !self.follows {
            self.outputs.push_back(Output::Log(event));
        }
    }

    pub(crate) fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn id(&self, index: u32) -> NodeId {
        self.topology.node(index).id
    }

    /// Sends a message without retransmission.
    pub(crate) fn send(&mut self, node: u32, request: u32, body: impl Into<Body>) {
        self.send_as(node, request, false, body.into());
    }

    /// Sends a message and retransmits it until it is acknowledged.
    pub(crate) fn send_reliably(&mut self, node: u32, request: u32, body: impl Into<Body>) {
        self.send_as(node, request, true, body.into());
    }

    fn send_as(&mut self, node: u32, request: u32, reliable: bool, body: Body) {
        if self.sessions[node as usize].is_open && self.may_say(&body) {
            let node = self.id(node);
            self.outputs.push_back(Output::Send { node, request, reliable, body });
        }
    }

    /// Acknowledges a request, if an answer is wanted.
    pub(crate) fn ack(&mut self, node: u32, request: u32) {
        if request != 0 {
            self.send(node, request, plexus_wire::fabric::message::Ack {});
        }
    }

    /// Queues a flow's routes for its node; they are sent with all other changes at the end of this
    /// input.
    pub(crate) fn announce(&mut self, id: u32) {
        let Some(flow) = self.flows.get(id) else { return };
        // Nodes that obey another leader are silent here, and the route may still work.
        if (self.follows || self.in_doubt) && flow.routes.is_empty() {
            return;
        }
        let node = self.updates.entry(flow.key.at.node).or_default();
        node.insert(flow.key, flow.entry());
    }

    /// Whether another controller may lead by now. Flows that have lost their routes meanwhile are
    /// told once that is over.
    fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
        if !in_doubt {
            self.flows.stranded.clone().into_iter().for_each(|id| self.announce(id));
        }
    }

    /// Queues the removal of an entry.
    pub(crate) fn announce_removal(&mut self, key: FlowKey) {
        let version = self.flows.next_version();
        let FlowKey { at, source, destination } = key;
        let entry = RouteEntry { port: at.port, source, destination, version, routes: Vec::new() };
        self.updates.entry(at.node).or_default().insert(key, entry);
    }

    pub(crate) fn reroute(&mut self, id: u32, to: Option<Place>) {
        if self.flows.reroute(&self.topology, id, to) {
            self.announce(id);
        }
    }

    /// Ends a flow and queues its removal.
    pub(crate) fn end_flow(&mut self, id: u32) {
        if let Some(flow) = self.flows.remove(&self.topology, id) {
            self.announce_removal(flow.key);
        }
    }

    /// Closes a port for the configured time.
    pub(crate) fn close_port(&mut self, now: Time, port: Place, why: Refusal) {
        if self.follows || self.scans.is_closed(port) {
            return;
        }
        let until = now + ms(self.config.limits.scan_hold_ms);
        self.scans.close(port, until);
        self.arm(until, Timer::Open(port));
        self.send_reliably(port.node, 0, PortBlock { port: port.port, reason: Some(why) });
        let node = self.id(port.node);
        self.log(Event::PortClosed { node, port: port.port, why });
    }

    fn open_port(&mut self, now: Time, port: Place) {
        if self.scans.open(now, port) {
            self.send_reliably(port.node, 0, PortBlock { port: port.port, reason: None });
            let node = self.id(port.node);
            self.log(Event::PortOpened { node, port: port.port });
        }
    }

    /// Sends what one input caused: paths to nodes first, then the messages that use them.
    fn finish(&mut self, now: Time) {
        let changed = self.control.refresh(&self.topology, &mut self.flows.trees);
        for (index, hops) in changed.into_iter().rev() {
            let node = self.id(index);
            self.outputs.push_front(Output::Path { node, hops });
        }
        if !self.follows {
            self.groups_settle(now);
            self.groups_finish();
            self.feed_nodes(now);
            self.tell_forwarders(now);
            self.tell_classes(now);
            self.follow_common(now);
            self.follow_standbys(now);
        }
        for (index, entries) in std::mem::take(&mut self.updates) {
            let mut routes: Vec<RouteEntry> = Vec::new();
            let mut len = UPDATE_LEN;
            for entry in entries.into_values() {
                let more = entry_len(&entry);
                if len + more > BODY_MAX {
                    let routes = std::mem::take(&mut routes);
                    self.send_reliably(index, 0, RouteUpdate { routes });
                    len = UPDATE_LEN;
                }
                len += more;
                routes.push(entry);
            }
            self.send_reliably(index, 0, RouteUpdate { routes });
        }
    }
}

/// A seed for a part with a source of randomness of its own.
fn seed_of(rng: &mut Pcg64) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}

/// Bytes of a `RouteUpdate` without entries: kind, request and count.
const UPDATE_LEN: usize = 7;

/// Bytes that an entry takes in a body.
fn entry_len(entry: &RouteEntry) -> usize {
    let source = if entry.source.is_some() { 7 } else { 1 };
    let routes: usize = entry.routes.iter().map(|hops| 2 + hops.len()).sum();
    1 + source + 6 + 8 + 2 + routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_entry_is_counted_right() {
        for (source, routes) in
            [(None, vec![]), (Some(MacAddr([2; 6])), vec![vec![1, 2, 3], vec![4; 64]])]
        {
            let entry =
                RouteEntry { port: 1, source, destination: MacAddr([4; 6]), version: 9, routes };
            let body = Body::from(RouteUpdate { routes: vec![entry.clone(), entry.clone()] });
            assert_eq!(body.to_bytes(0).len(), UPDATE_LEN + 2 * entry_len(&entry));
        }
    }
}
