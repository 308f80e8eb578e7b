//! Impostors, and messages that were altered or forged.

use std::time::Duration;

use crate::common::{
    GROUP, authority, channel, channel_as, connected, exchange, identity_by, node, say, with_limits,
};
use plexus_control::identity::{Authority, Credential, KeyPair, Role};
use plexus_control::session::frame::{MESSAGE_LEN_MAX, Message};
use plexus_control::session::{Channel, Limits, RESPONDER_TIME, Refused, RoleWanted, SealError};
use plexus_wire::Time;
use proptest::prelude::*;

const NOW: Time = Time::from_secs(100);

/// Both begin; returns each side's refusals.
fn refusals(mut a: Channel, mut b: Channel) -> Vec<Refused> {
    let first = a.start(NOW);
    let mut all = exchange(NOW, &mut a, &mut b, first);
    a.stop();
    let first = b.start(NOW);
    all.extend(exchange(NOW, &mut b, &mut a, first));
    assert!(a.peer().is_none() || b.peer().is_none(), "one of them refused the other");
    all
}

#[test]
fn a_node_is_no_controller() {
    let controller = || identity_by(&authority(), 9, Role::Controller);
    let wants_controller = channel_as(node(1), RoleWanted::Controller, 1);
    assert!(refusals(wants_controller, channel(2, 1)).contains(&Refused::Role));
    let wants_node = channel_as(node(1), RoleWanted::Node, 1);
    let other = channel_as(controller(), RoleWanted::Any, 1);
    assert!(refusals(wants_node, other).contains(&Refused::Role));
    let mut a = channel_as(node(1), RoleWanted::Controller, 1);
    let mut b = channel_as(controller(), RoleWanted::Node, 1);
    let first = a.start(NOW);
    assert_eq!(exchange(NOW, &mut a, &mut b, first), []);
    assert_eq!(a.peer().unwrap().credential.claims().role, Role::Controller);
}

#[test]
fn a_credential_of_another_authority_is_refused() {
    let pretender = Authority::new(GROUP, &[2; 32]);
    let other = channel_as(identity_by(&pretender, 2, Role::Node), RoleWanted::Any, 1);
    assert!(refusals(channel(1, 1), other).iter().all(|r| *r == Refused::Signature));
}

#[test]
fn another_group_is_refused() {
    let elsewhere = Authority::new([8; 16], &[1; 32]);
    let other = channel_as(identity_by(&elsewhere, 2, Role::Node), RoleWanted::Any, 1);
    assert_eq!(refusals(channel(1, 1), other), [Refused::Authentication; 2]);
}

#[test]
fn our_own_identity_is_recognised() {
    // A cable from one port of the box to another.
    let (a, b) = (channel_as(node(1), RoleWanted::Any, 1), channel_as(node(1), RoleWanted::Any, 2));
    assert_eq!(refusals(a, b), [Refused::OwnIdentity; 2]);
    // A plug that connects a port to itself.
    let mut a = channel(1, 1);
    let first = a.start(NOW);
    assert_eq!(a.handle(NOW, &first), Err(Refused::OwnIdentity));
    // A node number assigned twice.
    let keys = KeyPair::generate(&[0x99; 32]);
    let twin = authority().issue(1, "twin", Role::Node, &keys.public).unwrap();
    let twin = plexus_control::identity::Identity::new(twin, keys, authority().public()).unwrap();
    let twin = channel_as(twin.into(), RoleWanted::Any, 3);
    assert_eq!(refusals(channel(1, 1), twin), [Refused::OwnIdentity; 2]);
}

