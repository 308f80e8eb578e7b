//! The DHCPv4 server (RFC 2131; options RFC 2132). Section numbers below are RFC 2131's.
//!
//! Hosts reach it through their nodes ([`HostFrame`](plexus_wire::fabric::message::HostFrame)). It
//! answers from the group's Ethernet address, to which no route leads, so that unicast renewals
//! arrive here as well (seed §4.2.3).
//!
//! A client is identified by its Ethernet address, which must be the frame's source: client
//! identifiers (2132, 9.14) are ignored, because they would let one host hold any number of
//! addresses. A lease is confirmed only once it is stored.

mod leases;
mod message;
mod relay;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_config::{ControllerSettings, Subnet};
use plexus_wire::dhcpv4::{MessageType, Repr, option};
use plexus_wire::fabric::message::HostSend;
use plexus_wire::{MacAddr, Time};

use crate::controller::Timer;
use crate::event::{Drop, Event};
use crate::io::Output;
use crate::record::{Change, Lease, Record};
use crate::scan::ms;
use crate::topology::Place;
use crate::{Config, Controller};
use leases::{Entry, Leases, Pool, State};

/// A confirmation that has not been stored after this time is not sent, because its host would
/// count the lease from a later time than we do. It is stored again when the host asks again.
const STORE_PATIENCE: Duration = Duration::from_secs(4);
/// A lease is kept for its host for so much longer than the host was told: the confirmation may be
/// late, and the time of day and the records count whole seconds.
const GRACE: Duration = Duration::from_secs(STORE_PATIENCE.as_secs() + 2);

/// A confirmation that waits until its lease is stored.
#[derive(Clone, Debug)]
struct Pending {
    ticket: u64,
    since: Time,
    at: Place,
    mac: MacAddr,
    ip: Ipv4Addr,
    seconds: u32,
    frame: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dhcp {
    table: Leases,
    /// By the subnet's index in the settings.
    pools: Vec<Option<Pool>>,
    reserved: BTreeMap<MacAddr, Ipv4Addr>,
    reserved_for: BTreeMap<Ipv4Addr, MacAddr>,
    /// In the order of their tickets.
    pending: VecDeque<Pending>,
    /// Clients with a relayed message that was not answered yet.
    relayed: BTreeMap<MacAddr, relay::Relayed>,
    /// Clients' messages that wait until the server is found.
    unserved: Vec<relay::Unserved>,
    tickets: u64,
    started: (Time, u64),
}

impl Dhcp {
    pub(crate) fn new(config: &Config, now: Time, unix_s: u64, stored: &[Record]) -> Dhcp {
        let mut dhcp = Dhcp {
            table: Leases::default(),
            pools: Vec::new(),
            reserved: BTreeMap::new(),
            reserved_for: BTreeMap::new(),
            pending: VecDeque::new(),
            relayed: BTreeMap::new(),
            unserved: Vec::new(),
            tickets: 0,
            started: (now, unix_s),
        };
        dhcp.configure(config);
        for record in stored {
            let Record::Lease(Lease { ip, mac, until_unix_s }) = record else { continue };
            let holds = *until_unix_s > unix_s;
            let apart = Duration::from_secs(until_unix_s.abs_diff(unix_s));
            let until = if holds { now + apart } else { now - apart };
            let state = if holds { State::Bound } else { State::Past };
            dhcp.table.put(*ip, Entry { mac: *mac, state, until, port: None, is_stored: true });
        }
        dhcp
    }

    pub(crate) fn configure(&mut self, config: &ControllerSettings) {
        let pool = |s: &Subnet| s.range.map(|(first, last)| Pool::new(first, last));
        self.pools = config.subnets.iter().map(pool).collect();
        // Subnets may have other indices now.
        self.relayed.clear();
        self.unserved.clear();
        self.reserved = config.reservations.iter().map(|r| (r.mac, r.ip)).collect();
        self.reserved_for = config.reservations.iter().map(|r| (r.ip, r.mac)).collect();
    }

