//! Common parts of the tests of fast tables, whichever box has one.

use std::time::Duration;

use crate::common::Rig;
use plexus_plane::DropReason;
use proptest::prelude::*;

/// Packets of a flow within a round that get it a rule.
pub(crate) const MANY: usize = 40;
pub(crate) const ROUND: Duration = Duration::from_millis(100);

/// Some rounds pass, and turns between them.
pub(crate) fn rounds(rig: &mut Rig, count: u32) {
    for _ in 0..count {
        rig.now = rig.now + ROUND;
        rig.maintain();
        (0..4).for_each(|_| rig.settle());
    }
}

/// A box with a table has counted what one without it has, and as many packets as the table has
/// forwarded.
pub(crate) fn counted_alike(
    fast: &mut Rig,
    plain: &Rig,
    by_table: u64,
) -> Result<(), TestCaseError> {
    let now = fast.now;
    fast.workers[0].count_fast(now);
    let ports = |rig: &Rig| rig.workers[0].pipeline().counters().ports.clone();
    let (ours, theirs) = (ports(fast), ports(plain));
    prop_assert_eq!(ours.len(), theirs.len());
    for (port, (own, other)) in ours.iter().zip(&theirs).enumerate() {
        for &reason in DropReason::ALL {
            let (ours, theirs) = (fast.drops(port, reason), plain.drops(port, reason));
            prop_assert_eq!(ours, theirs, "{:?} at {}", reason, port);
        }
        prop_assert_eq!(own.routed, other.routed, "port {}", port);
    }
    prop_assert!(ours.iter().map(|port| port.fast_received).sum::<u64>() >= by_table);
    let (ours, theirs) = (fast.account(), plain.account());
    prop_assert_eq!((ours.received, ours.sent), (theirs.received, theirs.sent));
    prop_assert!(ours.balances(), "{:?}", ours);
    Ok(())
}
