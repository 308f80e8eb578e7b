//! Reads and writes the topology definitions of containerlab (containerlab.dev, "Topology
//! definition"; types/topology.go and links/ of its source).
//!
//! A file does not say which of its containers are hosts. Our own files have labels for that.
//! Without them a bridge is a bridge, a container of kind `linux` with at most one cable is a host,
//! and any other node becomes a node of Plexus.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// The label that says what a container is: `node`, `host`, `bridge` or `controller`.
const KIND_LABEL: &str = "plexus-kind";
/// The label with the address that a host gets by DHCP.
const ADDRESS_LABEL: &str = "plexus-address";
