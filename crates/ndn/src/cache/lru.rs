//! Data in memory, of which the least recently used leaves.
//!
//! By prefix, a store finds the newest Data of each of its three longest proper prefixes, as far as
//! a table of hints remembers: a cache may miss.

use plexus_table::names::NameMap;
use plexus_table::prefetch;
use plexus_wire::Time;
use plexus_wire::ndn::Data;

use super::{Answer, Cache, Query};
use crate::names::HashedName;

const NONE: u32 = u32::MAX;
/// Components by which a name may be longer than the prefix that finds it.
const BELOW: usize = 3;

/// How much a store may hold.
#[derive(Clone, Copy, Debug)]
pub struct LruLimits {
    /// Packets.
    pub packets: usize,
    /// Bytes of memory for them.
    pub bytes: usize,
}

struct Entry {
    hash: u64,
    stale_at: Time,
    older: u32,
    newer: u32,
    name_at: u32,
    name_len: u32,
    packet: Vec<u8>,
}

/// The store.
pub struct Lru {
    limits: LruLimits,
    index: NameMap,
    entries: Vec<Entry>,
    free: Vec<u32>,
    hints: Box<[(u32, u32)]>,
    oldest: u32,
    newest: u32,
    bytes: usize,
}

impl Lru {
    /// An empty store.
    pub fn new(limits: LruLimits) -> Lru {
        let limits = LruLimits { packets: limits.packets.clamp(1, 1 << 30), ..limits };
        let hints = (2 * limits.packets).next_power_of_two();
        Lru {
            limits,
            index: NameMap::new(limits.packets).expect("address space for the cache"),
            entries: Vec::with_capacity(limits.packets),
            free: Vec::new(),
            hints: vec![(0, NONE); hints].into(),
            oldest: NONE,
            newest: NONE,
            bytes: 0,
        }
    }

    /// Packets in the store.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that packets take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn name(&self, id: u32) -> &[u8] {
        let entry = &self.entries[id as usize];
        let at = entry.name_at as usize;
        &entry.packet[at..at + entry.name_len as usize]
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.index.find(hash, |id| self.name(id) == name)
    }

    fn hint(&self, hash: u64) -> usize {
        hash as usize & (self.hints.len() - 1)
    }

    fn link(&mut self, id: u32) {
        let older = std::mem::replace(&mut self.newest, id);
        let entry = &mut self.entries[id as usize];
        (entry.older, entry.newer) = (older, NONE);
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = id,
            None => self.oldest = id,
        }
    }

    fn unlink(&mut self, id: u32) {
        let Entry { older, newer, .. } = self.entries[id as usize];
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    /// Takes an entry out of everything but its memory.
    fn detach(&mut self, id: u32) {
        self.unlink(id);
        let hash = self.entries[id as usize].hash;
        self.index.remove(hash, id);
    }

    /// Gives an entry's memory back that stands nowhere any more.
    fn release(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        (entry.name_at, entry.name_len) = (0, 0);
        self.bytes -= std::mem::take(&mut entry.packet).capacity();
        self.free.push(id);
    }

    /// A place for one packet more, with some memory of the one that left for it.
    fn place(&mut self) -> u32 {
        if self.len() >= self.limits.packets {
            let id = self.oldest;
            self.detach(id);
            return id;
        }
        self.free.pop().unwrap_or_else(|| {
            let (hash, stale_at, packet) = (0, Time::ZERO, Vec::new());
            let (older, newer, name_at, name_len) = (NONE, NONE, 0, 0);
            self.entries.push(Entry { hash, stale_at, older, newer, name_at, name_len, packet });
            self.entries.len() as u32 - 1
        })
    }
}

impl Cache for Lru {
    type Pieces<'a> = std::iter::Once<&'a [u8]>;

