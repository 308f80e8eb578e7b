//! The files or devices behind the content store: its reads and writes, and their results.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_config::{NamedDisk, NamedSettings};
use plexus_io::OpenError;
use plexus_io::disk::{AlignedBuffer, Completion, Disk, Reserved};
use plexus_ndn::forwarder::{Forwarder, Output};
use plexus_ndn::store::log::{Displaced, Health, LogLimits, Part, SegmentLog};
use plexus_wire::Time;
use plexus_wire::ndn::PACKET_LEN_MAX;

use super::random;
use crate::cache_disk::{self, Refused};

/// Bytes that are written at once.
const SEGMENT: u32 = 1 << 20;
/// Most reads under way: enough to keep a device busy.
const READS: usize = 64;
/// Interests that wait for them.
const WAITERS: usize = 4096;
/// Bytes of disk per packet. Each packet takes 21 bytes of the index in memory.
const BYTES_PER_OBJECT: u64 = 4096;
/// How long the end waits for writes.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// One of them.
pub(super) struct Opened {
    pub(super) file: PathBuf,
    pub(super) disk: Disk,
    /// The kernel has refused it for good, and the log says so.
    is_refused: bool,
    /// What was said of it last.
    health: Health,
}

impl Opened {
    /// Logs when a disk fails, and when it works again. The memory layer works in any case.
    fn note(&mut self, log: &SegmentLog<AlignedBuffer>) {
        let health = log.health();
        let before = std::mem::replace(&mut self.health, health);
        if before == health {
            return;
        }
        let file = self.file.display();
        match health {
            Health::Opening => {}
            Health::Good => {
                if before == Health::Opening
                    && let Some(displaced) = log.displaced()
                {
                    tell_displaced(&file, log.part(), displaced);
                }
                tracing::info!(%file, "the cache's disk is in use");
            }
            Health::Stalled => {
                tracing::warn!(%file, "the cache's disk does not answer: left alone until it does");
            }
            Health::ReadOnly => {
                tracing::warn!(%file, "the cache's disk cannot be written (full?): read only");
            }
            Health::Discarded => {
                tracing::warn!(%file, "the cache's disk fails: not used any more");
            }
            Health::Foreign => tracing::warn!(
                %file,
                "it holds something else than a cache, and is not touched: clear its first 4 KiB \
                 to give it over"
            ),
        }
    }
}

/// Logs why the contents of a disk were discarded.
fn tell_displaced(file: &impl fmt::Display, now: Part, displaced: Displaced) {
    match displaced {
        Displaced::Size => tracing::warn!(
            %file,
            "its cache was of another size and has been cleared: give it the size that it had to \
             keep one"
        ),
        Displaced::Part(before) => tracing::warn!(
            %file, %before, %now,
            "its cache was for other names, which nobody would look for here any more, and has \
             been cleared: workers and disks have to stay as they were to keep one"
        ),
    }
}

/// One worker's, in its content store's order.
pub(super) struct Disks(pub(super) Vec<Opened>);

/// A content store's log on each disk.
pub(super) type Logs = Vec<SegmentLog<AlignedBuffer>>;

/// The disks of one of so many workers. Each worker gets whole disks if they divide evenly.
/// Otherwise it gets a file of its own beside each (`file.1` and so on) with its part of the size.
///
/// # Errors
/// In words, when a device would have to be split.
fn disks_of(disks: &[NamedDisk], index: usize, workers: usize) -> Result<Vec<NamedDisk>, String> {
    if disks.len().is_multiple_of(workers) {
        return Ok(disks.iter().skip(index).step_by(workers).cloned().collect());
    }
    let part = |NamedDisk { file, size }: &NamedDisk| {
        let kind = std::fs::metadata(file).map(|about| about.file_type());
        if kind.is_ok_and(|kind| kind.is_block_device()) {
            return Err(format!(
                "{}: a device is one worker's: name as many devices as there are workers \
                 ({workers}), or files on them",
                file.display()
            ));
        }
        let mut path = file.clone().into_os_string();
        if index > 0 {
            path.push(format!(".{index}"));
        }
        Ok(NamedDisk { file: path.into(), size: size / workers as u64 })
    };
    disks.iter().map(part).collect()
}

