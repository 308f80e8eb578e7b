//! Fabric nodes wired in memory.

use plexus_io::{Capabilities, Offload};
use plexus_plane::{
    Encapsulation, FabricPlan, FabricTables, PortRole, PublishedFabric, Punt, route_along,
};
use plexus_table::{RouteKey, RouteSet};
use plexus_wire::MacAddr;

use crate::common::{Plan, Rig};

/// The MTU rule of a fabric link: 1,624 bytes behind an Ethernet header.
pub(crate) const CAPABILITIES: Capabilities =
    Capabilities { checksum: false, segmentation: false, max_frame: 1638 };

/// What came to a control plane.
pub(crate) type Punted = (Punt, u16, Vec<u8>);

/// A node: a box and what its control plane knows.
pub(crate) struct Node {
    pub(crate) rig: Rig,
    pub(crate) tables: FabricTables,
    published: PublishedFabric,
}

impl Node {
    pub(crate) fn new(ports: usize) -> Node {
        Node::with(Plan { capabilities: Some(CAPABILITIES), ..Plan::new(ports) })
    }

    pub(crate) fn with(plan: Plan) -> Node {
        let tables = FabricTables::new(plan.ports.len(), 7).unwrap();
        let published = FabricPlan::default().publish();
        published.store(tables.plan());
        let rig = Plan { fabric: Some(published.clone()), ..plan }.build();
        Node { rig, tables, published }
    }

    /// Makes what was changed in the tables known to the data plane.
    pub(crate) fn publish(&mut self) {
        self.published.store(self.tables.plan());
    }

    pub(crate) fn role(&mut self, port: u16, role: PortRole) {
        assert!(self.tables.set_role(port, role));
        self.publish();
    }

    /// Makes ports native fabric links.
    pub(crate) fn link(&mut self, ports: &[u16]) {
        ports.iter().for_each(|&p| self.role(p, PortRole::Fabric(Encapsulation::Native)));
    }

    /// Makes a port a host's and admits the station.
    pub(crate) fn host(&mut self, port: u16, station: MacAddr) {
        self.tables.admit(port, station);
        self.role(port, PortRole::Host);
    }

    /// Installs routes at a host's port, each a path of hops from this node on.
    pub(crate) fn route(&mut self, port: u16, destination: MacAddr, paths: &[&[u8]]) {
        let routes = paths.iter().map(|path| route_along(port as u8, path).unwrap()).collect();
        let key = RouteKey { destination, source: None };
        assert!(self.tables.install(port, key, RouteSet::new(routes).unwrap()));
        self.publish();
    }

    /// What waits for the control plane.
    pub(crate) fn punted(&mut self) -> Vec<Punted> {
        let mut all = Vec::new();
        for worker in &mut self.rig.workers {
            worker.take_control(|punt, port, _, bytes| all.push((punt, port, bytes.to_vec())));
        }
        all
    }

    /// Sends a packet whose sender left work to its device, and returns what comes out.
    pub(crate) fn send_owing(
        &mut self,
        port: usize,
        frame: &[u8],
        owed: Offload,
    ) -> Vec<(usize, Vec<u8>)> {
        self.rig.offer_owing(port, frame, owed);
        self.rig.settle();
        self.rig.take()
    }
}

/// What still waits for the control plane is taken before the rig takes stock.
impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.rig.settle();
            self.punted();
        }
    }
}

/// Nodes and the cables between their ports.
pub(crate) struct Net {
    pub(crate) nodes: Vec<Node>,
    /// (node, port) to (node, port), both ways.
    pub(crate) cables: Vec<((usize, usize), (usize, usize))>,
}

impl Net {
    pub(crate) fn far_end(&self, end: (usize, usize)) -> Option<(usize, usize)> {
        self.cables.iter().find_map(|&(a, b)| match end {
            e if e == a => Some(b),
            e if e == b => Some(a),
            _ => None,
        })
    }

    /// Sends a frame into a port and follows what comes out along the cables. Returns every frame
    /// on a cable, as (node, port, frame) where it left, and what left the net likewise.
    pub(crate) fn send(&mut self, node: usize, port: usize, frame: &[u8]) -> Journey {
        let mut journey = Journey::default();
        let out = self.nodes[node].rig.send(port, frame);
        self.follow(node, out, &mut journey);
        journey
    }

    /// Follows what came out of a node.
    pub(crate) fn follow(
        &mut self,
        node: usize,
        out: Vec<(usize, Vec<u8>)>,
        journey: &mut Journey,
    ) {
        let mut moving: Vec<_> = out.into_iter().map(|(port, f)| (node, port, f)).collect();
        while let Some((node, port, frame)) = moving.pop() {
            let Some((next, in_port)) = self.far_end((node, port)) else {
                journey.arrived.push((node, port, frame));
                continue;
            };
            let out = self.nodes[next].rig.send(in_port, &frame);
            journey.on_cables.push((node, port, frame));
            moving.extend(out.into_iter().map(|(port, f)| (next, port, f)));
        }
    }
}

/// Where frames went.
#[derive(Default)]
pub(crate) struct Journey {
    pub(crate) on_cables: Vec<(usize, usize, Vec<u8>)>,
    pub(crate) arrived: Vec<(usize, usize, Vec<u8>)>,
}
