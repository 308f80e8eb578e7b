//! Named data: packets, link packets, records of management, names as text.

use plexus_wire::ndn::data::{self, ContentType, MetaInfo};
use plexus_wire::ndn::interest;
use plexus_wire::ndn::lp::{self, Headers, NackReason};
use plexus_wire::ndn::nfd::{self, Fields, Record};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType, Signed, Validity};
use plexus_wire::ndn::{Name, NameBuf, Names, PORT, types};
use plexus_wire::{EtherType, Protocol, udp};

use super::{frame, v4_frame, written};

fn name(uri: &str) -> NameBuf {
    uri.parse().expect("samples are valid")
}

fn signature_info(key: Name<'_>) -> SignatureInfo<'_> {
    SignatureInfo {
        key_locator: Some(KeyLocator::Name(key)),
        nonce: Some(b"\x01\x02\x03\x04"),
        time_ms: Some(1_700_000_000_000),
        seq_num: Some(7),
        ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
    }
}

/// Interests: plain, with everything, signed.
pub fn ndn_interests() -> Vec<Vec<u8>> {
    let (plain, hint) = (name("/a/b"), [7, 3, 8, 1, b'h', 7, 0]);
    let long = name("/a/...../v=256/seg=0").with([0xFF; 260]);
    let full = interest::Repr {
        can_be_prefix: true,
        must_be_fresh: true,
        forwarding_hint: Names::new_checked(&hint).expect("samples are valid"),
        nonce: Some([1, 2, 3, 4]),
        lifetime_ms: Some(2000),
        hop_limit: Some(64),
        ..interest::Repr::new(long.as_name())
    };
    let key = name("/me/KEY/1");
    let signer = Signed { info: signature_info(key.as_name()), value: &[0x30; 71] };
    let small = interest::Repr { hop_limit: Some(2), ..interest::Repr::new(plain.as_name()) };
    let signed = small.with_parameters(b"parameters", Some(&signer), |_| [9; 32]);
    vec![
        written!(interest::Repr::new(plain.as_name()), b""),
        written!(full, b""),
        signed.expect("samples are valid"),
    ]
}

/// Data: with everything, a certificate, and the least that there can be.
pub fn ndn_data() -> Vec<Vec<u8>> {
    let (chunk, key) = (name("/a/b/v=1/seg=3"), name("/me/KEY/1"));
    let meta = MetaInfo {
        content_type: Some(ContentType::KEY),
        freshness_ms: Some(1000),
        final_block: chunk.as_name().last(),
    };
    let validity = Validity { not_before: *b"20200101T000000", not_after: *b"20300101T000000" };
    let certificate = SignatureInfo { validity: Some(validity), ..signature_info(key.as_name()) };
    let digest = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let emitted = |name, meta, content, info, value| {
        let (repr, signer) = (data::Repr { name, meta, content }, Signed { info, value });
        let mut out = vec![0; repr.buffer_len(&signer)];
        repr.emit(&signer, &mut out).expect("samples are valid");
        out
    };
    let content = Some(&b"content"[..]);
    vec![
        emitted(chunk.as_name(), Some(meta), content, certificate, &[0x30; 71]),
        emitted(chunk.as_name(), None, content, digest, &[7; 32]),
        emitted(Name::ROOT, None, None, digest, &[]),
    ]
}

/// Link packets: a nack, a fragment with every header, acknowledgements, and bare packets.
pub fn ndn_links() -> Vec<Vec<u8>> {
    let interests = ndn_interests();
    let nack = Headers { nack: Some(NackReason::NO_ROUTE), ..Headers::default() };
    let full = Headers {
        sequence: Some(1),
        frag_index: Some(1),
        frag_count: Some(3),
        pit_token: Some(&[1, 2, 3, 4]),
        incoming_face: Some(256),
        next_hop_face: Some(7),
        no_cache: true,
        congestion_mark: Some(1),
        tx_sequence: Some(9),
        non_discovery: true,
        prefix_announcement: Some(&[6, 0]),
        ..nack
    };
    let mut links = interests.clone();
    for (headers, acks, fragment) in [
        (nack, &[][..], Some(&interests[0][..])),
        (full, &[3, 4], Some(b"\x05\x06")),
        (Headers::default(), &[1, u64::MAX], None),
    ] {
        let repr = lp::Repr { headers, acks, fragment };
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out).expect("samples are valid");
        links.push(out);
    }
    links
}

/// Records and datasets of management.
pub fn ndn_records() -> Vec<Vec<u8>> {
    let prefix = name("/my/app");
    let strategy = nfd::Strategy { name: name("/localhost/nfd/strategy/best-route/v=5") };
    let parameters = nfd::ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(256),
        uri: Some("udp4://192.0.2.1:6363".into()),
        cost: Some(10),
        flags: Some(1),
        mask: Some(1),
        strategy: Some(strategy.clone()),
        expiration_ms: Some(1000),
        ..Default::default()
    };
    let hop = nfd::NextHopRecord { face_id: 256, cost: 10 };
    let route = nfd::Route { face_id: 256, origin: 0, cost: 1, flags: 1, expiration_ms: Some(9) };
    let response = nfd::ControlResponse {
        code: nfd::status::OK,
        text: "OK".into(),
        parameters: Some(parameters.clone()),
    };
    let routes = nfd::RibEntry { name: prefix.clone(), routes: vec![route.clone(), route] };
    vec![
        parameters.to_bytes(),
        response.to_bytes(),
        nfd::FaceStatus { mtu: Some(1400), ..Default::default() }.to_bytes(),
        nfd::FaceQueryFilter { uri_scheme: Some("udp4".into()), ..Default::default() }.to_bytes(),
        nfd::FaceEventNotification::default().to_bytes(),
        nfd::ChannelStatus::default().to_bytes(),
        nfd::FibEntry { name: prefix.clone(), next_hops: vec![hop.clone(), hop] }.to_bytes(),
        [routes.to_bytes(), routes.to_bytes()].concat(),
        nfd::StrategyChoice { name: prefix, strategy }.to_bytes(),
        nfd::CsInfo::default().to_bytes(),
        nfd::GeneralStatus::default().fields_to_bytes(),
    ]
}

/// Names as text, and one as bytes.
pub fn ndn_names() -> Vec<Vec<u8>> {
    let digest = format!("/a/sha256digest={}", "0f".repeat(32));
    let mut bytes = name("/a/.../seg=1/t=70000").as_name().value().to_vec();
    bytes.extend([types::KEYWORD as u8, 1, b'k']);
    let texts = ["/", "ndn:/a/b%20c/....", "//host/8=a/32=key/", "/seg=0/off=1/v=2/t=3/seq=4"];
    let texts = texts.into_iter().chain([digest.as_str()]);
    texts.map(|text| text.as_bytes().to_vec()).chain([bytes]).collect()
}

/// Frames that carry named data.
pub(super) fn ndn_frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> =
        ndn_links()[2..].iter().map(|link| frame(EtherType::NDN, link)).collect();
    let data = &ndn_data()[1];
    let ports = udp::Repr { src_port: PORT, dst_port: 40_000, payload_len: data.len() };
    frames.push(v4_frame(Protocol::UDP, &written!(ports, data)));
    frames
}
