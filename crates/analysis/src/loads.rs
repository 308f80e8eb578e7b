//! How much traffic each cable carries when demands are laid on a topology by a routing, and how
//! far that is from the best that any routing could do.
//!
//! Shortest means fewest links. Amounts have any unit; where links have rates they are compared
//! with them, so they should be bits/s. A link of several lanes gives a row for each direction of
//! each lane.
//!
//! ```
//! # use plexus_analysis::{Demand, Routing, loads};
//! # use plexus_topo::{Options, Shape, generate};
//! let ring = generate(&Shape::Ring { nodes: 4 }, Options::default())?;
//! let demands = [Demand { from: 4, to: 6, amount: 2.0 }]; // from h1 to h3: vertices of `Graph`
//! let found = loads(&ring, &demands, Routing::Ecmp)?;
//! assert_eq!(found.cables.iter().filter(|c| c.load == 1.0).count(), 4);
//! assert_eq!((found.max, found.unrouted), (2.0, 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod demands;
pub(crate) mod hops;
pub(crate) mod lp;
pub(crate) mod net;
mod paths;
mod shares;
pub(crate) mod spain;
pub(crate) mod spread;
pub(crate) mod trees;

use std::fmt;

use plexus_topo::Topology;

pub use demands::read_demands;

use net::{Core, Net};

/// Paths per pair of the routing `ksp-lp`.
pub const PATHS_PER_PAIR: usize = 8;

/// Traffic from one vertex of [`plexus_topo::Graph`] to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// How much: finite, not negative; bits/s where links have rates.
    pub amount: f64,
}

/// How demands find their ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One shortest path per pair, always the same: at each vertex the first neighbour (in the
    /// file's order) that is closer, and of several cables to it the first.
    Shortest,
    /// Equal shares over all cables that lead closer, at every vertex anew.
    Ecmp,
    /// Each demand in turn the one path of least weight, where load weighs (seed `axon` §5.5).
    Spain,
    /// The [`PATHS_PER_PAIR`] shortest loopless paths of a pair, in the shares that make the
    /// maximum least.
    KspLp,
    /// Valiant's: by way of every node in equal parts, whatever the demands are.
    Oblivious,
    /// The least maximum of all of these and of the optimum over all ways, as far as it is found.
    Best,
}

impl Routing {
    /// All of them.
    pub const ALL: [Routing; 6] = [
        Routing::Shortest,
        Routing::Ecmp,
        Routing::Spain,
        Routing::KspLp,
        Routing::Oblivious,
        Routing::Best,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Routing::Shortest => "shortest",
            Routing::Ecmp => "ecmp",
            Routing::Spain => "spain",
            Routing::KspLp => "ksp-lp",
            Routing::Oblivious => "oblivious",
            Routing::Best => "best",
        }
    }
}

/// What one direction of one cable carries.
#[derive(Clone, Debug, PartialEq)]
pub struct CableLoad {
    /// Index into [`Topology::links`].
    pub link: usize,
    /// Index into [`plexus_topo::Link::cables`].
    pub lane: usize,
    /// From the cable's second end to its first, or the other way.
    pub reversed: bool,
    /// Sum of what the demands send over it.
    pub load: f64,
    /// Load over rate; `None` for a cable without a rate.
    pub utilisation: Option<f64>,
}

/// How well a bound was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundBy {
    /// The linear program over all ways was solved: the bound is the optimum but for rounding.
    Lp,
    /// Lengths from rounds of spreading, the mean, or what must enter or leave a vertex: the
    /// optimum may be greater.
    Lengths,
}

/// The answer of [`loads`].
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    /// Every direction of every cable, in the order of the file, first to second end first.
    pub cables: Vec<CableLoad>,
    /// Greatest load of a cable.
    pub max: f64,
    /// Mean over all of `cables`.
    pub mean: f64,
    /// No routing whatever has a smaller `max`.
    pub lower_bound: f64,
    /// How the lower bound was found.
    pub bound_by: BoundBy,
    /// Sum of the amounts that have no path.
    pub unrouted: f64,
    /// Greatest load over rate; `None` where no link has a rate.
    pub max_utilisation: Option<f64>,
    /// No routing has a smaller `max_utilisation`.
    pub utilisation_bound: Option<f64>,
    /// The routing, for [`Routing::Best`] that which was best.
    pub routing: &'static str,
}

/// Why demands cannot be laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadsError {
    /// The demand with this index has an amount that is negative or not finite.
    Amount(usize),
    /// The demand with this index names a vertex that is not there, or the same twice.
    Vertex(usize),
    /// The amounts' sum is beyond what a 64-bit float holds.
    Total,
}

