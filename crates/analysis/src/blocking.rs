//! Whether a network is *rearrangeably non-blocking* at its hosts' line rates: whether for every
//! permutation (each host sends to one other at its line rate, each receives from one) there are
//! routes that no cable is too slow for, every flow being whole, if all may be chosen together.
//!
//! Per-flow hashing and routing flow by flow may still block in such a network; both are measured.
//! A proof comes from the network's structure (Clos, flattened butterfly), or from trying every
//! permutation of a small one; a counter-example from a cut that is too narrow, from the linear
//! program, or from trying all ways. Otherwise hard and random permutations are tried.

mod cuts;
mod exhaustive;
mod fabric;
mod patterns;
mod route;
mod structure;

use std::fmt;

use plexus_topo::{Topology, UNREACHABLE};
use serde::Serialize;

use crate::loads::net::Commodities;
use crate::loads::{lp, spread, trees};
use cuts::{Across, Cut, narrowest, swap_across};
use exhaustive::{Exhausted, exhaust};
use fabric::Fabric;
use route::Fit;

/// Permutations that are tried, unless the network is so large that fewer are.
pub const PERMUTATIONS: usize = 200;
/// Fewest that are tried in a large network.
const PERMUTATIONS_MIN: usize = 12;
/// Hosts times vertices looked at for all permutations, about.
const WORK: usize = 5_000_000;
/// Steps of the search through all ways for one permutation.
const STEPS: usize = 2_000_000;
/// The program's answers are this exact.
const CLOSE: f64 = 1e-6;

/// What is known about a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NonBlocking {
    /// The answer.
    pub answer: Answer,
    /// Hosts with a cable.
    pub hosts: usize,
    /// Line rate of the fastest host in bits/s; `None` where links have no rates.
    pub line_rate_bits_per_s: Option<u64>,
    /// Permutations that were routed in any way.
    pub permutations: usize,
    /// Of these, how many have routes when flows are split, and none for whole flows was found.
    pub undecided: usize,
    /// Per-flow hashing over equal-cost cables, on the same permutations.
    pub hashing: Online,
    /// Each flow in turn on the path where least is, on the same permutations.
    pub greedy: Online,
}

/// The answer to the question whether a network is non-blocking.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It is, for this reason.
    Proven(String),
    /// None of the permutations tried blocks, which proves nothing.
    NoCounterExample,
    /// It is not.
    Blocking(CounterExample),
}

/// A permutation that blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterExample {
    /// How it was found.
    pub found_as: String,
    /// Sender and receiver, indices into [`Topology::hosts`]; who is not among the senders is
    /// silent.
    pub flows: Vec<(usize, usize)>,
    /// Why it blocks, in words.
    pub why: String,
    /// Some cable must carry at least this much of its rate, however flows are split; infinite
    /// where there is no path, below 1 where only whole flows block.
    pub utilisation_min: f64,
    /// The cut that proves it, if one does.
    pub cut: Option<NarrowCut>,
}

/// A cut over which more is sent than it carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NarrowCut {
    /// Names of the nodes and bridges on the sending side, and of hosts with several cables.
    pub devices: Vec<String>,
    /// Hosts on that side.
    pub hosts: usize,
    /// What crosses, in units of the fastest host's line rate.
    pub demand: f64,
    /// What the cut carries, in the same unit.
    pub capacity: f64,
}

/// How a way to choose routes that does not see all flows fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Online {
    /// Permutations in which some cable is overloaded.
    pub blocked: usize,
    /// The greatest load of a cable over its rate, in the worst permutation.
    pub worst_utilisation: f64,
}

impl Online {
    fn count(&mut self, fullest: f64) {
        self.blocked += usize::from(fullest > 1.0 + fabric::ROUNDING);
        self.worst_utilisation = self.worst_utilisation.max(fullest);
    }
}

/// Why a network cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// This host's link has no rate (or none above 0), while others have.
    NoRate(String),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckError::NoRate(host) = self;
        write!(
            f,
            "the link of host {host} has no rate, but others have: give every host's link a rate, \
             or no link"
        )
    }
}

