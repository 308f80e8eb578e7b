//! Fetches an object by its name: finds its version, then its segments.
//!
//! A name that ends with a version is an object's, one that ends with a segment number is a
//! packet's. For any other name the version is discovered: by metadata (RDR), and without an
//! answer, by an Interest with CanBePrefix.

use std::time::Duration;

use plexus_ndn::link::Received;
use plexus_wire::Time;
use plexus_wire::ndn::{Data, NameBuf, types};

use crate::app::{Application, Output};
use crate::ask::{Ask, Question};
use crate::failure::Failure;
use crate::metadata::{self, Metadata};
use crate::segments::{Segments, Settings, Stats};

/// How the version is discovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// By metadata, otherwise by prefix.
    #[default]
    Auto,
    /// By metadata only.
    Metadata,
    /// By an Interest with CanBePrefix.
    Prefix,
    /// Not at all: segment numbers follow the name directly.
    None,
}

impl std::str::FromStr for Discovery {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Discovery, &'static str> {
        match text {
            "auto" => Ok(Discovery::Auto),
            "metadata" => Ok(Discovery::Metadata),
            "prefix" => Ok(Discovery::Prefix),
            "none" => Ok(Discovery::None),
            _ => Err("write auto, metadata, prefix or none"),
        }
    }
}

/// Lifetime and number of the Interests that discover a version.
const LIFETIME: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;

enum Stage {
    Metadata(Ask),
    Prefix(Ask),
    Packet(Ask),
    Segments(Box<Segments>),
    /// The object was one packet.
    Single(Option<Box<[u8]>>),
    Failed,
}

/// Fetches an object.
pub struct Fetch {
    name: NameBuf,
    discovery: Discovery,
    settings: Settings,
    seed: u64,
    stage: Stage,
    object: NameBuf,
    metadata: Option<Metadata>,
    failure: Option<Failure>,
    bytes: u64,
}

fn question(name: NameBuf, can_be_prefix: bool, must_be_fresh: bool) -> Question {
    Question { name, can_be_prefix, must_be_fresh, lifetime: LIFETIME, tries: TRIES }
}

impl Fetch {
    /// Begins as soon as it is polled.
    pub fn new(name: NameBuf, discovery: Discovery, settings: Settings, seed: u64) -> Fetch {
        let mut fetch = Fetch {
            object: name.clone(),
            name,
            discovery,
            settings,
            seed,
            stage: Stage::Failed,
            metadata: None,
            failure: None,
            bytes: 0,
        };
        let last = fetch.name.as_name().last();
        let ends_with = |kind| last.is_some_and(|c| c.number(kind).is_some());
        fetch.stage = if ends_with(types::SEGMENT) {
            Stage::Packet(Ask::new(question(fetch.name.clone(), false, false), seed))
        } else if ends_with(types::VERSION) || discovery == Discovery::None {
            fetch.segments()
        } else if discovery == Discovery::Prefix {
            fetch.by_prefix()
        } else {
            let name = metadata::name_of(fetch.name.as_name());
            Stage::Metadata(Ask::new(question(name, true, true), seed))
        };
        fetch
    }

    fn by_prefix(&self) -> Stage {
        Stage::Prefix(Ask::new(question(self.name.clone(), true, true), self.seed))
    }

    fn segments(&self) -> Stage {
        let object = self.object.clone();
        Stage::Segments(Box::new(Segments::new(object, 0, None, self.settings, self.seed)))
    }

    /// The object's name, as far as it is known.
    pub fn object(&self) -> &NameBuf {
        &self.object
    }

