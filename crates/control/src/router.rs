//! The control plane of an IP router (RFC 1812, RFC 8200): selects the routes in use, resolves the
//! neighbours, and sends the router's own messages.
//!
//! The data plane looks up a destination in its forwarding table and finds a [`Group`]; one of the
//! group's neighbours has an adjacency, an interface and a link address. This control plane sets
//! all of these. The data plane passes back what it cannot do: packets without a known link
//! address, packets for the box itself, and dropped packets whose sender has to be told.
//!
//! Not supported: redirects are neither sent nor obeyed (RFC 4861, 8.2); there are no router
//! advertisements and no answers to their solicitations; the router joins no groups; fragments are
//! not reassembled, so an echo request must fit into one packet; and its own addresses are not
//! checked for duplicates, though it reports conflicts and defends its addresses (RFC 5227, 2.4).
//! On an interface with a kernel device the kernel answers for the box, and the router only learns
//! its neighbours.
//!
//! - [`input`], [`output`], [`limits`], [`refusal`]: the seam.
//! - `interfaces`, `rib`, `groups`, `neighbours`: the state, in independent parts.
//! - `connected`, `routes`, `resolve`: how they follow from each other; `work`: for the whole
//!   table.
//! - `arp`, `nd`, `local`, `errors`: messages.
//! - [`show`]: views for display.

mod arp;
mod connected;
mod errors;
mod groups;
pub mod input;
mod interfaces;
pub mod limits;
mod local;
mod nd;
mod neighbours;
pub mod output;
pub mod refusal;
mod resolve;
mod rib;
mod routes;
pub mod show;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use plexus_wire::{Prefix, Time};

use crate::budget::Budget;
use crate::session::Random;
use groups::Groups;
use interfaces::Interfaces;
use neighbours::{Neighbours, per_second};
use rib::Rib;
use work::Work;

pub use groups::HopState;
pub use input::{
    Fault, Input, InterfaceFacts, InterfaceId, NEXT_HOPS_MAX, NeighbourId, NextHop, Route, Source,
    Why,
};
pub use limits::Limits;
pub use neighbours::State;
pub use output::{Adjacency, Event, Group, GroupId, Member, Output};
pub use refusal::Refusal;

/// Rate limits of what the router sends on its own account on one interface.
#[derive(Debug)]
struct Allowance {
    errors: Budget,
    replies: Budget,
}

/// The control plane of an IP router.
///
/// One loop: pass in an input, carry out all outputs in order, sleep until an input or
/// [`next_deadline`](Router::next_deadline), which is an [`Input::Tick`].
#[derive(Debug)]
pub struct Router {
    limits: Limits,
    interfaces: Interfaces,
    rib: Rib,
    groups: Groups,
    neighbours: Neighbours,
    /// Groups with gateways for which there was no room among the neighbours, and when to retry.
    starved: BTreeSet<GroupId>,
    feed_at: Time,
    /// On-link prefixes in the forwarding table.
    links: BTreeSet<Prefix>,
    errors: Budget,
    allowances: BTreeMap<InterfaceId, Allowance>,
    /// When one of our addresses was last defended.
    defended: BTreeMap<(InterfaceId, IpAddr), Time>,
    /// Reported events that still hold.
    full: Vec<Event>,
    counts: refusal::Counts,
    outputs: VecDeque<Output>,
    /// Work left to do as outputs are taken.
    work: VecDeque<Work>,
}

impl Router {
    /// A router without interfaces. `seed` spreads its timers; it comes from the operating system
    /// in a daemon, from the scenario in a simulator.
    pub fn new(limits: Limits, seed: [u8; 32]) -> Router {
        // Every neighbour may need a group.
        let limits = Limits { neighbours: limits.neighbours.clamp(1, 16_384), ..limits };
        Router {
            limits,
            interfaces: Interfaces::default(),
            rib: Rib::default(),
            groups: Groups::default(),
            neighbours: Neighbours::new(limits, Random::from_seed(seed)),
            starved: BTreeSet::new(),
            feed_at: Time::FOREVER,
            links: BTreeSet::new(),
            errors: per_second(limits.errors_per_s),
            allowances: BTreeMap::new(),
            defended: BTreeMap::new(),
            full: Vec::new(),
            counts: refusal::Counts::default(),
            outputs: VecDeque::new(),
            work: VecDeque::new(),
        }
    }

    /// Processes an input. Everything due by `now` is then among the outputs; effects on the whole
    /// table are computed as outputs are taken.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.finish_work();
        // What was due before the input happens first.
        while self.neighbours.run_one(now) {
            self.apply_neighbour_effects(now);
        }
        if now >= self.feed_at {
            self.feed(now);
        }
        match input {
            Input::Interface { id, facts } => self.interface(now, id, facts),
            Input::Route { source, prefix, metric, route } => {
                self.route(now, source, prefix, metric, route);
            }
            Input::Begin(source) => self.rib.begin(source.into()),
            Input::End(source) => self.end(now, source),
            Input::Neighbour { interface, address, mac } => {
                self.told_of_neighbour(now, interface, address, mac);
            }
            Input::Frame { interface, why, frame } => self.frame(now, interface, why, frame),
            Input::Used(ids) => ids.iter().for_each(|id| self.neighbours.use_one(now, *id)),
            Input::Tick => {}
        }
        self.apply_neighbour_effects(now);
    }

    /// True if outputs are ready. Computing the next one may scan the whole table, so a driver
    /// carries out urgent outputs before.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Whether packets that have waited here are among the outputs.
    pub fn releases(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Again { .. }))
    }

    /// The next output, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        while self.outputs.is_empty() && self.work_on() {}
        self.outputs.pop_front()
    }

    /// When to call the router next; `FOREVER` if only an input can change something.
    pub fn next_deadline(&self) -> Time {
        self.neighbours.next_deadline().min(self.feed_at)
    }

    /// How often an action was refused for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.counts.get(refusal)
    }

    /// A neighbour's address.
    pub fn address_of(&self, id: NeighbourId) -> Option<IpAddr> {
        self.neighbours.get(id).map(|neighbour| neighbour.address)
    }

    /// Changes the limit of routes. Those that there are stay.
    pub fn limit_routes(&mut self, routes: usize) {
        self.limits.routes = routes;
    }

    /// Whether routes are refused because there are too many.
    pub fn is_full(&self) -> bool {
        self.full.contains(&Event::RoutesFull)
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.counts.count(refusal);
    }

    fn frame(&mut self, now: Time, interface: InterfaceId, why: Why, frame: Vec<u8>) {
        if self.interfaces.get(interface).is_none() {
            return self.refuse(Refusal::NoInterface);
        }
        let done = match why {
            Why::Arp => self.arp(now, interface, &frame),
            Why::Nd => self.nd(now, interface, &frame),
            Why::Local => self.local(now, interface, &frame),
            Why::Unresolved(id) => self.unresolved(now, interface, id, frame),
            Why::Error(fault) => self.error(now, interface, fault, &frame),
        };
        if let Err(refusal) = done {
            self.refuse(refusal);
        }
    }

    fn allowance(&mut self, interface: InterfaceId) -> &mut Allowance {
        let limits = self.limits;
        self.allowances.entry(interface).or_insert_with(|| Allowance {
            errors: per_second(limits.interface_errors_per_s),
            replies: per_second(limits.replies_per_s),
        })
    }
}
