//! The shapes: which sizes can be, what they are called, what they consist of.

use super::plan::{Joint, Plan, Site};
use super::{DEVICES_MAX, LINKS_MAX, ShapeError, random, regular};

/// How the nodes are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each node with the next.
    Line {
        /// How many nodes, at least 1.
        nodes: usize,
    },
    /// Each node with the next, and the last with the first.
    Ring {
        /// How many nodes, at least 3.
        nodes: usize,
    },
    /// One node in the middle, `s1`, joined with every other; hosts are on the others.
    Star {
        /// How many nodes besides the one in the middle, at least 1.
        leaves: usize,
    },
    /// A grid that closes in every dimension. In a dimension of 2 the two nodes have one link.
    Torus {
        /// Nodes along each dimension, each at least 2.
        sides: Vec<usize>,
    },
    /// Edge, aggregation and core, all of boxes with the same number of ports (Al-Fares,
    /// Loukissas, Vahdat 2008, which PortLand and axon.txt §5 take). Hosts are on the edge.
    FatTree {
        /// Ports of each box, even, at least 2.
        ports: usize,
    },
    /// A k-ary n-flat flattened butterfly (Kim, Dally, Abts 2007): k^(n - 1) nodes in n - 1
    /// dimensions, in each of which every two are joined; k hosts on each node make it complete.
    /// Dilated, every channel is `dilation` times as wide (netfpga-aurora.txt §4).
    Butterfly {
        /// k: nodes along each dimension, at least 2.
        ary: usize,
        /// n: dimensions and one more, at least 2.
        flat: usize,
        /// How many times as wide the channels are, at least 1.
        dilation: usize,
        /// In this many dimensions, the last, the width is that of one faster cable; in the
        /// others it is that of several cables.
        fast: usize,
    },
    /// A folded Clos network of two levels: every leaf joined with every spine.
    Clos {
        /// Boxes with hosts.
        leaves: usize,
        /// Boxes without; with at most as many hosts on a leaf, any permutation can be carried.
        spines: usize,
    },
    /// A Clos network of three stages as the seed counts its boards (netfpga-aurora.txt §4): a
    /// box's inputs and outputs are cabled apart, and so are a host's.
    UnfoldedClos {
        /// Boxes of the input stage, and of the output stage.
        outer: usize,
        /// Boxes between them.
        middle: usize,
    },
    /// The Axon paper's random graph (axon.txt §5), there with a mean degree of 4 (random-low)
    /// or of the flattened butterfly with as many nodes (random-high).
    Random {
        /// How many nodes, at least 3.
        nodes: usize,
        /// Mean number of links of a node, from 2 to one less than nodes.
        degree: usize,
        /// Where the random choices start.
        seed: u64,
    },
    /// A random regular graph (Singla et al. 2012).
    Jellyfish {
        /// How many nodes, at least 3.
        nodes: usize,
        /// Links of every node, from 2 to one less than nodes.
        degree: usize,
        /// Where the random choices start.
        seed: u64,
    },
    /// Groups of nodes, complete inside and joined by global links (Kim, Dally, Scott, Abts 2008).
    Dragonfly {
        /// Nodes of a group.
        routers: usize,
        /// Global links of a node.
        global: usize,
        /// How many groups: at most one more than a group has global links.
        groups: usize,
    },
    /// The distributed router of two stages (distributed-router.txt §V): layer-2 boxes in front,
    /// which share the hosts' packets out among the layer-3 boxes behind.
    TwoStage {
        /// Boxes in front, with hosts.
        fronts: usize,
        /// Boxes behind.
        backs: usize,
    },
}

impl Shape {
    /// Hosts on each node that has any, unless one says otherwise: as many as make the shape
    /// complete, or 1.
    pub fn usual_hosts(&self) -> usize {
        match self {
            Shape::FatTree { ports } => ports / 2,
            Shape::Butterfly { ary, .. } => *ary,
            Shape::Clos { spines, .. } => *spines,
            Shape::UnfoldedClos { middle, .. } => *middle,
            Shape::Dragonfly { global, .. } => *global,
            _ => 1,
        }
    }

    /// The Axon paper's random-high (axon.txt §5): a random graph with as many nodes and links as
    /// a k-ary n-flat flattened butterfly, k hosts on each node.
    pub fn random_high(ary: usize, flat: usize, seed: u64) -> Shape {
        let dimensions = flat.saturating_sub(1);
        let nodes = ary.saturating_pow(u32::try_from(dimensions).unwrap_or(u32::MAX));
        let degree = dimensions.saturating_mul(ary.saturating_sub(1));
        Shape::Random { nodes, degree, seed }
    }

