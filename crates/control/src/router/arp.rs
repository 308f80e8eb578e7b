//! ARP: questions, answers, and learning from observed packets (RFC 826, RFC 5227).
//!
//! A question to us creates a neighbour entry for its sender; everything else only changes existing
//! entries, so that unsolicited answers cannot fill the table.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_wire::arp::{Operation, Packet, Repr};
use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::{MacAddr, Time, frame};

use super::Router;
use super::input::InterfaceId;
use super::neighbours::{Heard, State};
use super::output::{Event, Output};
use super::refusal::Refusal;

/// `DEFEND_INTERVAL` (RFC 5227, 1.1).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

impl Router {
    /// Asks for the owner of an address: by broadcast, or its last known owner.
    pub(super) fn ask_arp(
        &mut self,
        interface: InterfaceId,
        target: Ipv4Addr,
        to: Option<MacAddr>,
    ) -> Result<(), Refusal> {
        let own = match self.interfaces.source(interface, target.into()) {
            Some(IpAddr::V4(own)) => own,
            // The owner answers such a probe as well (RFC 5227, 2.1.1).
            _ => Ipv4Addr::UNSPECIFIED,
        };
        self.send_arp(interface, Operation::REQUEST, own, (MacAddr::default(), target), to)
    }

    /// Announces one of our addresses to all (RFC 5227, 2.3).
    pub(super) fn announce_arp(
        &mut self,
        interface: InterfaceId,
        own: Ipv4Addr,
    ) -> Result<(), Refusal> {
        self.send_arp(interface, Operation::REQUEST, own, (MacAddr::default(), own), None)
    }

    fn send_arp(
        &mut self,
        interface: InterfaceId,
        operation: Operation,
        sender_ip: Ipv4Addr,
        (target_mac, target_ip): (MacAddr, Ipv4Addr),
        to: Option<MacAddr>,
    ) -> Result<(), Refusal> {
        let sender_mac = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?.mac;
        let repr = Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let frame = frame::arp(to.unwrap_or(MacAddr::BROADCAST), &repr);
        self.outputs.push_back(Output::Send { interface, frame });
        Ok(())
    }

    /// An ARP frame was received.
    pub(super) fn arp(
        &mut self,
        now: Time,
        interface: InterfaceId,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let ethernet = ethernet::Frame::new_checked(bytes).map_err(|_| Refusal::Malformed)?;
        if ethernet.ethertype() != EtherType::ARP {
            return Err(Refusal::Malformed);
        }
        let packet = Packet::new_checked(ethernet.payload()).map_err(|_| Refusal::Malformed)?;
        let repr = Repr::parse(&packet).map_err(|_| Refusal::Malformed)?;
        let is_request = repr.operation == Operation::REQUEST;
        if !is_request && repr.operation != Operation::REPLY {
            return Err(Refusal::NotSpoken);
        }
        let facts = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?;
        let (mac, sender) = (repr.sender_mac, IpAddr::V4(repr.sender_ip));
        if mac == facts.mac {
            return Err(Refusal::OwnEcho);
        }
        if mac.is_multicast() || mac.to_u64() == 0 {
            return Err(Refusal::BadLinkAddress);
        }
        let is_kernel = facts.kernel;
        if facts.is_own(sender) {
            return self.conflict(now, interface, sender, mac);
        }
        let target = IpAddr::V4(repr.target_ip);
        let is_for_us = facts.is_own(target);
        let mut learned = Ok(());
        // A probe reveals nothing about its sender (RFC 5227, 1.1).
        if !repr.sender_ip.is_unspecified() {
            learned = self.learn_arp(now, interface, (sender, mac), is_request, is_for_us);
        }
        if !is_request || !is_for_us {
            return learned;
        }
        if is_kernel {
            return Err(Refusal::KernelAnswers);
        }
        // No answer to a sender outside the link, or with a broadcast address.
        learned?;
        let (own, asker) = (repr.target_ip, (mac, repr.sender_ip));
        self.send_arp(interface, Operation::REPLY, own, asker, Some(mac))
    }

    fn learn_arp(
        &mut self,
        now: Time,
        interface: InterfaceId,
        (sender, mac): (IpAddr, MacAddr),
        is_request: bool,
        is_for_us: bool,
    ) -> Result<(), Refusal> {
        if let Some(id) = self.neighbours.find(interface, sender) {
            let state = self.neighbours.get(id).map(|n| n.state);
            let is_asked = matches!(state, Some(State::Incomplete | State::Delay | State::Probe));
            let solicited = !is_request && is_for_us && is_asked;
            self.neighbours.heard(now, id, mac, Heard { solicited, overrides: true });
            return Ok(());
        }
        if !self.may_be_neighbour(interface, sender) {
            return Err(Refusal::NotOnLink);
        }
        match (is_request, is_for_us) {
            (true, true) => {
                self.neighbours.create(now, interface, sender, Some(mac), false).map(drop)
            }
            (true, false) => Err(Refusal::NotForUs),
            (false, _) => Err(Refusal::Unsolicited),
        }
    }

    /// Another station claims one of our addresses: this is reported, and at intervals the address
    /// is defended (RFC 5227, 2.4 (b)), by the kernel where it answers.
    pub(super) fn conflict(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        mac: MacAddr,
    ) -> Result<(), Refusal> {
        let last = self.defended.get(&(interface, address));
        if last.is_none_or(|last| now.since(*last) >= DEFEND_INTERVAL) {
            self.defended.insert((interface, address), now);
            self.outputs.push_back(Output::Tell(Event::Conflict { interface, address, mac }));
            let is_kernel = self.interfaces.get(interface).is_some_and(|facts| facts.kernel);
            if !is_kernel {
                self.announce(interface, &[address]);
            }
        }
        Err(Refusal::Conflict)
    }
}
