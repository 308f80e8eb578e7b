//! Withdraws routes when trust changes: all at once, because the operator asked for it and none of
//! them may be used any longer.

use std::collections::HashSet;

use plexus_wire::Time;

use super::entry::Routes;
use super::{Publish, Rib, name};
use crate::management::Claim;

/// Prefixes collected before anything is removed from them.
const AT_ONCE: usize = 64;

impl Rib {
    /// Removes routes without a valid claim; returns how many. The effect on longer prefixes is
    /// propagated in turns, as always.
    pub(in super::super) fn withdraw(
        &mut self,
        stands: &impl Fn(&Claim) -> bool,
        publish: &mut Publish<'_>,
    ) -> usize {
        let falls = |routes: &Routes| routes.claims().any(|claim| !stands(claim));
        let falling = self.routes.iter().filter(|(_, routes)| falls(routes));
        let falling: HashSet<u32> = falling.map(|(number, _)| number).collect();
        if falling.is_empty() {
            return 0;
        }
        let before = self.len;
        let mut from = Some(Vec::new());
        while let Some(start) = from.take() {
            let mut fallen = Vec::new();
            self.leaves.walk(&start, |of, entry| {
                if fallen.len() == AT_ONCE {
                    from = Some(of.to_vec());
                    return false;
                }
                if falling.contains(&entry.routes) {
                    fallen.push(of.to_vec());
                }
                true
            });
            for of in fallen {
                let edit = |routes: &mut Routes| {
                    routes.retain(|route| stands(&route.claim));
                    routes.direct.retain(|(_, claim)| stands(claim));
                };
                let _ = self.edit(name(&of), edit, publish); // a removal always takes effect
            }
        }
        let withdrawn = before - self.len;
        self.go_on(Time::ZERO, publish);
        withdrawn
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plexus_wire::ndn::nfd::route_flags::{CAPTURE, CHILD_INHERIT};
    use plexus_wire::ndn::{Name, NameBuf};
    use proptest::prelude::*;

    use super::*;
    use crate::face::FaceId;
    use crate::fib::NextHop;
    use crate::management::claim::Claimants;
    use crate::management::rib::{RibLimits, Route};
    use crate::management::verify::Maker;

    type Published = BTreeMap<NameBuf, Vec<NextHop>>;

    /// Claims of the node itself and of two keys.
    fn claims() -> [Claim; 3] {
        let mut claimants = Claimants::default();
        let mut of = |key| claimants.claim(false, Maker::Key([key; 32]), None);
        [Claim::OWN, of(1), of(2)]
    }

    #[derive(Clone, Debug)]
    struct Order {
        prefix: Vec<u8>,
        route: Route,
        is_direct: bool,
        is_neighbours: bool,
    }

    impl Order {
        fn carry_out(&self, rib: &mut Rib, fib: &mut Published) {
            let prefix = self.prefix.iter().fold(NameBuf::new(), |of, c| of.with([*c]));
            let Route { face, cost, claim, .. } = self.route;
            let publish = &mut |of: Name<'_>, hops: &[NextHop]| {
                fib.insert(of.to_buf(), hops.to_vec());
                Ok(())
            };
            match (self.is_direct, self.is_neighbours) {
                (true, _) => rib.set_direct(prefix.as_name(), face, Some((cost, claim)), publish),
                (_, true) => rib.add_for_neighbour(prefix.as_name(), self.route, publish),
                _ => rib.add(prefix.as_name(), self.route, publish),
            }
            .unwrap();
        }
    }

    fn orders() -> impl Strategy<Value = Order> {
        let prefix = prop::collection::vec(0..5u8, 0..4);
        let route = (
            0..4u32,
            0..4u64,
            0..3usize,
            prop::sample::select(&[0, CHILD_INHERIT, CAPTURE, CHILD_INHERIT | CAPTURE]),
        );
        (prefix, route, prop::bool::weighted(0.2), any::<bool>()).prop_map(
            |(prefix, (face, cost, claim, flags), is_direct, is_neighbours)| {
                // Each key has routes of its own, by its origin.
                let face = FaceId::new(face + 4 * claim as u32, 0).unwrap();
                let (origin, claim) = (claim as u64, claims()[claim]);
                let route = Route { face, origin, cost, flags, expires: None, claim };
                Order { prefix, route, is_direct, is_neighbours }
            },
        )
    }

