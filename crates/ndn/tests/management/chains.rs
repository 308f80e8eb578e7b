//! Certificate chains, valid and hostile.

use ed25519_dalek::Signer as _;
use plexus_ndn::management::{ChainError, DEPTH_MAX, KeyError, Policy, Trust, TrustedKey};
use plexus_wire::ndn::data::{self, ContentType, MetaInfo};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType, Signer, Validity};
use plexus_wire::ndn::{Data, NameBuf};

use crate::clients::{clients, forge};
use crate::node::*;

const REGISTER: &str = "/localhost/nfd/rib/register";
const ALWAYS: (&str, &str) = ("20200101T000000", "20400101T000000");

fn key_name(identity: &str, number: u8) -> NameBuf {
    name(identity).with("KEY").with([number])
}

/// An issuer of certificates: its key, its name, and the validity it grants.
struct Issuer {
    number: u8,
    locator: Option<NameBuf>,
    validity: Option<Validity>,
}

impl Issuer {
    fn new(identity: &str, number: u8) -> Issuer {
        Issuer { number, locator: Some(key_name(identity, number)), validity: None }.lasting(ALWAYS)
    }

    fn lasting(self, (from, to): (&str, &str)) -> Issuer {
        let time = |text: &str| text.as_bytes().try_into().unwrap();
        let validity = Some(Validity { not_before: time(from), not_after: time(to) });
        Issuer { validity, ..self }
    }

    /// A certificate for the key with a number, under a name.
    fn issue(&self, identity: &str, number: u8) -> Vec<u8> {
        self.sign(&key_name(identity, number).with("issuer").with("v"), &spki(&signing_key(number)))
    }

    fn sign(&self, name: &NameBuf, content: &[u8]) -> Vec<u8> {
        let meta = Some(MetaInfo { content_type: Some(ContentType::KEY), ..MetaInfo::default() });
        let repr = data::Repr { name: name.as_name(), meta, content: Some(content) };
        repr.to_bytes(self).unwrap()
    }
}

impl Signer for Issuer {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: self.locator.as_ref().map(|n| KeyLocator::Name(n.as_name())),
            validity: self.validity,
            ..SignatureInfo::new(SignatureType::ED25519)
        }
    }

    fn signature_len_max(&self) -> usize {
        64
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        out.copy_from_slice(&signing_key(self.number).sign(&parts.concat()).to_bytes());
        64
    }
}

/// The anchor is `/site` with key 1.
fn anchored() -> Trust {
    let anchor = TrustedKey::certificate(&Issuer::new("/site", 1).issue("/site", 1)).unwrap();
    Trust { keys: vec![anchor], localhost: Policy::Trusted, ..Trust::default() }
}

/// A command by key 9, which claims to be `/site/op`'s.
fn by_operator(rig: &Rig, prefix: &str) -> Vec<u8> {
    let key = Some(key_name("/site/op", 9).with("issuer").with("v"));
    command(REGISTER, &of(prefix), &Client { key, ..by::<9>(rig.unix_ms) })
}

/// Why the only refused certificate is refused.
#[track_caller]
fn refused(certificates: &[Vec<u8>]) -> ChainError {
    let mut trust = anchored();
    let mut told = trust.follow(certificates);
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0).1
}

#[test]
fn a_client_commands_by_a_key_that_a_trusted_one_has_certified() {
    let clients = clients();
    let anchor = TrustedKey::certificate(&clients.packets["root-certificate"]).unwrap();
    let mut trust = Trust { keys: vec![anchor], localhost: Policy::Trusted, ..Trust::default() };
    let mut without = clients.rig();
    without.management = Rig::trusting(trust.clone()).management;
    assert!(trust.follow(&[&clients.packets["rsa-certificate"]]).is_empty());
    let mut rig = Rig { unix_ms: clients.time_ms, ..Rig::trusting(trust) };
    let packet = &clients.packets["rsa-register"];
    assert_eq!(rig.respond(APP, &forge(packet)).code, 403);
    assert_eq!(clients.done(&mut rig, "rsa-register").name, Some(name("/by/rsa")));
    assert_eq!(rig.respond(APP, packet).code, 403, "again");
    let counters = rig.management.counters();
    assert_eq!((counters.forged, counters.replayed), (1, 1));
    // The certificate expires.
    rig.unix_ms += 20 * 365 * 86_400_000;
    assert_eq!(rig.respond(APP, packet).code, 403);
    assert_eq!(rig.management.counters().untrusted, 1);
    // With RSA, only a directly trusted key counts, without a chain.
    let mut rig = crate::clients::trusting(&clients, &["rsa-certificate"]);
    clients.done(&mut rig, "rsa-register");
    let mut rig = crate::clients::trusting(&clients, &["root-certificate"]);
    assert_eq!(rig.respond(APP, packet).code, 403, "its certificate is not known");
}

