//! Which flow a frame belongs to, wherever it is on its way.

use plexus_io::PortId;
use plexus_wire::FlowKey;
use plexus_wire::fabric::{Fields, Kind};

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

/// The hash of any bytes.
pub(crate) fn bytes_hash(bytes: &[u8], seed: u64) -> u64 {
    let hash =
        bytes.iter().fold(seed | 1, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3));
    hash ^ hash >> 32
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
