//! What fails while a run sends, and how it is mended.

use std::collections::HashSet;

use plexus_report::Cut;
use plexus_topo::{Device, End, Failure, Fault, NO_LEADER, Party, Side};
use rand::RngExt;

use crate::build::Place;
use crate::cable::PortIndex;
use crate::noise::Struck;
use crate::sim::Sim;

impl Sim {
    /// The topology's event of this number begins, or ends.
    pub(crate) fn fault(&mut self, number: usize, fails: bool) {
        let event = self.topology.events[number].clone();
        let at = (self.core.now - self.run_started.unwrap_or_default()).into();
        let kind = event.fault.name();
        let Some(fault) = self.fault_now(number, &event.fault, fails) else {
            if fails {
                self.cuts.push(Cut { kind, at, problem: Some(NO_LEADER.into()) });
            }
            return;
        };
        match &fault {
            Fault::Cut { end, kind } => {
                let Some(ends) = self.cable_at(*end) else { return };
                match kind {
                    Failure::Silent => self.silence(ends, fails),
                    Failure::Carrier => self.darken(ends, fails),
                }
            }
            // The leader has a number by now.
            Fault::CutOff { controller: None, .. } => {}
            Fault::CutOff { controller: Some(controller), from: Side::Etcd, .. } => {
                self.core.with_etcd(|etcd, now, queue| etcd.cut(now, queue, *controller, fails));
            }
            Fault::CutOff { controller: Some(controller), from: Side::Nodes, kind } => {
                let ports = self.ports_of(Place::Controller(*controller));
                for own in ports {
                    let Some(ends) = self.core.ends(own) else { continue };
                    match kind {
                        Failure::Silent => self.silence(ends, fails),
                        Failure::Carrier => self.darken(ends, fails),
                    }
                }
            }
            Fault::Crash { party: Party::Member(member), .. } | Fault::Full { member } => {
                self.core.with_etcd(|etcd, now, queue| {
                    etcd.stop_member(now, queue, *member, fails);
                });
            }
            Fault::Trouble { end, both, trouble } => {
                let Some([near, far]) = self.cable_at(*end) else { return };
                // Trouble is on the way from a port: what comes to this one leaves the other.
                let own = self.port_of(*end);
                let other = if own == near { far } else { near };
                let ports = if *both { vec![own, other] } else { vec![other] };
                for port in ports {
                    let port = &mut self.core.ports[port as usize];
                    match fails {
                        true => port.worsen(number as u32, *trouble),
                        false => port.mend(number as u32),
                    }
                }
            }
            Fault::Crash { party, silent } => self.crash(*party, *silent, fails),
            Fault::Partition(parties) => {
                for ends in self.border(parties) {
                    self.silence(ends, fails);
                }
            }
            Fault::Skew { party, ppm, ahead } => {
                let (ppm, ahead) = if fails { (*ppm, *ahead) } else { Default::default() };
                let core = &mut self.core;
                match *party {
                    Party::Device(Device::Node(n)) => {
                        self.devices.nodes[n].set_clock(core, ppm, ahead);
                    }
                    Party::Controller(c) => self.devices.controllers[c].set_clock(core, ppm, ahead),
                    // Refused when the file was read.
                    Party::Device(_) | Party::Member(_) | Party::Leader => {}
                }
            }
        }
        if fails {
            self.cuts.push(Cut { kind, at, problem: None });
        }
    }

    /// The fault of an event: the controller that leads when it begins has a number. None if no
    /// controller does.
    fn fault_now(&mut self, number: usize, fault: &Fault, fails: bool) -> Option<Fault> {
        // Any controller's number tells whether the fault is of the leader.
        if fault.with_leader(0).is_none() {
            return Some(fault.clone());
        }
        let leader = match fails {
            true => (0..self.devices.controllers.len()).find(|c| self.leads(*c)),
            false => self.failed_leaders.remove(&number),
        }?;
        if fails {
            self.failed_leaders.insert(number, leader);
        }
        fault.with_leader(leader)
    }

    /// Both ports of the cable with this end.
    pub(crate) fn cable_at(&self, end: End) -> Option<[PortIndex; 2]> {
        self.core.ends(self.port_of(end))
    }

    /// All ports of a device.
    fn ports_of(&self, place: Place) -> Vec<PortIndex> {
        let ports = (0..).zip(&self.devices.owners).filter(|(_, (of, _))| *of == place);
        ports.map(|(port, _)| port).collect()
    }

