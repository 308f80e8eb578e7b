//! Mistakes in topology files are named with their line.

use plexus_config::LaneChoice;
use plexus_topo::Topology;

/// Two hosts at a node.
const TWO_HOSTS: &str = "name = \"t\"\n\
    [[node]]\nname = \"s1\"\n\
    [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
    [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
    [[link]]\nends = [\"h1\", \"s1.p1\"]\n\
    [[link]]\nends = [\"h2\", \"s1.p2\"]\n";

/// What is said of these and what a test adds.
fn told(more: &str) -> String {
    let error = Topology::parse("t.toml", &format!("{TWO_HOSTS}{more}")).unwrap_err();
    error.to_string()
}

#[test]
fn hosts_of_different_vlans_or_networks_may_have_the_same_address() {
    let other = "[[host]]\nname = \"x\"\naddress = \"10.0.0.2/24\"\n";
    let apart = "[[node]]\nname = \"s2\"\n[[link]]\nends = [\"x\", \"s2.p1\"]\n";
    let vlan = "[[link]]\nends = [\"x\", \"s1.p3\"]\n";
    let node = "[[node]]\nname = \"s1\"\n";
    let port = format!("{node}[[node.port]]\nname = \"p3\"\nvlan = 7\n");
    let in_vlan = TWO_HOSTS.replace(node, &port);
    for text in [format!("{TWO_HOSTS}{other}{apart}"), format!("{in_vlan}{other}{vlan}")] {
        assert_eq!(Topology::parse("t.toml", &text).map(drop), Ok(()));
    }
}

#[test]
fn each_mistake_is_named_with_its_line_and_remedy() {
    let flow = "[[traffic]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\n";
    for (more, line, help) in [
        ("[[link]]\nends = [\"h3\", \"s1.p3\"]\n", "15:10: there is no device \"h3\"", "\"h1\""),
        ("[[link]]\nends = [\"h1\", \"s1.p1\"]\n", "15:15: \"s1.p1\" already has", "one cable"),
        ("[[link]]\nends = [\"h1\", \"s1\"]\n", "15:15: \"s1\" is a node, and no", "s1.p1"),
        ("[[link]]\nends = [\"h1\"]\n", "15:8: a link has two ends", "ends = ["),
        ("[[host]]\nname = \"s1\"\n", "15:8: there are two devices", "its own"),
        (
            "[[host]]\nname = \"x\"\naddress = \"10.0.0.0/24\"\n",
            "16:11: \"10.0.0.0/24\" is the",
            "",
        ),
        (
            "[[host]]\nname = \"x\"\naddress = [\"fd00::1/64\", \"10.0.0.2/16\"]\n\
             [[link]]\nends = [\"x\", \"s1.p3\"]\n",
            "16:11: \"h2\" and \"x\" have the same address, 10.0.0.2",
            "its own",
        ),
        ("[[node]]\nname = \"x\"\ncpu = 0\n", "16:7: \"cpu\" is out of range", "0.01"),
        ("[[node]]\nname = \"x\"\ncpu = \"1\"\n", "16:7: \"cpu\" is a number, not", "0.01"),
        ("[[node]]\nname = \"x\"\nnative = true\n", "16:10: \"native\" is about", "controller"),
        ("[[node]]\nname = \"x\"\n[[node.port]]\nname = \"p\"\n", "17:8: port \"x.p\" has no", ""),
        (&format!("{flow}proto = \"udp\"\nbytes = 1\n"), "14:1: a flow lacks \"rate\"", "50Mbit"),
        (&format!("{flow}proto = \"tcp\"\ncount = 1\n"), "19:9: \"count\" does not end", "bytes"),
        (&format!("{flow}proto = \"icmp\"\nafter = \"f\"\n"), "19:9: \"f\" would wait", "itself"),
        (&format!("{flow}proto = \"icmp\"\nafter = \"g\"\n"), "19:9: there is no flow \"g\"", "f"),
        (
            &format!("{flow}proto = \"tcp\"\nbytes = 1\ncongestion = \"Cubic \"\n"),
            "20:14: \"Cubic \" is no TCP congestion control",
            "tcp_available_congestion_control",
        ),
        (
            &format!("{flow}proto = \"icmp\"\ncongestion = \"cubic\"\n"),
            "19:14: \"congestion\" has no meaning for icmp",
            "remove it",
        ),
        ("[[assert]]\ntext = \"f.loss == 0\"\n", "15:9: there is no flow \"f\"", ""),
        ("[[assert]]\ntext = \"s1.cpu < 5Mbit\"\n", "15:18: \"5Mbit\" is not a fraction", "0.5%"),
    ] {
        let told = told(more);
        assert!(told.starts_with(&format!("t.toml:{line}")), "{told}");
        assert!(told.contains("help: ") && told.contains(help), "{told}");
    }
}

/// A fabric of two nodes, and what a test adds to its controller and after it.
fn fabric(more: &str) -> Result<Topology, String> {
    let base = "name = \"t\"\n\
        [[node]]\nname = \"n1\"\n\
        [[node]]\nname = \"n2\"\n\
        [[link]]\nends = [\"n1.a\", \"n2.a\"]\nmtu = 2000\n\
        [[controller]]\nname = \"c1\"\n";
    Topology::parse("t.toml", &format!("{base}{more}")).map_err(|e| e.to_string())
}

const SUBNET: &str = "on = \"n2\"\nstrangers_may_talk = false\n\
    [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
    [controller.limits]\nstations = 7\n";
const ASKING: &str = "[[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\ndhcp = true\n\
    [[link]]\nends = [\"h1\", \"n1.p1\"]\n";

#[test]
fn a_controller_is_read_and_reserves_the_addresses_of_hosts_that_ask() {
    let group = "[[controller.group]]\nname = \"g\"\nports = [\"n1:0\"]\n";
    let node = "[[node]]\nname = \"n3\"\nnative = true\n\
        [[link]]\nends = [\"n1.b\", \"n3.a\"]\nmtu = 2000\n";
    let lab = fabric(&[SUBNET, group, ASKING, node].concat()).unwrap();
    assert!(lab.nodes[2].native);
    let controller = &lab.controllers[0];
    assert_eq!((controller.name.as_str(), controller.node), ("c1", 1));
    assert!(!controller.settings.strangers_may_talk);
    assert_eq!(controller.settings.limits.stations, 7);
    assert_eq!(controller.settings.groups[0].ports, [("n1".to_string(), 0)]);
    let reserved = &lab.controller_settings(controller).reservations[..];
    let [one] = reserved else { panic!("{reserved:?}") };
    assert_eq!((one.mac, one.ip.to_string()), (lab.hosts[0].mac, "10.0.0.1".into()));
    assert!(controller.settings.reservations.is_empty());
    assert_eq!(Topology::parse("again", &lab.to_toml()), Ok(lab));
}

#[test]
fn only_a_fabric_chooses_among_lanes() {
    let text = |lanes: &str, rest: &str| {
        let text = format!("name = \"t\"\nlanes = {lanes}\n[[node]]\nname = \"n1\"\n{rest}");
        Topology::parse("t.toml", &text).map_err(|e| e.to_string())
    };
    let controller = "[[controller]]\nname = \"c1\"\non = \"n1\"\n";
    let lab = text("\"least_loaded\"", controller).unwrap();
    assert_eq!(lab.lanes, LaneChoice::LeastLoaded);
    assert_eq!(Topology::parse("again", &lab.to_toml()), Ok(lab));
    let told = text("\"static\"", "").unwrap_err();
    assert!(told.starts_with("t.toml:2:9: only the nodes of a fabric choose"), "{told}");
    let told = text("\"least-loaded\"", controller).unwrap_err();
    assert!(told.starts_with("t.toml:2:9: ") && told.contains("least_loaded"), "{told}");
}

#[test]
fn a_controllers_mistakes_are_named_with_their_line() {
    let host = |rest: &str| format!("{SUBNET}[[host]]\nname = \"h1\"\n{rest}dhcp = true\n");
    let reserved = "[[controller.reservation]]\nmac = \"02:00:00:00:00:01\"\nip = \"10.0.0.1\"\n";
    let second = "[[controller]]\nname = \"c2\"\non = \"n2\"\n";
    for (more, line, help) in [
        ("", "9:1: a controller lacks \"on\"", "n1"),
        ("on = \"n3\"\n", "11:6: there is no node \"n3\"", "\"n"),
        ("on = \"n1\"\npolcy = \"ecmp\"\n", "12:1: ", "policy"),
        (&format!("{SUBNET}{second}"), "18:1: controller \"c1\" is on this node already", "each"),
        (&format!("{SUBNET}[[host]]\nname = \"c1\"\n"), "19:8: there are two devices", "share"),
        (&host(""), "20:8: a host with \"dhcp\" has one IPv4 address", "10.0.0.1/24"),
        (&host("address = \"10.0.1.1/24\"\n"), "20:11: the controller serves no subnet of", ""),
        (&host("address = \"10.0.0.254/24\"\n"), "20:11: 10.0.0.254 is the subnet's", "its own"),
        (
            &host("address = \"10.0.0.1/24\"\ngateway = \"10.0.0.254\"\n"),
            "21:11: the IPv4 gateway comes with the lease",
            "",
        ),
        (
            &format!("{SUBNET}{reserved}{ASKING}"),
            "9:1: the reservation of 10.0.0.1 for 02:00:00:00:00:01 is at odds with \"h1\"",
            "",
        ),
        (
            "on = \"n1\"\n[[link]]\nends = [\"n1.ctl\", \"n2.b\"]\nmtu = 1600\n",
            "9:1: port \"ctl\" is the controller's",
            "another name",
        ),
    ] {
        let told = fabric(more).unwrap_err();
        assert!(told.starts_with(&format!("t.toml:{line}")), "{told}");
        assert!(told.contains("help: ") && told.contains(help), "{told}");
    }
    let told = told("[[host]]\nname = \"h3\"\naddress = \"10.0.0.3/24\"\ndhcp = true\n");
    assert!(told.starts_with("t.toml:17:8: there is no controller"), "{told}");
}

#[test]
fn parts_that_no_cable_joins_are_refused_where_something_needs_them_joined() {
    let apart = "[[node]]\nname = \"s2\"\n\
        [[host]]\nname = \"h3\"\naddress = \"10.0.0.3/24\"\n\
        [[link]]\nends = [\"h3\", \"s2.p1\"]\n";
    let flow = "[[traffic]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h3\"\nproto = \"icmp\"\n";
    let refused = told(&format!("{apart}{flow}"));
    assert!(refused.starts_with("t.toml:24:6: no cables lead from \"h1\" to \"h3\""), "{refused}");
    assert!(refused.contains("help: join their parts by a [[link]]"), "{refused}");
    let refused = told(&format!("{apart}{}", flow.replace("\"h3\"", "\"10.0.0.3\"")));
    assert!(refused.starts_with("t.toml:24:6: no cables lead from"), "{refused}");
    let pattern = "[[pattern]]\nname = \"p\"\nkind = \"stride\"\nstride = 1\nproto = \"icmp\"\n";
    let refused = told(&format!("{apart}{pattern}"));
    assert!(refused.starts_with("t.toml:22:8: no cables lead from \"h2\" to \"h3\""), "{refused}");
    let read = |more: &str| Topology::parse("t.toml", &format!("{TWO_HOSTS}{apart}{more}"));
    assert!(read(&format!("{flow}expect = \"blocked\"\n")).is_ok());
    assert!(read(&format!("{flow}[[link]]\nends = [\"s1.x\", \"s2.x\"]\n")).is_ok());
    // A host with a cable to either part passes nothing on.
    let both = "[[host]]\nname = \"h4\"\naddress = \"10.0.0.4/24\"\n\
        [[link]]\nends = [\"h4\", \"s1.x\"]\n[[link]]\nends = [\"h4\", \"s2.x\"]\n";
    assert!(read(&format!("{flow}{both}")).is_err());
    assert!(read(&format!("{}{both}", flow.replace("\"h3\"", "\"h4\""))).is_ok());
    // A node of a fabric that its controller never hears of.
    let refused = fabric(&format!("on = \"n2\"\n{apart}")).unwrap_err();
    let first = "t.toml:9:1: no cables lead from \"s2\" to the controller \"c1\" on \"n2\"";
    assert!(refused.starts_with(first), "{refused}");
}

#[test]
fn one_pass_finds_every_mistake() {
    let told = told("[[link]]\nends = [\"a\", \"b\"]\nrate = 0\n[[traffic]]\nfrom = \"x\"\n");
    for mistake in ["device \"a\"", "device \"b\"", "the unit is missing", "host \"x\"", "\"to\""] {
        assert!(told.contains(mistake), "{mistake}: {told}");
    }
}

#[test]
fn what_assertions_measure_is_bounded_where_the_one_too_many_stands() {
    // 50 hosts make 2,450 flows, and each assertion measures all of them.
    let hosts: String = (3..=50)
        .map(|h| {
            format!(
                "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n\
                 [[link]]\nends = [\"h{h}\", \"s1.p{h}\"]\n"
            )
        })
        .collect();
    let pattern = "[[pattern]]\nname = \"p\"\nkind = \"all-to-all\"\nproto = \"icmp\"\ncount = 1\n";
    let text = |count: usize| {
        let assertion = |n| format!("[[assert]]\ntext = \"*.loss <= 0.{n:04}\"\n");
        let assertions: String = (1..=count).map(assertion).collect();
        format!("{TWO_HOSTS}{hosts}{pattern}{assertions}")
    };
    let fits = Topology::parse("t.toml", &text(408)).unwrap();
    assert_eq!(fits.assertions.iter().map(|a| a.subjects.len()).sum::<usize>(), 999_600);
    let long = text(500);
    let told = Topology::parse("t.toml", &long).unwrap_err().to_string();
    let line = 1 + long.lines().position(|l| l.contains("0.0409")).unwrap();
    assert!(told.starts_with(&format!("t.toml:{line}:8: with this one, assertions")), "{told}");
    assert!(told.contains("1000000 figures") && told.contains("fewer of those with"), "{told}");
    assert_eq!(told.matches("t.toml:").count(), 1, "{told}");
}

#[test]
fn etcd_is_in_band_only_beside_three_controllers_and_at_ports_of_its_own() {
    let file = |controllers: usize, port: &str| {
        let mut text = String::from("name = \"t\"\netcd_in_band = true\n");
        for n in 1..=3 {
            text += &format!("[[node]]\nname = \"n{n}\"\n");
        }
        for n in 1..=controllers {
            text += &format!("[[controller]]\nname = \"c{n}\"\non = \"n{n}\"\n");
        }
        for n in 1..=2 {
            text += &format!("[[link]]\nends = [\"n{n}.a\", \"n{}.b\"]\n", n + 1);
        }
        text + "[[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n"
            + &format!("[[link]]\nends = [\"h1\", \"n1.{port}\"]\n")
    };
    let topology = Topology::parse("t.toml", &file(3, "x")).unwrap();
    assert!(topology.etcd_in_band);
    assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
    let told = |text: &str| Topology::parse("t.toml", text).unwrap_err().to_string();
    assert!(
        told(&file(2, "x")).starts_with("t.toml:2:16: too few controllers"),
        "{}",
        told(&file(2, "x"))
    );
    for port in ["etcd", "box", "ctl"] {
        assert!(told(&file(3, port)).contains("is the controller's"), "{port}");
    }
}
