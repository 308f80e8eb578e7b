//! A controller: tenure, sessions and core of the daemon, joined as the daemon joins them. Its
//! writes become durable some time later.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plexus_control::hub::{self, Hub};
use plexus_control::identity::Identity;
use plexus_control::link::Pace;
use plexus_controller::reign::{Follows, Reign};
use plexus_controller::tenure::{self, Answer, Ask, Tenure, Times};
use plexus_controller::{Config, Controller, Counts, Input, Output, Record, Start};
use plexus_io::Packet;
use plexus_wire::fabric::message::{LinkFacts, PROVISIONAL_EPOCH};
use plexus_wire::{MacAddr, Time};

use crate::cable::PortIndex;
use crate::clock::Clock;
use crate::core::{Core, DeviceIndex, Event};
use crate::nic::Nic;
use crate::store::{Disk, STORE_DELAY};
use crate::time::SimTime;

/// Events that are kept.
const EVENTS: usize = 200;
/// Seconds since 1970 when a simulation begins: leases are counted from it.
const BEGIN_UNIX_S: u64 = 1_700_000_000;
/// The length of a lease of leadership, as usual.
const LEASE: Duration = Duration::from_secs(2);

/// The place of a controller's port.
pub(crate) struct Lead {
    pub(crate) device: DeviceIndex,
    pub(crate) port: PortIndex,
    pub(crate) mtu: u16,
}

/// A controller with one port.
pub(crate) struct SimController {
    device: DeviceIndex,
    pub(crate) nic: Nic,
    facts: LinkFacts,
    identity: Arc<Identity>,
    config: Config,
    store: Store,
    /// Its own clock.
    clock: Clock,
    /// `None` while it is down.
    running: Option<Running>,
    /// Reasons why it is down.
    down: u32,
    /// The latest events, by the simulation's clock.
    pub(crate) events: VecDeque<(Time, plexus_controller::Event)>,
}

/// Its store, which survives a crash.
enum Store {
    Own(Disk),
    /// Which of the controllers it is that share the store.
    Shared(usize),
}

/// What a crash ends.
struct Running {
    hub: Hub,
    reign: Reign,
    attached: Option<u64>,
    seed: [u8; 32],
}

impl SimController {
    /// `shares`: which of several controllers it is, if they share a store.
    pub(crate) fn new(
        Lead { device, port, mtu }: Lead,
        identity: Arc<Identity>,
        config: Config,
        seeds: [[u8; 32]; 2],
        shares: Option<usize>,
    ) -> SimController {
        let number = shares.unwrap_or(0) as u8 + 1;
        let mac = MacAddr([0x02, 0x0C, 0, 0, 0, number]);
        let facts =
            LinkFacts { port: 0, mac, mtu, rate_mbit_per_s: 0, native: false, takes_owed: false };
        let mut made = SimController {
            device,
            nic: Nic::new(port),
            facts,
            identity,
            config,
            store: shares.map_or_else(|| Store::Own(Disk::default()), Store::Shared),
            clock: Clock::TRUE,
            running: None,
            down: 0,
            events: VecDeque::new(),
        };
        made.start(SimTime::ZERO, seeds);
        made
    }

    /// Starts it, with what it has stored.
    fn start(&mut self, now: SimTime, [seed, hub_seed]: [[u8; 32]; 2]) {
        let now = self.clock.read(now);
        let (name, number) = (&self.identity.claims().name, self.identity.claims().node);
        let times = match self.store {
            Store::Own(_) => Times::ALONE,
            Store::Shared(_) => Times::shared(LEASE, Pace::default().heartbeat),
        };
        self.running = Some(Running {
            hub: Hub::new(self.identity.clone(), Pace::default(), hub_seed),
            reign: Reign::new(Tenure::new(name, number, times)),
            attached: None,
            seed,
        });
        if let Store::Own(_) = self.store {
            // Nobody else leads.
            self.hear(now, Answer::Leader(None));
            self.follow_tenure(now);
        }
    }

    /// It stops at once and loses everything that is not stored.
    pub(crate) fn crash(&mut self, core: &mut Core) {
        self.down += 1;
        self.running = None;
        match &mut self.store {
            Store::Own(disk) => disk.crash(),
            Store::Shared(client) => {
                core.with_etcd(|etcd, _, _| etcd.crash(*client));
            }
        }
        self.nic.clear(core);
    }

