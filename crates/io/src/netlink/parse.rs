//! Parses rtnetlink messages (linux/rtnetlink.h, if_link.h, if_addr.h, nexthop.h). Truncated,
//! malformed or irrelevant ones give `None`; unneeded attributes are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::MacAddr;

use super::event::{Hop, KernelRoute, RouteKey, TABLE_LOCAL, TABLE_MAIN};
use super::message::{attributes, u16_at, u32_at, value_of};

/// Kinds of messages about next-hop objects.
pub(super) const NEW_NEXT_HOP: u16 = 104;
pub(super) const DEL_NEXT_HOP: u16 = 105;
pub(super) const GET_NEXT_HOP: u16 = 106;
/// `RTA_NH_ID`.
const NH_ID: u16 = 30;

pub(super) const INET: u8 = libc::AF_INET as u8;
pub(super) const INET6: u8 = libc::AF_INET6 as u8;
/// `RTNH_F_ONLINK`.
const ON_LINK: u8 = 4;

/// A route in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteFact {
    pub(super) key: RouteKey,
    pub(super) protocol: u8,
    /// The next-hop object, 0 for none.
    pub(super) next_hop: u32,
    /// The own address that packets of the box itself are to have as their source.
    pub(super) source: Option<IpAddr>,
    /// `None`: only the next-hop object is named (net.ipv4.nexthop_compat_mode=0).
    pub(super) route: Option<KernelRoute>,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceFact {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Option<MacAddr>,
    pub(super) mtu: u32,
    /// Flags of its state: [`RUNS`].
    pub(super) state: u32,
    /// The kind of virtual device ("veth"), or nothing.
    pub(super) kind: String,
    /// The device at the other end, if it is in the same namespace.
    pub(super) peer: Option<u32>,
}

/// Set up by the administrator, in operation, with a carrier.
const RUNS: u32 = (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOWER_UP).cast_unsigned();

impl DeviceFact {
    /// Set up by the administrator.
    pub(super) fn admin_up(&self) -> bool {
        self.state & libc::IFF_UP.cast_unsigned() != 0
    }

    /// Set up, and with a carrier.
    pub(super) fn up(&self) -> bool {
        self.state == RUNS
    }
}

/// An address on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressFact {
    pub(super) device: u32,
    pub(super) address: IpAddr,
    /// The kernel's prefix length, by which it distinguishes the device's addresses.
    pub(super) prefix_len: u8,
    /// How many leading bits are the implied subnet's: all, if there is none, because it is the far
    /// end's, or left to routes (`IFA_F_NOPREFIXROUTE`).
    pub(super) subnet_len: u8,
    pub(super) detection: Detection,
    /// Its origin (`IFA_PROTO`), 0 if unknown.
    pub(super) protocol: u8,
}

/// Duplicate address detection (RFC 4862, 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    /// The address can be used.
    Over,
    /// It is not known yet whether others have it.
    Running,
    /// Others have it.
    Failed,
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// One hop, or none (blackhole).
    Single(KernelRoute),
    /// Others by number, with their weights.
    Group(Vec<(u32, u16)>),
}

/// An address of a family, from an attribute's value.
fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn bits(family: u8) -> Option<(IpAddr, u8)> {
    match family {
        INET => Some((Ipv4Addr::UNSPECIFIED.into(), 32)),
        INET6 => Some((Ipv6Addr::UNSPECIFIED.into(), 128)),
        _ => None,
    }
}

/// `RTA_VIA`: a family in two bytes and an address.
fn via(bytes: &[u8]) -> Option<IpAddr> {
    ip(u8::try_from(u16_at(bytes, 0)?).ok()?, &bytes[2..])
}

