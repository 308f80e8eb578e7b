//! A whole network on one machine: hosts and nodes of a topology file in network namespaces.
//!
//! ```text
//!   plexus lab up ──starts──▶ supervisor: process 1 of a PID namespace of its own
//!        ▲                       │ holds: network, mount and UTS namespaces per device
//!        │ control socket        │ made:  a veth pair per cable, from one of them to another
//!        ▼                       │ runs:  `plexus node run` per node, `plexus controller run`
//!   lab run | status | exec | down   where there is one, traffic as threads
//! ```
//!
//! Hosts are the ordinary Linux stack with its own defaults. When the supervisor ends, by
//! `down` or by `kill -9`, the kernel ends all of it: see [`supervise`].

mod boxes;
mod bridges;
mod cgroup;
mod control;
mod daemon;
mod dhcp;
mod error;
mod etcd;
mod events;
mod fabric;
mod launch;
mod machines;
mod nodes;
mod page;
mod plan;
mod prometheus;
mod routing;
mod run;
pub mod shell;
mod stalls;
mod state;
mod status;
mod supervisor;
mod tools;
mod traffic;
mod world;

pub use boxes::{BoxFile, box_files};
pub use daemon::cpu_time_of;
pub use error::Error;
pub use launch::{
    Launch, Listed, Tied, Up, cut_short, down, exec, list, name_of, run, run_file, run_flows,
    status, up,
};
pub use machines::Part;
pub use page::serve_page;
pub use plan::NodeProgram;
pub use plexus_report::{Account, AssertionReport, Facts, FlowReport, Outage, Quota, RunReport};
pub use prometheus::{Prometheus, start_prometheus};
pub use state::{State, node_socket, node_sockets};
pub use status::{
    BridgePortStatus, BridgeStatus, ControllerStatus, HostStatus, LabStatus, LinkStatus, NodeStatus,
};
pub use supervisor::supervise;
