//! What one more of our own boxes adds to a frame's way, measured in a lab: hosts stamp frames with
//! the machine's clock when they send them and read it when they come. Two rows of boxes, one and
//! three long, are up together and take turns; the hop is half of the difference, so that what
//! hosts take themselves is not in it. Cables are veth pairs without a rate: a frame is whole at
//! once, and all of the hop is software, its wake-up included.

use std::time::Duration;

use plexus_lab::{NodeProgram, Tied};
use plexus_report::Progress;
use plexus_topo::{Forwarding, Topology};

use super::boxes::{Kind, SIZES, row};
use super::report::Spread;

/// Boxes in the shorter row and in the longer one.
const BOXES: [usize; 2] = [1, 3];
/// Bytes of Ethernet, IPv4 and UDP headers and of the checksum.
const AROUND: u64 = 46;
/// Frames in a second: few enough that each finds its boxes asleep.
const PER_S: u64 = 500;
/// The kinds of boxes: a fabric's nodes, and switches.
pub(super) const KINDS: [Kind; 2] = [Kind::Axon, Kind::Ideal];

/// What one more box adds, in microseconds, over the turns of a run.
pub(super) struct Hop {
    pub(super) kind: Kind,
    /// Bytes of the frames, FCS included.
    pub(super) size: u64,
    /// By the median of each turn.
    pub(super) added_us: Spread,
    pub(super) turns: usize,
    /// Median through the shorter row, from host to host.
    pub(super) through_one_us: f64,
}

/// How often, and for how long.
pub(super) struct Effort {
    pub(super) turns: usize,
    pub(super) time: Duration,
}

/// A row of boxes as a lab.
fn topology(kind: Kind, boxes: usize, time: Duration) -> Result<Topology, String> {
    let mut traffic = String::from(
        "[[traffic]]\nname = \"first\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\ncount = 3\n",
    );
    for size in SIZES {
        let payload = size - AROUND;
        let (rate, ms) = (payload * 8 * PER_S, time.as_millis());
        traffic += &format!(
            "[[traffic]]\nname = \"s{size}\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
             size = {payload}\nrate = \"{rate}bit\"\nduration = \"{ms}ms\"\n"
        );
    }
    let mut topology = row(kind, boxes, &traffic)?;
    topology.name =
        format!("own-hop-{}-{boxes}", if kind == Kind::Axon { "fabric" } else { "switch" });
    topology.links.iter_mut().for_each(|link| link.rate_bits_per_s = None);
    // Only the simulator delays what a node forwards.
    topology.nodes.iter_mut().for_each(|node| node.forwarding = Forwarding::default());
    Ok(topology)
}

/// Measures the hop of each kind of box with each size of frame.
///
/// # Errors
/// In words; without root there is no lab.
pub(super) fn measure(effort: &Effort, progress: &mut Progress) -> Result<Vec<Hop>, String> {
    let mut hops = Vec::new();
    for kind in KINDS {
        let mut labs = Vec::new();
        for boxes in BOXES {
            let topology = topology(kind, boxes, effort.time)?;
            let title = topology.name.clone();
            let mut say = |text: &str| progress.say(&format!("{title}: {text}"));
            let lab = Tied::of(topology, &title, NodeProgram::Plexus, &mut say);
            labs.push(lab.map_err(|e| e.to_string())?);
        }
        let mut run = |lab: usize, flow: &str| -> Result<f64, String> {
            let name = labs[lab].name();
            let mut say = |text: &str| progress.detail(&format!("{name}: {text}"));
            let report = plexus_lab::run_flows(name, vec![flow.into()], &mut say);
            let report = report.map_err(|e| e.to_string())?;
            let flow = report.facts.flows.first().filter(|f| f.loss == 0.0);
            flow.and_then(|f| f.latency_us_p50).ok_or_else(|| format!("{name}: frames were lost"))
        };
        for lab in 0..BOXES.len() {
            run(lab, "first")?;
        }
        for size in SIZES {
            let flow = format!("s{size}");
            let (mut added, mut short) = (Vec::new(), Vec::new());
            for _ in 0..effort.turns {
                let times = [run(0, &flow)?, run(1, &flow)?];
                added.push((times[1] - times[0]) / (BOXES[1] - BOXES[0]) as f64);
                short.push(times[0]);
            }
            let added_us = Spread::of(added);
            let through_one_us = Spread::of(short).median;
            hops.push(Hop { kind, size, added_us, turns: effort.turns, through_one_us });
        }
    }
    Ok(hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_differ_by_their_boxes_and_frames_have_their_sizes() {
        for kind in KINDS {
            let [short, long] = BOXES.map(|n| topology(kind, n, Duration::from_secs(1)).unwrap());
            assert_eq!([short.nodes.len(), long.nodes.len()], BOXES);
            assert_eq!(short.traffic, long.traffic);
            let sizes: Vec<u64> = short.traffic[1..].iter().map(|f| f.size.into()).collect();
            assert_eq!(sizes, SIZES.map(|size| size - AROUND));
            assert!(short.links.iter().all(|link| link.rate_bits_per_s.is_none()));
        }
    }
}
