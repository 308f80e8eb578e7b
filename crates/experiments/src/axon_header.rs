//! `axon-header`: the bandwidth that source routes take (`axon.txt` §3.1).
//!
//! A route of h hops is a header of 6 + h bytes (figure 2) before a frame that takes 20 bytes of
//! preamble and gap besides. Computed for the paper's 1, 10 and 100 hops; counted on the cables
//! between 1, 10 and 64 nodes in memory, which is as many hops as our header allows.

use std::fmt::Write as _;

use plexus_report::Failure;
use plexus_wire::fabric::{FIXED_LEN, HOPS_MAX};

use super::Setting;
use super::chain::{Chain, Counted};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

/// Bytes of frames, FCS included: the smallest, what every IPv4 host takes, and the usual sizes of
/// frames without and with jumbo.
const SIZES: [usize; 4] = [64, 576, 1500, 9000];
/// Sizes between the smallest and the largest, close enough for a line.
const CHART_SIZES: [usize; 9] = [64, 128, 256, 512, 1024, 1500, 3000, 6000, 9000];
const PAPER_HOPS: [usize; 3] = [1, 10, 100];
const COUNTED_HOPS: [usize; 3] = [1, 10, HOPS_MAX];
/// Preamble, start of frame and gap (IEEE 802.3, 3.1.1 and 4.4.2).
const GAP: usize = 20;
const FCS: usize = 4;
/// Addresses, type and FCS.
const ETHERNET: usize = 14 + FCS;
/// "The maximum bandwidth available to the application only decreases by 3 % at the largest packet
/// size", for 100 hops; which size that is, it does not say.
const PAPER_LOST_PERCENT: f64 = 3.0;

/// What a header costs a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// The part of a cable's bit rate that is Ethernet payload.
    goodput: f64,
    /// The part of that which the header takes away.
    lost: f64,
}

impl Cost {
    /// `payload` bytes of `plain` bytes of cable time without the header, `routed` with it.
    fn new(payload: f64, plain: f64, routed: f64) -> Cost {
        Cost { goodput: payload / routed, lost: 1.0 - plain / routed }
    }

    fn computed(hops: usize, size: usize) -> Cost {
        let plain = (size + GAP) as f64;
        Cost::new((size - ETHERNET) as f64, plain, plain + (FIXED_LEN + hops) as f64)
    }

    fn of(counted: Counted) -> Cost {
        // Ports count neither FCS nor gap; a cable has both.
        let unseen = counted.frames * (GAP + FCS) as u64;
        let headers = counted.frames * (ETHERNET - FCS) as u64;
        let payload = (counted.host - headers) as f64;
        Cost::new(payload, (counted.host + unseen) as f64, (counted.cable + unseen) as f64)
    }
}

/// The size of the frame that loses `lost` (a part of 1) to a route.
fn size_losing(lost: f64, hops: usize) -> f64 {
    (FIXED_LEN + hops) as f64 / lost - (FIXED_LEN + hops + GAP) as f64
}

/// A number of hops, in words.
fn named(hops: usize) -> String {
    format!("{hops} {}", if hops == 1 { "hop" } else { "hops" })
}

/// Sends frames of a size through as many nodes.
fn count(hops: usize, size: usize, frames: u8) -> Result<Counted, String> {
    let len = size - FCS;
    let mut chain = Chain::new(hops, len)?;
    for filling in 0..frames {
        chain.carry(&Chain::frame(len, filling))?;
    }
    chain.counted()
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let frames = if setting.quick { 4 } else { 64 };
    let mut findings = Findings::new(0, "how,hops,frame_bytes,header_bytes,goodput,lost\n");
    let mut add = |how: &str, hops: usize, size: usize, header: f64, cost: Cost| {
        let percent = cost.goodput * 100.0;
        let Cost { goodput, lost } = cost;
        let _ = writeln!(findings.runs, "{how},{hops},{size},{header},{goodput:.6},{lost:.6}");
        let route = named(hops);
        let quantity = format!("lost to {route}, {size}-byte frames, {how}");
        let note = format!("header {header} bytes; goodput {percent:.1} % of the cable");
        let row = Row::new(quantity, "%", lost * 100.0).note(note);
        // The paper's one figure, beside the two sizes that it can mean.
        let row = if hops == 100 && size >= 1500 { row.paper(PAPER_LOST_PERCENT) } else { row };
        findings.rows.push(row);
    };
    for hops in PAPER_HOPS {
        for size in SIZES {
            add("computed", hops, size, (FIXED_LEN + hops) as f64, Cost::computed(hops, size));
        }
    }
    let mut counted_lost = Vec::new();
    for hops in COUNTED_HOPS {
        let mut lost = Vec::new();
        for size in SIZES {
            setting.progress.detail(&format!("{hops} hops, {size}-byte frames"));
            let counted = count(hops, size, frames).map_err(Failure::No)?;
            let header = (counted.cable - counted.host) as f64 / counted.frames as f64;
            let cost = Cost::of(counted);
            lost.push((size as f64, cost.lost * 100.0));
            add("counted", hops, size, header, cost);
        }
        counted_lost.push((hops, lost));
    }
    let size = size_losing(PAPER_LOST_PERCENT / 100.0, 100);
    let note = "the paper names no size; usual frames lose more, jumbo frames less";
    findings.rows.push(Row::new("frame that loses 3 % to 100 hops", "B", size).note(note));
    findings.remarks.push(format!(
        "3 % to 100 hops is true of frames of {size:.0} bytes; a route of a single hop \
         stays in its node: no cable carries its header."
    ));
    findings.charts.push(chart(&counted_lost));
    Ok(findings)
}

