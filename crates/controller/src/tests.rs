//! Scenarios: the controller against a small network of nodes that do what real ones do with the
//! bodies they get. What is reachable is judged by following routes over the network's cables,
//! never by the controller's tables.

mod claims;
mod dhcp;
mod failures;
mod groups;
mod many_groups;
mod net;
mod relay;
mod resolving;
mod restart;
