//! Echo requests (RFC 792), each sent when the one before was answered or given up, as ping(8)
//! does, but without waiting a second in between.

use std::time::Duration;

use plexus_io::Packet;
use plexus_traffic::Probe;
use plexus_wire::{Protocol, Time, icmpv4};

use super::{SimFlow, State};
use crate::core::Core;
use crate::host::{IP_PAYLOAD_AT, SimHost};
use crate::time::SimTime;

/// Least time between two requests.
const INTERVAL: Duration = Duration::from_millis(10);

/// The request that is under way.
#[derive(Debug, Default)]
pub(super) struct Echo {
    sent_at: SimTime,
    is_open: bool,
}

impl SimFlow {
    pub(super) fn send_echo(&mut self, core: &mut Core, host: &mut SimHost) {
        if self.echo.is_open && core.now < self.echo.sent_at + self.grace.into() {
            return core.wake(self.device, self.echo.sent_at + self.grace.into());
        }
        let next = self.echo.sent_at + INTERVAL.into();
        if self.sent > 0 && core.now < next {
            return core.wake(self.device, next);
        }
        let (count, limit) = self.extent();
        let is_late = limit.is_some_and(|limit| core.now >= self.started + limit.into());
        if self.sent >= count || is_late {
            // Whoever was waited for has had the time already.
            (self.state, self.sender_ended) = (State::Ended, core.now);
            return;
        }
        let payload_len = icmpv4::HEADER_LEN + usize::from(self.spec.size);
        self.echo = Echo { sent_at: core.now, is_open: true };
        let sequence = self.sent as u16;
        self.sent += 1;
        if let Some(mut packet) = host.packet(core, self.to, Protocol::ICMPV4, payload_len, 0) {
            let bytes = &mut core.pool.data_mut(&mut packet)[IP_PAYLOAD_AT..][..payload_len];
            bytes.fill(0x5A);
            let request = icmpv4::Repr::EchoRequest { identifier: self.number as u16, sequence };
            // It fits: the packet was made for it.
            let _ = request.emit(bytes);
            if let Ok(mut echo) = icmpv4::Packet::new_checked(bytes) {
                echo.fill_checksum();
            }
            self.departed += 1;
            host.send(core, self.to, packet);
        }
        core.wake(self.device, core.now + self.grace.into());
    }

    pub(super) fn hear_echo(&mut self, core: &mut Core, host: &mut SimHost, packet: Packet) {
        let bytes = core.pool.data(&packet).get(IP_PAYLOAD_AT..).unwrap_or_default();
        let reply = icmpv4::Packet::new_checked(bytes).and_then(|p| icmpv4::Repr::parse(&p));
        core.pool.free(packet);
        let Ok(icmpv4::Repr::EchoReply { sequence, .. }) = reply else { return };
        // The latest request with this number, of 16 bits.
        let latest = self.sent.wrapping_sub(1);
        let number = latest.wrapping_sub(u64::from((latest as u16).wrapping_sub(sequence)));
        if number != latest || !self.echo.is_open {
            return;
        }
        let sent_at = Time::from_nanos(self.echo.sent_at.floor().as_nanos());
        let now = core.now.floor();
        if number == 0 {
            self.first.get_or_insert(now.since(sent_at));
        }
        let probe = Probe::new(self.number, number, sent_at);
        self.stats.record(now, self.spec.size.into(), &probe);
        self.gaps.arrival(self.since_start(core.now));
        self.echo.is_open = false;
        if self.state == State::Sending {
            self.send_echo(core, host);
        }
    }
}

/// The flow that an echo reply belongs to.
pub(crate) fn flow_of(message: &[u8]) -> Option<u32> {
    let message = icmpv4::Packet::new_checked(message).ok()?;
    match icmpv4::Repr::parse(&message).ok()? {
        icmpv4::Repr::EchoReply { identifier, .. } => Some(identifier.into()),
        _ => None,
    }
}
