//! What a topology is worth, and what traffic makes of it; drawings, and other programs' graphs.
//!
//! [`Analysis`] measures distances, diversity of paths, bisection and cost. [`loads()`] lays
//! demands on the cables by a routing, and [`non_blocking`] decides whether every permutation of
//! the hosts fits. [`exchange`] imports and exports graphs; [`facts`] puts all of it into words.
//! `plexus topo`, experiments and benches call it; no daemon does.

mod analysis;
mod blocking;
pub mod exchange;
pub mod facts;
#[cfg(test)]
mod fixture;
mod loads;

pub use analysis::{
    Analysis, Bisection, Certainty, ClosCost, Cost, Diversity, Hops, folded_clos, node_hops,
    unfolded_clos,
};
pub use blocking::{
    Answer, CheckError, CounterExample, NarrowCut, NonBlocking, Online, PERMUTATIONS, non_blocking,
};
pub use loads::{
    BoundBy, CableLoad, Demand, Loads, LoadsError, PATHS_PER_PAIR, Routing, cable_loads, loads,
    read_demands,
};
