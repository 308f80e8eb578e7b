//! A port on AF_XDP sockets: frames bypass the kernel's stack. The worker's pool is registered as
//! the sockets' memory (UMEM), and all AF_XDP ports of the worker share it, so a frame that arrived
//! on one port leaves on another without a copy. Read Documentation/networking/af_xdp.rst first.
//!
//! Each port keeps a ledger of the frames that the kernel holds for it (to be filled, or being
//! sent), so that a port that closes, or whose device vanishes, returns exactly those.
//!
//! AF_XDP carries no checksum state. On hardware none is needed. A station at the far end of a
//! virtual cable leaves its checksums to the "hardware", so frames of a virtual device are
//! inspected ([`plexus_wire::partial`]), and those with an unfinished checksum are marked in their
//! metadata. Super-packets do not occur: the kernel disables the far end's segmentation offload
//! while a program is attached. Tags that the far end leaves to its device (`txvlan`) are lost: the
//! kernel does not show them to the program.
//!
//! A device with several receive queues distributes frames over them, and a port on only one would
//! miss the rest: so a port serves as many as the driver tells, unless its options say otherwise.

mod marks;
mod program;
mod queue;
mod ring;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::{Time, partial};
use rustix::event::epoll;

use self::marks::Marks;
pub use self::program::PortProgram;
use self::queue::Queue;
pub(crate) use self::queue::UmemGroup;
use crate::OpenError;
use crate::af_packet::promiscuous_socket;
pub use crate::bpf::XdpMode;
use crate::device::{Device, ETHERNET, State};
use crate::error::patiently;
use crate::fast::{Entrance, KernelEnd};
use crate::packet::{Batch, Checksum};
use crate::pool::{HEADROOM, Pool};
use crate::port::{Capabilities, Link, Port, PortStats};
use crate::sys;

/// When to kick again if the kernel left frames in the transmit ring (its buffers were full).
const RETRY: Duration = Duration::from_micros(20);

/// How a port uses its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Native or generic.
    pub mode: XdpMode,
    /// First queue of the device to serve; it also sends.
    pub queue: u32,
    /// How many queues to receive from; 0: from all that the device has.
    pub queues: u32,
    /// Slots in each ring, a power of two.
    pub ring: u32,
    /// Frames to keep ready for reception, per queue; at most the ring, and of all queues at most
    /// a quarter of the pool. The queues of a device share them if it is served whole.
    pub fill: u32,
    /// A fast table may use the port, if the program runs in the driver. It costs each frame a
    /// count.
    pub for_table: bool,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        let (queue, queues, for_table) = (0, 0, false);
        XdpOptions { mode: XdpMode::Auto, queue, queues, ring: 2048, fill: 1024, for_table }
    }
}

/// Frames that a queue keeps ready at least. Devices spread IP flows over their queues; frames of
/// other protocols, as those of a fabric, often come by a single one.
const FILL_MIN: u32 = 512;
/// A device of which all queues are served is asked this often how many it has. Frames of a queue
/// without a socket would go to this machine's stack.
const QUEUES_AGAIN: Duration = Duration::from_secs(1);

impl XdpOptions {
    /// The same with the device's number of queues.
    pub(crate) fn of(self, device: &Device) -> XdpOptions {
        self.of_queues(device.receive_queues().unwrap_or(1))
    }

    /// The same of a device with so many.
    fn of_queues(self, all: u32) -> XdpOptions {
        if self.queues != 0 {
            return self;
        }
        let queues = all.saturating_sub(self.queue).max(1);
        let fill = (self.fill / queues).max(FILL_MIN.min(self.fill));
        XdpOptions { queues, fill, ..self }
    }

    /// Frames that all queues keep ready, and one ring to be sent.
    pub(crate) fn frames(&self) -> [usize; 2] {
        [self.fill * self.queues, self.ring].map(|frames| frames as usize)
    }
}

