//! The topology file, generators and path algorithms.
//!
//! One TOML file says which nodes, hosts and links there are, and optionally what a run sends and
//! asserts; `lab`, `sim` and `topo` read the same one. [`Topology::parse`] reads it,
//! [`Topology::to_toml`] writes it, [`generate()`] makes one, and [`Graph`] finds the ways in it.

pub mod analysis;
pub mod assertion;
mod bridge;
mod controller;
mod event;
pub mod exchange;
mod flow;
mod generate;
mod graph;
mod model;
mod read;
mod write;

pub use bridge::{BRIDGE_DEVICE, Bridge};
pub use generate::{DEVICES_MAX, LINKS_MAX, Options, Shape, ShapeError, generate};
pub use graph::{Distances, Edge, Graph, Paths, UNREACHABLE};
pub use model::{
    CONTROLLER_DEVICE, CONTROLLER_PORT, Controller, Device, End, Event, Expect, Extent, Failure,
    Flow, Host, Interface, InterfaceAddress, Link, MTU_USUAL, Node, NodePort, Proto, Target,
    Topology,
};
pub use read::parse_interface_address;
