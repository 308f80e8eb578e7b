//! `plexus lab` as people use it: labs come up, carry traffic, and leave nothing behind.
//!
//! Every test has a run directory of its own, so its labs are its own, and what is left of them
//! is found by that. Links are switched by the Linux bridge: these tests are about the lab.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{self, Desk, Running, Said, Signal, item, kill, until};
use plexus_report::Counts;
use serde_json::Value;

const NOBODY: u32 = 65_534;

/// Two hosts on a switch, one of whose ports is called as a word of the network tools is; `rest`
/// is appended, `assert` comes first.
fn two_hosts(name: &str, assert: &str, rest: &str) -> String {
    format!(
        "name = \"{name}\"\nassert = [{assert}]\n\
         [[node]]\nname = \"s1\"\n\
         [[host]]\nname = \"h1\"\naddress = [\"10.0.0.1/24\", \"fd00::1/64\"]\n\
         [[host]]\nname = \"h2\"\naddress = [\"10.0.0.2/24\", \"fd00::2/64\"]\n\
         [[link]]\nends = [\"h1\", \"s1.p1\"]\nrate = \"50Mbit\"\n\
         [[link]]\nends = [\"h2\", \"s1.up\"]\n{rest}"
    )
}

const LONG: &str = "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
    rate = \"1Mbit\"\nduration = \"1h\"\n";
const PING: &str = "[[traffic]]\nname = \"ping\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\n";

/// A desk of this user. `None`, said aloud, where the test cannot run.
fn desk_of(user: u32) -> Option<Desk> {
    let desk = Desk::root("labs")?.of_user(user);
    if desk.plexus(&["--version"]).code != Some(0) {
        eprintln!("SKIPPED: user {user} cannot run {}", env!("CARGO_BIN_EXE_plexus"));
        return None;
    }
    Some(desk)
}

impl Desk {
    fn up(&self, file: &str) -> Said {
        self.plexus(&["lab", "up", file, "--node-program", "bridge"])
    }

    pub(crate) fn supervisor(&self, lab: &str) -> i32 {
        let list = self.json(&["lab", "status"], 0);
        item(&list, "lab", lab)["state"]["pid"].as_i64().unwrap() as i32
    }

    fn link(&self, lab: &str, node: &str, port: &str) -> Value {
        let links = self.json(&["show", "links", "--node", &format!("{lab}/{node}")], 0);
        item(&links["ports"], "port", port)
    }
}

/// Whether a user who is not root cannot have a lab here; if so, says it.
fn lacks_user_namespaces(said: &Said) -> bool {
    let lacks = said.err.contains("lets only root make namespaces");
    if lacks {
        eprintln!("SKIPPED: this machine has no user namespaces for users");
    }
    lacks
}

#[test]
fn a_lab_comes_up_once_is_entered_and_goes() {
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.file("one", &two_hosts("one", "", PING));
    assert!(desk.up(&file).expect(0).out.contains("lab one is up"));
    assert!(desk.up(&file).expect(0).out.contains("up already"));
    let other = desk.file("other", &two_hosts("one", "", ""));
    let said = desk.up(&other).expect(2);
    assert!(said.err.contains("up already, from") && said.err.contains("one.toml"), "{said:?}");

    let status = desk.json(&["lab", "status", "one"], 0);
    assert_eq!(status["hosts"][1]["addresses"][0], "10.0.0.2/24");
    assert_eq!(status["nodes"][0]["state"], "running");
    assert_eq!(status["links"][0]["rate_bits_per_s"], 50_000_000);

    let exec = |place, script| desk.exec("one", place, script);
    exec("h1", "ping -c1 -W5 10.0.0.2 && ping -c1 -W5 fd00::2").expect(0);
    exec("h1", "exit 7").expect(7);
    assert!(exec("h3", "true").expect(2).err.contains("h1, h2"));
    // A host has names, a host name and state directories of its own, and sees its lab only.
    let said = exec("h2", "hostname; grep h1 /etc/hosts; ls /run; echo > /run/mine; ls /run");
    assert!(
        said.out.starts_with("h2\n10.0.0.1 h1\n")
            && said.out.ends_with("\nmine\nplexus-hosts\nplexus-resolv.conf\n"),
        "{said:?}"
    );
    assert!(!Path::new("/run/mine").exists());
    let defaults =
        "cat /proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv6/conf/eth0/accept_dad";
    assert!(exec("h1", defaults).expect(0).out.ends_with("\n1\n"));

    let facts = desk.json(&["lab", "run", &file, "--node-program", "bridge"], 0);
    assert_eq!((&facts["passed"], &facts["flows"][0]["loss"]), (&true.into(), &0.0.into()));
    desk.plexus(&["lab", "status", "one"]).expect(0);

    desk.down("one");
    desk.plexus(&["lab", "down", "one"]).expect(1);
    desk.plexus(&["lab", "status", "one"]).expect(1);
}

