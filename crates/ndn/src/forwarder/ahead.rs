//! Prefetching for a batch: all packets are parsed and the memory that they need is prefetched,
//! step by step for all of them, before the first one runs through its pipeline.

use plexus_table::prefetch;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::{Data, Interest, Name, types};

use super::{Arrived, Core};
use crate::face::Fate;
use crate::fib::FibBatch;
use crate::names::NameHashes;
use crate::pit::Pit;
use crate::store::Buffer;

/// Bytes of a processor's cache line, and how many of a packet are prefetched: the name and what
/// follows it. Content is not read.
const LINE: usize = 64;
const LINES_AHEAD: usize = 4;

/// A packet, parsed without tables.
pub(super) enum Parsed<'a> {
    Interest(Interest<'a>),
    /// With the entry of its PIT token, if that has exactly its name: then it need not be hashed.
    Data(Data<'a>, Option<u32>),
    Nack(NackReason, Interest<'a>),
    Broken(Fate),
}

impl<'a> Parsed<'a> {
    pub(super) fn interest(&self) -> Option<&Interest<'a>> {
        match self {
            Parsed::Interest(interest) => Some(interest),
            _ => None,
        }
    }

    /// Parses a packet. `is_hashed` hashes its name or arranges for that; it is false if the name
    /// is too long.
    #[inline(always)]
    pub(super) fn new(
        headers: &Headers<'_>,
        packet: &'a [u8],
        pit: &Pit,
        mut is_hashed: impl FnMut(Name<'a>) -> bool,
    ) -> Parsed<'a> {
        if headers.nack.is_none() && packet.first().copied().map(u32::from) == Some(types::DATA) {
            let mut exactly = None;
            let known = |name: &[u8]| {
                exactly = pit.exactly(headers.pit_token?, name);
                exactly.map(|id| pit.get(id).components.into())
            };
            return match Data::new_checked_but_name(packet, known) {
                Ok(data) => match exactly.is_some() || is_hashed(data.name()) {
                    true => Parsed::Data(data, exactly),
                    false => Parsed::Broken(Fate::NameTooLong),
                },
                Err(_) => Parsed::Broken(Fate::Malformed),
            };
        }
        match Interest::new_checked(packet) {
            Ok(interest) if !is_hashed(interest.name()) => Parsed::Broken(Fate::NameTooLong),
            Ok(interest) => match headers.nack {
                Some(reason) => Parsed::Nack(reason, interest),
                None => Parsed::Interest(interest),
            },
            Err(_) => Parsed::Broken(Fate::Malformed),
        }
    }
}

impl<B: Buffer> Core<B> {
    /// Prefetches for packets of the next batch: the entries of their PIT tokens, and for those
    /// that have one, the packet.
    #[inline]
    pub(super) fn expect(&self, batch: &[Arrived<'_>]) {
        for Arrived { headers, packet, .. } in batch {
            if headers.pit_token.is_some_and(|token| self.pit.prefetch_entry(token)) {
                packet.iter().step_by(LINE).take(LINES_AHEAD).for_each(prefetch);
            }
        }
    }

    /// Prefetches where the lookups for a packet begin.
    #[inline]
    pub(super) fn prefetch(&self, parsed: &Parsed<'_>, hashes: &NameHashes) {
        match parsed {
            Parsed::Interest(interest) => {
                let name = hashes.of(interest.name());
                self.store.prefetch(name.hash());
                self.pit.prefetch(name.hash());
            }
            Parsed::Data(_, Some(id)) => {
                let entry = self.pit.get(*id);
                self.store.prefetch_insert(entry.name_hash);
                self.pit.prefetch(entry.name_hash);
            }
            Parsed::Data(data, None) => {
                let name = hashes.of(data.name());
                self.store.prefetch_insert(name.hash());
                self.pit.prefetch(name.hash());
            }
            Parsed::Nack(_, interest) => self.pit.prefetch(hashes.of(interest.name()).hash()),
            Parsed::Broken(_) => {}
        }
    }

    /// Once that memory has arrived, prefetches what Interests are likely to find. True if the
    /// content store is unlikely to have the Data, so that the FIB will be searched.
    #[inline]
    pub(super) fn prefetch_found(
        &self,
        fib: &FibBatch<'_>,
        parsed: &Parsed<'_>,
        hashes: &NameHashes,
    ) -> bool {
        // The store seldom has the Data already.
        let Some(interest) = parsed.interest() else { return false };
        let name = hashes.of(interest.name());
        if let Some(nonce) = interest.nonce() {
            self.nonces.prefetch(self.of_nonce(name.hash(), nonce));
        }
        let is_stored = self.store.prefetch_found(name.hash());
        let asks = !is_stored && interest.forwarding_hint().is_empty();
        if asks {
            fib.expect(&name);
        }
        asks
    }
}
