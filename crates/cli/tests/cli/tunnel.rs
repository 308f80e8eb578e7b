//! Two nodes in two IP networks, with a router between them that knows of nothing: a tunnel joins
//! them to one fabric. Real daemons over real devices, in namespaces that end with the test.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use crate::common::{self, Daemons, cable, ip, item, until};
use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

const ENDS: [&str; 2] = ["192.0.2.1", "198.51.100.7"];

struct Sites {
    /// Each with a node; the controller is at the first.
    sites: [Namespaces; 2],
    router: Namespaces,
    hosts: [Namespaces; 2],
    daemons: Daemons,
}

impl Sites {
    /// `None`, said aloud, where the test cannot run.
    fn new(test: &str) -> Option<Sites> {
        let [a, b, router, c, d] = common::namespaces("a tunnel", || Ok(()))?;
        let daemons = Daemons::new(test, 2);
        let mut sites = Sites { sites: [a, b], router, hosts: [c, d], daemons };
        sites.lay_out();
        sites.start();
        Some(sites)
    }

    fn lay_out(&self) {
        let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        self.router.run(forward).unwrap().unwrap();
        for (i, site) in self.sites.iter().enumerate() {
            let network = ENDS[i].rsplit_once('.').unwrap().0;
            let device = format!("r{i}");
            cable((site, "wan0"), (&self.router, &device), 2000);
            ip(site, &format!("address add {}/24 dev wan0", ENDS[i]));
            ip(&self.router, &format!("address add {network}.254/24 dev {device}"));
            ip(site, &format!("route add default via {network}.254"));
            cable((site, "p1"), (&self.hosts[i], "eth0"), 1500);
            ip(&self.hosts[i], &format!("address add 10.0.0.{}/24 dev eth0", i + 1));
        }
        cable((&self.sites[0], "p2"), (&self.sites[0], "ctl0"), 2000);
    }

    fn start(&mut self) {
        for (i, own) in ENDS.iter().enumerate() {
            let (name, peer) = (format!("n{}", i + 1), ENDS[1 - i]);
            let mut text = self.daemons.node_file(&name) + "[[port]]\nname = \"p1\"\n";
            if i == 0 {
                text.push_str("[[port]]\nname = \"p2\"\n");
            }
            text.push_str(&format!(
                "[[port]]\nname = \"wan\"\nbackend = \"udp\"\nlocal = \"{own}\"\n\
                 peer = \"{peer}\"\n"
            ));
            self.daemons.start(&self.sites[i], "node", &name, &text);
        }
        self.daemons.start_controller(&self.sites[0], "");
    }

    fn show(&self, name: &str, what: &str) -> Value {
        self.daemons.show(name, what).unwrap_or_default()
    }

    /// What `show` says of a port.
    fn port(&self, node: &str, what: &str, port: &str) -> Value {
        let key = if what == "links" { "port" } else { "name" };
        item(&self.show(node, what)["ports"], key, port)
    }

    fn logs(&self) -> String {
        ["n1", "n2", "c1"].map(|n| self.daemons.log(n, &["drops", "links", "ports"])).concat()
    }

    /// Waits until both ends of the tunnel have this role.
    fn wait_for_role(&self, role: &str) {
        let is_so = |node: &str| self.port(node, "links", "wan")["role"] == role;
        assert!(until(|| is_so("n1") && is_so("n2")), "no {role}\n{}", self.logs());
    }

    fn wait_for_controller(&self) {
        let is_host = |node: &str| self.port(node, "links", "p1")["role"] == "host";
        let is_settled = |node: &&str| self.daemons.has_controller(node) && is_host(node);
        let settled = || ["n1", "n2"].iter().all(is_settled);
        assert!(until(settled), "{}", self.logs());
    }

    /// Whether every one of these pings from a host to the other is answered.
    fn ping(&self, from: usize, arguments: &[&str]) -> bool {
        let mut ping = Command::new("ping");
        ping.args(["-c", "2", "-i", "0.2"]).args(arguments).arg(format!("10.0.0.{}", 2 - from));
        self.hosts[from].apply(&mut ping).unwrap();
        let said = String::from_utf8_lossy(&ping.output().unwrap().stdout).into_owned();
        said.contains(" 2 received")
    }

    /// Some megabytes by TCP from the first host to the second.
    #[track_caller]
    fn assert_tcp(&self, bytes: &[u8]) {
        let [one, two] = &self.hosts;
        common::assert_tcp(one, two, [10, 0, 0, 2].into(), bytes);
    }
}

