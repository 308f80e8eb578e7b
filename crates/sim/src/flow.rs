//! A flow of the topology file: the program that sends it and the one that meters it. They exchange
//! packets only, except that the meter is told when the sender has ended.

mod echo;
mod named;
mod request;
mod tcp;
mod udp;

use std::net::IpAddr;
use std::time::Duration;

use plexus_io::Packet;
use plexus_ndn_apps::consume::Consumer;
use plexus_report::{Gaps, Outcome, sending_time};
use plexus_topo::{Arrivals, Extent, Flow, Proto};
use plexus_traffic::{FlowStats, Start};
use rand_pcg::Pcg64Mcg;

use crate::core::{Core, DeviceIndex};
use crate::host::SimHost;
use crate::tcp::TcpConfig;
use crate::time::SimTime;

pub(crate) use echo::flow_of as echo_flow_of;
pub use tcp::Connected;
pub(crate) use tcp::{CONGESTION, Side, flow_of as tcp_flow_of};
pub(crate) use udp::flow_of as udp_flow_of;

/// How long the meter waits for stragglers after the last packet, in addition to the delay of all
/// links, as in the lab.
const GRACE: Duration = Duration::from_secs(1);

/// A flow and both its ends.
pub(crate) struct SimFlow {
    /// What wakes its sender.
    device: DeviceIndex,
    number: u32,
    spec: Flow,
    to: IpAddr,
    /// The sender's address, as the receiver sees it.
    back: Option<IpAddr>,
    pub(crate) from: usize,
    /// The host with the address; the sender itself if no host has it.
    receiver: usize,
    pub(crate) state: State,
    /// When the run began: gaps are counted from it.
    run_started: SimTime,
    started: SimTime,
    sender_ended: SimTime,
    grace: Duration,
    sent: u64,
    /// Packets that the sender's interface accepted.
    departed: u64,
    /// How late in its interval the next datagram leaves.
    late: SimTime,
    /// When the next one is due, where arrivals are random.
    due: SimTime,
    random: Pcg64Mcg,
    stats: FlowStats,
    gaps: Gaps,
    first: Option<Duration>,
    echo: echo::Echo,
    tcp: Option<Box<tcp::Connection>>,
    requests: Option<Box<request::Requests>>,
    consumer: Option<Box<Consumer>>,
    is_known_to_have_ended: bool,
}

/// What a flow has to know of the network to begin.
pub(crate) struct Ends {
    /// Where it is sent.
    pub(crate) to: IpAddr,
    /// The host there, if any.
    pub(crate) receiver: Option<usize>,
    /// The MTUs of the two hosts' cables.
    pub(crate) mtus: [u16; 2],
    /// The delay of all links together.
    pub(crate) delays: Duration,
    /// Where the sequence numbers of its ends begin, or what is random about it.
    pub(crate) seeds: [u32; 2],
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Sending,
    /// It waits for packets that are under way.
    Draining,
    Ended,
}

impl SimFlow {
    /// A flow that waits for its turn.
    pub(crate) fn new(device: DeviceIndex, number: u32, spec: Flow, ends: &Ends) -> SimFlow {
        let connection = || Box::new(tcp::Connection::new(&spec, ends));
        let tcp = (spec.proto == Proto::Tcp).then(connection);
        let mtu = ends.mtus[0].min(ends.mtus[1]);
        let dialogue = spec.dialogue.clone();
        let requests = dialogue.map(|d| Box::new(request::Requests::new(d, ends.to, mtu)));
        let consumer = spec.catalogue.as_ref().and_then(|catalogue| {
            let [a, b] = ends.seeds.map(u64::from);
            named::consumer(&spec, catalogue, a << 32 | b).map(Box::new)
        });
        // Longer pauses are not expected.
        let usual = if spec.arrivals == Arrivals::Poisson { 7 } else { 1 };
        let interval = match (&spec.catalogue, &spec.dialogue) {
            (Some(catalogue), _) => named::interval(catalogue, ends.delays),
            (_, Some(dialogue)) => dialogue.think + dialogue.service + 2 * ends.delays,
            _ if spec.proto == Proto::Icmp => echo::INTERVAL.max(2 * ends.delays),
            _ => udp::interval(&spec) * usual,
        };
        let gaps = Gaps::new(interval);
        SimFlow {
            device,
            number,
            to: ends.to,
            back: None,
            from: spec.from,
            receiver: ends.receiver.unwrap_or(spec.from),
            spec,
            state: State::Waiting,
            run_started: SimTime::ZERO,
            started: SimTime::ZERO,
            sender_ended: SimTime::ZERO,
            grace: GRACE + (2 * ends.delays).min(Duration::from_secs(30)),
            sent: 0,
            departed: 0,
            late: SimTime::ZERO,
            due: SimTime::ZERO,
            random: Pcg64Mcg::new(u128::from(ends.seeds[0]) << 32 | u128::from(ends.seeds[1])),
            stats: FlowStats::new(Start::Zero),
            gaps,
            first: None,
            echo: echo::Echo::default(),
            tcp,
            requests,
            consumer,
            is_known_to_have_ended: false,
        }
    }

