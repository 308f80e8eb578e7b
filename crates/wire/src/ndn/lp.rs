//! The link protocol NDNLPv2 (NFD wiki, "NDNLPv2"; type numbers as in ndn-cxx and ndnd).
//!
//! ```text
//! LpPacket = *header [Fragment]
//! ```
//!
//! Without a fragment the packet is "idle": it carries acknowledgements, or nothing. A bare
//! Interest or Data is the same as a packet of no headers around it, and is written that way.
//!
//! Headers are written in the order of their numbers, as ndn-cxx demands. They are read in any
//! order (python-ndn has another), each once but for acknowledgements, and before the fragment. A
//! header that is unknown is left alone if its number is in 800..=959 and divisible by four;
//! otherwise it refuses the packet.

use std::fmt;

use super::tlv::{self, Element, Reader, Writer};
use super::types;
use crate::bytes::numbers;
use crate::error::{Error, Format};

/// Longest PIT token in bytes.
pub const PIT_TOKEN_LEN_MAX: usize = 32;

const F: Format = Format::NdnLp;

numbers! {
    /// Why an Interest comes back.
    NackReason(u64) {
        /// It does not say.
        NONE = 0, "no reason";
        /// The path is congested.
        CONGESTION = 50, "congestion";
        /// The node has seen the nonce before.
        DUPLICATE = 100, "duplicate";
        /// There is no route.
        NO_ROUTE = 150, "no route";
        _ => |f, n| write!(f, "reason {n}")
    }
}

impl NackReason {
    /// Severity, for a node that has to forward one of several Nacks: the lowest wins. Unknown
    /// reasons are the most severe.
    pub const fn severity(self) -> u64 {
        match self {
            NackReason::CONGESTION | NackReason::DUPLICATE | NackReason::NO_ROUTE => self.0,
            _ => u64::MAX,
        }
    }
}

/// The headers of a link packet, except acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    /// Number of the fragment; the fragments of a packet have consecutive ones.
    pub sequence: Option<u64>,
    /// Which fragment of its packet, from 0.
    pub frag_index: Option<u64>,
    /// How many fragments the packet has.
    pub frag_count: Option<u64>,
    /// Comes back with the answer as it was: 1 to 32 bytes.
    pub pit_token: Option<&'a [u8]>,
    /// The fragment is an Interest that comes back.
    pub nack: Option<NackReason>,
    /// To an application: the face that the packet came from.
    pub incoming_face: Option<u64>,
    /// From an application: the face that the Interest is to be sent to.
    pub next_hop_face: Option<u64>,
    /// The Data is not to be cached. (NoCache is the only policy there is.)
    pub no_cache: bool,
    /// Congestion on the path: 0 is none.
    pub congestion_mark: Option<u64>,
    /// Number with which the receiver acknowledges this link packet.
    pub tx_sequence: Option<u64>,
    /// From a self-learning node: the Interest does not discover routes.
    pub non_discovery: bool,
    /// A Data packet that announces a prefix; not checked.
    pub prefix_announcement: Option<&'a [u8]>,
}

