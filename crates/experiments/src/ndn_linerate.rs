//! `ndn-linerate`: what a router of named data with two caches carries, by the size of the first
//! and the number of disks of the second (seed augustus, "Glimpse on performance"). The slides'
//! catalogue and caches are divided by one factor; items, chunks and the disk are what they are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_benches::ndr::trial::Running;
use plexus_io::disk::{Completion, DeviceStats, Disk, DiskSettings, disks};
use plexus_ndn::store::ContentStats;
use plexus_report::{Failure, Progress};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use super::Setting;
use super::ndn_probe;
use super::ndn_rig::{DiskFile, Node, device, device_text, place, start};
use super::plot::{Axis, Bars, Chart, Line, Series};
use super::report::{Findings, Row};
use super::rig::{Scratch, number};

const SEED: u64 = 1;
/// Items, and bytes of the caches, of the slides.
const ITEMS: u64 = 1_300_000;
const L1: [u64; 4] = [5_000_000_000, 10_000_000_000, 15_000_000_000, 20_000_000_000];
const L2: u64 = 100_000_000_000;
/// Bytes of a chunk, and chunks of an item: 10 MB. Neither is scaled.
const CHUNK: u64 = 8_000;
const CHUNKS: u64 = 1_250;
const EXPONENT: &str = "0.8";
/// Interests on their way: the slides' "batch and queue size = 16 packets".
const WINDOW: u64 = 16;
/// Windows by which latency is measured.
const WINDOWS: [u64; 7] = [1, 2, 4, 8, WINDOW, 32, 64];
/// Reads under way when the disks are measured by themselves.
const DEPTH: usize = 64;
/// Line rate.
const PAPER_MBIT: f64 = 10_000.0;
/// "Average latency = 96 usec"; of what, the slides do not say.
const PAPER_LATENCY_US: f64 = 96.0;
/// Bytes of a read when the disk is measured by itself: what a record of a chunk takes.
const READ: usize = 8192;
/// The share of the second cache that is filled beforehand; the rest are heads and records' ends.
const FILLED: f64 = 0.9;
/// Chunks that are asked for twice in a row when it is filled, and the memory for that.
const REPEATED: u64 = 125;
const FILLING: u64 = 8 << 20;
/// Interests on their way meanwhile.
const FILLING_WINDOW: u64 = 64;
/// How often that is done at most: what comes while the disk is busy writing is not kept.
const ROUNDS: usize = 8;
/// The part of it that has to be there.
const ENOUGH: f64 = 0.95;

/// How long, and how large.
struct Effort {
    factor: u64,
    l1: &'static [u64],
    warm_up: Duration,
    time: Duration,
    windows: &'static [u64],
}

const FULL: Effort = Effort {
    factor: 100,
    l1: &L1,
    warm_up: Duration::from_secs(4),
    time: Duration::from_secs(8),
    windows: &WINDOWS,
};
const QUICK: Effort = Effort {
    factor: 1000,
    l1: &[L1[1]],
    warm_up: Duration::from_millis(300),
    time: Duration::from_millis(500),
    windows: &[1, WINDOW],
};

/// A consumer's result and what the node and the device did for it.
struct Outcome {
    seconds: f64,
    satisfied: u64,
    interests: u64,
    /// Interests that came to nothing.
    failed: u64,
    bits_per_s: f64,
    /// Median, 99th percentile and mean, microseconds.
    latency_us: [f64; 3],
    counted: ContentStats,
    before: Option<DeviceStats>,
    after: Option<DeviceStats>,
}

