//! The source-routed header (`axon.txt` §3.1, figure 2) and its processing at a node (§3.2).
//!
//! ```text
//!  0               1               2               3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------------------------------+-----------------------+
//! | type  |        header length          |   forward hops (f)    |
//! +-------+---------------+-------+-------+-----------------------+
//! |    reverse hops (r)   | flags |  f bytes: forward path …      |
//! +-----------------------+-------+-------------------------------+
//! |  r bytes: reverse path …      |  what is carried …            |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! A hop is one byte: the number of a port, or 0xFF, the node's control plane. The header length
//! counts bytes and is always `6 + f + r`. At each node the first forward hop is taken out and the
//! number of the port that the frame came in by is put in as the first reverse hop, so the length
//! of the frame never changes on its way, and the reverse path, as it stands, is the forward path
//! of an answer ([`Repr::answer`]). What a control plane sends comes in by hop 0xFF.

use std::fmt;

use arrayvec::ArrayVec;

use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::error::{Error, Format, Reason, need};

/// Bytes before the hops.
pub const FIXED_LEN: usize = 6;
/// Most hops of a header, forward and reverse together: more than the diameter of any sound
/// network, and a bound on the work for a hostile header.
pub const HOPS_MAX: usize = 100;
/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = FIXED_LEN + HOPS_MAX;
/// Smallest MTU of a fabric link in bytes: it fits a host's full-size frame with one tag after the
/// longest header (SPEC.md, "MTU").
pub const LINK_MTU_MIN: u16 = 1500 + 14 + 4 + HEADER_LEN_MAX as u16;
/// The hop that names a node's control plane.
pub const CONTROL_HOP: u8 = 0xFF;
/// The hop that names a node's part of the group's router; like a port, it has routes of its own.
pub const ROUTER_HOP: u8 = 0xFE;
/// In a tree frame's forward path, it allows one more node to forward the frame.
pub const CREDIT_HOP: u8 = 0xFE;
/// Bytes of a tree's number, at the end of a tree frame's forward path.
pub const TREE_LEN: usize = 4;
/// Most credits of a tree frame that a host port is on the reverse path of.
pub const CREDITS_MAX: u8 = (HOPS_MAX - TREE_LEN - 1) as u8;

/// The hops of a path, or of a part of one.
pub type Path = ArrayVec<u8, HOPS_MAX>;

/// The payload of a fabric frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A host's Ethernet frame.
    #[default]
    Ethernet = 0,
    /// A message between nodes, or between a node and the controller.
    Control = 1,
    /// A frame that could not go where its path led.
    Error = 2,
    /// A host's Ethernet frame to a group: copied along a tree that every node on it knows.
    Tree = 3,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Ethernet => "Ethernet",
            Kind::Control => "control",
            Kind::Error => "error",
            Kind::Tree => "tree",
        })
    }
}

/// Flag of a host's frame: the group's router has sent it. Where it leaves the fabric, the group's
/// address takes the place of its source.
const ROUTED: u8 = 1;

/// Sets the flag *routed* of the header at the start of `bytes`.
#[inline(always)]
pub fn set_routed(bytes: &mut [u8]) {
    if let Some(byte) = bytes.get_mut(FIXED_LEN - 1) {
        *byte |= ROUTED;
    }
}

/// Where a forward hop leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Out by this port, 0 to 0xFD, or to the group's router.
    Port(u8),
    /// To the node's control plane.
    Control,
}

impl Hop {
    /// The meaning of a hop's byte.
    #[inline(always)]
    pub const fn new(hop: u8) -> Hop {
        if hop == CONTROL_HOP { Hop::Control } else { Hop::Port(hop) }
    }
}

/// Why a frame has no next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// No forward hop is left.
    #[error("fabric: no forward hop is left")]
    NoHop,
    /// It follows a tree, and has no hops.
    #[error("fabric: it goes along a tree")]
    Tree,
    /// The header is not one.
    #[error(transparent)]
    Header(#[from] Error),
}

