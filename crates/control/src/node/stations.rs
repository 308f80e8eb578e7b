//! The stations behind the node's host ports, their addresses, and their liveness (seed §4.2.2).
//!
//! A station that is heard for the first time is not served until the controller has admitted it;
//! the same holds for each address that it claims. Frames that carried the claim wait for the
//! verdict. An admitted station that has been silent is probed for its address by unicast, with the
//! group as sender (`question`), because hosts do not answer a gratuitous ARP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::address::is_link_local;
use plexus_wire::fabric::message::{
    Gateway, HostGone, HostProbe, HostProbeReply, HostReport, HostSeen, HostState, HostVerdict,
};
use plexus_wire::{MacAddr, Prefix, Time};

use super::effect::{Effect, Event, Timer, Turn, Unserved, in_parts};
use super::held::has_room;
use super::host_frame::{HostFrame, Matter, Party, answer, question};

/// Destination of an advertisement when the asker has no address.
const ALL_NODES: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
/// Most stations behind one port; the controller may allow fewer.
const STATIONS_MAX: usize = 256;
/// Most addresses of one station.
const ADDRESSES_MAX: usize = 16;
/// Bytes of the frames that wait for one verdict, and of those of one station from addresses that
/// it has not claimed. The hosts behind one port can make some four thousand claims.
const HELD_MAX: usize = 8 << 10;
/// A refused claim is not submitted again for this long.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// A station silent for this long is probed.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// A station without an address cannot be probed; it expires when silent for this long.
const NAMELESS_FOR: Duration = Duration::from_secs(600);
/// Timeout of a probe, and how often it is repeated.
const ANSWER_WITHIN: Duration = Duration::from_millis(80);
const TRIES: u8 = 3;
/// Most pending probes of the controller.
const PROBES_MAX: usize = 1024;
/// Hosts in one message of a report.
pub(super) const REPORT_HOSTS: usize = 16;

/// The group, as the controller's welcome names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) mac: MacAddr,
    pub(crate) gateways: Vec<Gateway>,
}

impl Group {
    /// The group as the asker for `ip`: with its address in the same network, if it has one.
    pub(crate) fn asker(&self, ip: IpAddr) -> Party {
        // The device of routing daemons has the group's address itself, and answers no question
        // that claims to come from there.
        let own = self.gateways.iter().find(|g| in_network(g, ip)).map(|g| g.ip);
        let own = own.filter(|own| *own != ip);
        // An ARP probe has no sender (RFC 5227); a solicitation needs one: the link-local address
        // of the group's Ethernet address (RFC 4291, appendix A).
        let none = match ip {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => self.mac.link_local().into(),
        };
        Party { mac: self.mac, ip: own.unwrap_or(none) }
    }

    /// The network of the group that an address is in; link-local addresses are in none.
    fn network(&self, ip: IpAddr) -> Option<usize> {
        let mut gateways = self.gateways.iter();
        gateways.position(|g| in_network(g, ip)).filter(|_| !is_link_local(ip))
    }

    /// Whether an address is in one of the group's networks.
    pub(crate) fn has_network(&self, ip: IpAddr) -> bool {
        self.network(ip).is_some()
    }

    /// Whether two addresses are in different networks of the group, so that packets between them
    /// are routed.
    pub(crate) fn routes_between(&self, a: IpAddr, b: IpAddr) -> bool {
        self.network(a).zip(self.network(b)).is_some_and(|(a, b)| a != b)
    }

    /// Whether a frame to a station carries a packet between two networks.
    pub(crate) fn is_between_networks(&self, frame: &HostFrame) -> bool {
        match frame.matter {
            Matter::Data { source, target } => self.network(source) != self.network(target),
            _ => false,
        }
    }

