//! Linux namespaces (namespaces(7)): isolated environments for processes on this machine.
//!
//! A lab needs two kinds. [`spawn_init`] starts a program as process 1 of a new PID namespace, with
//! its own network, mounts and, for an ordinary user, user namespace: when that process ends in any
//! way, the kernel kills everything started below it and frees its resources (pid_namespaces(7)). A
//! [`Namespaces`] is a network, mount and UTS namespace without a process, held by file
//! descriptors: threads and commands enter it.
//!
//! `unsafe` is needed for `clone` and its child before it executes a program, for `unshare`, and
//! for the hook by which a command enters a namespace between fork and exec.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::MountPropagationFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// The authority over the new namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The caller's own: it has `CAP_SYS_ADMIN`.
    Caller,
    /// A new user namespace in which the caller is root and the only user (user_namespaces(7)). Any
    /// user may request this, if the machine allows it.
    NewUser,
}

/// A process 1 that [`spawn_init`] started: a child of the caller.
#[derive(Debug)]
pub struct InitProcess {
    pid: Pid,
    pidfd: OwnedFd,
}

impl InitProcess {
    /// Its number in the caller's PID namespace.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Kills it at once, and with it everything in its PID namespace.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL)?)
    }

    /// Waits until it has ended, which is after everything below it has; its exit code, or 128
    /// plus the signal that ended it.
    pub fn wait(&self) -> io::Result<i32> {
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(exit_code(status)),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Waits up to `limit_ms`; returns whether it has ended. This does not reap it.
    pub fn has_ended(&self, limit_ms: u32) -> io::Result<bool> {
        process_ended(self.pidfd.as_fd(), limit_ms)
    }
}

fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().or(status.terminating_signal().map(|s| 128 + s)).unwrap_or(255)
}

/// Waits up to `limit_ms` for the process of a pidfd to end; returns whether it has.
///
/// # Errors
/// `EINVAL` or `EBADF` for other descriptors.
pub fn process_ended(pidfd: BorrowedFd<'_>, limit_ms: u32) -> io::Result<bool> {
    let limit = Timespec {
        tv_sec: i64::from(limit_ms / 1000),
        tv_nsec: i64::from(limit_ms % 1000 * 1_000_000),
    };
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&limit)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Starts `program` with `arguments` as process 1 of a new PID namespace, in a new network and a
/// new mount namespace, with `stdio` as its standard input, output and error. Its mounts no longer
/// propagate to the machine's, nor vice versa; `/proc` is still the caller's.
///
/// # Errors
/// The kernel's error with the failed step: `EPERM` if the caller lacks the authority or user
/// namespaces are forbidden, `ENOENT` if there is no such program.
pub fn spawn_init(
    program: &Path,
    arguments: &[&OsStr],
    stdio: [BorrowedFd<'_>; 3],
    authority: Authority,
) -> io::Result<InitProcess> {
    // Everything is allocated before the clone: the child may only make system calls, because
    // another thread may have held the allocator's lock.
    let argv: Vec<CString> = std::iter::once(program.as_os_str())
        .chain(arguments.iter().copied())
        .map(|a| CString::new(a.as_bytes()))
        .collect::<Result<_, _>>()?;
    let argv_pointers: Vec<*const libc::c_char> =
        argv.iter().map(|a| a.as_ptr()).chain([std::ptr::null()]).collect();
    let env: Vec<CString> = std::env::vars_os()
        .filter_map(|(k, v)| CString::new([k.as_bytes(), b"=", v.as_bytes()].concat()).ok())
        .collect();
    let env_pointers: Vec<*const libc::c_char> =
        env.iter().map(|e| e.as_ptr()).chain([std::ptr::null()]).collect();
    // Above 2, so that putting one in its place cannot overwrite another.
    let [i, o, e] = stdio.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3));
    let stdio = [i?, o?, e?];
    let (mut report, report_end) = pipe_cloexec()?;
    let uid_map = format!("0 {} 1", rustix::process::geteuid().as_raw());
    let gid_map = format!("0 {} 1", rustix::process::getegid().as_raw());
    let plan = ChildPlan {
        argv: &argv_pointers,
        env: &env_pointers,
        stdio: [stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()],
        maps: (authority == Authority::NewUser).then_some((uid_map.as_bytes(), gid_map.as_bytes())),
        report: report_end.as_raw_fd(),
    };
    let mut flags = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::SIGCHLD;
    if authority == Authority::NewUser {
        flags |= libc::CLONE_NEWUSER;
    }
    // SAFETY: without CLONE_VM and with no stack given, clone is fork: the child runs on its own
    // copy of this stack and memory. It calls `ChildPlan::run` only, which makes system calls on
    // memory that was prepared above, and never returns. The order of the four zero arguments
    // differs between architectures, which zeros do not mind.
    let pid = unsafe {
        match libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) {
            0 => plan.run(),
            -1 => return Err(explain(io::Error::last_os_error(), Step::Clone)),
            pid => pid,
        }
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
    drop((report_end, stdio));
    let mut said = [0; 5];
    match report.read_exact(&mut said) {
        // Closed by exec, or by a child killed from outside: the caller will see that by `wait`.
        Err(_) => {
            let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            Ok(InitProcess { pid, pidfd })
        }
        Ok(()) => {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            let errno = i32::from_ne_bytes([said[1], said[2], said[3], said[4]]);
            Err(explain(io::Error::from_raw_os_error(errno), Step::from_code(said[0])))
        }
    }
}

