//! One AF_XDP socket: its rings over the pool's memory, bound to one queue of a device.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::ring::{ConsumerRing, ProducerRing};
use crate::pool::Pool;
use crate::sys::{self, Plain};

// SAFETY: C structures of integers; `xdp_umem_reg` holds the address of the pool's area, which
// the kernel pins when the option is set.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_options {}

/// XDP_MAX_TX_SKB_BUDGET (Linux 6.17): frames that one kick may send in copy mode, else 32.
const TX_BUDGET: libc::c_int = 9;

/// Send buffer: in copy mode each frame in flight weighs about a kilobyte.
const SOCKET_BUFFER: libc::c_int = 8 << 20;

/// Descriptors of sockets that are bound to one pool's memory, for others to share it.
#[derive(Default)]
pub(crate) struct UmemGroup {
    bound: Vec<Weak<OwnedFd>>,
}

impl UmemGroup {
    /// A socket that is still bound: the kernel accepts only a bound socket for sharing.
    fn member(&mut self) -> Option<Arc<OwnedFd>> {
        self.bound.retain(|socket| socket.strong_count() > 0);
        self.bound.iter().find_map(Weak::upgrade)
    }

    fn join(&mut self, socket: &Arc<OwnedFd>) {
        self.bound.push(Arc::downgrade(socket));
    }
}

/// A bound socket. The rings come first: a mapped ring keeps the kernel's side of the socket
/// alive, so they have to be gone before closing the descriptor unbinds it.
pub(super) struct Queue {
    pub(super) rx: ConsumerRing<libc::xdp_desc>,
    pub(super) tx: ProducerRing<libc::xdp_desc>,
    pub(super) fill: ProducerRing<u64>,
    pub(super) completion: ConsumerRing<u64>,
    pub(super) socket: Arc<OwnedFd>,
    /// Frames in the fill ring, or on their way from it to the receive ring.
    pub(super) filled: u32,
    /// Frames taken from the receive ring since it was opened.
    pub(super) taken: u64,
    /// Frames given to the transmit ring and not back yet.
    pub(super) sending: u32,
    /// The queue's number at the device.
    pub(super) number: u32,
    /// The kernel copies between its own buffers and ours.
    pub(super) copies: bool,
}

impl Queue {
    /// Opens a socket on a queue: sharing the pool's registered memory if some socket is bound to
    /// it; otherwise, or if sharing is refused (a zero-copy device next to one without),
    /// registering it.
    pub(super) fn open(
        pool: &mut Pool,
        index: u32,
        queue: u32,
        size: u32,
        native: bool,
    ) -> io::Result<Queue> {
        let mut attempts = Vec::new();
        if let Some(member) = pool.umem().member() {
            attempts.push((libc::XDP_SHARED_UMEM, Some(member)));
        }
        if native {
            // Zero copy if the driver supports it, otherwise copying: the kernel chooses.
            attempts.push((libc::XDP_USE_NEED_WAKEUP, None));
        }
        attempts.push((libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY, None));
        let mut last = io::Error::from_raw_os_error(libc::EINVAL);
        for (flags, shared) in attempts {
            match Queue::bind(pool, index, queue, size, flags, shared.as_deref()) {
                Ok(opened) => {
                    pool.umem().join(&opened.socket);
                    return Ok(opened);
                }
                Err(error) => {
                    tracing::debug!(index, queue, flags, %error, "AF_XDP bind refused");
                    let is_busy = error.raw_os_error() == Some(libc::EBUSY);
                    last = error;
                    if is_busy {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    fn bind(
        pool: &Pool,
        index: u32,
        queue: u32,
        size: u32,
        flags: u16,
        shared: Option<&OwnedFd>,
    ) -> io::Result<Queue> {
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let set = |option, value| sys::set_option(&socket, libc::SOL_XDP, option, value);
        if shared.is_none() {
            let (start, bytes) = pool.area();
            let memory = libc::xdp_umem_reg {
                addr: start.as_ptr().expose_provenance() as u64,
                len: bytes as u64,
                chunk_size: pool.frame_size() as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            sys::set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, memory)?;
        }
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(ring, size as libc::c_int)?;
        }
        // Older kernels do not support it: then a kick sends 32, and there are more kicks.
        let _ = set(TX_BUDGET, size as libc::c_int);
        sys::set_buffers(&socket, SOCKET_BUFFER);
        let offsets: libc::xdp_mmap_offsets =
            sys::get_option(&socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let fill_page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion_page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let rx = ConsumerRing::map(&socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, size)?;
        let tx = ProducerRing::map(&socket, libc::XDP_PGOFF_TX_RING, &offsets.tx, size)?;
        let fill = ProducerRing::map(&socket, fill_page, &offsets.fr, size)?;
        let completion = ConsumerRing::map(&socket, completion_page, &offsets.cr, size)?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared.map_or(0, |s| s.as_raw_fd() as u32),
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of a live structure.
        sys::check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        let options: libc::xdp_options =
            sys::get_option(&socket, libc::SOL_XDP, libc::XDP_OPTIONS)?;
        let copies = options.flags & libc::XDP_OPTIONS_ZEROCOPY == 0;
        let (socket, number) = (Arc::new(socket), queue);
        let (filled, taken, sending) = (0, 0, 0);
        Ok(Queue { rx, tx, fill, completion, socket, filled, taken, sending, number, copies })
    }

    /// Makes the kernel send the frames in the transmit ring. One call may send as few as 32, so it
    /// is repeated as long as frames leave the ring.
    ///
    /// # Errors
    /// When the device is gone or down.
    pub(super) fn kick(&mut self) -> io::Result<()> {
        let mut pending = self.tx.pending();
        while pending > 0 && self.tx.needs_wakeup() {
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: no memory is passed.
            let sent = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    flags,
                    std::ptr::null(),
                    0,
                )
            };
            if sent < 0 {
                let error = io::Error::last_os_error();
                if matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO)) {
                    return Err(error);
                }
            }
            let left = self.tx.pending();
            if left == pending || !self.copies {
                break;
            }
            pending = left;
        }
        Ok(())
    }

    /// Wakes a driver that sleeps because it has no frames to fill.
    pub(super) fn wake_fill(&self) {
        if self.fill.needs_wakeup() {
            let fd = self.socket.as_raw_fd();
            // SAFETY: no memory is passed.
            unsafe {
                libc::recvfrom(
                    fd,
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// Frames that the kernel dropped for lack of frames or of room in the receive ring.
    pub(super) fn drops(&self) -> u64 {
        sys::get_option::<libc::xdp_statistics>(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS)
            .map_or(0, |s| s.rx_dropped + s.rx_ring_full)
    }
}
