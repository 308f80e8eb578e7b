//! `axon-latency`: what each box on the way adds (`axon.txt` §5.2).
//!
//! Probes go from host to host through one to five simulated boxes, alone on idle cables of
//! 1 Gbit/s; what one more box adds is the difference of two runs. The time that the boxes' logic
//! takes is a parameter, the paper's; what the rest of the model adds to it, frames' headers and
//! their last hop among it, is what is seen. Apart from that, our own hop is measured on this
//! machine: in a lab, by time stamps, and in memory, as a core's time per frame.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_benches::fabric_hop_ns;
use plexus_report::Failure;
use plexus_sim::Sim;
use plexus_topo::End;
use plexus_traffic::Probe;

use super::Setting;
use super::boxes::{FABRIC_NS, HOST_NS, Kind, SIZES, SWITCH_NS, frame_ns, row};
use super::own_hop::{self, Hop};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};
use super::simulate;
use super::verdict::Verdict;

/// Boxes in a row at most, as in the paper.
const BOXES: usize = 5;
/// Bytes of frames between the smallest and the largest, FCS included.
const BETWEEN: [u64; 2] = [256, 576];
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
const FCS: u64 = 4;
/// Probes of a run: their clocks count in nanoseconds, so the least is the truest.
const PROBES: u32 = 50;

/// Nanoseconds from a frame's first bit out of the one host to its last bit at the other.
fn one_way_ns(kind: Kind, boxes: usize, size: u64) -> Result<f64, Failure> {
    let payload = size - FCS - HEADERS as u64;
    let traffic = format!(
        "[[traffic]]\nname = \"first\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\ncount = 2\n\
         [[traffic]]\nname = \"probes\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
         after = \"first\"\nrate = \"100kbit\"\nsize = {payload}\ncount = {PROBES}\n"
    );
    let topology = row(kind, boxes, &traffic).map_err(Failure::unusable)?;
    let mut sim = Sim::new(&topology, 1).map_err(Failure::unusable)?;
    let least = Arc::new(AtomicU64::new(u64::MAX));
    let seen = least.clone();
    sim.watch(End::Host { host: 1, interface: 0 }, move |at, bytes| {
        if let Some(probe) = bytes.get(HEADERS..).and_then(Probe::decode) {
            seen.fetch_min(at.as_picos() - probe.time_ns * 1_000, Ordering::Relaxed);
        }
    });
    let report = simulate::finish(sim)?;
    if !report.facts.passed || report.facts.flows[1].loss > 0.0 {
        return Err(Failure::No(report.to_string()));
    }
    Ok(least.load(Ordering::Relaxed) as f64 / 1e3)
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let mut findings = Findings::new(1, "boxes,kind,frame_bytes,one_way_ns\n");
    let mut lines = Vec::new();
    let sizes: Vec<u64> = match setting.quick {
        true => SIZES.into(),
        false => [SIZES[0], BETWEEN[0], BETWEEN[1], SIZES[1]].into(),
    };
    for kind in Kind::ALL {
        for &size in &sizes {
            let mut times = Vec::new();
            for boxes in 1..=BOXES {
                setting.progress.detail(&format!("{boxes} {}, {size} bytes", kind.name()));
                let time = one_way_ns(kind, boxes, size)?;
                let _ = writeln!(findings.runs, "{boxes},{},{size},{time:.3}", kind.name());
                times.push(time);
            }
            // The last box hands the frame to a host, the first takes it from one: those between
            // are like each other.
            let added = (times[BOXES - 1] - times[1]) / (BOXES - 2) as f64;
            findings.rows.extend(rows(kind, size, times[0], added));
            if SIZES.contains(&size) {
                let points = (1..).zip(&times).map(|(n, ns)| (f64::from(n), ns / 1e3));
                let name = format!("{}, {size} bytes", kind.name());
                lines.push(Line::ours(name, points.collect()));
            }
        }
    }
    own_hops(setting, &mut findings);
    let time = Duration::from_millis(if setting.quick { 20 } else { 1_000 });
    setting.progress.detail("our own software, in memory");
    let own = fabric_hop_ns(time).map_err(Failure::No)?;
    findings.rows.push(
        Row::new("our software, a core's time per frame from fabric to fabric", "ns", own)
            .note("measured on this machine, in memory and in batches: no port, so no latency"),
    );
    findings.remarks.push(
        "520 and 720 ns are put in; that nothing else comes to them is what the runs show. The \
         paper measures the gate-level design, and says nothing of an Axon-port to a host-port: \
         520 ns here"
            .into(),
    );
    findings.remarks.push(
        "serialisation does not explain a switch's 7 to 28 us: what is left, 6.4 to 15.8 us, is \
         taken for processing, in a straight line by size"
            .into(),
    );
    findings.charts.push(Chart::lines(
        "From host to host through boxes in a row",
        Axis::linear("boxes"),
        Axis::log("one way, in us"),
        lines,
    ));
    Ok(findings)
}

