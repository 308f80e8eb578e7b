//! A host: an ordinary IPv4 end system that knows nothing of the fabric. Seen from the cable it
//! resolves addresses as Linux does: it asks for an unknown neighbour three times, a second apart.
//! It asks a stale neighbour directly, and uses the old address meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_io::Packet;
use plexus_wire::{EtherType, MacAddr, Protocol, arp, ethernet, icmpv4, ipv4, udp};

use crate::asker::Asker;
use crate::cable::PortIndex;
use crate::core::{Core, DeviceIndex};
use crate::dhcp;
use crate::flow::Side;
use crate::named::NamedEnd;
use crate::nic::Nic;
use crate::time::SimTime;

/// Bytes before an IPv4 packet's payload.
pub(crate) const IP_PAYLOAD_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// How long a neighbour is reachable after an answer (`base_reachable_time_ms`).
const REACHABLE: Duration = Duration::from_secs(30);
/// Between two questions (`retrans_time_ms`).
const RETRY: Duration = Duration::from_secs(1);
/// How many requests are sent (`mcast_solicit`, `ucast_solicit`).
const TRIES: u32 = 3;
/// Announcements of an address that was not leased, and the time between them (RFC 5227, 2.3). A
/// host that never sends anything cannot be found.
pub(crate) const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_EVERY: Duration = Duration::from_secs(2);
/// Packets that wait for an address, per address.
const WAITING_MAX: usize = 101;

/// What a host makes of a frame beyond its own needs.
pub(crate) enum Heard {
    /// An IPv4 packet for it, of a protocol that programs use.
    Packet(Packet),
    /// A frame of named data for it.
    Named(Packet),
    /// Nothing.
    Done,
}

/// A host with one interface.
pub(crate) struct SimHost {
    device: DeviceIndex,
    pub(crate) mac: MacAddr,
    pub(crate) nic: Nic,
    /// Its address and the length of its network's prefix.
    pub(crate) address: Option<(Ipv4Addr, u8)>,
    pub(crate) gateway: Option<Ipv4Addr>,
    neighbours: BTreeMap<Ipv4Addr, Neighbour>,
    /// When each neighbour is asked for next.
    questions: BTreeSet<(SimTime, Ipv4Addr)>,
    pub(crate) dhcp: Option<dhcp::Client>,
    /// When it announces its address next, and how many announcements are left.
    pub(crate) announce: Option<(SimTime, u8)>,
    /// Its ARP generator.
    pub(crate) asker: Option<Box<Asker>>,
    /// What it asks and answers by name.
    pub(crate) named: Option<Box<NamedEnd>>,
    /// Ends of connections that want to send, in turn.
    pub(crate) eager: VecDeque<(u32, Side)>,
}

/// What is known about an address of the network.
#[derive(Default)]
struct Neighbour {
    mac: Option<MacAddr>,
    /// Until when it is believed.
    until: SimTime,
    /// Requests without an answer, and when the next one is due: see [`SimHost::questions`].
    asked: u32,
    ask_at: Option<SimTime>,
    waiting: VecDeque<Packet>,
}

impl SimHost {
    pub(crate) fn new(device: DeviceIndex, port: PortIndex, mac: MacAddr) -> SimHost {
        SimHost {
            device,
            mac,
            nic: Nic::new(port),
            address: None,
            gateway: None,
            neighbours: BTreeMap::new(),
            questions: BTreeSet::new(),
            dhcp: None,
            announce: None,
            asker: None,
            named: None,
            eager: VecDeque::new(),
        }
    }

    /// Its own address, once it has one.
    pub(crate) fn ip(&self) -> Option<Ipv4Addr> {
        self.address.map(|(ip, _)| ip)
    }

    /// Whether it has the address that it waits for, if any, and has said so.
    pub(crate) fn has_address(&self) -> bool {
        self.dhcp.as_ref().is_none_or(dhcp::Client::is_bound)
            && self.announce.is_none_or(|(_, left)| left < ANNOUNCEMENTS)
    }

