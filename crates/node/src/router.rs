//! An IP router's control plane joined to the tables of its data plane. The daemon, the simulator
//! and the tests all drive it, so that they do the same. Neither plane knows the other.
//!
//! The forwarding table changes in place while workers read it. Groups and neighbours, which its
//! entries name, are in plans that are published. So changes have an order. A plan with new groups
//! is published. Then every worker ends its current batch. Then entries name those groups. Groups
//! that no entry names leave with the next plan.

use plexus_config::{NodeFile, ReversePath, RouterSettings};
use plexus_control::router::{
    self as control, Event, Fault, Group, GroupId, Input, InterfaceFacts, InterfaceId, Limits,
    Member, NeighbourId, Output, Route, Source, Why,
};
use plexus_io::Link;
use plexus_plane::{
    DropReason, FibReaders, GroupKind, GroupSpec, Hop, Injection, InterfacePlan, LinkChange,
    MEMBERS_MAX, PublishedRouter, Punt, RouterSource, RouterTables,
};
use plexus_table::lpm;
use plexus_wire::{EtherType, Prefix, Time, ethernet, ipv4};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::Rest;
use crate::interface::{self, Interface};

/// How often the control plane hears which neighbours are used. It verifies a stale neighbour five
/// seconds after its first use (RFC 4861, 7.3.3), and a few more do no harm.
const USED: Duration = Duration::from_secs(2);

/// What the data plane needs of an interface beside what the control plane is told.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The VLAN that it is.
    pub vlan: u16,
    /// Its only port, if it is a routed port.
    pub port: Option<u16>,
    /// The port of the kernel's device, if there is one.
    pub kernel: Option<u16>,
    /// Which packets are dropped for their source.
    pub reverse_path: ReversePath,
}

/// A router.
pub struct Router {
    control: control::Router,
    tables: RouterTables,
    v4: lpm::Fib4,
    v6: lpm::Fib6,
    published: PublishedRouter,
    places: Vec<Place>,
    /// Networks whose hosts take shorter packets than their interface carries.
    mtus: Vec<(Prefix, u16)>,
    /// The interfaces of the file, at `places`.
    interfaces: Vec<Interface>,
    /// When the control plane hears next which neighbours are used.
    used_at: Time,
    /// Neighbours that packets were sent to, as last collected.
    used: Vec<NeighbourId>,
    /// Entries that wait for the plan with their groups.
    entries: VecDeque<(Prefix, Option<GroupId>)>,
    /// Groups that leave once those entries are in.
    leaving: BTreeSet<GroupId>,
    /// Neighbours that lead nowhere any more, but that entries may name until those are in.
    vacated: BTreeSet<NeighbourId>,
    is_plan_old: bool,
    /// Called when workers are to follow a change at once.
    on_change: Box<dyn FnMut() + Send>,
    /// Entries of IPv4 and IPv6 that did not fit: what is behind them goes by a shorter prefix.
    lacking: [BTreeMap<Prefix, GroupId>; 2],
    /// How often an entry did not fit, since the start.
    refused: u64,
}

