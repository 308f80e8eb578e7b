//! Which signers' commands are carried out, and that each is carried out once.

use plexus_ndn::management::{
    ManagementConfig, ManagementCounters, ManagementLimits, Policy, RibLimits, Trust, TrustedKey,
};
use plexus_wire::ndn::nfd::ControlParameters;
use plexus_wire::ndn::signature::SignatureType;
use plexus_wire::ndn::{interest, types};

use crate::node::*;

const REGISTER: &str = "/localhost/nfd/rib/register";

/// Sends a command that has to be refused and counted.
fn refused(rig: &mut Rig, from: u32, packet: &[u8], counter: fn(&ManagementCounters) -> u64) {
    let before = counter(&rig.management.counters());
    let told = rig.respond(from, packet);
    assert_eq!((told.code, told.text.as_str()), (403, "authorization rejected"));
    assert_eq!(counter(&rig.management.counters()), before + 1);
    assert!(rig.node.fib.is_empty(), "nothing was done");
}

#[test]
fn unsigned_and_forged_commands_are_refused() {
    let mut rig = Rig::new();
    let plain = name(REGISTER).with(plexus_wire::ndn::nfd::Record::to_bytes(&of("/a")));
    let repr = interest::Repr::new(plain.as_name());
    let packet = repr.to_bytes().unwrap();
    refused(&mut rig, APP, &packet, |c| c.unsigned);
    let unsigned = repr.with_parameters(b"x", None, sha256).unwrap();
    refused(&mut rig, APP, &unsigned, |c| c.unsigned);

    let good = command(REGISTER, &of("/a"), &Client::at(rig.unix_ms));
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    refused(&mut rig, APP, &changed, |c| c.forged);
    let liar = Client { sign: |_| vec![0; 32], ..Client::at(rig.unix_ms) };
    refused(&mut rig, APP, &command(REGISTER, &of("/a"), &liar), |c| c.forged);
    let short = Client { sign: |_| vec![], ..Client::at(rig.unix_ms) };
    refused(&mut rig, APP, &command(REGISTER, &of("/a"), &short), |c| c.forged);
    // The name has another prefix than was signed.
    let at = good.windows(3).position(|w| w == [8, 1, b'a']).unwrap();
    let mut other = good.clone();
    other[at + 2] = b'b';
    refused(&mut rig, APP, &other, |c| c.forged);
    assert_eq!(rig.respond(APP, &good).code, 200, "and the true one is accepted after all");
}

#[test]
fn a_command_is_carried_out_once() {
    let mut rig = Rig::new();
    let packet = command(REGISTER, &of("/a"), &Client::at(rig.unix_ms));
    assert_eq!(rig.respond(APP, &packet).code, 200);
    rig.command("/localhost/nfd/rib/unregister", &of("/a"));
    refused(&mut rig, APP, &packet, |c| c.replayed);
    rig.pass(119_000);
    refused(&mut rig, APP, &packet, |c| c.replayed);
    rig.pass(2000);
    refused(&mut rig, APP, &packet, |c| c.stale);
}

#[test]
fn commands_may_overtake_each_other_and_come_at_once() {
    let mut rig = Rig::new();
    let client = |rig: &Rig, nonce, before| Client {
        nonce: Some([nonce; 8]),
        ..Client::at(rig.unix_ms - before)
    };
    for (nonce, before) in [(1, 0), (2, 0), (3, 500), (4, 119_999)] {
        let packet = command(REGISTER, &of("/a"), &client(&rig, nonce, before));
        assert_eq!(rig.respond(APP, &packet).code, 200);
    }
}

#[test]
fn commands_from_another_time_are_refused() {
    let mut rig = Rig::new();
    for time_ms in [rig.unix_ms - 120_001, rig.unix_ms + 120_001, 0, u64::MAX] {
        let packet = command(REGISTER, &of("/a"), &Client::at(time_ms));
        refused(&mut rig, APP, &packet, |c| c.stale);
    }
    let timeless = Client { time_ms: None, ..Client::at(0) };
    refused(&mut rig, APP, &command(REGISTER, &of("/a"), &timeless), |c| c.stale);
}

#[test]
fn sequence_numbers_count_up() {
    let mut rig = Rig::new();
    let counted = |n| Client { time_ms: None, seq_num: Some(n), ..Client::at(0) };
    let mut code = |n, from| rig.respond(from, &command(REGISTER, &of("/a"), &counted(n))).code;
    assert_eq!((code(5, APP), code(5, APP), code(4, APP)), (200, 403, 403));
    assert_eq!((code(6, APP), code(1, OTHER)), (200, 200), "each application counts by itself");
}

