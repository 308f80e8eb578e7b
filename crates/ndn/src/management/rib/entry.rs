//! What a prefix has: its routes, and what follows from them and from those of shorter prefixes.

use std::collections::BTreeMap;

use plexus_wire::Time;
use plexus_wire::ndn::nfd::route_flags;

use crate::face::FaceId;
use crate::fib::{HOPS_MAX, NextHop};
use crate::management::Claim;

/// A route of a prefix. Face and origin tell it from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub face: FaceId,
    /// Who made it: of [`origin`](plexus_wire::ndn::nfd::origin).
    pub origin: u64,
    /// What it costs.
    pub cost: u64,
    /// Of [`route_flags`].
    pub flags: u64,
    /// When it ends by itself.
    pub expires: Option<Time>,
    /// By what right it stands.
    pub claim: Claim,
}

impl Route {
    fn says(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

#[derive(Clone, Default)]
pub(super) struct Entry {
    pub(super) routes: Vec<Route>,
    /// Next hops that were set directly, and by what right.
    pub(super) direct: Vec<(NextHop, Claim)>,
    /// As published, the cheapest first.
    pub(super) hops: Vec<NextHop>,
}

/// Next hops by face, each face once.
pub(super) type ByFace = BTreeMap<FaceId, u64>;

fn cheapest(into: &mut ByFace, routes: &[Route], flag: Option<u64>) {
    for route in routes.iter().filter(|r| flag.is_none_or(|f| r.says(f))) {
        let cost = into.entry(route.face).or_insert(route.cost);
        *cost = route.cost.min(*cost);
    }
}

impl Entry {
    pub(super) fn captures(&self) -> bool {
        self.routes.iter().any(|r| r.says(route_flags::CAPTURE))
    }

    fn inherit(&self, own: &mut ByFace, inherited: &ByFace) {
        if !self.captures() {
            inherited.iter().for_each(|(face, cost)| {
                own.entry(*face).or_insert(*cost);
            });
        }
    }

    /// What it passes on to longer prefixes.
    pub(super) fn passes(&self, inherited: &ByFace) -> ByFace {
        let mut own = ByFace::new();
        cheapest(&mut own, &self.routes, Some(route_flags::CHILD_INHERIT));
        self.inherit(&mut own, inherited);
        own
    }

    /// Where it leads.
    pub(super) fn derive(&self, inherited: &ByFace) -> Vec<NextHop> {
        let mut own = ByFace::new();
        cheapest(&mut own, &self.routes, None);
        if !self.routes.is_empty() {
            self.inherit(&mut own, inherited);
        }
        own.extend(self.direct.iter().map(|(hop, _)| (hop.face, hop.cost)));
        let mut hops: Vec<_> = own.iter().map(|(&face, &cost)| NextHop { cost, face }).collect();
        hops.sort_unstable();
        hops.truncate(HOPS_MAX);
        hops
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len() + self.direct.len()
    }

    pub(super) fn leads_to(&self, face: FaceId) -> usize {
        let routes = self.routes.iter().filter(|r| r.face == face).count();
        routes + self.direct.iter().filter(|(hop, _)| hop.face == face).count()
    }
}
