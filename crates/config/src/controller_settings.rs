//! Settings of a controller's core: everything except paths.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use plexus_wire::fabric::{PLACES_MAX, Partition, reserved_groups};
use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

use crate::classes::TrafficClass;
use crate::words;

/// How routes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutePolicy {
    /// One shortest path, always the same.
    Shortest,
    /// Up to eight shortest paths, lanes included; conversations are spread over them.
    #[default]
    Ecmp,
    /// The path of least load, which may be a little longer (SPAIN).
    Spain,
}

words!(RoutePolicy { Shortest = "shortest", Ecmp = "ecmp", Spain = "spain" });

/// How flows are spread over forwarders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// By their weights alone.
    #[default]
    Weights,
    /// By their weights, but a forwarder that is much busier than another gets fewer.
    Load,
}

words!(Balance { Weights = "weights", Load = "load" });

/// Configuration of the controller's core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ControllerSettings {
    /// The group's Ethernet address: source of DHCP answers and probes, never a host's.
    pub group_mac: MacAddr,
    /// How routes are chosen.
    pub policy: RoutePolicy,
    /// The networks that the group serves.
    pub subnets: Vec<Subnet>,
    /// Hosts with fixed IPv4 addresses.
    pub reservations: Vec<Reservation>,
    /// Groups of hosts, in the order of the file.
    pub groups: Vec<HostGroup>,
    /// Whether hosts may talk to each other without a rule or a common group.
    pub strangers_may_talk: bool,
    /// Pairs that may talk.
    pub allow: Vec<GroupRule>,
    /// Pairs that may not; a denial overrides a permission.
    pub deny: Vec<GroupRule>,
    /// Groups of receivers that are served, the first rule that fits; others are not.
    pub multicast: Vec<MulticastRule>,
    /// Where packets for other networks go.
    pub routes: Vec<OutsideRoute>,
    /// The nodes that route for all others; with none, each node routes.
    pub forwarders: Vec<Forwarder>,
    /// How flows are spread over them.
    pub balance: Balance,
    /// Routed packets that pass a host on their way, the first class that fits.
    pub classes: Vec<TrafficClass>,
    /// How many of these hold each part of the table; `None`: each holds all of it.
    pub copies: Option<u8>,
    /// A file of further routes: [`ControllerSettings::load_routes`] adds them to `routes`.
    pub routes_file: Option<PathBuf>,
    /// Boxes that are no longer of the group, though they have its authority's credentials.
    pub revoked: Vec<Revoked>,
    /// Nodes, by name, that routes avoid: before work on them.
    pub drained: Vec<String>,
    /// Bounds.
    pub limits: ControllerLimits,
}

impl Default for ControllerSettings {
    fn default() -> ControllerSettings {
        ControllerSettings {
            group_mac: MacAddr([0x02, 0x50, 0x4C, 0x58, 0x00, 0x01]),
            policy: RoutePolicy::default(),
            subnets: Vec::new(),
            reservations: Vec::new(),
            groups: Vec::new(),
            strangers_may_talk: true,
            allow: Vec::new(),
            deny: Vec::new(),
            multicast: Vec::new(),
            routes: Vec::new(),
            forwarders: Vec::new(),
            balance: Balance::default(),
            classes: Vec::new(),
            copies: None,
            routes_file: None,
            revoked: Vec::new(),
            drained: Vec::new(),
            limits: ControllerLimits::default(),
        }
    }
}

/// A key with which no box has a session any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revoked {
    /// The name of the box that had it, for people.
    pub name: String,
    /// The public key of its credential.
    pub key: [u8; 32],
}

