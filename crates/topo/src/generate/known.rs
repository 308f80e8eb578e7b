//! Knows a topology that was made here again, by its name, and only if every link agrees.

use super::{Plan, Shape};
use crate::model::{Device, Topology};

/// A shape that a topology has.
pub struct Known {
    /// The shape.
    pub shape: Shape,
    /// What it consists of; its nodes are the topology's, in the same order.
    plan: Plan,
}

impl Known {
    /// The shape of a topology, if it is one that can be made and is named so: the same nodes,
    /// joined the same way.
    pub fn of(topology: &Topology) -> Option<Known> {
        let shape = Shape::from_name(&topology.name)?;
        let nodes = topology.nodes.len();
        // Before it is made: a name may be that of a far larger one.
        if !topology.bridges.is_empty() || shape.size().is_none_or(|size| size.0 != nodes) {
            return None;
        }
        let plan = shape.checked_plan().ok()?;
        if plan.names.len() != topology.nodes.len() {
            return None;
        }
        let mut expected: Vec<([usize; 2], usize)> =
            plan.joints.iter().map(|j| (sorted(j.ends), j.lanes)).collect();
        let nodes = topology.links.iter().filter_map(|l| match l.devices() {
            [Device::Node(a), Device::Node(b)] => Some((sorted([a, b]), l.cables.len())),
            _ => None,
        });
        let mut found: Vec<([usize; 2], usize)> = nodes.collect();
        expected.sort_unstable();
        found.sort_unstable();
        // Options may have multiplied all lanes.
        let factor = match (found.first(), expected.first()) {
            (Some(found), Some(expected)) => found.1 / expected.1,
            _ => 1,
        };
        expected.iter_mut().for_each(|(_, lanes)| *lanes *= factor);
        (found == expected).then_some(Known { shape, plan })
    }

    /// The nodes where its groups of hosts have their first interface.
    pub fn host_nodes(&self) -> Vec<usize> {
        self.plan.sites.iter().map(|site| site.first).collect()
    }
}

fn sorted([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}
