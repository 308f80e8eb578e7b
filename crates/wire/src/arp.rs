//! ARP for IPv4 over Ethernet (RFC 826; RFC 5227 for probes and announcements).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |   hardware type = 1           |   protocol type = 0x0800      |
//! +---------------+---------------+-------------------------------+
//! | hw length = 6 | pr length = 4 |   operation (1 ask, 2 answer) |
//! +---------------+---------------+-------------------------------+
//! |   sender hardware address (6) | sender protocol address (4)   |
//! |   target hardware address (6) | target protocol address (4)   |
//! +-------------------------------+-------------------------------+
//! ```

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{fields, numbers, put, put_u16, u16_at};
use crate::error::{Error, Format, need};
use crate::ethernet::EtherType;
use crate::mac::MacAddr;

/// Bytes in the packet.
pub const PACKET_LEN: usize = 28;

numbers! {
    /// The operation (IANA "ARP Parameters").
    Operation(u16) {
        /// Who has the target address?
        REQUEST = 1, "request";
        /// The sender has the sender address.
        REPLY = 2, "reply";
        _ => |f, n| write!(f, "operation {n}")
    }
}

/// A view of an ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// The operation.
        operation: Operation = 6,
        /// Sender hardware address.
        sender_mac: MacAddr = 8,
        /// Sender protocol address; 0.0.0.0 in a probe (RFC 5227, 2.1.1).
        sender_ip: Ipv4Addr = 14,
        /// Target hardware address; without meaning in a request.
        target_mac: MacAddr = 18,
        /// Target protocol address.
        target_ip: Ipv4Addr = 24,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks length, hardware and protocol (RFC 826, "Packet Reception": "Do I have the hardware
    /// type? … Do I speak the protocol?"). Bytes behind the packet are padding.
    ///
    /// # Errors
    /// Truncated: fewer than 28 bytes. Invalid: not IPv4 over Ethernet.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Arp, b.len(), PACKET_LEN)?;
        for (field, value, expected) in [
            ("hardware type", u16_at(b, 0), 1),
            ("protocol type", u16_at(b, 2), EtherType::IPV4.0),
            ("hardware length", b[4].into(), 6),
            ("protocol length", b[5].into(), 4),
        ] {
            if value != expected {
                return Err(Error::invalid(Format::Arp, field, value.into()));
            }
        }
        Ok(Packet(bytes))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Turns a request into the reply that `mac` has the target address, in place (RFC 826, "Packet
    /// Reception": swap the fields, put in ours, set the opcode).
    pub fn answer(&mut self, mac: MacAddr) {
        let (asker_mac, asker_ip) = (self.sender_mac(), self.sender_ip());
        let ip = self.target_ip();
        let b = self.0.as_mut();
        put_u16(b, 6, Operation::REPLY.0);
        put(b, 8, &mac.0);
        put(b, 14, &ip.octets());
        put(b, 18, &asker_mac.0);
        put(b, 24, &asker_ip.octets());
    }
}

/// The meaning of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The operation.
    pub operation: Operation,
    /// Sender hardware address.
    pub sender_mac: MacAddr,
    /// Sender protocol address.
    pub sender_ip: Ipv4Addr,
    /// Target hardware address.
    pub target_mac: MacAddr,
    /// Target protocol address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// The meaning of `packet`.
    ///
    /// # Errors
    /// None today: the view has checked everything.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        Ok(Repr {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Arp, buf.len(), PACKET_LEN)?;
        put_u16(buf, 0, 1);
        put_u16(buf, 2, EtherType::IPV4.0);
        put(buf, 4, &[6, 4]);
        put_u16(buf, 6, self.operation.0);
        put(buf, 8, &self.sender_mac.0);
        put(buf, 14, &self.sender_ip.octets());
        put(buf, 18, &self.target_mac.0);
        put(buf, 24, &self.target_ip.octets());
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { operation, sender_mac, sender_ip, target_ip, .. } = self;
        match *operation {
            Operation::REQUEST if sender_ip == target_ip => {
                write!(f, "announcement {sender_ip} is-at {sender_mac}")
            }
            Operation::REQUEST => write!(f, "who-has {target_ip} tell {sender_ip}"),
            Operation::REPLY => write!(f, "reply {sender_ip} is-at {sender_mac}"),
            other => write!(f, "{other} from {sender_ip} to {target_ip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 192.0.2.1 (02:..:01) asks for 192.0.2.2.
    pub(crate) const REQUEST: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2];

    #[test]
    fn a_request_is_read_and_written_back() {
        let repr = Repr::parse(&Packet::new_checked(&REQUEST[..]).unwrap()).unwrap();
        assert_eq!(repr.to_string(), "who-has 192.0.2.2 tell 192.0.2.1");
        assert_eq!(repr.sender_mac, MacAddr([2, 0, 0, 0, 0, 1]));
        let mut out = [0; 28];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, REQUEST);
    }

    #[test]
    fn a_request_becomes_its_answer_in_place() {
        let mut packet = Packet::new_checked(REQUEST).unwrap();
        packet.answer(MacAddr([2, 0, 0, 0, 0, 2]));
        let repr = Repr::parse(&packet).unwrap();
        assert_eq!(repr.to_string(), "reply 192.0.2.2 is-at 02:00:00:00:00:02");
        assert_eq!(repr.target_mac, MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(repr.target_ip, Ipv4Addr::new(192, 0, 2, 1));
    }

    #[test]
    fn other_hardware_and_protocols_are_refused_by_name() {
        for (at, text) in [
            (0, "ARP: bad hardware type 65281"),
            (2, "ARP: bad protocol type 65280"),
            (4, "ARP: bad hardware length 255"),
            (5, "ARP: bad protocol length 255"),
        ] {
            let mut b = REQUEST;
            b[at] = 0xFF;
            assert_eq!(Packet::new_checked(b).unwrap_err().to_string(), text);
        }
        for n in 0..28 {
            assert!(Packet::new_checked(&REQUEST[..n]).unwrap_err().is_truncated());
        }
    }
}
