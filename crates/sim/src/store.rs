//! The stores of controllers: one has its own disk, several share an etcd cluster.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plexus_controller::tenure::model::Model;
use plexus_controller::tenure::{Answer, Ask};
use plexus_controller::{Change, Record, RecordKey};
use plexus_topo::ETCD_MEMBERS;
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;

use crate::core::{DeviceIndex, Event};
use crate::queue::EventQueue;
use crate::time::SimTime;

/// From an order to store until the data is durable: a synchronised write to an SSD.
pub(crate) const STORE_DELAY: Duration = Duration::from_millis(2);
/// From a controller to a member of etcd, or back.
const WAY: Duration = Duration::from_micros(500);
/// After so long a controller notices that its connection is dead.
const PATIENCE: Duration = Duration::from_secs(1);
/// The only lease of a disk.
const LEASE: u64 = 1;

/// A controller's own disk, as `plexus_keeper::File` uses it. It survives a crash.
#[derive(Default)]
pub(crate) struct Disk {
    epoch: u64,
    records: BTreeMap<RecordKey, Record>,
    /// Changes that are being written, by the number of the write. A crash loses them.
    writing: BTreeMap<u64, (u64, u64, Vec<Change>)>,
    writes: u64,
}

impl Disk {
    /// Serves a request of its controller's tenure.
    pub(crate) fn ask(&mut self, ask: Ask) -> Option<Answer> {
        match ask {
            Ask::Lease { asked, .. } => Some(Answer::Leased { lease: LEASE, time: None, asked }),
            Ask::Campaign { .. } => {
                self.epoch = self.epoch.max(PROVISIONAL_EPOCH) + 1;
                let stored = self.records.values().cloned().collect();
                Some(Answer::Won { lease: LEASE, epoch: self.epoch, stored })
            }
            // Nobody else leads, and writes come by another way.
            Ask::Keep { .. } | Ask::Report { .. } | Ask::Release { .. } | Ask::Write { .. } => None,
        }
    }

    /// Begins to write changes; they are durable when the write of this number ends.
    pub(crate) fn write(&mut self, epoch: u64, ticket: u64, changes: Vec<Change>) -> u64 {
        self.writes += 1;
        self.writing.insert(self.writes, (epoch, ticket, changes));
        self.writes
    }

    /// A write has ended: its answer, unless the controller has crashed since.
    pub(crate) fn end(&mut self, write: u64) -> Option<Answer> {
        let (epoch, ticket, changes) = self.writing.remove(&write)?;
        changes.into_iter().for_each(|change| change.make(&mut self.records));
        Some(Answer::Written { epoch, ticket })
    }

    pub(crate) fn crash(&mut self) {
        self.writing.clear();
    }
}

/// The etcd cluster, and its connections to the controllers.
///
/// It is simpler than the real one: it has no members of its own that elect a leader, so one that
/// stops costs nothing, and a connection is to the whole cluster.
pub(crate) struct Etcd {
    model: Model,
    clients: Vec<Client>,
    /// Messages on their way, by number.
    under_way: BTreeMap<u64, Message>,
    sent: u64,
    /// Reasons why each member is down.
    down: [u32; ETCD_MEMBERS.len()],
    /// When it next looks for leases that have ended.
    looks_at: Option<SimTime>,
}

struct Client {
    device: DeviceIndex,
    name: String,
    /// How often it was started, and how often it was connected.
    starts: u64,
    connections: u64,
    is_alive: bool,
    /// Reasons why it does not reach the cluster.
    cut: u32,
    /// Writes without an answer. They are made again by the next connection, in order.
    writes: VecDeque<Ask>,
}

enum Message {
    Ask {
        client: usize,
        starts: u64,
        connections: u64,
        ask: Ask,
    },
    Answer {
        client: usize,
        connections: u64,
        answer: Answer,
    },
    /// The controller notices that its connection is dead.
    Silence {
        client: usize,
        connections: u64,
    },
    Look,
}

impl Etcd {
    /// A cluster for these controllers, which know nothing of it yet.
    pub(crate) fn new(clients: impl IntoIterator<Item = (DeviceIndex, String)>) -> Etcd {
        let client = |(device, name)| Client {
            device,
            name,
            starts: 0,
            connections: 0,
            is_alive: false,
            cut: 0,
            writes: VecDeque::new(),
        };
        Etcd {
            model: Model::default(),
            clients: clients.into_iter().map(client).collect(),
            under_way: BTreeMap::new(),
            sent: 0,
            down: [0; ETCD_MEMBERS.len()],
            looks_at: None,
        }
    }

    fn has_majority(&self) -> bool {
        self.down.iter().filter(|down| **down == 0).count() > self.down.len() / 2
    }

    fn reaches(&self, client: usize) -> bool {
        self.clients[client].cut == 0 && self.has_majority()
    }

    /// A controller sends a request.
    pub(crate) fn ask(
        &mut self,
        now: SimTime,
        queue: &mut EventQueue<Event>,
        client: usize,
        ask: Ask,
    ) {
        if let Ask::Write { .. } = ask {
            self.clients[client].writes.push_back(ask.clone());
        }
        self.send_ask(now, queue, client, ask);
    }