#[test]
fn two_sites_are_one_switch_as_long_as_the_path_is_wide_enough() {
    let Some(sites) = Sites::new("tunnel") else { return };
    sites.wait_for_role("fabric");
    sites.wait_for_controller();
    assert!(sites.ping(0, &["-W", "5"]) && sites.ping(1, &["-W", "5"]), "{}", sites.logs());
    // Full-size frames, and whatever TCP makes of them.
    let full = ["-W", "5", "-s", "1472", "-M", "do"];
    assert!(sites.ping(0, &full) && sites.ping(1, &full), "{}", sites.logs());
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|i| (i >> 3) as u8).collect();
    sites.assert_tcp(&bytes);
    let wan = sites.port("n1", "ports", "wan");
    assert_eq!((&wan["backend"], &wan["device"]), (&json!("udp"), &Value::Null));
    assert_eq!(wan["tunnel"]["peer"], "198.51.100.7:18773");
    let link = sites.port("n1", "links", "wan");
    assert_eq!((&link["encapsulation"], &link["mtu"]), (&json!("udp"), &json!(1972)));
    assert_eq!(link["neighbour"], "n2");

    // A cable on the way is exchanged for one of 1500 bytes: that is seen without any traffic of
    // hosts, and the link is no longer used.
    ip(&sites.router, "link set dev r1 mtu 1500");
    sites.wait_for_role("too_small");
    assert_eq!(sites.port("n1", "links", "wan")["mtu"], 1472);
    assert!(!sites.ping(0, &["-W", "1"]) && !sites.ping(1, &["-W", "1"]), "{}", sites.logs());
    assert_eq!(sites.port("n1", "links", "wan")["role"], "too_small");
    let told = |node: &str, what: &str| sites.daemons.log(node, &[]).contains(what);
    let needs = "datagrams to 198.51.100.7 carry 1472";
    assert!(told("n1", needs) && told("n1", "packets of 1652 bytes instead of 1500"));
    assert!(told("n1", "wan0 here has 2000, so a router"), "{}", sites.logs());
    // Where it is the node's own device, that is named.
    ip(&sites.sites[0], "link set dev wan0 mtu 1400");
    let own = "carry 1372: nothing passes here until every link on the path carries packets of \
               1652 bytes instead of 1400. `ip link set dev wan0 mtu 1652`";
    assert!(until(|| told("n1", own)), "{}", sites.logs());
    ip(&sites.sites[0], "link set dev wan0 mtu 2000");

    // And back: the kernel would remember the old width for ten minutes.
    ip(&sites.router, "link set dev r1 mtu 2000");
    ip(&sites.sites[0], "route flush cache");
    sites.wait_for_role("fabric");
    sites.wait_for_controller();
    assert!(sites.ping(1, &["-W", "5"]), "{}", sites.logs());
    for node in ["n1", "n2"] {
        let drops = sites.show(node, "drops");
        assert_eq!(drops["account"]["balances"], true, "{drops}");
    }
}

#[test]
fn strangers_rubbish_and_a_lost_route_harm_no_tunnel() {
    let Some(sites) = Sites::new("tunnel-hostile") else { return };
    sites.wait_for_role("fabric");
    sites.wait_for_controller();
    let send = |place: &Namespaces, address: &str, frames: &[Vec<u8>]| {
        let socket = place.run(|| UdpSocket::bind((address, 40_000))).unwrap().unwrap();
        for frame in frames {
            // The socket may have heard an ICMP error about the one before.
            let _ = socket.send_to(frame, "192.0.2.1:18773");
        }
    };
    // A Hello of somebody else's, a frame for the host at n1's port 0, and no frame at all.
    let hello =
        [&[1, 0x80, 0xC2, 0, 0, 0xE, 2, 0, 0, 0, 0, 1, 0x88, 0xB5][..], &[0x10; 60]].concat();
    let forged = [&[0, 0, 0x70, 1, 0, 0, 0][..], &[2; 60]].concat();
    let rubbish = vec![hello, forged, vec![], vec![0xFF; 13], vec![7; 1900]];
    send(&sites.router, "192.0.2.254", &rubbish);
    let foreign = || sites.port("n1", "ports", "wan")["rx_foreign"] == 5;
    assert!(until(foreign), "{}", sites.logs());
    // As if from the peer's address, which whoever is on the way can do: refused or dropped.
    send(&sites.sites[1], ENDS[1], &rubbish);
    let invalid = || sites.port("n1", "ports", "wan")["rx_invalid"] == 2;
    assert!(until(invalid), "{}", sites.logs());
    let drops = || sites.show("n1", "drops");
    assert!(until(|| drops()["unserved"]["message_refused"].as_u64() >= Some(1)), "{}", drops());
    assert!(until(|| drops()["drops"]["bad_fabric"].as_u64() >= Some(1)), "{}", drops());
    assert!(sites.ping(0, &["-W", "5"]), "{}", sites.logs());
    // Without a route the link is down at one end and silent at the other, and comes back.
    ip(&sites.sites[0], "route del default");
    let is = |node: &str, role: &str| sites.port(node, "links", "wan")["role"] == role;
    assert!(until(|| is("n1", "down") && is("n2", "unknown")), "{}", sites.logs());
    ip(&sites.sites[0], "route add default via 192.0.2.254");
    sites.wait_for_role("fabric");
    sites.wait_for_controller();
    // A node that has gone is asked for in vain, and found again when it returns.
    let mut sites = sites;
    sites.daemons.kill(1);
    assert!(until(|| sites.port("n1", "links", "wan")["role"] == "unknown"), "{}", sites.logs());
    let refused = || sites.port("n1", "ports", "wan")["tx_refused"].as_u64() > Some(0);
    assert!(until(refused), "{}", sites.logs());
    sites.daemons.start_again(&sites.sites[1], "node", "n2");
    sites.wait_for_role("fabric");
    sites.wait_for_controller();
    assert!(until(|| sites.ping(1, &["-W", "1"])), "{}", sites.logs());
}
