//! The usual packet: in by a routed port, untagged, to the port's own address, with a header that
//! is right and says nothing unusual. Most are; for them this module does in one go what otherwise
//! the switch's classification and the router's do one after the other. Whatever is unusual is
//! left as it is for that general way, which also finds the reason to drop it.

use plexus_config::{ReversePath, Trust};
use plexus_io::{Class, PORT_NONE, Packet, Pool, PortId};

use super::ipv4::{self, Summary};
use super::{ETHERNET, IPV6, ipv6};
use crate::pipeline::Context;

/// What makes a packet of one port usual.
pub(super) struct Usual {
    pub(super) port: PortId,
    /// The address of the port's interface, as [`address`] has them; none that a frame can have if
    /// nothing is usual here.
    station: u64,
    class: Class,
}

/// The group bit of an address, as [`address`] has them.
const GROUP: u64 = 1 << 16;

/// The Ethernet address from byte `at` on, in the order of a frame's bytes: only to be compared.
#[inline(always)]
fn address(head: &[u8; ipv4::HEADERS], at: usize) -> u64 {
    u64::from_le_bytes(*head[at..].first_chunk().unwrap_or(&[0; 8])) << 16
}

impl Usual {
    /// Nothing is.
    pub(super) const NEVER: Usual = Usual::never(PORT_NONE);

    const fn never(port: PortId) -> Usual {
        Usual { port, station: u64::MAX, class: Class { vlan: 0, priority: 0, flags: 0 } }
    }

    #[inline(never)]
    pub(super) fn of(context: &Context<'_>, port: PortId) -> Usual {
        let Some(plan) = context.plan.ports.get(usize::from(port)) else {
            return Usual::never(port);
        };
        let interface = context.router.interface(plan.native).filter(|interface| {
            // From a VLAN of several ports the switch is to learn the source; the kernel's own
            // packets are switched.
            interface.port.is_some()
                && interface.kernel != Some(port)
                && interface.reverse_path == ReversePath::Off
                && !interface.mac.is_multicast()
        });
        match interface {
            Some(interface) if plan.native != 0 && plan.settings.trust != Trust::Dscp => Usual {
                port,
                station: interface.mac.to_u64().swap_bytes(),
                class: Class { vlan: plan.native, priority: plan.settings.priority, flags: 0 },
            },
            _ => Usual::never(port),
        }
    }

    /// The header of a usual packet of IPv4, of which it is yet to be seen whether it is right; the
    /// packet is then classified, too.
    #[inline(always)]
    pub(super) fn read_v4(&self, pool: &Pool, packet: &mut Packet) -> Option<Summary> {
        /// EtherType, version and header length, below the byte behind them.
        const WITHOUT_OPTIONS: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 0]);
        let (at, head) = pool.head(packet)?;
        let what = u32::from_le_bytes(*head[ETHERNET - 2..].first_chunk()?);
        if !self.is_for_us(head) || what & 0x00FF_FFFF != WITHOUT_OPTIONS {
            return None;
        }
        let summary = ipv4::usual(at, head, packet.len())?;
        packet.set_class(self.class);
        Some(summary)
    }

    /// The destination of a usual packet of IPv6; the packet is then classified, too.
    #[inline]
    pub(super) fn read_v6(&self, pool: &Pool, packet: &mut Packet) -> Option<u128> {
        let frame = pool.data(packet);
        let head = frame.first_chunk()?;
        if !self.is_for_us(head) || !head[ETHERNET - 2..].starts_with(&IPV6) {
            return None;
        }
        let destination = ipv6::usual(frame)?;
        packet.set_class(self.class);
        Some(destination)
    }

    /// Whether a frame is to the port's own address, and from one that a station can have.
    #[inline(always)]
    fn is_for_us(&self, head: &[u8; ipv4::HEADERS]) -> bool {
        let (to, from) = (address(head, 0), address(head, 6));
        to == self.station && from & GROUP == 0 && from != 0 && from != to
    }
}
