//! Equal-cost multipath: up to eight of the shortest paths, lanes counted as paths. The node
//! spreads a flow's conversations over them by their hash.
//!
//! The i-th route writes i as digits, one for each node with a choice, in the base of the number
//! of its choices: eight routes or fewer are thus all found, and of more the first choices all
//! differ. Behind the digits the flow's hash decides, so that flows differ from each other.

use super::{Ask, Policy, ROUTES_MAX, RouteSet, mix};
use crate::trees::FAR;

#[derive(Clone, Debug)]
pub(super) struct Ecmp {
    /// The routes found so far, each in a row of its own.
    rows: [[u8; FAR as usize]; ROUTES_MAX],
    /// What one node has to choose from: ports and where they lead.
    choices: Vec<(u8, u32)>,
}

impl Default for Ecmp {
    fn default() -> Ecmp {
        Ecmp { rows: [[0; FAR as usize]; ROUTES_MAX], choices: Vec::new() }
    }
}

impl Policy for Ecmp {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        let len = usize::from(ask.distance[ask.from as usize]) + 1;
        let mut found = 0;
        // Routes there are if the choices multiply as they do on the way of the first one: then
        // further numbers only repeat.
        let mut ways = u64::MAX;
        for number in 0..ROUTES_MAX as u64 {
            if number >= ways {
                break;
            }
            let (mut digits, mut product) = (number, 1_u64);
            let mut node = ask.from;
            for at in 0..len - 1 {
                self.choices.clear();
                self.choices.extend(ask.closer(node).map(|edge| (edge.port, edge.to)));
                let pick = match self.choices.len() as u64 {
                    0 => return RouteSet::default(),
                    1 => 0,
                    choices => {
                        let shift = mix(ask.hash, u64::from(node));
                        let beyond = if product >= 8 { mix(shift, number) } else { shift };
                        product = product.saturating_mul(choices);
                        let digit = digits % choices;
                        digits /= choices;
                        (digit + (beyond >> 8) % choices) % choices
                    }
                };
                (self.rows[found][at], node) = self.choices[pick as usize];
            }
            self.rows[found][len - 1] = ask.port;
            if number == 0 && product == 1 {
                ways = 1;
            }
            let (before, rest) = self.rows.split_at(found);
            if !before.iter().any(|row| row[..len] == rest[0][..len]) {
                found += 1;
            }
        }
        RouteSet::from_hops(self.rows[..found].iter().map(|row| &row[..len]))
    }
}