impl Outcome {
    /// Parts of the throughput by who answered.
    fn parts(&self) -> [f64; 3] {
        let ContentStats { memory_hits, disk_hits, misses } = self.counted;
        let sum = self.counted.total().max(1) as f64;
        [memory_hits, disk_hits, misses].map(|n| n as f64 / sum)
    }
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let mut findings = Findings::new(
        SEED,
        "disks,l1_bytes,l2_bytes,items,data_per_s,content_bits_per_s,memory_hits,disk_hits,misses,\
         data,latency_us_p50,latency_us_p99,latency_us_mean,device_reads,device_read_bytes,\
         device_writes,device_written_bytes,device_busy_ms\n",
    );
    let temporary = std::env::temp_dir();
    let second = setting.input.unwrap_or(&temporary);
    let [one, other] = [&temporary, second].map(|path| disks(path).unwrap_or_default());
    let media = Media::of(&one, &other);
    for disks in [1, 2] {
        let place = Place { disks, second, media };
        setting.progress.say(&format!("L2 on {}", place.text()));
        with_disks(&place, &effort, &mut findings, setting.progress).map_err(Failure::unusable)?;
    }
    let Effort { factor, .. } = effort;
    findings.remarks.extend([
        format!(
            "the slides' catalogue (1.3 M items), L1 (5 to 20 GB) and L2 (100 GB) divided by \
             {factor}: {} items of 10 MB, L1 {} to {} MB, L2 {} MB in all; chunks of 8,000 bytes",
            ITEMS / factor,
            L1[0] / factor / 1_000_000,
            L1[3] / factor / 1_000_000,
            L2 / factor / 1_000_000
        ),
        media.remark(),
        format!(
            "with a window of Interests always on their way, the mean latency from end to end is \
             the window divided by the throughput; so it is told for windows of 1 to 64. A \
             packet's time in the router is measured apart from that, by {} probes in a second \
             that pass it meanwhile",
            ndn_probe::PER_S
        ),
        "node, producer and consumer share this machine's processors, and each chunk is copied \
         through two Unix sockets on its way from the producer, through one from a cache"
            .into(),
    ]);
    Ok(findings)
}

/// Where the files of the second cache are.
struct Place<'a> {
    disks: u64,
    /// Directory of the second file.
    second: &'a Path,
    media: Media,
}

impl Place<'_> {
    /// For a person.
    fn text(&self) -> String {
        match (self.disks, self.media) {
            (1, _) => "1 file".into(),
            (disks, Media::Two) => format!("{disks} files on {disks} disks"),
            (disks, Media::One) => format!("{disks} files on one disk"),
            (disks, Media::Unknown) => format!("{disks} files, not on two known disks"),
        }
    }
}

/// What the two files of the second cache are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    /// Two disks, neither of which holds a part of both files.
    Two,
    /// One disk, or one that both share: two partitions of it are not two disks.
    One,
    /// At least one file is on a file system without a block device, such as tmpfs.
    Unknown,
}

impl Media {
    /// By the names of the disks under each file.
    fn of(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Media {
        match (one.is_empty() || other.is_empty(), one.is_disjoint(other)) {
            (true, _) => Media::Unknown,
            (false, true) => Media::Two,
            (false, false) => Media::One,
        }
    }

    /// For a person.
    fn remark(self) -> String {
        let what = match self {
            Media::Two => return "the two files of L2 are on two disks".into(),
            Media::One => "the two files of L2 are on one and the same disk",
            Media::Unknown => {
                "a file of L2 is on a file system without a block device, which is no disk"
            }
        };
        format!("{what}. --input takes a directory on a second disk, TMPDIR one on the first")
    }
}

/// Whether two files are on different devices, each with counters of its own. Partitions of one
/// disk are different devices.
fn is_another_device(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|m| m.dev()).ok();
    device(one) != device(other)
}

/// What the devices of some files have done, each device once; `None` where one has no counters.
fn devices(files: &[DiskFile]) -> Option<DeviceStats> {
    let mut sum = DeviceStats::default();
    for (i, file) in files.iter().enumerate() {
        let is_first = |earlier: &DiskFile| is_another_device(&earlier.path, &file.path);
        if files[..i].iter().all(is_first) {
            let DeviceStats { reads, read_bytes, writes, written_bytes, busy_ms } =
                device(&file.path)?;
            sum.reads += reads;
            sum.read_bytes += read_bytes;
            sum.writes += writes;
            sum.written_bytes += written_bytes;
            sum.busy_ms += busy_ms;
        }
    }
    Some(sum)
}