#[test]
fn a_second_identity_cannot_displace_a_live_peer() {
    let (mut a, mut b) = connected(1);
    let mut c = channel(3, 1);
    let first = c.start(NOW);
    assert_eq!(exchange(NOW, &mut c, &mut a, first), [Refused::OtherPeer]);
    let first = a.start(NOW);
    let replies = exchange(NOW, &mut a, &mut c, first);
    assert_eq!(replies, [Refused::OtherPeer]);
    assert_eq!(a.refusals().get(Refused::OtherPeer), 2);
    assert_eq!(a.peer().unwrap().credential.claims().node, 2);
    assert_eq!(say(NOW, &mut a, &mut b, b"still here"), Some(b"still here".to_vec()));
    // Once the caller gives up the old peer, the new one is accepted.
    (a, c) = (channel(1, 5), channel(3, 5));
    let first = c.start(NOW);
    assert_eq!(exchange(NOW, &mut c, &mut a, first), []);
}

/// An attacker that speaks Noise with a key of its own and presents arbitrary credentials.
struct Rogue(snow::HandshakeState);

impl Rogue {
    fn new() -> Rogue {
        let prologue = [&b"plexus fabric 1"[..], &GROUP].concat();
        let params = "Noise_XX_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
        let builder = snow::Builder::with_resolver(params, Box::new(Fixed));
        let builder = builder.local_private_key(&[0x77; 32]).unwrap();
        Rogue(builder.prologue(&prologue).unwrap().build_initiator().unwrap())
    }

    fn hello(&mut self, step: u8, receiver: u32, payload: &[u8]) -> Vec<u8> {
        let mut noise = [0; 2000];
        let len = self.0.write_message(payload, &mut noise).unwrap();
        let mut out = vec![1, 1];
        out.extend((14 + len as u16).to_be_bytes());
        out.extend([step, 0, 0, 0, 0, 5]);
        out.extend(receiver.to_be_bytes());
        out.extend(&noise[..len]);
        out
    }

    /// The victim's reason for refusing this payload, given its number of the session.
    fn tries(&mut self, payload: impl FnOnce(u32) -> Vec<u8>) -> Refused {
        let mut victim = channel(1, 1);
        let first = self.hello(1, 0, &[]);
        let second = victim.handle(NOW, &first).unwrap().reply.unwrap();
        let Ok(Message::Hello(second)) = Message::decode(&second) else { panic!("a Hello") };
        self.0.read_message(second.noise, &mut [0; 2000]).unwrap();
        let third = self.hello(3, second.sender, &payload(second.sender));
        let refused = victim.handle(NOW, &third).unwrap_err();
        assert!(victim.peer().is_none() && victim.refusals().get(refused) == 1);
        // The attempt is over.
        assert_eq!(victim.handle(NOW, &third), Err(Refused::UnknownSession));
        refused
    }
}

struct Fixed;

impl snow::types::Random for Fixed {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        dest.fill(0x33);
        Ok(())
    }
}

