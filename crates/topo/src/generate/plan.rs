//! What a shape consists of before it becomes a topology: names, places of hosts, joints.

/// Nodes by number, the places where hosts are, and which nodes are joined.
pub(crate) struct Plan {
    /// The nodes' names.
    pub(crate) names: Vec<String>,
    /// Where hosts are cabled: to one node, or to two by an interface each.
    pub(crate) sites: Vec<Site>,
    /// Which nodes are joined, and how.
    pub(crate) joints: Vec<Joint>,
}

/// Where a group of hosts is cabled.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    /// The node of their first interface.
    pub(crate) first: usize,
    /// The node of their second interface, if they have one.
    pub(crate) second: Option<usize>,
}

/// Two nodes that are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Joint {
    /// The two nodes.
    pub(crate) ends: [usize; 2],
    /// Parallel cables, before the options multiply them.
    pub(crate) lanes: usize,
    /// How many times as fast as the rate of links each cable is.
    pub(crate) speed: u64,
}

impl Joint {
    /// One cable at the usual rate.
    pub(crate) fn single(a: usize, b: usize) -> Joint {
        Joint { ends: [a, b], lanes: 1, speed: 1 }
    }
}

impl Plan {
    /// Nodes `s1`, `s2` …, each with hosts.
    pub(crate) fn alike(nodes: usize, joints: Vec<Joint>) -> Plan {
        let names = (1..=nodes).map(|i| format!("s{i}")).collect();
        Plan { names, sites: (0..nodes).map(Site::at).collect(), joints }
    }
}

impl Site {
    /// At one node.
    pub(crate) fn at(node: usize) -> Site {
        Site { first: node, second: None }
    }
}
