//! Packets sent by independent clients (`clients.txt`).

use std::collections::BTreeMap;

use plexus_ndn::management::{KeyError, Policy, Trust, TrustedKey};
use plexus_wire::ndn::nfd::{ControlParameters, Fields, origin};
use plexus_wire::ndn::nfd::{FaceStatus, GeneralStatus, Record, RibEntry};
use plexus_wire::ndn::{Data, Interest};

use crate::node::*;

pub struct Clients {
    pub time_ms: u64,
    pub packets: BTreeMap<&'static str, Vec<u8>>,
}

pub fn clients() -> Clients {
    let mut clients = Clients { time_ms: 0, packets: BTreeMap::new() };
    let lines = include_str!("clients.txt").lines().filter(|line| !line.starts_with('#'));
    for (name, value) in lines.map(|line| line.split_once(' ').unwrap()) {
        if name == "time" {
            clients.time_ms = value.parse().unwrap();
            continue;
        }
        clients.packets.insert(name, plexus_wire::unhex(value).unwrap());
    }
    clients
}

impl Clients {
    pub fn rig(&self) -> Rig {
        Rig { unix_ms: self.time_ms, ..Rig::new() }
    }

    /// The parameters of the answer to a command, which has to succeed.
    pub fn done(&self, rig: &mut Rig, name: &str) -> ControlParameters {
        let response = rig.respond(APP, &self.packets[name]);
        assert_eq!((response.code, response.text.as_str()), (200, "OK"), "{name}");
        response.parameters.unwrap()
    }
}

#[test]
fn python_ndn_commands() {
    let clients = clients();
    let mut rig = clients.rig();
    let done = clients.done(&mut rig, "register");
    assert_eq!((done.cost, done.expiration_ms), (Some(10), Some(3_600_000)));
    clients.done(&mut rig, "register-plain");
    assert_eq!(rig.hops("/my/app/two").len(), 1, "the face is in both, the nearer counts");
    clients.done(&mut rig, "unregister");
    assert!(rig.hops("/my/app/two").is_empty());
    let old = clients.done(&mut rig, "register-v02");
    assert_eq!(old.name, Some(name("/my/old")));
    let made = clients.done(&mut rig, "create-face");
    assert_eq!(made.uri.as_deref(), Some("udp4://192.0.2.1:6363"));
    let chosen = clients.done(&mut rig, "set-strategy").strategy.unwrap().name;
    assert_eq!(chosen, name("/localhost/nfd/strategy/multicast/v=5"));
    // None of them is accepted again.
    for (name, packet) in &clients.packets {
        if ["register", "register-v02", "create-face"].contains(name) {
            assert_eq!(rig.respond(APP, packet).code, 403, "{name}");
        }
    }
    let mut forged = clients.packets["register-v02"].clone();
    let at = forged.windows(3).position(|w| w == *b"old").unwrap();
    forged[at] = b'O';
    assert_eq!(rig.respond(APP, &forged).code, 403, "signed is the whole name of v0.2");
    assert_eq!(rig.management.counters().forged, 1);
}

#[test]
fn pynfdc_reads_datasets_by_signed_interests() {
    let clients = clients();
    let mut rig = clients.rig();
    clients.done(&mut rig, "create-face");
    let mut dataset = |name: &str| {
        let packet = &clients.packets[name];
        let answers = rig.interest(APP, packet);
        let asked = Interest::new_checked(packet).unwrap().name();
        let data = Data::new_checked(&answers[0]).unwrap();
        assert!(asked.is_prefix_of(&data.name()), "{name}");
        data.content().to_vec()
    };
    assert_eq!(FaceStatus::parse_dataset(&dataset("faces-list")).unwrap().len(), 4);
    let found = FaceStatus::parse_dataset(&dataset("faces-query")).unwrap();
    assert_eq!((found.len(), found[0].uri.as_str()), (1, "udp4://192.0.2.1:6363"));
    let status = GeneralStatus::parse_fields(&dataset("status")).unwrap();
    assert_eq!(status.version, "plexus-test");
}

#[test]
fn ndnts_commands_and_reads() {
    let clients = clients();
    let mut rig = clients.rig();
    let done = clients.done(&mut rig, "ndnts-register");
    assert_eq!((done.origin, done.flags), (Some(origin::CLIENT), Some(2)));
    let answers = rig.interest(APP, &clients.packets["ndnts-rib"]);
    let rib = RibEntry::parse_dataset(Data::new_checked(&answers[0]).unwrap().content()).unwrap();
    assert_eq!((&rib[0].name, rib[0].routes[0].cost), (&name("/my/web"), 7));
    let answers = rig.interest(APP, &clients.packets["ndnts-query"]);
    let found = Data::new_checked(&answers[0]).unwrap();
    assert_eq!(FaceStatus::parse_dataset(found.content()).unwrap().len(), 3, "by local scheme");
    clients.done(&mut rig, "ndnts-unregister");
    assert!(rig.node.fib.is_empty());
    let made = clients.done(&mut rig, "ndnts-create");
    assert_eq!((made.persistency, made.flags), (Some(2), Some(2)));
    assert_eq!(rig.node.faces.values().last().unwrap().mtu, Some(1400));
    clients.done(&mut rig, "ndnts-strategy");
    assert_eq!(rig.node.strategies[&name("/my")], name("/localhost/nfd/strategy/asf/v=5"));
    clients.done(&mut rig, "ndnts-unset");
    assert!(rig.node.strategies.is_empty());
    let cache = clients.done(&mut rig, "ndnts-cs");
    assert_eq!((cache.capacity, cache.flags), (Some(100), Some(1)));
    assert_eq!(clients.done(&mut rig, "ndnts-erase").count, Some(0));

    let done = clients.done(&mut rig, "ndnts-announce");
    assert_eq!((done.origin, done.cost), (Some(origin::PREFIX_ANNOUNCEMENT), Some(2048)));
    assert_eq!((done.name, done.expiration_ms), (Some(name("/announced")), Some(60_000)));
    assert_eq!(rig.hops("/announced"), [(2048, face_id(APP))]);
}

