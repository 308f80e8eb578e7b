//! The spanning tree of IEEE 802.1D-1998, clause 8: the classic one, as the bridge of the Linux
//! kernel implements it, with its timers and topology change notifications. Not the rapid one of
//! 802.1w: it is compared with the real bridges in `labs/failover-stp.toml`.
//!
//! A [`Bridge`] decides the states of its ports; learning, ageing and forwarding belong to its
//! driver. Section numbers are the standard's. Where it leaves a choice, this follows Linux: a
//! message ages by 1/256 s at every bridge, the smallest step (table 8-3 allows up to a second), so
//! that trees may be deeper than twenty hops.

mod bpdu;
mod ports;

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::{MacAddr, Time};

use crate::Input;
pub use bpdu::{Bpdu, BridgeId, Config, GROUP, Refused};
use ports::{Port, Vector};
pub use ports::{PortState, path_cost};

/// Times of table 8-3, as Linux has them.
const HELLO_TIME: Duration = Duration::from_secs(2);
const MAX_AGE: Duration = Duration::from_secs(20);
/// Between two messages of a port (table 8-3, fixed).
const HOLD_TIME: Duration = Duration::from_secs(1);
/// How much a bridge adds at least to a message's age: 1/256 s.
const AGE_STEP: Duration = Duration::from_nanos(1_000_000_000 / 256);

/// Configuration of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The more significant part of its identifier.
    pub priority: u16,
    /// Its address, the other part; frames come from it too.
    pub address: MacAddr,
    /// Time in each of the states listening and learning, if it is the root.
    pub forward_delay: Duration,
}

/// Outputs of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a frame.
    Transmit {
        /// Out of this port.
        port: u16,
        /// The frame, padded, without FCS.
        frame: Vec<u8>,
    },
    /// A port is in this state from now on.
    State {
        /// The port.
        port: u16,
        /// Its state.
        state: PortState,
    },
    /// Stations are to be forgotten after this time without a word, while a topology change lasts;
    /// absent: after the usual time again (8.3.5).
    Ageing(Option<Duration>),
}

/// A bridge's spanning tree entity.
#[derive(Debug)]
pub struct Bridge {
    settings: Settings,
    id: BridgeId,
    ports: Vec<Port>,
    root: BridgeId,
    root_path_cost: u32,
    root_port: Option<usize>,
    /// In force: the root's.
    max_age: Duration,
    hello_time: Duration,
    forward_delay: Duration,
    topology_change: bool,
    topology_change_detected: bool,
    /// When the timers of 8.5.4 are over; `FOREVER`: not running.
    hello_at: Time,
    tcn_at: Time,
    topology_change_at: Time,
    /// The last ageing time requested.
    ageing: Option<Duration>,
    deadline: Time,
    outputs: VecDeque<Output>,
}

impl Bridge {
    /// A bridge with this many ports, none of which has a carrier. It takes itself for the root.
    pub fn new(settings: Settings, ports: u16) -> Bridge {
        let id = BridgeId::new(settings.priority, settings.address);
        Bridge {
            settings,
            id,
            ports: (1..=ports).map(|number| Port::new(number, id)).collect(),
            root: id,
            root_path_cost: 0,
            root_port: None,
            max_age: MAX_AGE,
            hello_time: HELLO_TIME,
            forward_delay: settings.forward_delay,
            topology_change: false,
            topology_change_detected: false,
            hello_at: Time::FOREVER,
            tcn_at: Time::FOREVER,
            topology_change_at: Time::FOREVER,
            ageing: None,
            deadline: Time::FOREVER,
            outputs: VecDeque::new(),
        }
    }

