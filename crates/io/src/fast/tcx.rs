//! The fast table in the kernel, by BPF programs at the traffic-control hook (`tcx`, Linux 6.6).
//! Packets keep what they owe their device: super-packets and unfinished checksums pass as they
//! are. It works on every device that a packet socket works on, and needs that socket: its filter
//! is half of the table ([`program`]).

mod persist;
mod program;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use self::persist::{Persist, end_persisting};
use self::program::SCRATCH_WORDS;
use super::kernel::program::Maps;
use super::kernel::{Driver, Kernel, Owed};
use super::{Entrance, KernelEnd};
use crate::bpf::{Map, Place, Program};
use crate::netlink::Cables;
use crate::packet::PortId;

/// One worker's part of the table.
pub type Tcx = Kernel<Programs>;

/// The two programs, which serve all ports.
#[derive(Debug)]
pub struct Programs {
    filter: Arc<Program>,
    at_hook: Arc<Program>,
    persist: Option<Arc<Persist>>,
    /// Tells where cables lead. It begins when it is first asked, on the worker's thread.
    cables: Option<Cables>,
}

impl Clone for Programs {
    fn clone(&self) -> Programs {
        let Programs { filter, at_hook, persist, .. } = self;
        let (filter, at_hook, persist) = (filter.clone(), at_hook.clone(), persist.clone());
        Programs { filter, at_hook, persist, cables: None }
    }
}

/// A program at a device's hook.
#[derive(Debug)]
pub struct AtHook {
    device: u32,
    /// Closing it detaches the program, unless it persists.
    _link: OwnedFd,
}

impl Tcx {
    /// A table for a box with as many ports, of which each worker gets a part for as many rules.
    ///
    /// # Errors
    /// When the kernel is older than 6.6, or this process may not load programs (CAP_BPF,
    /// CAP_NET_ADMIN).
    pub fn parts(
        workers: usize,
        rules: usize,
        ports: usize,
        persist: Option<Persist>,
    ) -> io::Result<Vec<Tcx>> {
        Kernel::of(workers, rules, ports, |maps| Programs::load(maps, persist))
    }
}

impl Programs {
    fn load(maps: &Maps, persist: Option<Persist>) -> io::Result<Programs> {
        let notes = Map::per_processor(SCRATCH_WORDS)?;
        let filter = program::filter(maps, &notes, persist.is_some());
        let filter = Program::load_for(Place::Socket, "plexus_filter", filter)?;
        let at_hook = program::at_hook(maps, &notes, persist.is_some());
        let at_hook = Program::load_for(Place::Ingress, "plexus_fast", at_hook)?;
        let persist = persist.map(Arc::new);
        let (filter, at_hook) = (Arc::new(filter), Arc::new(at_hook));
        Ok(Programs { filter, at_hook, persist, cables: None })
    }
}

impl Driver for Programs {
    type Place = AtHook;

    fn attach(&self, _: &Maps, end: &KernelEnd<'_>) -> io::Result<AtHook> {
        let Entrance::Socket(_) = end.entrance else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let link = self.at_hook.attach_to_ingress(end.index)?;
        if let Some(persist) = &self.persist {
            persist.keep(end.index, &link)?;
        }
        Ok(AtHook { device: end.index, _link: link })
    }

    fn is_at(_: &AtHook, _: &KernelEnd<'_>) -> bool {
        true
    }

    fn open(&self, _: PortId, end: &KernelEnd<'_>) -> io::Result<()> {
        match end.entrance {
            Entrance::Socket(socket) => self.filter.filter(socket),
            Entrance::Xdp(_) => Ok(()),
        }
    }

    fn sends(&mut self, _: u32) -> bool {
        true
    }

    fn owed(&mut self, device: u32, peer_takes_owed: bool) -> Owed {
        if self.cables.is_none() {
            self.cables = Cables::watch().ok();
        }
        let comes = self.cables.as_ref().is_some_and(|cables| cables.reaches_socket(device));
        Owed { comes, may_leave: comes && peer_takes_owed }
    }

    fn samples(&self) -> bool {
        true
    }

    fn until(&self) -> u64 {
        self.persist.as_ref().map_or(0, |persist| persist.until())
    }

    fn detach(&self, place: AtHook) {
        if let Some(cables) = &self.cables {
            cables.forget(place.device);
        }
        if let Some(persist) = &self.persist {
            persist.give_up(place.device);
        }
    }
}

/// Sends every packet that a device receives out by another, as long as what it returns is kept:
/// the least that a fast table can cost.
///
/// # Errors
/// As for [`Tcx::parts`].
pub fn redirect(from: u32, to: u32) -> io::Result<OwnedFd> {
    let program = Program::load_for(Place::Ingress, "plexus_bare", program::bare(to))?;
    program.attach_to_ingress(from)
}
