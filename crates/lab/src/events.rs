//! Failures injected during a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plexus_io::namespace::Namespaces;
use plexus_report::Cut;
use plexus_topo::{
    CONTROLLER_DEVICE, CONTROLLER_PORT, Described, Device, End, Failure, Fault, NO_LEADER, Party,
    Side, Topology,
};

use crate::bridges;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::etcd::{self, Member};
use crate::fabric;
use crate::nodes::RunningNode;
use crate::plan::Plan;
use crate::tools::IP;
use crate::world::World;

/// The processes that may fail.
#[derive(Clone, Copy)]
pub(crate) struct Daemons<'a> {
    pub(crate) nodes: &'a Mutex<Vec<RunningNode>>,
    pub(crate) controllers: &'a Mutex<Vec<Daemon>>,
    pub(crate) etcd: &'a Mutex<Vec<Member>>,
}

/// How often the clock is looked at.
const STEP: Duration = Duration::from_millis(5);

/// Refuses events that a lab cannot produce.
///
/// # Errors
/// Naming the event, with advice.
pub(crate) fn check(topology: &Topology) -> Result<(), Error> {
    for event in &topology.events {
        let is_possible = match event.fault {
            Fault::Cut { .. } | Fault::CutOff { .. } | Fault::Full { .. } => true,
            Fault::Crash { party, .. } => {
                !matches!(party, Party::Device(Device::Host(_) | Device::Bridge(_)))
            }
            _ => false,
        };
        if !is_possible {
            return Err(Error::Unsupported(format!(
                "event {}: a lab cuts cables, kills nodes, controllers and members of etcd, and \
                 fills disks of etcd: for other faults give a port faults = {{ … }}, or use \
                 plexus sim run",
                Described(topology, event)
            )));
        }
    }
    Ok(())
}

/// Makes the events of the plan happen, each at its time; `is_over`: the run has ended. Gives
/// notes of what did not end as it should.
pub(crate) fn run(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    started: Instant,
    cuts: &Mutex<Vec<Cut>>,
    is_over: impl Fn() -> bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut steps: Vec<(Duration, usize, bool)> = Vec::new();
    for (number, event) in plan.topology.events.iter().enumerate() {
        steps.push((event.at, number, true));
        steps.extend(event.lasts.map(|lasts| (event.at + lasts, number, false)));
    }
    steps.sort_by_key(|(at, ..)| *at);
    // Faults that are not mended yet, by the number of the event.
    let mut open: BTreeMap<usize, Fault> = BTreeMap::new();
    for (at, number, cut) in steps {
        while started.elapsed() < at {
            if is_over() {
                break;
            }
            std::thread::sleep(STEP.min(at.saturating_sub(started.elapsed())));
        }
        let event = &plan.topology.events[number];
        let (at, kind) = (started.elapsed(), event.fault.name());
        let note = |problem| lock(cuts).push(Cut { kind, at, problem });
        if cut && !is_over() {
            match fault_now(daemons, &event.fault) {
                None => note(Some(NO_LEADER.into())),
                Some(fault) => {
                    let made = fail(plan, world, daemons, &fault);
                    open.insert(number, fault);
                    note(made.err().map(|e| e.to_string()));
                }
            }
        } else if let Some(fault) = open.remove(&number) {
            let others = open.values().cloned().collect::<Vec<_>>();
            if let Err(e) = mend(plan, world, daemons, &fault, &others) {
                notes.push(format!("{kind} did not end: {e}"));
            }
        }
    }
    // A later run of the same lab finds its cables whole.
    while !open.is_empty() && !is_over() {
        std::thread::sleep(STEP);
    }
    while let Some((_, fault)) = open.pop_first() {
        let others = open.values().cloned().collect::<Vec<_>>();
        if let Err(e) = mend(plan, world, daemons, &fault, &others) {
            notes.push(format!("{} did not end: {e}", fault.name()));
        }
    }
    notes
}

/// The fault that begins now: the controller that leads has a number. None if none leads.
fn fault_now(daemons: Daemons<'_>, fault: &Fault) -> Option<Fault> {
    // Any controller's number tells whether the fault is of the leader.
    if fault.with_leader(0).is_none() {
        return Some(fault.clone());
    }
    fault.with_leader(fabric::leader_now(&lock(daemons.controllers))?)
}

