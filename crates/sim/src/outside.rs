//! Hosts outside of the simulation: the caller has their frames, and the simulation their cable.
//!
//! The simulator still reads no clock. The caller moves it on with [`Sim::run_until`], hands in
//! frames that came meanwhile, and takes out frames that have arrived.

use std::time::Duration;

use plexus_io::{Offload, Packet};
use plexus_topo::Fidelity;

use crate::build::Place;
use crate::host::ANNOUNCEMENTS;
use crate::sim::Sim;
use crate::time::SimTime;

/// When hosts announce their addresses that did not before.
const ANNOUNCE_FROM: Duration = Duration::from_secs(1);

/// A frame that has arrived at a host that is not simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The host: index into [`Topology::hosts`](plexus_topo::Topology::hosts).
    pub host: usize,
    /// When its last bit arrived there.
    pub at: SimTime,
    /// From the destination address to the last byte before the checksum.
    pub frame: Vec<u8>,
}

impl Sim {
    /// Takes a host out of the simulation. It does nothing by itself, and frames for it go to
    /// [`poll_outside`](Sim::poll_outside). Its cable stays, and so does the interface that sends
    /// on it, with its queue. Call it before the network converges. The topology's flows must not
    /// use the host.
    ///
    /// # Errors
    /// In words, when the network has no such host, or no queues for what it may send.
    pub fn attach(&mut self, host: usize) -> Result<(), String> {
        let Some(named) = self.topology.hosts.get(host) else {
            return Err(format!("there is no host number {host}"));
        };
        if self.topology.fidelity == Fidelity::Control {
            return Err(format!(
                "host {}: what a host outside sends is traffic, which fidelity = \"control\" has \
                 no queues for: simulate it with fidelity = \"full\"",
                named.name
            ));
        }
        let is_outside = |(place, _): &(Place, u16)| matches!(place, Place::Outside(_));
        if !self.devices.owners.iter().any(is_outside) {
            // From outside they may be spoken to over IPv6 too.
            for (simulated, named) in self.devices.hosts.iter_mut().zip(&self.topology.hosts) {
                simulated.configure(named, true);
                if simulated.has_any_address() {
                    let first = || (ANNOUNCE_FROM.into(), ANNOUNCEMENTS);
                    simulated.announce.get_or_insert_with(first);
                }
            }
        }
        self.devices.hosts[host].leave();
        for (owner, _) in &mut self.devices.owners {
            if *owner == Place::Host(host) {
                *owner = Place::Outside(host);
            }
        }
        Ok(())
    }

    /// A host outside sends a frame, now. `offload` is the work that was left to its device. False
    /// if there is no such host, the frame is too long, or the interface's queue is full.
    pub fn send_from_outside(&mut self, host: usize, frame: &[u8], offload: Offload) -> bool {
        let Some(simulated) = self.devices.hosts.get_mut(host) else { return false };
        let Some(mut packet) = self.core.frame(frame) else { return false };
        packet.offload = offload;
        let is_sent = simulated.nic.send(&mut self.core, packet);
        simulated.rest(&mut self.core);
        is_sent
    }

    /// The next frame that has arrived at a host that is not simulated, in the order of time.
    pub fn poll_outside(&mut self) -> Option<Leaving> {
        self.leaving.pop_front()
    }

    /// When the next event is; `None` if there is none before a frame comes from outside.
    pub fn next_event(&self) -> Option<SimTime> {
        self.core.queue.next_at()
    }

    /// How far the clock is.
    pub fn now(&self) -> SimTime {
        self.core.now
    }

    pub(crate) fn leave(&mut self, host: usize, packet: Packet) {
        let nic = &mut self.devices.hosts[host].nic;
        let Some(packet) = nic.check(&mut self.core, packet) else { return };
        let frame = self.core.pool.data(&packet).to_vec();
        self.core.pool.free(packet);
        self.leaving.push_back(Leaving { host, at: self.core.now, frame });
    }
}
