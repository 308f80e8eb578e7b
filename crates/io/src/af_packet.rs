//! A port on a packet socket: works on every device, without privileges over it beyond
//! CAP_NET_RAW, and carries checksum and segmentation state both ways. See packet(7).
//!
//! The kernel copies each frame once, straight into or out of the pool. It takes 802.1Q tags out
//! of frames before a packet socket sees them; they come as auxiliary data and are put back.
//!
//! Stations with segmentation offload send super-packets of up to 64 KiB. In a pool with smaller
//! frames these are cut short, so they are dropped and counted in `rx_invalid`, and the port does
//! not offer segmentation.
//!
//! A fast table that takes [samples](crate::fast::FastTable::sample) of what it forwards lets the
//! kernel give this socket their first bytes. They are no received packets.

use std::cell::Cell;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use plexus_wire::{MacAddr, Time};

use crate::OpenError;
use crate::device::{Device, ETHERNET, State};
use crate::fast::{self, Entrance, KernelEnd, SAMPLES_AT_ONCE};
use crate::messages;
use crate::packet::{BATCH, Batch, Packet};
use crate::pool::{HEADROOM, Pool};
use crate::port::{Capabilities, Link, Port, PortStats};
use crate::sys;
use crate::vnet::{self, VNET_LEN, VnetHeader};

/// Bytes that a pool's frames need to hold any super-packet: 64 KiB of payload, an Ethernet
/// header, two tags and the headroom, in whole pages.
pub const SUPER_FRAME: usize = 68 * 1024;

/// Socket buffers: a burst of some thousand small frames, or a hundred super-packets.
const SOCKET_BUFFER: libc::c_int = 8 << 20;

/// Bytes of an 802.1Q tag.
const TAG: usize = 4;

/// Frames of one protocol: to the device's own address, and to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only {
    /// The protocol.
    pub ethertype: u16,
    /// The group, which the device is told to receive.
    pub group: MacAddr,
}

/// A port on a packet socket.
pub struct AfPacketPort {
    name: String,
    device: Device,
    /// `None` while the device is gone, and once closed.
    socket: Option<OwnedFd>,
    /// The interface that the socket is bound to.
    index: u32,
    /// The received protocol; `None`: everything.
    only: Option<Only>,
    link: Link,
    capabilities: Capabilities,
    messages: Box<Messages>,
    stats: PortStats,
    /// Reading the kernel's count of drops resets it.
    overflow: Cell<u64>,
    samples: Vec<Sample>,
    closed: bool,
}

/// The beginning of a packet that the fast table has forwarded.
struct Sample {
    /// Its first bytes.
    bytes: Vec<u8>,
    /// Bytes of the packet.
    len: usize,
}

impl AfPacketPort {
    /// Opens the device on a port called `name`, for frames of `pool`. It receives frames for any
    /// station, except those that this machine sends itself.
    ///
    /// # Errors
    /// When there is no such device or CAP_NET_RAW is missing.
    pub fn open(name: &str, device: &str, pool: &Pool) -> Result<AfPacketPort, OpenError> {
        AfPacketPort::open_for(name, device, None, pool)
    }

