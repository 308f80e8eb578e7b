//! The fast table in the kernel, by XDP programs in the drivers (Linux 6.3): for ports with AF_XDP
//! sockets. It forwards small frames several times as fast as [`tcx`](super::tcx), which has whole
//! super-packets in its favour: before XDP the kernel cuts them.
//!
//! A port's own program hands all frames to its sockets. The table puts a program in its place that
//! carries out the port's rules first ([`program`]). A device is sent frames only while the kernel
//! says that it sends them: at a virtual cable the far end has to poll, else it drops them all.

mod owed;
mod program;
mod recent;

use std::io;
use std::sync::{Arc, Weak};

use self::program::Site;
use self::recent::Recent;
use super::kernel::program::Maps;
use super::kernel::{Driver, Kernel};
use super::{Entrance, KernelEnd};
use crate::af_xdp::PortProgram;
use crate::bpf::{Attached, Map, Program, Target, XdpMode};
use crate::netlink::Netdev;
use crate::packet::PortId;
use crate::{OpenError, bpf};

/// One worker's part of the table.
pub type Xdp = Kernel<Programs>;

/// Each port has a program of its own; this loads them.
#[derive(Debug)]
pub struct Programs {
    /// Where rules send frames, by port. A look-up in it costs less than one of a device's number.
    devices: Arc<Map>,
    recent: Arc<Recent>,
    /// Tells what devices can do. Opened when it is first asked, on the worker's thread.
    netdev: Option<Netdev>,
}

impl Clone for Programs {
    fn clone(&self) -> Programs {
        Programs { devices: self.devices.clone(), recent: self.recent.clone(), netdev: None }
    }
}

impl Xdp {
    /// A table for a box with as many ports, of which each worker gets a part for as many rules.
    ///
    /// # Errors
    /// When the kernel is older than 6.3 or this process may not make maps (CAP_BPF).
    pub fn parts(workers: usize, rules: usize, ports: usize) -> io::Result<Vec<Xdp>> {
        let too_old = || io::Error::from(io::ErrorKind::Unsupported);
        Netdev::open().ok_or_else(too_old)?;
        Kernel::of(workers, rules, ports, |maps| {
            let devices = Arc::new(Map::devices(maps.ports.count() as u32)?);
            Ok(Programs { devices, recent: Arc::new(Recent::new()?), netdev: None })
        })
    }
}

/// The table's program at a port.
#[derive(Debug)]
pub struct AtPort(Weak<PortProgram>);

impl Drop for AtPort {
    fn drop(&mut self) {
        // A port that is gone has taken the program with it.
        if let Some(port) = self.0.upgrade()
            && let Err(error) = port.restore()
        {
            tracing::debug!(%error, "the program of the fast table stays at a port");
        }
    }
}

impl Driver for Programs {
    type Place = AtPort;

    fn attach(&self, maps: &Maps, end: &KernelEnd<'_>) -> io::Result<AtPort> {
        let Entrance::Xdp(port) = end.entrance else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (devices, recent) = (&self.devices, &self.recent);
        let site = Site { maps, recent, devices, device: end.index, port };
        let program = Program::load("plexus_fast_xdp", program::at_port(&site))?;
        port.replace(&program)?;
        Ok(AtPort(Arc::downgrade(port)))
    }

    fn is_at(place: &AtPort, end: &KernelEnd<'_>) -> bool {
        let Entrance::Xdp(port) = end.entrance else { return false };
        std::ptr::eq(place.0.as_ptr(), Arc::as_ptr(port))
    }

    fn open(&self, port: PortId, end: &KernelEnd<'_>) -> io::Result<()> {
        self.devices.set_device(port.into(), end.index)
    }

    fn sends(&mut self, device: u32) -> bool {
        if self.netdev.is_none() {
            self.netdev = Netdev::open();
        }
        let features = self.netdev.as_mut().and_then(|netdev| netdev.follow(device));
        features.is_some_and(|features| features.sends_redirected)
    }
}

/// Sends every frame that a device receives out by another, as long as what it returns is kept: the
/// least that this table can cost.
///
/// # Errors
/// When there is no native XDP on it, another program is there, or rights are lacking.
pub fn redirect(from: &Target, to: u32) -> Result<Attached, OpenError> {
    let program = Program::load("plexus_bare_xdp", program::bare(to))
        .map_err(|e| bpf::refused(from.name(), "loading the XDP program", e))?;
    program.attach(from.name(), from.index(), XdpMode::Native)
}
