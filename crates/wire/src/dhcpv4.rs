//! DHCP for IPv4 (RFC 2131, 2; options: RFC 2132; long options: RFC 3396), over Ethernet only.
//!
//! ```text
//! +---------------+---------------+---------------+---------------+
//! | op (1 ask, 2) | hw type = 1   | hw length = 6 |     hops      |
//! +---------------+---------------+---------------+---------------+
//! |                        transaction (xid)                      |
//! +-------------------------------+-------------------------------+
//! |        seconds                |B|          reserved           |
//! +-------------------------------+-------------------------------+
//! |                 client address, if in use (ciaddr)            |
//! |                 "your" address, of the client (yiaddr)        |
//! |                 next server (siaddr)                          |
//! |                 relay agent (giaddr)                          |
//! |                 client hardware address (16 bytes)            |
//! |                 server name (64)                              |
//! |                 boot file (128)                               |
//! +---------------------------------------------------------------+
//! |                 magic 63 82 53 63, then options …             |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{array_at, fields, numbers, put, put_u16, put_u32, u16_at, u32_at};
use crate::error::{Error, Format, need};
use crate::mac::MacAddr;

/// Bytes before the options, the magic included.
pub const HEADER_LEN: usize = 240;
/// Shortest message that every client takes: a BOOTP message (RFC 1542, 2.1).
pub const MESSAGE_LEN_MIN: usize = 300;
/// UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 68;

const MAGIC: [u8; 4] = [0x63, 0x82, 0x53, 0x63];
const SNAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;

/// Numbers of options (IANA "BOOTP Vendor Extensions and DHCP Options").
#[allow(missing_docs)] // the names say it all
pub mod option {
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DNS: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN_NAME: u8 = 15;
    pub const MTU: u8 = 26;
    pub const BROADCAST_ADDRESS: u8 = 28;
    pub const NTP: u8 = 42;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_ID: u8 = 54;
    pub const PARAMETERS: u8 = 55;
    pub const MESSAGE: u8 = 56;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const CLIENT_ID: u8 = 61;
    pub const RELAY_AGENT: u8 = 82;
    pub const END: u8 = 255;
}

numbers! {
    /// The type of a message (RFC 2132, 9.6).
    MessageType(u8) {
        /// A client looks for servers.
        DISCOVER = 1, "discover";
        /// A server offers an address.
        OFFER = 2, "offer";
        /// A client takes an address, or wants to keep one.
        REQUEST = 3, "request";
        /// A client found the address in use.
        DECLINE = 4, "decline";
        /// The address is the client's.
        ACK = 5, "ack";
        /// The address is not the client's.
        NAK = 6, "nak";
        /// A client releases its address.
        RELEASE = 7, "release";
        /// A client has an address and wants the rest.
        INFORM = 8, "inform";
        _ => |f, n| write!(f, "type {n}")
    }
}

/// A view of a message; the buffer ends where the UDP payload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// How many relays it has passed.
        hops / set_hops: u8 = 3,
        /// The relay's address.
        giaddr / set_giaddr: Ipv4Addr = 24,
        /// The client's Ethernet address.
        chaddr: MacAddr = 28,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks length, hardware (Ethernet), operation and magic. Options are checked by `parse`.
    ///
    /// # Errors
    /// Truncated: fewer than 240 bytes. Invalid: not a DHCP message over Ethernet.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Dhcpv4, b.len(), HEADER_LEN)?;
        let invalid = |field, value: u8| Err(Error::invalid(Format::Dhcpv4, field, value.into()));
        match (b[0], b[1], b[2]) {
            (1 | 2, 1, 6) => {}
            (1 | 2, 1, length) => return invalid("hardware length", length),
            (1 | 2, kind, _) => return invalid("hardware type", kind),
            (op, ..) => return invalid("operation", op),
        }
        if b[236..240] != MAGIC {
            return Err(Error::invalid(Format::Dhcpv4, "magic", u32_at(b, 236)));
        }
        Ok(Packet(bytes))
    }

    /// True for what clients send.
    pub fn is_request(&self) -> bool {
        self.0.as_ref()[0] == 1
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes an address into an option that holds exactly one; false if there is no such option
    /// (one in an overloaded field is not found).
    pub fn set_address(&mut self, code: u8, ip: Ipv4Addr) -> bool {
        let found = pieces(self.0.as_ref()).find(|(c, data)| *c == code && data.len() == 4);
        let Some((_, data)) = found else { return false };
        put(self.0.as_mut(), data.start, &ip.octets());
        true
    }

    /// Turns an option into padding; the message keeps its length.
    pub fn blank(&mut self, code: u8) {
        let found: Vec<_> = pieces(self.0.as_ref()).filter(|(c, _)| *c == code).collect();
        for (_, data) in found {
            self.0.as_mut()[data.start - 2..data.end].fill(option::PAD);
        }
    }

    /// The message with one more option of at most 255 bytes after the others; `None` if its
    /// options have no end mark, or the option is too long.
    pub fn with_option(&self, added: &DhcpOption) -> Option<Vec<u8>> {
        let bytes = self.0.as_ref();
        let end = pieces(bytes).last().map_or(HEADER_LEN, |(_, data)| data.end);
        let end = end + bytes[end..].iter().position(|b| *b != option::PAD)?;
        let len = u8::try_from(added.data.len()).ok()?;
        if bytes[end] != option::END {
            return None;
        }
        let mut out = bytes[..end].to_vec();
        out.extend([added.code, len]);
        out.extend(&added.data);
        out.push(option::END);
        out.resize(out.len().max(MESSAGE_LEN_MIN), option::PAD);
        Some(out)
    }
}

