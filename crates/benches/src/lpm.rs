//! Longest-prefix match in the Internet's tables, beside DPDK's and a crate's.
//!
//! Peers get the same routes and the same keys, by files; every sixteenth answer is added up on
//! both sides, and the sums have to agree. A rate is that of the median round over all keys.

use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_table::lpm::{Address, Fib, GroupId, Limits, Prefix, Reader, Refused};
use prefix_trie::PrefixMap;
use tempfile::TempDir;

use super::peer::DpdkLpm;
use super::random::Random;
use super::{Row, Setting, Turn, beside, median, sorted};
use crate::internet;

/// Next-hop groups, told apart by a hash of the prefix.
const GROUPS: u64 = 64;
/// The answer where there is no route, in sums and for peers.
const NONE: u16 = 32_767;
/// Lookups at a time.
const BATCH: usize = 64;
/// Keys: 4 MiB of either family.
const KEYS_BYTES: usize = 4 << 20;
const SLICES: u32 = 10;
/// Dependent lookups to a round.
const STEPS: usize = 1 << 16;
/// Routes that go and come back in a round of updates.
const CHURN: usize = 100_000;

pub(super) type Route<A> = (A, u8, GroupId);
pub(super) type Routes<A> = Vec<Route<A>>;

/// What differs between the families here.
pub(super) trait Family: Address + std::ops::BitXor<Output = Self> {
    const NAME: &'static str;
    /// The peer's table, and its name for people.
    const PEER: (&'static str, &'static str);
    /// Another, which is slow to load.
    const SLOW_PEER: Option<(&'static str, &'static str)>;
    /// Everything outside of which there is no unicast address.
    const UNICAST: (Self, u8);
    fn from_u128(bits: u128) -> Self;
    /// As the peer's program reads it.
    fn bytes(self) -> Vec<u8>;
}

impl Family for u32 {
    const NAME: &'static str = "ipv4";
    const PEER: (&'static str, &'static str) = ("fib", "rte_fib");
    const SLOW_PEER: Option<(&'static str, &'static str)> = Some(("lpm", "rte_lpm"));
    const UNICAST: (u32, u8) = (0, 0);

    fn from_u128(bits: u128) -> u32 {
        bits as u32
    }

    fn bytes(self) -> Vec<u8> {
        self.to_ne_bytes().into()
    }
}

impl Family for u128 {
    const NAME: &'static str = "ipv6";
    const PEER: (&'static str, &'static str) = ("fib6", "rte_fib6");
    const SLOW_PEER: Option<(&'static str, &'static str)> = None;
    /// RFC 4291: 2000::/3 is what is given out.
    const UNICAST: (u128, u8) = (1 << 125, 3);

    fn from_u128(bits: u128) -> u128 {
        bits
    }

    fn bytes(self) -> Vec<u8> {
        self.to_be_bytes().into()
    }
}

/// The rows of both families.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let (v4, v6) = table(setting.effort.shrink)?;
    let mut rows = family(name, &v4, setting)?;
    rows.extend(family(name, &v6, setting)?);
    Ok(rows)
}

/// Every `shrink`th route of the real tables.
pub(super) fn table(shrink: usize) -> Result<(Routes<u32>, Routes<u128>), String> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in internet::prefixes()?.into_iter().step_by(shrink.max(1)) {
        match prefix {
            Prefix::V4(addr, len) => v4.push((addr, len, group(addr.into(), len))),
            Prefix::V6(addr, len) => v6.push((addr, len, group(addr, len))),
        }
    }
    Ok((v4, v6))
}

fn group(addr: u128, len: u8) -> GroupId {
    let folded = (addr >> 64) as u64 ^ addr as u64 ^ u64::from(len) << 56;
    let number = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - GROUPS.ilog2());
    GroupId::new(number as u16).unwrap_or(const { GroupId::new(0).unwrap() })
}

