//! A box with spanning tree: the data plane's switch, whose ports forward only if
//! [`plexus_reference::stp`] lets them. To the data plane a forwarding port has a link, and any
//! other port has none. So it forgets the stations behind a blocked port at once, where 802.1D lets
//! them age.

use std::sync::Arc;
use std::time::Duration;

use plexus_config::{PortSettings, SwitchSettings};
use plexus_io::{Link, Packet};
use plexus_plane::{LearnedMac, Snapshot};
use plexus_reference::Input;
use plexus_reference::stp::{Bridge, GROUP, Output, PortState, Settings};
use plexus_table::MacKey;
use plexus_wire::{Time, ethernet};

use crate::build::RATE_USUAL;
use crate::cable::PortIndex;
use crate::core::Core;
use crate::node::{PortSpec, SimNode};
use crate::time::SimTime;

/// The VLAN of a box whose ports are as usual.
const VLAN: u16 = 1;

/// What makes a box speak spanning tree.
pub(crate) struct Tree {
    bridge: Bridge,
    /// The ports of the data plane's snapshot, which is made anew when stations are to age faster.
    ports: Vec<(String, PortSettings)>,
    switch: SwitchSettings,
}

impl Tree {
    pub(crate) fn new(settings: Settings, specs: &[PortSpec], switch: SwitchSettings) -> Tree {
        let ports = specs.iter().map(|s| (s.name.clone(), s.settings.clone())).collect();
        Tree { bridge: Bridge::new(settings, specs.len() as u16), ports, switch }
    }

    /// Whether the tree is stable until an event changes it.
    pub(crate) fn is_settled(&self) -> bool {
        self.bridge.is_settled()
    }

    /// Its spanning tree.
    pub(crate) fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    fn snapshot(&self, ageing: Option<Duration>) -> Option<Arc<Snapshot>> {
        let ports = self.ports.iter().map(|(name, settings)| (name.clone(), 0, settings.clone()));
        let ageing = ageing.unwrap_or(self.switch.ageing);
        let switch = SwitchSettings { ageing, ..self.switch.clone() };
        // These ports made a box already.
        Snapshot::new(ports.collect(), &switch).ok().map(Arc::new)
    }
}

impl SimNode {
    /// A cable has been plugged in, or its carrier is gone. The tree decides when frames pass.
    pub(crate) fn carrier_of_tree(&mut self, core: &mut Core, port: u16, up: bool) {
        let rate = core.ports[(self.first + PortIndex::from(port)) as usize].rate_bits_per_s;
        let rate_bits_per_s = up.then(|| rate.unwrap_or(RATE_USUAL));
        self.tell_tree(core, Input::Port { port, rate_bits_per_s });
    }

    /// Takes a frame for the tree, or one that its port blocks; gives any other back.
    pub(crate) fn pass_tree(
        &mut self,
        core: &mut Core,
        port: u16,
        packet: Packet,
    ) -> Option<Packet> {
        let Some(tree) = &self.tree else { return Some(packet) };
        let frame = ethernet::Frame::new_checked(core.pool.data(&packet));
        let (dst, src) = frame.map(|f| (f.dst(), f.src())).unwrap_or_default();
        match tree.bridge.state(port) {
            _ if dst == GROUP => {
                let bytes = core.pool.data(&packet).to_vec();
                self.tell_tree(core, Input::Frame { port, bytes: &bytes });
            }
            PortState::Forwarding => return Some(packet),
            PortState::Learning if !src.is_multicast() => {
                let key = MacKey::new(VLAN, src);
                self.pipeline.hear(core.now.floor(), LearnedMac { key, port });
            }
            _ => {}
        }
        core.pool.free(packet);
        None
    }

    /// Lets the tree do what is due.
    pub(crate) fn wake_tree(&mut self, core: &mut Core) {
        if self.tree.as_ref().is_some_and(|t| t.bridge.next_deadline() <= core.now.floor()) {
            self.tell_tree(core, Input::Tick);
        }
    }

    /// When the tree has something to do.
    pub(crate) fn tree_deadline(&self) -> SimTime {
        self.tree.as_ref().map_or(Time::FOREVER, |t| t.bridge.next_deadline()).into()
    }

    fn tell_tree(&mut self, core: &mut Core, input: Input<'_>) {
        let now = core.now.floor();
        let Some(tree) = &mut self.tree else { return };
        tree.bridge.handle(now, input);
        while let Some(output) = tree.bridge.poll_output() {
            match output {
                Output::State { port, state } => {
                    let passes = state == PortState::Forwarding;
                    let link = if passes { Link::Up } else { Link::Down };
                    self.pipeline.set_link(now, &mut core.pool, port, link);
                }
                Output::Ageing(ageing) => {
                    if let Some(snapshot) = tree.snapshot(ageing) {
                        self.pipeline.adopt(now, snapshot);
                    }
                }
                // Past the port's queue: it is one short frame a second at most.
                Output::Transmit { port, frame } => {
                    if let Some(packet) = core.frame(&frame) {
                        core.transmit(self.first + PortIndex::from(port), packet);
                    }
                }
            }
        }
        self.run_until_idle(core);
    }
}
