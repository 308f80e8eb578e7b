//! Findings about one port: its device, and who else uses it.

use std::net::IpAddr;

use plexus_config::{Backend, PortUse, Tunnel};
use plexus_io::netlink::DeviceInfo;
use plexus_io::support::Support;
use plexus_wire::fabric::LINK_MTU_MIN;

use super::facts::Manager;
use super::{Facts, Finding, Findings, Level, Planned};
use crate::interface::is_link_local;

const NEEDED: u32 = LINK_MTU_MIN as u32;
/// `rp_filter`: strict (RFC 3704, 2.2).
const STRICT: u8 = 1;
/// Programs that only watch.
const WATCHERS: [&str; 4] = ["tcpdump", "dumpcap", "tshark", "wireshark"];

pub(super) fn examine(facts: &Facts, port: &Planned) -> Vec<Finding> {
    if let Some(tunnel) = &port.tunnel {
        return through_network(facts, tunnel);
    }
    let device = &port.device;
    let mut found = Findings::about(device);
    // The node makes a TAP device itself.
    if port.backend == Backend::Tap {
        return found.all;
    }
    let Some(info) = facts.device(device) else {
        found.add(Level::Problem, "there is no such interface", Some("ip link".into()));
        return found.all;
    };
    if info.mac.is_none() {
        found.add(Level::Problem, "it is no Ethernet device", None);
        return found.all;
    }
    state(&mut found, info);
    let is_xdp = back_end(&mut found, facts, port, info);
    mtu(&mut found, port, info);
    offloads(&mut found, port, info, is_xdp);
    users(&mut found, facts, info);
    found.all
}

fn state(found: &mut Findings, info: &DeviceInfo) {
    let name = &info.name;
    if !info.is_up {
        found.add(Level::Problem, "it is down", Some(format!("ip link set dev {name} up")));
    } else if !info.has_carrier {
        let text = "it has no carrier: plug the cable in, and set the other end up";
        found.add(Level::Warning, text, None);
    } else {
        found.ok(match info.speed_mbit_per_s {
            Some(speed) => format!("it is up at {speed} Mbit/s"),
            None => "it is up".into(),
        });
    }
}

/// Says how the node reaches the device; returns whether by AF_XDP in its driver.
fn back_end(found: &mut Findings, facts: &Facts, port: &Planned, info: &DeviceInfo) -> bool {
    let driver = info.driver.as_deref().unwrap_or("its driver");
    if port.backend == Backend::AfPacket {
        found.ok("packet sockets, as the file says");
        return false;
    }
    if port.backend == Backend::Auto && info.is_virtual {
        found.ok(format!("packet sockets: {driver} is virtual, and they carry super-packets"));
        return false;
    }
    if facts.xdp_sockets == Support::No {
        return false;
    }
    match info.xdp_features {
        None => found.ok(format!("this kernel does not say whether {driver} has native XDP")),
        Some(features) if features.native && features.zero_copy => {
            found.ok(format!("native XDP with zero copy ({driver})"));
        }
        Some(features) if features.native => {
            found.ok(format!("native XDP ({driver}); the kernel copies frames"));
        }
        Some(_) => {
            let text = format!("{driver} has no native XDP: the node uses slower packet sockets");
            found.add(Level::Warning, text, None);
            return false;
        }
    }
    true
}

fn mtu(found: &mut Findings, port: &Planned, info: &DeviceInfo) {
    if !port.in_fabric || port.role == PortUse::Host {
        return;
    }
    let mtu = info.mtu;
    match info.mtu_max {
        _ if mtu >= NEEDED => found.ok(format!("MTU {mtu}: enough for a cable to a node")),
        Some(max) if max < NEEDED => {
            let is_cable = port.role == PortUse::Fabric;
            let level = if is_cable { Level::Problem } else { Level::Warning };
            let text = format!(
                "its driver allows an MTU of {max}, and a cable to a node needs {NEEDED}: it can \
                 only lead to hosts (role = \"host\")"
            );
            found.add(level, text, None);
        }
        _ => found.ok(format!("MTU {mtu}: the node raises it to {NEEDED} if a node is there")),
    }
}