    /// A message arrives: the answer, if it is one for a controller that still waits for it.
    pub(crate) fn arrive(
        &mut self,
        now: SimTime,
        queue: &mut EventQueue<Event>,
        number: u64,
    ) -> Option<Answer> {
        match self.under_way.remove(&number)? {
            Message::Answer { client, connections, answer } => {
                let reaches = self.reaches(client);
                let client = &mut self.clients[client];
                let arrives = reaches && client.is_alive && client.connections == connections;
                let answer = arrives.then_some(answer)?;
                client.writes.retain(|write| !is_end_of(&answer, write));
                return Some(answer);
            }
            Message::Silence { client, connections } => {
                let reaches = self.reaches(client);
                let client = &self.clients[client];
                let is_silent = !reaches && client.is_alive && client.connections == connections;
                return is_silent.then_some(Answer::Lost);
            }
            Message::Ask { client, starts, connections, ask } => {
                let Client { name, starts: own_starts, connections: own, .. } =
                    &self.clients[client];
                // Requests from before a crash still arrive; those of a dead connection do not.
                if self.reaches(client) && (starts != *own_starts || connections == *own) {
                    let (answer, news) = self.model.serve(now.floor(), &name.clone(), ask);
                    self.tell_all(now, queue, news);
                    if let Some(answer) = answer.filter(|_| starts == self.clients[client].starts) {
                        self.tell(now, queue, client, answer);
                    }
                }
            }
            Message::Look => {
                self.looks_at = None;
                if self.has_majority() {
                    let news = self.model.expire(now.floor());
                    self.tell_all(now, queue, news);
                }
            }
        }
        self.look_again(queue);
        None
    }

    /// A controller starts.
    pub(crate) fn begin(&mut self, now: SimTime, queue: &mut EventQueue<Event>, client: usize) {
        let own = &mut self.clients[client];
        (own.is_alive, own.starts) = (true, own.starts + 1);
        self.connect(now, queue, client);
    }

    /// A controller stops at once.
    pub(crate) fn crash(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.is_alive = false;
        client.writes.clear();
    }

    /// A controller is cut off, or one reason for it has passed.
    pub(crate) fn cut(
        &mut self,
        now: SimTime,
        queue: &mut EventQueue<Event>,
        client: usize,
        fails: bool,
    ) {
        let cut = &mut self.clients[client].cut;
        *cut = if fails { *cut + 1 } else { *cut - 1 };
        match fails {
            true => self.fall_silent(now, queue, client),
            false => self.connect(now, queue, client),
        }
    }

    /// A member stops, or one reason for it has passed.
    pub(crate) fn stop_member(
        &mut self,
        now: SimTime,
        queue: &mut EventQueue<Event>,
        member: usize,
        fails: bool,
    ) {
        let before = self.has_majority();
        let down = &mut self.down[member];
        *down = if fails { *down + 1 } else { *down - 1 };
        match (before, self.has_majority()) {
            (true, false) => {
                (0..self.clients.len()).for_each(|client| self.fall_silent(now, queue, client));
            }
            (false, true) => {
                self.model.prolong(now.floor());
                (0..self.clients.len()).for_each(|client| self.connect(now, queue, client));
                self.look_again(queue);
            }
            _ => {}
        }
    }

    fn fall_silent(&mut self, now: SimTime, queue: &mut EventQueue<Event>, client: usize) {
        let connections = self.clients[client].connections;
        self.send(now + PATIENCE.into(), queue, Message::Silence { client, connections });
    }

    /// A new connection: answers are lost, the cluster tells what there is, and writes are made
    /// again.
    fn connect(&mut self, now: SimTime, queue: &mut EventQueue<Event>, client: usize) {
        if !self.clients[client].is_alive || !self.reaches(client) {
            return;
        }
        self.clients[client].connections += 1;
        self.tell(now, queue, client, Answer::Lost);
        for answer in self.model.state() {
            self.tell(now, queue, client, answer);
        }
        let writes = self.clients[client].writes.clone();
        writes.into_iter().for_each(|write| self.send_ask(now, queue, client, write));
    }

    fn send_ask(&mut self, now: SimTime, queue: &mut EventQueue<Event>, client: usize, ask: Ask) {
        let Client { starts, connections, .. } = self.clients[client];
        self.send(now + WAY.into(), queue, Message::Ask { client, starts, connections, ask });
    }

    fn tell_all(&mut self, now: SimTime, queue: &mut EventQueue<Event>, news: Vec<Answer>) {
        for answer in news {
            for client in 0..self.clients.len() {
                self.tell(now, queue, client, answer.clone());
            }
        }
    }

    /// All answers and news take the same time, so they stay in order.
    fn tell(&mut self, now: SimTime, queue: &mut EventQueue<Event>, client: usize, answer: Answer) {
        let connections = self.clients[client].connections;
        let at = now + (STORE_DELAY + WAY).into();
        self.send(at, queue, Message::Answer { client, connections, answer });
    }

    fn send(&mut self, at: SimTime, queue: &mut EventQueue<Event>, message: Message) {
        self.sent += 1;
        let device = match &message {
            Message::Answer { client, .. } | Message::Silence { client, .. } => {
                Some(self.clients[*client].device)
            }
            Message::Ask { .. } | Message::Look => None,
        };
        self.under_way.insert(self.sent, message);
        queue.push(at, Event::Store { device, number: self.sent });
    }

    /// Looks for ended leases when the next one ends. Without a majority none does.
    fn look_again(&mut self, queue: &mut EventQueue<Event>) {
        let next = self.model.next_end().map(SimTime::from).filter(|_| self.has_majority());
        if let Some(next) = next
            && self.looks_at.is_none_or(|at| next < at)
        {
            self.looks_at = Some(next);
            self.send(next, queue, Message::Look);
        }
    }
}

/// Whether an answer ends this write.
fn is_end_of(answer: &Answer, write: &Ask) -> bool {
    match (answer, write) {
        (Answer::Written { epoch, ticket }, Ask::Write { epoch: e, ticket: t, .. }) => {
            epoch == e && t <= ticket
        }
        (Answer::Fenced { epoch }, Ask::Write { epoch: e, .. }) => epoch == e,
        _ => false,
    }
}