/// `RTM_NEWROUTE`, `RTM_DELROUTE`.
pub(super) fn route(body: &[u8]) -> Option<RouteFact> {
    let (fixed, rest) = body.split_first_chunk::<12>()?;
    let [family, dst_len, src_len, tos, table, protocol, _scope, kind, ..] = *fixed;
    let flags = u32_at(fixed, 8)?;
    let (any, width) = bits(family)?;
    if src_len != 0 || tos != 0 || flags & libc::RTM_F_CLONED != 0 || dst_len > width {
        return None;
    }
    let mut table = u32::from(table);
    let (mut prefix, mut metric, mut next_hop) = (None, 0, 0);
    let mut single = Hop { device: 0, gateway: None, weight: 1, on_link: false };
    single.on_link = flags & u32::from(ON_LINK) != 0;
    let (mut several, mut wrapped, mut source) = (None, false, None);
    for (attribute, value) in attributes(rest) {
        match attribute {
            libc::RTA_PREFSRC => source = Some(ip(family, value)?),
            libc::RTA_DST => prefix = Some(ip(family, value)?),
            libc::RTA_TABLE => table = u32_at(value, 0)?,
            libc::RTA_PRIORITY => metric = u32_at(value, 0)?,
            libc::RTA_OIF => single.device = u32_at(value, 0)?,
            libc::RTA_GATEWAY => single.gateway = Some(ip(family, value)?),
            libc::RTA_VIA => single.gateway = Some(via(value)?),
            libc::RTA_MULTIPATH => several = Some(hops(family, value)?),
            NH_ID => next_hop = u32_at(value, 0)?,
            libc::RTA_ENCAP | libc::RTA_NEWDST => wrapped = true,
            _ => {}
        }
    }
    let prefix = match prefix {
        Some(prefix) => prefix,
        None if dst_len == 0 => any,
        None => return None,
    };
    // Each device has its own fe80::/64, so such a route is not identified by its prefix.
    let link_local = matches!(prefix, IpAddr::V6(a) if a.segments()[0] & 0xFFC0 == 0xFE80);
    if !matches!(table, TABLE_MAIN | TABLE_LOCAL) || (link_local && dst_len >= 10) {
        return None;
    }
    let bare = single.device == 0 && several.is_none();
    let route = match kind {
        libc::RTN_UNICAST if bare && next_hop != 0 => None,
        libc::RTN_UNICAST if bare => return None,
        libc::RTN_UNICAST => Some(match several.unwrap_or(Some(vec![single])) {
            Some(hops) if !wrapped && !hops.is_empty() => KernelRoute::Via(hops),
            _ => KernelRoute::Encapsulated,
        }),
        libc::RTN_LOCAL => Some(KernelRoute::Local),
        libc::RTN_BROADCAST => Some(KernelRoute::Broadcast),
        libc::RTN_BLACKHOLE => Some(KernelRoute::Blackhole),
        libc::RTN_UNREACHABLE | libc::RTN_THROW => Some(KernelRoute::Unreachable),
        libc::RTN_PROHIBIT => Some(KernelRoute::Prohibited),
        _ => return None,
    };
    let key = RouteKey { prefix: (prefix, dst_len), table, metric };
    Some(RouteFact { key, protocol, next_hop, source, route })
}

