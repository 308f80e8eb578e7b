//! A producer of objects by name.
//!
//! ```text
//! PREFIX/PATH/32=metadata             the newest version (an Interest that a longer name answers)
//! PREFIX/PATH[/v=N]                   likewise: the first segment
//! PREFIX/PATH/v=N/seg=S               a segment
//! PREFIX/PATH/v=N/seg=S/sha256digest= the same by its full name, if that is its digest
//! ```
//!
//! The path is all generic components after the prefix. A [`Library`] finds its object. Packets are
//! made once and cached, as far as memory allows: a repeated Interest costs a copy.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plexus_ndn::link::{Kind, Received};
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Interest, Name, NameBuf, types};

use crate::app::{Application, Output};
use crate::digest::sha256;
use crate::metadata;
use crate::object::{self, Object};

/// FreshnessPeriod of "there is no such object".
const ABSENT: Duration = Duration::from_secs(1);
/// Most Interests that wait for the library.
const PARKED_MAX: usize = 4096;

/// Result of a library lookup.
pub enum Found {
    /// Found.
    Object(Arc<Object>),
    /// There is no such object.
    Absent,
    /// The lookup is in progress: [`Library::has_news`] reports its end.
    Later,
}

/// The source of published objects.
pub trait Library {
    /// The object of a path, which is a name below `prefix`, in this version or the newest.
    fn find(&mut self, now: Time, prefix: Name<'_>, path: Name<'_>, version: Option<u64>) -> Found;

    /// True if a lookup has ended, with or without an object, since the last call.
    fn has_news(&mut self, _now: Time) -> bool {
        false
    }
}

/// Counters of a publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Interests received.
    pub interests: u64,
    /// Segments sent.
    pub segments: u64,
    /// Metadata sent.
    pub metadata: u64,
    /// Interests for missing objects.
    pub absent: u64,
    /// Interests that were not answered: for other names, or too many at once.
    pub ignored: u64,
    /// Segments that had to be made.
    pub made: u64,
    /// Bytes of packets sent.
    pub bytes: u64,
}

/// Answers Interests for the objects of a library.
pub struct Publisher<L> {
    prefix: NameBuf,
    library: L,
    packets: Packets,
    parked: Vec<Parked>,
    counters: Counters,
}

struct Parked {
    packet: Box<[u8]>,
    token: Option<Box<[u8]>>,
    until: Time,
}

/// Cached packets; the oldest is evicted first.
struct Packets {
    map: HashMap<(u64, u64), Arc<[u8]>>,
    order: VecDeque<(u64, u64)>,
    bytes: usize,
    bytes_max: usize,
}

impl Packets {
    fn insert(&mut self, key: (u64, u64), packet: Arc<[u8]>) {
        self.bytes += packet.len();
        self.order.push_back(key);
        if let Some(old) = self.map.insert(key, packet) {
            self.bytes -= old.len();
        }
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.map.remove(&oldest).map_or(0, |p| p.len());
        }
    }
}

/// The part of an Interest's name after the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Metadata(Option<u64>),
    First(Option<u64>),
    Segment(u64, u64),
}

enum Answer {
    Segment(Arc<[u8]>),
    Metadata(Arc<[u8]>),
    Absent(NameBuf),
    Later,
    Ignore,
}

