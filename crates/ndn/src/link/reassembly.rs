//! Memory for packets that still lack fragments.
//!
//! One [`Memory`] serves all faces of a thread. It is bounded per face and in total. A face that
//! exceeds its bound loses its own packet that has waited longest for a fragment; when the total is
//! used up, the face that uses most loses one. So a peer that never completes a packet loses only
//! its own. On a shared face each sender's fragments are reassembled separately, and the sender
//! with most incomplete packets loses one first. The memory counted is the memory allocated.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::lp::{self, Headers};

use super::FRAGMENTS_MAX;
use super::counters::Refused;
use crate::face::FaceId;

/// Most incomplete packets of a face.
const PARTIALS_MAX: usize = 64;
/// Bytes that a packet takes besides its data and its table, rounded up.
const OVERHEAD: usize = 256;
/// Longest headers kept with a first fragment, in bytes.
const HEAD_MAX: usize = 2048;

/// Bounds of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in total.
    pub total: usize,
    /// Bytes for one face.
    pub face: usize,
    /// How long a packet waits for its next fragment.
    pub timeout: Duration,
}

impl Default for Limits {
    /// 64 MiB, 512 KiB, and NFD's 500 ms.
    fn default() -> Limits {
        Limits { total: 64 << 20, face: 512 << 10, timeout: Duration::from_millis(500) }
    }
}

/// A fragment.
pub(super) struct Piece<'p> {
    /// Which of the peers behind the face sent it.
    pub(super) sender: u64,
    pub(super) sequence: u64,
    /// Below `count`.
    pub(super) index: u64,
    pub(super) count: u64,
    pub(super) headers: &'p Headers<'p>,
    pub(super) bytes: &'p [u8],
}

/// Incomplete packets of all faces.
#[derive(Debug)]
pub struct Memory {
    limits: Limits,
    used: usize,
    faces: HashMap<FaceId, Share>,
    /// Every face in `faces` with the memory it uses, so that the largest is found at once.
    by_use: BTreeSet<(usize, FaceId)>,
    /// The last completed packet, and its headers as an idle link packet.
    done: Vec<u8>,
    done_head: Vec<u8>,
    timed_out: u64,
    evicted: u64,
}

#[derive(Debug, Default)]
struct Share {
    used: usize,
    partials: Vec<Partial>,
}

/// The sender of a packet, and the Sequence of its fragment 0.
type Key = (u64, u64);

#[derive(Debug)]
struct Partial {
    key: Key,
    /// Offset and length of each fragment in `bytes`; length 0: not received yet.
    pieces: Vec<(u32, u32)>,
    missing: usize,
    /// The fragments, in order of arrival.
    bytes: Vec<u8>,
    /// The first fragment's headers, as an idle link packet.
    head: Vec<u8>,
    /// The largest of any fragment.
    mark: Option<u64>,
    is_in_order: bool,
    /// When its last fragment arrived.
    touched: Time,
}

impl Partial {
    fn cost(&self) -> usize {
        OVERHEAD + size_of_val(&*self.pieces) + self.bytes.capacity() + self.head.capacity()
    }
}

impl Memory {
    /// Empty memory.
    pub fn new(limits: Limits) -> Memory {
        Memory {
            limits,
            used: 0,
            faces: HashMap::new(),
            by_use: BTreeSet::new(),
            done: Vec::new(),
            done_head: Vec::new(),
            timed_out: 0,
            evicted: 0,
        }
    }

    /// Bytes in use; at most the limit.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Packets dropped on timeout, and packets evicted because of a bound.
    pub fn dropped(&self) -> (u64, u64) {
        (self.timed_out, self.evicted)
    }

