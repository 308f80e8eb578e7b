//! Scenarios: the controller with a small network of model nodes, which treat messages as real ones
//! do. Reachability is judged by following routes over the network's cables, never by the
//! controller's tables.

mod claims;
mod daemons;
mod dhcp;
mod drain;
mod explain;
mod failures;
mod follow;
mod forwarders;
mod groups;
mod many_groups;
mod net;
mod relay;
mod resolving;
mod restart;