impl<L: Library> Publisher<L> {
    /// Publishes the library's objects below `prefix`, and caches packets of up to `bytes_max`.
    pub fn new(prefix: NameBuf, library: L, bytes_max: usize) -> Publisher<L> {
        let packets = Packets { map: HashMap::new(), order: VecDeque::new(), bytes: 0, bytes_max };
        let counters = Counters::default();
        Publisher { prefix, library, packets, parked: Vec::new(), counters }
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The library.
    pub fn library(&mut self) -> &mut L {
        &mut self.library
    }

    fn answer(&mut self, now: Time, interest: &Interest<'_>) -> Answer {
        let name = interest.name();
        let digest = name.last().and_then(|c| c.digest(types::IMPLICIT_SHA256_DIGEST));
        let Some(digest) = digest else {
            return self.answer_to(now, name, interest.can_be_prefix());
        };
        // Only the exact packet matches: neither another one, nor a denial.
        match self.answer_to(now, name.prefix(name.len() - 1), false) {
            Answer::Segment(packet) | Answer::Metadata(packet) if sha256(&packet) != *digest => {
                Answer::Ignore
            }
            Answer::Absent(_) => Answer::Ignore,
            answer => answer,
        }
    }

    fn answer_to(&mut self, now: Time, name: Name<'_>, can_be_prefix: bool) -> Answer {
        let prefix = self.prefix.as_name();
        if !prefix.is_prefix_of(&name) {
            return Answer::Ignore;
        }
        let rest = name.components().skip(prefix.len());
        let path_len = rest.take_while(|c| u32::from(c.kind) == types::GENERIC_COMPONENT).count();
        let full = name.prefix(prefix.len() + path_len);
        let Some(wanted) = wanted(name, full.len()) else { return Answer::Ignore };
        // A name shorter than any matching Data needs CanBePrefix. It gets no denial: caches would
        // serve that to others.
        if !matches!(wanted, Wanted::Segment(..) | Wanted::Metadata(Some(_))) && !can_be_prefix {
            return Answer::Ignore;
        }
        // It is part of a parsed name.
        let Ok(path) = Name::new_checked(&full.value()[prefix.value().len()..]) else {
            return Answer::Ignore;
        };
        let version = match wanted {
            Wanted::Metadata(version) | Wanted::First(version) => version,
            Wanted::Segment(version, _) => Some(version),
        };
        let object = match self.library.find(now, prefix, path, version) {
            Found::Object(object) => object,
            Found::Later => return Answer::Later,
            Found::Absent => return Answer::Absent(absent_name(name, wanted)),
        };
        if version.is_some_and(|v| v != object.version) {
            return Answer::Absent(absent_name(name, wanted));
        }
        let segment = match wanted {
            Wanted::Metadata(_) => {
                return Answer::Metadata(object.metadata().into());
            }
            Wanted::First(_) => 0,
            Wanted::Segment(_, segment) => segment,
        };
        let key = (object.id, segment);
        if let Some(packet) = self.packets.map.get(&key) {
            return Answer::Segment(packet.clone());
        }
        match object.segment(segment) {
            Ok(packet) => {
                let packet: Arc<[u8]> = packet.into();
                self.counters.made += 1;
                self.packets.insert(key, packet.clone());
                Answer::Segment(packet)
            }
            Err(error) => {
                tracing::debug!(%name, %error, "no such segment");
                Answer::Absent(absent_name(name, wanted))
            }
        }
    }

    fn serve(&mut self, now: Time, packet: &[u8], token: Option<&[u8]>, out: &mut dyn Output) {
        let Ok(interest) = Interest::new_checked(packet) else {
            self.counters.ignored += 1;
            return;
        };
        let headers = Headers { pit_token: token, ..Headers::default() };
        let answer = self.answer(now, &interest);
        let count = match &answer {
            Answer::Metadata(_) => &mut self.counters.metadata,
            _ => &mut self.counters.segments,
        };
        match answer {
            Answer::Segment(packet) | Answer::Metadata(packet) => {
                *count += 1;
                self.counters.bytes += packet.len() as u64;
                out.send(&headers, &packet);
            }
            Answer::Absent(name) => {
                self.counters.absent += 1;
                out.send(&headers, &object::absent(name.as_name(), ABSENT));
            }
            Answer::Later if self.parked.len() < PARKED_MAX => self.parked.push(Parked {
                packet: packet.into(),
                token: token.map(Into::into),
                until: now + interest.lifetime(),
            }),
            Answer::Later | Answer::Ignore => self.counters.ignored += 1,
        }
    }
}

/// Parses the part after the path; `None` if no object here has such a name.
fn wanted(name: Name<'_>, path_end: usize) -> Option<Wanted> {
    let mut rest = name.components().skip(path_end);
    let number = |kind| move |c: plexus_wire::ndn::Component<'_>| c.number(kind);
    let wanted = match rest.next() {
        None => Wanted::First(None),
        Some(c) if c == metadata::component() => match rest.next() {
            None => Wanted::Metadata(None),
            Some(c) => {
                let version = number(types::VERSION)(c)?;
                match rest.next().map(number(types::SEGMENT)) {
                    Some(Some(0)) => Wanted::Metadata(Some(version)),
                    _ => return None,
                }
            }
        },
        Some(c) => {
            let version = number(types::VERSION)(c)?;
            match rest.next() {
                None => Wanted::First(Some(version)),
                Some(c) => Wanted::Segment(version, number(types::SEGMENT)(c)?),
            }
        }
    };
    rest.next().is_none().then_some(wanted)
}

/// The name of a denial: for metadata, one like theirs.
fn absent_name(name: Name<'_>, wanted: Wanted) -> NameBuf {
    match wanted {
        Wanted::Metadata(None) => {
            name.to_buf().with_number(types::VERSION, 0).with_number(types::SEGMENT, 0)
        }
        _ => name.to_buf(),
    }
}

impl<L: Library> Application for Publisher<L> {
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output) {
        if received.kind != Kind::Interest {
            return;
        }
        self.counters.interests += 1;
        self.serve(now, received.packet, received.headers.pit_token, out);
    }

    fn poll(&mut self, now: Time, out: &mut dyn Output) {
        if !self.library.has_news(now) {
            return;
        }
        for Parked { packet, token, until } in std::mem::take(&mut self.parked) {
            match until > now {
                true => self.serve(now, &packet, token.as_deref(), out),
                false => self.counters.ignored += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