    /// Whether routing daemons listen at one of the group's addresses.
    pub(crate) fn has_daemons(&self, ip: IpAddr) -> bool {
        self.gateways.iter().any(|g| g.ip == ip && g.daemons)
    }

    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        // A router has the first address of an IPv6 network too (RFC 4291, 2.6.1).
        let is_anycast = |g: &Gateway| {
            let network = Prefix::around(g.ip, g.prefix_len);
            ip.is_ipv6() && network.is_ok_and(|network| network.addr() == ip)
        };
        self.gateways.iter().any(|g| g.ip == ip || is_anycast(g))
            || ip == IpAddr::from(self.mac.link_local())
    }
}

fn in_network(gateway: &Gateway, ip: IpAddr) -> bool {
    Prefix::around(gateway.ip, gateway.prefix_len).is_ok_and(|p| p.contains(ip))
}

/// What to do with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Its sender is admitted: serve it.
    Ready,
    /// It waits for a verdict, or is refused.
    Held,
    /// Its sender is the group: an ordinary switch leads the port back into the fabric.
    Loop,
}

#[derive(Debug, Default)]
pub(crate) struct Stations {
    ports: BTreeMap<u8, BTreeMap<MacAddr, Station>>,
    probes: BTreeMap<u64, Probe>,
}

#[derive(Debug)]
struct Station {
    standing: Standing,
    addresses: BTreeMap<IpAddr, Standing>,
    /// Frames from addresses that it has not claimed: it has been asked whether it has them.
    unclaimed: Vec<(IpAddr, Vec<u8>)>,
    heard: Time,
    /// Probes sent since then.
    asked: u8,
}

/// The controller's verdict on a claim.
#[derive(Debug)]
enum Standing {
    /// Not submitted yet.
    New,
    /// Submitted, with the frames that carried the claim.
    Waiting(Vec<Vec<u8>>),
    Good,
    RefusedUntil(Time),
}

#[derive(Debug)]
struct Probe {
    port: u8,
    mac: MacAddr,
    ip: IpAddr,
    asked: u8,
}

impl Stations {
    /// A frame arrived on a host port. It is kept if its sender has to be admitted first. Of the
    /// group's own addresses a port of routing daemons has those where they listen.
    pub(crate) fn heard(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        (port, is_daemons): (u8, bool),
        frame: &HostFrame,
        bytes: &[u8],
    ) -> Heard {
        let mac = frame.source;
        if group.is_some_and(|g| g.mac == mac) {
            return Heard::Loop;
        }
        let claim = match frame.matter {
            Matter::Ask { ip, .. } | Matter::Probe { ip } | Matter::Have { ip } => Some(ip),
            _ => None,
        };
        if frame.matter == Matter::Forged || mac.is_multicast() || mac == MacAddr::default() {
            return unserved(turn, port, Unserved::Forged);
        }
        let is_own = |ip| group.is_some_and(|g| g.owns(ip) && !(is_daemons && g.has_daemons(ip)));
        if claim.is_some_and(is_own) {
            return unserved(turn, port, Unserved::Forged);
        }
        let stations = self.ports.entry(port).or_default();
        if !stations.contains_key(&mac) && stations.len() >= STATIONS_MAX {
            return unserved(turn, port, Unserved::TooMany);
        }
        let station = stations.entry(mac).or_insert_with(|| {
            turn.after(SILENT_AFTER, Timer::Station(port, mac));
            Station {
                standing: Standing::New,
                addresses: BTreeMap::new(),
                unclaimed: vec![],
                heard: turn.now,
                asked: 0,
            }
        });
        station.heard = turn.now;
        station.asked = 0;
        let full = station.addresses.len() >= ADDRESSES_MAX;
        match claim {
            Some(ip) if full && !station.addresses.contains_key(&ip) => {
                return unserved(turn, port, Unserved::TooMany);
            }
            // Both claims at once, so that the second verdict arrives with the first.
            Some(ip) => {
                let address = station.addresses.entry(ip).or_insert(Standing::New);
                address.put(turn, port, mac, Some(ip));
                if let Standing::Waiting(held) = address {
                    let of_it = station.unclaimed.extract_if(.., |(from, _)| *from == ip);
                    held.extend(of_it.map(|(_, frame)| frame));
                }
            }
            None => {}
        }
        station.standing.put(turn, port, mac, None);
        let address = match frame.matter {
            // A host's frames from an address under judgement wait for the verdict too: another
            // host may have asked for that address and told it where to send.
            Matter::Data { source, .. } => station
                .addresses
                .get_mut(&source)
                .filter(|standing| matches!(standing, Standing::Waiting(_))),
            _ => claim.and_then(|ip| station.addresses.get_mut(&ip)),
        };
        match (&mut station.standing, address) {
            (Standing::Good, None | Some(Standing::Good)) => Heard::Ready,
            (Standing::RefusedUntil(_), _) => unserved(turn, port, Unserved::Refused),
            (Standing::Good, Some(Standing::RefusedUntil(_))) => {
                turn.dropped(port, Unserved::Claimed);
                // A host that probes for a duplicate must learn that the address is taken.
                if let (Matter::Probe { ip }, Some(group)) = (&frame.matter, group) {
                    let to = if ip.is_ipv4() { mac } else { ALL_NODES };
                    let taken = answer(Party { mac: group.mac, ip: *ip }, to, None);
                    turn.host(port, taken);
                }
                Heard::Held
            }
            (Standing::Waiting(held), _) | (Standing::Good, Some(Standing::Waiting(held))) => {
                if has_room(held.iter().map(Vec::len), bytes, HELD_MAX) {
                    held.push(bytes.to_vec());
                } else {
                    turn.dropped(port, Unserved::TooMany);
                }
                Heard::Held
            }
            // `put` leaves no claim new.
            (Standing::New, _) | (_, Some(Standing::New)) => Heard::Held,
        }
    }