/// A view of a link packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    headers: Headers<'a>,
    acks: Acks<'a>,
    fragment: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// Checks the link packet, Interest or Data at the start of `bytes`; bytes after it (padding)
    /// are ignored. Of a bare packet and a fragment only the length is checked.
    ///
    /// # Errors
    /// Truncated: it exceeds `bytes`. Invalid: none of the three, a header that is malformed,
    /// unknown and not ignorable, duplicate, or after the fragment; a fragment that is empty or
    /// whose index is not below its count; an unknown cache policy.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let whole = match Reader::new(bytes, F).next()? {
            Some(whole) => whole,
            None => return Err(crate::error::need(F, 0, 2).unwrap_err()),
        };
        let bytes = &bytes[..whole.end()];
        let packet = Packet {
            bytes,
            headers: Headers::default(),
            acks: Acks(Reader::new(&[], F)),
            fragment: Some(bytes),
        };
        match whole.kind {
            types::INTEREST | types::DATA => Ok(packet),
            types::LP_PACKET => packet.check(whole.value),
            other => Err(Error::invalid(F, "packet type", other)),
        }
    }

    fn check(mut self, value: &'a [u8]) -> Result<Packet<'a>, Error> {
        let mut reader = Reader::new(value, F);
        self.fragment = None;
        let (mut acks, mut seen) = (None, 0u32);
        let h = &mut self.headers;
        while let Some(element) = reader.next()? {
            if self.fragment.is_some() {
                return Err(Error::invalid(F, "element behind the fragment", element.kind));
            }
            let Some(bit) = bit(element.kind) else {
                ignore(&element)?;
                continue;
            };
            if element.kind != types::LP_ACK && seen & bit != 0 {
                return Err(Error::invalid(F, "repeated header", element.kind));
            }
            seen |= bit;
            match element.kind {
                types::LP_SEQUENCE => h.sequence = Some(sequence(&element)?),
                types::LP_FRAG_INDEX => h.frag_index = Some(element.number()?),
                types::LP_FRAG_COUNT => h.frag_count = Some(element.number()?),
                types::LP_PIT_TOKEN => match element.value.len() {
                    1..=PIT_TOKEN_LEN_MAX => h.pit_token = Some(element.value),
                    len => return Err(Error::invalid(F, "length of PIT token", len as u32)),
                },
                types::LP_NACK => h.nack = Some(nack(&element)?),
                types::LP_INCOMING_FACE_ID => h.incoming_face = Some(element.number()?),
                types::LP_NEXT_HOP_FACE_ID => h.next_hop_face = Some(element.number()?),
                types::LP_CACHE_POLICY => {
                    let mut inner = element.elements();
                    match inner.expect(types::LP_CACHE_POLICY_TYPE, "cache policy")?.number()? {
                        NO_CACHE => h.no_cache = true,
                        other => return Err(Error::invalid(F, "cache policy", other as u32)),
                    }
                }
                types::LP_CONGESTION_MARK => h.congestion_mark = Some(element.number()?),
                types::LP_ACK => {
                    sequence(&element)?;
                    let (first, _) = acks.unwrap_or((element.start, 0));
                    acks = Some((first, element.end()));
                }
                types::LP_TX_SEQUENCE => h.tx_sequence = Some(sequence(&element)?),
                types::LP_NON_DISCOVERY => {
                    element.empty("length of NonDiscovery")?;
                    h.non_discovery = true;
                }
                types::LP_PREFIX_ANNOUNCEMENT => h.prefix_announcement = Some(element.value),
                _ if element.value.is_empty() => {
                    return Err(Error::invalid(F, "length of fragment", 0));
                }
                _ => self.fragment = Some(element.value),
            }
        }
        let (index, count) = self.fragmentation();
        if index >= count {
            return Err(Error::invalid(F, "fragment index", index as u32));
        }
        if let Some((first, end)) = acks {
            self.acks = Acks(Reader::new(&value[first..end], F));
        }
        Ok(self)
    }

    /// The packet, from its type to its end.
    #[inline(always)]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The headers.
    #[inline(always)]
    pub const fn headers(&self) -> &Headers<'a> {
        &self.headers
    }

    /// The numbers of link packets that the sender has received.
    #[inline(always)]
    pub const fn acks(&self) -> Acks<'a> {
        self.acks
    }

    /// Interest or Data, or a piece of one; `None`: the packet is idle.
    #[inline(always)]
    pub const fn fragment(&self) -> Option<&'a [u8]> {
        self.fragment
    }

    /// Which fragment this is and how many there are: 0 of 1 if it does not say. The index is below
    /// the count.
    #[inline(always)]
    pub fn fragmentation(&self) -> (u64, u64) {
        (self.headers.frag_index.unwrap_or(0), self.headers.frag_count.unwrap_or(1))
    }
}

