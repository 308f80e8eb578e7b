//! The bytes of a fuzz target that plays steps, read as a script.

use std::time::Duration;

/// What is left of a script; zeroes follow its end.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Script<'a> {
        Script(data)
    }

    /// The first byte of the next step; none at the end.
    pub(crate) fn step(&mut self) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.u8())
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes behind their length in one byte.
    pub(crate) fn short(&mut self) -> &'a [u8] {
        let len = self.u8().into();
        self.take(len)
    }

    /// Bytes behind their length in two bytes.
    pub(crate) fn long(&mut self) -> &'a [u8] {
        let len = self.u16().into();
        self.take(len)
    }

    /// Time that passes, from a nanosecond to days.
    pub(crate) fn time(&mut self) -> Duration {
        Duration::from_nanos(1 << (self.u8() % 50))
    }
}
