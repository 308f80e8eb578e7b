//! Labs of containerlab and networks of Mininet become topologies; topologies become containerlab's
//! definitions and come back; what is lost on the way is told.

use plexus_analysis::exchange::{Format, Imported, export};
use plexus_topo::{Device, Options, Shape, Topology, generate};
use proptest::prelude::*;

use crate::{carried, read, refused};

const CLOS: &str = include_str!("../graphs/clos01.clab.yml");
const ROUTERS: &str = include_str!("../graphs/frr01.clab.yml");
const BRIDGE: &str = include_str!("../graphs/br01.clab.yml");
const OFFICE: &str = include_str!("../graphs/office.mn");

fn names(topology: &Topology) -> [Vec<&str>; 3] {
    [
        topology.nodes.iter().map(|n| n.name.as_str()).collect(),
        topology.bridges.iter().map(|b| b.name.as_str()).collect(),
        topology.hosts.iter().map(|h| h.name.as_str()).collect(),
    ]
}

fn cables(topology: &Topology) -> Vec<[String; 2]> {
    topology.cables().map(|(_, _, ends)| ends.map(|end| topology.end_name(end))).collect()
}

fn addresses(topology: &Topology) -> Vec<String> {
    let of = |h: &plexus_topo::Host| {
        let addresses: Vec<_> = h.addresses.iter().map(ToString::to_string).collect();
        addresses.join(" ")
    };
    topology.hosts.iter().map(of).collect()
}

/// Every sentence begins one of the notes.
fn assert_told(notes: &[String], sentences: &[&str]) {
    for sentence in sentences {
        assert!(notes.iter().any(|n| n.starts_with(sentence)), "{sentence} is not in {notes:#?}");
    }
}

#[test]
fn a_lab_of_switches_and_clients_loads() {
    let Imported { topology, notes } = read(Format::Containerlab, CLOS);
    assert_eq!(topology.name, "clos01");
    let expected = [vec!["leaf1", "leaf2", "spine"], vec![], vec!["client1", "client2"]];
    assert_eq!(names(&topology), expected);
    assert_eq!(cables(&topology)[0], ["leaf1.e1-1", "spine.e1-1"]);
    assert_eq!(cables(&topology)[3], ["client2.eth1", "leaf2.e1-2"]);
    assert_eq!(
        notes,
        [
            "2 of kind \"linux\" with at most one link: now hosts",
            "3 of kind \"nokia_srlinux\": now nodes",
            "left out of nodes: \"image\" (2 times), \"type\" (3 times)",
            "links without mtu have 1500 bytes, not the 9500 of containerlab (4)",
        ]
    );
    assert_eq!(Topology::parse("t", &topology.to_toml()), Ok(topology));
}

#[test]
fn hosts_have_the_addresses_that_their_commands_give() {
    let Imported { topology, notes } = read(Format::Containerlab, ROUTERS);
    let [nodes, bridges, hosts] = names(&topology);
    assert_eq!((nodes.len(), bridges.len()), (3, 0));
    assert_eq!(hosts, ["PC1", "PC2", "PC3"]);
    let expected = ["192.168.11.2/24", "192.168.12.2/24", "192.168.13.2/24"];
    assert_eq!(addresses(&topology), expected);
    assert_told(&notes, &["PC1: exec \"ip route add 192.168.0.0/16 via", "left out of nodes: "]);
    assert!(!notes.iter().any(|n| n.contains("link set")), "{notes:?}");
}

#[test]
fn a_bridge_stays_a_bridge() {
    let topology = read(Format::Containerlab, BRIDGE).topology;
    assert_eq!(names(&topology), [vec!["srl1", "srl2", "srl3"], vec!["br-clab"], vec![]]);
    assert_eq!(cables(&topology)[2], ["srl3.e1-1", "br-clab.eth3"]);
}