#[test]
fn labs_of_different_names_do_not_meet() {
    let Some(desk) = Desk::root("labs") else { return };
    for name in ["left", "right"] {
        let file = desk.file(name, &two_hosts(name, "", ""));
        desk.up(&file).expect(0);
    }
    for name in ["left", "right"] {
        let mark = format!("echo {name} > /run/mark; ping -c1 -W5 10.0.0.2");
        desk.exec(name, "h1", &mark).expect(0);
    }
    assert_eq!(desk.exec("left", "h1", "cat /run/mark").expect(0).out, "left\n");
    assert_eq!(desk.plexus(&["lab", "status"]).out.lines().count(), 2);
    desk.plexus(&["lab", "down", "left"]).expect(0);
    desk.exec("right", "h1", "ping -c1 -W5 10.0.0.2").expect(0);
    desk.down("--all");
}

#[test]
fn a_run_that_is_interrupted_reports_what_there_was() {
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.file("cut", &two_hosts("cut", "\"u.loss == 0\"", LONG));
    let mut run = desk.command(&["lab", "run", &file]).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("u ")), "no progress was told");
    kill(run.id() as i32, Signal::INT);
    let said = Said::by(run).expect(1);
    assert!(said.out.contains("\nu     h1 > h2  udp"), "{said:#?}");
    assert!(said.out.contains("note: interrupted after"), "{said:#?}");
    desk.assert_nothing_left();
}

#[test]
fn a_killed_lab_leaves_a_directory_that_the_next_command_removes() {
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.file("killed", &two_hosts("killed", "", ""));
    desk.up(&file).expect(0);
    // What a host runs ends with the lab.
    let mut inside = desk.command(&["lab", "exec", "killed", "h1", "--", "sleep", "1000"]);
    let mut inside = inside.spawn().unwrap();
    assert!(until(|| desk.processes().len() >= 3), "{:?}", desk.processes());
    kill(desk.supervisor("killed"), Signal::KILL);
    assert_eq!(inside.wait().unwrap().code(), Some(128 + 9));
    assert!(until(|| desk.processes().is_empty()), "{:?}", desk.processes());
    assert!(desk.plexus(&["lab", "status"]).expect(0).out.contains("was killed"));
    desk.assert_nothing_left();
    // The name is free again.
    desk.up(&file).expect(0);
}

/// At any moment of its construction.
#[test]
fn a_run_that_is_killed_takes_its_lab_along() {
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.file("torn", &two_hosts("torn", "", PING));
    for at in (0..40).map(|n| Duration::from_millis(2 * n)) {
        let run = ["lab", "run", &file, "--node-program", "bridge"];
        let mut child = desk.command(&run).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(at);
        child.kill().unwrap();
        child.wait().unwrap();
        desk.assert_nothing_left();
    }
}

#[test]
fn the_exit_code_says_whether_the_assertions_hold() {
    let Some(desk) = Desk::root("labs") else { return };
    let traffic = "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
                   rate = \"2Mbit\"\nsize = 500\ncount = 100\n\
                   [[traffic]]\nname = \"gone\"\nfrom = \"h2\"\nto = \"10.0.0.9\"\n\
                   proto = \"icmp\"\ncount = 1\nexpect = \"blocked\"\n";
    let asserts = "\"u.loss == 0\", \"u.received >= 1Gbit\"";
    let file = desk.file("no", &two_hosts("no", asserts, traffic));
    let facts = desk.json(&["lab", "run", &file, "--node-program", "bridge"], 1);
    let verdicts: Vec<(&str, bool)> = facts["assertions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["text"].as_str().unwrap(), a["passed"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("u arrives", true),
        ("gone is blocked", true),
        ("u.loss == 0", true),
        ("u.received >= 1Gbit", false),
    ];
    assert_eq!(verdicts, expected);
    desk.assert_nothing_left();

    let wrong = desk.file("wrong", "name = \"wrong\"\n[[host]]\nname = \"h1\"\nadress = []\n");
    let said = desk.plexus(&["lab", "up", &wrong]).expect(2);
    assert!(said.err.contains("wrong.toml:4:"), "{said:?}");
    desk.plexus(&["lab", "run", "/nonexistent.toml"]).expect(2);
    desk.assert_nothing_left();
}

