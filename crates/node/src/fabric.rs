//! A fabric node's control plane joined to the tables of its data plane. The daemon, the simulator
//! and the tests all drive it, so that they do the same. Neither plane knows the other.
//!
//! A driver passes inputs in, lets [`Fabric::carry_out`] bring the tables up to date, and sends the
//! frames that it returns. What a batch of inputs changes is published before any frame that
//! follows from it is sent: a host never hears of a station to which the data plane has no route.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_config::{LaneChoice, PortFile, PortUse};
use plexus_control::identity::Identity;
use plexus_control::link::Pin;
use plexus_control::node::{Event, FrameKind, Input, Node, Output};
use plexus_io::PortId;
use plexus_plane::{
    DropReason, FabricPlan, FabricTables, Injection, PublishedFabric, Punt, RouterSource, Side,
};
use plexus_wire::fabric::message::Gateway;
use plexus_wire::fabric::{Partition, ROUTER_HOP};
use plexus_wire::{MacAddr, Prefix, Time};

use crate::Rest;
use crate::group::GroupRouter;
use crate::ports::kernel_port;
use crate::router::Router;

/// The fabric of a node.
pub struct Fabric {
    control: Node,
    tables: FabricTables,
    published: PublishedFabric,
    /// The Ethernet address of each port that has had a link.
    macs: BTreeMap<u8, MacAddr>,
    /// The group's own Ethernet address, if the group routes.
    gateway: Option<MacAddr>,
    /// The group's router on this node.
    router: Option<GroupRouter>,
    /// Other nodes route for this one.
    has_forwarders: bool,
    /// The hosts that lead to other networks, and the stations that have addresses in the group.
    leading: BTreeSet<IpAddr>,
    neighbours: BTreeMap<IpAddr, MacAddr>,
    on_change: Box<dyn FnMut() + Send>,
}

impl Fabric {
    /// Calls this after each change of the data plane's plan, and of its router's plan and table.
    /// The router is to be there by then.
    pub fn on_change(&mut self, call: impl FnMut() + Send + Clone + 'static) {
        if let Some(own) = &mut self.router {
            own.router.on_change(call.clone());
        }
        self.on_change = Box::new(call);
    }

    /// A control plane with a data plane of so many ports. `seed` keys the choice among lanes.
    ///
    /// # Errors
    /// When there are more ports than a fabric node can have.
    pub fn new(
        control: Node,
        ports: usize,
        lanes: LaneChoice,
        seed: u64,
    ) -> Result<Fabric, String> {
        let mut tables = FabricTables::new(ports, seed)
            .ok_or("a fabric node has at most 254 ports: hops have one byte")?;
        tables.set_lanes(lanes);
        let published = tables.current().clone().publish();
        Ok(Fabric {
            control,
            tables,
            published,
            macs: BTreeMap::new(),
            gateway: None,
            router: None,
            has_forwarders: false,
            leading: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            on_change: Box::new(|| {}),
        })
    }

    /// The same, and hosts' packets to the group's own address are routed. `seed` spreads timers.
    ///
    /// # Errors
    /// When memory is short.
    pub fn with_router(self, seed: [u8; 32]) -> Result<Fabric, String> {
        Ok(Fabric { router: Some(GroupRouter::new(seed)?), ..self })
    }

    /// This node's part of the group's router, for questions.
    pub fn router(&self) -> Option<&Router> {
        self.router.as_ref().map(|own| &own.router)
    }

    /// The router's plan that workers read.
    pub fn router_source(&self) -> Option<RouterSource> {
        self.router.as_ref().map(GroupRouter::source)
    }

    /// The plan that workers read.
    pub fn source(&self) -> PublishedFabric {
        self.published.clone()
    }

    /// The control plane, for questions.
    pub fn control(&self) -> &Node {
        &self.control
    }

