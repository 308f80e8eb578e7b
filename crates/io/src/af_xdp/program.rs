//! The XDP program that hands a device's frames to our sockets, loaded by bpf(2) and attached by
//! a link, so that it goes when the process does, however that ends.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::OpenError;

/// Commands, types and flags of bpf(2) (linux/bpf.h, linux/if_link.h).
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// How the program may be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver; where it cannot, before the stack, with a warning.
    #[default]
    Auto,
    /// In the driver or not at all.
    Native,
    /// Before the stack, on any device: slower, one more copy.
    Generic,
}

/// The attached program and the map it looks its sockets up in.
pub(super) struct Program {
    /// Closing it detaches the program.
    _link: OwnedFd,
    map: OwnedFd,
    native: bool,
}

impl Program {
    /// Attaches to the interface; receive queues below `queues` may get a socket.
    pub(super) fn attach(
        device: &str,
        index: u32,
        queues: u32,
        mode: XdpMode,
    ) -> Result<Program, OpenError> {
        let failed = |doing, e: io::Error| {
            let otherwise = "use an af_packet or tap port";
            OpenError::privileged(device, doing, "cap_bpf,cap_net_admin", otherwise, e)
        };
        let map = create_map(queues).map_err(|e| failed("creating an XDP socket map", e))?;
        let program = load(&map).map_err(|e| failed("loading the XDP program", e))?;
        let attempts: &[(u32, bool)] = match mode {
            XdpMode::Auto => &[(XDP_FLAGS_DRV_MODE, true), (XDP_FLAGS_SKB_MODE, false)],
            XdpMode::Native => &[(XDP_FLAGS_DRV_MODE, true)],
            XdpMode::Generic => &[(XDP_FLAGS_SKB_MODE, false)],
        };
        let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        for (i, &(flags, native)) in attempts.iter().enumerate() {
            match link(&program, index, flags) {
                Ok(link) => return Ok(Program { _link: link, map, native }),
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
        Err(failed("attaching the XDP program", last))
    }

    /// True when the program runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.native
    }

    /// Sends what arrives by a receive queue to a socket.
    pub(super) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            map_fd: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let fd = socket.as_raw_fd() as u32;
        let attributes = Update {
            map_fd: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const fd).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value point at live integers of the map's sizes.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
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
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn create_map(entries: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let attributes = Create {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: entries,
        map_flags: 0,
    };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`: a frame of a queue without a
/// socket goes on to the stack.
fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
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
    /// One instruction: operation, destination (low) and source register, offset, immediate.
    const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
        u64::from_ne_bytes({
            let o = offset.to_ne_bytes();
            let i = immediate.to_ne_bytes();
            [code, registers, o[0], o[1], i[0], i[1], i[2], i[3]]
        })
    }
    /// Register numbers of an instruction; the nibbles are a C bit field, so they follow the
    /// machine's byte order.
    const fn registers(destination: u8, source: u8) -> u8 {
        if cfg!(target_endian = "little") {
            destination | source << 4
        } else {
            destination << 4 | source
        }
    }
    const RX_QUEUE_INDEX: i16 = 16;
    const XDP_PASS: i32 = 2;
    const REDIRECT_MAP: i32 = 51;
    let code = [
        instruction(0x61, registers(2, 1), RX_QUEUE_INDEX, 0), // r2 = *(u32 *)(r1 + 16)
        instruction(0x18, registers(1, 1), 0, map.as_raw_fd()), // r1 = map, in two words
        instruction(0, 0, 0, 0),
        instruction(0xb7, registers(3, 0), 0, XDP_PASS), // r3 = XDP_PASS
        instruction(0x85, 0, 0, REDIRECT_MAP),           // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0),                      // return r0
    ];
    let license = c"Dual MIT/GPL";
    let mut name = [0; 16];
    name[..10].copy_from_slice(b"plexus_xsk");
    let attributes = Load {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: name,
        prog_ifindex: 0,
        expected_attach_type: BPF_XDP,
    };
    // SAFETY: code and licence live through the call and have the lengths given.
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
