//! The shipped example files can be read, and read back after writing.

use std::path::Path;

use plexus_config::{
    ControllerFile, LaneChoice, NamedSettings, NodeFile, ReversePath, StrategyName, Via, VlanMode,
};

fn example(name: &str) -> NodeFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let node = NodeFile::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let text = node.to_toml();
    assert_eq!(NodeFile::parse("written", &text).unwrap_or_else(|e| panic!("{e}\n{text}")), node);
    node
}

#[test]
fn the_switch_example_is_read() {
    let node = example("switch.toml");
    assert_eq!((node.name.as_str(), node.ports.len()), ("sw1", 4));
    assert_eq!(node.ports[2].settings.rate_bits_per_s, Some(100_000_000));
    assert_eq!(node.ports[3].settings.storm.broadcast_pps, Some(1000));
    assert_eq!(node.switch.static_macs[0].vlan, 1);
}

#[test]
fn the_vlan_example_is_read() {
    let node = example("vlan.toml");
    let trunk = VlanMode::Trunk { allowed: vec![(10, 10), (20, 29)], native: Some(99) };
    assert_eq!(node.ports[4].settings.vlan, trunk);
    assert_eq!(node.ports[0].settings.vlan, VlanMode::Access(10));
}

#[test]
fn the_example_of_a_fabric_node_is_read() {
    let node = example("fabric-node.toml");
    assert_eq!(node.fabric.unwrap().lanes, LaneChoice::LeastLoaded);
    assert_eq!(node.ports[3].device, "eth4");
}

