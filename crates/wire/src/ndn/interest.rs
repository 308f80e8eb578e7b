//! Interests (packet format, "Interest Packet" and "Signed Interest").
//!
//! ```text
//! Interest = Name [CanBePrefix] [MustBeFresh] [ForwardingHint] [Nonce] [InterestLifetime]
//!            [HopLimit] [ApplicationParameters [InterestSignatureInfo InterestSignatureValue]]
//! ```
//!
//! Elements that are unknown or out of order are ignored if they are not critical; otherwise the
//! packet is refused.

use std::fmt;
use std::time::Duration;

use super::name::{Component, DIGEST_LEN, Name, NameBuf, Names};
use super::signature::{SignatureInfo, Signer};
use super::tlv::{Reader, Writer};
use super::types;
use crate::error::{Error, Format};

/// How long an Interest that does not say waits for an answer.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(4);
/// Bytes of the element that [`Interest::with_nonce`] adds.
const NONCE_ELEMENT_LEN: usize = 6;

const F: Format = Format::NdnInterest;

/// A view of an Interest.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    bytes: &'a [u8],
    name: Name<'a>,
    forwarding_hint: Names<'a>,
    signature: Option<(&'a [u8], &'a [u8])>,
    lifetime_ms: Option<u64>,
    // Offsets in `bytes`; an absent element has offset 0.
    value_at: u32,
    nonce_slot: u32,
    nonce_at: u32,
    hop_limit_at: u32,
    parameters_at: u32,
    parameters_end: u32,
    signature_value_at: u32,
    can_be_prefix: bool,
    must_be_fresh: bool,
    has_implicit_digest: bool,
}

/// The order of the elements that are known; 0 for others.
fn rank(kind: u32) -> u8 {
    match kind {
        types::CAN_BE_PREFIX => 1,
        types::MUST_BE_FRESH => 2,
        types::FORWARDING_HINT => 3,
        types::NONCE => 4,
        types::INTEREST_LIFETIME => 5,
        types::HOP_LIMIT => 6,
        types::APPLICATION_PARAMETERS => 7,
        types::INTEREST_SIGNATURE_INFO => 8,
        types::INTEREST_SIGNATURE_VALUE => 9,
        _ => 0,
    }
}