#[test]
fn a_flow_has_the_congestion_control_that_it_names() {
    let Some(desk) = Desk::root("labs") else { return };
    let flow = |name: &str, congestion: &str| {
        format!(
            "[[traffic]]\nname = \"{name}\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"tcp\"\n\
             bytes = \"10kB\"\nverify = true\ncongestion = \"{congestion}\"\n"
        )
    };
    // Every kernel has it, and none takes it by itself.
    let flows = flow("plain", "reno") + &flow("odd", "nobodys_own");
    let file = desk.file("named", &two_hosts("named", "", &flows));
    let said = desk.plexus(&["lab", "run", &file, "--node-program", "bridge"]).expect(1);
    for text in [
        "plain: TCP congestion control reno\n",
        "ok   plain arrives byte-identical\n",
        "FAIL odd arrives byte-identical",
        "TCP congestion control \"nobodys_own\" of odd: No such file",
        "sysctl net.ipv4.tcp_available_congestion_control",
    ] {
        assert!(said.out.contains(text), "{text}: {}", said.out);
    }
    desk.assert_nothing_left();
}

#[test]
fn what_was_never_sent_was_not_blocked() {
    let Some(desk) = Desk::root("labs") else { return };
    let flow = |proto: &str, to: &str, name: &str| {
        let extent = match proto {
            "tcp" => "bytes = 1000",
            "udp" => "rate = \"1Mbit\"\ncount = 2",
            _ => "count = 2",
        };
        format!(
            "[[traffic]]\nname = \"{name}\"\nfrom = \"h1\"\nto = \"{to}\"\n\
             proto = \"{proto}\"\n{extent}\nexpect = \"blocked\"\n"
        )
    };
    let protos = ["udp", "icmp", "tcp"];
    // Nobody has the first address, and there is no route to the second.
    let away = protos.map(|p| flow(p, "10.0.0.9", &format!("away-{p}")));
    let unsent = protos.map(|p| flow(p, "192.0.2.1", &format!("unsent-{p}")));
    let text = two_hosts("never", "", &[away.concat(), unsent.concat()].concat());
    let file = desk.file("never", &text);
    let facts = desk.json(&["lab", "run", &file, "--node-program", "bridge"], 1);
    for assertion in facts["assertions"].as_array().unwrap() {
        let away = assertion["text"].as_str().unwrap().starts_with("away");
        assert_eq!(assertion["passed"], away, "{facts:#}");
    }
    let said = desk.plexus(&["lab", "run", &file, "--node-program", "bridge"]).expect(1);
    assert!(said.out.contains("unsent-tcp: the sender has no way to 192.0.2.1"), "{said:?}");
    desk.assert_nothing_left();
}

/// Four hosts, two in each subnet, send to each other for the first time, all at once. The fabric
/// answers a host's question for an address after milliseconds. In Linux, new datagrams then
/// overtake those that waited. Routed packets wait in the node until the neighbour is known, and
/// go on with those that follow.
#[test]
fn a_flow_keeps_its_order_though_its_neighbour_is_asked_for() {
    common::turn();
    let Some(desk) = Desk::root("labs") else { return };
    let name = "cold";
    let gateway = |subnet: u8| format!("10.0.{subnet}.254");
    let mut file = format!(
        "name = \"{name}\"\n[[node]]\nname = \"n1\"\n\
         [[controller]]\nname = \"c1\"\non = \"n1\"\n"
    );
    for subnet in 0..=1 {
        let gateway = gateway(subnet);
        file += &format!(
            "[[controller.subnet]]\nprefix = \"10.0.{subnet}.0/24\"\ngateway = \"{gateway}\"\n"
        );
    }
    for n in 1..=4 {
        let (to, own) = (n % 4 + 1, (n - 1) / 2);
        file += &format!(
            "[[host]]\nname = \"h{n}\"\naddress = \"10.0.{own}.{n}/24\"\n\
             dhcp = true\n[[link]]\nends = [\"h{n}\", \"n1.p{n}\"]\n\
             [[traffic]]\nname = \"u{n}\"\nfrom = \"h{n}\"\nto = \"h{to}\"\n\
             proto = \"udp\"\nrate = \"10Mbit\"\nsize = 64\nduration = \"50ms\"\n"
        );
    }
    let is_whole =
        |flow: &Value| flow["received_bits_per_s"].as_f64() > Some(0.0) && flow["reordered"] == 0;
    let keep = || {
        let facts = desk.json(&["lab", "run", &desk.file(name, &file)], 0);
        let flows = facts["flows"].as_array().unwrap();
        let all = flows.len() == 4 && flows.iter().all(is_whole);
        // A worker that gets no processor for 2 ms is not waited for.
        assert!(all || facts["stalled_ms"].as_f64() > Some(2.0), "{facts}");
        all
    };
    assert!((0..5).any(|_| keep()));
    desk.assert_nothing_left();
}

