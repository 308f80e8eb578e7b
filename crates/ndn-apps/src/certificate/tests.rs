use plexus_ndn::management::ChainError;

use super::*;
use crate::key::Algorithm;

const NOW_MS: u64 = 1_795_420_724_000;

fn days(first: u64, count: u64) -> Validity {
    let from = NOW_MS / 1000 + first * 86_400;
    Validity::between(from, from + count * 86_400)
}

/// A new key and its own certificate.
fn made(identity: &str, algorithm: Algorithm) -> (CommandKey, Vec<u8>) {
    let (key, pem) = PrivateKey::generate(algorithm).unwrap();
    let identity: NameBuf = identity.parse().unwrap();
    let own = self_signed(&key, identity.as_name(), [7; 8], days(0, 30), NOW_MS).unwrap();
    (CommandKey::read(pem.as_bytes(), &own).unwrap(), own)
}

#[test]
fn certificates_are_as_ndn_s_tools_make_and_check_them() {
    for (algorithm, called) in [(Algorithm::P256, "P-256"), (Algorithm::Ed25519, "Ed25519")] {
        let (root, own) = made("/site", algorithm);
        let data = Data::new_checked(&own).unwrap();
        let name = data.name().to_string();
        assert_eq!(name, format!("/site/KEY/{}/self/v={NOW_MS}", "%07".repeat(8)));
        // ndn-cxx refuses a certificate without a FreshnessPeriod.
        assert_eq!(data.freshness().as_secs(), 3600);
        let info = data.signature_info().unwrap();
        assert_eq!(info.validity, Some(days(0, 30)));
        // A self-signature names the key, any other the issuer's certificate.
        let key_name = data.name().prefix(3);
        assert_eq!(info.key_locator, Some(KeyLocator::Name(key_name)));
        let known = TrustedKey::certificate(&own).unwrap();
        assert_eq!((known.algorithm().as_str(), known.name()), (called, key_name));
        assert!(known.has_signed(&data));

        let (_, request) = made("/site/op", Algorithm::Ed25519);
        let packet = issue(&request, &root, "NA", days(0, 5), NOW_MS + 1).unwrap();
        let issued = Data::new_checked(&packet).unwrap();
        let name = issued.name().to_string();
        assert_eq!(name, format!("/site/op/KEY/{}/NA/v={}", "%07".repeat(8), NOW_MS + 1));
        let info = issued.signature_info().unwrap();
        assert_eq!(info.key_locator, Some(KeyLocator::Name(root.certificate())));
        assert_eq!(issued.content(), Data::new_checked(&request).unwrap().content());
        assert!(known.has_signed(&issued));
        assert_eq!(objection(&packet, &root), None);
        // An expiring certificate is renewed by its signer.
        let renewed = issue(&packet, &root, "NA", days(5, 5), NOW_MS + 2).unwrap();
        assert_eq!(objection(&renewed, &root), None);
    }
}

#[test]
fn a_certificate_needs_proof_of_possession() {
    let (root, own) = made("/site", Algorithm::P256);
    let (other, request) = made("/site/op", Algorithm::P256);
    let told = |request: &[u8]| issue(request, &root, "NA", days(0, 1), NOW_MS).unwrap_err();
    // The last bytes belong to the signature.
    let mut forged = request.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(matches!(told(&forged), IssueError::Unproved(_)));
    // A certificate issued by a third key: the certified key did not sign the request.
    let others = issue(&own, &other, "NA", days(0, 1), NOW_MS).unwrap();
    let (third, _) = made("/third", Algorithm::P256);
    let why = issue(&others, &third, "NA", days(0, 1), NOW_MS).unwrap_err();
    assert!(matches!(why, IssueError::Unproved(_)));
    assert!(matches!(told(b"\x06\x00"), IssueError::Request(_)));
}

#[test]
fn certificates_that_forwarders_refuse_are_reported() {
    let (root, _) = made("/site", Algorithm::P256);
    let (_, elsewhere) = made("/sites", Algorithm::P256);
    let packet = issue(&elsewhere, &root, "NA", days(0, 1), NOW_MS).unwrap();
    assert!(matches!(objection(&packet, &root), Some(ChainError::Hierarchy(..))));
    let (_, request) = made("/site/op", Algorithm::P256);
    let late = issue(&request, &root, "NA", days(31, 1), NOW_MS).unwrap();
    assert_eq!(objection(&late, &root), Some(ChainError::Never));
}

#[test]
fn a_certificate_fits_into_a_packet() {
    let (key, _) = PrivateKey::generate(Algorithm::Ed25519).unwrap();
    let long = NameBuf::new().with([b'x'; PACKET_LEN_MAX]);
    let told = self_signed(&key, long.as_name(), [7; 8], days(0, 1), NOW_MS);
    assert!(matches!(told, Err(IssueError::TooLong)));
}
