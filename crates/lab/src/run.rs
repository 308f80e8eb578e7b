//! A run: the traffic of the file, the nodes' counters during it, and the verdict.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_report::{Account, Counted, Counts, Cut, Outcome, Quota, RunReport};
use plexus_topo::assertion::Subject;
use plexus_topo::{Flow, Topology};

use crate::error::Error;
use crate::events::{self, Daemons};
use crate::nodes::RunningNode;
use crate::plan::{NodeProgram, Plan};
use crate::stalls;
use crate::traffic::{self, Live};
use crate::world::World;

/// Interval of progress reports.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long queues may take to drain once sending has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// A node above this load distorted the measurement (PLATFORM).
const STARVED: f64 = 0.8;
/// A processor that stands still this long keeps a node from a Heartbeat.
const STALLED: Duration = Duration::from_millis(100);

/// State shared by the flows of a run.
struct RunningFlows {
    live: Vec<Live>,
    ended: Mutex<Vec<Option<Outcome>>>,
    changed: Condvar,
}

/// Runs the traffic of the plan. Calls `say` with the progress; if it returns false, the client has
/// gone and the run ends early. The run also ends early, with a report, once `cut` is set.
///
/// # Errors
/// [`Error::Interrupted`] if it ended early; a node that does not answer.
pub(crate) fn run(
    plan: &Plan,
    world: &World,
    daemons: Daemons<'_>,
    cut: &AtomicBool,
    mut say: impl FnMut(String) -> bool,
) -> Result<RunReport, Error> {
    let (topology, nodes) = (&plan.topology, daemons.nodes);
    let running = RunningFlows {
        live: topology.traffic.iter().map(|_| Live::default()).collect(),
        ended: Mutex::new(vec![None; topology.traffic.len()]),
        changed: Condvar::new(),
    };
    let before = observe(nodes)?;
    let refused_before = world.refused(plan)?;
    let started = Instant::now();
    let cuts = Mutex::new(Vec::new());
    let ((interrupted, notes), stalled) = stalls::watch(|| {
        std::thread::scope(|s| {
            let events =
                s.spawn(|| events::run(plan, world, daemons, started, &cuts, || running.is_over()));
            for index in 0..topology.traffic.len() {
                let running = &running;
                s.spawn(move || {
                    let outcome = take_part(topology, world, index, running, started);
                    running.lock()[index] = Some(outcome);
                    running.changed.notify_all();
                });
            }
            let interrupted = follow(topology, &running, cut, &mut say);
            (interrupted, events.join().unwrap_or_default())
        })
    });
    if interrupted {
        return Err(Error::Interrupted);
    }
    let elapsed = started.elapsed();
    let after = observe_at_rest(nodes)?;
    let outcomes: Vec<Outcome> = running.lock().drain(..).map(Option::unwrap_or_default).collect();
    let cuts = cuts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut report = judge(plan, &outcomes, &before, &after, elapsed, &cuts);
    report.notes.extend(notes);
    report.facts.stalled_ms = Some((stalled.as_secs_f64() * 1e4).round() / 10.0);
    if stalled >= STALLED {
        let text = "a processor of this machine stood still for";
        let ms = stalled.as_millis();
        report.notes.insert(0, format!("{text} {ms} ms: do not trust losses and delays"));
    }
    let refused = world.refused(plan)?;
    report.notes.extend(notes_of_refused(plan, &refused_before, &refused, &report.facts.fast));
    if cut.load(Ordering::Relaxed) {
        report.facts.passed = false;
        let text =
            format!("interrupted after {:.1} s: what there was until then", elapsed.as_secs_f64());
        report.notes.insert(0, text);
    }
    Ok(report)
}

