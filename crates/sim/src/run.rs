//! A topology file's run: read, checked against the memory that there is, and run until its end;
//! and what it found as JSON.

use std::fs;
use std::path::Path;

use plexus_io::process::memory;
use plexus_report::{Failure, RunReport, first_of};
use plexus_topo::{Fidelity, Topology};
use serde_json::{Value, json};

use crate::{Sim, Work, memory_estimate};

/// Reads the file to run, and a note for the report. If control messages alone are asked for, and
/// the file says otherwise, its traffic is left out.
///
/// # Errors
/// When the file cannot be read, or is mistaken.
pub(crate) fn read(
    file: &Path,
    seed: Option<u64>,
    fidelity: Option<Fidelity>,
) -> Result<(Topology, Option<String>), Failure> {
    let mut topology = Topology::read_to_run(file, seed).map_err(Failure::unusable)?;
    topology.find_files(file.parent().unwrap_or(Path::new("")));
    for controller in &mut topology.controllers {
        controller.settings.load_routes().map_err(Failure::unusable)?;
    }
    // A file that says control itself and has traffic is mistaken.
    let is_cut = fidelity == Some(Fidelity::Control) && topology.fidelity != Fidelity::Control;
    topology.fidelity = fidelity.unwrap_or(topology.fidelity);
    let flows = topology.traffic.len();
    if !is_cut || flows == 0 {
        return Ok((topology, None));
    }
    topology.keep_flows(|_| false);
    Ok((topology, Some(format!("--fidelity control: the file's {flows} flows are left out"))))
}

/// Builds a network, lets it find itself and runs its traffic, as long as `go_on` gives true.
///
/// # Errors
/// When it cannot be built, or does not find all its neighbours in time.
pub(crate) fn simulate(
    topology: &Topology,
    seed: u64,
    mut go_on: impl FnMut(&Sim) -> bool,
) -> Result<Sim, String> {
    let mut sim = Sim::new(topology, seed)?;
    if find_itself(&mut sim, &mut go_on)? {
        sim.run(go_on);
    }
    Ok(sim)
}

/// Runs until the nodes know each other; false if `go_on` gave false before.
///
/// # Errors
/// When they do not in time.
pub(crate) fn find_itself(
    sim: &mut Sim,
    go_on: &mut impl FnMut(&Sim) -> bool,
) -> Result<bool, String> {
    let mut is_stopped = false;
    let is_settled = sim.settle(|sim| {
        is_stopped = !go_on(sim);
        !is_stopped
    });
    if is_settled || is_stopped {
        return Ok(is_settled);
    }
    let names = first_of(&sim.unsettled());
    Err(format!("the network has not found itself within a minute of its own time: {names}"))
}

/// Refuses runs that need more memory than there is, with so many at a time.
///
/// # Errors
/// In words, when it does.
pub(crate) fn check_memory(topology: &Topology, at_a_time: u64) -> Result<(), String> {
    let estimate = memory_estimate(topology).saturating_mul(at_a_time);
    match memory::available() {
        Some(available) if estimate > available => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let several = match at_a_time {
                1 => String::new(),
                n => format!(", {n} of them at a time,"),
            };
            Err(format!(
                "{} nodes, {} hosts and {} flows{several} would take some {:.1} GiB, and {:.1} GiB \
                 are free: make the network or the switches' mac_table smaller",
                topology.nodes.len() + topology.bridges.len(),
                topology.hosts.len(),
                topology.traffic.len(),
                gib(estimate),
                gib(available)
            ))
        }
        _ => Ok(()),
    }
}

/// The facts of the run, without anything that differs from one run to the next.
///
/// # Errors
/// When they cannot be JSON.
pub(crate) fn facts(report: &RunReport, work: &Work, seed: u64) -> Result<Value, Failure> {
    let mut facts = serde_json::to_value(&report.facts).map_err(Failure::unusable)?;
    facts["sim"] = engine(work, seed);
    if !report.named.is_empty() {
        facts["sim"]["named"] = serde_json::to_value(&report.named).map_err(Failure::unusable)?;
    }
    Ok(facts)
}

/// The fates of hosts' ARP requests; empty if the file has no `[arp]`.
pub(crate) fn questions(sim: &Sim) -> Option<Value> {
    sim.topology().arp?;
    let known = sim.resolutions();
    let mut us: Vec<f64> = known.latency_ns.iter().map(|ns| *ns as f64 / 1e3).collect();
    us.sort_by(f64::total_cmp);
    let percentile = |part: f64| {
        let last = us.len().checked_sub(1)?;
        us.get((last as f64 * part).round() as usize).copied()
    };
    Some(json!({
        "asked": known.asked,
        "answered": us.len(),
        "given_up": known.given_up,
        "latency_us_p50": percentile(0.5),
        "latency_us_p99": percentile(0.99),
    }))
}

/// The engine's work.
pub(crate) fn engine(work: &Work, seed: u64) -> Value {
    json!({
        "seed": seed,
        "digest": format!("{:016x}", work.digest),
        "events": work.events,
        "hops": work.hops,
        "simulated_s": work.time.as_secs_f64(),
    })
}

/// Frames and bytes that left by each end of each cable, as CSV.
pub(crate) fn links_csv(sim: &Sim) -> String {
    let rows = sim.traffic().map(|(end, t)| format!("{end},{},{}\n", t.frames, t.bytes));
    std::iter::once("end,frames,bytes\n".to_string()).chain(rows).collect()
}

/// Writes `report.json` and `links.csv` into a folder.
///
/// # Errors
/// In words.
pub(crate) fn write(dir: &Path, facts: &Value, links: &str) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    for (name, text) in
        [("report.json", &format!("{facts:#}\n")), ("links.csv", &links.to_string())]
    {
        let path = dir.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}