impl std::error::Error for CheckError {}

/// Finds out whether a network is rearrangeably non-blocking. Where no link has a rate, every cable
/// carries what one host sends. The same input gives the same answer.
///
/// # Errors
/// Where some links have rates and a host's has none.
pub fn non_blocking(topology: &Topology, seed: u64) -> Result<NonBlocking, CheckError> {
    let fabric = Fabric::new(topology)?;
    let rates = fabric.net.cables.iter().filter_map(|c| {
        let host = |v: u32| !fabric.net.forwards[v as usize];
        c.rate.filter(|_| host(c.from) || host(c.to))
    });
    let mut found = NonBlocking {
        answer: Answer::NoCounterExample,
        hosts: fabric.hosts.len(),
        line_rate_bits_per_s: rates.max(),
        permutations: 0,
        undecided: 0,
        hashing: Online::default(),
        greedy: Online::default(),
    };
    if fabric.hosts.len() < 2 {
        found.answer = Answer::Proven("there are fewer than two hosts".to_string());
        return Ok(found);
    }
    let check = Check { topology, fabric: &fabric, seed };
    if let Some(apart) = check.apart() {
        found.answer = Answer::Blocking(apart);
        return Ok(found);
    }
    let cut = narrowest(&fabric, &Across::Worst, seed);
    let decided = check.decided(cut.as_ref());
    let open = decided.is_none();
    found.answer = decided.unwrap_or(Answer::NoCounterExample);
    check.sample(cut.as_ref(), open, &mut found);
    Ok(found)
}

struct Check<'a> {
    topology: &'a Topology,
    fabric: &'a Fabric,
    seed: u64,
}