/// Through nodes of our own: AF_XDP for root, AF_PACKET for others.
#[test]
fn nodes_forward_delay_and_account_for_every_packet() {
    common::turn();
    let traffic = "[[traffic]]\nname = \"u\"\nfrom = \"h2\"\nto = \"h1\"\nproto = \"udp\"\n\
                   rate = \"2Mbit\"\ncount = 200\nafter = \"ping\"\n\
                   [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"fd00::3\"\nproto = \"tcp\"\n\
                   bytes = \"2MB\"\nverify = true\nafter = \"u\"\n\
                   [[host]]\nname = \"h3\"\naddress = [\"10.0.0.3/24\", \"fd00::3/64\"]\n\
                   [[link]]\nends = [\"h3\", \"s1.p3\"]\ndelay = \"5ms\"\n\
                   [[traffic]]\nname = \"far\"\nfrom = \"h1\"\nto = \"h3\"\nproto = \"icmp\"\n\
                   after = \"t\"\n";
    let asserts = "\"conserved == true\", \"u.loss == 0\", \"ping.loss == 0\", \
                   \"far.latency_p50 >= 10ms\"";
    for user in [0, NOBODY] {
        let Some(desk) = desk_of(user) else { continue };
        let file = desk.file("nodes", &two_hosts("nodes", asserts, &format!("{PING}{traffic}")));
        let said = desk.plexus(&["lab", "up", &file]);
        if lacks_user_namespaces(&said) {
            continue;
        }
        let said = said.expect(0);
        assert_eq!(said.err.contains("AF_PACKET"), user == NOBODY, "{said:?}");
        desk.exec("nodes", "h1", "ping -c1 -W5 fd00::2").expect(0);
        let facts = desk.json(&["lab", "run", &file], 0);
        assert_eq!(facts["passed"], true, "{facts:#}");
        assert!(facts["cpu"]["s1"].is_number());
        desk.down("nodes");
    }
}

/// A ring of three nodes that find each other, as it ships.
#[test]
fn a_fabric_leases_addresses_and_carries_every_flow() {
    common::turn();
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.changed("ring", &[("bytes = \"20MB\"", "bytes = \"5MB\"")]);
    let up = desk.plexus(&["lab", "up", &file]);
    if up.lacks_dhclient() {
        return;
    }
    up.expect(0);
    let exec = |place: &str, script: &str| desk.exec("ring", place, script);
    for host in 1..=6 {
        let place = format!("h{host}");
        let told = exec(&place, "ip -4 -o address show dev eth0; ip route").expect(0).out;
        let reserved = format!("inet 10.0.0.{host}/24");
        assert!(told.contains(&reserved) && told.contains("default via 10.0.0.254"), "{told}");
        // By DHCP and no other way.
        exec(&place, "test -s /run/plexus-dhclient.leases").expect(0);
    }
    assert!(!Path::new("/run/plexus-dhclient.leases").exists());
    // None of these have talked: at the same node, at the next, at the one after.
    for (from, to) in [("h1", 2), ("h1", 6), ("h2", 4), ("h5", 3)] {
        exec(from, &format!("ping -c1 -W5 10.0.0.{to}")).expect(0);
    }

    // The lab runs before other sessions of this machine, where the scheduler tells these apart.
    let session = fs::read_to_string(format!("/proc/{}/autogroup", desk.supervisor("ring")));
    assert!(session.is_err() || session.as_ref().unwrap().contains("nice -10"), "{session:?}");

    let status = desk.json(&["lab", "status", "ring"], 0);
    let controller = &status["controllers"][0];
    assert_eq!((&controller["name"], &controller["state"]), (&"c1".into(), &"running".into()));
    let shown = desk.json(&["show", "topology", "--node", "ring/c1"], 0);
    assert_eq!(shown["links"].as_array().unwrap().len(), 3, "{shown:#}");
    crate::explain::assert_explained(&desk, "ring");

    // Six of the flows are UDP at nine tenths of each cable. Boxes that pause, and so miss their
    // neighbours' Heartbeats, lose a third of the datagrams.
    let facts = desk.json(&["lab", "run", &file], 0);
    let flows = facts["flows"].as_array().unwrap();
    assert_eq!((&facts["passed"], flows.len()), (&true.into(), 18));
    let losses = flows.iter().filter(|f| f["proto"] == "udp").map(|f| f["loss"].as_f64().unwrap());
    assert!(losses.sum::<f64>() / 6.0 < 0.1, "{facts:#}");

    let bridge = desk.plexus(&["lab", "run", &file, "--node-program", "bridge"]).expect(2);
    assert!(bridge.err.contains("up already"), "{bridge:?}");
    desk.down("ring");
    let bridge = desk.plexus(&["lab", "run", &file, "--node-program", "bridge"]).expect(2);
    assert!(bridge.err.contains("closes a circle"), "{bridge:?}");
    desk.assert_nothing_left();
}