/// Each option, or piece of one, before the end mark, with the position of its bytes in the
/// message. A truncated one is left out.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u8, std::ops::Range<usize>)> {
    let mut at = HEADER_LEN;
    std::iter::from_fn(move || {
        while bytes.get(at) == Some(&option::PAD) {
            at += 1;
        }
        let code = *bytes.get(at).filter(|code| **code != option::END)?;
        let data = at + 2..at + 2 + usize::from(*bytes.get(at + 1)?);
        if data.end > bytes.len() {
            return None;
        }
        at = data.end;
        Some((code, data))
    })
}

/// An option: its number and its bytes, pieces of a long one joined (RFC 3396).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhcpOption {
    /// Its number, 1 to 254.
    pub code: u8,
    /// Its value.
    pub data: Vec<u8>,
}

impl DhcpOption {
    /// An option of these bytes.
    pub fn new(code: u8, data: impl Into<Vec<u8>>) -> DhcpOption {
        DhcpOption { code, data: data.into() }
    }

    /// An option of addresses.
    pub fn addresses(code: u8, addresses: &[Ipv4Addr]) -> DhcpOption {
        DhcpOption::new(code, addresses.iter().flat_map(|a| a.octets()).collect::<Vec<u8>>())
    }

    /// An option of seconds.
    pub fn seconds(code: u8, seconds: u32) -> DhcpOption {
        DhcpOption::new(code, seconds.to_be_bytes())
    }
}

/// The meaning of a message. Server name and boot file are not read, unless they carry options
/// (RFC 2132, 9.3), and are written empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// From a client.
    pub is_request: bool,
    /// Relays passed.
    pub hops: u8,
    /// Names the exchange.
    pub xid: u32,
    /// Seconds since the client began.
    pub secs: u16,
    /// The client wants broadcast answers (RFC 2131, 4.1).
    pub broadcast: bool,
    /// The address that the client uses already.
    pub ciaddr: Ipv4Addr,
    /// The address for the client.
    pub yiaddr: Ipv4Addr,
    /// The next server of a boot.
    pub siaddr: Ipv4Addr,
    /// The relay agent.
    pub giaddr: Ipv4Addr,
    /// The client.
    pub chaddr: MacAddr,
    /// The message type.
    pub message_type: MessageType,
    /// All other options, each number once, in the order of their first pieces.
    pub options: Vec<DhcpOption>,
}

/// Adds the options of one area. Bytes after the end mark are padding; an area may lack the mark.
fn collect(mut area: &[u8], into: &mut Vec<DhcpOption>) -> Result<(), Error> {
    while let [code, rest @ ..] = area {
        area = rest;
        match *code {
            option::PAD => continue,
            option::END => break,
            code => {
                need(Format::Dhcpv4, area.len(), 1)?;
                let len = usize::from(area[0]);
                need(Format::Dhcpv4, area.len(), 1 + len)?;
                let data = &area[1..1 + len];
                match into.iter_mut().find(|o| o.code == code) {
                    Some(option) => option.data.extend_from_slice(data),
                    None => into.push(DhcpOption::new(code, data)),
                }
                area = &area[1 + len..];
            }
        }
    }
    Ok(())
}