#[test]
fn everything_that_a_lab_can_say_of_links_and_hosts_is_read() {
    let text = "\
name: odd
prefix: x
topology:
  defaults: {kind: linux, image: 'alpine:3'}
  groups:
    pcs: {exec: [ip link set dev eth1 up]}
  nodes:
    sw: {image: registry.example/plexus:0.1.0-1, exec: [ip addr add 10.9.9.9/24 dev eth1]}
    one: &pc
      group: pcs
      exec:
        - ip addr add 10.0.0.1/24 dev eth1
        - ip addr add 10.9.0.1/24 dev eth9
        - ip route replace default via 10.0.0.254
    two: {<<: *pc, exec: [touch x]}
    three:
    four: {labels: {plexus-kind: node, owner: me}}
    c1: {labels: {plexus-kind: controller}}
  links:
    - type: veth
      endpoints:
        - {node: one, interface: eth1, mac: '02:00:00:00:00:07', ipv6: 'fd00::1/64'}
        - {node: sw, interface: GigabitEthernet0/0/0}
      mtu: 2000
      vars: {rate_bits_per_s: 5000, loss: 0.5, delay_ns: 7, colour: red}
    - endpoints: ['two:eth1', 'sw:eth2']
      ipv4: ['10.0.0.2/24', '']
    - endpoints: ['four:eth1', 'sw:eth3']
    - endpoints: ['sw:eth4', 'host:veth-sw']
    - {type: dummy, endpoint: {node: sw, interface: eth5}}
    - endpoints: ['c1:ctl0', 'sw:ctl']
";
    let Imported { topology, notes } = read(Format::Containerlab, text);
    assert_eq!(names(&topology), [vec!["sw", "four"], vec![], vec!["one", "two", "three"]]);
    assert_eq!(addresses(&topology), ["fd00::1/64 10.0.0.1/24", "10.0.0.2/24", ""]);
    assert_eq!(topology.hosts[0].gateways, ["10.0.0.254".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(topology.hosts[0].mac.to_string(), "02:00:00:00:00:07");
    let ends = [["one.eth1", "sw.p1"], ["two.eth1", "sw.eth2"], ["four.eth1", "sw.eth3"]];
    assert_eq!(cables(&topology), ends.map(|ends| ends.map(str::to_string)));
    let link = &topology.links[0];
    assert_eq!((link.mtu, link.rate_bits_per_s, link.loss), (2000, Some(5000), 0.5));
    assert_eq!(link.delay.as_nanos(), 7);
    assert_told(
        &notes,
        &[
            "left out of the file: \"prefix\"",
            "left out of labels: \"owner\"",
            "left out of vars of links: \"colour\"",
            "link 4 of type host is left out",
            "link 5 of type dummy is left out",
            "controller c1 is left out",
            "sw: interface \"GigabitEthernet0/0/0\" has another name now",
            "sw: exec \"ip addr add 10.9.9.9/24 dev eth1\" is left out",
            "one: exec \"ip addr add 10.9.0.1/24 dev eth9\" is left out",
            "two: exec \"touch x\" is left out",
        ],
    );
}

#[test]
fn what_miniedit_saves_loads() {
    let Imported { topology, notes } = read(Format::Mininet, OFFICE);
    assert_eq!(names(&topology), [vec!["s1"], vec!["s2"], vec!["h2", "h1"]]);
    // Mininet numbers hosts without an address within ipBase.
    assert_eq!(addresses(&topology), ["192.168.0.2/16", "10.0.0.1/24"]);
    assert_eq!(topology.hosts[1].gateways.len(), 1);
    let link = &topology.links[0];
    assert_eq!((link.rate_bits_per_s, link.loss), (Some(10_000_000), 0.02));
    assert_eq!(link.delay.as_millis(), 5);
    assert_told(
        &notes,
        &[
            "left out of hosts: \"cores\"",
            "left out of links: \"max_queue_size\"",
            "left out of switches: \"controllers\" (2 times)",
            "left out of the file: \"controllers\"",
        ],
    );
}

#[test]
fn what_scripts_for_mininet_write_loads() {
    let text = r#"{
        "hosts": {
            "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": [
                "route add default gw 10.0.1.10 dev eth0",
                "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00"]},
            "h2": {}
        },
        "switches": {"s1": {"runtime_json": "s1.json"}, "s2": {}},
        "links": [["h1", "s1-p1"], ["s1-p2", "s2-p1", "0", 0.5], ["h2", "s2-p2", 3]]
    }"#;
    let Imported { topology, notes } = read(Format::Mininet, text);
    assert_eq!(names(&topology), [vec!["s1", "s2"], vec![], vec!["h1", "h2"]]);
    assert_eq!(addresses(&topology), ["10.0.1.1/24", "10.0.0.2/8"]);
    assert_eq!(topology.hosts[0].mac.to_string(), "08:00:00:00:01:11");
    assert_eq!(cables(&topology)[1], ["s1.p2", "s2.p1"]);
    assert_eq!(topology.links[1].rate_bits_per_s, Some(500_000));
    assert_eq!(topology.links[2].delay.as_millis(), 3);
    assert_told(&notes, &["h1: command \"arp -i eth0", "left out of switches: \"runtime_json\""]);
    let plain = r#"{"hosts": ["a", "b"], "switches": ["s"], "links": [
        {"node1": "a", "node2": "s", "port2": 7, "bw": 1}, {"src": "s", "dst": "b"}]}"#;
    let topology = read(Format::Mininet, plain).topology;
    assert_eq!(addresses(&topology), ["10.0.0.1/8", "10.0.0.2/8"]);
    assert_eq!(cables(&topology)[0], ["a.eth0", "s.p7"]);
}