/// A lab that ships, or `None`, said aloud, where this machine cannot run it.
fn shipped(desk: &Desk, name: &str, change: impl Fn(String) -> String) -> Option<String> {
    let file = desk.file(name, &change(fs::read_to_string(common::shipped(name)).unwrap()));
    let up = desk.plexus(&["lab", "up", &file]);
    if up.lacks_dhclient() {
        return None;
    }
    up.expect(0);
    Some(file)
}

/// Hosts behind a Linux bridge share a host port, and its addresses come by DHCP.
#[test]
fn hosts_behind_a_bridge_are_served_by_its_port() {
    common::turn();
    let Some(desk) = Desk::root("labs") else { return };
    let Some(file) = shipped(&desk, "bridge-behind", |text| text) else { return };
    let hosts = desk.json(&["show", "hosts", "--node", "bridge-behind/c1"], 0).to_string();
    for host in 1..=4 {
        assert!(hosts.contains(&format!("\"10.0.0.{host}\"")), "{hosts}");
    }
    let status = desk.json(&["lab", "status", "bridge-behind"], 0);
    let ports = status["bridges"][0]["ports"].as_array().unwrap();
    assert!(ports.len() == 4 && ports.iter().all(|p| p["state"] == "forwarding"), "{ports:?}");
    desk.exec("bridge-behind", "b1", "ip link show br0").expect(0);
    let facts = desk.json(&["lab", "run", &file], 0);
    assert_eq!(facts["passed"], true, "{facts:#}");
    desk.down("bridge-behind");
}

/// One Linux bridge between two nodes, another at two ports of a node: one port serves each.
#[test]
fn a_bridge_at_two_host_ports_makes_no_loop() {
    let Some(desk) = Desk::root("labs") else { return };
    let Some(file) = shipped(&desk, "switch-between", |text| text) else { return };
    let lab = "switch-between";
    for pair in [[("n1", "p2"), ("n2", "p2")], [("n2", "p3"), ("n2", "p4")]] {
        let one_serves = || {
            let mut roles = pair.map(|(node, port)| desk.link(lab, node, port)["role"].to_string());
            roles.sort();
            roles == ["\"conflict\"", "\"host\""]
        };
        assert!(until(one_serves), "{pair:?}");
    }
    // Other tests may keep the processors busy: what is late or lost for that is not the point.
    let said = desk.plexus(&["lab", "run", &file, "--json"]);
    let facts: Value = serde_json::from_str(&said.out).unwrap();
    let losses = facts["flows"].as_array().unwrap().iter().map(|f| f["loss"].as_f64().unwrap());
    assert!(losses.clone().count() == 5 && losses.clone().all(|l| l < 0.5), "{facts:#}");
    for assertion in facts["assertions"].as_array().unwrap() {
        let is_loss = assertion["text"].as_str().unwrap().contains(".loss");
        assert!(is_loss || assertion["passed"] == true, "{facts:#}");
    }
    desk.down(lab);
}