impl RunningFlows {
    /// Whether every flow has ended.
    fn is_over(&self) -> bool {
        self.lock().iter().all(Option::is_some)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Outcome>>> {
        // A flow that panicked left the list whole.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time`, or until `enough` says so of the flows' outcomes; whether it did.
    fn wait(&self, time: Duration, enough: impl Fn(&[Option<Outcome>]) -> bool) -> bool {
        let limit = Instant::now() + time;
        let mut ended = self.lock();
        loop {
            if enough(&ended) {
                return true;
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(ended, left);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A flow: waits for its turn, then sends.
fn take_part(
    topology: &Topology,
    world: &World,
    index: usize,
    running: &RunningFlows,
    started: Instant,
) -> Outcome {
    let flow = &topology.traffic[index];
    let live = &running.live[index];
    const STEP: Duration = Duration::from_millis(100);
    if let Some(other) = flow.after {
        while !running.wait(STEP, |ended| ended[other].is_some()) {
            if live.is_cancelled() {
                return Outcome::default();
            }
        }
    }
    let begin = Instant::now() + flow.start;
    while let left = begin.saturating_duration_since(Instant::now())
        && !left.is_zero()
        && !live.is_cancelled()
    {
        std::thread::sleep(left.min(STEP));
    }
    if live.is_cancelled() {
        Outcome::default()
    } else {
        traffic::run(topology, world, index, live, started)
    }
}

/// Reports the progress of the flows until all have ended; returns whether the client has gone.
fn follow(
    topology: &Topology,
    running: &RunningFlows,
    cut: &AtomicBool,
    say: &mut impl FnMut(String) -> bool,
) -> bool {
    let mut before: Vec<(u64, u64)> = running.live.iter().map(Live::bytes).collect();
    let mut interrupted = false;
    while !running.wait(PROGRESS, |ended| ended.iter().all(Option::is_some)) {
        if cut.load(Ordering::Relaxed) {
            running.live.iter().for_each(Live::cancel);
        }
        let now: Vec<(u64, u64)> = running.live.iter().map(Live::bytes).collect();
        let moving = topology.traffic.iter().zip(now.iter().zip(&before));
        let moving: Vec<(&Flow, u64)> = moving
            .filter(|(_, (now, before))| now != before)
            .map(|(flow, (now, before))| (flow, now.1 - before.1))
            .collect();
        before = now;
        // Sent even when nothing moves, because a failed write shows that the client has gone.
        if !interrupted && !say(progress(&moving)) {
            interrupted = true;
            running.live.iter().for_each(Live::cancel);
        }
    }
    interrupted
}

/// What arrived of flows since the last report: by name, if it fits a line.
fn progress(flows: &[(&Flow, u64)]) -> String {
    const NAMED: usize = 6;
    let megabits = |bytes: u64| bytes as f64 * 8.0 / 1e6 / PROGRESS.as_secs_f64();
    if flows.len() > NAMED {
        let all = flows.iter().map(|(_, bytes)| bytes).sum();
        return format!("{} flows {:.1} Mbit/s", flows.len(), megabits(all));
    }
    let named = flows.iter().map(|(flow, b)| format!("{} {:.1} Mbit/s", flow.name, megabits(*b)));
    let named: Vec<String> = named.collect();
    if named.is_empty() { "waiting".into() } else { named.join(", ") }
}

/// Counters and processor time of a node.
struct Observation {
    node: String,
    /// Its process: another one counts from zero.
    process: Option<u32>,
    counts: Option<Counts>,
    cpu: Option<Duration>,
    quota: Option<Quota>,
    /// Interests answered out of its content store.
    cached: Option<u64>,
    /// Packets that came in, and those that went by the fast table.
    fast: Option<(u64, u64)>,
}

fn observe(nodes: &Mutex<Vec<RunningNode>>) -> Result<Vec<Observation>, Error> {
    let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
    let observe = |n: &mut RunningNode| -> Result<Observation, Error> {
        let (counts, cached) = (n.counts()?, n.cached()?);
        let (cpu, quota, fast) = (n.cpu_time(), n.quota(), n.fast()?);
        let process = n.daemon().map(|daemon| daemon.process());
        Ok(Observation { node: n.name().into(), process, counts, cpu, quota, cached, fast })
    };
    nodes.iter_mut().map(observe).collect()
}

/// The same once nothing waits in a queue any more, or once that has taken too long.
fn observe_at_rest(nodes: &Mutex<Vec<RunningNode>>) -> Result<Vec<Observation>, Error> {
    let limit = Instant::now() + DRAIN_LIMIT;
    loop {
        let seen = observe(nodes)?;
        let rests = |o: &Observation| {
            o.counts.as_ref().is_none_or(|c| c.account.held == 0 && c.account.balances())
        };
        if seen.iter().all(rests) || Instant::now() > limit {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn judge(
    plan: &Plan,
    outcomes: &[Outcome],
    before: &[Observation],
    after: &[Observation],
    elapsed: Duration,
    cuts: &[Cut],
) -> RunReport {
    let topology = &plan.topology;
    let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    let mut cpu = BTreeMap::new();
    let (mut cached, mut cpu_quota) = (BTreeMap::new(), BTreeMap::new());
    let mut fast = BTreeMap::new();
    let (mut notes, mut unserved) = (Vec::new(), Vec::new());
    for (a, b) in after.iter().zip(before) {
        if a.process != b.process {
            notes.push(format!("{} was killed and started again: it is not counted", a.node));
            continue;
        }
        if let (Some(after), Some(before)) = (&a.counts, &b.counts) {
            let run = after.since(before);
            accounts.insert(a.node.clone(), run.account);
            if !run.unserved.is_empty() {
                let reasons = run.unserved.iter().map(|(why, count)| format!("{why} {count}"));
                let reasons = reasons.collect::<Vec<_>>().join(", ");
                unserved.push(format!("{} did not serve frames of hosts: {reasons}", a.node));
            }
            for (reason, count) in run.drops {
                *drops.entry(reason).or_default() += count;
            }
        }
        if let (Some(after), Some(before)) = (a.cached, b.cached) {
            cached.insert(a.node.clone(), after.saturating_sub(before));
        }
        if let (Some(after), Some(before)) = (a.fast, b.fast) {
            let all = after.0.saturating_sub(before.0);
            let by_table = after.1.saturating_sub(before.1);
            let fraction = by_table as f64 / all.max(1) as f64;
            fast.insert(a.node.clone(), (fraction * 1e4).round() / 1e4);
        }
        if let (Some(after), Some(before)) = (a.quota, b.quota) {
            let run = after.since(before);
            if run.throttled * 10 > run.periods {
                let text = "used up its quota of processor time: its rates are the quota's";
                notes.push(format!("{} {text}", a.node));
            }
            cpu_quota.insert(a.node.clone(), run);
        }
        if let (Some(after), Some(before)) = (a.cpu, b.cpu) {
            let used = after.saturating_sub(before).as_secs_f64();
            let fraction = used / elapsed.as_secs_f64().max(1e-3);
            cpu.insert(a.node.clone(), (fraction * 1e4).round() / 1e4);
            if fraction > STARVED {
                let text = "was short of processor time: do not trust the rates of this run";
                notes.push(format!("{} {text}", a.node));
            }
        }
    }
    let is_bridge = plan.program == NodeProgram::Bridge;
    let has_table: Vec<bool> =
        topology.nodes.iter().map(|node| fast.contains_key(&node.name)).collect();
    let unchecked = |subject: &Subject| match subject {
        _ if is_bridge && is_nodes_own(subject) => Some("the Linux bridge does not say".into()),
        Subject::Fast { node } if !has_table[*node] => {
            Some("the node has no fast table here".to_string())
        }
        _ => None,
    };
    let counted = Counted { accounts, drops, cpu, fast, cpu_quota, cached, ..Counted::default() };
    let mut report = plexus_report::judge(topology, outcomes, counted, cuts, unchecked);
    // Notes that cast doubt on the others come first.
    report.notes.splice(..0, notes);
    report.notes.extend(unserved);
    report
}

/// Notes about frames that the kernel refused between two readings. They are lost, except those of
/// a Plexus node itself, which sends them again.
fn notes_of_refused(
    plan: &Plan,
    before: &BTreeMap<(String, String), u64>,
    after: &BTreeMap<(String, String), u64>,
    fast: &BTreeMap<String, f64>,
) -> Vec<String> {
    let is_plexus = |name: &str| {
        plan.program != NodeProgram::Bridge && plan.topology.nodes.iter().any(|n| n.name == name)
    };
    let note = |(at, count): (&(String, String), &u64)| {
        let count = count.saturating_sub(before.get(at).copied().unwrap_or(0));
        let (name, interface) = at;
        let lost = match fast.get(name) {
            _ if count == 0 => return None,
            _ if !is_plexus(name) => "lost them",
            Some(fraction) if *fraction > 0.0 => "lost those of the fast table",
            _ => return None,
        };
        Some(format!(
            "the kernel refused {count} frames that {name} sent by {interface}: it {lost}"
        ))
    };
    after.iter().filter_map(note).collect()
}

/// Whether only a Plexus node can measure it.
fn is_nodes_own(subject: &Subject) -> bool {
    !matches!(subject, Subject::Flow { .. })
}
