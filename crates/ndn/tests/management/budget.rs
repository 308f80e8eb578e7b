//! The limit on verifications of neighbours' signatures.

use plexus_ndn::management::{ManagementCounters, Policy, Trust, TrustedKey, VerificationRate};

use crate::node::*;

const HOP: &str = "/localhop/nfd/rib/register";
const STRANGER: VerificationRate = VerificationRate::STRANGER;
const KNOWN: VerificationRate = VerificationRate::KNOWN;

/// Signs as if by the key of a number.
fn forger<const NUMBER: u8>(time_ms: u64) -> Client {
    Client { sign: |_| vec![1; 64], ..by::<NUMBER>(time_ms) }
}

/// Neighbours and applications command by one key.
fn trust() -> Trust {
    let (localhop, localhost) = (Policy::Trusted, Policy::Trusted);
    Trust { keys: vec![trusted_key(5)], localhop, localhost, ..Trust::default() }
}

impl Rig {
    /// The answer to a command that a client signs now.
    fn asks(&mut self, from: u32, verb: &str, prefix: &str, by: fn(u64) -> Client) -> u64 {
        let packet = command(verb, &of(prefix), &by(self.unix_ms));
        self.respond(from, &packet).code
    }

    fn by_key(&mut self, from: u32, prefix: &str) -> u64 {
        self.asks(from, HOP, prefix, by::<5>)
    }

    fn forged(&mut self, from: u32) -> u64 {
        self.asks(from, HOP, "/forged", forger::<5>)
    }

    /// Forges until the limit is reached; returns how often it was verified before.
    fn floods(&mut self, from: u32) -> u32 {
        let looked_at = (0..1000).take_while(|_| self.forged(from) == 403).count();
        assert_eq!(self.forged(from), 503);
        u32::try_from(looked_at).unwrap()
    }

    fn counts(&self) -> ManagementCounters {
        self.management.counters()
    }
}

#[test]
fn a_flooding_neighbour_is_not_verified_until_it_pauses() {
    let mut rig = Rig::trusting(trust());
    assert_eq!(rig.floods(NEIGHBOUR), STRANGER.burst);
    let before = rig.counts();
    for _ in 0..500 {
        assert_eq!(rig.by_key(NEIGHBOUR, "/true"), 503, "not verified, valid or not");
    }
    let after = rig.counts();
    assert_eq!((after.forged, after.unverified), (before.forged, before.unverified + 500));
    assert!(rig.node.fib.is_empty());
    // A command that was not verified may be sent again.
    rig.pass(STRANGER.every.as_millis() as u64);
    assert_eq!((rig.forged(NEIGHBOUR), rig.by_key(NEIGHBOUR, "/true")), (403, 503));
    rig.pass(STRANGER.every.as_millis() as u64);
    assert_eq!(rig.by_key(NEIGHBOUR, "/true"), 200);
    assert_eq!(rig.hops("/true"), [(0, face_id(NEIGHBOUR))]);
    // Now it is known, and a pause fills its bucket to the burst and no further.
    assert_eq!(rig.floods(NEIGHBOUR), KNOWN.burst);
    rig.pass(3_600_000);
    assert_eq!(rig.floods(NEIGHBOUR), KNOWN.burst);
}

#[test]
fn true_commands_count_too_and_digests_do_not() {
    let mut rig = Rig::trusting(trust());
    let codes: Vec<u64> = (0..300).map(|n| rig.by_key(NEIGHBOUR, &format!("/one/{n}"))).collect();
    let done = codes.iter().filter(|code| **code == 200).count();
    // The first was a stranger's.
    assert_eq!((done, codes[done]), (1 + KNOWN.burst as usize, 503), "{codes:?}");
    // A digest costs no more than the packet did.
    for _ in 0..100 {
        assert_eq!(rig.asks(NEIGHBOUR, HOP, "/two", Client::at), 403);
    }
    assert_eq!(rig.counts().untrusted, 100);
}

#[test]
fn one_neighbours_flood_is_not_anothers_nor_an_applications() {
    let mut rig = Rig::trusting(trust());
    rig.floods(NEIGHBOUR);
    for place in 51..67 {
        rig.neighbour(place);
        rig.floods(place);
    }
    rig.neighbour(50);
    assert_eq!(rig.by_key(50, "/by/another"), 200);
    for _ in 0..1000 {
        let told = rig.asks(APP, "/localhost/nfd/rib/register", "/x", forger::<5>);
        assert_eq!(told, 403, "no limit applies here");
    }
    assert_eq!(rig.by_key(APP, "/by/app"), 200);
}

