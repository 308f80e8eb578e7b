//! A controller: sessions and core of the daemon, joined as the daemon joins them. Its writes
//! become durable some time later.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use plexus_control::hub::{self, Hub};
use plexus_control::identity::Identity;
use plexus_control::link::Pace;
use plexus_controller::{Change, Config, Controller, Input, Output, Record, Start};
use plexus_io::Packet;
use plexus_wire::fabric::message::LinkFacts;
use plexus_wire::{MacAddr, Time};

use crate::cable::PortIndex;
use crate::clock::Clock;
use crate::core::{Core, DeviceIndex, Event};
use crate::nic::Nic;
use crate::time::SimTime;

/// Seconds since 1970 when a simulation begins: leases are counted from it.
const BEGIN_UNIX_S: u64 = 1_700_000_000;
/// From an order to store until the data is durable: a synchronised write to an SSD.
const STORE_DELAY: Duration = Duration::from_millis(2);
const MAC: MacAddr = MacAddr([0x02, 0x0C, 0, 0, 0, 1]);

/// A controller with one port.
pub(crate) struct SimController {
    device: DeviceIndex,
    pub(crate) nic: Nic,
    mtu: u16,
    identity: Arc<Identity>,
    config: Config,
    disk: Disk,
    epoch: u64,
    /// Its own clock.
    clock: Clock,
    /// `None` while it is down.
    running: Option<Running>,
}

/// What a crash ends.
struct Running {
    hub: Hub,
    core: Controller,
}

/// What survives a crash.
#[derive(Default)]
struct Disk {
    leases: BTreeMap<Ipv4Addr, Record>,
    /// Changes that are being written, by the number of the write. A crash loses them.
    writing: BTreeMap<u64, (u64, Vec<Change>)>,
    writes: u64,
}

impl Disk {
    /// Begins to write changes; they are durable when the write of this number ends.
    fn begin(&mut self, ticket: u64, changes: Vec<Change>) -> u64 {
        self.writes += 1;
        self.writing.insert(self.writes, (ticket, changes));
        self.writes
    }

