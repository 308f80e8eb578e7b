//! Internet Group Management Protocol, versions 1 to 3 (RFC 1112, RFC 2236, RFC 3376): hosts tell
//! the router which IPv4 groups they listen to. IP protocol 2, time to live 1.
//!
//! ```text
//! query, versions 1 and 2: 8 bytes; version 3: 12 and its sources
//! +---------------+---------------+-------------------------------+
//! |   type 0x11   | max resp code |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |                group; 0.0.0.0 in a general query              |
//! +-------+-+-----+---------------+-------------------------------+
//! | resv  |S| QRV |     QQIC      |       number of sources       |
//! +-------+-+-----+---------------+-------------------------------+
//! |  sources, 4 bytes each …                                      |
//!
//! report of version 3: 8 bytes and its records
//! +---------------+---------------+-------------------------------+
//! |   type 0x22   |   reserved    |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |           reserved            |       number of records       |
//! +---------------+---------------+-------------------------------+
//! | record type   | aux data len  |       number of sources       |
//! +---------------+---------------+-------------------------------+
//! |  group                                                        |
//! +---------------------------------------------------------------+
//! |  sources, 4 bytes each, then auxiliary data, 4 bytes each …   |
//! ```
//!
//! Reports of versions 1 (0x12) and 2 (0x16) and the Leave of version 2 (0x17) have the form of a
//! query of 8 bytes. Auxiliary data means nothing (RFC 3376, 4.2.6) and is not kept; bytes behind
//! the last field count for the checksum only (4.1.10, 4.2.11).

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::checksum;
use crate::error::{Error, Format, need};

/// Bytes of the shortest message, and before the records of a report.
pub const HEADER_LEN: usize = 8;
/// Bytes before the sources of a query of version 3.
pub const QUERY_LEN: usize = 12;

const QUERY: u8 = 0x11;
const REPORT_1: u8 = 0x12;
const REPORT_2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_3: u8 = 0x22;

/// What a record says about a group (RFC 3376, 4.2.12; RFC 3810, 5.2.12). Others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// The host listens to these sources.
    pub const IS_INCLUDE: RecordKind = RecordKind(1);
    /// The host listens to all sources but these.
    pub const IS_EXCLUDE: RecordKind = RecordKind(2);
    /// From now on it listens to these sources; to none: it has left.
    pub const TO_INCLUDE: RecordKind = RecordKind(3);
    /// From now on it listens to all sources but these: without any, it has joined.
    pub const TO_EXCLUDE: RecordKind = RecordKind(4);
    /// It listens to these sources too.
    pub const ALLOW: RecordKind = RecordKind(5);
    /// It no longer listens to these sources.
    pub const BLOCK: RecordKind = RecordKind(6);

    /// Whether the sender of such a record with so many sources listens to the group at all: if
    /// not, it has left. None: the record does not say.
    pub const fn listens(self, sources: usize) -> Option<bool> {
        match self {
            RecordKind::IS_EXCLUDE | RecordKind::TO_EXCLUDE => Some(true),
            RecordKind::IS_INCLUDE | RecordKind::TO_INCLUDE => Some(sources > 0),
            RecordKind::ALLOW if sources > 0 => Some(true),
            _ => None,
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            RecordKind::IS_INCLUDE => "includes",
            RecordKind::IS_EXCLUDE => "excludes",
            RecordKind::TO_INCLUDE => "now includes",
            RecordKind::TO_EXCLUDE => "now excludes",
            RecordKind::ALLOW => "allows",
            RecordKind::BLOCK => "blocks",
            RecordKind(n) => return write!(f, "record {n}"),
        })
    }
}

/// A view of a message; the buffer must end where the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the first fields are there.
    ///
    /// # Errors
    /// Truncated: fewer than 8 bytes.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        need(Format::Igmp, bytes.as_ref().len(), HEADER_LEN)?;
        Ok(Packet(bytes))
    }

    /// The type.
    pub fn kind(&self) -> u8 {
        self.0.as_ref()[0]
    }

    /// True if the checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(self.0.as_ref())
    }
}

/// What only queries of version 3 have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueryV3 {
    /// Routers shall not act on it.
    pub suppress: bool,
    /// How often the querier repeats itself, 0 to 7.
    pub robustness: u8,
    /// Time between general queries, as a code of seconds (RFC 3376, 4.1.7).
    pub interval_code: u8,
    /// The sources asked for.
    pub sources: Vec<Ipv4Addr>,
}

/// What a host says of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// The group.
    pub group: Ipv4Addr,
    /// The sources.
    pub sources: Vec<Ipv4Addr>,
}

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Who listens? Of version 1 if the response code is 0.
    Query {
        /// Time to answer in tenths of a second; from 128 on a code (RFC 3376, 4.1.1).
        response_code: u8,
        /// The group; unspecified: all groups.
        group: Ipv4Addr,
        /// The rest of a query of version 3.
        v3: Option<QueryV3>,
    },
    /// A host listens to the group (version 1).
    ReportV1(Ipv4Addr),
    /// A host listens to the group (version 2).
    ReportV2(Ipv4Addr),
    /// A host no longer listens to the group (version 2).
    Leave(Ipv4Addr),
    /// A host's groups (version 3).
    ReportV3(Vec<Record>),
}

