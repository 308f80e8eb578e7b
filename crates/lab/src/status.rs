//! The contents and state of a lab, as `plexus lab status` prints them.

use std::fmt;
use std::path::PathBuf;

use plexus_config::units::format_rate;
use serde::{Deserialize, Serialize};

use crate::plan::NodeProgram;
use plexus_report::columns;

/// A lab that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabStatus {
    /// Its name.
    pub lab: String,
    /// The file it was made from.
    pub file: PathBuf,
    /// Whether it lives in a user namespace.
    pub rootless: bool,
    /// What moves frames in its nodes.
    pub node_program: NodeProgram,
    /// Its hosts.
    pub hosts: Vec<HostStatus>,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
    /// Its ordinary switches.
    #[serde(default)]
    pub bridges: Vec<BridgeStatus>,
    /// Its controllers.
    #[serde(default)]
    pub controllers: Vec<ControllerStatus>,
    /// Its cables.
    pub links: Vec<LinkStatus>,
}

/// A host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// The Ethernet address of its first interface.
    pub mac: String,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `running`, or how it ended.
    pub state: String,
    /// Its control socket; null for the Linux bridge.
    pub control: Option<PathBuf>,
    /// Its ports.
    pub ports: Vec<String>,
}

/// An ordinary switch: a Linux bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BridgeStatus {
    /// Its name.
    pub name: String,
    /// Whether it speaks the spanning tree protocol.
    pub stp: bool,
    /// Its ports.
    pub ports: Vec<BridgePortStatus>,
}

/// A port of an ordinary switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BridgePortStatus {
    /// Its name.
    pub name: String,
    /// `disabled`, `listening`, `learning`, `forwarding` or `blocking`.
    pub state: String,
}

/// A controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// `running`, or how it ended.
    pub state: String,
    /// Its control socket.
    pub control: PathBuf,
    /// The node that it is cabled to.
    pub on: String,
}

/// A cable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkStatus {
    /// One end.
    pub a: String,
    /// The other.
    pub b: String,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// Speed; null: as fast as it goes.
    pub rate_bits_per_s: Option<u64>,
}

impl fmt::Display for LabStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.rootless { ", without root" } else { "" };
        writeln!(
            f,
            "{} ({}{kind}), from {}",
            self.lab,
            self.node_program.name(),
            self.file.display()
        )?;
        let hosts: Vec<_> = self
            .hosts
            .iter()
            .map(|h| ["  host".into(), h.name.clone(), h.mac.clone(), h.addresses.join(" ")])
            .collect();
        f.write_str(&columns(&hosts))?;
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|n| ["  node".into(), n.name.clone(), n.state.clone(), n.ports.join(" ")])
            .collect();
        f.write_str(&columns(&nodes))?;
        let bridges: Vec<_> = self
            .bridges
            .iter()
            .map(|b| {
                let tree = if b.stp { "spanning tree" } else { "no spanning tree" };
                let ports: Vec<_> =
                    b.ports.iter().map(|p| format!("{} {}", p.name, p.state)).collect();
                ["  bridge".into(), b.name.clone(), tree.into(), ports.join(", ")]
            })
            .collect();
        f.write_str(&columns(&bridges))?;
        let controllers: Vec<_> = self
            .controllers
            .iter()
            .map(|c| {
                ["  controller".into(), c.name.clone(), c.state.clone(), format!("on {}", c.on)]
            })
            .collect();
        f.write_str(&columns(&controllers))?;
        let links: Vec<_> = self
            .links
            .iter()
            .map(|l| {
                let rate = l.rate_bits_per_s.map_or("no limit".into(), format_rate);
                let ends = format!("{} - {}", l.a, l.b);
                ["  link".into(), ends, rate, format!("mtu {}", l.mtu)]
            })
            .collect();
        f.write_str(columns(&links).trim_end())
    }
}
