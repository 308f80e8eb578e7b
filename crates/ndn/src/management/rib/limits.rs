//! Limits of a RIB.

use crate::fib::{FibError, SETS_MAX};
use crate::names::COMPONENTS_MAX;

/// Limits on routes; next hops set directly count as routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibLimits {
    /// In total.
    pub routes: usize,
    /// Per face.
    pub per_face: usize,
    /// Per prefix; for neighbours half as many.
    pub per_prefix: usize,
    /// For all neighbours together; each may have as many as are still free of these.
    pub neighbours: usize,
    /// Different sets of next hops that neighbours' routes create, together.
    pub neighbours_sets: usize,
    /// Most prefixes processed in one turn; the rest of a larger change, or of a list, follows in
    /// later turns.
    pub turn: usize,
}

impl RibLimits {
    /// For a FIB of this many prefixes: one face may serve all of them, and each may have two
    /// routes. Half is for neighbours.
    pub fn of_prefixes(prefixes: usize) -> RibLimits {
        RibLimits {
            routes: prefixes.saturating_mul(2),
            per_face: prefixes,
            per_prefix: 256,
            neighbours: prefixes / 2,
            neighbours_sets: SETS_MAX / 2,
            turn: 512,
        }
    }
}

impl Default for RibLimits {
    fn default() -> RibLimits {
        RibLimits::of_prefixes(1 << 20)
    }
}

/// Why a route was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RibError {
    /// The prefix is too long.
    #[error("Route prefix cannot exceed {COMPONENTS_MAX} components")]
    TooLong,
    /// The limit in total is reached.
    #[error("there are {0} routes in all, two for each of prefixes_max: raise it in the file")]
    Routes(usize),
    /// The face has reached its limit.
    #[error("this face has {0} routes, as many as prefixes_max in the file: raise it")]
    Face(usize),
    /// The prefix has reached its limit.
    #[error("this prefix has {0} routes, as many as may be: remove one first")]
    Prefix(usize),
    /// Neighbours have reached their limit for this prefix.
    #[error(
        "neighbours have {0} routes of this prefix, the most they may have: use another prefix"
    )]
    NeighboursPrefix(usize),
    /// The neighbour has used its share; a long name counts as several routes.
    #[error(
        "this neighbour has {has} routes, and only {free} are free for neighbours, which share \
         half of prefixes_max"
    )]
    Share {
        /// What it uses.
        has: usize,
        /// What is free for all neighbours.
        free: usize,
    },
    /// Neighbours' routes have reached their limit of sets of next hops.
    #[error(
        "neighbours' routes make {0} different sets of next hops, as many as they may: use the \
         costs that others use, or none"
    )]
    NeighboursSets(usize),
    /// The FIB refused it.
    #[error(transparent)]
    Fib(#[from] FibError),
}
