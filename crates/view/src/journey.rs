//! A packet's way, put together from where it was seen: each box that it passes, the port by which
//! it comes in and that by which it leaves, and how long it stays in the box.

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use serde::Serialize;

use crate::packet::Seen;

/// A packet at a port.
pub(crate) struct Sighting {
    pub(crate) node: usize,
    pub(crate) port: usize,
    pub(crate) out: bool,
    pub(crate) now_ns: u64,
    pub(crate) seen: Seen,
}

/// A packet's way.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Journey {
    /// The packet in a line.
    packet: String,
    boxes: Vec<Passage>,
}

/// Its passage through a box.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Passage {
    node: String,
    /// Absent: the port by which it came in was not watched in time.
    in_port: Option<String>,
    /// Absent: it did not leave.
    out_port: Option<String>,
    ttl_in: Option<u8>,
    ttl_out: Option<u8>,
    /// Hops that its fabric header still has when it leaves; absent: it has no header.
    hops_left: Option<usize>,
    /// From the one port to the other, in nanoseconds; 0: in one batch. Absent too if several
    /// packets look the same.
    stay_ns: Option<u64>,
}

/// A packet that is being followed.
pub(crate) struct Open {
    /// When it was last seen at another place.
    pub(crate) last: Instant,
    all: Vec<Sighting>,
    /// Others that look the same have come, which are not told from it.
    repeats: bool,
}

impl Open {
    pub(crate) fn new() -> Open {
        Open { last: Instant::now(), all: Vec::new(), repeats: false }
    }

    pub(crate) fn add(&mut self, sighting: Sighting) {
        let at = |s: &Sighting| (s.node, s.port, s.out, place(s));
        if self.all.iter().any(|other| at(other) == at(&sighting)) {
            self.repeats = true;
            return;
        }
        self.last = Instant::now();
        self.all.push(sighting);
    }

    pub(crate) fn journey(self, nodes: &[Watched]) -> Journey {
        let mut journey = journey(nodes, self.all);
        if self.repeats {
            journey.boxes.iter_mut().for_each(|passage| passage.stay_ns = None);
        }
        journey
    }
}

/// A node and its ports.
pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) ports: Vec<String>,
}

/// Where a sighting is on its packet's way. A router takes one from the time to live; the fabric
/// one of the hops. The clocks of nodes need not agree.
fn place(sighting: &Sighting) -> (u8, usize) {
    let stage = match (sighting.seen.hops, sighting.out) {
        (None, false) => 0,
        (Some((left, _)), true) => 1 + 2 * (0xFFF - left.min(0xFFF)),
        (Some((left, _)), false) => 2 + 2 * (0xFFF - left.min(0xFFF)),
        (None, true) => usize::MAX,
    };
    (u8::MAX - sighting.seen.ttl, stage)
}

/// The boxes of a packet, in order.
fn journey(nodes: &[Watched], mut all: Vec<Sighting>) -> Journey {
    all.sort_by_key(place);
    let packet = all.first().map_or(String::new(), |first| first.seen.text.clone());
    let mut boxes: Vec<Passage> = Vec::new();
    let mut came: Option<&Sighting> = None;
    for sighting in &all {
        let node = &nodes[sighting.node];
        let port = node.ports.get(sighting.port).cloned();
        let into = came.filter(|into| into.node == sighting.node && sighting.out);
        match (into, boxes.last_mut()) {
            (Some(into), Some(passage)) => {
                passage.out_port = port;
                passage.ttl_out = Some(sighting.seen.ttl);
                passage.hops_left = sighting.seen.hops.map(|(left, _)| left);
                passage.stay_ns = sighting.now_ns.checked_sub(into.now_ns);
                came = None;
            }
            _ => {
                let mut passage = Passage { node: node.name.clone(), ..Passage::default() };
                match sighting.out {
                    true => {
                        (passage.out_port, passage.ttl_out) = (port, Some(sighting.seen.ttl));
                        passage.hops_left = sighting.seen.hops.map(|(left, _)| left);
                    }
                    false => (passage.in_port, passage.ttl_in) = (port, Some(sighting.seen.ttl)),
                }
                boxes.push(passage);
                came = Some(sighting).filter(|sighting| !sighting.out);
            }
        }
    }
    Journey { packet, boxes }
}