#[test]
fn remembered_commands_are_bounded_and_allow_no_replay() {
    let limits =
        ManagementLimits { signers: 1, commands_per_signer: 2, ..ManagementLimits::default() };
    let mut rig = Rig::limited(limits);
    let packets: Vec<_> =
        (0..4).map(|i| command(REGISTER, &of("/a"), &Client::at(rig.unix_ms + i))).collect();
    for packet in &packets {
        assert_eq!(rig.respond(APP, packet).code, 200);
    }
    for packet in &packets {
        assert_eq!(rig.respond(APP, packet).code, 403, "two are known, two older than these");
    }
}

#[test]
fn forged_localhost_from_another_machine_is_not_even_answered() {
    let mut rig = Rig::new();
    let packet = command(REGISTER, &of("/a"), &Client::at(rig.unix_ms));
    assert!(rig.interest(NEIGHBOUR, &packet).is_empty());
    let nobody = 200;
    assert!(rig.interest(nobody, &packet).is_empty());
    assert_eq!(rig.management.counters().dropped, 2);
    assert!(rig.node.fib.is_empty());
}

const HOP: &str = "/localhop/nfd/rib/register";
const SECRET: &[u8] = b"between us";

fn by_secret(time_ms: u64) -> Client {
    use hmac::{Hmac, Mac};
    Client {
        kind: SignatureType::HMAC_WITH_SHA256,
        key: Some(name("/secret/KEY/1")),
        sign: |signed| {
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET).unwrap();
            mac.update(signed);
            mac.finalize().into_bytes().to_vec()
        },
        ..Client::at(time_ms)
    }
}

fn trusting(localhop: Policy) -> Rig {
    let keys = vec![TrustedKey::hmac(name("/secret"), SECRET)];
    Rig::trusting(Trust { keys, localhop, ..Trust::default() })
}

#[test]
fn neighbours_command_only_where_they_may() {
    let mut rig = trusting(Policy::Nobody);
    let packet = command(HOP, &of("/a"), &by_secret(rig.unix_ms));
    assert!(rig.interest(NEIGHBOUR, &packet).is_empty(), "not answered at all");

    let mut rig = trusting(Policy::Trusted);
    let digest = command(HOP, &of("/a"), &Client::at(rig.unix_ms));
    refused(&mut rig, NEIGHBOUR, &digest, |c| c.untrusted);
    let stranger = Client { key: Some(name("/stranger")), ..by_secret(rig.unix_ms) };
    refused(&mut rig, NEIGHBOUR, &command(HOP, &of("/a"), &stranger), |c| c.untrusted);
    let forger = Client { sign: |_| vec![1; 32], ..by_secret(rig.unix_ms) };
    refused(&mut rig, NEIGHBOUR, &command(HOP, &of("/a"), &forger), |c| c.forged);
    let other = ControlParameters { face_id: Some(face_id(APP).number()), ..of("/a") };
    let told = rig.respond(NEIGHBOUR, &command(HOP, &other, &by_secret(rig.unix_ms)));
    assert_eq!(told.code, 403, "a neighbour speaks for itself");
    assert!(rig.node.fib.is_empty());
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 200);
    assert_eq!(rig.hops("/a"), [(0, face_id(NEIGHBOUR))]);
    refused_elsewhere(&mut rig);
}

/// Under `/localhop`, only routes can be managed.
fn refused_elsewhere(rig: &mut Rig) {
    for verb in ["/localhop/nfd/faces/create", "/localhop/nfd/rib/list", "/localhop/nfd/cs/erase"] {
        let packet = command(verb, &of("/a"), &by_secret(rig.unix_ms));
        assert!(rig.interest(NEIGHBOUR, &packet).is_empty(), "{verb}");
    }
}