impl fmt::Display for LoadsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadsError::Amount(i) => {
                write!(f, "demand {i}: the amount must be a number that is not negative")
            }
            LoadsError::Vertex(i) => write!(f, "demand {i}: needs two different devices"),
            LoadsError::Total => write!(f, "the sum of the demands is too large: scale them"),
        }
    }
}

impl std::error::Error for LoadsError {}

/// Lays demands on a topology. The same input gives the same answer to the last bit.
///
/// Routings that optimise do so on utilisation where any link has a rate, links without one never
/// fill; else on load.
///
/// # Errors
/// For demands that are no such thing.
pub fn loads(
    topology: &Topology,
    demands: &[Demand],
    routing: Routing,
) -> Result<Loads, LoadsError> {
    let net = Net::new(topology);
    let problem = Problem::new(&net, demands)?;
    let (routing, loads, optimum) = problem.route(routing);
    Ok(problem.answer(routing, loads, optimum))
}

/// What every direction of every cable carries, as [`Loads::cables`] is: without the lower bound,
/// which takes longer than most routings.
///
/// # Errors
/// For demands that are no such thing.
pub fn cable_loads(
    topology: &Topology,
    demands: &[Demand],
    routing: Routing,
) -> Result<Vec<CableLoad>, LoadsError> {
    let net = Net::new(topology);
    let problem = Problem::new(&net, demands)?;
    Ok(problem.cables(&problem.route(routing).1))
}

/// What is routed, over what.
struct Problem<'a> {
    net: &'a Net,
    core: Core,
    /// Whether any cable has a rate, which are then the capacities.
    rated: bool,
    capacity: Vec<f64>,
}

/// What is known of the least maximum of the core's channels.
#[derive(Clone, Debug)]
struct Optimum {
    loads: Vec<f64>,
    bound: f64,
    by: BoundBy,
}

