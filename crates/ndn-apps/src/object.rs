//! A published object: named, versioned bytes, divided into segments.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_wire::ndn::data::{ContentType, MetaInfo, Repr};
use plexus_wire::ndn::{Component, Name, NameBuf, PACKET_LEN_MAX, tlv, types};

use crate::digest::DigestSigner;
use crate::metadata::{self, Metadata};

/// Default bytes of a segment: with a name, it fits into the longest packet.
pub const SEGMENT_SIZE: usize = 8000;
/// Bytes of a packet besides name and content: TLV headers, freshness, last segment, signature.
const BESIDE: usize = 96;
/// Names longer than this leave no room for content.
const NAME_LEN_MAX: usize = 8192;

/// The bytes of an object.
#[derive(Debug)]
pub enum Body {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, in the state when it was opened.
    File {
        /// The file.
        file: File,
        /// Its length at that time, in bytes.
        size: u64,
        /// Time of its last change, in nanoseconds since 1970.
        mtime_ns: i128,
    },
}

impl Body {
    /// The bytes of an open file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn file(file: File) -> io::Result<Body> {
        let about = file.metadata()?;
        Ok(Body::File { file, size: about.len(), mtime_ns: mtime_ns(&about) })
    }

    /// Their number.
    pub fn size(&self) -> u64 {
        match self {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File { size, .. } => *size,
        }
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        match self {
            Body::Memory(bytes) => {
                let end = (at as usize + len).min(bytes.len());
                Ok(bytes.get(at as usize..end).unwrap_or_default().to_vec())
            }
            Body::File { file, size, mtime_ns: then } => {
                let mut bytes = vec![0; len.min(size.saturating_sub(at) as usize)];
                file.read_exact_at(&mut bytes, at)?;
                // Bytes of another version must not be served under this version's name.
                match mtime_ns(&file.metadata()?) == *then {
                    true => Ok(bytes),
                    false => Err(io::Error::other("the file has been changed")),
                }
            }
        }
    }
}

pub(crate) fn mtime_ns(about: &std::fs::Metadata) -> i128 {
    i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec())
}

/// Properties of an object besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Most bytes of a segment; fewer if the name is long.
    pub segment_size: usize,
    /// How long a cache may treat the metadata, and so the version, as the newest.
    pub freshness: Duration,
    /// Time of its last change, in nanoseconds since 1970.
    pub mtime_ns: Option<u64>,
    /// The status of the HTTP response with this body.
    pub http_status: Option<u16>,
    /// Headers of that response, each as `name: value`.
    pub http_headers: Vec<String>,
}

/// An object, and how its packets are made.
#[derive(Debug)]
pub struct Object {
    /// Unique among the objects of this process.
    pub id: u64,
    /// Its version.
    pub version: u64,
    /// Its bytes.
    pub body: Body,
    name: NameBuf,
    path_len: usize,
    segment_size: usize,
    freshness: Duration,
    metadata: Metadata,
}

/// A name that leaves no room for content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name of {0} bytes leaves no room in a packet")]
pub struct NameTooLong(pub usize);

impl Object {
    /// The object `path` in a version.
    ///
    /// # Errors
    /// When its name is so long that no content fits into a packet.
    pub fn new(
        path: Name<'_>,
        version: u64,
        body: Body,
        about: About,
    ) -> Result<Object, NameTooLong> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let name = path.to_buf().with_number(types::VERSION, version);
        let encoded = name.as_name().encoded_len() + 16;
        if encoded > NAME_LEN_MAX {
            return Err(NameTooLong(encoded));
        }
        let room = PACKET_LEN_MAX - BESIDE - encoded;
        let segment_size = about.segment_size.clamp(1, room);
        let size = body.size();
        let mut metadata = Metadata {
            name: name.clone(),
            last: Some(last_segment(size, segment_size)),
            segment_size: Some(segment_size as u64),
            size: Some(size),
            mtime_ns: about.mtime_ns,
            http_status: about.http_status,
            http_headers: about.http_headers,
        };
        // The packet contains the name twice. Headers that do not fit are dropped, last ones first.
        let room = PACKET_LEN_MAX.saturating_sub(BESIDE + encoded + metadata::KEYWORD.len() + 16);
        while metadata.to_bytes().len() > room && metadata.http_headers.pop().is_some() {}
        if metadata.to_bytes().len() > room {
            return Err(NameTooLong(encoded));
        }
        Ok(Object {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            version,
            body,
            name,
            path_len: path.len(),
            segment_size,
            freshness: about.freshness,
            metadata,
        })
    }

    /// The number of its last segment.
    pub fn last(&self) -> u64 {
        last_segment(self.body.size(), self.segment_size)
    }

    /// The packet of a segment.
    ///
    /// # Errors
    /// When the body cannot be read or has changed, or there is no such segment.
    pub fn segment(&self, segment: u64) -> io::Result<Vec<u8>> {
        let last = self.last();
        if segment > last {
            return Err(io::ErrorKind::NotFound.into());
        }
        let content = self.body.read(segment * self.segment_size as u64, self.segment_size)?;
        let name = self.name.clone().with_number(types::SEGMENT, segment);
        // A version never changes.
        Ok(sequence_packet(name.as_name(), last, Duration::from_secs(3600), &content))
    }

    /// The packet of its metadata.
    pub fn metadata(&self) -> Vec<u8> {
        let name = metadata::name_of(self.name.as_name().prefix(self.path_len))
            .with_number(types::VERSION, self.version)
            .with_number(types::SEGMENT, 0);
        sequence_packet(name.as_name(), 0, self.freshness, &self.metadata.to_bytes())
    }
}

