//! Whether a topology is non-blocking, and how that was found.

use plexus_config::units::format_rate;
use plexus_topo::Topology;
use serde::Serialize;

use crate::{Answer, CounterExample, NarrowCut, NonBlocking, Online};

/// Flows of a counter-example that are printed for people.
const FLOWS_SHOWN: usize = 24;
/// The question. A proof proves no more than this.
const QUESTION: &str = "rearrangeably non-blocking";

/// A check, as `plexus topo check --json` prints it.
#[derive(Serialize)]
pub struct NonBlockingFacts {
    /// `proven`, `no counter-example` or `blocking`.
    non_blocking: &'static str,
    why: Option<String>,
    hosts: usize,
    line_rate_bits_per_s: Option<u64>,
    /// Permutations that were routed.
    permutations: usize,
    /// Of these: flows fit when split, and no whole-flow routes were found.
    undecided: usize,
    counter_example: Option<Example>,
    hashing: Online,
    greedy: Online,
}

#[derive(Serialize)]
struct Example {
    found_as: String,
    /// Sender and receiver.
    flows: Vec<[String; 2]>,
    /// Some cable carries at least this much of its rate, however flows are split; `null` where
    /// there is no path.
    utilisation_min: Option<f64>,
    cut: Option<NarrowCut>,
}

impl NonBlockingFacts {
    /// Of a check of this topology.
    pub fn new(topology: &Topology, found: &NonBlocking) -> NonBlockingFacts {
        let name = |host: usize| topology.hosts[host].name.clone();
        let example = |e: &CounterExample| Example {
            found_as: e.found_as.clone(),
            flows: e.flows.iter().map(|(from, to)| [name(*from), name(*to)]).collect(),
            utilisation_min: Some(e.utilisation_min).filter(|u| u.is_finite()),
            cut: e.cut.clone(),
        };
        let (non_blocking, why, counter_example) = match &found.answer {
            Answer::Proven(why) => ("proven", Some(why.clone()), None),
            Answer::NoCounterExample => ("no counter-example", None, None),
            Answer::Blocking(e) => ("blocking", Some(e.why.clone()), Some(example(e))),
        };
        NonBlockingFacts {
            non_blocking,
            why,
            hosts: found.hosts,
            line_rate_bits_per_s: found.line_rate_bits_per_s,
            permutations: found.permutations,
            undecided: found.undecided,
            counter_example,
            hashing: found.hashing,
            greedy: found.greedy,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let tried = self.permutations;
        let mut out = match &self.why {
            Some(why) => format!("{QUESTION}: {}: {why}\n", self.non_blocking),
            None => format!("{QUESTION}: {} in {tried} permutations\n", self.non_blocking),
        };
        if self.undecided > 0 {
            out.push_str(&format!(
                "{} of them fit when flows are split; for whole flows no routes were found\n",
                self.undecided
            ));
        }
        if let Some(rate) = self.line_rate_bits_per_s {
            out.push_str(&format!("line rate {}\n", format_rate(rate)));
        }
        if let Some(example) = &self.counter_example {
            out.push_str(&example.text());
        }
        if tried > 0 {
            let line = |what: &str, found: &Online| {
                let Online { blocked, worst_utilisation } = found;
                format!(
                    "{what} overloads a cable in {blocked} of {tried} permutations, at worst to \
                     {worst_utilisation:.2} of its rate\n"
                )
            };
            out.push_str(&line("per-flow hashing", &self.hashing));
            out.push_str(&line("greedy routing, flow by flow,", &self.greedy));
        }
        out
    }
}

impl Example {
    fn text(&self) -> String {
        let mut out = String::new();
        if let Some(cut) = &self.cut {
            out.push_str(&format!(
                "the cut: {} hosts at {} ({} of their line rates cross, {} fit)\n",
                cut.hosts,
                shortened(&cut.devices),
                cut.demand,
                cut.capacity
            ));
        }
        let flows: Vec<String> = self.flows.iter().map(|[a, b]| format!("{a}->{b}")).collect();
        out.push_str(&format!("the permutation ({}): {}\n", self.found_as, shortened(&flows)));
        out
    }
}

/// The first of a list, and how many more there are.
fn shortened(items: &[String]) -> String {
    let shown = items.iter().take(FLOWS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    match items.len().saturating_sub(FLOWS_SHOWN) {
        0 => shown,
        more => format!("{shown} … and {more} more (--json shows all)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_aloud() {
        let items: Vec<String> = (0..30).map(|i| i.to_string()).collect();
        assert!(shortened(&items).ends_with("23 … and 6 more (--json shows all)"));
        assert_eq!(shortened(&items[..2]), "0 1");
    }
}
