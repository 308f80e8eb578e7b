//! A router's interface for the routing daemons: one end of a veth pair (veth(4)).
//!
//! The pair belongs to the kernel and outlives its creator, and so do the routes and the daemons'
//! adjacencies.

use std::io;
use std::net::IpAddr;

use plexus_wire::MacAddr;

use super::message::{Builder, flag};
use super::parse::{self, AddressFact, DeviceFact, INET, INET6};
use super::socket::Socket;
use crate::OpenError;

/// The mark (`IFA_PROTO`, Linux 5.18) on addresses set by [`ensure_interface`], by which it finds
/// those no longer wanted. Older kernels do not store it.
pub const ADDRESS_MARK: u8 = 0x50;

/// The wanted state of a router's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec<'a> {
    /// The device of the kernel and the routing daemons, at most 15 bytes.
    pub name: &'a str,
    /// The other end, a port of the data plane.
    pub peer: &'a str,
    /// The Ethernet address of `name`; absent: any.
    pub mac: Option<MacAddr>,
    /// Largest payload of both ends in bytes.
    pub mtu: u32,
    /// The addresses of `name` and the lengths of their subnets' prefixes in bits; absent: they are
    /// set elsewhere.
    pub addresses: Option<&'a [(IpAddr, u8)]>,
}

/// The present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number of the daemons' end.
    pub index: u32,
    /// Whether the pair was made just now, or had been there.
    pub created: bool,
}

/// Creates or adapts a veth pair: this Ethernet address, this MTU and these addresses, both ends
/// up. Properties that are right are not touched, so that routes through it stay.
///
/// Addresses set by others, such as a routing daemon, stay; those set here before and no longer
/// wanted are removed ([`ADDRESS_MARK`]). IPv6 addresses are usable at once, without duplicate
/// address detection (`IFA_F_NODAD`): the detection would have to pass through the data plane,
/// which may not run yet, so it would find nothing, and until it is over daemons could not use the
/// address.
///
/// The daemons' end ignores router advertisements (RFC 4861, 6.2.1: the kernel, which does not know
/// that it is a router, would write a neighbour's default route into the table that we follow). The
/// data plane's end has neither IPv6 nor ARP: the kernel sees its packets too, but must not handle
/// them.
///
/// # Errors
/// Without CAP_NET_ADMIN; when something else has one of the names.
pub fn ensure_interface(spec: &InterfaceSpec<'_>) -> Result<Interface, OpenError> {
    check_name(spec.name)?;
    check_name(spec.peer)?;
    let mut socket = open(spec.name)?;
    let (device, peer, created) = match find_pair(&mut socket, spec)? {
        Some((device, peer)) => (device, peer, false),
        None => {
            make_pair(&mut socket, spec)?;
            let Some((device, peer)) = find_pair(&mut socket, spec)? else {
                return Err(OpenError::NoDevice { device: spec.name.into() });
            };
            (device, peer, true)
        }
    };
    quiet(spec);
    let mac = spec.mac.filter(|mac| device.mac != Some(*mac));
    set_device(&mut socket, &device, mac, spec.mtu)?;
    set_device(&mut socket, &peer, None, spec.mtu)?;
    if let Some(addresses) = spec.addresses {
        set_addresses(&mut socket, &device, addresses)?;
    }
    Ok(Interface { index: device.index, created })
}

fn open(name: &str) -> Result<Socket, OpenError> {
    const RECEIVE_BYTES: i32 = 1 << 20;
    Socket::open(0, RECEIVE_BYTES)
        .map_err(|e| OpenError::system(name, "opening a netlink socket", e))
}

fn check_name(name: &str) -> Result<(), OpenError> {
    let wrong = |b: u8| matches!(b, b'/' | b':' | 0) || b.is_ascii_whitespace();
    let bad = name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(wrong);
    if bad || name == "." || name == ".." {
        let problem = format!(
            "a device name has 1 to {} bytes, none of them a space, a slash or a colon",
            libc::IFNAMSIZ - 1
        );
        return Err(OpenError::Invalid { device: name.into(), problem });
    }
    Ok(())
}

