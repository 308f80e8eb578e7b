//! All permutations of a small network, one of each class that its symmetry makes equal. Which host
//! of a node sends does not matter: a permutation is the matrix of how many flows each node sends
//! to each.

use super::fabric::Fabric;
use super::route::{Fit, exact, rearranged};
use crate::loads::Demand;

/// Most matrices that are looked at, and most that are routed.
const MATRICES_MAX: usize = 400_000;
const CLASSES_MAX: usize = 40_000;
/// Steps of the search through all ways, for each matrix that quick routing fails at.
const STEPS: usize = 500_000;
/// Symmetries that are looked for; fewer than there are only make for more work.
const SYMMETRIES_MAX: usize = 400;
const NODES_MAX: usize = 10;

/// What trying everything has shown.
pub(super) enum Exhausted {
    /// Every permutation has whole-flow routes: why, in words.
    Proven(String),
    /// This permutation of hosts has none.
    Blocking(Vec<usize>),
    /// There are too many, or one could not be decided.
    Open,
}

/// Tries every permutation of the hosts, all of one line rate; where that is too much, every
/// permutation of the nodes over equal layers of the channels, one layer for each host of a node:
/// by König's theorem the former follows from the latter.
pub(super) fn exhaust(fabric: &Fabric) -> Exhausted {
    let nodes: Vec<usize> = (0..fabric.net.vertices()).filter(|v| fabric.need[*v] > 0).collect();
    if nodes.len() > NODES_MAX || !fabric.even() {
        return Exhausted::Open;
    }
    let need: Vec<u64> = nodes.iter().map(|v| fabric.need[*v]).collect();
    let layers = need.iter().copied().max().unwrap_or(0).max(1);
    for (need, layers) in [(need, 1), (vec![1; nodes.len()], layers)] {
        if count(&need) > MATRICES_MAX {
            continue;
        }
        let circuits: Vec<u64> = fabric.circuits.iter().map(|c| c / layers).collect();
        let mut tried = 0;
        let symmetries = symmetries(fabric, &nodes);
        let failed = each(&need, &mut |matrix| {
            if symmetries.iter().any(|s| is_before(matrix, s)) {
                return None;
            }
            tried += 1;
            if tried > CLASSES_MAX {
                return Some((Fit::Unknown, Vec::new()));
            }
            match fits(fabric, &nodes, matrix, &circuits) {
                Fit::Yes => None,
                fit => Some((fit, matrix.to_vec())),
            }
        });
        match failed {
            None if layers == 1 => {
                let s = if tried == 1 { "" } else { "s" };
                return Exhausted::Proven(format!(
                    "all permutations were routed, {tried} class{}{s} up to symmetry",
                    if tried == 1 { "" } else { "e" }
                ));
            }
            None => {
                return Exhausted::Proven(format!(
                    "what the nodes send falls into {layers} permutations of nodes, each with a \
                     {layers}th of every channel; all of these were routed, {tried} classes up to \
                     symmetry"
                ));
            }
            Some((Fit::No, matrix)) if layers == 1 => {
                return Exhausted::Blocking(hosts(fabric, &nodes, &matrix));
            }
            Some(_) => {}
        }
    }
    Exhausted::Open
}

/// Whether a matrix's flows fit on these circuits.
fn fits(fabric: &Fabric, nodes: &[usize], matrix: &[u64], circuits: &[u64]) -> Fit {
    let n = nodes.len();
    let mut flows = Vec::new();
    for (i, count) in matrix.iter().enumerate().filter(|(i, _)| i / n != i % n) {
        let flow = Demand { from: nodes[i / n], to: nodes[i % n], amount: 1.0 };
        flows.extend((0..*count).map(|_| flow));
    }
    // Which cable of a channel a flow takes does not matter: the first stands for all.
    let mut capacity = vec![0.0; fabric.net.cables.len()];
    for (channel, circuits) in fabric.net.channels.iter().zip(circuits) {
        capacity[channel.cables.start] = *circuits as f64;
    }
    if rearranged(fabric, &flows, &capacity).is_some() {
        return Fit::Yes;
    }
    exact(fabric, &flows, circuits, STEPS)
}

/// How many matrices there are, or more than are looked at.
fn count(need: &[u64]) -> usize {
    let mut count = 0;
    each(need, &mut |_| {
        count += 1;
        (count > MATRICES_MAX).then_some(())
    });
    count
}

