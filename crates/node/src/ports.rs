//! What a node's file makes of its ports: which are the fabric's, which are IP interfaces, which
//! take named data; and the data plane's snapshot of it.

use plexus_config::{
    Backend, InterfacePlace, InterfaceSettings, KERNEL_PEER, NodeFile, PortFile, PortSettings,
    PortUse, RouterSettings, VlanMode, routed_port,
};
use plexus_io::PortId;
use plexus_plane::{PublishedFabric, RouterSource, Snapshot};
use plexus_wire::MacAddr;

/// Longest name of a device (IFNAMSIZ), less what is added.
const NAME_MAX: usize = 15 - KERNEL_PEER.len();

/// The port that leads to the kernel's device of an interface.
///
/// # Errors
/// When the interface's name leaves no room.
pub fn kernel_port(interface: &str) -> Result<String, String> {
    if interface.len() > NAME_MAX {
        return Err(format!(
            "interface {interface}: beside the kernel a name has at most {NAME_MAX} bytes"
        ));
    }
    Ok(format!("{interface}{KERNEL_PEER}"))
}

/// The file as the data plane is to see it: routed ports have a VLAN of their own, and kernel
/// devices are ports. Neither is the fabric's, except devices of daemons that speak for the group,
/// and that of a controller.
///
/// # Errors
/// When there are no VLANs left for them, or a name is too long.
pub fn expand(mut file: NodeFile) -> Result<NodeFile, String> {
    for device in file.fabric.as_ref().map_or(&[][..], |fabric| &fabric.kernel[..]) {
        let backend = Some(Backend::AfPacket);
        let port = PortFile::new(&kernel_port(device)?);
        file.ports.push(PortFile { backend, role: PortUse::Host, ..port });
    }
    if let Some(device) = file.fabric.as_ref().and_then(|fabric| fabric.controller.as_ref()) {
        let port = PortFile::new(&kernel_port(device)?);
        let backend = Some(Backend::AfPacket);
        // The kernel's own packets on the device are no host's.
        file.ports.push(PortFile { backend, role: PortUse::Fabric, ..port });
    }
    let Some(router) = file.router.clone() else { return Ok(file) };
    let ports: Vec<_> = file.ports.iter().map(|p| (p.name.as_str(), &p.settings)).collect();
    let vlans = router.vlans(&ports).ok_or(
        "there is no VLAN left for each routed port: let trunks carry fewer than all 4094",
    )?;
    for (interface, vlan) in router.interfaces.iter().zip(vlans) {
        let mut settings = PortSettings { vlan: VlanMode::Access(vlan), ..PortSettings::default() };
        if let InterfacePlace::Port(name) = &interface.place {
            for port in file.ports.iter_mut().filter(|p| p.name == *name) {
                port.settings = routed_port(&port.settings, vlan);
                port.role = PortUse::Switch;
            }
            settings = routed_port(&settings, vlan);
        }
        if router.kernel {
            let device = kernel_port(&interface.name)?;
            // Only this back-end hears what the kernel leaves to hardware (checksums).
            let backend = Some(Backend::AfPacket);
            let role = PortUse::Switch;
            file.ports.push(PortFile { settings, backend, role, ..PortFile::new(&device) });
        }
    }
    Ok(file)
}

/// Whether a port of a file is the fabric's.
pub fn is_in_fabric(file: &NodeFile, port: &PortFile) -> bool {
    file.fabric.is_some() && port.role != PortUse::Switch
}

/// By what an interface's packets come and go.
#[derive(Debug, PartialEq, Eq)]
pub struct Carried {
    /// The VLAN that it is.
    pub vlan: u16,
    /// Its only port, if it is a routed port.
    pub port: Option<PortId>,
    /// The port of the kernel's device.
    pub kernel: Option<PortId>,
    /// All ports that carry the VLAN, the kernel's apart.
    pub ports: Vec<PortId>,
}

/// By what each interface's packets come and go, in a file that has been [expanded](expand).
///
/// # Errors
/// When an interface is of a port that is not there.
pub fn carried(file: &NodeFile, settings: &RouterSettings) -> Result<Vec<Carried>, String> {
    let of = |own: &InterfaceSettings| -> Result<Carried, String> {
        let (vlan, port) = match &own.place {
            InterfacePlace::Vlan(vlan) => (*vlan, None),
            InterfacePlace::Port(name) => {
                let port = file.ports.iter().position(|p| p.name == *name);
                let vlan = port.and_then(|port| match file.ports[port].settings.vlan {
                    VlanMode::Access(vlan) => Some(vlan),
                    VlanMode::Trunk { .. } => None,
                });
                (vlan.ok_or_else(|| format!("there is no routed port {name}"))?, port)
            }
        };
        let kernel = kernel_port(&own.name).ok().filter(|_| settings.kernel);
        let kernel = kernel.and_then(|d| file.ports.iter().position(|p| p.name == d));
        let carries = |(i, p): &(usize, &PortFile)| {
            !is_in_fabric(file, p) && p.settings.carries(vlan) && Some(*i) != kernel
        };
        let carry = file.ports.iter().enumerate().filter(carries);
        Ok(Carried {
            vlan,
            port: port.map(|p| p as PortId),
            kernel: kernel.map(|p| p as PortId),
            ports: carry.map(|(i, _)| i as PortId).collect(),
        })
    };
    settings.interfaces.iter().map(of).collect()
}

/// Where the data plane finds what control planes publish, as long as the node runs.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The fabric's plan; none without a fabric.
    pub fabric: Option<PublishedFabric>,
    /// The router's plan and tables; none without interfaces.
    pub router: Option<RouterSource>,
}

/// The data plane of a file that has been [expanded](expand). `owners`: each port's worker.
/// `named`: the ports that take named data, and the node's address at each.
///
/// # Errors
/// In words, when its settings contradict themselves.
pub fn snapshot(
    file: &NodeFile,
    owners: &[usize],
    tables: &Tables,
    named: &[(PortId, MacAddr)],
) -> Result<Snapshot, String> {
    let ports = file.ports.iter().zip(owners);
    let ports = ports.map(|(p, owner)| (p.name.clone(), *owner, p.settings.clone())).collect();
    let mut snapshot = Snapshot::new(ports, &file.switch).map_err(|e| e.to_string())?;
    if let Some(fabric) = &tables.fabric {
        let is_its = |port: PortId| is_in_fabric(file, &file.ports[usize::from(port)]);
        snapshot = snapshot.with_fabric(fabric.clone(), is_its);
    }
    if let Some(router) = &tables.router {
        snapshot = snapshot.with_router(router.clone());
    }
    for &(port, own) in named {
        snapshot = snapshot.with_named(port, own);
    }
    Ok(snapshot)
}
