//! Hits per second from the content store's disk, beside what `fio` reads from the same file with
//! the same block size and depth. The packets are 64 times what memory holds, and the device's own
//! counters are printed, which show that they came from it.

mod rig;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plexus_io::disk::DeviceStats;

use super::{Row, Setting};
use rig::Rig;

/// Packets of 8 KiB: 2 GiB.
const OBJECTS: u64 = 240_000;
/// Packets for each that memory has room for.
const MEMORY_SHARE: u64 = 64;
const DEPTHS: [usize; 2] = [16, 64];

/// A file that is gone when the bench is.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A row for each depth: thousands of hits per second.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let objects = OBJECTS / setting.effort.shrink as u64;
    let file = Scratch(setting.scratch.join(format!("plexus-{name}-{}", std::process::id())));
    let memory = objects * rig::CONTENT as u64 / MEMORY_SHARE;
    eprintln!(
        "plexus: {objects} packets of 8 KiB in {}, {} MiB; memory holds {} MiB",
        file.0.display(),
        rig::file_bytes(objects) >> 20,
        memory >> 20
    );
    let mut rows = Vec::new();
    for depth in DEPTHS {
        let mut rig = Rig::fill(&file.0, objects, memory, depth)?;
        let peer = !setting.effort.time.is_zero() && has_fio();
        let mut seed = 0;
        let turn = || {
            seed += 1;
            let before = DeviceStats::of(&file.0).ok();
            let outcome = rig.ask(setting.effort.time, seed)?;
            let after = DeviceStats::of(&file.0).ok();
            report(depth, &rig, &outcome, before, after);
            let ours = outcome.disk_hits as f64 / outcome.seconds / 1e3;
            let theirs = peer.then(|| fio(&file.0, depth, setting.effort.time)).transpose()?;
            Ok((ours, theirs))
        };
        let label = format!("{name}-depth-{depth}");
        let peer = peer.then_some("fio");
        rows.push(Row::measure(&label, "k hits/s", peer, setting.effort.runs, turn)?);
        // The next depth begins with a file of its own.
        drop(rig);
        std::fs::remove_file(&file.0).map_err(|e| format!("{}: {e}", file.0.display()))?;
    }
    Ok(rows)
}

/// What was asked for, and what the device did meanwhile.
fn report(
    depth: usize,
    rig: &Rig,
    outcome: &rig::Outcome,
    before: Option<DeviceStats>,
    after: Option<DeviceStats>,
) {
    let device = match (before, after) {
        (Some(before), Some(after)) => {
            let done = after.since(&before);
            format!(
                "{} reads of {} MiB, {} ms busy",
                done.reads,
                done.read_bytes >> 20,
                done.busy_ms
            )
        }
        _ => "no counters".into(),
    };
    eprintln!(
        "plexus: depth {depth} ({}): {} hits from disk, {} MiB of records, {} from memory, \
         {} misses; the device: {device}",
        rig.engine(),
        outcome.disk_hits,
        (outcome.disk_hits * rig::RECORD as u64) >> 20,
        outcome.memory_hits,
        outcome.misses,
    );
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