/// Calls `visit` for every matrix whose rows and columns have these sums, until it answers.
fn each<T>(need: &[u64], visit: &mut impl FnMut(&[u64]) -> Option<T>) -> Option<T> {
    let mut matrix = vec![0; need.len() * need.len()];
    let mut columns = need.to_vec();
    let first = need.first().copied().unwrap_or(0);
    fill(need, &mut columns, &mut matrix, 0, first, visit)
}

/// Fills the matrix from a place on; `left` is what its row still needs.
fn fill<T>(
    need: &[u64],
    columns: &mut [u64],
    matrix: &mut [u64],
    place: usize,
    left: u64,
    visit: &mut impl FnMut(&[u64]) -> Option<T>,
) -> Option<T> {
    let n = need.len();
    if place == n * n {
        return visit(matrix);
    }
    let (row, column) = (place / n, place % n);
    // The last of a row takes the rest.
    let most = left.min(columns[column]);
    let least = if column + 1 == n { left } else { 0 };
    for value in least..=most {
        matrix[place] = value;
        columns[column] -= value;
        let rest =
            if column + 1 == n { need.get(row + 1).copied().unwrap_or(0) } else { left - value };
        let found = fill(need, columns, matrix, place + 1, rest, visit);
        columns[column] += value;
        if found.is_some() {
            return found;
        }
    }
    matrix[place] = 0;
    None
}

/// Whether the matrix with its nodes renamed comes before it, so that another stands for both.
fn is_before(matrix: &[u64], symmetry: &[usize]) -> bool {
    let n = symmetry.len();
    let renamed = (0..n * n).map(|i| matrix[symmetry[i / n] * n + symmetry[i % n]]);
    renamed.lt(matrix.iter().copied())
}

/// Ways to rename the network's vertices that change nothing, as they act on `nodes`.
fn symmetries(fabric: &Fabric, nodes: &[usize]) -> Vec<Vec<usize>> {
    // Vertices with hosts first: what is chosen for them decides most.
    let mut vertices = nodes.to_vec();
    vertices.extend(fabric.core().into_iter().filter(|v| fabric.need[*v] == 0));
    let mut found = Vec::new();
    let mut budget = 200_000;
    extend(fabric, &vertices, nodes.len(), &mut Vec::new(), &mut found, &mut budget);
    found
}

fn extend(
    fabric: &Fabric,
    vertices: &[usize],
    nodes: usize,
    image: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
    budget: &mut usize,
) {
    if found.len() >= SYMMETRIES_MAX || *budget == 0 {
        return;
    }
    let at = image.len();
    if at == vertices.len() {
        found.push(image[..nodes].to_vec());
        return;
    }
    for candidate in 0..vertices.len() {
        *budget = budget.saturating_sub(1);
        let (a, b) = (vertices[at], vertices[candidate]);
        let alike = !image.contains(&candidate)
            && fabric.need[a] == fabric.need[b]
            && fabric.net.forwards[a] == fabric.net.forwards[b]
            && image.iter().enumerate().all(|(i, other)| {
                let (c, d) = (vertices[i], vertices[*other]);
                fabric.circuits_between(a, c) == fabric.circuits_between(b, d)
                    && fabric.circuits_between(c, a) == fabric.circuits_between(d, b)
            });
        if alike {
            image.push(candidate);
            extend(fabric, vertices, nodes, image, found, budget);
            image.pop();
        }
    }
}

/// A permutation of hosts that makes this matrix.
fn hosts(fabric: &Fabric, nodes: &[usize], matrix: &[u64]) -> Vec<usize> {
    let n = nodes.len();
    let on = |node: usize| -> Vec<usize> {
        (0..fabric.hosts.len()).rev().filter(|h| fabric.at[*h] == nodes[node]).collect()
    };
    let mut senders: Vec<Vec<usize>> = (0..n).map(on).collect();
    let mut receivers = senders.clone();
    let mut to: Vec<usize> = (0..fabric.hosts.len()).collect();
    for (i, count) in matrix.iter().enumerate() {
        for _ in 0..*count {
            if let (Some(a), Some(b)) = (senders[i / n].pop(), receivers[i % n].pop()) {
                to[a] = b;
            }
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_all_there() {
        // OEIS A000142, A000681 and A001500: sums 1 (n!), 2 and 3.
        assert_eq!([1, 2, 3, 4, 5].map(|n| count(&vec![1; n])), [1, 2, 6, 24, 120]);
        assert_eq!([1, 2, 3, 4, 5].map(|n| count(&vec![2; n])), [1, 3, 21, 282, 6210]);
        assert_eq!([1, 2, 3, 4].map(|n| count(&vec![3; n])), [1, 4, 55, 2008]);
        assert_eq!(count(&[2, 1]), 2);
    }
}
