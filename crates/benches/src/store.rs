//! Hits per second from the content store's disk, beside what `fio` reads from the same file with
//! the same block size and depth.
//!
//! That the hits come from the disk is [proven](proof) in each turn: a control group
//! [limits](confined) memory, page cache included, to an eighth of the content, and the device's
//! own counters, and the kernel's of this process, must have read what was answered.

mod confined;
mod proof;
mod rig;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plexus_io::disk::{DeviceStats, place};
use plexus_io::process::memory;
use tempfile::Builder;

use super::{Row, Setting};
use confined::Confined;
use proof::{Evidence, Verdict, own_read_bytes};
use rig::Rig;

/// Packets of 8 KiB: 2 GiB.
const OBJECTS: u64 = 240_000;
/// Packets for each that memory has room for.
const MEMORY_SHARE: u64 = 64;
/// Bytes of content for each that the process may have in memory.
const LIMIT_SHARE: u64 = 8;
/// With less, neither this program nor `fio` runs.
const LIMIT_MIN: u64 = 128 << 20;
const DEPTHS: [usize; 2] = [16, 64];

/// A row for each depth: thousands of hits per second.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let objects = OBJECTS / setting.effort.shrink as u64;
    let folder = Builder::new().prefix(&format!("plexus-{name}-")).tempdir_in(&setting.scratch);
    let folder = folder.map_err(|e| format!("a folder in {}: {e}", setting.scratch.display()))?;
    let file = folder.path().join("content");
    let content = objects * rig::CONTENT as u64;
    let memory = content / MEMORY_SHARE;
    let limit = content / LIMIT_SHARE;
    let confined = match limit >= LIMIT_MIN {
        true => Confined::enter(limit),
        false => Err(format!("{} MiB of content are too few to limit memory by", content >> 20)),
    };
    if let Err(why) = &confined {
        eprintln!("plexus: no cgroup of its own: {why}");
    }
    let confined = confined.ok();
    eprintln!(
        "plexus: {objects} packets of 8 KiB, {} MiB, in {} of {} MiB; the store's memory holds {} \
         MiB",
        content >> 20,
        file.display(),
        rig::file_bytes(objects) >> 20,
        memory >> 20
    );
    let mut rows = Vec::new();
    for depth in DEPTHS {
        let mut rig = Rig::fill(&file, objects, memory, depth)?;
        let peer = !setting.effort.time.is_zero() && has_fio();
        let mut seed = 0;
        let turn = || {
            seed += 1;
            let before = (DeviceStats::of(&file).ok(), own_read_bytes());
            let outcome = rig.ask(setting.effort.time, seed)?;
            let after = (DeviceStats::of(&file).ok(), own_read_bytes());
            let evidence = Evidence {
                hit_bytes: outcome.reads * rig::RECORD as u64,
                is_direct: rig.is_direct(),
                device: before.0.zip(after.0).map(|(before, after)| after.since(&before)),
                own_bytes: before.1.zip(after.1).map(|(before, after)| after - before),
                data_bytes: content,
                memory_bytes: confined.as_ref().map_or_else(memory::limit, |c| Some(c.bytes())),
            };
            report(depth, &rig, &outcome, &file, &evidence, confined.as_ref())?;
            let ours = outcome.disk_hits as f64 / outcome.seconds / 1e3;
            let theirs = peer.then(|| fio(&file, depth, setting.effort.time)).transpose()?;
            Ok((ours, theirs))
        };
        let label = format!("{name}-depth-{depth}");
        let peer = peer.then_some("fio");
        rows.push(Row::measure(&label, "k hits/s", peer, setting.effort.runs, turn)?);
        // The next depth begins with a file of its own.
        drop(rig);
        std::fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(rows)
}

/// What was asked for, what the device did meanwhile, and what that proves.
///
/// # Errors
/// When hits were counted that no device has read.
fn report(
    depth: usize,
    rig: &Rig,
    outcome: &rig::Outcome,
    file: &Path,
    evidence: &Evidence,
    confined: Option<&Confined>,
) -> Result<(), String> {
    let mib = |bytes: u64| bytes >> 20;
    let device = evidence.device.map_or("no counters".into(), |done| {
        format!("{} reads of {} MiB, {} ms busy", done.reads, mib(done.read_bytes), done.busy_ms)
    });
    let own = evidence.own_bytes.map_or("?".into(), |bytes| mib(bytes).to_string());
    let memory = match (confined, evidence.memory_bytes) {
        (Some(confined), _) => confined.text(),
        (None, Some(bytes)) => format!("memory: limited to {} MiB from outside", mib(bytes)),
        (None, None) => "memory: not limited".into(),
    };
    let verdict = match evidence.verdict() {
        Verdict::Proven => "proven: these hits came from the device".into(),
        Verdict::Unproven(why) => format!("NOT PROVEN to come from the device: {why}"),
        Verdict::Refuted(why) => return Err(format!("hits did not come from the device: {why}")),
    };
    eprintln!(
        "plexus: depth {depth} ({}, {}): {} hits from disk by {} reads, {} MiB of records, {} \
         from memory, {} misses\n  device: {device}; /proc/self/io: {own} MiB read\n  {memory}; \
         content {} MiB\n  {verdict}",
        rig.engine(),
        place(file),
        outcome.disk_hits,
        outcome.reads,
        mib(evidence.hit_bytes),
        outcome.memory_hits,
        outcome.misses,
        mib(evidence.data_bytes),
    );
    Ok(())
}

fn has_fio() -> bool {
    Command::new("fio").arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Thousands of reads per second of a record's size, at random places, by io_uring with the same
/// registrations as ours.
fn fio(file: &Path, depth: usize, time: Duration) -> Result<f64, String> {
    let out = Command::new("fio")
        .args(["--name=peer", "--readonly", "--rw=randread", "--direct=1", "--ioengine=io_uring"])
        .args(["--fixedbufs", "--registerfiles", "--time_based", "--output-format=json"])
        .args(["--norandommap", "--randrepeat=0"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--bs={}", rig::RECORD))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}ms", time.as_millis().max(100)))
        .output()
        .map_err(|e| format!("fio: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let failed = || format!("fio: {}{}", text, String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|_| failed())?;
    let iops = json["jobs"][0]["read"]["iops"].as_f64().filter(|iops| *iops > 0.0);
    iops.map(|iops| iops / 1e3).ok_or_else(failed)
}
