//! Spanning trees on random networks, compared with the result that the standard requires.

mod net;

use std::time::Duration;

use net::{Net, RATES};
use plexus_reference::stp::PortState;
use plexus_wire::Time;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Long enough for any of these networks: old information ages out, then ports listen and learn.
const CALM: Duration = Duration::from_secs(20 + 2 * 15 + 20);

/// A random network: maybe in several parts, maybe with parallel cables.
fn random_net(seed: u64) -> Net {
    let mut random = Pcg64::seed_from_u64(seed);
    let bridges = random.random_range(2..14);
    let mut net = Net::default();
    for bridge in 0..bridges {
        net.add_bridge(random.random_range(0..3) * 4096, bridge as u64 ^ (seed % 13));
    }
    net.join(0, 1, RATES[0]);
    for _ in 0..random.random_range(1..bridges * 3) {
        let (a, b) = (random.random_range(0..bridges), random.random_range(0..bridges));
        if a != b {
            net.join(a, b, RATES[random.random_range(0..RATES.len())]);
        }
    }
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_network_becomes_the_tree_that_the_standard_names(seed: u64) {
        let mut net = random_net(seed);
        net.plug_all();
        net.run_until(Time::ZERO + CALM);
        net.assert_tree()?;
    }

    /// After any failures: the tree of the remaining network.
    #[test]
    fn a_cut_network_becomes_the_tree_of_what_is_left(seed: u64, silent: bool, cuts in 1..4_usize) {
        let mut net = random_net(seed);
        net.plug_all();
        net.run_until(Time::ZERO + CALM);
        for cut in 0..cuts {
            net.cut((seed as usize >> cut) % net.cables.len(), silent);
        }
        net.run_until(Time::ZERO + 2 * CALM);
        net.assert_tree()?;
        net.mend_all();
        net.run_until(Time::ZERO + 3 * CALM);
        net.assert_tree()?;
    }

    /// Arbitrary frames on every port.
    #[test]
    fn lies_do_not_break_a_bridge(seed: u64, frames in proptest::collection::vec(
        (0..8_u16, proptest::collection::vec(any::<u8>(), 0..64)), 1..40))
    {
        let mut net = random_net(seed);
        net.plug_all();
        net.run_until(Time::from_secs(5));
        for (port, body) in frames {
            let header = [1, 0x80, 0xC2, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 38, 0x42, 0x42, 3, 0, 0, 0];
            net.hand(0, port, &[&header[..], &body].concat());
            net.hand(0, port, &body);
        }
        net.run_until(Time::from_secs(30));
    }
}

#[test]
fn ports_listen_and_learn_before_they_forward() {
    let mut net = Net::default();
    net.add_bridge(4096, 1);
    net.add_bridge(8192, 2);
    net.join(0, 1, RATES[0]);
    net.plug_all();
    for (second, state) in
        [(14, PortState::Listening), (29, PortState::Learning), (31, PortState::Forwarding)]
    {
        net.run_until(Time::from_secs(second));
        assert_eq!([net.bridges[0].state(0), net.bridges[1].state(0)], [state; 2]);
    }
}

/// A change anywhere is reported to the root, which makes all bridges age fast for 35 s.
#[test]
fn a_change_makes_every_bridge_forget_fast_for_a_while() {
    let mut net = Net::default();
    for bridge in 0..4 {
        net.add_bridge(4096, bridge);
    }
    (0..3).for_each(|b| {
        net.join(b, b + 1, RATES[0]);
    });
    let second = net.join(2, 3, RATES[0]);
    net.plug_all();
    net.run_until(Time::ZERO + CALM);
    net.run_until(Time::from_secs(200));
    assert!(net.ageing.iter().all(Option::is_none), "{:?}", net.ageing);
    // The other of two parallel cables, which forwards 30 s later.
    net.cut(second - 1, false);
    net.run_until(Time::from_secs(233));
    assert!(net.ageing.iter().all(|a| *a == Some(Duration::from_secs(15))), "{:?}", net.ageing);
    net.run_until(Time::from_secs(270));
    assert!(net.ageing.iter().all(Option::is_none), "{:?}", net.ageing);
}

/// If bridges aged a message by a second, trees would end after twenty hops. (If addresses rise
/// along the path, each bridge learns of many roots one after the other and forwards each a second
/// later: then messages are too old after twenty hops too, and the following changes keep it so.)
#[test]
fn trees_may_be_deep() {
    let mut net = Net::default();
    let mut random = Pcg64::seed_from_u64(1);
    for _ in 0..80 {
        net.add_bridge(4096, random.random::<u32>().into());
    }
    (0..79).for_each(|b| {
        net.join(b, b + 1, RATES[0]);
    });
    net.plug_all();
    for second in [100, 200] {
        net.run_until(Time::from_secs(second));
        net.assert_tree().unwrap();
    }
}