/// A network that the group serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subnet {
    /// Its addresses.
    pub prefix: Prefix,
    /// The group's own address in it: the router and DHCP server that hosts see.
    pub gateway: Option<IpAddr>,
    /// First and last address that are leased; IPv4 with a gateway only.
    pub range: Option<(Ipv4Addr, Ipv4Addr)>,
    /// A DHCP server that is a host of the fabric: it leases instead of this group.
    pub relay: Option<Ipv4Addr>,
    /// The group whose hosts are served from it; `None`: hosts whose groups have no subnet.
    pub group: Option<String>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Domain of the hosts' names.
    pub domain: Option<String>,
    /// Time servers.
    pub ntp: Vec<Ipv4Addr>,
    /// How long a lease lasts, in seconds.
    pub lease_s: u32,
    /// Largest IP packet of hosts in bytes. If it is given, it is announced to them.
    pub mtu: Option<u16>,
    /// The IPv6 prefix is advertised to hosts, which configure addresses in it.
    pub advertise: bool,
    /// The device beside the controller that has the group's address too, for routing daemons.
    pub device: Option<String>,
}

/// Largest IP packet of hosts, unless their network's settings say less: what the fabric carries.
pub const SUBNET_MTU: u16 = 1500;

impl Subnet {
    /// A network with only a prefix.
    pub fn new(prefix: Prefix) -> Subnet {
        Subnet {
            prefix,
            gateway: None,
            range: None,
            relay: None,
            group: None,
            dns: Vec::new(),
            domain: None,
            ntp: Vec::new(),
            lease_s: 3600,
            mtu: None,
            advertise: false,
            device: None,
        }
    }

    /// Largest IP packet that its hosts take, in bytes.
    pub fn longest_packet(&self) -> u16 {
        self.mtu.unwrap_or(SUBNET_MTU)
    }
}

/// A host with a fixed IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// The host.
    pub mac: MacAddr,
    /// Its address.
    pub ip: Ipv4Addr,
}

/// Hosts that belong together: those that any of the lists names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostGroup {
    /// Its name.
    pub name: String,
    /// Stations. A host can send from any address that no other host has: prefer ports where hosts
    /// are not trusted.
    pub macs: Vec<MacAddr>,
    /// Ports: a node's name and the port's number there.
    pub ports: Vec<(String, u8)>,
    /// Hosts with an address in one of these.
    pub prefixes: Vec<Prefix>,
}

/// Most routes to other networks that are written into the controller's file itself.
pub const OUTSIDE_ROUTES_MAX: usize = 4096;

/// A route of the group's router to another network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutsideRoute {
    /// The destinations. Routes with the same ones share their flows.
    pub prefix: Prefix,
    /// The host that leads there, in a subnet with a gateway.
    pub via: IpAddr,
}

/// Most forwarders, each counted as often as its weight says: what an entry of route memory holds.
pub const FORWARDERS_MAX: usize = PLACES_MAX;

/// A node that routes for others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Forwarder {
    /// Its name.
    pub node: String,
    /// Its share of the flows.
    pub weight: u8,
}

impl ControllerSettings {
    /// How the table is shared out among the forwarders; `None`: each holds all of it.
    pub fn partition(&self) -> Option<Partition> {
        let places: Vec<u8> = self.forwarders.iter().map(|forwarder| forwarder.weight).collect();
        self.copies.and_then(|copies| Partition::new(&places, copies))
    }
}

/// Most rules about groups of receivers: what one message to a node holds.
pub const MULTICAST_RULES_MAX: usize = 64;
/// Most revoked keys: each node has all of them.
pub const REVOKED_MAX: usize = 2688;

/// How frames to some multicast groups are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MulticastRule {
    /// The groups: multicast addresses, without those reserved for the fabric.
    pub groups: Prefix,
    /// The receivers of their frames.
    pub members: Members,
}

/// The members of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Members {
    /// Every host for which the sender may ask.
    All,
    /// Of these, the hosts that have joined by IGMP or MLD.
    Joined,
}

words!(Members { All = "all", Joined = "joined" });

