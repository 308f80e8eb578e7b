//! The tables of the named-data forwarder, beside the standard library's hash map, which hashes
//! with SipHash-1-3 too.
//!
//! Both sides get bytes and ends of components and have to hash them. For the longest prefix the
//! hash map is asked for a name's prefixes in turn, the longest first. The sums of all answers have
//! to agree.

mod made;
mod rib;

use std::collections::HashMap;
use std::hint::black_box;

use plexus_table::names::{
    HashedName, NameFib, NameHasher, NameHashes, NameLimits, NameMap, NameReader, NameRefused,
};
use plexus_table::prefetch;

use super::lpm::rounds;
use super::random::{Random, below};
use super::{Row, Setting, beside};
use made::Names;

/// Names looked up at a time.
const BATCH: usize = 64;
/// Names that are asked for: what they touch of a table of 10 M is over 100 MB.
const ASKED: usize = 1 << 19;
/// Prefixes that go and come back in a round of updates.
const CHURN: usize = 100_000;
/// Entries of the exact map.
const ENTRIES: usize = 1_000_000;
const PEER: &str = "std HashMap";
const KEY: [u64; 2] = [0x5EED, 0x5EED_5EED];

type Peer = HashMap<Box<[u8]>, u32>;

/// One million and ten million prefixes, with a RIB and without, then the exact map.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrink = setting.effort.shrink;
    let mut rows = rib::rows(name, setting)?;
    rows.push(hashing(name, setting)?);
    for (size, prefixes) in [("1m", 1_000_000), ("10m", 10_000_000)] {
        rows.extend(prefix_rows(&format!("{name}-{size}"), prefixes / shrink, setting)?);
    }
    rows.extend(map_rows(&format!("{name}-map"), ENTRIES / shrink, setting)?);
    Ok(rows)
}

/// A name and all its prefixes are hashed.
fn hashing(name: &str, setting: &Setting) -> Result<Row, String> {
    let asked = made::asked(1_000_000, 1 << 12, true);
    let mut batch = Batch::new();
    Row::measure(&format!("{name}-hash"), "M/s", None, setting.effort.runs, || {
        let (rate, sum) = rounds(setting.effort.time, || {
            let mut sum = 0u64;
            for at in (0..asked.len()).step_by(BATCH) {
                batch.hash(&asked, at).iter().for_each(|n| sum = sum.wrapping_add(n.hash()));
            }
            (asked.len(), sum)
        });
        black_box(sum);
        Ok((rate, None))
    })
}

fn prefix_rows(name: &str, prefixes: usize, setting: &Setting) -> Result<Vec<Row>, String> {
    let effort = setting.effort;
    let (mut fib, mut peer) = {
        let table = made::table(prefixes, 1);
        (build(&table)?, filled(&table))
    };
    let mut reader = fib.reader();
    let mut rows = Vec::new();
    for (kind, hit) in [("hit", true), ("miss", false)] {
        let asked = made::asked(prefixes, (ASKED / effort.shrink).max(BATCH), hit);
        rows.push(Row::measure(&format!("{name}-{kind}"), "M/s", Some(PEER), effort.runs, || {
            let (theirs, expected) = rounds(effort.time, || longest_of_peer(&peer, &asked));
            let (ours, sum) = rounds(effort.time, || longest(&mut reader, &asked));
            match sum == expected {
                true => Ok((ours, Some(theirs))),
                false => Err(format!("{PEER} finds other prefixes: {expected} and {sum}")),
            }
        })?);
    }
    let some = made::table(prefixes, (prefixes / CHURN).max(1));
    rows.push(Row::measure(&format!("{name}-updates"), "M/s", Some(PEER), effort.runs, || {
        let (theirs, _) = rounds(effort.time, || {
            for i in 0..some.len() {
                black_box(peer.remove(some.get(i).0));
            }
            for i in 0..some.len() {
                peer.insert(some.get(i).0.into(), i as u32);
            }
            (2 * some.len(), 0)
        });
        Ok((updates(&mut fib, &some, setting)?, Some(theirs)))
    })?);
    let bytes = fib.memory().total() as f64 / fib.len() as f64;
    rows.push(Row::once(&format!("{name}-memory"), "B/prefix", bytes));
    Ok(rows)
}

/// A batch of hashed names.
struct Batch {
    hasher: NameHasher,
    hashes: Vec<NameHashes>,
}

impl Batch {
    fn new() -> Batch {
        Batch { hasher: NameHasher::new(KEY), hashes: vec![NameHashes::default(); BATCH] }
    }

    /// As many names from `at` on as a batch holds, all hashed; the first ones follow the last.
    fn hash<'a>(&'a mut self, names: &'a Names, at: usize) -> [HashedName<'a>; BATCH] {
        self.pick(names, |i| if at + i < names.len() { at + i } else { (at + i) % names.len() })
    }

    fn pick<'a>(
        &'a mut self,
        names: &'a Names,
        number: impl Fn(usize) -> usize,
    ) -> [HashedName<'a>; BATCH] {
        let mut hashes = self.hashes.iter_mut();
        std::array::from_fn(|i| {
            let (bytes, ends) = names.get(number(i));
            let into = hashes.next().expect("as many as a batch holds");
            let ends = ends.iter().map(|&end| usize::from(end));
            self.hasher.hash(bytes, ends, into).expect("made names are well-formed")
        })
    }
}