/// Where a new process 1 can fail.
#[derive(Clone, Copy)]
enum Step {
    Clone,
    Map,
    Stdio,
    Mounts,
    Exec,
}

impl Step {
    fn from_code(code: u8) -> Step {
        [Step::Clone, Step::Map, Step::Stdio, Step::Mounts]
            .into_iter()
            .find(|s| *s as u8 == code)
            .unwrap_or(Step::Exec)
    }
}

fn explain(e: io::Error, step: Step) -> io::Error {
    let what = match step {
        Step::Clone => "making new namespaces",
        Step::Map => "mapping the user into the new user namespace",
        Step::Stdio => "placing the standard streams",
        Step::Mounts => "separating the mounts",
        Step::Exec => "starting the program",
    };
    io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// The plan of the cloned child, prepared so that it only has to make system calls.
struct ChildPlan<'a> {
    argv: &'a [*const libc::c_char],
    env: &'a [*const libc::c_char],
    stdio: [libc::c_int; 3],
    maps: Option<(&'a [u8], &'a [u8])>,
    report: libc::c_int,
}

impl ChildPlan<'_> {
    /// Becomes the program, or reports why not and exits.
    ///
    /// # Safety
    /// Only in the child of a fork. `argv` and `env` end with null and point to C strings.
    unsafe fn run(&self) -> ! {
        // SAFETY: async-signal-safe system calls (signal-safety(7)) on memory the caller prepared;
        // a sigset_t may be any bits before sigemptyset fills it.
        unsafe {
            if let Some((uid_map, gid_map)) = self.maps {
                // user_namespaces(7): setgroups is given up before a gid map may be written.
                if !(write_file(c"/proc/self/setgroups", b"deny")
                    && write_file(c"/proc/self/uid_map", uid_map)
                    && write_file(c"/proc/self/gid_map", gid_map))
                {
                    self.fail(Step::Map);
                }
            }
            for (target, fd) in (0..).zip(self.stdio) {
                if libc::dup2(fd, target) < 0 {
                    self.fail(Step::Stdio);
                }
            }
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let none = std::ptr::null();
            if libc::mount(none, c"/".as_ptr(), none, private, none.cast()) < 0 {
                self.fail(Step::Mounts);
            }
            // The program must not inherit changes that the Rust runtime and the caller made for
            // themselves.
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::execve(self.argv[0], self.argv.as_ptr(), self.env.as_ptr());
            self.fail(Step::Exec)
        }
    }

    /// Reports the failed step and its error to the parent, and exits.
    ///
    /// # Safety
    /// Only in the child of a fork.
    unsafe fn fail(&self, step: Step) -> ! {
        // SAFETY: async-signal-safe calls; the buffer outlives the write.
        unsafe {
            let e = (*libc::__errno_location()).to_ne_bytes();
            let said = [step as u8, e[0], e[1], e[2], e[3]];
            libc::write(self.report, said.as_ptr().cast(), said.len());
            libc::_exit(127)
        }
    }
}

/// Writes a whole small file of `/proc` in one call; whether that worked.
///
/// # Safety
/// None beyond any system call: this is async-signal-safe.
unsafe fn write_file(path: &std::ffi::CStr, content: &[u8]) -> bool {
    // SAFETY: the path ends with a zero byte, and the content is readable for its length.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let wrote = libc::write(fd, content.as_ptr().cast(), content.len());
        let errno = *libc::__errno_location();
        libc::close(fd);
        *libc::__errno_location() = errno;
        usize::try_from(wrote) == Ok(content.len())
    }
}

