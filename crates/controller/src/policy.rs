//! Route policies: which of the possible routes a flow gets. Small policies behind one trait, one
//! file each.

mod ecmp;
mod shortest;
mod spain;

use plexus_config::RoutePolicy;

use crate::loads::Loads;
use crate::topology::Topology;
use crate::trees::FAR;

/// Most routes of one flow: what a node's route memory holds per destination.
pub(crate) const ROUTES_MAX: usize = 8;

/// Most bytes of a flow's routes as a message lists them, a number and a length before each route's
/// hops: two sets share one `ResolveForward`. Eight routes of up to 68 hops fit,
/// five of the longest.
pub(crate) const SET_LEN_MAX: usize = 560;

/// Routes of a flow, each the hops from the source node's output port to the destination's port.
/// One allocation: a length before each route's hops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteSet(Box<[u8]>);

impl RouteSet {
    pub(crate) fn from_hops<'a, I>(routes: I) -> RouteSet
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    {
        let fits = |hops: &&[u8]| !hops.is_empty() && hops.len() <= usize::from(FAR);
        let mut room = SET_LEN_MAX;
        let routes = routes.into_iter().filter(fits).filter(move |hops| {
            let left = room.checked_sub(2 + hops.len());
            left.is_some_and(|left| {
                room = left;
                true
            })
        });
        let mut bytes = Vec::with_capacity(routes.clone().map(|hops| 1 + hops.len()).sum());
        for hops in routes {
            bytes.push(hops.len() as u8);
            bytes.extend_from_slice(hops);
        }
        RouteSet(bytes.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (&len, behind) = rest.split_first()?;
            let (hops, behind) = behind.split_at(usize::from(len));
            rest = behind;
            Some(hops)
        })
    }

    /// Hops of the longest route.
    pub(crate) fn hops_max(&self) -> usize {
        self.iter().map(<[u8]>::len).max().unwrap_or(0)
    }

    pub(crate) fn to_hops(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}

/// The input of a policy: routes between two different nodes.
pub(crate) struct Ask<'a> {
    pub(crate) topology: &'a Topology,
    /// Each node's distance to the target node; the source's is not `FAR`.
    pub(crate) distance: &'a [u8],
    /// Routes on each directed link, for a policy that weighs them.
    pub(crate) loads: &'a Loads,
    pub(crate) from: u32,
    /// The target host's port, the last hop.
    pub(crate) port: u8,
    /// Distinguishes flows.
    pub(crate) hash: u64,
    /// Longest route that a header can carry, in hops.
    pub(crate) hops_max: usize,
}

/// Chooses routes. A policy may keep scratch memory, but no state that its choices depend on.
pub(crate) trait Policy: std::fmt::Debug + Send {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet;

    /// Whether it uses loads; counting them is a large part of the cost of a new route.
    fn weighs_load(&self) -> bool {
        false
    }
}

/// The policy that the settings name.
pub(crate) fn of(policy: RoutePolicy) -> Box<dyn Policy> {
    match policy {
        RoutePolicy::Shortest => Box::new(shortest::Shortest::default()),
        RoutePolicy::Ecmp => Box::new(ecmp::Ecmp::default()),
        RoutePolicy::Spain => Box::new(spain::Spain::default()),
    }
}

/// Mixes two numbers: the multiplication and fold of wyhash.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let m = u128::from(a ^ 0x9E37_79B9_7F4A_7C15) * u128::from(b ^ 0xE703_7ED1_A0B4_28DB);
    (m as u64) ^ ((m >> 64) as u64)
}

#[cfg(test)]
mod tests;
