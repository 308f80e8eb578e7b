//! The common parts of IGMP version 3 (RFC 3376) and MLD version 2 (RFC 3810): the end of a query
//! and the records of a report, which differ only in the length of an address.
//!
//! ```text
//! end of a query: 4 bytes and its sources
//! +-------+-+-----+---------------+-------------------------------+
//! | resv  |S| QRV |     QQIC      |       number of sources       |
//! +-------+-+-----+---------------+-------------------------------+
//! |  sources, an address each …                                   |
//!
//! record: 4 bytes, an address, and its sources
//! +---------------+---------------+-------------------------------+
//! | record type   | aux data len  |       number of sources       |
//! +---------------+---------------+-------------------------------+
//! |  group, an address                                            |
//! +---------------------------------------------------------------+
//! |  sources, an address each, then auxiliary data, 4 bytes each …|
//! ```
//!
//! Auxiliary data means nothing (RFC 3376, 4.2.6; RFC 3810, 5.2.6) and is not kept.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{array_at, numbers, put, put_u16, u16_at};
use crate::error::{Error, Format, need};

/// Bytes of a query's end and of a record before their addresses.
const FIXED_LEN: usize = 4;

/// An address of either version, as the messages of its protocol carry it.
pub trait Address: Copy + fmt::Display {
    /// Its bytes.
    const LEN: usize;
    /// The protocol in which listeners to such groups report.
    const FORMAT: Format;

    /// Reads the address at `at`, which the caller knows to be within `bytes`.
    fn read(bytes: &[u8], at: usize) -> Self;
    /// Writes it at `at`, likewise.
    fn write(self, buf: &mut [u8], at: usize);
}

macro_rules! addresses {
    ($($address:ty: $len:literal, $format:expr;)*) => {$(
        impl Address for $address {
            const LEN: usize = $len;
            const FORMAT: Format = $format;

            fn read(bytes: &[u8], at: usize) -> $address {
                array_at::<$len>(bytes, at).into()
            }

            fn write(self, buf: &mut [u8], at: usize) {
                put(buf, at, &self.octets());
            }
        }
    )*};
}

addresses! {
    Ipv4Addr: 4, Format::Igmp;
    Ipv6Addr: 16, Format::Mld;
}

/// Reads `count` addresses from `at` on.
fn addresses<A: Address>(bytes: &[u8], at: usize, count: u16) -> Result<Vec<A>, Error> {
    let count = usize::from(count);
    need(A::FORMAT, bytes.len(), at + A::LEN * count)?;
    Ok((0..count).map(|i| A::read(bytes, at + A::LEN * i)).collect())
}

fn put_addresses<A: Address>(buf: &mut [u8], at: usize, addresses: &[A]) {
    for (i, address) in addresses.iter().enumerate() {
        address.write(buf, at + A::LEN * i);
    }
}

/// A count of addresses or records, as a message holds it.
fn count<A: Address>(n: usize) -> Result<u16, Error> {
    u16::try_from(n).map_err(|_| Error::too_many(A::FORMAT, u16::MAX.into()))
}

numbers! {
    /// The kind of a group record (RFC 3376, 4.2.12; RFC 3810, 5.2.12). Others are ignored.
    RecordKind(u8) {
        /// The host listens to these sources.
        IS_INCLUDE = 1, "includes";
        /// The host listens to all sources but these.
        IS_EXCLUDE = 2, "excludes";
        /// From now on it listens to these sources; to none: it has left.
        TO_INCLUDE = 3, "now includes";
        /// From now on it listens to all sources but these: without any, it has joined.
        TO_EXCLUDE = 4, "now excludes";
        /// It listens to these sources too.
        ALLOW = 5, "allows";
        /// It no longer listens to these sources.
        BLOCK = 6, "blocks";
        _ => |f, n| write!(f, "record {n}")
    }
}

/// A host's state for one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<A> {
    /// Its kind.
    pub kind: RecordKind,
    /// The group.
    pub group: A,
    /// The sources.
    pub sources: Vec<A>,
}

impl<A> Record<A> {
    /// Whether the sender of this record listens to the group at all: if not, it has left. None:
    /// the record does not say.
    pub fn listens(&self) -> Option<bool> {
        match self.kind {
            RecordKind::IS_EXCLUDE | RecordKind::TO_EXCLUDE => Some(true),
            RecordKind::IS_INCLUDE | RecordKind::TO_INCLUDE => Some(!self.sources.is_empty()),
            RecordKind::ALLOW if !self.sources.is_empty() => Some(true),
            _ => None,
        }
    }
}

impl<A: Address> Record<A> {
    fn buffer_len(&self) -> usize {
        FIXED_LEN + A::LEN * (1 + self.sources.len())
    }

    /// Reads as many records as the two bytes before `at` count; the first is at `at`.
    pub(crate) fn parse_all(bytes: &[u8], mut at: usize) -> Result<Vec<Record<A>>, Error> {
        let mut records = Vec::new();
        for _ in 0..u16_at(bytes, at - 2) {
            let sources_at = at + FIXED_LEN + A::LEN;
            need(A::FORMAT, bytes.len(), sources_at)?;
            let (auxiliary, count) = (bytes[at + 1], u16_at(bytes, at + 2));
            let end = sources_at + A::LEN * usize::from(count) + 4 * usize::from(auxiliary);
            need(A::FORMAT, bytes.len(), end)?;
            records.push(Record {
                kind: RecordKind(bytes[at]),
                group: A::read(bytes, at + FIXED_LEN),
                sources: addresses(bytes, sources_at, count)?,
            });
            at = end;
        }
        Ok(records)
    }

