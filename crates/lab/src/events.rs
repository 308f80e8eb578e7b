//! Failures injected during a run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plexus_io::namespace::Namespaces;
use plexus_report::Cut;
use plexus_topo::{
    CONTROLLER_DEVICE, CONTROLLER_PORT, Described, Device, End, Event, Failure, Fault, NO_LEADER,
    Party, Side, Topology,
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
                matches!(party, Party::Controller(_) | Party::Leader | Party::Member(_))
            }
            _ => false,
        };
        if !is_possible {
            return Err(Error::Unsupported(format!(
                "event {}: a lab cuts cables, kills controllers and members of etcd and fills \
                 their disks: for other faults give a port faults = {{ … }}, or use plexus sim run",
                Described(topology, event)
            )));
        }
    }
    Ok(())
}

/// Makes the events of the plan happen, each at its time; `is_over`: the run has ended.
pub(crate) fn run(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    started: Instant,
    cuts: &Mutex<Vec<Cut>>,
    is_over: impl Fn() -> bool,
) {
    let mut steps: Vec<(Duration, &Event, bool)> = Vec::new();
    for event in &plan.topology.events {
        steps.push((event.at, event, true));
        steps.extend(event.lasts.map(|lasts| (event.at + lasts, event, false)));
    }
    steps.sort_by_key(|(at, ..)| *at);
    let mut open = Vec::new();
    for (at, event, cut) in steps {
        while started.elapsed() < at {
            if is_over() {
                break;
            }
            std::thread::sleep(STEP.min(at.saturating_sub(started.elapsed())));
        }
        if is_over() && cut {
            continue;
        }
        let (at, kind) = (started.elapsed(), event.fault.name());
        let begun = open.iter().position(|(e, _): &(&Event, Fault)| !cut && *e == event);
        let fault = match begun {
            // Of the controller that led then.
            Some(begun) => open.remove(begun).1,
            None if !cut => continue,
            None => match fault_now(daemons, &event.fault) {
                Some(fault) => fault,
                None => {
                    lock(cuts).push(Cut { kind, at, problem: Some(NO_LEADER.into()) });
                    continue;
                }
            },
        };
        let problem = apply(plan, world, daemons, &fault, cut).err().map(|e| e.to_string());
        if cut {
            open.push((event, fault));
            lock(cuts).push(Cut { kind, at, problem });
        }
    }
    // A later run of the same lab finds its cables whole.
    while !open.is_empty() && !is_over() {
        std::thread::sleep(STEP);
    }
    for (_, fault) in open {
        let _ = apply(plan, world, daemons, &fault, false);
    }
}

/// What fails now: the controller that leads has a number. None if none does.
fn fault_now(daemons: Daemons<'_>, fault: &Fault) -> Option<Fault> {
    // Any controller's number tells whether the fault is of the leader.
    if fault.with_leader(0).is_none() {
        return Some(fault.clone());
    }
    fault.with_leader(fabric::leader_now(&lock(daemons.controllers))?)
}

fn apply(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    fault: &Fault,
    cut: bool,
) -> Result<(), Error> {
    let topology = &plan.topology;
    let node_of = |controller: usize| topology.controllers[controller].node;
    match *fault {
        Fault::Cut { end, kind } => cut_cable(plan, world, daemons, (end, kind), cut),
        Fault::CutOff { controller: Some(controller), from, kind } => {
            let node = node_of(controller);
            let place = world.place(Device::Node(node));
            let device = if from == Side::Nodes { CONTROLLER_DEVICE } else { etcd::DEVICE };
            match (kind, from) {
                (Failure::Carrier, _) => set_carrier(place, device, !cut),
                // Its node takes nothing from it, and sends nothing to it.
                (Failure::Silent, Side::Nodes) => {
                    lock(daemons.nodes)[node].silence(CONTROLLER_PORT, cut)
                }
                (Failure::Silent, Side::Etcd) => bridges::silence(place, device, cut),
            }
        }
        Fault::Crash { party: Party::Controller(controller), .. } => {
            let daemon = &mut lock(daemons.controllers)[controller];
            if cut {
                daemon.kill();
                return Ok(());
            }
            daemon.start_again(world.place(Device::Node(node_of(controller))))
        }
        Fault::Crash { party: Party::Member(member), .. } => {
            let member = &mut lock(daemons.etcd)[member];
            if cut {
                member.kill();
                return Ok(());
            }
            member.start_again()
        }
        Fault::Full { member } => {
            let member = &mut lock(daemons.etcd)[member];
            member.fill(cut)?;
            if cut { Ok(()) } else { member.start_again() }
        }
        // They were refused when the lab was planned.
        _ => Ok(()),
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
                device => bridges::silence(world.place(device), plan.device(end).0, cut),
            };
            ends.into_iter().try_for_each(silence)
        }
    }
}
