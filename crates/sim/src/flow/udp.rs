//! UDP: numbered and time-stamped datagrams at a constant mean rate, and their meter.
//!
//! Each datagram leaves at a random instant of its interval. Exact senders would stay in phase with
//! each other and with queues: one would lose everything where all should lose a little (Floyd,
//! Jacobson: "On traffic phase effects in packet-switched gateways", 1992). As an option, pauses
//! are distributed exponentially, which makes a Poisson process.

use std::time::Duration;

use plexus_io::Packet;
use plexus_topo::{Arrivals, Flow};
use plexus_traffic::{PROBE_LEN, PROBE_UDP_PORT, Probe};
use plexus_wire::{Protocol, Time, udp};
use rand::RngExt;

use super::SimFlow;
use crate::core::Core;
use crate::host::{SimHost, ip};
use crate::time::SimTime;

/// A sender's port; flows beyond 4,096 share them.
const SOURCE_PORT: u16 = 0xC000;

/// Payload bytes of each datagram.
fn size(spec: &Flow) -> usize {
    usize::from(spec.size).max(PROBE_LEN)
}

/// The time from one datagram to the next.
pub(super) fn interval(spec: &Flow) -> Duration {
    after(spec, 1).into()
}

/// How long after the first datagram this one is due.
fn after(spec: &Flow, number: u64) -> SimTime {
    let bytes = number.saturating_mul(size(spec) as u64);
    SimTime::of_bytes(bytes, spec.rate_bits_per_s.unwrap_or(1_000_000))
}

impl SimFlow {
    pub(super) fn send_udp(&mut self, core: &mut Core, host: &mut SimHost) {
        let (count, limit) = self.extent();
        loop {
            let is_poisson = self.spec.arrivals == Arrivals::Poisson;
            let due = if is_poisson { self.due } else { after(&self.spec, self.sent) };
            if self.sent >= count || limit.is_some_and(|limit| due >= limit.into()) {
                return self.drain(core);
            }
            let due = self.started + due + self.late;
            if due > core.now {
                return core.wake(self.device, due);
            }
            let size = size(&self.spec);
            let payload_len = udp::HEADER_LEN + size;
            let probe = Probe::new(self.number, self.sent, core.now.floor());
            self.sent += 1;
            let interval = after(&self.spec, 1).as_picos();
            if is_poisson {
                // 1 less a number from 0 to below 1 is never 0.
                let pause = -(1.0 - self.random.random::<f64>()).ln() * interval as f64;
                self.due += SimTime::from_picos(pause.round() as u64);
            } else {
                self.late = SimTime::from_picos(self.random.random_range(0..=interval));
            }
            let Some(mut packet) =
                host.packet(core, (None, self.to), Protocol::UDP, payload_len, 0)
            else {
                continue;
            };
            let bytes = ip::payload_mut(core.pool.data_mut(&mut packet));
            let header = udp::Repr {
                src_port: SOURCE_PORT | (self.number as u16 & 0x0FFF),
                dst_port: PROBE_UDP_PORT,
                payload_len: size,
            };
            // Both fit: the packet was made for them.
            let _ = header.emit(bytes);
            let _ = probe.encode(&mut bytes[udp::HEADER_LEN..]);
            self.departed += 1;
            host.send(core, self.to, packet);
        }
    }

    pub(super) fn hear_udp(&mut self, core: &mut Core, packet: Packet) {
        let datagram = ip::payload(core.pool.data(&packet));
        let payload = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
        if let Some(probe) = Probe::decode(payload) {
            let now = core.now.floor();
            if probe.sequence == 0 {
                self.first.get_or_insert(now.since(Time::from_nanos(probe.time_ns)));
            }
            self.stats.record(now, size(&self.spec), &probe);
            self.gaps.arrival(self.since_start(core.now));
        }
        core.pool.free(packet);
        self.end_if_all_arrived();
    }
}

/// The flow that a datagram belongs to, if it is one of ours.
pub(crate) fn flow_of(datagram: &[u8]) -> Option<u32> {
    let datagram = udp::Datagram::new_checked(datagram).ok()?;
    if datagram.dst_port() != PROBE_UDP_PORT {
        return None;
    }
    Some(Probe::decode(datagram.payload())?.flow)
}
