//! Multicast Listener Discovery, versions 1 and 2 (RFC 2710, RFC 3810): IGMP's counterpart for
//! IPv6. ICMPv6 behind a hop-by-hop header with a router alert, hop limit 1, link-local source.
//!
//! ```text
//! query, version 1: 24 bytes; version 2: 28 and its sources
//! +---------------+---------------+-------------------------------+
//! |   type 130    |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |       max response code       |           reserved            |
//! +-------------------------------+-------------------------------+
//! |  group, 16 bytes; unspecified in a general query              |
//! +-------+-+-----+---------------+-------------------------------+
//! | resv  |S| QRV |     QQIC      |       number of sources       |
//! +-------+-+-----+---------------+-------------------------------+
//! |  sources, 16 bytes each …                                     |
//!
//! report of version 2: 8 bytes and its records
//! +---------------+---------------+-------------------------------+
//! |   type 143    |   reserved    |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |           reserved            |       number of records       |
//! +---------------+---------------+-------------------------------+
//! | record type   | aux data len  |       number of sources       |
//! +---------------+---------------+-------------------------------+
//! |  group, sources, 16 bytes each, auxiliary data, 4 bytes each  |
//! ```
//!
//! Report (131) and Done (132) of version 1 have the form of its query. The checksum is that of
//! ICMPv6: [`icmpv6::Packet`](crate::icmpv6::Packet) judges and writes it. The end of a query and
//! the records are IGMP's too: [`membership`].

use std::fmt;
use std::net::Ipv6Addr;

use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::error::{Error, Format, need};
use crate::membership;
pub use crate::membership::RecordKind;

/// Bytes before the records of a report of version 2.
pub const HEADER_LEN: usize = 8;
/// Bytes of the messages of version 1.
pub const V1_LEN: usize = 24;
/// Bytes before the sources of a query of version 2.
pub const QUERY_LEN: usize = 28;

const QUERY: u8 = 130;
const REPORT_1: u8 = 131;
const DONE: u8 = 132;
const REPORT_2: u8 = 143;

/// True for the ICMPv6 types of listener discovery.
pub const fn is_mld(icmpv6_type: u8) -> bool {
    matches!(icmpv6_type, QUERY | REPORT_1 | DONE | REPORT_2)
}

/// A view of a message, from the ICMPv6 type on; the buffer must end where the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the first fields are there.
    ///
    /// # Errors
    /// Truncated: fewer bytes than the type's fixed part.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let have = bytes.as_ref().len();
        need(Format::Mld, have, HEADER_LEN)?;
        need(Format::Mld, have, if bytes.as_ref()[0] == REPORT_2 { HEADER_LEN } else { V1_LEN })?;
        Ok(Packet(bytes))
    }

    /// The type.
    pub fn kind(&self) -> u8 {
        self.0.as_ref()[0]
    }
}

/// What only queries of version 2 have.
pub type QueryV2 = membership::Query<Ipv6Addr>;
/// A host's state for one group.
pub type Record = membership::Record<Ipv6Addr>;

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Asks for members.
    Query {
        /// Time to answer in ms; from 32768 on a code (RFC 3810, 5.1.3).
        response_code: u16,
        /// The group; unspecified: all groups.
        group: Ipv6Addr,
        /// The rest of a query of version 2.
        v2: Option<QueryV2>,
    },
    /// A host listens to the group (version 1).
    ReportV1(Ipv6Addr),
    /// A host no longer listens to the group (version 1).
    Done(Ipv6Addr),
    /// A host's groups (version 2).
    ReportV2(Vec<Record>),
}