/// A port on AF_XDP sockets.
pub struct AfXdpPort {
    name: String,
    device: Device,
    /// The far end may leave checksums to its device, and there is no hardware.
    is_virtual: bool,
    configured: XdpOptions,
    /// The same with the device's number of queues.
    options: XdpOptions,
    /// The queue that the last call began to receive from.
    turn: usize,
    capabilities: Capabilities,
    /// `None` while the device is gone, and once closed.
    attached: Option<Attached>,
    ledger: Ledger,
    link: Link,
    closed: bool,
    stats: PortStats,
    marks: Marks,
    /// When to retry frames that could not be sent.
    retry: Option<Time>,
    /// When to ask again how many queues the device has.
    queues_known_until: Time,
    /// That a returned device could not be opened has been reported.
    complained: bool,
}

/// Resources of a present device. The program is dropped first, so that nothing more arrives.
struct Attached {
    program: Arc<PortProgram>,
    queues: Vec<Queue>,
    /// Readable when any of several queues is.
    poll: Option<OwnedFd>,
    /// Keeps the device promiscuous.
    _promiscuous: OwnedFd,
    index: u32,
}

impl AfXdpPort {
    /// Opens the device on a port called `name`, over the memory of `pool`. Call it, and
    /// `maintain`, on a thread in the device's network namespace.
    ///
    /// # Errors
    /// When there is no such device, its frames do not fit the pool's, another XDP program has
    /// it, or CAP_BPF, CAP_NET_ADMIN or CAP_NET_RAW is missing.
    pub fn open(
        name: &str,
        device: &str,
        options: XdpOptions,
        pool: &mut Pool,
    ) -> Result<AfXdpPort, OpenError> {
        let device = Device::named(device)?;
        let state = device.require()?;
        let (configured, options) = (options, options.of(&device));
        check_options(&device, &options)?;
        check_frame_size(&device, state.mtu, pool.frame_size())?;
        raise_locked_memory_limit();
        let is_virtual = is_virtual(&device)?;
        let attached = patiently(|| Attached::open(&device, &state, &options, is_virtual, pool))?;
        let capabilities =
            Capabilities { checksum: false, segmentation: false, max_frame: state.mtu + ETHERNET };
        let mut port = AfXdpPort {
            name: name.into(),
            device,
            is_virtual,
            configured,
            options,
            turn: 0,
            capabilities,
            attached: Some(attached),
            ledger: Ledger::new(pool.frames()),
            link: state.link,
            closed: false,
            stats: PortStats::default(),
            marks: Marks::default(),
            retry: None,
            queues_known_until: Time::ZERO,
            complained: false,
        };
        port.refill(pool);
        Ok(port)
    }

    /// True when the device has no hardware, so that frames may come without their checksums.
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// True when the XDP program runs in the driver, false when generic or without a device.
    pub fn is_native(&self) -> bool {
        self.attached.as_ref().is_some_and(|a| a.program.is_native())
    }

    /// Receive queues that it serves.
    pub fn queues(&self) -> u32 {
        self.options.queues
    }

    /// True when the device reads and writes the pool's frames itself.
    pub fn is_zero_copy(&self) -> bool {
        self.attached.as_ref().is_some_and(|a| a.queues.iter().all(|q| !q.copies))
    }

    /// Refills this port's own fill rings. Each port refills by its own deficit: otherwise frames
    /// would accumulate at ports that only send, and reception would stop.
    fn refill(&mut self, pool: &mut Pool) {
        let Some(attached) = &mut self.attached else { return };
        let share = pool.frames() / 4 / self.options.queues.max(1) as usize;
        let target = self.options.fill.min(share.max(1) as u32);
        let frame_size = pool.frame_size() as u64;
        for queue in &mut attached.queues {
            let deficit = target.saturating_sub(queue.filled);
            let wanted = deficit.min(queue.fill.free(deficit));
            let mut given = 0;
            while given < wanted {
                let Some(frame) = pool.take() else { break };
                self.ledger.lend(frame);
                queue.fill.push(u64::from(frame) * frame_size);
                given += 1;
            }
            if given > 0 {
                queue.filled += given;
                queue.fill.publish();
                queue.wake_fill();
            }
        }
    }