/// The cache policy type NoCache.
const NO_CACHE: u64 = 1;

/// A bit for each element that is known.
fn bit(kind: u32) -> Option<u32> {
    Some(match kind {
        types::LP_FRAGMENT => 1,
        types::LP_SEQUENCE => 1 << 1,
        types::LP_FRAG_INDEX => 1 << 2,
        types::LP_FRAG_COUNT => 1 << 3,
        types::LP_PIT_TOKEN => 1 << 4,
        types::LP_NACK => 1 << 5,
        types::LP_INCOMING_FACE_ID => 1 << 6,
        types::LP_NEXT_HOP_FACE_ID => 1 << 7,
        types::LP_CACHE_POLICY => 1 << 8,
        types::LP_CONGESTION_MARK => 1 << 9,
        types::LP_ACK => 1 << 10,
        types::LP_TX_SEQUENCE => 1 << 11,
        types::LP_NON_DISCOVERY => 1 << 12,
        types::LP_PREFIX_ANNOUNCEMENT => 1 << 13,
        _ => return None,
    })
}

fn ignore(element: &Element<'_>) -> Result<(), Error> {
    match element.kind {
        800..=959 if element.kind & 3 == 0 => Ok(()),
        kind => Err(Error::invalid(F, "unknown header", kind)),
    }
}

/// Sequence numbers have eight bytes, always.
fn sequence(element: &Element<'_>) -> Result<u64, Error> {
    element.array("length of a sequence number").map(u64::from_be_bytes)
}

fn nack(element: &Element<'_>) -> Result<NackReason, Error> {
    let mut reader = element.elements();
    let mut reason = None;
    while let Some(inner) = reader.next()? {
        match inner.kind {
            types::LP_NACK_REASON if reason.is_none() => reason = Some(inner.number()?),
            _ => inner.ignore()?,
        }
    }
    Ok(NackReason(reason.unwrap_or(0)))
}

/// Iterates over acknowledged numbers.
#[derive(Clone, Copy, Debug)]
pub struct Acks<'a>(Reader<'a>);

impl Iterator for Acks<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            // The elements have been checked, so no error ends this early.
            let element = self.0.next().ok()??;
            if element.kind == types::LP_ACK {
                return sequence(&element).ok();
            }
        }
    }
}

/// The contents of a link packet to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The headers.
    pub headers: Headers<'a>,
    /// Acknowledged numbers.
    pub acks: &'a [u64],
    /// Interest or Data, or a piece of one.
    pub fragment: Option<&'a [u8]>,
}

