//! Each rule of the pipelines by itself.

use crate::rig::*;
use plexus_ndn::face::{Face, FaceId, Fate, LinkType, Unsent};
use plexus_ndn::forwarder::Arrived;
use plexus_wire::Time;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::{Component, Data, Names, tlv, types};
use sha2::{Digest, Sha256};

const NEAR: Face = Face::NEIGHBOUR;
const APP: Face = Face::APPLICATION;
const SHARED: Face = Face { link: LinkType::MultiAccess, ..NEAR };
const AD_HOC: Face = Face { link: LinkType::AdHoc, ..NEAR };
const FIELDS: Face = Face { local_fields: true, ..APP };

fn nack(reason: NackReason) -> Headers<'static> {
    Headers { nack: Some(reason), ..Headers::default() }
}

fn token(token: &[u8]) -> Headers<'_> {
    Headers { pit_token: Some(token), ..Headers::default() }
}

#[test]
fn an_interest_goes_the_cheapest_way_and_its_data_comes_back_with_the_askers_token() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/a", 1, 20), ("/a", 2, 10)]);
    let asked = interest("/a/b", 7);
    let out = rig.receive_with(0, &token(b"mine"), &asked);
    assert_eq!((to(&out), &out[0].packet), (vec![2], &asked));
    assert_eq!(out[0].token.as_ref().map(Vec::len), Some(8));
    let answer = data("/a/b");
    let back = rig.receive_with(2, &out[0].headers(), &answer);
    assert_eq!((to(&back), &back[0].packet), (vec![0], &answer));
    assert_eq!(back[0].token.as_deref(), Some(&b"mine"[..]));
    // A second copy is unsolicited.
    assert!(rig.receive_with(2, &out[0].headers(), &answer).is_empty());
    assert_eq!(rig.fate(2, Fate::Unsolicited), 1);
}

#[test]
fn data_without_a_token_is_matched_by_name() {
    let plain = Face { pit_tokens: false, ..NEAR };
    let mut rig = Rig::new(&[NEAR, NEAR, plain], &[("/", 2, 0)]);
    let prefix = interest_with("/a", 1, |i| i.can_be_prefix = true);
    assert_eq!(rig.receive(0, &prefix)[0].token, None);
    assert_eq!(to(&rig.receive(1, &interest("/a/b/c", 2))), [2]);
    assert_eq!(to(&rig.receive(1, &interest("/a/b", 3))), [2]);
    let mut faces = to(&rig.receive(2, &data("/a/b/c")));
    faces.sort_unstable();
    assert_eq!(faces, [0, 1]);
    assert_eq!(rig.forwarder.pending(), 1, "/a/b is not answered by a longer name");
}

#[test]
fn all_waiting_faces_but_the_evicted_are_served() {
    let faces = vec![NEAR; 1 + 1024 + 6];
    let ways = plan(&[("/", 0, 0)], &[], &[]);
    let mut rig = Rig::with(&faces, ways, |config| config.pit_capacity = 4096);
    let askers = 1..faces.len() as u32;
    for by in askers.clone() {
        rig.receive(by, &interest("/x", by));
    }
    let asked = rig.forwarder.counters().asked;
    assert_eq!((asked.written, asked.evicted, asked.held()), (1030, 6, 1024));
    let mut served = to(&rig.receive(0, &data("/x")));
    served.sort_unstable();
    // All except those that arrived next after the first.
    assert_eq!(served, askers.filter(|by| !(2..8).contains(by)).collect::<Vec<_>>());
    // A retransmission is answered from the cache.
    assert_eq!(to(&rig.receive(2, &interest("/x", 5000))), [2]);
}

#[test]
fn a_second_face_joins_a_pending_interest_and_is_answered() {
    let mut rig = Rig::new(&[NEAR; 4], &[("/", 3, 0)]);
    let out = rig.receive_with(0, &token(b"a"), &interest("/x", 1));
    assert!(rig.receive_with(1, &token(b"b"), &interest("/x", 2)).is_empty());
    assert!(rig.receive(2, &interest("/x", 3)).is_empty());
    assert_eq!((rig.fate(1, Fate::Waiting), rig.forwarder.pending()), (1, 1));
    // Other selectors are another Interest.
    let fresh = interest_with("/x", 4, |i| i.must_be_fresh = true);
    assert_eq!(to(&rig.receive(0, &fresh)), [3]);
    let mut back = rig.receive_with(3, &out[0].headers(), &data("/x"));
    back.sort_by_key(|s| s.to);
    assert_eq!(to(&back), [0, 1, 2]);
    let tokens: Vec<_> = back.iter().map(|s| s.token.as_deref()).collect();
    assert_eq!(tokens, [Some(&b"a"[..]), Some(b"b"), None]);
}