fn family<A: Family>(name: &str, routes: &[Route<A>], setting: &Setting) -> Result<Vec<Row>, String>
where
    (A, u8): prefix_trie::Prefix,
{
    let name = format!("{name}-{}", A::NAME);
    let effort = setting.effort;
    let files = Files::new()?;
    let mut map = PrefixMap::new();
    for &(addr, len, group) in routes {
        map.insert((addr, len), group);
    }
    let file = files.write("routes", routes.iter().flat_map(|r| record(*r)))?;
    let program = setting.peers.program("dpdk_lpm_mem");
    let start = |table| program.as_ref().map(|p| DpdkLpm::start(p, table, &file, setting));
    let kinds = keys(routes, KEYS_BYTES / size_of::<A>() / effort.shrink.max(1));
    let kinds = kinds.into_iter().map(|(kind, keys)| {
        let file = files.write(kind, keys.iter().flat_map(|key| key.bytes()))?;
        Ok(Keys { kind, keys, file })
    });
    let kinds = kinds.collect::<Result<Vec<_>, String>>()?;

    // Which pages a table gets makes a difference of some per cent, for as long as it lives. So
    // each turn has new ones, ours while the old ones are still there, lest it gets their memory.
    let (mut fibs, mut built, mut turns) = (Vec::new(), Vec::new(), vec![Vec::new(); kinds.len()]);
    for _ in 0..effort.runs.max(1) {
        let begin = Instant::now();
        let fib = build(routes)?;
        let build_s = begin.elapsed().as_secs_f64();
        let (mut reader, mut dpdk) = (fib.reader(), start(A::PEER.0).transpose()?);
        for (keys, turns) in kinds.iter().zip(&mut turns) {
            turns.push(keys.turn(&mut reader, dpdk.as_mut(), A::PEER.1, effort.time)?);
        }
        let theirs_s = dpdk.as_ref().and_then(|dpdk| dpdk.build_s).map(|s| s * 1e3);
        built.push((build_s * 1e3, theirs_s));
        fibs.push(fib);
    }
    let mut fib = fibs.pop().ok_or("no turn")?;
    drop(fibs);
    let mut reader = fib.reader();
    let peer = program.is_some().then_some(A::PEER.1);
    let row = |name: &str, unit, turns| Row::of_turns(name, unit, peer, turns);
    let mut rows = Vec::new();
    for (keys, turns) in kinds.iter().zip(turns) {
        let name = format!("{name}-{}", keys.kind);
        rows.push(row(&name, "M/s", turns));
        if keys.kind == "table" {
            let crate_name = Some("prefix-trie");
            let row = format!("{name}-crate");
            rows.push(Row::measure(&row, "M/s", crate_name, effort.runs.min(3), || {
                let (theirs, expected) = rounds(effort.time, || bulk_of_crate(&map, &keys.keys));
                let (ours, sum) = bulk(&mut reader, &keys.keys, effort.time);
                if sum != expected {
                    return Err(format!("prefix-trie finds other routes: {expected} and {sum}"));
                }
                Ok((ours, Some(theirs)))
            })?);
        }
    }
    rows.push(row(&format!("{name}-build"), "ms", built));
    if let Some((table, peer)) = A::SLOW_PEER.filter(|_| effort.slow_peers) {
        let mut dpdk = start(table).transpose()?;
        let named = dpdk.is_some().then_some(peer);
        for keys in &kinds {
            let row = format!("{name}-{}-{peer}", keys.kind);
            rows.push(Row::measure(&row, "M/s", named, effort.runs, || {
                keys.turn(&mut reader, dpdk.as_mut(), peer, effort.time)
            })?);
        }
    }
    let row = format!("{name}-updates");
    rows.push(Row::measure(&row, "M/s", Some("prefix-trie"), effort.runs.min(3), || {
        let theirs = churn(routes, effort.time, |addr, len, group| {
            match group {
                Some(group) => map.insert((addr, len), group),
                None => map.remove(&(addr, len)),
            };
            Ok(())
        })?;
        Ok((updates(&mut fib, routes, setting)?, Some(theirs)))
    })?);
    for (what, bytes) in [("memory", fib.memory().lookup), ("memory-writer", fib.memory().writer)] {
        rows.push(Row::once(&format!("{name}-{what}"), "MB", bytes as f64 / 1e6));
    }
    Ok(rows)
}

/// Keys of one kind, and the file from which a peer reads them.
struct Keys<A> {
    kind: &'static str,
    keys: Vec<A>,
    file: PathBuf,
}

impl<A: Family> Keys<A> {
    fn is_dependent(&self) -> bool {
        self.kind == "dependent"
    }

    /// A turn: slices of ours and of the peer's one after the other, as what other programs leave
    /// of the caches changes from one second to the next. The median of either.
    fn turn(
        &self,
        reader: &mut Reader<A>,
        mut dpdk: Option<&mut DpdkLpm>,
        peer: &str,
        time: Duration,
    ) -> Result<Turn, String> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..SLICES {
            let (rate, sum) = match self.is_dependent() {
                true => (dependent(reader, &self.keys, time / SLICES), 0),
                false => bulk(reader, &self.keys, time / SLICES),
            };
            ours.push(rate);
            let Some(dpdk) = &mut dpdk else { continue };
            let kind = if self.is_dependent() { "dependent" } else { "bulk" };
            let turn = dpdk.turn(kind, &self.file, time / SLICES)?;
            if turn.sum != sum {
                return Err(format!("{peer} finds other routes: {} and {sum}", turn.sum));
            }
            theirs.push(turn.mlps);
        }
        let median = |rates: Vec<f64>| median(&sorted(rates.into_iter()));
        Ok((median(ours).unwrap_or(0.0), median(theirs)))
    }
}

