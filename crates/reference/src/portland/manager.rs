//! The fabric manager: maps IP addresses to PMACs, and numbers pods (§3.1, §3.3).

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_wire::{MacAddr, Time, ethernet};

use super::Output;
use super::location::Place;
use super::message::{ETHERTYPE, EVERYBODY, Location, MANAGER, Message, NEIGHBOUR, Question};
use crate::Input;

/// Its only port.
const PORT: u16 = 0;
/// A host asks again after a second: questions older than that are dropped.
const WAIT: Duration = Duration::from_secs(1);
/// Hosts that wait for another one to be found, at most.
const WAITING_MAX: usize = 1 << 16;

/// The fabric manager, with one port.
#[derive(Debug)]
pub struct Manager {
    interval: Duration,
    is_up: bool,
    say_at: Time,
    registry: HashMap<Ipv4Addr, MacAddr>,
    /// Places given, by the switch that has them.
    places: HashMap<MacAddr, Place>,
    pods: u16,
    /// The last place given to an edge switch without levels: these share pods.
    alone: Option<Place>,
    /// Pending questions by the address wanted: time, switch and question.
    waiting: HashMap<Ipv4Addr, Vec<(Time, MacAddr, Question)>>,
    asked: VecDeque<(Time, Ipv4Addr)>,
    outputs: VecDeque<Output>,
    broadcasts: u64,
}

impl Manager {
    /// A manager without hosts.
    pub fn new(interval: Duration) -> Manager {
        Manager {
            interval,
            is_up: false,
            say_at: Time::FOREVER,
            registry: HashMap::new(),
            places: HashMap::new(),
            pods: 0,
            alone: None,
            waiting: HashMap::new(),
            asked: VecDeque::new(),
            outputs: VecDeque::new(),
            broadcasts: 0,
        }
    }

    /// Processes an input and does everything that is due.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Port { rate_bits_per_s, .. } => {
                self.is_up = rate_bits_per_s.is_some();
                self.say_at = if self.is_up { now } else { Time::FOREVER };
            }
            Input::Frame { bytes, .. } => self.receive(now, bytes),
            Input::Tick => {}
        }
        if self.say_at <= now {
            self.say_at = now + self.interval;
            let location = Location {
                pod: None,
                position: None,
                level: None,
                is_child: false,
                has_hosts: false,
                distance: 0,
            };
            self.send(NEIGHBOUR, &Message::Location(location));
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`].
    pub fn next_deadline(&self) -> Time {
        self.say_at
    }

    /// Hosts that it knows, by their addresses.
    pub fn registry(&self) -> &HashMap<Ipv4Addr, MacAddr> {
        &self.registry
    }

    /// How often all edge switches were asked for a host.
    pub fn broadcasts(&self) -> u64 {
        self.broadcasts
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else { return };
        if frame.dst() != MANAGER || frame.ethertype().0 != ETHERTYPE {
            return;
        }
        let from = frame.src();
        match Message::parse(frame.payload()) {
            Some(Message::PlaceWanted { alone }) => {
                if let Some(Place { pod, position }) = self.place(from, alone) {
                    self.send(from, &Message::Place { pod, position });
                }
            }
            Some(Message::Registration { answered, ip, pmac, .. }) => {
                self.registry.insert(ip, pmac);
                let waiting = self.waiting.remove(&ip).unwrap_or_default();
                let waiting = waiting.into_iter().filter(|_| !answered);
                for (_, switch, question) in waiting.filter(|(at, ..)| now.since(*at) < WAIT) {
                    self.send(switch, &Message::Answer { question, pmac });
                }
            }
            Some(Message::Question(question)) => self.answer(now, from, question),
            _ => {}
        }
    }

    /// The place of a switch: the same if it asks again. `None`: there are no more.
    fn place(&mut self, switch: MacAddr, alone: bool) -> Option<Place> {
        if let Some(place) = self.places.get(&switch) {
            return Some(*place);
        }
        let place = match alone {
            false => Place { pod: self.next_pod()?, position: 0 },
            true => {
                let next =
                    |last: Place| Some(Place { position: last.position.checked_add(1)?, ..last });
                let place = match self.alone.and_then(next) {
                    Some(place) => place,
                    None => Place { pod: self.next_pod()?, position: 0 },
                };
                *self.alone.insert(place)
            }
        };
        self.places.insert(switch, place);
        Some(place)
    }

    /// A pod's number, which is the beginning of addresses: those of groups are left out.
    fn next_pod(&mut self) -> Option<u16> {
        let pod = self.pods + (self.pods & 0x100);
        self.pods = pod.checked_add(1)?;
        Some(pod)
    }

    fn answer(&mut self, now: Time, switch: MacAddr, question: Question) {
        if let Some(&pmac) = self.registry.get(&question.wanted) {
            return self.send(switch, &Message::Answer { question, pmac });
        }
        while let Some(&(at, ip)) = self.asked.front()
            && (now.since(at) >= WAIT || self.asked.len() >= WAITING_MAX)
        {
            self.asked.pop_front();
            if let Some(waiting) = self.waiting.get_mut(&ip) {
                waiting.retain(|(asked_at, ..)| *asked_at > at);
                if waiting.is_empty() {
                    self.waiting.remove(&ip);
                }
            }
        }
        self.asked.push_back((now, question.wanted));
        self.waiting.entry(question.wanted).or_default().push((now, switch, question));
        self.broadcasts += 1;
        self.send(EVERYBODY, &Message::QuestionToAll(question));
    }

    fn send(&mut self, dst: MacAddr, message: &Message) {
        if self.is_up {
            self.outputs.push_back((PORT, message.to_frame(MANAGER, dst)));
        }
    }
}
