//! How much a RIB may hold.

use crate::fib::{FibError, SETS_MAX};
use crate::names::COMPONENTS_MAX;

/// How many routes there may be; next hops that were set directly count as routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibLimits {
    /// In all.
    pub routes: usize,
    /// By one face.
    pub per_face: usize,
    /// Of one prefix; of neighbours half as many.
    pub per_prefix: usize,
    /// Of all neighbours together, each of whom may have as many as are still free of these.
    pub neighbours: usize,
    /// Different sets of next hops that neighbours' routes make, together.
    pub neighbours_sets: usize,
    /// Prefixes that are gone through in one turn, at most: what is left of a change that
    /// concerns more, or of a list of them, has its turn later.
    pub turn: usize,
}

impl RibLimits {
    /// For a FIB of so many prefixes: one face may lead to all, and two routes to each. Half is for
    /// neighbours.
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

/// Why a route was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RibError {
    /// The prefix is too long.
    #[error("Route prefix cannot exceed {COMPONENTS_MAX} components")]
    TooLong,
    /// There are as many as there may be.
    #[error("there are {0} routes in all, two for each of prefixes_max: raise it in the file")]
    Routes(usize),
    /// The face has as many as it may.
    #[error("this face has {0} routes, as many as prefixes_max in the file: raise it")]
    Face(usize),
    /// The prefix has as many as it may.
    #[error("this prefix has {0} routes, as many as may be: remove one first")]
    Prefix(usize),
    /// Neighbours have as many of this prefix as they may.
    #[error("neighbours have {0} routes of this prefix, as many as they may: use another prefix")]
    NeighboursPrefix(usize),
    /// The neighbour has its share; long names count for more than one route.
    #[error(
        "this neighbour has {has} routes, and no more than {free} are free for neighbours, who \
         share half of prefixes_max"
    )]
    Share {
        /// What it has.
        has: usize,
        /// What is free for all.
        free: usize,
    },
    /// Neighbours' routes make as many sets of next hops as they may.
    #[error(
        "neighbours' routes make {0} different sets of next hops, as many as they may: use the \
         costs that others use, or none"
    )]
    NeighboursSets(usize),
    /// The FIB does not take it.
    #[error(transparent)]
    Fib(#[from] FibError),
}
