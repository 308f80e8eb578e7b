//! Loops of switches. A node without a fabric forwards what it does not know to all its ports and
//! speaks no spanning tree, whose messages it drops like all to 01-80-C2-00-00-0X (IEEE 802.1Q,
//! table 8-1). Where cables lead round such a node in one VLAN, the first broadcast goes round for
//! ever, whatever the bridges among them speak.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use plexus_config::VlanMode;
use plexus_config::document::Section;
use plexus_config::error::Span;

use crate::model::{Device, End, Topology};

/// Things that have been joined so far.
#[derive(Debug)]
pub(crate) struct Joined<K> {
    /// Of each: another one that it is joined with, on the way to the one that stands for all.
    parents: HashMap<K, K>,
}

impl<K> Default for Joined<K> {
    fn default() -> Joined<K> {
        Joined { parents: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Joined<K> {
    /// The one that stands for all that are joined with this one.
    pub(crate) fn root(&mut self, mut thing: K) -> K {
        while let Some(&parent) = self.parents.get(&thing) {
            if let Some(&above) = self.parents.get(&parent) {
                self.parents.insert(thing, above);
            }
            thing = parent;
        }
        thing
    }

    /// Joins two; false where they were joined already.
    pub(crate) fn join(&mut self, [a, b]: [K; 2]) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parents.insert(a, b);
        }
        a != b
    }
}

/// A switch in one of its VLANs. To a bridge, which knows none, that is a frame's tag; 0: none.
type InVlan = (Device, u16);

/// How a switch takes frames of a cable: the VLAN of those without a tag, if it takes them, and the
/// tagged ones that it sends.
struct Sides {
    device: Device,
    native: Option<u16>,
    tagged: Vec<(u16, u16)>,
}

impl Topology {
    /// `None` at a host or a routed port, which forward no frames. `tags`: all that bridges may
    /// see.
    fn sides(&self, end: End, tags: &[(u16, u16)]) -> Option<Sides> {
        let device = end.device();
        match end {
            End::Host { .. } => None,
            End::Bridge { .. } => Some(Sides { device, native: Some(0), tagged: tags.to_vec() }),
            // It is a router's interface: frames end there.
            End::Port { node, port } if self.nodes[node].routes_at(port) => None,
            End::Port { node, port } => {
                let (native, tagged) = match &self.nodes[node].ports[port].settings.vlan {
                    VlanMode::Access(vlan) => (Some(*vlan), vec![]),
                    VlanMode::Trunk { allowed, native } => (*native, allowed.clone()),
                };
                Some(Sides { device, native, tagged })
            }
        }
    }

    /// The switches and VLANs that a cable joins: frames of one go over to the other.
    fn joins(&self, ends: [End; 2], tags: &[(u16, u16)]) -> BTreeSet<[InVlan; 2]> {
        let [Some(a), Some(b)] = ends.map(|end| self.sides(end, tags)) else {
            return BTreeSet::new();
        };
        let untagged = a.native.zip(b.native).map(|(v, w)| [(a.device, v), (b.device, w)]);
        let shared = a.tagged.iter().flat_map(|x| b.tagged.iter().map(move |y| (x, y)));
        let shared = shared.flat_map(|(x, y)| x.0.max(y.0)..=x.1.min(y.1));
        // What is in a port's native VLAN leaves it without a tag.
        let own = |side: &Sides, vlan: u16| side.native != Some(vlan);
        let tagged = shared.filter(|v| own(&a, *v) || own(&b, *v));
        untagged.into_iter().chain(tagged.map(|v| [(a.device, v), (b.device, v)])).collect()
    }

