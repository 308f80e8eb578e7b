//! Devices of routing daemons: hosts beside the controller that have the group's own addresses.
//!
//! A device is cabled to a port of a node. The driver tells the Ethernet address of that port, and
//! so the controller finds it among those that nodes report. There, and nowhere else, a station can
//! claim the address that the group has in the device's subnets. What tenants' rules forbid between
//! hosts does not concern daemons: they are a part of the group.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plexus_config::{ControllerSettings, Members, MulticastRule};
use plexus_wire::fabric::message::PortRole;
use plexus_wire::{MacAddr, Prefix};

use crate::Controller;
use crate::hosts::Host;
use crate::topology::Place;

/// Groups in which routing daemons speak, on a link: OSPF (RFC 2328, A.1; RFC 5340, A.1), RIP (RFC
/// 2453, 3.5; RFC 2080, 2.1) and VRRP (RFC 9568, 5.1.1.2 and 5.1.2.2).
const GROUPS: [&str; 8] = [
    "224.0.0.5/32",
    "224.0.0.6/32",
    "224.0.0.9/32",
    "224.0.0.18/32",
    "ff02::5/128",
    "ff02::6/128",
    "ff02::9/128",
    "ff02::12/128",
];

/// Devices, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Daemons {
    /// The Ethernet address of the port that each is cabled to.
    ports: BTreeMap<String, MacAddr>,
    /// Where that port is.
    places: BTreeMap<String, Place>,
}

impl Daemons {
    /// Where the port is that a device is cabled to.
    pub(crate) fn place(&self, device: &str) -> Option<Place> {
        self.places.get(device).copied()
    }
}

/// The rules for multicast groups: those of the settings, and those for routing daemons, if there
/// are any.
pub(crate) fn multicast_rules(config: &ControllerSettings) -> impl Iterator<Item = MulticastRule> {
    let has_daemons = config.subnets.iter().any(|s| s.device.is_some());
    let own = GROUPS.into_iter().filter(move |_| has_daemons);
    let own = own.filter_map(|groups| {
        let groups: Prefix = groups.parse().ok()?;
        Some(MulticastRule { groups, members: Members::Joined })
    });
    config.multicast.iter().copied().chain(own)
}

impl Controller {
    /// A device is cabled to a port with this Ethernet address, or is not there any more.
    pub(crate) fn device(&mut self, device: String, port: Option<MacAddr>) {
        match port {
            Some(mac) => self.daemons.ports.insert(device, mac),
            None => self.daemons.ports.remove(&device),
        };
        self.place_devices();
    }

    /// Finds the ports of devices among those that nodes have reported.
    pub(crate) fn place_devices(&mut self) {
        if self.daemons.ports.is_empty() && self.daemons.places.is_empty() {
            return;
        }
        let mut places = BTreeMap::new();
        for (node, known) in (0..).zip(&self.topology.nodes) {
            for state in known.ports.values().filter(|state| state.role == PortRole::Host) {
                let cabled = self.daemons.ports.iter().filter(|(_, mac)| **mac == state.mac);
                let place = Place { node, port: state.port };
                places.extend(cabled.map(|(device, _)| (device.clone(), place)));
            }
        }
        self.daemons.places = places;
    }

    /// The port of the device that has this address of the group.
    pub(crate) fn device_of(&self, ip: IpAddr) -> Option<Place> {
        let subnet = self.config.subnets.iter().find(|s| s.gateway == Some(ip))?;
        self.daemons.places.get(subnet.device.as_ref()?).copied()
    }

    /// Whether a port is that of a device.
    pub(crate) fn is_device(&self, at: Place) -> bool {
        self.daemons.places.values().any(|place| *place == at)
    }

    /// Whether a host may ask for another.
    pub(crate) fn may_ask(&self, from: &Host, to: &Host) -> bool {
        self.groups.may_ask(&from.groups, &to.groups)
            || self.is_device(from.at)
            || self.is_device(to.at)
    }
}