fn last_segment(size: u64, segment_size: usize) -> u64 {
    size.div_ceil(segment_size as u64).saturating_sub(1)
}

fn sequence_packet(name: Name<'_>, last: u64, freshness: Duration, content: &[u8]) -> Vec<u8> {
    let number = last.to_be_bytes();
    let value = &number[8 - tlv::number_len(last)..];
    let meta = MetaInfo {
        content_type: None,
        freshness_ms: freshness_ms(freshness),
        final_block: Some(Component { kind: types::SEGMENT as u16, value }),
    };
    packet(&Repr { name, meta: Some(meta), content: Some(content) })
}

/// The packet with which a producer denies that such Data exists.
pub fn absent(name: Name<'_>, freshness: Duration) -> Vec<u8> {
    let meta = MetaInfo {
        content_type: Some(ContentType::NACK),
        freshness_ms: freshness_ms(freshness),
        final_block: None,
    };
    packet(&Repr { name, meta: Some(meta), content: None })
}

/// Data that is never fresh has no FreshnessPeriod.
fn freshness_ms(freshness: Duration) -> Option<u64> {
    Some(freshness.as_millis() as u64).filter(|ms| *ms > 0)
}

fn packet(repr: &Repr<'_>) -> Vec<u8> {
    repr.to_bytes(&DigestSigner::DATA).expect("a digest is as long as it says")
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::Data;
    use proptest::prelude::*;

    use super::*;
    use crate::digest::{Integrity, integrity};

    fn object(path: &str, body: Vec<u8>, segment_size: usize) -> Object {
        let path: NameBuf = path.parse().unwrap();
        let about = About { segment_size, ..About::default() };
        Object::new(path.as_name(), 7, Body::Memory(body), about).unwrap()
    }

    proptest! {
        #[test]
        fn segments_put_together_are_the_body(
            body in proptest::collection::vec(any::<u8>(), 0..5000),
            segment_size in 1usize..2000,
        ) {
            let object = object("/a", body.clone(), segment_size);
            let mut all = Vec::new();
            for n in 0..=object.last() {
                let packet = object.segment(n).unwrap();
                let data = Data::new_checked(&packet).unwrap();
                prop_assert_eq!(integrity(&data), Integrity::Intact);
                prop_assert_eq!(data.name().to_string(), format!("/a/v=7/seg={n}"));
                let last = data.meta().final_block.unwrap().number(types::SEGMENT);
                prop_assert_eq!(last, Some(object.last()));
                all.extend_from_slice(data.content());
            }
            prop_assert_eq!(all, body);
            prop_assert!(object.segment(object.last() + 1).is_err());
        }

        #[test]
        fn no_packet_is_longer_than_forwarders_carry(name_len in 1usize..9000) {
            let path = NameBuf::new().with(vec![b'a'; name_len]);
            let headers = vec!["x: y".repeat(100); 30];
            let about =
                About { segment_size: 8000, http_headers: headers, ..About::default() };
            let body = Body::Memory(vec![1; 20_000]);
            if let Ok(object) = Object::new(path.as_name(), u64::MAX, body, about) {
                prop_assert!(object.segment(0).unwrap().len() <= PACKET_LEN_MAX);
                prop_assert!(object.metadata().len() <= PACKET_LEN_MAX);
            } else {
                prop_assert!(name_len > 3000);
            }
        }
    }

    #[test]
    fn metadata_say_where_and_how_much() {
        let object = object("/a/b", vec![0; 20_001], 8000);
        let packet = object.metadata();
        let data = Data::new_checked(&packet).unwrap();
        assert_eq!(data.name().to_string(), "/a/b/32=metadata/v=7/seg=0");
        let metadata = Metadata::of(&data).unwrap();
        assert_eq!(metadata.name.to_string(), "/a/b/v=7");
        assert_eq!((metadata.last, metadata.size), (Some(2), Some(20_001)));
    }
}
