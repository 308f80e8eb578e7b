//! A topology file's `[[bridge]]`: an ordinary Ethernet switch, which knows nothing of Plexus.
//!
//! In a lab it is the bridge of the Linux kernel in a namespace of its own, with the kernel's
//! defaults but for what the file says. Cables join it to hosts, nodes and other bridges.

use std::collections::HashMap;
use std::time::Duration;

use plexus_config::document::{Lines, Section};
use plexus_config::error::quote;
use plexus_config::units::parse_duration;

use crate::loop_check::Joined;
use crate::model::{Device, End, Host, Link, Topology};

/// Name of a bridge's own device in a lab.
pub const BRIDGE_DEVICE: &str = "br0";

/// Time in each of the states listening and learning (IEEE 802.1D-1998, table 8-3).
const FORWARD_DELAY_USUAL: Duration = Duration::from_secs(15);
/// What the kernel takes (net/bridge/br_stp.c; the same table).
const FORWARD_DELAY_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(2)..=Duration::from_secs(30);
/// The middle of the range (IEEE 802.1D-1998, table 8-4).
const PRIORITY_USUAL: u16 = 32_768;
/// Spanning tree, pause frames and link aggregation: the kernel forwards these never.
const MASK_FORBIDDEN: u64 = 0b111;

/// An ordinary Ethernet switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Its name, unique among devices.
    pub name: String,
    /// Whether it speaks the spanning tree protocol (IEEE 802.1D-1998).
    pub stp: bool,
    /// Its priority in the spanning tree: the least becomes the root.
    pub priority: u16,
    /// Time that a port spends listening, and then learning, before it forwards.
    pub forward_delay: Duration,
    /// Which of the group addresses 01-80-C2-00-00-0X it forwards: bit X.
    pub group_fwd_mask: u16,
    /// The names of its ports, in the order in which links name them; each fits a network device.
    pub ports: Vec<String>,
}

impl Bridge {
    /// A bridge with the usual settings and no ports.
    pub fn new(name: &str) -> Bridge {
        Bridge {
            name: name.to_string(),
            stp: false,
            priority: PRIORITY_USUAL,
            forward_delay: FORWARD_DELAY_USUAL,
            group_fwd_mask: 0,
            ports: Vec::new(),
        }
    }

    /// The arguments with which `ip` makes this bridge. Settings that the file leaves open keep
    /// the kernel's defaults.
    pub fn ip_arguments(&self) -> String {
        let mut line = format!("link add name {BRIDGE_DEVICE} type bridge");
        if self.stp {
            // Hundredths of a second.
            let delay = self.forward_delay.as_millis() / 10;
            line += &format!(" stp_state 1 priority {} forward_delay {delay}", self.priority);
        }
        if self.group_fwd_mask != 0 {
            line += &format!(" group_fwd_mask {:#x}", self.group_fwd_mask);
        }
        line
    }

    pub(crate) fn read(section: &Section<'_>, name: String) -> Bridge {
        let usual = Bridge::new("");
        let bridge = Bridge {
            name,
            stp: section.is_set("stp"),
            priority: section.integer_or("priority", 0..=u64::from(u16::MAX), usual.priority),
            forward_delay: read_forward_delay(section).unwrap_or(usual.forward_delay),
            group_fwd_mask: read_group_fwd_mask(section),
            ports: Vec::new(),
        };
        for key in ["priority", "forward_delay"] {
            if let Some(span) = section.span_of(key).filter(|_| !bridge.stp) {
                let message = format!("{} belongs to the spanning tree", quote(key));
                section.problems().add(span, message, "add stp = true, or remove it");
            }
        }
        bridge
    }

    pub(crate) fn write(&self, lines: &mut Lines) {
        let usual = Bridge::new("");
        lines.heading("[[bridge]]");
        lines.text("name", &self.name);
        lines.unusual("stp", &self.stp, &false);
        lines.unusual("priority", &self.priority, &usual.priority);
        lines.unusual("forward_delay", &self.forward_delay, &usual.forward_delay);
        if self.group_fwd_mask != 0 {
            lines.entry("group_fwd_mask", format_args!("{:#06x}", self.group_fwd_mask));
        }
    }
}

fn read_forward_delay(section: &Section<'_>) -> Option<Duration> {
    let at = section.quantity("forward_delay", parse_duration)?;
    // The kernel counts hundredths of a second.
    let whole = at.value.subsec_nanos() % 10_000_000 == 0;
    if !FORWARD_DELAY_RANGE.contains(&at.value) || !whole {
        let message = "\"forward_delay\" is out of range";
        section.problems().add(at.span, message, "write 2s to 30s, in steps of 10ms");
        return None;
    }
    Some(at.value)
}