    /// Reclaims the frames that have been sent.
    fn reap(&mut self, pool: &mut Pool) {
        let Some(attached) = &mut self.attached else { return };
        let shift = pool.frame_size().trailing_zeros();
        for queue in &mut attached.queues {
            let n = queue.completion.available();
            for _ in 0..n {
                let Some(address) = queue.completion.pop() else { break };
                let frame = (address >> shift) as u32;
                queue.sending = queue.sending.saturating_sub(1);
                if self.ledger.take_back(frame) {
                    pool.give(frame);
                }
            }
            if n > 0 {
                queue.completion.release();
            }
        }
    }

    /// Makes the kernel send; schedules a retry if it did not accept all frames.
    fn kick(&mut self, now: Time) {
        let Some(attached) = &mut self.attached else { return };
        let Some(queue) = attached.queues.first_mut() else { return };
        let result = queue.kick();
        self.retry = (queue.tx.pending() > 0).then(|| now + RETRY);
        if result.is_err() {
            self.retry = None;
            self.link.set(Link::Down, &mut self.stats);
        }
    }

    /// Closes the sockets and returns every frame that they held to the pool.
    fn detach(&mut self, pool: &mut Pool) {
        self.reap(pool);
        if let Some(mut attached) = self.attached.take() {
            for queue in &mut attached.queues {
                // Received, but never to be read.
                self.stats.rx_overflow += u64::from(queue.rx.available()) + queue.drops();
            }
            // This releases all frames in the kernel, before the ledger returns them.
            drop(attached);
        }
        self.ledger.take_back_all(|frame| pool.give(frame));
        self.marks.pass_all();
        self.retry = None;
    }

