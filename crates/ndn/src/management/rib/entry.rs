//! A prefix's own routes, and the next hops that follow from them and from shorter prefixes.

use std::collections::BTreeMap;

use plexus_wire::Time;
use plexus_wire::ndn::nfd::{origin, route_flags};

use super::sets::SetNumber;
use crate::face::FaceId;
use crate::fib::{HOPS_MAX, NextHop};
use crate::management::Claim;

/// A route of a prefix, identified by face and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its next hop.
    pub face: FaceId,
    /// Its origin, one of [`origin`](plexus_wire::ndn::nfd::origin).
    pub origin: u64,
    /// Its cost.
    pub cost: u64,
    /// Flags of [`route_flags`].
    pub flags: u64,
    /// When it expires.
    pub expires: Option<Time>,
    /// The claim by which it stands.
    pub claim: Claim,
}

impl Route {
    /// A static route of this node's file, which holds for longer prefixes too.
    pub fn of_file(face: FaceId, cost: u64) -> Route {
        let (origin, flags) = (origin::STATIC, route_flags::CHILD_INHERIT);
        Route { face, origin, cost, flags, expires: None, claim: Claim::OWN }
    }

    fn says(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// The record of each prefix; most prefixes share its contents with many others.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) routes: u32,
    pub(super) hops: SetNumber,
}

/// The routes and next hops set for a prefix.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Routes {
    /// All routes; those of neighbours come last.
    pub(super) all: Vec<Route>,
    /// How many are not neighbours'.
    pub(super) own: usize,
    /// Next hops that were set directly, with their claims.
    pub(super) direct: Vec<(NextHop, Claim)>,
}

/// The cost of a face, with and without neighbours' routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    cost: u64,
    own: Option<u64>,
}

/// Next hops by face, each face once.
pub(super) type Ways = BTreeMap<FaceId, Way>;

/// The derived next hops of a prefix.
pub(super) struct Led {
    /// The cheapest first.
    pub(super) hops: Vec<NextHop>,
    /// Without neighbours' routes; `None`: the same.
    pub(super) without: Option<Vec<NextHop>>,
    ways: Ways,
}

impl Led {
    /// True if these hops all go to faces to which the prefix may lead, at whatever cost.
    pub(super) fn has_all(&self, hops: &[NextHop]) -> bool {
        hops.iter().all(|hop| self.ways.contains_key(&hop.face))
    }
}

fn lesser(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

impl Routes {
    pub(super) fn position(&self, face: FaceId, origin: u64) -> Option<usize> {
        self.all.iter().position(|r| (r.face, r.origin) == (face, origin))
    }

    /// Adds a route, replacing the one with the same face and origin. A route of the node itself
    /// stays its own, whoever changes it.
    pub(super) fn put(&mut self, mut route: Route, is_neighbours: bool) {
        let old = self.position(route.face, route.origin).map(|at| self.all[at].claim);
        if old == Some(Claim::OWN) {
            route.claim = Claim::OWN;
        }
        self.retain(|r| (r.face, r.origin) != (route.face, route.origin));
        match is_neighbours {
            true => self.all.push(route),
            false => {
                self.all.insert(self.own, route);
                self.own += 1;
            }
        }
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Route) -> bool) {
        let own = self.own;
        let mut at = 0;
        self.all.retain(|route| {
            let stays = stays(route);
            self.own -= usize::from(at < own && !stays);
            at += 1;
            stays
        });
    }

    pub(super) fn remove_face(&mut self, face: FaceId) {
        self.retain(|route| route.face != face);
        self.direct.retain(|(hop, _)| hop.face != face);
    }

    pub(super) fn of_neighbours(&self) -> &[Route] {
        &self.all[self.own..]
    }

    fn captures(&self) -> bool {
        self.all.iter().any(|r| r.says(route_flags::CAPTURE))
    }

    fn ways(&self, flag: Option<u64>) -> Ways {
        let mut ways = Ways::new();
        for (at, route) in self.all.iter().enumerate() {
            if flag.is_none_or(|flag| route.says(flag)) {
                let own = (at < self.own).then_some(route.cost);
                let way = ways.entry(route.face).or_insert(Way { cost: route.cost, own });
                way.cost = way.cost.min(route.cost);
                way.own = lesser(way.own, own);
            }
        }
        ways
    }

    fn inherit(&self, ways: &mut Ways, inherited: &Ways) {
        if !self.captures() {
            for (face, above) in inherited {
                let way = ways.entry(*face).or_insert(*above);
                way.own = way.own.or(above.own);
            }
        }
    }

    /// The next hops that longer prefixes inherit.
    pub(super) fn passes(&self, inherited: &Ways) -> Ways {
        let mut ways = self.ways(Some(route_flags::CHILD_INHERIT));
        self.inherit(&mut ways, inherited);
        ways
    }

    /// The next hops of the prefix.
    pub(super) fn lead(&self, inherited: &Ways) -> Led {
        let mut ways = self.ways(None);
        if !self.all.is_empty() {
            self.inherit(&mut ways, inherited);
        }
        let direct = self.direct.iter();
        ways.extend(direct.map(|(hop, _)| (hop.face, Way { cost: hop.cost, own: Some(hop.cost) })));
        let mut hops: Vec<_> =
            ways.iter().map(|(&face, w)| NextHop { cost: w.cost, face }).collect();
        hops.sort_unstable();
        if hops.len() > HOPS_MAX {
            // Neighbours' next hops come last, so that they displace no others.
            hops.sort_by_key(|hop| ways.get(&hop.face).is_some_and(|way| way.own.is_none()));
            hops.truncate(HOPS_MAX);
            hops.sort_unstable();
        }
        let without = ways.values().any(|way| way.own != Some(way.cost)).then(|| {
            let own = ways.iter().filter_map(|(&face, w)| Some(NextHop { cost: w.own?, face }));
            let mut own: Vec<_> = own.collect();
            own.sort_unstable();
            own.truncate(HOPS_MAX);
            own
        });
        Led { hops, without, ways }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() + self.direct.len()
    }

    /// Whether both have the same faces and the same expiry.
    pub(super) fn is_found_as(&self, other: &Routes) -> bool {
        self.faces().eq(other.faces()) && self.ends().eq(other.ends())
    }

    pub(super) fn faces(&self) -> impl Iterator<Item = FaceId> {
        self.all.iter().map(|r| r.face).chain(self.direct.iter().map(|(hop, _)| hop.face))
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.all.iter().map(|r| &r.claim).chain(self.direct.iter().map(|(_, claim)| claim))
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = Time> {
        self.all.iter().filter_map(|r| r.expires)
    }
}
