//! BPF programs on network devices (XDP), through bpf(2): assembled here ([`Asm`]), loaded,
//! attached, or run on pages of the kernel's own ([`Program::run_live`]), with [`Map`]s shared by
//! the program and this process. Neither a compiler for BPF nor a library is needed.
//!
//! All of it is safe to use: the kernel's verifier refuses a program that could do harm, and a
//! map's memory is only reached as atomic words.

mod asm;
mod live;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

pub use self::asm::{Alu, Asm, Helper, If, Label, Reg, Verdict, Width, context};
use crate::OpenError;
use crate::af_packet::promiscuous_socket;
use crate::device::{Device, ETHERNET};

/// Commands, types and flags of bpf(2) (linux/bpf.h, linux/if_link.h).
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// How a program may be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver; if that is not possible, before the stack, with a warning.
    #[default]
    Auto,
    /// In the driver or not at all.
    Native,
    /// Before the stack, on any device: slower, one more copy.
    Generic,
}

/// Memory that programs and this process share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    /// The mapping of an array; `None` for a map of sockets.
    words: Option<Words>,
    /// Words in a value, values.
    shape: (usize, usize),
}

/// A mapping of 64-bit words.
#[derive(Debug)]
struct Words {
    start: *mut libc::c_void,
    len: usize,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and is only reached as atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and references to it borrow `self`.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

impl Map {
    /// An array of `count` values of `words` 64-bit words each, all zero.
    ///
    /// # Errors
    /// Of bpf(2): no rights (CAP_BPF), no memory.
    pub fn array(words: usize, count: usize) -> io::Result<Map> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let len = words.checked_mul(count).filter(|&len| len > 0).ok_or_else(invalid)?;
        let value = u32::try_from(words * 8).map_err(|_| invalid())?;
        let entries = u32::try_from(count).map_err(|_| invalid())?;
        let fd = create_map(BPF_MAP_TYPE_ARRAY, value, entries, BPF_F_MMAPABLE)?;
        // SAFETY: no memory is passed; the page size is always known.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = (len * 8).next_multiple_of(page);
        // SAFETY: a new mapping at a place that the kernel chooses; nothing else is touched.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { fd, words: Some(Words { start, len, bytes }), shape: (words, count) })
    }

    /// A map of AF_XDP sockets by receive queue.
    pub(crate) fn sockets(queues: u32) -> io::Result<Map> {
        let fd = create_map(BPF_MAP_TYPE_XSKMAP, 4, queues, 0)?;
        Ok(Map { fd, words: None, shape: (0, queues as usize) })
    }

    /// Puts a socket into a map of sockets.
    pub(crate) fn set_socket(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            map_fd: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        if self.words.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = socket.as_raw_fd() as u32;
        let attributes = Update {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const fd).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value point at live integers of the map's sizes.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }

    /// All words of an array, value after value. Programs change them at any time.
    pub fn words(&self) -> &[AtomicU64] {
        match &self.words {
            // SAFETY: the mapping has `len` words, lives as long as `self`, is aligned to a page,
            // and every pattern is a value; others only change it as the kernel's own atomics.
            Some(w) => unsafe { std::slice::from_raw_parts(w.start.cast::<AtomicU64>(), w.len) },
            None => &[],
        }
    }

    /// The words of the `n`-th value.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn value(&self, n: usize) -> &[AtomicU64] {
        let words = self.shape.0;
        &self.words()[n * words..(n + 1) * words]
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.shape.1
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn create_map(map_type: u32, value_size: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let attributes =
        Create { map_type, key_size: 4, value_size, max_entries: entries, map_flags: flags };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }
}

/// A loaded XDP program. The kernel keeps the maps that it names.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// An attached program; dropping it detaches.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
    native: bool,
}

impl Attached {
    /// True when the program runs in the driver, false when before the stack.
    pub fn is_native(&self) -> bool {
        self.native
    }
}