    /// Notes the first link that closes a circle with a node in it where there is no fabric.
    /// `spans`: where each link is written.
    pub(crate) fn check_loops(&self, root: &Section<'_>, spans: &[Span]) {
        if !self.controllers.is_empty() {
            return;
        }
        let trunks =
            self.nodes.iter().flat_map(|n| &n.ports).filter_map(|p| match &p.settings.vlan {
                VlanMode::Trunk { allowed, .. } => Some(allowed),
                VlanMode::Access(_) => None,
            });
        let mut tags: Vec<(u16, u16)> = trunks.flatten().copied().collect();
        tags.sort_unstable();
        // Without overlaps: a VLAN is looked at once.
        tags.dedup_by(|next, last| {
            let overlaps = next.0 <= last.1;
            last.1 = last.1.max(if overlaps { next.1 } else { last.1 });
            overlaps
        });
        let is_node = |end: &End| matches!(end, End::Port { .. });
        let mut joined = Joined::default();
        // Among themselves bridges see to their circles, or were refused.
        let cables = || self.cables().map(|(link, _, ends)| (link, ends));
        for (_, ends) in cables().filter(|(_, ends)| !ends.iter().any(is_node)) {
            for pair in self.joins(ends, &tags) {
                joined.join(pair);
            }
        }
        for (link, ends) in cables().filter(|(_, ends)| ends.iter().any(is_node)) {
            let pairs = self.joins(ends, &tags);
            if pairs.into_iter().all(|pair| joined.join(pair)) {
                continue;
            }
            let [a, b] = ends.map(|end| self.end_name(end));
            let message = format!(
                "the cable from {a} to {b} closes a circle of switches, in which the first \
                 broadcast would go round for ever"
            );
            let help = "make the nodes a fabric by a [[controller]], or write [[bridge]] with stp \
                        = true in place of [[node]], or take the link out";
            let span = spans.get(link).cloned().unwrap_or(root.span());
            return root.problems().add(span, message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Topology;

    const SWITCHES: &str = "name = \"t\"\n[[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
        [[bridge]]\nname = \"b1\"\nstp = true\n[[bridge]]\nname = \"b2\"\nstp = true\n";

    /// What is told of switches with these cables; `more` goes before them.
    fn told(more: &str, cables: &[[&str; 2]]) -> String {
        let links = cables.iter().map(|ends| format!("[[link]]\nends = {ends:?}\n"));
        let text = SWITCHES.to_string() + more + &links.collect::<String>();
        assert_eq!(Topology::parse("t.toml", &text).map(|_| ()), Ok(()), "to look at it");
        match Topology::parse_to_run("t.toml", &text, None) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn circles_around_plain_nodes_are_refused_with_line_and_remedy() {
        let twice = [["n1.a", "n2.a"], ["n1.b", "n2.b"]];
        let text = told("", &twice);
        assert!(text.starts_with("t.toml:15:8: the cable from n1.b to n2.b closes"), "{text}");
        for remedy in ["[[controller]]", "stp = true", "take the link out"] {
            assert!(text.contains(remedy), "{text}");
        }
        // A node drops the spanning tree's messages: bridges that speak it do not see the circle.
        let through = [["n1.a", "b1.a"], ["b1.b", "b2.a"], ["b2.b", "n1.b"]];
        assert!(told("", &through).contains("from b2.b to n1.b"), "{}", told("", &through));
        // Bridges alone do, and a line has none.
        assert_eq!(told("", &[["b1.a", "b2.a"], ["b1.b", "b2.b"], ["b1.c", "n1.a"]]), "");
        assert_eq!(told("", &[["n1.a", "b1.a"], ["b1.b", "n2.a"]]), "");
        let controller = "[[controller]]\nname = \"c1\"\non = \"n1\"\n";
        let links = twice.map(|ends| format!("[[link]]\nends = {ends:?}\nmtu = 2000\n")).concat();
        let fabric = SWITCHES.replace(
            "[[bridge]]\nname = \"b1\"",
            &format!("{controller}[[bridge]]\nname = \"b1\""),
        );
        assert!(Topology::parse_to_run("t.toml", &(fabric + &links), None).is_ok());
    }

    #[test]
    fn vlans_that_do_not_meet_make_no_circle() {
        let ports = |a: &str, b: &str| {
            let port =
                |name: &str, vlan: &str| format!("[[node.port]]\nname = \"{name}\"\n{vlan}\n");
            let node =
                |n: usize| format!("[[node]]\nname = \"v{n}\"\n") + &port("a", a) + &port("b", b);
            told(&(node(1) + &node(2)), &[["v1.a", "v2.a"], ["v1.b", "v2.b"]])
        };
        assert_eq!(ports("vlan = 10", "vlan = 20"), "");
        assert!(ports("vlan = 10", "vlan = 10").contains("closes a circle"));
        assert_eq!(ports("trunk = [\"10-19\"]", "trunk = [\"20-29\"]"), "");
        assert!(ports("trunk = [\"10-19\"]", "trunk = [\"19-29\"]").contains("closes a circle"));
        // With a tag on one cable and without on the other it is the same VLAN.
        assert!(ports("trunk = [10]", "vlan = 10").contains("closes a circle"));
        assert!(ports("trunk = [10]\nnative = 20", "vlan = 20").contains("closes a circle"));
    }

    /// Between bridges each VLAN of a trunk matters once, however many trunks have it.
    #[test]
    fn many_overlapping_trunks_are_quickly_looked_at() {
        let port =
            |n: usize| format!("[[node.port]]\nname = \"p{n}\"\ntrunk = [\"{}-4094\"]\n", n + 1);
        let ports: String = (0..250).map(port).collect();
        let hosts = (0..250).map(|n| format!("[[host]]\nname = \"h{n}\"\n"));
        let links = (0..250).map(|n| format!("[[link]]\nends = [\"h{n}\", \"v.p{n}\"]\n"));
        let more = format!("[[node]]\nname = \"v\"\n{ports}");
        let more = more + &hosts.chain(links).collect::<String>();
        assert_eq!(told(&more, &[["b1.a", "b2.a"]]), "");
    }

    #[test]
    fn shapes_without_a_controller_are_refused_where_they_are_asked_for() {
        let text = "name = \"t\"\n\n[generate]\nshape = \"ring 4\"\n";
        let told = Topology::parse_to_run("t.toml", text, None).unwrap_err().to_string();
        assert!(told.starts_with("t.toml:3:") && told.contains("closes a circle"), "{told}");
    }
}