    /// A dragonfly of so many groups, or of all that its global links can join.
    pub fn dragonfly(routers: usize, global: usize, groups: Option<usize>) -> Shape {
        let all = routers.saturating_mul(global).saturating_add(1);
        Shape::Dragonfly { routers, global, groups: groups.unwrap_or(all) }
    }

    /// Nodes along each dimension, where nodes have coordinates; the last coordinate moves fastest.
    pub(crate) fn sides(&self) -> Option<Vec<usize>> {
        match self {
            Shape::Ring { nodes } => Some(vec![*nodes]),
            Shape::Torus { sides } => Some(sides.clone()),
            Shape::Butterfly { ary, flat, .. } => Some(vec![*ary; flat.checked_sub(1)?]),
            _ => None,
        }
    }

    /// How many nodes and links it has; `None` when that is beyond counting.
    pub(super) fn size(&self) -> Option<(usize, usize)> {
        Some(match self {
            Shape::Line { nodes } | Shape::Ring { nodes } => (*nodes, *nodes),
            Shape::Star { leaves } => (leaves.checked_add(1)?, *leaves),
            Shape::Torus { sides } => {
                let nodes = sides.iter().try_fold(1_usize, |n, side| n.checked_mul(*side))?;
                (nodes, nodes.checked_mul(sides.len())?)
            }
            Shape::FatTree { ports } => {
                let half = ports / 2;
                let pods = ports.checked_mul(*ports)?;
                (pods.checked_add(half * half)?, pods.checked_mul(half)?)
            }
            Shape::Butterfly { ary, flat, .. } => {
                let dimensions = u32::try_from(flat.checked_sub(1)?).ok()?;
                let nodes = ary.checked_pow(dimensions)?;
                let degree = ary.checked_mul(dimensions as usize)?;
                (nodes, nodes.checked_mul(degree)? / 2)
            }
            Shape::Clos { leaves: a, spines: b } | Shape::TwoStage { fronts: a, backs: b } => {
                (a.checked_add(*b)?, a.checked_mul(*b)?)
            }
            Shape::UnfoldedClos { outer, middle } => {
                let links = outer.checked_mul(*middle)?.checked_mul(2)?;
                (outer.checked_mul(2)?.checked_add(*middle)?, links)
            }
            Shape::Random { nodes, degree, .. } | Shape::Jellyfish { nodes, degree, .. } => {
                (*nodes, nodes.checked_mul(*degree)? / 2)
            }
            Shape::Dragonfly { routers, global, groups } => {
                let nodes = routers.checked_mul(*groups)?;
                (nodes, nodes.checked_mul(routers.checked_add(*global)?)?)
            }
        })
    }

