//! A host: an ordinary IPv4 and IPv6 end system that knows nothing of the fabric. A host with an
//! IPv6 address also has the link-local one of its Ethernet address; a host without speaks no IPv6.

mod discovery;
pub(crate) mod ip;
mod neighbours;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_io::Packet;
use plexus_topo::Host;
use plexus_wire::{EtherType, MacAddr, Protocol, ethernet, icmpv6, udp};

use crate::asker::Asker;
use crate::cable::PortIndex;
use crate::core::{Core, DeviceIndex};
use crate::dhcp;
use crate::flow::Side;
use crate::named::NamedEnd;
use crate::nic::Nic;
use crate::time::SimTime;
use ip::Ip;
use neighbours::Neighbours;

/// Announcements of addresses that were not leased, and the time between them (RFC 5227, 2.3). A
/// host that never sends anything cannot be found. The first announcement of an IPv6 address asks
/// whether another host has it, which is not used until the last one (RFC 4862, 5.4).
pub(crate) const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_EVERY: Duration = Duration::from_secs(2);
/// The length of the prefix of link-local addresses.
const LINK_LOCAL_LEN: u8 = 64;

/// What a host makes of a frame beyond its own needs.
pub(crate) enum Heard {
    /// An IP packet for it, of a protocol that programs use.
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
    /// Its addresses and the lengths of their networks' prefixes. The first one that suits a
    /// destination is the source.
    addresses: Vec<(IpAddr, u8)>,
    /// Of IPv4 and IPv6.
    gateways: [Option<IpAddr>; 2],
    neighbours: Neighbours,
    pub(crate) dhcp: Option<dhcp::Client>,
    /// When it announces its addresses next, and how many announcements are left.
    pub(crate) announce: Option<(SimTime, u8)>,
    /// Its ARP generator.
    pub(crate) asker: Option<Box<Asker>>,
    /// What it asks and answers by name.
    pub(crate) named: Option<Box<NamedEnd>>,
    /// Ends of connections that want to send, in turn.
    pub(crate) eager: VecDeque<(u32, Side)>,
}

