//! A flow of the topology file: the program that sends it and the one that meters it. The two know
//! of each other what packets say, except that the meter is told when the sender has ended.

mod echo;
mod udp;

use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_io::Packet;
use plexus_report::{Gaps, Outcome};
use plexus_topo::{Extent, Flow, Proto};
use plexus_traffic::{FlowStats, Start};

use crate::core::{Core, DeviceIndex};
use crate::host::SimHost;
use crate::time::SimTime;

pub(crate) use echo::flow_of as echo_flow_of;
pub(crate) use udp::flow_of as udp_flow_of;

/// How long after the last packet was sent an answer or a straggler is waited for, beyond the
/// delay of all links, as in the lab.
const GRACE: Duration = Duration::from_secs(1);

/// A flow and both its ends.
pub(crate) struct SimFlow {
    /// What wakes its sender.
    device: DeviceIndex,
    number: u32,
    spec: Flow,
    to: Ipv4Addr,
    pub(crate) from: usize,
    pub(crate) state: State,
    /// When the run began: gaps are counted from it.
    run_started: SimTime,
    started: SimTime,
    sender_ended: SimTime,
    grace: Duration,
    sent: u64,
    /// Packets that the sender's interface took.
    departed: u64,
    stats: FlowStats,
    gaps: Gaps,
    first: Option<Duration>,
    echo: echo::Echo,
    is_known_to_have_ended: bool,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Sending,
    /// What is on its way is waited for.
    Draining,
    Ended,
}

impl SimFlow {
    /// A flow that waits for its turn; `delays`: the delay of all links together.
    pub(crate) fn new(
        device: DeviceIndex,
        number: u32,
        spec: Flow,
        to: Ipv4Addr,
        delays: Duration,
    ) -> SimFlow {
        let gaps = Gaps::new(udp::interval(&spec));
        SimFlow {
            device,
            number,
            to,
            from: spec.from,
            spec,
            state: State::Waiting,
            run_started: SimTime::ZERO,
            started: SimTime::ZERO,
            sender_ended: SimTime::ZERO,
            grace: GRACE + (2 * delays).min(Duration::from_secs(30)),
            sent: 0,
            departed: 0,
            stats: FlowStats::new(Start::Zero),
            gaps,
            first: None,
            echo: echo::Echo::default(),
            is_known_to_have_ended: false,
        }
    }

    /// Its turn has come.
    pub(crate) fn begin(&mut self, core: &mut Core, host: &mut SimHost, run_started: SimTime) {
        (self.state, self.started, self.run_started) = (State::Sending, core.now, run_started);
        self.wake(core, host);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core, host: &mut SimHost) {
        match (self.state, self.spec.proto) {
            (State::Sending, Proto::Udp) => self.send_udp(core, host),
            (State::Sending, Proto::Icmp) => self.send_echo(core, host),
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
            Proto::Tcp => core.pool.free(packet),
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

    /// What became of it.
    pub(crate) fn outcome(mut self) -> Outcome {
        let seconds = (self.sender_ended - self.started).as_secs_f64();
        let bytes = self.sent * u64::from(self.spec.size);
        let outcome = Outcome::from_stats(&mut self.stats, self.sent, bytes, seconds);
        let outcome = Outcome { gaps: self.gaps.into_longest(), ..outcome };
        outcome.with_first(self.first).with_departures(self.departed, None)
    }
}
