//! Shapes that a formula gives: lines, grids and butterflies, trees and stages, dragonflies.

use super::plan::{Joint, Plan, Site};

/// A grid that closes in every dimension; the last coordinate moves fastest.
pub(super) fn torus(sides: &[usize]) -> Vec<Joint> {
    let count = sides.iter().product();
    let mut joints = Vec::new();
    for node in 0..count {
        let mut stride = 1;
        for side in sides.iter().rev() {
            let at = node / stride % side;
            let next = node - at * stride + (at + 1) % side * stride;
            // Along a side of 2 the way back is the same link.
            if *side > 2 || at == 0 {
                joints.push(Joint::single(node, next));
            }
            stride *= side;
        }
    }
    joints
}

/// A k-ary n-flat: in each of n - 1 dimensions a node reaches the k - 1 others; the last `fast`
/// dimensions have one cable of `dilation` times the rate, the others `dilation` cables.
pub(super) fn butterfly(ary: usize, flat: usize, dilation: usize, fast: usize) -> Vec<Joint> {
    let dimensions = flat - 1;
    let count = ary.pow(dimensions as u32);
    let mut joints = Vec::new();
    for node in 0..count {
        let mut stride = count;
        for dimension in 0..dimensions {
            stride /= ary;
            let at = node / stride % ary;
            for other in at + 1..ary {
                let ends = [node, node + (other - at) * stride];
                joints.push(if dimension < dimensions - fast {
                    Joint { ends, lanes: dilation, speed: 1 }
                } else {
                    Joint { ends, lanes: 1, speed: dilation as u64 }
                });
            }
        }
    }
    joints
}

/// Three levels of boxes with k ports each: k pods of k/2 edge and k/2 aggregation boxes, and
/// (k/2)² in the core.
pub(super) fn fat_tree(ports: usize) -> Plan {
    let half = ports / 2;
    let edges = ports * half;
    let mut joints = Vec::new();
    for edge in 0..edges {
        let pod = edge / half;
        joints.extend((0..half).map(|i| Joint::single(edge, edges + pod * half + i)));
    }
    for aggregation in 0..edges {
        let first = 2 * edges + aggregation % half * half;
        joints.extend((0..half).map(|i| Joint::single(edges + aggregation, first + i)));
    }
    let names = numbered("edge", edges)
        .chain(numbered("agg", edges))
        .chain(numbered("core", half * half))
        .collect();
    Plan { names, sites: (0..edges).map(Site::at).collect(), joints }
}

/// Two stages, every box of one joined with every box of the other; hosts are on the first.
pub(super) fn two_stages(first: (&str, usize), second: (&str, usize)) -> Plan {
    let names = numbered(first.0, first.1).chain(numbered(second.0, second.1)).collect();
    let pairs = (0..first.1).flat_map(|a| (0..second.1).map(move |b| (a, first.1 + b)));
    let joints = pairs.map(|(a, b)| Joint::single(a, b)).collect();
    Plan { names, sites: (0..first.1).map(Site::at).collect(), joints }
}

/// Three stages, input, middle, output. A host sends by its first interface to an input box and
/// receives by its second from the output box of the same number.
pub(super) fn unfolded_clos(outer: usize, middle: usize) -> Plan {
    let names = numbered("in", outer).chain(numbered("mid", middle)).chain(numbered("out", outer));
    let mut joints = Vec::new();
    for a in 0..outer {
        joints.extend((0..middle).map(|m| Joint::single(a, outer + m)));
    }
    for m in 0..middle {
        joints.extend((0..outer).map(|b| Joint::single(outer + m, outer + middle + b)));
    }
    let site = |i| Site { first: i, second: Some(outer + middle + i) };
    Plan { names: names.collect(), sites: (0..outer).map(site).collect(), joints }
}

/// Groups whose boxes are all joined with each other. A group's global ports, `global` on each
/// box in turn, go to the following groups in turn, equally many to each.
pub(super) fn dragonfly(routers: usize, global: usize, groups: usize) -> Plan {
    let mut joints = Vec::new();
    for group in 0..groups {
        let base = group * routers;
        for a in 0..routers {
            joints.extend((a + 1..routers).map(|b| Joint::single(base + a, base + b)));
        }
    }
    let each = routers * global / (groups - 1);
    for low in 0..groups {
        for high in low + 1..groups {
            for i in 0..each {
                let a = (high - low - 1) * each + i;
                let b = (groups - (high - low) - 1) * each + i;
                joints.push(Joint::single(low * routers + a / global, high * routers + b / global));
            }
        }
    }
    let nodes = groups * routers;
    let name = |i: usize| format!("g{}r{}", i / routers + 1, i % routers + 1);
    Plan {
        names: (0..nodes).map(name).collect(),
        sites: (0..nodes).map(Site::at).collect(),
        joints,
    }
}

fn numbered(what: &str, count: usize) -> impl Iterator<Item = String> + '_ {
    (1..=count).map(move |i| format!("{what}{i}"))
}
