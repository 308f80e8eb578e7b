//! Reads a topology file's `[[pattern]]`: traffic by a rule, which becomes flows.
//!
//! The flows of the pattern `mix` are `mix-1`, `mix-2` … in the order of their senders, and all
//! send what the section says as `[[traffic]]` would. What is drawn depends on the file's seed and
//! the pattern's name alone, so that a further pattern leaves the others as they are. The rules are
//! those of Dally and Towles, "Principles and Practices of Interconnection Networks" (2004), 3.2.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use plexus_config::document::{At, Section};
use plexus_config::error::{Span, quote};
use plexus_config::name::check_name;
use plexus_config::units::parse_duration;
use plexus_config::words;

use crate::flow::{FLOWS_MAX, Known, find_host, host_target, read_flow, read_host};
use crate::generate::{Dice, Grid};
use crate::model::{Flow, Proto, Target, Topology};
use crate::read::{DELAY_MAX, check_delay};

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Each host to one other, each from one other, at random.
    Permutation,
    /// Each host to every other.
    AllToAll,
    /// `flows` times one host to another, at random.
    Random,
    /// `senders` of the hosts, drawn at random, or all others, to the host `to`.
    Incast,
    /// Each host to the one `stride` further, around the end of the list.
    Stride,
    /// Host i of n to host n - 1 - i: its number with every bit turned if n is a power of two; in
    /// a grid every coordinate is mirrored.
    BitComplement,
    /// In each dimension almost half the way around: ⌈k/2⌉ - 1 nodes of k further.
    Tornado,
}

words!(Kind {
    Permutation = "permutation",
    AllToAll = "all-to-all",
    Random = "random",
    Incast = "incast",
    Stride = "stride",
    BitComplement = "bit-complement",
    Tornado = "tornado",
});

/// Which kind a key has a meaning for.
const KEYS: [(&str, Kind); 4] = [
    ("flows", Kind::Random),
    ("to", Kind::Incast),
    ("senders", Kind::Incast),
    ("stride", Kind::Stride),
];

/// Reads patterns into a topology whose devices are known.
pub(crate) struct PatternReader<'t> {
    pub(crate) topology: &'t mut Topology,
    pub(crate) known: Known<'t>,
    /// The flows so far.
    pub(crate) names: &'t mut HashMap<String, usize>,
}

