//! Kills a process while it writes a cache; the next process finds what was written, and nothing
//! wrong.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use plexus_io::disk::{AlignedBuffer, Completion, Disk, DiskSettings};
use plexus_ndn::store::Data;
use plexus_ndn::store::log::{Health, LogLimits, Lookup, Request, SegmentLog};
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::Fifo;
use rustix::event::{PollFd, PollFlags, poll};

const SEGMENT: u32 = 64 << 10;
const NOW: u64 = 1_700_000_000_000;
/// Names the file to write, for the process to be killed.
const FILE: &str = "PLEXUS_TEST_CACHE";
/// Segments written before it is killed; the ring has room for four times as many.
const SEGMENTS: u64 = 16;

struct Cache {
    log: SegmentLog<AlignedBuffer>,
    disk: Disk,
}

impl Cache {
    fn open(path: &Path) -> Cache {
        let limits = LogLimits {
            bytes: 4096 + 4 * SEGMENTS * u64::from(SEGMENT),
            segment_bytes: SEGMENT,
            objects: 10_000,
            packet_bytes: 8800,
            reads: 8,
            waiters: 8,
            block_bytes: 4096,
        };
        let settings = DiskSettings {
            bytes: limits.bytes,
            free_percent: 0,
            reads: limits.reads,
            read_bytes: limits.read_bytes_max(),
            writes: 3,
            engine: None,
        };
        let buffers = (0..3).map(|_| AlignedBuffer::new(SEGMENT as usize)).collect();
        let log = SegmentLog::new(limits, std::process::id().into(), buffers).unwrap();
        let mut cache = Cache { log, disk: Disk::open(path, settings).unwrap() };
        while cache.log.under_way() > 0 || cache.log.health() == Health::Opening {
            cache.turn();
        }
        assert_eq!(cache.log.health(), Health::Good);
        cache
    }

    /// Carries out the log's requests and waits for a result; returns the packets read.
    fn turn(&mut self) -> Vec<Option<Vec<u8>>> {
        while let Some(request) = self.log.poll_request() {
            assert!(match request {
                Request::Read { token, offset, len } => self.disk.read(token, offset, len),
                Request::Write { token, offset, len, buffer } => {
                    self.disk.write(token, offset, len, buffer)
                }
            });
        }
        self.disk.submit().unwrap();
        poll(&mut [PollFd::new(&self.disk.fd(), PollFlags::IN)], None).unwrap();
        let mut came = Vec::new();
        let log = &mut self.log;
        self.disk.complete(|completion| match completion {
            Completion::Written { token, result } => log.on_written(token, result),
            Completion::Read { token, result } => {
                log.on_read(token, result, NOW, |_, found| {
                    came.push(found.map(|found| found.packet.to_vec()));
                });
            }
        });
        came
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        match self.log.lookup(&key.to_be_bytes(), false, key, NOW) {
            Lookup::Found(found) => Some(found.packet.to_vec()),
            Lookup::Miss => None,
            Lookup::Reading => self.turn().remove(0),
        }
    }
}

fn packet(key: u64) -> Vec<u8> {
    let body = (0..500 + key * 37 % 7000).map(|i| (key * 131 + i) as u8);
    key.to_be_bytes().into_iter().chain(body).collect()
}

/// Not a test of its own: the process that is killed. It reports each written segment.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let mut cache = Cache::open(Path::new(&path));
    // A memory of one packet evicts each when the next arrives.
    let limits = MemoryLimits { bytes: 16 << 10, entries: 1 };
    let mut memory = MemoryStore::new(limits, |slots, _| Fifo::new(slots));
    let mut told = 0;
    for key in 0.. {
        let bytes = packet(key);
        let data = Data::new(&bytes, 0..8, key, &[]).unwrap();
        let log = &mut cache.log;
        memory.insert(&data, NOW, false, |evicted| {
            let name = (key - 1).to_be_bytes();
            log.insert(&name, &evicted.packet, evicted.stale_at_ms, false, NOW);
        });
        if cache.log.under_way() > 1 {
            cache.turn();
        }
        // Two writes may have ended at once, and the reader waits for one number.
        while cache.log.stats().writes > told {
            told += 1;
            // Fails when the reader has ended, which ends this process.
            println!("\nwritten {told}");
        }
        if told > 3 * SEGMENTS {
            // Less than one round of the ring: from here it waits to be killed.
            loop {
                std::thread::park();
            }
        }
    }
}

#[test]
fn packets_written_before_a_kill_are_found_intact() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("cache");
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writer", "--nocapture", "--test-threads=1"])
        .env(FILE, &file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let told = lines.map_while(Result::ok).find(|line| *line == format!("written {SEGMENTS}"));
    // SIGKILL: it has no chance to put anything in order.
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(told.is_some(), "the writer ended by itself");

    let mut cache = Cache::open(&file);
    let recovered = cache.log.stats().recovered;
    // Packets are 4 KB on average.
    assert!(recovered > SEGMENTS * 10, "{recovered} packets");
    let found = (0..10_000).filter(|&key| match cache.get(key) {
        Some(bytes) => bytes == packet(key) || panic!("packet {key} is wrong"),
        None => false,
    });
    let found = found.count() as u64;
    assert_eq!(found + cache.log.stats().mismatches, recovered);
    assert!(cache.log.stats().mismatches < 64, "more than two torn segments");
}