/// `RTA_MULTIPATH`: an array of `struct rtnexthop`. The inner `None` if one of them encapsulates.
fn hops(family: u8, mut bytes: &[u8]) -> Option<Option<Vec<Hop>>> {
    let mut hops = Vec::new();
    let mut wrapped = false;
    while let Some((fixed, _)) = bytes.split_first_chunk::<8>() {
        let len = usize::from(u16_at(fixed, 0)?);
        let mut hop = Hop {
            device: u32_at(fixed, 4)?,
            gateway: None,
            weight: u16::from(fixed[3]) + 1,
            on_link: fixed[2] & ON_LINK != 0,
        };
        for (attribute, value) in attributes(bytes.get(8..len)?) {
            match attribute {
                libc::RTA_GATEWAY => hop.gateway = Some(ip(family, value)?),
                libc::RTA_VIA => hop.gateway = Some(via(value)?),
                libc::RTA_ENCAP | libc::RTA_NEWDST => wrapped = true,
                _ => {}
            }
        }
        hops.push(hop);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    // The kernel's order differs between a change and a dump, and means nothing.
    hops.sort_unstable();
    Some((!wrapped).then_some(hops))
}

/// `RTM_NEWLINK`, `RTM_DELLINK`. A bridge reports its ports in messages of its own family: those
/// are not about devices.
pub(super) fn device(body: &[u8]) -> Option<DeviceFact> {
    let (fixed, rest) = body.split_first_chunk::<16>()?;
    let index = u32_at(fixed, 4).filter(|_| fixed[0] == 0)?;
    let flags = u32_at(fixed, 8)?;
    let mut fact = DeviceFact {
        index,
        name: String::new(),
        mac: None,
        mtu: 0,
        state: flags & RUNS,
        kind: String::new(),
        peer: None,
    };
    let mut elsewhere = false;
    for (attribute, value) in attributes(rest) {
        match attribute {
            libc::IFLA_ADDRESS => fact.mac = value.try_into().ok().map(MacAddr),
            libc::IFLA_IFNAME => fact.name = text(value),
            libc::IFLA_MTU => fact.mtu = u32_at(value, 0)?,
            libc::IFLA_LINK => fact.peer = u32_at(value, 0),
            libc::IFLA_LINK_NETNSID => elsewhere = true,
            libc::IFLA_LINKINFO => {
                fact.kind = value_of(value, libc::IFLA_INFO_KIND).map(text).unwrap_or_default();
            }
            _ => {}
        }
    }
    fact.peer = fact.peer.filter(|_| !elsewhere);
    Some(fact)
}

/// A string up to its zero byte.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// `RTM_NEWADDR`, `RTM_DELADDR`.
pub(super) fn address(body: &[u8]) -> Option<AddressFact> {
    const FLAGS: u16 = 8;
    const PROTO: u16 = 11;
    let (fixed, rest) = body.split_first_chunk::<8>()?;
    let [family, prefix_len, flags, _scope, ..] = *fixed;
    let device = u32_at(fixed, 4)?;
    let (_, width) = bits(family)?;
    let (mut flags, mut protocol) = (u32::from(flags), 0);
    // On a point-to-point link the far end's address is ADDRESS, our own LOCAL.
    let (mut address, mut local) = (None, None);
    for (attribute, value) in attributes(rest) {
        match attribute {
            libc::IFA_ADDRESS => address = Some(ip(family, value)?),
            libc::IFA_LOCAL => local = Some(ip(family, value)?),
            FLAGS => flags = u32_at(value, 0)?,
            PROTO => protocol = *value.first()?,
            _ => {}
        }
    }
    if prefix_len > width {
        return None;
    }
    let alone = local.is_some_and(|local| address.is_some_and(|far| far != local));
    let subnet_len =
        if alone || flags & libc::IFA_F_NOPREFIXROUTE != 0 { width } else { prefix_len };
    let detection = if flags & libc::IFA_F_DADFAILED != 0 {
        Detection::Failed
    } else if flags & libc::IFA_F_TENTATIVE != 0 && flags & libc::IFA_F_OPTIMISTIC == 0 {
        Detection::Running
    } else {
        Detection::Over
    };
    let address = local.or(address)?;
    Some(AddressFact { device, address, prefix_len, subnet_len, detection, protocol })
}

/// `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`: the object's number, and what it is.
pub(super) fn next_hop(body: &[u8]) -> Option<(u32, Object)> {
    const ID: u16 = 1;
    const GROUP: u16 = 2;
    const BLACKHOLE: u16 = 4;
    const OIF: u16 = 5;
    const GATEWAY: u16 = 6;
    const ENCAP: u16 = 8;
    const FDB: u16 = 11;
    let (fixed, rest) = body.split_first_chunk::<8>()?;
    let family = fixed[0];
    let on_link = u32_at(fixed, 4)? & u32::from(ON_LINK) != 0;
    let (mut id, mut group, mut special) = (None, None, None);
    let mut hop = Hop { device: 0, gateway: None, weight: 1, on_link };
    for (attribute, value) in attributes(rest) {
        match attribute {
            ID => id = u32_at(value, 0),
            GROUP => group = Some(value),
            BLACKHOLE => special = Some(KernelRoute::Blackhole),
            OIF => hop.device = u32_at(value, 0)?,
            GATEWAY => hop.gateway = Some(ip(family, value)?),
            ENCAP => special = Some(KernelRoute::Encapsulated),
            FDB => return None,
            _ => {}
        }
    }
    let object = match group {
        // `struct nexthop_grp`: number, low and (since Linux 6.12) high byte of the weight less 1.
        Some(members) => Object::Group(
            members
                .chunks_exact(8)
                .map(|m| (u32_at(m, 0).unwrap_or(0), u16_at(m, 4).unwrap_or(0).saturating_add(1)))
                .collect(),
        ),
        None => Object::Single(special.unwrap_or_else(|| KernelRoute::Via(vec![hop]))),
    };
    Some((id?, object))
}