fn read_group_fwd_mask(section: &Section<'_>) -> u16 {
    let Some(mask) = section.integer("group_fwd_mask", 0..=u64::from(u16::MAX)) else { return 0 };
    if mask.value & MASK_FORBIDDEN != 0 {
        let message = "no bridge forwards the group addresses of bits 0 to 2";
        let help = "leave them out, as in 0x4000 for 01-80-C2-00-00-0E";
        section.problems().add(mask.span, message, help);
    }
    mask.value as u16
}

/// What is known of the links of bridges while a file is read.
#[derive(Debug, Default)]
pub(crate) struct BridgeLinks {
    /// Bridges without spanning tree.
    joined: Joined<Device>,
    /// Of each bridge that has a link: its MTU.
    mtus: HashMap<Device, u16>,
}

impl Topology {
    /// The same hosts and cables with ordinary switches in place of the nodes: bridges that speak
    /// spanning tree, of the nodes' names. There is no controller; who leased an address has it
    /// for good. What runs, fails and is asserted there is left out.
    pub fn as_spanning_tree(&self) -> Topology {
        let ordinary = self.bridges.iter().map(|b| Bridge { stp: true, ..b.clone() });
        let nodes = self.nodes.iter().map(|node| Bridge {
            stp: true,
            ports: node.ports.iter().map(|p| p.name.clone()).collect(),
            ..Bridge::new(&node.name)
        });
        let first = self.bridges.len();
        let moved = |end: End| match end {
            End::Port { node, port } => End::Bridge { bridge: first + node, port },
            other => other,
        };
        let links = self.links.iter().map(|link| Link {
            cables: link.cables.iter().map(|ends| ends.map(moved)).collect(),
            ..link.clone()
        });
        Topology {
            bridges: ordinary.chain(nodes).collect(),
            hosts: self.hosts.iter().map(|h| Host { dhcp: false, ..h.clone() }).collect(),
            links: links.collect(),
            seed: self.seed,
            fidelity: self.fidelity,
            ..Topology::new(&self.name)
        }
    }

    /// Whether a device is a bridge without spanning tree, which floods every circle for ever.
    pub fn floods(&self, device: Device) -> bool {
        matches!(device, Device::Bridge(bridge) if !self.bridges[bridge].stp)
    }

    /// A cable that joins two devices for which `is_in` holds, and which others of these have
    /// joined already.
    pub fn circle(&self, is_in: impl Fn(Device) -> bool) -> Option<[End; 2]> {
        let mut joined = Joined::default();
        let mut cables = self.cables().map(|(_, _, ends)| ends);
        cables.find(|ends| {
            let devices = ends.map(End::device);
            devices.into_iter().all(&is_in) && !joined.join(devices)
        })
    }

