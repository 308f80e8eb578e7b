//! Proofs from how a network is built: Clos networks, folded or not, of any number of stages, and
//! flattened butterflies. They hold for whole flows, and for any number of hosts up to those there.
//!
//! Both rest on Slepian and Duguid's theorem: what hosts send, seen as edges between the nodes they
//! are on, has at most h edges at a node of h hosts in each direction, so it falls into h matchings
//! (König). Each matching is given to a middle network, which has one flow in and one out at each
//! of its inputs: the same question, for a smaller network.

use super::fabric::Fabric;

/// Times that less is asked of a middle network that cannot carry all that reaches it.
const TRIES: usize = 8;
/// Most dimensions that are tried in every order.
const ORDERS_OF_MAX: usize = 4;

/// Why every permutation has whole-flow routes; `None` when neither pattern is found.
pub(super) fn proof(fabric: &Fabric) -> Option<String> {
    let vertices = fabric.core();
    proven(fabric, &vertices, &fabric.need)
}

/// The same for `need[v]` terminals at each vertex v of a part of the network.
fn proven(fabric: &Fabric, vertices: &[usize], need: &[u64]) -> Option<String> {
    let mut leaves = vertices.iter().copied().filter(|v| need[*v] > 0);
    match (leaves.next(), leaves.next()) {
        (None, _) => return Some("nothing is sent".to_string()),
        (Some(only), None) if fabric.net.forwards[only] || need[only] == 1 => {
            return Some("one node switches everything".to_string());
        }
        _ => {}
    }
    clos(fabric, vertices, need).or_else(|| butterfly(fabric, vertices, need))
}

/// Middle networks are what is left when the nodes with terminals are taken away.
fn clos(fabric: &Fabric, vertices: &[usize], need: &[u64]) -> Option<String> {
    let (leaves, middle): (Vec<usize>, Vec<usize>) =
        vertices.iter().copied().partition(|v| need[*v] > 0);
    let mut left = leaves.iter().map(|v| need[*v]).max().unwrap_or(0);
    let matchings = left;
    let mut parts = parts(fabric, &middle);
    parts.sort_by_key(|part| (part.len(), part[0]));
    let (mut used, mut inner) = (0, String::new());
    for part in parts {
        let reach = |leaf: &usize| -> u64 {
            part.iter().map(|v| both_ways(fabric, *leaf, *v)).fold(0, u64::saturating_add)
        };
        let most = leaves.iter().map(reach).min().unwrap_or(0).min(left);
        // Whatever carries some matchings carries fewer.
        let carried = (1..=most).rev().take(TRIES).find_map(|matchings| {
            let mut below = vec![0; need.len()];
            for leaf in &leaves {
                share_out(fabric, *leaf, &part, matchings, &mut below);
            }
            proven(fabric, &part, &below).map(|why| (matchings, why))
        });
        if let Some((matchings, why)) = carried {
            left -= matchings;
            used += 1;
            inner = why;
        }
        if left == 0 {
            let leaves = leaves.len();
            return Some(format!(
                "a Clos network: what {leaves} nodes send falls into {matchings} matchings, which \
                 {used} middle networks carry, in each of which {inner}"
            ));
        }
    }
    None
}

/// Whole flows that a link carries in each direction.
fn both_ways(fabric: &Fabric, a: usize, b: usize) -> u64 {
    fabric.circuits_between(a, b).min(fabric.circuits_between(b, a))
}

/// Spreads a leaf's matchings over its links into a part, link by link in turn.
fn share_out(fabric: &Fabric, leaf: usize, part: &[usize], matchings: u64, below: &mut [u64]) {
    let links = part.iter().map(|v| (*v, both_ways(fabric, leaf, *v)));
    let mut room: Vec<(usize, u64)> = links.filter(|l| l.1 > 0).collect();
    let mut left = matchings;
    while left > 0 && !room.is_empty() {
        let each = (left / room.len() as u64).max(1);
        for (vertex, room) in &mut room {
            let taken = each.min(left).min(*room);
            below[*vertex] += taken;
            *room -= taken;
            left -= taken;
        }
        room.retain(|r| r.1 > 0);
    }
}

/// The connected parts of these vertices, each in ascending order.
fn parts(fabric: &Fabric, vertices: &[usize]) -> Vec<Vec<usize>> {
    let mut fresh = vec![false; fabric.net.vertices()];
    vertices.iter().for_each(|v| fresh[*v] = fabric.net.forwards[*v]);
    let mut parts = Vec::new();
    for start in vertices {
        if !std::mem::take(&mut fresh[*start]) {
            continue;
        }
        let mut part = vec![*start];
        let mut next = 0;
        while let Some(vertex) = part.get(next).copied() {
            next += 1;
            for channel in fabric.net.out_of(vertex) {
                let to = fabric.net.channels[channel].to as usize;
                if std::mem::take(&mut fresh[to]) {
                    part.push(to);
                }
            }
        }
        part.sort_unstable();
        parts.push(part);
    }
    parts
}

/// A product of complete graphs, in which each dimension is passed twice, as in Beneš's network
/// folded at the middle and its rows each made one node.
fn butterfly(fabric: &Fabric, vertices: &[usize], need: &[u64]) -> Option<String> {
    let (coordinates, sides) = coordinates(fabric, vertices)?;
    let terminals = vertices.iter().map(|v| need[*v]).max().unwrap_or(0);
    let dimensions: Vec<usize> = (0..sides.len()).collect();
    let product = Product { fabric, vertices, coordinates: &coordinates, sides: &sides };
    let all: Vec<usize> = (0..vertices.len()).collect();
    if !product.carries(&all, &dimensions, terminals) {
        return None;
    }
    let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
    Some(format!(
        "a flattened butterfly of {} nodes with up to {terminals} hosts each: it holds a Beneš \
         network, whose two passes through a dimension its channels carry at once",
        sides.join(" x ")
    ))
}