    /// Inserts a fragment; returns the packet and its headers if it is complete.
    pub(super) fn insert(
        &mut self,
        now: Time,
        face: FaceId,
        piece: &Piece<'_>,
        packet_len_max: usize,
    ) -> Result<Option<(Headers<'_>, &[u8])>, Refused> {
        if piece.count > FRAGMENTS_MAX {
            return Err(Refused::Fragment);
        }
        let key = (piece.sender, piece.sequence.wrapping_sub(piece.index));
        let at = match self.find(face, key) {
            Some(at) => at,
            None => self.begin(now, face, key, piece, packet_len_max)?,
        };
        let complete = self.add(now, face, at, piece, packet_len_max)?;
        if !complete {
            return Ok(None);
        }
        // Others may have been evicted to make room, which changes its index.
        let Some(partial) = self.find(face, key).and_then(|at| self.remove(face, at)) else {
            return Ok(None);
        };
        self.finish(partial);
        let Ok(packet) = lp::Packet::new_checked(&self.done_head) else { return Ok(None) };
        Ok(Some((*packet.headers(), &self.done)))
    }

    /// Drops packets whose timeout has passed. Call it a few times a second while anything is in
    /// [use](Self::used).
    pub fn expire(&mut self, now: Time) {
        let timeout = self.limits.timeout;
        let late = |p: &Partial| p.touched + timeout <= now;
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        for face in faces {
            while let Some(at) = self.share(face).and_then(|s| s.partials.iter().position(late)) {
                self.remove(face, at);
                self.timed_out += 1;
            }
        }
    }

    /// Drops everything of a face that was removed.
    pub fn forget(&mut self, face: FaceId) {
        while self.remove(face, 0).is_some() {}
    }

    fn find(&self, face: FaceId, key: Key) -> Option<usize> {
        self.share(face)?.partials.iter().position(|p| p.key == key)
    }

    fn share(&self, face: FaceId) -> Option<&Share> {
        self.faces.get(&face)
    }

    /// Creates a packet, of which this is the first fragment to arrive.
    fn begin(
        &mut self,
        now: Time,
        face: FaceId,
        key: Key,
        piece: &Piece<'_>,
        packet_len_max: usize,
    ) -> Result<usize, Refused> {
        let count = piece.count as usize;
        // All but the last fragment are as long as this one, or this is the last.
        let guess = (piece.bytes.len().saturating_mul(count)).min(packet_len_max);
        let table = count * size_of::<(u32, u32)>();
        self.make_room(face, OVERHEAD + table + guess, None)?;
        let partial = Partial {
            key,
            pieces: vec![(0, 0); count],
            missing: count,
            bytes: Vec::with_capacity(guess),
            head: Vec::new(),
            mark: None,
            is_in_order: true,
            touched: now,
        };
        let cost = partial.cost();
        let share = self.faces.entry(face).or_default();
        share.partials.push(partial);
        let at = share.partials.len() - 1;
        self.charge(face, cost as isize);
        Ok(at)
    }

    /// Adds a fragment to the packet at this index; returns whether it is complete.
    fn add(
        &mut self,
        now: Time,
        face: FaceId,
        at: usize,
        piece: &Piece<'_>,
        packet_len_max: usize,
    ) -> Result<bool, Refused> {
        let Some(partial) = self.partial(face, at) else { return Err(Refused::Memory) };
        let index = piece.index as usize;
        if partial.pieces.len() as u64 != piece.count {
            return Err(Refused::Contradiction);
        }
        if partial.pieces[index].1 != 0 {
            return Err(Refused::Duplicate);
        }
        let len = partial.bytes.len() + piece.bytes.len();
        let head = lp::Repr {
            headers: Headers {
                sequence: None,
                frag_index: None,
                frag_count: None,
                tx_sequence: None,
                ..*piece.headers
            },
            acks: &[],
            fragment: None,
        };
        // Only the first fragment carries the packet's headers.
        let head_len = if index == 0 { head.buffer_len() } else { 0 };
        if len > packet_len_max || head_len > HEAD_MAX {
            self.remove(face, at);
            return Err(Refused::Contradiction);
        }
        let before = partial.cost();
        let more = len.saturating_sub(partial.bytes.capacity()) + head_len;
        let key = partial.key;
        let at = match more {
            0 => at,
            // Others of this face may be evicted, which changes its index.
            _ => {
                self.make_room(face, more, Some(key))?;
                self.find(face, key).ok_or(Refused::Memory)?
            }
        };
        let Some(partial) = self.partial(face, at) else { return Err(Refused::Memory) };
        partial.bytes.reserve_exact(piece.bytes.len());
        partial.is_in_order &= index + partial.missing == partial.pieces.len();
        partial.pieces[index] = (partial.bytes.len() as u32, piece.bytes.len() as u32);
        partial.bytes.extend_from_slice(piece.bytes);
        partial.missing -= 1;
        partial.touched = now;
        partial.mark = partial.mark.max(piece.headers.congestion_mark);
        if index == 0 {
            partial.head = vec![0; head_len];
            head.emit(&mut partial.head).map_err(|_| Refused::Malformed)?;
        }
        let (after, complete) = (partial.cost(), partial.missing == 0);
        self.charge(face, after as isize - before as isize);
        Ok(complete)
    }

