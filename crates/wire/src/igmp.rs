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
//! query of 8 bytes. Bytes behind the last field count for the checksum only (RFC 3376, 4.1.10 and
//! 4.2.11). The end of a query and the records are MLD's too: [`membership`].

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{array_at, put, put_u16};
use crate::checksum;
use crate::error::{Error, Format, need};
use crate::membership;
pub use crate::membership::RecordKind;

/// Bytes of the shortest message, and before the records of a report.
pub const HEADER_LEN: usize = 8;
/// Bytes before the sources of a query of version 3.
pub const QUERY_LEN: usize = 12;

const QUERY: u8 = 0x11;
const REPORT_1: u8 = 0x12;
const REPORT_2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_3: u8 = 0x22;

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
pub type QueryV3 = membership::Query<Ipv4Addr>;
/// A host's state for one group.
pub type Record = membership::Record<Ipv4Addr>;

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Asks for members. Version 1 if the response code is 0.
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
                let v3 = Some(QueryV3::parse(bytes, HEADER_LEN)?);
                Repr::Query { response_code: bytes[1], group, v3 }
            }
            REPORT_1 => Repr::ReportV1(group),
            REPORT_2 => Repr::ReportV2(group),
            LEAVE => Repr::Leave(group),
            REPORT_3 => Repr::ReportV3(Record::parse_all(bytes, HEADER_LEN)?),
            other => return Err(Error::invalid(Format::Igmp, "type", other.into())),
        })
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Repr::Query { v3: Some(v3), .. } => HEADER_LEN + v3.buffer_len(),
            Repr::ReportV3(records) => HEADER_LEN + Record::buffer_len_of_all(records),
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
        let mut simple = |kind: u8, code: u8, group: &Ipv4Addr| {
            put(buf, 0, &[kind, code]);
            put(buf, 4, &group.octets());
        };
        match self {
            Repr::Query { response_code, group, v3 } => {
                simple(QUERY, *response_code, group);
                if let Some(v3) = v3 {
                    v3.emit(buf, HEADER_LEN)?;
                }
            }
            Repr::ReportV1(group) => simple(REPORT_1, 0, group),
            Repr::ReportV2(group) => simple(REPORT_2, 0, group),
            Repr::Leave(group) => simple(LEAVE, 0, group),
            Repr::ReportV3(records) => {
                buf[0] = REPORT_3;
                Record::emit_all(records, buf, HEADER_LEN)?;
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
                Record::fmt_all(records, f)
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

    fn address() -> impl Strategy<Value = Ipv4Addr> {
        any::<u32>().prop_map(Ipv4Addr::from)
    }

    fn message() -> impl Strategy<Value = Repr> {
        let v3 = membership::tests::query(address);
        prop_oneof![
            (any::<u8>(), address(), proptest::option::of(v3))
                .prop_map(|(response_code, group, v3)| Repr::Query { response_code, group, v3 }),
            address().prop_map(Repr::ReportV1),
            address().prop_map(Repr::ReportV2),
            address().prop_map(Repr::Leave),
            membership::tests::records(address).prop_map(Repr::ReportV3),
        ]
    }

    proptest! {
        #[test]
        fn written_values_parse_back(repr in message()) {
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