impl SimHost {
    /// Its IP addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|(address, _)| *address)
    }

    pub(crate) fn new(device: DeviceIndex, port: PortIndex, mac: MacAddr) -> SimHost {
        SimHost {
            device,
            mac,
            nic: Nic::new(port),
            addresses: vec![],
            gateways: [None; 2],
            neighbours: Neighbours::default(),
            dhcp: None,
            announce: None,
            asker: None,
            named: None,
            eager: VecDeque::new(),
        }
    }

    /// Gives it the gateways and the addresses that the file names, except for the one that it
    /// leases, and a link-local address if any is of IPv6. IPv6 addresses are left out unless it
    /// `speaks_v6`.
    pub(crate) fn configure(&mut self, named: &Host, speaks_v6: bool) {
        named.gateways.iter().for_each(|gateway| self.set_gateway(*gateway));
        let is_own = |ip: IpAddr| if ip.is_ipv4() { !named.dhcp } else { speaks_v6 };
        let own = named.addresses.iter().map(|a| (a.address, a.prefix_len));
        self.addresses = own.filter(|(ip, _)| is_own(*ip)).collect();
        if self.has_v6() {
            self.addresses.push((self.mac.link_local().into(), LINK_LOCAL_LEN));
        }
    }

    /// Sets the gateway of its version.
    pub(crate) fn set_gateway(&mut self, gateway: IpAddr) {
        self.gateways[usize::from(gateway.is_ipv6())] = Some(gateway);
    }

    /// Sets or takes away its leased address.
    pub(crate) fn lease(&mut self, address: Option<(Ipv4Addr, u8)>) {
        self.addresses.retain(|(own, _)| own.is_ipv6());
        self.addresses.extend(address.map(|(ip, len)| (ip.into(), len)));
    }

    /// Takes it out of the simulation, except for its interface.
    pub(crate) fn leave(&mut self) {
        (self.dhcp, self.announce) = (None, None);
        self.addresses.clear();
    }

    pub(crate) fn has_any_address(&self) -> bool {
        !self.addresses.is_empty()
    }

    fn has_v6(&self) -> bool {
        self.addresses.iter().any(|(own, _)| own.is_ipv6())
    }

    /// Its first IPv4 address, once it has one.
    pub(crate) fn ip_v4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|(own, _)| match own {
            IpAddr::V4(own) => Some(*own),
            IpAddr::V6(_) => None,
        })
    }

    /// The address that it sends from to this one: one in the same network, or its first one. An
    /// address that is not announced yet is none (RFC 4862, 5.4).
    pub(crate) fn source(&self, to: IpAddr) -> Option<IpAddr> {
        if to.is_ipv6() && self.announce.is_some() {
            return None;
        }
        let near = self.addresses.iter().find(|own| is_near(own, to));
        let any = || self.addresses.iter().find(|(own, _)| own.is_ipv4() == to.is_ipv4());
        near.or_else(any).map(|(own, _)| *own)
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == ip)
    }

    /// Whether this is an own address that another host may have too.
    fn is_tentative(&self, ip: IpAddr) -> bool {
        self.announce.is_some() && ip.is_ipv6() && self.is_own(ip)
    }

    /// Whether it has the addresses that it waits for, if any, and has said so.
    pub(crate) fn has_addresses(&self) -> bool {
        let has_said = |left| left < ANNOUNCEMENTS && !self.has_v6();
        self.dhcp.as_ref().is_none_or(dhcp::Client::is_bound)
            && self.announce.is_none_or(|(_, left)| has_said(left))
    }

    /// A packet to this address with room for a payload; the caller fills that in. `from`: the own
    /// address to send from, if not any. `None`: the host has no such address yet, or there is no
    /// buffer.
    pub(crate) fn packet(
        &self,
        core: &mut Core,
        (from, to): (Option<IpAddr>, IpAddr),
        protocol: Protocol,
        payload_len: usize,
        ecn: u8,
    ) -> Option<Packet> {
        let from = match from {
            Some(from) => self.is_own(from).then_some(from)?,
            None => self.source(to)?,
        };
        let Some(mut packet) = core.pool.alloc() else {
            core.out_of_frames += 1;
            return None;
        };
        let len = ethernet::HEADER_LEN + ip::header_len(to) + payload_len;
        if !core.pool.set_len(&mut packet, len.max(ethernet::MIN_FRAME_LEN)) {
            core.pool.free(packet);
            return None;
        }
        let frame = core.pool.data_mut(&mut packet);
        if ip::emit(frame, self.mac, (from, to), (protocol, payload_len), ecn).is_none() {
            core.pool.free(packet);
            return None;
        }
        Some(packet)
    }

    /// Sends a packet that was made by [`packet`](Self::packet), as soon as it is known where.
    pub(crate) fn send(&mut self, core: &mut Core, to: IpAddr, mut packet: Packet) {
        if to.is_ipv6() {
            ip::fill_checksum(core.pool.data_mut(&mut packet));
        }
        let next = self.next_hop(to);
        self.send_to(core, next, packet);
        self.rest(core);
    }

    fn next_hop(&self, to: IpAddr) -> IpAddr {
        match self.addresses.iter().any(|own| is_near(own, to)) {
            true => to,
            false => self.gateways[usize::from(to.is_ipv6())].unwrap_or(to),
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
            EtherType::ARP if is_for_us => self.hear_neighbour(core, packet),
            EtherType::IPV4 if is_for_us => return self.hear_ip(core, packet),
            EtherType::IPV6 if is_for_us || frame.dst().is_multicast() => {
                return self.hear_ip(core, packet);
            }
            EtherType::NDN if self.named.as_ref().is_some_and(|end| end.takes(frame.dst())) => {
                return Heard::Named(packet);
            }
            // Groups that this host has not joined, and protocols that hosts do not speak.
            _ => core.pool.free(packet),
        }
        self.rest(core);
        Heard::Done
    }

    fn hear_ip(&mut self, core: &mut Core, mut packet: Packet) -> Heard {
        let Some(ip) = Ip::parse(core.pool.data(&packet)).filter(Ip::is_sound) else {
            core.pool.free(packet);
            return Heard::Done;
        };
        let is_dhcp = || {
            ip.protocol == Protocol::UDP
                && udp::Datagram::new_checked(ip.payload)
                    .is_ok_and(|d| d.dst_port() == plexus_wire::dhcpv4::CLIENT_PORT)
        };
        if let Some(mut client) = self.dhcp.take_if(|_| is_dhcp()) {
            let answer = dhcp::answer_of(ip.payload);
            core.pool.free(packet);
            if let Some(answer) = answer {
                client.hear(core, self, &answer);
            }
            self.dhcp = Some(client);
            self.rest(core);
            return Heard::Done;
        }
        let is_ndp = ip.protocol == Protocol::ICMPV6
            && icmpv6::Packet::new_checked(ip.payload).is_ok_and(|p| p.is_ndp());
        if is_ndp && self.has_v6() {
            self.hear_neighbour(core, packet);
            self.rest(core);
        } else if !self.is_own(ip.dst) || self.is_tentative(ip.dst) {
            core.pool.free(packet);
        } else if ip.is_echo_request() {
            let from = ip.src;
            match ip::answer_echo(core.pool.data_mut(&mut packet), self.mac) {
                Some(()) => {
                    packet.arrive(plexus_io::PORT_NONE);
                    self.send(core, from, packet);
                }
                None => core.pool.free(packet),
            }
        } else {
            return Heard::Packet(packet);
        }
        Heard::Done
    }

    /// Its cable has been plugged in, or is gone. Without one it forgets its neighbours, as Linux
    /// does.
    pub(crate) fn carrier(&mut self, core: &mut Core, up: bool) {
        if !up {
            self.forget(core);
        }
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        self.nic.run(core);
        if let Some(mut client) = self.dhcp.take() {
            client.run(core, self);
            self.dhcp = Some(client);
        }
        if let Some((at, left)) = self.announce
            && at <= core.now
        {
            self.announce = (left > 1).then(|| (core.now + ANNOUNCE_EVERY.into(), left - 1));
            for own in 0..self.addresses.len() {
                let own = self.addresses[own].0;
                let frame = match left == ANNOUNCEMENTS && own.is_ipv6() {
                    true => discovery::question(self.mac, None, None, own),
                    false => discovery::announcement(self.mac, own),
                };
                self.say(core, &frame);
            }
        }
        self.ask_without_need(core);
        if let Some(end) = &mut self.named {
            end.wake(core);
        }
        self.ask_again(core);
        self.rest(core);
    }

    fn ask_without_need(&mut self, core: &mut Core) {
        let Some(mut asker) = self.asker.take() else { return };
        let own = self.ip_v4();
        while let Some(ip) =
            asker.due(core.now, |ip| Some(*ip) == own || self.neighbours.knows(&IpAddr::V4(*ip)))
        {
            self.ask(core, ip.into());
        }
        if !asker.has_ended() {
            self.asker = Some(asker);
        }
    }

    /// Says when there is something to do.
    pub(crate) fn rest(&mut self, core: &mut Core) {
        let asks = self.neighbours.next_question().map(|(at, _)| at);
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

/// Whether an address is in the network of a host's own one.
#[inline]
fn is_near((own, len): &(IpAddr, u8), to: IpAddr) -> bool {
    let common = match (own, to) {
        (IpAddr::V4(own), IpAddr::V4(to)) => (own.to_bits() ^ to.to_bits()).leading_zeros(),
        (IpAddr::V6(own), IpAddr::V6(to)) => (own.to_bits() ^ to.to_bits()).leading_zeros(),
        _ => return false,
    };
    common >= u32::from(*len)
}
