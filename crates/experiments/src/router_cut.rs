//! A back box of a router in two stages is lost under load, and comes back: what its flows and the
//! others notice. `router-two-stage` calls it. Which flow goes by which box is measured before, one
//! flow at a time, and not concluded from the losses.

use std::process::Command;
use std::time::{Duration, Instant};

use plexus_benches::ndr::trial::Running;
use serde_json::Value;

use super::router_bench::mac;
use super::router_group::{FEW, FRONTS, Flow, GROUP, Layout, Load, Rig, few, source};

/// Packets that show by which box a flow goes.
const MARKS: usize = 200;
/// The box that is lost.
const LOST: usize = 0;
/// Frames of the load, in bytes.
const SIZE: u32 = 64;
/// Sent before the cables are cut or mended.
const BEFORE: Duration = Duration::from_millis(1000);
const CUT_TIME: Duration = Duration::from_millis(2500);
const RETURN_TIME: Duration = Duration::from_secs(10);
/// How long a box may take until it routes again.
const RETURN_LIMIT: Duration = Duration::from_secs(8);

/// A back box's counts since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackCounts {
    /// Packets that came to it, those that its ports lost included.
    pub(super) came: u64,
    /// Packets that it routed.
    pub(super) routed: u64,
}

/// A back box's cables were cut and mended.
#[derive(Clone, Debug, Default)]
pub(super) struct Loss {
    pub(super) cut: Cut,
    pub(super) returned: Returned,
}

/// Counted while a box was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// Flows of the box, and others.
    pub(super) own: usize,
    pub(super) other: usize,
    /// How long each of its flows stood still.
    pub(super) stood_ms: Vec<f64>,
    pub(super) own_lost: u64,
    pub(super) others_lost: u64,
    pub(super) others_reordered: u64,
}

impl Cut {
    pub(super) fn stood_ms_max(&self) -> f64 {
        self.stood_ms.iter().copied().fold(0.0, f64::max)
    }
}

/// Counted when it came back.
#[derive(Clone, Debug, Default)]
pub(super) struct Returned {
    /// From its cables' return to the first packets that it routed.
    pub(super) after_ms: Option<f64>,
    pub(super) own_lost: u64,
    pub(super) own_reordered: u64,
    pub(super) others_lost: u64,
    pub(super) others_reordered: u64,
    /// Flows that go by another box than before.
    pub(super) moved: usize,
}

impl Rig {
    fn backs(&self) -> usize {
        if let Layout::Stages(backs) = self.layout() { backs.len() } else { 0 }
    }

    /// The counts of each back box.
    pub(super) fn back_counts(&self) -> Result<Vec<BackCounts>, String> {
        (FRONTS..FRONTS + self.backs()).map(|of| self.counts(of)).collect()
    }

    fn counts(&self, of: usize) -> Result<BackCounts, String> {
        let mut show = Command::new(std::env::current_exe().unwrap_or_else(|_| "plexus".into()));
        show.args(["show", "ports", "--json", "--node", &format!("{}/r{of}", self.name())]);
        let shown = Running::start(show, "plexus show ports")?.finish()?;
        let ports = shown.get("ports").and_then(Value::as_array);
        let ports = ports.ok_or("plexus show ports gave no ports")?;
        let sum = |name: &str| -> u64 {
            ports.iter().filter_map(|port| port.get(name).and_then(Value::as_u64)).sum()
        };
        Ok(BackCounts { came: sum("rx_packets") + sum("rx_overflow"), routed: sum("routed") })
    }

    /// The back box of each of the few flows, by sink and number.
    fn boxes_of_flows(&self) -> Result<Vec<Vec<usize>>, String> {
        let of_flow = |sink: usize, flow: usize| {
            let before = self.back_counts()?;
            let mut generator = self.inside(&format!("s{sink}"), "plexus");
            let words = format!(
                "gen eth0 --json --backend af_packet --src-mac {} --dst-mac {GROUP} \
                 --src-ip {}.2 --dst-ip {} --rate 5000pps --count {MARKS}",
                mac("s", sink),
                source(sink),
                few(sink, flow)
            );
            generator.args(words.split_whitespace());
            Running::start(generator, "the generator")?.finish()?;
            std::thread::sleep(Duration::from_millis(30));
            let counts = self.back_counts()?;
            let routed = |at: usize| counts[at].routed - before[at].routed;
            let at = (0..counts.len()).max_by_key(|at| routed(*at)).unwrap_or(0);
            match routed(at) >= MARKS as u64 / 2 {
                true => Ok(at),
                false => Err(format!("flow {flow} to sink {sink} goes by no back box")),
            }
        };
        let of_sink = |sink| (0..FEW).map(|flow| of_flow(sink, flow)).collect();
        (0..FRONTS).map(of_sink).collect()
    }

