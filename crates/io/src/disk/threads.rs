//! Requests by threads with positional reads and writes, for kernels without `io_uring`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::{AlignedBuffer, CLOSE_LIMIT, Completion, DiskSettings};

/// Threads of a disk: the most requests that a device sees at once.
const THREADS: usize = 8;

enum Job {
    Read { token: u32, offset: u64, len: usize, buffer: AlignedBuffer },
    Write { token: u32, offset: u64, len: usize, buffer: Arc<AlignedBuffer> },
}

enum Done {
    Read { token: u32, len: usize, buffer: AlignedBuffer, result: io::Result<()> },
    Written { token: u32, result: io::Result<()> },
}

pub(super) struct Threads {
    /// `None` once the threads are to end.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    event: Arc<OwnedFd>,
    /// Buffers of reads that are not under way.
    free: Vec<AlignedBuffer>,
    read_bytes: usize,
    writes_left: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(file: &Arc<File>, settings: &DiskSettings) -> io::Result<Threads> {
        let (jobs, queue) = channel();
        let (report, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let start = |i: usize| {
            let (file, queue) = (file.clone(), queue.clone());
            let (report, event) = (report.clone(), event.clone());
            std::thread::Builder::new()
                .name(format!("disk-{i}"))
                .spawn(move || work(&file, &queue, &report, &event))
        };
        let threads = (0..THREADS).map(start).collect::<io::Result<Vec<_>>>()?;
        let buffer = |_| AlignedBuffer::new(settings.read_bytes);
        Ok(Threads {
            jobs: Some(jobs),
            done,
            event,
            free: (0..settings.reads).map(buffer).collect(),
            read_bytes: settings.read_bytes,
            writes_left: settings.writes,
            threads,
        })
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    pub(super) fn read(&mut self, token: u32, offset: u64, len: usize) -> bool {
        if len > self.read_bytes {
            return false;
        }
        let Some(buffer) = self.free.pop() else { return false };
        self.send(Job::Read { token, offset, len, buffer })
    }

    pub(super) fn write(
        &mut self,
        token: u32,
        offset: u64,
        len: usize,
        buffer: Arc<AlignedBuffer>,
    ) -> bool {
        if self.writes_left == 0 || len > (*buffer).as_ref().len() {
            return false;
        }
        self.writes_left -= 1;
        self.send(Job::Write { token, offset, len, buffer })
    }

    pub(super) fn complete(&mut self, mut over: impl FnMut(Completion<'_>)) -> usize {
        // Cleared before the queue is read: later completions set it again.
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
        let mut count = 0;
        for done in self.done.try_iter() {
            count += 1;
            match done {
                Done::Read { token, len, buffer, result } => {
                    let result = result.map(|()| &buffer.as_ref()[..len]);
                    over(Completion::Read { token, result });
                    self.free.push(buffer);
                }
                Done::Written { token, result } => {
                    self.writes_left += 1;
                    over(Completion::Written { token, result });
                }
            }
        }
        count
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs = None;
        let end = Instant::now() + CLOSE_LIMIT;
        while self.threads.iter().any(|t| !t.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (over, hung): (Vec<_>, Vec<_>) = self.threads.drain(..).partition(|t| t.is_finished());
        if !hung.is_empty() {
            // They own their buffers and a reference to the file, and end when the kernel lets
            // them.
            tracing::warn!(threads = hung.len(), "the disk does not answer");
        }
        for thread in over {
            // It returns nothing, and a panic of it has been printed.
            let _ = thread.join();
        }
    }
}

/// A thread's life: ends when there will be no more jobs.
fn work(file: &File, queue: &Mutex<Receiver<Job>>, report: &Sender<Done>, event: &OwnedFd) {
    loop {
        let Ok(job) = queue.lock().map_err(drop).and_then(|q| q.recv().map_err(drop)) else {
            return;
        };
        let done = match job {
            Job::Read { token, offset, len, mut buffer } => {
                let result = file.read_exact_at(&mut buffer.as_mut()[..len], offset);
                Done::Read { token, len, buffer, result }
            }
            Job::Write { token, offset, len, buffer } => {
                let result = file.write_all_at(&(*buffer).as_ref()[..len], offset);
                // The reference is dropped before the completion is reported.
                drop(buffer);
                Done::Written { token, result }
            }
        };
        if report.send(done).is_err() {
            return;
        }
        // It can only fail when the count is at its maximum: then it is readable as well.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}
