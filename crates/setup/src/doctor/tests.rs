use plexus_io::netlink::{DeviceInfo, XdpFeatures};
use plexus_io::support::Support;
use plexus_wire::MacAddr;

use super::facts::Manager;
use super::*;

/// A box without a flaw, with one network card.
fn healthy() -> Facts {
    let eth1 = DeviceInfo {
        index: 3,
        name: "eth1".into(),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        mtu: 1500,
        mtu_max: Some(9000),
        is_up: true,
        has_carrier: true,
        driver: Some("ixgbe".into()),
        speed_mbit_per_s: Some(10_000),
        xdp_features: Some(XdpFeatures { native: true, zero_copy: true, sends_redirected: true }),
        ..DeviceInfo::default()
    };
    Facts {
        release: "6.8.0-45-generic".into(),
        capabilities: u64::MAX,
        has_tun: true,
        is_synchronised: Some(true),
        devices: vec![eth1],
        ..Facts::default()
    }
}

fn node(text: &str) -> NodeFile {
    let head = "name = \"n1\"\n[fabric]\nidentity = \"/etc/plexus/n1.identity\"\n";
    NodeFile::parse("n1.toml", &format!("{head}{text}")).unwrap()
}

const PORT: &str = "[[port]]\nname = \"eth1\"\n";

/// The findings that are not ok, after this change to a healthy box.
fn flaws(port: &str, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    let mut found = examine(&facts, Some(&node(port)), &[]);
    found.retain(|finding| finding.level != Level::Ok);
    found
}

fn device(change: impl FnOnce(&mut DeviceInfo)) -> impl FnOnce(&mut Facts) {
    |facts| change(&mut facts.devices[0])
}

#[track_caller]
fn assert_flaw(found: &[Finding], level: Level, text: &str, mend: Option<&str>) {
    let is_it = |f: &&Finding| f.text.contains(text);
    let finding = found.iter().find(is_it).unwrap_or_else(|| panic!("no {text:?}: {found:#?}"));
    assert_eq!((finding.level, finding.mend.as_deref()), (level, mend), "{finding:?}");
}

#[test]
fn a_healthy_box_has_no_flaw() {
    assert_eq!(flaws(PORT, |_| {}), []);
    let found = examine(&healthy(), Some(&node(PORT)), &[]);
    let told = |text: &str| found.iter().any(|f| f.text.contains(text));
    for text in [
        "Linux 6.8.0-45-generic",
        "it is synchronised",
        "it is up at 10000 Mbit/s",
        "native XDP with zero copy (ixgbe)",
        "MTU 1500: the node raises it to 1624",
        "nobody else uses it",
    ] {
        assert!(told(text), "{text}: {found:#?}");
    }
}

#[test]
fn each_flaw_of_a_device_is_found_with_what_mends_it() {
    use Level::{Problem, Warning};
    type Change = Box<dyn FnOnce(&mut Facts)>;
    let of = |change: fn(&mut DeviceInfo)| -> Change { Box::new(device(change)) };
    let address = |d: &mut DeviceInfo| {
        d.addresses = vec![("192.0.2.1".parse().unwrap(), 24), ("fe80::1".parse().unwrap(), 64)];
    };
    let cases: Vec<(Change, Level, &str, Option<&str>)> = vec![
        (of(|d| d.is_up = false), Problem, "it is down", Some("ip link set dev eth1 up")),
        (of(|d| d.has_carrier = false), Warning, "no carrier", None),
        (
            of(|d| d.xdp_features = Some(XdpFeatures::default())),
            Warning,
            "ixgbe has no native XDP",
            None,
        ),
        (of(|d| d.mtu_max = Some(1600)), Warning, "allows an MTU of 1600", None),
        (of(|d| d.lro = true), Problem, "(LRO)", Some("ethtool -K eth1 lro off")),
        (
            of(|d| d.master = Some("br0".into())),
            Problem,
            "br0 forwards its frames too",
            Some("ip link set dev eth1 nomaster"),
        ),
        (
            of(|d| d.xdp = Some(plexus_io::bpf::XdpMode::Native)),
            Problem,
            "has an XDP program",
            Some("ip link set dev eth1 xdp off"),
        ),
        (of(|d| d.has_default_route = true), Problem, "the default route", None),
        (of(address), Warning, "has 192.0.2.1/24 on it,", Some("ip address flush dev eth1")),
        (of(|d| d.mac = None), Problem, "no Ethernet", None),
        (of(|d| d.name = "eth9".into()), Problem, "no such interface", Some("ip link")),
        (
            Box::new(|facts| {
                facts.managers.insert(3, Manager::NetworkManager);
            }),
            Warning,
            "NetworkManager configures it",
            Some("nmcli device set eth1 managed no"),
        ),
        (
            Box::new(|facts| {
                let user = Packet { program: "dhclient".into(), pid: 7 };
                facts.packet_users.insert(3, vec![user]);
            }),
            Warning,
            "dhclient (process 7)",
            Some("kill 7"),
        ),
    ];
    for (change, level, text, mend) in cases {
        let found = flaws(PORT, change);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert_flaw(&found, level, text, mend);
        assert_eq!(found[0].subject, "eth1");
    }
}

