//! The network of these tests: every flow has a client and a server; what clients send goes over
//! one link, what servers send over another. A link has a rate, a delay, a queue, and faults.

use std::collections::BTreeMap;

use plexus_sim::tcp::{Codepoint, Segment, State, Tcp, TcpConfig};
use plexus_sim::{EventQueue, SimTime};
use plexus_wire::{Time, tcp};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Preamble, Ethernet header, checksum and gap, and the IP header.
pub(crate) const OVERHEAD: u64 = 38 + 20;

pub(crate) fn ms(ms: u64) -> SimTime {
    SimTime::from(Time::from_millis(ms))
}

pub(crate) fn us(us: u64) -> SimTime {
    SimTime::from(Time::from_micros(us))
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) rate_bits_per_s: u64,
    pub(crate) delay: SimTime,
    pub(crate) queue_bytes: u64,
    /// A packet that finds more than so many bytes queued is marked, if it may be.
    pub(crate) mark_bytes: u64,
    /// Probabilities.
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    /// A reordered packet comes up to so much later.
    pub(crate) reorder_by: SimTime,
    /// Packets by number, from 0, that are lost.
    pub(crate) lost: Vec<u64>,
    free_at: SimTime,
    /// What has happened.
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Longest queue, and the sum of what packets have found, in bytes.
    pub(crate) queue_max: u64,
    pub(crate) queue_sum: u64,
}

impl Link {
    pub(crate) fn new(rate_bits_per_s: u64, delay: SimTime) -> Link {
        Link {
            rate_bits_per_s,
            delay,
            queue_bytes: u64::MAX,
            mark_bytes: u64::MAX,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: SimTime::ZERO,
            lost: Vec::new(),
            free_at: SimTime::ZERO,
            packets: 0,
            dropped: 0,
            marked: 0,
            queue_max: 0,
            queue_sum: 0,
        }
    }

    /// When copies of a packet of `bytes` that comes now arrive.
    fn carry(&mut self, now: SimTime, segment: &mut Segment, random: &mut Pcg64) -> Vec<SimTime> {
        let bytes = segment.wire_len() as u64 + OVERHEAD;
        let number = self.packets;
        self.packets += 1;
        let waits = (self.free_at - now).as_picos();
        let queued =
            (u128::from(waits) * u128::from(self.rate_bits_per_s) / 8_000_000_000_000) as u64;
        self.queue_max = self.queue_max.max(queued);
        self.queue_sum += queued;
        if queued + bytes > self.queue_bytes
            || self.loss > 0.0 && random.random_bool(self.loss)
            || self.lost.contains(&number)
        {
            self.dropped += 1;
            return Vec::new();
        }
        if queued > self.mark_bytes && segment.ecn != Codepoint::NotEct {
            segment.ecn = Codepoint::Ce;
            self.marked += 1;
        }
        self.free_at = self.free_at.max(now) + SimTime::of_bytes(bytes, self.rate_bits_per_s);
        let mut arrivals = vec![self.free_at + self.delay];
        if self.duplicate > 0.0 && random.random_bool(self.duplicate) {
            arrivals.push(arrivals[0]);
        }
        for at in &mut arrivals {
            if self.reorder > 0.0 && random.random_bool(self.reorder) {
                let later = random.random_range(0..=self.reorder_by.as_picos());
                *at += SimTime::from_picos(later);
            }
        }
        arrivals
    }
}

/// Reassembly as a child would do it: every part that ever arrived, by its beginning.
#[derive(Debug, Default)]
struct Model {
    parts: BTreeMap<u64, u64>,
    /// Everything below has arrived.
    prefix: u64,
}

impl Model {
    fn arrive(&mut self, from: u64, len: u64) {
        let end = self.parts.entry(from).or_default();
        *end = (*end).max(from + len);
        while let Some((&from, &end)) = self.parts.first_key_value() {
            if from > self.prefix {
                break;
            }
            self.prefix = self.prefix.max(end);
            self.parts.pop_first();
        }
    }
}

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) tcp: Tcp,
    peer_seq: u32,
    model: Model,
    wakes_at: SimTime,
    /// Every segment that it sent, if wanted.
    pub(crate) sent: Vec<(SimTime, Segment)>,
}

#[derive(Clone, Debug)]
enum Event {
    Arrive(usize, usize, Segment),
    Wake(usize, usize),
}

pub(crate) struct World {
    events: EventQueue<Event>,
    /// There and back.
    pub(crate) links: [Link; 2],
    /// Flow by flow: client and server.
    pub(crate) flows: Vec<[End; 2]>,
    random: Pcg64,
    pub(crate) now: SimTime,
    /// Keep what is sent.
    pub(crate) record: bool,
    /// Segments become bytes on the way, and segments again.
    pub(crate) as_bytes: bool,
    /// Hold what is delivered against the model; for endpoints that read at once.
    pub(crate) check: bool,
}

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