#[test]
fn neighbours_share_half_of_the_table_and_none_has_it_alone() {
    let rib = RibLimits { routes: 80, neighbours: 24, ..Default::default() };
    let limits = ManagementLimits { rib, ..Default::default() };
    let trust = Trust { localhop: Policy::Any, ..Trust::default() };
    let mut rig = Rig::with(ManagementConfig { trust, limits, ..Default::default() });
    let ask = |rig: &mut Rig, from, prefix: &str| {
        rig.pass(1);
        let packet = command(HOP, &of(prefix), &Client::at(rig.unix_ms));
        rig.respond(from, &packet).code
    };
    // A neighbour that asks for everything gets half of the neighbours' share.
    let codes: Vec<u64> =
        (0..40).map(|n| ask(&mut rig, NEIGHBOUR, &format!("/greedy/{n}"))).collect();
    let had = codes.iter().filter(|code| **code == 200).count();
    assert_eq!((had, codes[had..].iter().all(|code| *code == 504)), (12, true), "{codes:?}");
    assert_eq!(ask(&mut rig, NEIGHBOUR, "/greedy/0"), 200, "a change takes no room");
    // Another gets less, and for long names still less.
    const NEXT: u32 = 90;
    rig.neighbour(NEXT);
    let long = "x".repeat(500);
    assert_eq!(ask(&mut rig, NEXT, &format!("/{long}")), 200);
    assert_eq!(ask(&mut rig, NEXT, &format!("/{long}/y")), 504);
    // Applications on this node get the rest.
    for n in 0..30 {
        let told = rig.command_from(APP, REGISTER, &of(&format!("/app/{n}")));
        assert_eq!(told.code, 200, "{n}");
    }
    // Removing a neighbour frees room.
    rig.face_down(face_id(NEIGHBOUR));
    assert_eq!(ask(&mut rig, NEXT, "/again"), 200);
    // However many have taken their share, the next one gets room for one.
    for n in 100..110 {
        rig.neighbour(n);
        let codes: Vec<u64> = (0..20).map(|i| ask(&mut rig, n, &format!("/{n}/{i}"))).collect();
        assert_eq!((codes[0], codes[19]), (200, 504), "{n}");
    }
}

#[test]
fn a_key_is_known_wherever_it_comes_from() {
    let mut rig = trusting(Policy::Trusted);
    let packet = command(HOP, &of("/a"), &by_secret(rig.unix_ms));
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 200);
    let told = rig.respond(OTHER, &packet);
    assert_eq!(told.code, 403, "a replay, though by another face");
    assert_eq!(rig.management.counters().replayed, 1);
}

#[test]
fn other_keys_are_trusted_and_what_was_done_by_those_that_stay_is_not_done_again() {
    let mut rig = trusting(Policy::Trusted);
    let packet = command(HOP, &of("/a"), &by_secret(rig.unix_ms));
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 200);
    let trusted = |keys| Trust { keys, localhop: Policy::Trusted, ..Trust::default() };
    let key = || TrustedKey::hmac(name("/secret"), SECRET);
    // The same key at another index.
    rig.trust(trusted(vec![TrustedKey::hmac(name("/other"), b"more"), key()]));
    rig.node.fib.clear();
    refused(&mut rig, NEIGHBOUR, &packet, |c| c.replayed);
    let next = |rig: &mut Rig, code| {
        rig.pass(1);
        let packet = command(HOP, &of("/b"), &by_secret(rig.unix_ms));
        assert_eq!(rig.respond(NEIGHBOUR, &packet).code, code);
    };
    next(&mut rig, 200);
    rig.trust(trusted(vec![]));
    next(&mut rig, 403);
    rig.trust(trusted(vec![key()]));
    next(&mut rig, 200);
    rig.trust(Trust::default());
    rig.pass(1);
    let packet = command(HOP, &of("/b"), &by_secret(rig.unix_ms));
    assert!(rig.interest(NEIGHBOUR, &packet).is_empty(), "not answered at all");
}

#[test]
fn anyone_here_may_sign_with_any_key_but_not_forge_a_known_one() {
    let mut rig = trusting(Policy::Nobody);
    let stranger = Client { key: Some(name("/stranger")), ..by_secret(rig.unix_ms) };
    let rsa = Client { kind: SignatureType::SHA256_WITH_RSA, ..stranger };
    assert_eq!(rig.respond(APP, &command(REGISTER, &of("/a"), &rsa)).code, 200);
    rig.command("/localhost/nfd/rib/unregister", &of("/a"));
    let forger = Client { sign: |_| vec![1; 32], ..by_secret(rig.unix_ms) };
    refused(&mut rig, APP, &command(REGISTER, &of("/a"), &forger), |c| c.forged);
}

#[test]
fn a_signature_says_where_the_name_ends() {
    let mut rig = Rig::new();
    let good = command(REGISTER, &of("/a"), &Client::at(rig.unix_ms));
    let view = plexus_wire::ndn::Interest::new_checked(&good).unwrap();
    let longer = view.name().to_buf().with("more");
    let repr = interest::Repr { name: longer.as_name(), ..interest::Repr::parse(&view).unwrap() };
    let packet = repr.to_bytes().unwrap();
    refused(&mut rig, APP, &packet, |c| c.unsigned);
    assert_eq!(u32::from(view.name().last().unwrap().kind), types::PARAMETERS_SHA256_DIGEST);
}
