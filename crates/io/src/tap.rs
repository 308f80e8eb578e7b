//! A port on a TAP device: a virtual cable whose other end is a network interface of this machine,
//! or of the namespace to which it is moved. It needs rights over a namespace, not over the
//! machine. See Documentation/networking/tuntap.rst.
//!
//! The virtio-net header carries checksum and segmentation state, as with a packet socket;
//! TUNSETOFFLOAD tells the kernel which of it we accept.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use plexus_wire::Time;

use crate::OpenError;
use crate::af_packet::SUPER_FRAME;
use crate::device::{Device, ETHERNET, State};
use crate::error::patiently;
use crate::packet::{Batch, Packet};
use crate::pool::{HEADROOM, Pool};
use crate::port::{Capabilities, Link, Port, PortStats};
use crate::sys;
use crate::vnet::{self, VNET_LEN, VnetHeader};

/// A port on a TAP device.
pub struct TapPort {
    name: String,
    device: Device,
    /// `None` while the device is gone, and once closed.
    file: Option<OwnedFd>,
    index: u32,
    link: Link,
    capabilities: Capabilities,
    closed: bool,
    stats: PortStats,
}

impl TapPort {
    /// Attaches to the TAP device, or creates one that is removed with the port. The interface is
    /// set up either way.
    ///
    /// # Errors
    /// When `/dev/net/tun` is missing, CAP_NET_ADMIN is, or the device is not a TAP device or is in
    /// use.
    pub fn open(name: &str, device: &str, pool: &Pool) -> Result<TapPort, OpenError> {
        let device = Device::named(device)?;
        let segmentation = pool.frame_size() >= SUPER_FRAME;
        let file = patiently(|| attach(&device, segmentation))?;
        device
            .set_up()
            .map_err(|e| OpenError::system(device.name(), "setting the interface up", e))?;
        let state = device.require()?;
        let capabilities =
            Capabilities { checksum: true, segmentation, max_frame: state.mtu + ETHERNET };
        Ok(TapPort {
            name: name.into(),
            device,
            file: Some(file),
            index: state.index,
            link: state.link,
            capabilities,
            closed: false,
            stats: PortStats::default(),
        })
    }

    /// Follows the interface: one that was deleted and created again is reattached.
    fn follow(&mut self, state: Option<State>) {
        if state.is_none_or(|s| s.index != self.index) {
            self.file = None;
            self.link.set(Link::Down, &mut self.stats);
        }
        let Some(state) = state else { return };
        if self.file.is_none() {
            match attach(&self.device, self.capabilities.segmentation) {
                Ok(file) => {
                    let device = self.device.name();
                    tracing::info!(port = %self.name, device, "device is back");
                    self.file = Some(file);
                    self.index = state.index;
                    // The carrier comes with attaching: the next call sees it.
                    return;
                }
                Err(error) => {
                    tracing::debug!(port = %self.name, %error, "device is not usable yet");
                    return;
                }
            }
        }
        self.capabilities.max_frame = state.mtu + ETHERNET;
        self.link.set(state.link, &mut self.stats);
    }

    fn is_sendable(&self, pool: &Pool, packet: &Packet) -> bool {
        packet.len() >= ETHERNET
            && vnet::is_consistent(&packet.offload, packet.len())
            && self.capabilities.admit(pool, packet)
    }
}

impl Port for TapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let before = into.len();
        let room = pool.max_len();
        while !into.is_full() {
            let Some(file) = &self.file else { break };
            let Some(frame) = pool.take() else { break };
            let mut header = VnetHeader::default();
            let result = read(file, &mut header, pool, frame);
            // A read that fills the frame to its last byte may have been cut short.
            let len = *result.as_ref().unwrap_or(&0);
            let offload = (len >= ETHERNET && len < room).then(|| header.to_offload(len)).flatten();
            if let Some(offload) = offload {
                let mut packet = pool.packet(frame, HEADROOM as u16, len as u32);
                packet.offload = offload;
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += len as u64;
                into.push(packet);
                continue;
            }
            pool.give(frame);
            match result {
                Ok(_) => self.stats.rx_invalid += 1,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // A super-packet of a kind that the vnet header cannot express: it is lost.
                    Some(libc::EINVAL) => self.stats.rx_invalid += 1,
                    Some(libc::EBADFD) => {
                        self.file = None;
                        self.link.set(Link::Down, &mut self.stats);
                    }
                    _ => break,
                },
            }
        }
        into.len() - before
    }

    fn transmit(&mut self, _now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let mut taken = 0;
        while self.link == Link::Up && taken < from.len() {
            let Some(file) = &self.file else { break };
            let packet = &from[taken];
            let result = if self.is_sendable(pool, packet) {
                write(file, pool, packet)
            } else {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            };
            match result {
                Ok(()) => {
                    self.stats.tx_packets += 1;
                    self.stats.tx_bytes += packet.len() as u64;
                    taken += 1;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The interface is down (EIO) or gone.
                    Some(libc::EIO | libc::EBADFD) => self.link.set(Link::Down, &mut self.stats),
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                    _ => {
                        self.stats.tx_rejected += 1;
                        taken += 1;
                    }
                },
            }
        }
        from.drain(..taken).for_each(|p| pool.free(p));
        taken
    }

    fn maintain(&mut self, _now: Time, _pool: &mut Pool) -> Link {
        if self.closed {
            return Link::Down;
        }
        match self.device.state() {
            Ok(state) => self.follow(state),
            Err(error) => tracing::debug!(port = %self.name, %error, "cannot ask for the device"),
        }
        self.link
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {
        self.file = None;
        self.closed = true;
        self.link = Link::Down;
    }
}

