//! A fabric node's control plane joined to its data plane: what the daemon, the simulator and the
//! tests all do between the two, so that they do the same. Neither crate knows the other.

use plexus_control::node::{Event, FrameKind, Output};
use plexus_plane::{DropReason, FabricTables, Injection, Punt};
use plexus_wire::MacAddr;

/// What is left to do of a batch of outputs once the tables are up to date.
#[derive(Debug, Default)]
pub struct Rest {
    /// The tables have changed: their plan is to be published before any frame is sent.
    pub changed: bool,
    /// Frames to send, in order.
    pub frames: Vec<(Injection, Vec<u8>)>,
    /// What a person may want to know.
    pub events: Vec<Event>,
}

/// Brings `tables` up to date with the outputs; `own` is the Ethernet address of a port of the
/// node, if it has a device by now.
pub fn carry_out(
    outputs: impl IntoIterator<Item = Output>,
    tables: &mut FabricTables,
    own: impl Fn(u8) -> Option<MacAddr>,
) -> Rest {
    let mut rest = Rest::default();
    for output in outputs {
        rest.changed |= match output {
            Output::Transmit { port, frame } => {
                rest.frames.push((Injection::Port(port.into()), frame));
                false
            }
            Output::Send { frame } => {
                rest.frames.push((Injection::Fabric, frame));
                false
            }
            Output::Tell(event) => {
                rest.events.push(event);
                false
            }
            Output::Role { port, role, neighbour, native } => {
                tables.set_link(port.into(), role, own(port).zip(neighbour), native)
            }
            Output::Admit { port, mac } => tables.admit(port.into(), mac),
            Output::Expel { port, mac } => tables.expel(port.into(), mac),
            Output::Install(entry) => tables.install_entry(&entry),
            Output::Tree { tree, ports } => {
                tables.set_tree(tree, ports.map(|p| p.into_iter().collect()));
                true
            }
            Output::Group(r) => {
                let way = r.tree.map(|tree| (tree, r.credits));
                tables.set_group(r.port, r.source, r.group, way)
            }
        };
    }
    rest
}

/// As what the control plane hears of a frame that the data plane has handed to it.
pub fn frame_kind(punt: Punt) -> FrameKind {
    match punt {
        Punt::Bootstrap => FrameKind::Bootstrap,
        Punt::Host => FrameKind::Host,
        Punt::Control => FrameKind::Control,
        Punt::Error(DropReason::StaleRoute) => FrameKind::Stale,
        Punt::Error(_) => FrameKind::Error,
        // A router's, which a node of a fabric is not.
        Punt::Neighbour | Punt::Local | Punt::Unresolved(_) | Punt::TooBig(_) | Punt::Named => {
            FrameKind::Error
        }
    }
}
