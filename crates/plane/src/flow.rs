//! Which flow a frame belongs to, wherever it is on its way.

use plexus_io::PortId;
use plexus_wire::fabric::{Fields, Kind};
use plexus_wire::{FlowKey, flow};

use crate::fabric::plan::{Encapsulation, FabricPlan, PortRole};

/// The hash of a flow: of an IP packet's addresses and ports, or of another frame's Ethernet
/// addresses.
pub(crate) fn flow_hash(frame: &[u8], seed: u64) -> u64 {
    hash_of(FlowKey::from_frame(frame).as_ref(), frame, seed)
}

/// The same of a frame whose key has been read, if it has one.
fn hash_of(key: Option<&FlowKey>, frame: &[u8], seed: u64) -> u64 {
    match key {
        Some(key) => key.hash(seed),
        None => bytes_hash(&frame[..frame.len().min(12)], seed),
    }
}

/// The hash of any bytes. Hosts choose them, and do not know which of them share a hash.
pub(crate) fn bytes_hash(bytes: &[u8], seed: u64) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    flow::hash_words(words, seed)
}

/// A frame that leaves by a port, as queues see it.
pub(crate) struct Queued<'a> {
    frame: &'a [u8],
    /// Where the host's frame begins: behind the headers of the fabric, if the port leads to a node
    /// or a controller.
    pub(crate) inner: usize,
    /// Where the header of a control message begins.
    control: Option<usize>,
}

impl<'a> Queued<'a> {
    pub(crate) fn new(plan: &FabricPlan, port: PortId, frame: &'a [u8]) -> Queued<'a> {
        let start = match plan.role(port) {
            PortRole::Unknown | PortRole::Host => None,
            PortRole::Fabric(e) | PortRole::Controller(e) => match e {
                Encapsulation::Native => Some(0),
                Encapsulation::EtherType { out, .. } => Some(out.len()),
            },
        };
        let header = start.and_then(|start| {
            let fields = Fields::read(frame.get(start..)?).ok()?;
            let control = (fields.kind() == Kind::Control).then_some(start);
            Some(((start + fields.header_len()).min(frame.len()), control))
        });
        let (inner, control) = header.unwrap_or_default();
        Queued { frame, inner, control }
    }

    /// The host's frame.
    pub(crate) fn host_frame(&self) -> &'a [u8] {
        &self.frame[self.inner..]
    }

    /// The hash of its flow. Control messages of one path are a flow: they are encrypted, and keep
    /// their order.
    pub(crate) fn flow(&self, seed: u64) -> u64 {
        self.flow_of(FlowKey::from_frame(self.host_frame()).as_ref(), seed)
    }

    /// The same where the host's frame has been read.
    pub(crate) fn flow_of(&self, key: Option<&FlowKey>, seed: u64) -> u64 {
        match self.control {
            Some(start) => bytes_hash(&self.frame[start..self.inner], seed),
            None => hash_of(key, self.host_frame(), seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A station that shares another's entry at will could use up its part of the router's limit.
    #[test]
    fn no_two_stations_share_an_entry_for_most_seeds() {
        let station = [2, 0, 0, 0, 0, 5];
        for bit in 0..48 {
            let mut other = station;
            other[bit / 8] ^= 1 << (bit % 8);
            let is_shared =
                |seed: &u64| bytes_hash(&station, *seed) % 64 == bytes_hash(&other, *seed) % 64;
            let shared = (0..640).filter(is_shared).count();
            // Ten on average, standard deviation 3.
            assert!(shared < 30, "bit {bit}: the same for {shared} of 640 seeds");
        }
    }
}
