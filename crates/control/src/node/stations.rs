//! The stations behind the node's host ports, their addresses, and their liveness (seed §4.2.2).
//!
//! A station that is heard for the first time is not served until the controller has admitted it;
//! the same holds for each address that it claims. Frames that carried the claim wait for the
//! verdict. An admitted station that has been silent is probed for its address by unicast, with the
//! group as sender (`question`), because hosts do not answer a gratuitous ARP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::fabric::message::{
    Body, Gateway, HostGone, HostProbe, HostProbeReply, HostReport, HostSeen, HostState,
    HostVerdict,
};
use plexus_wire::{MacAddr, Prefix, Time};

use super::effect::{Effect, Event, Unserved};
use super::host_frame::{HostFrame, Matter, Party, answer, question};
use crate::timers::Timers;

/// Destination of an advertisement when the asker has no address.
const ALL_NODES: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
/// Most stations behind one port; the controller may allow fewer.
const STATIONS_MAX: usize = 256;
/// Most addresses of one station.
const ADDRESSES_MAX: usize = 16;
/// Frames that wait for one verdict.
const HELD_MAX: usize = 4;
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
const REPORT_HOSTS: usize = 16;

/// The group, as the controller's welcome names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) mac: MacAddr,
    pub(crate) gateways: Vec<Gateway>,
}

