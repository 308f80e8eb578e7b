//! Which flow a frame belongs to, wherever it is on its way.

use plexus_io::PortId;
use plexus_wire::fabric::Fields;
use plexus_wire::{FlowKey, Protocol};

use crate::fabric::plan::{Encapsulation, FabricPlan, PortRole};

/// The hash of a flow: of an IP packet's addresses and ports, or of another frame's Ethernet
/// addresses.
pub(crate) fn flow_hash(frame: &[u8], seed: u64) -> u64 {
    if let Some(key) = FlowKey::from_frame(frame) {
        return key.hash(seed);
    }
    let addresses = frame
        .iter()
        .take(12)
        .fold(seed | 1, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3));
    addresses ^ addresses >> 32
}

/// The hash of an IP packet's addresses: the same for all flows between two hosts, and for
/// fragments.
pub(crate) fn hosts_hash(key: FlowKey, seed: u64) -> u64 {
    FlowKey { vlan: None, ports: None, protocol: Protocol(0), ..key }.hash(seed)
}

/// Where the host's frame begins in one that leaves by this port: behind the headers of the fabric,
/// if the port leads to a node or a controller.
pub(crate) fn inner_offset(plan: &FabricPlan, port: PortId, frame: &[u8]) -> usize {
    let start = match plan.role(port) {
        PortRole::Unknown | PortRole::Host => return 0,
        PortRole::Fabric(e) | PortRole::Controller(e) => match e {
            Encapsulation::Native => 0,
            Encapsulation::EtherType { out, .. } => out.len(),
        },
    };
    let header = frame.get(start..).and_then(|f| Fields::read(f).ok()).map(|f| f.header_len());
    header.map_or(0, |len| (start + len).min(frame.len()))
}
