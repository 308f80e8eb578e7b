//! A node that forwards named data, with producers and consumers around it: each a process in a
//! network namespace of its own, joined by the node's Unix socket, which is a file that all see.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_api::answer::Done;
use plexus_api::answer::named::Cache;
use plexus_api::{Client, Request, Topic};
use plexus_benches::ndr::trial::Running;
use plexus_io::disk::DeviceStats;
use plexus_io::namespace::Namespaces;
use plexus_ndn::store::ContentStats;
use serde::de::DeserializeOwned;

use super::rig::{Scratch, namespace, own};

/// How long a process may take until it is ready, or has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// A network namespace of its own, with its loopback up.
pub(super) fn place() -> Result<Namespaces, String> {
    let place = namespace(|| Ok(()))?;
    super::axon_vm::command(&place, "ip link set dev lo up")?;
    Ok(place)
}

/// Starts this program with other arguments, in a place.
pub(super) fn start(
    place: &Namespaces,
    what: &'static str,
    arguments: &[&str],
) -> Result<Running, String> {
    Running::start(own(place, arguments)?, what)
}

/// A file of cached Data.
#[derive(Clone)]
pub(super) struct DiskFile {
    pub(super) path: PathBuf,
    /// Bytes.
    pub(super) size: u64,
}

pub(super) struct Node {
    process: Running,
    _place: Namespaces,
    control: PathBuf,
    /// Where applications reach it.
    pub(super) uri: String,
}

impl Node {
    /// Starts one with so many bytes of memory for cached Data; it is ready, its disks opened.
    pub(super) fn start(scratch: &Scratch, cache: u64, disks: &[DiskFile]) -> Result<Node, String> {
        let (control, unix) = (scratch.join("node.sock"), scratch.join("ndn.sock"));
        let mut text = format!(
            "name = \"n\"\ncontrol = \"{}\"\n[named]\nunix = [\"{}\"]\ntcp = []\nudp = []\n\
             websocket = []\ncache = \"{cache}B\"\ndisk_free_percent = 1\n",
            control.display(),
            unix.display()
        );
        for DiskFile { path, size } in disks {
            let _ =
                write!(text, "[[named.disk]]\nfile = \"{}\"\nsize = \"{size}B\"\n", path.display());
        }
        let config = scratch.write("node.toml", text.as_bytes())?.display().to_string();
        let place = place()?;
        let process = start(&place, "the node", &["node", "run", "--config", &config])?;
        let uri = format!("unix://{}", unix.display());
        let node = Node { process, _place: place, control, uri };
        let end = Instant::now() + PATIENCE;
        while !node.is_ready(disks.len()) {
            if Instant::now() > end {
                return Err(format!("the node does not begin: {}", node.process.said()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(node)
    }

    fn is_ready(&self, disks: usize) -> bool {
        let open = |cache: Cache| cache.disks.iter().filter(|d| d.health == "good").count();
        self.cache().is_ok_and(|cache| open(cache) == disks)
    }

    /// Asks it.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, String> {
        let client = Client::connect(&self.control, PATIENCE);
        let mut client = client.map_err(|e| format!("asking the node: {e}"))?;
        client.get(request).map_err(|e| format!("the node: {e}"))
    }

    /// Its content store.
    pub(super) fn cache(&self) -> Result<Cache, String> {
        self.ask(&Request::Show(Topic::Cache))
    }

    /// What its content store counted so far.
    pub(super) fn counted(&self) -> Result<ContentStats, String> {
        let cache = self.cache()?;
        let (disk_hits, misses) = (cache.disk_hits, cache.misses);
        Ok(ContentStats { memory_hits: cache.memory.hits, disk_hits, misses })
    }

    /// The same once nothing is looked up any more.
    pub(super) fn at_rest(&self) -> Result<ContentStats, String> {
        let mut counted = self.counted()?;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.counted()?;
            if now == counted {
                return Ok(now);
            }
            counted = now;
        }
    }

    /// Ends it, so that its disks have what they are to keep.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.ask::<Done>(&Request::Stop(true))?;
        let end = Instant::now() + PATIENCE;
        loop {
            match self.process.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the node ended with {status}")),
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                None => return Err("the node does not end".into()),
            }
        }
    }
}

/// What the block device of a file has done since, for a note; `None` if it is on none.
pub(super) fn device(path: &Path) -> Option<DeviceStats> {
    DeviceStats::of(path).ok()
}

/// What a device did between, for a person.
pub(super) fn device_text(before: Option<DeviceStats>, after: Option<DeviceStats>) -> String {
    match before.zip(after) {
        Some((before, after)) => {
            let done = after.since(&before);
            format!(
                "device: {} reads of {} MiB, {} writes of {} MiB, {} ms busy",
                done.reads,
                done.read_bytes >> 20,
                done.writes,
                done.written_bytes >> 20,
                done.busy_ms
            )
        }
        None => "device: no counters".into(),
    }
}