fn build(table: &Names) -> Result<NameFib, String> {
    let record = |i: usize| 8 + table.get(i).0.len().next_multiple_of(8);
    let bytes: usize = (0..table.len()).map(record).sum();
    // A tenth more, for what waits for readers.
    let limits = NameLimits { prefixes: table.len(), record_bytes: bytes / 10 * 11 + 4096 };
    let mut fib = NameFib::new(limits).map_err(|e| e.to_string())?;
    let mut batch = Batch::new();
    for at in (0..table.len()).step_by(BATCH) {
        for (i, name) in batch.hash(table, at).into_iter().enumerate() {
            let value = ((at + i) % table.len()) as u32;
            fib.insert(name, value).map_err(|e| e.to_string())?;
        }
    }
    Ok(fib)
}

fn filled(table: &Names) -> Peer {
    (0..table.len()).map(|i| (table.get(i).0.into(), i as u32)).collect()
}

/// All names in batches: how many, and the sum of the answers.
fn longest(reader: &mut NameReader, asked: &Names) -> (usize, u64) {
    let (mut batch, mut answers, mut sum) = (Batch::new(), [None; BATCH], 0);
    let whole = asked.len() / BATCH * BATCH;
    for at in (0..whole).step_by(BATCH) {
        let names = batch.hash(asked, at);
        reader.batch().lookup_batch(&names, &mut answers);
        sum += answers.iter().flatten().map(|found| u64::from(found.value)).sum::<u64>();
    }
    (whole, sum)
}

fn longest_of_peer(peer: &Peer, asked: &Names) -> (usize, u64) {
    let whole = asked.len() / BATCH * BATCH;
    let found = (0..whole).map(|i| {
        let (bytes, ends) = asked.get(i);
        let prefix = |end: u16| peer.get(&bytes[..usize::from(end)]);
        ends.iter().rev().find_map(|&end| prefix(end)).map_or(0, |&value| u64::from(value))
    });
    (whole, found.sum())
}

/// Millions of updates per second while a reader on another processor, if there is one, looks up
/// without pause.
fn updates(fib: &mut NameFib, some: &Names, setting: &Setting) -> Result<f64, String> {
    let mut reader = fib.reader();
    let look_up = || _ = black_box(longest(&mut reader, some));
    beside(setting, look_up, || {
        let (mut batch, mut failed) = (Batch::new(), None);
        let (rate, _) = rounds(setting.effort.time, || {
            let whole = some.len() / BATCH * BATCH;
            for at in (0..whole).step_by(BATCH) {
                for name in batch.hash(some, at) {
                    black_box(fib.remove(name));
                }
            }
            for at in (0..whole).step_by(BATCH) {
                for name in batch.hash(some, at) {
                    failed = insert(fib, name, at as u32).err().or(failed.take());
                }
            }
            (2 * whole, 0)
        });
        failed.map_or(Ok(rate), |e| Err(e.to_string()))
    })
}

/// Inserts; waits for a reader whose processor was taken from it.
fn insert(fib: &mut NameFib, name: HashedName, value: u32) -> Result<(), NameRefused> {
    loop {
        match fib.insert(name, value) {
            Err(NameRefused::ReaderBusy) => std::thread::yield_now(),
            done => return done.map(|_| ()),
        }
    }
}

/// An entry of a PIT, as far as the map is concerned.
struct Entry {
    len: u8,
    name: [u8; 79],
}

impl Entry {
    fn new(name: &[u8]) -> Entry {
        let mut entry = Entry { len: name.len() as u8, name: [0; 79] };
        entry.name[..name.len()].copy_from_slice(name);
        entry
    }

    fn is(&self, name: &[u8]) -> bool {
        &self.name[..usize::from(self.len)] == name
    }
}

/// The exact map: names that are there, from all over it.
fn map_rows(name: &str, entries: usize, setting: &Setting) -> Result<Vec<Row>, String> {
    let effort = setting.effort;
    let names = made::table(entries, 1);
    let slab: Vec<Entry> = (0..names.len()).map(|i| Entry::new(names.get(i).0)).collect();
    let mut map = NameMap::new(names.len()).ok_or("there is no memory for the exact map")?;
    let mut batch = Batch::new();
    for at in (0..names.len()).step_by(BATCH) {
        for (i, name) in batch.hash(&names, at).into_iter().enumerate().take(names.len() - at) {
            map.insert(name.hash(), (at + i) as u32).map_err(|e| e.to_string())?;
        }
    }
    let peer = filled(&names);
    let mut random = Random(1_181_783_497_276_652_981);
    let asked = (ASKED / effort.shrink).max(BATCH) / BATCH * BATCH;
    let order: Vec<usize> = (0..asked).map(|_| below(random.next() >> 32, names.len())).collect();
    let row = Row::measure(&format!("{name}-find"), "M/s", Some(PEER), effort.runs, || {
        let (theirs, expected) = rounds(effort.time, || {
            (order.len(), order.iter().map(|&i| u64::from(peer[names.get(i).0])).sum())
        });
        let (ours, sum) = rounds(effort.time, || {
            let mut sum = 0;
            for order in order.chunks_exact(BATCH) {
                let asked = batch.pick(&names, |i| order[i]);
                asked.iter().for_each(|name| map.prefetch(name.hash()));
                let likely = asked.iter().filter_map(|name| map.likely(name.hash()));
                likely.for_each(|entry| prefetch(&slab[entry as usize]));
                for name in asked {
                    let is = |entry: u32| slab[entry as usize].is(name.bytes());
                    sum += map.find(name.hash(), is).map_or(0, u64::from);
                }
            }
            (order.len(), sum)
        });
        match sum == expected {
            true => Ok((ours, Some(theirs))),
            false => Err(format!("{PEER} finds other entries: {expected} and {sum}")),
        }
    })?;
    Ok(vec![row])
}
