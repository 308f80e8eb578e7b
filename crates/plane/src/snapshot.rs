//! The data plane's configuration, as one immutable value that workers pick up between batches.

use std::sync::Arc;

use arc_swap::ArcSwap;
use plexus_config::{DeepBufferSettings, PortSettings, SwitchSettings, VlanMode};
use plexus_io::PortId;
use plexus_table::MacKey;
use plexus_wire::MacAddr;

use crate::fabric::plan::PublishedFabric;
use crate::router::plan::RouterSource;

/// Where snapshots are published. Readers never wait.
pub type Published = Arc<ArcSwap<Snapshot>>;

/// VLAN numbers are 12 bits.
const VLANS: usize = 4096;
/// Most ports of a box: what the MAC table's entries can name, less the switch's number for the
/// router.
pub(crate) const PORTS_MAX: usize = (1 << 14) - 1;

/// The configuration of the whole data plane, in the form that the packet path reads.
#[derive(Debug)]
pub struct Snapshot {
    /// By port number.
    pub ports: Vec<PortPlan>,
    /// How long a silent station is remembered, in nanoseconds.
    pub ageing_ns: u64,
    /// How many stations the table may hold.
    pub mac_table: usize,
    /// The deep buffer.
    pub deep_buffer: DeepBufferSettings,
    /// Configured stations and their ports.
    pub static_macs: Vec<(MacKey, PortId)>,
    /// Where the plan of a fabric node is published; none for a switch. It is apart from the
    /// snapshot since routes come and go by the thousand, ports and settings do not.
    pub fabric: Option<PublishedFabric>,
    /// Where a router finds plan and tables; none for a box that does not route.
    pub router: Option<RouterSource>,
    /// Whether any port of the fabric takes frames of named data.
    pub(crate) has_named_in_fabric: bool,
    /// For each VLAN the ports that carry it.
    members: Vec<Box<[PortId]>>,
}

/// One port's part of the snapshot.
#[derive(Debug)]
pub struct PortPlan {
    /// Its name, as in the configuration.
    pub name: String,
    /// The worker that owns it.
    pub worker: usize,
    /// The VLAN of untagged frames, in and out; 0 if untagged frames are refused.
    pub native: u16,
    /// What was configured.
    pub settings: PortSettings,
    /// It is the fabric's. Other ports of a fabric node are in VLANs, as those of any other box.
    pub in_fabric: bool,
    /// Frames of named data that come in here for this address, or for the group, go to the
    /// forwarder of names. `None`: they are frames like others.
    pub named: Option<MacAddr>,
    /// One bit per VLAN carried, the native one included.
    carried: Box<[u64; VLANS / 64]>,
}

impl PortPlan {
    /// True if frames of this VLAN may pass here.
    #[inline]
    pub fn carries(&self, vlan: u16) -> bool {
        self.carried[usize::from(vlan >> 6) % (VLANS / 64)] >> (vlan & 63) & 1 == 1
    }

    /// True if stations of this VLAN may be learned here.
    pub(crate) fn may_learn(&self, vlan: u16) -> bool {
        self.settings.learning && self.carries(vlan)
    }
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// More ports than the tables can name.
    #[error("{0} ports are more than the {PORTS_MAX} that one box can have")]
    TooManyPorts(usize),
    /// A VLAN outside 1 to 4094 at this port.
    #[error("port {0}: VLAN {1} is not between 1 and 4094")]
    Vlan(String, u16),
    /// More configured stations than the table holds.
    #[error("{0} static MACs do not fit a table of {1}: raise mac_table")]
    TooManyStatic(usize, usize),
    /// A configured station names a port that does not exist.
    #[error("a static MAC names port {0}, which does not exist")]
    UnknownPort(String),
    /// A configured station has a group address or a VLAN that its port does not carry.
    #[error("static MAC {0}: the address must be unicast and its port carry the VLAN")]
    StaticMac(String),
}

