//! An outgoing Interest: the received packet with other bytes in one or two places.

use plexus_wire::ndn::Interest;

const MAX: usize = 5;

/// Slices that follow one another.
#[derive(Clone)]
pub(super) struct Pieces<'a> {
    list: [&'a [u8]; MAX],
    at: u8,
    len: u8,
}

impl<'a> Pieces<'a> {
    fn push(&mut self, piece: &'a [u8]) {
        self.list[usize::from(self.len)] = piece;
        self.len += 1;
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let piece = (self.at < self.len).then(|| self.list[usize::from(self.at)])?;
        self.at += 1;
        Some(piece)
    }
}

/// Replacement bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Patch {
    pub(super) nonce: Option<[u8; 4]>,
    pub(super) hop_limit: Option<u8>,
}

impl Patch {
    /// The Interest with these bytes replaced, which it must contain.
    #[inline]
    pub(super) fn apply<'a>(&'a self, interest: &Interest<'a>) -> Pieces<'a> {
        let bytes = interest.as_bytes();
        let mut pieces = Pieces { list: [&[]; MAX], at: 0, len: 0 };
        let mut from = 0;
        // The nonce comes before the hop limit.
        if let (Some(nonce), Some(at)) = (&self.nonce, interest.nonce_at()) {
            pieces.push(&bytes[from..at]);
            pieces.push(nonce);
            from = at + nonce.len();
        }
        if let (Some(hops), Some(at)) = (&self.hop_limit, interest.hop_limit_at()) {
            pieces.push(&bytes[from..at]);
            pieces.push(std::slice::from_ref(hops));
            from = at + 1;
        }
        pieces.push(&bytes[from..]);
        pieces
    }
}
