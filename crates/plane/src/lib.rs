//! The data plane: batches, the five-stage port pipeline and its forwarders.
//!
//! A [`Worker`] owns ports, the pool of their frames and a [`Pipeline`]. Each turn it moves one
//! batch through the five stages of the NetFPGA pipeline (`netfpga-aurora.txt` §2): receive
//! queues, input arbiter, output-port lookup, output queues, transmit queues. Time comes in as
//! `now`; nothing here reads a clock, takes a lock or, once warm, allocates on the packet path.

mod counters;
mod crossing;
mod drops;
mod fabric;
mod flow;
mod marks;
mod offload;
mod pace;
mod pipeline;
mod router;
mod snapshot;
mod stage;
mod switch;
mod verdict;
mod worker;

pub use counters::{Account, Counters, PortCounters};
pub use crossing::{Crossing, mesh};
pub use drops::DropReason;
pub use fabric::{
    ControlLimits, Encapsulation, FABRIC_PORTS_MAX, FabricPlan, FabricTables, How, Origin,
    PortRole, PortSet, PortTables, PublishedFabric, Punt, ToControl, route_along,
};
pub use pipeline::{Context, Pipeline};
pub use router::fib::FibReaders;
pub use router::plan::{
    Adjacency, GroupKind, GroupSpec, Hop, InterfacePlan, MEMBERS_MAX, PublishedRouter, RouterPlan,
    RouterSource, RouterTables,
};
pub use snapshot::{PortPlan, Published, Snapshot, SnapshotError};
pub use switch::{LearnedMac, Switch};
pub use verdict::Verdict;
pub use worker::{LinkChange, Onlooker, PortReport, Report, Seen, Worker};
