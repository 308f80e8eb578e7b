//! The kernel's facts about every network device, for people who choose among them and for
//! `plexus doctor`. Nothing here changes anything.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use plexus_wire::MacAddr;

use super::event::{KernelRoute, TABLE_MAIN};
use super::message::{attributes, flag, u16_at, u32_at, value_of};
use super::netdev::{Netdev, XdpFeatures};
use super::parse;
use super::socket::Socket;
use crate::OpenError;
use crate::bpf::XdpMode;
use crate::device::Device;

const RECEIVE_BYTES: i32 = 4 << 20;

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` if it is no Ethernet device.
    pub mac: Option<MacAddr>,
    /// Largest payload in bytes.
    pub mtu: u32,
    /// The largest MTU that its driver allows; `None`: the kernel does not say.
    pub mtu_max: Option<u32>,
    /// Set up by the administrator.
    pub is_up: bool,
    /// The cable is plugged in, and something is at its other end.
    pub has_carrier: bool,
    /// The kind of virtual device ("veth"), or nothing.
    pub kind: String,
    /// The bridge or bond that it is part of.
    pub master: Option<String>,
    /// The mode of the XDP program that is attached, if one is; `Auto`: in the device itself.
    pub xdp: Option<XdpMode>,
    /// Its addresses and the lengths of their prefixes in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// A default route of the main table leads through it.
    pub has_default_route: bool,
    /// Its driver, as `ethtool -i` names it.
    pub driver: Option<String>,
    /// There is no hardware behind it.
    pub is_virtual: bool,
    /// Its speed in Mbit/s, if the driver knows it.
    pub speed_mbit_per_s: Option<u32>,
    /// It joins received packets in hardware (LRO).
    pub lro: bool,
    /// It takes VLAN tags out of received frames.
    pub rx_vlan: bool,
    /// Its driver's support of XDP; `None`: the kernel does not say (before Linux 6.3).
    pub xdp_features: Option<XdpFeatures>,
}

/// All devices of the calling thread's network namespace, by number.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn devices() -> Result<Vec<DeviceInfo>, OpenError> {
    let failed = |doing| move |e| OpenError::system("rtnetlink", doing, e);
    let mut socket = Socket::open(0, RECEIVE_BYTES).map_err(failed("opening a socket"))?;
    let mut found = links(&mut socket).map_err(failed("asking for the devices"))?;
    add_addresses(&mut socket, &mut found).map_err(failed("asking for the addresses"))?;
    add_default_routes(&mut socket, &mut found).map_err(failed("asking for the routes"))?;
    add_xdp_features(&mut found);
    for info in found.values_mut() {
        ask_driver(info);
    }
    Ok(found.into_values().collect())
}

type Found = BTreeMap<u32, DeviceInfo>;

fn links(socket: &mut Socket) -> io::Result<Found> {
    let mut found = Found::new();
    let mut masters = BTreeMap::new();
    socket.request(
        libc::RTM_GETLINK,
        flag::DUMP,
        &[0; 16],
        |_| {},
        |answer| {
            if let Some((info, master)) = link(answer.body) {
                masters.extend(master.map(|master| (info.index, master)));
                found.insert(info.index, info);
            }
        },
    )?;
    for (index, master) in masters {
        let name = found.get(&master).map(|master| master.name.clone());
        if let Some(info) = found.get_mut(&index) {
            info.master = name.or_else(|| Some(format!("device {master}")));
        }
    }
    Ok(found)
}

/// A device, and the number of its master.
fn link(body: &[u8]) -> Option<(DeviceInfo, Option<u32>)> {
    const IFLA_MASTER: u16 = 10;
    const IFLA_XDP: u16 = 43;
    const IFLA_XDP_ATTACHED: u16 = 2;
    const IFLA_MAX_MTU: u16 = 51;
    let fact = parse::device(body)?;
    let (fixed, rest) = body.split_first_chunk::<16>()?;
    let kind = u16_at(fixed, 2)?;
    let flags = u32_at(fixed, 8)?.cast_signed();
    let mut info = DeviceInfo {
        index: fact.index,
        name: fact.name,
        mac: fact.mac.filter(|_| kind == libc::ARPHRD_ETHER),
        mtu: fact.mtu,
        is_up: flags & libc::IFF_UP != 0,
        has_carrier: flags & libc::IFF_LOWER_UP != 0 && flags & libc::IFF_RUNNING != 0,
        kind: fact.kind,
        ..DeviceInfo::default()
    };
    let mut master = None;
    for (attribute, value) in attributes(rest) {
        match attribute {
            IFLA_MASTER => master = u32_at(value, 0),
            // 0 stands for "any".
            IFLA_MAX_MTU => info.mtu_max = u32_at(value, 0).filter(|max| *max > 0),
            IFLA_XDP => {
                let attached = value_of(value, IFLA_XDP_ATTACHED);
                info.xdp = match attached.and_then(|mode| mode.first()) {
                    None | Some(0) => None,
                    Some(1) => Some(XdpMode::Native),
                    Some(2) => Some(XdpMode::Generic),
                    Some(_) => Some(XdpMode::Auto),
                };
            }
            _ => {}
        }
    }
    Some((info, master))
}

fn add_addresses(socket: &mut Socket, found: &mut Found) -> io::Result<()> {
    socket.request(
        libc::RTM_GETADDR,
        flag::DUMP,
        &[0; 8],
        |_| {},
        |answer| {
            let Some(fact) = parse::address(answer.body) else { return };
            if let Some(info) = found.get_mut(&fact.device) {
                info.addresses.push((fact.address, fact.prefix_len));
            }
        },
    )
}

fn add_default_routes(socket: &mut Socket, found: &mut Found) -> io::Result<()> {
    // Of a full routing table only these routes are of interest, and the kernel has no filter for
    // them: they are read family by family, and dropped at once.
    for family in [parse::INET, parse::INET6] {
        let mut fixed = [0; 12];
        fixed[0] = family;
        let asked = socket.request(
            libc::RTM_GETROUTE,
            flag::DUMP,
            &fixed,
            |_| {},
            |answer| {
                let Some(fact) = parse::route(answer.body) else { return };
                let is_default = fact.key.prefix.1 == 0 && fact.key.table == TABLE_MAIN;
                let Some(KernelRoute::Via(hops)) = fact.route.filter(|_| is_default) else {
                    return;
                };
                for hop in hops {
                    if let Some(info) = found.get_mut(&hop.device) {
                        info.has_default_route = true;
                    }
                }
            },
        );
        match asked {
            // IPv6 is off.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Asks the kernel what drivers can do with XDP.
fn add_xdp_features(found: &mut Found) {
    let Some(mut netdev) = Netdev::open() else { return };
    for info in found.values_mut() {
        info.xdp_features = netdev.xdp_features(info.index);
    }
}

fn ask_driver(info: &mut DeviceInfo) {
    let Ok(device) = Device::named(&info.name) else { return };
    if let Ok(driver) = device.driver() {
        info.driver = Some(driver.name).filter(|name| name != "?");
        info.is_virtual = driver.is_virtual;
    }
    info.speed_mbit_per_s = device.speed_mbit_per_s();
    (info.lro, info.rx_vlan) = device.offloads().unwrap_or_default();
}
