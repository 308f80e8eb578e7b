//! The control plane of an IP router (RFC 1812, RFC 8200): which routes are in use, who the
//! neighbours are, and what a router says itself.
//!
//! The data plane looks a destination up in its forwarding table and finds a [`Group`]; one of the
//! group's neighbours has an adjacency, an interface and a link address. All of that is told to it
//! here, and what it cannot do comes here: link addresses that are not known, packets for the box
//! itself, and those whose sender is to hear why they were dropped.
//!
//! What this router does not do: it sends no redirects and heeds none (RFC 4861, 8.2); it sends no
//! router advertisements and answers no solicitations for them, nor does it join groups; it does
//! not put fragments together, so an echo request must fit into one packet; and it does not test
//! its own addresses for duplicates, though it tells people of conflicts and defends its addresses
//! (RFC 5227, 2.4). Where an interface has a kernel's device, the kernel answers for the
//! box, and the router only listens to learn its neighbours.
//!
//! - [`input`], [`output`], [`limits`], [`refusal`]: the seam.
//! - `interfaces`, `rib`, `groups`, `neighbours`: what is known, each a part without the others.
//! - `connected`, `routes`, `resolve`: how they follow from each other; `work`: on the whole table.
//! - `arp`, `nd`, `local`, `errors`: messages.
//! - [`show`]: what people may ask.

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

/// What the router may send of its own accord by one interface.
#[derive(Debug)]
struct Allowance {
    errors: Budget,
    replies: Budget,
}

/// The control plane of an IP router.
///
/// One loop: hand in an input, carry out all outputs in order, sleep until an input or
/// [`next_deadline`](Router::next_deadline), which is an [`Input::Tick`].
#[derive(Debug)]
pub struct Router {
    limits: Limits,
    interfaces: Interfaces,
    rib: Rib,
    groups: Groups,
    neighbours: Neighbours,
    /// Groups with gateways that found no room among the neighbours, and when they try again.
    starved: BTreeSet<GroupId>,
    feed_at: Time,
    /// Prefixes that the forwarding table has as being on a link.
    links: BTreeSet<Prefix>,
    errors: Budget,
    allowances: BTreeMap<InterfaceId, Allowance>,
    /// When an own address was defended last.
    defended: BTreeMap<(InterfaceId, IpAddr), Time>,
    /// What people have been told and is still so.
    full: Vec<Event>,
    counts: refusal::Counts,
    outputs: VecDeque<Output>,
    /// What is still to be done as outputs are taken.
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

    /// Takes an input. All that is due by `now` is then among the outputs; what it means for the
    /// whole table is worked out as they are taken.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.finish_work();
        // What was due before the input happened before it.
        while self.neighbours.run_one(now) {
            self.settle_effects(now);
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
            Input::Frame { interface, why, frame } => self.frame(now, interface, why, frame),
            Input::Used(ids) => ids.iter().for_each(|id| self.neighbours.use_one(now, *id)),
            Input::Tick => {}
        }
        self.settle_effects(now);
    }

    /// True if outputs are ready. The next one may have to be worked out, from the whole table
    /// even: who has urgent outputs to carry out does so before.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// The next output, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        while self.outputs.is_empty() && self.work_on() {}
        self.outputs.pop_front()
    }

    /// When the router next has to be called; `FOREVER` if only an input can change something.
    pub fn next_deadline(&self) -> Time {
        self.neighbours.next_deadline().min(self.feed_at)
    }

    /// How often something was not done for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.counts.get(refusal)
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
