use proptest::collection::vec;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::ndn::name::NameBuf;
use crate::ndn::signature::{KeyLocator, SignatureType, Signed};
use crate::ndn::vectors::{DATA_DIGEST, DATA_ECDSA, DATA_HMAC, NDNTS_DATA_ED25519, hex};

fn refusal(bytes: &[u8]) -> String {
    Data::new_checked(bytes).unwrap_err().to_string()
}

/// Reads, and writes again with the signature that it has.
#[track_caller]
fn check<'a>(bytes: &'a [u8], kind: SignatureType, key: Option<&str>) -> Data<'a> {
    let data = Data::new_checked(bytes).unwrap();
    let info = data.signature_info().unwrap();
    assert_eq!(info.kind, kind);
    match info.key_locator {
        Some(KeyLocator::Name(name)) => assert_eq!(Some(name.to_string().as_str()), key),
        other => assert!(other.is_none() && key.is_none()),
    }
    let signer = Signed { info, value: data.signature_value() };
    let repr = Repr::parse(&data).unwrap();
    let mut out = vec![0xEE; repr.buffer_len(&signer)];
    assert_eq!(repr.emit(&signer, &mut out), Ok(bytes.len()));
    assert_eq!(out, bytes);
    assert!(repr.emit(&signer, &mut out[1..]).unwrap_err().is_truncated());
    data
}

#[test]
fn packets_of_others_are_read_and_written_back() {
    let bytes = hex(DATA_DIGEST);
    let data = check(&bytes, SignatureType::DIGEST_SHA256, None);
    assert_eq!(data.name().to_string(), "/a/b/v=3/seg=0");
    assert_eq!(data.content(), b"hello, world");
    assert_eq!(data.content_type(), ContentType::BLOB);
    assert_eq!(data.freshness(), Duration::from_secs(10));
    let last = data.meta().final_block.unwrap();
    assert_eq!(last.number(types::SEGMENT), Some(9));
    assert_eq!(Sha256::digest(data.signed_portion())[..], *data.signature_value());
    assert_eq!(
        Repr::parse(&data).unwrap().to_string(),
        "Data /a/b/v=3/seg=0 content 12 fresh 10000 ms final seg=9"
    );

    let bytes = hex(DATA_HMAC);
    let data = check(&bytes, SignatureType::HMAC_WITH_SHA256, Some("/key/hmac"));
    assert_eq!((data.content_type(), data.freshness()), (ContentType::KEY, Duration::ZERO));
    let bytes = hex(DATA_ECDSA);
    check(&bytes, SignatureType::SHA256_WITH_ECDSA, Some("/me/KEY/%01/self/v=1"));
    let bytes = hex(NDNTS_DATA_ED25519);
    let key = "/K/KEY/t=1795405861274000";
    let data = check(&bytes, SignatureType::ED25519, Some(key));
    assert_eq!(data.content(), [1, 2, 3]);
}

#[test]
fn only_name_and_signature_have_to_be_there() {
    let bytes = hex("060f 0703 080161 1603 1b0100 1703 010203 0000");
    let data = Data::new_checked(&bytes).unwrap();
    assert_eq!(data.as_bytes().len(), bytes.len() - 2);
    assert_eq!((data.content(), data.meta()), (&[][..], &MetaInfo::default()));
    assert_eq!(data.signed_portion(), &bytes[2..12]);
    // The empty name is one.
    assert!(Data::new_checked(&hex("0609 0700 1603 1b0100 1700")).is_ok());
}

#[test]
fn unknown_elements_are_ignored_unless_critical() {
    let bytes = hex("0613 0703 080161 8000 1603 1b0100 8000 1703 010203");
    let data = Data::new_checked(&bytes).unwrap();
    // The signature is over them too.
    assert_eq!(data.signed_portion(), &bytes[2..16]);
    let bytes = hex("0615 0700 1408 8000 190107 180109 1603 1b0100 1702 0102");
    assert_eq!(refusal(&bytes), "NDN Data: bad critical element 24");
    let bytes = hex("0610 0700 1405 8000 190107 1603 1b0100 1700");
    assert_eq!(Data::new_checked(&bytes).unwrap().freshness(), Duration::from_millis(7));
    for (bytes, kind) in [
        ("060b 0700 8100 1603 1b0100 1700", 129),
        ("060b 0700 1500 1400 1603 1b0100", 20),
        ("060d 0700 1500 1500 1603 1b0100 1700", 21),
        ("060b 0700 1603 1b0100 1700 1700", 23),
        ("060b 0700 1603 1b0100 1700 1500", 21),
    ] {
        assert_eq!(refusal(&hex(bytes)), format!("NDN Data: bad critical element {kind}"));
    }
}

