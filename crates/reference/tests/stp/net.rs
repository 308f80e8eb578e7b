//! Bridges and cables, with a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_reference::Input;
use plexus_reference::stp::{Bridge, Output, PortState, Settings, path_cost};
use plexus_wire::{MacAddr, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

pub(crate) const RATES: [u64; 3] = [10_000_000_000, 1_000_000_000, 100_000_000];
const DELAY: Duration = Duration::from_micros(7);

pub(crate) struct Cable {
    /// Bridge and port.
    ends: [(usize, u16); 2],
    rate: u64,
    is_up: bool,
    is_dead: bool,
}

#[derive(Default)]
pub(crate) struct Net {
    pub(crate) bridges: Vec<Bridge>,
    settings: Vec<Settings>,
    ports: Vec<u16>,
    pub(crate) cables: Vec<Cable>,
    /// The ageing times that each bridge has requested.
    pub(crate) ageing: Vec<Option<Duration>>,
    now: Time,
    sent: u64,
    flying: BTreeMap<(Time, u64), (usize, u16, Vec<u8>)>,
}

impl Net {
    pub(crate) fn add_bridge(&mut self, priority: u16, number: u64) {
        let address = MacAddr::from_u64(0x0200_0000_0000 | number);
        let forward_delay = Duration::from_secs(15);
        self.settings.push(Settings { priority, address, forward_delay });
        self.ports.push(0);
        self.ageing.push(None);
    }

    /// The number of the cable.
    pub(crate) fn join(&mut self, a: usize, b: usize, rate: u64) -> usize {
        let ends = [a, b].map(|bridge| {
            self.ports[bridge] += 1;
            (bridge, self.ports[bridge] - 1)
        });
        self.cables.push(Cable { ends, rate, is_up: true, is_dead: false });
        self.cables.len() - 1
    }

    pub(crate) fn plug_all(&mut self) {
        let made = self.settings.iter().zip(&self.ports).map(|(s, ports)| Bridge::new(*s, *ports));
        self.bridges = made.collect();
        (0..self.cables.len()).for_each(|cable| self.carrier(cable));
    }

    fn carrier(&mut self, cable: usize) {
        let Cable { ends, rate, is_up, .. } = self.cables[cable];
        for (bridge, port) in ends {
            let input = Input::Port { port, rate_bits_per_s: is_up.then_some(rate) };
            self.bridges[bridge].handle(self.now, input);
            self.carry_out(bridge);
        }
    }

    pub(crate) fn cut(&mut self, cable: usize, silent: bool) {
        if silent {
            self.cables[cable].is_dead = true;
        } else if std::mem::take(&mut self.cables[cable].is_up) {
            self.carrier(cable);
        }
    }

    pub(crate) fn mend_all(&mut self) {
        for cable in 0..self.cables.len() {
            self.cables[cable].is_dead = false;
            if !std::mem::replace(&mut self.cables[cable].is_up, true) {
                self.carrier(cable);
            }
        }
    }

    pub(crate) fn hand(&mut self, bridge: usize, port: u16, bytes: &[u8]) {
        self.bridges[bridge].handle(self.now, Input::Frame { port, bytes });
        self.carry_out(bridge);
    }

    fn carry_out(&mut self, bridge: usize) {
        while let Some(output) = self.bridges[bridge].poll_output() {
            match output {
                Output::Transmit { port, frame } => {
                    let own = (bridge, port);
                    let cable = self.cables.iter().find(|c| c.ends.contains(&own)).unwrap();
                    let [a, b] = cable.ends;
                    let (other, other_port) = if a == own { b } else { a };
                    if cable.is_up && !cable.is_dead {
                        self.sent += 1;
                        let at = (self.now + DELAY, self.sent);
                        self.flying.insert(at, (other, other_port, frame));
                    }
                }
                Output::State { .. } => {}
                Output::Ageing(ageing) => self.ageing[bridge] = ageing,
            }
        }
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            let frame = self.flying.first_key_value().map_or(Time::FOREVER, |((at, _), _)| *at);
            let deadlines = self.bridges.iter().map(Bridge::next_deadline).enumerate();
            let (bridge, due) = deadlines.min_by_key(|(_, at)| *at).unwrap();
            let next = frame.min(due);
            if next > until {
                break;
            }
            assert!(next >= self.now);
            self.now = next;
            if frame <= due {
                let (_, (bridge, port, bytes)) = self.flying.pop_first().unwrap();
                self.hand(bridge, port, &bytes);
            } else {
                self.bridges[bridge].handle(next, Input::Tick);
                self.carry_out(bridge);
            }
        }
        self.now = until;
    }

    fn live(&self) -> impl Iterator<Item = &Cable> {
        self.cables.iter().filter(|c| c.is_up && !c.is_dead)
    }

    /// The least cost from a bridge to all that it reaches.
    fn costs(&self, from: usize) -> BTreeMap<usize, u32> {
        let mut costs = BTreeMap::from([(from, 0)]);
        // Bellman and Ford: nothing that the bridges themselves do.
        for _ in &self.bridges {
            for cable in self.live() {
                let [(a, _), (b, _)] = cable.ends;
                for (from, to) in [(a, b), (b, a)] {
                    if let Some(cost) = costs.get(&from).map(|c| c + path_cost(cable.rate)) {
                        let known = costs.entry(to).or_insert(u32::MAX);
                        *known = cost.min(*known);
                    }
                }
            }
        }
        costs
    }

    /// Roots, costs, root ports and designated ports are those of the standard; what forwards is a
    /// tree that reaches every bridge of a part once.
    pub(crate) fn assert_tree(&self) -> Result<(), TestCaseError> {
        for at in 0..self.bridges.len() {
            let reached = self.costs(at);
            let root = *reached.keys().min_by_key(|b| self.bridges[**b].id()).unwrap();
            let cost_of = self.costs(root);
            let own = &self.bridges[at];
            prop_assert_eq!(own.root(), (self.bridges[root].id(), cost_of[&at]));
            let mut ways = BTreeSet::new();
            for cable in self.live() {
                let [a, b] = cable.ends;
                for ((near, port), (far, far_port)) in [(a, b), (b, a)] {
                    if near == at {
                        let word = |bridge: usize, port: u16| {
                            (cost_of[&bridge], self.bridges[bridge].id(), port)
                        };
                        let is_designated = word(near, port) < word(far, far_port);
                        prop_assert_eq!(own.is_designated(port), is_designated, "{} {}", at, port);
                        let cost = cost_of[&far] + path_cost(cable.rate);
                        ways.insert((cost, self.bridges[far].id(), far_port, port));
                    }
                }
            }
            let root_port = ways.first().filter(|_| at != root).map(|(.., port)| *port);
            prop_assert_eq!(own.root_port(), root_port, "bridge {}", at);
            for (.., port) in ways {
                let expected = match own.is_designated(port) || Some(port) == root_port {
                    true => PortState::Forwarding,
                    false => PortState::Blocking,
                };
                prop_assert_eq!(own.state(port), expected, "bridge {} port {}", at, port);
            }
            prop_assert!(own.is_settled());
            prop_assert_eq!(self.flood(at), reached.keys().map(|b| (*b, 1)).collect());
        }
        Ok(())
    }

    /// How often a frame comes to each bridge that one floods over ports that forward.
    fn flood(&self, from: usize) -> BTreeMap<usize, u32> {
        let mut counts = BTreeMap::from([(from, 1)]);
        let mut waiting = vec![(from, None)];
        while let Some((at, by)) = waiting.pop() {
            for cable in self.live() {
                let [a, b] = cable.ends;
                for ((near, port), (far, far_port)) in [(a, b), (b, a)] {
                    let forwards = |bridge: usize, port| {
                        self.bridges[bridge].state(port) == PortState::Forwarding
                    };
                    let is_out = near == at && Some(port) != by && forwards(near, port);
                    if is_out && forwards(far, far_port) {
                        let count = counts.entry(far).or_insert(0);
                        *count += 1;
                        assert!(*count < 100, "a loop");
                        waiting.push((far, Some(far_port)));
                    }
                }
            }
        }
        counts
    }
}
