//! The ring of segments, and those still in buffers.

use std::sync::Arc;

use super::index::Place;

#[derive(Clone, Copy, Default)]
pub(super) struct Segment {
    /// 0: empty. Otherwise the segment's position is `seq` modulo the number of segments.
    pub(super) seq: u64,
    pub(super) live: u32,
}

/// The segments and which of them are valid.
pub(super) struct Ring {
    pub(super) segments: Vec<Segment>,
    /// Units in each.
    pub(super) units: u32,
    /// Number of the next segment.
    pub(super) next_seq: u64,
}

impl Ring {
    pub(super) fn segment_of(&self, place: &Place) -> u32 {
        place.unit / self.units
    }

    pub(super) fn round(&self, seq: u64) -> u8 {
        (seq / self.segments.len() as u64) as u8
    }

    /// How many segments were begun after that of the location; `None` if it was overwritten.
    pub(super) fn age(&self, place: &Place) -> Option<u64> {
        let seq = self.segments.get(self.segment_of(place) as usize)?.seq;
        (seq != 0 && self.round(seq) == place.round).then(|| self.next_seq - seq)
    }
}

/// A segment being filled or written.
pub(super) struct Filling<B> {
    /// `None` for the superblock.
    pub(super) segment: Option<u32>,
    pub(super) seq: u64,
    pub(super) buffer: Arc<B>,
    /// Units in use.
    pub(super) units: u32,
    pub(super) records: u32,
}

/// The buffer of a segment that is being filled or written.
pub(super) fn unwritten<'a, B>(
    filling: &'a Option<Filling<B>>,
    writing: &'a [Option<Filling<B>>],
    segment: u32,
) -> Option<&'a Filling<B>> {
    filling.iter().chain(writing.iter().flatten()).find(|f| f.segment == Some(segment))
}