impl<'a> Problem<'a> {
    fn new(net: &'a Net, demands: &[Demand]) -> Result<Problem<'a>, LoadsError> {
        for (i, demand) in demands.iter().enumerate() {
            if !demand.amount.is_finite() || demand.amount < 0.0 {
                return Err(LoadsError::Amount(i));
            }
            if demand.from == demand.to || demand.from.max(demand.to) >= net.vertices() {
                return Err(LoadsError::Vertex(i));
            }
        }
        // A way has no more links than there are vertices; no sum on the way there may overflow.
        let total: f64 = demands.iter().map(|d| d.amount).sum();
        if !(total * (net.vertices() as f64 + 1.0) * 1e6).is_finite() {
            return Err(LoadsError::Total);
        }
        let rated = net.cables.iter().any(|c| c.rate.is_some());
        Ok(Problem { core: net.core(demands), rated, capacity: net.capacities(rated), net })
    }

    /// The routing, its loads on all cables, and the optimum if it was looked for.
    fn route(&self, routing: Routing) -> (&'static str, Vec<f64>, Option<Optimum>) {
        if routing != Routing::Best {
            return (routing.name(), self.lay(routing), None);
        }
        let capacity = self.net.channel_capacities(&self.capacity);
        let optimum = self.optimum(&capacity);
        let mut loads = self.core.loads.clone();
        self.net.spread(&optimum.loads, &self.capacity, &mut loads);
        let by = if optimum.by == BoundBy::Lp { "lp" } else { "spread" };
        let mut best = (by, loads);
        // On a tie the simpler routing wins.
        for routing in Routing::ALL.into_iter().rev().filter(|r| *r != Routing::Best) {
            let loads = self.lay(routing);
            if self.max(&loads) <= self.max(&best.1) {
                best = (routing.name(), loads);
            }
        }
        (best.0, best.1, Some(optimum))
    }

    fn max(&self, loads: &[f64]) -> f64 {
        spread::max_utilisation(loads, &self.capacity)
    }

    fn lay(&self, routing: Routing) -> Vec<f64> {
        let (net, commodities) = (self.net, &self.core.commodities);
        let mut loads = self.core.loads.clone();
        match routing {
            Routing::Shortest => hops::shortest(net, commodities, &mut loads),
            Routing::Ecmp => hops::ecmp(net, commodities, &mut loads),
            Routing::Oblivious => hops::valiant(net, commodities, &mut loads),
            Routing::Spain => {
                spain::spain(net, &self.core.flows, &self.capacity, &mut loads, |_: &[usize]| {});
            }
            Routing::KspLp => {
                let channels = self.over_shortest_paths();
                net.spread(&channels, &self.capacity, &mut loads);
            }
            // Composed of the others in `route`.
            Routing::Best => {}
        }
        loads
    }

    /// Loads of channels: the best shares over the shortest paths of each pair.
    fn over_shortest_paths(&self) -> Vec<f64> {
        let capacity = self.net.channel_capacities(&self.capacity);
        let mut search = paths::Paths::new(self.net);
        let pairs = self.core.commodities.iter().flat_map(|(to, sources)| {
            sources.iter().map(move |(from, amount)| (*from, *to, *amount))
        });
        let pairs: Vec<(f64, Vec<Vec<u32>>)> = pairs
            .map(|(from, to, amount)| (amount, search.shortest(from, to, PATHS_PER_PAIR)))
            .collect();
        if pairs.iter().map(|p| p.1.len()).sum::<usize>() <= lp::VARIABLES_MAX
            && let Some(loads) = lp::given_paths(&pairs, self.net.channels.len(), &capacity)
        {
            return loads;
        }
        spread::over_paths(&pairs, &capacity).loads
    }

    /// The least maximum utilisation of the core over all ways, given the channels' capacities.
    fn optimum(&self, capacity: &[f64]) -> Optimum {
        let commodities = &self.core.commodities;
        let simple = trees::simple_bounds(self.net, commodities, capacity);
        let mut found = None;
        if lp::variables(self.net, commodities) <= lp::VARIABLES_MAX {
            found = lp::all_ways(self.net, commodities, capacity).map(|s| (s, BoundBy::Lp));
        }
        let (spread, by) = found.unwrap_or_else(|| {
            (spread::over_trees(self.net, commodities, capacity), BoundBy::Lengths)
        });
        Optimum { loads: spread.loads, bound: spread.bound.max(simple), by }
    }

    /// The loads in the order of the file.
    fn cables(&self, loads: &[f64]) -> Vec<CableLoad> {
        let row = |(i, cable): (usize, &net::Cable)| CableLoad {
            link: cable.link as usize,
            lane: cable.lane as usize,
            reversed: cable.reversed,
            load: loads[i],
            utilisation: cable.rate.map(|rate| loads[i] / rate as f64),
        };
        let mut cables: Vec<CableLoad> = self.net.cables.iter().enumerate().map(row).collect();
        cables.sort_by_key(|c| (c.link, c.lane, c.reversed));
        cables
    }

    fn answer(&self, routing: &'static str, loads: Vec<f64>, optimum: Option<Optimum>) -> Loads {
        let net = self.net;
        let used = |i: &usize| self.core.loads[*i] > 0.0;
        let access = |capacity: &[f64]| {
            let loaded = (0..net.cables.len()).filter(used);
            loaded.map(|i| self.core.loads[i] / capacity[i]).fold(0.0, f64::max)
        };
        let ones = net.capacities(false);
        let weighed =
            optimum.unwrap_or_else(|| self.optimum(&net.channel_capacities(&self.capacity)));
        let max = spread::max_utilisation(&loads, &ones);
        let max_utilisation = self.rated.then(|| self.max(&loads));
        let utilisation_bound =
            max_utilisation.map(|max| weighed.bound.max(access(&self.capacity)).min(max));
        // Where all cables of the core have one rate, one program answers both questions.
        let mut rates = net.cables.iter().enumerate().filter(|(_, c)| {
            net.forwards[c.from as usize] && net.forwards[c.to as usize]
                || net.access(c.from as usize).is_none() && net.access(c.to as usize).is_none()
        });
        let first = rates.next().map_or(0, |(i, _)| i);
        let rate = self.capacity.get(first).copied().unwrap_or(1.0);
        let even = rate.is_finite() && rates.all(|(i, _)| self.capacity[i] == rate);
        let plain = match even {
            true => Optimum { bound: weighed.bound * rate, ..weighed },
            false => self.optimum(&net.channel_capacities(&ones)),
        };
        let cables = self.cables(&loads);
        let mean = cables.iter().map(|c| c.load / cables.len() as f64).sum();
        Loads {
            cables,
            max,
            mean,
            // Rounding may have put a load a hair below the bound of its own optimum.
            lower_bound: plain.bound.max(access(&ones)).min(max),
            bound_by: plain.by,
            unrouted: self.core.unrouted,
            max_utilisation,
            utilisation_bound,
            routing,
        }
    }
}

#[cfg(test)]
mod tests;