#[test]
fn the_device_of_a_controller_is_no_other() {
    let file = |more: &str| {
        NodeFile::parse("n", &format!("name = \"n1\"\n[fabric]\nidentity = \"i\"\n{more}\n"))
    };
    let node = file("controller = \"ctl0\"\nkernel = [\"gw1\"]").unwrap();
    assert_eq!(node.fabric.as_ref().unwrap().controller.as_deref(), Some("ctl0"));
    assert_eq!(NodeFile::parse("again", &node.to_toml()), Ok(node));
    for (wrong, told) in [
        ("controller = \"ctl0\"\nkernel = [\"ctl0\"]", "ctl0\" is one of routing daemons"),
        ("controller = \"a-long-device\"", "has 13 bytes"),
    ] {
        let error = file(wrong).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn removed_and_drained_boxes_are_read_and_written() {
    let file = |more: &str| ControllerFile::parse("c", &format!("name = \"c1\"\n{more}"));
    let key = "0f".repeat(32);
    let revoked = |key: &str| format!("[[revoked]]\nname = \"n3\"\nkey = \"{key}\"\n");
    let good = file(&format!("{}[[drained]]\nnode = \"n4\"\n", revoked(&key))).unwrap();
    assert_eq!(good.settings.revoked[0].key, [0x0f; 32]);
    assert_eq!(good.settings.drained, ["n4"]);
    assert_eq!(ControllerFile::parse("again", &good.to_toml()), Ok(good));
    let sign = format!("+{}", &key[1..]);
    for wrong in ["", &key[1..], &format!("{key}0"), &key.replace('f', "g"), &sign] {
        let error = file(&revoked(wrong)).unwrap_err().to_string();
        assert!(error.contains("is no key") && error.contains("identity list"), "{error}");
    }
}

#[test]
fn the_router_example_is_read() {
    let router = example("router.toml").router.unwrap();
    assert_eq!((router.interfaces.len(), router.routes.len()), (2, 3));
    assert_eq!(router.interfaces[0].reverse_path, ReversePath::Strict);
    assert_eq!(router.routes[2].via, Via::Unreachable);
}

#[test]
fn a_link_local_gateway_takes_the_interface_that_it_names_or_the_only_one() {
    let file = |interfaces: &[&str], via: &str| {
        let one = |n: &&str| {
            format!("[[interface]]\nname = \"{n}\"\nport = \"{n}\"\naddress = \"fd00:{n}::1/64\"\n")
        };
        let port = |n: &&str| format!("[[port]]\nname = \"{n}\"\ndevice = \"eth{n}\"\n");
        let parts: Vec<String> =
            interfaces.iter().map(port).chain(interfaces.iter().map(one)).collect();
        let route = format!("[[route]]\nprefix = \"::/0\"\nvia = \"{via}\"\n");
        NodeFile::parse("r", &format!("name = \"r\"\n{}{route}", parts.concat()))
    };
    let taken = |interfaces: &[&str], via: &str| {
        let node = file(interfaces, via).unwrap();
        assert_eq!(NodeFile::parse("written", &node.to_toml()), Ok(node.clone()));
        let router = node.router.unwrap();
        let Via::Gateways(gateways) = &router.routes[0].via else { panic!("{router:?}") };
        router.interface_to(&gateways[0]).unwrap()
    };
    assert_eq!(taken(&["a", "b"], "fe80::2%b"), 1);
    assert_eq!(taken(&["a", "b"], "fe80::2%a"), 0);
    assert_eq!(taken(&["a"], "fe80::2"), 0);
    let told = file(&["a", "b"], "fe80::2").unwrap_err().to_string();
    assert!(told.contains("could be at any") && told.contains("fe80::2%a"), "{told}");
}

#[test]
fn the_example_of_named_data_is_read_and_says_what_is_usual() {
    let named = example("ndn.toml").named.unwrap();
    let usual = NamedSettings::default();
    assert_eq!((&named.unix, &named.tcp, &named.udp), (&usual.unix, &usual.tcp, &usual.udp));
    assert_eq!((named.workers, usual.workers), (4, 1));
    assert_eq!(
        (named.dispatch[0].prefix.to_string(), named.dispatch[0].components),
        ("/web".into(), 4)
    );
    assert_eq!((&named.websocket, named.idle), (&usual.websocket, usual.idle));
    assert_eq!(named.faces_max, usual.faces_max);
    assert_eq!(
        (named.mtu, named.cache, named.disks[0].size),
        (Some(1452), 256 << 20, 1_000_000_000)
    );
    assert_eq!((named.prefetch, usual.prefetch), (16, 0));
    assert_eq!((named.disk_free_percent, usual.disk_free_percent), (10, 10));
    assert!(named.faces[0].permanent && named.faces[0].reliability && !named.faces[1].permanent);
    assert_eq!((named.routes[0].cost, named.routes[1].face.as_str()), (10, "mirror"));
    assert_eq!(named.strategies[0].strategy, StrategyName::Asf);
    assert_eq!(named.regions[0].to_string(), "/example/region");
    // The settings in its comments are right too.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ndn.toml");
    let text = std::fs::read_to_string(path).unwrap().replace("\n#   ", "\n");
    let said = |line: &&str| !line.starts_with("plexus") && !line.starts_with("sudo");
    let text: Vec<&str> = text.lines().filter(said).collect();
    let node = NodeFile::parse("ndn.toml", &text.join("\n")).unwrap_or_else(|e| panic!("{e}"));
    let named = node.named.as_ref().unwrap();
    assert_eq!((named.ethernets.len(), named.faces.len()), (1, 3));
    assert_eq!(named.anchors, [Path::new("/etc/plexus/root.ndncert")]);
    assert!(named.signed && named.certificates == [Path::new("/etc/plexus/issued")]);
    assert_eq!(named.secrets[0].file, Path::new("/etc/plexus/operator.secret"));
    assert_eq!(NodeFile::parse("written", &node.to_toml()), Ok(node));
    let file = NodeFile::parse("short", "name = \"n\"\n[named]\n").unwrap();
    assert_eq!(file.named, Some(usual));
}

#[test]
fn how_disks_are_read_and_filled_is_written_as_it_was_read() {
    for (prefetch, free) in [(0, 10), (1, 0), (2, 1), (32, 90)] {
        let text =
            format!("name = \"n\"\n[named]\nprefetch = {prefetch}\ndisk_free_percent = {free}\n");
        let node = NodeFile::parse("n.toml", &text).unwrap();
        let named = node.named.as_ref().unwrap();
        assert_eq!((named.prefetch, named.disk_free_percent), (prefetch, free));
        assert_eq!(NodeFile::parse("written", &node.to_toml()), Ok(node));
    }
}

#[test]
fn the_service_lets_the_examples_write_where_they_do() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let unit = std::fs::read_to_string(examples.join("plexus-node@.service")).unwrap();
    let said = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let value = lines.next().unwrap_or_else(|| panic!("{key} is not there"));
        assert_eq!(lines.next(), None, "{key} is there twice");
        value
    };
    // Nothing else can be written to.
    assert_eq!((said("User"), said("ProtectSystem")), ("plexus", "strict"));
    let mut folders = Vec::new();
    for (key, root) in [("RuntimeDirectory", "/run"), ("CacheDirectory", "/var/cache")] {
        folders.extend(said(key).split(' ').map(|name| Path::new(root).join(name)));
    }
    let mode = |key| u32::from_str_radix(said(key), 8).unwrap();
    assert_eq!(mode("RuntimeDirectoryMode") & 0o7, 0o5, "applications get to their socket");
    let mut disks = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if !file.ends_with(".toml") || ["controller.toml", "common.toml"].contains(&&*file) {
            continue;
        }
        let node = example(&file);
        let named = node
            .named
            .clone()
            .unwrap_or_else(|| NamedSettings { unix: Vec::new(), ..NamedSettings::default() });
        disks += named.disks.len();
        let own = named.unix.into_iter().chain(named.disks.into_iter().map(|disk| disk.file));
        for path in own.chain([node.control.clone()]) {
            let is_within = folders.iter().any(|folder| path.parent() == Some(folder));
            assert!(is_within, "{file}: {} is in none of {folders:?}", path.display());
        }
        // As many descriptors as its faces may take, with some for the rest.
        let most: usize = said("LimitNOFILE").split(':').next_back().unwrap().parse().unwrap();
        assert!(most > 2 * named.faces_max);
    }
    assert_eq!(disks, 1);
}