impl Router {
    /// A router with interfaces at these places, all of them down; `seed` spreads its timers.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(limits: Limits, places: Vec<Place>, seed: [u8; 32]) -> Result<Router, lpm::Refused> {
        // Besides the routes: own addresses, subnets and their broadcast addresses, and every
        // neighbour. A known neighbour without an entry would be resolved with each packet.
        let addresses = places.len() * limits.addresses * 5;
        let routes = limits.routes + limits.neighbours + addresses;
        let of_table = lpm::Limits { routes, ..lpm::Limits::default() };
        let mut tables = RouterTables::new();
        let plan = tables.plan();
        Ok(Router {
            control: control::Router::new(limits, seed),
            tables,
            v4: lpm::Fib::new(of_table)?,
            v6: lpm::Fib::new(of_table)?,
            published: (*plan).clone().publish(),
            places,
            mtus: Vec::new(),
            interfaces: Vec::new(),
            used_at: Time::ZERO + USED,
            used: Vec::new(),
            entries: VecDeque::new(),
            leaving: BTreeSet::new(),
            vacated: BTreeSet::new(),
            is_plan_old: false,
            on_change: Box::new(|| {}),
            lacking: Default::default(),
            refused: 0,
        })
    }

    /// The router of a file that has been [expanded](crate::ports::expand).
    ///
    /// # Errors
    /// In words, when an interface is of a port that is not there, or memory is short.
    pub fn of_file(
        file: &NodeFile,
        settings: &RouterSettings,
        limits: Limits,
        seed: [u8; 32],
    ) -> Result<Router, String> {
        let (interfaces, places) = interface::interfaces(file, settings)?;
        let router = Router::new(limits, places, seed).map_err(|e| e.to_string())?;
        Ok(Router { interfaces, ..router })
    }

    /// The plan that workers read.
    pub fn source(&self) -> RouterSource {
        let fib = FibReaders::new(self.v4.reader(), self.v6.reader());
        RouterSource { plan: self.published.clone(), fib }
    }

    /// Has this called after each change of what workers read. A worker that sleeps follows none,
    /// and rules of the kernel's fast table that it has made stay as they were.
    pub fn on_change(&mut self, call: impl FnMut() + Send + 'static) {
        self.on_change = Box::new(call);
    }

    /// The control plane, for questions.
    pub fn control(&self) -> &control::Router {
        &self.control
    }

    /// The group that lookups of an address find.
    pub fn lookup(&self, address: IpAddr) -> Option<u16> {
        let group = match address {
            IpAddr::V4(a) => self.v4.explain(a.to_bits()).group,
            IpAddr::V6(a) => self.v6.explain(a.to_bits()).group,
        };
        group.map(lpm::GroupId::number)
    }

    /// What the tables take of memory, IPv4 and IPv6.
    pub fn memory(&self) -> [lpm::Memory; 2] {
        [self.v4.memory(), self.v6.memory()]
    }

    /// Entries of the tables, IPv4 and IPv6.
    pub fn entries(&self) -> [usize; 2] {
        [self.v4.len(), self.v6.len()]
    }

    /// How often the tables had no room for a route, since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Routes that are in use and not in the tables, since there is no room for them.
    pub fn lacking(&self) -> usize {
        self.lacking.iter().map(BTreeMap::len).sum()
    }

    /// The interfaces of the file.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// When [`run`](Self::run) has something to do.
    pub fn next_deadline(&self) -> Time {
        self.control.next_deadline().min(self.used_at)
    }

    /// A port's link or longest frame has changed. Gives the interfaces of that port, which
    /// [`follow_ports`](Self::follow_ports) is to set, and whether the longest frame is another.
    pub fn hear_link(&mut self, change: LinkChange) -> Vec<(usize, bool)> {
        let LinkChange { port, link, max_frame, .. } = change;
        let interfaces = self.interfaces.iter_mut().enumerate();
        let of_port = interfaces.filter(|(_, interface)| interface.ports.contains(&port));
        let heard = of_port.map(|(index, interface)| {
            match link {
                Link::Up => interface.up.insert(port),
                Link::Down => interface.up.remove(&port),
            };
            (index, interface.max_frames.insert(port, max_frame) != Some(max_frame))
        });
        heard.collect()
    }

    /// Tells both planes what has become of an interface of the file. It is up if a port of it is
    /// up and `facts` has something to tell the control plane. Whether it is up, if that is new.
    pub fn follow_ports(
        &mut self,
        now: Time,
        index: usize,
        facts: impl FnOnce(&Interface) -> Option<InterfaceFacts>,
    ) -> Option<bool> {
        let id = InterfaceId(index as u16);
        let was_up = self.control.interfaces().any(|(known, _)| known == id);
        let interface = self.interfaces.get(index)?;
        let facts = if interface.up.is_empty() { None } else { facts(interface) };
        let is_up = facts.is_some();
        self.set_interface(now, id, facts);
        (was_up != is_up).then_some(is_up)
    }

    /// Tells both planes of an interface; without facts it is down.
    pub fn set_interface(&mut self, now: Time, id: InterfaceId, facts: Option<InterfaceFacts>) {
        if let Some(place) = self.places.get(usize::from(id.0)) {
            let plan = facts.as_ref().map(|facts| InterfacePlan {
                vlan: place.vlan,
                mac: facts.mac,
                mtu: facts.mtu,
                port: place.port,
                kernel: place.kernel,
                reverse_path: place.reverse_path,
            });
            self.tables.set_interface(place.vlan, plan);
            self.is_plan_old = true;
        }
        self.control.handle(now, Input::Interface { id, facts });
    }

    /// Sets the longest IP packets that hosts of networks take; others take what their interface
    /// carries.
    pub(crate) fn set_mtus(&mut self, mtus: Vec<(Prefix, u16)>) {
        self.mtus = mtus;
        for number in 0..self.tables.neighbours() {
            let mtu = self.mtu_of(NeighbourId(number.into()));
            self.tables.set_neighbour_mtu(number, mtu);
        }
        self.is_plan_old = true;
    }

    fn mtu_of(&self, neighbour: NeighbourId) -> Option<u16> {
        if self.mtus.is_empty() {
            return None;
        }
        let address = self.control.address_of(neighbour)?;
        let networks = self.mtus.iter().filter(|(network, _)| network.contains(address));
        networks.max_by_key(|(network, _)| network.len()).map(|(_, mtu)| *mtu)
    }

    /// A frame that the data plane has handed over.
    pub fn frame(&mut self, now: Time, punt: Punt, vlan: u16, frame: Vec<u8>) {
        let Some(place) = self.places.iter().position(|p| p.vlan == vlan) else { return };
        let Some(why) = why(punt, &frame) else { return };
        let interface = InterfaceId(place as u16);
        self.control.handle(now, Input::Frame { interface, why, frame });
    }

    /// Tells the control plane which neighbours packets were sent to since the last call: those it
    /// verifies when they are stale.
    fn note_used(&mut self, now: Time) {
        let used = self.tables.take_used();
        if !used.is_empty() {
            self.used = used.into_iter().map(|number| NeighbourId(number.into())).collect();
            self.control.handle(now, Input::Used(self.used.clone()));
        }
    }

    /// The addresses that packets were sent to, once for each time that this is looked for.
    pub(crate) fn take_used(&mut self) -> Vec<IpAddr> {
        let used = std::mem::take(&mut self.used).into_iter();
        used.filter_map(|id| self.control.address_of(id)).collect()
    }

    /// These are the static routes from now on.
    pub fn replace_routes(&mut self, now: Time, routes: Vec<(Prefix, Route)>) {
        let source = Source::Static;
        self.control.handle(now, Input::Begin(source));
        for (prefix, route) in routes {
            let route = Some(route);
            self.control.handle(now, Input::Route { source, prefix, metric: 0, route });
        }
        self.control.handle(now, Input::End(source));
    }

    /// Any other input.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.control.handle(now, input);
    }

    /// Whether packets that have waited for the control plane are to be sent.
    pub fn releases(&self) -> bool {
        self.control.releases()
    }

    /// Lets the control plane do what is due, and [carries out](Self::carry_out) what it decides.
    pub fn run(&mut self, now: Time, wait: impl FnMut()) -> Rest<Event> {
        if self.control.next_deadline() <= now {
            self.control.handle(now, Input::Tick);
        }
        if self.used_at <= now {
            self.note_used(now);
            self.used_at = now + USED;
        }
        self.carry_out(wait)
    }

    /// Carries out what the control plane has decided; afterwards the data plane follows it.
    /// `wait` is called as long as a worker is still at the batch that it was at.
    ///
    /// What is urgent comes first: groups that lose members are with the workers before the
    /// control plane looks at the whole table.
    pub fn carry_out(&mut self, mut wait: impl FnMut()) -> Rest<Event> {
        let mut rest = Rest::default();
        let was_lacking = self.lacking() > 0;
        loop {
            if !self.control.has_output() {
                self.enter(&mut wait);
            }
            let Some(output) = self.control.poll_output() else { break };
            match output {
                Output::Send { interface, frame } => {
                    rest.frames.extend(self.vlan(interface).map(|v| (Injection::Vlan(v), frame)));
                }
                Output::Again { interface, frame } => {
                    rest.frames
                        .extend(self.vlan(interface).map(|v| (Injection::Received(v), frame)));
                }
                Output::Adjacency { id, entry } => {
                    // The number is somebody else's now: first nobody's entries may name it.
                    if entry.is_some() && self.vacated.contains(&id) {
                        self.enter(&mut wait);
                    }
                    self.neighbour(id, entry);
                }
                Output::Group { id, group: Some(group) } => {
                    if self.leaving.contains(&id) {
                        self.enter(&mut wait);
                    }
                    self.tables.set_group(id.0, Some(self.spec(group)));
                    self.is_plan_old = true;
                }
                Output::Group { id, group: None } => {
                    self.leaving.insert(id);
                }
                Output::Fib { prefix, group } => self.entries.push_back((prefix, group)),
                Output::Tell(event) => rest.events.push(event),
            }
        }
        if !was_lacking && self.lacking() > 0 {
            rest.events.push(Event::TableFull);
        }
        rest
    }

    /// Publishes the plan, and then changes the table.
    fn enter(&mut self, wait: &mut impl FnMut()) {
        if self.is_plan_old {
            self.published.store(self.tables.plan());
            self.is_plan_old = false;
            (self.on_change)();
            if !self.entries.is_empty() {
                let (v4, v6) = (self.v4.instant(), self.v6.instant());
                while !self.v4.has_passed(v4) || !self.v6.has_passed(v6) {
                    wait();
                }
            }
        }
        let mut removed = [0; 2];
        let has_entries = !self.entries.is_empty();
        while let Some((prefix, group)) = self.entries.pop_front() {
            let family = usize::from(prefix.addr().is_ipv6());
            self.lacking[family].remove(&prefix);
            match (self.change(prefix, group, wait), group) {
                (true, None) => removed[family] += 1,
                (true, Some(_)) => {}
                (false, group) => {
                    self.refused += 1;
                    // An older entry of this prefix leads to a group that may leave.
                    self.change(prefix, None, wait);
                    group.map(|group| self.lacking[family].insert(prefix, group));
                }
            }
        }
        // Where some left, others that did not fit may do so now.
        for (family, removed) in removed.into_iter().enumerate() {
            for _ in 0..removed {
                let Some((&prefix, &group)) = self.lacking[family].first_key_value() else { break };
                if !self.change(prefix, Some(group), wait) {
                    break;
                }
                self.lacking[family].remove(&prefix);
            }
        }
        if has_entries {
            (self.on_change)();
        }
        for id in std::mem::take(&mut self.leaving) {
            self.tables.set_group(id.0, None);
            self.is_plan_old = true;
        }
        self.vacated.clear();
    }

    /// Changes the entry of a prefix; false if there is no room.
    fn change(&mut self, prefix: Prefix, group: Option<GroupId>, wait: &mut impl FnMut()) -> bool {
        let (len, group) = (prefix.len(), group.and_then(|id| lpm::GroupId::new(id.0)));
        loop {
            let done = match (prefix.addr(), group) {
                (IpAddr::V4(a), Some(group)) => self.v4.insert(a.to_bits(), len, group),
                (IpAddr::V4(a), None) => self.v4.remove(a.to_bits(), len),
                (IpAddr::V6(a), Some(group)) => self.v6.insert(a.to_bits(), len, group),
                (IpAddr::V6(a), None) => self.v6.remove(a.to_bits(), len),
            };
            // Memory waits for a worker's batch: an entry left out would stay wrong for good.
            if done != Err(lpm::Refused::ReaderBusy) {
                return done.is_ok();
            }
            wait();
        }
    }

    fn vlan(&self, interface: InterfaceId) -> Option<u16> {
        self.places.get(usize::from(interface.0)).map(|place| place.vlan)
    }

    fn neighbour(&mut self, id: NeighbourId, entry: Option<control::Adjacency>) {
        let Ok(number) = u16::try_from(id.0) else { return };
        if entry.is_none() {
            self.vacated.insert(id);
        }
        let at = entry.and_then(|e| Some((self.vlan(e.interface)?, e.mac)));
        self.tables.set_neighbour_mtu(number, self.mtu_of(id));
        self.tables.set_neighbour(number, at);
        self.is_plan_old = true;
    }

    fn spec(&self, group: Group) -> GroupSpec {
        let kind = match &group {
            Group::Via(_) => GroupKind::Forward,
            Group::Glean(_) => GroupKind::Glean,
            Group::Local => GroupKind::Local,
            Group::Broadcast => GroupKind::Broadcast,
            Group::Blackhole => GroupKind::Blackhole,
            Group::Unreachable => GroupKind::Unreachable,
            Group::Prohibited => GroupKind::Prohibited,
        };
        let vlan = match &group {
            Group::Glean(interface) => self.vlan(*interface).unwrap_or(0),
            _ => 0,
        };
        let members = match group {
            Group::Via(members) => {
                let hop = |m: &Member| {
                    let neighbour = u16::try_from(m.neighbour.0).ok()?;
                    Some(Hop { neighbour, vlan: self.vlan(m.interface)? })
                };
                let shares = shares(&members).into_iter().zip(&members);
                shares.flat_map(|(n, m)| std::iter::repeat_n(hop(m), n)).flatten().collect()
            }
            _ => Vec::new(),
        };
        GroupSpec { kind, members, vlan }
    }
}