/// Opens `/dev/net/tun` as this device, which is made if there is none.
fn attach(device: &Device, segmentation: bool) -> Result<OwnedFd, OpenError> {
    use rustix::fs::{Mode, OFlags};
    let name = device.name();
    let otherwise = "run in a user namespace (unshare -Urn)";
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|e| {
        let doing = "opening /dev/net/tun (`modprobe tun` loads the driver)";
        OpenError::privileged(name, doing, "cap_net_admin", otherwise, e.into())
    })?;
    let mut request = device.request();
    let kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = kind as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    sys::check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }).map_err(
        |e| match e.raw_os_error() {
            Some(libc::EBUSY) => OpenError::Busy {
                device: name.into(),
                problem: "another process is attached to this TAP device".into(),
            },
            Some(libc::EINVAL) => OpenError::Invalid {
                device: name.into(),
                problem: "it exists and is not a TAP device with a vnet header; use its back-end, \
                          or another name"
                    .into(),
            },
            _ => {
                let doing = "making or attaching a TAP device";
                OpenError::privileged(name, doing, "cap_net_admin", otherwise, e)
            }
        },
    )?;
    let failed = |e| OpenError::system(name, "setting up the TAP device", e);
    // A device that lasts has the header that an earlier user wanted.
    let len = VNET_LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one integer.
    let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) };
    sys::check(set).map_err(failed)?;
    let mut offload = libc::TUN_F_CSUM;
    if segmentation {
        offload |= libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    }
    let udp = if segmentation { libc::TUN_F_USO4 | libc::TUN_F_USO6 } else { 0 };
    // Kernels before 6.2 do not know UDP segmentation, and refuse the whole set.
    set_offload(&file, offload | udp).or_else(|_| set_offload(&file, offload)).map_err(failed)?;
    Ok(file)
}

fn set_offload(file: &OwnedFd, offload: libc::c_uint) -> io::Result<()> {
    let value = libc::c_ulong::from(offload);
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    sys::check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, value) }).map(drop)
}

/// Reads one packet: its vnet header, and its bytes after the frame's headroom. Returns how many.
fn read(file: &OwnedFd, header: &mut VnetHeader, pool: &mut Pool, frame: u32) -> io::Result<usize> {
    let room = pool.max_len();
    // SAFETY: HEADROOM is less than the frame's size.
    let data = unsafe { pool.slot(frame).add(HEADROOM) };
    let parts = [
        libc::iovec { iov_base: (&raw mut *header).cast(), iov_len: VNET_LEN },
        libc::iovec { iov_base: data.as_ptr().cast(), iov_len: room },
    ];
    // SAFETY: both parts are live and writable for their lengths; nothing refers to the frame.
    let n = unsafe { libc::readv(file.as_raw_fd(), parts.as_ptr(), 2) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok((n as usize).saturating_sub(VNET_LEN)) }
}

/// Writes one packet with its vnet header.
fn write(file: &OwnedFd, pool: &Pool, packet: &Packet) -> io::Result<()> {
    let mut header = VnetHeader::from_offload(&packet.offload);
    let data = pool.data(packet);
    let parts = [
        libc::iovec { iov_base: (&raw mut header).cast(), iov_len: VNET_LEN },
        libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() },
    ];
    // SAFETY: both parts are live for their lengths, and writing only reads them.
    let n = unsafe { libc::writev(file.as_raw_fd(), parts.as_ptr(), 2) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
