//! Prefix announcements (NFD wiki, "PrefixAnnouncement"): `/PREFIX/32=PA/v=VERSION/seg=0`, signed
//! by a key that may announce the prefix, as parameters of `rib/announce`.
//!
//! ```text
//! Content = ExpirationPeriod [ValidityPeriod]
//! ```

use plexus_wire::Format;
use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::nfd::{ControlParameters, origin, route_flags, status};
use plexus_wire::ndn::signature::Validity;
use plexus_wire::ndn::tlv::Reader;
use plexus_wire::ndn::{Component, Data, Interest, types};

use super::budget::Leave;
use super::reply::Refusal;
use super::verify::{self, Maker, Trust};

/// Cost of a route by announcement (NFD, `PA_ROUTE_COST`).
const COST: u64 = 2048;
/// ndn-cxx, `tlv::ContentType_PrefixAnn`.
const PREFIX_ANNOUNCEMENT: ContentType = ContentType(5);
const EXPIRATION_PERIOD: u32 = 109;

pub(super) struct Announced {
    /// As parameters of `rib/register`.
    pub(super) asked: ControlParameters,
    /// The key that signed it.
    pub(super) announcer: Maker,
}

/// Why an announcement is refused.
pub(super) enum Fault {
    /// The verification limit did not allow verifying its signature.
    Unverified,
    Refused(Refusal),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault::Refused(refusal)
    }
}

/// How many verifications the announcement's signature may need.
pub(super) fn verifications(interest: &Interest<'_>, trust: &Trust) -> usize {
    let data = interest.parameters().and_then(|packet| Data::new_checked(packet).ok());
    let info = data.and_then(|data| data.signature_info().ok());
    info.map_or(0, |info| trust.verifications(&info))
}

/// The route that an announcement in an Interest asks for.
pub(super) fn read(
    interest: &Interest<'_>,
    trust: &Trust,
    unix_ms: u64,
    leave: &mut Leave<'_>,
) -> Result<Announced, Fault> {
    let wrong = || Refusal::new(status::BAD_PARAMETERS, "Prefix announcement is malformed");
    let packet = interest.parameters().ok_or_else(wrong)?;
    let data = Data::new_checked(packet).map_err(|_| wrong())?;
    let content = Content::read(&data).ok_or_else(wrong)?;
    let name = data.name();
    let prefix = name.len().checked_sub(3).ok_or_else(wrong)?;
    let mut last = name.components().skip(prefix);
    let mut next = || last.next().ok_or_else(wrong);
    let keyword = Component { kind: types::KEYWORD as u16, value: b"PA" };
    let is_one = next()? == keyword
        && next()?.number(types::VERSION).is_some()
        && next()?.number(types::SEGMENT).is_some()
        && data.content_type() == PREFIX_ANNOUNCEMENT;
    if !is_one {
        return Err(wrong().into());
    }
    let rejected = |why| {
        let text = format!("Prefix announcement rejected: {why}");
        Refusal::new(status::UNAUTHORIZED, text)
    };
    let info = data.signature_info().map_err(|_| wrong())?;
    let signed = [data.signed_portion()];
    let value = data.signature_value();
    let announcer = match trust.verify(trust.announcements, unix_ms, &info, &signed, value, leave) {
        Ok(maker) => maker,
        Err(verify::Fault::Unverified) => return Err(Fault::Unverified),
        Err(verify::Fault::Forged | verify::Fault::Untrusted) => {
            return Err(rejected("its signature is not accepted").into());
        }
    };
    if content.validity.is_some_and(|v| !v.includes(unix_ms)) {
        return Err(rejected("it is not valid now").into());
    }
    let asked = ControlParameters {
        name: Some(name.prefix(prefix).to_buf()),
        origin: Some(origin::PREFIX_ANNOUNCEMENT),
        cost: Some(COST),
        flags: Some(route_flags::CHILD_INHERIT),
        expiration_ms: Some(content.expiration_ms),
        ..ControlParameters::default()
    };
    Ok(Announced { asked, announcer })
}

struct Content {
    expiration_ms: u64,
    validity: Option<Validity>,
}

impl Content {
    fn read(data: &Data<'_>) -> Option<Content> {
        let mut reader = Reader::new(data.content(), Format::NdnManagement);
        let (mut expiration_ms, mut validity) = (None, None);
        while let Some(element) = reader.next().ok()? {
            match element.kind {
                EXPIRATION_PERIOD => expiration_ms = Some(element.number().ok()?),
                types::VALIDITY_PERIOD => {
                    let mut ends = element.elements();
                    let mut end = |kind| {
                        ends.expect(kind, "end of a validity period").ok()?.array("time").ok()
                    };
                    let not_before = end(types::NOT_BEFORE)?;
                    validity = Some(Validity { not_before, not_after: end(types::NOT_AFTER)? });
                }
                _ => element.ignore().ok()?,
            }
        }
        Some(Content { expiration_ms: expiration_ms?, validity })
    }
}
