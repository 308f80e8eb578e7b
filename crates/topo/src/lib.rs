//! The topology file, generators and shortest paths.
//!
//! One TOML file says which nodes, hosts and links there are, and optionally what a run sends and
//! asserts; `lab`, `sim` and `topo` read the same one. [`Topology::parse`] reads it,
//! [`Topology::to_toml`] writes it, [`generate()`] makes one, and [`Graph`] finds the ways in it.

mod arp_load;
pub mod assertion;
mod bridge;
mod catalogue;
mod controller;
mod dialogue;
mod event;
mod fidelity;
mod flow;
mod forwarding;
mod generate;
mod graph;
mod loop_check;
mod machine;
mod model;
mod pattern;
mod reach;
mod read;
mod routing;
mod site;
mod write;

pub use arp_load::{ArpLoad, ArpTargets};
pub use bridge::{BRIDGE_DEVICE, Bridge};
pub use catalogue::{AskingPace, Catalogue};
pub use dialogue::{Dialogue, Exchange};
pub use event::{
    Described, ETCD_MEMBERS, Event, Failure, Fault, NO_LEADER, Party, Side, Trouble, TroubleKind,
};
pub use fidelity::Fidelity;
pub use forwarding::{Forwarding, ForwardingMode};
pub use generate::{
    DEVICES_MAX, Known, LINKS_MAX, Options, RANDOM_LOW_DEGREE, RANDOM_LOW_HOSTS, Shape, ShapeError,
    add_host, generate,
};
pub use graph::{Edge, Graph, Paths, UNREACHABLE};
pub use machine::Machine;
pub use model::{
    Arrivals, CONTROLLER_DEVICE, CONTROLLER_PORT, Controller, Device, End, Expect, Extent, Flow,
    Host, HostsByAddress, IN_BAND_PORTS, Interface, Link, MTU_USUAL, Node, NodePort, Proto, Target,
    Topology,
};
pub use plexus_config::{InterfaceAddress, parse_interface_address};
pub use read::{DELAY_MAX, LANES_MAX, MTU_RANGE};
pub use routing::{RoutingDaemon, RoutingSuite};
pub use site::Site;
