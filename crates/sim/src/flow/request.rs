//! Requests and responses: a client that waits for answers, and a server that works on one request
//! after the other. A message is cut into datagrams that fill the cable's MTU. A client without the
//! whole answer in time asks again, and doubles its timeout. A server answers a repeated request
//! again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use plexus_io::Packet;
use plexus_report::Outcome;
use plexus_topo::{Dialogue, Expect};
use plexus_traffic::{PROBE_LEN, PROBE_UDP_PORT, Probe};
use plexus_wire::{Protocol, Time, udp};

use super::{SimFlow, State};
use crate::core::Core;
use crate::host::{SimHost, ip};
use crate::time::SimTime;

/// The first wait for an answer; it doubles up to the last one.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long a client tries without an answer, and how long if no answer is expected.
const PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE_BLOCKED: Duration = Duration::from_secs(4);

/// A message: which exchange, and whether it is the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    number: u32,
    is_response: bool,
}

impl Message {
    /// What a datagram's sequence number says: the message and the part of it.
    fn of(sequence: u64) -> (Message, u16) {
        let number = (sequence >> 17) as u32;
        (Message { number, is_response: sequence >> 16 & 1 == 1 }, sequence as u16)
    }

    fn sequence(self, part: u16) -> u64 {
        u64::from(self.number) << 17 | u64::from(self.is_response) << 16 | u64::from(part)
    }
}

/// The client, the server, and what is between them.
pub(super) struct Requests {
    dialogue: Arc<Dialogue>,
    /// Bytes of a full datagram.
    part_max: usize,
    open: BTreeMap<u32, Open>,
    /// When each request is repeated.
    retries: BTreeSet<(SimTime, u32)>,
    /// When each of the client's askers asks next.
    askers: BTreeSet<(SimTime, u16)>,
    answered_at: SimTime,
    sent_bytes: u64,
    problem: Option<String>,
    /// The server's: requests that are not whole yet, and those that it works on.
    coming: BTreeMap<u32, Parts>,
    serving: VecDeque<(SimTime, u32)>,
}

/// A request that is not answered.
struct Open {
    asker: u16,
    began: SimTime,
    retry_at: SimTime,
    wait: Duration,
    answer: Parts,
}

/// The parts of a message that have come.
#[derive(Default)]
struct Parts(BTreeSet<u16>);

impl Parts {
    /// True when the last one of so many has come.
    fn add(&mut self, part: u16, of: u16) -> bool {
        part < of && self.0.insert(part) && self.0.len() == usize::from(of)
    }
}

impl Requests {
    /// A client that has not begun; `mtu` is the least of the two hosts' cables.
    pub(super) fn new(dialogue: Arc<Dialogue>, to: IpAddr, mtu: u16) -> Requests {
        let headers = ip::header_len(to) + udp::HEADER_LEN;
        Requests {
            askers: (0..dialogue.outstanding).map(|asker| (SimTime::ZERO, asker)).collect(),
            dialogue,
            part_max: usize::from(mtu).saturating_sub(headers).max(PROBE_LEN),
            open: BTreeMap::new(),
            retries: BTreeSet::new(),
            answered_at: SimTime::ZERO,
            sent_bytes: 0,
            problem: None,
            coming: BTreeMap::new(),
            serving: VecDeque::new(),
        }
    }

    /// Bytes of a message.
    fn len(&self, message: Message) -> usize {
        let exchanges = &self.dialogue.exchanges;
        let exchange = exchanges[message.number as usize % exchanges.len()];
        let len = if message.is_response { exchange.response } else { exchange.request };
        len as usize
    }

    fn parts(&self, message: Message) -> u16 {
        u16::try_from(self.len(message).div_ceil(self.part_max)).unwrap_or(u16::MAX)
    }

    /// Sends a message, all of it at once.
    fn send(
        &mut self,
        core: &mut Core,
        host: &mut SimHost,
        flow: u32,
        ends: (Option<IpAddr>, IpAddr),
        message: Message,
    ) -> bool {
        let (len, parts) = (self.len(message), self.parts(message));
        for part in 0..parts {
            let left = len - usize::from(part) * self.part_max;
            let size = left.clamp(PROBE_LEN, self.part_max);
            let payload_len = udp::HEADER_LEN + size;
            let Some(mut packet) = host.packet(core, ends, Protocol::UDP, payload_len, 0) else {
                return false;
            };
            let bytes = ip::payload_mut(core.pool.data_mut(&mut packet));
            let header =
                udp::Repr { src_port: PROBE_UDP_PORT, dst_port: PROBE_UDP_PORT, payload_len: size };
            let probe = Probe::new(flow, message.sequence(part), core.now.floor());
            // Both fit: the packet was made for them.
            let _ = header.emit(bytes);
            let _ = probe.encode(&mut bytes[udp::HEADER_LEN..]);
            host.send(core, ends.1, packet);
        }
        true
    }

    /// When there is something to do even if nothing arrives.
    fn next_deadline(&self) -> SimTime {
        let asker = self.askers.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, _)| *at);
        let served = self.serving.front().map(|(at, _)| *at);
        [asker, retry, served].into_iter().flatten().min().unwrap_or(SimTime::FOREVER)
    }

    /// What became of it, besides what its latencies say.
    pub(super) fn complete(self, outcome: Outcome, answered: u64, seconds: f64) -> Outcome {
        let rate = (seconds > 0.0).then(|| answered as f64 / seconds);
        let problem = self.problem.or(outcome.problem);
        Outcome { transactions_per_s: rate, problem, ..outcome }
    }

    /// Bytes of all requests that were asked once.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }
}