#[test]
fn expired_interests_are_not_answered() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest_with("/x", 1, |i| i.lifetime_ms = Some(100)));
    rig.receive(1, &interest_with("/x", 2, |i| i.lifetime_ms = Some(500)));
    rig.wait_ms(200);
    assert_eq!(to(&rig.receive(2, &data("/x"))), [1]);
    assert_eq!(rig.forwarder.counters().asked.expired, 1);
    rig.receive(0, &interest_with("/y", 1, |i| i.lifetime_ms = Some(100)));
    let deadline = rig.forwarder.next_deadline().unwrap();
    assert!(deadline >= rig.now && deadline.since(rig.now).as_millis() <= 103);
    rig.wait_ms(103);
    assert_eq!((rig.forwarder.pending(), rig.forwarder.next_deadline()), (0, None));
    assert_eq!(rig.forwarder.counters().unsatisfied, 1);
}

#[test]
fn the_content_store_answers_and_fresh_data_only_while_it_is() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest("/a/b", 1));
    let packet = data_fresh("/a/b", b"x", 1_000);
    rig.receive(2, &packet);
    let hit = rig.receive_with(1, &token(b"t"), &interest("/a/b", 2));
    assert_eq!((to(&hit), &hit[0].packet), (vec![1], &packet));
    assert_eq!(hit[0].token.as_deref(), Some(&b"t"[..]));
    assert_eq!((rig.fate(1, Fate::Answered), rig.forwarder.pending()), (1, 0));
    let fresh = |nonce| interest_with("/a/b", nonce, |i| i.must_be_fresh = true);
    assert_eq!(to(&rig.receive(1, &fresh(3))), [1]);
    rig.wait_ms(1_000);
    assert_eq!(to(&rig.receive(1, &fresh(4))), [2]);
}

#[test]
fn a_prefix_finds_what_came_since_it_was_asked_for() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    let below = |text, nonce| interest_with(text, nonce, |i| i.can_be_prefix = true);
    let deep = data("/a/b/c/d/e/f");
    rig.receive(0, &interest("/a/b/c/d/e/f", 1));
    rig.receive(2, &deep);
    // The first such Interest is forwarded, although the store has a packet.
    assert_eq!(to(&rig.receive(0, &below("/a", 2))), [2]);
    assert_eq!(to(&rig.receive(2, &deep)), [0]);
    assert_eq!(to(&rig.receive(1, &below("/a", 3))), [1]);
    // Data with the token of its own name is recorded for the three longest requested prefixes.
    let prefixes = ["/b", "/b/c", "/b/c/d", "/b/c/d/e"];
    for (prefix, nonce) in prefixes.into_iter().zip(10..) {
        assert_eq!(to(&rig.receive(0, &below(prefix, nonce))), [2]);
    }
    rig.wait_ms(5_000);
    let asked = rig.receive(0, &interest("/b/c/d/e/f", 20))[0].token.clone().unwrap();
    assert_eq!(to(&rig.receive_with(2, &token(&asked), &data("/b/c/d/e/f"))), [0]);
    for ((prefix, nonce), found) in prefixes.into_iter().zip(30..).zip([2, 1, 1, 1]) {
        assert_eq!(to(&rig.receive(1, &below(prefix, nonce))), [found], "{prefix}");
    }
}

#[test]
fn an_interest_without_nonce_gets_one() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let bare = |text| interest_with(text, 0, |i| i.nonce = None);
    let (a, b) = (rig.receive(0, &bare("/a")), rig.receive(0, &bare("/b")));
    let nonces = [a[0].interest().nonce().unwrap(), b[0].interest().nonce().unwrap()];
    assert_ne!(nonces[0], nonces[1]);
    assert_eq!(a[0].interest().name(), name("/a").as_name());
}

#[test]
fn the_hop_limit_is_lowered_and_zero_goes_no_further() {
    let mut rig = Rig::new(&[NEAR, NEAR, APP], &[("/a", 1, 0), ("/b", 2, 0)]);
    let hops = |text, nonce, hops| interest_with(text, nonce, |i| i.hop_limit = Some(hops));
    let asked = hops("/a/1", 1, 5);
    let out = rig.receive(0, &asked);
    assert_eq!(out[0].interest().hop_limit(), Some(4));
    assert_eq!(out[0].packet.len(), asked.len());
    assert!(rig.receive(0, &hops("/a/2", 2, 0)).is_empty());
    assert!(rig.receive(0, &hops("/a/3", 3, 1)).is_empty());
    assert_eq!(rig.fate(0, Fate::NoHopsLeft), 2);
    assert_eq!(rig.forwarder.face_counters(face(1)).unwrap().unsent(Unsent::HopLimit), 1);
    // A local application may still receive it.
    assert_eq!(rig.receive(0, &hops("/b/1", 4, 1))[0].interest().hop_limit(), Some(0));
    assert_eq!(rig.forwarder.pending(), 2);
}

