//! What the group's router learns from this node: which station has an address that packets are
//! routed to.
//!
//! The router asks nobody. A packet to an address that it does not know becomes a question to the
//! controller, in the name of the host that sent it, and the answer is kept here. Addresses that
//! packets are still routed to are asked for again from time to time, because another station may
//! have them by now. Others are forgotten.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::MacAddr;

use super::effect::{Effect, Timer, Turn};
use super::host_frame::Party;

/// Most addresses.
const KNOWN_MAX: usize = 8192;
/// An address in use is asked for again after this time, as hosts do (RFC 4861, 10).
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// The addresses that packets are routed to.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    known: BTreeMap<IpAddr, Known>,
}

/// A station that packets are routed to.
#[derive(Debug)]
struct Known {
    mac: MacAddr,
    /// The host that asked last, and its port.
    asker: (u8, Party),
    /// Packets were routed to it since it was last asked for.
    used: bool,
}

impl Routing {
    /// A host of this node needs the station with this address, which is `mac`.
    pub(crate) fn learn(
        &mut self,
        turn: &mut Turn<'_>,
        address: IpAddr,
        mac: MacAddr,
        asker: (u8, Party),
    ) {
        if !self.known.contains_key(&address) && self.known.len() >= KNOWN_MAX {
            let unused = self.known.iter().find(|(_, known)| !known.used);
            let victim = unused.or_else(|| self.known.first_key_value()).map(|(ip, _)| *ip);
            victim.into_iter().for_each(|ip| self.forget(turn, ip));
        }
        let before = self.known.insert(address, Known { mac, asker, used: true });
        if before.is_none_or(|known| known.mac != mac) {
            turn.push(Effect::Neighbour { address, mac: Some(mac) });
        }
        turn.after(ASK_AGAIN, Timer::Known(address));
    }

    /// No station has this address.
    pub(crate) fn forget(&mut self, turn: &mut Turn<'_>, address: IpAddr) {
        if self.known.remove(&address).is_some() {
            turn.timers.cancel(Timer::Known(address));
            turn.push(Effect::Neighbour { address, mac: None });
        }
    }

    /// Packets are being routed to these.
    pub(crate) fn note_used(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if let Some(known) = self.known.get_mut(address) {
                known.used = true;
            }
        }
    }

    /// An address is old. Gives the host in whose name to ask for it again, and its port; one that
    /// is not in use is forgotten.
    pub(crate) fn is_old(&mut self, turn: &mut Turn<'_>, address: IpAddr) -> Option<(u8, Party)> {
        let known = self.known.get_mut(&address)?;
        if !std::mem::take(&mut known.used) {
            self.forget(turn, address);
            return None;
        }
        turn.after(ASK_AGAIN, Timer::Known(address));
        Some(known.asker)
    }
}
