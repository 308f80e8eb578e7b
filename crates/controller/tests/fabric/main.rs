//! The whole fabric: real nodes, data planes, hub and controller in one process, driven by a seed.
//! The packets that hosts receive count.

mod chaos;
mod explained;
mod failures;
mod graphs;
mod groups;
mod hostile_cables;
mod hostile_hosts;
mod identities;
mod lanes;
mod moves;
mod nodes;
mod parts;
mod provisional;
mod replay;
mod restart;
mod revoked;
mod routed;
mod routed_bad;
mod routed_classes;
mod routed_mtu;
mod routed_stages;
mod switches;
mod tenants;
mod topologies;
mod versions;
mod world;
