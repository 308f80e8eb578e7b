//! Fabric nodes in a row, in memory: a host's frame enters the first and leaves the last, through
//! the same workers and pipeline as in the daemon. Cables count what passes.

use plexus_config::{PortSettings, SwitchSettings};
use plexus_io::memory::{self, Cable};
use plexus_io::{Capabilities, Pool, Port, PortId};
use plexus_plane::{
    Crossing, Encapsulation, FabricPlan, FabricTables, PortRole, Snapshot, Worker, route_along,
};
use plexus_table::RouteKey;
use plexus_wire::fabric::HEADER_LEN_MAX;
use plexus_wire::{MacAddr, Time};

/// Each node's port towards the sender, and towards the receiver.
const IN: PortId = 0;
const OUT: PortId = 1;
/// Frames of a node; one is on its way at a time.
const FRAMES: usize = 8;
/// What a pool's frame may need beyond the packet: headroom, rounded up.
const HEADROOM: usize = 512;

/// The host before the first node, and the one behind the last.
const HOSTS: [MacAddr; 2] = [MacAddr([6, 0, 0, 0, 0, 1]), MacAddr([6, 0, 0, 0, 0, 2])];

/// The row.
pub(super) struct Chain {
    nodes: Vec<Node>,
    now: Time,
}

struct Node {
    worker: Worker,
    cables: [Cable; 2],
}

/// Bytes on cables, as the ports counted them; without preamble, FCS and gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) frames: u64,
    /// From the host to the first node.
    pub(super) host: u64,
    /// On each cable between nodes; with a single node, from it to the receiver.
    pub(super) cable: u64,
}

impl Chain {
    /// `hops` nodes, for hosts' frames of up to `frame_len` bytes without FCS.
    ///
    /// # Errors
    /// More hops than a header holds, or no memory.
    pub(super) fn new(hops: usize, frame_len: usize) -> Result<Chain, String> {
        let last = hops.checked_sub(1).ok_or("a route has at least one hop")?;
        let longest = frame_len + HEADER_LEN_MAX;
        let nodes = (0..hops).map(|at| {
            let mut tables = FabricTables::new(2, at as u64).ok_or("no table of two ports")?;
            for (port, end) in [(IN, 0), (OUT, last)] {
                let link = PortRole::Fabric(Encapsulation::Native);
                tables.set_role(port, if at == end { PortRole::Host } else { link });
            }
            if at == 0 {
                let path = vec![OUT as u8; hops];
                let route = route_along(IN as u8, &path)
                    .ok_or_else(|| format!("a header does not hold {hops} hops"))?;
                let key = RouteKey { destination: HOSTS[1], source: None };
                tables.install(IN, key, route.into());
                tables.admit(IN, HOSTS[0]);
            }
            if at == last {
                tables.admit(OUT, HOSTS[1]);
            }
            Node::new(&tables, longest)
        });
        let nodes = nodes.collect::<Result<_, String>>()?;
        Ok(Chain { nodes, now: Time::from_secs(1) })
    }

    /// A frame from host to host, `len` bytes without FCS, `filling` in its payload.
    pub(super) fn frame(len: usize, filling: u8) -> Vec<u8> {
        let [from, to] = HOSTS;
        let mut frame = vec![filling; len];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&from.0);
        // The second of the types for local experiments (IEEE 802, 9.2.4): nobody looks into it.
        frame[12..14].copy_from_slice(&[0x88, 0xB6]);
        frame
    }

    /// Carries a frame to the far host.
    ///
    /// # Errors
    /// When it does not arrive as it was.
    pub(super) fn carry(&mut self, frame: &[u8]) -> Result<(), String> {
        let mut bytes = frame.to_vec();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            bytes = node
                .pass(&bytes, self.now)
                .ok_or_else(|| format!("node {at} did not forward it"))?;
        }
        if bytes == frame { Ok(()) } else { Err("it arrived as another".into()) }
    }

    /// What passed the cables so far.
    ///
    /// # Errors
    /// When a node's account does not balance, or the cables between nodes do not agree.
    pub(super) fn counted(&self) -> Result<Counted, String> {
        if let Some(at) = self.nodes.iter().position(|n| !n.worker.account().balances()) {
            return Err(format!("the account of node {at} does not balance"));
        }
        let stats = |node: &Node, port: PortId| node.worker.report().ports[usize::from(port)].stats;
        let first = self.nodes.first().ok_or("there is no node")?;
        let host = stats(first, IN);
        let cable = stats(first, OUT).tx_bytes;
        for pair in self.nodes.windows(2) {
            let (out, into) = (stats(&pair[0], OUT).tx_bytes, stats(&pair[1], IN).rx_bytes);
            if (out, into) != (cable, cable) {
                return Err(format!("{out} bytes went, {into} came, {cable} on the first cable"));
            }
        }
        Ok(Counted { frames: host.rx_packets, host: host.rx_bytes, cable })
    }
}

impl Node {
    fn new(tables: &FabricTables, longest: usize) -> Result<Node, String> {
        let pool = Pool::new(FRAMES, longest + HEADROOM).map_err(|e| format!("frames: {e}"))?;
        let settings = (0..2).map(|i| (format!("p{i}"), 0, PortSettings::default()));
        let switch = SwitchSettings { mac_table: 1, ..SwitchSettings::default() };
        let plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
        let mut ports: Vec<(PortId, Box<dyn Port>)> = Vec::new();
        let cables = [IN, OUT].map(|id| {
            let (port, cable) = memory::port(&format!("p{id}"), FRAMES);
            let capabilities = Capabilities { max_frame: longest, ..port.capabilities() };
            ports.push((id, Box::new(port.with_capabilities(capabilities))));
            cable
        });
        let fabric = FabricPlan::clone(&tables.plan()).publish();
        let published = plan.with_fabric(fabric).publish();
        let mut worker = Worker::new(0, pool, ports, &published, Crossing::alone(), 1);
        worker.maintain(Time::from_secs(1));
        Ok(Node { worker, cables })
    }

    /// A frame in by one port; what comes out by the other, if anything does.
    fn pass(&mut self, bytes: &[u8], now: Time) -> Option<Vec<u8>> {
        let packet = self.worker.pool().alloc_from(bytes)?;
        self.cables[0].to_port.push(packet).ok()?;
        while self.worker.turn(now) {}
        let packet = self.cables[1].from_port.pop().ok()?;
        let out = self.worker.pool().data(&packet).to_vec();
        self.worker.pool().free(packet);
        Some(out)
    }
}
