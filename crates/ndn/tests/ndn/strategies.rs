//! Forwarding strategies: which next hops Interests take.

use std::sync::Arc;

use crate::rig::*;
use plexus_ndn::face::{Face, Fate};
use plexus_ndn::plan::Published;
use plexus_wire::ndn::lp::{Headers, NackReason};

const NEAR: Face = Face::NEIGHBOUR;

fn with(routes: &[Route<'_>], strategy: &str) -> Rig {
    Rig::with(&[NEAR; 5], plan(routes, &[("/", strategy)], &[]), |_| {})
}

const THREE: [Route<'_>; 3] = [("/", 2, 10), ("/", 3, 20), ("/", 4, 30)];

#[test]
fn best_route_suppresses_retransmissions_and_then_tries_the_others() {
    let mut rig = with(&THREE, "best-route/v=5");
    let mut nonce = 0;
    let mut ask = |rig: &mut Rig, from| {
        nonce += 1;
        to(&rig.receive(from, &interest("/x", nonce)))
    };
    assert_eq!(ask(&mut rig, 0), [2]);
    rig.wait_ms(9);
    assert!(ask(&mut rig, 1).is_empty(), "within 10 ms");
    rig.wait_ms(2);
    assert_eq!(ask(&mut rig, 0), [3]);
    rig.wait_ms(19);
    assert!(ask(&mut rig, 0).is_empty(), "within 20 ms");
    rig.wait_ms(2);
    assert_eq!(ask(&mut rig, 1), [4]);
    rig.wait_ms(41);
    assert_eq!(ask(&mut rig, 0), [2], "the one asked longest ago");
    rig.wait_ms(81);
    assert_eq!(ask(&mut rig, 0), [3]);
    // The interval grows to 250 ms and no further.
    for expected in [4, 2, 3] {
        rig.wait_ms(249 - 90);
        assert!(ask(&mut rig, 0).is_empty() || expected == 4);
        rig.wait_ms(92);
        let went = ask(&mut rig, 0);
        assert!(went == [expected] || expected == 4, "{went:?}");
    }
}

#[test]
fn best_route_takes_its_intervals_from_its_name() {
    let mut rig = with(&THREE, "best-route/v=5/retx-suppression-initial~100");
    rig.receive(0, &interest("/x", 1));
    rig.wait_ms(99);
    assert!(rig.receive(0, &interest("/x", 2)).is_empty());
    rig.wait_ms(2);
    assert_eq!(to(&rig.receive(0, &interest("/x", 3))), [3]);
}

#[test]
fn multicast_asks_all_and_suppresses_each_by_itself() {
    let mut rig = with(&THREE, "multicast/v=4");
    assert_eq!(to(&rig.receive(0, &interest("/x", 1))), [2, 3, 4]);
    // Not to the face it came from; to faces not used yet.
    assert_eq!(to(&rig.receive(2, &interest("/y", 2))), [3, 4]);
    assert_eq!(to(&rig.receive(0, &interest("/y", 3))), [2]);
    rig.wait_ms(11);
    assert_eq!(to(&rig.receive(0, &interest("/y", 4))), [2, 3, 4]);
    rig.wait_ms(15);
    assert!(rig.receive(0, &interest("/y", 5)).len() <= 1, "20 ms by now, but for the last");
    let nack = Headers { nack: Some(NackReason::NO_ROUTE), ..Headers::default() };
    for from in 2..5 {
        assert!(rig.receive_with(from, &nack, &interest("/x", 1)).is_empty(), "Nacks end here");
    }
    assert_eq!(to(&rig.receive(0, &interest("/x", 6))), [2, 3, 4]);
}

#[test]
fn random_uses_all_next_hops_alike_and_weighted_the_cheap_ones_more() {
    let share = |strategy| {
        let mut rig = with(&[("/", 2, 1), ("/", 3, 1), ("/", 4, 2)], strategy);
        let mut went = [0; 5];
        for i in 0..1_000 {
            for at in to(&rig.receive(0, &interest(&format!("/{i}"), i))) {
                went[at as usize] += 1;
            }
        }
        went
    };
    let random = share("random");
    assert!(random[2..].iter().all(|n| (280..390).contains(n)), "{random:?}");
    let weighted = share("weighted");
    for (at, expected) in [(2, 400i32), (3, 400), (4, 200)] {
        assert!((weighted[at] - expected).abs() <= 3, "{weighted:?}");
    }
}

#[test]
fn strategies_are_chosen_by_the_longest_prefix() {
    let choices = [("/", "best-route"), ("/a", "multicast"), ("/a/b", "best-route/v=5")];
    let mut rig = Rig::with(&[NEAR; 5], plan(&THREE, &choices, &[]), |_| {});
    assert_eq!(to(&rig.receive(0, &interest("/x", 1))), [2]);
    assert_eq!(to(&rig.receive(0, &interest("/a/x", 1))), [2, 3, 4]);
    assert_eq!(to(&rig.receive(0, &interest("/a/b/x", 1))), [2]);
    // A new plan takes effect with the next Interest.
    let next = plan(&THREE, &[("/", "multicast")], &[]).plan;
    rig.forwarder.refresh(&Published::new(Arc::into_inner(next).unwrap()));
    assert_eq!(to(&rig.receive(0, &interest("/y", 1))), [2, 3, 4]);
    assert_eq!(to(&rig.receive(3, &data("/x"))), [] as [u32; 0], "was not asked");
    assert_eq!(to(&rig.receive(2, &data("/x"))), [0]);
}

/// One exchange with ASF, in which hop 2 takes 40 ms and hop 3 10 ms; returns the faces used.
fn exchange(rig: &mut Rig, i: u32) -> Vec<u32> {
    let out = rig.receive(0, &interest(&format!("/p/{i}"), i));
    let asked = to(&out);
    let answer = data(&format!("/p/{i}"));
    for (ms, hop) in [(10, 3), (30, 2)] {
        rig.wait_ms(ms);
        if let Some(sent) = out.iter().find(|s| s.to == face(hop)) {
            rig.receive_with(hop, &sent.headers(), &answer);
        }
    }
    rig.wait_ms(60);
    asked
}

#[test]
fn asf_finds_the_fast_way_by_probing_and_stays_with_it() {
    let mut rig = with(&[("/p", 2, 10), ("/p", 3, 20)], "asf/v=5");
    let mut probes = 0;
    for i in 0..60 {
        let asked = exchange(&mut rig, i);
        assert_eq!(asked[0], if probes == 0 { 2 } else { 3 }, "Interest {i}");
        probes += asked.len() - 1;
    }
    assert_eq!(probes, 1, "within the first 5 s, and then after a minute");
    assert!(rig.fate(2, Fate::Late) == 1 || rig.fate(3, Fate::Late) == 1 || probes == 1);
}

#[test]
fn a_probe_carries_a_nonce_of_its_own() {
    let mut rig = with(&[("/p", 2, 10), ("/p", 3, 20)], "asf");
    let probed = (0..60).find_map(|i| {
        rig.wait_ms(100);
        let out = rig.receive(0, &interest(&format!("/p/{i}"), i));
        (out.len() == 2).then_some((i, out))
    });
    let (i, out) = probed.unwrap();
    assert_eq!(out[0].interest().nonce(), Some(i.to_be_bytes()));
    assert_ne!(out[1].interest().nonce(), Some(i.to_be_bytes()));
}

#[test]
fn asf_leaves_a_way_that_fails() {
    let mut rig = with(&[("/p", 2, 10), ("/p", 3, 20)], "asf/v=5/max-timeouts~2");
    let mut asked = Vec::new();
    for i in 0..5 {
        let out = rig.receive(0, &interest(&format!("/p/{i}"), i));
        asked.push(to(&out)[0]);
        rig.wait_ms(1_100);
    }
    assert_eq!(asked, [2, 2, 3, 3, 2], "two late answers each; then both fail, by cost");
}

#[test]
fn asf_takes_a_nack_for_a_failure_at_once() {
    let mut rig = with(&[("/p", 2, 10), ("/p", 3, 20)], "asf");
    let out = rig.receive(0, &interest("/p/1", 1));
    let nack = Headers { nack: Some(NackReason::NO_ROUTE), ..Headers::default() };
    let back = rig.receive_with(2, &nack, &out[0].packet);
    assert_eq!((to(&back), back[0].nack), (vec![0], Some(NackReason::NO_ROUTE)));
    assert_eq!(to(&rig.receive(0, &interest("/p/2", 2)))[0], 3);
}

#[test]
fn a_straggler_is_measured_within_fifty_milliseconds() {
    // A probe to hop 3 is pending while hop 2 answers: the Interest stays for hop 3's answer.
    let mut rig = with(&[("/p", 2, 10), ("/p", 3, 20)], "asf");
    for i in 0..60 {
        rig.wait_ms(100);
        let text = format!("/p/{i}");
        let out = rig.receive(0, &interest(&text, i));
        assert_eq!(to(&rig.receive(2, &data(&text))), [0]);
        if out.len() == 2 {
            assert_eq!(rig.forwarder.pending(), 1);
            assert!(rig.receive(3, &data(&text)).is_empty());
            assert_eq!((rig.fate(3, Fate::Late), rig.forwarder.pending()), (1, 0));
            return;
        }
        assert_eq!(rig.forwarder.pending(), 0);
    }
    panic!("no probe within six seconds");
}