impl Program {
    /// Loads a program; `name` is what bpftool shows, 15 bytes of it.
    ///
    /// # Errors
    /// Of bpf(2). Where the verifier refuses, its last words are in the text.
    pub fn load(name: &str, asm: Asm) -> io::Result<Program> {
        let code = asm.finish();
        match load(name, &code, &mut []) {
            Ok(fd) => Ok(Program(fd)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {
                // Once more, to get the verifier's log.
                let mut log = vec![0; 1 << 16];
                let error = match load(name, &code, &mut log) {
                    Ok(fd) => return Ok(Program(fd)),
                    Err(error) => error,
                };
                let log = String::from_utf8_lossy(&log);
                let said: Vec<&str> = log.trim_end_matches('\0').lines().collect();
                if said.is_empty() {
                    return Err(error);
                }
                let last = said[said.len().saturating_sub(3)..].join("; ");
                Err(io::Error::other(format!("the kernel refuses the program: {last}")))
            }
            Err(e) => Err(e),
        }
    }

    /// Attaches it to a device that another part of the process has named; errors mention it.
    pub(crate) fn attach(
        &self,
        device: &str,
        index: u32,
        mode: XdpMode,
    ) -> Result<Attached, OpenError> {
        let attempts: &[(u32, bool)] = match mode {
            XdpMode::Auto => &[(XDP_FLAGS_DRV_MODE, true), (XDP_FLAGS_SKB_MODE, false)],
            XdpMode::Native => &[(XDP_FLAGS_DRV_MODE, true)],
            XdpMode::Generic => &[(XDP_FLAGS_SKB_MODE, false)],
        };
        let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        for (i, &(flags, native)) in attempts.iter().enumerate() {
            match link(&self.0, index, flags) {
                Ok(link) => return Ok(Attached { _link: link, native }),
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    let problem = format!(
                        "it has another XDP program; `ip link set dev {device} xdp off` \
                         removes it, or stop the program that owns it (bpftool net)"
                    );
                    return Err(OpenError::Busy { device: device.into(), problem });
                }
                Err(error) => {
                    if i + 1 < attempts.len() {
                        tracing::warn!(
                            device, %error,
                            "no native XDP on this device, using generic XDP: slower"
                        );
                    }
                    last = error;
                }
            }
        }
        Err(refused(device, "attaching the XDP program", last))
    }
}

/// The error for a BPF step on `device`, with what to do if rights are lacking.
pub fn refused(device: &str, doing: &'static str, error: io::Error) -> OpenError {
    let otherwise = "use af_packet or tap";
    OpenError::privileged(device, doing, "cap_bpf,cap_net_admin", otherwise, error)
}

/// A network device that a program is to send to or to be attached to.
pub struct Target {
    device: Device,
    index: u32,
    mtu: usize,
}

impl Target {
    /// The device of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(device: &str) -> Result<Target, OpenError> {
        let device = Device::named(device)?;
        let state = device.require()?;
        Ok(Target { device, index: state.index, mtu: state.mtu })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// The interface's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The longest frame it carries, in bytes without FCS and tags.
    pub fn max_frame(&self) -> usize {
        self.mtu + ETHERNET
    }

    /// Packets that the device says it has sent, and those it dropped instead, since it is there.
    ///
    /// # Errors
    /// When the kernel's table of devices cannot be read, or the device is gone.
    pub fn sent_and_dropped(&self) -> io::Result<(u64, u64)> {
        let numbers = self.statistics()?;
        Ok((numbers[9], numbers[11]))
    }

    /// Packets that arrived at the device and were dropped for want of room, since it is there.
    ///
    /// # Errors
    /// As for [`sent_and_dropped`](Target::sent_and_dropped).
    pub fn receive_dropped(&self) -> io::Result<u64> {
        Ok(self.statistics()?[3])
    }

    /// The device's line of proc_pid_net(5): bytes, packets, errors, dropped, fifo, frame,
    /// compressed and multicast received; bytes, packets, errors, dropped … sent.
    fn statistics(&self) -> io::Result<[u64; 12]> {
        // The thread's own namespace, whichever the process began in.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let mut lines = table.lines().filter_map(|line| line.split_once(':'));
        let gone = || io::Error::from_raw_os_error(libc::ENODEV);
        let (_, line) = lines.find(|(name, _)| name.trim() == self.name()).ok_or_else(gone)?;
        let mut numbers = [0; 12];
        for (number, text) in numbers.iter_mut().zip(line.split_whitespace()) {
            *number = text.parse().unwrap_or(0);
        }
        Ok(numbers)
    }

    /// Attaches a program, and keeps the device promiscuous as long as it is.
    ///
    /// # Errors
    /// When another program is there, or rights are lacking.
    pub fn attach(
        &self,
        program: &Program,
        mode: XdpMode,
    ) -> Result<(Attached, OwnedFd), OpenError> {
        let attached = program.attach(self.name(), self.index, mode)?;
        let socket = promiscuous_socket(self.index)
            .map_err(|e| refused(self.name(), "making the device promiscuous", e))?;
        Ok((attached, socket))
    }
}

/// bpf(2).
///
/// # Safety
/// `T` must be laid out as the command wants, and its pointers be valid for it.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads the size that is passed; the rest is the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    crate::sys::check(result as libc::c_int)
}

/// bpf(2) for a command that answers with a new descriptor.
///
/// # Safety
/// As for [`bpf`], and the command must return a descriptor.
unsafe fn bpf_fd<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn load(name: &str, code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    let license = c"Dual MIT/GPL";
    let mut prog_name = [0; 16];
    for (to, from) in prog_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    let attributes = Load {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: match log.is_empty() {
            true => 0,
            false => log.as_mut_ptr().expose_provenance() as u64,
        },
        kern_version: 0,
        prog_flags: 0,
        prog_name,
        prog_ifindex: 0,
        expected_attach_type: BPF_XDP,
    };
    // SAFETY: code, licence and log live through the call and have the lengths given.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attributes) }
}

fn link(program: &OwnedFd, index: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = Link {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: index,
        attach_type: BPF_XDP,
        flags,
    };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) }
}