/// Reads `count` addresses from `at` on.
fn addresses(bytes: &[u8], at: usize, count: usize) -> Result<Vec<Ipv4Addr>, Error> {
    need(Format::Igmp, bytes.len(), at + 4 * count)?;
    Ok((0..count).map(|i| array_at::<4>(bytes, at + 4 * i).into()).collect())
}

impl Repr {
    /// The meaning of `packet`, whatever its checksum.
    ///
    /// # Errors
    /// Truncated: fewer sources or records than counted. Invalid: an unknown type.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let bytes = packet.0.as_ref();
        let group: Ipv4Addr = array_at::<4>(bytes, 4).into();
        Ok(match bytes[0] {
            QUERY if bytes.len() < QUERY_LEN => {
                Repr::Query { response_code: bytes[1], group, v3: None }
            }
            QUERY => {
                let sources = addresses(bytes, QUERY_LEN, u16_at(bytes, 10).into())?;
                let v3 = Some(QueryV3 {
                    suppress: bytes[8] & 8 != 0,
                    robustness: bytes[8] & 7,
                    interval_code: bytes[9],
                    sources,
                });
                Repr::Query { response_code: bytes[1], group, v3 }
            }
            REPORT_1 => Repr::ReportV1(group),
            REPORT_2 => Repr::ReportV2(group),
            LEAVE => Repr::Leave(group),
            REPORT_3 => {
                let mut records = Vec::new();
                let mut at = HEADER_LEN;
                for _ in 0..u16_at(bytes, 6) {
                    need(Format::Igmp, bytes.len(), at + 8)?;
                    let (auxiliary, count) = (bytes[at + 1], u16_at(bytes, at + 2));
                    let end = at + 8 + 4 * (usize::from(count) + usize::from(auxiliary));
                    need(Format::Igmp, bytes.len(), end)?;
                    records.push(Record {
                        kind: RecordKind(bytes[at]),
                        group: array_at::<4>(bytes, at + 4).into(),
                        sources: addresses(bytes, at + 8, count.into())?,
                    });
                    at = end;
                }
                Repr::ReportV3(records)
            }
            other => return Err(Error::invalid(Format::Igmp, "type", other.into())),
        })
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Repr::Query { v3: Some(v3), .. } => QUERY_LEN + 4 * v3.sources.len(),
            Repr::ReportV3(records) => {
                HEADER_LEN + records.iter().map(|r| 8 + 4 * r.sources.len()).sum::<usize>()
            }
            _ => HEADER_LEN,
        }
    }

    /// Writes the message, checksum included, at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: a robustness over 7. Too many: more
    /// sources or records than their counts hold.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        need(Format::Igmp, buf.len(), len)?;
        let buf = &mut buf[..len];
        buf.fill(0);
        let count =
            |n: usize| u16::try_from(n).map_err(|_| Error::too_many(Format::Igmp, u16::MAX.into()));
        let put_all = |buf: &mut [u8], at: usize, sources: &[Ipv4Addr]| {
            for (i, source) in sources.iter().enumerate() {
                put(buf, at + 4 * i, &source.octets());
            }
        };
        let mut simple = |kind: u8, code: u8, group: &Ipv4Addr| {
            put(buf, 0, &[kind, code]);
            put(buf, 4, &group.octets());
        };
        match self {
            Repr::Query { response_code, group, v3 } => {
                simple(QUERY, *response_code, group);
                if let Some(v3) = v3 {
                    if v3.robustness > 7 {
                        let n = v3.robustness.into();
                        return Err(Error::invalid(Format::Igmp, "robustness", n));
                    }
                    buf[8] = u8::from(v3.suppress) << 3 | v3.robustness;
                    buf[9] = v3.interval_code;
                    put_u16(buf, 10, count(v3.sources.len())?);
                    put_all(buf, QUERY_LEN, &v3.sources);
                }
            }
            Repr::ReportV1(group) => simple(REPORT_1, 0, group),
            Repr::ReportV2(group) => simple(REPORT_2, 0, group),
            Repr::Leave(group) => simple(LEAVE, 0, group),
            Repr::ReportV3(records) => {
                buf[0] = REPORT_3;
                put_u16(buf, 6, count(records.len())?);
                let mut at = HEADER_LEN;
                for record in records {
                    buf[at] = record.kind.0;
                    put_u16(buf, at + 2, count(record.sources.len())?);
                    put(buf, at + 4, &record.group.octets());
                    put_all(buf, at + 8, &record.sources);
                    at += 8 + 4 * record.sources.len();
                }
            }
        }
        let sum = checksum::checksum(buf);
        put_u16(buf, 2, sum);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repr::Query { group, v3, .. } => {
                let version = if v3.is_some() { "v3 " } else { "" };
                match group.is_unspecified() {
                    true => write!(f, "IGMP {version}general query"),
                    false => write!(f, "IGMP {version}query for {group}"),
                }
            }
            Repr::ReportV1(group) => write!(f, "IGMP v1 report of {group}"),
            Repr::ReportV2(group) => write!(f, "IGMP v2 report of {group}"),
            Repr::Leave(group) => write!(f, "IGMP leave of {group}"),
            Repr::ReportV3(records) => {
                f.write_str("IGMP v3 report:")?;
                for (i, r) in records.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    write!(f, " {} {} {} sources", r.group, r.kind, r.sources.len())?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Repr {
        let packet = Packet::new_checked(bytes).unwrap();
        assert!(packet.checksum_ok(), "{bytes:02x?}");
        Repr::parse(&packet).unwrap()
    }

    /// As Linux sends them: a join of 239.1.2.3 by version 3, the same by version 2, and a query.
    #[test]
    fn messages_of_all_versions_are_read_and_written_back() {
        for (bytes, text) in [
            (&[0x11, 0, 0xEE, 0xFF, 0, 0, 0, 0][..], "IGMP general query"),
            (&[0x11, 100, 0xEC, 0x1E, 0, 0, 0, 0, 2, 125, 0, 0], "IGMP v3 general query"),
            (&[0x12, 0, 0xFC, 0xFA, 239, 1, 2, 3][..], "IGMP v1 report of 239.1.2.3"),
            (&[0x16, 0, 0xF8, 0xFA, 239, 1, 2, 3], "IGMP v2 report of 239.1.2.3"),
            (&[0x17, 0, 0xF7, 0xFA, 239, 1, 2, 3], "IGMP leave of 239.1.2.3"),
            (
                &[0x22, 0, 0xE8, 0xF9, 0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 2, 3],
                "IGMP v3 report: 239.1.2.3 now excludes 0 sources",
            ),
        ] {
            let repr = read(bytes);
            assert_eq!(repr.to_string(), text);
            let mut out = vec![0xEE; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            assert_eq!(out, bytes, "{text}");
        }
    }

    #[test]
    fn auxiliary_data_is_passed_over_and_counts_are_believed_only_if_true() {
        let mut bytes = vec![0x22, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 1, 239, 0, 0, 1, 10, 0, 0, 9];
        bytes.extend([0xAA; 4]);
        bytes.extend([6, 0, 0, 0, 239, 0, 0, 2]);
        let repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
        let Repr::ReportV3(records) = &repr else { panic!("{repr}") };
        assert_eq!(records[0].sources, [Ipv4Addr::new(10, 0, 0, 9)]);
        assert_eq!((records.len(), records[1].kind), (2, RecordKind::BLOCK));
        for len in 8..bytes.len() {
            let packet = Packet::new_checked(&bytes[..len]).unwrap();
            assert!(Repr::parse(&packet).unwrap_err().is_truncated(), "{len} bytes");
        }
        assert!(Packet::new_checked(&bytes[..7]).unwrap_err().is_truncated());
        bytes[0] = 0x13;
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(Repr::parse(&packet).unwrap_err().to_string(), "IGMP: bad type 19");
    }

    #[test]
    fn a_record_says_whether_its_sender_listens() {
        let says = |kind: u8, sources| RecordKind(kind).listens(sources);
        let without: Vec<_> = (0..8).map(|kind| says(kind, 0)).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(without, [None, no, yes, no, yes, None, None, None]);
        assert_eq!([1, 3, 5, 6].map(|kind| says(kind, 2)), [yes, yes, yes, None]);
    }

    fn address() -> impl Strategy<Value = Ipv4Addr> {
        any::<u32>().prop_map(Ipv4Addr::from)
    }

    fn message() -> impl Strategy<Value = Repr> {
        let sources = || proptest::collection::vec(address(), 0..5);
        let v3 = (any::<bool>(), 0u8..8, any::<u8>(), sources()).prop_map(
            |(suppress, robustness, interval_code, sources)| QueryV3 {
                suppress,
                robustness,
                interval_code,
                sources,
            },
        );
        let record = (any::<u8>(), address(), sources())
            .prop_map(|(kind, group, sources)| Record { kind: RecordKind(kind), group, sources });
        prop_oneof![
            (any::<u8>(), address(), proptest::option::of(v3))
                .prop_map(|(response_code, group, v3)| Repr::Query { response_code, group, v3 }),
            address().prop_map(Repr::ReportV1),
            address().prop_map(Repr::ReportV2),
            address().prop_map(Repr::Leave),
            proptest::collection::vec(record, 0..5).prop_map(Repr::ReportV3),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(repr in message()) {
            let mut out = vec![0xEE; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..]).unwrap();
            prop_assert!(packet.checksum_ok());
            prop_assert_eq!(Repr::parse(&packet).unwrap(), repr.clone());
            let short = out.len() - 1;
            prop_assert!(repr.emit(&mut out[..short]).unwrap_err().is_truncated());
        }
    }
}
