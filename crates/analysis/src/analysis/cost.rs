//! What a topology costs in boxes, ports and cables, and what a Clos network for the same hosts.

use serde::Serialize;

/// Boxes, their cabled ports, and cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Nodes and bridges.
    pub boxes: u64,
    /// Their ports that have a cable.
    pub ports: u64,
    /// Cables, those of hosts included.
    pub cables: u64,
}

/// An unfolded Clos network that can carry any permutation of `hosts`, of boxes with `ports` inputs
/// and as many outputs, as the seed counts boards (netfpga-aurora.txt §4: 12 for 16 hosts and 4
/// ports). Every cable carries one direction; a host has two. `None` for boxes that cannot.
pub fn unfolded_clos(hosts: u64, ports: u64) -> Option<Cost> {
    if hosts == 0 || (ports < 2 && hosts > ports) {
        return None;
    }
    // Stages 2s - 1, with s the least so that ports^s reaches all hosts.
    let (mut levels, mut reach) = (1_u64, ports);
    while reach < hosts {
        reach = reach.saturating_mul(ports);
        levels += 1;
    }
    let stages = 2 * levels - 1;
    let boxes = stages * hosts.div_ceil(ports);
    Some(Cost { boxes, ports: 2 * stages * hosts, cables: (stages + 1) * hosts })
}

/// A folded Clos network (fat tree) that can carry any permutation of `hosts`, of boxes with
/// `ports` full-duplex ports: half of them up, but at the top. `None` for boxes that cannot.
pub fn folded_clos(hosts: u64, ports: u64) -> Option<Cost> {
    if hosts == 0 {
        return None;
    }
    if hosts <= ports {
        return Some(Cost { boxes: 1, ports: hosts, cables: hosts });
    }
    let half = ports / 2;
    if half < 2 {
        return None;
    }
    let (mut levels, mut reach) = (1, 2 * half);
    while reach < hosts {
        reach = reach.saturating_mul(half);
        levels += 1;
    }
    let boxes = (levels - 1) * hosts.div_ceil(half) + hosts.div_ceil(2 * half);
    Some(Cost { boxes, ports: (2 * levels - 1) * hosts, cables: levels * hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_boards_as_the_seed_does() {
        // netfpga-aurora.txt §4: 16 ports of boards with 4.
        assert_eq!(unfolded_clos(16, 4).map(|c| c.boxes), Some(12));
        assert_eq!(unfolded_clos(4, 4).map(|c| c.boxes), Some(1));
        assert_eq!(unfolded_clos(64, 4).map(|c| c.boxes), Some(5 * 16));
        assert_eq!(unfolded_clos(2, 1), None);
        assert_eq!(unfolded_clos(u64::MAX / 1024, 2).map(|c| c.boxes > 0), Some(true));
    }

    #[test]
    fn a_full_fat_tree_is_a_folded_clos() {
        for k in [4, 6, 8, 48] {
            let hosts = k * k * k / 4;
            let made = folded_clos(hosts, k).unwrap();
            assert_eq!((made.boxes, made.cables), (5 * k * k / 4, 3 * hosts), "{k}");
        }
        assert_eq!(folded_clos(5, 8), Some(Cost { boxes: 1, ports: 5, cables: 5 }));
        assert_eq!(folded_clos(9, 3), None);
    }
}