#[test]
fn what_is_broken_is_named_with_its_place_and_a_remedy() {
    let clab = |nodes: &str, links: &str| {
        format!("name: t\ntopology:\n  nodes: {{{nodes}}}\n  links:\n    - {links}\n")
    };
    let two = "a: {kind: x}, b: {kind: linux}";
    let mut laughs = "x0: &x0 [y, y, y, y, y, y, y, y, y, y]\n".to_string();
    for n in 1..30 {
        let list = vec![format!("*x{}", n - 1); 10].join(", ");
        laughs += &format!("x{n}: &x{n} [{list}]\n");
    }
    let exec = "e, ".repeat(2000);
    let nodes: String = (0..2000).map(|n| format!("n{n}: {{group: g}}, ")).collect();
    let lines = format!("topology: {{groups: {{g: {{exec: [{exec}]}}}},\n nodes: {{{nodes}}}}}");
    let mut wrong = Vec::new();
    for (format, text, place, told) in [
        (Format::Containerlab, "", "f:1:1: the file is empty", "topology:"),
        (Format::Containerlab, "a: b\n", "f:1:1: there is no \"topology\"", ""),
        (Format::Containerlab, "a: [\n", "f:1:4: this cannot be read", ""),
        (Format::Containerlab, "topology: {}\n", "f:1:1: the graph has no nodes", ""),
        (Format::Containerlab, "topology: {nodes: [a]}\n", "f:1:19: \"nodes\" is no map", ""),
        (Format::Containerlab, &laughs, "f:7:", "repeated ones included"),
        (Format::Containerlab, &"[".repeat(1_000_000), "f:1:65: this cannot be read", ""),
        (Format::Containerlab, &"a:\n ".repeat(100_000), "f:", ""),
        (Format::Containerlab, &lines, "f:2:", "lines of exec"),
        (
            Format::Containerlab,
            &clab(two, "endpoints: ['a:e1', 'c:e1']"),
            "f:5:27: no node is called \"c\"",
            "name one of the nodes",
        ),
        (Format::Containerlab, &clab(two, "endpoints: ['a:e1', b]"), "f:5:27: this endpoint", ""),
        (Format::Containerlab, &clab(two, "endpoints: ['a:e1']"), "f:5:7: a link has a list", ""),
        (
            Format::Containerlab,
            &clab(two, "{endpoints: ['a:e1', 'a:e1']}"),
            "f:5:28: \"a:e1\" is the end of two links",
            "",
        ),
        (
            Format::Containerlab,
            &clab(two, "{endpoints: ['a:e1', 'b:e1'], mtu: 12}"),
            "f:5:42: mtu is \"12\"",
            "from 68",
        ),
        (
            Format::Containerlab,
            &clab(
                "b: {kind: linux, exec: [ip a a 10.0.0.0/24 dev e1]}, a: ",
                "endpoints: ['a:e1', 'b:e1']",
            ),
            "f:3:35: \"10.0.0.0/24\" is the address of the network",
            "",
        ),
        (
            Format::Containerlab,
            &clab("a: {labels: {plexus-kind: router}}", "endpoints: []"),
            "f:3:37: plexus-kind is \"router\"",
            "write node, host",
        ),
        (Format::Mininet, "{\"links\": []}", "f:1:1: there are neither", "\"hosts\""),
        (Format::Mininet, "{\"hosts\": [{}]}", "f:1:12: this device has no name", ""),
        (
            Format::Mininet,
            "{\"hosts\": [\"a\", \"b\"], \"links\": [[\"a\", \"c\"]]}",
            "f:1:39: no device is called \"c\"",
            "",
        ),
        (Format::Mininet, "{\"hosts\": [\"a\", \"a\"]}", "f:1:17: there are two devices", ""),
        (
            Format::Mininet,
            "{\"hosts\": [\"a\", \"b\"], \"links\": [[\"a\", \"b\", \"1h\"]]}",
            "f:1:44: \"1h\" cannot be read",
            "5ms",
        ),
        (
            Format::Mininet,
            "{\"hosts\": [\"a\", \"b\"],\n\
             \"links\": [{\"src\": \"a\", \"dst\": \"b\", \"loss\": 101}]}",
            "f:2:44: loss is \"1.01\"",
            "from 0 to 1",
        ),
        (
            Format::Mininet,
            "{\"hosts\": [{\"name\": \"a\", \"ip\": \"10.0.0.300\"}]}",
            "f:1:32: \"10.0.0.300/8\"",
            "",
        ),
    ] {
        let found = refused(format, text);
        let sound = found.starts_with(place) && found.contains(told) && found.contains("help: ");
        if !sound {
            wrong.push(format!("wanted {place} … {told}, found\n{found:.600}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn comes_back(topology: &Topology) {
    let text = export(topology, Format::Containerlab).unwrap().text;
    let back = read(Format::Containerlab, &text).topology;
    assert_eq!(back.name, topology.name);
    assert_eq!(carried(&back), carried(topology), "{text}");
}

/// Labs that are wrong without settings of ports and bridges, which do not come back.
const LOST: [(&str, &str); 2] =
    [("switch-vlan", "have the same address"), ("failover-stp", "closes a circle of bridges")];

#[test]
fn every_lab_that_is_shipped_comes_back() {
    let labs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs");
    let mut count = 0;
    for file in std::fs::read_dir(labs).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|e| e == "toml") {
            let lab = Topology::read(&file).unwrap_or_else(|e| panic!("{e}"));
            let lost = LOST.iter().find(|(name, _)| *name == lab.name);
            if let Some((_, told)) = lost {
                let text = export(&lab, Format::Containerlab).unwrap().text;
                assert!(refused(Format::Containerlab, &text).contains(told));
                continue;
            }
            comes_back(&lab);
            count += 1;
        }
    }
    assert!(count >= 30, "{count} labs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn generated_networks_come_back(
        ring in 3..20_usize, torus in 2..5_usize, hosts in 0..3_usize, lanes in 1..4_usize,
        rate in 1..1u64 << 50, delay in 0..60_000_000_000_u64, mtu in 1280..=65_535_u16,
        loss in 0.0..=1.0,
    ) {
        for shape in [Shape::Ring { nodes: ring }, Shape::Torus { sides: vec![torus, torus] }] {
            let options = Options { hosts_per_node: hosts, lanes, ..Options::default() };
            let mut made = generate(&shape, options).unwrap();
            let link = made.links.last_mut().unwrap();
            link.delay = std::time::Duration::from_nanos(delay);
            (link.mtu, link.loss, link.rate_bits_per_s) = (mtu, loss, Some(rate));
            comes_back(&made);
        }
    }
}

#[test]
fn a_fabric_becomes_containers_with_a_controller() {
    let ring = Topology::parse("ring", include_str!("../../../../labs/ring.toml")).unwrap();
    let made = export(&ring, Format::Containerlab).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for lines in [
        "name: ring\n",
        &format!("    node: {{kind: linux, image: \"plexus:{version}-1\""),
        "    n1:\n      group: node\n      binds:\n        \
         - \"n1.toml:/etc/plexus/node.toml\"\n        - \"n1.identity:/etc/plexus/n1.identity\"\n",
        "    c1:\n      group: controller\n      \
         cmd: controller run --config /etc/plexus/c1.toml\n",
        "    h1:\n      group: host\n      labels: {plexus-address: \"10.0.0.1/24\"}\n      \
         exec:\n        - \"udhcpc -b -i eth0\"\n",
        "        - {node: c1, interface: ctl0}\n        - {node: n1, interface: ctl}\n",
        "        - {node: n1, interface: a}\n        - {node: n2, interface: b}\n      \
         mtu: 2000\n      vars: {rate_bits_per_s: 50000000}\n",
    ] {
        assert!(made.text.contains(lines), "{lines} is not in\n{}", made.text);
    }
    // Leases are reserved by Ethernet address.
    assert!(made.text.contains(&format!("mac: \"{}\"", ring.hosts[0].mac)));
    assert_eq!(made.notes, ["traffic, events and assertions are left out"]);
    let back = read(Format::Containerlab, &made.text);
    assert_told(&back.notes, &["controller c1 is left out", "h1: exec \"udhcpc -b"]);
    let at = |device| back.topology.links[0].devices().contains(&device);
    assert!(at(Device::Host(0)) && at(Device::Node(0)));
}

#[test]
fn routers_bridges_and_odd_names_become_containers() {
    let text = "name = \"t\"\n\
        [[node]]\nname = \"no\"\n[[node]]\nname = \"host\"\ncpu = 0.5\n[[bridge]]\nname = \"1\"\n\
        stp = true\n[[host]]\nname = \"r\"\naddress = [\"10.0.0.1/24\", \"fd00::1/64\"]\n\
        gateway = [\"10.0.0.254\", \"fd00::ff\"]\nforward = true\n\
        [[link]]\nends = [\"no.off\", \"host.y\"]\n[[link]]\nends = [\"r\", \"1.x\"]\n\
        rate = \"1Mbit\"\n";
    let topology = Topology::parse("t", text).unwrap();
    let made = export(&topology, Format::Containerlab).unwrap();
    for lines in [
        "    \"no\":\n",
        "    host:\n      group: node\n      binds:\n        \
         - \"host.toml:/etc/plexus/node.toml\"\n      cpu: 0.5\n",
        "    \"1\":\n      group: bridge\n      exec:\n        \
         - \"ip link add name br0 type bridge stp_state 1 priority 32768 \
         forward_delay 1500\"\n        - \"ip link set dev x master br0\"\n        \
         - \"ip link set dev br0 up\"\n",
        "        - \"ip address add fd00::1/64 dev eth0\"\n        \
         - \"ip route replace default via 10.0.0.254\"\n        \
         - \"ip -6 route replace default via fd00::ff\"\n        \
         - \"sysctl -w net.ipv4.ip_forward=1\"\n",
        "{node: \"no\", interface: \"off\"}",
    ] {
        assert!(made.text.contains(lines), "{lines} is not in\n{}", made.text);
    }
    assert_eq!(made.notes.len(), 1, "{:?}", made.notes);
    comes_back(&topology);
}