/// The fixed part of a header that has been held against its frame: its first eight bytes as they
/// are, so that reading it costs one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u64);

impl Fields {
    /// Reads and checks the fixed part of the header at the start of `bytes`.
    ///
    /// # Errors
    /// Truncated: the frame ends before its header does. Invalid: an unknown type, or a length
    /// that is not `6 + f + r`. Too many: more than [`HOPS_MAX`] hops.
    #[inline(always)]
    pub fn read(bytes: &[u8]) -> Result<Fields, Error> {
        Fields::read_quickly(bytes).ok_or(()).or_else(|()| Fields::read_slowly(bytes))
    }

    /// [`read`](Self::read) without the reason, and without frames of fewer than eight bytes.
    #[inline(always)]
    fn read_quickly(bytes: &[u8]) -> Option<Fields> {
        let v = u64::from_be_bytes(*bytes.first_chunk::<8>()?);
        let header_len = (v >> 44) & 0xFFFF;
        let hops = ((v >> 32) & 0xFFF) + ((v >> 20) & 0xFFF);
        let sound = header_len == FIXED_LEN as u64 + hops
            && hops <= HOPS_MAX as u64
            && v >> 60 <= Kind::Tree as u64
            && header_len <= bytes.len() as u64;
        sound.then_some(Fields(v))
    }

    #[cold]
    fn read_slowly(bytes: &[u8]) -> Result<Fields, Error> {
        if bytes.len() < 8 { Fields::read_short(bytes) } else { Err(Fields::fault(bytes)) }
    }

    /// A frame of fewer than eight bytes: it may still be a header with up to one hop.
    #[cold]
    fn read_short(bytes: &[u8]) -> Result<Fields, Error> {
        need(Format::Fabric, bytes.len(), FIXED_LEN)?;
        let mut padded = [0; HEADER_LEN_MAX];
        put(&mut padded, 0, bytes);
        let fields = Fields::read(&padded)?;
        need(Format::Fabric, bytes.len(), fields.header_len())?;
        Ok(fields)
    }

    /// The problem of a header that [`read`](Self::read) refuses.
    #[cold]
    fn fault(bytes: &[u8]) -> Error {
        let b: [u8; FIXED_LEN] = array_at(bytes, 0);
        let kind = b[0] >> 4;
        if kind > Kind::Tree as u8 {
            return Error::invalid(Format::Fabric, "type", kind.into());
        }
        let header_len = (u16_at(&b, 0) << 4) | u16::from(b[2] >> 4);
        let forward = u16_at(&b, 2) & 0xFFF;
        let hops = forward + (u16_at(&b, 4) >> 4);
        if usize::from(hops) > HOPS_MAX {
            return Error::too_many(Format::Fabric, HOPS_MAX);
        }
        if header_len != FIXED_LEN as u16 + hops {
            return Error::invalid(Format::Fabric, "header length", header_len.into());
        }
        let (need, have) = (header_len.into(), bytes.len());
        Error { format: Format::Fabric, reason: Reason::Truncated { need, have } }
    }

    /// The kind of payload.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match self.0 >> 60 {
            0 => Kind::Ethernet,
            1 => Kind::Control,
            2 => Kind::Error,
            _ => Kind::Tree,
        }
    }

    /// Forward hops left, at most [`HOPS_MAX`].
    #[inline(always)]
    pub const fn forward(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// Reverse hops, at most [`HOPS_MAX`].
    #[inline(always)]
    pub const fn reverse(self) -> u8 {
        (self.0 >> 20) as u8
    }

    /// Whether the group's router has sent the frame.
    #[inline(always)]
    pub const fn is_routed(self) -> bool {
        (self.0 >> 16) as u8 & ROUTED != 0
    }

    /// Bytes of the whole header.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        FIXED_LEN + self.forward() as usize + self.reverse() as usize
    }

    /// Where the frame goes next; none if no forward hop is left.
    #[inline(always)]
    pub const fn next_hop(self) -> Option<Hop> {
        match self.forward() {
            0 => None,
            _ => Some(Hop::new((self.0 >> 8) as u8)),
        }
    }
}

