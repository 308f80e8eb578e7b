//! The registry of what `plexus show` can show.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{fabric, named, node, router};

/// Makes of each entry a [`Topic`] with its name and help, and a variant of [`Answer`].
macro_rules! questions {
    ($($(#[doc = $help:literal])+ $topic:ident, $name:literal => $answer:ty;)+) => {
        /// A question of `plexus show`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Topic {
            $($(#[doc = $help])+ #[serde(rename = $name)] $topic,)+
        }

        impl Topic {
            /// All of them, in the order of the help.
            pub const ALL: &[Topic] = &[$(Topic::$topic),+];

            /// Its name on the command line and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Topic::$topic => $name),+ }
            }

            /// One sentence for the help.
            pub fn help(self) -> &'static str {
                match self { $(Topic::$topic => concat!($($help),+).trim_ascii()),+ }
            }
        }

        /// The answer to a [`Topic`].
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Answer {
            $($(#[doc = $help])+ $topic($answer),)+
        }

        impl Answer {
            /// Reads the answer to a topic.
            ///
            /// # Errors
            /// When the JSON is something else.
            pub fn read(topic: Topic, json: Value) -> serde_json::Result<Answer> {
                match topic {
                    $(Topic::$topic => serde_json::from_value(json).map(Answer::$topic)),+
                }
            }
        }
    };
}

questions! {
    /// Each port's link, rate and counts.
    Ports, "ports" => node::Ports;
    /// The stations that the switch knows.
    Macs, "macs" => node::Macs;
    /// Where every packet went: the account, and drops by reason.
    Drops, "drops" => Of<node::Drops, fabric::Unserved>;
    /// A node's version, workers and free frames.
    Node, "node" => node::State;
    /// Flows that the kernel forwards in the node's place, and how much of each port's traffic.
    FastTable, "fast-table" => node::FastTable;
    /// The deep buffer: what waits there, which drops it has avoided, and the delay that this cost.
    Buffers, "buffers" => node::Buffers;
    /// Sources of low-rate bursts.
    Suspects, "suspects" => node::Suspects;
    /// The role of each port of a fabric node, and its neighbour.
    Links, "links" => Of<fabric::Links, fabric::Topology>;
    /// The hosts: of a node those on its ports, of a controller all.
    Hosts, "hosts" => Of<fabric::Stations, fabric::Hosts>;
    /// Multicast groups: of a node who has joined what, and its trees; of a controller all trees.
    Groups, "groups" => Of<fabric::Joined, fabric::Groups>;
    /// The route memory of a fabric node.
    SourceRoutes, "source-routes" => fabric::SourceRoutes;
    /// The nodes and links that a controller knows.
    Topology, "topology" => fabric::Topology;
    /// Of a node its flows with most traffic, where they are, and why: a sample of a second. Of a
    /// controller the routes that it has handed out.
    Flows, "flows" => Of<node::Flows, fabric::Flows>;
    /// The addresses that a controller has leased by DHCP.
    Leases, "leases" => fabric::Leases;
    /// The group's controllers: which one leads, since when, and how their store is.
    Controllers, "controllers" => fabric::Controllers;
    /// The group's router: of a controller its table and each node's copy, of a node its own copy.
    Router, "router" => Of<fabric::RouterCopy, fabric::GroupRouter>;
    /// A router's interfaces, and how much is in its forwarding tables.
    Fib, "fib" => router::Fib;
    /// A router's neighbours and their Ethernet addresses.
    Neighbours, "neighbours" => router::Neighbours;
    /// A named-data forwarder's faces.
    Faces, "faces" => named::Faces;
    /// Its routes by name, its strategies, and what is pending.
    Names, "names" => named::Names;
    /// Its content store.
    Cache, "cache" => named::Cache;
}

impl Topic {
    /// The topic of a name.
    pub fn of_name(name: &str) -> Option<Topic> {
        Topic::ALL.iter().copied().find(|topic| topic.name() == name)
    }
}

/// An answer that a node gives in one form, and a controller in another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Of<N, C> {
    /// A node's.
    Node(N),
    /// A controller's.
    Controller(C),
}