impl Group {
    /// The group as the asker for `ip`: with its address in the same network, if it has one.
    pub(crate) fn asker(&self, ip: IpAddr) -> Party {
        let own = self.gateways.iter().find(|g| in_network(g, ip)).map(|g| g.ip);
        // An ARP probe has no sender (RFC 5227); a solicitation needs one: the link-local address
        // of the group's Ethernet address (RFC 4291, appendix A).
        let none = match ip {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => self.mac.link_local().into(),
        };
        Party { mac: self.mac, ip: own.unwrap_or(none) }
    }

    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        self.gateways.iter().any(|g| g.ip == ip) || ip == IpAddr::from(self.mac.link_local())
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// Check a station's liveness.
    Station(u8, MacAddr),
    /// A probe requested by the controller.
    Probe(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Stations {
    ports: BTreeMap<u8, BTreeMap<MacAddr, Station>>,
    probes: BTreeMap<u64, Probe>,
    timers: Timers<Timer>,
}

#[derive(Debug)]
struct Station {
    standing: Standing,
    addresses: BTreeMap<IpAddr, Standing>,
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
    /// A frame arrived on a host port. It is kept if its sender has to be admitted first.
    pub(crate) fn heard(
        &mut self,
        now: Time,
        group: Option<&Group>,
        port: u8,
        frame: &HostFrame,
        bytes: &[u8],
        out: &mut Vec<Effect>,
    ) -> Heard {
        let mac = frame.source;
        if group.is_some_and(|g| g.mac == mac) {
            return Heard::Loop;
        }
        let claim = match frame.matter {
            Matter::Ask { ip, .. } | Matter::Probe { ip } | Matter::Have { ip } => Some(ip),
            _ => None,
        };
        let mut unserved = |why| {
            out.push(Effect::Tell(Event::Dropped(port, why)));
            Heard::Held
        };
        if frame.matter == Matter::Forged || mac.is_multicast() || mac == MacAddr::default() {
            return unserved(Unserved::Forged);
        }
        if claim.is_some_and(|ip| group.is_some_and(|g| g.owns(ip))) {
            return unserved(Unserved::Forged);
        }
        let stations = self.ports.entry(port).or_default();
        if !stations.contains_key(&mac) && stations.len() >= STATIONS_MAX {
            return unserved(Unserved::TooMany);
        }
        let station = stations.entry(mac).or_insert_with(|| {
            self.timers.set(Timer::Station(port, mac), now + SILENT_AFTER);
            Station { standing: Standing::New, addresses: BTreeMap::new(), heard: now, asked: 0 }
        });
        station.heard = now;
        station.asked = 0;
        let full = station.addresses.len() >= ADDRESSES_MAX;
        match claim {
            Some(ip) if full && !station.addresses.contains_key(&ip) => {
                return unserved(Unserved::TooMany);
            }
            // Both claims at once, so that the second verdict arrives with the first.
            Some(ip) => {
                let address = station.addresses.entry(ip).or_insert(Standing::New);
                address.put(now, || seen(port, mac, Some(ip)), out);
            }
            None => {}
        }
        station.standing.put(now, || seen(port, mac, None), out);
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
            (Standing::RefusedUntil(_), _) => {
                out.push(Effect::Tell(Event::Dropped(port, Unserved::Refused)));
                Heard::Held
            }
            (Standing::Good, Some(Standing::RefusedUntil(_))) => {
                out.push(Effect::Tell(Event::Dropped(port, Unserved::Claimed)));
                // A host that probes for a duplicate must learn that the address is taken.
                if let (Matter::Probe { ip }, Some(group)) = (&frame.matter, group) {
                    let to = if ip.is_ipv4() { mac } else { ALL_NODES };
                    let taken = answer(Party { mac: group.mac, ip: *ip }, to, None);
                    out.extend(taken.map(|frame| Effect::Host { port, frame }));
                }
                Heard::Held
            }
            (Standing::Waiting(held), _) | (Standing::Good, Some(Standing::Waiting(held))) => {
                if held.len() < HELD_MAX {
                    held.push(bytes.to_vec());
                } else {
                    out.push(Effect::Tell(Event::Dropped(port, Unserved::TooMany)));
                }
                Heard::Held
            }
            // `put` leaves no claim new.
            (Standing::New, _) | (_, Some(Standing::New)) => Heard::Held,
        }
    }

    /// The controller has judged a claim, or revised its verdict. Returns the frames that waited.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        verdict: &HostVerdict,
        out: &mut Vec<Effect>,
    ) -> Vec<Vec<u8>> {
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
            Some(_) => Standing::RefusedUntil(now + REFUSED_FOR),
        };
        let before = std::mem::replace(standing, verdict);
        let was_good = matches!(before, Standing::Good);
        if let Some(reason) = refused {
            out.push(Effect::Tell(Event::Denied(port, mac, ip, reason)));
        }
        match (ip, refused) {
            (None, None) if !was_good => {
                out.push(Effect::Admit { port, mac });
                out.push(Effect::Tell(Event::Station(port, mac)));
            }
            (None, Some(_)) if was_good => out.push(Effect::Expel { port, mac }),
            _ => {}
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

    /// An accepted address of a station, of the same version as `like`.
    pub(crate) fn address(&self, port: u8, mac: MacAddr, like: IpAddr) -> Option<IpAddr> {
        let station = self.ports.get(&port)?.get(&mac)?;
        let fits = |(ip, s): &(&IpAddr, &Standing)| {
            ip.is_ipv4() == like.is_ipv4() && matches!(s, Standing::Good)
        };
        station.addresses.iter().find(fits).map(|(ip, _)| *ip)
    }

    /// The controller asks whether a station is still at its port.
    pub(crate) fn probe(
        &mut self,
        now: Time,
        group: Option<&Group>,
        probe: &HostProbe,
        out: &mut Vec<Effect>,
    ) {
        if self.probes.len() >= PROBES_MAX {
            return;
        }
        let &HostProbe { exchange, port, mac, ip } = probe;
        self.probes.insert(exchange, Probe { port, mac, ip, asked: 0 });
        self.probe_again(now, group, exchange, out);
    }

    fn probe_again(
        &mut self,
        now: Time,
        group: Option<&Group>,
        exchange: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(probe) = self.probes.get_mut(&exchange) else { return };
        if probe.asked >= TRIES {
            self.probes.remove(&exchange);
            out.push(told(HostProbeReply { exchange, alive: false }));
            return;
        }
        probe.asked += 1;
        let asker = group.map(|g| g.asker(probe.ip));
        let frame = asker.and_then(|asker| question(asker, probe.mac, probe.ip));
        out.extend(frame.map(|frame| Effect::Host { port: probe.port, frame }));
        self.timers.set(Timer::Probe(exchange), now + ANSWER_WITHIN);
    }

    /// A station announces that it has an address: this answers pending probes, whether or not the
    /// station is admitted here.
    pub(crate) fn answered(&mut self, port: u8, mac: MacAddr, ip: IpAddr, out: &mut Vec<Effect>) {
        let of_it = |p: &Probe| p.port == port && p.mac == mac && p.ip == ip;
        let found: Vec<u64> =
            self.probes.iter().filter(|(_, p)| of_it(p)).map(|(id, _)| *id).collect();
        for exchange in found {
            self.probes.remove(&exchange);
            self.timers.cancel(Timer::Probe(exchange));
            out.push(told(HostProbeReply { exchange, alive: true }));
        }
    }

    /// A port is no longer a host port: its stations are removed.
    pub(crate) fn close(&mut self, port: u8, out: &mut Vec<Effect>) {
        for (mac, station) in self.ports.remove(&port).unwrap_or_default() {
            self.timers.cancel(Timer::Station(port, mac));
            leave(port, mac, &station, out);
        }
    }

    /// Reports hosts to a restarted controller, and the claims that wait for it.
    pub(crate) fn report(&self, out: &mut Vec<Effect>) {
        let mut hosts = Vec::new();
        for (&port, stations) in &self.ports {
            for (&mac, station) in stations {
                if !matches!(station.standing, Standing::Good) {
                    out.push(seen(port, mac, None));
                    continue;
                }
                let mut ips = Vec::new();
                for (&ip, standing) in &station.addresses {
                    match standing {
                        Standing::Good => ips.push(ip),
                        _ => out.push(seen(port, mac, Some(ip))),
                    }
                }
                hosts.push(HostState { port, mac, ips });
            }
        }
        let messages = hosts.len().div_ceil(REPORT_HOSTS);
        for (i, hosts) in hosts.chunks(REPORT_HOSTS).enumerate() {
            let more = (messages - 1 - i) as u16;
            out.push(told(HostReport { more, hosts: hosts.to_vec() }));
        }
    }

    /// Does what is due.
    pub(crate) fn run(&mut self, now: Time, group: Option<&Group>, out: &mut Vec<Effect>) {
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Probe(exchange) => self.probe_again(now, group, exchange, out),
                Timer::Station(port, mac) => self.look_after(now, group, port, mac, out),
            }
        }
    }

    fn look_after(
        &mut self,
        now: Time,
        group: Option<&Group>,
        port: u8,
        mac: MacAddr,
        out: &mut Vec<Effect>,
    ) {
        let Some(stations) = self.ports.get_mut(&port) else { return };
        let Some(station) = stations.get_mut(&mac) else { return };
        let good = |(ip, s): (&IpAddr, &Standing)| matches!(s, Standing::Good).then_some(*ip);
        let address = station.addresses.iter().find_map(good);
        let patience = if address.is_some() { SILENT_AFTER } else { NAMELESS_FOR };
        let quiet_until = station.heard + patience;
        let timer = Timer::Station(port, mac);
        if station.asked == 0 && now < quiet_until {
            return self.timers.set(timer, quiet_until);
        }
        if station.asked >= TRIES || address.is_none() {
            let station = stations.remove(&mac);
            out.extend(station.is_some().then_some(Effect::Tell(Event::Gone(port, mac))));
            station.iter().for_each(|s| leave(port, mac, s, out));
            return;
        }
        station.asked += 1;
        // Without a group no probe can be sent; the station does not expire for that.
        let Some(group) = group else { return self.timers.set(timer, now + SILENT_AFTER) };
        let frame = address.and_then(|ip| question(group.asker(ip), mac, ip));
        out.extend(frame.map(|frame| Effect::Host { port, frame }));
        self.timers.set(timer, now + ANSWER_WITHIN * 4);
    }

    /// When [`run`](Self::run) next has something to do.
    pub(crate) fn next_deadline(&self) -> Time {
        self.timers.next()
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

impl Standing {
    /// Submits a claim that is new, or that may be submitted again.
    fn put(&mut self, now: Time, claim: impl FnOnce() -> Effect, out: &mut Vec<Effect>) {
        match self {
            Standing::RefusedUntil(until) if now < *until => {}
            Standing::New | Standing::RefusedUntil(_) => {
                out.push(claim());
                *self = Standing::Waiting(vec![]);
            }
            Standing::Waiting(_) | Standing::Good => {}
        }
    }
}

fn leave(port: u8, mac: MacAddr, station: &Station, out: &mut Vec<Effect>) {
    if matches!(station.standing, Standing::Good) {
        out.push(Effect::Expel { port, mac });
    }
    out.push(told(HostGone { port, mac }));
}

fn seen(port: u8, mac: MacAddr, ip: Option<IpAddr>) -> Effect {
    told(HostSeen { port, mac, ip })
}

fn told(body: impl Into<Body>) -> Effect {
    Effect::Controller { body: body.into(), sure: true }
}