impl Repr {
    /// The meaning of `packet`, whatever its checksum.
    ///
    /// # Errors
    /// Truncated: fewer sources or records than counted. Invalid: a type of something else.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let bytes = packet.0.as_ref();
        let group = || array_at::<16>(bytes, 8).into();
        Ok(match bytes[0] {
            QUERY => {
                let is_long = bytes.len() >= QUERY_LEN;
                let v2 = is_long.then(|| QueryV2::parse(bytes, V1_LEN)).transpose()?;
                Repr::Query { response_code: u16_at(bytes, 4), group: group(), v2 }
            }
            REPORT_1 => Repr::ReportV1(group()),
            DONE => Repr::Done(group()),
            REPORT_2 => Repr::ReportV2(Record::parse_all(bytes, HEADER_LEN)?),
            other => return Err(Error::invalid(Format::Mld, "type", other.into())),
        })
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Repr::Query { v2: Some(v2), .. } => V1_LEN + v2.buffer_len(),
            Repr::ReportV2(records) => HEADER_LEN + Record::buffer_len_of_all(records),
            _ => V1_LEN,
        }
    }

    /// Writes the message, with a checksum of 0, at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: a robustness over 7. Too many: more
    /// sources or records than their counts hold.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        need(Format::Mld, buf.len(), len)?;
        let buf = &mut buf[..len];
        buf.fill(0);
        match self {
            Repr::Query { response_code, group, v2 } => {
                buf[0] = QUERY;
                put_u16(buf, 4, *response_code);
                put(buf, 8, &group.octets());
                if let Some(v2) = v2 {
                    v2.emit(buf, V1_LEN)?;
                }
            }
            Repr::ReportV1(group) | Repr::Done(group) => {
                buf[0] = if matches!(self, Repr::Done(_)) { DONE } else { REPORT_1 };
                put(buf, 8, &group.octets());
            }
            Repr::ReportV2(records) => {
                buf[0] = REPORT_2;
                Record::emit_all(records, buf, HEADER_LEN)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repr::Query { group, v2, .. } => {
                let version = if v2.is_some() { "v2 " } else { "" };
                match group.is_unspecified() {
                    true => write!(f, "MLD {version}general query"),
                    false => write!(f, "MLD {version}query for {group}"),
                }
            }
            Repr::ReportV1(group) => write!(f, "MLD v1 report of {group}"),
            Repr::Done(group) => write!(f, "MLD done with {group}"),
            Repr::ReportV2(records) => {
                f.write_str("MLD v2 report:")?;
                Record::fmt_all(records, f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROUP: [u8; 16] = [0xFF, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

    #[test]
    fn messages_of_both_versions_are_read_and_written_back() {
        let v1 = |kind: u8| [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &GROUP].concat();
        let general = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
        let joined = [&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0][..], &GROUP].concat();
        for (bytes, text) in [
            (general, "MLD v2 general query"),
            (v1(130), "MLD query for ff05::7"),
            (v1(131), "MLD v1 report of ff05::7"),
            (v1(132), "MLD done with ff05::7"),
            (joined, "MLD v2 report: ff05::7 now excludes 0 sources"),
        ] {
            let repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
            assert_eq!(repr.to_string(), text);
            let mut out = vec![0xEE; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            assert_eq!(out, bytes, "{text}");
        }
    }

    #[test]
    fn truncated_messages_and_other_types_are_refused() {
        let record = [&[5, 1, 0, 1][..], &GROUP, &[0xFE; 16], &[0xAA; 4]].concat();
        let bytes = [&[143, 0, 0, 0, 0, 0, 0, 2][..], &record, &record].concat();
        let repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
        let Repr::ReportV2(records) = &repr else { panic!("{repr}") };
        assert_eq!((records.len(), records[1].sources.len()), (2, 1));
        for len in 8..bytes.len() {
            let packet = Packet::new_checked(&bytes[..len]).unwrap();
            assert!(Repr::parse(&packet).unwrap_err().is_truncated(), "{len} bytes");
        }
        assert!(Packet::new_checked(&bytes[..7]).unwrap_err().is_truncated());
        assert!(Packet::new_checked([131; 23]).unwrap_err().is_truncated());
        let packet = Packet::new_checked([128; 24]).unwrap();
        assert_eq!(Repr::parse(&packet).unwrap_err().to_string(), "MLD: bad type 128");
        assert!(is_mld(143) && !is_mld(133));
    }

    fn address() -> impl Strategy<Value = Ipv6Addr> {
        any::<u128>().prop_map(Ipv6Addr::from)
    }

    fn message() -> impl Strategy<Value = Repr> {
        let v2 = membership::tests::query(address);
        prop_oneof![
            (any::<u16>(), address(), proptest::option::of(v2))
                .prop_map(|(response_code, group, v2)| Repr::Query { response_code, group, v2 }),
            address().prop_map(Repr::ReportV1),
            address().prop_map(Repr::Done),
            membership::tests::records(address).prop_map(Repr::ReportV2),
        ]
    }

    proptest! {
        #[test]
        fn written_values_parse_back(repr in message()) {
            let mut out = vec![0xEE; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..]).unwrap();
            prop_assert_eq!(Repr::parse(&packet).unwrap(), repr.clone());
            let short = out.len() - 1;
            prop_assert!(repr.emit(&mut out[..short]).unwrap_err().is_truncated());
        }
    }
}
