//! The topology file, generators and path algorithms.
//!
//! One TOML file says which nodes, hosts and links there are, and optionally what a run sends and
//! asserts; `lab`, `sim` and `topo` read the same one. [`Topology::parse`] reads it,
//! [`Topology::to_toml`] writes it.

pub mod assertion;
mod flow;
mod model;
mod read;
mod write;

pub use model::{
    Device, End, Expect, Extent, Flow, Host, Interface, InterfaceAddress, Link, MTU_USUAL, Node,
    NodePort, Proto, Target, Topology,
};
pub use read::parse_interface_address;
