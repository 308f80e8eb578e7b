//! Events of the kernel's routes, in the router's terms.

use std::net::IpAddr;

use plexus_wire::MacAddr;

/// The kernel's number of its main table, where routing daemons write.
pub const TABLE_MAIN: u32 = 254;
/// The kernel's number of the table with its own addresses, which it writes itself.
pub const TABLE_LOCAL: u32 = 255;

/// The key of a route: a later event with the same key replaces the earlier one.
///
/// Of several routes with different metrics for one prefix, the one with the lowest metric wins;
/// the local table comes before the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    /// Address without host bits, and the prefix's length in bits.
    pub prefix: (IpAddr, u8),
    /// [`TABLE_MAIN`] or [`TABLE_LOCAL`].
    pub table: u32,
    /// The lower, the better.
    pub metric: u32,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The kernel's number of the device. While [`KernelEvent::Device`] reports that it is not up,
    /// the hop must not be used: the kernel reports only the device.
    pub device: u32,
    /// The neighbour to send to; `None` if the destination itself is the neighbour. It may be of
    /// the other family: IPv4 through an IPv6 neighbour (RFC 5549, RTA_VIA).
    pub gateway: Option<IpAddr>,
    /// Its weight among the route's hops, at least 1.
    pub weight: u16,
    /// The gateway is a neighbour on this device although no prefix there contains it.
    pub on_link: bool,
}

/// What happens to packets on a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelRoute {
    /// They leave by one of these, at least one, in ascending order.
    Via(Vec<Hop>),
    /// They have arrived: the address is the router's own.
    Local,
    /// They have arrived, and go to all other stations on the link too (IPv4).
    Broadcast,
    /// Dropped in silence.
    Blackhole,
    /// Dropped; the sender is told that the destination is unreachable. Includes `throw` routes,
    /// because no table follows the main one.
    Unreachable,
    /// Dropped; the sender is told that it is administratively prohibited.
    Prohibited,
    /// The kernel would wrap them up (MPLS, segment routing), which we do not.
    Encapsulated,
}

/// An event of the kernel. Every event gives the complete new state of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// Everything there is will be named from here to [`ResyncEnd`](KernelEvent::ResyncEnd), along
    /// with changes that happen meanwhile. A second one without an end between starts over.
    ResyncBegin,
    /// Everything known before the last [`ResyncBegin`](KernelEvent::ResyncBegin) and not named
    /// since then is gone.
    ResyncEnd,
    /// A present or removed route. Not reported: routes in other tables, for one source or type of
    /// service, to multicast and anycast addresses, within fe80::/10 (which name no device).
    Route {
        /// Which one.
        key: RouteKey,
        /// Its origin: 2 kernel, 3 boot, 4 static, 12 BIRD, 186 BGP, 188 OSPF, …
        /// (/etc/iproute2/rt_protos).
        protocol: u8,
        /// The kernel's next-hop object that it goes by, 0 if by none.
        next_hop: u32,
        /// What happens to packets; `None` if the route was removed.
        route: Option<KernelRoute>,
    },
    /// The new state of all routes that use this next-hop object; `None`: they were removed. The
    /// routes themselves are not reported again. Objects without routes are reported too.
    NextHop {
        /// The kernel's number of the object.
        id: u32,
        /// What happens to packets.
        route: Option<KernelRoute>,
    },
    /// An address of the router, or one no longer. IPv6 addresses count once duplicate address
    /// detection is over.
    Address {
        /// The kernel's number of the device.
        device: u32,
        /// The address itself.
        address: IpAddr,
        /// How many leading bits are the subnet's; all, if the address implies no subnet: otherwise
        /// a route reports it.
        prefix_len: u8,
        /// Whether it is there.
        present: bool,
    },
    /// A network device, or one no longer.
    Device {
        /// The kernel's number, which a device of the same name made later does not share.
        index: u32,
        /// Its name; it may change.
        name: String,
        /// Its Ethernet address, if it has one.
        mac: Option<MacAddr>,
        /// Largest payload in bytes.
        mtu: u32,
        /// Set up, and with a carrier.
        up: bool,
        /// Whether it is there.
        present: bool,
    },
}