#[test]
fn the_tunnel_example_is_read() {
    let node = example("tunnel.toml");
    assert!(node.fabric.is_some());
    let tunnel = node.ports[2].tunnel.unwrap();
    assert_eq!(tunnel.local.to_string(), "192.0.2.1:18773");
    assert_eq!(tunnel.peer.to_string(), "198.51.100.7:18773");
    let second = node.ports[3].tunnel.unwrap();
    assert_eq!(second.peer.to_string(), "[2001:db8:2::7]:18774");
}

#[test]
fn the_controller_example_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/controller.toml");
    let file = ControllerFile::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let text = file.to_toml();
    let again = ControllerFile::parse("written", &text);
    assert_eq!(again.unwrap_or_else(|e| panic!("{e}\n{text}")), file);
    let settings = &file.settings;
    assert_eq!((settings.subnets.len(), settings.groups.len()), (3, 3));
    assert_eq!(settings.subnets[0].lease_s, 3600);
    assert!(settings.subnets[2].advertise && !settings.strangers_may_talk);
    assert_eq!(settings.allow[0].from, None);
}

#[test]
fn a_partition_is_read_and_written() {
    let text = "name = \"c1\"\n[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
                [[forwarder]]\nnode = \"n1\"\n[[forwarder]]\nnode = \"n2\"\nweight = 2\n";
    let whole = ControllerFile::parse("whole", text).unwrap();
    assert_eq!((whole.settings.copies, whole.settings.partition()), (None, None));
    for copies in 1..=2 {
        let text = format!("{text}[partition]\ncopies = {copies}\n");
        let file = ControllerFile::parse("parts", &text).unwrap();
        assert_eq!(file.settings.copies, Some(copies));
        let partition = file.settings.partition().unwrap();
        assert_eq!((partition.places(), partition.forwarders()), (3, 2));
        assert_eq!(ControllerFile::parse("written", &file.to_toml()), Ok(file));
    }
}