/// How often each member is named: as its weight says; of many or heavy ones, in that proportion as
/// near as [`MEMBERS_MAX`] allows, and every one of them.
fn shares(members: &[Member]) -> Vec<usize> {
    let total: usize = members.iter().map(|m| usize::from(m.weight)).sum();
    let room = MEMBERS_MAX.saturating_sub(members.len());
    let share = |weight: u8| match usize::from(weight) {
        weight if total <= MEMBERS_MAX => weight,
        weight => 1 + weight * room / total,
    };
    members.iter().map(|m| share(m.weight)).collect()
}

/// What a frame is to the control plane; `None`: nothing.
fn why(punt: Punt, frame: &[u8]) -> Option<Why> {
    Some(match punt {
        Punt::Neighbour => {
            let frame = ethernet::Frame::new_checked(frame).ok()?;
            if frame.ethertype() == EtherType::ARP { Why::Arp } else { Why::Nd }
        }
        Punt::Local => Why::Local,
        Punt::Unresolved(neighbour) => Why::Unresolved(neighbour.map(|n| NeighbourId(n.into()))),
        Punt::TooBig(mtu) => Why::Error(Fault::TooBig { mtu }),
        Punt::Error(reason) => Why::Error(fault(reason, frame)?),
        Punt::Bootstrap | Punt::Host | Punt::Control | Punt::Named => return None,
    })
}