impl SimFlow {
    /// The client does what is due.
    pub(super) fn ask(&mut self, core: &mut Core, host: &mut SimHost) {
        let (count, limit) = self.extent();
        let is_over = limit.is_some_and(|limit| core.now >= self.started + limit.into());
        let Some(requests) = &mut self.requests else { return };
        while let Some(&(at, asker)) = requests.askers.first()
            && at <= core.now
        {
            requests.askers.pop_first();
            if self.sent >= count || is_over {
                continue;
            }
            let message = Message { number: self.sent as u32, is_response: false };
            self.sent += 1;
            requests.sent_bytes += requests.len(message) as u64;
            self.departed +=
                u64::from(requests.send(core, host, self.number, (None, self.to), message));
            let retry_at = core.now + FIRST_WAIT.into();
            requests.retries.insert((retry_at, message.number));
            let (began, wait, answer) = (core.now, FIRST_WAIT, Parts::default());
            requests.open.insert(message.number, Open { asker, began, retry_at, wait, answer });
        }
        while let Some(&(at, number)) = requests.retries.first()
            && at <= core.now
        {
            requests.retries.pop_first();
            let Some(open) = requests.open.get_mut(&number) else { continue };
            open.wait = (open.wait * 2).min(LAST_WAIT);
            open.retry_at = core.now + open.wait.into();
            requests.retries.insert((open.retry_at, number));
            let message = Message { number, is_response: false };
            self.departed +=
                u64::from(requests.send(core, host, self.number, (None, self.to), message));
        }
        self.rest_of_requests(core);
    }

    /// The server answers what it has worked on long enough.
    pub(crate) fn serve(&mut self, core: &mut Core, host: &mut SimHost) {
        let (Some(requests), Some(back)) = (&mut self.requests, self.back) else { return };
        while let Some((_, number)) = requests.serving.pop_front_if(|(at, _)| *at <= core.now) {
            let message = Message { number, is_response: true };
            requests.send(core, host, self.number, (Some(self.to), back), message);
        }
        self.rest_of_requests(core);
    }

    /// The host of the server, where there are requests.
    pub(crate) fn server(&self) -> Option<usize> {
        self.requests.as_ref().map(|_| self.receiver)
    }

    /// A part of a message has come to the client or to the server.
    pub(super) fn hear_message(&mut self, core: &mut Core, host: &mut SimHost, packet: Packet) {
        let datagram = ip::payload(core.pool.data(&packet));
        let payload = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
        let probe = Probe::decode(payload);
        core.pool.free(packet);
        let (Some(probe), Some(requests)) = (probe, &mut self.requests) else { return };
        let (message, part) = Message::of(probe.sequence);
        let parts = requests.parts(message);
        if !message.is_response {
            let is_whole = requests.coming.entry(message.number).or_default().add(part, parts);
            if !is_whole {
                return;
            }
            requests.coming.remove(&message.number);
            if requests.serving.iter().all(|(_, n)| *n != message.number) {
                let from = requests.serving.back().map_or(core.now, |(at, _)| *at);
                let done = from.max(core.now) + requests.dialogue.service.into();
                requests.serving.push_back((done, message.number));
            }
            return self.serve(core, host);
        }
        let Some(open) = requests.open.get_mut(&message.number) else { return };
        if !open.answer.add(part, parts) {
            return;
        }
        requests.retries.remove(&(open.retry_at, message.number));
        let (asker, began) = (open.asker, open.began);
        requests.open.remove(&message.number);
        requests.askers.insert((core.now + requests.dialogue.think.into(), asker));
        requests.answered_at = core.now;
        let (now, began) = (core.now.floor(), Time::from_nanos(began.floor().as_nanos()));
        if message.number == 0 {
            self.first.get_or_insert(now.since(began));
        }
        let len = requests.len(message);
        let probe = Probe::new(self.number, message.number.into(), began);
        self.stats.record(now, len, &probe);
        self.gaps.arrival((core.now - self.run_started).into());
        self.ask(core, host);
    }

    /// Ends it, or says when there is something to do.
    fn rest_of_requests(&mut self, core: &mut Core) {
        let Some(requests) = &mut self.requests else { return };
        if self.state != State::Sending {
            return;
        }
        let patience = match self.spec.expect {
            Expect::Pass => PATIENCE,
            Expect::Blocked => PATIENCE_BLOCKED,
        };
        let gives_up_at = self.started.max(requests.answered_at)
            + requests.dialogue.think.into()
            + requests.dialogue.service.into()
            + patience.into();
        if core.now >= gives_up_at {
            let seconds = patience.as_secs();
            requests.problem = Some(format!("no answer for {seconds} s"));
            requests.open.clear();
            requests.askers.clear();
        }
        if requests.open.is_empty() && requests.askers.is_empty() {
            (self.state, self.sender_ended) = (State::Ended, core.now);
            return;
        }
        core.wake(self.device, requests.next_deadline().min(gives_up_at));
    }
}