/// Creates or extends the files of all workers, before any worker opens one.
///
/// # Errors
/// In words, when there is too little space or a file cannot have its size. Then all files are as
/// before.
pub(super) fn reserve(settings: &NamedSettings) -> Result<Reserved, String> {
    let mut files = Vec::new();
    for index in 0..settings.workers {
        let mine = disks_of(&settings.disks, index, settings.workers)?;
        files.extend(mine.into_iter().map(|NamedDisk { file, size }| (file, size)));
    }
    Reserved::new(&files, settings.disk_free_percent).map_err(|error| match error {
        OpenError::NoRoom { .. } => format!(
            "{error}: reduce the size of [[named.disk]], make room, or let less stay free \
             (disk_free_percent of [named])"
        ),
        error => error.to_string(),
    })
}

impl Disks {
    /// Opens the files or devices of one of so many workers, which have been
    /// [reserved](reserve).
    ///
    /// # Errors
    /// In words, when one cannot be opened.
    pub(super) fn open(
        disks: &[NamedDisk],
        index: usize,
        workers: usize,
    ) -> Result<(Disks, Logs), String> {
        let mut opened = Vec::new();
        let mut logs = Vec::new();
        let mine = disks_of(disks, index, workers)?;
        let count = mine.len();
        let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        for (at, NamedDisk { file, size }) in mine.into_iter().enumerate() {
            let part = Part {
                worker: small(index),
                workers: small(workers),
                disk: small(at),
                disks: small(count),
            };
            let limits = LogLimits {
                bytes: size,
                segment_bytes: SEGMENT,
                objects: usize::try_from(size / BYTES_PER_OBJECT).unwrap_or(usize::MAX).max(1024),
                packet_bytes: PACKET_LEN_MAX,
                reads: READS,
                waiters: WAITERS,
                block_bytes: 4096,
            };
            let (disk, log) = cache_disk::open(&file, limits, part, random()?)?;
            logs.push(log);
            opened.push(Opened { file, disk, is_refused: false, health: Health::Opening });
        }
        Ok((Disks(opened), logs))
    }

    /// Descriptors that become readable when a disk has an answer.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|opened| opened.disk.fd())
    }

    /// Passes results of the disks to the forwarder, and its requests to the disks.
    pub(super) fn turn(
        &mut self,
        now: Time,
        forwarder: &mut Forwarder<AlignedBuffer>,
        out: &mut impl Output,
    ) {
        for (at, opened) in self.0.iter_mut().enumerate() {
            opened.disk.complete(|over| match over {
                Completion::Read { token, result } => {
                    forwarder.on_read(now, at, token, result, out);
                }
                Completion::Written { token, result } => forwarder.on_written(at, token, result),
            });
        }
        forwarder.expire_reads(now, out);
        for (opened, log) in self.0.iter_mut().zip(forwarder.store().disks()) {
            opened.note(log);
        }
        while let Some((at, request)) = forwarder.poll_request() {
            let full = || std::io::Error::other("as many requests are under way as there may be");
            match cache_disk::request(&mut self.0[at].disk, request) {
                Ok(()) => {}
                Err(Refused::Read(token)) => forwarder.on_read(now, at, token, Err(full()), out),
                Err(Refused::Write(token)) => forwarder.on_written(at, token, Err(full())),
            }
        }
        for opened in &mut self.0 {
            if let Err(error) = opened.disk.submit()
                && !std::mem::replace(&mut opened.is_refused, true)
            {
                let file = opened.file.display();
                tracing::error!(%file, %error, "the kernel refuses requests");
            }
        }
    }

    /// Writes the rest, so that a restart finds it.
    pub(super) fn close(
        &mut self,
        now: Time,
        forwarder: &mut Forwarder<AlignedBuffer>,
        out: &mut impl Output,
    ) {
        let unix_ms = forwarder.unix_ms();
        forwarder.store_mut().flush(unix_ms);
        let end = Instant::now() + CLOSE_LIMIT;
        self.turn(now, forwarder, out);
        while forwarder.store().disks().iter().any(|log| log.under_way() > 0)
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(1));
            self.turn(now, forwarder, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_dealt_out_whole_where_they_suffice_and_split_otherwise() {
        let disk = |file: &str, size| NamedDisk { file: file.into(), size };
        let four = ["/a", "/b", "/c", "/d"].map(|file| disk(file, 900));
        assert_eq!(disks_of(&four, 1, 2).unwrap(), [disk("/b", 900), disk("/d", 900)]);
        assert_eq!(disks_of(&four, 0, 1).unwrap(), four);
        let split: Vec<_> = (0..3).map(|index| disks_of(&four[..1], index, 3).unwrap()).collect();
        assert_eq!(split, [[disk("/a", 300)], [disk("/a.1", 300)], [disk("/a.2", 300)]]);
        assert_eq!(disks_of(&[], 2, 3).unwrap(), []);
    }
}