impl World {
    pub(crate) fn new(there: Link, back: Link, seed: u64) -> World {
        World {
            events: EventQueue::new(),
            links: [there, back],
            flows: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
            now: SimTime::ZERO,
            record: false,
            as_bytes: false,
            check: true,
        }
    }

    /// Both links alike, half of the round trip each.
    pub(crate) fn symmetric(rate_bits_per_s: u64, rtt: SimTime, seed: u64) -> World {
        let link = Link::new(rate_bits_per_s, SimTime::from_picos(rtt.as_picos() / 2));
        World::new(link.clone(), link, seed)
    }

    pub(crate) fn add(&mut self, client: TcpConfig, server: TcpConfig) -> usize {
        let end = |tcp, peer_seq| End {
            tcp,
            peer_seq,
            model: Model::default(),
            wakes_at: SimTime::FOREVER,
            sent: Vec::new(),
        };
        self.flows.push([
            end(Tcp::connect(client), server.initial_seq),
            end(Tcp::listen(server), client.initial_seq),
        ]);
        self.flows.len() - 1
    }

    pub(crate) fn client(&mut self, flow: usize) -> &mut Tcp {
        &mut self.flows[flow][CLIENT].tcp
    }

    pub(crate) fn server(&mut self, flow: usize) -> &mut Tcp {
        &mut self.flows[flow][SERVER].tcp
    }

    /// Lets an end send what it wants to; to be called after its application has done something.
    pub(crate) fn poll(&mut self, flow: usize, side: usize) {
        let time = self.now.floor();
        while let Some(mut segment) = self.flows[flow][side].tcp.poll(time) {
            if self.as_bytes {
                segment = through_bytes(&segment);
            }
            if self.record {
                self.flows[flow][side].sent.push((self.now, segment.clone()));
            }
            let link = &mut self.links[side];
            for at in link.carry(self.now, &mut segment, &mut self.random) {
                self.events.push(at, Event::Arrive(flow, 1 - side, segment.clone()));
            }
        }
        let end = &mut self.flows[flow][side];
        let deadline = SimTime::from(end.tcp.next_deadline());
        assert!(deadline > self.now, "{:?} wants to be asked again at once", end.tcp);
        if deadline < end.wakes_at {
            end.wakes_at = deadline;
            self.events.push(deadline, Event::Wake(flow, side));
        }
    }

    fn arrive(&mut self, flow: usize, side: usize, segment: &Segment) {
        let end = &mut self.flows[flow][side];
        let before = end.tcp.state();
        end.tcp.handle(self.now.floor(), segment);
        // Data that come before the handshake is over are dropped.
        if !self.check || segment.len == 0 || matches!(before, State::Listen | State::SynSent) {
            return;
        }
        let from = segment.seq.wrapping_sub(end.peer_seq.wrapping_add(1));
        end.model.arrive(from.into(), segment.len.into());
        let (delivered, arrived) = (end.tcp.delivered(), end.model.prefix);
        // Time stamps make an endpoint drop what is old (RFC 7323, 5).
        assert!(delivered == arrived || segment.timestamps.is_some() && delivered < arrived);
    }

    /// Goes on until `until`, or until nothing more will happen.
    pub(crate) fn run(&mut self, until: SimTime) {
        for flow in 0..self.flows.len() {
            self.poll(flow, CLIENT);
            self.poll(flow, SERVER);
        }
        while let Some((now, event)) = self.events.pop_until(until) {
            self.now = now;
            match event {
                Event::Arrive(flow, side, segment) => {
                    self.arrive(flow, side, &segment);
                    self.poll(flow, side);
                }
                Event::Wake(flow, side) => {
                    self.flows[flow][side].wakes_at = SimTime::FOREVER;
                    self.poll(flow, side);
                }
            }
        }
        if until < SimTime::FOREVER {
            self.now = until;
        }
    }

    /// Goes on in steps, calling `f` after each.
    pub(crate) fn steps(&mut self, step: SimTime, until: SimTime, mut f: impl FnMut(&mut World)) {
        while self.now < until {
            let next = self.now + step;
            self.run(next.min(until));
            f(self);
        }
    }

    pub(crate) fn closed(&self) -> bool {
        self.flows.iter().flatten().all(|end| end.tcp.state() == State::Closed)
    }
}

/// A segment as a real header's bytes say it.
fn through_bytes(segment: &Segment) -> Segment {
    let repr = segment.to_repr(1, 2).unwrap();
    let mut bytes = vec![0; segment.wire_len()];
    repr.emit(&mut bytes).unwrap();
    let view = tcp::Segment::new_checked(&bytes[..]).unwrap();
    let repr = tcp::Repr::parse(&view).unwrap();
    let read = Segment::from_repr(&repr, view.payload().len() as u32, segment.ecn).unwrap();
    assert_eq!(read, *segment);
    read
}