/// A host's frame in flight in the most common form, which takes few instructions to forward: at
/// least 14 bytes, and one to eight hops left. A frame that [`Fields::read`] refuses has no such
/// form.
#[derive(Debug)]
pub struct Passing<'a> {
    start: &'a mut [u8; 14],
    /// The first eight bytes.
    fixed: u64,
    /// The eight bytes after the fixed part.
    hops: u64,
}

impl<'a> Passing<'a> {
    /// Reads and checks the header at the start of `bytes`. None for a frame that is not in this
    /// form: it may still be sound.
    #[inline(always)]
    pub fn read(bytes: &'a mut [u8]) -> Option<Passing<'a>> {
        let len = bytes.len() as u64;
        let start = bytes.first_chunk_mut::<14>()?;
        let fixed = u64::from_be_bytes(*start.first_chunk()?);
        let (forward, reverse) = ((fixed >> 32) & 0xFFF, (fixed >> 20) & 0xFFF);
        // With the type above it: a type other than Ethernet, 0, is a length beyond all bounds.
        let header_len = fixed >> 44;
        if header_len != FIXED_LEN as u64 + forward + reverse
            || header_len > HEADER_LEN_MAX as u64
            || header_len > len
            || !(1..=8).contains(&forward)
        {
            return None;
        }
        Some(Passing::new(start, fixed))
    }

    #[inline(always)]
    fn new(start: &'a mut [u8; 14], fixed: u64) -> Passing<'a> {
        let [_, _, _, _, _, _, hops @ ..] = *start;
        Passing { start, fixed, hops: u64::from_be_bytes(hops) }
    }

    /// The next hop's byte ([`Hop::new`]).
    #[inline(always)]
    pub const fn hop(&self) -> u8 {
        (self.hops >> 56) as u8
    }

    /// Bytes of the whole header.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        // The type above it is 0.
        (self.fixed >> 44) as usize
    }

    /// Whether the group's router has sent the frame.
    #[inline(always)]
    pub const fn is_routed(&self) -> bool {
        (self.fixed >> 16) as u8 & ROUTED != 0
    }

    /// As [`rotate`]. Only the counts change, and the hops.
    #[inline(always)]
    pub fn rotate(self, in_port: u8) {
        let [_, _, counts @ .., _, _, _, _, _, _, _, _] = self.start;
        let counted = ((self.fixed >> 16) as u32).wrapping_sub(1 << 16).wrapping_add(1 << 4);
        *counts = counted.to_be_bytes();
        let hops = rotated(self.hops, (self.fixed >> 32) as u32 & 0xF, in_port);
        self.start[FIXED_LEN..].copy_from_slice(&hops.to_be_bytes());
    }
}

/// Of eight hops in a register, removes the first and inserts `in_port` after the others of the
/// first `forward`, one to eight.
#[inline(always)]
const fn rotated(hops: u64, forward: u32, in_port: u8) -> u64 {
    let behind = 64 - 8 * forward;
    let rest = hops & (1u64 << behind).wrapping_sub(1);
    // The first hop is shifted out at the top.
    (hops >> behind << 8 | in_port as u64) << behind | rest
}

/// Takes the first forward hop out of a header and puts `in_port` in as the first reverse hop.
/// `fields` must be what [`Fields::read`] found in these bytes; without a forward hop nothing is
/// changed.
#[inline(always)]
pub fn rotate(bytes: &mut [u8], fields: Fields, in_port: u8) {
    if let (1..=8, Some(start)) = (fields.forward(), bytes.first_chunk_mut::<14>()) {
        return Passing::new(start, fields.0).rotate(in_port);
    }
    rotate_slowly(bytes, fields, in_port);
}

fn rotate_slowly(bytes: &mut [u8], fields: Fields, in_port: u8) {
    let forward = usize::from(fields.forward());
    if forward == 0 {
        return;
    }
    let counts = u16_at(bytes, 2) - 1;
    put_u16(bytes, 2, counts);
    let counts = u16_at(bytes, 4) + (1 << 4);
    put_u16(bytes, 4, counts);
    let last = FIXED_LEN + forward - 1;
    bytes.copy_within(FIXED_LEN + 1..=last, FIXED_LEN);
    bytes[last] = in_port;
}

/// The number of the tree that a frame follows, and how many further nodes may forward it. `fields`
/// must come from [`Fields::read`] of these bytes. None if it is not a tree frame, or has no
/// number.
pub fn tree(bytes: &[u8], fields: Fields) -> Option<(u32, u8)> {
    let credits = usize::from(fields.forward()).checked_sub(TREE_LEN)?;
    let number = bytes.get(FIXED_LEN + credits..)?.first_chunk::<TREE_LEN>()?;
    (fields.kind() == Kind::Tree).then_some((u32::from_be_bytes(*number), credits as u8))
}

/// Processes, in place, a frame that arrived on port `in_port` (0xFF: from the node's own control
/// plane): returns its destination and rewrites its header.
///
/// # Errors
/// No forward hop, a frame that follows a tree, or a header that [`Fields::read`] refuses; the
/// bytes are then unchanged.
#[inline(always)]
pub fn advance(bytes: &mut [u8], in_port: u8) -> Result<Hop, FabricError> {
    let fields = Fields::read(bytes)?;
    if fields.kind() == Kind::Tree {
        return Err(FabricError::Tree);
    }
    let hop = fields.next_hop().ok_or(FabricError::NoHop)?;
    rotate(bytes, fields, in_port);
    Ok(hop)
}

/// A view of a fabric frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<T>(T);

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks the header against the frame.
    ///
    /// # Errors
    /// Those of [`Fields::read`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Frame<T>, Error> {
        Fields::read(bytes.as_ref())?;
        Ok(Frame(bytes))
    }

    /// The kind of payload.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.0.as_ref()[0] >> 4 {
            0 => Kind::Ethernet,
            1 => Kind::Control,
            2 => Kind::Error,
            _ => Kind::Tree,
        }
    }

    /// Whether the group's router has sent it.
    #[inline]
    pub fn is_routed(&self) -> bool {
        self.0.as_ref()[FIXED_LEN - 1] & ROUTED != 0
    }

    /// Bytes of the header.
    #[inline]
    pub fn header_len(&self) -> usize {
        FIXED_LEN + self.forward_len() + self.reverse_len()
    }

    fn forward_len(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 2) & 0xFFF)
    }

    fn reverse_len(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 4) >> 4)
    }

    /// The hops that the frame still has to go, the next one first.
    #[inline]
    pub fn forward(&self) -> &[u8] {
        &self.0.as_ref()[FIXED_LEN..FIXED_LEN + self.forward_len()]
    }

    /// The hops that lead back, the next one first.
    #[inline]
    pub fn reverse(&self) -> &[u8] {
        &self.0.as_ref()[FIXED_LEN + self.forward_len()..self.header_len()]
    }
}

