//! 802.1Q on the way in and out: which VLAN a frame belongs to, its addresses, and its tag.

use plexus_config::Trust;
use plexus_io::{Packet, Pool};
use plexus_wire::EtherType;

use crate::context::Context;
use crate::drops::DropReason;
use crate::names;
use crate::snapshot::PortPlan;
use crate::verdict::{Punt, Verdict};

/// `Packet::flags`: the frame carries an 802.1Q tag with the packet's VLAN.
pub(crate) const TAGGED: u8 = 1;
/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 4;

const TPID: [u8; 2] = [0x81, 0x00];
const NDN: [u8; 2] = EtherType::NDN.0.to_be_bytes();
/// Two addresses come before the tag.
const ADDRESSES: usize = 12;

/// A frame's addresses as 48-bit integers, its EtherType (that behind a tag, if it has one), and
/// its VLAN. The descriptor has the VLAN too, but reading it back right after it was written would
/// stall the processor.
#[derive(Clone, Copy, Default)]
pub(crate) struct Addresses {
    pub(crate) destination: u64,
    pub(crate) source: u64,
    pub(crate) ethertype: [u8; 2],
    pub(crate) vlan: u16,
}

impl Addresses {
    /// Those of an untagged frame whose VLAN is known; `None` if it is no frame.
    pub(crate) fn untagged(frame: &[u8], vlan: u16) -> Option<Addresses> {
        let header = frame.first_chunk::<14>()?;
        let [.., a, b] = *header;
        let address =
            |at: usize| header[at..at + 6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(Addresses { destination: address(0), source: address(6), ethertype: [a, b], vlan })
    }

    /// Those of a packet that has been classified.
    pub(crate) fn of(frame: &[u8], packet: &Packet) -> Option<Addresses> {
        let tag = if packet.flags & TAGGED != 0 { TAG_LEN } else { 0 };
        let ethertype = *frame.get(ADDRESSES + tag..)?.first_chunk()?;
        Some(Addresses { ethertype, ..Addresses::untagged(frame, packet.vlan)? })
    }
}

/// Finds VLAN, class and addresses of a packet by the rules of the port that it came in by. If they
/// decide for the packet, it has no addresses.
#[inline(always)]
pub(crate) fn classify(context: &mut Context<'_>, packet: &mut Packet) -> Addresses {
    let port = &context.plan.ports[usize::from(packet.in_port)];
    let addresses = match ingress(context.pool, port, packet) {
        Ok(addresses) if addresses.ethertype != NDN => check(addresses),
        addresses => return unusual(context, packet, addresses.and_then(check)),
    };
    addresses.unwrap_or_else(|reason| {
        Verdict::Drop(reason).store(packet);
        Addresses::default()
    })
}

/// The addresses of a frame of named data, or of one that the port refuses: none if it is for this
/// node's forwarder of names.
#[cold]
#[inline(never)]
fn unusual(
    context: &Context<'_>,
    packet: &mut Packet,
    addresses: Result<Addresses, DropReason>,
) -> Addresses {
    let verdict = match addresses {
        _ if names::is_ours(context, packet) => Verdict::Control(Punt::Named),
        Ok(addresses) => return addresses,
        Err(reason) => Verdict::Drop(reason),
    };
    verdict.store(packet);
    Addresses::default()
}

/// Drops frames whose addresses are wrong at every port.
#[inline(always)]
pub(crate) fn check(addresses: Addresses) -> Result<Addresses, DropReason> {
    const GROUP: u64 = 1 << 40;
    const RESERVED: u64 = 0x0180_C200_0000;
    if addresses.source & GROUP != 0 || addresses.source == 0 {
        return Err(DropReason::BadSource);
    }
    if addresses.destination & !0xF == RESERVED {
        return Err(DropReason::Reserved);
    }
    Ok(addresses)
}

/// Finds a frame's addresses, VLAN and traffic class, by the rules of the port it came in by. A
/// tag that names no VLAN (priority-tagged, VID 0) is removed, its priority kept.
#[inline(always)]
pub(crate) fn ingress(
    pool: &mut Pool,
    port: &PortPlan,
    packet: &mut Packet,
) -> Result<Addresses, DropReason> {
    let data = pool.data(packet);
    let Some(header) = data.first_chunk::<14>() else { return Err(DropReason::Runt) };
    let [.., a, b] = *header;
    let mut addresses = Addresses {
        vlan: port.native,
        ethertype: [a, b],
        destination: u64::from_be_bytes(*header.first_chunk::<8>().unwrap_or(&[0; 8])) >> 16,
        source: u64::from_be_bytes(*header.last_chunk::<8>().unwrap_or(&[0; 8])) >> 16,
    };
    packet.priority = port.settings.priority;
    if port.settings.trust == Trust::Dscp {
        packet.priority = dscp_class(data).unwrap_or(packet.priority);
    }
    if addresses.ethertype == TPID {
        let Some(&[a, b, inner @ ..]) = data[14..].first_chunk::<4>() else {
            return Err(DropReason::Runt);
        };
        addresses.ethertype = inner;
        let inner_tag = inner == TPID;
        addresses.vlan = tagged(pool, port, packet, u16::from_be_bytes([a, b]), inner_tag)?;
        return Ok(addresses);
    }
    if port.native == 0 {
        return Err(DropReason::Untagged);
    }
    packet.vlan = port.native;
    packet.flags &= !TAGGED;
    Ok(addresses)
}

#[cold]
fn tagged(
    pool: &mut Pool,
    port: &PortPlan,
    packet: &mut Packet,
    tci: u16,
    inner_tag: bool,
) -> Result<u16, DropReason> {
    if port.settings.trust == Trust::Pcp {
        packet.priority = (tci >> 13) as u8;
    }
    let vlan = tci & 0x0FFF;
    if inner_tag && (vlan == 0 || vlan == port.native) {
        return Err(DropReason::DoubleTag);
    }
    match vlan {
        0 if port.native == 0 => return Err(DropReason::Untagged),
        0 => {
            pop_tag(pool, packet);
            packet.vlan = port.native;
            packet.flags &= !TAGGED;
        }
        vlan if port.carries(vlan) => {
            packet.vlan = vlan;
            packet.flags |= TAGGED;
        }
        _ => return Err(DropReason::VlanDenied),
    }
    Ok(packet.vlan)
}

/// Gives a frame the form that a port with this native VLAN sends: untagged in its native VLAN,
/// tagged in every other. False if there is no room for a tag.
pub(crate) fn egress(pool: &mut Pool, packet: &mut Packet, native: u16) -> bool {
    let tagged = packet.flags & TAGGED != 0;
    if packet.vlan == native {
        if tagged {
            pop_tag(pool, packet);
            packet.flags &= !TAGGED;
        }
        return true;
    }
    if !tagged {
        if !push_tag(pool, packet) {
            return false;
        }
        packet.flags |= TAGGED;
    }
    true
}

/// Takes a frame's tag off, which its descriptor says it has.
pub(crate) fn untag(pool: &mut Pool, packet: &mut Packet) {
    pop_tag(pool, packet);
    packet.flags &= !TAGGED;
}

fn push_tag(pool: &mut Pool, packet: &mut Packet) -> bool {
    if !pool.push_front(packet, TAG_LEN) {
        return false;
    }
    let tci = u16::from(packet.priority & 7) << 13 | packet.vlan;
    let data = pool.data_mut(packet);
    data.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    data[ADDRESSES..ADDRESSES + 2].copy_from_slice(&TPID);
    data[ADDRESSES + 2..ADDRESSES + TAG_LEN].copy_from_slice(&tci.to_be_bytes());
    true
}

fn pop_tag(pool: &mut Pool, packet: &mut Packet) {
    pool.data_mut(packet).copy_within(0..ADDRESSES, TAG_LEN);
    pool.pull_front(packet, TAG_LEN);
}

/// The class selector (RFC 2474, 4.2.2) of an IP packet, tagged or not.
fn dscp_class(frame: &[u8]) -> Option<u8> {
    let at = if frame.get(ADDRESSES..ADDRESSES + 2)? == TPID { 16 } else { 12 };
    let payload = frame.get(at + 2..)?;
    match (frame[at], frame[at + 1]) {
        (0x08, 0x00) => Some(payload.get(1)? >> 5),
        (0x86, 0xDD) => Some((payload.first()? & 0x0F) >> 1),
        _ => None,
    }
}