#[test]
fn localhost_does_not_come_from_or_go_to_other_machines() {
    let routes = [("/localhost", 1, 0), ("/localhost/app", 2, 0)];
    let mut rig = Rig::new(&[NEAR, NEAR, APP, APP], &routes);
    let forged = interest("/localhost/nfd/rib/register", 1);
    assert!(rig.receive(0, &forged).is_empty());
    assert!(rig.receive(0, &data("/localhost/app/x")).is_empty());
    assert_eq!(rig.fate(0, Fate::OutOfScope), 2);
    let nack = nack(NackReason::NO_ROUTE);
    rig.receive_with(0, &nack, &forged);
    assert_eq!(rig.fate(0, Fate::OutOfScope), 3);
    let out = rig.receive(3, &interest("/localhost/nfd/x", 2));
    assert_eq!((to(&out), out[0].nack), (vec![3], Some(NackReason::NO_ROUTE)));
    assert_eq!(to(&rig.receive(3, &interest("/localhost/app/x", 3))), [2]);
    assert_eq!(to(&rig.receive(2, &data("/localhost/app/x"))), [3]);
    // A component with the same beginning is another one.
    assert!(to(&rig.receive(0, &interest("/localhosts/x", 4))) == [0]);
}

#[test]
fn localhop_goes_one_hop() {
    let mut rig = Rig::new(&[NEAR, NEAR, APP], &[("/localhop", 1, 0), ("/localhop/app", 2, 0)]);
    assert_eq!(to(&rig.receive(2, &interest("/localhop/x", 1))), [1]);
    let out = rig.receive(0, &interest("/localhop/y", 2));
    assert_eq!((to(&out), out[0].nack), (vec![0], Some(NackReason::NO_ROUTE)));
    assert_eq!(to(&rig.receive(0, &interest("/localhop/app/y", 3))), [2]);
}

#[test]
fn a_nonce_that_comes_back_is_a_loop() {
    let mut rig = Rig::new(&[NEAR, NEAR, SHARED], &[("/", 1, 0)]);
    let asked = interest("/a", 7);
    rig.receive(0, &asked);
    let back = rig.receive_with(1, &token(b"t"), &asked);
    assert_eq!((to(&back), back[0].nack), (vec![1], Some(NackReason::DUPLICATE)));
    assert_eq!((&back[0].packet, back[0].token.as_deref()), (&asked, Some(&b"t"[..])));
    assert!(rig.receive(2, &asked).is_empty());
    assert_eq!(rig.fate(2, Fate::Loop), 1);
    // From the same neighbour it is a retransmission.
    assert!(rig.receive(0, &asked).is_empty());
    assert_eq!(rig.fate(0, Fate::Waiting), 1);
}

#[test]
fn on_a_link_of_several_the_same_nonce_from_there_is_a_loop_too() {
    let mut rig = Rig::new(&[SHARED, NEAR], &[("/", 1, 0)]);
    rig.receive(0, &interest("/a", 7));
    assert!(rig.receive(0, &interest("/a", 7)).is_empty());
    assert_eq!(rig.fate(0, Fate::Loop), 1);
}

#[test]
fn a_nonce_is_remembered_after_its_interest_has_gone() {
    let mut rig = Rig::new(&[NEAR, NEAR], &[("/", 1, 0)]);
    let short = |nonce| interest_with("/a", nonce, |i| i.lifetime_ms = Some(10));
    rig.receive(0, &short(7));
    rig.wait_ms(1_000);
    assert_eq!(rig.forwarder.pending(), 0);
    assert_eq!(rig.receive(0, &short(7))[0].nack, Some(NackReason::DUPLICATE));
    assert_eq!(to(&rig.receive(0, &short(8))), [1]);
    rig.wait_ms(6_500);
    assert_eq!(to(&rig.receive(0, &short(7))), [1]);
}

#[test]
fn data_that_will_be_stale_leaves_its_nonces_dead_and_other_does_not() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let fresh = |text| interest_with(text, 7, |i| i.must_be_fresh = true);
    rig.receive(0, &fresh("/a"));
    rig.receive(1, &data_fresh("/a", b"", 0));
    assert_eq!(rig.receive(0, &fresh("/a"))[0].nack, Some(NackReason::DUPLICATE));
    rig.receive(0, &fresh("/b"));
    rig.receive(1, &data_fresh("/b", b"", 60_000));
    assert!(rig.receive(0, &fresh("/b"))[0].is_data());
}

#[test]
fn without_a_way_there_is_a_nack_but_not_to_links_of_several() {
    let mut rig = Rig::new(&[NEAR, SHARED, AD_HOC], &[("/a", 0, 0), ("/b", 2, 0)]);
    let asked = interest("/none", 1);
    let back = rig.receive_with(0, &token(b"t"), &asked);
    assert_eq!((to(&back), back[0].nack), (vec![0], Some(NackReason::NO_ROUTE)));
    assert_eq!((&back[0].packet, back[0].token.as_deref()), (&asked, Some(&b"t"[..])));
    // The incoming face is no next hop, unless it is ad hoc.
    assert_eq!(rig.receive(0, &interest("/a/x", 2))[0].nack, Some(NackReason::NO_ROUTE));
    assert!(rig.receive(1, &interest("/none", 3)).is_empty());
    assert_eq!(rig.fate(1, Fate::NoRoute), 1);
    assert_eq!(to(&rig.receive(2, &interest("/b/x", 4))), [2]);
    assert_eq!(to(&rig.receive(2, &data("/b/x"))), [2]);
    assert_eq!(rig.forwarder.pending(), 0);
}