/// All sizes of memory over a second cache of so many files; with the last of them, latency.
fn with_disks(
    place: &Place<'_>,
    effort: &Effort,
    findings: &mut Findings,
    progress: &mut Progress,
) -> Result<(), String> {
    let disks = place.disks;
    let scratch = Scratch::new(&format!("ndn-linerate-{disks}"))?;
    let other = Scratch::within(place.second, &format!("ndn-linerate-{disks}b"))?;
    let size = L2 / effort.factor / disks;
    let folder = |i: u64| if i == 0 { &scratch } else { &other };
    let files: Vec<DiskFile> =
        (0..disks).map(|i| DiskFile { path: folder(i).join(&format!("disk{i}")), size }).collect();
    let filled = fill(&scratch, &files, effort)?;
    findings.remarks.push(format!(
        "L2 on {}: {:.0} % of the chunks that were to be there beforehand were",
        place.text(),
        filled * 100.0
    ));
    if filled < ENOUGH {
        findings.doubts.push(format!("L2 on {}: not filled, the disk is busy", place.text()));
    }
    let mut groups = Vec::new();
    for &l1 in effort.l1 {
        let scaled = l1 / effort.factor;
        let outcome = measure(&scratch, scaled, &files, effort)?;
        let title =
            format!("{}, L1 {} MB for {} GB", place.text(), scaled / 1_000_000, l1 / 1_000_000_000);
        record(&title, (disks, scaled, l1), &outcome, effort, findings);
        let mbits = outcome.bits_per_s / 1e6;
        groups.push((format!("{} MB", scaled / 1_000_000), outcome.parts().map(|p| p * mbits)));
    }
    findings.charts.push(Chart::Stacked(Bars {
        title: format!("Content by the size of L1, with L2 on {}", place.text()),
        axis: "Mbit/s".into(),
        series: ["DRAM hit", "SSD hit", "miss"].map(Series::ours).into(),
        groups: groups.into_iter().map(|(name, parts)| (name, parts.to_vec())).collect(),
    }));
    if disks == 2 {
        latencies(&scratch, &files, effort, findings, progress)?;
    }
    let before = devices(&files);
    let (bytes_per_s, direct) = read_at_random(&files, effort.time.min(Duration::from_secs(2)))?;
    let after = devices(&files);
    let how = if direct { "O_DIRECT" } else { "through the page cache" };
    let row =
        Row::new(format!("limit: {}, only read", place.text()), "Mbit/s", bytes_per_s * 8.0 / 1e6);
    findings.rows.push(row.note(format!(
        "{:.0} reads/s of {READ} bytes at random, {DEPTH} at a time, {how}; {}",
        bytes_per_s / READ as f64,
        device_text(before, after)
    )));
    if !direct {
        findings.doubts.push("no direct I/O here: hits of the disk may be the page cache's".into());
    }
    Ok(())
}