    /// The same, but `only` for the frames of one protocol: the kernel copies no others, and the
    /// device need not receive frames for other stations. So the machine can use the device for
    /// other traffic too.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for(
        name: &str,
        device: &str,
        only: Option<Only>,
        pool: &Pool,
    ) -> Result<AfPacketPort, OpenError> {
        let device = Device::named(device)?;
        let state = device.require()?;
        let socket = open_on(&device, state.index, only)?;
        let capabilities = Capabilities {
            checksum: true,
            segmentation: pool.frame_size() >= SUPER_FRAME,
            max_frame: state.mtu + ETHERNET,
        };
        Ok(AfPacketPort {
            name: name.into(),
            device,
            socket: Some(socket),
            index: state.index,
            only,
            link: state.link,
            capabilities,
            messages: Messages::new(),
            stats: PortStats::default(),
            overflow: Cell::new(0),
            samples: Vec::new(),
            closed: false,
        })
    }

    /// Follows the device: it may have disappeared, come back under another index, got another
    /// name, or lost its carrier.
    fn follow(&mut self, state: Option<State>) {
        if self.socket.is_some() && state.map(|s| s.index) != Some(self.index) {
            // It would go on receiving from a device of another name. Also if a replacement exists
            // already: users of the link have to be told.
            self.leave();
            return self.link.set(Link::Down, &mut self.stats);
        }
        let Some(state) = state else { return };
        match &self.socket {
            Some(socket) if state.link == Link::Down => {
                // The pending ENETDOWN would keep the socket readable and the worker awake.
                let _ = sys::take_error(socket);
            }
            Some(_) => {}
            None => match open_on(&self.device, state.index, self.only) {
                Ok(socket) => {
                    let device = self.device.name();
                    tracing::info!(port = %self.name, device, "device is back");
                    (self.socket, self.index) = (Some(socket), state.index);
                }
                Err(error) => {
                    tracing::debug!(port = %self.name, %error, "device is not usable yet");
                    return;
                }
            },
        }
        self.capabilities.max_frame = state.mtu + ETHERNET;
        self.link.set(state.link, &mut self.stats);
    }

    /// Closes the socket.
    fn leave(&mut self) {
        // Reads the kernel's counts a last time; no frame is with the kernel between calls.
        let _ = self.stats();
        self.socket = None;
    }

    /// Makes packets of the `n` frames that the kernel filled; returns how many were valid.
    fn accept(&mut self, pool: &mut Pool, frames: &[u32], n: usize, into: &mut Batch) -> usize {
        let room = pool.max_len();
        let mut sound = 0;
        for (i, &frame) in frames[..n].iter().enumerate() {
            let got = self.messages.received(i);
            let (len, aux) = (got.len, aux_of(got.control));
            let tag = aux.and_then(|aux| aux.tag);
            // A sample. Of a super-packet it has the metadata without the bytes: this comes first.
            if let Some(Aux { len: packet_len, .. }) = aux.filter(|aux| aux.is_cut) {
                self.keep_sample(pool, frame, len, packet_len, tag);
                continue;
            }
            let offload = VnetHeader::from_bytes(*got.lead).to_offload(len);
            let (Some(offload), false) = (offload, len < ETHERNET || len > room) else {
                self.stats.rx_invalid += 1;
                pool.give(frame);
                continue;
            };
            let mut packet = pool.packet(frame, HEADROOM as u16, len as u32);
            packet.offload = offload;
            if let Some((tpid, tci)) = tag {
                restore_tag(pool, &mut packet, tpid, tci);
            }
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += packet.len() as u64;
            into.push(packet);
            sound += 1;
        }
        sound
    }

    /// Keeps the first bytes of a packet that the fast table has forwarded, and gives its frame
    /// back. A packet that was cut in any other way is lost.
    fn keep_sample(
        &mut self,
        pool: &mut Pool,
        frame: u32,
        len: usize,
        packet_len: usize,
        tag: Option<(u16, u16)>,
    ) {
        if len != fast::sample_len(packet_len) || len > pool.max_len() {
            self.stats.rx_invalid += 1;
            return pool.give(frame);
        }
        let mut packet = pool.packet(frame, HEADROOM as u16, len as u32);
        let before = packet.len();
        if let Some((tpid, tci)) = tag.filter(|_| before >= ETHERNET) {
            restore_tag(pool, &mut packet, tpid, tci);
        }
        if self.samples.len() < SAMPLES_AT_ONCE as usize {
            let len = packet_len + packet.len() - before;
            self.samples.push(Sample { bytes: pool.data(&packet).to_vec(), len });
        }
        pool.free(packet);
    }

    /// True for a packet that this device may be able to send.
    fn is_sendable(&self, pool: &Pool, packet: &Packet) -> bool {
        packet.len() >= ETHERNET
            && vnet::is_consistent(&packet.offload, packet.len())
            && self.capabilities.admit(pool, packet)
    }

    fn reject(&mut self, pool: &mut Pool, from: &mut Batch, n: usize) {
        self.stats.tx_rejected += n as u64;
        from.drain(..n).for_each(|p| pool.free(p));
    }
}

