//! A topology file's `[arp]`: hosts that keep asking for others' addresses, which is all that a
//! fabric's controller hears of them (`axon.txt` §5.4). Only simulated hosts do.

use std::time::Duration;

use plexus_config::document::{At, Lines, Section};
use plexus_config::units::parse_duration;
use plexus_config::words;

/// What every host asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArpLoad {
    /// Questions of each host in a second, evenly spaced; when its first one comes is random.
    pub per_host_per_s: f64,
    /// How long they go on.
    pub lasts: Duration,
    /// Whom they ask for.
    pub targets: ArpTargets,
}

/// Whom hosts ask for: never themselves, and nobody whom they know already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpTargets {
    /// Any other host, all alike.
    Random,
    /// The host of rank r, in an order that is random, with a probability of 1/r: few servers and
    /// many clients (Zipf's law).
    Popular,
}

words!(ArpTargets { Random = "random", Popular = "popular" });

const RATE_MAX: f64 = 1e6;
const TIME_MAX: Duration = Duration::from_secs(3600);

impl ArpLoad {
    /// Reads `[arp]`, if the file has it.
    pub(crate) fn read(root: &Section<'_>) -> Option<ArpLoad> {
        let section = root.section("arp", "what hosts ask for")?;
        let rate = section.number("rate", 0.001..=RATE_MAX);
        if rate.is_none() {
            section.require("rate", "10.0");
        }
        let lasts = section.require("for", "\"1s\"").quantity("for", parse_duration);
        let lasts = lasts.and_then(|At { value, span }| {
            if value > TIME_MAX {
                section.problems().add(span, "more than an hour", "write a time up to 1h");
                return None;
            }
            Some(value)
        });
        let targets = section.choice_or("targets", &ArpTargets::NAMES, ArpTargets::Random);
        Some(ArpLoad { per_host_per_s: rate?.value, lasts: lasts?, targets })
    }

    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.heading("[arp]");
        lines.value("rate", &self.per_host_per_s);
        lines.value("for", &self.lasts);
        lines.value("targets", &self.targets);
    }
}

#[cfg(test)]
mod tests {
    use crate::Topology;

    const FILE: &str = "name = \"t\"\n[[node]]\nname = \"n1\"\n";

    #[test]
    fn a_load_is_read_and_written_back() {
        for targets in ["random", "popular"] {
            let load = format!("[arp]\nrate = 2.5\nfor = \"300ms\"\ntargets = \"{targets}\"\n");
            let topology = Topology::parse("t.toml", &format!("{FILE}{load}")).unwrap();
            assert_eq!(topology.arp.unwrap().per_host_per_s, 2.5);
            assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
        }
        assert_eq!(Topology::parse("t.toml", FILE).unwrap().arp, None);
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_stands() {
        for (load, place, why) in [
            ("rate = -1\nfor = \"1s\"\n", "t.toml:5:8", "from 0.001 to"),
            ("rate = 1\nfor = \"2h\"\n", "t.toml:6:7", "up to 1h"),
            ("rate = 1\n", "t.toml:4:", "for"),
            ("rate = 1\nfor = \"1s\"\ntargets = \"all\"\n", "t.toml:7:11", "popular"),
        ] {
            let file = format!("{FILE}[arp]\n{load}");
            let e = Topology::parse("t.toml", &file).unwrap_err().to_string();
            assert!(e.contains(place) && e.contains(why), "{load}: {e}");
        }
    }
}