    /// A packet to this address with room for a payload; the caller fills that in. `None`: the host
    /// has no address yet, or there is no buffer.
    pub(crate) fn packet(
        &self,
        core: &mut Core,
        to: Ipv4Addr,
        protocol: Protocol,
        payload_len: usize,
        ecn: u8,
    ) -> Option<Packet> {
        let from = self.ip()?;
        let Some(mut packet) = core.pool.alloc() else {
            core.out_of_frames += 1;
            return None;
        };
        let len = (IP_PAYLOAD_AT + payload_len).max(ethernet::MIN_FRAME_LEN);
        if !core.pool.set_len(&mut packet, len) {
            core.pool.free(packet);
            return None;
        }
        let bytes = core.pool.data_mut(&mut packet);
        let header =
            ethernet::Repr { dst: MacAddr::default(), src: self.mac, ethertype: EtherType::IPV4 };
        let ip = ipv4::Repr { ecn, ..ipv4::Repr::new(from, to, protocol, payload_len) };
        let written = header.emit(bytes).and_then(|()| ip.emit(&mut bytes[ethernet::HEADER_LEN..]));
        if written.is_err() {
            core.pool.free(packet);
            return None;
        }
        Some(packet)
    }

    /// Sends a packet that was made by [`packet`](Self::packet), as soon as it is known where.
    pub(crate) fn send(&mut self, core: &mut Core, to: Ipv4Addr, mut packet: Packet) {
        let next = self.next_hop(to);
        let neighbour = self.neighbours.entry(next).or_default();
        match neighbour.mac {
            Some(mac) => {
                set_dst(core, &mut packet, mac);
                let is_stale = neighbour.until < core.now && neighbour.ask_at.is_none();
                self.nic.send(core, packet);
                if is_stale {
                    self.ask(core, next);
                }
            }
            None => {
                if neighbour.waiting.len() >= WAITING_MAX
                    && let Some(oldest) = neighbour.waiting.pop_front()
                {
                    core.pool.free(oldest);
                }
                neighbour.waiting.push_back(packet);
                if neighbour.ask_at.is_none() {
                    self.ask(core, next);
                }
            }
        }
        self.rest(core);
    }

    fn next_hop(&self, to: Ipv4Addr) -> Ipv4Addr {
        let Some((own, len)) = self.address else { return to };
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let is_near = u32::from(own) & mask == u32::from(to) & mask;
        if is_near { to } else { self.gateway.unwrap_or(to) }
    }

    fn ask(&mut self, core: &mut Core, of: Ipv4Addr) {
        let Some(own) = self.ip() else { return };
        let neighbour = self.neighbours.entry(of).or_default();
        neighbour.asked += 1;
        if neighbour.asked == 1 && neighbour.mac.is_none() {
            core.resolutions.asked += 1;
        }
        let ask_at = core.now + RETRY.into();
        if let Some(before) = neighbour.ask_at.replace(ask_at) {
            self.questions.remove(&(before, of));
        }
        self.questions.insert((ask_at, of));
        let dst = neighbour.mac.unwrap_or(MacAddr::BROADCAST);
        let question = arp::Repr {
            operation: arp::Operation::REQUEST,
            sender_mac: self.mac,
            sender_ip: own,
            target_mac: MacAddr::default(),
            target_ip: of,
        };
        self.send_arp(core, dst, &question);
    }

    fn send_arp(&mut self, core: &mut Core, dst: MacAddr, repr: &arp::Repr) {
        let mut frame = [0; ethernet::MIN_FRAME_LEN];
        let header = ethernet::Repr { dst, src: self.mac, ethertype: EtherType::ARP };
        // The frame is long enough for both.
        let _ = header.emit(&mut frame);
        let _ = repr.emit(&mut frame[ethernet::HEADER_LEN..]);
        if let Some(packet) = core.frame(&frame) {
            self.nic.send(core, packet);
        }
    }