#[test]
fn a_group_satisfies_only_interests_sent_to_it() {
    let mut rig = Rig::new(&[NEAR, NEAR, SHARED], &[("/a", 1, 0), ("/b", 2, 0)]);
    let out = rig.receive(0, &interest("/a", 1));
    assert_eq!(to(&out), [1]);
    assert!(rig.receive(2, &data("/a")).is_empty(), "the Interest went to another face");
    assert!(rig.receive_with(2, &out[0].headers(), &data("/a")).is_empty(), "by the token too");
    assert_eq!(rig.fate(2, Fate::Unsolicited), 2);
    assert_eq!(to(&rig.receive(1, &data("/a"))), [0]);
    assert_eq!(to(&rig.receive(0, &interest("/b", 2))), [2]);
    assert_eq!(to(&rig.receive(2, &data("/b"))), [0]);
}

#[test]
fn a_nack_goes_downstream_when_all_upstreams_have_sent_one() {
    let routes = [("/", 2, 0), ("/", 3, 0)];
    let plan = plan(&routes, &[("/", "best-route")], &[]);
    let mut rig = Rig::with(&[NEAR; 4], plan, |_| {});
    let first = rig.receive_with(0, &token(b"a"), &interest("/x", 1));
    rig.wait_ms(20);
    let second = rig.receive_with(1, &token(b"b"), &interest("/x", 2));
    assert_eq!((to(&first), to(&second)), (vec![2], vec![3]));
    assert!(rig.receive_with(2, &nack(NackReason::NO_ROUTE), &first[0].packet).is_empty());
    let reason = nack(NackReason::CONGESTION);
    let mut back = rig.receive_with(3, &reason, &second[0].packet);
    back.sort_by_key(|s| s.to);
    assert_eq!(to(&back), [0, 1]);
    for (sent, (nonce, token)) in back.iter().zip([(1u32, b"a"), (2, b"b")]) {
        assert_eq!(sent.nack, Some(NackReason::CONGESTION), "the least severe");
        assert_eq!(sent.interest().nonce(), Some(nonce.to_be_bytes()), "its own nonce");
        assert_eq!(sent.token.as_deref(), Some(&token[..]));
    }
    assert_eq!(rig.forwarder.pending(), 0);
}

#[test]
fn nacks_that_answer_nothing_are_dropped() {
    let mut rig = Rig::new(&[NEAR, NEAR, SHARED], &[("/", 1, 0)]);
    let asked = interest("/x", 1);
    rig.receive(0, &asked);
    let nack = nack(NackReason::NO_ROUTE);
    let with_parameters = interest_with("/x", 1, |i| i.must_be_fresh = true);
    for (from, packet) in
        [(0, &asked), (1, &interest("/x", 2)), (1, &interest("/y", 1)), (1, &with_parameters)]
    {
        assert!(rig.receive_with(from, &nack, packet).is_empty());
    }
    assert_eq!((rig.fate(0, Fate::NackStray), rig.fate(1, Fate::NackStray)), (1, 3));
    rig.receive_with(2, &nack, &asked);
    assert_eq!(rig.fate(2, Fate::NackFromLink), 1);
    assert_eq!(to(&rig.receive(1, &data("/x"))), [0], "it still waits");
}

#[test]
fn unsolicited_data_is_dropped_even_from_applications() {
    let mut rig = Rig::new(&[APP, NEAR], &[("/", 1, 0)]);
    for (from, name) in [(0, "/a"), (1, "/b")] {
        assert!(rig.receive(from, &data(name)).is_empty());
        assert_eq!(rig.fate(from, Fate::Unsolicited), 1);
        assert!(!rig.receive(0, &interest(name, 1))[0].is_data());
    }
}

#[test]
fn a_neighbour_that_was_not_asked_cannot_answer_and_poisons_no_cache() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 1, 0)]);
    let out = rig.receive(0, &interest("/x", 1));
    let poison = data_fresh("/x", b"poison", 60_000);
    for headers in [Headers::default(), out[0].headers()] {
        assert!(rig.receive_with(2, &headers, &poison).is_empty());
    }
    // Nor can the face that sent the Interest.
    assert!(rig.receive(0, &poison).is_empty());
    assert_eq!((rig.fate(2, Fate::Unsolicited), rig.fate(0, Fate::Unsolicited)), (2, 1));
    // A token does not make another name match.
    assert!(rig.receive_with(1, &out[0].headers(), &data("/y")).is_empty());
    let answer = data("/x");
    assert_eq!(rig.receive(1, &answer)[0].packet, answer);
    assert_eq!(rig.receive(0, &interest("/x", 2))[0].packet, answer);
}

