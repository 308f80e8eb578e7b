//! IP interfaces of a node: what the router's control plane is told of them, by the file and by the
//! ports that carry them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_config::{InterfacePlace, InterfaceSettings, NodeFile, RouterSettings};
use plexus_control::router::InterfaceFacts;
use plexus_io::PortId;
use plexus_wire::MacAddr;

use crate::ports::{Carried, carried};
use crate::router::Place;

/// The longest IP packet of an interface that several ports share, unless its settings say more or
/// its ports take less.
const MTU_USUAL: u16 = 1500;
/// An Ethernet header.
const ETHERNET: usize = 14;

/// An interface, as a driver knows it.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its settings.
    pub settings: InterfaceSettings,
    /// The VLAN that it is.
    pub vlan: u16,
    /// The ports that packets come and go by, the kernel's apart.
    pub ports: Vec<PortId>,
    /// The devices of `ports`, in their order.
    pub devices: Vec<String>,
    /// Its address if neither settings nor a device give one.
    pub derived: MacAddr,
    /// The longest frame of each of `ports`, once that is known.
    pub max_frames: BTreeMap<PortId, usize>,
    /// Those of `ports` whose link is up.
    pub up: BTreeSet<PortId>,
}

impl Interface {
    /// The longest IP packet that all its known ports take. A port would drop a longer one, and its
    /// sender would not hear of it.
    pub fn of_ports(&self) -> Option<u16> {
        let max_frame = self.max_frames.values().min()?;
        Some(u16::try_from(max_frame.saturating_sub(ETHERNET)).unwrap_or(u16::MAX))
    }

    /// Its longest IP packet, by its settings and by what its ports take, if that is known.
    pub fn mtu(&self, of_ports: Option<u16>) -> u16 {
        let usual = match self.settings.place {
            InterfacePlace::Port(_) => of_ports.unwrap_or(MTU_USUAL),
            InterfacePlace::Vlan(_) => MTU_USUAL,
        };
        let wanted = self.settings.mtu.unwrap_or(usual);
        of_ports.map_or(wanted, |of_ports| wanted.min(of_ports))
    }

    /// The device of a routed port: its address is the interface's. An interface on several ports
    /// has an address of its own.
    pub fn device(&self) -> Option<&str> {
        match self.settings.place {
            InterfacePlace::Port(_) => self.devices.first().map(String::as_str),
            InterfacePlace::Vlan(_) => None,
        }
    }

    /// What the control plane is told of the interface while it is up. `mac` is the address of its
    /// [device](Self::device), if it has one. If the kernel is followed, `kernel` are the addresses
    /// of its device, and `mac` is that device's: hosts hear it from the kernel.
    pub fn facts(&self, mac: Option<MacAddr>, kernel: Option<Vec<(IpAddr, u8)>>) -> InterfaceFacts {
        let settings = &self.settings;
        let mac = match kernel {
            Some(_) => mac.or(settings.mac),
            None => settings.mac.or(mac),
        };
        let mac = mac.unwrap_or(self.derived);
        let (mtu, name) = (self.mtu(self.of_ports()), settings.name.clone());
        if let Some(addresses) = kernel {
            return InterfaceFacts { name, mac, mtu, addresses, kernel: true, is_told: false };
        }
        let mut addresses: Vec<(IpAddr, u8)> =
            settings.addresses.iter().map(|a| (a.address, a.prefix_len)).collect();
        let has_v6 = addresses.iter().any(|(a, _)| a.is_ipv6());
        let link_local = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
        if has_v6 && !addresses.iter().any(|(a, _)| link_local(a)) {
            addresses.push((IpAddr::V6(mac.link_local()), 64));
        }
        InterfaceFacts { name, mac, mtu, addresses, kernel: false, is_told: false }
    }
}

/// The interfaces of a file that has been [expanded](crate::ports::expand), and their places in the
/// data plane.
///
/// # Errors
/// When an interface is of a port that is not there.
pub fn interfaces(
    file: &NodeFile,
    settings: &RouterSettings,
) -> Result<(Vec<Interface>, Vec<Place>), String> {
    let all = settings.interfaces.iter().zip(carried(file, settings)?);
    let all = all.map(|(own, Carried { vlan, port, kernel, ports })| {
        let devices = ports.iter().map(|p| file.ports[usize::from(*p)].device.clone()).collect();
        let interface = Interface {
            vlan,
            ports,
            devices,
            derived: MacAddr::derived(&format!("{}.{}", file.name, own.name), 0),
            max_frames: BTreeMap::new(),
            up: BTreeSet::new(),
            settings: own.clone(),
        };
        (interface, Place { vlan, port, kernel, reverse_path: own.reverse_path })
    });
    Ok(all.unzip())
}