    /// A cable goes dead, or one reason for it has passed. What is on its way does not arrive.
    fn silence(&mut self, ports: [PortIndex; 2], fails: bool) {
        for port in ports {
            let port = &mut self.core.ports[port as usize];
            port.cable += 1;
            port.silent = if fails { port.silent + 1 } else { port.silent - 1 };
        }
    }

    /// Both ends of a cable lose their carrier, or one reason for it has passed.
    pub(crate) fn darken(&mut self, ports: [PortIndex; 2], fails: bool) {
        for port in ports {
            let own = &mut self.core.ports[port as usize];
            let before = own.has_carrier();
            own.cable += 1;
            own.dark = if fails { own.dark + 1 } else { own.dark - 1 };
            let after = own.has_carrier();
            if before != after {
                self.tell_carrier(port, after);
            }
        }
    }

    /// A device stops or starts anew. While it is stopped its cables have no carrier or, if the
    /// crash is `silent`, keep it and lose all frames.
    fn crash(&mut self, party: Party, silent: bool, fails: bool) {
        let place = match party {
            Party::Device(Device::Node(n)) => Place::Node(n),
            Party::Device(Device::Bridge(b)) => Place::Node(self.topology.nodes.len() + b),
            Party::Controller(c) => Place::Controller(c),
            // Refused when the file was read.
            Party::Device(Device::Host(_)) | Party::Member(_) | Party::Leader => return,
        };
        let ports = self.ports_of(place);
        let seeds = std::array::from_fn(|_| self.core.random.random());
        let core = &mut self.core;
        match (place, fails) {
            (Place::Node(n), true) => self.devices.nodes[n].crash(core),
            (Place::Node(n), false) => {
                if let Some(blueprint) = self.devices.blueprints.get(&n) {
                    let [seed, _] = seeds;
                    self.devices.nodes[n].restart(core, blueprint, seed);
                }
            }
            (Place::Controller(c), true) => self.devices.controllers[c].crash(core),
            (Place::Controller(c), false) => self.devices.controllers[c].restart(core, seeds),
            _ => {}
        }
        for port in ports {
            let Some(ends) = self.core.ends(port) else { continue };
            if !silent {
                self.darken(ends, fails);
                continue;
            }
            self.silence(ends, fails);
            // A device that starts anew must be told of the carrier that its neighbours kept.
            if !fails && self.core.ports[port as usize].has_carrier() {
                self.tell_carrier(port, true);
            }
        }
    }

    /// The cables between these devices and all others.
    fn border(&self, parties: &[Party]) -> Vec<[PortIndex; 2]> {
        let inside: HashSet<&Party> = parties.iter().collect();
        let is_inside = |port: PortIndex| {
            let party = match self.devices.owners[port as usize].0 {
                Place::Node(n) if n < self.topology.nodes.len() => Party::Device(Device::Node(n)),
                Place::Node(n) => Party::Device(Device::Bridge(n - self.topology.nodes.len())),
                Place::Host(h) | Place::Outside(h) => Party::Device(Device::Host(h)),
                Place::Controller(c) => Party::Controller(c),
                // Nothing fails there.
                Place::PortLand(_) | Place::Flow(_) => return false,
            };
            inside.contains(&party)
        };
        let ends = (0..).zip(&self.core.ports).filter_map(|(own, p)| Some([own, p.peer?]));
        ends.filter(|[own, peer]| own < peer && is_inside(*own) != is_inside(*peer)).collect()
    }

    /// The faults of all cables in words; `None` if there was only the loss that the file names.
    pub(crate) fn struck(&self) -> Option<String> {
        let all = self.core.ports.iter().fold(Struck::default(), |sum, p| sum.and(p.struck));
        let counts =
            [(all.damaged, "damaged"), (all.repeated, "repeated"), (all.held_back, "held back")];
        let mut parts: Vec<String> = Vec::new();
        if all.lost > 0 {
            parts.push(format!("lost {}", all.lost));
        }
        parts.extend(counts.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{how} {n}")));
        let is_odd = counts.iter().any(|(n, _)| *n > 0) || !self.topology.events.is_empty();
        (is_odd && !parts.is_empty()).then(|| format!("cables {} frames", parts.join(", ")))
    }
}
