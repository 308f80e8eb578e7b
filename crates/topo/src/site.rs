//! A web site that is published by name (`proto = "web"`), and how often each of its objects is
//! asked for.

use plexus_config::document::{At, Lines, Section};
use plexus_config::units::{format_size, parse_size};

/// What a site has, and what its readers want of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Objects.
    pub objects: u32,
    /// Bytes of each.
    pub object_bytes: u64,
    /// Exponent of Zipf's law of their popularity; 0: all alike.
    pub zipf: f64,
}

const OBJECTS: std::ops::RangeInclusive<u64> = 1..=100_000;
/// All of them are in the memory of who publishes them.
const SITE_MAX: u64 = 1 << 30;
const ZIPF: std::ops::RangeInclusive<f64> = 0.0..=10.0;

impl Site {
    /// Reads the keys of a `[[traffic]]` that are about it.
    pub(crate) fn read(section: &Section<'_>) -> Site {
        let objects = section.integer_or("objects", OBJECTS, 20_u32);
        let bytes = section.quantity("object_bytes", parse_size);
        if let Some(At { value, span }) = &bytes
            && !(1..=SITE_MAX / u64::from(objects)).contains(value)
        {
            let message = "an object has at least a byte, and all objects together at most 1 GiB";
            section.problems().add(span.clone(), message, "write fewer or smaller objects");
        }
        let zipf = section.number_or("zipf", ZIPF, 0.8);
        Site { objects, object_bytes: bytes.map_or(64 << 10, |b| b.value), zipf }
    }

    /// Writes them.
    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.entry("objects", self.objects);
        lines.text("object_bytes", &format_size(self.object_bytes));
        lines.value("zipf", &self.zipf);
    }
}
