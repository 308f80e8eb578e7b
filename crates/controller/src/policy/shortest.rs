//! One shortest path, always the same: at each node the lowest port that leads closer. All flows
//! between two nodes share it, lanes beside it stay empty.

use super::{Ask, Policy, RouteSet};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shortest;

impl Policy for Shortest {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        let mut hops = Vec::with_capacity(usize::from(ask.distance[ask.from as usize]) + 1);
        let mut node = ask.from;
        while ask.distance[node as usize] > 0 {
            let Some(edge) = ask.closer(node).next() else { return RouteSet::default() };
            hops.push(edge.port);
            node = edge.to;
        }
        hops.push(ask.port);
        RouteSet::from_hops([&hops[..]])
    }
}
