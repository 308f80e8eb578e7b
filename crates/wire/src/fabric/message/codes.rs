//! Named values in bodies, each a byte.

use super::{Error, Field, Reader, invalid};

codes! {
    /// The kind of neighbour at a port.
    PortRole, "port role" {
        /// No carrier.
        Down = 0,
        /// Not found out yet, or blocked after a conflict.
        Unknown = 1,
        /// An ordinary Ethernet device.
        Host = 2,
        /// A proved node.
        Fabric = 3,
        /// A proved controller.
        Controller = 4,
        /// A proved node over a link that is too small for a host's full-size frame.
        TooSmall = 5,
        /// Conflicting identities, or a loop through an ordinary switch.
        Conflict = 6,
        /// Closed by the controller's order.
        Blocked = 7,
    }
}

codes! {
    /// Why an address was not resolved, or a host or port refused.
    Refusal, "refusal" {
        /// No host is known to have the address.
        UnknownTarget = 1,
        /// The hosts may not talk to each other.
        Forbidden = 2,
        /// No path joins them now.
        NoPath = 3,
        /// The target does not answer.
        Silent = 4,
        /// The asking host asks for too many different addresses.
        Scanning = 5,
        /// The address belongs to a host that answers elsewhere.
        Claimed = 6,
        /// The address belongs to the group itself.
        Reserved = 7,
        /// The port has too many stations.
        TooMany = 8,
        /// The table is full.
        Full = 9,
        /// The controller that was asked stands by and cannot tell: ask the one that leads.
        AskLeader = 10,
    }
}

codes! {
    /// An order about a version of the common file.
    CommonVerb, "common verb" {
        /// Run it, and leave it again after a while.
        Try = 1,
        /// Keep it.
        Keep = 2,
        /// Leave it now.
        Leave = 3,
    }
}

codes! {
    /// The fate of a version of the common file at a node.
    CommonFate, "common fate" {
        /// Nothing: the node runs what it keeps.
        Kept = 1,
        /// It fits, and is not run yet.
        Ready = 2,
        /// It does not fit, or cannot be run.
        Refused = 3,
        /// It runs, until its time is over.
        OnTrial = 4,
    }
}
