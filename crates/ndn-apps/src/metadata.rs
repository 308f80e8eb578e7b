//! Metadata of an object: the answer to `NAME/32=metadata` (Realtime Data Retrieval, "RDR"; fields
//! of ndn6-file-server; and our own for the web).
//!
//! ```text
//! content = Name [FinalBlockId] [SegmentSize] [Size] [Mtime] [HttpStatus] *HttpHeader
//!
//! Name         the object's, with its version
//! SegmentSize  0xF500, a number: bytes of each segment but the last
//! Size         0xF502, a number: bytes of the object
//! Mtime        0xF50C, a number: when it was changed last, in nanoseconds since 1970
//! HttpStatus   0xF580, a number: the status of the response that the object is the body of
//! HttpHeader   0xF582, text: "name: value" of that response
//! ```
//!
//! Unknown elements are ignored, because their types are not critical: consumers that only know the
//! name fetch the object like any other.

use plexus_wire::ndn::data::Data;
use plexus_wire::ndn::tlv::{Element, Reader, Writer};
use plexus_wire::ndn::{Component, Name, NameBuf, types};
use plexus_wire::{Error, Format, Reason};

/// Value of the keyword component of metadata names.
pub const KEYWORD: &[u8] = b"metadata";

const SEGMENT_SIZE: u32 = 0xF500;
const SIZE: u32 = 0xF502;
const MTIME: u32 = 0xF50C;
const HTTP_STATUS: u32 = 0xF580;
const HTTP_HEADER: u32 = 0xF582;

const F: Format = Format::NdnData;

/// Metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Its name, with the version.
    pub name: NameBuf,
    /// The number of its last segment.
    pub last: Option<u64>,
    /// Bytes of each segment except the last.
    pub segment_size: Option<u64>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Time of its last change, in nanoseconds since 1970.
    pub mtime_ns: Option<u64>,
    /// The status of the HTTP response with this body.
    pub http_status: Option<u16>,
    /// Headers of that response, each as `name: value`.
    pub http_headers: Vec<String>,
}

/// The component of metadata names.
pub const fn component() -> Component<'static> {
    Component { kind: types::KEYWORD as u16, value: KEYWORD }
}

/// The name of the metadata of `object`.
pub fn name_of(object: Name<'_>) -> NameBuf {
    let mut name = object.to_buf();
    // A keyword component is always valid.
    let _ = name.push(component());
    name
}

impl Metadata {
    /// Parses it from the Data.
    ///
    /// # Errors
    /// Truncated or invalid: the name is missing, or an element is malformed.
    pub fn of(data: &Data<'_>) -> Result<Metadata, Error> {
        Metadata::parse(data.content())
    }

    /// Parses it from the content.
    ///
    /// # Errors
    /// As [`Metadata::of`].
    pub fn parse(content: &[u8]) -> Result<Metadata, Error> {
        let mut reader = Reader::new(content, F);
        let name = reader.expect(types::NAME, "name of metadata")?.value;
        let name = Name::new_checked(name)?.to_buf();
        let mut metadata = Metadata { name, ..Metadata::default() };
        while let Some(element) = reader.next()? {
            match element.kind {
                types::FINAL_BLOCK_ID => {
                    let last = Component::new_checked(element.value)?;
                    metadata.last = last.number(types::SEGMENT);
                }
                SEGMENT_SIZE => metadata.segment_size = Some(element.number()?),
                SIZE => metadata.size = Some(element.number()?),
                MTIME => metadata.mtime_ns = Some(element.number()?),
                HTTP_STATUS => {
                    let status = element.number()?;
                    let status = u16::try_from(status);
                    let status = status.map_err(|_| invalid("HTTP status", u32::MAX))?;
                    metadata.http_status = Some(status);
                }
                HTTP_HEADER => metadata.http_headers.push(text(&element)?),
                _ => element.ignore()?,
            }
        }
        Ok(metadata)
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.name.as_name().write(w);
        if let Some(last) = self.last {
            w.nested(types::FINAL_BLOCK_ID, |w| w.number(types::SEGMENT, last));
        }
        w.optional_number(SEGMENT_SIZE, self.segment_size);
        w.optional_number(SIZE, self.size);
        w.optional_number(MTIME, self.mtime_ns);
        w.optional_number(HTTP_STATUS, self.http_status.map(u64::from));
        for header in &self.http_headers {
            w.element(HTTP_HEADER, header.as_bytes());
        }
    }

    /// The encoded content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; Writer::count(|w| self.write(w))];
        self.write(&mut Writer::new(&mut out));
        out
    }
}

fn text(element: &Element<'_>) -> Result<String, Error> {
    let text = std::str::from_utf8(element.value);
    text.map(str::to_string).map_err(|_| invalid("text in element", element.kind))
}

fn invalid(field: &'static str, value: u32) -> Error {
    Error { format: F, reason: Reason::Invalid { field, value } }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let metadata = Metadata {
            name: "/a/v=7".parse().unwrap(),
            last: Some(2),
            segment_size: Some(6144),
            size: Some(13_000),
            ..Metadata::default()
        };
        #[rustfmt::skip]
        let bytes = [
            7, 6, 8, 1, b'a', 54, 1, 7,
            26, 3, 50, 1, 2,
            0xFD, 0xF5, 0x00, 2, 0x18, 0x00,
            0xFD, 0xF5, 0x02, 2, 0x32, 0xC8,
        ];
        assert_eq!(metadata.to_bytes(), bytes);
        // Unknown elements are ignored, unless they are critical.
        let mode = [&bytes[..], &[0xFD, 0xF5, 0x04, 2, 0x81, 0xA4]].concat();
        assert_eq!(Metadata::parse(&mode), Ok(metadata));
        assert!(Metadata::parse(&[&bytes[..], &[0xFD, 0xF5, 0x05, 0]].concat()).is_err());
        assert!(Metadata::parse(b"").is_err());
    }

    proptest! {
        #[test]
        fn written_values_parse_back(
            numbers: [Option<u64>; 4],
            http_status: Option<u16>,
            http_headers in proptest::collection::vec("[a-z-]{1,9}: [ -~]{0,9}", 0..4),
        ) {
            let [last, segment_size, size, mtime_ns] = numbers;
            let name = "/a/b/v=1".parse().unwrap();
            let metadata =
                Metadata { name, last, segment_size, size, mtime_ns, http_status, http_headers };
            prop_assert_eq!(Metadata::parse(&metadata.to_bytes()), Ok(metadata));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Metadata::parse(&bytes);
        }
    }
}