#[test]
fn an_implicit_digest_is_answered_by_that_data_alone() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let (right, wrong) = (data_fresh("/x", b"right", 0), data_fresh("/x", b"wrong", 0));
    let digest: [u8; 32] = Sha256::digest(&right).into();
    let mut full = name("/x");
    full.push(Component { kind: types::IMPLICIT_SHA256_DIGEST as u16, value: &digest }).unwrap();
    let text = full.to_string();
    let out = rig.receive(0, &interest(&text, 1));
    assert!(rig.receive_with(1, &out[0].headers(), &wrong).is_empty());
    assert!(rig.receive(1, &wrong).is_empty());
    assert_eq!(rig.receive(1, &right)[0].packet, right);
    assert_eq!(rig.receive(0, &interest(&text, 2))[0].packet, right, "from the store");
    rig.receive(0, &interest_with("/x", 3, |i| i.must_be_fresh = true));
    rig.receive(1, &wrong);
    assert!(!rig.receive(0, &interest(&text, 4))[0].is_data(), "the store has another now");
}

/// The elements of a forwarding hint.
fn hint(text: &str) -> &'static [u8] {
    let name = name(text);
    let mut hint = vec![0; name.as_name().encoded_len()];
    name.as_name().write(&mut tlv::Writer::new(&mut hint));
    hint.leak()
}

#[test]
fn a_hint_leads_until_the_interest_is_where_it_leads() {
    let hint = hint("/isp");
    let hinted = |nonce| {
        interest_with("/a/x", nonce, |i| {
            i.forwarding_hint = Names::new_checked(hint).unwrap();
            i.hop_limit = Some(9);
        })
    };
    let routes = [("/isp", 1, 0), ("/a", 2, 0)];
    let mut rig = Rig::new(&[NEAR; 3], &routes);
    let out = rig.receive(0, &hinted(1));
    assert_eq!(to(&out), [1]);
    assert!(!out[0].interest().forwarding_hint().is_empty());
    // Without the hint it is another Interest; Data satisfies both.
    assert_eq!(to(&rig.receive(0, &interest("/a/x", 2))), [2]);
    assert_eq!(to(&rig.receive(1, &data("/a/x"))), [0]);

    let mut rig = Rig::with(&[NEAR; 3], plan(&routes, &[], &["/isp/here"]), |_| {});
    let out = rig.receive(0, &hinted(1));
    assert_eq!(to(&out), [2]);
    let sent = out[0].interest();
    assert!(sent.forwarding_hint().is_empty());
    assert_eq!((sent.nonce(), sent.hop_limit()), (Some([0, 0, 0, 1]), Some(8)));
}

#[test]
fn an_application_may_name_the_next_hop_if_it_asked_for_that() {
    let mut rig = Rig::new(&[APP, FIELDS, NEAR, NEAR], &[("/", 2, 0)]);
    let to_3 = Headers { next_hop_face: Some(face(3).number()), ..Headers::default() };
    assert_eq!(to(&rig.receive_with(0, &to_3, &interest("/a", 1))), [2]);
    assert_eq!(to(&rig.receive_with(2, &to_3, &interest("/b", 1))), [2], "a neighbour may not");
    assert_eq!(to(&rig.receive_with(1, &to_3, &interest("/c", 1))), [3]);
    let nowhere = Headers { next_hop_face: Some(99_999), ..Headers::default() };
    assert!(rig.receive_with(1, &nowhere, &interest("/d", 1)).is_empty());
    assert_eq!(rig.fate(1, Fate::NoNextHop), 1);
}

#[test]
fn an_application_hears_where_packets_come_from_if_it_asked_for_that() {
    let mut rig = Rig::new(&[FIELDS, NEAR, FIELDS], &[("/a", 1, 0), ("/b", 2, 0), ("/c", 1, 0)]);
    rig.receive(0, &interest("/a", 1));
    assert_eq!(rig.receive(1, &data("/a"))[0].incoming_face, Some(face(1).number()));
    assert_eq!(rig.receive(0, &interest("/a", 2))[0].incoming_face, Some(254), "from the store");
    let out = rig.receive(1, &interest("/b", 3));
    assert_eq!(out[0].incoming_face, Some(face(1).number()));
    assert_eq!(rig.receive(2, &data("/b"))[0].incoming_face, None, "not told to others");
    // NoCache from any face is obeyed, as with NFD.
    let keep_not = Headers { no_cache: true, ..Headers::default() };
    rig.receive(1, &interest("/b/1", 4));
    rig.receive_with(2, &keep_not, &data("/b/1"));
    assert!(!rig.receive(1, &interest("/b/1", 5))[0].is_data());
    rig.receive(2, &interest("/c/1", 6));
    rig.receive_with(1, &keep_not, &data("/c/1"));
    assert!(!rig.receive(2, &interest("/c/1", 7))[0].is_data());
}

