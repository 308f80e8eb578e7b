//! Reads pcap and pcapng, in any byte order and time resolution. Read draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng first.
//!
//! Why not the crate `pcap-file`: its errors give no position in the file, and it treats the time
//! stamps of pcapng as nanoseconds regardless of `if_tsresol`.

use std::io::{self, Read};

/// Larger than any block of packets; a length beyond it is a corrupt length.
const BLOCK_MAX: usize = 16 << 20;

/// A record of a capture; its bytes are in the buffer that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970; 0 where the format has none.
    pub time_ns: u64,
    /// The packet's length when it was captured; more than the buffer's if it was cut short.
    pub original_len: usize,
}

/// An error in a file, with its position.
#[derive(Debug, thiserror::Error)]
#[error("{problem} (at byte {offset})")]
pub struct ReadError {
    /// First byte of the record or block.
    pub offset: u64,
    /// The problem.
    pub problem: String,
}

/// Reads a capture from its beginning to its end, or to the first thing that makes no sense.
pub struct Reader<R: Read> {
    from: R,
    /// Bytes read.
    offset: u64,
    /// Where the record being read begins.
    start: u64,
    big_endian: bool,
    format: Format,
    block: Vec<u8>,
}

enum Format {
    /// With the nanoseconds in a unit of the time stamp's second part.
    Pcap { unit_ns: u64 },
    /// With the interfaces of the section so far.
    Pcapng { interfaces: Vec<Interface> },
}

#[derive(Clone, Copy)]
struct Interface {
    snap_len: usize,
    ticks_per_s: u128,
    offset_s: i64,
}

const SECTION_HEADER: u32 = 0x0A0D_0D0A;

impl<R: Read> Reader<R> {
    /// Reads the file's header. The reader does not buffer: give it a `BufReader`.
    ///
    /// # Errors
    /// When it is neither pcap nor pcapng, or holds something other than Ethernet or USER0
    /// frames.
    pub fn new(from: R) -> Result<Reader<R>, ReadError> {
        let format = Format::Pcap { unit_ns: 1000 };
        let mut reader =
            Reader { from, offset: 0, start: 0, big_endian: false, format, block: Vec::new() };
        if !reader.fill(4)? {
            return Err(reader.bad("the file is empty"));
        }
        let magic = reader.u32(0);
        reader.big_endian = matches!(magic, 0xD4C3_B2A1 | 0x4D3C_B2A1);
        match magic {
            SECTION_HEADER => {
                reader.format = Format::Pcapng { interfaces: Vec::new() };
                reader.section()?;
            }
            0xA1B2_C3D4 | 0xD4C3_B2A1 => reader.pcap_header(1000)?,
            0xA1B2_3C4D | 0x4D3C_B2A1 => reader.pcap_header(1)?,
            _ => return Err(reader.bad("neither a pcap nor a pcapng file")),
        }
        Ok(reader)
    }

