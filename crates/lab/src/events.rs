//! What fails while a run sends, and for how long traffic stood still.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use plexus_topo::{Device, End, Event, Failure};

use crate::bridges;
use crate::error::Error;
use crate::nodes::Node;
use crate::plan::Plan;
use crate::report::{Outage, RunReport};
use crate::tools::IP;
use crate::traffic::Outcome;
use crate::world::World;

/// How often the clock is looked at.
const STEP: Duration = Duration::from_millis(5);
/// A gap that begins so long before a cut is the cut's: the last packet had been under way.
const BEFORE: Duration = Duration::from_millis(100);
/// A gap that begins later than this after a cut has another cause.
const AFTER: Duration = Duration::from_secs(2);

/// A cut that was made.
pub(crate) struct Cut {
    kind: Failure,
    at: Instant,
    problem: Option<String>,
}

/// Makes the events of the plan happen, each at its time; `is_over`: the run has ended.
pub(crate) fn run(
    plan: &Plan,
    world: &World,
    nodes: &Mutex<Vec<Node>>,
    started: Instant,
    cuts: &Mutex<Vec<Cut>>,
    is_over: impl Fn() -> bool,
) {
    let mut steps: Vec<(Duration, Event, bool)> = Vec::new();
    for &event in &plan.topology.events {
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
        let made = Instant::now();
        let problem = apply(plan, world, nodes, &event, cut).err().map(|e| e.to_string());
        open.retain(|e| *e != event);
        if cut {
            open.push(event);
            let kind = event.kind;
            let mut cuts = cuts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            cuts.push(Cut { kind, at: made, problem });
        }
    }
    // A later run of the same lab finds its cables whole.
    while !open.is_empty() && !is_over() {
        std::thread::sleep(STEP);
    }
    for event in open {
        let _ = apply(plan, world, nodes, &event, false);
    }
}

fn apply(
    plan: &Plan,
    world: &World,
    nodes: &Mutex<Vec<Node>>,
    event: &Event,
    cut: bool,
) -> Result<(), Error> {
    let topology = &plan.topology;
    let cable = topology.cables().find(|(_, _, ends)| ends.contains(&event.cut));
    let Some((_, _, ends)) = cable else { return Ok(()) };
    match event.kind {
        Failure::Carrier => {
            let (device, _) = plan.device(event.cut);
            let state = if cut { "down" } else { "up" };
            let line = format!("link set dev {device} {state}\n");
            IP.batch(Some(world.place(event.cut.device())), &line)
        }
        Failure::Silent => {
            let nodes = nodes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// How long traffic stood still after each cut: the longest gap of any flow that began with it.
pub(crate) fn judge(cuts: &[Cut], outcomes: &[Outcome], report: &mut RunReport) {
    for cut in cuts {
        if let Some(problem) = &cut.problem {
            report.notes.push(format!("{} cut not made: {problem}", cut.kind.name()));
            continue;
        }
        let of_it = |begun: Instant| begun + BEFORE >= cut.at && begun <= cut.at + AFTER;
        let gaps = outcomes.iter().flat_map(|o| &o.gaps);
        let longest = gaps.filter(|(begun, _)| of_it(*begun)).map(|(_, gap)| *gap).max();
        let ms = longest.map_or(0.0, |gap| gap.as_secs_f64() * 1e3);
        report.facts.outages.push(Outage { kind: cut.kind.name().into(), ms });
    }
}