    /// Whether an address is leased to, or reserved for, another host.
    pub(crate) fn is_kept_from(&self, now: Time, mac: MacAddr, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        let bound = |e: &Entry| e.state == State::Bound && e.until > now && e.mac != mac;
        self.table.get(ip).is_some_and(bound)
            || self.reserved_for.get(&ip).is_some_and(|owner| *owner != mac)
    }

    /// Whether a host has an address of a pool without a lease: it set the address itself.
    pub(crate) fn is_static(&self, mac: MacAddr, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        let is_leased =
            |e: &Entry| matches!(e.state, State::Offered | State::Bound) && e.mac == mac;
        self.pools.iter().flatten().any(|pool| pool.holds(ip))
            && !self.table.get(ip).is_some_and(is_leased)
            && self.reserved.get(&mac) != Some(&ip)
    }

    /// The time of day, in seconds since 1970.
    pub(crate) fn unix(&self, at: Time) -> u64 {
        let (start, unix_s) = self.started;
        (unix_s + at.since(start).as_secs()).saturating_sub(start.since(at).as_secs())
    }

    fn record(&self, ip: Ipv4Addr, entry: &Entry) -> Lease {
        Lease { ip, mac: entry.mac, until_unix_s: self.unix(entry.until) }
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        let kept = self.table.iter().filter(|(_, e)| matches!(e.state, State::Bound | State::Past));
        kept.map(|(ip, entry)| self.record(ip, entry)).collect()
    }
}

impl Controller {
    pub(crate) fn arm_leases(&mut self) {
        self.rearm(self.dhcp.table.next_end(), Timer::Leases);
    }

    /// A host's IPv4 packet to the group.
    pub(crate) fn dhcp_frame(&mut self, now: Time, at: Place, mac: MacAddr, packet: &[u8]) {
        if self.is_provisional {
            return self.dropped(Drop::Provisional);
        }
        let Some((_, payload, message)) = message::read(packet) else {
            return self.dropped(Drop::BadFrame);
        };
        if !message.is_request {
            return self.relayed_answer(now, at, mac, packet);
        }
        if message.chaddr != mac || !message.giaddr.is_unspecified() {
            return self.dropped(Drop::ForeignDhcp);
        }
        if let Some(subnet) = self.subnet_of(mac)
            && let Some(server) = self.config.subnets[subnet].relay
        {
            let known = self.hosts.by_ip(server.into());
            if known == Some(mac) {
                // The server's own requests are not relayed to it.
                return self.dropped(Drop::NoAddress);
            }
            return self.relay(now, at, subnet, &message, payload);
        }
        match message.message_type {
            MessageType::DISCOVER => self.discover(now, at, &message),
            MessageType::REQUEST => self.dhcp_request(now, at, &message),
            MessageType::DECLINE => self.decline(now, at, &message),
            MessageType::RELEASE => self.release(now, &message),
            MessageType::INFORM => self.inform(at, &message),
            _ => self.dropped(Drop::BadFrame),
        }
        self.arm_leases();
    }

    /// The subnet that serves a host: that of its reservation, of one of its groups, or the first
    /// one open to all.
    fn subnet_of(&self, mac: MacAddr) -> Option<usize> {
        let subnets = &self.config.subnets;
        let find = |wanted: &dyn Fn(&Subnet) -> bool| {
            subnets
                .iter()
                .position(|s| s.prefix.addr().is_ipv4() && s.gateway.is_some() && wanted(s))
        };
        if let Some(ip) = self.dhcp.reserved.get(&mac) {
            return find(&|s| s.prefix.contains((*ip).into()));
        }
        let groups = self.hosts.get(mac).map_or(&[][..], |h| &h.groups);
        let number = |s: &Subnet| self.groups.number(s.group.as_ref()?);
        find(&|s| number(s).is_some_and(|g| groups.contains(&g)))
            .or_else(|| find(&|s| s.group.is_none()))
    }