impl<'a> Repr<'a> {
    /// The meaning of `packet`; its acknowledgements are stored in `acks`.
    ///
    /// # Errors
    /// None today: whatever the view has checked is valid.
    pub fn parse(packet: &Packet<'a>, acks: &'a mut Vec<u64>) -> Result<Repr<'a>, Error> {
        acks.clear();
        acks.extend(packet.acks());
        Ok(Repr { headers: packet.headers, acks, fragment: packet.fragment })
    }

    /// True if the fragment goes without a link packet around it.
    fn is_bare(&self) -> bool {
        self.fragment.is_some() && self.acks.is_empty() && self.headers == Headers::default()
    }

    fn write_headers(&self, w: &mut Writer<'_>) {
        let h = &self.headers;
        let sequence = |w: &mut Writer<'_>, kind, n: Option<u64>| {
            if let Some(n) = n {
                w.element(kind, &n.to_be_bytes());
            }
        };
        sequence(w, types::LP_SEQUENCE, h.sequence);
        w.optional_number(types::LP_FRAG_INDEX, h.frag_index);
        w.optional_number(types::LP_FRAG_COUNT, h.frag_count);
        if let Some(token) = h.pit_token {
            w.element(types::LP_PIT_TOKEN, token);
        }
        if let Some(reason) = h.nack {
            w.nested(types::LP_NACK, |w| match reason {
                NackReason::NONE => {}
                NackReason(reason) => w.number(types::LP_NACK_REASON, reason),
            });
        }
        w.optional_number(types::LP_INCOMING_FACE_ID, h.incoming_face);
        w.optional_number(types::LP_NEXT_HOP_FACE_ID, h.next_hop_face);
        if h.no_cache {
            w.nested(types::LP_CACHE_POLICY, |w| w.number(types::LP_CACHE_POLICY_TYPE, NO_CACHE));
        }
        w.optional_number(types::LP_CONGESTION_MARK, h.congestion_mark);
        for ack in self.acks {
            sequence(w, types::LP_ACK, Some(*ack));
        }
        sequence(w, types::LP_TX_SEQUENCE, h.tx_sequence);
        if h.non_discovery {
            w.element(types::LP_NON_DISCOVERY, &[]);
        }
        if let Some(data) = h.prefix_announcement {
            w.element(types::LP_PREFIX_ANNOUNCEMENT, data);
        }
    }

    /// Writes everything before the fragment's bytes.
    fn write_head(&self, w: &mut Writer<'_>) {
        if self.is_bare() {
            return;
        }
        let fragment_len = self.fragment.map(<[u8]>::len);
        let fragment = fragment_len.map_or(0, |len| tlv::element_len(types::LP_FRAGMENT, len));
        w.head(types::LP_PACKET, Writer::count(|w| self.write_headers(w)) + fragment);
        self.write_headers(w);
        if let Some(len) = fragment_len {
            w.head(types::LP_FRAGMENT, len);
        }
    }

    /// Bytes that `emit_head` writes: of the packet without the fragment's own. 0 if there is
    /// nothing to say but the fragment.
    pub fn head_len(&self) -> usize {
        Writer::count(|w| self.write_head(w))
    }

    /// Writes everything before the fragment's bytes at the start of `buf`, for callers that
    /// already have these in place; returns its length.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `head_len`.
    pub fn emit_head(&self, buf: &mut [u8]) -> Result<usize, Error> {
        let mut writer = Writer::new(buf);
        self.write_head(&mut writer);
        writer.finish(F)
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        self.head_len() + self.fragment.map_or(0, <[u8]>::len)
    }

    /// Writes the packet at the start of `buf`; returns its length.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, Error> {
        let mut writer = Writer::new(buf);
        self.write_head(&mut writer);
        writer.bytes(self.fragment.unwrap_or_default());
        writer.finish(F)
    }
}

/// The headers; not the contents of the fragment.
impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = &self.headers;
        f.write_str("NDNLP")?;
        if let Some(n) = h.sequence {
            write!(f, " seq {n}")?;
        }
        if h.frag_index.is_some() || h.frag_count.is_some() {
            let (index, count) = (h.frag_index.unwrap_or(0), h.frag_count.unwrap_or(1));
            write!(f, " frag {index}/{count}")?;
        }
        if let Some(token) = h.pit_token {
            f.write_str(" token ")?;
            token.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        }
        if let Some(reason) = h.nack {
            write!(f, " nack ({reason})")?;
        }
        for (text, n) in [
            (" from face", h.incoming_face),
            (" to face", h.next_hop_face),
            (" mark", h.congestion_mark),
            (" tx", h.tx_sequence),
        ] {
            if let Some(n) = n {
                write!(f, "{text} {n}")?;
            }
        }
        for ack in self.acks {
            write!(f, " ack {ack}")?;
        }
        for (said, text) in [
            (h.no_cache, " no-cache"),
            (h.non_discovery, " non-discovery"),
            (h.prefix_announcement.is_some(), " prefix announcement"),
            (self.fragment.is_none(), " idle"),
        ] {
            f.write_str(if said { text } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
