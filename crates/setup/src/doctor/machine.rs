//! Findings about the machine: kernel, privileges, clock, and the node's identity.

use plexus_config::{Backend, FastTable, NodeFile};
use plexus_io::support::Support;

use super::{Facts, Finding, Findings, Level, Planned};
use crate::folder::UNIT_USER;

/// Since then the capability CAP_BPF suffices for XDP programs.
const HAS_CAP_BPF: (u32, u32) = (5, 8);
/// Since then the fast table can attach its programs (tcx).
const HAS_TCX: (u32, u32) = (6, 6);
/// Since then the kernel tells whether a device sends frames that are redirected to it.
const TELLS_XDP_FEATURES: (u32, u32) = (6, 3);
/// Numbers of capabilities (linux/capability.h).
const CAPABILITIES: [(u32, &str); 3] =
    [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (39, "CAP_BPF")];
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn examine(facts: &Facts, node: Option<&NodeFile>, ports: &[Planned]) -> Vec<Finding> {
    let mut all = kernel(facts, node, ports);
    all.extend(privileges(facts));
    all.extend(clock(facts));
    if let Some(node) = node {
        all.extend(identity(facts, node));
    }
    all
}

fn kernel(facts: &Facts, node: Option<&NodeFile>, ports: &[Planned]) -> Vec<Finding> {
    let mut found = Findings::about("kernel");
    let (release, version) = (&facts.release, facts.version());
    let wants_table = node.is_some_and(|node| node.fast_table == FastTable::Tcx);
    let wants_xdp = node.is_some_and(|node| node.fast_table == FastTable::Xdp);
    if version < HAS_CAP_BPF {
        let text = format!(
            "Linux {release} has no CAP_BPF: AF_XDP needs CAP_SYS_ADMIN in the unit, or Linux 5.8"
        );
        found.add(Level::Warning, text, None);
    } else if version < HAS_TCX && wants_table {
        let text = format!("Linux {release} has no tcx, which the fast table needs: Linux 6.6");
        found.add(Level::Problem, text, None);
    } else if version < TELLS_XDP_FEATURES && wants_xdp {
        let text = format!(
            "Linux {release} does not tell what its drivers do with XDP, which the fast table \
             needs: Linux 6.3"
        );
        found.add(Level::Problem, text, None);
    } else {
        found.ok(format!("Linux {release}"));
    }
    if facts.packet_sockets == Support::No {
        let text = "it has no packet sockets (CONFIG_PACKET)";
        found.add(Level::Problem, text, Some("modprobe af_packet".into()));
    }
    if facts.xdp_sockets == Support::No {
        let is_set = ports.iter().any(|port| port.backend == Backend::AfXdp);
        let level = if is_set { Level::Problem } else { Level::Warning };
        let text = "it has no AF_XDP sockets (CONFIG_XDP_SOCKETS): hardware is slower without";
        found.add(level, text, None);
    }
    if !facts.has_tun && ports.iter().any(|port| port.backend == Backend::Tap) {
        let text = "there is no /dev/net/tun, which TAP ports need";
        found.add(Level::Problem, text, Some("modprobe tun".into()));
    }
    found.all
}

fn privileges(facts: &Facts) -> Vec<Finding> {
    let mut found = Findings::about("privileges");
    let has = |bit: u32| facts.capabilities >> bit & 1 == 1;
    let lacks: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| *name).collect();
    if lacks.is_empty() || has(CAP_SYS_ADMIN) && lacks == ["CAP_BPF"] {
        found.ok("this user may run a node");
    } else {
        let text = format!(
            "this user lacks {}: run the node as root or by its unit, and this command as root to \
             see everything",
            lacks.join(", ")
        );
        found.add(Level::Warning, text, None);
    }
    found.all
}

fn clock(facts: &Facts) -> Vec<Finding> {
    let mut found = Findings::about("clock");
    match facts.is_synchronised {
        Some(true) => found.ok("it is synchronised"),
        Some(false) => {
            let text = "nothing keeps it right: leases, logs and certificates go by it";
            found.add(Level::Warning, text, Some("timedatectl set-ntp true".into()));
        }
        None => found.ok("the kernel does not say whether it is synchronised"),
    }
    found.all
}

fn identity(facts: &Facts, node: &NodeFile) -> Vec<Finding> {
    let mut found = Findings::about("identity");
    let Some(fabric) = &node.fabric else { return found.all };
    let file = fabric.identity.display();
    let gathered = &facts.gathered;
    let (owner, unit) = (gathered.identity_owner, gathered.unit_user);
    match (&gathered.identity_trouble, owner, unit) {
        (Some(trouble), ..) => {
            let mend = owner.map(|_| format!("plexus identity show {file}"));
            found.add(Level::Problem, trouble, mend);
        }
        (None, Some(owner), Some(unit)) if owner != unit => {
            let text = format!("{file}: the unit runs as user {UNIT_USER}, who may not read it");
            found.add(Level::Warning, text, Some(format!("chown {UNIT_USER}: {file}")));
        }
        _ => found.ok(format!("{file}")),
    }
    found.all
}
