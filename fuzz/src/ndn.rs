//! Targets that read named data. Each takes its bytes as they are, and once more as the value of
//! the element that it reads: so what stands within is reached although lengths do not fit.

use std::fmt::Debug;
use std::hint::black_box;

use plexus_wire::ndn::interest::{self, Interest};
use plexus_wire::ndn::nfd::{self, Fields, Record};
use plexus_wire::ndn::signature::{SignatureInfo, Signed};
use plexus_wire::ndn::tlv::Writer;
use plexus_wire::ndn::{Component, Data, Name, NameBuf, data, lp, types};

fn element(kind: u32, value: &[u8]) -> Vec<u8> {
    let mut out = vec![0; Writer::count(|w| w.element(kind, value))];
    Writer::new(&mut out).element(kind, value);
    out
}

/// What a name offers agrees with itself, and survives text.
fn check_name(name: Name<'_>) {
    assert_eq!(name.components().count(), name.len());
    assert!(name.ends().eq((1..=name.len()).map(|len| name.prefix(len).value().len())));
    assert_eq!(name.ends().last().unwrap_or(0), name.value().len());
    assert_eq!(name.is_empty(), name.last().is_none());
    let text = name.to_string();
    assert!(!text.contains(|c: char| c.is_control() || c.is_whitespace()));
    assert_eq!(text.parse::<NameBuf>().as_ref().map(NameBuf::as_name), Ok(name));
    if let Some((digest, at)) = name.parameters_digest() {
        assert_eq!(name.value()[at..][..34], [&[2, 32][..], digest].concat());
    }
}

fn check_signature_info(info: SignatureInfo<'_>) {
    let write = |w: &mut Writer<'_>| info.write(types::SIGNATURE_INFO, w);
    let mut out = vec![0; Writer::count(write)];
    write(&mut Writer::new(&mut out));
    let head = 2 + 2 * usize::from(out.len() > 254);
    assert_eq!(SignatureInfo::parse(&out[head..]), Ok(info));
}

