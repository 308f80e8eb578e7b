//! What reaches the thread of a node's control plane, and what it can be asked.

use std::net::IpAddr;
use std::sync::mpsc::Sender;

use plexus_config::{LaneChoice, PortFile};
use plexus_control::router::Route;
use plexus_io::PortId;
use plexus_io::netlink::KernelEvent;
use plexus_plane::{Injection, Punt};
use plexus_wire::Prefix;
use serde_json::Value;

/// News that wait for the thread, at most.
pub(crate) const NEWS_MAX: usize = 4096;

/// What reaches the thread.
pub(crate) enum News {
    /// Links have changed: their [cells](super::links::LinkCells) say how.
    Links,
    /// The data plane has a frame for the control plane: why, the port and the VLAN that it came
    /// in by, its bytes.
    Frame(Punt, PortId, u16, Vec<u8>),
    /// Flows take another lane from now on.
    Lanes(LaneChoice),
    /// A fabric node has this many ports from now on; the last ones are new.
    Ports(usize, Vec<PortFile>),
    /// A reload has removed these ports of a fabric node.
    Removed(Vec<PortId>),
    /// These are the file's static routes from now on.
    Routes(Vec<(Prefix, Route)>),
    /// What the kernel has to say of its devices and routes.
    Kernel(Vec<KernelEvent>),
    /// Someone asks.
    Show(Topic, Sender<Value>),
    /// End.
    Stop,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A fabric node's roles and neighbours.
    Links,
    /// Stations on its host ports.
    Hosts,
    /// Multicast groups that stations have joined, and trees.
    Groups,
    /// Its route memory.
    Routes,
    /// What was not served, by reason.
    Unserved,
    /// A router's interfaces and how much is in its tables.
    Fib,
    /// A router's neighbours.
    Neighbours,
    /// What a router does with packets to an address, and why.
    Route(IpAddr),
    /// A router's routes in use from this prefix on, as many as one answer holds.
    RoutesFrom(Prefix),
}

impl Topic {
    /// Whether the router's control plane answers; else the fabric's does. Both know what was not
    /// served.
    pub(crate) fn is_of_router(self) -> Option<bool> {
        match self {
            Topic::Unserved => None,
            Topic::Fib | Topic::Neighbours | Topic::Route(_) | Topic::RoutesFrom(_) => Some(true),
            _ => Some(false),
        }
    }
}

/// Hands frames to the workers.
pub(crate) type Inject = Box<dyn Fn(Vec<(Injection, Vec<u8>)>) + Send>;
