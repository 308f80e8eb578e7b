//! PortLand in place of the fabric: its switches in place of the topology's nodes, its manager in
//! place of the controller. The machines come from [`plexus_reference::portland`]; here they get
//! ports.

use plexus_io::Packet;
use plexus_reference::Input;
use plexus_reference::portland::{Manager, Output, Switch};
use plexus_topo::Topology;
use plexus_wire::Time;

use crate::build::RATE_USUAL;
use crate::cable::PortIndex;
use crate::core::{Core, DeviceIndex};
use crate::nic::Nic;
use crate::time::SimTime;

/// One of PortLand's machines.
#[derive(Debug)]
pub enum PortLand {
    /// In a node's place.
    Switch(Switch),
    /// In the controller's place.
    Manager(Manager),
}

impl PortLand {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match self {
            PortLand::Switch(switch) => switch.handle(now, input),
            PortLand::Manager(manager) => manager.handle(now, input),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        match self {
            PortLand::Switch(switch) => switch.poll_output(),
            PortLand::Manager(manager) => manager.poll_output(),
        }
    }

    fn next_deadline(&self) -> Time {
        match self {
            PortLand::Switch(switch) => switch.next_deadline(),
            PortLand::Manager(manager) => manager.next_deadline(),
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        match self {
            PortLand::Switch(switch) => switch.is_settled(),
            PortLand::Manager(_) => true,
        }
    }
}

/// A machine with ports.
pub(crate) struct SimPortLand {
    device: DeviceIndex,
    nics: Vec<Nic>,
    pub(crate) machine: PortLand,
}

impl SimPortLand {
    /// A machine whose ports have no carrier yet: `first` and the following ones.
    pub(crate) fn new(
        device: DeviceIndex,
        first: PortIndex,
        ports: usize,
        machine: PortLand,
    ) -> SimPortLand {
        let nics = (first..).take(ports).map(Nic::new).collect();
        SimPortLand { device, nics, machine }
    }

    /// A cable has been plugged in, or its carrier is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, port: u16, up: bool) {
        let rate_bits_per_s = up.then_some(RATE_USUAL);
        self.tell(core, Input::Port { port, rate_bits_per_s });
    }

    /// A frame has come in.
    pub(crate) fn receive(&mut self, core: &mut Core, port: u16, packet: Packet) {
        let Some(packet) = self.nics[usize::from(port)].check(core, packet) else { return };
        let bytes = core.pool.data(&packet).to_vec();
        core.free(packet);
        self.tell(core, Input::Frame { port, bytes: &bytes });
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        self.nics.iter_mut().for_each(|nic| nic.run(core));
        self.tell(core, Input::Tick);
    }

    fn tell(&mut self, core: &mut Core, input: Input<'_>) {
        self.machine.handle(core.now.floor(), input);
        while let Some((port, frame)) = self.machine.poll_output() {
            if let Some(nic) = self.nics.get_mut(usize::from(port))
                && let Some(packet) = core.frame(&frame)
            {
                nic.send(core, packet);
            }
        }
        let at = self.nics.iter().map(Nic::next_deadline).fold(SimTime::FOREVER, SimTime::min);
        core.wake(self.device, at.min(self.machine.next_deadline().into()));
    }

    /// Frames that found no room in a queue.
    pub(crate) fn dropped(&self) -> u64 {
        self.nics.iter().map(|nic| nic.dropped).sum()
    }

    /// Gives the frames that wait back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.nics.iter_mut().for_each(|nic| nic.clear(core));
    }
}

/// Refuses a file that asks for what PortLand cannot do.
///
/// # Errors
/// In words that name the key.
pub(crate) fn check(topology: &Topology) -> Result<(), String> {
    if topology.controllers.len() != 1 {
        return Err("PortLand's manager takes the place of a controller: name one".into());
    }
    if let Some(bridge) = topology.bridges.first() {
        return Err(format!("bridge {}: PortLand's switches know no bridges", bridge.name));
    }
    if let Some(host) = topology.hosts.iter().find(|h| h.dhcp) {
        return Err(format!("host {}: PortLand leases no addresses: give it one", host.name));
    }
    if !topology.events.is_empty() {
        return Err("no faults are simulated with PortLand: take the events out".into());
    }
    match topology.nodes.iter().find(|n| n.ports.len() > 255) {
        Some(node) => Err(format!("node {}: PMACs count at most 256 ports", node.name)),
        None => Ok(()),
    }
}