/// [`plexus_wire::ndn::name`]: as text, and as the value of a Name.
pub fn ndn_name(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        match text.parse::<NameBuf>() {
            Ok(name) => check_name(name.as_name()),
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    let Ok(name) = Name::new_checked(data) else { return };
    check_name(name);
    let mut built = NameBuf::new();
    for component in name {
        built.push(component).expect("a checked component can be added");
    }
    // What was written in the shortest way is written in the same.
    assert_eq!(built.as_name(), name);
    assert_eq!(Component::new_checked(data).is_ok(), name.len() == 1);
}

/// [`plexus_wire::ndn::interest`].
pub fn ndn_interest(data: &[u8]) {
    check_interest(data);
    check_interest(&element(types::INTEREST, data));
}

fn check_interest(bytes: &[u8]) {
    let Ok(view) = Interest::new_checked(bytes) else { return };
    assert!(bytes.starts_with(view.as_bytes()));
    check_name(view.name());
    view.forwarding_hint().iter().for_each(check_name);
    assert!(view.as_bytes().ends_with(view.parameters_portion()));
    assert_eq!(view.parameters().is_some(), !view.parameters_portion().is_empty());
    assert_eq!(view.hop_limit_at().map(|at| bytes[at]), view.hop_limit());
    assert_eq!(view.nonce_at().map(|at| &bytes[at..at + 4]), view.nonce().as_ref().map(|n| &n[..]));
    black_box(view.lifetime());
    if let Some(signature) = view.signature() {
        assert!(view.name().value().starts_with(signature.signed[0]));
        assert!(view.parameters_portion().starts_with(signature.signed[1]));
        signature.info().into_iter().for_each(check_signature_info);
    }
    let repr = interest::Repr::parse(&view).expect("what was checked has a meaning");
    let mut out = vec![0xEE; repr.buffer_len()];
    repr.emit(&mut out).expect("what was read can be written");
    let again = Interest::new_checked(&out).expect("what was written can be read");
    assert_eq!(interest::Repr::parse(&again).as_ref(), Ok(&repr));
    assert!(repr.emit(&mut out[1..]).is_err(), "a short buffer is refused");
    black_box(repr.to_string());

    let mut out = vec![0xEE; view.with_nonce_len()];
    let added = view.with_nonce([1, 2, 3, 4], &mut out);
    assert_eq!(added.is_ok(), view.nonce().is_none());
    if let Ok(len) = added {
        assert_eq!(len, out.len());
        let again = Interest::new_checked(&out).expect("a nonce breaks nothing");
        let expected = interest::Repr { nonce: Some([1, 2, 3, 4]), ..repr };
        assert_eq!(interest::Repr::parse(&again), Ok(expected));
    }
}

/// [`plexus_wire::ndn::data`].
pub fn ndn_data(data: &[u8]) {
    check_data(data);
    check_data(&element(types::DATA, data));
}

fn check_data(bytes: &[u8]) {
    let Ok(view) = Data::new_checked(bytes) else { return };
    assert!(bytes.starts_with(view.as_bytes()));
    check_name(view.name());
    black_box((view.content_type(), view.freshness()));
    assert!(view.signed_portion().len() < view.as_bytes().len());
    let repr = data::Repr::parse(&view).expect("what was checked has a meaning");
    black_box(repr.to_string());
    let Ok(info) = view.signature_info() else { return };
    check_signature_info(info);
    let signer = Signed { info, value: view.signature_value() };
    let mut out = vec![0xEE; repr.buffer_len(&signer)];
    assert_eq!(repr.emit(&signer, &mut out), Ok(out.len()));
    let again = Data::new_checked(&out).expect("what was written can be read");
    assert_eq!(data::Repr::parse(&again), Ok(repr));
    assert_eq!(again.signature_info(), Ok(info));
    assert_eq!(again.signature_value(), view.signature_value());
}

/// [`plexus_wire::ndn::lp`].
pub fn ndn_lp(data: &[u8]) {
    check_lp(data);
    check_lp(&element(types::LP_PACKET, data));
}

fn check_lp(bytes: &[u8]) {
    let Ok(view) = lp::Packet::new_checked(bytes) else { return };
    assert!(bytes.starts_with(view.as_bytes()));
    let (index, count) = view.fragmentation();
    assert!(index < count);
    let mut acks = Vec::new();
    let repr = lp::Repr::parse(&view, &mut acks).expect("what was checked has a meaning");
    let mut out = vec![0xEE; repr.buffer_len()];
    assert_eq!(repr.emit(&mut out), Ok(out.len()));
    let mut head = vec![0xEE; repr.head_len()];
    assert_eq!(repr.emit_head(&mut head), Ok(head.len()));
    assert_eq!([&head, repr.fragment.unwrap_or_default()].concat(), out);
    black_box(repr.to_string());
    if head.is_empty() {
        // Bare: what it is shows only when it is read as what it should be.
        assert_eq!(Some(&out[..]), view.fragment());
        return;
    }
    let again = lp::Packet::new_checked(&out).expect("what was written can be read");
    let mut acks = Vec::new();
    assert_eq!(lp::Repr::parse(&again, &mut acks), Ok(repr));
}

/// [`plexus_wire::ndn::nfd`]: as every record there is.
pub fn ndn_nfd(data: &[u8]) {
    check_record::<nfd::ControlParameters>(data);
    check_record::<nfd::ControlResponse>(data);
    check_record::<nfd::FaceStatus>(data);
    check_record::<nfd::FaceQueryFilter>(data);
    check_record::<nfd::FaceEventNotification>(data);
    check_record::<nfd::ChannelStatus>(data);
    check_record::<nfd::FibEntry>(data);
    check_record::<nfd::RibEntry>(data);
    check_record::<nfd::StrategyChoice>(data);
    check_record::<nfd::CsInfo>(data);
    if let Ok(status) = nfd::GeneralStatus::parse_fields(data) {
        assert_eq!(nfd::GeneralStatus::parse_fields(&status.fields_to_bytes()), Ok(status));
    }
    if let Ok(name) = Name::new_checked(data) {
        (0..6).for_each(|at| drop(nfd::ControlParameters::of_command(&name, at)));
    }
}

fn check_record<R: Record + PartialEq + Debug>(data: &[u8]) {
    if let Ok(records) = R::parse_dataset(data) {
        let bytes: Vec<u8> = records.iter().flat_map(Record::to_bytes).collect();
        assert!(bytes.len() <= data.len(), "no more is kept than there was");
        assert_eq!(R::parse_dataset(&bytes), Ok(records));
    }
    if let Ok(record) = R::parse_fields(data) {
        assert_eq!(R::parse(&record.to_bytes()), Ok(record));
    }
}