    fn lookup(&mut self, query: &Query<'_>, _: u64, now: Time) -> Answer<Self::Pieces<'_>> {
        let suits = |store: &Lru, id: u32| {
            !query.must_be_fresh || now < store.entries[id as usize].stale_at
        };
        let exact = self.find(query.hash, query.name).filter(|id| suits(self, *id));
        let found = exact.or_else(|| {
            let (tag, id) = self.hints[self.hint(query.hash)];
            let may = query.can_be_prefix && id != NONE && tag == (query.hash >> 32) as u32;
            let id = Some(id).filter(|_| may)?;
            (self.name(id).starts_with(query.name) && suits(self, id)).then_some(id)
        });
        let Some(id) = found else { return Answer::Miss };
        if self.newest != id {
            self.unlink(id);
            self.link(id);
        }
        Answer::Hit(std::iter::once(&self.entries[id as usize].packet[..]))
    }

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    #[inline(always)]
    fn prefetch_found(&self, hash: u64) {
        if let Some(id) = self.index.likely(hash) {
            prefetch(&self.entries[id as usize]);
        }
    }

    fn insert(&mut self, data: &Data<'_>, name: &HashedName<'_>, now: Time) {
        let (packet, bytes) = (data.as_bytes(), name.bytes());
        // The name is a slice of the packet.
        let name_at = bytes.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
        if packet.len() > self.limits.bytes || packet.get(name_at..name_at + bytes.len()).is_none()
        {
            return;
        }
        let id = match self.find(name.hash(), bytes) {
            Some(id) => {
                self.detach(id);
                id
            }
            None => self.place(),
        };
        let entry = &mut self.entries[id as usize];
        let before = entry.packet.capacity();
        if before > 2 * packet.len() {
            entry.packet = Vec::new();
        }
        entry.packet.clear();
        entry.packet.reserve_exact(packet.len());
        entry.packet.extend_from_slice(packet);
        self.bytes = self.bytes + entry.packet.capacity() - before;
        (entry.hash, entry.stale_at) = (name.hash(), now + data.freshness());
        (entry.name_at, entry.name_len) = (name_at as u32, bytes.len() as u32);
        if self.index.insert(name.hash(), id).is_err() {
            return self.release(id);
        }
        self.link(id);
        // Longer names than can be looked at have no more prefixes than those.
        let proper = name.name().len().min(name.depth() + 1);
        for components in (0..proper).rev().take(BELOW) {
            let hash = name.prefix(components).1;
            let at = self.hint(hash);
            self.hints[at] = ((hash >> 32) as u32, id);
        }
        while self.bytes > self.limits.bytes {
            let id = self.oldest;
            self.detach(id);
            self.release(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::NameBuf;
    use plexus_wire::ndn::data::{MetaInfo, Repr};
    use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signed};

    use super::*;
    use crate::names::{NameHasher, NameHashes};

    fn packet(name: &NameBuf, freshness_ms: u64, content: &[u8]) -> Vec<u8> {
        let meta = MetaInfo { freshness_ms: Some(freshness_ms), ..MetaInfo::default() };
        let repr = Repr { name: name.as_name(), meta: Some(meta), content: Some(content) };
        let info = SignatureInfo::new(SignatureType(0));
        let signer = Signed { info, value: &[0; 32] };
        let mut bytes = vec![0; repr.buffer_len(&signer)];
        let len = repr.emit(&signer, &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }

    struct Rig {
        store: Lru,
        hasher: NameHasher,
    }

    impl Rig {
        fn new(packets: usize, bytes: usize) -> Rig {
            let store = Lru::new(LruLimits { packets, bytes });
            Rig { store, hasher: NameHasher::new([5, 6]) }
        }

        fn insert(&mut self, name: &str, freshness_ms: u64, content: &[u8]) -> Vec<u8> {
            let bytes = packet(&name.parse().unwrap(), freshness_ms, content);
            let data = Data::new_checked(&bytes).unwrap();
            let mut memory = NameHashes::default();
            let name = self.hasher.hash(data.name(), &mut memory).unwrap();
            self.store.insert(&data, &name, Time::from_secs(1));
            bytes
        }

        fn get(&mut self, name: &str, prefix: bool, fresh: bool, now: Time) -> Option<Vec<u8>> {
            let name: NameBuf = name.parse().unwrap();
            let mut memory = NameHashes::default();
            let hashed = self.hasher.hash(name.as_name(), &mut memory).unwrap();
            let query = Query {
                name: hashed.bytes(),
                hash: hashed.hash(),
                can_be_prefix: prefix,
                must_be_fresh: fresh,
            };
            match self.store.lookup(&query, 0, now) {
                Answer::Hit(pieces) => Some(pieces.flatten().copied().collect()),
                _ => None,
            }
        }
    }

    #[test]
    fn what_was_not_used_for_longest_leaves() {
        let mut rig = Rig::new(2, 1 << 20);
        let now = Time::from_secs(1);
        let (a, _) = (rig.insert("/a", 0, b"1"), rig.insert("/b", 0, b"2"));
        assert_eq!(rig.get("/a", false, false, now), Some(a));
        let c = rig.insert("/c", 0, b"3");
        assert_eq!(rig.get("/b", false, false, now), None);
        assert_eq!(rig.get("/c", false, false, now), Some(c));
        let again = rig.insert("/c", 0, b"another version");
        assert_eq!(rig.get("/c", false, false, now), Some(again));
        assert_eq!(rig.store.len(), 2);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut rig = Rig::new(100, 2_000);
        for i in 0..200 {
            rig.insert(&format!("/{i}"), 0, &vec![0; 7 * i]);
            assert!(rig.store.bytes() <= 2_000);
            let held: usize = rig.store.entries.iter().map(|e| e.packet.capacity()).sum();
            assert_eq!(rig.store.bytes(), held);
        }
        assert!(!rig.store.is_empty());
    }

    #[test]
    fn prefixes_find_longer_names_and_freshness_ends() {
        let mut rig = Rig::new(512, 1 << 20);
        let a = rig.insert("/a/b/c", 1_000, b"");
        let now = Time::from_secs(1);
        for name in ["/a", "/a/b", "/a/b/c"] {
            assert_eq!(rig.get(name, true, true, now), Some(a.clone()), "{name}");
            assert_eq!(rig.get(name, true, true, Time::from_secs(2)), None);
            assert_eq!(rig.get(name, true, false, Time::from_secs(2)), Some(a.clone()));
        }
        assert_eq!(rig.get("/a/b", false, false, now), None);
        assert_eq!(rig.get("/a/b/c/d", true, false, now), None);
    }
}