    /// Follows the device: it may have disappeared, come back under another index, lost its carrier
    /// or its program.
    fn follow(&mut self, now: Time, state: Option<State>, pool: &mut Pool) {
        let index = state.map(|s| s.index);
        let is_due = now >= self.queues_known_until;
        if is_due {
            self.queues_known_until = now + QUEUES_AGAIN;
        }
        // A device that does not answer just now has as many as before.
        let all = is_due.then(|| self.device.receive_queues()).flatten();
        let has_others =
            all.is_some_and(|all| self.configured.of_queues(all).queues != self.options.queues);
        let lost = |a: &Attached| {
            if index != Some(a.index) {
                Some("the device is gone")
            } else if has_others {
                Some("the device has another number of queues")
            } else {
                (!a.program.is_there()).then_some("the XDP program was detached")
            }
        };
        if let Some(why) = self.attached.as_ref().and_then(lost) {
            let (port, device) = (&self.name, self.device.name());
            tracing::warn!(%port, device, "{why}");
            // Also if a replacement exists already: users of the link have to be told.
            self.detach(pool);
            self.link.set(Link::Down, &mut self.stats);
            return;
        }
        let Some(state) = state else { return };
        if self.attached.is_none() {
            let opened = check_frame_size(&self.device, state.mtu, pool.frame_size())
                .and_then(|()| is_virtual(&self.device))
                .and_then(|is_virtual| {
                    // It may have another number of queues.
                    let options = self.configured.of(&self.device);
                    let attached =
                        Attached::open(&self.device, &state, &options, is_virtual, pool)?;
                    Ok((is_virtual, options, attached))
                });
            match opened {
                Ok((is_virtual, options, attached)) => {
                    (self.is_virtual, self.options) = (is_virtual, options);
                    let device = self.device.name();
                    tracing::info!(port = %self.name, device, "device is back");
                    self.attached = Some(attached);
                    self.complained = false;
                    self.refill(pool);
                }
                Err(error) => {
                    // It may be busy for a moment, so the next call tries again.
                    if !std::mem::replace(&mut self.complained, true) {
                        tracing::warn!(port = %self.name, %error, "device is back but not usable");
                    }
                    return;
                }
            }
        }
        if state.link == Link::Down {
            // A pending error would keep the socket readable and the worker awake.
            for queue in self.attached.iter().flat_map(|a| &a.queues) {
                let _ = sys::take_error(&queue.socket);
            }
        }
        self.capabilities.max_frame = state.mtu + ETHERNET;
        self.link.set(state.link, &mut self.stats);
    }
}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        self.reap(pool);
        if self.retry.is_some() {
            self.kick(now);
        }
        let Some(attached) = &mut self.attached else { return 0 };
        let size = pool.frame_size() as u64;
        let shift = size.trailing_zeros();
        let before = into.len();
        // Each call begins with another queue: one that is always full would starve the others.
        self.turn = if self.turn + 1 < attached.queues.len() { self.turn + 1 } else { 0 };
        let (before_it, from_it) = attached.queues.split_at_mut(self.turn);
        for queue in from_it.iter_mut().chain(before_it) {
            let n = queue.rx.available().min(into.remaining_capacity() as u32);
            for _ in 0..n {
                let Some(slot) = queue.rx.pop() else { break };
                queue.filled = queue.filled.saturating_sub(1);
                queue.taken += 1;
                let frame = (slot.addr >> shift) as u32;
                if !self.ledger.take_back(frame) {
                    continue;
                }
                if (slot.len as usize) < ETHERNET {
                    self.stats.rx_invalid += 1;
                    pool.give(frame);
                    continue;
                }
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += u64::from(slot.len);
                let mut packet = pool.packet(frame, (slot.addr & (size - 1)) as u16, slot.len);
                if self.is_virtual
                    && let Some(partial) = partial::find(pool.data(&packet))
                {
                    packet.offload.checksum = Checksum::Partial;
                    packet.offload.checksum_start = partial.start;
                    packet.offload.checksum_offset = partial.offset;
                }
                into.push(packet);
            }
            if n > 0 {
                queue.rx.release();
            }
        }
        self.marks.look(&mut attached.queues, &attached.program);
        self.refill(pool);
        into.len() - before
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        self.reap(pool);
        if self.link == Link::Down {
            return 0;
        }
        let Some(queue) = self.attached.as_mut().and_then(|a| a.queues.first_mut()) else {
            return 0;
        };
        let size = pool.frame_size() as u64;
        let wanted = from.len() as u32;
        let mut room = queue.tx.free(wanted);
        let mut taken = 0;
        for packet in from.iter() {
            let len = packet.len();
            if len < ETHERNET || !self.capabilities.admit(pool, packet) {
                taken += 1;
                continue;
            }
            if room == 0 {
                break;
            }
            room -= 1;
            taken += 1;
            let addr = u64::from(pool.index(packet)) * size + packet.headroom() as u64;
            queue.tx.push(libc::xdp_desc { addr, len: packet.len, options: 0 });
            queue.sending += 1;
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += len as u64;
        }
        for packet in from.drain(..taken) {
            if packet.len() < ETHERNET || !self.capabilities.admit(pool, &packet) {
                self.stats.tx_rejected += 1;
                pool.free(packet);
            } else {
                self.ledger.lend(pool.index(&packet));
            }
        }
        queue.tx.publish();
        if taken > 0 || self.retry.is_some() {
            self.kick(now);
        }
        taken
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        if self.closed {
            return Link::Down;
        }
        match self.device.state() {
            Ok(state) => self.follow(now, state, pool),
            Err(error) => tracing::debug!(port = %self.name, %error, "cannot ask for the device"),
        }
        self.reap(pool);
        self.refill(pool);
        self.link
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        let attached = self.attached.as_ref()?;
        let single = attached.queues.first().map(|q| q.socket.as_fd());
        attached.poll.as_ref().map(AsFd::as_fd).or(single)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.retry
    }

    /// Of a port [for a fast table](XdpOptions::for_table) whose program runs in the driver.
    fn kernel_end(&self) -> Option<KernelEnd<'_>> {
        let attached = self.attached.as_ref().filter(|a| a.program.is_for_table())?;
        let (index, max_frame) = (attached.index, self.capabilities.max_frame);
        Some(KernelEnd { index, entrance: Entrance::Xdp(&attached.program), max_frame })
    }

    fn mark(&mut self) -> u64 {
        match &mut self.attached {
            Some(attached) => self.marks.set(&mut attached.queues, &attached.program),
            None => self.marks.passed(),
        }
    }

    fn passed_mark(&self) -> u64 {
        self.marks.passed()
    }

    /// A driver that reads the pool's frames itself has them until they are sent. Where the kernel
    /// copies, the device has all that have left the ring.
    fn has_sent(&self) -> bool {
        let queue = self.attached.as_ref().and_then(|a| a.queues.first());
        self.retry.is_none() && queue.is_none_or(|queue| queue.copies || queue.sending == 0)
    }

    fn stats(&self) -> PortStats {
        let queues = self.attached.iter().flat_map(|a| &a.queues);
        let drops: u64 = queues.map(Queue::drops).sum();
        PortStats { rx_overflow: self.stats.rx_overflow + drops, ..self.stats }
    }

    fn close(&mut self, pool: &mut Pool) {
        self.detach(pool);
        self.closed = true;
        self.link = Link::Down;
    }
}