impl MulticastRule {
    /// The fabric's own group that is among these, if one is.
    pub fn reserved(&self) -> Option<IpAddr> {
        let own = reserved_groups().find(|(ip, len)| {
            self.groups.contains(*ip)
                || Prefix::around(*ip, *len).is_ok_and(|p| p.contains(self.groups.addr()))
        });
        own.map(|(ip, _)| ip)
    }
}

/// Hosts of one group asking for hosts of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupRule {
    /// The asking hosts' group; `None`: any host.
    pub from: Option<String>,
    /// The group of the requested hosts; `None`: any host.
    pub to: Option<String>,
}

/// Declares the limits once: field, key in files, usual value, range, meaning.
macro_rules! limits {
    ($($field:ident: $usual:literal, $range:expr, $doc:literal;)*) => {
        /// Bounds on what hosts can make the controller keep or do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub struct ControllerLimits { $(#[doc = $doc] pub $field: u32,)* }

        impl Default for ControllerLimits {
            fn default() -> ControllerLimits {
                ControllerLimits { $($field: $usual,)* }
            }
        }

        impl ControllerLimits {
            pub(crate) fn read(section: &crate::document::Section<'_>) -> ControllerLimits {
                let usual = ControllerLimits::default();
                ControllerLimits {
                    $($field: section.integer_or(stringify!($field), $range, usual.$field),)*
                }
            }

            pub(crate) fn write(&self, lines: &mut crate::document::Lines, above: &str) {
                let usual = ControllerLimits::default();
                if *self == usual {
                    return;
                }
                lines.heading(&format!("[{above}limits]"));
                $(lines.unusual(stringify!($field), &self.$field, &usual.$field);)*
            }
        }
    };
}

limits! {
    node_timeout_ms: 3000, 100..=600_000, "A node that is not heard of for so long is down.";
    probe_timeout_ms: 300, 10..=10_000, "A station that does not answer for so long is not there.";
    settle_ms: 2000, 0..=600_000,
        "Routes reported to a controller that has started again may be unproved so long.";
    stations: 1_048_576, 1..=16_777_216, "Stations that are known.";
    stations_per_port: 256, 1..=65_536, "Stations at one port.";
    addresses_per_station: 16, 1..=1024, "IP addresses of one station.";
    flows: 4_194_304, 1..=268_435_456, "Entries of route memories.";
    flows_per_port: 16_384, 1..=1_048_576, "Entries of one port's route memory; one makes room.";
    routes: 2_000_000, 1..=2_000_000,
        "Routes to other networks, those that wait for a better one included. Further ones are \
         refused until others leave.";
    probes_per_s: 200, 1..=100_000, "Probes for addresses that no host is known to have.";
    probes_per_search: 8, 0..=64, "Stations that are probed for one such address.";
    scan_window_ms: 10_000, 100..=600_000, "Time over which a port's requests are counted.";
    scan_unknown: 64, 1..=65_536, "Addresses asked for in vain in that time; more is scanning.";
    scan_flows: 4096, 1..=1_048_576, "New flows in that time; more is scanning.";
    scan_hold_ms: 60_000, 100..=86_400_000, "How long a scanning port is closed.";
    trees: 65_536, 1..=1_048_576, "Trees along which frames to multicast groups are copied.";
    groups_per_port: 256, 1..=65_536, "Multicast groups that hosts at one port have joined.";
    senders_per_port: 64, 1..=65_536,
        "Multicast groups that hosts at one port send to; one makes room.";
    leases_per_port: 256, 1..=65_536,
        "Addresses offered, leased or declined at one port, and those in a range of DHCP that its \
         hosts have set themselves.";
    dhcp_per_s: 200, 1..=10_000, "DHCP messages and router solicitations of one port.";
    relayed_per_s: 1000, 1..=100_000, "DHCP messages of a port with a server that is relayed to.";
    offer_hold_ms: 30_000, 1000..=600_000, "How long an offered address is kept for its host.";
    decline_hold_s: 3600, 1..=604_800, "How long an address is not leased that was in use.";
}
