//! From a solver's flow to one destination to shares at each vertex: what arrives is sent on in the
//! flow's proportions, so that not a bit is lost or made, however inexact the flow is.

use super::net::Net;

/// Flow on a channel below this part of the greatest is the solver's noise.
const NOISE: f64 = 1e-7;

/// Lays the amounts of `sources` on the way to `to` on `loads`, after the flow on `channels`
/// (ascending).
pub(crate) fn lay(
    net: &Net,
    to: usize,
    sources: &[(usize, f64)],
    channels: &[u32],
    flow: &[f64],
    loads: &mut [f64],
) {
    let floor = flow.iter().copied().fold(0.0, f64::max) * NOISE;
    let mut carried: Vec<(u32, f64)> =
        channels.iter().copied().zip(flow.iter().copied()).filter(|c| c.1 > floor).collect();
    while let Some(circle) = circle(net, &carried) {
        let least = circle.iter().map(|i| carried[*i].1).fold(f64::INFINITY, f64::min);
        circle.iter().for_each(|i| carried[*i].1 -= least);
        carried.retain(|c| c.1 > floor);
    }
    // Vertices in an order in which flow only goes forward.
    let mut inward = vec![0_u32; net.vertices()];
    for (channel, _) in &carried {
        inward[net.channels[*channel as usize].to as usize] += 1;
    }
    let mut at = vec![0.0; net.vertices()];
    sources.iter().for_each(|(from, amount)| at[*from] += amount);
    let mut ready: Vec<usize> = (0..net.vertices()).filter(|v| inward[*v] == 0).collect();
    let mut order = Vec::new();
    let mut hops = None;
    while let Some(vertex) = ready.pop() {
        let out = out_of(net, &carried, vertex);
        let total: f64 = out.iter().map(|c| c.1).sum();
        let amount = std::mem::take(&mut at[vertex]);
        if vertex != to && amount > 0.0 && out.is_empty() {
            // The solver sent less than the noise from here: the shortest path takes it.
            let hops = hops.get_or_insert_with(|| net.hops_to(to, &mut order));
            straight(net, vertex, to, hops, amount, loads);
        }
        for (channel, part) in out {
            let next = net.channels[*channel as usize].to as usize;
            loads[*channel as usize] += amount * (part / total);
            at[next] += amount * (part / total);
            inward[next] -= 1;
            if inward[next] == 0 {
                ready.push(next);
            }
        }
    }
}

/// Channels are ordered by where they begin.
fn out_of<'a>(net: &Net, carried: &'a [(u32, f64)], vertex: usize) -> &'a [(u32, f64)] {
    let range = net.out_of(vertex);
    let begin = carried.partition_point(|c| (c.0 as usize) < range.start);
    let end = carried.partition_point(|c| (c.0 as usize) < range.end);
    &carried[begin..end]
}

/// Places in `carried` that make up a circle, if it has one.
fn circle(net: &Net, carried: &[(u32, f64)]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let end = |i: usize| net.channels[carried[i].0 as usize].to as usize;
    let place = |vertex: usize| {
        let range = net.out_of(vertex);
        let begin = carried.partition_point(|c| (c.0 as usize) < range.start);
        begin..carried.partition_point(|c| (c.0 as usize) < range.end)
    };
    let mut seen = vec![Seen::No; net.vertices()];
    for start in 0..net.vertices() {
        if seen[start] != Seen::No {
            continue;
        }
        seen[start] = Seen::Open;
        // The path from `start`: at each vertex, what of its flow is yet to follow, and the place
        // by which it was reached.
        let mut path = vec![(start, place(start), None)];
        while let Some((vertex, rest, _)) = path.last_mut() {
            let Some(next) = rest.next() else {
                seen[*vertex] = Seen::Done;
                path.pop();
                continue;
            };
            match seen[end(next)] {
                Seen::Done => {}
                Seen::No => {
                    seen[end(next)] = Seen::Open;
                    path.push((end(next), place(end(next)), Some(next)));
                }
                Seen::Open => {
                    let back = path.iter().rev().take_while(|step| step.0 != end(next));
                    return Some(back.filter_map(|step| step.2).chain([next]).collect());
                }
            }
        }
    }
    None
}

/// Lays an amount on a shortest path.
fn straight(net: &Net, from: usize, to: usize, hops: &[u32], amount: f64, loads: &mut [f64]) {
    let mut at = from;
    while at != to {
        let closer = |c: &usize| {
            let channel = &net.channels[*c];
            hops[channel.to as usize].checked_add(1) == Some(hops[at]) && net.passes(channel, to)
        };
        let Some(channel) = net.out_of(at).find(closer) else { return };
        loads[channel] += amount;
        at = net.channels[channel].to as usize;
    }
}