impl<'a> Frame<&'a [u8]> {
    /// The bytes after the header, including padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Says that something else is carried.
    #[inline]
    pub fn set_kind(&mut self, kind: Kind) {
        let first = &mut self.0.as_mut()[0];
        *first = (kind as u8) << 4 | *first & 0x0F;
    }

    /// The bytes after the header, for rewriting.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let from = self.header_len();
        &mut self.0.as_mut()[from..]
    }
}

/// The meaning of a fabric header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The kind of payload.
    pub kind: Kind,
    /// The hops to go, the next one first.
    pub forward: Path,
    /// The hops that lead back, the next one first. Together with `forward` at most
    /// [`HOPS_MAX`].
    pub reverse: Path,
}

impl Repr {
    /// A header as a source writes it: nothing leads back yet. A path of more than [`HOPS_MAX`]
    /// hops is refused.
    pub fn new(kind: Kind, path: &[u8]) -> Option<Repr> {
        Some(Repr { kind, forward: Path::try_from(path).ok()?, reverse: Path::new() })
    }

    /// The header of a source of tree frames: `credits` nodes may forward the frame. None if there
    /// are more than [`CREDITS_MAX`].
    pub fn tree(tree: u32, credits: u8, in_port: u8) -> Option<Repr> {
        if credits > CREDITS_MAX {
            return None;
        }
        let credits = std::iter::repeat_n(CREDIT_HOP, credits.into());
        let forward = credits.chain(tree.to_be_bytes()).collect();
        Some(Repr { kind: Kind::Tree, forward, reverse: std::iter::once(in_port).collect() })
    }

