//! What the process holds after a face has gone that asked for a lot.

use std::fs;

use crate::rig::*;
use plexus_ndn::face::Face;

/// Bytes of memory that this process has.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn the_memory_of_pending_interests_is_given_back_when_the_face_has_gone() {
    const MANY: u32 = 200_000;
    let ways = plan(&[("/", 1, 0)], &[], &[]);
    let mut rig = Rig::with(&[Face::NEIGHBOUR; 2], ways, |c| c.pit_capacity = 1 << 19);
    let before = resident();
    for i in 0..MANY {
        let packet = interest_with(&format!("/a/{i}"), i, |r| r.lifetime_ms = Some(3_600_000));
        rig.receive(0, &packet);
    }
    assert_eq!(rig.forwarder.pending(), MANY as usize);
    let taken = resident().saturating_sub(before);
    assert!(taken > 250 * MANY as usize, "{taken} bytes");
    rig.forwarder.remove_face(face(0)).unwrap();
    let mut ticks = 0;
    while rig.forwarder.next_deadline().is_some() {
        rig.wait_ms(0);
        ticks += 1;
        assert!(ticks < 2_000);
    }
    assert_eq!(rig.forwarder.pending(), 0);
    // The index of names, of fixed size, stays, and what dead nonces take.
    let left = resident().saturating_sub(before);
    assert!(left < taken / 4, "{left} of {taken} bytes are left");
}
