//! A DHCP client (RFC 2131, 4.4): gets a lease, and renews it when half of it has passed.

use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_wire::dhcpv4::{
    CLIENT_PORT, DhcpOption, MessageType, Packet, Repr, SERVER_PORT, option,
};
use plexus_wire::{MacAddr, frame, udp};

use crate::core::Core;
use crate::host::SimHost;
use crate::time::SimTime;

/// The first wait for an answer; it doubles up to the last one (RFC 2131, 4.1).
const FIRST_WAIT: Duration = Duration::from_secs(4);
const LAST_WAIT: Duration = Duration::from_secs(64);

/// A client of one host.
#[derive(Debug)]
pub(crate) struct Client {
    state: State,
    xid: u32,
    wait: Duration,
    /// When something is due: the first message, another try, a renewal.
    at: SimTime,
    expires: SimTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Selecting,
    Requesting { ip: Ipv4Addr, server: Ipv4Addr },
    Bound { ip: Ipv4Addr, server: Ipv4Addr },
}

/// What a datagram to a client says.
pub(crate) fn answer_of(datagram: &[u8]) -> Option<Repr> {
    let datagram = udp::Datagram::new_checked(datagram).ok()?;
    Repr::parse(&Packet::new_checked(datagram.payload()).ok()?).ok()
}

impl Client {
    /// A client that begins at `at`; `xid` names its exchange.
    pub(crate) fn new(at: SimTime, xid: u32) -> Client {
        Client { state: State::Selecting, xid, wait: FIRST_WAIT, at, expires: SimTime::FOREVER }
    }

    /// Whether the host has an address by now.
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound { .. })
    }

    pub(crate) fn next_deadline(&self) -> SimTime {
        self.at
    }

    /// Does what is due.
    pub(crate) fn run(&mut self, core: &mut Core, host: &mut SimHost) {
        if core.now < self.at {
            return;
        }
        if core.now >= self.expires {
            host.lease(None);
            (self.state, self.expires) = (State::Selecting, SimTime::FOREVER);
            self.wait = FIRST_WAIT;
        }
        self.at = (core.now + self.wait.into()).min(self.expires);
        self.wait = (self.wait * 2).min(LAST_WAIT);
        self.speak(core, host);
    }

    fn speak(&mut self, core: &mut Core, host: &mut SimHost) {
        let none = Ipv4Addr::UNSPECIFIED;
        let parameters = [option::SUBNET_MASK, option::ROUTER];
        let mut options = vec![DhcpOption::new(option::PARAMETERS, parameters)];
        let (message_type, ciaddr) = match self.state {
            State::Selecting => (MessageType::DISCOVER, none),
            State::Requesting { ip, server } => {
                options.push(DhcpOption::addresses(option::REQUESTED_ADDRESS, &[ip]));
                options.push(DhcpOption::addresses(option::SERVER_ID, &[server]));
                (MessageType::REQUEST, none)
            }
            State::Bound { ip, .. } => (MessageType::REQUEST, ip),
        };
        let repr = Repr {
            is_request: true,
            hops: 0,
            xid: self.xid,
            secs: 0,
            broadcast: false,
            ciaddr,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            chaddr: host.mac,
            message_type,
            options,
        };
        let mut message = vec![0; repr.buffer_len()];
        if repr.emit(&mut message).is_err() {
            return;
        }
        let stations = (host.mac, MacAddr::BROADCAST);
        let ends = (ciaddr.into(), Ipv4Addr::BROADCAST.into());
        let frame = frame::udp(stations, ends, (CLIENT_PORT, SERVER_PORT), &message);
        if let Some(packet) = frame.ok().and_then(|frame| core.frame(&frame)) {
            host.nic.send(core, packet);
        }
    }

    /// An answer has come.
    pub(crate) fn hear(&mut self, core: &mut Core, host: &mut SimHost, answer: &Repr) {
        if answer.is_request || answer.xid != self.xid || answer.chaddr != host.mac {
            return;
        }
        let Some(server) = answer.address(option::SERVER_ID) else { return };
        match (self.state, answer.message_type) {
            (State::Selecting, MessageType::OFFER) => {
                self.state = State::Requesting { ip: answer.yiaddr, server };
                (self.wait, self.at) = (FIRST_WAIT, core.now);
                self.run(core, host);
            }
            (
                State::Requesting { server: asked, .. } | State::Bound { server: asked, .. },
                MessageType::ACK,
            ) if asked == server => {
                let mask = answer.address(option::SUBNET_MASK);
                let len = mask.map_or(24, |mask| u32::from(mask).leading_ones() as u8);
                host.lease(Some((answer.yiaddr, len)));
                let routers = answer.option(option::ROUTER).unwrap_or_default();
                if let Some(router) = routers.first_chunk::<4>() {
                    host.set_gateway((*router).into());
                }
                let lease = answer.option(option::LEASE_TIME).and_then(|l| l.try_into().ok());
                let lease = Duration::from_secs(lease.map_or(3600, u32::from_be_bytes).into());
                self.state = State::Bound { ip: answer.yiaddr, server };
                self.expires = core.now + lease.into();
                (self.wait, self.at) = (FIRST_WAIT, core.now + (lease / 2).into());
            }
            (State::Requesting { .. } | State::Bound { .. }, MessageType::NAK) => {
                host.lease(None);
                (self.state, self.expires) = (State::Selecting, SimTime::FOREVER);
                (self.wait, self.at) = (FIRST_WAIT, core.now);
            }
            _ => {}
        }
    }
}