fn pipe_cloexec() -> io::Result<(File, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((File::from(read), write))
}

/// A network, a mount and a UTS namespace (host name) with no process in them. They live as long
/// as this value, a process that stepped in, or a socket made inside.
#[derive(Debug)]
pub struct Namespaces {
    net: OwnedFd,
    mount: OwnedFd,
    uts: OwnedFd,
}

impl Namespaces {
    /// Creates them and runs `setup` inside, in a separate thread. The network has a loopback that
    /// is down; the mounts are a copy of the caller's that no longer propagates.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN`, and the error of `setup`.
    pub fn create(setup: impl FnOnce() -> io::Result<()> + Send) -> io::Result<Namespaces> {
        in_thread(|| {
            let flags = UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWUTS;
            // SAFETY: CLONE_FILES is not among the flags, so no descriptor disappears from
            // another thread; the rest concerns this thread alone, which ends here.
            unsafe { rustix::thread::unshare_unsafe(flags)? };
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private)?;
            let open = |kind: &str| File::open(format!("/proc/thread-self/ns/{kind}"));
            let made = Namespaces {
                net: open("net")?.into(),
                mount: open("mnt")?.into(),
                uts: open("uts")?.into(),
            };
            setup()?;
            Ok(made)
        })?
    }

    /// Those of descriptors that came from elsewhere, in the order of
    /// [`descriptors`](Namespaces::descriptors).
    pub fn from_descriptors([net, mount, uts]: [OwnedFd; 3]) -> Namespaces {
        Namespaces { net, mount, uts }
    }

    /// The network, mount and UTS namespaces' descriptors.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.net.as_fd(), self.mount.as_fd(), self.uts.as_fd()]
    }

    /// Runs `inside` there, in a separate thread. A socket created inside belongs to the network
    /// permanently, and may be used from anywhere.
    ///
    /// # Errors
    /// `EPERM` without the authority to enter; a panic inside is an error too.
    pub fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            // A mount namespace is only entered with a root and working directory of one's own.
            // SAFETY: CLONE_FS concerns this thread alone; no descriptor is touched.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS)? };
            step_into(self.descriptors())?;
            Ok(inside())
        })?
    }

    /// Makes `command` step in before it becomes its program.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn apply(&self, command: &mut Command) -> io::Result<()> {
        let [net, mount, uts] = self.descriptors().map(|fd| fd.try_clone_to_owned());
        let (net, mount, uts) = (net?, mount?, uts?);
        let hook = move || step_into([net.as_fd(), mount.as_fd(), uts.as_fd()]);
        // SAFETY: between fork and exec the hook makes three setns calls on descriptors that it
        // owns; it allocates nothing (an error from an errno does not) and takes no lock.
        unsafe { command.pre_exec(hook) };
        Ok(())
    }
}

fn step_into([net, mount, uts]: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    use rustix::thread::move_into_link_name_space as setns;
    setns(uts, Some(LinkNameSpaceType::HostNameAndNISDomainName))?;
    setns(net, Some(LinkNameSpaceType::Network))?;
    setns(mount, Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// Runs `f` in a thread of its own and waits for it; a panic in it is an error.
fn in_thread<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().spawn_scoped(s, f)?;
        thread.join().map_err(|_| io::Error::other("a thread inside the namespace panicked"))
    })
}

/// The caller's own user and PID namespaces, to be handed to [`enter_world`] elsewhere.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn own_world() -> io::Result<[OwnedFd; 2]> {
    Ok([File::open("/proc/self/ns/user")?.into(), File::open("/proc/self/ns/pid")?.into()])
}

/// Moves the calling process into another user namespace, if that is not its own already, and
/// its future children into another PID namespace.
///
/// # Errors
/// `EPERM` without the authority; `EINVAL` if the process has more than one thread and the user
/// namespace is another (setns(2)).
pub fn enter_world([user, pid]: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    use rustix::thread::move_into_link_name_space as setns;
    let own = rustix::fs::fstat(File::open("/proc/self/ns/user")?)?;
    let other = rustix::fs::fstat(user)?;
    if (own.st_dev, own.st_ino) != (other.st_dev, other.st_ino) {
        setns(user, Some(LinkNameSpaceType::User))?;
    }
    Ok(setns(pid, Some(LinkNameSpaceType::ProcessID))?)
}

#[cfg(test)]
mod tests;