impl Snapshot {
    /// Checks settings and puts them in the packet path's form. `ports`: name, owning worker and
    /// settings, in the order of their numbers.
    ///
    /// # Errors
    /// When the settings contradict themselves; see [`SnapshotError`].
    pub fn new(
        ports: Vec<(String, usize, PortSettings)>,
        switch: &SwitchSettings,
    ) -> Result<Snapshot, SnapshotError> {
        if ports.len() > PORTS_MAX {
            return Err(SnapshotError::TooManyPorts(ports.len()));
        }
        let ports: Vec<PortPlan> = ports
            .into_iter()
            .map(|(name, worker, settings)| plan(name, worker, settings))
            .collect::<Result<_, _>>()?;
        if switch.static_macs.len() > switch.mac_table {
            return Err(SnapshotError::TooManyStatic(switch.static_macs.len(), switch.mac_table));
        }
        let mut static_macs = Vec::new();
        for entry in &switch.static_macs {
            let port = ports
                .iter()
                .position(|p| p.name == entry.port)
                .ok_or_else(|| SnapshotError::UnknownPort(entry.port.clone()))?;
            let valid = !entry.mac.is_multicast()
                && entry.mac.to_u64() != 0
                && (1..=4094).contains(&entry.vlan)
                && ports[port].carries(entry.vlan);
            if !valid {
                let text = format!("{} in VLAN {} on {}", entry.mac, entry.vlan, entry.port);
                return Err(SnapshotError::StaticMac(text));
            }
            static_macs.push((MacKey::new(entry.vlan, entry.mac), port as PortId));
        }
        let members = (0..VLANS as u16)
            .map(|vlan| {
                let carrying = ports.iter().enumerate().filter(|(_, p)| p.carries(vlan));
                carrying.map(|(i, _)| i as PortId).collect()
            })
            .collect();
        Ok(Snapshot {
            ports,
            ageing_ns: u64::try_from(switch.ageing.as_nanos()).unwrap_or(u64::MAX),
            mac_table: switch.mac_table,
            deep_buffer: switch.deep_buffer,
            static_macs,
            fabric: None,
            router: None,
            has_named_in_fabric: false,
            members,
        })
    }

    /// Whether there is a port of this number that is the fabric's.
    pub(crate) fn is_in_fabric(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port)).is_some_and(|plan| plan.in_fabric)
    }

    /// The same box as a node of a fabric, whose ports are those for which `is_in_fabric` is true.
    /// The fabric's ports are in no VLAN. Without other ports there is nothing to switch, and the
    /// table of stations is minimal.
    pub fn with_fabric(
        mut self,
        fabric: PublishedFabric,
        is_in_fabric: impl Fn(PortId) -> bool,
    ) -> Snapshot {
        for (id, port) in (0..).zip(&mut self.ports) {
            port.in_fabric = is_in_fabric(id);
        }
        let ports = &self.ports;
        let is_switched = |id: &PortId| !ports[usize::from(*id)].in_fabric;
        for members in &mut self.members {
            *members = members.iter().copied().filter(is_switched).collect();
        }
        self.static_macs.retain(|(_, port)| is_switched(port));
        if ports.iter().all(|port| port.in_fabric) {
            (self.mac_table, self.members) = (1, vec![]);
        }
        Snapshot { fabric: Some(fabric), ..self }.note_named()
    }

    /// The same box, whose port takes frames of named data for this address.
    pub fn with_named(mut self, port: PortId, own: MacAddr) -> Snapshot {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.named = Some(own);
        }
        self.note_named()
    }

    fn note_named(mut self) -> Snapshot {
        self.has_named_in_fabric = self.ports.iter().any(|p| p.in_fabric && p.named.is_some());
        self
    }

    /// The same box as a router, whose interfaces are some of its VLANs.
    pub fn with_router(self, router: RouterSource) -> Snapshot {
        Snapshot { router: Some(router), ..self }
    }

    /// A place to publish this and later snapshots.
    pub fn publish(self) -> Published {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// The ports that carry a VLAN, in order.
    #[inline]
    pub fn members(&self, vlan: u16) -> &[PortId] {
        self.members.get(usize::from(vlan)).map_or(&[], |ports| ports)
    }
}

fn plan(name: String, worker: usize, settings: PortSettings) -> Result<PortPlan, SnapshotError> {
    let mut carried = Box::new([0u64; VLANS / 64]);
    let (ranges, native) = match &settings.vlan {
        VlanMode::Access(vlan) => (vec![(*vlan, *vlan)], Some(*vlan)),
        VlanMode::Trunk { allowed, native } => {
            let mut ranges = allowed.clone();
            ranges.extend(native.map(|n| (n, n)));
            (ranges, *native)
        }
    };
    for (low, high) in ranges {
        for end in [low, high] {
            if !(1..=4094).contains(&end) {
                return Err(SnapshotError::Vlan(name, end));
            }
        }
        for vlan in low..=high {
            carried[usize::from(vlan >> 6)] |= 1 << (vlan & 63);
        }
    }
    let native = native.unwrap_or(0);
    Ok(PortPlan { name, worker, native, settings, in_fabric: false, named: None, carried })
}