impl<'a> Interest<'a> {
    /// Checks the Interest at the start of `bytes`; bytes after it (padding) are ignored.
    ///
    /// # Errors
    /// Truncated: it exceeds `bytes`. Invalid: not an Interest, no name or an empty one, an element
    /// that is malformed, or critical and unknown or out of order, parameters without their digest
    /// in the name, or two such digests.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Interest<'a>, Error> {
        let whole = Reader::new(bytes, F).expect(types::INTEREST, "packet type")?;
        let bytes = &bytes[..whole.end()];
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::invalid(F, "length", u32::MAX));
        }
        let base = whole.value_at;
        let mut reader = whole.elements();
        let name_element = reader.expect(types::NAME, "name")?;
        let (name, digests) = Name::check(name_element.value)?;
        if name.is_empty() {
            return Err(Error::invalid(F, "count of name components", 0));
        }
        let mut interest = Interest {
            bytes,
            name,
            forwarding_hint: Names::default(),
            signature: None,
            lifetime_ms: None,
            value_at: base as u32,
            nonce_slot: (base + name_element.end()) as u32,
            nonce_at: 0,
            hop_limit_at: 0,
            parameters_at: 0,
            parameters_end: 0,
            signature_value_at: 0,
            can_be_prefix: false,
            must_be_fresh: false,
            has_implicit_digest: digests.implicit != 0,
        };
        let mut last = interest.read_usual(&mut reader);
        let mut signature_info = None;
        while let Some(element) = reader.next()? {
            let rank = rank(element.kind);
            if rank <= last {
                element.ignore()?;
                continue;
            }
            // A signature needs parameters, and its value needs its information.
            match element.kind {
                types::INTEREST_SIGNATURE_INFO if last < 7 => continue,
                types::INTEREST_SIGNATURE_VALUE if last < 8 => continue,
                _ => last = rank,
            }
            match element.kind {
                types::CAN_BE_PREFIX => {
                    element.empty("length of CanBePrefix")?;
                    interest.can_be_prefix = true;
                }
                types::MUST_BE_FRESH => {
                    element.empty("length of MustBeFresh")?;
                    interest.must_be_fresh = true;
                }
                types::FORWARDING_HINT => {
                    interest.forwarding_hint = Names::new_checked(element.value)?;
                }
                types::NONCE => {
                    element.array::<4>("length of nonce")?;
                    interest.nonce_at = (base + element.value_at) as u32;
                }
                types::INTEREST_LIFETIME => interest.lifetime_ms = Some(element.number()?),
                types::HOP_LIMIT => {
                    element.array::<1>("length of hop limit")?;
                    interest.hop_limit_at = (base + element.value_at) as u32;
                }
                types::APPLICATION_PARAMETERS => {
                    interest.parameters_at = (base + element.start) as u32;
                    interest.parameters_end = (base + element.end()) as u32;
                }
                types::INTEREST_SIGNATURE_INFO => signature_info = Some(element.value),
                _ => {
                    interest.signature = signature_info.map(|info| (info, element.value));
                    interest.signature_value_at = (base + element.start) as u32;
                }
            }
            if rank < 4 {
                interest.nonce_slot = (base + element.end()) as u32;
            }
        }
        // Parameters require exactly one digest of them. A digest without parameters is valid: the
        // names of answers to a command extend the command's.
        match digests.parameters {
            1 => Ok(interest),
            0 if interest.parameters_at == 0 => Ok(interest),
            count => Err(Error::invalid(F, "count of parameters' digests", count)),
        }
    }

    /// Parses the elements that almost every Interest has after its name, as far as they are
    /// present and in order; returns the rank of the last one.
    #[inline(always)]
    fn read_usual(&mut self, reader: &mut Reader<'a>) -> u8 {
        let base = self.value_at;
        let mut last = 0;
        if reader.take_short(types::CAN_BE_PREFIX, 0).is_some() {
            (self.can_be_prefix, last) = (true, 1);
        }
        if reader.take_short(types::MUST_BE_FRESH, 0).is_some() {
            (self.must_be_fresh, last) = (true, 2);
        }
        self.nonce_slot = base + reader.at() as u32;
        if let Some(at) = reader.take_short(types::NONCE, 4) {
            (self.nonce_at, last) = (base + at as u32, 4);
        }
        if let Some(at) = reader.take_short(types::INTEREST_LIFETIME, 2) {
            let value = &self.bytes[base as usize + at..];
            self.lifetime_ms = value.first_chunk().map(|ms| u16::from_be_bytes(*ms).into());
            last = 5;
        }
        if let Some(at) = reader.take_short(types::HOP_LIMIT, 1) {
            (self.hop_limit_at, last) = (base + at as u32, 6);
        }
        last
    }

    /// The Interest, from its type to its end.
    #[inline(always)]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The name; it has at least one component.
    #[inline(always)]
    pub const fn name(&self) -> Name<'a> {
        self.name
    }

    /// An implicit digest is among the name's components: a name that no Data has.
    #[inline(always)]
    pub const fn has_implicit_digest(&self) -> bool {
        self.has_implicit_digest
    }

    /// Data with a longer name will do.
    #[inline(always)]
    pub const fn can_be_prefix(&self) -> bool {
        self.can_be_prefix
    }

    /// A cache may answer only with Data that is fresh.
    #[inline(always)]
    pub const fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// Names towards which the Interest may be sent instead; empty if there are none.
    #[inline(always)]
    pub const fn forwarding_hint(&self) -> Names<'a> {
        self.forwarding_hint
    }

    /// Distinguishes it from other Interests with the same name.
    #[inline(always)]
    pub fn nonce(&self) -> Option<[u8; 4]> {
        self.nonce_at()?;
        let at = self.nonce_at as usize;
        self.bytes[at..at + 4].try_into().ok()
    }

    /// Offset of the nonce's four bytes in the packet.
    #[inline(always)]
    pub const fn nonce_at(&self) -> Option<usize> {
        offset(self.nonce_at)
    }

    /// How long to wait for an answer: [`LIFETIME_DEFAULT`] if it does not say.
    #[inline(always)]
    pub fn lifetime(&self) -> Duration {
        self.lifetime_ms.map_or(LIFETIME_DEFAULT, Duration::from_millis)
    }

    /// How many more nodes may forward it; `None`: any number.
    #[inline(always)]
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit_at().map(|at| self.bytes[at])
    }

    /// Offset of the hop limit's byte in the packet: a forwarder decrements it in place. Neither
    /// digest nor signature covers it.
    #[inline(always)]
    pub const fn hop_limit_at(&self) -> Option<usize> {
        offset(self.hop_limit_at)
    }

    /// The application's parameters: the value of ApplicationParameters.
    pub fn parameters(&self) -> Option<&'a [u8]> {
        let element = &self.bytes[offset(self.parameters_at)?..self.parameters_end as usize];
        Reader::new(element, F).next().ok().flatten().map(|e| e.value)
    }

    /// The bytes of which the name holds the digest: from ApplicationParameters to the end. Empty
    /// if there are none.
    pub fn parameters_portion(&self) -> &'a [u8] {
        offset(self.parameters_at).map_or(&[], |at| &self.bytes[at..])
    }

    /// The signature, if it has one.
    pub fn signature(&self) -> Option<Signature<'a>> {
        let (info, value) = self.signature?;
        let tail = &self.bytes[self.parameters_at as usize..self.signature_value_at as usize];
        let (_, digest_at) = self.name.parameters_digest()?;
        let signed = [&self.name.value()[..digest_at], tail];
        let digest_end = self.name.value()[digest_at..].len() == DIGEST_COMPONENT_LEN;
        Some(Signature { info, value, signed, digest_is_last: digest_end })
    }

    /// Bytes that [`Interest::with_nonce`] writes.
    pub const fn with_nonce_len(&self) -> usize {
        let value_len = self.bytes.len() - self.value_at as usize + NONCE_ELEMENT_LEN;
        super::tlv::element_len(types::INTEREST, value_len)
    }

    /// Writes the Interest with a nonce added, which a forwarder has to do if it has none. A
    /// signature stays unchanged.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than [`Interest::with_nonce_len`]. Invalid: it has a nonce.
    pub fn with_nonce(&self, nonce: [u8; 4], buf: &mut [u8]) -> Result<usize, Error> {
        if self.nonce_at != 0 {
            return Err(Error::invalid(F, "count of nonces", 2));
        }
        let (value_at, slot) = (self.value_at as usize, self.nonce_slot as usize);
        let mut writer = Writer::new(buf);
        writer.head(types::INTEREST, self.bytes.len() - value_at + NONCE_ELEMENT_LEN);
        writer.bytes(&self.bytes[value_at..slot]);
        writer.element(types::NONCE, &nonce);
        writer.bytes(&self.bytes[slot..]);
        writer.finish(F)
    }
}