fn fault(reason: DropReason, frame: &[u8]) -> Option<Fault> {
    Some(match reason {
        DropReason::TtlExpired => Fault::TtlExpired,
        DropReason::NoRoute => Fault::NoRoute,
        DropReason::Unreachable => Fault::Unreachable,
        // A source route is refused because it is not allowed here.
        DropReason::Prohibited | DropReason::SourceRouted => Fault::Prohibited,
        DropReason::BeyondScope => Fault::BeyondScope,
        DropReason::BadIpOption => Fault::ParameterProblem { code: 0, pointer: bad_option(frame)? },
        _ => return None,
    })
}

/// Where in a frame's IPv4 header the option begins that is at fault (RFC 1812, 4.3.3.5).
fn bad_option(frame: &[u8]) -> Option<u16> {
    let ip = ipv4::Packet::new_excerpt(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    /// The only option that is one byte and may be followed by others.
    const NO_OPERATION: u8 = 1;
    let mut at = ipv4::HEADER_LEN;
    for option in ip.options() {
        match option {
            Ok(option) if option.kind == NO_OPERATION => at += 1,
            Ok(option) => at += 2 + option.data.len(),
            Err(_) => return u16::try_from(at).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_of_routes_that_come_and_go_and_of_nothing_else() {
        let mut router = Router::new(Limits::default(), vec![], [7; 32]).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        router.on_change(move || tell.send(()).unwrap());
        let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
        for (routes, are_told) in [
            (vec![(prefix, Route::Blackhole)], true),
            (vec![(prefix, Route::Blackhole)], false),
            (vec![(prefix, Route::Prohibited)], true),
            (vec![], true),
            (vec![], false),
        ] {
            router.replace_routes(Time::ZERO, routes);
            router.run(Time::ZERO, || {});
            assert_eq!(told.try_iter().count() > 0, are_told);
            // Groups that no entry names any more leave with another plan.
            router.run(Time::ZERO, || {});
            told.try_iter().for_each(drop);
        }
    }

    #[test]
    fn a_message_points_at_the_option_that_is_bad() {
        // No operation, router alert, no operation; then one that is longer than its room.
        let options = [1, 148, 4, 0, 0, 1, 7, 9];
        let mut frame = vec![0; ethernet::HEADER_LEN];
        frame.extend([0x47, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(options);
        let pointed = fault(DropReason::BadIpOption, &frame);
        assert_eq!(pointed, Some(Fault::ParameterProblem { code: 0, pointer: 26 }));
    }

    #[test]
    fn every_member_has_its_share_however_heavy_they_are() {
        let of = |weights: &[u8]| {
            let (neighbour, interface) = (NeighbourId(0), InterfaceId(0));
            let member = |weight: &u8| Member { neighbour, interface, weight: *weight };
            let shares = shares(&weights.iter().map(member).collect::<Vec<_>>());
            assert!(shares.iter().sum::<usize>() <= MEMBERS_MAX);
            shares
        };
        assert_eq!(of(&[1, 2]), [1, 2]);
        assert_eq!(of(&[255, 1]), [255, 1]);
        assert_eq!(of(&[255, 255]), [128, 128]);
        assert_eq!(of(&[200, 100]), [170, 85]);
        assert_eq!(of(&[255; 64]), [4; 64]);
        assert!(of(&[1, 255, 255]).iter().all(|share| *share > 0));
    }
}
