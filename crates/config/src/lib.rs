//! Configuration files: units, settings, and errors that name file and line.
//!
//! A node reads a [`NodeFile`], a controller a [`ControllerFile`]. `plexus-topo` reads the topology
//! file with the same [`document`] and the same [`PortSettings`].

mod address;
mod backend;
mod classes;
mod common;
mod controller;
mod controller_settings;
mod deep_buffer;
pub mod document;
pub mod error;
mod etcd;
mod fast_table;
pub mod hex;
pub mod name;
mod named;
mod node;
mod outside;
pub mod port;
mod route_file;
mod router;
mod settings;
mod tunnel;
pub mod units;
mod web;

pub use address::{
    InterfaceAddress, parse_interface_address, parse_prefix, parse_route_prefix, read_addresses,
};
pub use backend::Backend;
pub use classes::{CLASSES_MAX, FUNCTIONS_MAX, Otherwise, TrafficClass};
pub use common::{COMMON_MAX, COMMON_VERSION_MAX, CommonFile, is_common_file, with_common_part};
pub use controller::{ControllerFile, with_revoked};
pub use controller_settings::{
    Balance, ControllerLimits, ControllerSettings, FORWARDERS_MAX, Forwarder, GroupRule, HostGroup,
    MULTICAST_RULES_MAX, Members, MulticastRule, OUTSIDE_ROUTES_MAX, OutsideRoute, REVOKED_MAX,
    Reservation, Revoked, RoutePolicy, SUBNET_MTU, Subnet,
};
pub use deep_buffer::{ChipSettings, DeepBufferSettings, Detector, Suspects};
pub use error::{FileError, Problem, ValueError};
pub use etcd::EtcdSettings;
pub use fast_table::FastTable;
pub use name::KERNEL_PEER;
pub use named::{
    NamedDisk, NamedDispatch, NamedEthernet, NamedFace, NamedRoute, NamedSecret, NamedSettings,
    NamedStrategy, StrategyName,
};
pub use node::{FabricFile, NodeFile, PortFile};
pub use port::FaultSettings;
pub use route_file::{ROUTE_LINE, read_route_file};
pub use router::{
    Gateway, InterfacePlace, InterfaceSettings, ReversePath, RouterSettings, StaticRoute, Via,
    routed_port,
};
pub use settings::{
    LaneChoice, PortSettings, PortUse, QueueOrder, QueueSettings, StaticMac, StormSettings,
    SwitchSettings, Trust, VlanMode,
};
pub use tunnel::{TUNNEL_PORT, Tunnel};
pub use web::WebSettings;