impl snow::resolvers::CryptoResolver for Fixed {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        Some(Box::new(Fixed))
    }

    fn resolve_dh(&self, choice: &snow::params::DHChoice) -> Option<Box<dyn snow::types::Dh>> {
        snow::resolvers::DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(
        &self,
        choice: &snow::params::HashChoice,
    ) -> Option<Box<dyn snow::types::Hash>> {
        snow::resolvers::DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(
        &self,
        choice: &snow::params::CipherChoice,
    ) -> Option<Box<dyn snow::types::Cipher>> {
        snow::resolvers::DefaultResolver.resolve_cipher(choice)
    }
}

fn payload(ids: [u32; 2], credential: &Credential, facts: &[u8]) -> Vec<u8> {
    let ids = ids.map(u32::to_be_bytes).concat();
    [&ids[..], &credential.encode(), facts].concat()
}

#[test]
fn a_credential_for_another_key_is_refused() {
    let stolen = identity_by(&authority(), 2, Role::Controller).credential().clone();
    let tried = Rogue::new().tries(|id| payload([5, id], &stolen, &[]));
    assert_eq!(tried, Refused::KeyMismatch);
    // Even with our own credential, which is public.
    let ours = node(1).credential().clone();
    let tried = Rogue::new().tries(|id| payload([5, id], &ours, &[]));
    assert_eq!(tried, Refused::KeyMismatch);
}

#[test]
fn a_proved_key_needs_a_valid_credential() {
    let public = KeyPair::generate(&[0x77; 32]).public;
    let issued_by = |a: &Authority| a.issue(5, "s5", Role::Node, &public).unwrap();
    let good = issued_by(&authority());
    let tries = |payload: &dyn Fn(u32) -> Vec<u8>| Rogue::new().tries(payload);
    let elsewhere = issued_by(&Authority::new([8; 16], &[1; 32]));
    assert_eq!(tries(&|id| payload([5, id], &elsewhere, &[])), Refused::Group);
    let unknown = issued_by(&Authority::new(GROUP, &[2; 32]));
    assert_eq!(tries(&|id| payload([5, id], &unknown, &[])), Refused::Signature);
    assert_eq!(tries(&|id| payload([6, id], &good, &[])), Refused::Authentication);
    assert_eq!(tries(&|id| payload([5, id + 1], &good, &[])), Refused::Authentication);
    assert_eq!(tries(&|id| payload([5, id], &good, &[0; 513])), Refused::Facts);
    let cut = |id| payload([5, id], &good, &[])[..100].to_vec();
    assert_eq!(tries(&cut), Refused::Credential);
    assert_eq!(tries(&|_| vec![0; 7]), Refused::Malformed);
    let promoted = |id| {
        let mut bytes = payload([5, id], &good, &[]);
        bytes[9] = 2;
        bytes
    };
    assert_eq!(tries(&promoted), Refused::Signature);
}

/// The three Hellos of a handshake, and the state of the channels before the given one arrives.
fn before_step(step: usize) -> (Channel, Channel, Vec<u8>) {
    let (mut a, mut b) = (channel(1, 4), channel(2, 4));
    let mut message = a.start(NOW);
    for n in 1..step {
        let receiver = if n % 2 == 1 { &mut b } else { &mut a };
        message = receiver.handle(NOW, &message).unwrap().reply.unwrap();
    }
    (a, b, message)
}

#[test]
fn a_hello_with_any_bit_flipped_makes_no_session_and_stops_none() {
    for step in 1..=3 {
        let (mut a, mut b, good) = before_step(step);
        for bit in 0..good.len() * 8 {
            // Time passes, so that the budget for public-key operations is never exhausted.
            let now = NOW + Duration::from_millis(bit as u64 / 8);
            if bit % 8 == 0 {
                (a, b, _) = before_step(step);
            }
            let mut altered = good.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let first = if step % 2 == 1 { &mut b } else { &mut a };
            match first.handle(now, &altered) {
                // A first message cannot be verified: its answer is useless.
                Ok(handled) if step == 1 => {
                    let answer = handled.reply.expect("step 2");
                    assert!(a.handle(now, &answer).is_err(), "bit {bit}");
                }
                Ok(handled) => panic!("step {step}, bit {bit}: {handled:?}"),
                Err(_) => {}
            }
            assert!(a.peer().is_none() && b.peer().is_none());
        }
        let now = NOW + Duration::from_secs(1);
        let (from, to) = if step % 2 == 1 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        exchange(now, from, to, good);
        assert!(a.fingerprint().is_some() && a.fingerprint() == b.fingerprint(), "step {step}");
    }
}

#[test]
fn a_flood_of_first_hellos_costs_a_bounded_number_of_answers_and_no_session() {
    let (mut a, mut b) = connected(2);
    let (mut answered, mut busy) = (0, 0);
    for seed in 0..500 {
        match b.handle(NOW, &channel(3, seed).start(NOW)) {
            Ok(handled) => answered += usize::from(handled.reply.is_some()),
            Err(refused) => busy += usize::from(refused == Refused::Busy),
        }
    }
    assert!((1..=64).contains(&answered) && answered + busy == 500, "{answered} {busy}");
    assert_eq!(say(NOW, &mut a, &mut b, b"unmoved"), Some(b"unmoved".to_vec()));
    // When it ends, handshakes succeed again.
    let later = NOW + RESPONDER_TIME;
    let first = a.start(later);
    assert_eq!(exchange(later, &mut a, &mut b, first), []);
}

#[test]
fn a_flood_of_first_hellos_leaves_later_steps_their_budget() {
    let (mut a, mut b, second) = before_step(2);
    let flood = (0..500).map(|seed| a.handle(NOW, &channel(3, seed).start(NOW)));
    assert!(flood.filter(|handled| *handled == Err(Refused::Busy)).count() > 0);
    assert_eq!(exchange(NOW, &mut b, &mut a, second), []);
    assert!(a.fingerprint().is_some() && a.fingerprint() == b.fingerprint());
}

#[test]
fn a_forged_first_hello_does_not_stop_ours() {
    // Whether the forged key is larger or smaller, the honest peer gets through.
    for seed in 0..40 {
        let (mut a, mut b) = (channel(1, seed), channel(2, seed));
        let hello = a.start(NOW);
        let forged = channel(9, seed).start(NOW);
        let _ = a.handle(NOW, &forged);
        let _ = b.handle(NOW, &forged);
        assert_eq!(exchange(NOW, &mut a, &mut b, hello), []);
        assert!(a.fingerprint().is_some() && a.fingerprint() == b.fingerprint(), "seed {seed}");
    }
}

#[test]
fn a_forged_first_hello_in_the_middle_of_a_handshake_only_delays_it() {
    let (mut a, mut b, third) = before_step(3);
    b.handle(NOW, &channel(9, 1).start(NOW)).unwrap();
    assert_eq!(b.handle(NOW, &third), Err(Refused::UnknownSession));
    while b.peer().is_none() {
        let now = a.next_deadline().unwrap();
        assert!(now < NOW + Duration::from_secs(5), "it goes on within seconds");
        let message = a.poll(now).unwrap();
        exchange(now, &mut a, &mut b, message);
    }
    assert!(a.fingerprint().is_some() && a.fingerprint() == b.fingerprint());
}

#[test]
fn hellos_are_repeated_with_back_off_and_stop_when_told() {
    let mut a = channel(1, 1);
    let first = a.start(NOW);
    let mut sent = Vec::new();
    while sent.len() < 16 {
        let now = a.next_deadline().unwrap();
        sent.push((now.since(NOW).as_millis(), a.poll(now).unwrap()));
    }
    let times: Vec<_> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times[..7], [50, 150, 350, 750, 1550, 2550, 3550]);
    // The same Hello, so that retransmissions cost no computation; a new one after ten seconds.
    assert!(sent.iter().all(|(at, hello)| (*hello == first) == (*at < 10_000)));
    a.stop();
    assert_eq!((a.next_deadline(), a.poll(NOW + Duration::from_secs(60))), (None, None));
}

