//! A port on capture files: it receives packets from one file (pcap or pcapng) and writes sent
//! packets to another (pcapng).

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use plexus_wire::Time;

pub use self::reader::{ReadError, Reader, Record};
pub use self::writer::{Direction, LinkType, Writer};
use crate::OpenError;
use crate::packet::Batch;
use crate::pool::Pool;
use crate::port::{Capabilities, Link, Port, PortStats};

/// Settings of a port on capture files.
#[derive(Clone, Debug, Default)]
pub struct PcapOptions {
    /// The file to receive from; without it nothing arrives.
    pub input: Option<PathBuf>,
    /// The output file, replaced if it exists; without one, sent packets are only counted.
    pub output: Option<PathBuf>,
    /// Nanoseconds from 1970 to the driver's time zero, for the time stamps written.
    pub origin_ns: u64,
}

/// A port on capture files.
pub struct PcapPort {
    name: String,
    origin_ns: u64,
    input: Option<Reader<BufReader<File>>>,
    output: Option<Writer<BufWriter<File>>>,
    /// The next packet to arrive, read ahead; its bytes are in `bytes`.
    next: Option<Record>,
    bytes: Vec<u8>,
    link: Link,
    stats: PortStats,
}

impl PcapPort {
    /// Opens the files.
    ///
    /// # Errors
    /// When a file cannot be opened, or the input is not a capture of Ethernet or USER0 frames or
    /// is corrupt at its first packet. A later error ends the file there: it is reported with its
    /// position and counted in `rx_invalid`.
    pub fn open(name: &str, options: PcapOptions) -> Result<PcapPort, OpenError> {
        let mut bytes = Vec::new();
        let mut input = options.input.as_deref().map(open_input).transpose()?;
        let next = match (&mut input, &options.input) {
            (Some(reader), Some(path)) => reader.next(&mut bytes).map_err(|e| located(path, e))?,
            _ => None,
        };
        let output = match &options.output {
            None => None,
            Some(path) => Some(
                File::create(path)
                    .and_then(|file| Writer::new(BufWriter::new(file), LinkType::Ethernet, name))
                    .map_err(|e| {
                        OpenError::system(&path.display().to_string(), "writing the file", e)
                    })?,
            ),
        };
        Ok(PcapPort {
            name: name.into(),
            origin_ns: options.origin_ns,
            input,
            output,
            next,
            bytes,
            link: Link::Up,
            stats: PortStats::default(),
        })
    }

    /// True when all packets of the input have arrived.
    pub fn is_at_end(&self) -> bool {
        self.next.is_none()
    }

    /// Reads the next packet.
    fn advance(&mut self) {
        self.next = None;
        let Some(reader) = &mut self.input else { return };
        match reader.next(&mut self.bytes) {
            Ok(Some(record)) => self.next = Some(record),
            Ok(None) => self.input = None,
            Err(error) => {
                tracing::warn!(port = %self.name, %error, "corrupt capture file: it ends here");
                self.stats.rx_invalid += 1;
                self.input = None;
            }
        }
    }
}

impl Port for PcapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { checksum: false, segmentation: false, max_frame: u16::MAX.into() }
    }

    fn receive(&mut self, _now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        // A bound on the records looked at, so that a file of unusable ones does not hold the
        // worker.
        const RECORDS_MAX: usize = 1024;
        let before = into.len();
        for _ in 0..RECORDS_MAX {
            if into.is_full() || self.link == Link::Down {
                break;
            }
            let Some(record) = self.next else { break };
            if self.bytes.len() > pool.max_len() || self.bytes.len() < record.original_len {
                self.stats.rx_invalid += 1;
            } else if let Some(packet) = pool.alloc_from(&self.bytes) {
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += packet.len() as u64;
                into.push(packet);
            } else {
                break;
            }
            self.advance();
        }
        into.len() - before
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.link == Link::Down {
            return 0;
        }
        let capabilities = self.capabilities();
        let n = from.len();
        let time_ns = self.origin_ns.saturating_add(now.as_nanos());
        for packet in from.drain(..) {
            let written = capabilities.admit(pool, &packet)
                && match &mut self.output {
                    None => true,
                    Some(writer) => writer
                        .packet(time_ns, Direction::Out, pool.data(&packet))
                        .inspect_err(
                            |error| tracing::warn!(port = %self.name, %error, "not written"),
                        )
                        .is_ok(),
                };
            if written {
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += packet.len() as u64;
            } else {
                self.stats.tx_rejected += 1;
            }
            pool.free(packet);
        }
        n
    }

    /// Also writes out what has been sent so far.
    fn maintain(&mut self, _now: Time, _pool: &mut Pool) -> Link {
        if let Some(Err(error)) = self.output.as_mut().map(Writer::flush) {
            tracing::warn!(port = %self.name, %error, "what was sent is not in the file");
        }
        self.link
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_deadline(&self) -> Option<Time> {
        self.next.map(|_| Time::ZERO)
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn close(&mut self, pool: &mut Pool) {
        self.maintain(Time::ZERO, pool);
        self.output = None;
        self.input = None;
        self.next = None;
        self.link = Link::Down;
    }
}

fn open_input(path: &Path) -> Result<Reader<BufReader<File>>, OpenError> {
    let file = File::open(path)
        .map_err(|e| OpenError::system(&path.display().to_string(), "opening the file", e))?;
    Reader::new(BufReader::with_capacity(1 << 18, file)).map_err(|e| located(path, e))
}

fn located(path: &Path, error: ReadError) -> OpenError {
    OpenError::BadFile { path: path.into(), offset: error.offset, problem: error.problem }
}
