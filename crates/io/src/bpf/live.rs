//! Runs a program on frames of the kernel's own, which it may redirect to a device: the fastest way
//! to send without a driver of ours (BPF_PROG_RUN with live frames, Linux 5.18;
//! Documentation/bpf/bpf_prog_run.rst).
//!
//! The kernel takes pages from a pool, fills each once with the given frame, and runs the program
//! on one after the other. A returned page is reused with its original length but with the bytes of
//! its last user: a program has to write everything that it sends.
//!
//! A call sets its pages up anew, which takes tens of milliseconds, so calls are long; only a
//! signal, sent to the calling thread, ends one early.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use super::{BPF_F_TEST_XDP_LIVE_FRAMES, BPF_PROG_TEST_RUN, Program, bpf};

/// The longest frame that fits a page of 4 KiB beside what the kernel keeps there.
pub(super) const FRAME_MAX: usize = 3000;

/// Frames that one call may run, far below where the kernel's 32-bit count would overflow.
const REPEAT: u32 = 1 << 30;

/// How often `enough` is called.
const WATCH: Duration = Duration::from_millis(5);

/// Has no effect without a handler, so a late one does no harm.
const INTERRUPT: libc::c_int = libc::SIGURG;

impl Program {
    /// The longest frame for [`run_live`](Program::run_live), in bytes.
    pub const LIVE_FRAME_MAX: usize = FRAME_MAX;

    /// Runs the program on copies of `frame`, in batches of `batch` (at most 256), on a separate
    /// thread in the caller's network namespace, until `enough`, which is called every 5 ms,
    /// returns true. It keeps a processor busy all the time.
    ///
    /// While it runs, the process has a handler for SIGURG.
    ///
    /// # Errors
    /// Of bpf(2): `EINVAL` for a kernel before 5.18 or a frame over
    /// [`LIVE_FRAME_MAX`](Program::LIVE_FRAME_MAX), `EPERM` without rights, `ENOMEM`.
    pub fn run_live(
        &self,
        frame: &[u8],
        batch: u32,
        mut enough: impl FnMut() -> bool,
    ) -> io::Result<()> {
        let _handler = Handler::install()?;
        let (stop, thread) = (AtomicBool::new(false), AtomicI32::new(0));
        let (stop, thread) = (&stop, &thread);
        std::thread::scope(|scope| {
            let run = move || {
                // SAFETY: no argument, no memory.
                let id = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
                thread.store(id, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    match self.run_once(frame, batch) {
                        Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                        _ => {}
                    }
                }
                Ok(())
            };
            let runner = std::thread::Builder::new().name("xdp_live".into());
            let runner = runner.spawn_scoped(scope, run)?;
            while !runner.is_finished() {
                if stop.load(Ordering::Relaxed) || enough() {
                    stop.store(true, Ordering::Relaxed);
                    // The thread may be just about to make the call: repeat until it has ended.
                    let id = thread.load(Ordering::Relaxed);
                    if id > 0 {
                        interrupt(id);
                    }
                }
                std::thread::sleep(WATCH);
            }
            match runner.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn run_once(&self, frame: &[u8], batch: u32) -> io::Result<()> {
        #[repr(C)]
        struct TestRun {
            prog_fd: u32,
            retval: u32,
            data_size_in: u32,
            data_size_out: u32,
            data_in: u64,
            data_out: u64,
            repeat: u32,
            duration: u32,
            ctx_size_in: u32,
            ctx_size_out: u32,
            ctx_in: u64,
            ctx_out: u64,
            flags: u32,
            cpu: u32,
            batch_size: u32,
            padding: u32,
        }
        let attributes = TestRun {
            prog_fd: self.0.as_raw_fd() as u32,
            retval: 0,
            data_size_in: frame.len() as u32,
            data_size_out: 0,
            data_in: frame.as_ptr().expose_provenance() as u64,
            data_out: 0,
            repeat: REPEAT,
            duration: 0,
            ctx_size_in: 0,
            ctx_size_out: 0,
            ctx_in: 0,
            ctx_out: 0,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            cpu: 0,
            batch_size: batch,
            padding: 0,
        };
        // SAFETY: the frame lives through the call and has the length given; with live frames the
        // kernel writes nothing back.
        unsafe { bpf(BPF_PROG_TEST_RUN, &attributes) }.map(drop)
    }
}

/// Sends the interrupting signal to a thread of this process.
fn interrupt(thread: i32) {
    // SAFETY: no memory is passed; the signal has a handler, or no effect.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, INTERRUPT) };
}

/// A handler that does nothing: a handled signal interrupts a call.
struct Handler {
    before: libc::sigaction,
}

impl Handler {
    fn install() -> io::Result<Handler> {
        extern "C" fn nothing(_: libc::c_int) {}
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: the structure is integers and a pointer; zero is a value of each: no flags, so
        // no restart, and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        let mut before = MaybeUninit::uninit();
        // SAFETY: both structures live through the call; the handler does nothing, so it may
        // interrupt anything.
        crate::sys::check(unsafe { libc::sigaction(INTERRUPT, &action, before.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded, and so filled it.
        Ok(Handler { before: unsafe { before.assume_init() } })
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: what the kernel gave us is given back.
        unsafe { libc::sigaction(INTERRUPT, &self.before, std::ptr::null_mut()) };
    }
}
