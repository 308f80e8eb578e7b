//! BPF programs on network devices and sockets, through bpf(2): assembled here ([`Asm`]), loaded,
//! attached, or run on pages of the kernel's own ([`Program::run_live`]), with [`Map`]s shared by
//! the program and this process. Neither a compiler for BPF nor a library is needed.
//!
//! All of it is safe to use: the kernel's verifier refuses a program that could do harm, and a
//! map's memory is only reached as atomic words.

mod asm;
mod live;
mod map;

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use self::asm::{Alu, Asm, Helper, If, Label, Reg, Verdict, Width, buffer, context};
pub use self::map::Map;
use crate::OpenError;
use crate::af_packet::promiscuous_socket;
use crate::device::{Device, ETHERNET};

/// Commands, types and flags of bpf(2) (linux/bpf.h, linux/if_link.h).
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
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

/// Where a program runs, which decides what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On frames of a device, before the kernel's stack has seen them.
    Xdp,
    /// Before a packet socket gets a packet: how many of its bytes the socket gets.
    Socket,
    /// On packets that a device has received, at the traffic-control hook (`tcx`).
    Ingress,
}

impl Place {
    /// The program's type, and how it is to be attached (linux/bpf.h).
    fn numbers(self) -> (u32, u32) {
        match self {
            Place::Xdp => (6, BPF_XDP),
            Place::Socket => (1, 0),
            Place::Ingress => (3, BPF_TCX_INGRESS),
        }
    }
}

/// A loaded program. The kernel keeps the maps that it names.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// An attached program; dropping it detaches.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    native: bool,
}

impl Attached {
    /// True when the program runs in the driver, false when before the stack.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// False once somebody has detached it (`bpftool link detach`).
    ///
    /// # Errors
    /// Of bpf(2).
    pub(crate) fn is_there(&self) -> io::Result<bool> {
        /// `struct bpf_link_info` of an XDP program.
        #[repr(C)]
        #[derive(Default)]
        struct Info {
            kind_and_numbers: [u32; 4],
            device: u32,
            rest: u32,
        }
        #[repr(C)]
        struct Ask {
            fd: u32,
            len: u32,
            info: u64,
        }
        let mut info = Info::default();
        let place = (&raw mut info).expose_provenance() as u64;
        let fd = self.link.as_raw_fd() as u32;
        let attributes = Ask { fd, len: size_of::<Info>() as u32, info: place };
        // SAFETY: the kernel writes as many bytes as the structure has, and it lives until then.
        unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes) }?;
        Ok(info.device != 0)
    }

    /// Detaches the program. When this returns, it runs on no further frame. Closing alone does not
    /// do that while a child of this process, which has yet to run its own program, has the link.
    pub(crate) fn detach(&self) -> io::Result<()> {
        detach(&self.link)
    }

    /// Puts another program in the place of the one that is attached. No frame passes in between.
    ///
    /// # Errors
    /// Of bpf(2): the link was ended by somebody else, or the driver refuses.
    pub(crate) fn replace(&self, program: &Program) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            link_fd: u32,
            new_prog_fd: u32,
            flags: u32,
            old_prog_fd: u32,
        }
        let [link_fd, new_prog_fd] = [&self.link, &program.0].map(|fd| fd.as_raw_fd() as u32);
        let attributes = Update { link_fd, new_prog_fd, flags: 0, old_prog_fd: 0 };
        // SAFETY: the attributes hold no pointer.
        unsafe { bpf(BPF_LINK_UPDATE, &attributes) }.map(drop)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Where the device is gone, so is the program.
        let _ = self.detach();
    }
}

impl Program {
    /// Loads an XDP program; `name` is what bpftool shows, 15 bytes of it.
    ///
    /// # Errors
    /// Of bpf(2). Where the verifier refuses, its last words are in the text.
    pub fn load(name: &str, asm: Asm) -> io::Result<Program> {
        Program::load_for(Place::Xdp, name, asm)
    }

    /// Loads a program for a place.
    ///
    /// # Errors
    /// As [`load`](Program::load).
    pub(crate) fn load_for(place: Place, name: &str, asm: Asm) -> io::Result<Program> {
        let code = asm.finish();
        match load(place, name, &code, &mut []) {
            Ok(fd) => Ok(Program(fd)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {
                // Once more, to get the verifier's log.
                let mut log = vec![0; 1 << 16];
                let error = match load(place, name, &code, &mut log) {
                    Ok(fd) => return Ok(Program(fd)),
                    Err(error) => error,
                };
                // Behind its end stands what the verifier has taken back.
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]);
                let said: Vec<&str> = log.lines().collect();
                if said.is_empty() {
                    return Err(error);
                }
                let last = said[said.len().saturating_sub(3)..].join("; ");
                Err(io::Error::other(format!("the kernel refuses the program: {last}")))
            }
            Err(e) => Err(e),
        }
    }

    /// Attaches a program for [`Place::Ingress`] to the device of this number, behind those that
    /// are there; closing what it returns detaches it.
    ///
    /// # Errors
    /// Of bpf(2): no rights, no such device, a kernel older than 6.6.
    pub(crate) fn attach_to_ingress(&self, index: u32) -> io::Result<OwnedFd> {
        link(&self.0, index, BPF_TCX_INGRESS, 0)
    }

    /// Puts a program for [`Place::Socket`] before a socket, in place of any that is there.
    ///
    /// # Errors
    /// Of setsockopt(2).
    pub(crate) fn filter(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        crate::sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, fd)
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
            match link(&self.0, index, BPF_XDP, flags) {
                Ok(link) => return Ok(Attached { link, native }),
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
        // Another device may have its name now.
        self.device.state()?.filter(|state| state.index == self.index).ok_or_else(gone)?;
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

/// A place in a BPF file system.
#[repr(C)]
struct Pin {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

/// Gives what a descriptor names a place in a BPF file system, where it stays without this process.
///
/// # Errors
/// Of bpf(2): the place is taken, or in another file system.
pub(crate) fn pin(what: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let pathname = path.as_ptr().expose_provenance() as u64;
    let attributes = Pin { pathname, bpf_fd: what.as_raw_fd() as u32, file_flags: 0 };
    // SAFETY: the path lives until the call ends.
    unsafe { bpf(BPF_OBJ_PIN, &attributes) }.map(drop)
}

/// Detaches a link that has a place in a BPF file system. When this returns, its program runs on no
/// further packet; without it the kernel detaches some time after the last name is gone.
///
/// # Errors
/// Of bpf(2): there is no link at this place.
pub(crate) fn detach_pinned(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let pathname = path.as_ptr().expose_provenance() as u64;
    let attributes = Pin { pathname, bpf_fd: 0, file_flags: 0 };
    // SAFETY: the path lives until the call ends, and the command answers with a descriptor.
    let link = unsafe { bpf_fd(BPF_OBJ_GET, &attributes) }?;
    detach(&link)
}

fn detach(link: &OwnedFd) -> io::Result<()> {
    // SAFETY: the attributes are the descriptor alone.
    unsafe { bpf(BPF_LINK_DETACH, &(link.as_raw_fd() as u32)) }.map(drop)
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

fn load(place: Place, name: &str, code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
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
    let (prog_type, expected_attach_type) = place.numbers();
    let mut prog_name = [0; 16];
    for (to, from) in prog_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    let attributes = Load {
        prog_type,
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
        expected_attach_type,
    };
    // SAFETY: code, licence and log live through the call and have the lengths given.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attributes) }
}

fn link(program: &OwnedFd, index: u32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes =
        Link { prog_fd: program.as_raw_fd() as u32, target_ifindex: index, attach_type, flags };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) }
}
