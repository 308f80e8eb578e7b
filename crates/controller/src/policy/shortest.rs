//! One shortest path, always the same: at each node the lowest port that leads closer. All flows
//! between two nodes share it, lanes beside it stay empty.

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
