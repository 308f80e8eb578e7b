//! How much a RIB may hold.

use crate::fib::FibError;
use crate::names::COMPONENTS_MAX;

/// How many routes there may be; next hops that were set directly count as routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibLimits {
    /// In all.
    pub routes: usize,
    /// By one face.
    pub per_face: usize,
    /// Of one prefix.
    pub per_prefix: usize,
    /// Of all neighbours together, each of whom may have as many as are still free of these.
    pub neighbours: usize,
}

impl Default for RibLimits {
    fn default() -> RibLimits {
        RibLimits { routes: 1 << 20, per_face: 1 << 18, per_prefix: 256, neighbours: 1 << 19 }
    }
}

/// Why a route was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RibError {
    /// The prefix is too long.
    #[error("Route prefix cannot exceed {COMPONENTS_MAX} components")]
    TooLong,
    /// There are as many as there may be.
    #[error("there are {0} routes in all, by this face or of this prefix, as many as may be")]
    Full(usize),
    /// The neighbour has its share; long names count for more than one route.
    #[error("this neighbour has {has} routes, and no more than {free} are free for neighbours")]
    Share {
        /// What it has.
        has: usize,
        /// What is free for all.
        free: usize,
    },
    /// The FIB does not take it.
    #[error(transparent)]
    Fib(#[from] FibError),
}