fn is_virtual(device: &Device) -> Result<bool, OpenError> {
    let driver = device.virtual_driver();
    let driver =
        driver.map_err(|e| OpenError::system(device.name(), "asking for the driver", e))?;
    Ok(driver.is_some())
}

/// Whether a port would run in the driver of this device, over frames of `frame_size` bytes: the
/// program is attached briefly. Later failures of the sockets (the limit on locked memory) are not
/// tested.
///
/// # Errors
/// As [`AfXdpPort::open`], with the reason.
pub(crate) fn probe(device: &str, frame_size: usize) -> Result<(), OpenError> {
    let device = Device::named(device)?;
    let state = device.require()?;
    check_frame_size(&device, state.mtu, frame_size)?;
    // Otherwise a port just closed, or our own probe a moment ago, could be mistaken for another
    // program, and the device would stay without AF_XDP.
    let how = (XdpMode::Native, false, false);
    let attach = || PortProgram::attach(device.name(), state.index, 1, how);
    patiently(|| attach().map(drop))
}

impl Attached {
    fn open(
        device: &Device,
        state: &State,
        options: &XdpOptions,
        is_virtual: bool,
        pool: &mut Pool,
    ) -> Result<Attached, OpenError> {
        let name = device.name();
        let otherwise = "use a tap port, which an owner may open";
        let promiscuous = promiscuous_socket(state.index).map_err(|e| {
            let doing = "making the device promiscuous";
            OpenError::privileged(name, doing, "cap_net_raw", otherwise, e)
        })?;
        let end = options.queue + options.queues;
        let how = (options.mode, is_virtual, options.for_table);
        let program = PortProgram::attach(name, state.index, end, how)?;
        let program = Arc::new(program);
        let native = program.is_native();
        let mut queues = Vec::new();
        for queue in options.queue..end {
            let opened =
                Queue::open(pool, state.index, queue, options.ring, native).map_err(|e| {
                    if e.raw_os_error() == Some(libc::EBUSY) {
                        let problem =
                            format!("another AF_XDP socket is bound to its queue {queue}");
                        return OpenError::Busy { device: name.into(), problem };
                    }
                    // The error of registering frames beyond RLIMIT_MEMLOCK.
                    let doing = if e.raw_os_error() == Some(libc::ENOBUFS) {
                        "locking the frames in memory (raise LimitMEMLOCK= in the systemd unit or \
                         `ulimit -l`, grant cap_ipc_lock, or use fewer frames)"
                    } else {
                        "binding an AF_XDP socket (has the device such a queue?)"
                    };
                    OpenError::privileged(name, doing, "cap_net_raw", otherwise, e)
                })?;
            program
                .serve(queue, &opened.socket)
                .map_err(|e| OpenError::system(name, "entering an AF_XDP socket", e))?;
            queues.push(opened);
        }
        let poll = if queues.len() > 1 {
            let failed =
                |e: rustix::io::Errno| OpenError::system(name, "making an epoll", e.into());
            let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
            for (queue, data) in queues.iter().zip(0..) {
                let data = epoll::EventData::new_u64(data);
                epoll::add(&poll, &queue.socket, data, epoll::EventFlags::IN).map_err(failed)?;
            }
            Some(poll)
        } else {
            None
        };
        let index = state.index;
        Ok(Attached { program, queues, poll, _promiscuous: promiscuous, index })
    }
}