#[test]
fn the_service_of_the_controller_lets_the_example_write_where_it_does() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let unit = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let said = |unit: &str, key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.next().map(str::to_string)
    };
    let controller = unit("plexus-controller@.service");
    let file = ControllerFile::read(&examples.join("controller.toml")).unwrap();
    for (key, root, path) in
        [("RuntimeDirectory", "/run", &file.control), ("StateDirectory", "/var/lib", &file.state)]
    {
        let folder = Path::new(root).join(said(&controller, key).unwrap());
        assert_eq!(path.parent(), Some(&*folder), "{key}");
    }
    // Hardened as the node's is; what it lacks is a right that only nodes need.
    let node = unit("plexus-node@.service");
    let keys = node.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key);
    let only_nodes = [
        "CacheDirectory",
        "CacheDirectoryMode",
        "DevicePolicy",
        "DeviceAllow",
        "LimitMEMLOCK",
        "LimitNOFILE",
    ];
    for key in keys.filter(|key| !key.starts_with('#') && !only_nodes.contains(key)) {
        assert!(said(&controller, key).is_some(), "{key}");
    }
    for key in ["NoNewPrivileges", "ProtectSystem", "ProtectHome", "User", "UMask"] {
        assert_eq!(said(&controller, key), said(&node, key), "{key}");
    }
    assert_eq!(said(&controller, "PrivateDevices").as_deref(), Some("yes"));
}

#[test]
fn a_gateway_is_in_the_smallest_network_that_it_lies_in() {
    let interface = |name: &str, address: &str| {
        format!("[[interface]]\nname = \"{name}\"\nport = \"{name}\"\naddress = \"{address}\"\n")
    };
    let ports = "[[port]]\nname = \"wan\"\n[[port]]\nname = \"lab\"\n";
    let [wan, lab] = [interface("wan", "10.0.0.1/8"), interface("lab", "10.1.0.1/16")];
    let route = "[[route]]\nprefix = \"192.0.2.0/24\"\nvia = \"10.1.0.5\"\n";
    for (text, at) in [(format!("{wan}{lab}"), 1), (format!("{lab}{wan}"), 0)] {
        let text = format!("name = \"r\"\n{ports}{text}{route}");
        let router = NodeFile::parse("r", &text).unwrap().router.unwrap();
        let Via::Gateways(gateways) = &router.routes[0].via else { panic!("{router:?}") };
        assert_eq!(router.interface_to(&gateways[0]), Ok(at));
    }
}

#[test]
fn an_earlier_text_gets_the_keys_that_were_revoked_since() {
    let key = |digit: &str| digit.repeat(64);
    let revoked =
        |digit: &str| format!("[[revoked]]\nname = \"n{digit}\"\nkey = \"{}\"\n", key(digit));
    let plain = "name = \"c1\"\nidentity = \"i\"\ndevice = \"d\" # mine";
    let with = |digits: &[&str]| {
        format!("{plain}\n{}", digits.iter().map(|digit| revoked(digit)).collect::<String>())
    };
    let keys = |text: &str| {
        let file = plexus_config::ControllerFile::parse("c", text).unwrap();
        file.settings.revoked.iter().map(|revoked| revoked.key[0] & 0xF).collect::<Vec<u8>>()
    };
    let merged =
        plexus_config::with_revoked(plain, &[&with(&["1", "2"]), &with(&["2", "3"])]).unwrap();
    assert!(merged.starts_with(plain), "{merged}");
    assert_eq!(keys(&merged), [1, 2, 3]);
    assert_eq!(plexus_config::with_revoked(&merged, &[&with(&["2"]), plain]), None);
    // A node's file, and one that is wrong.
    assert_eq!(
        plexus_config::with_revoked("name = \"n1\"\n[[port]]\nname = \"p1\"\n", &[&merged]),
        None
    );
    assert_eq!(plexus_config::with_revoked(plain, &["nonsense ="]), None);
    let two = plexus_config::with_revoked(&with(&["1"]), &[&with(&["2"])]);
    assert_eq!(keys(&two.unwrap()), [1, 2]);
    // A key that an unusable text revokes counts, too.
    let broken = format!("{}unknown = 1\npolicy = \n", with(&[]));
    let wrong = plexus_config::with_revoked(plain, &[&format!("{broken}{}", revoked("4"))]);
    assert_eq!(keys(&wrong.unwrap()), [4]);
    // A list in one line stays one.
    let five = format!("[{{ name = \"n5\", key = \"{}\" }}]", key("5"));
    for list in ["[]", "[\n  # none\n]", &five] {
        let text = format!("revoked = {list}\n{plain}\n");
        let merged = plexus_config::with_revoked(&text, &[&with(&["1"])]).unwrap();
        assert_eq!(keys(&merged)[0], 1, "{merged}");
    }
}