    /// Why these numbers make no such shape, and which do.
    fn flaw(&self) -> Option<String> {
        let told = match self {
            Shape::Line { nodes: 0 } => "a line has at least 1 node",
            Shape::Ring { nodes: 0..=2 } => "a ring has at least 3 nodes",
            Shape::Star { leaves: 0 } => "a star has at least 1 leaf",
            Shape::Torus { sides } if sides.is_empty() || sides.iter().any(|s| *s < 2) => {
                "a torus has at least 2 nodes along each dimension, as in 4x4"
            }
            Shape::FatTree { ports: 0 } => "a fat tree's boxes have 2, 4, 6 … ports",
            Shape::FatTree { ports } if ports % 2 == 1 => {
                return Some(format!(
                    "a fat tree's boxes have an even number of ports: take {} instead of {ports}",
                    ports.saturating_add(1)
                ));
            }
            Shape::Butterfly { ary: 0 | 1, .. } => {
                "a flattened butterfly has at least 2 nodes along each dimension: 2-ary or more"
            }
            Shape::Butterfly { flat: 0 | 1, .. } => {
                "an n-flat has n - 1 dimensions: n is 2 at least"
            }
            Shape::Butterfly { dilation: 0, .. } => "a dilation of 1 leaves channels as they are",
            Shape::Butterfly { flat, fast, .. } if *fast >= *flat => {
                return Some(format!(
                    "a {flat}-flat has {} dimensions, and {fast} cannot be fast",
                    flat - 1
                ));
            }
            Shape::Clos { leaves: 0, .. } | Shape::Clos { spines: 0, .. } => {
                "a folded Clos has at least 1 leaf and 1 spine"
            }
            Shape::UnfoldedClos { outer: 0, .. } | Shape::UnfoldedClos { middle: 0, .. } => {
                "an unfolded Clos has at least 1 box in each stage"
            }
            Shape::TwoStage { fronts: 0, .. } | Shape::TwoStage { backs: 0, .. } => {
                "a two-stage router has at least 1 box in front and 1 behind"
            }
            Shape::Random { nodes, degree, .. } | Shape::Jellyfish { nodes, degree, .. }
                if *nodes < 3 || !(2..*nodes).contains(degree) =>
            {
                return Some(format!(
                    "a random graph has at least 3 nodes and a degree from 2 to one less than \
                     nodes: {nodes} nodes of degree {degree} cannot be"
                ));
            }
            Shape::Jellyfish { nodes, degree, .. } if nodes % 2 == 1 && degree % 2 == 1 => {
                return Some(format!(
                    "{nodes} nodes with {degree} links each would leave half a link: take {} \
                     nodes, or a degree of {}",
                    nodes.saturating_add(1),
                    degree - 1
                ));
            }
            Shape::Dragonfly { routers: 0, .. } | Shape::Dragonfly { global: 0, .. } => {
                "a dragonfly's groups have at least 1 node, and a node at least 1 global link"
            }
            Shape::Dragonfly { routers, global, groups } => {
                let most = routers.checked_mul(*global).map_or(usize::MAX, |n| n.saturating_add(1));
                if (2..=most).contains(groups) {
                    return None;
                }
                return Some(format!(
                    "with {routers} nodes of {global} global links in a group there are 2 to \
                     {most} groups, and not {groups}"
                ));
            }
            _ => return None,
        };
        Some(told.to_string())
    }

    /// Refuses what cannot be made.
    pub(super) fn check(&self) -> Result<(), ShapeError> {
        if let Some(flaw) = self.flaw() {
            return Err(ShapeError(flaw));
        }
        match self.size() {
            Some((nodes, links)) if nodes <= DEVICES_MAX && links <= LINKS_MAX => Ok(()),
            _ => Err(ShapeError(format!(
                "at most {DEVICES_MAX} nodes and {LINKS_MAX} links between them are made"
            ))),
        }
    }

    /// What it consists of; the shape was checked.
    pub(super) fn plan(&self) -> Result<Plan, ShapeError> {
        let single = |[a, b]: [usize; 2]| Joint::single(a, b);
        Ok(match self {
            Shape::Line { nodes } => {
                Plan::alike(*nodes, (1..*nodes).map(|i| single([i - 1, i])).collect())
            }
            Shape::Ring { nodes } => {
                Plan::alike(*nodes, (0..*nodes).map(|i| single([i, (i + 1) % nodes])).collect())
            }
            Shape::Star { leaves } => {
                let joints = (1..=*leaves).map(|i| single([0, i])).collect();
                let sites = (1..=*leaves).map(Site::at).collect();
                Plan { sites, ..Plan::alike(leaves + 1, joints) }
            }
            Shape::Torus { sides } => Plan::alike(sides.iter().product(), regular::torus(sides)),
            Shape::FatTree { ports } => regular::fat_tree(*ports),
            Shape::Butterfly { ary, flat, dilation, fast } => {
                let joints = regular::butterfly(*ary, *flat, *dilation, *fast);
                Plan::alike(ary.pow((flat - 1) as u32), joints)
            }
            Shape::Clos { leaves, spines } => {
                regular::two_stages(("leaf", *leaves), ("spine", *spines))
            }
            Shape::UnfoldedClos { outer, middle } => regular::unfolded_clos(*outer, *middle),
            Shape::Random { nodes, degree, seed } => {
                Plan::alike(*nodes, random::visiting(*nodes, *degree, *seed)?)
            }
            Shape::Jellyfish { nodes, degree, seed } => {
                Plan::alike(*nodes, random::regular(*nodes, *degree, *seed)?)
            }
            Shape::Dragonfly { routers, global, groups } => {
                regular::dragonfly(*routers, *global, *groups)
            }
            Shape::TwoStage { fronts, backs } => {
                regular::two_stages(("front", *fronts), ("back", *backs))
            }
        })
    }