    /// Changes the settings of a TCP connection that has not begun. `by_receiver`: the receiver
    /// opens it.
    pub(crate) fn tune(&mut self, by_receiver: bool, tune: &dyn Fn(&mut TcpConfig)) {
        if let Some(tcp) = &mut self.tcp {
            tcp.tune(tune);
            if by_receiver {
                tcp.open_by_receiver();
            }
        }
    }

    /// The history of its TCP connection, if it is one.
    pub(crate) fn connection(&self) -> Option<Connected> {
        self.tcp.as_ref().map(|tcp| tcp.facts(self.started))
    }

    /// Its turn has come.
    pub(crate) fn begin(&mut self, core: &mut Core, host: &mut SimHost, run_started: SimTime) {
        (self.state, self.started, self.run_started) = (State::Sending, core.now, run_started);
        self.back = host.source(self.to);
        self.wake(core, host);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core, host: &mut SimHost) {
        match (self.state, self.spec.proto) {
            (State::Sending, Proto::Udp) => self.send_udp(core, host),
            (State::Sending, Proto::Icmp) => self.send_echo(core, host),
            (State::Sending, Proto::Request) => self.ask(core, host),
            (State::Sending, Proto::Named) => self.ask_by_name(core, host),
            (_, Proto::Tcp) => self.judge_connection(core),
            (State::Draining, _) if core.now >= self.sender_ended + self.grace.into() => {
                self.gaps.end(self.since_start(self.sender_ended));
                self.state = State::Ended;
            }
            _ => {}
        }
    }

    /// A packet of this flow has come to its receiver, or an answer to its sender.
    pub(crate) fn hear(&mut self, core: &mut Core, host: &mut SimHost, packet: Packet) {
        match self.spec.proto {
            Proto::Udp => self.hear_udp(core, packet),
            Proto::Icmp => self.hear_echo(core, host, packet),
            Proto::Request => self.hear_message(core, host, packet),
            Proto::Tcp => self.hear_segment(core, packet),
            // Refused when the network is built, or not by IP.
            Proto::Web | Proto::Named => core.pool.free(packet),
        }
    }

    fn since_start(&self, at: SimTime) -> Duration {
        (at - self.run_started).into()
    }

    /// Packets to send, and until when.
    fn extent(&self) -> (u64, Option<Duration>) {
        match self.spec.extent {
            Extent::Packets(n) => (u64::from(n), None),
            Extent::Bytes(n) => (n.div_ceil(u64::from(self.spec.size.max(1))), None),
            Extent::Duration(d) => (u64::MAX, Some(d)),
        }
    }

    /// The sender has no more to send.
    fn drain(&mut self, core: &mut Core) {
        (self.state, self.sender_ended) = (State::Draining, core.now);
        self.end_if_all_arrived();
        core.wake(self.device, core.now + self.grace.into());
    }

    fn end_if_all_arrived(&mut self) {
        if self.state == State::Draining && self.stats.distinct() >= self.sent {
            self.state = State::Ended;
        }
    }

    /// True once, when it has ended.
    pub(crate) fn has_just_ended(&mut self) -> bool {
        let ended = self.state == State::Ended && !self.is_known_to_have_ended;
        self.is_known_to_have_ended |= ended;
        ended
    }

    /// What became of it by `now`.
    pub(crate) fn outcome(mut self, now: SimTime) -> Outcome {
        // A run that was interrupted ends for those that were sending then.
        let is_interrupted = self.state == State::Sending;
        let ended = if is_interrupted { now } else { self.sender_ended };
        if let Some(tcp) = self.tcp {
            return tcp.outcome(&self.spec.name, self.started, ended);
        }
        let elapsed = ended - self.started;
        if let Some(consumer) = self.consumer.take() {
            let asked = consumer.counted(ended.floor());
            return self.named_outcome(&consumer, asked.as_secs_f64());
        }
        let seconds = match self.spec.proto {
            Proto::Udp if !is_interrupted => {
                let interval = udp::interval(&self.spec);
                sending_time(&self.spec.extent, elapsed.into(), interval).as_secs_f64()
            }
            _ => elapsed.as_secs_f64(),
        };
        let size = u64::from(self.spec.size);
        let bytes = self.requests.as_ref().map_or(self.sent * size, |r| r.sent_bytes());
        let answered = self.stats.distinct();
        let outcome = Outcome::from_stats(&mut self.stats, self.sent, bytes, seconds);
        let outcome = Outcome { gaps: self.gaps.into_longest(), ..outcome };
        let outcome = outcome.with_first(self.first).with_departures(self.departed, None);
        match self.requests {
            Some(requests) => requests.complete(outcome, answered, seconds),
            None => outcome,
        }
    }
}