/// What a run showed: rows, CSV, and whether it adds up.
fn record(
    title: &str,
    (disks, scaled, l1): (u64, u64, u64),
    outcome: &Outcome,
    effort: &Effort,
    findings: &mut Findings,
) {
    let Outcome { counted, latency_us: [p50, p99, mean], before, after, .. } = *outcome;
    let done = before.zip(after).map(|(b, a)| a.since(&b)).unwrap_or_default();
    let _ = writeln!(
        findings.runs,
        "{disks},{scaled},{},{},{:.0},{:.0},{},{},{},{},{p50:.1},{p99:.1},{mean:.1},{},{},{},{},{}",
        L2 / effort.factor,
        ITEMS / effort.factor,
        outcome.satisfied as f64 / outcome.seconds,
        outcome.bits_per_s,
        counted.memory_hits,
        counted.disk_hits,
        counted.misses,
        outcome.satisfied,
        done.reads,
        done.read_bytes,
        done.writes,
        done.written_bytes,
        done.busy_ms
    );
    let [memory, disk, miss] = outcome.parts().map(|part| part * 100.0);
    // The slides' line rate: two disks, L1 a tenth of L2.
    let is_papers = disks == 2 && l1 * 10 == L2;
    let row = Row::new(format!("{title}: content"), "Mbit/s", outcome.bits_per_s / 1e6);
    let row = row.note(format!(
        "DRAM {memory:.1} %, SSD {disk:.1} %, miss {miss:.1} %; {}",
        device_text(before, after)
    ));
    findings.rows.push(if is_papers { row.at_least(PAPER_MBIT) } else { row });
    // The consumer leaves with a window of Interests on their way.
    let (sum, data) = (counted.total(), outcome.satisfied);
    if sum.abs_diff(data) > WINDOW || outcome.interests - data > WINDOW || outcome.failed > 0 {
        findings.doubts.push(format!(
            "{title}: {} Interests, {data} Data, {sum} looked up, {} came to nothing",
            outcome.interests, outcome.failed
        ));
    }
    let least = counted.disk_hits * CHUNK;
    if before.is_some() && done.read_bytes < least {
        findings.doubts.push(format!(
            "{title}: {} hits of the disk, but the device read {} MiB only",
            counted.disk_hits,
            done.read_bytes >> 20
        ));
    }
}

/// Lets the second cache hold the most popular items, as one long in use would: each part of them
/// is asked for twice, and the most popular last. Gives the part of them that came to the disks.
fn fill(scratch: &Scratch, files: &[DiskFile], effort: &Effort) -> Result<f64, String> {
    let bytes: u64 = files.iter().map(|f| f.size).sum();
    let items = ((bytes as f64 * FILLED) as u64 / (CHUNK * CHUNKS)).max(1);
    let mut names = String::new();
    // What memory still has at the end is gone: somebody else's item.
    for item in (0..=items).rev().map(|i| if i == 0 { ITEMS / effort.factor } else { i }) {
        for first in (0..CHUNKS).step_by(REPEATED as usize) {
            for _ in 0..2 {
                for chunk in first..(first + REPEATED).min(CHUNKS) {
                    let _ = writeln!(names, "/{item}/seg={chunk}");
                }
            }
        }
    }
    let list = scratch.write("names", names.as_bytes())?.display().to_string();
    let node = Node::start(scratch, FILLING, files)?;
    let _producer = producer(&node)?;
    let mut filled = 0.0;
    for _ in 0..ROUNDS {
        consume(&node, FILLING_WINDOW, &["--trace", &list])?;
        node.at_rest()?;
        let stored: u64 = node.cache()?.disks.iter().map(|disk| disk.packets).sum();
        // The other item may be there in part, and some chunks twice.
        filled = (stored as f64 / (items * CHUNKS) as f64).min(1.0);
        if filled >= ENOUGH {
            break;
        }
    }
    node.stop()?;
    Ok(filled)
}

/// What answers all that the caches cannot.
fn producer(node: &Node) -> Result<Running, String> {
    let chunk = CHUNK.to_string();
    let mut arguments = vec!["ndn", "produce", "--prefix", "/bench", "--size", &chunk];
    // The digest would be most of what a producer does.
    arguments.extend(["--signature", "none", "--freshness", "1h", "--transport", &node.uri]);
    let producer = start(&place()?, "the producer", &arguments)?;
    producer.ready("answering everything")?;
    Ok(producer)
}

/// What a consumer found that asks so.
fn consume(node: &Node, window: u64, asks: &[&str]) -> Result<Value, String> {
    let (chunk, window) = (CHUNK.to_string(), window.to_string());
    let mut arguments = vec!["ndn", "gen", "--prefix", "/bench", "--json", "--window", &window];
    arguments.extend(["--chunk-size", &chunk, "--transport", &node.uri]);
    arguments.extend(asks);
    let (status, said) = start(&place()?, "the consumer", &arguments)?.answer()?;
    match status.success() {
        true => Ok(said),
        false => Err(format!("the consumer ({status}): {said}")),
    }
}

