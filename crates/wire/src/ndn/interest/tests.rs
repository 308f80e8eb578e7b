use proptest::collection::vec;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::ndn::signature::{KeyLocator, SignatureType, Signed};
use crate::ndn::vectors::{
    INTEREST_FULL, INTEREST_PARAMETERS, INTEREST_SIGNED, NDNTS_INTEREST, NDNTS_INTEREST_SIGNED,
    REGISTER, hex,
};

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn name(uri: &str) -> NameBuf {
    uri.parse().unwrap()
}

fn emitted(repr: &Repr<'_>) -> Vec<u8> {
    let mut out = vec![0xEE; repr.buffer_len()];
    repr.emit(&mut out).unwrap();
    out
}

/// An Interest for /a with these elements after the name.
fn with(elements: &[u8]) -> Vec<u8> {
    [&[5, 5 + elements.len() as u8, 7, 3, 8, 1, b'a'], elements].concat()
}

fn refusal(bytes: &[u8]) -> String {
    Interest::new_checked(bytes).unwrap_err().to_string()
}

#[test]
fn every_element_is_read_and_written_back() {
    let bytes = hex(INTEREST_FULL);
    let interest = Interest::new_checked(&bytes).unwrap();
    assert_eq!(interest.name().to_string(), "/a/b/v=3/seg=0");
    assert!(interest.can_be_prefix() && interest.must_be_fresh());
    let hints: Vec<String> = interest.forwarding_hint().iter().map(|n| n.to_string()).collect();
    assert_eq!(hints, ["/hint/one", "/two"]);
    assert_eq!(interest.nonce(), Some([1, 2, 3, 4]));
    assert_eq!(interest.lifetime(), Duration::from_secs(6));
    assert_eq!(interest.hop_limit(), Some(64));
    assert_eq!((interest.parameters(), interest.signature()), (None, None));
    let repr = Repr::parse(&interest).unwrap();
    assert_eq!(emitted(&repr), bytes);
    assert_eq!(
        repr.to_string(),
        "Interest /a/b/v=3/seg=0 prefix fresh hint /hint/one hint /two nonce 01020304 \
         lifetime 6000 ms hops 64"
    );
    assert!(repr.emit(&mut vec![0; bytes.len() - 1]).unwrap_err().is_truncated());
    let bytes = hex(NDNTS_INTEREST);
    let interest = Interest::new_checked(&bytes).unwrap();
    assert_eq!(emitted(&Repr::parse(&interest).unwrap()), bytes);
    assert_eq!(interest.lifetime(), Duration::from_millis(2500));
}

#[test]
fn absent_elements_have_defaults_and_padding_is_ignored() {
    let mut bytes = with(&[]);
    let len = bytes.len();
    bytes.resize(46, 0);
    let interest = Interest::new_checked(&bytes).unwrap();
    assert_eq!(interest.as_bytes().len(), len);
    assert_eq!(interest.lifetime(), LIFETIME_DEFAULT);
    assert_eq!((interest.nonce(), interest.hop_limit()), (None, None));
    assert!(!interest.can_be_prefix() && interest.forwarding_hint().is_empty());
    assert!(interest.parameters_portion().is_empty());
}

#[test]
fn the_hop_limit_is_lowered_in_place() {
    let mut bytes = hex(INTEREST_FULL);
    let at = Interest::new_checked(&bytes).unwrap().hop_limit_at().unwrap();
    bytes[at] -= 1;
    assert_eq!(Interest::new_checked(&bytes).unwrap().hop_limit(), Some(63));
    let at = Interest::new_checked(&bytes).unwrap().nonce_at().unwrap();
    assert_eq!(bytes[at..at + 4], [1, 2, 3, 4]);
}

#[test]
fn a_nonce_is_put_in_its_place() {
    // After the name, the hint, and unknown elements before them; the head grows with them.
    let elements = [
        &[0x21, 0, 0x12, 0, 0x1E, 5, 7, 3, 8, 1, b'h'][..],
        &[0x0C, 1, 9, 0x22, 1, 7, 0x80, 0xEB],
        &[0; 0xEB],
    ];
    let value = [&[7, 3, 8, 1, b'a'][..], &elements.concat()].concat();
    let bytes = [&[5, 0xFD, 1, 3][..], &value].concat();
    assert_eq!(value.len(), 0x103);
    let interest = Interest::new_checked(&bytes).unwrap();
    let mut out = vec![0; interest.with_nonce_len()];
    assert_eq!(interest.with_nonce([9, 8, 7, 6], &mut out), Ok(out.len()));
    let with_nonce = Interest::new_checked(&out).unwrap();
    assert_eq!(with_nonce.as_bytes().len(), bytes.len() + 6);
    let (old, new) = (Repr::parse(&interest).unwrap(), Repr::parse(&with_nonce).unwrap());
    assert_eq!(new, Repr { nonce: Some([9, 8, 7, 6]), ..old });
    let mut short = vec![0; interest.with_nonce_len() - 1];
    assert!(interest.with_nonce([0; 4], &mut short).unwrap_err().is_truncated());
    assert!(with_nonce.with_nonce([0; 4], &mut vec![0; 999]).is_err());

    let short = with(&[0x22, 1, 7]);
    let mut out = [0; 20];
    let len = Interest::new_checked(&short).unwrap().with_nonce([1; 4], &mut out).unwrap();
    assert_eq!(out[..len], with(&[0x0A, 4, 1, 1, 1, 1, 0x22, 1, 7]));
}