    /// Bytes that `emit_all` writes from `at` on.
    pub(crate) fn buffer_len_of_all(records: &[Record<A>]) -> usize {
        records.iter().map(Record::buffer_len).sum()
    }

    /// Writes the records from `at` on, and their count in the two bytes before.
    pub(crate) fn emit_all(
        records: &[Record<A>],
        buf: &mut [u8],
        mut at: usize,
    ) -> Result<(), Error> {
        put_u16(buf, at - 2, count::<A>(records.len())?);
        for record in records {
            buf[at] = record.kind.0;
            put_u16(buf, at + 2, count::<A>(record.sources.len())?);
            record.group.write(buf, at + FIXED_LEN);
            put_addresses(buf, at + FIXED_LEN + A::LEN, &record.sources);
            at += record.buffer_len();
        }
        Ok(())
    }

    /// The text of a report's records.
    pub(crate) fn fmt_all(records: &[Record<A>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in records.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            write!(f, " {} {} {} sources", r.group, r.kind, r.sources.len())?;
        }
        Ok(())
    }
}

/// What only queries of the newest version have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query<A> {
    /// Routers shall not act on it.
    pub suppress: bool,
    /// How often the querier repeats itself, 0 to 7.
    pub robustness: u8,
    /// Time between general queries, as a code of seconds (RFC 3376, 4.1.7; RFC 3810, 5.1.9).
    pub interval_code: u8,
    /// The requested sources.
    pub sources: Vec<A>,
}

impl<A> Default for Query<A> {
    fn default() -> Query<A> {
        Query { suppress: false, robustness: 0, interval_code: 0, sources: Vec::new() }
    }
}

impl<A: Address> Query<A> {
    /// Reads it from `at` on; the caller knows that its fixed part is there.
    pub(crate) fn parse(bytes: &[u8], at: usize) -> Result<Query<A>, Error> {
        Ok(Query {
            suppress: bytes[at] & 8 != 0,
            robustness: bytes[at] & 7,
            interval_code: bytes[at + 1],
            sources: addresses(bytes, at + FIXED_LEN, u16_at(bytes, at + 2))?,
        })
    }

    /// Bytes that `emit` writes from `at` on.
    pub(crate) fn buffer_len(&self) -> usize {
        FIXED_LEN + A::LEN * self.sources.len()
    }

    /// Writes it from `at` on.
    pub(crate) fn emit(&self, buf: &mut [u8], at: usize) -> Result<(), Error> {
        if self.robustness > 7 {
            return Err(Error::invalid(A::FORMAT, "robustness", self.robustness.into()));
        }
        buf[at] = u8::from(self.suppress) << 3 | self.robustness;
        buf[at + 1] = self.interval_code;
        put_u16(buf, at + 2, count::<A>(self.sources.len())?);
        put_addresses(buf, at + FIXED_LEN, &self.sources);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_says_whether_its_sender_listens() {
        let says = |kind: u8, sources| {
            let (kind, group) = (RecordKind(kind), Ipv4Addr::new(239, 1, 2, 3));
            Record { kind, group, sources: vec![group; sources] }.listens()
        };
        let without: Vec<_> = (0..8).map(|kind| says(kind, 0)).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(without, [None, no, yes, no, yes, None, None, None]);
        assert_eq!([1, 3, 5, 6].map(|kind| says(kind, 2)), [yes, yes, yes, None]);
    }

    /// More than a count holds, and a robustness of four bits, are refused and not cut.
    #[test]
    fn values_beyond_the_fields_are_not_written() {
        let group = Ipv4Addr::new(239, 1, 2, 3);
        let sources = vec![group; 1 << 16];
        let mut buf = vec![0; 8 + 4 * sources.len()];
        let query = Query { sources: sources.clone(), ..Query::default() };
        let too_many = Error::too_many(Format::Igmp, 65535);
        assert_eq!(query.emit(&mut buf, 0), Err(too_many));
        let record = Record { kind: RecordKind::ALLOW, group, sources };
        assert_eq!(Record::emit_all(&[record], &mut buf, 2), Err(too_many));
        let query = Query::<Ipv6Addr> { robustness: 8, ..Query::default() };
        assert_eq!(query.emit(&mut buf, 0), Err(Error::invalid(Format::Mld, "robustness", 8)));
    }

    pub(crate) fn query<A, S>(address: fn() -> S) -> impl Strategy<Value = Query<A>>
    where
        A: fmt::Debug,
        S: Strategy<Value = A>,
    {
        let sources = proptest::collection::vec(address(), 0..5);
        (any::<bool>(), 0u8..8, any::<u8>(), sources).prop_map(
            |(suppress, robustness, interval_code, sources)| Query {
                suppress,
                robustness,
                interval_code,
                sources,
            },
        )
    }

    pub(crate) fn records<A, S>(address: fn() -> S) -> impl Strategy<Value = Vec<Record<A>>>
    where
        A: fmt::Debug,
        S: Strategy<Value = A>,
    {
        let sources = proptest::collection::vec(address(), 0..5);
        let kind = any::<u8>().prop_map(RecordKind);
        let record = (kind, address(), sources);
        let record = record.prop_map(|(kind, group, sources)| Record { kind, group, sources });
        proptest::collection::vec(record, 0..5)
    }
}
