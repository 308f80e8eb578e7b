//! What reaches the thread of a node's control plane, and what it can be asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};

use plexus_config::{LaneChoice, PortFile};
use plexus_control::router::Route;
use plexus_io::PortId;
use plexus_io::netlink::KernelEvent;
use plexus_plane::{Injection, LinkChange, Punt, Side};
use plexus_wire::Prefix;
use serde_json::Value;

use super::links::LinkCells;
use super::thread::OnControl;

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

/// How to reach the thread of a control plane.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) news: SyncSender<News>,
    /// What it is to hear of links.
    pub(crate) links: Arc<LinkCells>,
    /// Frames dropped because too many waited already.
    pub(crate) missed: Arc<AtomicU64>,
}

/// The control planes of a node: a fabric's, a router's, or both.
#[derive(Clone, Default)]
pub(crate) struct ControlPlanes {
    pub(crate) fabric: Option<ControlPlane>,
    pub(crate) router: Option<ControlPlane>,
}

impl ControlPlanes {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ControlPlane> {
        self.fabric.iter().chain(&self.router)
    }

    /// What a worker does with a frame for a control plane: it never waits. None without any.
    pub(crate) fn on_control(&self) -> Option<OnControl> {
        self.iter().next()?;
        let all = self.clone();
        Some(Box::new(move |punt, port, vlan, bytes| {
            let control = match punt.side() {
                Side::Router => &all.router,
                Side::Fabric | Side::Names => &all.fabric,
            };
            let Some(control) = control else { return };
            // A control plane that does not keep up loses frames; all that matters is sent again.
            if control.news.try_send(News::Frame(punt, port, vlan, bytes)).is_err() {
                control.missed.fetch_add(1, Ordering::Relaxed);
            }
        }))
    }

    /// Tells all of a link; true if it has come up or gone down by that.
    pub(crate) fn tell_link(&self, change: LinkChange) -> bool {
        let mut is_news = false;
        for control in self.iter() {
            is_news |= control.links.tell(change, Some(&control.news));
        }
        is_news
    }
}