    /// A station sends from an address that it has not claimed: it is asked for it, and the frame
    /// waits for the answer. A host that keeps its neighbour cache across our restart sends no
    /// question of its own, nor does one that has learned its router from an advertisement.
    pub(crate) fn ask_for(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        (port, mac): (u8, MacAddr),
        ip: IpAddr,
        frame: &[u8],
    ) {
        let asker = group.map(|g| g.asker(ip));
        let question = asker.and_then(|asker| question(asker, mac, ip));
        let station = self.ports.get_mut(&port).and_then(|p| p.get_mut(&mac));
        let (Some(station), Some(question)) = (station, question) else {
            return turn.dropped(port, Unserved::NoRoute);
        };
        let waiting = station.unclaimed.iter().map(|(_, frame)| frame.len());
        if !has_room(waiting, frame, HELD_MAX) {
            return turn.dropped(port, Unserved::NoRoute);
        }
        if station.unclaimed.is_empty() {
            turn.after(ANSWER_WITHIN, Timer::Unclaimed(port, mac));
        }
        if !station.unclaimed.iter().any(|(asked, _)| *asked == ip) {
            turn.host(port, Some(question));
        }
        station.unclaimed.push((ip, frame.to_vec()));
    }

    /// A station has had time to claim the addresses that it was asked for.
    pub(crate) fn not_claimed(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr) {
        let station = self.ports.get_mut(&port).and_then(|p| p.get_mut(&mac));
        for _ in station.into_iter().flat_map(|station| station.unclaimed.drain(..)) {
            turn.dropped(port, Unserved::NoRoute);
        }
    }

    /// The controller has judged a claim, or revised its verdict. Returns the frames that waited.
    pub(crate) fn judge(&mut self, turn: &mut Turn<'_>, verdict: &HostVerdict) -> Vec<Vec<u8>> {
        let HostVerdict { port, mac, ip, refused } = *verdict;
        let Some(station) = self.ports.get_mut(&port).and_then(|p| p.get_mut(&mac)) else {
            return vec![];
        };
        let standing = match ip {
            None => &mut station.standing,
            Some(ip) => match station.addresses.get_mut(&ip) {
                Some(standing) => standing,
                None => return vec![],
            },
        };
        let verdict = match refused {
            None => Standing::Good,
            Some(_) => Standing::RefusedUntil(turn.now + REFUSED_FOR),
        };
        let before = std::mem::replace(standing, verdict);
        let was_good = matches!(before, Standing::Good);
        if let Some(reason) = refused {
            turn.push(Effect::Tell(Event::Denied(port, mac, ip, reason)));
        }
        match (ip, refused) {
            (None, None) if !was_good => {
                turn.push(Effect::Admit { port, mac });
                turn.push(Effect::Tell(Event::Station(port, mac)));
            }
            (None, Some(_)) if was_good => turn.push(Effect::Expel { port, mac }),
            (Some(address), None) if !was_good => turn.push(Effect::Granted { address, mac }),
            (Some(address), Some(_)) if was_good => turn.push(Effect::Revoked { address, mac }),
            _ => {}
        }
        if was_good != refused.is_none() {
            turn.push(Effect::HostChanged { port, mac });
        }
        match before {
            // Those of a refused claim are processed once more, which counts them.
            Standing::Waiting(held) => held,
            _ => vec![],
        }
    }

