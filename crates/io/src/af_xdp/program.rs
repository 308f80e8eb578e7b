//! The XDP program that passes a device's frames to our sockets, attached by a link, so that it is
//! detached when the process ends in any way. A fast table may put its own program in this one's
//! place, which goes on to pass frames to the sockets.
//!
//! At a port for a fast table, whatever program runs counts the frames that it hands to the socket
//! of each queue. A socket shows them only when the kernel ends a poll of the device, so the port
//! needs the count to know what is on its way. At other ports nothing is counted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Acquire;

use crate::OpenError;
use crate::bpf::{self, Asm, Attached, Helper, If, Map, Reg, Verdict, Width, XdpMode, context};

/// The attached program and the maps that it uses.
#[derive(Debug)]
pub struct PortProgram {
    attached: Attached,
    own: bpf::Program,
    hand_over: HandOver,
    is_virtual: bool,
}

/// The sockets by queue, and for a fast table how many frames each has been handed.
#[derive(Debug)]
struct HandOver {
    sockets: Map,
    handed: Option<Map>,
}

/// Words of a queue: a cache line, since each queue has a processor.
const WORDS: usize = 8;

impl PortProgram {
    /// Attaches to the interface; receive queues below `queues` may get a socket.
    pub(super) fn attach(
        device: &str,
        index: u32,
        queues: u32,
        (mode, is_virtual, for_table): (XdpMode, bool, bool),
    ) -> Result<PortProgram, OpenError> {
        let hand_over = HandOver::new(queues, for_table)
            .map_err(|e| bpf::refused(device, "creating an XDP socket map", e))?;
        let mut asm = Asm::new();
        asm.mov(Reg::R6, Reg::R1);
        hand_over.emit(&mut asm, |_| {});
        let own = bpf::Program::load("plexus_xsk", asm)
            .map_err(|e| bpf::refused(device, "loading the XDP program", e))?;
        let attached = own.attach(device, index, mode)?;
        Ok(PortProgram { attached, own, hand_over, is_virtual })
    }

    /// True when the program runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.attached.is_native()
    }

    /// False once somebody has detached it. A kernel that does not tell has it.
    pub(super) fn is_there(&self) -> bool {
        self.attached.is_there().unwrap_or(true)
    }

    /// Detaches it. Its port notices, and attaches one anew.
    ///
    /// # Errors
    /// Of bpf(2).
    pub fn detach(&self) -> io::Result<()> {
        self.attached.detach()
    }

    /// Passes frames of a receive queue to a socket.
    pub(super) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.hand_over.sockets.set_socket(queue, socket)
    }

    /// Frames that the socket of a queue has been handed, if they are counted.
    pub(super) fn handed(&self, queue: u32) -> u64 {
        let handed = self.hand_over.handed.as_ref();
        handed.map_or(0, |handed| handed.value(queue as usize)[0].load(Acquire))
    }

    /// Whether a fast table may put its program in the place of the port's own.
    pub(super) fn is_for_table(&self) -> bool {
        self.is_native() && self.hand_over.handed.is_some()
    }

    /// Whether frames may come without their checksums.
    pub(crate) fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// Ends a program whose context is in R6: the queue's socket gets the frame, and `then` adds
    /// what is to be done if it does, which may use R0 to R5. A frame of a queue without a socket
    /// goes on to the stack.
    pub(crate) fn hand_over(&self, asm: &mut Asm, then: impl FnOnce(&mut Asm)) {
        self.hand_over.emit(asm, then);
    }

    /// Puts another program in the place of the port's own.
    pub(crate) fn replace(&self, program: &bpf::Program) -> io::Result<()> {
        self.attached.replace(program)
    }

    /// Puts the port's own program back.
    pub(crate) fn restore(&self) -> io::Result<()> {
        self.attached.replace(&self.own)
    }
}

impl HandOver {
    fn new(queues: u32, counts: bool) -> io::Result<HandOver> {
        let handed = counts.then(|| Map::array(WORDS, queues as usize)).transpose()?;
        Ok(HandOver { sockets: Map::sockets(queues)?, handed })
    }

    fn emit(&self, asm: &mut Asm, then: impl FnOnce(&mut Asm)) {
        let (refused, end) = (asm.label(), asm.label());
        asm.load(Width::W, Reg::R2, Reg::R6, context::RX_QUEUE_INDEX);
        asm.mov_map(Reg::R1, &self.sockets);
        asm.mov_imm(Reg::R3, Verdict::Pass as i32);
        asm.call(Helper::RedirectMap);
        let Some(handed) = &self.handed else { return asm.exit() };
        asm.jump_imm(If::Ne, Reg::R0, Verdict::Redirect as i32, refused);
        asm.load(Width::W, Reg::R1, Reg::R6, context::RX_QUEUE_INDEX);
        asm.lookup(handed, Reg::R1, end);
        // A queue's frames come one after the other.
        asm.bump(Reg::R0, 0, 1, Reg::R1);
        then(asm);
        asm.place(end);
        asm.mov_imm(Reg::R0, Verdict::Redirect as i32);
        asm.place(refused);
        asm.exit();
    }
}