    /// A reason why it is down has passed; after the last one it starts anew.
    pub(crate) fn restart(&mut self, core: &mut Core, seeds: [[u8; 32]; 2]) {
        self.down -= 1;
        if self.down > 0 {
            return;
        }
        self.start(core.now, seeds);
        if let Store::Shared(client) = self.store {
            core.with_etcd(|etcd, now, queue| etcd.begin(now, queue, client));
        }
        self.carry_out(core);
    }

    /// Its clock jumps ahead, and runs this many millionths too fast from now on.
    pub(crate) fn set_clock(&mut self, core: &mut Core, ppm: f64, ahead: Duration) {
        self.clock.set(core.now, ppm, ahead);
        self.carry_out(core);
    }

    /// Its cable has been plugged in, or is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, up: bool) {
        let Some(running) = &mut self.running else { return };
        running.hub.handle(self.clock.read(core.now), hub::Input::Port(up.then_some(self.facts)));
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

    /// Its store has served a request.
    pub(crate) fn hear_store(&mut self, core: &mut Core, number: u64) {
        let answer = match &mut self.store {
            Store::Own(disk) => disk.end(number),
            Store::Shared(_) => core.arrive_at_etcd(number),
        };
        let Some(answer) = answer else { return };
        let now = self.clock.read(core.now);
        self.hear(now, answer);
        self.carry_out(core);
    }

    fn hear(&mut self, now: Time, answer: Answer) {
        if let Some(running) = &mut self.running {
            running.reign.hear(now, answer);
        }
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        let now = self.clock.read(core.now);
        let Some(running) = &mut self.running else { return };
        if running.hub.next_deadline() <= now {
            running.hub.handle(now, hub::Input::Tick);
        }
        running.reign.run(now, 0);
        self.carry_out(core);
    }

    /// Hands its core an input from outside of the network. False if it does not lead.
    pub(crate) fn tell(&mut self, core: &mut Core, input: Input) -> bool {
        let Some(own) = self.running.as_mut().and_then(|running| running.reign.core.as_mut())
        else {
            return false;
        };
        own.handle(self.clock.read(core.now), input);
        self.carry_out(core);
        true
    }

    pub(crate) fn device(&self) -> DeviceIndex {
        self.device
    }

    /// Its core, if it leads.
    pub(crate) fn core(&self) -> Option<&Controller> {
        self.running.as_ref()?.reign.core.as_ref()
    }

