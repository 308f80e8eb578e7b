//! Routings over shortest paths: one path per pair, or all of them in equal shares.

use plexus_topo::UNREACHABLE;

use super::net::{Commodities, Net};

/// One path per pair, always the same: at each vertex the first channel that leads closer, and of
/// it the first cable.
pub(crate) fn shortest(net: &Net, commodities: &Commodities, loads: &mut [f64]) {
    down_to(net, commodities, |closer, amount| {
        if let Some(channel) = closer.first() {
            loads[net.channels[*channel].cables.start] += amount;
            return vec![(*channel, amount)];
        }
        Vec::new()
    });
}

/// Equal shares over all cables that lead closer, at every vertex anew: what routers do that spread
/// over equal-cost next hops, were their hashes perfect.
pub(crate) fn ecmp(net: &Net, commodities: &Commodities, loads: &mut [f64]) {
    down_to(net, commodities, |closer, amount| {
        let cables: f64 = closer.iter().map(|c| net.channels[*c].lanes()).sum();
        let share = amount / cables;
        let lay = |channel: &usize| {
            let cables = net.channels[*channel].cables.clone();
            let lanes = cables.len() as f64;
            cables.for_each(|cable| loads[cable] += share);
            (*channel, share * lanes)
        };
        closer.iter().map(lay).collect()
    });
}

/// Takes all traffic to each destination, farthest vertex first; `forward` says how much of what is
/// at a vertex goes over which of the channels that lead closer.
fn down_to(
    net: &Net,
    commodities: &Commodities,
    mut forward: impl FnMut(&[usize], f64) -> Vec<(usize, f64)>,
) {
    let mut order = Vec::new();
    let mut at = vec![0.0; net.vertices()];
    let mut closer = Vec::new();
    for (to, sources) in commodities {
        let hops = net.hops_to(*to, &mut order);
        for (from, amount) in sources {
            at[*from] += amount;
        }
        for vertex in order.iter().rev().map(|v| *v as usize) {
            let amount = std::mem::take(&mut at[vertex]);
            if amount == 0.0 || vertex == *to {
                continue;
            }
            closer.clear();
            closer.extend(net.out_of(vertex).filter(|c| {
                let channel = &net.channels[*c];
                let there = hops[channel.to as usize];
                there != UNREACHABLE && there + 1 == hops[vertex] && net.passes(channel, *to)
            }));
            for (channel, share) in forward(&closer, amount) {
                at[net.channels[channel].to as usize] += share;
            }
        }
    }
}

/// Valiant's routing: every demand goes in equal parts by way of every node, over shortest paths in
/// equal shares before and after it. It does not look at the demands, and whatever they are, the
/// load of the core is that of two uniform patterns.
pub(crate) fn valiant(net: &Net, commodities: &Commodities, loads: &mut [f64]) {
    let component = components(net);
    let mut nodes = vec![0_u32; net.vertices()];
    (0..net.nodes).for_each(|node| nodes[component[node]] += 1);
    let mut sent = vec![0.0; net.vertices()];
    let mut received = vec![0.0; net.vertices()];
    let mut direct: Commodities = Vec::new();
    for (to, sources) in commodities {
        let by_way =
            |from: &usize| component[*from] == component[*to] && nodes[component[*from]] > 0;
        let (ways, others): (Vec<_>, Vec<_>) = sources.iter().partition(|(from, _)| by_way(from));
        for (from, amount) in ways {
            let part = amount / f64::from(nodes[component[from]]);
            sent[from] += part;
            received[*to] += part;
        }
        if !others.is_empty() {
            direct.push((*to, others));
        }
    }
    let senders: Vec<usize> = (0..net.vertices()).filter(|v| sent[*v] > 0.0).collect();
    let mut legs: Commodities = Vec::new();
    for to in 0..net.vertices() {
        let mut into = vec![0.0; net.vertices()];
        if to < net.nodes {
            for from in senders.iter().filter(|f| component[**f] == component[to]) {
                into[*from] += sent[*from];
            }
        }
        if received[to] > 0.0 {
            for node in (0..net.nodes).filter(|n| component[*n] == component[to]) {
                into[node] += received[to];
            }
        }
        into[to] = 0.0;
        let into: Vec<(usize, f64)> =
            into.into_iter().enumerate().filter(|(_, amount)| *amount > 0.0).collect();
        if !into.is_empty() {
            legs.push((to, into));
        }
    }
    ecmp(net, &legs, loads);
    ecmp(net, &direct, loads);
}

/// Of each vertex the smallest of its component: what can reach each other through forwarding
/// vertices; a host belongs to that of its first neighbour that forwards.
pub(crate) fn components(net: &Net) -> Vec<usize> {
    let mut component = vec![usize::MAX; net.vertices()];
    for start in (0..net.vertices()).filter(|v| net.forwards[*v]) {
        if component[start] != usize::MAX {
            continue;
        }
        component[start] = start;
        let mut stack = vec![start];
        while let Some(vertex) = stack.pop() {
            for channel in net.out_of(vertex) {
                let to = net.channels[channel].to as usize;
                if net.forwards[to] && component[to] == usize::MAX {
                    component[to] = start;
                    stack.push(to);
                }
            }
        }
    }
    for host in (0..net.vertices()).filter(|v| !net.forwards[*v]) {
        let mut beside = net.out_of(host).map(|c| net.channels[c].to as usize);
        component[host] = beside.find(|v| net.forwards[*v]).map_or(host, |v| component[v]);
    }
    component
}
