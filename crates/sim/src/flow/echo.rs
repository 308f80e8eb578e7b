//! Echo requests (RFC 792, RFC 4443), each sent when the one before was answered or given up, as
//! ping(8) does, but without waiting a second in between.

use std::time::Duration;

use plexus_io::Packet;
use plexus_traffic::Probe;
use plexus_wire::{Protocol, Time, icmpv4, icmpv6};

use super::{SimFlow, State};
use crate::core::Core;
use crate::host::SimHost;
use crate::host::ip::{self, Ip};
use crate::time::SimTime;

/// Least time between two requests.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);

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
        // The headers of both versions are equally long.
        let payload_len = icmpv4::HEADER_LEN + usize::from(self.spec.size);
        let protocol = if self.to.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        self.echo = Echo { sent_at: core.now, is_open: true };
        let sequence = self.sent as u16;
        self.sent += 1;
        if let Some(mut packet) = host.packet(core, (None, self.to), protocol, payload_len, 0) {
            let bytes = &mut ip::payload_mut(core.pool.data_mut(&mut packet))[..payload_len];
            bytes.fill(0x5A);
            let identifier = self.number as u16;
            // It fits: the packet was made for it. The host fills in IPv6's checksum.
            if self.to.is_ipv6() {
                let _ = icmpv6::Repr::EchoRequest { identifier, sequence }.emit(bytes);
            } else {
                let _ = icmpv4::Repr::EchoRequest { identifier, sequence }.emit(bytes);
                if let Ok(mut echo) = icmpv4::Packet::new_checked(bytes) {
                    echo.fill_checksum();
                }
            }
            self.departed += 1;
            host.send(core, self.to, packet);
        }
        core.wake(self.device, core.now + self.grace.into());
    }

    pub(super) fn hear_echo(&mut self, core: &mut Core, host: &mut SimHost, packet: Packet) {
        let reply = Ip::parse(core.pool.data(&packet)).and_then(|ip| reply(&ip));
        core.pool.free(packet);
        let Some((_, sequence)) = reply else { return };
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
pub(crate) fn flow_of(ip: &Ip<'_>) -> Option<u32> {
    reply(ip).map(|(identifier, _)| identifier.into())
}

/// Identifier and sequence number of an echo reply.
fn reply(ip: &Ip<'_>) -> Option<(u16, u16)> {
    if ip.protocol == Protocol::ICMPV6 {
        let message = icmpv6::Packet::new_checked(ip.payload).ok()?;
        return match icmpv6::Repr::parse(&message).ok()? {
            icmpv6::Repr::EchoReply { identifier, sequence } => Some((identifier, sequence)),
            _ => None,
        };
    }
    match icmpv4::Repr::parse(&icmpv4::Packet::new_checked(ip.payload).ok()?).ok()? {
        icmpv4::Repr::EchoReply { identifier, sequence } => Some((identifier, sequence)),
        _ => None,
    }
}