impl Port for AfPacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let mut total = 0;
        let mut frames = arrayvec::ArrayVec::<u32, BATCH>::new();
        // Packets that arrived before the link went down are still delivered, so the link state is
        // not checked.
        while let Some(socket) = &self.socket {
            let wanted = into.remaining_capacity();
            frames.clear();
            frames.extend((0..wanted).map_while(|_| pool.take()));
            if frames.is_empty() {
                break;
            }
            let result = self.messages.receive(socket, pool, &frames);
            let n = *result.as_ref().unwrap_or(&0);
            // Backwards, so that the frame used last is used first again.
            frames[n..].iter().rev().for_each(|&f| pool.give(f));
            match result {
                Ok(n) => {
                    let offered = frames.len();
                    total += self.accept(pool, &frames, n, into);
                    if n < offered {
                        break;
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENETDOWN | libc::ENXIO) => {
                        self.link.set(Link::Down, &mut self.stats)
                    }
                    // A super-packet of a kind that the vnet header cannot express: it is lost.
                    Some(libc::EINVAL) => self.stats.rx_invalid += 1,
                    _ => break,
                },
            }
        }
        total
    }

    fn transmit(&mut self, _now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let before = from.len();
        while self.link == Link::Up && !from.is_empty() {
            let bad = from.iter().take_while(|p| !self.is_sendable(pool, p)).count();
            if bad > 0 {
                self.reject(pool, from, bad);
            }
            let run = from.iter().take_while(|p| self.is_sendable(pool, p)).count();
            let (Some(socket), true) = (&self.socket, run > 0) else { break };
            match self.messages.send(socket, pool, &from[..run], vnet_of) {
                Ok(sent) => {
                    self.stats.tx_packets += sent as u64;
                    for packet in from.drain(..sent) {
                        self.stats.tx_bytes += packet.len() as u64;
                        pool.free(packet);
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.link.set(Link::Down, &mut self.stats)
                    }
                    // The queue below is full: the packets stay with the caller.
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                    _ => self.reject(pool, from, 1),
                },
            }
        }
        before - from.len()
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
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Of a port that has its device to itself.
    fn kernel_end(&self) -> Option<KernelEnd<'_>> {
        let socket = self.socket.as_ref().filter(|_| self.only.is_none())?;
        let max_frame = self.capabilities.max_frame;
        let entrance = Entrance::Socket(socket.as_fd());
        Some(KernelEnd { index: self.index, entrance, max_frame })
    }

    fn take_samples(&mut self, see: &mut dyn FnMut(&[u8], usize)) {
        self.samples.drain(..).for_each(|sample| see(&sample.bytes, sample.len));
    }

    fn stats(&self) -> PortStats {
        if let Some(socket) = &self.socket {
            let counts = sys::get_option::<libc::tpacket_stats>(
                socket,
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
            );
            let drops = counts.map_or(0, |c| u64::from(c.tp_drops));
            self.overflow.set(self.overflow.get() + drops);
        }
        PortStats { rx_overflow: self.overflow.get(), ..self.stats }
    }

    fn close(&mut self, _pool: &mut Pool) {
        self.leave();
        (self.closed, self.link) = (true, Link::Down);
    }
}

/// A packet socket that receives from a device.
fn open_on(device: &Device, index: u32, only: Option<Only>) -> Result<OwnedFd, OpenError> {
    let socket = socket(device)?;
    bind(&socket, index, only)
        .map_err(|e| OpenError::system(device.name(), "binding a packet socket", e))?;
    Ok(socket)
}

/// A packet socket with its options set, not yet receiving: protocol 0 until it is bound.
fn socket(device: &Device) -> Result<OwnedFd, OpenError> {
    let name = device.name();
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(|e| {
        let otherwise = "use a tap port, which an owner may open";
        OpenError::privileged(name, "opening a packet socket", "cap_net_raw", otherwise, e)
    })?;
    let options = [
        (libc::PACKET_VNET_HDR, "carrying checksum state (PACKET_VNET_HDR)"),
        (libc::PACKET_AUXDATA, "asking for VLAN tags (PACKET_AUXDATA)"),
        (libc::PACKET_IGNORE_OUTGOING, "ignoring our own frames (needs Linux 4.20)"),
    ];
    for (option, doing) in options {
        sys::set_option(&socket, libc::SOL_PACKET, option, 1)
            .map_err(|e| OpenError::system(name, doing, e))?;
    }
    sys::set_buffers(&socket, SOCKET_BUFFER);
    Ok(socket)
}