fn fail(plan: &Plan, world: &World, daemons: Daemons<'_>, fault: &Fault) -> Result<(), Error> {
    match *fault {
        Fault::Cut { end, kind } => cut_cable(plan, world, daemons, (end, kind), true),
        Fault::CutOff { controller: Some(controller), from, kind } => {
            cut_off(plan, world, daemons, (controller, from, kind), true)
        }
        Fault::Crash { party: Party::Device(Device::Node(node)), .. } => {
            lock(daemons.nodes)[node].daemon().into_iter().for_each(Daemon::kill);
            Ok(())
        }
        Fault::Crash { party: Party::Controller(controller), .. } => {
            lock(daemons.controllers)[controller].kill();
            Ok(())
        }
        Fault::Crash { party: Party::Member(member), .. } => {
            lock(daemons.etcd)[member].kill();
            Ok(())
        }
        Fault::Full { member } => lock(daemons.etcd)[member].fill(true),
        // They were refused when the lab was planned.
        _ => Ok(()),
    }
}

/// A fault has passed; what the `others` let fail stays so.
fn mend(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    fault: &Fault,
    others: &[Fault],
) -> Result<(), Error> {
    let is_alone = !others.iter().any(|other| is_same(plan, fault, other));
    let freed = match *fault {
        Fault::Full { member } if is_alone => lock(daemons.etcd)[member].fill(false),
        _ => Ok(()),
    };
    let mended = match *fault {
        Fault::Cut { end, kind } if is_alone => cut_cable(plan, world, daemons, (end, kind), false),
        Fault::CutOff { controller: Some(controller), from, kind } if is_alone => {
            cut_off(plan, world, daemons, (controller, from, kind), false)
        }
        _ => match stopped(fault).filter(|party| others.iter().all(|o| stopped(o) != Some(*party)))
        {
            Some(Party::Controller(controller)) => {
                let node = plan.topology.controllers[controller].node;
                let place = world.place(Device::Node(node));
                if plan.is_in_band() {
                    etcd::forget_neighbours(place)?;
                }
                lock(daemons.controllers)[controller].start_again(place)
            }
            Some(Party::Device(device @ Device::Node(node))) => {
                let mut nodes = lock(daemons.nodes);
                nodes[node].daemon().map_or(Ok(()), |node| node.start_again(world.place(device)))
            }
            Some(Party::Member(member)) => lock(daemons.etcd)[member].start_again(),
            _ => Ok(()),
        },
    };
    freed.and(mended)
}

/// Whether two faults are of one cable, or of one disk, in the same way.
fn is_same(plan: &Plan, one: &Fault, other: &Fault) -> bool {
    let cable = |end: End| plan.topology.cables().find(|(_, _, ends)| ends.contains(&end));
    match (one, other) {
        (Fault::Cut { end: a, kind: Failure::Silent }, Fault::Cut { end: b, kind }) => {
            *kind == Failure::Silent && cable(*a).map(|c| c.2) == cable(*b).map(|c| c.2)
        }
        _ => one == other,
    }
}

/// Whose process a fault ends.
fn stopped(fault: &Fault) -> Option<Party> {
    match *fault {
        Fault::Crash { party, .. } => Some(party),
        Fault::Full { member } => Some(Party::Member(member)),
        _ => None,
    }
}

fn cut_off(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    (controller, from, kind): (usize, Side, Failure),
    cut: bool,
) -> Result<(), Error> {
    let node = plan.topology.controllers[controller].node;
    let place = world.place(Device::Node(node));
    match (kind, from) {
        (Failure::Carrier, Side::Nodes) => set_carrier(place, CONTROLLER_DEVICE, !cut),
        (Failure::Carrier, Side::Etcd) => set_carrier(place, etcd::DEVICE, !cut),
        // Its node takes nothing from it, and sends nothing to it.
        (Failure::Silent, Side::Nodes) => lock(daemons.nodes)[node].silence(CONTROLLER_PORT, cut),
        (Failure::Silent, Side::Etcd) => {
            bridges::silence(Some(place), etcd::DEVICE, cut)?;
            bridges::silence(None, &etcd::bridge_port(controller), cut)
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_carrier(place: &Namespaces, device: &str, up: bool) -> Result<(), Error> {
    let state = if up { "up" } else { "down" };
    IP.batch(Some(place), &format!("link set dev {device} {state}\n"))
}

fn cut_cable(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    (end, kind): (End, Failure),
    cut: bool,
) -> Result<(), Error> {
    let topology = &plan.topology;
    let cable = topology.cables().find(|(_, _, ends)| ends.contains(&end));
    let Some((_, _, ends)) = cable else { return Ok(()) };
    match kind {
        Failure::Carrier => {
            let (device, _) = plan.device(end);
            set_carrier(world.place(end.device()), device, !cut)
        }
        Failure::Silent => {
            let nodes = lock(daemons.nodes);
            // A Plexus node takes frames before the kernel's own filters see them.
            let silence = |end: End| match end.device() {
                Device::Node(node) if nodes[node].control().is_some() => {
                    nodes[node].silence(plan.device(end).0, cut)
                }
                device => bridges::silence(Some(world.place(device)), plan.device(end).0, cut),
            };
            ends.into_iter().try_for_each(silence)
        }
    }
}
