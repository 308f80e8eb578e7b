//! Prints a line for every packet that passes a port.

use std::fmt::Write;

use plexus_wire::Time;

use super::leave_to_inner;
use crate::{Batch, Checksum, Link, Packet, Pool, Port, PortStats, Segmentation};

/// A port that describes its packets to `sink`.
pub struct Tracer<P, S> {
    inner: P,
    sink: S,
    /// Lines of the packets offered for transmission, of which some may be left.
    lines: Vec<String>,
}

impl<P: Port, S: FnMut(&str) + Send> Tracer<P, S> {
    /// Calls `sink` with a line for each packet that `inner` receives or takes.
    pub fn new(inner: P, sink: S) -> Tracer<P, S> {
        Tracer { inner, sink, lines: Vec::new() }
    }

    /// The port within.
    pub fn into_inner(self) -> P {
        self.inner
    }
}

impl<P: Port, S: FnMut(&str) + Send> Port for Tracer<P, S> {
    leave_to_inner!(maintain, next_deadline, stats, close);

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let n = self.inner.receive(now, pool, into);
        for packet in &into[into.len() - n..] {
            (self.sink)(&line(now, self.inner.name(), "in", pool, packet));
        }
        n
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let name = self.inner.name();
        self.lines.extend(from.iter().map(|packet| line(now, name, "out", pool, packet)));
        let n = self.inner.transmit(now, pool, from);
        self.lines.drain(..).take(n).for_each(|line| (self.sink)(&line));
        n
    }
}

/// `1.000000000s eth0 in 60 02:00:00:00:00:01 > 02:00:00:00:00:02 0x88b5`, and unfinished offload
/// work.
fn line(now: Time, name: &str, way: &str, pool: &Pool, packet: &Packet) -> String {
    let data = pool.data(packet);
    let mut text = format!("{now} {name} {way} {}", data.len());
    if let Some(head) = data.get(..14) {
        let mac = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<Vec<_>>().join(":");
        let kind = u16::from_be_bytes([head[12], head[13]]);
        // Writing to a string does not fail.
        let _ = write!(text, " {} > {} {kind:#06x}", mac(&head[6..12]), mac(&head[..6]));
        if let (0x8100 | 0x88A8, Some(tag)) = (kind, data.get(14..18)) {
            let tci = u16::from_be_bytes([tag[0], tag[1]]);
            let kind = u16::from_be_bytes([tag[2], tag[3]]);
            let _ = write!(text, " vlan {} priority {} {kind:#06x}", tci & 0xFFF, tci >> 13);
        }
    }
    if packet.offload.checksum == Checksum::Partial {
        text.push_str(" checksum owed");
    }
    if packet.offload.segmentation != Segmentation::None {
        let _ = write!(text, " in segments of {}", packet.offload.segment_size);
    }
    text
}