/// Accepts only commands by the keys of these certificates, and by the secret.
pub fn trusting(clients: &Clients, keys: &[&str]) -> Rig {
    let certificate = |name: &&str| TrustedKey::certificate(&clients.packets[*name]).unwrap();
    let mut keys: Vec<_> = keys.iter().map(certificate).collect();
    keys.push(TrustedKey::hmac(name("/secret"), &std::array::from_fn::<u8, 32, _>(|i| i as u8)));
    let trust = Trust { keys, localhost: Policy::Trusted, ..Trust::default() };
    Rig { unix_ms: clients.time_ms, ..Rig::trusting(trust) }
}

/// The same packet with another signature, and the matching digest in its name.
pub fn forge(packet: &[u8]) -> Vec<u8> {
    let mut forged = packet.to_vec();
    let len = forged.len();
    forged[len - 3] ^= 1;
    let view = Interest::new_checked(packet).unwrap();
    let (old, _) = view.name().parameters_digest().unwrap();
    let new = sha256(&forged[len - view.parameters_portion().len()..]);
    let at = packet.windows(32).position(|w| w == old).unwrap();
    forged[at..at + 32].copy_from_slice(&new);
    forged
}

const ALGORITHMS: [&str; 3] = ["ecdsa-register", "ed25519-register", "hmac-register"];

#[test]
fn signatures_of_trusted_keys_are_verified() {
    let clients = clients();
    let mut rig = trusting(&clients, &["ecdsa-certificate", "ed25519-certificate"]);
    for name in ALGORITHMS {
        let forged = forge(&clients.packets[name]);
        assert_eq!(rig.respond(APP, &forged).code, 403);
        clients.done(&mut rig, name);
        assert_eq!(rig.respond(APP, &clients.packets[name]).code, 403, "again");
    }
    assert_eq!(rig.node.fib.len(), 3);
    assert_eq!(rig.respond(APP, &clients.packets["register"]).code, 403, "a digest is no key");
    let counters = rig.management.counters();
    assert_eq!((counters.forged, counters.replayed, counters.untrusted), (3, 3, 1));
}

#[test]
fn keys_that_are_not_trusted_are_not_accepted() {
    let clients = clients();
    let mut rig = trusting(&clients, &[]);
    for name in &ALGORITHMS[..2] {
        assert_eq!(rig.respond(APP, &clients.packets[*name]).code, 403, "{name}");
    }
    assert_eq!(rig.management.counters().untrusted, 2);
    // But where anyone may command, an unknown key counts as a digest.
    let mut rig = clients.rig();
    ALGORITHMS.iter().for_each(|name| drop(clients.done(&mut rig, name)));
}

#[test]
fn certificates_end() {
    let clients = clients();
    let mut rig = trusting(&clients, &["ecdsa-certificate", "ed25519-certificate"]);
    let key = TrustedKey::certificate(&clients.packets["ecdsa-certificate"]).unwrap();
    assert_eq!(key.name(), name("/me/KEY/%01").as_name());
    // It is valid for twenty years.
    rig.unix_ms += 21 * 365 * 86_400_000;
    assert_eq!(rig.respond(APP, &clients.packets["ecdsa-register"]).code, 403);
    assert_eq!(rig.management.counters().untrusted, 1);
}

#[test]
fn invalid_certificates_are_reported() {
    let clients = clients();
    let told = |packet: &[u8]| TrustedKey::certificate(packet).unwrap_err();
    assert!(matches!(told(&clients.packets["register"]), KeyError::Data(_)));
    let mut rig = clients.rig();
    let data = rig.ask("/localhost/nfd/cs/info").remove(0);
    assert!(matches!(told(&data), KeyError::Certificate(_)));
    let spki = Data::new_checked(&clients.packets["ecdsa-certificate"]).unwrap().content().to_vec();
    for len in 0..spki.len() {
        let told = TrustedKey::public(name("/k"), &spki[..len]).unwrap_err();
        assert_eq!(told, KeyError::Algorithm);
    }
    assert!(TrustedKey::public(name("/k"), &spki).is_ok());
}

#[test]
fn ndnd_commands_and_reads() {
    let clients = clients();
    let mut rig = clients.rig();
    let made = clients.done(&mut rig, "ndnd-create");
    assert_eq!(made.uri.as_deref(), Some("udp4://192.0.2.78:6363"), "udp:// was asked for");
    let done = clients.done(&mut rig, "ndnd-route");
    assert_eq!((done.origin, done.expiration_ms), (Some(origin::STATIC), Some(60_000)));
    assert_eq!(rig.hops("/y"), [(5, face_id(APP))]);
    let chosen = clients.done(&mut rig, "ndnd-strategy").strategy.unwrap().name;
    assert_eq!(chosen, name("/localhost/nfd/strategy/best-route/v=1"), "ndnd's own version");
    let answers = rig.interest(APP, &clients.packets["ndnd-faces"]);
    let faces = rig.rest(&answers[0]);
    assert_eq!(FaceStatus::parse_dataset(&faces).unwrap().len(), 4);
}