impl Check<'_> {
    /// Two hosts without a path.
    fn apart(&self) -> Option<CounterExample> {
        let fabric = self.fabric;
        // A host with several cables may be in more than one component, and connects none.
        let forwards = |h: &usize| fabric.net.forwards[fabric.at[*h]];
        let first = (0..fabric.hosts.len()).find(forwards).unwrap_or(0);
        let hops = fabric.net.hops_to(fabric.at[first], &mut Vec::new());
        let other = (0..fabric.hosts.len()).find(|h| hops[fabric.at[*h]] == UNREACHABLE)?;
        let mut to: Vec<usize> = (0..fabric.hosts.len()).collect();
        to.swap(first, other);
        let side = hops.iter().map(|h| *h != UNREACHABLE).collect();
        let demand = fabric.rate[first].min(fabric.rate[other]);
        let cut = Cut { side, demand, capacity: 0.0 };
        let why = "there is no path between two hosts".to_string();
        Some(self.counter_example("two parts", &to, why, f64::INFINITY, Some(&cut)))
    }

    /// What structure, the narrowest cut or trying everything says.
    fn decided(&self, cut: Option<&Cut>) -> Option<Answer> {
        if let Some(cut) = cut.filter(|cut| cut.is_too_narrow()) {
            let to = swap_across(self.fabric, cut);
            let why = format!(
                "hosts send {} line rates over a cut that carries {}",
                rounded(cut.demand),
                rounded(cut.capacity)
            );
            let least = cut.demand / cut.capacity;
            let example = self.counter_example("narrow cut", &to, why, least, Some(cut));
            return Some(Answer::Blocking(example));
        }
        if let Some(why) = structure::proof(self.fabric) {
            return Some(Answer::Proven(why));
        }
        match exhaust(self.fabric) {
            Exhausted::Proven(why) => Some(Answer::Proven(why)),
            Exhausted::Blocking(to) => {
                Some(Answer::Blocking(self.explain("all permutations", &to)))
            }
            Exhausted::Open => None,
        }
    }

    /// A counter-example for whole flows, with what is known of split ones.
    fn explain(&self, found_as: &str, to: &[usize]) -> CounterExample {
        let least = self.least_utilisation(to);
        if least.0 > 1.0 + CLOSE {
            return self.splitting_does_not_help(found_as, to, least.0);
        }
        let why = "no choice of whole-flow routes fits: all were tried".to_string();
        self.counter_example(found_as, to, why, least.0, None)
    }

    fn splitting_does_not_help(&self, found_as: &str, to: &[usize], least: f64) -> CounterExample {
        let cut = narrowest(self.fabric, &Across::Of(to), self.seed);
        let cut = cut.filter(Cut::is_too_narrow);
        let why = match &cut {
            Some(cut) => format!(
                "hosts send {} line rates over a cut that carries {}",
                rounded(cut.demand),
                rounded(cut.capacity)
            ),
            None => format!(
                "by the linear program's prices, some cable carries at least {} times its rate, \
                 however flows are split",
                rounded(least)
            ),
        };
        self.counter_example(found_as, to, why, least, cut.as_ref())
    }

    /// Lower bound and achieved value of the least maximum utilisation, flows being split.
    fn least_utilisation(&self, to: &[usize]) -> (f64, f64) {
        let (net, width) = (&self.fabric.net, &self.fabric.width);
        let commodities: Commodities = net.core(&self.fabric.demands(to)).commodities;
        let simple = trees::simple_bounds(net, &commodities, width);
        let program = (lp::variables(net, &commodities) <= lp::VARIABLES_MAX)
            .then(|| lp::all_ways(net, &commodities, width))
            .flatten();
        let spread = program.unwrap_or_else(|| spread::over_trees(net, &commodities, width));
        (spread.bound.max(simple), spread::max_utilisation(&spread.loads, width))
    }

    /// Tries permutations: by all ways while the question is open, by online ways in any case.
    fn sample(&self, cut: Option<&Cut>, mut open: bool, found: &mut NonBlocking) {
        let fabric = self.fabric;
        let work = fabric.hosts.len() * fabric.core().len();
        let count = (WORK / work.max(1)).clamp(PERMUTATIONS_MIN, PERMUTATIONS);
        let patterns = patterns::patterns(fabric, cut, count, self.seed);
        for (i, pattern) in patterns.iter().enumerate() {
            let core = fabric.net.core(&fabric.demands(&pattern.to));
            found.permutations += 1;
            let seed = self.seed.wrapping_add(i as u64);
            found.greedy.count(route::greedy(fabric, &core.flows, seed));
            found.hashing.count(route::hashed(fabric, &core.flows, seed));
            if !open || route::rearranged(fabric, &core.flows, &fabric.capacity).is_some() {
                continue;
            }
            let (least, reached) = self.least_utilisation(&pattern.to);
            let blocking = if least > 1.0 + CLOSE {
                Some(self.splitting_does_not_help(&pattern.name, &pattern.to, least))
            } else if fabric.even()
                && reached <= 1.0 + CLOSE
                && route::exact(fabric, &core.flows, &fabric.circuits, STEPS) == Fit::No
            {
                let why = "no choice of whole-flow routes fits: all were tried".to_string();
                Some(self.counter_example(&pattern.name, &pattern.to, why, least, None))
            } else {
                found.undecided += 1;
                None
            };
            if let Some(example) = blocking {
                found.answer = Answer::Blocking(example);
                open = false;
            }
        }
    }

    fn counter_example(
        &self,
        found_as: &str,
        to: &[usize],
        why: String,
        utilisation_min: f64,
        cut: Option<&Cut>,
    ) -> CounterExample {
        let fabric = self.fabric;
        let flows = to.iter().enumerate().filter(|(from, to)| from != *to);
        let flows = flows.map(|(from, to)| (fabric.hosts[from], fabric.hosts[*to])).collect();
        let graph = plexus_topo::Graph::new(self.topology);
        let cut = cut.map(|cut| {
            let mut devices = fabric.core();
            devices.retain(|v| cut.side[*v]);
            NarrowCut {
                hosts: fabric.at.iter().filter(|v| cut.side[**v]).count(),
                devices: devices
                    .into_iter()
                    .map(|v| self.topology.device_name(graph.device(v)).to_string())
                    .collect(),
                demand: cut.demand,
                capacity: cut.capacity,
            }
        });
        CounterExample { found_as: found_as.to_string(), flows, why, utilisation_min, cut }
    }
}

/// A number for people: three digits behind the point, if any.
fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests;