    /// Reads the next packet into `bytes`; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file is cut short or makes no sense; nothing more can be read then.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, ReadError> {
        match self.format {
            Format::Pcap { unit_ns } => self.pcap_record(unit_ns, bytes),
            Format::Pcapng { .. } => loop {
                self.start = self.offset;
                if !self.fill(8)? {
                    return Ok(None);
                }
                if let Some(record) = self.block(bytes)? {
                    return Ok(Some(record));
                }
            },
        }
    }

    fn bad(&self, problem: impl Into<String>) -> ReadError {
        ReadError { offset: self.start, problem: problem.into() }
    }

    /// Reads `n` bytes into the block buffer; false if the file ends before the first.
    fn fill(&mut self, n: usize) -> Result<bool, ReadError> {
        self.block.clear();
        let n = self.extend(n)?;
        Ok(n > 0)
    }

    /// Reads `n` further bytes into the block buffer; 0 if the file ends before the first.
    fn extend(&mut self, n: usize) -> Result<usize, ReadError> {
        let before = self.block.len();
        // `take` grows the buffer as bytes come, so that a lie about a length costs no memory.
        let got = (&mut self.from).take(n as u64).read_to_end(&mut self.block);
        match got {
            Ok(got) => {
                self.offset += got as u64;
                if got < n && (got > 0 || before > 0) {
                    return Err(self.bad(format!("the file is cut short: {got} of {n} bytes")));
                }
                Ok(got)
            }
            Err(e) => Err(self.bad(format!("cannot be read: {e}"))),
        }
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = self.block.get(at..at + 2).and_then(|b| b.try_into().ok()).unwrap_or([0; 2]);
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.block.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn check_link_type(&self, number: u32) -> Result<(), ReadError> {
        if matches!(number, 1 | 147) {
            return Ok(());
        }
        Err(self.bad(format!("link type {number} is neither Ethernet (1) nor USER0 (147)")))
    }

    fn pcap_header(&mut self, unit_ns: u64) -> Result<(), ReadError> {
        self.extend(20)?;
        if self.block.len() < 24 {
            return Err(self.bad("the file header is cut short"));
        }
        // The upper half describes an FCS, which our captures do not have.
        self.check_link_type(self.u32(20) & 0xFFFF)?;
        self.format = Format::Pcap { unit_ns };
        Ok(())
    }

    fn pcap_record(
        &mut self,
        unit_ns: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Record>, ReadError> {
        self.start = self.offset;
        if !self.fill(16)? {
            return Ok(None);
        }
        let (seconds, fraction) = (u64::from(self.u32(0)), u64::from(self.u32(4)));
        let (len, original_len) = (self.u32(8) as usize, self.u32(12) as usize);
        if len > BLOCK_MAX {
            return Err(self.bad(format!("a packet of {len} bytes: the file is corrupt")));
        }
        self.extend(len)?;
        self.take_bytes(16, len, bytes)?;
        let time_ns = seconds * 1_000_000_000 + fraction * unit_ns;
        Ok(Some(Record { time_ns, original_len }))
    }

    fn take_bytes(&self, at: usize, len: usize, into: &mut Vec<u8>) -> Result<(), ReadError> {
        let Some(bytes) = at.checked_add(len).and_then(|end| self.block.get(at..end)) else {
            return Err(self.bad(format!("a packet of {len} bytes reaches beyond its block")));
        };
        into.clear();
        into.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads the rest of a section header, of which the type has been read.
    fn section(&mut self) -> Result<(), ReadError> {
        let have = self.block.len();
        self.extend(12 - have)?;
        if self.block.len() < 12 {
            return Err(self.bad("the section header is cut short"));
        }
        self.big_endian = match self.block[8..12] {
            [0x1A, 0x2B, 0x3C, 0x4D] => true,
            [0x4D, 0x3C, 0x2B, 0x1A] => false,
            _ => return Err(self.bad("a section header without its byte-order magic")),
        };
        self.rest_of_block(28)?;
        let major = self.u16(12);
        if major != 1 {
            return Err(self.bad(format!("pcapng version {major} is not known")));
        }
        self.format = Format::Pcapng { interfaces: Vec::new() };
        Ok(())
    }

    /// Reads the rest of a block of which the first bytes have been read; at least `min` in all.
    fn rest_of_block(&mut self, min: usize) -> Result<(), ReadError> {
        let len = self.u32(4) as usize;
        if len < min || !len.is_multiple_of(4) || len > BLOCK_MAX {
            return Err(self.bad(format!("a block of {len} bytes: the file is corrupt")));
        }
        self.extend(len - self.block.len())?;
        if self.block.len() < len {
            return Err(self.bad("the file is cut short"));
        }
        let trailer = self.u32(len - 4) as usize;
        if trailer != len {
            let problem = format!("a block of {len} bytes that ends as one of {trailer}");
            return Err(self.bad(problem));
        }
        // The following code must see the body's end, not the trailer.
        self.block.truncate(len - 4);
        Ok(())
    }

    /// Reads a pcapng block of which type and length have been read.
    fn block(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, ReadError> {
        const INTERFACE: u32 = 1;
        const PACKET: u32 = 2;
        const SIMPLE: u32 = 3;
        const ENHANCED: u32 = 6;
        match self.u32(0) {
            SECTION_HEADER => self.section().map(|()| None),
            INTERFACE => {
                self.rest_of_block(20)?;
                let interface = self.interface()?;
                if let Format::Pcapng { interfaces } = &mut self.format {
                    interfaces.push(interface);
                }
                Ok(None)
            }
            kind @ (ENHANCED | PACKET) => {
                self.rest_of_block(32)?;
                let number = if kind == ENHANCED { self.u32(8) } else { self.u16(8).into() };
                let interface = self.described(number)?;
                let ticks = u64::from(self.u32(12)) << 32 | u64::from(self.u32(16));
                let (len, original_len) = (self.u32(20) as usize, self.u32(24) as usize);
                self.take_bytes(28, len, bytes)?;
                Ok(Some(Record { time_ns: interface.time_ns(ticks), original_len }))
            }
            SIMPLE => {
                self.rest_of_block(16)?;
                let snap_len = self.described(0)?.snap_len;
                let original_len = self.u32(8) as usize;
                self.take_bytes(12, original_len.min(snap_len), bytes)?;
                Ok(Some(Record { time_ns: 0, original_len }))
            }
            _ => self.rest_of_block(12).map(|()| None),
        }
    }

    fn described(&self, number: u32) -> Result<Interface, ReadError> {
        let Format::Pcapng { interfaces } = &self.format else {
            return Err(self.bad("not a pcapng file"));
        };
        let found = interfaces.get(number as usize).copied();
        found.ok_or_else(|| self.bad(format!("interface {number} was not described before")))
    }

    fn interface(&self) -> Result<Interface, ReadError> {
        const IF_TSRESOL: u16 = 9;
        const IF_TSOFFSET: u16 = 14;
        self.check_link_type(self.u16(8).into())?;
        let snap_len = match self.u32(12) {
            0 => BLOCK_MAX,
            n => n as usize,
        };
        let mut interface = Interface { snap_len, ticks_per_s: 1_000_000, offset_s: 0 };
        let mut at = 16;
        while at + 4 <= self.block.len() {
            let (code, len) = (self.u16(at), usize::from(self.u16(at + 2)));
            at += 4;
            match (code, len) {
                (0, _) => break,
                (IF_TSRESOL, 1) => {
                    let resolution = self.block.get(at).copied().unwrap_or(6);
                    let places = u32::from(resolution & 0x7F);
                    let base: u128 = if resolution & 0x80 != 0 { 2 } else { 10 };
                    interface.ticks_per_s = base
                        .checked_pow(places)
                        .filter(|&t| t <= u128::from(u64::MAX))
                        .ok_or_else(|| {
                            self.bad(format!("a time resolution of {base}^-{places}"))
                        })?;
                }
                (IF_TSOFFSET, 8) => {
                    let (a, b) = (u64::from(self.u32(at)), u64::from(self.u32(at + 4)));
                    let bits = if self.big_endian { a << 32 | b } else { b << 32 | a };
                    interface.offset_s = bits as i64;
                }
                _ => {}
            }
            at += len.next_multiple_of(4);
        }
        Ok(interface)
    }
}

impl Interface {
    fn time_ns(&self, ticks: u64) -> u64 {
        const NS: i128 = 1_000_000_000;
        // At most 2^64 · 10^9 + 2^63 · 10^9: no overflow.
        let ns = (u128::from(ticks) * NS as u128 / self.ticks_per_s) as i128
            + i128::from(self.offset_s) * NS;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}
