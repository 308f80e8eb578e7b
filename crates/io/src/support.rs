//! Which sockets this kernel offers to this process. A socket is opened and closed again; nothing
//! is bound.

use std::io;

use crate::sys;

/// Whether a kind of socket can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Support {
    /// Yes.
    #[default]
    Yes,
    /// The kernel has it, and this process lacks CAP_NET_RAW.
    NoPrivilege,
    /// The kernel was built without it.
    No,
}

/// Packet sockets (packet(7)).
pub fn packet_sockets() -> Support {
    support(sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(drop))
}

/// AF_XDP sockets.
pub fn xdp_sockets() -> Support {
    support(sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map(drop))
}

fn support(opened: io::Result<()>) -> Support {
    match opened.map_err(|e| e.raw_os_error()) {
        Err(Some(libc::EPERM | libc::EACCES)) => Support::NoPrivilege,
        Err(Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)) => Support::No,
        // Out of descriptors, or the like: that says nothing about the kernel.
        _ => Support::Yes,
    }
}
