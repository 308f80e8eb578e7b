//! Boxes in a row between two hosts, cables of 1 Gbit/s: the paper's Axons, or switches that store
//! and forward. What a switch adds is taken from the paper's text alone (`axon.txt` §5.2).

use std::time::Duration;

use plexus_topo::{Forwarding, Topology};

/// Cables, in bits/s.
pub(super) const RATE: u64 = 1_000_000_000;
/// "Each Axon adds 520 ns of latency to transit a packet from an Axon-port to an Axon-port, or
/// 720 ns from a host-port".
pub(super) const FABRIC_NS: u64 = 520;
pub(super) const HOST_NS: u64 = 720;
/// "A store-and-forward gigabit Ethernet switch typically adds latency of 7–28 µs per hop,
/// depending on packet size": taken to be those of the smallest and the largest frame.
pub(super) const SWITCH_NS: [u64; 2] = [7_000, 28_000];
/// Those frames, FCS included.
pub(super) const SIZES: [u64; 2] = [64, 1518];
/// Preamble and start delimiter.
const PREAMBLE: u64 = 8;

/// What stands in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Fabric nodes that cut through.
    Axon,
    /// Switches that store and forward as fast as can be: serialisation only.
    Ideal,
    /// Switches that store and forward, and add what the paper says.
    Switch,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Axon, Kind::Ideal, Kind::Switch];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Axon => "Axons",
            Kind::Ideal => "switches, serialisation only",
            Kind::Switch => "switches of 7 to 28 us",
        }
    }

    fn forwarding(self) -> Forwarding {
        let ns = Duration::from_nanos;
        match self {
            Kind::Axon => Forwarding::cut_through(ns(FABRIC_NS), ns(HOST_NS)),
            Kind::Ideal => Forwarding::default(),
            Kind::Switch => {
                // A straight line through the two sizes, less the frame's own time.
                let [small, large] = [0, 1].map(|i| SWITCH_NS[i] - frame_ns(SIZES[i]));
                let per_kilobyte = (large - small) * 1_000 / (SIZES[1] - SIZES[0]);
                let fixed = small - per_kilobyte * SIZES[0] / 1_000;
                Forwarding::stored(ns(fixed), ns(per_kilobyte))
            }
        }
    }
}

/// How long a frame of so many bytes, FCS included, takes on a cable.
pub(super) fn frame_ns(size: u64) -> u64 {
    (size + PREAMBLE) * 8_000_000_000 / RATE
}

/// `count` boxes in a row, host h1 before the first and h2 behind the last; `traffic` is what they
/// send, as in a file.
///
/// # Errors
/// In words; then this function is wrong.
pub(super) fn row(kind: Kind, count: usize, traffic: &str) -> Result<Topology, String> {
    let is_fabric = kind == Kind::Axon;
    let mut text = format!("name = \"row-{count}\"\nassert = [\"conserved == true\"]\n");
    for n in 1..=count {
        // It is about the nodes' own work.
        text += &format!("[[node]]\nname = \"n{n}\"\nfast_table = \"off\"\n");
        if is_fabric {
            text += "native = true\n";
        }
    }
    if is_fabric {
        text += "[[controller]]\nname = \"c1\"\non = \"n1\"\n\
            [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    }
    for h in 1..=2 {
        text += &format!("[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n");
    }
    let mut link = |a: String, b: String, mtu: u32| {
        text +=
            &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{RATE}bit\"\nmtu = {mtu}\n");
    };
    for n in 1..count {
        // Room for a header, as in the labs.
        link(format!("n{n}.b"), format!("n{}.a", n + 1), 2000);
    }
    link("h1".into(), "n1.h1".into(), 1500);
    link("h2".into(), format!("n{count}.h2"), 1500);
    let mut topology = Topology::parse("embedded", &(text + traffic)).map_err(|e| e.to_string())?;
    topology.nodes.iter_mut().for_each(|n| n.forwarding = kind.forwarding());
    Ok(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_adds_what_the_paper_says_of_its_smallest_and_largest_frame() {
        let Forwarding { latency, per_kilobyte, .. } = Kind::Switch.forwarding();
        for (size, whole) in SIZES.into_iter().zip(SWITCH_NS) {
            let own = per_kilobyte.as_nanos() as u64 * size / 1_000;
            let added = latency.as_nanos() as u64 + own + frame_ns(size);
            assert!(added.abs_diff(whole) <= 2, "{size} bytes: {added} ns");
        }
    }
}