/// A consumer's run over a memory of that size, which it fills first.
fn measure(
    scratch: &Scratch,
    l1: u64,
    files: &[DiskFile],
    effort: &Effort,
) -> Result<Outcome, String> {
    let node = Node::start(scratch, l1, files)?;
    let _producer = producer(&node)?;
    draw(&node, effort, WINDOW, effort.warm_up, SEED + 1)?;
    let (counted, before) = (node.at_rest()?, devices(files));
    let said = draw(&node, effort, WINDOW, effort.time, SEED)?;
    let (now, after) = (node.at_rest()?, devices(files));
    node.stop()?;
    let number = |path: &str| number(&said, path);
    let failed = ["/timed_out", "/nacked/congestion", "/nacked/no_route", "/nacked/duplicate"];
    let failed = failed.into_iter().map(number).sum::<Result<f64, String>>()?;
    Ok(Outcome {
        seconds: number("/seconds")?,
        satisfied: number("/satisfied")? as u64,
        interests: number("/interests")? as u64,
        failed: failed as u64,
        bits_per_s: number("/goodput_bits_per_s")?,
        latency_us: [
            number("/latency_us_p50")?,
            number("/latency_us_p99")?,
            number("/latency_us_mean")?,
        ],
        counted: now.since(&counted),
        before,
        after,
    })
}

/// What a consumer found that draws items of the catalogue for a time.
fn draw(
    node: &Node,
    effort: &Effort,
    window: u64,
    time: Duration,
    seed: u64,
) -> Result<Value, String> {
    let (items, chunks) = ((ITEMS / effort.factor).to_string(), CHUNKS.to_string());
    let (time, seed) = (format!("{}ms", time.as_millis()), seed.to_string());
    let words = ["--catalogue", &items, "--chunks", &chunks, "--zipf", EXPONENT];
    consume(node, window, &[&words[..], &["--duration", &time, "--seed", &seed]].concat())
}

/// Latency by the window, with L1 a tenth of L2: from end to end, as the consumer sees it, and in
/// the router, as probes see it meanwhile.
fn latencies(
    scratch: &Scratch,
    files: &[DiskFile],
    effort: &Effort,
    findings: &mut Findings,
    progress: &mut Progress,
) -> Result<(), String> {
    let node = Node::start(scratch, L2 / 10 / effort.factor, files)?;
    let _producer = producer(&node)?;
    draw(&node, effort, WINDOW, effort.warm_up, SEED + 1)?;
    let names = ["end to end, mean", "end to end, p50", "end to end, p99", "in the router, mean"];
    let mut lines = names.map(|name| Line::ours(name, vec![]));
    for &window in effort.windows {
        progress.detail(&format!("latency, window {window}"));
        let time = effort.time / 2;
        let (said, router) = std::thread::scope(|scope| {
            let uri = &node.uri;
            let seed = SEED + window;
            let probing =
                scope.spawn(move || ndn_probe::time_in_router_us(uri, CHUNK as usize, time, seed));
            (draw(&node, effort, window, time, SEED), probing.join())
        });
        let (said, router) = (said?, router.map_err(|_| "the probe panicked")??);
        let [mean, p50, p99] =
            ["mean", "p50", "p99"].map(|n| number(&said, &format!("/latency_us_{n}")));
        let times = [mean?, p50?, p99?, router];
        let [mean, p50, p99, router] = times;
        lines.iter_mut().zip(times).for_each(|(line, us)| line.points.push((window as f64, us)));
        let mbits = number(&said, "/goodput_bits_per_s")? / 1e6;
        let whole = Row::new(format!("window {window}: end to end, mean"), "us", mean)
            .note(format!("p50 {p50:.0}, p99 {p99:.0}; {mbits:.0} Mbit/s"));
        let inside =
            Row::new(format!("window {window}: a packet in the router, mean"), "us", router).note(
                "half of an Interest's and its Data's, sockets and wake-ups included; misses",
            );
        let is_papers = window == WINDOW;
        findings.rows.extend([whole, inside].map(|row| match is_papers {
            true => row.paper(PAPER_LATENCY_US),
            false => row.detail(),
        }));
    }
    node.stop()?;
    let paper = vec![(WINDOW as f64, PAPER_LATENCY_US)];
    let paper = Line::paper("average latency", paper);
    findings.charts.push(Chart::lines(
        "Latency by Interests on their way",
        Axis::log("window (Interests)"),
        Axis::log("us"),
        [paper].into_iter().chain(lines).collect(),
    ));
    Ok(())
}