    /// The data plane's tables.
    pub fn plan(&self) -> &FabricPlan {
        self.tables.current()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Time {
        let router = self.router.as_ref().map_or(Time::FOREVER, GroupRouter::next_deadline);
        self.control.next_deadline().min(router)
    }

    /// Silent neighbours whose frames still come in, as an input that precedes all others; `None`:
    /// none. `plane_now`: the time by the clock of the data plane.
    pub fn heard(&self, now: Time, plane_now: Time) -> Option<Input> {
        let (plan, interval) = (self.tables.current(), self.control.pace().heartbeat);
        let is_heard = |port: &u8| plan.heard_at(*port) + interval > plane_now;
        let heard: Vec<u8> = self.control.silent(now).filter(is_heard).collect();
        (!heard.is_empty()).then_some(Input::Heard(heard))
    }

    /// Which addresses packets were routed to, as an input; `None`: nothing new.
    pub fn take_used(&mut self) -> Option<Input> {
        let used = self.router.as_mut().map(GroupRouter::take_used);
        used.filter(|used| !used.is_empty()).map(Input::Used)
    }

    /// A frame that the data plane has handed over. Gives the input that is to be
    /// [handled](Self::handle), if it is for the control plane of the fabric.
    pub fn frame(&mut self, now: Time, punt: Punt, port: PortId, bytes: Vec<u8>) -> Option<Input> {
        match (&mut self.router, punt) {
            (Some(router), Punt::Error(_) | Punt::TooBig(_)) if punt.side() == Side::Router => {
                router.dropped(now, punt, bytes);
                None
            }
            _ => frame(punt, port, bytes),
        }
    }

    /// Passes an input to the control plane.
    pub fn handle(&mut self, now: Time, input: Input) {
        if let Input::Port { port, facts: Some(facts) } = &input {
            self.macs.insert(*port, facts.mac);
        }
        if let Input::Pinned { port, pin: Pin::Daemons } = &input {
            self.tables.set_daemons(u16::from(*port));
            self.publish();
        }
        self.control.handle(now, input);
    }

    /// Takes a new key of the node; see [`Node::set_identity`].
    pub fn set_identity(&mut self, now: Time, new: Identity) {
        self.control.set_identity(now, new);
    }

    /// Chooses how flows are spread over lanes.
    pub fn set_lanes(&mut self, lanes: LaneChoice) {
        self.tables.set_lanes(lanes);
        self.publish();
    }

    /// Makes room for so many ports. False if a fabric node cannot have as many.
    pub fn grow(&mut self, ports: usize, seed: u64) -> bool {
        let has_room = self.tables.grow(ports, seed);
        if has_room {
            self.publish();
        }
        has_room
    }

    /// Brings the tables up to date with what the control plane has decided, and publishes them.
    /// `see` is shown every output; `wait` is called as long as a worker is still at the batch that
    /// it was at.
    pub fn carry_out(
        &mut self,
        now: Time,
        wait: impl FnMut(),
        mut see: impl FnMut(&Output),
    ) -> Rest<Event> {
        let (mut rest, mut has_changed) = (Rest::default(), false);
        while let Some(output) = self.control.poll_output() {
            see(&output);
            has_changed |= match output {
                Output::Transmit { port, frame } => {
                    rest.frames.push((Injection::Port(port.into()), frame));
                    false
                }
                Output::Send { frame } => {
                    rest.frames.push((Injection::Fabric, frame));
                    false
                }
                Output::Tell(event) => {
                    rest.events.push(event);
                    false
                }
                Output::Explain(question) => {
                    rest.questions.push(question);
                    false
                }
                Output::Common(task) => {
                    rest.tasks.push(task);
                    false
                }
                Output::Role { port, role, neighbour, native, takes_owed } => {
                    let own = self.macs.get(&port).copied();
                    let ends = own.zip(neighbour);
                    self.tables.set_link(port.into(), role, ends, native, takes_owed)
                }
                Output::Admit { port, mac } => self.tables.admit(port.into(), mac),
                Output::Expel { port, mac } => self.tables.expel(port.into(), mac),
                Output::Install(entry) => self.tables.install_entry(&entry),
                Output::Tree { tree, ports } => {
                    self.tables.set_tree(tree, ports.map(|p| p.into_iter().collect()));
                    true
                }
                Output::Group(r) => {
                    let way = r.tree.map(|tree| (tree, r.credits));
                    self.tables.set_group(r.port, r.source, r.group, way)
                }
                Output::Again { port, frame } => {
                    if self.router.is_some() {
                        rest.frames.push((Injection::Routed(port.into()), frame));
                    }
                    false
                }
                Output::Gateways { mac, addresses } => {
                    self.gateway = (!addresses.is_empty()).then_some(mac);
                    let network = |g: &Gateway| Prefix::around(g.ip, g.prefix_len).ok();
                    self.tables.set_networks(addresses.iter().filter_map(network));
                    if let Some(router) = &mut self.router {
                        router.set_addresses(now, mac, &addresses);
                    }
                    self.set_gateway();
                    true
                }
                Output::Forwarders(told) => {
                    let is_one = told.paths.iter().any(|path| path[..] == [ROUTER_HOP]);
                    self.has_forwarders = !told.paths.is_empty() && !is_one;
                    let partition = Partition::new(&told.places, told.copies);
                    self.tables.set_forwarders(told.paths, partition);
                    self.set_gateway();
                    true
                }
                Output::Classes(classes) => {
                    self.tables.set_classes(classes);
                    true
                }
                Output::Leading(hosts) => {
                    self.leading = hosts.into_iter().collect();
                    self.set_leading()
                }
                Output::Neighbour { address, mac } => {
                    match mac {
                        Some(mac) => self.neighbours.insert(address, mac),
                        None => self.neighbours.remove(&address),
                    };
                    self.tell_router(now, Output::Neighbour { address, mac });
                    self.leading.contains(&address) && self.set_leading()
                }
                Output::HasRoutes(has_routes) => {
                    if let Some(router) = &mut self.router {
                        router.has_routes = has_routes;
                    }
                    self.set_gateway();
                    true
                }
                output => {
                    self.tell_router(now, output);
                    false
                }
            };
        }
        if has_changed {
            self.publish();
        }
        if let Some(router) = &mut self.router {
            let (frames, events) = router.run(now, wait, self.tables.current());
            rest.frames.extend(frames);
            rest.events.extend(events);
        }
        rest
    }

    /// Carries out what is for the router.
    fn tell_router(&mut self, now: Time, output: Output) {
        let Some(router) = &mut self.router else { return };
        match output {
            Output::Route { prefix, target } => router.set_route(now, prefix, target),
            Output::Neighbour { address, mac } => router.set_neighbour(now, address, mac),
            Output::Own { frame } => router.own(now, frame),
            Output::Unreachable { frame } => router.unreachable(now, frame),
            _ => {}
        }
    }

    /// Tells the data plane of the group's own address, and whether packets to it are routed here.
    fn set_gateway(&mut self) {
        let has_routes = self.router.as_ref().is_some_and(|router| router.has_routes);
        self.tables.set_gateway(self.gateway, has_routes && !self.has_forwarders);
    }

    /// Tells the data plane which stations lead to other networks. False if it knows them.
    fn set_leading(&mut self) -> bool {
        let neighbours = &self.neighbours;
        let stations = self.leading.iter().filter_map(|host| neighbours.get(host).copied());
        self.tables.set_leading(stations)
    }

    fn publish(&mut self) {
        self.published.store(self.tables.plan());
        (self.on_change)();
    }
}

/// The role that a file pins a port to. `kernel`: the devices of routing daemons.
pub fn pin(port: &PortFile, kernel: &[String]) -> Option<Pin> {
    let leads_to = |device: &String| kernel_port(device).is_ok_and(|peer| peer == port.device);
    if kernel.iter().any(leads_to) {
        return Some(Pin::Daemons);
    }
    match (port.role, &port.tunnel) {
        (_, Some(_)) => Some(Pin::Tunnel),
        (PortUse::Host, None) => Some(Pin::Hosts),
        (PortUse::Fabric, None) => Some(Pin::Fabric),
        (PortUse::Auto | PortUse::Switch, None) => None,
    }
}

/// A frame that the data plane has handed over, as an input; `None`: no port of a fabric.
fn frame(punt: Punt, port: PortId, bytes: Vec<u8>) -> Option<Input> {
    let kind = match punt {
        Punt::Bootstrap => FrameKind::Bootstrap,
        Punt::Host => FrameKind::Host,
        Punt::Control => FrameKind::Control,
        Punt::Error(DropReason::StaleRoute) => FrameKind::Stale,
        Punt::Error(_) => FrameKind::Error,
        // To the group's own address, from a host whose packets are routed here.
        Punt::Neighbour | Punt::Local | Punt::Unresolved(_) => FrameKind::Host,
        // These are for a router or for the forwarder of names.
        Punt::TooBig(_) | Punt::Named => FrameKind::Error,
    };
    Some(Input::Frame { port: u8::try_from(port).ok()?, kind, bytes })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plexus_control::identity::{Authority, Role};
    use plexus_control::link::Pace;
    use plexus_control::router::Route;

    use super::*;

    #[test]
    fn workers_are_told_of_routes_of_the_groups_router() {
        let authority = Authority::new([7; 16], &[9; 32]);
        let identity = authority.issue_identity(1, "n1", Role::Node, &[1; 32]).unwrap();
        let control = Node::new(Arc::new(identity), Pace::default(), [7; 32]);
        let fabric = Fabric::new(control, 2, LaneChoice::PerFlow, 7).unwrap();
        let mut fabric = fabric.with_router([7; 32]).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        fabric.on_change(move || tell.send(()).unwrap());
        let own = fabric.router.as_mut().unwrap();
        own.router
            .replace_routes(Time::ZERO, vec![("192.0.2.0/24".parse().unwrap(), Route::Blackhole)]);
        own.router.run(Time::ZERO, || {});
        assert!(told.try_iter().count() > 0);
    }
}