    /// Whether an address may be given to a host: no other host has it, leased or not.
    fn is_usable(&self, subnet: usize, mac: MacAddr, ip: Ipv4Addr) -> bool {
        let prefix = self.config.subnets[subnet].prefix;
        let edges = [prefix.addr(), prefix.last()];
        let is_edge = prefix.len() < 31 && edges.contains(&IpAddr::from(ip));
        let holder = self.hosts.by_ip(ip.into());
        let owner = self.dhcp.reserved_for.get(&ip);
        let is_own = self.is_own_address(ip.into());
        !is_edge && !is_own && holder.is_none_or(|h| h == mac) && owner.is_none_or(|o| *o == mac)
    }

    /// Whether a port's hosts may get one more address: its share is what was offered, leased or
    /// declined there, and what hosts took out of a pool themselves. The client's own such
    /// addresses do not count: the lease replaces them.
    pub(crate) fn has_share(&self, at: Place, client: Option<MacAddr>) -> bool {
        let share = self.config.limits.leases_per_port as usize;
        let left = share.saturating_sub(self.dhcp.table.len_at(at));
        let ips =
            self.hosts.at(at).flat_map(|(mac, host)| host.ips.iter().map(move |ip| (mac, *ip)));
        let own = ips.filter(|(mac, ip)| Some(*mac) != client && self.dhcp.is_static(*mac, *ip));
        own.take(left).count() < left
    }

    /// Section 4.3.1.
    fn discover(&mut self, now: Time, at: Place, message: &Repr) {
        let mac = message.chaddr;
        let Some(subnet) = self.subnet_of(mac) else { return self.dropped(Drop::NoAddress) };
        let own = self.dhcp.table.of(mac);
        let state = |ip| self.dhcp.table.get(ip).map(|e| e.state);
        let held = own.is_some_and(|ip| !matches!(state(ip), None | Some(State::Past)));
        if !held && !self.has_share(at, Some(mac)) {
            return self.dropped(Drop::NoAddress);
        }
        let chosen = match self.dhcp.reserved.get(&mac).copied() {
            Some(ip) => {
                let other = self.dhcp.table.get(ip).is_some_and(|e| {
                    e.state == State::Declined || (e.state == State::Bound && e.mac != mac)
                });
                Some(ip).filter(|ip| !other && self.is_usable(subnet, mac, *ip))
            }
            None => {
                let asked = message.address(option::REQUESTED_ADDRESS);
                let mut pool = self.dhcp.pools[subnet];
                let mut table = std::mem::take(&mut self.dhcp.table);
                let chosen = pool.as_mut().and_then(|pool| {
                    let usable = |ip| self.is_usable(subnet, mac, ip);
                    table.choose(pool, mac, asked, usable)
                });
                (self.dhcp.table, self.dhcp.pools[subnet]) = (table, pool);
                chosen
            }
        };
        let Some(ip) = chosen else {
            let node = self.id(at.node);
            self.log(Event::PoolExhausted { mac, node, port: at.port });
            return self.dropped(Drop::NoAddress);
        };
        // A valid lease stays as it is: the offer has the same address.
        if !self.dhcp.table.get(ip).is_some_and(|e| e.mac == mac && e.state == State::Bound) {
            let known = self.dhcp.table.get(ip).filter(|e| e.mac == mac);
            let is_stored = known.is_some_and(|e| e.is_stored);
            let until = now + ms(self.config.limits.offer_hold_ms);
            let entry = Entry { mac, state: State::Offered, until, port: Some(at), is_stored };
            if let Some(other) = self.dhcp.table.put(ip, entry) {
                self.store(vec![Change::RemoveLease(other)]);
            }
        }
        self.answer(at, message, MessageType::OFFER, subnet, Some(ip));
    }

