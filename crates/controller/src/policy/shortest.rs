//! One shortest path, deterministic: at each node the lowest port that leads closer. All flows
//! between two nodes share it; parallel lanes stay unused.

use super::{Ask, Policy, RouteSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Shortest {
    hops: Vec<u8>,
}

impl Policy for Shortest {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        self.hops.clear();
        let mut node = ask.from;
        for next in (0..ask.distance[ask.from as usize]).rev() {
            let mut edges = ask.topology.edges(node).iter();
            let Some(edge) = edges.find(|e| ask.distance[e.to as usize] == next) else {
                return RouteSet::default();
            };
            self.hops.push(edge.port);
            node = edge.to;
        }
        self.hops.push(ask.port);
        RouteSet::from_hops([&self.hops[..]])
    }
}