#[test]
fn what_a_port_is_for_decides_what_it_needs() {
    // A port to hosts needs no larger MTU.
    let host = format!("{PORT}role = \"host\"\n");
    assert_eq!(flaws(&host, device(|d| d.mtu_max = Some(1500))), []);
    let fabric = format!("{PORT}role = \"fabric\"\n");
    let found = flaws(&fabric, device(|d| d.mtu_max = Some(1500)));
    assert_flaw(&found, Level::Problem, "allows an MTU of 1500", None);
    // Tags are lost between hardware and AF_XDP.
    let trunk = format!("{PORT}role = \"switch\"\ntrunk = [10]\n");
    let found = flaws(&trunk, device(|d| d.rx_vlan = true));
    assert_flaw(&found, Level::Problem, "VLAN tags", Some("ethtool -K eth1 rxvlan off"));
    assert_eq!(flaws(PORT, device(|d| d.rx_vlan = true)), []);
    // The node's own program is nobody else's.
    let own = flaws(PORT, |facts| {
        facts.gathered.node_runs = true;
        facts.devices[0].xdp = Some(plexus_io::bpf::XdpMode::Native);
    });
    assert_eq!(own, []);
    // Somebody who watches does no harm.
    let watched = flaws(PORT, |facts| {
        let user = Packet { program: "tcpdump".into(), pid: 7 };
        facts.packet_users.insert(3, vec![user]);
    });
    assert_eq!(watched, []);
}

#[test]
fn each_flaw_of_the_machine_is_found_with_what_mends_it() {
    let found = flaws(PORT, |facts| facts.release = "5.4.0".into());
    assert_flaw(&found, Level::Warning, "has no CAP_BPF", None);
    let found = flaws(PORT, |facts| facts.is_synchronised = Some(false));
    assert_flaw(&found, Level::Warning, "keeps it right", Some("timedatectl set-ntp true"));
    let found = flaws(PORT, |facts| facts.capabilities = 1 << 13);
    assert_flaw(&found, Level::Warning, "lacks CAP_NET_ADMIN, CAP_BPF", None);
    let found = flaws(PORT, |facts| facts.xdp_sockets = Support::No);
    assert_flaw(&found, Level::Warning, "no AF_XDP sockets", None);
    let xdp = format!("{PORT}backend = \"af_xdp\"\n");
    let found = flaws(&xdp, |facts| facts.xdp_sockets = Support::No);
    assert_flaw(&found, Level::Problem, "no AF_XDP sockets", None);
    let tap = format!("{PORT}backend = \"tap\"\n");
    let found = flaws(&tap, |facts| facts.has_tun = false);
    assert_flaw(&found, Level::Problem, "/dev/net/tun", Some("modprobe tun"));
    let found = flaws(PORT, |facts| {
        facts.gathered.identity_owner = Some(0);
        facts.gathered.unit_user = Some(999);
    });
    let mend = "chown plexus: /etc/plexus/n1.identity";
    assert_flaw(&found, Level::Warning, "may not read it", Some(mend));
    let found = flaws(PORT, |facts| facts.gathered.identity_trouble = Some("no file".into()));
    assert_flaw(&found, Level::Problem, "no file", None);
}

#[test]
fn a_tunnel_needs_its_address_and_a_large_mtu() {
    let tunnel = "[[port]]\nname = \"wan\"\nbackend = \"udp\"\nlocal = \"192.0.2.1\"\n\
                  peer = \"198.51.100.7\"\n";
    let at = |mtu: u32| {
        device(move |d| {
            d.addresses = vec![("192.0.2.1".parse().unwrap(), 24)];
            d.mtu = mtu;
        })
    };
    assert_eq!(flaws(tunnel, at(1652)), []);
    let mend = "ip link set dev eth1 mtu 1652";
    assert_flaw(&flaws(tunnel, at(1651)), Level::Problem, "needs 1652", Some(mend));
    let found = flaws(tunnel, |_| {});
    assert_flaw(
        &found,
        Level::Problem,
        "no interface of this box has 192.0.2.1",
        Some("ip address"),
    );
}