impl Repr {
    /// The meaning of `packet`.
    ///
    /// # Errors
    /// Truncated: an option ends behind its area. Invalid: no message type (it is plain BOOTP).
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let b = packet.0.as_ref();
        let mut options = Vec::new();
        collect(&b[HEADER_LEN..], &mut options)?;
        if let Some(at) = options.iter().position(|o| o.code == option::OVERLOAD) {
            // RFC 2131, 4.1: the file field first, then the server name.
            let overload = options.remove(at).data.first().copied().unwrap_or(0);
            for (bit, area) in [(1, FILE), (2, SNAME)] {
                if overload & bit != 0 {
                    collect(&b[area], &mut options)?;
                }
            }
            options.retain(|o| o.code != option::OVERLOAD);
        }
        let at = options.iter().position(|o| o.code == option::MESSAGE_TYPE);
        let kind = at.map(|at| options.remove(at).data);
        let Some([kind]) = kind.as_deref() else {
            return Err(Error::invalid(Format::Dhcpv4, "message type", 0));
        };
        let address = |at| Ipv4Addr::from(array_at::<4>(b, at));
        Ok(Repr {
            is_request: packet.is_request(),
            hops: packet.hops(),
            xid: u32_at(b, 4),
            secs: u16_at(b, 8),
            broadcast: b[10] & 0x80 != 0,
            ciaddr: address(12),
            yiaddr: address(16),
            siaddr: address(20),
            giaddr: packet.giaddr(),
            chaddr: packet.chaddr(),
            message_type: MessageType(*kind),
            options,
        })
    }

    /// The bytes of an option.
    pub fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|o| o.code == code).map(|o| &o.data[..])
    }

    /// The address that an option holds, if it holds exactly one.
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.option(code)?).ok().map(Ipv4Addr::from)
    }

    fn options_len(&self) -> usize {
        // A long option is cut into pieces of 255 bytes, an empty one is one piece.
        let pieces = |len: usize| 2 * len.div_ceil(255).max(1) + len;
        self.options.iter().map(|o| pieces(o.data.len())).sum()
    }

    /// Bytes that `emit` writes: the whole message, padded to 300 bytes.
    pub fn buffer_len(&self) -> usize {
        (HEADER_LEN + 3 + self.options_len() + 1).max(MESSAGE_LEN_MIN)
    }

    /// Writes the message at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: an option's number is 0, 255, or
    /// that of the message type or of overloading.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        need(Format::Dhcpv4, buf.len(), len)?;
        let buf = &mut buf[..len];
        buf.fill(0);
        buf[0] = if self.is_request { 1 } else { 2 };
        (buf[1], buf[2], buf[3]) = (1, 6, self.hops);
        put_u32(buf, 4, self.xid);
        put_u16(buf, 8, self.secs);
        buf[10] = u8::from(self.broadcast) << 7;
        for (at, ip) in [(12, self.ciaddr), (16, self.yiaddr), (20, self.siaddr), (24, self.giaddr)]
        {
            put(buf, at, &ip.octets());
        }
        put(buf, 28, &self.chaddr.0);
        put(buf, 236, &MAGIC);
        put(buf, HEADER_LEN, &[option::MESSAGE_TYPE, 1, self.message_type.0]);
        let mut at = HEADER_LEN + 3;
        for o in &self.options {
            if matches!(o.code, option::PAD | option::END | option::MESSAGE_TYPE | option::OVERLOAD)
            {
                return Err(Error::invalid(Format::Dhcpv4, "option", o.code.into()));
            }
            let mut pieces: Vec<&[u8]> = o.data.chunks(255).collect();
            if pieces.is_empty() {
                pieces.push(&[]);
            }
            for piece in pieces {
                put(buf, at, &[o.code, piece.len() as u8]);
                put(buf, at + 2, piece);
                at += 2 + piece.len();
            }
        }
        buf[at] = option::END;
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DHCP {} {}", self.message_type, self.chaddr)?;
        for (name, ip) in [("has", self.ciaddr), ("gets", self.yiaddr), ("via", self.giaddr)] {
            if !ip.is_unspecified() {
                write!(f, " {name} {ip}")?;
            }
        }
        if let Some(ip) = self.address(option::REQUESTED_ADDRESS) {
            write!(f, " asks {ip}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