    fn partial(&mut self, face: FaceId, at: usize) -> Option<&mut Partial> {
        self.faces.get_mut(&face)?.partials.get_mut(at)
    }

    /// Makes room to charge `more` bytes to a face, without evicting its packet `kept`.
    fn make_room(&mut self, face: FaceId, more: usize, kept: Option<Key>) -> Result<(), Refused> {
        loop {
            let share = self.share(face);
            let used = share.map_or(0, |s| s.used);
            let partials = share.map_or(0, |s| s.partials.len());
            let is_new = usize::from(kept.is_none());
            if used + more > self.limits.face || partials + is_new > PARTIALS_MAX {
                self.evict(face, kept)?;
            } else if self.used + more > self.limits.total {
                let Some(&(most, other)) = self.by_use.last() else { return Err(Refused::Memory) };
                // The face that uses most is evicted from; that is this face if others use less.
                let from = if most > used { other } else { face };
                self.evict(from, kept.filter(|_| from == face))?;
            } else {
                return Ok(());
            }
        }
    }

    /// Evicts a packet of a face, other than `kept`: that of the sender with most packets there
    /// which has waited longest.
    fn evict(&mut self, face: FaceId, kept: Option<Key>) -> Result<(), Refused> {
        let share = self.share(face).ok_or(Refused::Memory)?;
        let of = |sender| share.partials.iter().filter(|p| p.key.0 == sender).count();
        let candidates = share.partials.iter().enumerate().filter(|(_, p)| Some(p.key) != kept);
        let oldest = candidates.min_by_key(|(_, p)| (Reverse(of(p.key.0)), p.touched));
        let oldest = oldest.map(|(at, _)| at);
        self.remove(face, oldest.ok_or(Refused::Memory)?);
        self.evicted += 1;
        Ok(())
    }

    fn remove(&mut self, face: FaceId, at: usize) -> Option<Partial> {
        let share = self.faces.get_mut(&face)?;
        if at >= share.partials.len() {
            return None;
        }
        let partial = share.partials.swap_remove(at);
        self.charge(face, -(partial.cost() as isize));
        Some(partial)
    }

    /// Charges bytes to a face; a face that uses none is forgotten.
    fn charge(&mut self, face: FaceId, more: isize) {
        let Some(share) = self.faces.get_mut(&face) else { return };
        self.by_use.remove(&(share.used, face));
        share.used = share.used.saturating_add_signed(more);
        self.used = self.used.saturating_add_signed(more);
        if share.partials.is_empty() {
            self.faces.remove(&face);
        } else {
            self.by_use.insert((share.used, face));
        }
    }

    /// Stores a complete packet where it can be borrowed.
    fn finish(&mut self, partial: Partial) {
        if partial.is_in_order {
            self.done = partial.bytes;
        } else {
            self.done.clear();
            for &(at, len) in &partial.pieces {
                self.done.extend_from_slice(&partial.bytes[at as usize..][..len as usize]);
            }
        }
        self.done_head = partial.head;
        // A mark on any fragment marks the packet.
        let Ok(packet) = lp::Packet::new_checked(&self.done_head) else { return };
        if packet.headers().congestion_mark >= partial.mark {
            return;
        }
        let headers = Headers { congestion_mark: partial.mark, ..*packet.headers() };
        let repr = lp::Repr { headers, acks: &[], fragment: None };
        let mut head = vec![0; repr.buffer_len()];
        if repr.emit(&mut head).is_ok() {
            self.done_head = head;
        }
    }
}
