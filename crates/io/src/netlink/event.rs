//! What the kernel tells of its routes, in the router's words.

use std::net::IpAddr;

use plexus_wire::MacAddr;

/// The kernel's number of its main table, where routing daemons write.
pub const TABLE_MAIN: u32 = 254;
/// The kernel's number of the table with its own addresses, which it writes itself.
pub const TABLE_LOCAL: u32 = 255;

/// What makes a route one route: a later event with the same key takes the earlier one's place.
///
/// Where there are routes of several metrics for one prefix, the one of the lowest metric
/// counts; the local table comes before the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    /// Address, with zeros behind the prefix, and the prefix's length in bits.
    pub prefix: (IpAddr, u8),
    /// [`TABLE_MAIN`] or [`TABLE_LOCAL`].
    pub table: u32,
    /// The lower, the better.
    pub metric: u32,
}

/// One way that packets may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The kernel's number of the device. While [`KernelEvent::Device`] says that it is not up,
    /// the hop is not to be used: the kernel tells that of the device alone.
    pub device: u32,
    /// The neighbour to send to; `None` if the destination itself is the neighbour. It may be of
    /// the other family: IPv4 by way of an IPv6 neighbour (RFC 5549, RTA_VIA).
    pub gateway: Option<IpAddr>,
    /// Its share among the route's hops, 1 or more.
    pub weight: u16,
    /// The gateway is a neighbour on this device though no prefix there says so.
    pub on_link: bool,
}

/// What becomes of packets on a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelRoute {
    /// They leave by one of these, at least one, in ascending order.
    Via(Vec<Hop>),
    /// They have arrived: the address is the router's own.
    Local,
    /// They have arrived, and others hear them too (IPv4).
    Broadcast,
    /// Dropped in silence.
    Blackhole,
    /// Dropped; the sender hears that the destination is unreachable. A `throw` route is one as
    /// well, as no table comes after the main one.
    Unreachable,
    /// Dropped; the sender hears that an administrator forbids it.
    Prohibited,
    /// The kernel would wrap them up (MPLS, segment routing), which we do not.
    Encapsulated,
}

/// One thing that the kernel said. Every event gives the whole new state of what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// Everything there is will be named from here to [`ResyncEnd`](KernelEvent::ResyncEnd), along
    /// with changes that happen meanwhile. A second one without an end between starts over.
    ResyncBegin,
    /// What was known before the last [`ResyncBegin`](KernelEvent::ResyncBegin) and has not been
    /// named since is gone.
    ResyncEnd,
    /// A route that is there, or was. Not told: routes in other tables, for one source or type of
    /// service, to multicast and anycast addresses, within fe80::/10 (which name no device).
    Route {
        /// Which one.
        key: RouteKey,
        /// Who wrote it: 2 kernel, 3 boot, 4 static, 12 BIRD, 186 BGP, 188 OSPF, …
        /// (/etc/iproute2/rt_protos).
        protocol: u8,
        /// The kernel's next-hop object that it goes by, 0 if by none.
        next_hop: u32,
        /// What becomes of packets; `None` if the route is gone.
        route: Option<KernelRoute>,
    },
    /// All routes that go by this next-hop object now do this; `None`: they are gone. The routes
    /// themselves are not told again. Objects without routes are told too.
    NextHop {
        /// The kernel's number of the object.
        id: u32,
        /// What becomes of packets.
        route: Option<KernelRoute>,
    },
    /// An address of the router, or one no longer. IPv6 addresses count once duplicate address
    /// detection is over.
    Address {
        /// The kernel's number of the device.
        device: u32,
        /// The address itself.
        address: IpAddr,
        /// How many leading bits are the subnet's; all, if no subnet follows from the address:
        /// where there is one, a route tells.
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