    /// A frame has come in.
    pub(crate) fn receive(&mut self, core: &mut Core, packet: Packet) -> Heard {
        let Some(packet) = self.nic.check(core, packet) else { return Heard::Done };
        let bytes = core.pool.data(&packet);
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else {
            core.pool.free(packet);
            return Heard::Done;
        };
        let is_for_us = frame.dst() == self.mac || frame.dst() == MacAddr::BROADCAST;
        match frame.ethertype() {
            EtherType::ARP if is_for_us => {
                let question = arp::Packet::new_checked(frame.payload());
                let repr = question.and_then(|p| arp::Repr::parse(&p));
                core.pool.free(packet);
                if let Ok(repr) = repr {
                    self.hear_arp(core, &repr);
                }
            }
            EtherType::IPV4 if is_for_us => return self.hear_ip(core, packet),
            EtherType::NDN if self.named.as_ref().is_some_and(|end| end.takes(frame.dst())) => {
                return Heard::Named(packet);
            }
            // Groups that this host has not joined, and protocols that hosts do not speak.
            _ => core.pool.free(packet),
        }
        self.rest(core);
        Heard::Done
    }

    fn hear_arp(&mut self, core: &mut Core, repr: &arp::Repr) {
        let own = self.ip();
        let is_question_for_us =
            repr.operation == arp::Operation::REQUEST && Some(repr.target_ip) == own;
        // RFC 826: a known sender's entry is updated, and one that asks for us gets an entry.
        if !repr.sender_ip.is_unspecified()
            && (is_question_for_us || self.neighbours.contains_key(&repr.sender_ip))
        {
            let neighbour = self.neighbours.entry(repr.sender_ip).or_default();
            let is_new = neighbour.mac.replace(repr.sender_mac).is_none();
            neighbour.until = core.now + REACHABLE.into();
            let asked = std::mem::take(&mut neighbour.asked);
            if let Some(at) = neighbour.ask_at.take() {
                if is_new {
                    let first = at - (RETRY * asked).into();
                    core.resolutions.latency_ns.push((core.now - first).as_picos() / 1000);
                }
                self.questions.remove(&(at, repr.sender_ip));
            }
            for mut packet in std::mem::take(&mut neighbour.waiting) {
                set_dst(core, &mut packet, repr.sender_mac);
                self.nic.send(core, packet);
            }
        }
        if let Some(own) = own.filter(|_| is_question_for_us) {
            let answer = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: self.mac,
                sender_ip: own,
                target_mac: repr.sender_mac,
                target_ip: repr.sender_ip,
            };
            self.send_arp(core, repr.sender_mac, &answer);
        }
    }

    fn hear_ip(&mut self, core: &mut Core, packet: Packet) -> Heard {
        let bytes = &core.pool.data(&packet)[ethernet::HEADER_LEN..];
        let Ok(ip) = ipv4::Packet::new_checked(bytes) else {
            core.pool.free(packet);
            return Heard::Done;
        };
        let is_dhcp = ip.protocol() == Protocol::UDP
            && udp::Datagram::new_checked(ip.payload())
                .is_ok_and(|d| d.dst_port() == plexus_wire::dhcpv4::CLIENT_PORT);
        if is_dhcp && let Some(mut client) = self.dhcp.take() {
            let answer = dhcp::answer_of(ip.payload());
            core.pool.free(packet);
            if let Some(answer) = answer {
                client.hear(core, self, &answer);
            }
            self.dhcp = Some(client);
            self.rest(core);
            return Heard::Done;
        }
        if Some(ip.dst()) != self.ip() {
            core.pool.free(packet);
            return Heard::Done;
        }
        if ip.protocol() == Protocol::ICMPV4
            && icmpv4::Packet::new_checked(ip.payload()).is_ok_and(|p| p.kind() == 8)
        {
            self.answer_echo(core, packet);
            return Heard::Done;
        }
        Heard::Packet(packet)
    }

    fn answer_echo(&mut self, core: &mut Core, mut packet: Packet) {
        let bytes = &mut core.pool.data_mut(&mut packet)[ethernet::HEADER_LEN..];
        let Ok(mut ip) = ipv4::Packet::new_checked(bytes) else { return core.pool.free(packet) };
        let (from, own) = (ip.src(), ip.dst());
        ip.set_src(own);
        ip.set_dst(from);
        ip.fill_checksum();
        if let Ok(mut echo) = icmpv4::Packet::new_checked(ip.payload_mut()) {
            echo.answer_echo();
        }
        let frame = ethernet::Frame::new_checked(core.pool.data_mut(&mut packet));
        if let Ok(mut frame) = frame {
            frame.set_src(self.mac);
        }
        packet.arrive(plexus_io::PORT_NONE);
        self.send(core, from, packet);
    }

    /// Its cable has been plugged in, or is gone. Without one it forgets its neighbours, as Linux
    /// does.
    pub(crate) fn carrier(&mut self, core: &mut Core, up: bool) {
        if !up {
            self.forget(core);
        }
    }

    fn forget(&mut self, core: &mut Core) {
        self.questions.clear();
        let neighbours = std::mem::take(&mut self.neighbours);
        // No packet waits for their answers any more.
        let is_open = |n: &&Neighbour| n.mac.is_none() && n.asked > 0;
        core.resolutions.given_up += neighbours.values().filter(is_open).count() as u64;
        let waiting = neighbours.into_values().flat_map(|n| n.waiting);
        waiting.for_each(|packet| core.pool.free(packet));
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        self.nic.run(core);
        if let Some(mut client) = self.dhcp.take() {
            client.run(core, self);
            self.dhcp = Some(client);
        }
        if let (Some((at, left)), Some(own)) = (self.announce, self.ip())
            && at <= core.now
        {
            self.announce = (left > 1).then(|| (core.now + ANNOUNCE_EVERY.into(), left - 1));
            let announcement = arp::Repr {
                operation: arp::Operation::REQUEST,
                sender_mac: self.mac,
                sender_ip: own,
                target_mac: MacAddr::default(),
                target_ip: own,
            };
            self.send_arp(core, MacAddr::BROADCAST, &announcement);
        }
        self.ask_without_need(core);
        if let Some(end) = &mut self.named {
            end.wake(core);
        }
        let own = self.ip();
        while let Some(&(at, ip)) = self.questions.first()
            && at <= core.now
        {
            self.questions.pop_first();
            let Some(neighbour) = self.neighbours.get_mut(&ip) else { continue };
            neighbour.ask_at = None;
            match (neighbour.asked, neighbour.mac) {
                (0..TRIES, _) if own.is_some() => self.ask(core, ip),
                // It does not answer directly: ask everybody.
                (_, Some(_)) => {
                    (neighbour.asked, neighbour.mac) = (0, None);
                    self.ask(core, ip);
                }
                (_, None) => {
                    core.resolutions.given_up += 1;
                    let gone = self.neighbours.remove(&ip);
                    let waiting = gone.into_iter().flat_map(|n| n.waiting);
                    waiting.for_each(|packet| core.pool.free(packet));
                }
            }
        }
        self.rest(core);
    }

    fn ask_without_need(&mut self, core: &mut Core) {
        let Some(mut asker) = self.asker.take() else { return };
        let own = self.ip();
        while let Some(ip) =
            asker.due(core.now, |ip| Some(*ip) == own || self.neighbours.contains_key(ip))
        {
            self.ask(core, ip);
        }
        if !asker.has_ended() {
            self.asker = Some(asker);
        }
    }

    /// Says when there is something to do.
    pub(crate) fn rest(&mut self, core: &mut Core) {
        let asks = self.questions.first().map(|(at, _)| *at);
        let dhcp = self.dhcp.as_ref().map(dhcp::Client::next_deadline);
        let nic = self.nic.next_deadline();
        let announce = self.announce.map(|(at, _)| at);
        let asker = self.asker.as_ref().map(|asker| asker.next);
        let named = self.named.as_mut().map(|end| end.next_deadline(core.now));
        let at = [asks, dhcp, announce, asker, named].into_iter().flatten().fold(nic, SimTime::min);
        if at != SimTime::FOREVER {
            core.wake(self.device, at);
        }
    }

    /// Gives all frames back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.nic.clear(core);
        self.forget(core);
    }
}

fn set_dst(core: &mut Core, packet: &mut Packet, mac: MacAddr) {
    if let Ok(mut frame) = ethernet::Frame::new_checked(core.pool.data_mut(packet)) {
        frame.set_dst(mac);
    }
}
