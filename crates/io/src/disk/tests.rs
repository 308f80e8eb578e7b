//! Both engines on a real file.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::namespace::Namespaces;

const BYTES: u64 = 4 << 20;

/// A file that is gone when the test is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        // Not in /tmp, which may be a tmpfs: the file system of the build is a disk's.
        let name = format!("disk-{name}-{}", std::process::id());
        Scratch(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn settings(engine: Engine) -> DiskSettings {
    DiskSettings {
        bytes: BYTES,
        free_percent: 0,
        reads: 4,
        read_bytes: 8192,
        writes: 2,
        engine: Some(engine),
    }
}

/// Opens it, or says why this machine has no such engine.
fn open(scratch: &Scratch, engine: Engine) -> Option<Disk> {
    match Disk::open(&scratch.0, settings(engine)) {
        Ok(disk) => Some(disk),
        Err(OpenError::Invalid { problem, .. }) if engine == Engine::IoUring => {
            eprintln!("skipped: {problem}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits for a request on the disk's descriptor; returns its token and result.
fn next(disk: &mut Disk) -> (u32, io::Result<Vec<u8>>) {
    disk.submit().unwrap();
    let mut outcome = None;
    while outcome.is_none() {
        poll(&mut [PollFd::new(&disk.fd(), PollFlags::IN)], None).unwrap();
        disk.complete(|completion| {
            assert!(outcome.is_none());
            outcome = Some(match completion {
                Completion::Read { token, result } => (token, result.map(<[u8]>::to_vec)),
                Completion::Written { token, result } => (token, result.map(|()| Vec::new())),
            });
        });
    }
    outcome.unwrap()
}

fn each(test: impl Fn(Engine)) {
    [Engine::IoUring, Engine::Threads].into_iter().for_each(test);
}

#[test]
fn written_bytes_are_read_back() {
    each(|engine| {
        let scratch = Scratch::new(&format!("rw-{}", engine.name()));
        let Some(mut disk) = open(&scratch, engine) else { return };
        assert_eq!((disk.bytes(), disk.engine()), (BYTES, engine));
        assert!(disk.block_bytes() == 512 || disk.block_bytes() == 4096);
        let mut buffer = AlignedBuffer::new(65536);
        buffer.as_mut().iter_mut().enumerate().for_each(|(i, b)| *b = (i / 512) as u8);
        let buffer = Arc::new(buffer);
        assert!(disk.write(7, 8192, 65536, buffer.clone()));
        assert!(next(&mut disk).1.is_ok());
        // The disk has dropped its reference, so the owner may write to it again.
        assert_eq!(Arc::strong_count(&buffer), 1);
        assert!(disk.read(9, 8192 + 4096, 8192));
        let (token, bytes) = next(&mut disk);
        let bytes = bytes.unwrap();
        assert_eq!((token, bytes.len(), bytes[0], bytes[8191]), (9, 8192, 8, 23));
    });
}

#[test]
fn a_read_beyond_the_end_is_an_error_and_not_short() {
    each(|engine| {
        let scratch = Scratch::new(&format!("end-{}", engine.name()));
        let Some(mut disk) = open(&scratch, engine) else { return };
        assert!(disk.read(1, BYTES - 4096, 8192));
        assert_eq!(next(&mut disk).1.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn no_more_than_asked_for_is_under_way_and_dropping_waits() {
    each(|engine| {
        let scratch = Scratch::new(&format!("full-{}", engine.name()));
        let Some(mut disk) = open(&scratch, engine) else { return };
        assert!(!disk.read(0, 0, 16384), "longer than its buffers");
        assert!((0..4).all(|token| disk.read(token, 0, 4096)));
        assert!(!disk.read(4, 0, 4096));
        let buffer = Arc::new(AlignedBuffer::new(4096));
        assert!((0..2).all(|token| disk.write(token, 0, 4096, buffer.clone())));
        assert!(!disk.write(2, 0, 4096, buffer.clone()));
        disk.submit().unwrap();
        drop(disk);
        assert_eq!(Arc::strong_count(&buffer), 1);
    });
}

/// A pipe without a writer acts as a device that does not answer.
#[test]
fn a_request_that_never_ends_does_not_hold_up_the_end_nor_give_its_buffer_back() {
    let (pipe, _writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(pipe));
    let Ok(mut ring) = Ring::new(&file, &settings(Engine::IoUring)) else {
        eprintln!("skipped: no io_uring here");
        return;
    };
    let buffer = Arc::new(AlignedBuffer::new(4096));
    assert!(ring.read(0, 0, 4096));
    assert!(ring.write(0, 0, 4096, buffer.clone()), "to the end that only reads: an error");
    ring.submit().unwrap();
    let mut over = Vec::new();
    ring.complete(|completion| match completion {
        Completion::Read { .. } => panic!("nothing was written to the pipe"),
        Completion::Written { result, .. } => over.push(result.is_err()),
    });
    assert_eq!((over, Arc::strong_count(&buffer)), (vec![true], 1));
    drop(ring);
}

#[test]
fn a_file_is_one_disks_only() {
    let scratch = Scratch::new("lock");
    let disk = open(&scratch, Engine::Threads);
    let again = Disk::open(&scratch.0, settings(Engine::Threads)).err().unwrap();
    assert!(matches!(again, OpenError::Busy { .. }), "{again}");
    drop(disk);
    assert!(open(&scratch, Engine::Threads).is_some());
}

#[test]
fn invalid_requests_are_reported() {
    let missing = PathBuf::from("/nonexistent/cache");
    let error = Disk::open(&missing, settings(Engine::Threads)).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/cache"), "{error}");
    let scratch = Scratch::new("huge");
    let huge = DiskSettings { bytes: 1 << 45, ..settings(Engine::Threads) };
    let error = Disk::open(&scratch.0, huge).err().unwrap();
    assert!(matches!(error, OpenError::NoRoom { .. }), "{error}");
    assert!(!scratch.0.exists());
}

#[test]
fn the_device_counts_what_is_read_directly() {
    let scratch = Scratch::new("stats");
    let Some(mut disk) = open(&scratch, Engine::Threads) else { return };
    let Ok(before) = DeviceStats::of(&scratch.0) else {
        eprintln!("skipped: the build is on no block device");
        return;
    };
    if !disk.is_direct() {
        eprintln!("skipped: no direct I/O here");
        return;
    }
    // A hole is not read: something has to be there.
    let buffer = Arc::new(AlignedBuffer::new(1 << 20));
    assert!(disk.write(0, 0, 1 << 20, buffer));
    next(&mut disk).1.unwrap();
    for i in 0..64u64 {
        assert!(disk.read(0, i * 8192, 8192));
        next(&mut disk).1.unwrap();
    }
    let done = DeviceStats::of(&scratch.0).unwrap().since(&before);
    assert!(done.read_bytes >= 64 * 8192 && done.written_bytes >= 1 << 20, "{done:?}");
}

/// Runs a test with a tmpfs of these options at `/mnt`.
fn in_memory(options: &'static std::ffi::CStr, test: fn(&Path)) {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !is_root {
        eprintln!("SKIPPED: this test of full disks needs root");
        return;
    }
    let made = Namespaces::create(|| Ok(()));
    let run = made.and_then(|made| {
        made.run(move || {
            let none = rustix::mount::MountFlags::empty();
            rustix::mount::mount("none", "/mnt", "tmpfs", none, Some(options))?;
            test(Path::new("/mnt"));
            io::Result::Ok(())
        })
    });
    run.unwrap().unwrap();
}

/// Bytes that files occupy there.
fn taken(place: &Path) -> u64 {
    let about = rustix::fs::statvfs(place).unwrap();
    (about.f_blocks - about.f_bfree) * about.f_frsize
}

#[test]
fn files_that_would_leave_too_little_free_are_not_made() {
    in_memory(c"size=100M", |place| {
        const MB: u64 = 1 << 20;
        let files = |each: u64| [0, 1].map(|i| (place.join(format!("deep/cache.{i}")), each));
        let error = Reserved::new(&files(46 * MB), 10).unwrap_err().to_string();
        for part in ["/mnt", "96.5 MB", "104.9 MB are free", "10.5 MB (10 %)"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!place.join("deep").exists());
        // Each of them alone would fit. With a smaller margin both do.
        Reserved::new(&files(46 * MB), 5).unwrap().keep();
        assert_eq!(taken(place), 92 * MB);
        // Files that have their size need nothing, however little is free.
        Reserved::new(&files(46 * MB), 50).unwrap().keep();
        let error = Reserved::new(&files(47 * MB), 10).unwrap_err().to_string();
        assert!(error.contains("the files need 2.1 MB"), "{error}");
        // A single disk checks as well.
        let (bytes, free_percent) = (8 * MB, 1);
        let wanted = DiskSettings { bytes, free_percent, ..settings(Engine::Threads) };
        let error = Disk::open(&place.join("one"), wanted).err().unwrap();
        assert!(matches!(error, OpenError::NoRoom { .. }), "{error}");
        assert!(!place.join("one").exists());
    });
}

#[test]
fn what_was_reserved_is_given_back_when_there_is_no_more() {
    // Inodes for the root and two files.
    in_memory(c"size=100M,nr_inodes=3", |place| {
        const MB: u64 = 1 << 20;
        std::fs::write(place.join("b"), [7; 5]).unwrap();
        let files = ["a", "b", "c"].map(|name| (place.join(name), 8 * MB));
        let error = Reserved::new(&files, 10).unwrap_err().to_string();
        assert!(error.contains("No space left on device"), "{error}");
        assert_eq!(std::fs::read(place.join("b")).unwrap(), [7; 5]);
        assert!(!place.join("a").exists() && taken(place) <= 4096);
    });
    // The kernel refuses in the middle of a file, as if the check had been too optimistic.
    in_memory(c"size=10M", |place| {
        std::fs::write(place.join("old"), [7; 5]).unwrap();
        for name in ["old", "new"] {
            let mut reserved = Reserved::default();
            let error = reserved.grow(&place.join(name), 12 << 20).unwrap_err().to_string();
            assert!(error.contains("make room, or ask for less"), "{error}");
        }
        assert_eq!(std::fs::read(place.join("old")).unwrap(), [7; 5]);
        assert!(!place.join("new").exists() && taken(place) <= 4096);
    });
}

#[test]
fn what_was_reserved_is_given_back_unless_all_has_started() {
    let scratch = Scratch::new("undo");
    let wanted = [(scratch.0.clone(), 1 << 20)];
    drop(Reserved::new(&wanted, 0).unwrap());
    assert!(!scratch.0.exists());
    Reserved::new(&wanted, 0).unwrap().keep();
    let bytes = |scratch: &Scratch| std::fs::metadata(&scratch.0).unwrap().len();
    drop(Reserved::new(&[(scratch.0.clone(), 2 << 20)], 0).unwrap());
    assert_eq!(bytes(&scratch), 1 << 20);
    // The file of another process is not extended.
    let file = File::open(&scratch.0).unwrap();
    file.lock().unwrap();
    let error = Reserved::new(&[(scratch.0.clone(), 2 << 20)], 0).unwrap_err();
    assert!(error.is_busy() && bytes(&scratch) == 1 << 20, "{error}");
    // A disk that cannot be opened gives its space back as well.
    drop(file);
    let reads =
        DiskSettings { bytes: 3 << 20, reads: usize::MAX >> 20, ..settings(Engine::IoUring) };
    assert!(Disk::open(&scratch.0, reads).is_err());
    assert_eq!(bytes(&scratch), 1 << 20);
}