    /// The object's metadata.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Bytes returned so far, and the total.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes, self.metadata.as_ref().and_then(|m| m.size))
    }

    /// Statistics of the segments.
    pub fn stats(&self) -> Option<&Stats> {
        match &self.stage {
            Stage::Segments(segments) => Some(segments.stats()),
            _ => None,
        }
    }

    /// Why the fetch failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Content in order, as far as it has arrived.
    pub fn take(&mut self) -> Option<Box<[u8]>> {
        if self.failure.is_some() {
            return None;
        }
        let content = match &mut self.stage {
            Stage::Single(content) => content.take()?,
            Stage::Segments(segments) => {
                let position = segments.position();
                let content = segments.take()?;
                let is_last = segments.is_done();
                let size = self.metadata.as_ref().and_then(|m| m.segment_size);
                if size.is_some_and(|size| !is_last && content.len() as u64 != size) {
                    let why = format!("segment {position} has {} bytes", content.len());
                    self.misfit(why);
                    return None;
                }
                content
            }
            _ => return None,
        };
        self.bytes += content.len() as u64;
        let (bytes, size) = self.progress();
        if self.is_done() && size.is_some_and(|size| size != bytes) {
            self.misfit(format!("it has {bytes} bytes, and not as many as its metadata say"));
            return None;
        }
        Some(content)
    }

    fn misfit(&mut self, why: String) {
        self.fail(Failure::Misfit { name: self.object.clone(), why });
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Processes the answer to an Interest.
    fn step(&mut self) {
        let ask = match &mut self.stage {
            Stage::Metadata(ask) | Stage::Prefix(ask) | Stage::Packet(ask) => ask,
            Stage::Segments(segments) => {
                if let Some(failure) = segments.failure().cloned() {
                    self.fail(failure);
                }
                return;
            }
            Stage::Single(_) | Stage::Failed => return,
        };
        let Some(answer) = ask.take_answer() else { return };
        let packet = match answer {
            Ok(packet) => packet,
            Err(Failure::NoAnswer { .. })
                if self.discovery == Discovery::Auto
                    && matches!(self.stage, Stage::Metadata(_)) =>
            {
                self.stage = self.by_prefix();
                return;
            }
            Err(failure) => {
                let failure = match self.stage {
                    Stage::Metadata(_) => failure.about(self.name.clone()),
                    _ => failure,
                };
                self.stage = Stage::Failed;
                return self.fail(failure);
            }
        };
        // It was parsed before.
        let Ok(data) = Data::new_checked(&packet) else { return };
        self.stage = match &self.stage {
            Stage::Metadata(_) => match Metadata::of(&data) {
                Ok(m) if self.name.as_name().is_prefix_of(&m.name.as_name()) => {
                    self.object = m.name.clone();
                    self.metadata = Some(m);
                    self.segments()
                }
                Ok(m) => return self.misfit(format!("its metadata lead to {}", m.name)),
                Err(error) => return self.misfit(format!("its metadata cannot be read: {error}")),
            },
            Stage::Prefix(_) => {
                let name = data.name();
                match name.last().and_then(|c| c.number(types::SEGMENT)) {
                    Some(_) => {
                        self.object = name.prefix(name.len() - 1).to_buf();
                        self.segments()
                    }
                    None => {
                        self.object = name.to_buf();
                        Stage::Single(Some(data.content().into()))
                    }
                }
            }
            _ => Stage::Single(Some(data.content().into())),
        };
    }
}

impl Application for Fetch {
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output) {
        let is_ours = match &mut self.stage {
            Stage::Metadata(ask) | Stage::Prefix(ask) | Stage::Packet(ask) => {
                ask.handle(now, received)
            }
            Stage::Segments(segments) => segments.handle(now, received),
            Stage::Single(_) | Stage::Failed => false,
        };
        if is_ours {
            self.poll(now, out);
        }
    }

    fn poll(&mut self, now: Time, out: &mut dyn Output) {
        self.step();
        match &mut self.stage {
            Stage::Metadata(ask) | Stage::Prefix(ask) | Stage::Packet(ask) => ask.poll(now, out),
            Stage::Segments(segments) => segments.poll(now, out),
            Stage::Single(_) | Stage::Failed => {}
        }
        self.step();
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.stage {
            // An answer is processed without delay.
            Stage::Metadata(ask) | Stage::Prefix(ask) | Stage::Packet(ask) => {
                Some(ask.next_deadline().unwrap_or(Time::ZERO))
            }
            Stage::Segments(segments) => segments.next_deadline(),
            Stage::Single(_) | Stage::Failed => None,
        }
    }

    fn is_done(&self) -> bool {
        self.failure.is_some()
            || match &self.stage {
                Stage::Segments(segments) => segments.is_done(),
                Stage::Single(content) => content.is_none(),
                _ => false,
            }
    }
}