    /// A write has ended: the ticket of its changes, unless the controller has crashed since.
    fn end(&mut self, write: u64) -> Option<u64> {
        let (ticket, changes) = self.writing.remove(&write)?;
        for change in changes {
            match change {
                Change::Put(record @ Record::Lease(lease)) => {
                    self.leases.insert(lease.ip, record);
                }
                Change::RemoveLease(ip) => {
                    self.leases.remove(&ip);
                }
            }
        }
        Some(ticket)
    }
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
        let (nic, disk) = (Nic::new(port), Disk::default());
        let (epoch, clock, running) = (0, Clock::TRUE, None);
        let mut made =
            SimController { device, nic, mtu, identity, config, disk, epoch, clock, running };
        made.start(SimTime::ZERO, seeds);
        made
    }

    /// Starts it, with what is on its disk.
    fn start(&mut self, now: SimTime, seeds: [[u8; 32]; 2]) {
        self.epoch += 1;
        let now = self.clock.read(now);
        let core = Controller::new(Start {
            config: self.config.clone(),
            epoch: self.epoch,
            now,
            unix_s: BEGIN_UNIX_S + now.since(Time::ZERO).as_secs(),
            stored: self.disk.leases.values().copied().collect(),
            seed: seeds[0],
        });
        let mut hub = Hub::new(self.identity.clone(), Pace::default(), seeds[1]);
        hub.lead(now, self.epoch);
        self.running = Some(Running { hub, core });
    }

    /// It stops at once and loses everything that is not on its disk.
    pub(crate) fn crash(&mut self, core: &mut Core) {
        self.running = None;
        self.disk.writing.clear();
        self.nic.clear(core);
    }

    /// It starts anew.
    pub(crate) fn restart(&mut self, core: &mut Core, seeds: [[u8; 32]; 2]) {
        self.start(core.now, seeds);
        self.carry_out(core);
    }

    /// Its clock jumps ahead, and runs this many millionths too fast from now on.
    pub(crate) fn set_clock(&mut self, core: &mut Core, ppm: f64, ahead: Duration) {
        self.clock.set(core.now, ppm, ahead);
        self.carry_out(core);
    }

    /// Its cable has been plugged in, or is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, up: bool) {
        let facts =
            LinkFacts { port: 0, mac: MAC, mtu: self.mtu, rate_mbit_per_s: 0, native: false };
        let Some(running) = &mut self.running else { return };
        running.hub.handle(self.clock.read(core.now), hub::Input::Port(up.then_some(facts)));
        self.carry_out(core);
    }

    /// A frame has come in.
    pub(crate) fn receive(&mut self, core: &mut Core, packet: Packet) {
        let Some(packet) = self.nic.check(core, packet) else { return };
        let bytes = core.pool.data(&packet).to_vec();
        core.pool.free(packet);
        let Some(running) = &mut self.running else { return };
        running.hub.handle(self.clock.read(core.now), hub::Input::Frame(bytes));
        self.carry_out(core);
    }

    /// The write of this number is durable.
    pub(crate) fn stored(&mut self, core: &mut Core, write: u64) {
        let (Some(ticket), Some(running)) = (self.disk.end(write), &mut self.running) else {
            return;
        };
        running.core.handle(self.clock.read(core.now), Input::Stored { ticket });
        self.carry_out(core);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        let now = self.clock.read(core.now);
        let Some(running) = &mut self.running else { return };
        if running.hub.next_deadline() <= now {
            running.hub.handle(now, hub::Input::Tick);
        }
        if running.core.next_deadline() <= now {
            running.core.handle(now, Input::Tick);
        }
        self.carry_out(core);
    }

    /// Hands its core an input from outside of the network. False while it is down.
    pub(crate) fn tell(&mut self, core: &mut Core, input: Input) -> bool {
        let Some(running) = &mut self.running else { return false };
        running.core.handle(self.clock.read(core.now), input);
        self.carry_out(core);
        true
    }

    /// Its core, unless it is down.
    pub(crate) fn core(&self) -> Option<&Controller> {
        self.running.as_ref().map(|running| &running.core)
    }

    fn carry_out(&mut self, core: &mut Core) {
        let now = self.clock.read(core.now);
        self.nic.run(core);
        let Some(running) = &mut self.running else { return };
        loop {
            if let Some(output) = running.hub.poll_output() {
                let input = match output {
                    hub::Output::Transmit(frame) => {
                        if let Some(packet) = core.frame(&frame) {
                            self.nic.send(core, packet);
                        }
                        continue;
                    }
                    hub::Output::Refused(_)
                    | hub::Output::NumberTaken { .. }
                    | hub::Output::Stranger(_)
                    | hub::Output::Leader(_) => continue,
                    hub::Output::Attached(to) => Input::Attached { to: to.map(|n| n.node) },
                    hub::Output::NodeUp { node, name } => Input::NodeUp { node, name },
                    hub::Output::Said { node, body } => Input::Message { node, request: 0, body },
                };
                running.core.handle(now, input);
                continue;
            }
            match running.core.poll_output() {
                None => break,
                Some(Output::Send { node, reliable, body, .. }) => {
                    running.hub.say(now, node, body, reliable);
                }
                Some(Output::Path { node, hops }) => {
                    // Its own port is the first hop.
                    running.hub.set_path(node, hops.map(|hops| [&[0], &hops[..]].concat()));
                }
                Some(Output::Store { ticket, changes }) => {
                    let write = self.disk.begin(ticket, changes);
                    let stored = Event::Stored { device: self.device, write };
                    core.queue.push(core.now + STORE_DELAY.into(), stored);
                }
                Some(Output::Log(_)) => {}
            }
        }
        let deadline = running.hub.next_deadline().min(running.core.next_deadline());
        core.wake(self.device, self.clock.when(deadline).min(self.nic.next_deadline()));
    }

    /// Gives the frames that wait back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.nic.clear(core);
    }
}