    /// Sets the front boxes' ends of a back box's cables, all at once.
    fn cables(&self, back: usize, state: &'static str) -> Result<(), String> {
        let device = format!("r{}", FRONTS + back);
        let set = |front: usize| {
            let mut ip = self.inside(&format!("r{front}"), "ip");
            ip.args(["link", "set", "dev", &device, state]);
            ip.spawn().map_err(|e| format!("starting ip: {e}"))
        };
        let running: Result<Vec<_>, String> = (0..FRONTS).map(set).collect();
        for mut child in running? {
            let status = child.wait().map_err(|e| format!("ip: {e}"))?;
            if !status.success() {
                return Err(format!("ip link set {device} {state}: {status}"));
            }
        }
        Ok(())
    }
}

/// Packets of a flow that did not come. All flows of a source send as many.
fn missing(flow: &Flow, flows: &[Flow]) -> u64 {
    let of_sink = flows.iter().filter(|f| f.sink == flow.sink);
    let sent = of_sink.map(|f| f.received + f.lost).max().unwrap_or(0);
    // One more or less, by where the generator stopped in its turn.
    let missing = sent.saturating_sub(flow.received);
    if flow.lost == 0 && missing <= 1 { 0 } else { missing }
}

/// Sums over the flows of the box and over the others: missing, reordered.
fn sums(flows: &[Flow], boxes: &[Vec<usize>]) -> [(u64, u64); 2] {
    let mut sums = [(0, 0); 2];
    for flow in flows {
        let sum = &mut sums[usize::from(!is_own(flow, boxes))];
        sum.0 += missing(flow, flows);
        sum.1 += flow.reordered;
    }
    sums
}

fn is_own(flow: &Flow, boxes: &[Vec<usize>]) -> bool {
    boxes.get(flow.sink).and_then(|of| of.get(flow.number as usize)) == Some(&LOST)
}

/// Cuts the first back box's cables under a load of `pps` from each source, and mends them.
pub(super) fn lose_a_back_box(
    rig: &Rig,
    pps: u64,
    say: &mut dyn FnMut(&str),
) -> Result<Loss, String> {
    say("which flow goes by which box");
    let boxes = rig.boxes_of_flows()?;
    let own = boxes.iter().flatten().filter(|at| **at == LOST).count();
    say("the box is lost");
    let outcome = rig.run_while(Load::Few, SIZE, pps, CUT_TIME, || {
        std::thread::sleep(BEFORE);
        rig.cables(LOST, "down")
    })?;
    let flows = &outcome.flows;
    let [(own_lost, _), (others_lost, others_reordered)] = sums(flows, &boxes);
    let flow_pps = pps as f64 / FEW as f64;
    let its = flows.iter().filter(|flow| is_own(flow, &boxes));
    let stood_ms = its.map(|flow| missing(flow, flows) as f64 / flow_pps * 1e3).collect();
    let other = flows.len().saturating_sub(own);
    let cut = Cut { own, other, stood_ms, own_lost, others_lost, others_reordered };
    say("the box comes back");
    let mut after_ms = None;
    let outcome = rig.run_while(Load::Few, SIZE, pps, RETURN_TIME, || {
        std::thread::sleep(BEFORE);
        let before = rig.counts(FRONTS + LOST)?.routed;
        let began = Instant::now();
        rig.cables(LOST, "up")?;
        while after_ms.is_none() && began.elapsed() < RETURN_LIMIT {
            if rig.counts(FRONTS + LOST)?.routed > before + 10 {
                after_ms = Some(began.elapsed().as_secs_f64() * 1e3);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })?;
    let [(own_lost, own_reordered), (others_lost, others_reordered)] = sums(&outcome.flows, &boxes);
    say("which flow goes by which box now");
    let now = rig.boxes_of_flows()?;
    let pairs = boxes.iter().flatten().zip(now.iter().flatten());
    let moved = pairs.filter(|(was, is)| was != is).count();
    let returned =
        Returned { after_ms, own_lost, own_reordered, others_lost, others_reordered, moved };
    Ok(Loss { cut, returned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flow_misses_is_told_by_its_box_even_if_it_never_goes_on() {
        let flow =
            |number, received, lost, reordered| Flow { sink: 0, number, received, lost, reordered };
        // The first flow ended at the cut, the second missed packets, the third missed none.
        let flows = [flow(0, 40, 0, 0), flow(1, 90, 10, 0), flow(2, 99, 0, 3)];
        let boxes = [vec![0, 0, 1]];
        assert_eq!(sums(&flows, &boxes), [(70, 0), (0, 3)]);
    }
}
