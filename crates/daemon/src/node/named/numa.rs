//! The NUMA nodes of the machine, as Linux names them
//! (Documentation/ABI/stable/sysfs-devices-node).

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// The NUMA nodes: each is a part of the memory, and the processors near it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes(Vec<(RangeInclusive<u32>, u32)>);

impl Nodes {
    /// Of this machine.
    pub(super) fn of_machine() -> Nodes {
        Nodes::read(Path::new("/sys/devices/system/node"))
    }

    /// The nodes of this folder. If it is missing or malformed, no processor's node is known, as if
    /// all memory were equally near.
    pub(super) fn read(folder: &Path) -> Nodes {
        Nodes::parse(folder).unwrap_or_default()
    }

    fn parse(folder: &Path) -> Option<Nodes> {
        let list = |file: &str| parse(&fs::read_to_string(folder.join(file)).ok()?);
        let mut nodes: Vec<(RangeInclusive<u32>, u32)> = Vec::new();
        // The first node without a file ends the list.
        for node in list("has_memory")?.into_iter().flatten() {
            for cpus in list(&format!("node{node}/cpulist"))? {
                let overlaps = |(others, _): &(RangeInclusive<u32>, u32)| {
                    cpus.start() <= others.end() && others.start() <= cpus.end()
                };
                if nodes.iter().any(overlaps) {
                    return None;
                }
                nodes.push((cpus, node));
            }
        }
        Some(Nodes(nodes))
    }

    /// The node of a processor; none if it is not known, or has no memory.
    pub(super) fn of(&self, cpu: u16) -> Option<u32> {
        let (_, node) = self.0.iter().find(|(cpus, _)| cpus.contains(&cpu.into()))?;
        Some(*node)
    }
}

/// A list as the kernel writes it: "0-3,8", or nothing.
fn parse(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let list = list.trim_end();
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(first..=last)
    };
    if list.is_empty() { Some(Vec::new()) } else { list.split(',').map(range).collect() }
}

#[cfg(test)]
pub(super) mod tests;