#[test]
fn unknown_and_misplaced_elements_are_ignored_unless_critical() {
    for (elements, hop_limit) in [
        (&[0x22, 1, 7, 0x80, 0][..], Some(7)),
        (&[0x80, 1, 1, 0x22, 1, 7], Some(7)),
        // A second hop limit, and one after the parameters.
        (&[0x22, 1, 7, 0x22, 1, 9], Some(7)),
        // Signatures that belong to nothing.
        (&[0x2C, 0, 0x2E, 0, 0x22, 1, 7], Some(7)),
    ] {
        let bytes = with(elements);
        let interest = Interest::new_checked(&bytes).unwrap();
        assert_eq!((interest.hop_limit(), interest.signature()), (hop_limit, None));
    }
    for (elements, kind) in [
        (&[0x81, 0][..], 129),
        (&[0x09, 0], 9),
        (&[0x12, 0, 0x21, 0], 33),
        (&[0x21, 0, 0x21, 0], 33),
        (&[0x0C, 1, 1, 0x0A, 4, 0, 0, 0, 0], 10),
        (&[0x22, 1, 7, 0x12, 0], 18),
        (&[7, 3, 8, 1, b'a'], 7),
    ] {
        assert_eq!(refusal(&with(elements)), format!("NDN Interest: bad critical element {kind}"));
    }
}