#[test]
fn congestion_marks_are_copied() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let marked = Headers { congestion_mark: Some(1), ..Headers::default() };
    assert_eq!(rig.receive_with(0, &marked, &interest("/a", 1))[0].mark, Some(1));
    assert_eq!(rig.receive_with(1, &marked, &data("/a"))[0].mark, Some(1));
    assert_eq!(rig.receive(0, &interest("/a", 2))[0].mark, None, "the store is not congested");
}

#[test]
fn a_removed_face_and_its_successor_get_nothing() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest("/a", 1));
    rig.receive(1, &interest("/a", 2));
    assert!(rig.forwarder.remove_face(face(0)).is_some());
    let successor = plexus_ndn::face::FaceId::new(0, 1).unwrap();
    rig.forwarder.add_face(successor, NEAR);
    assert_eq!(to(&rig.receive(2, &data("/a"))), [1]);
    let mut log = Log::default();
    rig.forwarder.receive(rig.now, face(0), &Headers::default(), &interest("/b", 1), &mut log);
    assert_eq!((log.0.len(), rig.forwarder.counters().unknown_face), (0, 1));
    assert_eq!(rig.forwarder.counters().asked.withdrawn, 1);
}

#[test]
fn what_a_gone_face_asked_for_ends_soon_and_others_still_get_it() {
    let hour = |i: u32, nonce| {
        interest_with(&format!("/a/{i}"), nonce, |r| r.lifetime_ms = Some(3_600_000))
    };
    let mut rig = Rig::with(&[NEAR; 3], plan(&[("/", 2, 0)], &[], &[]), |c| c.pit_capacity = 4096);
    // The first is alone in most, then waits with the second, which asks before it or after.
    for i in 0..1000 {
        let order = if i % 20 == 0 { [1, 0] } else { [0, 1] };
        let both = if i % 10 == 0 { 2 } else { 1 };
        order[..both].iter().for_each(|by| _ = rig.receive(*by, &hour(i, 2 * i + by)));
    }
    assert_eq!((rig.forwarder.pending(), rig.forwarder.counters().asked.held()), (1000, 1100));
    assert_ne!(rig.forwarder.next_deadline(), Some(rig.now));
    rig.forwarder.remove_face(face(0)).unwrap();
    // A few at a time, by ticks alone: packets do not wait for it.
    let successor = FaceId::new(0, 1).unwrap();
    rig.forwarder.add_face(successor, NEAR);
    rig.receive(1, &hour(0, 5000));
    assert_eq!((rig.forwarder.pending(), rig.forwarder.next_deadline()), (1000, Some(rig.now)));
    let mut ticks = 0;
    let mut before = 1000;
    while rig.forwarder.next_deadline() == Some(rig.now) {
        rig.wait_ms(0);
        assert!(before - rig.forwarder.pending() <= 256, "{before}");
        (before, ticks) = (rig.forwarder.pending(), ticks + 1);
    }
    assert_eq!((before, ticks), (100, 4));
    let counters = *rig.forwarder.counters();
    assert_eq!((counters.asked.held(), counters.asked.withdrawn), (100, 1000));
    assert_eq!((counters.asked.replaced, counters.unsatisfied), (1, 900));
    // Who waits too gets it, and nobody else.
    for i in (0..1000).step_by(10) {
        assert_eq!(to(&rig.receive(2, &data(&format!("/a/{i}")))), [1], "{i}");
    }
    assert!(rig.receive(2, &data("/a/1")).is_empty());
    assert_eq!(rig.forwarder.counters().satisfied, 100);
    assert_eq!((rig.forwarder.pending(), rig.forwarder.next_deadline()), (0, None));
}

#[test]
fn an_entry_waits_no_longer_than_the_face_that_is_left_in_it() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest_with("/x", 1, |i| i.lifetime_ms = Some(3_600_000)));
    rig.receive(1, &interest_with("/x", 2, |i| i.lifetime_ms = Some(100)));
    rig.forwarder.remove_face(face(0)).unwrap();
    rig.wait_ms(0);
    assert_eq!(rig.forwarder.pending(), 1);
    rig.wait_ms(103);
    let asked = rig.forwarder.counters().asked;
    assert_eq!((rig.forwarder.pending(), asked.withdrawn, asked.expired), (0, 1, 1));
}

#[test]
fn an_entry_whose_last_face_waits_no_longer_ends_at_once() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest_with("/x", 1, |i| i.lifetime_ms = Some(3_600_000)));
    rig.receive(1, &interest_with("/x", 2, |i| i.lifetime_ms = Some(100)));
    rig.wait_ms(200);
    rig.forwarder.remove_face(face(0)).unwrap();
    rig.wait_ms(0);
    let asked = rig.forwarder.counters().asked;
    assert_eq!((rig.forwarder.pending(), asked.withdrawn, asked.expired), (0, 1, 1));
}