#[test]
fn chains_are_followed_in_whatever_order_as_far_as_is_allowed() {
    // /site, then 2, 3, … each below the one before.
    let identity = |depth: usize| format!("/site{}", "/x".repeat(depth));
    let chain = |len: usize| -> Vec<Vec<u8>> {
        let link = |depth: usize| {
            let by = Issuer::new(&identity(depth - 1), depth as u8);
            by.issue(&identity(depth), depth as u8 + 1)
        };
        (1..=len).rev().map(link).collect()
    };
    let mut trust = anchored();
    assert!(trust.follow(&chain(DEPTH_MAX)).is_empty());
    assert_eq!(trust.keys.len(), DEPTH_MAX + 1);
    let told = anchored().follow(&chain(DEPTH_MAX + 1));
    assert_eq!(told, [(0, ChainError::TooDeep)]);
    // Without the middle certificate, those after it have no trusted signer.
    let mut broken = chain(4);
    broken.remove(2);
    let told: Vec<_> = anchored()
        .follow(&broken)
        .into_iter()
        .map(|(at, why)| {
            assert!(matches!(why, ChainError::Untrusted(_)), "{why}");
            at
        })
        .collect();
    assert_eq!(told, [0, 1]);
}

#[test]
fn a_chain_is_valid_while_all_of_it_is() {
    let middle = Issuer::new("/site", 1).lasting(("20250101T000000", "20261201T000000"));
    let last = Issuer::new("/site/ca", 2).lasting(("20261101T000000", "20300101T000000"));
    // /site/ca/op would be the rule: here the last name is below both.
    let certificates = [middle.issue("/site/ca", 2), last.issue("/site/ca/op", 9)];
    let mut trust = anchored();
    assert!(trust.follow(&certificates).is_empty());
    let mut rig = Rig::trusting(trust);
    let ask = |rig: &mut Rig, unix_s: u64| {
        rig.unix_ms = unix_s * 1000;
        let client = Client { key: Some(key_name("/site/ca/op", 9)), ..by::<9>(rig.unix_ms) };
        rig.respond(APP, &command(REGISTER, &of("/a"), &client)).code
    };
    // 31 October, 23 November, 2 December of 2026, and 2031.
    let codes =
        [1_793_400_000, 1_795_420_724, 1_796_200_000, 1_930_000_000].map(|t| ask(&mut rig, t));
    assert_eq!(codes, [403, 200, 403, 403]);
    assert_eq!(rig.management.counters().untrusted, 3);
}

#[test]
fn a_renewed_certificate_takes_the_place_of_one_that_has_ended_and_no_command_comes_twice() {
    let by = |validity| Issuer::new("/site", 1).lasting(validity).issue("/site/op", 9);
    let (old, new) = (("20200101T000000", "20200102T000000"), ALWAYS);
    let mut trust = anchored();
    assert!(trust.follow(&[by(old), by(new)]).is_empty());
    let mut rig = Rig::trusting(trust);
    let packet = by_operator(&rig, "/a");
    assert_eq!(rig.respond(APP, &packet).code, 200);
    assert_eq!(rig.respond(APP, &packet).code, 403);
    assert_eq!(rig.management.counters().replayed, 1);
    // An issuer's certificate, too.
    let issuer = |validity| Issuer::new("/site", 1).lasting(validity).issue("/site/op", 2);
    let mut trust = anchored();
    let leaf = Issuer::new("/site/op", 2).issue("/site/op", 9);
    assert!(trust.follow(&[leaf, issuer(old), issuer(new)]).is_empty());
    let mut rig = Rig::trusting(trust);
    let packet = by_operator(&rig, "/a");
    assert_eq!(rig.respond(APP, &packet).code, 200);
    // A certificate issued in advance does not replace the current one.
    let ahead = ("20390101T000000", "20391231T000000");
    let today = (ALWAYS.0, "20381231T000000");
    for several in [[issuer(ahead), issuer(today)], [issuer(today), issuer(ahead)]] {
        let mut trust = anchored();
        let leaf = Issuer::new("/site/op", 2).issue("/site/op", 9);
        assert!(trust.follow(&[&[leaf], &several[..]].concat()).is_empty());
        let mut rig = Rig::trusting(trust);
        let packet = by_operator(&rig, "/a");
        assert_eq!(rig.respond(APP, &packet).code, 200);
    }
}

