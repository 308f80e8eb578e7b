//! The system calls that several back-ends share, with typed arguments and `io::Result`.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Turns the -1 convention into a result.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket that is not inherited and does not block.
pub(crate) fn socket(domain: libc::c_int, kind: libc::c_int, protocol: u16) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(domain, kind, libc::c_int::from(protocol)) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Types that the kernel may read from or write to as bytes.
///
/// # Safety
/// Every bit pattern must be a value of the type, and it must hold no pointer that the kernel
/// follows, except where the option's own contract keeps it valid.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers and C structures of integers.
unsafe impl Plain for libc::c_int {}
// SAFETY: as above.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_stats {}

// SAFETY: as above.
unsafe impl Plain for [u32; 9] {}

/// Sets a socket option.
pub(crate) fn set_option<T: Plain>(
    fd: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of a live value.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) })
        .map(drop)
}

/// Reads a socket option. A kernel that knows fewer fields leaves the rest zero.
pub(crate) fn get_option<T: Plain>(
    fd: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into the value.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &mut size)
    })?;
    // SAFETY: zeroed, then partly overwritten; `Plain` makes every pattern a value.
    Ok(unsafe { value.assume_init() })
}

/// Requests socket buffers of `bytes`, beyond the system's limit if the process may.
pub(crate) fn set_buffers(fd: &impl AsRawFd, bytes: libc::c_int) {
    set_receive_buffer(fd, bytes);
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
}

/// Requests a receive buffer of `bytes`, beyond the system's limit if the process may.
pub(crate) fn set_receive_buffer(fd: &impl AsRawFd, bytes: libc::c_int) {
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
}

fn set_buffer(fd: &impl AsRawFd, force: libc::c_int, ask: libc::c_int, bytes: libc::c_int) {
    if set_option(fd, libc::SOL_SOCKET, force, bytes).is_err() {
        // The kernel caps it silently; a smaller buffer overflows earlier, and is counted.
        let _ = set_option(fd, libc::SOL_SOCKET, ask, bytes);
    }
}

/// Reads and clears a socket's pending error, which would keep it readable.
pub(crate) fn take_error(fd: &impl AsRawFd) -> Option<io::Error> {
    match get_option::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
        Err(e) => Some(e),
    }
}