#[test]
fn a_number_that_comes_again_at_once_is_not_answered_what_it_asked_before() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    rig.receive(0, &interest("/a", 1));
    rig.forwarder.remove_face(face(0)).unwrap();
    rig.forwarder.add_face(face(0), NEAR);
    assert!(rig.receive(2, &data("/a")).is_empty());
    assert_eq!(rig.forwarder.counters().asked.withdrawn, 1);
}

#[test]
fn a_batch_is_the_same_as_one_packet_after_the_other() {
    let mut packets = Vec::new();
    for i in 0..50 {
        packets.push((0, interest(&format!("/a/{}", i % 20), i)));
        packets.push((
            1,
            interest_with(&format!("/b/{i}"), i, |r| r.hop_limit = Some(1 + i as u8 % 2)),
        ));
        packets.push((0, interest_with(&format!("/c/{i}"), 0, |r| r.nonce = None)));
        packets.push((2, data(&format!("/a/{}", i % 7))));
        packets.push((2, vec![5, 1, 7]));
        packets.push((2, data(&format!("/none/{i}"))));
    }
    let rig = || Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    let (mut one, mut all) = (rig(), rig());
    let headers = Headers::default();
    let (mut first, mut second) = (Log::default(), Log::default());
    for (from, packet) in &packets {
        one.forwarder.receive(one.now, face(*from), &headers, packet, &mut first);
    }
    let arrived = |at: usize| {
        let (from, packet) = &packets[at];
        Arrived { face: face(*from), headers, packet }
    };
    let batch: Vec<_> = (0..packets.len()).map(arrived).collect();
    all.forwarder.receive_batch(all.now, &batch, &mut second);
    assert_eq!(first.0, second.0);
    assert!(first.0.len() > 100);

    // Answers carry tokens, between Interests whose names are hashed separately.
    let sent: Vec<Sent> = std::mem::take(&mut first.0);
    second.0.clear();
    let asked = sent.iter().filter(|s| s.to == face(2) && !s.is_data());
    let answers: Vec<_> = asked.map(|s| data(&s.interest().name().to_string())).collect();
    let asked = sent.iter().filter(|s| s.to == face(2) && !s.is_data());
    let mut arrived = Vec::new();
    let long: Vec<_> = (0..answers.len() as u32)
        .map(|i| match i % 3 {
            0 => interest(&format!("/{i}/{}", "long".repeat(60)), i),
            1 => interest(&format!("/{i}{}", "/a".repeat(30)), i),
            _ => interest(&format!("/{i}{}", "/a".repeat(40)), i),
        })
        .collect();
    for ((sent, answer), long) in asked.zip(&answers).zip(&long) {
        arrived.push(Arrived { face: face(2), headers: sent.headers(), packet: answer });
        arrived.push(Arrived { face: face(0), headers, packet: long });
    }
    for Arrived { face, headers, packet } in &arrived {
        one.forwarder.receive(one.now, *face, headers, packet, &mut first);
    }
    all.forwarder.receive_batch(all.now, &arrived, &mut second);
    assert_eq!(first.0, second.0);
    assert!(first.0.len() > answers.len());

    for place in 0..3 {
        let counters = |rig: &Rig| *rig.forwarder.face_counters(face(place)).unwrap();
        assert_eq!(counters(&one), counters(&all));
    }
    all.check();
}

#[test]
fn data_whose_name_has_an_implicit_digest_is_refused() {
    let digest = format!("sha256digest={}", "00".repeat(32));
    for text in [format!("/a/{digest}"), format!("/a/{digest}/b")] {
        let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
        let asked = rig.receive(0, &interest(&text, 1))[0].token.clone().unwrap();
        assert!(Data::new_checked(&data(&text)).is_err());
        assert!(rig.receive_with(1, &token(&asked), &data(&text)).is_empty());
        assert_eq!(rig.fate(1, Fate::Malformed), 1);
    }
}

#[test]
fn broken_packets_are_counted_and_nothing_else() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let (asked, answer) = (interest("/a/b", 1), data("/a/b"));
    let nack = nack(NackReason::NO_ROUTE);
    let mut broken: Vec<(Headers<'_>, &[u8])> = vec![(Headers::default(), &[]), (nack, &answer)];
    for packet in [&asked, &answer] {
        broken.extend((1..packet.len()).map(|len| (Headers::default(), &packet[..len])));
    }
    broken.extend((1..asked.len()).map(|len| (nack, &asked[..len])));
    broken.push((Headers::default(), &[7, 1, 0]));
    for (headers, packet) in &broken {
        assert!(rig.receive_with(0, headers, packet).is_empty());
    }
    assert_eq!(rig.fate(0, Fate::Malformed), broken.len() as u64);
    assert_eq!(rig.forwarder.pending(), 0);
}

