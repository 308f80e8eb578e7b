//! The fabric whole: real nodes, data planes, hub and controller in one process, driven by a seed.
//! Hosts judge it: what counts is the packets that they get.

mod chaos;
mod failures;
mod graphs;
mod groups;
mod hostile_cables;
mod hostile_hosts;
mod lanes;
mod moves;
mod replay;
mod restart;
mod switches;
mod tenants;
mod topologies;
mod world;