    /// Section 4.3.2.
    fn dhcp_request(&mut self, now: Time, at: Place, message: &Repr) {
        let mac = message.chaddr;
        let Some(subnet) = self.subnet_of(mac) else { return self.dropped(Drop::NoAddress) };
        let server = message.option(option::SERVER_ID).map(|_| message.address(option::SERVER_ID));
        let asked = message.address(option::REQUESTED_ADDRESS);
        let own = self.dhcp.table.of(mac);
        let ip = match (server, asked, message.ciaddr) {
            // Selecting: an offer of this server, or of another one.
            (Some(server), Some(ip), _) => {
                if server.map(IpAddr::V4) != self.config.subnets[subnet].gateway {
                    if let Some(offered) = own
                        && self.dhcp.table.get(offered).is_some_and(|e| e.state == State::Offered)
                    {
                        self.dhcp.table.remove(offered);
                    }
                    return self.dropped(Drop::NotLeased);
                }
                ip
            }
            (Some(_), None, _) => return self.dropped(Drop::BadFrame),
            // Rebooted: the client verifies the address that it remembers.
            (None, Some(ip), Ipv4Addr::UNSPECIFIED) => ip,
            // Renewing or rebinding.
            (None, _, ip) if !ip.is_unspecified() => ip,
            _ => return self.dropped(Drop::BadFrame),
        };
        let is_here = self.config.subnets[subnet].prefix.contains(ip.into());
        if server.is_none() && own.is_none() && is_here {
            // "If the DHCP server has no record of this client, then it MUST remain silent."
            return self.dropped(Drop::NotLeased);
        }
        let reserved = self.dhcp.reserved.get(&mac).is_none_or(|r| *r == ip);
        let counted = self.dhcp.table.get(ip).is_some_and(|e| {
            e.port == Some(at) && matches!(e.state, State::Offered | State::Bound)
        });
        let fits = counted || self.has_share(at, Some(mac));
        if own != Some(ip) || !is_here || !reserved || !fits || !self.is_usable(subnet, mac, ip) {
            return self.answer(at, message, MessageType::NAK, subnet, None);
        }
        self.confirm(now, at, message, subnet, ip);
    }

    /// Binds an address and confirms it once that is stored.
    fn confirm(&mut self, now: Time, at: Place, message: &Repr, subnet: usize, ip: Ipv4Addr) {
        let ack = self.reply(message, MessageType::ACK, subnet, Some(ip));
        let Some(frame) = ack else { return self.dropped(Drop::BadFrame) };
        self.promise(now, at, message.chaddr, (ip, self.config.subnets[subnet].lease_s), frame);
    }

    /// Binds an address to a host for some seconds; once that is stored, the host gets the frame
    /// with the confirmation.
    fn promise(
        &mut self,
        now: Time,
        at: Place,
        mac: MacAddr,
        (ip, seconds): (Ipv4Addr, u32),
        frame: Vec<u8>,
    ) {
        let waiting = self.dhcp.pending.iter_mut().find(|p| p.mac == mac && p.ip == ip);
        let is_same =
            |p: &&mut Pending| now.since(p.since) < STORE_PATIENCE && p.seconds == seconds;
        if let Some(pending) = waiting.filter(is_same) {
            (pending.at, pending.frame) = (at, frame);
            return;
        }
        self.dhcp.pending.retain(|p| p.mac != mac);
        let until = now + Duration::from_secs(seconds.into()) + GRACE;
        let entry = Entry { mac, state: State::Bound, until, port: Some(at), is_stored: true };
        let mut changes = Vec::new();
        if let Some(other) = self.dhcp.table.put(ip, entry) {
            // A host has one address: an external server may have changed its choice.
            self.forget_address(mac, other);
            changes.push(Change::RemoveLease(other));
        }
        changes.push(Change::Put(Record::Lease(self.dhcp.record(ip, &entry))));
        let ticket = self.store(changes);
        self.arm_leases();
        let pending = Pending { ticket, since: now, at, mac, ip, seconds, frame };
        self.dhcp.pending.push_back(pending);
    }

    /// Has changes stored; returns the ticket.
    pub(crate) fn store(&mut self, changes: Vec<Change>) -> u64 {
        self.dhcp.tickets += 1;
        let ticket = self.dhcp.tickets;
        self.output(Output::Store { ticket, changes });
        ticket
    }

