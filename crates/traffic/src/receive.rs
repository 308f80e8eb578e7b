//! Finding the probe in a received frame.

use crate::probe::{PROBE_ETHERTYPE, Probe};

/// The probe that an Ethernet frame carries in a UDP datagram to `udp_port`, or directly, behind
/// up to two VLAN tags. `None` for every other frame, however malformed.
#[inline]
pub fn find_probe(frame: &[u8], udp_port: u16) -> Option<Probe> {
    let mut at = 12;
    let mut ethertype = word(frame, at)?;
    for _ in 0..2 {
        // IEEE 802.1Q customer and service tags.
        if ethertype != 0x8100 && ethertype != 0x88A8 {
            break;
        }
        at += 4;
        ethertype = word(frame, at)?;
    }
    let packet = frame.get(at + 2..)?;
    let datagram = match ethertype {
        0x0800 => {
            let version_ihl = *packet.first()?;
            // More-fragments and offset: a fragment is no probe (RFC 791, 3.1).
            if version_ihl >> 4 != 4 || *packet.get(9)? != 17 || word(packet, 6)? & 0x3FFF != 0 {
                return None;
            }
            packet.get(usize::from(version_ihl & 15) * 4..)?
        }
        0x86DD => {
            if packet.first()? >> 4 != 6 || *packet.get(6)? != 17 {
                return None;
            }
            packet.get(40..)?
        }
        PROBE_ETHERTYPE => return Probe::decode(packet),
        _ => return None,
    };
    if word(datagram, 2)? != udp_port {
        return None;
    }
    Probe::decode(datagram.get(8..)?)
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|w| u16::from_be_bytes([w[0], w[1]]))
}
