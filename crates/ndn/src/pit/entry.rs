//! A PIT entry: the Interest's name and selectors, its in-records and its out-records.

use plexus_table::names::Spot;
use plexus_wire::Time;
use plexus_wire::ndn::lp::{NackReason, PIT_TOKEN_LEN_MAX};

use super::chains::NONE;
use super::wheel::{Timed, Timer};
use crate::face::FaceId;
use crate::store::memory::DEPTH;

/// Bytes of name and forwarding hint that are stored in the entry itself.
pub(crate) const INLINE: usize = 64;

/// A downstream's PIT token: returned exactly as it was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    len: u8,
    bytes: [u8; PIT_TOKEN_LEN_MAX],
}

impl Token {
    pub(crate) const NONE: Token = Token { len: 0, bytes: [0; PIT_TOKEN_LEN_MAX] };

    pub(crate) fn new(token: Option<&[u8]>) -> Token {
        let mut new = Token::NONE;
        new.set(token);
        new
    }

    #[inline(always)]
    fn set(&mut self, token: Option<&[u8]>) {
        let token = token.unwrap_or_default();
        match self.bytes.get_mut(..token.len()) {
            Some(place) => {
                place.copy_from_slice(token);
                self.len = token.len() as u8;
            }
            None => self.len = 0,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&[u8]> {
        (self.len > 0).then(|| &self.bytes[..usize::from(self.len)])
    }
}

/// The downstream fields of a received Interest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) face: FaceId,
    pub(crate) nonce: [u8; 4],
    pub(crate) expiry: Time,
    pub(crate) token: Option<&'a [u8]>,
}

/// An in-record: a face that waits for the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRecord {
    pub(crate) face: FaceId,
    pub(crate) nonce: [u8; 4],
    pub(crate) expiry: Time,
    pub(crate) token: Token,
}

impl InRecord {
    pub(super) const EMPTY: InRecord = InRecord {
        face: FaceId::CONTENT_STORE,
        nonce: [0; 4],
        expiry: Time::ZERO,
        token: Token::NONE,
    };

    pub(super) fn new(asker: &Asker<'_>) -> InRecord {
        let mut record = InRecord::EMPTY;
        record.set(asker);
        record
    }

    /// Writes the in-record in place: copying a value that was just written in parts would stall
    /// until all earlier writes are done.
    #[inline(always)]
    pub(super) fn set(&mut self, asker: &Asker<'_>) {
        (self.face, self.nonce, self.expiry) = (asker.face, asker.nonce, asker.expiry);
        self.token.set(asker.token);
    }
}

/// An in-record in an entry of another face, and its neighbours among the in-records of its face.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(super) record: InRecord,
    pub(super) entry: u32,
    pub(super) older: u32,
    pub(super) newer: u32,
}

/// An out-record: a face to which the Interest was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutRecord {
    pub(crate) face: FaceId,
    pub(crate) nonce: [u8; 4],
    pub(crate) expiry: Time,
    pub(crate) sent: Time,
    pub(crate) nack: Option<NackReason>,
    /// Retransmissions within this time are suppressed: milliseconds, 0 before the first.
    pub(crate) suppression_ms: u32,
}

impl OutRecord {
    /// An answer may still come.
    pub(crate) fn is_pending(&self, now: Time) -> bool {
        self.expiry >= now && self.nack.is_none()
    }
}

/// The selectors that distinguish Interests of one name, except the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selectors {
    pub(crate) can_be_prefix: bool,
    pub(crate) must_be_fresh: bool,
}

/// A pending Interest. The first in-record and the first out-record are stored in it, further ones
/// in chains.
pub(crate) struct Entry {
    /// The hash under which it is indexed, and its position there.
    pub(crate) base: u64,
    pub(crate) spot: Spot,
    /// Of the whole name.
    pub(crate) name_hash: u64,
    /// Of the longest proper prefixes, the longest last, as the content store wants them.
    longest: [u64; DEPTH],
    /// The key of its measurements.
    pub(crate) measured: u64,
    pub(crate) expiry: Time,
    pub(crate) timer: Timer,
    pub(crate) generation: u32,
    pub(crate) owner: u32,
    pub(crate) older: u32,
    pub(crate) newer: u32,
    pub(crate) more_ins: u32,
    pub(crate) more_outs: u32,
    pub(crate) more_name: u32,
    /// As in [`OutRecord`], for the whole entry.
    pub(crate) suppression_ms: u32,
    pub(crate) strategy: u16,
    pub(crate) name_len: u16,
    pub(crate) hint_len: u16,
    pub(crate) components: u16,
    pub(crate) selectors: Selectors,
    /// The name ends with an implicit digest.
    pub(crate) digest: bool,
    /// Data may have this very name.
    pub(crate) of_data: bool,
    pub(crate) live: bool,
    pub(crate) satisfied: bool,
    /// The answer will be stale before the entry's nonces are forgotten.
    pub(crate) stale_soon: bool,
    /// A disk read of the content store is pending.
    pub(crate) reading: bool,
    pub(crate) first_in: Option<InRecord>,
    pub(crate) first_out: Option<OutRecord>,
    pub(crate) inline: [u8; INLINE],
}

impl Entry {
    pub(super) fn unused(generation: u32) -> Entry {
        Entry {
            base: 0,
            spot: Spot::NONE,
            name_hash: 0,
            longest: [0; DEPTH],
            measured: 0,
            expiry: Time::ZERO,
            timer: Timer::IDLE,
            generation,
            owner: 0,
            older: NONE,
            newer: NONE,
            more_ins: NONE,
            more_outs: NONE,
            more_name: NONE,
            suppression_ms: 0,
            strategy: 0,
            name_len: 0,
            hint_len: 0,
            components: 0,
            selectors: Selectors { can_be_prefix: false, must_be_fresh: false },
            digest: false,
            of_data: false,
            live: false,
            satisfied: false,
            stale_soon: false,
            reading: false,
            first_in: None,
            first_out: None,
            inline: [0; INLINE],
        }
    }

    /// Stores the hashes of the name's proper prefixes.
    #[inline(always)]
    pub(super) fn set_proper(&mut self, hashes: &[u64]) {
        match hashes.last_chunk() {
            Some(longest) => self.longest = *longest,
            None => self.longest[DEPTH - hashes.len()..].copy_from_slice(hashes),
        }
    }

    /// The hashes of the name's longest proper prefixes, the longest last.
    #[inline(always)]
    pub(crate) fn proper(&self) -> &[u64] {
        &self.longest[DEPTH - DEPTH.min(self.components.into())..]
    }
}

impl Timed for Entry {
    fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    fn end(&self) -> Time {
        self.expiry
    }
}
