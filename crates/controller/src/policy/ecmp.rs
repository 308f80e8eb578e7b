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
    /// Which of a node's links there are to choose from.
    choices: [u8; 256],
}

impl Default for Ecmp {
    fn default() -> Ecmp {
        Ecmp { rows: [[0; FAR as usize]; ROUTES_MAX], choices: [0; 256] }
    }
}

impl Policy for Ecmp {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        let links = ask.distance[ask.from as usize];
        let len = usize::from(links) + 1;
        let mut found = 0;
        // Routes there are if the choices multiply as they do on the way of the first one: then
        // further numbers only repeat.
        let mut ways = u32::MAX;
        for number in 0..ROUTES_MAX as u32 {
            if number >= ways {
                break;
            }
            let (mut digits, mut product) = (number, 1_u32);
            let mut node = ask.from;
            for at in 0..links {
                let edges = ask.topology.edges(node);
                // No branch for each link: which lead closer cannot be foreseen.
                let mut choices = 0;
                for (i, edge) in edges.iter().enumerate() {
                    self.choices[usize::from(choices as u8)] = i as u8;
                    choices += u32::from(ask.distance[edge.to as usize] == links - at - 1);
                }
                let pick = match choices {
                    0 => return RouteSet::default(),
                    1 => 0,
                    _ => {
                        let shift = mix(ask.hash, u64::from(node));
                        let beyond =
                            if product >= 8 { mix(shift, u64::from(number)) } else { shift };
                        product = product.saturating_mul(choices);
                        let mut digit = 0;
                        if digits > 0 {
                            (digit, digits) = (digits % choices, digits / choices);
                        }
                        // The upper half of the hash, as a share of the choices.
                        let share = ((beyond >> 32) * u64::from(choices)) >> 32;
                        let pick = digit + share as u32;
                        if pick < choices { pick } else { pick - choices }
                    }
                };
                let edge = &edges[usize::from(self.choices[pick as usize])];
                self.rows[found][usize::from(at)] = edge.port;
                node = edge.to;
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