#[test]
fn broken_elements_are_refused() {
    for (elements, told) in [
        (&[0x21, 1, 0][..], "bad length of CanBePrefix 1"),
        (&[0x12, 1, 0], "bad length of MustBeFresh 1"),
        (&[0x0A, 3, 0, 0, 0], "bad length of nonce 3"),
        (&[0x0C, 3, 0, 0, 0], "bad length of a number 3"),
        (&[0x22, 2, 0, 0], "bad length of hop limit 2"),
        (&[0x24, 0], "bad count of parameters' digests 0"),
        (&[0x0A, 4, 0, 0, 0], "truncated, 11 bytes needed and 10 there"),
    ] {
        assert_eq!(refusal(&with(elements)), format!("NDN Interest: {told}"));
    }
    assert_eq!(refusal(&with(&[0x1E, 0])), "NDN name: bad count of names 0");
    assert_eq!(refusal(&with(&[0x1E, 2, 0x08, 0])), "NDN name: bad critical element 8");
    assert_eq!(refusal(&[5, 2, 7, 0]), "NDN Interest: bad count of name components 0");
    assert_eq!(refusal(&[5, 0]), "NDN Interest: bad name 0");
    assert_eq!(refusal(&[5, 4, 0x80, 0, 7, 0]), "NDN Interest: bad name 128");
    assert_eq!(refusal(&[6, 0]), "NDN Interest: bad packet type 6");
    let digest = [&[2, 32][..], &[0; 32]].concat();
    let two = [&[5, 70, 7, 68][..], &digest, &digest].concat();
    assert_eq!(refusal(&two), "NDN Interest: bad count of parameters' digests 2");
    for bytes in [hex(INTEREST_FULL), hex(INTEREST_SIGNED)] {
        for len in 0..bytes.len() {
            assert!(Interest::new_checked(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn a_digest_without_parameters_is_part_of_the_name() {
    // The names of a command's answers, segment by segment.
    let name = name(&format!("/cmd/params-sha256={}/v=1/seg=1", "07".repeat(32)));
    let bytes = emitted(&Repr::new(name.as_name()));
    let interest = Interest::new_checked(&bytes).unwrap();
    assert_eq!(interest.name(), name.as_name());
    assert_eq!(interest.name().parameters_digest(), Some((&[7; 32], 5)));
}

/// Digest and signature of what others signed are those that we would compute.
#[track_caller]
fn check_signed<'a>(bytes: &'a [u8], parameters: &[u8]) -> SignatureInfo<'a> {
    let interest = Interest::new_checked(bytes).unwrap();
    assert_eq!(interest.parameters(), Some(parameters));
    let (digest, _) = interest.name().parameters_digest().unwrap();
    assert_eq!(sha256(interest.parameters_portion()), *digest);
    let signature = interest.signature().unwrap();
    assert!(signature.digest_is_last);
    assert_eq!(sha256(&signature.signed.concat()), signature.value);
    let info = signature.info().unwrap();

    // Signing it again gives the same bytes.
    let repr = Repr::parse(&interest).unwrap();
    assert_eq!(emitted(&repr), bytes);
    let signer = Signed { info, value: signature.value };
    assert_eq!(repr.with_parameters(parameters, Some(&signer), sha256).unwrap(), bytes);
    info
}

#[test]
fn signatures_are_over_the_parts_that_others_sign() {
    let bytes = hex(INTEREST_SIGNED);
    let info = check_signed(&bytes, &[1, 2, 3]);
    assert_eq!(info.kind, SignatureType::DIGEST_SHA256);
    assert_eq!(info.nonce, Some(&hex("2f164f3e4ac0be73")[..]));
    assert_eq!((info.time_ms, info.seq_num), (Some(0x1A2_0686_6676), None));
    let bytes = hex(NDNTS_INTEREST_SIGNED);
    let info = check_signed(&bytes, &[0xC0, 0xC1]);
    assert_eq!((info.time_ms, info.seq_num), (Some(1_700_000_000_000), Some(5)));
    let bytes = hex(REGISTER);
    check_signed(&bytes, &[]);

    let bytes = hex(INTEREST_PARAMETERS);
    let interest = Interest::new_checked(&bytes).unwrap();
    assert_eq!((interest.parameters(), interest.signature()), (Some(&b"hello"[..]), None));
    let repr = Repr::parse(&interest).unwrap();
    assert_eq!(repr.with_parameters(b"hello", None, sha256).unwrap(), bytes);
}

#[test]
fn a_digest_that_is_not_last_is_told() {
    let bytes = hex(INTEREST_SIGNED);
    let mut longer = Interest::new_checked(&bytes).unwrap().name().to_buf();
    longer = longer.with("more");
    let interest = Interest::new_checked(&bytes).unwrap();
    let repr = Repr { name: longer.as_name(), ..Repr::parse(&interest).unwrap() };
    let bytes = emitted(&repr);
    let signature = Interest::new_checked(&bytes).unwrap().signature().unwrap();
    assert!(!signature.digest_is_last);
    assert_eq!(signature.signed[0], b"\x08\x05local\x08\x03cmd");
}

#[test]
fn signature_elements_are_read_in_any_order_but_once() {
    let value = hex("1b0105 1c04 1d02 abcd 2a0109 2808000001a206866676 260107 8000 fd00fd00");
    assert!(SignatureInfo::parse(&value).is_err(), "an empty validity");
    let info = SignatureInfo::parse(&value[..value.len() - 4]).unwrap();
    assert_eq!(info.key_locator, Some(KeyLocator::Digest(&[0xAB, 0xCD])));
    assert_eq!((info.seq_num, info.nonce), (Some(9), Some(&[7][..])));
    for bad in [
        "",
        "1c021d00",
        "1b00",
        "1b0100 1c00",
        "1b0100 1c020800",
        "1b0100 2600",
        "1b0100 28010028",
        "1b0100 280100 280100",
        "1b0100 280100 1c021d00",
        "1b0100 1b0100",
        "1b0100 8100",
    ] {
        assert!(SignatureInfo::parse(&hex(bad)).is_err(), "{bad}");
    }
}

prop_compose! {
    fn names()(parts in vec(vec(any::<u8>(), 0..12), 1..6)) -> NameBuf {
        parts.iter().fold(NameBuf::new(), |name, part| name.with(part))
    }
}

proptest! {
    #[test]
    fn interests_survive_writing(
        name in names(),
        hints in vec(names(), 0..3),
        flags in any::<(bool, bool)>(),
        nonce in any::<Option<[u8; 4]>>(),
        lifetime_ms in any::<Option<u64>>(),
        hop_limit in any::<Option<u8>>(),
        parameters in proptest::option::of(vec(any::<u8>(), 0..300)),
    ) {
        let mut hint_bytes = vec![0; hints.iter().map(|n| n.as_name().encoded_len()).sum()];
        let mut writer = Writer::new(&mut hint_bytes);
        hints.iter().for_each(|n| n.as_name().write(&mut writer));
        let forwarding_hint = match hints.is_empty() {
            true => Names::EMPTY,
            false => Names::new_checked(&hint_bytes).unwrap(),
        };
        let (can_be_prefix, must_be_fresh) = flags;
        let repr = Repr {
            can_be_prefix, must_be_fresh, forwarding_hint, nonce, lifetime_ms, hop_limit,
            ..Repr::new(name.as_name())
        };
        let bytes = match &parameters {
            None => emitted(&repr),
            Some(value) => repr.with_parameters(value, None, sha256).unwrap(),
        };
        let interest = Interest::new_checked(&bytes).unwrap();
        let read = Repr::parse(&interest).unwrap();
        prop_assert_eq!(interest.parameters(), parameters.as_deref());
        prop_assert_eq!(emitted(&read), &bytes[..]);
        prop_assert!(repr.name.is_prefix_of(&read.name));
        prop_assert_eq!(Repr { name: repr.name, parameters_portion: &[], ..read }, repr);
    }
}
