//! Detects host ports that an ordinary switch connects: two of one node, or of two nodes.
//!
//! Frames of the hosts there would arrive on both ports and return through the other one, and the
//! switch would see stations move. So each host port announces itself regularly in a frame that
//! every switch floods and every host ignores: an ARP probe (RFC 5227, 2.1.1) from the group, for
//! the group's own address. Its target address, which a probe leaves open, is the port's Ethernet
//! address; the padding carries the group's number, because other fabrics may use the same switch.
//! A port that hears one with a lower address closes; the other keeps serving.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_wire::{EtherType, MacAddr, Time, arp, ethernet, frame};

use super::effect::{Timer, Turn};
use super::stations::Group;
use crate::identity::GroupId;

/// Between probes of a port (a spanning tree's hello time, IEEE 802.1D-1998, table 8-3).
const INTERVAL: Duration = Duration::from_secs(2);
/// Offset of the group's number: after the ARP packet, in the padding to 60 bytes.
const GROUP_AT: usize = ethernet::HEADER_LEN + arp::PACKET_LEN;
/// A rival is answered at once, but at most once within this time.
const ANSWER_AFTER: Duration = Duration::from_millis(10);

/// When each host port has sent its probe.
#[derive(Debug)]
pub(crate) struct Loops {
    group: GroupId,
    /// When the last probe was sent.
    sent: BTreeMap<u8, Time>,
}

/// What a frame from the group's own address shows about the port on which it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing certain.
    Nothing,
    /// Another port already serves this segment: this one must close.
    Close,
    /// Another port on this segment must close: it has to hear this one.
    Answer,
}

impl Loops {
    pub(crate) fn new(group: GroupId) -> Loops {
        Loops { group, sent: BTreeMap::new() }
    }

    /// A port is no longer a host port.
    pub(crate) fn close(&mut self, turn: &mut Turn<'_>, port: u8) {
        turn.timers.cancel(Timer::Loop(port));
        self.sent.remove(&port);
    }

    /// A frame from the group's own address was received; `own` is the port's.
    pub(crate) fn heard(
        &self,
        turn: &mut Turn<'_>,
        port: u8,
        own: MacAddr,
        bytes: &[u8],
    ) -> Finding {
        let finding = prober(bytes, self.group).map_or(Finding::Nothing, |other| find(own, other));
        if finding == Finding::Answer {
            let sent = self.sent.get(&port).copied().unwrap_or(Time::ZERO);
            turn.timers.set(Timer::Loop(port), turn.now.max(sent + ANSWER_AFTER));
        }
        finding
    }

    /// A port's probe is due: the next one follows after the interval.
    pub(crate) fn due(&mut self, turn: &mut Turn<'_>, port: u8) {
        turn.after(INTERVAL, Timer::Loop(port));
        self.sent.insert(port, turn.now);
    }

    /// The probe of a port.
    pub(crate) fn probe(&self, group: &Group, own: MacAddr) -> Vec<u8> {
        let v4 = |g: &plexus_wire::fabric::message::Gateway| match g.ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        };
        let probe = arp::Repr {
            operation: arp::Operation::REQUEST,
            sender_mac: group.mac,
            sender_ip: Ipv4Addr::UNSPECIFIED,
            target_mac: own,
            target_ip: group.gateways.iter().find_map(v4).unwrap_or(Ipv4Addr::UNSPECIFIED),
        };
        let mut frame = frame::arp(MacAddr::BROADCAST, &probe);
        frame[GROUP_AT..GROUP_AT + 16].copy_from_slice(&self.group);
        frame
    }
}

/// Of two ports the one with the lower address stays open. A port that receives its own probe
/// closes too: there is a loop behind it.
fn find(own: MacAddr, other: MacAddr) -> Finding {
    if other <= own { Finding::Close } else { Finding::Answer }
}

/// The port of this group that sent the probe.
fn prober(bytes: &[u8], group: GroupId) -> Option<MacAddr> {
    let frame = ethernet::Frame::new_checked(bytes).ok()?;
    let packet = arp::Packet::new_checked(frame.payload()).ok()?;
    let is_probe = frame.ethertype() == EtherType::ARP
        && packet.operation() == arp::Operation::REQUEST
        && packet.sender_mac() == frame.src()
        && packet.sender_ip().is_unspecified();
    let port = packet.target_mac();
    let is_ours = bytes.get(GROUP_AT..GROUP_AT + 16) == Some(&group[..]);
    (is_ours && is_probe && !port.is_multicast() && port != MacAddr::default()).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::Timers;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const C: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

    fn group() -> Group {
        Group { mac: C, gateways: vec![] }
    }

    fn loops() -> Loops {
        Loops::new([7; 16])
    }

    fn probe(group: &Group, own: MacAddr) -> Vec<u8> {
        loops().probe(group, own)
    }

    #[test]
    fn of_two_ports_that_hear_each_other_the_lesser_goes_on() {
        let mut timers = Timers::default();
        let (loops, mut turn) = (loops(), Turn::new(Time::from_secs(9), &mut timers));
        assert_eq!(loops.heard(&mut turn, 0, A, &probe(&group(), B)), Finding::Answer);
        assert_eq!(loops.heard(&mut turn, 0, B, &probe(&group(), A)), Finding::Close);
        assert_eq!(loops.heard(&mut turn, 0, A, &probe(&group(), A)), Finding::Close);
        // Other flooded frames of the group prove nothing.
        let mut reply = probe(&group(), A);
        reply[21] = 2;
        assert_eq!(loops.heard(&mut turn, 0, B, &reply), Finding::Nothing);
        assert_eq!(loops.heard(&mut turn, 0, B, &reply[..30]), Finding::Nothing);
        // A probe of another fabric at the same switch is ignored.
        let other = Loops::new([8; 16]).probe(&group(), A);
        assert_eq!(loops.heard(&mut turn, 0, B, &other), Finding::Nothing);
        let nobody = probe(&group(), MacAddr::default());
        assert_eq!(loops.heard(&mut turn, 0, B, &nobody), Finding::Nothing);
    }

    #[test]
    fn a_port_speaks_at_once_then_evenly_and_to_a_rival_with_restraint() {
        let (mut loops, ms, mut timers) = (loops(), Time::from_millis, Timers::default());
        loops.due(&mut Turn::new(ms(1000), &mut timers), 7);
        assert_eq!(timers.next(), ms(3000));
        let rival = probe(&group(), B);
        for at in 1001..1005 {
            loops.heard(&mut Turn::new(ms(at), &mut timers), 7, A, &rival);
        }
        assert_eq!((timers.due(ms(1009)), timers.next()), (None, ms(1010)));
        assert_eq!(timers.due(ms(1010)), Some(Timer::Loop(7)));
        loops.due(&mut Turn::new(ms(1010), &mut timers), 7);
        loops.close(&mut Turn::new(ms(1010), &mut timers), 7);
        assert_eq!(timers.next(), Time::FOREVER);
    }
}
