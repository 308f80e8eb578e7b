//! Lookup structures of the packet path.
//!
//! They know nothing of packets or ports: keys and small integers go in, and every structure takes
//! its randomness and its time stamps from the caller.

mod aging;
mod flows;
mod grace;
mod hash;
pub mod lpm;
mod mac;
pub mod names;
mod pages;
mod prefetch;
mod routes;
mod stations;

pub use aging::AgingBits;
pub use flows::{Counted, FlowCounts, FlowHash, FlowSlot, FlowTable, PackedFlow};
pub use mac::{Full, Hashed, MacKey, MacTable, Slot, Station};
pub use prefetch::prefetch;
pub use routes::{Found, PortRoutes, Probe, ROUTES_MAX, Route, RouteKey, RouteSet};
pub use stations::Stations;
