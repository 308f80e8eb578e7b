//! A controller: sessions and core of the daemon, joined as the daemon joins them. What it stores
//! is durable some time later.

use std::sync::Arc;
use std::time::Duration;

use plexus_control::hub::{self, Hub};
use plexus_control::identity::Identity;
use plexus_control::link::Pace;
use plexus_controller::{Config, Controller, Input, Output, Start};
use plexus_io::Packet;
use plexus_wire::fabric::message::LinkFacts;
use plexus_wire::{MacAddr, Time};

use crate::cable::PortIndex;
use crate::core::{Core, DeviceIndex, Event};
use crate::nic::Nic;
use crate::time::SimTime;

/// Seconds since 1970 when a simulation begins: leases are counted from it.
const BEGIN_UNIX_S: u64 = 1_700_000_000;
/// From a store's order to its durability: what a synchronised write to an SSD takes.
const STORE_DELAY: Duration = Duration::from_millis(2);
const MAC: MacAddr = MacAddr([0x02, 0x0C, 0, 0, 0, 1]);

/// A controller with one port.
pub(crate) struct SimController {
    device: DeviceIndex,
    nic: Nic,
    mtu: u16,
    hub: Hub,
    core: Controller,
}

impl SimController {
    pub(crate) fn new(
        device: DeviceIndex,
        port: PortIndex,
        mtu: u16,
        identity: Arc<Identity>,
        config: Config,
        seeds: [[u8; 32]; 2],
    ) -> SimController {
        const EPOCH: u64 = 1;
        let core = Controller::new(Start {
            config,
            epoch: EPOCH,
            now: Time::ZERO,
            unix_s: BEGIN_UNIX_S,
            stored: vec![],
            seed: seeds[0],
        });
        let hub = Hub::new(identity, EPOCH, Pace::default(), seeds[1]);
        SimController { device, nic: Nic::new(port), mtu, hub, core }
    }

    /// Its cable has been plugged in, or is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, up: bool) {
        let facts =
            LinkFacts { port: 0, mac: MAC, mtu: self.mtu, rate_mbit_per_s: 0, native: false };
        self.hub.handle(core.now.floor(), hub::Input::Port(up.then_some(facts)));
        self.carry_out(core);
    }

    /// A frame has come in.
    pub(crate) fn receive(&mut self, core: &mut Core, packet: Packet) {
        let bytes = core.pool.data(&packet).to_vec();
        core.pool.free(packet);
        self.hub.handle(core.now.floor(), hub::Input::Frame(bytes));
        self.carry_out(core);
    }

    /// What it had to store is durable.
    pub(crate) fn stored(&mut self, core: &mut Core, ticket: u64) {
        self.core.handle(core.now.floor(), Input::Stored { ticket });
        self.carry_out(core);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        let now = core.now.floor();
        if self.hub.next_deadline() <= now {
            self.hub.handle(now, hub::Input::Tick);
        }
        if self.core.next_deadline() <= now {
            self.core.handle(now, Input::Tick);
        }
        self.carry_out(core);
    }

    /// Its port.
    pub(crate) fn port(&self) -> PortIndex {
        self.nic.port()
    }

    /// How much it knows.
    pub(crate) fn known(&self) -> plexus_controller::Counts {
        self.core.counts()
    }

    fn carry_out(&mut self, core: &mut Core) {
        let now = core.now.floor();
        self.nic.run(core);
        loop {
            if let Some(output) = self.hub.poll_output() {
                let input = match output {
                    hub::Output::Transmit(frame) => {
                        if let Some(packet) = core.frame(&frame) {
                            self.nic.send(core, packet);
                        }
                        continue;
                    }
                    hub::Output::Refused(_) => continue,
                    hub::Output::Attached(to) => Input::Attached { to: to.map(|n| n.node) },
                    hub::Output::NodeUp { node, name } => Input::NodeUp { node, name },
                    hub::Output::Said { node, body } => Input::Message { node, request: 0, body },
                };
                self.core.handle(now, input);
                continue;
            }
            match self.core.poll_output() {
                None => break,
                Some(Output::Send { node, reliable, body, .. }) => {
                    self.hub.say(now, node, body, reliable);
                }
                Some(Output::Path { node, hops }) => {
                    // Its own port is the first hop.
                    self.hub.set_path(node, hops.map(|hops| [&[0], &hops[..]].concat()));
                }
                Some(Output::Store { ticket, .. }) => {
                    let stored = Event::Stored { device: self.device, ticket };
                    core.queue.push(core.now + STORE_DELAY.into(), stored);
                }
                Some(Output::Log(_)) => {}
            }
        }
        let deadline = self.hub.next_deadline().min(self.core.next_deadline());
        core.wake(self.device, SimTime::from(deadline).min(self.nic.next_deadline()));
    }

    /// Gives the frames that wait back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.nic.clear(core);
    }
}