/// Starts receiving every frame of the device, or only one protocol.
fn bind(socket: &OwnedFd, index: u32, only: Option<Only>) -> io::Result<()> {
    // SAFETY: the structure is integers; zero is a value of each.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = only.map_or(libc::ETH_P_ALL as u16, |o| o.ethertype).to_be();
    address.sll_ifindex = index as libc::c_int;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of a live structure.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) })?;
    match only {
        None => promiscuous(socket, index),
        Some(only) => join(socket, index, libc::PACKET_MR_MULTICAST, &only.group.0),
    }
}

/// A socket that receives nothing itself, but makes the device receive frames for any station while
/// it is open.
pub(crate) fn promiscuous_socket(index: u32) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    promiscuous(&socket, index)?;
    Ok(socket)
}

/// Makes the device receive frames for any station while this socket is open.
fn promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    join(socket, index, libc::PACKET_MR_PROMISC, &[])
}

/// Makes the device receive frames for further addresses while this socket is open.
fn join(socket: &OwnedFd, index: u32, kind: libc::c_int, group: &[u8]) -> io::Result<()> {
    let mut membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: kind as u16,
        mr_alen: group.len() as u16,
        mr_address: [0; 8],
    };
    membership.mr_address[..group.len()].copy_from_slice(group);
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)
}

/// Puts back the tag that the kernel took out, after the two addresses.
fn restore_tag(pool: &mut Pool, packet: &mut Packet, tpid: u16, tci: u16) {
    const ADDRESSES: usize = 12;
    if pool.push_front(packet, TAG) {
        let data = pool.data_mut(packet);
        data.copy_within(TAG..TAG + ADDRESSES, 0);
        data[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
        data[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&tci.to_be_bytes());
    }
}

/// Each frame has a vnet header, and on reception the requested control message.
type Messages = messages::Messages<VNET_LEN, 0, { size_of::<Control>() }>;

/// The header that describes a packet's offload work.
fn vnet_of(packet: &Packet) -> [u8; VNET_LEN] {
    VnetHeader::from_offload(&packet.offload).to_bytes()
}

/// How the kernel lays out that control message.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    data: libc::tpacket_auxdata,
}

/// The kernel's notes on a frame.
#[derive(Clone, Copy)]
struct Aux {
    /// The tag that it took out of the frame: TPID and TCI.
    tag: Option<(u16, u16)>,
    /// Bytes of the frame, without that tag.
    len: usize,
    /// The socket has fewer bytes than that.
    is_cut: bool,
}

/// The notes in a frame's control message, if that is the one that was asked for.
fn aux_of(control: &[u8]) -> Option<Aux> {
    fn at<const N: usize>(control: &[u8], offset: usize) -> Option<[u8; N]> {
        control.get(offset..)?.first_chunk().copied()
    }
    let integer = |offset| at(control, offset).map(libc::c_int::from_ne_bytes);
    let level = integer(offset_of!(Control, header.cmsg_level))?;
    let kind = integer(offset_of!(Control, header.cmsg_type))?;
    let word = |offset| at(control, offset).map(u32::from_ne_bytes);
    let status = word(offset_of!(Control, data.tp_status))?;
    let len = word(offset_of!(Control, data.tp_len))?;
    let there = word(offset_of!(Control, data.tp_snaplen))?;
    let short = |offset| at(control, offset).map(u16::from_ne_bytes);
    let tci = short(offset_of!(Control, data.tp_vlan_tci))?;
    let tpid = short(offset_of!(Control, data.tp_vlan_tpid))?;
    let is_ours = level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA;
    is_ours.then(|| {
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known { tpid } else { libc::ETH_P_8021Q as u16 };
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, tci));
        Aux { tag, len: len as usize, is_cut: there < len }
    })
}
