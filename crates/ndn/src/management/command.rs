//! Management Interests: what they ask for, and their signatures.
//!
//! ```text
//! v0.3: /localhost/nfd/MODULE/VERB/PARAMETERS/params-sha256=…            signature in elements
//! v0.2: /localhost/nfd/MODULE/VERB/PARAMETERS/TIMESTAMP/NONCE/INFO/VALUE
//! ```
//!
//! (Packet format, "Signed Interest"; ndn-cxx wiki, "CommandInterest".)

use plexus_wire::Format;
use plexus_wire::ndn::name::DIGEST_LEN;
use plexus_wire::ndn::signature::SignatureInfo;
use plexus_wire::ndn::tlv::Reader;
use plexus_wire::ndn::{Component, Interest, Name, tlv, types};

use super::budget::Leave;
use super::verify::{Fault, Maker, Policy, Trust, sha256};

/// Components before a command's parameters.
pub(super) const PARAMETERS_AT: usize = 4;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    RibRegister,
    RibUnregister,
    RibAnnounce,
    FaceCreate,
    FaceUpdate,
    FaceDestroy,
    FibAdd,
    FibRemove,
    StrategySet,
    StrategyUnset,
    CacheConfig,
    CacheErase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dataset {
    Rib,
    Fib,
    Faces,
    FaceQuery,
    Channels,
    Strategies,
    Cache,
    Status,
}

/// The kind of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Command(Verb),
    Dataset(Dataset),
    Events,
    /// An unknown module or verb.
    Unknown,
    /// Not a management Interest.
    Nothing,
}

/// A management Interest.
pub(super) struct Request<'a> {
    pub(super) interest: Interest<'a>,
    pub(super) asked: Asked,
    /// Under `/localhop`, not `/localhost`.
    pub(super) is_localhop: bool,
}

impl<'a> Request<'a> {
    pub(super) fn new(interest: Interest<'a>) -> Request<'a> {
        let mut components = interest.name().components();
        let is_generic = |c: &Component<'_>| u32::from(c.kind) == types::GENERIC_COMPONENT;
        let mut next = || components.next().filter(is_generic).map(|c| c.value);
        let top = (next(), next());
        let is_localhop = top.0 == Some(b"localhop");
        let asked = match (top, next(), next()) {
            ((Some(b"localhost"), Some(b"nfd")), Some(module), Some(verb)) => asked(module, verb),
            // Neighbours may register routes but not list them.
            ((Some(b"localhop"), Some(b"nfd")), Some(b"rib"), Some(verb)) => {
                match asked(b"rib", verb) {
                    Asked::Dataset(_) => Asked::Nothing,
                    other => other,
                }
            }
            _ => Asked::Nothing,
        };
        Request { interest, asked, is_localhop }
    }

    /// False if there are parameters whose digest is not in the name.
    pub(super) fn has_digest(&self) -> bool {
        let portion = self.interest.parameters_portion();
        let digest = self.interest.name().parameters_digest();
        portion.is_empty() || digest.is_some_and(|(digest, _)| *digest == sha256(&[portion]))
    }

    /// The signature; `None` if there is none or it cannot be parsed.
    pub(super) fn signed(&self) -> Option<Signed<'a>> {
        let name = self.interest.name();
        let Some(signature) = self.interest.signature() else { return Signed::in_name(name) };
        let info = signature.info().ok().filter(|_| signature.digest_is_last)?;
        let (time_ms, seq_num) = (info.time_ms, info.seq_num);
        Some(Signed { info, parts: signature.signed, value: signature.value, time_ms, seq_num })
    }
}

fn asked(module: &[u8], verb: &[u8]) -> Asked {
    use Asked::{Command, Events, Unknown};
    match (module, verb) {
        (b"rib", b"register") => Command(Verb::RibRegister),
        (b"rib", b"unregister") => Command(Verb::RibUnregister),
        (b"rib", b"announce") => Command(Verb::RibAnnounce),
        (b"rib", b"list") => Asked::Dataset(Dataset::Rib),
        (b"faces", b"create") => Command(Verb::FaceCreate),
        (b"faces", b"update") => Command(Verb::FaceUpdate),
        (b"faces", b"destroy") => Command(Verb::FaceDestroy),
        (b"faces", b"list") => Asked::Dataset(Dataset::Faces),
        (b"faces", b"query") => Asked::Dataset(Dataset::FaceQuery),
        (b"faces", b"channels") => Asked::Dataset(Dataset::Channels),
        (b"faces", b"events") => Events,
        (b"fib", b"add-nexthop") => Command(Verb::FibAdd),
        (b"fib", b"remove-nexthop") => Command(Verb::FibRemove),
        (b"fib", b"list") => Asked::Dataset(Dataset::Fib),
        (b"strategy-choice", b"set") => Command(Verb::StrategySet),
        (b"strategy-choice", b"unset") => Command(Verb::StrategyUnset),
        (b"strategy-choice", b"list") => Asked::Dataset(Dataset::Strategies),
        (b"cs", b"config") => Command(Verb::CacheConfig),
        (b"cs", b"erase") => Command(Verb::CacheErase),
        (b"cs", b"info") => Asked::Dataset(Dataset::Cache),
        (b"status", b"general") => Asked::Dataset(Dataset::Status),
        _ => Unknown,
    }
}

/// A signature of a command, in either form.
pub(super) struct Signed<'a> {
    info: SignatureInfo<'a>,
    parts: [&'a [u8]; 2],
    value: &'a [u8],
    /// When it was made, in milliseconds since 1970.
    pub(super) time_ms: Option<u64>,
    pub(super) seq_num: Option<u64>,
}

impl<'a> Signed<'a> {
    /// A signature in the v0.2 form: the last four components.
    fn in_name(name: Name<'a>) -> Option<Signed<'a>> {
        let first = name.len().checked_sub(4).filter(|first| *first > PARAMETERS_AT)?;
        let mut last = name.components().skip(first);
        let mut next = || last.next().filter(|c| u32::from(c.kind) == types::GENERIC_COMPONENT);
        let [time, _nonce, info, value] = [next()?, next()?, next()?, next()?];
        let inner = |c: Component<'a>, kind| {
            Reader::new(c.value, Format::NdnSignature).expect(kind, "element of a name").ok()
        };
        let info = inner(info, types::SIGNATURE_INFO)?.value;
        let value = inner(value, types::SIGNATURE_VALUE)?.value;
        Some(Signed {
            info: SignatureInfo::parse(info).ok()?,
            parts: [name.prefix(name.len() - 1).value(), &[]],
            value,
            time_ms: Some(tlv::parse_number(time.value)?),
            seq_num: None,
        })
    }

    /// The signer, if the policy accepts the signature.
    pub(super) fn verify(
        &self,
        trust: &Trust,
        policy: Policy,
        unix_ms: u64,
        leave: &mut Leave<'_>,
    ) -> Result<Maker, Fault> {
        trust.verify(policy, unix_ms, &self.info, &self.parts, self.value, leave)
    }

    /// The hash of the signed bytes.
    pub(super) fn hash(&self) -> [u8; DIGEST_LEN] {
        sha256(&self.parts)
    }
}