impl Display for Journey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = |port: &Option<String>| port.clone().unwrap_or_else(|| "-".into());
        let number = |n: Option<u64>| n.map_or_else(|| "-".into(), |n| n.to_string());
        let rows: Vec<Vec<String>> = self
            .boxes
            .iter()
            .map(|b| {
                let ttl = match (b.ttl_in, b.ttl_out) {
                    (Some(before), Some(after)) if before != after => format!("{before} > {after}"),
                    (before, after) => number(after.or(before).map(u64::from)),
                };
                // A box tells the time once for a batch.
                let stay = b.stay_ns.map(|ns| match ns {
                    0 => "one batch".to_string(),
                    ns => format!("{:.0} us", ns as f64 / 1e3),
                });
                let (into, out) = (text(&b.in_port), text(&b.out_port));
                vec![
                    b.node.clone(),
                    into,
                    out,
                    ttl,
                    number(b.hops_left.map(|n| n as u64)),
                    text(&stay),
                ]
            })
            .collect();
        let head = ["NODE", "IN", "OUT", "TTL", "HOPS LEFT", "STAYS"];
        writeln!(f, "{}", self.packet)?;
        writeln!(f, "{}", plexus_report::table(&head, &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Key;

    /// A beacon, or IPv6 without a changing label, looks the same each time.
    #[test]
    fn packets_that_look_the_same_are_told_as_one_and_without_times() {
        let mut open = Open::new();
        for time in [1000, 2000, 3000] {
            open.add(sighting((0, 0, false), time, 64, None));
            open.add(sighting((0, 1, true), time + 500, 63, Some(1)));
        }
        assert_eq!(open.all.len(), 2);
        let journey = open.journey(&nodes());
        let [passage] = &journey.boxes[..] else { panic!("{journey:?}") };
        assert_eq!((passage.ttl_in, passage.ttl_out, passage.stay_ns), (Some(64), Some(63), None));
    }

    fn nodes() -> Vec<Watched> {
        let node = |name: &str, ports: [&str; 2]| Watched {
            name: name.into(),
            ports: ports.map(String::from).to_vec(),
        };
        vec![node("f1", ["h1", "b1"]), node("b1", ["f1", "f2"]), node("f2", ["b1", "s1"])]
    }

    fn sighting(at: (usize, usize, bool), now_ns: u64, ttl: u8, left: Option<usize>) -> Sighting {
        let (node, port, out) = at;
        let key = Key { source: [10, 0, 0, 1].into(), destination: [10, 0, 1, 1].into(), rest: 7 };
        let seen = Seen { key, ttl, hops: left.map(|left| (left, 0)), text: "a packet".into() };
        Sighting { node, port, out, now_ns, seen }
    }

    #[test]
    fn the_boxes_are_in_order_whatever_the_clocks_say() {
        // The nodes began at different times, and the last sighting comes first.
        let all = vec![
            sighting((2, 1, true), 10, 63, None),
            sighting((1, 0, false), 5_000, 64, Some(1)),
            sighting((0, 0, false), 900_000, 64, None),
            sighting((2, 0, false), 4, 63, Some(1)),
            sighting((0, 1, true), 912_000, 64, Some(1)),
            sighting((1, 1, true), 5_700, 63, Some(1)),
        ];
        let journey = journey(&nodes(), all);
        let boxes: Vec<_> = journey
            .boxes
            .iter()
            .map(|b| {
                let ports = (b.in_port.as_deref().unwrap(), b.out_port.as_deref().unwrap());
                (b.node.as_str(), ports, b.stay_ns.unwrap())
            })
            .collect();
        assert_eq!(
            boxes,
            [("f1", ("h1", "b1"), 12_000), ("b1", ("f1", "f2"), 700), ("f2", ("b1", "s1"), 6)]
        );
        assert_eq!((journey.boxes[1].ttl_in, journey.boxes[1].ttl_out), (Some(64), Some(63)));
    }

    #[test]
    fn a_packet_that_is_lost_ends_in_its_last_box() {
        let all = vec![
            sighting((1, 0, false), 5_000, 64, Some(1)),
            sighting((0, 0, false), 900_000, 64, None),
            sighting((0, 1, true), 912_000, 64, Some(1)),
        ];
        let journey = journey(&nodes(), all);
        assert_eq!(journey.boxes.len(), 2);
        assert_eq!(journey.boxes[1].out_port, None);
        assert!(journey.to_string().contains("b1"), "{journey}");
    }
}