fn offloads(found: &mut Findings, port: &Planned, info: &DeviceInfo, is_xdp: bool) {
    let name = &info.name;
    if info.lro {
        let text = "it joins received packets (LRO), which no box may do that forwards them";
        found.add(Level::Problem, text, Some(format!("ethtool -K {name} lro off")));
    }
    if info.rx_vlan && is_xdp && port.has_tags && !info.is_virtual {
        let text = "it takes VLAN tags out of frames, and AF_XDP does not see them";
        found.add(Level::Problem, text, Some(format!("ethtool -K {name} rxvlan off")));
    }
}

fn users(found: &mut Findings, facts: &Facts, info: &DeviceInfo) {
    let before = found.all.iter().filter(|f| f.level != Level::Ok).count();
    let name = &info.name;
    if let Some(master) = &info.master {
        let text = format!("{master} forwards its frames too, which can loop");
        found.add(Level::Problem, text, Some(format!("ip link set dev {name} nomaster")));
    }
    if info.xdp.is_some() && !facts.gathered.node_runs {
        let text = "another program has an XDP program on it";
        found.add(Level::Problem, text, Some(format!("ip link set dev {name} xdp off")));
    }
    if info.has_default_route {
        let text = "the default route leads through it: as a port it stops to serve this box";
        found.add(Level::Problem, text, None);
    }
    let own = info.addresses.iter().filter(|(address, _)| !is_link_local(*address));
    let own: Vec<String> = own.map(|(address, len)| format!("{address}/{len}")).collect();
    if !own.is_empty() {
        let forwards = if facts.ip_forward { ", and forwards packets from it" } else { "" };
        let text = format!("the kernel has {} on it{forwards}, beside the node", own.join(", "));
        found.add(Level::Warning, text, Some(format!("ip address flush dev {name}")));
    }
    match facts.managers.get(&info.index) {
        Some(Manager::NetworkManager) => {
            let text = "NetworkManager configures it, and may set it down or give it addresses";
            found.add(Level::Warning, text, Some(format!("nmcli device set {name} managed no")));
        }
        Some(Manager::Networkd) => {
            let text = "systemd-networkd configures it, and may set it down or give it addresses";
            let mend = format!(
                "printf '[Match]\\nName={name}\\n[Link]\\nUnmanaged=yes\\n' > \
                 /etc/systemd/network/05-{name}.network && networkctl reload"
            );
            found.add(Level::Warning, text, Some(mend));
        }
        None => {}
    }
    for user in facts.packet_users.get(&info.index).into_iter().flatten() {
        if WATCHERS.contains(&user.program.as_str()) {
            found.ok(format!("{} watches it", user.program));
            continue;
        }
        let text = format!("{} (process {}) sends and receives on it", user.program, user.pid);
        found.add(Level::Warning, text, Some(format!("kill {}", user.pid)));
    }
    if before == found.all.iter().filter(|f| f.level != Level::Ok).count() {
        found.ok("nobody else uses it");
    }
}

/// A tunnel's end: the kernel's address, and the device that has it.
fn through_network(facts: &Facts, tunnel: &Tunnel) -> Vec<Finding> {
    let local = tunnel.local.ip();
    let mut found = Findings::about(&format!("tunnel {local}"));
    let has = |info: &&DeviceInfo| info.addresses.iter().any(|(address, _)| *address == local);
    let Some(info) = facts.devices.iter().find(has) else {
        let text = format!("no interface of this box has {local}");
        found.add(Level::Problem, text, Some("ip address".into()));
        return found.all;
    };
    let name = &info.name;
    // Headers of IP and UDP.
    let needed = NEEDED + if matches!(local, IpAddr::V4(_)) { 28 } else { 48 };
    match info.mtu {
        mtu if mtu >= needed => found.ok(format!("{name} has an MTU of {mtu}")),
        mtu => {
            let text = format!("{name} has an MTU of {mtu}, and the tunnel needs {needed}");
            found.add(Level::Problem, text, Some(format!("ip link set dev {name} mtu {needed}")));
        }
    }
    if local.is_ipv4() && facts.rp_filter.get(name) == Some(&STRICT) && !info.has_default_route {
        let text = format!("{name} drops packets whose way back is another (rp_filter)");
        let mend = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2");
        found.add(Level::Warning, text, Some(mend));
    }
    found.all
}
