//! Writes pcapng: one section, one interface, an enhanced packet block per packet, time stamps in
//! nanoseconds. Read draft-ietf-opsawg-pcapng, sections 4.1 to 4.3 first.

use std::io::{self, Write};

/// The link type of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkType {
    /// LINKTYPE_ETHERNET: frames as on a host port.
    #[default]
    Ethernet,
    /// LINKTYPE_USER0: frames of a fabric port.
    User0,
}

impl LinkType {
    /// The number in the file.
    pub fn number(self) -> u16 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::User0 => 147,
        }
    }
}

/// The direction of a packet (`epb_flags`, bits 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the port.
    In,
    /// Sent by the port.
    Out,
}

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// Decimal places of a second in a time stamp.
const NANOSECONDS: u8 = 9;

/// Writes a capture to a file, a pipe or memory. It does not buffer: give it a `BufWriter`.
pub struct Writer<W: Write> {
    to: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of an interface called `name`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(to: W, link_type: LinkType, name: &str) -> io::Result<Writer<W>> {
        let mut writer = Writer { to, block: Vec::with_capacity(2048) };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1);
        writer.u16(0);
        writer.block.extend(u64::MAX.to_le_bytes());
        writer.end()?;
        writer.begin(INTERFACE_DESCRIPTION);
        writer.u16(link_type.number());
        writer.u16(0);
        writer.u32(0);
        writer.option(IF_NAME, &name.as_bytes()[..name.len().min(255)]);
        writer.option(IF_TSRESOL, &[NANOSECONDS]);
        writer.option(0, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds a packet, `time_ns` nanoseconds after 1970.
    ///
    /// # Errors
    /// Those of the file, which then ends with a part of a packet.
    pub fn packet(&mut self, time_ns: u64, direction: Direction, bytes: &[u8]) -> io::Result<()> {
        self.cut_packet(time_ns, direction, bytes, bytes.len())
    }

    /// The same for a packet of `len` bytes of which these are the first.
    ///
    /// # Errors
    /// As for [`packet`](Writer::packet).
    pub fn cut_packet(
        &mut self,
        time_ns: u64,
        direction: Direction,
        bytes: &[u8],
        len: usize,
    ) -> io::Result<()> {
        self.begin(ENHANCED_PACKET);
        self.u32(0);
        self.u32((time_ns >> 32) as u32);
        self.u32(time_ns as u32);
        self.u32(bytes.len() as u32);
        self.u32(len as u32);
        self.padded(bytes);
        let flags: u32 = match direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        self.option(EPB_FLAGS, &flags.to_le_bytes());
        self.option(0, &[]);
        self.end()
    }

    /// Passes buffered data to the operating system.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The file, as far as it is written.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    /// Enters the block's length at both ends and writes it.
    fn end(&mut self) -> io::Result<()> {
        let len = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.u32(len);
        self.to.write_all(&self.block)
    }

    fn u16(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }
}