/// Our own hop, as the lab has it, and what it would be on cables of 1 Gbit/s: a box that stores
/// and forwards waits for the whole frame first, one that forwards early does not.
fn own_hops(setting: &mut Setting<'_>, findings: &mut Findings) {
    let effort = match setting.quick {
        true => own_hop::Effort { turns: 1, time: Duration::from_millis(200) },
        false => own_hop::Effort { turns: 5, time: Duration::from_secs(2) },
    };
    let why = "the boxes' latencies are put in, as nothing but the paper's gates could give them";
    let hops = match own_hop::measure(&effort, setting.progress) {
        Ok(hops) => hops,
        Err(e) => {
            findings.remarks.push(format!("our own hop was not measured, there is no lab: {e}"));
            findings.verdict = Some(Verdict::open(why));
            return;
        }
    };
    let ours = hops.iter().map(|hop| hop.added_us.median);
    let [least, most] = [ours.clone().fold(f64::MAX, f64::min), ours.fold(0.0, f64::max)];
    findings.verdict = Some(Verdict::open(format!(
        "{why}; a hop of our own software takes {least:.1} to {most:.1} us"
    )));
    let mut rows = Vec::new();
    for Hop { kind, size, added_us, turns, through_one_us } in hops {
        let what = if kind == Kind::Axon { "fabric node" } else { "switch" };
        let added = added_us.median;
        let _ = writeln!(findings.runs, "1,our {what},{size},{:.0}", through_one_us * 1e3);
        let note = format!(
            "time stamps in a lab, veth, idle: what one more adds; {}; host to host through one \
             {through_one_us:.1}",
            added_us.text(turns)
        );
        let quantity = format!("our {what}, a hop, {size}-byte frames");
        rows.push(Row::new(quantity, "us", added).note(note));
        let edge = SIZES.iter().position(|s| *s == size).unwrap_or(0);
        let paper = SWITCH_NS[edge] as f64 / 1e3;
        for (how, waits_ns) in [("store and forward", frame_ns(size)), ("early forwarding", 0)] {
            let whole = added + waits_ns as f64 / 1e3;
            let row =
                Row::new(format!("our {what} on 1 Gbit/s, {how}, {size}-byte frames"), "us", whole);
            rows.push(match waits_ns {
                0 => row.detail().note(
                    "computed: the hop alone, as if a frame's head went on while its end comes; \
                     kernels hand us whole frames",
                ),
                _ => row
                    .detail()
                    .paper(paper)
                    .note("computed: the hop, and the time in which the frame comes in"),
            });
        }
    }
    // What is measured goes before what is put in.
    findings.rows.splice(0..0, rows);
}

/// What is to be said of boxes of a kind and frames of a size: `first` is the time through a single
/// box, `added` what one more adds.
fn rows(kind: Kind, size: u64, first: f64, added: f64) -> Vec<Row> {
    let bytes = format!("{size}-byte frames");
    let edge = SIZES.iter().position(|s| *s == size);
    match kind {
        Kind::Axon => {
            let host = first - frame_ns(size) as f64;
            vec![
                Row::new(format!("Axon, from fabric to fabric, {bytes}"), "ns", added)
                    .put_in(FABRIC_NS as f64)
                    .note("what one more of them adds"),
                Row::new(format!("Axon, from a host, {bytes}"), "ns", host)
                    .put_in(HOST_NS as f64)
                    .note("what a single one adds to the frame's own time"),
            ]
        }
        Kind::Ideal | Kind::Switch => {
            let quantity = match kind {
                Kind::Ideal => format!("switch, serialisation only, {bytes}"),
                _ => format!("switch as the paper says, {bytes}"),
            };
            let row = Row::new(quantity, "us", added / 1e3).note("what one more of them adds");
            vec![match (edge, kind) {
                (Some(edge), Kind::Switch) => row.put_in(SWITCH_NS[edge] as f64 / 1e3),
                // A part of what the paper says of a whole switch.
                (Some(edge), _) => row.at_most(SWITCH_NS[edge] as f64 / 1e3).detail(),
                (None, _) => row,
            }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_add_their_latency_and_nothing_else() {
        for (kind, size, boxes, expected) in [
            (Kind::Axon, 64, 1, frame_ns(64) + HOST_NS),
            (Kind::Axon, 1518, 5, frame_ns(1518) + HOST_NS + 4 * FABRIC_NS),
            (Kind::Ideal, 1518, 5, 6 * frame_ns(1518)),
            (Kind::Switch, 1518, 3, frame_ns(1518) + 3 * SWITCH_NS[1]),
        ] {
            let time = one_way_ns(kind, boxes, size).unwrap();
            // A switch's latencies are rounded to nanoseconds.
            let off = (time - expected as f64).abs();
            assert!(off <= 2.0 * boxes as f64, "{kind:?}: {time} not {expected}");
        }
    }
}