pub(super) fn build<A: Family>(routes: &[Route<A>]) -> Result<Fib<A>, String> {
    Fib::build(Limits::default(), routes.iter().copied()).map_err(|e| e.to_string())
}

/// Keys of each kind, the same in every run.
fn keys<A: Family>(routes: &[Route<A>], count: usize) -> [(&'static str, Vec<A>); 4] {
    let count = count.max(BATCH);
    let mut random = Random(88_172_645_463_325_252);
    let unicast = (A::UNICAST.0, A::UNICAST.1);
    let anywhere = (0..count).map(|_| within(&mut random, unicast)).collect();
    let mut in_table = || {
        let draw = |random: &mut Random| {
            let (addr, len, _) = routes[random.below(routes.len())];
            within(random, (addr, len))
        };
        (0..count).map(|_| draw(&mut random)).collect::<Vec<A>>()
    };
    let (table, dependent) = (in_table(), in_table());
    let trace = trace(routes, count, &mut random);
    [("random", anywhere), ("table", table), ("trace", trace), ("dependent", dependent)]
}

/// Addresses all over the table, the same in every run.
pub(super) fn keys_in_table<A: Family>(routes: &[Route<A>], shrink: usize) -> Vec<A> {
    let [_, (_, keys), ..] = keys(routes, KEYS_BYTES / size_of::<A>() / shrink.max(1));
    keys
}

/// Prefixes by Zipf's law (the n-th most popular has 1/n of the first one's flows), one address to
/// a flow, a flow's packets in a burst of 1 to 32, four on average, 64 packets under way mixed.
fn trace<A: Family>(routes: &[Route<A>], count: usize, random: &mut Random) -> Vec<A> {
    let mut popular: Vec<usize> = (0..routes.len()).collect();
    random.shuffle(&mut popular);
    let mut trace = Vec::with_capacity(count + 32);
    while trace.len() < count {
        // The inverse of the harmonic numbers, nearly: e^(x ln n).
        let fraction = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (fraction * (routes.len() as f64).ln()).exp() as usize - 1;
        let (addr, len, _) = routes[popular[rank.min(routes.len() - 1)]];
        let key = within(random, (addr, len));
        trace.push(key);
        let more = (0..31).take_while(|_| random.below(4) != 0).count();
        trace.extend(std::iter::repeat_n(key, more));
    }
    trace.truncate(count);
    trace.chunks_mut(64).for_each(|mixed| random.shuffle(mixed));
    trace
}

fn within<A: Family>(random: &mut Random, (addr, len): (A, u8)) -> A {
    let anywhere = A::from_u128(u128::from(random.next()) << 64 | u128::from(random.next()));
    addr ^ anywhere ^ anywhere.network(len)
}

/// Millions of operations per second of the median round, and what the last round returned.
pub(super) fn rounds(time: Duration, mut round: impl FnMut() -> (usize, u64)) -> (f64, u64) {
    let (begin, mut rates) = (Instant::now(), Vec::new());
    loop {
        let start = Instant::now();
        let (looked_up, sum) = round();
        rates.push(looked_up as f64 / start.elapsed().as_secs_f64() / 1e6);
        if begin.elapsed() >= time {
            return (median(&sorted(rates.into_iter())).unwrap_or(0.0), sum);
        }
    }
}

/// As peers have it in their tables.
fn number(answer: Option<GroupId>) -> u16 {
    answer.map_or(NONE, GroupId::number)
}

/// The same by a branch, as a router does something else where there is no route: so the next key
/// does not wait for the question whether there is one.
#[inline(always)]
fn number_by_branch(answer: Option<GroupId>) -> u16 {
    match answer {
        Some(group) => group.number(),
        None => {
            std::hint::cold_path();
            NONE
        }
    }
}

pub(super) fn bulk<A: Family>(reader: &mut Reader<A>, keys: &[A], time: Duration) -> (f64, u64) {
    let mut answers = [None; BATCH];
    rounds(time, || {
        let mut sum = 0;
        for keys in keys.chunks_exact(BATCH) {
            reader.batch().lookup_batch(keys, &mut answers);
            sum += answers.iter().step_by(16).map(|&a| u64::from(number(a))).sum::<u64>();
        }
        (keys.len() / BATCH * BATCH, sum)
    })
}

fn bulk_of_crate<A: Family>(map: &PrefixMap<(A, u8), GroupId>, keys: &[A]) -> (usize, u64)
where
    (A, u8): prefix_trie::Prefix,
{
    let mut sum = 0;
    for keys in keys.chunks_exact(BATCH) {
        let answers: [u16; BATCH] = std::array::from_fn(|i| {
            number(map.get_lpm(&(keys[i], A::BITS)).map(|(_, &group)| group))
        });
        sum += black_box(answers).iter().step_by(16).map(|&a| u64::from(a)).sum::<u64>();
    }
    (keys.len() / BATCH * BATCH, sum)
}

/// One by one, each answer deciding which key is next: how long a lookup takes.
fn dependent<A: Family>(reader: &mut Reader<A>, keys: &[A], time: Duration) -> f64 {
    let mut at = 0;
    let (rate, _) = rounds(time, || {
        let batch = reader.batch();
        for _ in 0..STEPS {
            at += 1 + usize::from(number_by_branch(batch.lookup(keys[at])));
            while at >= keys.len() {
                at -= keys.len();
            }
        }
        (STEPS, 0)
    });
    black_box(at);
    rate
}

/// Updates while a reader on another processor, if there is one, looks up without pause.
fn updates<A: Family>(
    fib: &mut Fib<A>,
    routes: &[Route<A>],
    setting: &Setting,
) -> Result<f64, String> {
    let mut reader = fib.reader();
    let [_, (_, keys), ..] = keys(routes, 1 << 14);
    let look_up = || _ = black_box(bulk(&mut reader, &keys, Duration::ZERO));
    let update = |addr, len, group| {
        loop {
            let done = match group {
                Some(group) => fib.insert(addr, len, group),
                None => fib.remove(addr, len),
            };
            match done {
                // The reader's processor was taken from it: a router waits, too.
                Err(Refused::ReaderBusy) => std::thread::yield_now(),
                done => return done.map(|_| ()).map_err(|e| e.to_string()),
            }
        }
    };
    beside(setting, look_up, || churn(routes, setting.effort.time, update))
}

/// Millions of updates per second: routes drawn from all over the table go, and come back in
/// another order.
fn churn<A: Family>(
    routes: &[Route<A>],
    time: Duration,
    mut update: impl FnMut(A, u8, Option<GroupId>) -> Result<(), String>,
) -> Result<f64, String> {
    let mut random = Random(1_181_783_497_276_652_981);
    let mut order: Vec<usize> = (0..routes.len()).collect();
    random.shuffle(&mut order);
    order.truncate(CHURN);
    let mut failed = None;
    let (rate, _) = rounds(time, || {
        for &i in &order {
            failed = update(routes[i].0, routes[i].1, None).err().or(failed.take());
        }
        for &i in order.iter().rev() {
            let (addr, len, group) = routes[i];
            failed = update(addr, len, Some(group)).err().or(failed.take());
        }
        (2 * order.len(), 0)
    });
    failed.map_or(Ok(rate), Err)
}

/// A route as the peer's program reads it.
fn record<A: Family>((addr, len, group): Route<A>) -> Vec<u8> {
    let mut record = addr.bytes();
    record.extend([len, 0]);
    record.extend(group.number().to_ne_bytes());
    record
}

/// What is handed over to peers; goes when this does.
struct Files(TempDir);

impl Files {
    fn new() -> Result<Files, String> {
        let folder = tempfile::Builder::new().prefix("plexus-lpm-").tempdir();
        folder.map(Files).map_err(|e| e.to_string())
    }

    fn write(&self, name: &str, bytes: impl Iterator<Item = u8>) -> Result<PathBuf, String> {
        let path = self.0.path().join(name);
        let bytes: Vec<u8> = bytes.collect();
        let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&bytes));
        written.map_err(|e| format!("{}: {e}", Path::display(&path)))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_where_they_are_said_to() {
        let mut random = Random(1);
        for _ in 0..1000 {
            let key: u32 = within(&mut random, (0xC000_0200, 23));
            assert_eq!(key >> 9, 0xC000_0200 >> 9);
            let key: u128 = within(&mut random, u128::UNICAST);
            assert_eq!(key >> 125, 1);
        }
        let host: u128 = within(&mut random, (7, 128));
        assert_eq!(host, 7);
        let routes: Routes<u32> = (0..100).map(|i| (i << 24, 8, group(u128::from(i), 8))).collect();
        let trace = trace(&routes, 4096, &mut random);
        let mut counts = [0; 100];
        trace.iter().for_each(|key| counts[(key >> 24) as usize] += 1);
        counts.sort();
        assert!(counts[99] > 4 * counts[50] && trace.len() == 4096, "{counts:?}");
    }
}
