//! The usual packet: in by a routed port, untagged, to the port's own address, with a header that
//! is right and says nothing unusual. Most are; for them this module does in one go what otherwise
//! the switch's classification and the router's do one after the other. Whatever is unusual is
//! left as it is for that general way, which also finds the reason to drop it.

use plexus_config::{ReversePath, Trust};
use plexus_io::{PORT_NONE, Packet, Pool, PortId};

use super::ipv4::Summary;
use super::{ETHERNET, GROUP_ADDRESS, ipv4, ipv6};
use crate::pipeline::Context;
use crate::switch::vlan;

/// What a usual packet's header says.
pub(super) enum Header {
    /// It is yet to be seen whether it is right.
    V4(Summary),
    /// It is right; the destination.
    V6(u128),
}

/// What makes a packet of one port usual.
pub(super) struct Usual {
    pub(super) port: PortId,
    /// The address of the port's interface; none that a frame can have if nothing is usual here.
    station: u64,
    vlan: u16,
    priority: u8,
}

impl Usual {
    /// Nothing is.
    pub(super) const NEVER: Usual = Usual::never(PORT_NONE);

    const fn never(port: PortId) -> Usual {
        Usual { port, station: u64::MAX, vlan: 0, priority: 0 }
    }

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
                station: interface.mac.to_u64(),
                vlan: plan.native,
                priority: plan.settings.priority,
            },
            _ => Usual::never(port),
        }
    }

    /// The header of a packet that is usual; it is then classified, too.
    #[inline(always)]
    pub(super) fn read(&self, pool: &Pool, packet: &mut Packet) -> Option<Header> {
        /// EtherType, version and header length, above the byte behind them.
        const V4_WITHOUT_OPTIONS: u32 = 0x0800_4500;
        let frame = pool.data(packet);
        // The shorter of the two headers.
        let head: &[u8; ipv4::HEADERS] = frame.first_chunk()?;
        let to = u64::from_be_bytes(*head.first_chunk()?) >> 16;
        let from = u64::from_be_bytes(*head[ETHERNET - 8..].first_chunk()?) >> 16;
        if (to ^ self.station) | (from & GROUP_ADDRESS) != 0 || from == 0 || from == to {
            return None;
        }
        let what = u32::from_be_bytes(*head[ETHERNET - 2..].first_chunk()?);
        let header = if what & 0xFFFF_FF00 == V4_WITHOUT_OPTIONS {
            Header::V4(ipv4::usual(head, frame.len())?)
        } else if what >> 16 == 0x86DD {
            Header::V6(ipv6::usual(frame)?)
        } else {
            return None;
        };
        packet.vlan = self.vlan;
        packet.priority = self.priority;
        packet.flags &= !vlan::TAGGED;
        Some(header)
    }
}