const DIGEST_COMPONENT_LEN: usize = 2 + DIGEST_LEN;

const fn offset(at: u32) -> Option<usize> {
    match at {
        0 => None,
        at => Some(at as usize),
    }
}

/// The signature of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    info: &'a [u8],
    /// The signature itself.
    pub value: &'a [u8],
    /// The bytes that it is over: first the name's components up to the parameters' digest, then
    /// from ApplicationParameters to before the signature.
    pub signed: [&'a [u8]; 2],
    /// The name ends with the parameters' digest. Otherwise the signature is invalid.
    pub digest_is_last: bool,
}

impl<'a> Signature<'a> {
    /// Its signature information.
    ///
    /// # Errors
    /// As [`SignatureInfo::parse`].
    pub fn info(&self) -> Result<SignatureInfo<'a>, Error> {
        SignatureInfo::parse(self.info)
    }
}

/// The meaning of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The name, of at least one component.
    pub name: Name<'a>,
    /// Data with a longer name will do.
    pub can_be_prefix: bool,
    /// A cache may answer only with Data that is fresh.
    pub must_be_fresh: bool,
    /// Names towards which it may be sent instead.
    pub forwarding_hint: Names<'a>,
    /// Distinguishes it from other Interests with the same name.
    pub nonce: Option<[u8; 4]>,
    /// How long to wait for an answer, in milliseconds; [`LIFETIME_DEFAULT`] if it does not say.
    pub lifetime_ms: Option<u64>,
    /// How many more nodes may forward it.
    pub hop_limit: Option<u8>,
    /// [`Interest::parameters_portion`]. `name` has to hold its digest:
    /// [`Repr::with_parameters`] sees to both.
    pub parameters_portion: &'a [u8],
}