#[test]
fn broken_packets_are_refused() {
    for (bytes, told) in [
        ("0600", "NDN Data: bad name 0"),
        ("0500", "NDN Data: bad packet type 5"),
        ("0602 1500", "NDN Data: bad name 21"),
        ("0602 0700", "NDN Data: bad count of signature infos 0"),
        ("0604 0700 1700", "NDN Data: bad count of signature infos 0"),
        ("0607 0700 1603 1b0100", "NDN Data: bad count of signatures 0"),
        (
            "060e 0700 1403 190300 1603 1b0100 1700",
            "NDN Data: truncated, 5 bytes needed and 3 there",
        ),
        ("0610 0700 1405 1903 000000 1603 1b0100 1700", "NDN Data: bad length of a number 3"),
        ("060d 0700 1402 1a00 1603 1b0100 1700", "NDN name: bad count of components 0"),
    ] {
        assert_eq!(refusal(&hex(bytes)), told, "{bytes}");
    }
    let digest = [&[6, 43, 7, 34, 1, 32][..], &[0; 32], &[0x16, 3, 0x1B, 1, 0, 0x17, 0]].concat();
    assert_eq!(refusal(&digest), "NDN Data: bad count of implicit digests 1");
    for bytes in [hex(DATA_DIGEST), hex(DATA_ECDSA)] {
        for len in 0..bytes.len() {
            assert!(Data::new_checked(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
    // The signature's information is checked only on request.
    let bytes = hex("0608 0700 1602 2600 1700");
    assert!(Data::new_checked(&bytes).unwrap().signature_info().is_err());
}

/// Says that it may take more bytes than it does.
struct Roomy<'a> {
    info: SignatureInfo<'a>,
    max: usize,
    len: usize,
}

impl Signer for Roomy<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        self.info
    }

    fn signature_len_max(&self) -> usize {
        self.max
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let sum = parts.concat().iter().fold(0u8, |a, b| a.wrapping_add(*b));
        out[..self.len.min(self.max)].fill(sum);
        self.len
    }
}

#[test]
fn a_signer_must_keep_its_word() {
    let info = SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA);
    let name = NameBuf::new().with("a");
    let repr = Repr { name: name.as_name(), meta: None, content: None };
    let e = repr.emit(&Roomy { info, max: 3, len: 4 }, &mut [0; 99]).unwrap_err();
    assert_eq!(e.to_string(), "NDN Data: bad length of signature 4");
}

proptest! {
    #[test]
    fn data_survives_writing(
        uri in "(/[a-z]{1,9}){0,5}/seg=[1-9]",
        content in proptest::option::of(vec(any::<u8>(), 0..400)),
        meta in any::<Option<(Option<u64>, Option<u64>, bool)>>(),
        max in 0..400usize,
        less in 0..400usize,
        time_ms in any::<Option<u64>>(),
        seq_num in any::<Option<u64>>(),
    ) {
        let name: NameBuf = uri.parse().unwrap();
        let meta = meta.map(|(kind, freshness_ms, last)| MetaInfo {
            content_type: kind.map(ContentType),
            freshness_ms,
            final_block: name.as_name().last().filter(|_| last),
        });
        let info = SignatureInfo {
            key_locator: Some(KeyLocator::Name(name.as_name())),
            time_ms,
            seq_num,
            ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
        };
        let repr = Repr { name: name.as_name(), meta, content: content.as_deref() };
        let signer = Roomy { info, max, len: max.saturating_sub(less) };
        let mut out = vec![0xEE; repr.buffer_len(&signer)];
        let len = repr.emit(&signer, &mut out).unwrap();
        prop_assert!(len <= out.len() && (len == out.len()) == (signer.len == max));
        let data = Data::new_checked(&out[..len]).unwrap();
        prop_assert_eq!(data.as_bytes().len(), len);
        prop_assert_eq!(Repr::parse(&data), Ok(repr));
        prop_assert_eq!(data.signature_info(), Ok(info));
        // With and without a known name the rest is parsed alike.
        for known in [Some(name.as_name().len() as u32), None] {
            let mut shown = None;
            let is_known = |bytes| {
                shown = Some(bytes);
                known
            };
            let again = Data::new_checked_but_name(&out[..len], is_known).unwrap();
            prop_assert_eq!(shown, Some(name.as_name().value()));
            prop_assert_eq!(again.name().len(), name.as_name().len());
            prop_assert_eq!(Repr::parse(&again), Ok(repr));
            prop_assert_eq!(again.signed_portion(), data.signed_portion());
            prop_assert!(Data::new_checked_but_name(&out[..len - 1], |_| known).is_err());
        }
        let mut signature = vec![0; max];
        signer.sign(&[data.signed_portion()], &mut signature);
        prop_assert_eq!(data.signature_value(), &signature[..signer.len]);
    }
}