/// What the files give when nobody does anything with it: bytes/s, and whether directly.
fn read_at_random(files: &[DiskFile], time: Duration) -> Result<(f64, bool), String> {
    let depth = DEPTH / files.len();
    let results: Result<Vec<(f64, bool)>, String> = std::thread::scope(|s| {
        let threads: Vec<_> = (SEED..)
            .zip(files)
            .map(|(seed, f)| s.spawn(move || read_file(&f.path, f.size, depth, time, seed)))
            .collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "a reader panicked")?).collect()
    });
    let results = results?;
    Ok((results.iter().map(|r| r.0).sum(), results.iter().all(|r| r.1)))
}

fn read_file(
    path: &Path,
    bytes: u64,
    depth: usize,
    time: Duration,
    seed: u64,
) -> Result<(f64, bool), String> {
    let settings = DiskSettings {
        bytes,
        free_percent: 0,
        reads: depth,
        read_bytes: READ,
        writes: 1,
        engine: None,
    };
    let mut disk = Disk::open(path, settings).map_err(|e| e.to_string())?;
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut under_way, mut token, mut read, mut error) = (0, 0_u32, 0_u64, None);
    let start = Instant::now();
    while start.elapsed() < time {
        while under_way < depth {
            let offset = random.random_range(0..bytes / READ as u64) * READ as u64;
            if !disk.read(token, offset, READ) {
                break;
            }
            under_way += 1;
            token = token.wrapping_add(1);
        }
        disk.submit().map_err(|e| format!("{}: {e}", path.display()))?;
        poll(&mut [PollFd::new(&disk.fd(), PollFlags::IN)], None)
            .map_err(|e| format!("waiting for the disk: {e}"))?;
        under_way -= disk.complete(|over| {
            if let Completion::Read { result, .. } = over {
                match result {
                    Ok(bytes) => read += bytes.len() as u64,
                    Err(e) => error = Some(e),
                }
            }
        });
        if let Some(e) = error.take() {
            return Err(format!("{}: {e}", path.display()));
        }
    }
    Ok((read as f64 / start.elapsed().as_secs_f64(), disk.is_direct()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_are_on_two_disks_only_if_they_share_none() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        for (one, other, media) in [
            (&["sda"][..], &["sdb"][..], Media::Two),
            // Two partitions, and a stripe over a disk that the other file is on.
            (&["sda"], &["sda"], Media::One),
            (&["sda", "sdb"], &["sdb"], Media::One),
            // A tmpfs, on one side or on both.
            (&["sda"], &[], Media::Unknown),
            (&[], &["sda"], Media::Unknown),
            (&[], &[], Media::Unknown),
        ] {
            assert_eq!(Media::of(&set(one), &set(other)), media, "{one:?} {other:?}");
            let place = Place { disks: 2, second: Path::new("/"), media };
            let is_two = media == Media::Two;
            assert_eq!(place.text() == "2 files on 2 disks", is_two, "{}", place.text());
            assert_eq!(media.remark().contains("--input"), !is_two);
        }
        assert!(Media::Unknown.remark().contains("no disk"));
    }
}
