//! The data plane: batches, the five-stage port pipeline and its forwarders.
//!
//! A [`Worker`] owns ports, the pool of their frames and a [`Pipeline`]. Each turn it moves one
//! batch through the five stages of the NetFPGA pipeline (`netfpga-aurora.txt` §2): receive
//! queues, input arbiter, output-port lookup, output queues, transmit queues. Time comes in as
//! `now`; nothing here reads a clock, takes a lock or, once warm, allocates on the packet path.

mod bits;
pub mod carriers;
mod context;
mod control;
mod counters;
mod crossing;
mod drops;
mod fabric;
mod fast;
mod flow;
mod marks;
mod names;
mod offload;
mod pace;
mod pipeline;
mod router;
mod runs;
mod sample;
mod snapshot;
mod stage;
mod storm;
mod switch;
mod verdict;
mod vlan;
mod watch;
mod worker;

pub use context::Context;
pub use control::{ControlLimits, Injection, ToControl};
pub use counters::{Account, Counters, PortCounters};
pub use crossing::{Crossing, mesh};
pub use drops::DropReason;
pub use fabric::plan::{
    Encapsulation, FABRIC_PORTS_MAX, FabricPlan, FabricTables, PortRole, PortSet, PortTables,
    PublishedFabric, route_along,
};
pub use fast::{Clears, FastPort, FastReport, FastRule, WORTH_PER_S};
pub use pipeline::{Explanation, Facts, Pipeline, Question, explain};
pub use plexus_coproc::deep::Source as SourceOf;
pub use router::fib::FibReaders;
pub use router::plan::{
    Adjacency, GROUP_VLAN, GroupKind, GroupSpec, Hop, InterfacePlan, MEMBERS_MAX, PublishedRouter,
    RouterPlan, RouterSource, RouterTables,
};
pub use sample::{Sampled, SampledFlow};
pub use snapshot::{PortPlan, Published, Snapshot, SnapshotError};
pub use stage::output::deep::DeepReport;
pub use switch::{LearnedMac, Switch};
pub use verdict::{Origin, Punt, Side, Verdict};
pub use watch::{Onlooker, Seen};
pub use worker::{LinkChange, PortReport, Report, Worker};
