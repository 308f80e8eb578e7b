//! Replies: Data signed with a digest.

use std::borrow::Cow;

use plexus_wire::ndn::data::{ContentType, MetaInfo, Repr};
use plexus_wire::ndn::name::DIGEST_LEN;
use plexus_wire::ndn::nfd::{ControlParameters, ControlResponse, Record, status};
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signer};
use plexus_wire::ndn::{Component, Name, PACKET_LEN_MAX};

use super::verify::sha256;

/// How long an answer is fresh, in milliseconds (ndn-cxx, `Dispatcher`).
pub(super) const FRESHNESS_MS: u64 = 1000;

/// Signs with a digest.
struct Sha256Digest;

impl Signer for Sha256Digest {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo::new(SignatureType::DIGEST_SHA256)
    }

    fn signature_len_max(&self) -> usize {
        DIGEST_LEN
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        out.copy_from_slice(&sha256(parts));
        DIGEST_LEN
    }
}

/// Data with a name; `None` if the name is too long for Data.
pub(super) fn data(
    name: Name<'_>,
    content: &[u8],
    content_type: Option<ContentType>,
    final_block: Option<Component<'_>>,
) -> Option<Vec<u8>> {
    let meta = MetaInfo { content_type, freshness_ms: Some(FRESHNESS_MS), final_block };
    Repr { name, meta: Some(meta), content: Some(content) }.to_bytes(&Sha256Digest).ok()
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u64,
    pub(super) text: Cow<'static, str>,
    pub(super) parameters: Option<Box<ControlParameters>>,
}

impl Refusal {
    pub(super) fn new(code: u64, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, text: text.into(), parameters: None }
    }

    /// The client is not authorized.
    pub(super) fn unauthorized() -> Refusal {
        Refusal::new(status::UNAUTHORIZED, "authorization rejected")
    }

    /// The face has reached its limit of verifications.
    pub(super) fn unverified() -> Refusal {
        Refusal::new(status::UNAVAILABLE, "too many signatures to verify by this face: ask later")
    }

    /// The parameters do not fit the command.
    pub(super) fn parameters() -> Refusal {
        Refusal::new(status::BAD_PARAMETERS, "failed in validating parameters")
    }
}

/// Result of a command.
pub(super) type Outcome = Result<ControlParameters, Refusal>;

/// The reply to a command. If it would exceed the packet size, its parameters are left out; `None`
/// if that is not enough.
pub(super) fn response(
    name: Name<'_>,
    outcome: Outcome,
    content_type: Option<ContentType>,
) -> Option<Vec<u8>> {
    let (code, text, parameters) = match outcome {
        Ok(parameters) => (status::OK, "OK".into(), parameters),
        Err(Refusal { code, text, parameters }) => {
            (code, text, parameters.map(|p| *p).unwrap_or_default())
        }
    };
    let text = text.into_owned();
    let mut response = ControlResponse { code, text, parameters: Some(parameters) };
    for _ in 0..2 {
        let packet = data(name, &response.to_bytes(), content_type, None)?;
        if packet.len() <= PACKET_LEN_MAX {
            return Some(packet);
        }
        response.parameters = Some(ControlParameters::default());
    }
    None
}
