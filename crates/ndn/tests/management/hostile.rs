//! Hostile Interests: nothing breaks, and little is stored.

use plexus_wire::ndn::nfd::ControlParameters;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::clients::{clients, trusting};
use crate::node::*;

#[test]
fn mutated_interests_break_nothing() {
    let mut random = Pcg64Mcg::seed_from_u64(6);
    let clients = clients();
    let mut rig = trusting(&clients, &["ecdsa-certificate", "ed25519-certificate"]);
    let packets: Vec<_> = clients.packets.values().collect();
    for _ in 0..20_000 {
        let mut packet = packets[random.random_range(0..packets.len())].to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..packet.len());
            packet[at] = random.random();
        }
        let from = random.random_range(0..4);
        let answers = rig.interest(from, &packet);
        assert!(answers.len() <= 1);
        if from > OTHER {
            assert!(answers.is_empty(), "neighbours are not answered");
        }
    }
    // Unsigned parts, such as the lifetime, may be changed; but no command is carried out twice.
    let counters = rig.management.counters();
    assert!((1..=3).contains(&(counters.done + counters.failed)), "{counters:?}");
    assert!(counters.forged > 1000 && counters.unsigned > 10, "{counters:?}");
}

#[test]
fn an_answer_is_never_longer_than_a_packet() {
    let mut rig = Rig::new();
    let long = ControlParameters {
        name: Some(name(&format!("/{}", "x".repeat(5000)))),
        ..ControlParameters::default()
    };
    let packet = command("/localhost/nfd/rib/register", &long, &Client::at(rig.unix_ms));
    let answers = rig.interest(APP, &packet);
    assert!(answers[0].len() <= plexus_wire::ndn::PACKET_LEN_MAX);
    let done = rig.respond(OTHER, &packet);
    assert_eq!((done.code, done.parameters), (200, Some(ControlParameters::default())));
}

proptest! {
    #[test]
    fn any_bytes_for_parameters_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut rig = Rig::new();
        for verb in [
            "/localhost/nfd/rib/register",
            "/localhost/nfd/rib/announce",
            "/localhost/nfd/faces/create",
            "/localhost/nfd/strategy-choice/set",
            "/localhost/nfd/cs/config",
        ] {
            rig.pass(1);
            let name = name(verb).with(&bytes);
            let repr = plexus_wire::ndn::interest::Repr::new(name.as_name());
            let client = Client::at(rig.unix_ms);
            let packet = repr.with_parameters(&bytes, Some(&client), sha256).unwrap();
            let told = rig.respond(APP, &packet);
            prop_assert!(told.code == 400 || told.code == 200, "{} {}", told.code, told.text);
        }
    }
}