    /// The word and the numbers of its name.
    fn parts(&self) -> (&'static str, Vec<usize>) {
        match self {
            Shape::Line { nodes } => ("line", vec![*nodes]),
            Shape::Ring { nodes } => ("ring", vec![*nodes]),
            Shape::Star { leaves } => ("star", vec![*leaves]),
            Shape::Torus { sides } => ("torus", sides.clone()),
            Shape::FatTree { ports } => ("fat-tree", vec![*ports]),
            Shape::Butterfly { ary, flat, dilation, fast } => {
                ("butterfly", vec![*ary, *flat, *dilation, *fast])
            }
            Shape::Clos { leaves, spines } => ("clos", vec![*leaves, *spines]),
            Shape::UnfoldedClos { outer, middle } => ("clos-unfolded", vec![*outer, *middle]),
            Shape::Random { nodes, degree, seed } => {
                ("random", vec![*nodes, *degree, *seed as usize])
            }
            Shape::Jellyfish { nodes, degree, seed } => {
                ("jellyfish", vec![*nodes, *degree, *seed as usize])
            }
            Shape::Dragonfly { routers, global, groups } => {
                ("dragonfly", vec![*routers, *global, *groups])
            }
            Shape::TwoStage { fronts, backs } => ("two-stage", vec![*fronts, *backs]),
        }
    }

    /// The topology's name, as in `torus-4x4` or `butterfly-2x4x2x0`: [`Shape::from_name`] knows
    /// it, unless it had to be cut because the numbers do not fit a name.
    pub(super) fn name(&self) -> String {
        let (word, numbers) = self.parts();
        let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let name = format!("{word}-{}", texts.join("x"));
        if plexus_config::name::check_name("topology", &name).is_ok() {
            return name;
        }
        match self {
            Shape::Torus { sides } => format!("torus-{}d", sides.len()),
            _ => word.to_string(),
        }
    }

    /// The shape that goes by this name, as far as numbers tell it.
    pub(crate) fn from_name(name: &str) -> Option<Shape> {
        let (word, numbers) = name.rsplit_once('-')?;
        let numbers: Vec<usize> =
            numbers.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let shape = match (word, numbers.as_slice()) {
            ("line", &[nodes]) => Shape::Line { nodes },
            ("ring", &[nodes]) => Shape::Ring { nodes },
            ("star", &[leaves]) => Shape::Star { leaves },
            ("torus", sides) => Shape::Torus { sides: sides.to_vec() },
            ("fat-tree", &[ports]) => Shape::FatTree { ports },
            ("butterfly", &[ary, flat, dilation, fast]) => {
                Shape::Butterfly { ary, flat, dilation, fast }
            }
            ("clos", &[leaves, spines]) => Shape::Clos { leaves, spines },
            ("clos-unfolded", &[outer, middle]) => Shape::UnfoldedClos { outer, middle },
            ("random", &[nodes, degree, seed]) => {
                Shape::Random { nodes, degree, seed: seed as u64 }
            }
            ("jellyfish", &[nodes, degree, seed]) => {
                Shape::Jellyfish { nodes, degree, seed: seed as u64 }
            }
            ("dragonfly", &[routers, global, groups]) => {
                Shape::Dragonfly { routers, global, groups }
            }
            ("two-stage", &[fronts, backs]) => Shape::TwoStage { fronts, backs },
            _ => return None,
        };
        shape.check().is_ok().then_some(shape)
    }

    /// What it is, in a sentence; empty for those whose name says it.
    pub(super) fn description(&self) -> String {
        match self {
            Shape::FatTree { ports } => format!("a fat tree of boxes with {ports} ports"),
            Shape::Butterfly { ary, flat, dilation, .. } => {
                let dilated = match dilation {
                    1 => String::new(),
                    d => format!("{d}-dilated "),
                };
                format!("a {ary}-ary {flat}-flat {dilated}flattened butterfly")
            }
            Shape::Clos { .. } => "a folded Clos network".to_string(),
            Shape::UnfoldedClos { .. } => {
                "an unfolded Clos network: hosts send by eth0 and receive by eth1".to_string()
            }
            Shape::Random { degree, seed, .. } => {
                format!("a random graph of mean degree {degree}, seed {seed}")
            }
            Shape::Jellyfish { degree, seed, .. } => {
                format!("a random regular graph of degree {degree}, seed {seed}")
            }
            Shape::Dragonfly { .. } => "a dragonfly".to_string(),
            Shape::TwoStage { .. } => {
                "a router of two stages: layer 2 in front, layer 3 behind".to_string()
            }
            _ => String::new(),
        }
    }
}
