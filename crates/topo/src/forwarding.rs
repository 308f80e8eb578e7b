//! How long a node takes to pass a frame on, for simulators: `sim = { … }` of a `[[node]]`. In a
//! lab a node takes as long as it takes.

use std::time::Duration;

use plexus_config::document::{At, Lines, Section};
use plexus_config::units::parse_duration;
use plexus_config::words;

/// A simulated node's way of forwarding, and the time it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// When a frame is taken up.
    pub mode: ForwardingMode,
    /// Store-and-forward: from the last bit in to the first bit out. Cut-through: from the first
    /// bit in to the first bit out (RFC 1242, 3.8). Where nothing is in the way.
    pub latency: Duration,
    /// The same for what comes in from a host, if it differs: that is looked up, the rest is not
    /// (`axon.txt` §5.2).
    pub host_latency: Option<Duration>,
    /// Store-and-forward: so much more for each 1,000 bytes of the frame, its FCS included, and in
    /// proportion.
    pub per_kilobyte: Duration,
}

/// When a node takes up a frame that comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingMode {
    /// Once it is whole; what is damaged ends here.
    #[default]
    StoreAndForward,
    /// Once its header is known; what is damaged is passed on (`axon.txt` §3.2).
    CutThrough,
}

words!(ForwardingMode { StoreAndForward = "store-and-forward", CutThrough = "cut-through" });

/// A node that takes longer is a slip of the unit.
const LATENCY_MAX: Duration = Duration::from_secs(1);

impl Forwarding {
    /// Cut-through with these latencies, for frames of nodes and of hosts.
    pub fn cut_through(latency: Duration, host_latency: Duration) -> Forwarding {
        let host_latency = Some(host_latency).filter(|l| *l != latency);
        let mode = ForwardingMode::CutThrough;
        Forwarding { mode, latency, host_latency, ..Forwarding::default() }
    }

    /// Store-and-forward with this latency, whatever comes in.
    pub fn stored(latency: Duration, per_kilobyte: Duration) -> Forwarding {
        Forwarding { latency, per_kilobyte, ..Forwarding::default() }
    }

    /// Reads `sim = { forwarding = "…", latency = "…", host_latency = "…", per_kilobyte = "…" }`.
    pub(crate) fn read(node: &Section<'_>) -> Forwarding {
        let Some(section) = node.section("sim", "what is simulated of a node") else {
            return Forwarding::default();
        };
        let time = |key| {
            let At { value, span } = section.quantity(key, parse_duration)?;
            if value > LATENCY_MAX {
                section.problems().add(span, "more than a second", "write a time up to 1s");
            }
            Some(value)
        };
        let mode = section.choice_or("forwarding", &ForwardingMode::NAMES, Default::default());
        let latency = time("latency").unwrap_or_default();
        let host_latency = time("host_latency").filter(|l| *l != latency);
        let per_kilobyte = time("per_kilobyte").unwrap_or_default();
        let is_cut_through = mode == ForwardingMode::CutThrough;
        if is_cut_through && let Some(span) = section.span_of("per_kilobyte") {
            let message = "a node that cuts through does not wait for a frame's bytes";
            section.problems().add(span, message, "remove per_kilobyte, or store and forward");
        }
        if is_cut_through {
            section.require("latency", "\"520ns\"");
        }
        Forwarding { mode, latency, host_latency, per_kilobyte }
    }

    /// Writes it, unless it is the usual one.
    pub(crate) fn write(&self, lines: &mut Lines) {
        if *self == Forwarding::default() {
            return;
        }
        let mut sim = Lines::default();
        sim.value("forwarding", &self.mode);
        sim.value("latency", &self.latency);
        sim.given("host_latency", self.host_latency);
        sim.unusual("per_kilobyte", &self.per_kilobyte, &Duration::ZERO);
        lines.inline("sim", &sim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    fn parse(sim: &str) -> Result<Topology, String> {
        let text = format!(
            "name = \"t\"\n[[node]]\nname = \"n1\"\nsim = {{ {sim} }}\n[[node]]\nname = \"n2\"\n\
             [[link]]\nends = [\"n1.a\", \"n2.a\"]\n"
        );
        Topology::parse("t.toml", &text).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_read_is_written_back() {
        let ns = Duration::from_nanos;
        let paper = "forwarding = \"cut-through\", latency = \"520ns\", host_latency = \"720ns\"";
        let both = [
            (paper, Forwarding::cut_through(ns(520), ns(720))),
            (
                "latency = \"6us\", per_kilobyte = \"6443ns\"",
                Forwarding::stored(ns(6_000), ns(6_443)),
            ),
        ];
        for (text, forwarding) in both {
            let topology = parse(text).unwrap();
            assert_eq!(topology.nodes[0].forwarding, forwarding);
            assert_eq!(topology.nodes[1].forwarding, Forwarding::default());
            assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (text, word) in [
            ("forwarding = \"cut-trough\"", "cut-through"),
            ("forwarding = \"cut-through\"", "latency"),
            (
                "forwarding = \"cut-through\", latency = \"1us\", per_kilobyte = \"1ns\"",
                "per_kilobyte",
            ),
            ("latency = \"2s\"", "1s"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains("t.toml:4") && told.contains(word), "{text}: {told}");
        }
    }
}
