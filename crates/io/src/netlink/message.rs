//! The netlink envelope (RFC 3549, 2.3.2): messages with a header of 16 bytes, attributes with one
//! of 4, both padded to 4 bytes, integers in the machine's byte order.

/// `NLMSG_ERROR`: an error, or with code 0 an acknowledgement.
pub(super) const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub(super) const DONE: u16 = 3;

/// Flags of a message's header (linux/netlink.h).
pub(super) mod flag {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    /// In an answer: the dumped state changed meanwhile.
    pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}

const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
/// Bits of an attribute's type that are flags (nested, network byte order).
const TYPE_MASK: u16 = 0x3FFF;

/// One message as it was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// The port of the socket whose request this is about.
    pub(super) port: u32,
    pub(super) body: &'a [u8],
}

impl Message<'_> {
    /// The code of an error, an acknowledgement (0) or a dump's end, as an errno.
    pub(super) fn code(&self) -> i32 {
        u32_at(self.body, 0).map_or(0, |code| (code as i32).wrapping_neg())
    }
}

/// The messages of one datagram. A truncated or malformed one ends them.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..len)?;
        let message = Message {
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?,
            sequence: u32_at(bytes, 8)?,
            port: u32_at(bytes, 12)?,
            body,
        };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(message)
    })
}

/// The attributes after a message's fixed part. A truncated or malformed one ends them.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(ATTRIBUTE..len)?;
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The value of the attribute with this number.
pub(super) fn value_of(bytes: &[u8], number: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(its, _)| *its == number).map(|(_, value)| value)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Messages under construction, one after the other.
#[derive(Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    /// Where the last message begins.
    start: usize,
}

impl Builder {
    /// Begins a message with its fixed part.
    pub(super) fn begin(&mut self, kind: u16, flags: u16, sequence: u32, fixed: &[u8]) {
        self.start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | flag::REQUEST).to_ne_bytes());
        self.bytes.extend(sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(fixed);
        self.close(self.start);
    }

    /// Adds an attribute.
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |message| message.bytes.extend(value));
    }

    /// Adds an attribute whose value is written by `content`: attributes, or [`raw`](Self::raw).
    pub(super) fn nest(&mut self, kind: u16, content: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        content(self);
        let len = u16::try_from(self.bytes.len() - at).expect("an attribute of less than 64 kB");
        self.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        self.close(self.start);
    }

    /// Adds bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Pads, and writes the length of the message.
    fn close(&mut self, start: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let len = u32::try_from(self.bytes.len() - start).expect("a message of less than 4 GB");
        self.bytes[start..start + 4].copy_from_slice(&len.to_ne_bytes());
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