fn taken(name: &str, why: &str) -> OpenError {
    let problem = format!(
        "there is a network device of this name already that {why}: give the router's interface \
         another name, or remove the device (ip link del {name})"
    );
    OpenError::Invalid { device: name.into(), problem }
}

fn refused(name: &str, doing: &'static str, e: io::Error) -> OpenError {
    OpenError::privileged(name, doing, "cap_net_admin", "make the veth pair beforehand", e)
}

/// Both ends, if they exist and form a pair.
fn find_pair(
    socket: &mut Socket,
    spec: &InterfaceSpec<'_>,
) -> Result<Option<(DeviceFact, DeviceFact)>, OpenError> {
    let pair = (find(socket, spec.name)?, find(socket, spec.peer)?);
    match pair {
        (None, None) => Ok(None),
        (Some(device), Some(peer)) => {
            let veths = device.kind == "veth" && peer.kind == "veth";
            if veths && device.peer == Some(peer.index) && peer.peer == Some(device.index) {
                Ok(Some((device, peer)))
            } else {
                let why = format!("is not one end of a veth pair with '{}'", spec.peer);
                Err(taken(spec.name, &why))
            }
        }
        (Some(_), None) => {
            Err(taken(spec.name, &format!("has no other end '{}' in this namespace", spec.peer)))
        }
        (None, Some(_)) => {
            Err(taken(spec.peer, &format!("has no other end '{}' in this namespace", spec.name)))
        }
    }
}

fn find(socket: &mut Socket, name: &str) -> Result<Option<DeviceFact>, OpenError> {
    let mut found = None;
    let asked = socket.request(
        libc::RTM_GETLINK,
        0,
        &link_header(0, 0, 0),
        |request| put_name(request, name),
        |answer| found = parse::device(answer.body),
    );
    match asked {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(e) => Err(OpenError::system(name, "asking for the device", e)),
        Ok(()) => Ok(found),
    }
}

/// `struct ifinfomsg`; `flags` are those to set.
pub(super) fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&change.to_ne_bytes());
    fixed
}

fn put_name(request: &mut Builder, name: &str) {
    request.put(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
}

fn make_pair(socket: &mut Socket, spec: &InterfaceSpec<'_>) -> Result<(), OpenError> {
    const VETH_INFO_PEER: u16 = 1;
    let content = |request: &mut Builder| {
        put_name(request, spec.name);
        if let Some(mac) = spec.mac {
            request.put(libc::IFLA_ADDRESS, &mac.0);
        }
        request.put(libc::IFLA_MTU, &spec.mtu.to_ne_bytes());
        request.nest(libc::IFLA_LINKINFO, |info| {
            info.put(libc::IFLA_INFO_KIND, b"veth");
            info.nest(libc::IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |peer| {
                    peer.raw(&link_header(0, 0, 0));
                    put_name(peer, spec.peer);
                    peer.put(libc::IFLA_MTU, &spec.mtu.to_ne_bytes());
                });
            });
        });
    };
    let flags = flag::CREATE | flag::EXCLUSIVE;
    socket
        .request(libc::RTM_NEWLINK, flags, &link_header(0, 0, 0), content, |_| {})
        .map_err(|e| refused(spec.name, "making a veth pair", e))
}

/// Sets properties that differ, and the device up.
fn set_device(
    socket: &mut Socket,
    device: &DeviceFact,
    mac: Option<MacAddr>,
    mtu: u32,
) -> Result<(), OpenError> {
    let mtu = Some(mtu).filter(|mtu| *mtu != device.mtu);
    if mac.is_none() && mtu.is_none() && device.admin_up() {
        return Ok(());
    }
    let up = libc::IFF_UP.cast_unsigned();
    let content = |request: &mut Builder| {
        if let Some(mac) = mac {
            request.put(libc::IFLA_ADDRESS, &mac.0);
        }
        if let Some(mtu) = mtu {
            request.put(libc::IFLA_MTU, &mtu.to_ne_bytes());
        }
    };
    socket
        .request(libc::RTM_NEWLINK, 0, &link_header(device.index, up, up), content, |_| {})
        .map_err(|e| refused(&device.name, "setting address, MTU and state", e))
}