    /// What its core knows, whether it leads or follows.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.running.as_ref()?.reign.counts()
    }

    /// Whether it leads and may promise something.
    pub(crate) fn is_sure(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.reign.is_sure())
    }

    /// Carries out what the tenure wants; requests to a shared store are left to do.
    fn follow_tenure(&mut self, now: Time) -> Vec<Ask> {
        let mut asks = Vec::new();
        let Some(running) = &mut self.running else { return asks };
        while let Some(output) = running.reign.poll_output(now) {
            match (output, &mut self.store) {
                (tenure::Output::Ask(ask), Store::Shared(_)) => asks.push(ask),
                (tenure::Output::Ask(ask), Store::Own(disk)) => {
                    if let Some(answer) = disk.ask(ask) {
                        running.reign.tenure.answer(now, answer);
                    }
                }
                (tenure::Output::Lead { epoch, stored }, _) => {
                    running.lead(now, &self.config, epoch, stored);
                }
                (tenure::Output::Doubt(_), _) => {}
                (tenure::Output::Retire(_), _) => running.hub.stand_by(now),
            }
        }
        asks
    }

    fn carry_out(&mut self, core: &mut Core) {
        let now = self.clock.read(core.now);
        self.nic.run(core);
        loop {
            for ask in self.follow_tenure(now) {
                self.ask_etcd(core, ask);
            }
            let Some(running) = &mut self.running else { return };
            running.follow(now, &self.config);
            if let Some(output) = running.hub.poll_output() {
                match running.hub_output(now, output) {
                    Some(Heard::Frame(frame)) => {
                        if let Some(packet) = core.frame(&frame) {
                            self.nic.send(core, packet);
                        }
                    }
                    Some(Heard::Input(input)) => running.reign.handle(now, input),
                    None => {}
                }
                continue;
            }
            match running.reign.poll_core() {
                None => break,
                Some(Output::Send { node, reliable, body, .. }) => {
                    running.hub.say(now, node, body, reliable);
                }
                Some(Output::Path { node, hops }) => {
                    // Its own port is the first hop.
                    running.hub.set_path(node, hops.map(|hops| [&[0], &hops[..]].concat()));
                }
                Some(Output::Store { ticket, changes }) => {
                    let Some(epoch) = running.reign.core.as_ref().map(Controller::epoch) else {
                        break;
                    };
                    match &mut self.store {
                        Store::Shared(_) => {
                            self.ask_etcd(core, Ask::Write { epoch, ticket, changes });
                        }
                        Store::Own(disk) => {
                            let number = disk.write(epoch, ticket, changes);
                            let stored = Event::Store { device: Some(self.device), number };
                            core.queue.push(core.now + STORE_DELAY.into(), stored);
                        }
                    }
                }
                // Nobody asks here.
                Some(Output::Explained { .. }) => {}
                // Nobody applies a common file.
                Some(Output::CommonTold { .. } | Output::CommonKept) => {}
                Some(Output::Log(event)) => {
                    if self.events.len() == EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back((core.now.floor(), event));
                }
            }
        }
        let deadline = self.running.as_ref().map_or(Time::FOREVER, Running::next_deadline);
        core.wake(self.device, self.clock.when(deadline).min(self.nic.next_deadline()));
    }

    fn ask_etcd(&self, core: &mut Core, ask: Ask) {
        if let Store::Shared(client) = self.store {
            core.with_etcd(|etcd, now, queue| etcd.ask(now, queue, client, ask));
        }
    }

    /// Gives the frames that wait back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.nic.clear(core);
    }
}

/// An output of its sessions, to be carried out.
enum Heard {
    /// A frame to send.
    Frame(Vec<u8>),
    /// An input for its core.
    Input(Input),
}

impl Running {
    fn lead(&mut self, now: Time, config: &Config, epoch: u64, stored: Vec<Record>) {
        let own = self.reign.lead(Start {
            config: config.clone(),
            epoch,
            provisional: epoch == PROVISIONAL_EPOCH,
            now,
            unix_s: BEGIN_UNIX_S + now.since(Time::ZERO).as_secs(),
            stored,
            seed: self.seed,
        });
        // The next time is another one.
        self.seed[0] = self.seed[0].wrapping_add(1);
        if let Some(node) = self.attached {
            own.handle(now, Input::Attached { to: Some(node) });
        }
        self.hub.lead(now, epoch);
    }

    /// Begins or ends to follow the nodes, as the tenure says.
    fn follow(&mut self, now: Time, config: &Config) {
        match self.reign.follow(now, config, || self.seed) {
            Some(Follows::Began) => {
                self.reign.handle(now, Input::Attached { to: self.attached });
                self.hub.follow();
            }
            Some(Follows::Ended) => self.hub.stand_by(now),
            None => {}
        }
    }

    fn hub_output(&mut self, now: Time, output: hub::Output) -> Option<Heard> {
        Some(Heard::Input(match output {
            hub::Output::Transmit(frame) => return Some(Heard::Frame(frame)),
            hub::Output::Refused(_)
            | hub::Output::NumberTaken { .. }
            | hub::Output::Stranger(_) => return None,
            hub::Output::Leader(leader) => {
                self.reign.tenure.hear(now, leader);
                return None;
            }
            hub::Output::Attached(to) => {
                self.attached = to.map(|neighbour| neighbour.node);
                self.reign.tenure.attach(now, self.attached.is_some());
                Input::Attached { to: self.attached }
            }
            hub::Output::NodeUp { node, name, version } => Input::NodeUp { node, name, version },
            hub::Output::Said { node, body } => Input::Message { node, request: 0, body },
        }))
    }

    fn next_deadline(&self) -> Time {
        self.hub.next_deadline().min(self.reign.next_deadline())
    }
}