    /// Leases up to this ticket are durable: sends their hosts the confirmation.
    pub(crate) fn stored(&mut self, now: Time, ticket: u64) {
        while self.dhcp.pending.front().is_some_and(|p| p.ticket <= ticket) {
            let Some(pending) = self.dhcp.pending.pop_front() else { return };
            let Pending { since, at, mac, ip, seconds, frame, .. } = pending;
            let is_late = now.since(since) >= STORE_PATIENCE;
            // Released or declined meanwhile, or the host has moved: it asks again.
            let bound = |e: &Entry| e.mac == mac && e.state == State::Bound;
            if is_late
                || !self.dhcp.table.get(ip).is_some_and(bound)
                || self.hosts.get(mac).is_none_or(|h| h.at != at)
            {
                continue;
            }
            self.send(at.node, 0, HostSend { port: at.port, frame });
            self.bind(now, mac, ip.into());
            self.verdict(at, 0, mac, Some(ip.into()), None);
            self.log(Event::Leased { ip, mac, seconds });
        }
    }

    /// Section 4.3.3: the client found its address in use.
    fn decline(&mut self, now: Time, at: Place, message: &Repr) {
        let mac = message.chaddr;
        let asked = message.address(option::REQUESTED_ADDRESS);
        let Some(ip) = asked.filter(|ip| self.holds(mac, *ip)) else {
            return self.dropped(Drop::NotLeased);
        };
        let hold = Duration::from_secs(self.config.limits.decline_hold_s.into());
        let entry = Entry {
            mac,
            state: State::Declined,
            until: now + hold,
            // It stays on the port's account: declining does not empty the pool faster.
            port: Some(at),
            is_stored: false,
        };
        self.dhcp.table.put(ip, entry);
        self.forget_address(mac, ip);
        self.store(vec![Change::RemoveLease(ip)]);
        self.log(Event::Declined { ip, mac });
    }

    /// Section 4.3.4.
    fn release(&mut self, now: Time, message: &Repr) {
        let (mac, ip) = (message.chaddr, message.ciaddr);
        if !self.holds(mac, ip) {
            return self.dropped(Drop::NotLeased);
        }
        let entry = Entry { mac, state: State::Past, until: now, port: None, is_stored: true };
        self.dhcp.table.put(ip, entry);
        self.forget_address(mac, ip);
        let lease = self.dhcp.record(ip, &entry);
        self.store(vec![Change::Put(Record::Lease(lease))]);
        self.log(Event::Released { ip, mac });
    }

    /// Section 4.3.5: the client has an address of its own and asks for the other settings.
    fn inform(&mut self, at: Place, message: &Repr) {
        let ip = message.ciaddr;
        let subnets = &self.config.subnets;
        let subnet = subnets.iter().position(|s| s.prefix.contains(ip.into()));
        match subnet.filter(|s| subnets[*s].gateway.is_some() && !ip.is_unspecified()) {
            Some(subnet) => self.answer(at, message, MessageType::ACK, subnet, None),
            None => self.dropped(Drop::NotLeased),
        }
    }

    /// Whether an address is offered or leased to a host.
    fn holds(&self, mac: MacAddr, ip: Ipv4Addr) -> bool {
        let held = |e: &Entry| e.mac == mac && matches!(e.state, State::Offered | State::Bound);
        self.dhcp.table.get(ip).is_some_and(held)
    }

    fn forget_address(&mut self, mac: MacAddr, ip: Ipv4Addr) {
        if self.hosts.by_ip(ip.into()) == Some(mac) {
            self.hosts.unbind(ip.into());
            self.regroup(mac);
        }
    }

    pub(crate) fn leases_due(&mut self, now: Time) {
        while let Some((ip, entry)) = self.dhcp.table.end_next(now) {
            if entry.state == State::Bound {
                self.forget_address(entry.mac, ip);
            }
        }
        self.arm_leases();
    }

    fn reply(
        &self,
        asked: &Repr,
        kind: MessageType,
        subnet: usize,
        ip: Option<Ipv4Addr>,
    ) -> Option<Vec<u8>> {
        message::write(asked, kind, &self.config.subnets[subnet], ip, self.config.group_mac)
    }

    fn answer(
        &mut self,
        at: Place,
        asked: &Repr,
        kind: MessageType,
        subnet: usize,
        ip: Option<Ipv4Addr>,
    ) {
        match self.reply(asked, kind, subnet, ip) {
            Some(frame) => self.send(at.node, 0, HostSend { port: at.port, frame }),
            None => self.dropped(Drop::BadFrame),
        }
    }
}
