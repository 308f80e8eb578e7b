//! The usual packet: in by a routed port or a host's port of a fabric, untagged, to the router's
//! own address, with a valid header without options. Most packets are. For them this module
//! classifies in one step, in place of the switch's or the fabric's classification and then the
//! router's. It leaves any other packet unchanged to that general way, which also finds the reason
//! to drop it.

use plexus_config::{ReversePath, Trust};
use plexus_io::{BATCH, Class, Heads, Packet, PortId};

use super::ipv4::{self, Summaries};
use super::plan::{GROUP_VLAN, InterfacePlan};
use super::{ETHERNET, Found, IPV6, ipv6};
use crate::context::Context;
use crate::snapshot::PortPlan;

/// What makes a packet of one port usual.
pub(super) struct Usual {
    port: PortId,
    /// The router's address there, as [`address`] has them.
    station: u64,
    class: Class,
}

/// The group bit of an address, as [`address`] has them.
const GROUP: u64 = 1 << 16;

/// The Ethernet address from byte `at` on, in the order of a frame's bytes: only to be compared.
#[inline(always)]
fn address<const N: usize>(head: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(*head[at..].first_chunk().unwrap_or(&[0; 8])) << 16
}

impl Usual {
    /// `None`: no packet of this port is.
    #[inline(never)]
    pub(super) fn of(context: &Context<'_>, port: PortId) -> Option<Usual> {
        let plan = context.plan.ports.get(usize::from(port))?;
        let interface = context.router.interface(plan.native).filter(|interface| {
            // From a VLAN of several ports the switch is to learn the source; the kernel's own
            // packets are switched.
            interface.port.is_some()
                && interface.kernel != Some(port)
                && interface.reverse_path == ReversePath::Off
                && !interface.mac.is_multicast()
        })?;
        Usual::to(interface, plan, port, plan.native)
    }

    /// The same for a port of a fabric that hosts may be at. `interface`: the fabric as a whole.
    #[inline(never)]
    pub(super) fn of_hosts(
        context: &Context<'_>,
        port: PortId,
        interface: &InterfacePlan,
    ) -> Option<Usual> {
        let plan = context.plan.ports.get(usize::from(port))?;
        Usual::to(interface, plan, port, GROUP_VLAN).filter(|_| plan.in_fabric)
    }

    fn to(interface: &InterfacePlan, plan: &PortPlan, port: PortId, vlan: u16) -> Option<Usual> {
        (plan.native != 0 && plan.settings.trust != Trust::Dscp).then_some(Usual {
            port,
            station: interface.mac.to_u64().swap_bytes(),
            class: Class { vlan, priority: plan.settings.priority, flags: 0 },
        })
    }

    /// The Ethernet address that has sent a packet, if that is to the router.
    #[inline(always)]
    pub(super) fn sender(&self, heads: Heads<'_>, packet: &Packet) -> Option<u64> {
        let (_, head) = heads.get::<{ ipv4::HEADERS }>(packet)?;
        (address(head, 0) == self.station).then(|| address(head, 6).swap_bytes())
    }

    /// Whether a frame comes from an address that a station can have.
    #[inline(always)]
    pub(super) fn is_from_a_station<const N: usize>(&self, head: &[u8; N]) -> bool {
        let from = address(head, 6);
        from != 0 && from & GROUP == 0 && from != self.station
    }

    /// Whether a frame comes from this station.
    #[inline(always)]
    pub(super) fn is_from<const N: usize>(&self, station: u64, head: &[u8; N]) -> bool {
        address(head, 6) == station.swap_bytes()
    }

    /// Reads the headers of packets as long as they came in by this port, from where they `may`,
    /// and are usual ones of IPv4, of which it is yet to be seen whether they are right: from place
    /// `from` to before the one that it returns. They are then classified, too.
    ///
    /// A loop of its own, as are those that send: together they have more in use than there are
    /// registers.
    #[inline(never)]
    #[expect(clippy::needless_range_loop, reason = "so the arrays' bounds need no checks")]
    pub(super) fn read_v4(
        &self,
        heads: Heads<'_>,
        batch: &mut [Packet],
        from: usize,
        found: &mut Found<u32, { ipv4::HEADERS }, Summaries>,
        mut may: impl FnMut(&[u8; ipv4::HEADERS]) -> bool,
    ) -> usize {
        /// EtherType, version and header length, above the byte before them.
        const WITHOUT_OPTIONS: u32 = u32::from_le_bytes([0, 0x08, 0x00, 0x45]);
        let Usual { port, station, class } = *self;
        let end = batch.len().min(BATCH);
        for place in from..end {
            let packet = &mut batch[place];
            if packet.in_port != port {
                return place;
            }
            let Some((at, head)) = heads.get(packet) else { return place };
            let what = u32::from_le_bytes(*head[ETHERNET - 3..].first_chunk().unwrap_or(&[0; 4]));
            let fits = ipv4::payload_len(head) <= packet.len() - ipv4::HEADERS;
            let is_ours = what & !0xFF == WITHOUT_OPTIONS && address(head, 0) == station;
            if !is_ours || !may(head) || !fits {
                return place;
            }
            packet.set_class(class);
            found.at[place] = at;
            found.read.sums[place] = ipv4::sum(head);
            found.read.ends[place] = ipv4::ends(head);
        }
        end
    }

    /// The same for IPv6, whose headers it checks, and notes where the packets go.
    #[inline(never)]
    #[expect(clippy::needless_range_loop, reason = "so the arrays' bounds need no checks")]
    pub(super) fn read_v6(
        &self,
        heads: Heads<'_>,
        batch: &mut [Packet],
        from: usize,
        found: &mut Found<u128, { ipv6::HEADERS }>,
        mut may: impl FnMut(&[u8; ipv6::HEADERS]) -> bool,
    ) -> usize {
        let Usual { port, station, class } = *self;
        let end = batch.len().min(BATCH);
        for place in from..end {
            let packet = &mut batch[place];
            if packet.in_port != port {
                return place;
            }
            let Some((at, head)) = heads.get(packet) else { return place };
            let is_ours = head[ETHERNET - 2..].starts_with(&IPV6) && address(head, 0) == station;
            if !is_ours || !may(head) {
                return place;
            }
            let Some(destination) = ipv6::usual(head, packet.len()) else { return place };
            packet.set_class(class);
            found.insert(place, destination, at);
        }
        end
    }
}