/// What a fabric is compared with: bridges with spanning tree, here with short times.
#[test]
fn bridges_with_spanning_tree_find_another_way_when_a_cable_is_cut() {
    let Some(desk) = Desk::root("labs") else { return };
    let bridge = |name: &str, priority: u32| {
        format!(
            "[[bridge]]\nname = \"{name}\"\nstp = true\nforward_delay = \"2s\"\n\
             priority = {priority}\n"
        )
    };
    let cable = |a: &str, b: &str| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n");
    let host = |n: u32| format!("[[host]]\nname = \"h{n}\"\naddress = \"10.0.0.{n}/24\"\n");
    let text = [
        "name = \"tree\"\n".to_string(),
        bridge("s1", 1) + &bridge("s2", 3) + &bridge("s3", 2) + &host(1) + &host(2),
        cable("s1.a", "s2.b") + &cable("s2.a", "s3.b") + &cable("s3.a", "s1.b"),
        cable("h1", "s1.p1") + &cable("h2", "s2.p1"),
        "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
         rate = \"100kbit\"\nsize = 100\nduration = \"14s\"\n\
         [[event]]\nat = \"500ms\"\ncut = \"s2.p1\"\nkind = \"silent\"\nfor = \"500ms\"\n\
         [[event]]\nat = \"2s\"\ncut = \"s1.a\"\nkind = \"carrier\"\n"
            .to_string(),
    ];
    let file = desk.file("tree", &text.concat());
    desk.plexus(&["lab", "up", &file]).expect(0);
    let status = desk.json(&["lab", "status", "tree"], 0);
    let ports = |b: usize| status["bridges"][b]["ports"].to_string();
    assert!(ports(1).contains("blocking") && !ports(2).contains("blocking"), "{status:#}");
    let facts = desk.json(&["lab", "run", &file], 0);
    let outages = facts["outages"].as_array().unwrap();
    let ms = |i: usize| outages[i]["ms"].as_f64().unwrap();
    assert!(outages[0]["kind"] == "silent" && ms(0) >= 450.0, "{outages:?}");
    // Listening and learning take 4 s; and traffic goes on before the flow ends.
    assert!(outages[1]["kind"] == "carrier", "{outages:?}");
    assert!((3900.0..11_500.0).contains(&ms(1)), "{outages:?}");
    desk.down("tree");
}

/// Frames without encapsulation between two nodes, by AF_XDP and by packet sockets.
#[test]
fn native_links_carry_every_flow() {
    common::turn();
    let Some(desk) = Desk::root("labs") else { return };
    for backend in ["auto", "af_packet"] {
        let change = |text: String| {
            text.replace("native = true", &format!("native = true\nbackend = \"{backend}\""))
        };
        let Some(file) = shipped(&desk, "native", change) else { return };
        let ends = [("n1", "a", "native"), ("n2", "b", "native"), ("n2", "a", "ethertype")];
        for (node, port, by) in ends {
            let shown = desk.link("native", node, port);
            assert_eq!((&shown["role"], &shown["encapsulation"]), (&"fabric".into(), &by.into()));
        }
        let facts = desk.json(&["lab", "run", &file], 0);
        assert_eq!(facts["passed"], true, "{facts:#}");
        assert!(facts["flows"][0]["latency_us_first"].is_number(), "{facts:#}");
        desk.plexus(&["lab", "down", "native"]).expect(0);
    }
    desk.assert_nothing_left();
}

