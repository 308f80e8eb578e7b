//! Devices of the kernel on which routing daemons speak for the group, and the routes that they
//! write there.
//!
//! A node of this box makes the devices, each with its other end as a port of its own (`[fabric]
//! kernel`). The controller gives them their addresses as soon as they are there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver};

use plexus_config::ControllerSettings;
use plexus_controller::Input;
use plexus_io::netlink::{InterfaceSpec, KernelEvent, ensure_interface};
use plexus_io::wake::Waker;
use plexus_node::ports::kernel_port;
use plexus_wire::MacAddr;

use crate::kernel::{self, Again, Kernel};

/// Notifications that wait for the controller; a full table is some thousand of them.
const WAITING: usize = 64;
/// Notifications taken at a time: frames of nodes come between them.
const AT_ONCE: usize = 8;

/// What a device is to have.
#[derive(Default)]
struct Wanted {
    /// Its addresses, with the lengths of their prefixes.
    addresses: Vec<(IpAddr, u8)>,
    /// Longest packet, as of any host of its networks.
    mtu: u16,
}

/// The devices, and what the kernel says of them.
pub(super) struct Devices {
    wanted: BTreeMap<String, Wanted>,
    /// The address of each device's port, as the core was told.
    told: BTreeMap<String, MacAddr>,
    kernel: Kernel,
    news: Option<Receiver<Vec<KernelEvent>>>,
    again: Option<Again>,
}

/// The devices of a controller's settings.
pub(super) fn names(settings: &ControllerSettings) -> BTreeSet<&str> {
    settings.subnets.iter().filter_map(|s| s.device.as_deref()).collect()
}

fn wanted(settings: &ControllerSettings) -> BTreeMap<String, Wanted> {
    let mut of = BTreeMap::<String, Wanted>::new();
    for subnet in &settings.subnets {
        if let (Some(device), Some(gateway)) = (&subnet.device, subnet.gateway) {
            let device = of.entry(device.clone()).or_default();
            let is_first = device.addresses.is_empty();
            device.mtu = subnet.longest_packet().min(if is_first { u16::MAX } else { device.mtu });
            device.addresses.push((gateway, subnet.prefix.len()));
        }
    }
    of
}

impl Devices {
    /// Follows the kernel, if the settings name devices.
    ///
    /// # Errors
    /// When there are no descriptors or threads left.
    pub(super) fn follow(settings: &ControllerSettings, waker: Waker) -> Result<Devices, String> {
        let wanted = wanted(settings);
        // All are one interface of the group's router: the fabric.
        let names: HashMap<String, usize> =
            wanted.keys().map(|device| (device.clone(), 0)).collect();
        let news = (!names.is_empty()).then(|| {
            let (send, news) = mpsc::sync_channel(WAITING);
            kernel::watch(move |events| {
                let is_heard = send.send(events).is_ok();
                waker.wake();
                is_heard
            })
            .map(|again| (news, again))
        });
        let (news, again) = news.transpose()?.unzip();
        let (told, kernel) = (BTreeMap::new(), Kernel::new(names));
        Ok(Devices { wanted, told, kernel, news, again })
    }

    /// Follows changed settings.
    pub(super) fn configure(&mut self, settings: &ControllerSettings) {
        self.wanted = wanted(settings);
        for device in self.told.keys() {
            // A failure is logged.
            let _ = self.set_up(device);
        }
    }

    /// What the kernel has said lately, for the core; and whether there may be more.
    pub(super) fn hear(&mut self) -> (Vec<Input>, bool) {
        let mut inputs = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(Ok(events)) = self.news.as_ref().map(Receiver::try_recv) else {
                return (inputs, false);
            };
            for event in &events {
                if let KernelEvent::Device { name, present, .. } = event
                    && self.wanted.contains_key(name)
                {
                    inputs.extend(self.device(name, *present));
                }
            }
            let heard = self.kernel.hear(events);
            if !heard.inputs.is_empty() {
                inputs.push(Input::Kernel(heard.inputs));
            }
        }
        (inputs, true)
    }

    /// The devices, for a core that has just begun. The routes come again later.
    pub(super) fn again(&self) -> Vec<Input> {
        self.read_again();
        let device = |(device, mac): (&String, &MacAddr)| Input::Device {
            device: device.clone(),
            port: Some(*mac),
        };
        self.told.iter().map(device).collect()
    }

    /// Reads all of the kernel's routes anew.
    pub(super) fn read_again(&self) {
        if let Some(again) = &self.again {
            again.read();
        }
    }

    /// A device has come or gone, or has changed.
    fn device(&mut self, name: &str, is_there: bool) -> Option<Input> {
        let port = if is_there { self.set_up(name) } else { None };
        let before = match port {
            Some(mac) => self.told.insert(name.to_string(), mac),
            None => self.told.remove(name),
        };
        if before == port {
            return None;
        }
        match port {
            Some(_) => tracing::info!(device = name, "routing daemons have a device"),
            None => tracing::warn!(device = name, "the device of routing daemons is gone"),
        }
        Some(Input::Device { device: name.to_string(), port })
    }

    /// Gives a device its addresses and its MTU. Gives the Ethernet address of its port.
    fn set_up(&self, name: &str) -> Option<MacAddr> {
        let peer = kernel_port(name).ok()?;
        let Wanted { addresses, mtu } = self.wanted.get(name)?;
        let (addresses, mtu) = (Some(&addresses[..]), u32::from(*mtu));
        let spec = InterfaceSpec { name, peer: &peer, mac: None, mtu, addresses };
        let set = ensure_interface(&spec).map_err(|e| e.to_string());
        let facts = set.and_then(|_| plexus_io::device_facts(&peer).map_err(|e| e.to_string()));
        facts
            .inspect_err(|error| tracing::error!(device = name, error, "setting up a device"))
            .ok()
            .map(|facts| facts.mac)
    }
}