#[test]
fn keys_end_when_their_time_is_over() {
    let limits = Limits::default();
    let (mut a, mut b) = connected(1);
    let due = a.next_deadline().unwrap();
    assert_eq!(due, Time::ZERO + limits.rekey_time);
    // The peer does not answer: the old keys stay in use, until they expire.
    let _ = a.poll(due).unwrap();
    let last = Time::ZERO + limits.end_time - Duration::from_nanos(1);
    assert_eq!(say(last, &mut a, &mut b, b"x"), Some(b"x".to_vec()));
    let early = a.seal(last, b"y").unwrap();
    let end = Time::ZERO + limits.end_time;
    assert_eq!(a.seal(end, b"x"), Err(SealError::NoSession));
    assert_eq!(b.handle(end, &early), Err(Refused::UnknownSession));
    assert!(a.peer().is_none() && b.peer().is_none());
}

#[test]
fn a_key_that_has_sealed_all_it_may_seals_no_more() {
    let limits = Limits { rekey_messages: 2, end_messages: 4, ..Limits::default() };
    let [mut a, mut b] = [1, 2].map(|n| with_limits(node(n), RoleWanted::Any, 1, limits));
    let first = a.start(NOW);
    exchange(NOW, &mut a, &mut b, first);
    // The confirmation was the first sealed message.
    say(NOW, &mut a, &mut b, b"1").unwrap();
    assert_eq!(a.next_deadline(), Some(NOW));
    say(NOW, &mut a, &mut b, b"2").unwrap();
    say(NOW, &mut a, &mut b, b"3").unwrap();
    assert_eq!(a.seal(NOW, b"4"), Err(SealError::Exhausted));
    let first = a.poll(NOW).unwrap();
    exchange(NOW, &mut a, &mut b, first);
    assert_eq!(say(NOW, &mut a, &mut b, b"4"), Some(b"4".to_vec()));
    assert_eq!(a.seal(NOW, b""), Err(SealError::Length));
}

