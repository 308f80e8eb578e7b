//! Writes every packet that passes a port to a pcapng file.

use std::io::{self, Write};

use plexus_wire::Time;

use super::leave_to_inner;
use crate::pcap::{Direction, LinkType, Writer};
use crate::{Batch, Link, Pool, Port, PortStats};

/// A port whose packets are written to a capture, each with its direction.
pub struct Capture<P, W: Write> {
    inner: P,
    /// `None` once it failed (which is reported once), or the port was closed.
    writer: Option<Writer<W>>,
    origin_ns: u64,
    /// Bytes and lengths of the packets offered for transmission, of which some may be left.
    offered: Vec<u8>,
    lengths: Vec<Option<usize>>,
}

impl<P: Port, W: Write + Send> Capture<P, W> {
    /// Begins a capture of `inner`. Time zero of the driver is `origin_ns` after 1970. It writes
    /// packet by packet: give it a `BufWriter`, which is flushed by `maintain` and `close`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(inner: P, to: W, link_type: LinkType, origin_ns: u64) -> io::Result<Capture<P, W>> {
        let writer = Some(Writer::new(to, link_type, inner.name())?);
        Ok(Capture { inner, writer, origin_ns, offered: Vec::new(), lengths: Vec::new() })
    }

    /// The port within and, if it is open and in order, the capture so far.
    pub fn into_inner(self) -> (P, Option<W>) {
        (self.inner, self.writer.map(Writer::into_inner))
    }

    /// Writes; a failed capture ends, but the packets still pass.
    fn write(&mut self, work: impl FnOnce(&mut Writer<W>) -> io::Result<()>) {
        if let Some(Err(error)) = self.writer.as_mut().map(work) {
            tracing::warn!(port = self.inner.name(), %error, "the capture ends here");
            self.writer = None;
        }
    }
}

impl<P: Port, W: Write + Send> Port for Capture<P, W> {
    leave_to_inner!(next_deadline, stats);

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let n = self.inner.receive(now, pool, into);
        let time_ns = self.origin_ns.saturating_add(now.as_nanos());
        for packet in &into[into.len() - n..] {
            self.write(|w| w.packet(time_ns, Direction::In, pool.data(packet)));
        }
        n
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.writer.is_none() {
            return self.inner.transmit(now, pool, from);
        }
        let mut offered = std::mem::take(&mut self.offered);
        let mut lengths = std::mem::take(&mut self.lengths);
        let capabilities = self.inner.capabilities();
        for packet in from.iter() {
            let admitted = capabilities.admit(pool, packet);
            lengths.push(admitted.then_some(packet.len()));
            if admitted {
                offered.extend_from_slice(pool.data(packet));
            }
        }
        let n = self.inner.transmit(now, pool, from);
        let time_ns = self.origin_ns.saturating_add(now.as_nanos());
        let mut rest = &offered[..];
        for len in lengths.iter().take(n).flatten() {
            let (bytes, after) = rest.split_at(*len);
            self.write(|w| w.packet(time_ns, Direction::Out, bytes));
            rest = after;
        }
        offered.clear();
        lengths.clear();
        (self.offered, self.lengths) = (offered, lengths);
        n
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        self.write(Writer::flush);
        self.inner.maintain(now, pool)
    }

    fn close(&mut self, pool: &mut Pool) {
        self.write(Writer::flush);
        self.inner.close(pool);
    }
}