/// The kernel answers no ARP that comes by a port's device. Otherwise it would for each address of
/// the box, whichever device has it (`arp_ignore` in ip-sysctl.rst).
pub fn leave_arp(device: &str) {
    set(&[("ipv4", device, "arp_ignore", "8")]);
}

/// Settings that netlink does not know.
fn quiet(spec: &InterfaceSpec<'_>) {
    set(&[
        ("ipv6", spec.name, "accept_ra", "0"),
        ("ipv6", spec.name, "autoconf", "0"),
        // It has the addresses of its own subnet, and answers for no other's.
        ("ipv4", spec.name, "arp_ignore", "1"),
        ("ipv4", spec.name, "arp_announce", "1"),
        ("ipv6", spec.peer, "disable_ipv6", "1"),
    ]);
    leave_arp(spec.peer);
}

/// Sets what can be; where IPv6 is off, what is for it is not there.
fn set(settings: &[(&str, &str, &str, &str)]) {
    for (family, device, setting, value) in settings {
        let path = format!("/proc/sys/net/{family}/conf/{device}/{setting}");
        if let Err(error) = std::fs::write(&path, value) {
            tracing::debug!(%error, path, "a setting of the kernel stays as it is");
        }
    }
}

fn set_addresses(
    socket: &mut Socket,
    device: &DeviceFact,
    addresses: &[(IpAddr, u8)],
) -> Result<(), OpenError> {
    let mut there = Vec::new();
    socket
        .request(
            libc::RTM_GETADDR,
            flag::DUMP,
            &[0; 8],
            |_| {},
            |answer| there.extend(parse::address(answer.body)),
        )
        .map_err(|e| OpenError::system(&device.name, "asking for the addresses", e))?;
    there.retain(|a: &AddressFact| a.device == device.index);
    let wanted = |a: &AddressFact| addresses.contains(&(a.address, a.prefix_len));
    for old in there.iter().filter(|a| a.protocol == ADDRESS_MARK && !wanted(a)) {
        let (address, prefix_len) = (old.address, old.prefix_len);
        change_address(socket, libc::RTM_DELADDR, 0, device, (address, prefix_len))
            .map_err(|e| refused(&device.name, "removing an address", e))?;
    }
    for &(address, prefix_len) in addresses {
        if there.iter().any(|a| (a.address, a.prefix_len) == (address, prefix_len)) {
            continue;
        }
        let flags = flag::CREATE | flag::REPLACE;
        change_address(socket, libc::RTM_NEWADDR, flags, device, (address, prefix_len))
            .map_err(|e| refused(&device.name, "setting an address", e))?;
    }
    Ok(())
}

fn change_address(
    socket: &mut Socket,
    kind: u16,
    flags: u16,
    device: &DeviceFact,
    (address, prefix_len): (IpAddr, u8),
) -> io::Result<()> {
    const PROTO: u16 = 11;
    let (family, octets) = match address {
        IpAddr::V4(a) => (INET, a.octets().to_vec()),
        IpAddr::V6(a) => (INET6, a.octets().to_vec()),
    };
    let no_dad = if family == INET6 { libc::IFA_F_NODAD as u8 } else { 0 };
    let mut fixed = [family, prefix_len, no_dad, 0, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&device.index.to_ne_bytes());
    let content = |request: &mut Builder| {
        request.put(libc::IFA_LOCAL, &octets);
        request.put(libc::IFA_ADDRESS, &octets);
        if let (IpAddr::V4(a), 1..=30) = (address, prefix_len) {
            let broadcast = a.to_bits() | u32::MAX >> prefix_len;
            request.put(libc::IFA_BROADCAST, &broadcast.to_be_bytes());
        }
        request.put(PROTO, &[ADDRESS_MARK]);
    };
    socket.request(kind, flags, &fixed, content, |_| {})
}