impl PatternReader<'_> {
    /// Adds a pattern's flows, and says which they are; none where something is wrong.
    pub(crate) fn read(&mut self, section: &Section<'_>) -> Range<usize> {
        let first = self.topology.traffic.len();
        let name = section.required_text("name", "\"mix\"");
        let kind = section.require("kind", "\"permutation\"").choice("kind", &Kind::NAMES);
        let hosts = self.hosts(section);
        let jitter = section.quantity("jitter", parse_duration).map_or(Duration::ZERO, |jitter| {
            check_delay(section, &jitter);
            jitter.value.min(DELAY_MAX)
        });
        // Its name and ends are each flow's own.
        let model = read_flow(section, "", 0);
        let seed = self.topology.seed ^ name.as_ref().map_or(0, |n| hash(n.value));
        let mut dice = Dice::new(seed);
        let pairs = kind.and_then(|kind| self.pairs(section, &kind, hosts?, &mut dice));
        if let (Some(name), Some(pairs)) = (name, pairs) {
            self.add(section, &name, &pairs, &model, jitter, &mut dice);
        }
        first..self.topology.traffic.len()
    }

    /// The hosts that take part, in their order: those named, or all.
    fn hosts(&self, section: &Section<'_>) -> Option<Vec<usize>> {
        if !section.has("hosts") {
            return Some((0..self.topology.hosts.len()).collect());
        }
        let (mut hosts, mut named) = (Vec::new(), HashSet::new());
        for at in section.texts("hosts").unwrap_or_default() {
            let host = find_host(section, &at, self.topology, self.known.devices)?;
            if !named.insert(host) {
                let message = format!("{} is named twice", quote(at.value));
                section.problems().add(at.span, message, "name each host once");
                return None;
            }
            hosts.push(host);
        }
        Some(hosts)
    }

    /// Senders and receivers; `None` where that cannot be, which is noted.
    fn pairs(
        &self,
        section: &Section<'_>,
        kind: &At<Kind>,
        hosts: Vec<usize>,
        dice: &mut Dice,
    ) -> Option<Vec<[usize; 2]>> {
        let refuse = |span: Span, message: &str, help: &str| {
            section.problems().add(span, message, help);
            None
        };
        let n = hosts.len();
        let most = 1..=FLOWS_MAX as u64;
        let number = |key| section.integer(key, most.clone()).map(|n| n.value as usize);
        let (flows, senders, stride) = (number("flows"), number("senders"), number("stride"));
        let to =
            section.has("to").then(|| read_host(section, "to", self.topology, self.known.devices));
        for (key, of) in KEYS {
            if let Some(span) = section.span_of(key).filter(|_| of != kind.value) {
                let of = quote(of.name());
                let message = format!("{} has a meaning for {of} only", quote(key));
                return refuse(span, &message, "remove it");
            }
        }
        if n < 2 {
            return refuse(kind.span.clone(), "a pattern needs two hosts", "add [[host]]s");
        }
        let to_others = |step: usize| (0..n).map(|i| [hosts[i], hosts[(i + step) % n]]).collect();
        Some(match kind.value {
            Kind::Permutation => {
                let to = derangement(n, dice);
                hosts.iter().zip(to).map(|(from, to)| [*from, hosts[to]]).collect()
            }
            Kind::AllToAll if n * (n - 1) > FLOWS_MAX => {
                let message = format!("{n} hosts would have {} flows", n * (n - 1));
                let help = format!("at most {FLOWS_MAX} are made: choose among them by \"hosts\"");
                return refuse(kind.span.clone(), &message, &help);
            }
            Kind::AllToAll => {
                let others = |from: usize| hosts.iter().filter(move |to| **to != from);
                hosts.iter().flat_map(|from| others(*from).map(|to| [*from, *to])).collect()
            }
            Kind::Random => {
                section.require("flows", "100");
                let flows = flows?;
                let draw = |_| {
                    let from = dice.below(n);
                    [hosts[from], hosts[(from + 1 + dice.below(n - 1)) % n]]
                };
                (0..flows).map(draw).collect()
            }
            Kind::Incast => {
                section.require("to", "\"h1\"");
                let to = to??;
                let mut others: Vec<usize> = hosts.into_iter().filter(|h| *h != to).collect();
                if let Some(senders) = senders {
                    if senders > others.len() {
                        let message = format!("there are {} other hosts", others.len());
                        return refuse(section.near("senders"), &message, "take so many, or fewer");
                    }
                    shuffle(&mut others, dice);
                    others.truncate(senders);
                    others.sort_unstable();
                }
                others.into_iter().map(|from| [from, to]).collect()
            }
            Kind::Stride => {
                section.require("stride", "1");
                let stride = stride?;
                if stride % n == 0 {
                    let message = format!("of {n} hosts each would send to itself");
                    let help = "take a stride that is no multiple of that";
                    return refuse(section.near("stride"), &message, help);
                }
                to_others(stride % n)
            }
            Kind::BitComplement => {
                let pairs = (0..n).map(|i| [hosts[i], hosts[n - 1 - i]]);
                pairs.filter(|[from, to]| from != to).collect()
            }
            Kind::Tornado => {
                let help = "use it in a file that has [generate] a ring, torus or butterfly, each \
                            node with equally many hosts, and no \"hosts\" here";
                match self.known.grid {
                    Some(grid) if !section.has("hosts") => match tornado(grid) {
                        pairs if pairs.is_empty() => {
                            let message = "with 2 nodes along each side a tornado does not blow";
                            return refuse(kind.span.clone(), message, help);
                        }
                        pairs => pairs,
                    },
                    _ => {
                        let message = "\"tornado\" goes by the coordinates of generated nodes";
                        return refuse(kind.span.clone(), message, help);
                    }
                }
            }
        })
    }

    /// Enters the flows, each beginning within `jitter` of the start.
    fn add(
        &mut self,
        section: &Section<'_>,
        name: &At<&str>,
        pairs: &[[usize; 2]],
        model: &Flow,
        jitter: Duration,
        dice: &mut Dice,
    ) {
        let first = self.topology.traffic.len();
        let problems = section.problems();
        if first + pairs.len() > FLOWS_MAX {
            let message =
                format!("with these {} there are more than {FLOWS_MAX} flows", pairs.len());
            return problems.add(section.span(), message, "make less of them");
        }
        // The longest of their names.
        if let Err(e) = check_name("flow", &format!("{}-{}", name.value, pairs.len())) {
            return problems.add(name.span.clone(), e.message, e.help);
        }
        // A minute of nanoseconds and one.
        let within = jitter.as_nanos() as usize + 1;
        for (i, ends) in pairs.iter().enumerate() {
            let flow_name = format!("{}-{}", name.value, i + 1);
            if self.names.insert(flow_name.clone(), first + i).is_some() {
                let message = format!("there are two flows {}", quote(&flow_name));
                return problems.add(name.span.clone(), message, "give the pattern another name");
            }
            let target = match model.proto {
                Proto::Named => Some((Target::Host(ends[1]), model.to_address)),
                _ => host_target(section, name.span.clone(), self.topology, *ends),
            };
            let Some((to, to_address)) = target else { return };
            let start = model.start + Duration::from_nanos(dice.below(within) as u64);
            // As far as a file can say it.
            let start = start.min(Duration::from_nanos(u64::MAX));
            let from = ends[0];
            let flow = Flow { name: flow_name, from, to, to_address, start, ..model.clone() };
            let span = name.span.clone();
            if !self.known.reach.check_flow(section, span, self.topology, &flow) {
                return;
            }
            self.topology.traffic.push(flow);
        }
    }
}

/// FNV-1a: equal on every machine.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Fisher and Yates.
fn shuffle(items: &mut [usize], dice: &mut Dice) {
    for i in (1..items.len()).rev() {
        items.swap(i, dice.below(i + 1));
    }
}

/// A permutation without fixed points, each as likely: of all, one in e has none. `n` is above 1.
fn derangement(n: usize, dice: &mut Dice) -> Vec<usize> {
    let mut to: Vec<usize> = (0..n).collect();
    loop {
        shuffle(&mut to, dice);
        if to.iter().enumerate().all(|(from, to)| from != *to) {
            return to;
        }
    }
}

/// Each host of a grid to the one at the same place of the node almost half way around.
fn tornado(grid: &Grid) -> Vec<[usize; 2]> {
    let nodes: usize = grid.sides.iter().product();
    let target = |node: usize| {
        let (mut stride, mut target) = (1, 0);
        for side in grid.sides.iter().rev() {
            let at = node / stride % side;
            target += (at + side.div_ceil(2) - 1) % side * stride;
            stride *= side;
        }
        target
    };
    let hosts = (0..nodes).flat_map(|node| (0..grid.hosts_per_node).map(move |i| (node, i)));
    let host = |node: usize, i: usize| node * grid.hosts_per_node + i;
    let pairs = hosts.map(|(node, i)| [host(node, i), host(target(node), i)]);
    pairs.filter(|[from, to]| from != to).collect()
}

#[cfg(test)]
mod tests;
