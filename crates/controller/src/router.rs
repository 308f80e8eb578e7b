//! Router advertisements for the group's prefixes (RFC 4861, 6.2): in answer to a solicitation, and
//! every few minutes to each host with an IPv6 address. All are sent to a single host's Ethernet
//! address (RFC 6085): nothing is flooded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use plexus_wire::checksum::Sum;
use plexus_wire::fabric::message::{HostFrame, HostSend};
use plexus_wire::ndp::{self, Message, NdpOption};
use plexus_wire::{EtherType, MacAddr, Protocol, Time, ethernet, frame, icmpv6, ipv6};
use rand::Rng;

use crate::Controller;
use crate::claims::Admission;
use crate::controller::Timer;
use crate::event::Drop;
use crate::resolve::Rate;
use crate::topology::Place;

/// Interval between two advertisements to a host, plus up to a quarter: within RFC 4861's limit of
/// 1350 s.
const INTERVAL: Duration = Duration::from_secs(450);
/// How long a host uses the group as a router: three intervals (RFC 4861, 6.2.1).
const ROUTER_LIFETIME_S: u16 = 1800;
/// RFC 4861, 6.2.1: AdvValidLifetime and AdvPreferredLifetime.
const VALID_S: u32 = 2_592_000;
const PREFERRED_S: u32 = 604_800;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Advertiser {
    /// Rate of host frames to the controller, per port.
    rates: BTreeMap<Place, Rate>,
    due: BTreeSet<(Time, MacAddr)>,
    next: BTreeMap<MacAddr, Time>,
}

impl Advertiser {
    pub(crate) fn forget(&mut self, mac: MacAddr) {
        if let Some(at) = self.next.remove(&mac) {
            self.due.remove(&(at, mac));
        }
    }
}

impl Controller {
    /// A host's frame that the controller answers: DHCP, or a router solicitation.
    pub(crate) fn host_frame(&mut self, now: Time, index: u32, received: &HostFrame) {
        let at = Place { node: index, port: received.port };
        let limits = &self.config.limits;
        let per_s = match self.has_server(at) {
            true => limits.relayed_per_s,
            false => limits.dhcp_per_s,
        };
        if !self.advertiser.rates.entry(at).or_default().take(now, per_s, 2 * per_s) {
            return self.dropped(Drop::RateExceeded);
        }
        let Ok(frame) = ethernet::Frame::new_checked(&received.frame[..]) else {
            return self.dropped(Drop::BadFrame);
        };
        let mac = frame.src();
        // The sender counts against its port's share like any station.
        if self.admit(now, at, mac, None, 0) != Admission::Admitted {
            return self.dropped(Drop::NotThere);
        }
        match frame.ethertype() {
            EtherType::IPV4 => self.dhcp_frame(now, at, mac, frame.payload()),
            EtherType::IPV6 => match solicitation(frame.payload()) {
                Some(source) => {
                    if !source.is_unspecified() {
                        // A refused address gets no answer; the host's own one does.
                        self.admit(now, at, mac, Some(source.into()), 0);
                    }
                    self.advertise(now, at, mac);
                }
                None => self.dropped(Drop::BadFrame),
            },
            _ => self.dropped(Drop::BadFrame),
        }
    }

    /// A host has an IPv6 address: schedules an advertisement.
    pub(crate) fn advertise_to(&mut self, now: Time, mac: MacAddr) {
        if self.config.subnets.iter().any(|s| s.advertise)
            && !self.advertiser.next.contains_key(&mac)
        {
            self.schedule_advertisement(now, mac);
        }
    }

    fn schedule_advertisement(&mut self, now: Time, mac: MacAddr) {
        let more = self.rng.next_u64() % (INTERVAL.as_nanos() as u64 / 4);
        let at = now + INTERVAL + Duration::from_nanos(more);
        if let Some(before) = self.advertiser.next.insert(mac, at) {
            self.advertiser.due.remove(&(before, mac));
        }
        self.advertiser.due.insert((at, mac));
        let first = self.advertiser.due.first().map(|(at, _)| *at);
        self.rearm(first, Timer::Advertise);
    }

    pub(crate) fn advertise_due(&mut self, now: Time) {
        while let Some(&(at, mac)) = self.advertiser.due.first().filter(|(at, _)| *at <= now) {
            self.advertiser.due.remove(&(at, mac));
            self.advertiser.next.remove(&mac);
            // A host that has left, or has lost its IPv6 address, is skipped.
            let host = self.hosts.get(mac).filter(|h| h.has(false)).map(|h| h.at);
            if let Some(place) = host {
                self.advertise(now, place, mac);
            }
        }
        let first = self.advertiser.due.first().map(|(at, _)| *at);
        self.rearm(first, Timer::Advertise);
    }

    fn advertise(&mut self, now: Time, at: Place, mac: MacAddr) {
        let group_mac = self.config.group_mac;
        let prefixes: Vec<ndp::Prefix> = self
            .config
            .subnets
            .iter()
            .filter(|s| s.advertise)
            .filter_map(|s| match s.prefix.addr() {
                IpAddr::V6(prefix) => Some(ndp::Prefix {
                    prefix_len: s.prefix.len(),
                    on_link: true,
                    autonomous: true,
                    valid_lifetime_s: VALID_S,
                    preferred_lifetime_s: PREFERRED_S,
                    prefix,
                }),
                IpAddr::V4(_) => None,
            })
            .collect();
        if prefixes.is_empty() {
            return;
        }
        let advertised = || self.config.subnets.iter().filter(|s| s.advertise);
        // Without a gateway there is no route out, and the group is not a router.
        let is_router = advertised().any(|s| s.gateway.is_some());
        let mut options = vec![NdpOption::SourceLinkLayer(group_mac)];
        // One advertisement is for all networks: a host has addresses in each.
        let mtu = advertised().filter_map(|s| s.mtu).min();
        options.extend(mtu.map(|mtu| NdpOption::Mtu(mtu.into())));
        options.extend(prefixes.into_iter().map(NdpOption::Prefix));
        let message = Message::RouterAdvertisement {
            hop_limit: 64,
            managed: false,
            other_config: false,
            router_lifetime_s: if is_router { ROUTER_LIFETIME_S } else { 0 },
            reachable_ms: 0,
            retransmit_ms: 0,
        };
        let ends = (group_mac.link_local(), ALL_NODES);
        let frame = frame::ndp((group_mac, mac), ends, &ndp::Repr { message, options });
        if let Ok(frame) = frame {
            self.send(at.node, 0, HostSend { port: at.port, frame });
        }
        self.schedule_advertisement(now, mac);
    }
}

/// The source of a valid router solicitation (RFC 4861, 6.1.1).
fn solicitation(bytes: &[u8]) -> Option<Ipv6Addr> {
    let packet = ipv6::Packet::new_checked(bytes).ok()?;
    if packet.next_header() != Protocol::ICMPV6 || packet.hop_limit() != ndp::HOP_LIMIT {
        return None;
    }
    let (payload, len) = (packet.payload(), packet.payload_len() as u32);
    let pseudo = Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, len);
    if !icmpv6::Packet::new_checked(payload).ok()?.checksum_ok(pseudo) {
        return None;
    }
    let repr = ndp::Repr::parse(&ndp::Packet::new_checked(payload).ok()?).ok()?;
    let has_source = repr.options.iter().any(|o| matches!(o, NdpOption::SourceLinkLayer(_)));
    let is_solicitation = repr.message == Message::RouterSolicitation;
    (is_solicitation && !(packet.src().is_unspecified() && has_source)).then(|| packet.src())
}