/// What is lost, computed as lines and counted as further ones.
fn chart(counted: &[(usize, Vec<(f64, f64)>)]) -> Chart {
    let percent = |hops, size| (size as f64, Cost::computed(hops, size).lost * 100.0);
    let computed = PAPER_HOPS
        .map(|hops| Line::ours(named(hops), CHART_SIZES.map(|size| percent(hops, size)).into()));
    // A route of one hop puts nothing on a cable, which has no place on this axis.
    let counted = counted
        .iter()
        .filter(|(hops, _)| *hops > 1)
        .map(|(hops, points)| Line::ours(format!("{}, counted", named(*hops)), points.clone()));
    // For 100 hops; at which of the two sizes, or between them, it does not say.
    let paper =
        Line::paper(named(100), [1500.0, 9000.0].map(|size| (size, PAPER_LOST_PERCENT)).into());
    Chart::lines(
        "What a source route takes of a cable's bandwidth",
        Axis::log("frame, FCS included (bytes)"),
        Axis::log("lost to the route's header (%)"),
        computed.into_iter().chain([paper]).chain(counted).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(hops: usize, size: usize) -> f64 {
        (Cost::computed(hops, size).lost * 1000.0).round() / 10.0
    }

    #[test]
    fn a_hundred_hops_cost_6_5_percent_of_usual_frames_and_1_2_of_jumbo() {
        assert_eq!((percent(100, 1500), percent(100, 9000)), (6.5, 1.2));
        // 7 bytes in 91.
        assert_eq!(percent(1, 64), 7.7);
        let cost = Cost::computed(10, 1500);
        assert!((cost.goodput - 1482.0 / 1536.0).abs() < 1e-12);
    }

    #[test]
    fn the_size_that_loses_three_percent_does() {
        let size = size_losing(0.03, 100);
        assert!((3400.0..3410.0).contains(&size), "{size}");
        assert!((Cost::computed(100, size as usize).lost - 0.03).abs() < 1e-4);
    }

    #[test]
    fn what_is_counted_on_cables_is_what_is_computed() {
        for (hops, size) in [(2, 64), (10, 1500), (HOPS_MAX, 9000)] {
            let counted = count(hops, size, 3).unwrap();
            assert_eq!(counted.frames, 3);
            assert_eq!(counted.cable - counted.host, 3 * (FIXED_LEN + hops) as u64);
            let (ours, computed) = (Cost::of(counted), Cost::computed(hops, size));
            assert!((ours.lost - computed.lost).abs() < 1e-12, "{hops} hops: {ours:?}");
            assert!((ours.goodput - computed.goodput).abs() < 1e-12, "{hops} hops: {ours:?}");
        }
    }

    #[test]
    fn a_single_hop_puts_no_header_on_a_cable_and_too_many_are_refused() {
        let counted = count(1, 576, 2).unwrap();
        assert_eq!(counted, Counted { frames: 2, host: 2 * 572, cable: 2 * 572 });
        assert_eq!(Cost::of(counted).lost, 0.0);
        assert!(count(HOPS_MAX + 1, 64, 1).unwrap_err().contains("does not hold 101 hops"));
        assert!(count(0, 64, 1).is_err());
    }
}
