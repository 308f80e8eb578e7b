//! Messages to the thread of a node's control plane.

use plexus_config::{LaneChoice, PortFile};
use plexus_control::identity::Identity;
use plexus_control::node::common::{Done, Part, Task};
use plexus_control::router::Route;
use plexus_io::PortId;
use plexus_io::netlink::KernelEvent;
use plexus_node::router::Router;
use plexus_plane::{Injection, Punt};
use plexus_wire::Prefix;
use plexus_wire::fabric::message::{Counters, Explain, Explained};

use super::fabric;
use super::pause::{Frames, Pauses};
use crate::ask::Question;

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
    /// The node has this identity from now on.
    Identity(Box<Identity>),
    /// The node's counters, for the controller.
    Counters(Counters),
    /// Prefixes of its forwarder of named data, and how many there are, for the controller.
    Names(Vec<String>, usize),
    /// The answer to a question of the controller about a frame.
    Explained(Box<Explained>),
    /// The node's own file has changed.
    OwnFile,
    /// The node runs this part of the common file, for another reason than an order.
    Keeps(Part),
    /// A task with the node's part of the common file is done, or cannot be.
    Common(Done),
    /// The fabric's control plane is asked.
    AskFabric(Question<fabric::Driver>),
    /// The router's control plane is asked.
    AskRouter(Question<Router>),
    /// End.
    Stop,
}

/// Questions of the fabric's control plane that wait, at most.
pub(crate) const WANTED_MAX: usize = 64;

/// A question of the fabric's control plane to the rest of the node. It waits for nobody: a thread
/// of its own asks.
pub(crate) enum Wanted {
    /// The node's counters.
    Counters,
    /// The workers' treatment of a frame.
    Explanation(Explain),
    /// Work on the node's part of the common file.
    Common(Task),
}

/// The way from a control plane to the workers.
pub(crate) struct Outlet {
    /// The worker for a packet of this kind.
    pub(crate) worker: Box<dyn Fn(Injection) -> usize + Send>,
    /// Hands packets to them, and has them pause.
    pub(crate) pauses: Pauses,
}

impl Outlet {
    /// Hands packets to the workers.
    pub(crate) fn inject(&mut self, frames: Frames) {
        self.pauses.hand(frames, &self.worker);
    }
}