    /// Checks a link for what an ordinary switch makes impossible.
    pub(crate) fn check_bridge_link(
        &self,
        section: &Section<'_>,
        link: &Link,
        known: &mut BridgeLinks,
    ) {
        let devices = link.devices();
        let mut bridges = devices.into_iter().filter(|d| matches!(d, Device::Bridge(_)));
        for bridge in bridges.clone() {
            let mtu = *known.mtus.entry(bridge).or_insert(link.mtu);
            if mtu != link.mtu {
                let name = quote(self.device_name(bridge));
                let message =
                    format!("bridge {name} has a link of MTU {mtu}, and this has {}", link.mtu);
                let help = "give all links of a bridge one MTU: it drops what is too long silently";
                section.problems().add(section.near("mtu"), message, help);
            }
        }
        let has_node = devices.iter().any(|d| matches!(d, Device::Node(_)));
        if bridges.next().is_some() && !has_node {
            let faults = [("delay", !link.delay.is_zero()), ("loss", link.loss > 0.0)];
            for (key, _) in faults.into_iter().filter(|(_, set)| *set) {
                let message = format!("a bridge makes no {key}, and neither does the other end");
                section.problems().add(section.near(key), message, "give it to a link of a node");
            }
        }
        if devices.iter().all(|d| self.floods(*d)) && !known.joined.join(devices) {
            let at = section.near("ends");
            let message = "this link closes a circle of bridges, which would flood it for ever";
            section.problems().add(at, message, "remove it, or add stp = true to a bridge of it");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bridge_is_the_kernels_usual_one_but_for_what_the_file_says() {
        let usual = Bridge::new("b");
        assert_eq!(usual.ip_arguments(), "link add name br0 type bridge");
        let forward_delay = Duration::from_millis(2500);
        let bridge = Bridge { stp: true, priority: 7, forward_delay, ..usual.clone() };
        let told = bridge.ip_arguments();
        assert!(told.ends_with(" stp_state 1 priority 7 forward_delay 250"), "{told}");
        let told = Bridge { group_fwd_mask: 0x4000, ..usual }.ip_arguments();
        assert!(told.ends_with(" group_fwd_mask 0x4000"), "{told}");
    }

    const FILE: &str = "name = \"t\"\n\
        [[bridge]]\nname = \"b1\"\n\
        [[bridge]]\nname = \"b2\"\n\
        [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
        [[link]]\nends = [\"h1\", \"b1.p1\"]\n\
        [[link]]\nends = [\"b1.p2\", \"b2.p1\"]\n";

    fn told(text: &str) -> String {
        Topology::parse("t.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_with_bridges_are_named_with_their_line_and_remedy() {
        let second = "[[link]]\nends = [\"b1.p3\", \"b2.p2\"]\n";
        let host = "[[link]]\nends = [\"h1\", \"b1.p3\"]\n";
        for (more, line, help) in [
            ("[[bridge]]\nname = \"b1\"\n", "14:8: there are two devices", "its own"),
            ("[[bridge]]\nname = \"x\"\npriority = 1\n", "15:12: \"priority\" belongs", "stp"),
            (
                "[[bridge]]\nname = \"x\"\nstp = true\nforward_delay = \"1s\"\n",
                "16:17: \"forward_delay\" is out",
                "2s to 30s",
            ),
            ("[[bridge]]\nname = \"x\"\ngroup_fwd_mask = 1\n", "15:18: no bridge forw", "0x4000"),
            ("[[link]]\nends = [\"b1\", \"b2.p7\"]\n", "14:9: \"b1\" is a bridge, and no", "b1.p1"),
            ("[[link]]\nends = [\"b1.br0\", \"h1\"]\n", "14:9: port \"br0\"", "another name"),
            (&format!("{host}lanes = 2\n"), "15:9: only links between two nodes", "as a link"),
            (&format!("{host}mtu = 2000\n"), "15:7: bridge \"b1\" has a link of MTU", "one MTU"),
            (second, "14:8: this link closes a circle", "stp = true"),
            (
                "[[link]]\nends = [\"h1\", \"b2.p9\"]\ndelay = \"1ms\"\n",
                "15:9: a bridge makes no delay",
                "of a node",
            ),
            (
                "[[traffic]]\nname = \"f\"\nproto = \"icmp\"\nfrom = \"b1\"\nto = \"h1\"\n",
                "16:8: \"b1\" is a bridge; traffic",
                "name a host",
            ),
        ] {
            let told = told(&format!("{FILE}{more}"));
            assert!(told.starts_with(&format!("t.toml:{line}")), "{told}");
            assert!(told.contains("help: ") && told.contains(help), "{told}");
        }
        // One that speaks the protocol opens the circle.
        let opened = format!("{FILE}{second}").replace("\"b2\"\n", "\"b2\"\nstp = true\n");
        assert!(Topology::parse("t.toml", &opened).unwrap().bridges[1].stp);
    }

    proptest! {
        #[test]
        fn a_bridge_is_written_and_read_back_equal(
            stp: bool, priority: u16, hundredths in 200..=3000_u64, mask: u16, hosts in 0..4_usize)
        {
            let mut bridge = Bridge { stp, group_fwd_mask: mask & !7, ..Bridge::new("b") };
            if stp {
                bridge.priority = priority;
                bridge.forward_delay = Duration::from_millis(hundredths * 10);
            }
            let mut lines = Lines::default();
            lines.text("name", "t");
            bridge.write(&mut lines);
            let mut text = lines.finish();
            for h in 0..hosts {
                text.push_str(&format!(
                    "[[host]]\nname = \"h{h}\"\n[[link]]\nends = [\"b.x{h}\", \"h{h}\"]\n"
                ));
                bridge.ports.push(format!("x{h}"));
            }
            let read = Topology::parse("t", &text).unwrap();
            prop_assert_eq!(&read.bridges, &[bridge]);
            prop_assert_eq!(Topology::parse("again", &read.to_toml()), Ok(read));
        }
    }
}