#[test]
fn certificates_that_prove_nothing_are_refused_by_reason() {
    let root = || Issuer::new("/site", 1);
    let named = |issuer: Issuer, identity: &str, number| Issuer {
        locator: Some(key_name(identity, number)),
        ..issuer
    };
    // Signed by itself; by another that claims to be the root; unsigned.
    let own = Issuer::new("/site/op", 9).issue("/site/op", 9);
    assert!(matches!(refused(&[own]), ChainError::Untrusted(_)));
    let liar = named(Issuer::new("/x", 9), "/site", 1).issue("/site/op", 9);
    assert!(matches!(refused(&[liar]), ChainError::Forged(_)));
    let silent = Issuer { locator: None, ..root() }.issue("/site/op", 9);
    assert_eq!(refused(&[silent]), ChainError::Unsigned);
    let endless = Issuer { validity: None, ..root() }.issue("/site/op", 9);
    assert_eq!(refused(&[endless]), ChainError::Unsigned);
    // Outside its name, which has the same beginning.
    for elsewhere in ["/other", "/siteed/op", "/"] {
        let why = refused(&[root().issue(elsewhere, 9)]);
        assert!(matches!(why, ChainError::Hierarchy(..)), "{elsewhere}: {why}");
    }
    // Changed afterwards: it contains another key.
    let mut changed = root().issue("/site/op", 9);
    let spki = Data::new_checked(&changed).unwrap().content().to_vec();
    let at = changed.windows(spki.len()).position(|w| w == spki).unwrap();
    changed[at + spki.len() - 32..at + spki.len()]
        .copy_from_slice(&signing_key(8).verifying_key().to_bytes());
    assert!(matches!(refused(&[changed]), ChainError::Forged(_)));
    // Never valid: by itself, or only when its signer is not.
    let never = root().lasting((ALWAYS.1, ALWAYS.0)).issue("/site/op", 9);
    assert_eq!(refused(&[never]), ChainError::Never);
    let before = Issuer::new("/site/ca", 2).lasting(("20100101T000000", "20110101T000000"));
    let apart = [root().issue("/site/ca", 2), before.issue("/site/ca/op", 9)];
    assert_eq!(refused(&apart), ChainError::Never);
    // No key, trailing bytes after one, or not a certificate.
    let name = key_name("/site/op", 9).with("issuer").with("v");
    assert_eq!(refused(&[root().sign(&name, b"")]), ChainError::Key(KeyError::Algorithm));
    let large = root().sign(&name, &[0; 9000]);
    assert_eq!(
        refused(std::slice::from_ref(&large)),
        ChainError::Key(KeyError::TooLong(large.len()))
    );
    assert!(matches!(refused(&[vec![6, 0]]), ChainError::Key(KeyError::Data(_))));
    let other = root().sign(&"/site/op".parse().unwrap(), &spki);
    assert!(matches!(refused(&[other]), ChainError::Key(KeyError::Certificate(_))));
    // A shared secret certifies no other key: every verifier could have signed.
    let mut trust = Trust { keys: vec![TrustedKey::hmac(self::name("/site"), b"x")], ..anchored() };
    assert_eq!(trust.follow(&[root().issue("/site/op", 9)]).len(), 1);
}

#[test]
fn loops_lead_nowhere() {
    // Two that have signed each other, with one name so that no other rule forbids it; and one
    // reached by a valid chain whose signer is certified by what it has signed.
    let certificates = [
        Issuer::new("/site/op", 8).issue("/site/op", 9),
        Issuer::new("/site/op", 9).issue("/site/op", 8),
    ];
    let mut trust = anchored();
    let told = trust.follow(&certificates);
    assert_eq!(told.len(), 2, "{told:?}");
    let mut outside = Rig::trusting(trust.clone());
    let packet = by_operator(&outside, "/a");
    assert_eq!(outside.respond(APP, &packet).code, 403);
    let entry = Issuer::new("/site", 1).issue("/site/op", 8);
    let all: Vec<_> = certificates.into_iter().chain([entry]).collect();
    assert!(trust.follow(&all).is_empty(), "and it ends");
    let mut inside = Rig::trusting(trust);
    assert_eq!(inside.respond(APP, &packet).code, 200);
}

#[test]
fn keys_of_rsa_are_read_as_der_writes_them_and_not_otherwise() {
    let clients = clients();
    let spki = Data::new_checked(&clients.packets["rsa-certificate"]).unwrap().content().to_vec();
    let read = |spki: &[u8]| TrustedKey::public(name("/k"), spki).map(|_| ());
    assert_eq!(read(&spki), Ok(()));
    for len in 0..spki.len() {
        assert_eq!(read(&spki[..len]), Err(KeyError::Algorithm), "{len}");
    }
    let longer = [&spki[..], &[0]].concat();
    assert_eq!(read(&longer), Err(KeyError::Algorithm));
    // Every bit of the encoding counts, except modulus and exponent.
    let modulus = 32..33 + 256;
    for at in (0..spki.len()).filter(|at| !modulus.contains(at) && *at < spki.len() - 3) {
        let mut changed = spki.clone();
        changed[at] ^= 0x40;
        assert_eq!(read(&changed), Err(KeyError::Algorithm), "{at}");
    }
}