    /// The final next hops of all prefixes.
    fn settled(rib: &mut Rib, fib: &mut Published) -> Vec<(NameBuf, Vec<NextHop>)> {
        while rib.is_behind() {
            rib.turn(Time::ZERO, &mut |of, hops| {
                fib.insert(of.to_buf(), hops.to_vec());
                Ok(())
            });
        }
        fib.retain(|_, hops| !hops.is_empty());
        let hops: Vec<_> = rib.next_hops().map(|(of, hops)| (of, hops.to_vec())).collect();
        assert!(fib.iter().map(|(of, hops)| (of.clone(), hops.clone())).eq(hops.clone()));
        hops
    }

    proptest! {
        /// Afterwards the table is as if the withdrawn routes had never existed.
        #[test]
        fn withdrawn_routes_leave_no_trace(orders in prop::collection::vec(orders(), 0..200)) {
            let [_, goes, _] = claims();
            let made = |orders: &mut dyn Iterator<Item = &Order>| {
                let mut rib = Rib::new(RibLimits { turn: 16, ..RibLimits::default() });
                let mut fib = Published::new();
                orders.for_each(|order| order.carry_out(&mut rib, &mut fib));
                (rib, fib)
            };
            let (mut rib, mut fib) = made(&mut orders.iter());
            let stay = &mut orders.iter().filter(|order| order.route.claim != goes);
            let (mut expected, mut expected_fib) = made(stay);
            let publish = &mut |of: Name<'_>, hops: &[NextHop]| {
                fib.insert(of.to_buf(), hops.to_vec());
                Ok(())
            };
            let before = rib.len();
            let withdrawn = rib.withdraw(&|claim| *claim != goes, publish);
            prop_assert_eq!(withdrawn, before - expected.len());
            prop_assert_eq!(rib.len(), expected.len());
            let hops = settled(&mut rib, &mut fib);
            prop_assert_eq!(hops, settled(&mut expected, &mut expected_fib));
            prop_assert_eq!(&rib.counts, &expected.counts);
        }
    }

    /// A node that owns as many routes as the table holds stores no more claims for that.
    #[test]
    fn claims_are_held_once() {
        let (mut rib, mut fib) = (Rib::new(RibLimits::default()), Published::new());
        for at in 0..3000u16 {
            let [own, one, two] = claims();
            let claim = [own, one, two][usize::from(at % 3)];
            let face = FaceId::new(1, 0).unwrap();
            let route = Route { face, origin: 0, cost: 0, flags: 0, expires: None, claim };
            let prefix = at.to_be_bytes().to_vec();
            let order = Order { prefix, route, is_direct: false, is_neighbours: false };
            order.carry_out(&mut rib, &mut fib);
        }
        assert_eq!(rib.routes.iter().count(), 3);
        let stands = |claim: &Claim| *claim == Claim::OWN;
        assert_eq!(rib.withdraw(&stands, &mut |_, _| Ok(())), 2000);
        assert_eq!((rib.len(), rib.prefixes(), rib.routes.iter().count()), (1000, 1000, 1));
    }

    #[test]
    fn routes_of_the_node_itself_stay() {
        let (mut rib, mut fib) = (Rib::new(RibLimits::default()), Published::new());
        let face = FaceId::new(1, 0).unwrap();
        for (cost, claim) in [(1, claims()[0]), (2, claims()[1])] {
            let route = Route { face, origin: 0, cost, flags: 0, expires: None, claim };
            let order = Order { prefix: vec![1], route, is_direct: false, is_neighbours: false };
            order.carry_out(&mut rib, &mut fib);
        }
        let stands = |claim: &Claim| *claim == Claim::OWN;
        assert_eq!(rib.withdraw(&stands, &mut |_, _| Ok(())), 0);
        assert_eq!(rib.routes().next().unwrap().1[0].cost, 2);
    }
}
