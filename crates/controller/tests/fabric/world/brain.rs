//! A whole controller: sessions and core, connected as in the daemon, and its durable state.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use plexus_control::hub::{self, Hub};
use plexus_control::identity::Role;
use plexus_control::link::Pace;
use plexus_controller::{
    Change, Config, Controller, Event, Input, Lease, Output, Record, Start, Trace,
};
use plexus_wire::fabric::message::LinkFacts;
use plexus_wire::{MacAddr, Time};

use super::identity;

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durable {
    pub(crate) epoch: u64,
    /// There is no store: the controller leads provisionally.
    pub(crate) is_provisional: bool,
    /// Which of several controllers it is.
    pub(crate) number: u64,
    pub(crate) leases: BTreeMap<Ipv4Addr, Lease>,
}

impl Durable {
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(Record::Lease(lease)) => drop(self.leases.insert(lease.ip, *lease)),
                Change::RemoveLease(ip) => drop(self.leases.remove(ip)),
                Change::Put(Record::Common(_)) | Change::RemoveCommon(_) => {}
            }
        }
    }
}

/// The controller's actions in the world.
#[derive(Default)]
pub(crate) struct Wants {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) stores: Vec<(u64, Vec<Change>)>,
}

pub(crate) struct Brain {
    pub(crate) hub: Hub,
    pub(crate) core: Controller,
    pub(crate) log: Vec<Event>,
    /// Answers about packets.
    pub(crate) traces: Vec<Result<Trace, String>>,
    /// The outputs of its sessions, except for frames.
    pub(crate) hub_log: Vec<hub::Output>,
}

/// Seconds since 1970 when the world begins.
const BEGIN_UNIX_S: u64 = 1_700_000_000;

impl Brain {
    pub(crate) fn start(
        config: Config,
        now: Time,
        durable: &Durable,
        seeds: [[u8; 32]; 2],
        version: u8,
    ) -> Brain {
        let stored = durable.leases.values().copied().map(Record::Lease).collect();
        let core = Controller::new(Start {
            config,
            epoch: durable.epoch,
            provisional: durable.is_provisional,
            now,
            unix_s: BEGIN_UNIX_S + now.since(Time::ZERO).as_secs(),
            stored,
            seed: seeds[0],
        });
        let identity = identity(1000 + durable.number, Role::Controller);
        let mut hub = Hub::new(identity, Pace::default(), seeds[1]);
        hub.set_version(version);
        hub.lead(now, durable.epoch);
        Brain { hub, core, log: vec![], traces: vec![], hub_log: vec![] }
    }

    /// Why messages of nodes were refused.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &str> {
        self.hub_log.iter().filter_map(|output| match output {
            hub::Output::Refused(why) => Some(why.as_str()),
            _ => None,
        })
    }

    pub(crate) fn facts(number: usize) -> LinkFacts {
        let mac = MacAddr([2, 0xC, 0, 0, 0, number as u8]);
        LinkFacts { port: 0, mac, mtu: 1624, rate_mbit_per_s: 0, native: false, takes_owed: false }
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.hub.next_deadline().min(self.core.next_deadline())
    }

    pub(crate) fn hub_input(&mut self, now: Time, input: hub::Input) -> Wants {
        self.hub.handle(now, input);
        self.carry_out(now)
    }

    pub(crate) fn stored(&mut self, now: Time, ticket: u64) -> Wants {
        self.input(now, Input::Stored { ticket })
    }

    pub(crate) fn input(&mut self, now: Time, input: Input) -> Wants {
        self.core.handle(now, input);
        self.carry_out(now)
    }

    pub(crate) fn tick(&mut self, now: Time) -> Wants {
        if self.hub.next_deadline() <= now {
            self.hub.handle(now, hub::Input::Tick);
        }
        if self.core.next_deadline() <= now {
            self.core.handle(now, Input::Tick);
        }
        self.carry_out(now)
    }

    fn carry_out(&mut self, now: Time) -> Wants {
        let mut wants = Wants::default();
        loop {
            if let Some(output) = self.hub.poll_output() {
                if !matches!(output, hub::Output::Transmit(_)) {
                    self.hub_log.push(output.clone());
                }
                let input = match output {
                    hub::Output::Transmit(frame) => {
                        wants.frames.push(frame);
                        continue;
                    }
                    hub::Output::Refused(_)
                    | hub::Output::NumberTaken { .. }
                    | hub::Output::Stranger(_)
                    | hub::Output::Leader(_) => continue,
                    hub::Output::Attached(to) => Input::Attached { to: to.map(|n| n.node) },
                    hub::Output::NodeUp { node, name, version } => {
                        Input::NodeUp { node, name, version }
                    }
                    hub::Output::Said { node, body } => Input::Message { node, request: 0, body },
                };
                self.core.handle(now, input);
            } else if let Some(output) = self.core.poll_output() {
                match output {
                    Output::Send { node, reliable, body, .. } => {
                        self.hub.say(now, node, body, reliable);
                    }
                    Output::Path { node, hops } => {
                        self.hub.set_path(node, hops.map(|hops| [&[0], &hops[..]].concat()));
                    }
                    Output::Store { ticket, changes } => wants.stores.push((ticket, changes)),
                    Output::CommonTold { .. } | Output::CommonKept => {}
                    Output::Log(event) => self.log.push(event),
                    Output::Explained { told, .. } => self.traces.push(told),
                }
            } else {
                return wants;
            }
        }
    }
}