struct Product<'a> {
    fabric: &'a Fabric,
    vertices: &'a [usize],
    coordinates: &'a [Vec<usize>],
    sides: &'a [usize],
}

impl Product<'_> {
    /// Whether a part, whole in these dimensions, carries every permutation of `terminals` at each
    /// of its nodes. In the first dimension, `q[c]` matchings go by way of the nodes whose digit is
    /// c: a channel from digit i to j carries q[j] flows on their way there and q[i] that come
    /// back, and each of those nodes has k q[c] flows to send on in the other dimensions.
    fn carries(&self, part: &[usize], dimensions: &[usize], terminals: u64) -> bool {
        if terminals == 0 || dimensions.is_empty() {
            return true;
        }
        // The order of dimensions matters only where matchings do not divide evenly.
        let tried = if dimensions.len() <= ORDERS_OF_MAX { dimensions.len() } else { 1 };
        dimensions[..tried].iter().any(|&dimension| {
            let side = self.sides[dimension] as u64;
            let rest: Vec<usize> = dimensions.iter().copied().filter(|d| *d != dimension).collect();
            let matchings =
                |digit: usize| terminals / side + u64::from((digit as u64) < terminals % side);
            let digit = |node: usize| self.coordinates[node][dimension];
            let wide = part.iter().all(|&a| {
                let beside = part.iter().copied().filter(|&b| self.differ_only_in(a, b, dimension));
                beside.into_iter().all(|b| {
                    let (from, to) = (self.vertices[a], self.vertices[b]);
                    let flows = matchings(digit(a)) + matchings(digit(b));
                    self.fabric.circuits_between(from, to) >= flows
                })
            });
            wide && (0..side as usize).all(|c| {
                let plane: Vec<usize> = part.iter().copied().filter(|&n| digit(n) == c).collect();
                self.carries(&plane, &rest, side * matchings(c))
            })
        })
    }

    fn differ_only_in(&self, a: usize, b: usize, dimension: usize) -> bool {
        let mut differing =
            (0..self.sides.len()).filter(|d| self.coordinates[a][*d] != self.coordinates[b][*d]);
        differing.next() == Some(dimension) && differing.next().is_none()
    }
}

/// Coordinates of vertices that are a product of complete graphs, and the size of each dimension;
/// `None` when they are not.
fn coordinates(fabric: &Fabric, vertices: &[usize]) -> Option<(Vec<Vec<usize>>, Vec<usize>)> {
    const FAR: usize = usize::MAX;
    let place = |vertex: usize| vertices.binary_search(&vertex).ok();
    let beside: Vec<Vec<usize>> = vertices
        .iter()
        .map(|v| {
            let channels = fabric.net.out_of(*v);
            channels.filter_map(|c| place(fabric.net.channels[c].to as usize)).collect()
        })
        .collect();
    if vertices.iter().any(|v| !fabric.net.forwards[*v]) {
        return None;
    }
    // The neighbours of the first vertex fall into cliques, one for each dimension.
    let adjacent = |a: usize, b: usize| beside[a].binary_search(&b).is_ok();
    let mut cliques: Vec<Vec<usize>> = Vec::new();
    for &neighbour in beside.first()? {
        match cliques.iter_mut().find(|clique| adjacent(clique[0], neighbour)) {
            Some(clique) => clique.push(neighbour),
            None => cliques.push(vec![neighbour]),
        }
    }
    let sides: Vec<usize> = cliques.iter().map(|c| c.len() + 1).collect();
    let nodes = sides.iter().try_fold(1_usize, |n, side| n.checked_mul(*side))?;
    if nodes != vertices.len() {
        return None;
    }
    // A vertex has, in each dimension, the digit of those nearer to the first that have one there.
    let mut digits = vec![vec![0; sides.len()]; nodes];
    let mut distance = vec![FAR; nodes];
    distance[0] = 0;
    for (dimension, clique) in cliques.iter().enumerate() {
        for (i, node) in clique.iter().enumerate() {
            digits[*node][dimension] = i + 1;
            distance[*node] = 1;
        }
    }
    let mut queue: Vec<usize> = cliques.concat();
    let mut next = 0;
    while let Some(node) = queue.get(next).copied() {
        next += 1;
        for &other in &beside[node] {
            if distance[other] == FAR {
                distance[other] = distance[node] + 1;
                queue.push(other);
            }
            if distance[other] == distance[node] + 1 {
                let nearer = digits[node].clone();
                for (digit, nearer) in digits[other].iter_mut().zip(nearer) {
                    *digit = nearer.max(*digit);
                }
            }
        }
    }
    // Whether that came out right is seen by looking: all different, and next to each other
    // exactly where one digit differs.
    let mut sorted = digits.clone();
    sorted.sort();
    sorted.dedup();
    let degree: usize = sides.iter().map(|s| s - 1).sum();
    let one_apart =
        |a: usize, b: usize| digits[a].iter().zip(&digits[b]).filter(|(x, y)| x != y).count() == 1;
    let right = sorted.len() == nodes
        && beside.iter().all(|b| b.len() == degree)
        && beside.iter().enumerate().all(|(a, b)| b.iter().all(|b| one_apart(a, *b)));
    right.then_some((digits, sides))
}
