//! The XDP program that passes a device's frames to our sockets, attached by a link, so that it is
//! detached when the process ends in any way.

use std::io;
use std::os::fd::OwnedFd;

use crate::OpenError;
use crate::bpf::{self, Asm, Attached, Helper, Map, Reg, Verdict, Width, XdpMode, context};

/// The attached program and the map it looks its sockets up in.
pub(super) struct Program {
    attached: Attached,
    sockets: Map,
}

impl Program {
    /// Attaches to the interface; receive queues below `queues` may get a socket.
    pub(super) fn attach(
        device: &str,
        index: u32,
        queues: u32,
        mode: XdpMode,
    ) -> Result<Program, OpenError> {
        let sockets = Map::sockets(queues)
            .map_err(|e| bpf::refused(device, "creating an XDP socket map", e))?;
        let program = bpf::Program::load("plexus_xsk", to_sockets(&sockets))
            .map_err(|e| bpf::refused(device, "loading the XDP program", e))?;
        let attached = program.attach(device, index, mode)?;
        Ok(Program { attached, sockets })
    }

    /// True when the program runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.attached.is_native()
    }

    /// Passes frames of a receive queue to a socket.
    pub(super) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.sockets.set_socket(queue, socket)
    }
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);`: a frame of a queue without
/// a socket goes on to the stack.
fn to_sockets(sockets: &Map) -> Asm {
    let mut asm = Asm::new();
    asm.load(Width::W, Reg::R2, Reg::R1, context::RX_QUEUE_INDEX);
    asm.mov_map(Reg::R1, sockets);
    asm.mov_imm(Reg::R3, Verdict::Pass as i32);
    asm.call(Helper::RedirectMap);
    asm.exit();
    asm
}