#[test]
fn a_flood_from_new_faces_is_limited_and_spares_known_neighbours() {
    let mut rig = Rig::trusting(trust());
    assert_eq!(rig.by_key(NEIGHBOUR, "/known"), 200);
    let before = rig.counts().forged;
    // Each command comes from a new face, as from datagrams with forged sources.
    for place in 100..1000 {
        rig.neighbour(place);
        rig.forged(place);
        rig.face_down(face_id(place));
    }
    let looked_at = rig.counts().forged - before;
    let shared = u64::from(VerificationRate::STRANGERS.burst);
    assert!(looked_at <= shared && looked_at > shared / 2, "{looked_at}");
    assert_eq!(rig.by_key(NEIGHBOUR, "/known/still"), 200);
    // Rereading the file does not make it a stranger, unless its key is missing.
    rig.trust(trust());
    assert_eq!(rig.by_key(NEIGHBOUR, "/known/after"), 200);
    rig.trust(Trust { keys: Vec::new(), ..trust() });
    rig.trust(trust());
    assert_eq!(rig.by_key(NEIGHBOUR, "/known/no/more"), 503);
    // A stranger with the key waits until the bucket has refilled.
    rig.neighbour(50);
    assert_eq!(rig.by_key(50, "/new"), 503);
    rig.pass(VerificationRate::STRANGERS.every.as_millis() as u64);
    assert_eq!(rig.by_key(50, "/new"), 200);
}

/// A rig with a neighbour known by key 1, which has this many verifications left; announcements are
/// verified too. Another key has the same name as key 2, and is tried first.
fn announcing(left: u32) -> Rig {
    let decoy = TrustedKey::public(name("/op/KEY").with([2]), &spki(&signing_key(9))).unwrap();
    let keys = vec![trusted_key(1), decoy, trusted_key(2)];
    let trust = Trust { keys, announcements: Policy::Trusted, ..trust() };
    let mut rig = Rig::trusting(trust);
    // The first is taken as a stranger.
    for n in 0..=KNOWN.burst - left {
        assert_eq!(rig.asks(NEIGHBOUR, HOP, &format!("/one/{n}"), by::<1>), 200, "{n}");
    }
    rig
}

impl Rig {
    /// An announcement inside key 1's command to accept it.
    fn announced(&self, prefix: &str, by: fn(u64) -> Client) -> Vec<u8> {
        let data = announcement(prefix, &by(self.unix_ms));
        announce("localhop", &data, &crate::node::by::<1>(self.unix_ms))
    }
}

#[test]
fn an_unverified_announcement_may_be_sent_again() {
    let every_ms = KNOWN.every.as_millis() as u64;
    // With key 1 an announcement and its command take two verifications, with key 2 three.
    for (announcer, takes) in [(by::<1> as fn(u64) -> Client, 2), (by::<2>, 3)] {
        for left in 0..=takes {
            let mut rig = announcing(left);
            let packet = rig.announced("/announced", announcer);
            let before = rig.counts();
            let enough = left == takes;
            let code = rig.respond(NEIGHBOUR, &packet).code;
            assert_eq!(code, if enough { 200 } else { 503 }, "{left} of {takes}");
            let after = rig.counts();
            let busy = u64::from(!enough);
            assert_eq!(after.unverified, before.unverified + busy, "{left} of {takes}");
            assert_eq!((after.failed, after.forged), (before.failed, before.forged));
            // The same command again once verifications are left, and then never again.
            for code in [if enough { 403 } else { 200 }, 403] {
                rig.pass(every_ms * u64::from(takes));
                assert_eq!(rig.respond(NEIGHBOUR, &packet).code, code, "{left} of {takes}");
            }
            assert!(!rig.hops("/announced").is_empty());
        }
    }
}

#[test]
fn repeated_announcements_get_through() {
    // With key 2, the other key of its name is tried first.
    for (announcer, codes) in
        [(by::<1> as fn(u64) -> Client, &[503, 200][..]), (by::<2>, &[503, 503, 200])]
    {
        let mut rig = announcing(0);
        let packet = rig.announced("/announced", announcer);
        for code in codes {
            rig.pass(KNOWN.every.as_millis() as u64);
            assert_eq!(rig.respond(NEIGHBOUR, &packet).code, *code);
        }
    }
}

#[test]
fn repeated_announcements_by_the_key_tried_last_get_through() {
    let mut rig = announcing(0);
    let packet = command(HOP, &of("/two"), &by::<2>(rig.unix_ms));
    for code in [503, 200] {
        rig.pass(KNOWN.every.as_millis() as u64);
        assert_eq!(rig.respond(NEIGHBOUR, &packet).code, code);
    }
    // A stranger too, when it has none left.
    rig.neighbour(50);
    for n in 0..=STRANGER.burst {
        let code = rig.asks(50, HOP, "/forged", forger::<1>);
        assert_eq!(code, if n < STRANGER.burst { 403 } else { 503 });
    }
    let packet = command(HOP, &of("/stranger"), &by::<2>(rig.unix_ms));
    for code in [503, 200] {
        rig.pass(STRANGER.every.as_millis() as u64);
        assert_eq!(rig.respond(50, &packet).code, code);
    }
}

#[test]
fn a_refused_announcement_is_not_verified_again() {
    let mut rig = announcing(10);
    let packet = rig.announced("/forged", forger::<1>);
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 403);
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 403);
    let counts = rig.counts();
    assert_eq!((counts.failed, counts.replayed, counts.unverified), (1, 1, 0));
    assert!(rig.hops("/forged").is_empty());
}