#[test]
fn a_host_that_gets_no_lease_is_named_with_what_its_client_said() {
    let Some(desk) = Desk::root("labs") else { return };
    let text = "name = \"unheard\"\n[[node]]\nname = \"n1\"\n\
        [[controller]]\nname = \"c1\"\non = \"n1\"\n\
        [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
        [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\ndhcp = true\n\
        [[link]]\nends = [\"h1\", \"n1.p1\"]\nloss = 1.0\n";
    let said = desk.plexus(&["lab", "up", &desk.file("unheard", text)]).expect(2);
    if said.lacks_dhclient() {
        return;
    }
    assert!(said.err.contains("h1 got no address by DHCP, where 10.0.0.1 is reserved"), "{said:?}");
    assert!(said.err.contains("No DHCPOFFERS received"), "{said:?}");
    desk.assert_nothing_left();
}

#[test]
fn a_node_that_ends_is_seen() {
    let Some(desk) = Desk::root("labs") else { return };
    let file = desk.file("ends", &two_hosts("ends", "", PING));
    desk.plexus(&["lab", "up", &file]).expect(0);
    let daemon = daemon(&desk, "s1");
    kill(daemon, Signal::KILL);
    // The supervisor buries what nobody waits for, and must not lose how this one ended.
    assert!(until(|| !Path::new(&format!("/proc/{daemon}")).exists()), "it stays a zombie");
    let ended = || desk.plexus(&["lab", "status", "ends"]).expect(0).out.contains("signal: 9");
    assert!(until(ended));
    assert!(desk.plexus(&["lab", "run", &file]).expect(2).err.contains("node s1: ended"));
    desk.down("ends");
}

/// The daemon of a node or controller: by the name of its file.
fn daemon(desk: &Desk, name: &str) -> i32 {
    let file = format!("/{name}.toml\0");
    let is_it = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--config\0")
            && String::from_utf8_lossy(&line).ends_with(&file)
    };
    desk.processes().into_iter().find(is_it).unwrap_or_else(|| panic!("{name} does not run"))
}

#[test]
fn a_controller_that_is_killed_ended_by_that_signal() {
    let Some(desk) = Desk::root("labs") else { return };
    let text = "name = \"beheaded\"\n[[node]]\nname = \"n1\"\n\
        [[controller]]\nname = \"c1\"\non = \"n1\"\n\
        [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    desk.plexus(&["lab", "up", &desk.file("beheaded", text)]).expect(0);
    let state = || {
        let status = desk.json(&["lab", "status", "beheaded"], 0);
        assert_eq!((&status["controllers"][0]["name"]), "c1", "{status:#}");
        status["controllers"][0]["state"].as_str().unwrap().to_string()
    };
    assert_eq!(state(), "running");
    let controller = daemon(&desk, "c1");
    kill(controller, Signal::KILL);
    // Nobody asks until the supervisor has buried it, and how it ended is known all the same.
    assert!(until(|| !Path::new(&format!("/proc/{controller}")).exists()), "it stays a zombie");
    for _ in 0..2 {
        assert_eq!(state(), "ended (signal: 9 (SIGKILL))");
    }
    let said = desk.plexus(&["lab", "status", "beheaded"]).expect(0);
    let line = said.out.lines().find(|l| l.trim_start().starts_with("controller")).unwrap();
    assert!(line.contains("c1") && line.contains("signal: 9"), "{said:?}");
    let node = said.out.lines().find(|l| l.trim_start().starts_with("node")).unwrap();
    assert!(node.contains("running"), "{said:?}");
    desk.down("beheaded");
}

/// A stopped node reads nothing, so its ports lose packets before it has seen them. `lab run`
/// reports as many as `show drops`, as JSON and as text.
#[test]
fn packets_lost_at_reception_are_the_same_in_both_accounts() {
    for (backend, is_json) in [("af_packet", true), ("af_xdp", false)] {
        let Some(desk) = Desk::root("labs") else { return };
        let flood = "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
                     rate = \"200Mbit\"\nsize = 1400\nduration = \"1h\"\n";
        // Otherwise the kernel forwards in the place of a node that is stopped.
        let node = format!("name = \"s1\"\nbackend = \"{backend}\"\nfast_table = \"off\"\n");
        let text = two_hosts("deaf", "\"conserved == true\"", flood)
            .replace("rate = \"50Mbit\"\n", "")
            .replace("name = \"s1\"\n", &node);
        let file = desk.file("deaf", &text);
        desk.plexus(&["lab", "up", &file]).expect(0);
        let node = daemon(&desk, "s1");
        let show = || desk.json(&["show", "drops", "--node", "deaf/s1"], 0);
        let before = show();

        let output: &[&str] = if is_json { &["--json"] } else { &[] };
        let mut run = desk.command(&[&["lab", "run", &file], output].concat()).spawn().unwrap();
        let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("u ")), "no progress was told");
        kill(node, Signal::STOP);
        let sent = || -> u64 {
            let counter = "/sys/class/net/eth0/statistics/tx_packets";
            desk.exec("deaf", "h1", &format!("cat {counter}")).expect(0).out.trim().parse().unwrap()
        };
        // More than the rings and the socket buffer of a port hold.
        let enough = sent() + 20_000;
        let is_enough = until(|| sent() >= enough);
        kill(node, Signal::CONT);
        assert!(is_enough, "h1 sends nothing");
        kill(run.id() as i32, Signal::INT);
        let said = Said::by(run).expect(1);

        let after = show();
        let lost = |port: &str| after["losses"][port]["rx_overflow"].as_u64().unwrap_or(0);
        let overflow = lost("p1") + lost("up");
        assert!(overflow > 0 && before["account"]["lost"] == 0, "{before:#} {after:#}");
        assert_eq!(after["account"]["lost"], overflow, "{after:#}");
        // As the lab reads it.
        let of =
            |shown: &serde_json::Value| Counts::of(&serde_json::from_value(shown.clone()).unwrap());
        let counts = of(&after).since(&of(&before));
        assert_eq!((counts.account.lost, counts.drops["rx_overflow"]), (overflow, overflow));
        if is_json {
            let facts: Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(facts["drops"], serde_json::json!(counts.drops), "{facts:#}");
            assert!(facts["flows"][0]["loss"].as_f64().unwrap() > 0.0, "{facts:#}");
            let conserved = item(&facts["assertions"], "text", "conserved == true");
            assert_eq!(conserved["passed"], true, "{facts:#}");
        } else {
            let account = said.out.lines().find(|l| l.starts_with("s1: ")).unwrap();
            assert!(account.contains(&format!(" + {overflow} lost")), "{said:#?}");
            assert!(said.out.contains(&format!("rx_overflow {overflow}\n")), "{said:#?}");
            for nothing in [" 0 dropped", " 0.00 %"] {
                assert!(!said.out.contains(nothing), "{nothing}: {said:#?}");
            }
        }
        desk.down("deaf");
    }
}