impl<'a> Repr<'a> {
    /// An Interest with only a name.
    pub const fn new(name: Name<'a>) -> Repr<'a> {
        Repr {
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Names::EMPTY,
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            parameters_portion: &[],
        }
    }

    /// The meaning of `interest`.
    ///
    /// # Errors
    /// None today: whatever the view has checked is valid.
    pub fn parse(interest: &Interest<'a>) -> Result<Repr<'a>, Error> {
        Ok(Repr {
            name: interest.name,
            can_be_prefix: interest.can_be_prefix,
            must_be_fresh: interest.must_be_fresh,
            forwarding_hint: interest.forwarding_hint,
            nonce: interest.nonce(),
            lifetime_ms: interest.lifetime_ms,
            hop_limit: interest.hop_limit(),
            parameters_portion: interest.parameters_portion(),
        })
    }

    fn write_value(&self, name: Name<'_>, w: &mut Writer<'_>) {
        name.write(w);
        if self.can_be_prefix {
            w.element(types::CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            w.element(types::MUST_BE_FRESH, &[]);
        }
        if !self.forwarding_hint.is_empty() {
            w.element(types::FORWARDING_HINT, self.forwarding_hint.as_bytes());
        }
        if let Some(nonce) = self.nonce {
            w.element(types::NONCE, &nonce);
        }
        w.optional_number(types::INTEREST_LIFETIME, self.lifetime_ms);
        if let Some(hop_limit) = self.hop_limit {
            w.element(types::HOP_LIMIT, &[hop_limit]);
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.nested(types::INTEREST, |w| {
            self.write_value(self.name, w);
            w.bytes(self.parameters_portion);
        });
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        Writer::count(|w| self.write(w))
    }

    /// Writes the Interest at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let mut writer = Writer::new(buf);
        self.write(&mut writer);
        writer.finish(F).map(|_| ())
    }

    /// The Interest in a buffer of its own.
    ///
    /// # Errors
    /// As [`Repr::emit`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; self.buffer_len()];
        self.emit(&mut out)?;
        Ok(out)
    }

    /// The Interest with parameters, signed if there is a signer, and with the digest that goes
    /// with them at the end of its name, where it takes the place of any other; `sha256` is the
    /// hash. The repr's own `parameters_portion` is not looked at.
    ///
    /// # Errors
    /// Invalid: the signer wrote more than it said it would.
    pub fn with_parameters(
        &self,
        parameters: &[u8],
        signer: Option<&dyn Signer>,
        sha256: impl FnOnce(&[u8]) -> [u8; DIGEST_LEN],
    ) -> Result<Vec<u8>, Error> {
        let mut name = NameBuf::new();
        for component in self.name {
            if u32::from(component.kind) != types::PARAMETERS_SHA256_DIGEST {
                name.push(component)?;
            }
        }
        let write = |w: &mut Writer<'_>| {
            w.element(types::APPLICATION_PARAMETERS, parameters);
            if let Some(signer) = signer {
                signer.info().write(types::INTEREST_SIGNATURE_INFO, w);
            }
        };
        let mut portion = vec![0; Writer::count(write)];
        write(&mut Writer::new(&mut portion));
        if let Some(signer) = signer {
            let max = signer.signature_len_max();
            let mut value = vec![0; max];
            let len = signer.sign(&[name.as_name().value(), &portion], &mut value);
            let Some(value) = value.get(..len) else {
                return Err(Error::invalid(F, "length of signature", len as u32));
            };
            let at = portion.len();
            let element = |w: &mut Writer<'_>| w.element(types::INTEREST_SIGNATURE_VALUE, value);
            portion.resize(at + Writer::count(element), 0);
            element(&mut Writer::new(&mut portion[at..]));
        }
        let kind = types::PARAMETERS_SHA256_DIGEST as u16;
        name.push(Component { kind, value: &sha256(&portion) })?;
        Repr { name: name.as_name(), parameters_portion: &portion, ..*self }.to_bytes()
    }
}

impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interest {}", self.name)?;
        for (said, text) in [(self.can_be_prefix, " prefix"), (self.must_be_fresh, " fresh")] {
            f.write_str(if said { text } else { "" })?;
        }
        for name in self.forwarding_hint.iter() {
            write!(f, " hint {name}")?;
        }
        if let Some(nonce) = self.nonce {
            write!(f, " nonce {:08x}", u32::from_be_bytes(nonce))?;
        }
        if let Some(ms) = self.lifetime_ms {
            write!(f, " lifetime {ms} ms")?;
        }
        if let Some(hops) = self.hop_limit {
            write!(f, " hops {hops}")?;
        }
        match self.parameters_portion.len() {
            0 => Ok(()),
            len => write!(f, " parameters {len}"),
        }
    }
}

#[cfg(test)]
mod tests;
