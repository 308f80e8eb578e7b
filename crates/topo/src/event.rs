//! Reads a topology file's `[[event]]`: what fails while traffic runs.

use std::collections::HashMap;
use std::time::Duration;

use plexus_config::document::{At, Section};
use plexus_config::units::parse_duration;

use crate::model::{Device, End, Event, Failure, Topology};

const KINDS: [(&str, Failure); 2] = [("carrier", Failure::Carrier), ("silent", Failure::Silent)];
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Reads every `[[event]]`. `ends` are the ends of cables by device and name.
pub(crate) fn read_events(
    root: &Section<'_>,
    topology: &mut Topology,
    devices: &HashMap<String, Device>,
    ends: &HashMap<(Device, String), End>,
) {
    for section in root.sections("event", "an event") {
        let at = time(&section, "at").unwrap_or(Duration::ZERO);
        let lasts = time(&section, "for");
        let kind = section.choice("kind", &KINDS).map_or(Failure::Carrier, |k| k.value);
        if let Some(At { value, span }) = section.required_text("cut", "\"n1.p1\"") {
            let end = value.split_once('.').and_then(|(device, port)| {
                ends.get(&(*devices.get(device)?, port.to_string())).copied()
            });
            match end {
                Some(cut @ (End::Port { .. } | End::Bridge { .. })) => {
                    topology.events.push(Event { at, cut, kind, lasts });
                }
                _ => {
                    let known = ends.values().filter(|e| !matches!(e, End::Host { .. }));
                    let mut known: Vec<String> = known.map(|e| topology.end_name(*e)).collect();
                    known.sort();
                    let known = known.iter().map(String::as_str);
                    section.problems().unknown(span, "port of a node or bridge", value, known);
                }
            }
        }
        section.finish();
    }
    topology.events.sort_by_key(|e| e.at);
}

fn time(section: &Section<'_>, key: &'static str) -> Option<Duration> {
    let At { value, span } = section.quantity(key, parse_duration)?;
    if value > TIME_MAX {
        section.problems().add(span, "more than a day", "write a time up to 24h");
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"t\"\n[[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
        [[link]]\nends = [\"n1.a\", \"n2.a\"]\n\
        [[event]]\nat = \"3s\"\ncut = \"n2.a\"\nkind = \"silent\"\n\
        [[event]]\nat = \"1s\"\ncut = \"n1.a\"\nfor = \"500ms\"\n";

    #[test]
    fn events_come_in_order_and_are_written_back() {
        let topology = Topology::parse("t.toml", FILE).unwrap();
        let kinds: Vec<_> = topology.events.iter().map(|e| (e.at.as_secs(), e.kind)).collect();
        assert_eq!(kinds, [(1, Failure::Carrier), (3, Failure::Silent)]);
        assert_eq!(topology.events[0].lasts, Some(Duration::from_millis(500)));
        assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
    }

    #[test]
    fn a_cut_must_name_a_port_of_a_node_or_bridge() {
        let wrong = FILE.replace("cut = \"n2.a\"", "cut = \"n2.b\"");
        let e = Topology::parse("t.toml", &wrong).unwrap_err().to_string();
        assert!(e.contains("t.toml:") && e.contains("\"n2.b\"") && e.contains("n2.a"), "{e}");
        let more = "[[bridge]]\nname = \"b\"\n[[link]]\nends = [\"n1.b\", \"b.p1\"]\n";
        let bridge = FILE.replace("cut = \"n2.a\"", "cut = \"b.p1\"") + more;
        let topology = Topology::parse("t.toml", &bridge).unwrap();
        assert_eq!(topology.end_name(topology.events[1].cut), "b.p1");
    }
}