    /// Processes an input and does everything that is due. Frames other than BPDUs are ignored.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Port { port, rate_bits_per_s } => {
                if usize::from(port) < self.ports.len() {
                    match rate_bits_per_s {
                        Some(rate) => self.enable(now, usize::from(port), rate),
                        None => self.disable(now, usize::from(port)),
                    }
                }
            }
            Input::Frame { port, bytes } => {
                if let Ok(bpdu) = Bpdu::of_frame(bytes) {
                    self.receive(now, usize::from(port), &bpdu);
                }
            }
            Input::Tick => {}
        }
        if self.deadline <= now {
            self.run_timers(now);
        }
        self.rest();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`].
    pub fn next_deadline(&self) -> Time {
        self.deadline
    }

    /// Its identifier.
    pub fn id(&self) -> BridgeId {
        self.id
    }

    /// Its root bridge, and the path cost to it.
    pub fn root(&self) -> (BridgeId, u32) {
        (self.root, self.root_path_cost)
    }

    /// Its port towards the root; none: it is the root itself.
    pub fn root_port(&self) -> Option<u16> {
        self.root_port.map(|port| port as u16)
    }

    /// The state of a port; a port that it does not have is disabled.
    pub fn state(&self, port: u16) -> PortState {
        self.ports.get(usize::from(port)).map_or(PortState::Disabled, |p| p.state)
    }

    /// Whether it is the designated bridge for a port's segment (8.5.5.6).
    pub fn is_designated(&self, port: u16) -> bool {
        self.ports.get(usize::from(port)).is_some_and(|p| p.is_designated(self.id))
    }

    /// Whether no port listens or learns: nothing will change unless something happens.
    pub fn is_settled(&self) -> bool {
        let moving = [PortState::Listening, PortState::Learning];
        !self.ports.iter().any(|p| moving.contains(&p.state))
    }

    fn is_root(&self) -> bool {
        self.root == self.id
    }

    /// Enable port (8.8.2).
    fn enable(&mut self, now: Time, port: usize, rate_bits_per_s: u64) {
        if self.ports[port].state != PortState::Disabled {
            return;
        }
        self.ports[port].path_cost = path_cost(rate_bits_per_s);
        self.become_designated(port);
        self.set_state(port, PortState::Blocking);
        self.select_states(now);
        if self.is_root() && self.hello_at == Time::FOREVER {
            self.send_configs(now);
            self.hello_at = now + self.hello_time;
        }
    }

    /// Disable port (8.8.3).
    fn disable(&mut self, now: Time, port: usize) {
        if self.ports[port].state == PortState::Disabled {
            return;
        }
        let was_root = self.is_root();
        self.set_state(port, PortState::Disabled);
        self.ports[port].stop();
        self.become_designated(port);
        self.update(now);
        self.become_root_if(now, !was_root);
    }

    /// Received BPDU (8.7.1, 8.7.2).
    fn receive(&mut self, now: Time, port: usize, bpdu: &Bpdu) {
        if self.ports.get(port).is_none_or(|p| p.state == PortState::Disabled) {
            return;
        }
        match bpdu {
            Bpdu::Config(config) => self.receive_config(now, port, config),
            Bpdu::TopologyChange if self.ports[port].is_designated(self.id) => {
                self.detect_change(now);
                // Acknowledge topology change (8.6.16).
                self.ports[port].topology_change_ack = true;
                self.send_config(now, port);
            }
            Bpdu::TopologyChange => {}
        }
    }

    fn receive_config(&mut self, now: Time, port: usize, config: &Config) {
        let own = config.bridge == self.id && config.port == self.ports[port].id;
        if config.message_age >= config.max_age || own {
            return;
        }
        if !self.ports[port].is_superseded_by(config, self.id) {
            // Reply to the worse word of another bridge (8.6.5).
            if self.ports[port].is_designated(self.id) {
                self.send_config(now, port);
            }
            return;
        }
        let was_root = self.is_root();
        self.ports[port].record(now, config);
        self.update(now);
        if was_root && !self.is_root() {
            self.hello_at = Time::FOREVER;
            if self.topology_change_detected {
                self.topology_change_at = Time::FOREVER;
                self.send_notice(now);
            }
        }
        if self.root_port == Some(port) {
            // Record configuration timeout values (8.6.3).
            self.max_age = config.max_age;
            self.hello_time = config.hello_time;
            self.forward_delay = config.forward_delay;
            self.topology_change = config.topology_change;
            self.send_configs(now);
            if config.topology_change_ack {
                // Topology change acknowledged (8.6.15).
                self.topology_change_detected = false;
                self.tcn_at = Time::FOREVER;
            }
        }
    }

    /// Configuration BPDU generation (8.6.4).
    fn send_configs(&mut self, now: Time) {
        for port in 0..self.ports.len() {
            let own = &self.ports[port];
            if own.is_designated(self.id) && own.state != PortState::Disabled {
                self.send_config(now, port);
            }
        }
    }

    /// Transmit configuration BPDU (8.6.1).
    fn send_config(&mut self, now: Time, port: usize) {
        if self.ports[port].hold_at != Time::FOREVER {
            self.ports[port].config_pending = true;
            return;
        }
        // The message is as old as the one received on the root port.
        let age = self.root_port.map(|p| self.ports[p].age(now) + AGE_STEP);
        let message_age = age.unwrap_or_default();
        let own = &mut self.ports[port];
        let topology_change_ack = std::mem::take(&mut own.topology_change_ack);
        own.config_pending = false;
        if message_age >= self.max_age {
            return;
        }
        own.hold_at = now + HOLD_TIME;
        let config = Config {
            root: self.root,
            root_path_cost: self.root_path_cost,
            bridge: self.id,
            port: own.id,
            message_age,
            max_age: self.max_age,
            hello_time: self.hello_time,
            forward_delay: self.forward_delay,
            topology_change: self.topology_change,
            topology_change_ack,
        };
        self.transmit(port, &Bpdu::Config(config));
    }

    /// Transmit topology change notification (8.6.6).
    fn send_notice(&mut self, now: Time) {
        if let Some(port) = self.root_port {
            self.tcn_at = now + HELLO_TIME;
            self.transmit(port, &Bpdu::TopologyChange);
        }
    }

    fn transmit(&mut self, port: usize, bpdu: &Bpdu) {
        let frame = bpdu.to_frame(self.settings.address);
        self.outputs.push_back(Output::Transmit { port: port as u16, frame });
    }

    /// Configuration update and port state selection (8.6.7, 8.6.11).
    fn update(&mut self, now: Time) {
        self.select_root();
        for port in 0..self.ports.len() {
            let own = Vector {
                root: self.root,
                cost: self.root_path_cost,
                bridge: self.id,
                port: self.ports[port].id,
            };
            // Designated port selection (8.6.9).
            let known = self.ports[port].best;
            if known.bridge == self.id && known.port == own.port
                || known.root != self.root
                || own <= known
            {
                self.become_designated(port);
            }
        }
        self.select_states(now);
    }

    /// Root selection (8.6.8).
    fn select_root(&mut self) {
        let candidates = self.ports.iter().enumerate().filter(|(_, p)| {
            p.state != PortState::Disabled && !p.is_designated(self.id) && p.best.root < self.id
        });
        let way = |p: &Port| Vector { cost: p.cost_through(), ..p.best };
        self.root_port = candidates.min_by_key(|(_, p)| (way(p), p.id)).map(|(port, _)| port);
        (self.root, self.root_path_cost) = match self.root_port {
            Some(port) => (self.ports[port].best.root, self.ports[port].cost_through()),
            None => (self.id, 0),
        };
    }

    /// Become designated port (8.6.10).
    fn become_designated(&mut self, port: usize) {
        let own = &mut self.ports[port];
        own.best =
            Vector { root: self.root, cost: self.root_path_cost, bridge: self.id, port: own.id };
    }

    fn select_states(&mut self, now: Time) {
        for port in 0..self.ports.len() {
            let is_root_port = self.root_port == Some(port);
            let own = &mut self.ports[port];
            let is_designated = own.is_designated(self.id);
            if is_designated && !is_root_port {
                own.age_at = Time::FOREVER;
            } else {
                (own.config_pending, own.topology_change_ack) = (false, false);
            }
            match own.state {
                // Make forwarding (8.6.12).
                PortState::Blocking if is_designated || is_root_port => {
                    own.forward_at = now + self.forward_delay;
                    self.set_state(port, PortState::Listening);
                }
                // Make blocking (8.6.13).
                state if state.is_active() && !is_designated && !is_root_port => {
                    own.forward_at = Time::FOREVER;
                    self.set_state(port, PortState::Blocking);
                    if state != PortState::Listening {
                        self.detect_change(now);
                    }
                }
                _ => {}
            }
        }
    }

    /// Topology change detection (8.6.14).
    fn detect_change(&mut self, now: Time) {
        if self.is_root() {
            self.topology_change = true;
            self.topology_change_at = now + MAX_AGE + self.settings.forward_delay;
        } else if !self.topology_change_detected {
            self.send_notice(now);
        }
        self.topology_change_detected = true;
    }

    /// Actions of a bridge that has just become the root (8.7.4, 8.8.3).
    fn become_root_if(&mut self, now: Time, was_another: bool) {
        if !self.is_root() || !was_another {
            return;
        }
        (self.max_age, self.hello_time) = (MAX_AGE, HELLO_TIME);
        self.forward_delay = self.settings.forward_delay;
        self.detect_change(now);
        self.tcn_at = Time::FOREVER;
        self.send_configs(now);
        self.hello_at = now + self.hello_time;
    }

    fn set_state(&mut self, port: usize, state: PortState) {
        self.ports[port].state = state;
        self.outputs.push_back(Output::State { port: port as u16, state });
    }

    /// Handles expired timers (8.7.3 to 8.7.8).
    fn run_timers(&mut self, now: Time) {
        if self.hello_at <= now {
            self.send_configs(now);
            self.hello_at = now + self.hello_time;
        }
        if self.tcn_at <= now {
            self.tcn_at = Time::FOREVER;
            self.send_notice(now);
        }
        if self.topology_change_at <= now {
            self.topology_change_at = Time::FOREVER;
            (self.topology_change, self.topology_change_detected) = (false, false);
        }
        for port in 0..self.ports.len() {
            if self.ports[port].age_at <= now {
                let was_root = self.is_root();
                self.ports[port].age_at = Time::FOREVER;
                self.become_designated(port);
                self.update(now);
                self.become_root_if(now, !was_root);
            }
            if self.ports[port].forward_at <= now {
                self.advance(now, port);
            }
            if self.ports[port].hold_at <= now {
                self.ports[port].hold_at = Time::FOREVER;
                if self.ports[port].config_pending {
                    self.send_config(now, port);
                }
            }
        }
    }

    /// Forward delay timer expiry (8.7.5).
    fn advance(&mut self, now: Time, port: usize) {
        self.ports[port].forward_at = Time::FOREVER;
        match self.ports[port].state {
            PortState::Listening => {
                self.ports[port].forward_at = now + self.forward_delay;
                self.set_state(port, PortState::Learning);
            }
            PortState::Learning => {
                self.set_state(port, PortState::Forwarding);
                if self.ports.iter().any(|p| p.best.bridge == self.id) {
                    self.detect_change(now);
                }
            }
            _ => {}
        }
    }

    fn rest(&mut self) {
        let ageing = self.topology_change.then_some(self.forward_delay);
        if self.ageing != ageing {
            self.ageing = ageing;
            self.outputs.push_back(Output::Ageing(ageing));
        }
        let own = self.hello_at.min(self.tcn_at).min(self.topology_change_at);
        self.deadline = self.ports.iter().map(Port::next_deadline).fold(own, Time::min);
    }
}