/// The frames that the kernel holds for a port: one bit each.
struct Ledger {
    lent: Vec<u64>,
}

impl Ledger {
    fn new(frames: usize) -> Ledger {
        Ledger { lent: vec![0; frames.div_ceil(64)] }
    }

    fn lend(&mut self, frame: u32) {
        self.lent[frame as usize / 64] |= 1 << (frame % 64);
    }

    /// Clears a lent frame and returns true; false for a frame that the kernel cannot have.
    fn take_back(&mut self, frame: u32) -> bool {
        let Some(word) = self.lent.get_mut(frame as usize / 64) else { return false };
        let bit = 1 << (frame % 64);
        let was_lent = *word & bit != 0;
        *word &= !bit;
        was_lent
    }

    fn take_back_all(&mut self, mut give: impl FnMut(u32)) {
        for (i, word) in self.lent.iter_mut().enumerate() {
            while *word != 0 {
                give(i as u32 * 64 + word.trailing_zeros());
                *word &= *word - 1;
            }
        }
    }
}

fn check_options(device: &Device, options: &XdpOptions) -> Result<(), OpenError> {
    let problem = if !options.ring.is_power_of_two() || options.ring > 1 << 16 {
        format!("a ring has a power of two of slots, up to 65536, not {}", options.ring)
    } else if options.queues == 0 || options.queue.saturating_add(options.queues) > 4096 {
        "queues: 1 or more are needed, numbered below 4096".into()
    } else if options.fill == 0 || options.fill > options.ring {
        format!("frames to keep ready: 1 to {} (the ring's slots)", options.ring)
    } else {
        return Ok(());
    };
    Err(OpenError::Invalid { device: device.name().into(), problem })
}

/// AF_XDP requires a frame to be a page or half a page, and a packet to lie in one frame.
fn check_frame_size(device: &Device, mtu: usize, size: usize) -> Result<(), OpenError> {
    const TAG: usize = 4;
    let fits = |size: usize| mtu + ETHERNET + TAG <= size - HEADROOM;
    let problem = if !matches!(size, 2048 | 4096) {
        format!("AF_XDP frames have 2048 or 4096 bytes, the pool's have {size}")
    } else if !fits(size) {
        format!("an MTU of {mtu} does not fit the pool's frames of {size} bytes")
    } else {
        return Ok(());
    };
    let advice = match (fits(2048), fits(4096)) {
        (true, _) => "2048".into(),
        (_, true) => "4096".into(),
        _ => format!("4096 and an MTU of at most {}", 4096 - HEADROOM - ETHERNET - TAG),
    };
    Err(OpenError::FrameSize { device: device.name().into(), problem, advice })
}

/// Registered memory counts as locked. If the limit cannot be raised it may still be sufficient, so
/// a refusal is not an error here.
fn raise_locked_memory_limit() {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads one live structure.
    if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } != 0 {
        tracing::debug!("the limit on locked memory stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_gives_back_what_was_lent_and_nothing_else() {
        let mut ledger = Ledger::new(130);
        for frame in [0, 63, 64, 129] {
            ledger.lend(frame);
        }
        assert!(ledger.take_back(63));
        assert!(!ledger.take_back(63), "returned twice");
        assert!(!ledger.take_back(5), "never lent");
        assert!(!ledger.take_back(100_000), "no such frame");
        let mut back = Vec::new();
        ledger.take_back_all(|frame| back.push(frame));
        assert_eq!(back, [0, 64, 129]);
        ledger.take_back_all(|frame| panic!("{frame} was given back already"));
    }
}
