//! A box that routes, as people use it: the lab that ships, what `show` says, changed files.

use std::fs;
use std::net::UdpSocket;

use crate::common::{self, Daemons, Desk, item, until};
use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

#[test]
fn the_lab_routes_and_its_nodes_say_how() {
    common::turn();
    let Some(desk) = Desk::root("router") else { return };
    let file = &common::shipped("router");
    desk.plexus(&["lab", "up", file]).expect(0);
    for (host, to) in [("a", "10.0.3.2"), ("c", "fd00:3::2"), ("a", "10.0.2.3")] {
        desk.exec("router", host, &format!("ping -c1 -W5 {to}")).expect(0);
    }
    let node = ["--node", "router/r1"];
    let show = |what: &[&str]| desk.plexus(&[&["show"], what, &node].concat()).expect(0).out;
    let facts = |what: &[&str]| desk.json(&[&["show"], what, &node].concat(), 0);

    let fib = facts(&["fib"]);
    let names: Vec<&Value> =
        fib["interfaces"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!(names, ["lan", "office", "wan"]);
    assert!(fib["interfaces"].as_array().unwrap().iter().all(|i| i["up"] == true), "{fib}");
    assert_eq!((&fib["routes"], &fib["refused"]), (&json!(3), &json!(0)));
    let text = show(&["fib"]);
    assert!(text.contains("office") && text.contains("10.0.2.1/24"), "{text}");
    assert!(text.contains("3 routes"), "{text}");

    let neighbours = facts(&["neighbours"]);
    let found = |address: &str| item(&neighbours["neighbours"], "address", address);
    let gateway = found("10.9.0.2");
    assert_eq!((&gateway["gateway"], &gateway["interface"]), (&json!(true), &json!("wan")));
    assert_eq!(found("10.0.2.3")["interface"], "office");
    assert!(found("10.0.2.3")["mac"].is_string(), "{neighbours}");
    assert!(show(&["neighbours"]).contains("10.9.0.2"));

    let route = facts(&["route", "10.0.3.2"]);
    assert_eq!((&route["prefix"], &route["agrees"]), (&json!("10.0.3.0/24"), &json!(true)));
    assert_eq!(route["routes"][0]["next_hops"][0]["gateway"], "10.9.0.2");
    let text = show(&["route", "10.0.3.2"]);
    assert!(text.starts_with("10.0.3.2: by 10.0.3.0/24, 10.9.0.2 on wan ("), "{text}");
    assert!(show(&["route", "10.0.1.1"]).contains("to this box itself"));
    assert!(show(&["route", "203.0.113.9"]).contains("nowhere: unreachable"));
    assert!(show(&["route", "198.51.100.1"]).contains("no route"));
    // What the packet path decides without its table, whatever routes say.
    for martian in ["127.0.0.1", "224.0.0.5", "169.254.1.1", "ff0e::1"] {
        assert_eq!(facts(&["route", martian])["class"], "martian", "{martian}");
        assert!(show(&["route", martian]).contains("no router forwards to it"), "{martian}");
    }
    assert!(show(&["route", "fe80::1"]).contains("for this box itself"));
    // What a host has said is a neighbour's own route, before its subnet's.
    let text = show(&["route", "10.0.2.3"]);
    assert!(text.starts_with("10.0.2.3: by 10.0.2.3/32"), "{text}");

    let run = desk.json(&["lab", "run", file], 0);
    assert_eq!(run["passed"], true, "{run}");
}

fn file(dir: &std::path::Path, routes: &str) -> String {
    format!(
        "name = \"r1\"\ncontrol = \"{}/r1.sock\"\nbackend = \"af_packet\"\n\
         [[port]]\nname = \"p1\"\ndevice = \"n1\"\n[[port]]\nname = \"p2\"\ndevice = \"n2\"\n\
         [[interface]]\nname = \"lan\"\nport = \"p1\"\naddress = \"10.0.0.1/24\"\n\
         [[interface]]\nname = \"wan\"\nport = \"p2\"\naddress = \"10.1.0.1/24\"\n{routes}",
        dir.display()
    )
}

#[test]
fn routes_change_by_sighup_and_a_bad_file_changes_nothing() {
    let Some([inside]) = common::namespaces("the router", common::quiet) else { return };
    for i in 1..=3 {
        common::ip(&inside, &format!("link add n{i} type veth peer name h{i}"));
        common::ip(&inside, &format!("link set n{i} up"));
        common::ip(&inside, &format!("link set h{i} up"));
    }
    let mut daemons = Daemons::bare("router");
    let dir = daemons.dir.clone();
    let beside = dir.join("r1.routes");
    fs::write(&beside, "198.51.100.0/24 10.1.0.9\n").unwrap();
    // With a bridged port as well.
    let settings = format!(
        "[[port]]\nname = \"p3\"\ndevice = \"n3\"\n[router]\nroutes = \"{}\"\n",
        beside.display()
    );
    let way =
        |via: &str| format!("{settings}[[route]]\nprefix = \"192.0.2.0/24\"\nvia = \"{via}\"\n");
    daemons.start(&inside, "node", "r1", &file(&dir, &way("10.1.0.9")));
    let gateway = || -> Option<Value> {
        let route = daemons.ask("r1", json!({"route": "192.0.2.1"}))?;
        Some(route.pointer("/routes/0/next_hops/0/gateway").cloned().unwrap_or_default())
    };
    assert!(until(|| gateway() == Some(json!("10.1.0.9"))), "{}", daemons.log("r1", &["fib"]));

    let hang_up = |text: &str| daemons.reload(0, "r1", text);
    hang_up(&file(&dir, &way("10.0.0.7")));
    assert!(until(|| gateway() == Some(json!("10.0.0.7"))), "{}", daemons.log("r1", &["fib"]));
    // Refused with place and remedy; what was goes on.
    hang_up(&file(&dir, &way("10.7.0.9")));
    let told = "r1.toml:25:7: the gateway is 10.7.0.9, which is in no network of an interface";
    let log = || daemons.log("r1", &[]);
    assert!(until(|| log().contains(told)), "{}", log());
    assert_eq!(gateway(), Some(json!("10.0.0.7")));
    // Nor does anything else of a file change whose routes cannot be read.
    let mac = "02:00:00:00:00:77";
    let station = format!("[[static_mac]]\nmac = \"{mac}\"\nport = \"p3\"\n");
    fs::write(&beside, "198.51.100.0/24 10.7.0.9\n").unwrap();
    hang_up(&file(&dir, &(way("10.0.0.7") + &station)));
    let told = "r1.routes:1: the gateway is 10.7.0.9, which is in no network of an interface";
    assert!(until(|| log().contains(told)), "{}", log());
    let stations = || daemons.ask("r1", json!({"show": "macs"})).unwrap_or_default().to_string();
    assert!(!stations().contains(mac), "{}", stations());
    fs::write(&beside, "198.51.100.0/24 10.0.0.7\n").unwrap();
    hang_up(&file(&dir, &(way("10.0.0.7") + &station)));
    assert!(until(|| stations().contains(mac)), "{}", log());
    hang_up(&file(&dir, &settings));
    assert!(until(|| gateway() == Some(Value::Null)), "{}", log());
}

#[test]
fn an_interface_sends_no_longer_packets_than_each_of_its_ports_takes() {
    let Some([inside, lan]) = common::namespaces("the router", common::quiet) else { return };
    for (device, mtu) in [("n1", 9000), ("n2", 1400), ("n3", 9000)] {
        common::cable((&inside, device), (&lan, &device.replace('n', "h")), mtu);
    }
    let mut daemons = Daemons::bare("router");
    let dir = daemons.dir.clone();
    let port =
        |i: u8, vlan: u8| format!("[[port]]\nname = \"p{i}\"\ndevice = \"n{i}\"\nvlan = {vlan}\n");
    let interface = |name: &str, place: &str, rest: &str| {
        format!("[[interface]]\nname = \"{name}\"\n{place}\n{rest}\n")
    };
    let all = [
        port(1, 7),
        port(2, 7),
        port(3, 8),
        interface("shared", "vlan = 7", "mtu = 9000\naddress = \"10.7.0.1/24\""),
        interface("usual", "vlan = 8", "address = \"10.8.0.1/24\""),
    ];
    let head = format!("name = \"r1\"\ncontrol = \"{}/r1.sock\"\n", dir.display());
    let file = head + "backend = \"af_packet\"\n" + &all.concat();
    daemons.start(&inside, "node", "r1", &file);
    let mtu = |name: &str| -> Value {
        let fib = daemons.show("r1", "fib").unwrap_or_default();
        item(&fib["interfaces"], "name", name)["mtu"].take()
    };
    let log = || daemons.log("r1", &["fib"]);
    assert!(until(|| mtu("shared") == 1400), "{}", log());
    assert!(until(|| mtu("usual") == 1500), "{}", log());
    // A cable that takes more is worth more.
    common::ip(&inside, "link set n2 mtu 8000");
    assert!(until(|| mtu("shared") == 8000), "{}", log());
    assert!(log().contains("mtu is more than its ports take"), "{}", log());
}

#[test]
fn a_stale_neighbour_is_verified_when_packets_go_to_it_and_not_otherwise() {
    let Some([inside, lan, wan]) = common::namespaces("the router", common::quiet) else { return };
    common::cable((&inside, "n1"), (&lan, "h"), 1500);
    common::cable((&inside, "n2"), (&wan, "h"), 1500);
    for (place, addresses, gateway) in
        [(&lan, &["10.0.0.2"][..], "10.0.0.1"), (&wan, &["10.1.0.2", "10.1.0.3"], "10.1.0.1")]
    {
        for address in addresses {
            common::ip(place, &format!("address add {address}/24 dev h"));
        }
        common::ip(place, &format!("route add default via {gateway}"));
    }
    let mut daemons = Daemons::bare("router");
    let dir = daemons.dir.clone();
    daemons.start(&inside, "node", "r1", &file(&dir, ""));
    assert!(until(|| daemons.show("r1", "fib").is_some()), "{}", daemons.log("r1", &[]));
    let state = |address: &str| -> Value {
        let all = daemons.show("r1", "neighbours").unwrap_or_default();
        item(&all["neighbours"], "address", address)["state"].take()
    };
    let socket = |place: &Namespaces, address: &'static str| {
        let socket = place.run(move || UdpSocket::bind((address, 7000))).unwrap().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let near = socket(&lan, "10.0.0.2");
    let [used, idle] = ["10.1.0.2", "10.1.0.3"].map(|address| socket(&wan, address));
    let arrives = |from: &UdpSocket, to: &UdpSocket| {
        let _ = from.send_to(b"x", to.local_addr().unwrap());
        to.recv(&mut [0; 8]).is_ok()
    };
    // A host that asks for the router is known to it, and has not been asked. The host forgets the
    // router first: it does not ask if the router has announced itself.
    for (from, address) in [(&used, "10.1.0.2"), (&idle, "10.1.0.3")] {
        let asks = || {
            common::ip(&wan, "neighbour flush dev h");
            arrives(from, &near) && state(address) != Value::Null
        };
        assert!(until(asks), "{}", daemons.log("r1", &["neighbours"]));
    }
    assert_eq!([state("10.1.0.2"), state("10.1.0.3")], ["stale", "stale"]);
    // That packets go to it, the packet path knows alone.
    let verified = || arrives(&near, &used) && state("10.1.0.2") != "stale";
    assert!(until(verified), "{}", daemons.log("r1", &["neighbours"]));
    assert_eq!(state("10.1.0.3"), "stale");
}
