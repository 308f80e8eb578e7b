//! Failures injected during a run.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_report::Cut;
use plexus_topo::{Described, Device, End, Event, Failure, Fault, Party, Topology};

use crate::bridges;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::nodes::RunningNode;
use crate::plan::Plan;
use crate::tools::IP;
use crate::world::World;

/// How often the clock is looked at.
const STEP: Duration = Duration::from_millis(5);

/// Refuses events that a lab cannot produce.
///
/// # Errors
/// Naming the event, with advice.
pub(crate) fn check(topology: &Topology) -> Result<(), Error> {
    for event in &topology.events {
        let is_possible = match event.fault {
            Fault::Cut { .. } => true,
            Fault::Crash { party, .. } => matches!(party, Party::Controller(_)),
            _ => false,
        };
        if !is_possible {
            return Err(Error::Unsupported(format!(
                "event {}: a lab cuts cables, kills controllers, and does nothing else: give a \
                 port faults = {{ … }}, or use plexus sim run",
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
    daemons: (&Mutex<Vec<RunningNode>>, &Mutex<Vec<Daemon>>),
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
        let at = started.elapsed();
        let problem = apply(plan, world, daemons, event, cut).err().map(|e| e.to_string());
        open.retain(|e: &&Event| *e != event);
        if cut {
            open.push(event);
            let kind = event.fault.name();
            let mut cuts = cuts.lock().unwrap_or_else(PoisonError::into_inner);
            cuts.push(Cut { kind, at, problem });
        }
    }
    // A later run of the same lab finds its cables whole.
    while !open.is_empty() && !is_over() {
        std::thread::sleep(STEP);
    }
    for event in open {
        let _ = apply(plan, world, daemons, event, false);
    }
}

fn apply(
    plan: &Plan,
    world: &World,
    (nodes, controllers): (&Mutex<Vec<RunningNode>>, &Mutex<Vec<Daemon>>),
    event: &Event,
    cut: bool,
) -> Result<(), Error> {
    let topology = &plan.topology;
    // Others were refused when the lab was planned.
    let (end, kind) = match event.fault {
        Fault::Cut { end, kind } => (end, kind),
        Fault::Crash { party: Party::Controller(controller), .. } => {
            let mut controllers = controllers.lock().unwrap_or_else(PoisonError::into_inner);
            let daemon = &mut controllers[controller];
            if cut {
                daemon.kill();
                return Ok(());
            }
            return daemon
                .start_again(world.place(Device::Node(topology.controllers[controller].node)));
        }
        _ => return Ok(()),
    };
    let cable = topology.cables().find(|(_, _, ends)| ends.contains(&end));
    let Some((_, _, ends)) = cable else { return Ok(()) };
    match kind {
        Failure::Carrier => {
            let (device, _) = plan.device(end);
            let state = if cut { "down" } else { "up" };
            let line = format!("link set dev {device} {state}\n");
            IP.batch(Some(world.place(end.device())), &line)
        }
        Failure::Silent => {
            let nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
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