#[test]
fn names_of_any_length_pass_and_those_beyond_16_bits_are_dropped() {
    let plan = plan(&[("/", 1, 0)], &[], &[]);
    let mut rig = Rig::with(&[NEAR; 2], plan, |c| c.pit_capacity = 1024);
    let many: String = (0..2_000).map(|i| format!("/{i}")).collect();
    for text in [format!("/{}", "x".repeat(1_500)), many.clone()] {
        let prefix = text.len() > 2_000;
        let asked = interest_with(&text, 1, |i| i.can_be_prefix = prefix);
        let out = rig.receive(0, &asked);
        assert_eq!((to(&out), out.len()), (vec![1], 1), "no room for {}", text.len());
        let longer = if prefix { format!("{text}/more") } else { text };
        assert_eq!(to(&rig.receive(1, &data(&longer))), [0]);
    }
    let huge = format!("/{}", "x".repeat(70_000));
    assert!(rig.receive(0, &interest(&huge, 1)).is_empty());
    assert_eq!(rig.fate(0, Fate::NameTooLong), 1);
}

#[test]
fn time_jumps_expire_entries_and_backward_steps_are_ignored() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    rig.receive(0, &interest("/a", 1));
    rig.now = Time::ZERO;
    assert!(rig.receive(0, &interest("/a", 2)).is_empty());
    rig.now = Time::FOREVER;
    rig.forwarder.tick(rig.now);
    assert_eq!(rig.forwarder.pending(), 0);
    rig.receive(0, &interest("/b", 1));
    assert_eq!(to(&rig.receive(1, &data("/b"))), [] as [u32; 0]);
    rig.now = Time::ZERO;
    rig.forwarder.tick(rig.now);
    rig.check();
    // Its time is past the end of all time.
    std::mem::forget(rig);
}

#[test]
fn a_flood_of_names_that_do_not_exist_leaves_others_served() {
    let mut rig = Rig::new(&[NEAR; 4], &[("/", 3, 0)]);
    let mut waiting = Vec::new();
    for i in 0..10 {
        waiting.push(rig.receive(0, &interest(&format!("/good/{i}"), i)).remove(0));
    }
    for i in 0..5_000 {
        let from = 1 + i % 2;
        assert_eq!(to(&rig.receive(from, &interest(&format!("/bad/{i}"), i))), [3]);
    }
    assert!(rig.forwarder.pending() < 64);
    for (i, sent) in waiting.iter().enumerate() {
        let back = rig.receive_with(3, &sent.headers(), &data(&format!("/good/{i}")));
        assert_eq!(to(&back), [0]);
    }
    // The flooding face still gets its latest Interests answered.
    assert_eq!(to(&rig.receive(3, &data("/bad/4999"))), [2]);
    let asked = rig.forwarder.counters().asked;
    assert!(asked.evicted > 4_900 && asked.held() > 0, "{asked:?}");
}

#[test]
fn a_flooding_face_loses_its_own_records_and_not_those_of_others() {
    let mut rig = Rig::new(&[NEAR; 4], &[("/", 3, 0)]);
    // It was the first to request what others want.
    let sent = rig.receive(1, &interest("/wanted", 1)).remove(0);
    assert!(rig.receive(0, &interest("/wanted", 2)).is_empty());
    for i in 0..5_000 {
        rig.receive(1, &interest(&format!("/bad/{i}"), i));
    }
    assert_eq!(to(&rig.receive_with(3, &sent.headers(), &data("/wanted"))), [0]);
}

#[test]
fn hints_in_all_variations_leave_the_plain_name_to_others() {
    let mut rig = Rig::new(&[NEAR; 3], &[("/", 2, 0)]);
    for i in 0..100 {
        let hint = hint(&format!("/hint/{i}"));
        let asked = interest_with("/wanted", i, |i| {
            i.forwarding_hint = Names::new_checked(hint).unwrap();
        });
        rig.receive(1, &asked);
    }
    assert_eq!(to(&rig.receive(0, &interest("/wanted", 1_000))), [2]);
}

#[test]
fn data_twice_in_a_batch_satisfies_an_interest_once() {
    let mut rig = Rig::new(&[NEAR; 2], &[("/", 1, 0)]);
    let out = rig.receive(0, &interest("/a/b", 1));
    // CanBePrefix, of the same name and of a shorter one: the token belongs to one entry.
    let prefix = |text, nonce| interest_with(text, nonce, |i| i.can_be_prefix = true);
    rig.receive(0, &prefix("/a/b", 2));
    rig.receive(0, &prefix("/a", 3));
    let (answer, from) = (data("/a/b"), face(1));
    let (headers, packet) = (out[0].headers(), &answer[..]);
    let batch = [Arrived { face: from, headers, packet }; 3];
    let mut log = Log::default();
    rig.forwarder.receive_batch(rig.now, &batch, &mut log);
    rig.check();
    // The second is matched by its name, and the third is unsolicited.
    assert_eq!((to(&log.0), rig.fate(1, Fate::Unsolicited)), (vec![0, 0], 1));
    assert_eq!(rig.forwarder.pending(), 0);
}