    /// The station that has an address at this port.
    pub(crate) fn holder(&self, port: u8, ip: IpAddr) -> Option<MacAddr> {
        let stations = self.ports.get(&port)?.iter();
        let good = |s: &Station| matches!(s.addresses.get(&ip), Some(Standing::Good));
        stations.filter(|(_, s)| good(s)).map(|(mac, _)| *mac).next()
    }

    /// Every address that a station of this node has.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (IpAddr, MacAddr)> {
        let stations = self.ports.values().flatten();
        stations.flat_map(|(mac, station)| station.good_addresses().map(|ip| (ip, *mac)))
    }

    /// An accepted address of a station, of the same version as `like`.
    pub(crate) fn address(&self, port: u8, mac: MacAddr, like: IpAddr) -> Option<IpAddr> {
        let station = self.ports.get(&port)?.get(&mac)?;
        let fits = |(ip, s): &(&IpAddr, &Standing)| {
            ip.is_ipv4() == like.is_ipv4() && matches!(s, Standing::Good)
        };
        station.addresses.iter().find(fits).map(|(ip, _)| *ip)
    }

    /// The controller asks whether a station is still at its port.
    pub(crate) fn probe(&mut self, turn: &mut Turn<'_>, group: Option<&Group>, probe: &HostProbe) {
        if self.probes.len() >= PROBES_MAX {
            return;
        }
        let &HostProbe { exchange, port, mac, ip } = probe;
        self.probes.insert(exchange, Probe { port, mac, ip, asked: 0 });
        self.probe_again(turn, group, exchange);
    }

    /// Repeats a probe, or gives it up.
    pub(crate) fn probe_again(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        exchange: u64,
    ) {
        let Some(probe) = self.probes.get_mut(&exchange) else { return };
        if probe.asked >= TRIES {
            self.probes.remove(&exchange);
            turn.report(HostProbeReply { exchange, alive: false });
            return;
        }
        probe.asked += 1;
        let asker = group.map(|g| g.asker(probe.ip));
        let frame = asker.and_then(|asker| question(asker, probe.mac, probe.ip));
        turn.host(probe.port, frame);
        turn.after(ANSWER_WITHIN, Timer::Probe(exchange));
    }

    /// A station announces that it has an address: this answers pending probes, whether or not the
    /// station is admitted here.
    pub(crate) fn answered(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr, ip: IpAddr) {
        let of_it = |p: &Probe| p.port == port && p.mac == mac && p.ip == ip;
        let found: Vec<u64> =
            self.probes.iter().filter(|(_, p)| of_it(p)).map(|(id, _)| *id).collect();
        for exchange in found {
            self.probes.remove(&exchange);
            turn.timers.cancel(Timer::Probe(exchange));
            turn.report(HostProbeReply { exchange, alive: true });
        }
    }

    /// A port is no longer a host port: its stations are removed.
    pub(crate) fn close(&mut self, turn: &mut Turn<'_>, port: u8) {
        for (mac, station) in self.ports.remove(&port).unwrap_or_default() {
            turn.timers.cancel(Timer::Station(port, mac));
            turn.timers.cancel(Timer::Unclaimed(port, mac));
            leave(turn, port, mac, &station);
        }
    }

    /// Reports hosts to a restarted controller, and the claims that wait for it.
    pub(crate) fn report(&self, turn: &mut Turn<'_>) {
        let mut hosts = Vec::new();
        for (&port, stations) in &self.ports {
            for (&mac, station) in stations {
                if !matches!(station.standing, Standing::Good) {
                    turn.report(HostSeen { port, mac, ip: None });
                    continue;
                }
                let mut ips = Vec::new();
                for (&ip, standing) in &station.addresses {
                    match standing {
                        Standing::Good => ips.push(ip),
                        _ => turn.report(HostSeen { port, mac, ip: Some(ip) }),
                    }
                }
                hosts.push(HostState { port, mac, ips });
            }
        }
        in_parts(&hosts, REPORT_HOSTS, |more, hosts| turn.report(HostReport { more, hosts }));
    }

    /// Checks whether a station that was silent is still there.
    pub(crate) fn look_after(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        port: u8,
        mac: MacAddr,
    ) {
        let Some(stations) = self.ports.get_mut(&port) else { return };
        let Some(station) = stations.get_mut(&mac) else { return };
        let good = |(ip, s): (&IpAddr, &Standing)| matches!(s, Standing::Good).then_some(*ip);
        let address = station.addresses.iter().find_map(good);
        let patience = if address.is_some() { SILENT_AFTER } else { NAMELESS_FOR };
        let quiet_until = station.heard + patience;
        let timer = Timer::Station(port, mac);
        if station.asked == 0 && turn.now < quiet_until {
            return turn.timers.set(timer, quiet_until);
        }
        if station.asked >= TRIES || address.is_none() {
            let station = stations.remove(&mac);
            if let Some(station) = station {
                turn.push(Effect::Tell(Event::Gone(port, mac)));
                leave(turn, port, mac, &station);
            }
            return;
        }
        station.asked += 1;
        // Without a group no probe can be sent; the station does not expire for that.
        let Some(group) = group else { return turn.after(SILENT_AFTER, timer) };
        let frame = address.and_then(|ip| question(group.asker(ip), mac, ip));
        turn.host(port, frame);
        turn.after(ANSWER_WITHIN * 4, timer);
    }

    /// Admitted stations with their accepted addresses, for display.
    pub(crate) fn list(&self) -> Vec<HostState> {
        let all = self.ports.iter().flat_map(|(port, s)| s.iter().map(move |(m, s)| (port, m, s)));
        all.filter(|(_, _, s)| matches!(s.standing, Standing::Good))
            .map(|(&port, &mac, s)| {
                let good =
                    |(ip, s): (&IpAddr, &Standing)| matches!(s, Standing::Good).then_some(*ip);
                HostState { port, mac, ips: s.addresses.iter().filter_map(good).collect() }
            })
            .collect()
    }
}

impl Station {
    fn good_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let good = self.addresses.iter().filter(|(_, s)| matches!(s, Standing::Good));
        good.map(|(ip, _)| *ip)
    }
}

impl Standing {
    /// Submits a station's claim, to an address if one is given, that is new or may be submitted
    /// again.
    fn put(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr, ip: Option<IpAddr>) {
        match self {
            Standing::RefusedUntil(until) if turn.now < *until => {}
            Standing::New | Standing::RefusedUntil(_) => {
                turn.report(HostSeen { port, mac, ip });
                *self = Standing::Waiting(vec![]);
            }
            Standing::Waiting(_) | Standing::Good => {}
        }
    }
}

fn unserved(turn: &mut Turn<'_>, port: u8, why: Unserved) -> Heard {
    turn.dropped(port, why);
    Heard::Held
}

fn leave(turn: &mut Turn<'_>, port: u8, mac: MacAddr, station: &Station) {
    for address in station.good_addresses() {
        turn.push(Effect::Revoked { address, mac });
    }
    if matches!(station.standing, Standing::Good) {
        turn.push(Effect::Expel { port, mac });
    }
    turn.push(Effect::HostGone(HostGone { port, mac }));
}