    /// The meaning of `frame`'s header.
    ///
    /// # Errors
    /// None today: the view has checked everything.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Repr, Error> {
        Ok(Repr {
            kind: frame.kind(),
            forward: frame.forward().iter().copied().collect(),
            reverse: frame.reverse().iter().copied().collect(),
        })
    }

    /// The header of an answer to a frame that arrived at a control plane with this header: the way
    /// back is the reverse path unchanged, because each node has put its hop first.
    pub fn answer(&self, kind: Kind) -> Repr {
        Repr { kind, forward: self.reverse.clone(), reverse: Path::new() }
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        FIXED_LEN + self.forward.len() + self.reverse.len()
    }

    /// Writes the header at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Too many: more than [`HOPS_MAX`] hops.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let (forward, reverse) = (self.forward.len(), self.reverse.len());
        if forward + reverse > HOPS_MAX {
            return Err(Error::too_many(Format::Fabric, HOPS_MAX));
        }
        let len = self.buffer_len();
        need(Format::Fabric, buf.len(), len)?;
        // Lengths are below 2^12, so that none of them spills.
        let fixed = (self.kind as u64) << 60
            | (len as u64) << 44
            | (forward as u64) << 32
            | (reverse as u64) << 20;
        put(buf, 0, &fixed.to_be_bytes()[..FIXED_LEN]);
        put(buf, FIXED_LEN, &self.forward);
        put(buf, FIXED_LEN + forward, &self.reverse);
        Ok(())
    }

    /// The header's bytes.
    ///
    /// # Errors
    /// Too many: more than [`HOPS_MAX`] hops.
    pub fn to_bytes(&self) -> Result<ArrayVec<u8, HEADER_LEN_MAX>, Error> {
        let mut buf = [0; HEADER_LEN_MAX];
        self.emit(&mut buf)?;
        Ok(buf[..self.buffer_len()].iter().copied().collect())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |f: &mut fmt::Formatter<'_>, hops: &[u8]| {
            if hops.is_empty() {
                return f.write_str("-");
            }
            for (i, &hop) in hops.iter().enumerate() {
                f.write_str(if i > 0 { "." } else { "" })?;
                match Hop::new(hop) {
                    Hop::Port(port) => write!(f, "{port}")?,
                    Hop::Control => f.write_str("ctl")?,
                }
            }
            Ok(())
        };
        write!(f, "fabric {} ", self.kind)?;
        match (self.kind, self.forward.last_chunk::<TREE_LEN>()) {
            (Kind::Tree, Some(number)) => {
                let credits = self.forward.len() - TREE_LEN;
                write!(f, "{} credits {credits}", u32::from_be_bytes(*number))?;
            }
            _ => {
                f.write_str("to ")?;
                path(f, &self.forward)?;
            }
        }
        f.write_str(" back ")?;
        path(f, &self.reverse)
    }
}

#[cfg(test)]
mod tests;