proptest! {
    #[test]
    fn no_bytes_panic_or_move_a_session(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..40),
        kinds in prop::collection::vec((1u8..=3, 0u8..=4, any::<bool>()), 40),
    ) {
        let (mut a, mut b) = connected(3);
        let sealed = a.seal(NOW, b"x").unwrap();
        for (mut bytes, (kind, step, known)) in messages.into_iter().zip(kinds) {
            let _ = b.handle(NOW, &bytes);
            // The same with a header that leads further in.
            let len = bytes.len() as u16;
            let put = [1, kind, (len >> 8) as u8, len as u8, step, 0];
            let n = bytes.len().min(put.len());
            bytes[..n].copy_from_slice(&put[..n]);
            if known && bytes.len() > 18 {
                bytes[5..10].copy_from_slice(&sealed[5..10]);
            }
            if let Ok(handled) = b.handle(NOW, &bytes) {
                prop_assert!(handled.body.is_none() && handled.established.is_none());
            }
        }
        prop_assert_eq!(b.handle(NOW, &sealed).unwrap().body, Some(b"x".to_vec()));
    }

    #[test]
    fn cut_and_overlong_messages_are_refused(cut in 0usize..400, more in 1usize..3000) {
        for step in 1..=3 {
            let (mut a, mut b, good) = before_step(step);
            let receiver = if step % 2 == 1 { &mut b } else { &mut a };
            let cut = cut % good.len();
            prop_assert_eq!(receiver.handle(NOW, &good[..cut]), Err(Refused::Truncated));
            // Bytes beyond the stated length are padding; a changed length is an alteration.
            let mut long = good.clone();
            long.resize(good.len() + more, 0);
            let stated = u16::try_from(long.len()).unwrap();
            long[2..4].copy_from_slice(&stated.to_be_bytes());
            let refused = receiver.handle(NOW, &long).unwrap_err();
            let fits = long.len() <= MESSAGE_LEN_MAX;
            prop_assert_eq!(refused == Refused::Oversized, !fits);
            long[2..4].copy_from_slice(&good[2..4]);
            prop_assert!(receiver.handle(NOW, &long).is_ok());
        }
    }
}

#[test]
fn a_session_that_a_revoked_peer_has_kept_back_is_not_taken_up() {
    let (mut a, mut b) = (channel(1, 5), channel(2, 5));
    let first = a.start(Time::ZERO);
    let second = b.handle(Time::ZERO, &first).unwrap().reply.unwrap();
    let third = a.handle(Time::ZERO, &second).unwrap().reply.unwrap();
    // The peer has the keys now, and shows it only after it was taken out of the group.
    let confirmation = b.handle(Time::ZERO, &third).unwrap().reply.unwrap();
    let key = node(2).claims().static_public;
    a.set_identity(Time::ZERO, std::sync::Arc::new(node(1).without([key].into())));
    assert_eq!(a.handle(Time::ZERO, &confirmation), Err(Refused::UnknownSession));
    assert!(a.peer().is_none());
}