/// A process that nobody but the test may end.
fn victim() -> Running {
    Running(Command::new("sleep").arg("1000").uid(NOBODY).gid(NOBODY).spawn().unwrap())
}

/// A lab's directory as somebody would forge it: its state names `pid`, and the lock is held
/// as long as what is returned lives.
fn forge(lab: &Path, pid: u32, owner: u32) -> fs::File {
    fs::create_dir_all(lab).unwrap();
    let state = format!(
        "{{\"lab\":\"x\",\"file\":\"x.toml\",\"pid\":{pid},\"rootless\":true,\
         \"node_program\":\"plexus\",\"hosts\":[],\"nodes\":[]}}"
    );
    fs::write(lab.join("state.json"), state).unwrap();
    let lock = fs::File::create(lab.join("lock")).unwrap();
    lock.lock().unwrap();
    let labs = lab.parent().unwrap();
    for path in [labs, lab, &lab.join("state.json"), &lab.join("lock")] {
        chown(path, Some(owner), Some(owner)).unwrap();
    }
    lock
}

/// `/tmp` is everybody's: who makes the directory first must not gain anything by that.
#[test]
fn a_run_directory_that_somebody_else_made_is_refused() {
    let Some(desk) = desk_of(NOBODY) else { return };
    let mut victim = victim();
    let home = desk.dir.join("home");
    fs::create_dir_all(home.join("letters")).unwrap();
    fs::write(home.join("letters/one"), "dear").unwrap();
    for path in [home.clone(), home.join("letters"), home.join("letters/one")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let file = desk.file("x", &two_hosts("x", "", PING));
    let attacker = NOBODY - 1;
    for linked in [true, false] {
        let theirs = desk.dir.join(format!("theirs-{linked}"));
        fs::create_dir(&theirs).unwrap();
        let lock = if linked {
            std::os::unix::fs::symlink(&home, theirs.join("labs")).unwrap();
            None
        } else {
            Some(forge(&theirs.join("labs/x"), victim.0.id(), NOBODY))
        };
        chown(&theirs, Some(attacker), Some(attacker)).unwrap();
        let commands: [&[&str]; 7] = [
            &["lab", "down", "--all"],
            &["lab", "down", "x"],
            &["lab", "status"],
            &["lab", "status", "x"],
            &["lab", "exec", "x", "h1", "--", "true"],
            &["lab", "run", &file],
            &["lab", "up", &file],
        ];
        // Theirs; and ours, with a link in it that leads elsewhere.
        for owner in [attacker, NOBODY] {
            if owner == NOBODY && !linked {
                continue;
            }
            chown(&theirs, Some(owner), Some(owner)).unwrap();
            for arguments in commands {
                let output = desk.command(arguments).env("PLEXUS_RUN_DIR", &theirs).output();
                let output = output.unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
                assert!(said.contains("not a directory of yours alone"), "{arguments:?}: {said}");
            }
        }
        drop(lock);
    }
    assert!(!victim.has_ended());
    assert_eq!(fs::read_to_string(home.join("letters/one")).unwrap(), "dear");
}

/// Even in a directory of one's own, a number in a file is no reason to kill a process.
#[test]
fn only_who_answers_for_a_lab_is_ended() {
    let Some(desk) = desk_of(NOBODY) else { return };
    let mut victim = victim();
    let labs = desk.dir.join("labs");
    let lock = forge(&labs.join("x"), victim.0.id(), NOBODY);
    desk.plexus(&["lab", "down", "x"]).expect(2);
    assert!(!victim.has_ended());
    drop(lock);
    // Dead now, but somebody keeps something else in it.
    fs::create_dir(labs.join("x/letters")).unwrap();
    assert!(desk.plexus(&["lab", "down", "x"]).expect(2).err.contains("no file of a lab"));
    assert!(labs.join("x/state.json").exists());
    fs::remove_dir(labs.join("x/letters")).unwrap();
    desk.down("x");
}
