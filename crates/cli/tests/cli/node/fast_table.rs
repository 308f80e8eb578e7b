//! The fast table in the kernel, through real devices.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::*;

/// A hook of the kernel, and a back-end whose ports have it.
#[derive(Clone, Copy)]
struct Hook {
    name: &'static str,
    backend: &'static str,
}

const TCX: Hook = Hook { name: "tcx", backend: "af_packet" };
const XDP: Hook = Hook { name: "xdp", backend: "af_xdp" };

impl Hook {
    /// The lines of a node's file.
    fn file(self) -> String {
        format!("fast_table = \"{}\"\nbackend = \"{}\"", self.name, self.backend)
    }
}

/// Runs a test at each hook, in a network with so many cables. The far ends of these poll, as
/// cards do: else the kernel drops what XDP redirects to them.
fn at_each_hook(cables: usize, test: impl Fn(&Net, Hook)) {
    for hook in [TCX, XDP] {
        let Some(net) = Net::new(cables) else { return };
        if hook.name == XDP.name {
            (1..=cables).for_each(|i| net.poll(&format!("h{i}"), true));
        }
        test(&net, hook);
    }
}

impl Net {
    fn poll(&self, device: &str, on: bool) {
        // The kernel begins to poll when this is turned on.
        for on in [false, true].into_iter().take(1 + usize::from(on)) {
            let word = if on { "on" } else { "off" };
            common::run(&self.inside, &format!("ethtool -K {device} gro {word}"));
        }
    }
}

impl Node<'_> {
    /// A flow's entry, by the last byte of its destination.
    fn fast_flow(&self, to: u8) -> Option<Value> {
        let facts = self.facts("fast-table");
        assert_ne!(facts["kind"], "off");
        let ends = format!("{to:02x}");
        let flows = facts["flows"].as_array().unwrap();
        flows.iter().find(|f| f["destination"].as_str().unwrap().ends_with(&ends)).cloned()
    }

    /// Sends numbered frames from one station to another until the kernel forwards them. All
    /// arrive, each once and in order.
    pub(super) fn until_fast(&self, from: &mut Station, to: &mut Station, addresses: (u8, u8)) {
        let mut number = 0u8;
        let is_fast = until(|| {
            for _ in 0..40 {
                number = number.wrapping_add(1);
                let frame = frame(mac(addresses.1), mac(addresses.0), number);
                from.send(&frame);
                assert_eq!(to.receive(), frame);
            }
            self.fast_flow(addresses.1).is_some_and(|f| f["packets"].as_u64().unwrap() > 0)
        });
        assert!(is_fast, "{:#}", self.facts("fast-table"));
    }
}

/// Stations at two ports, of which the kernel forwards the first one's frames to the second.
pub(super) fn fast_stations(net: &Net, node: &Node<'_>) -> [Station; 2] {
    let [mut one, mut two] = net.stations();
    two.send(&frame(BROADCAST, mac(2), 0));
    one.receive();
    node.until_fast(&mut one, &mut two, (1, 2));
    [one, two]
}

#[test]
fn flows_go_by_the_kernel_and_are_counted_like_others() {
    at_each_hook(3, |net, hook| {
        let node = net.node("a", &hook.file(), &ports(3));
        let [mut one, mut two, mut three] = net.stations();
        two.send(&frame(BROADCAST, mac(2), 0));
        one.receive();
        three.receive();
        node.until_fast(&mut one, &mut two, (1, 2));
        let flow = node.fast_flow(2).unwrap();
        assert_eq!((&flow["in_port"], &flow["out_port"]), (&"p1".into(), &"p2".into()));
        let sent = one.port.stats().tx_packets;
        let (from, to) = (node.port("p1"), node.port("p2"));
        assert_eq!((&from["rx_packets"], &from["rx_bytes"]), (&sent.into(), &(60 * sent).into()));
        assert_eq!((&to["tx_packets"], &to["tx_bytes"]), (&sent.into(), &(60 * sent).into()));
        node.assert_balances();
        let text = node.show("fast-table", &[]).expect(0).out;
        let table = format!("a: fast table {} (the file says so), 1 of 4096 rules", hook.name);
        assert!(text.contains(&table), "{text}");
        assert!(text.contains("rules made: 1; gave way to larger flows: 0"), "{text}");
        assert!(text.contains("forwards"), "{text}");

        // The station moves: its first frame elsewhere ends the rule.
        three.send(&frame(mac(1), mac(2), 1));
        one.receive();
        let last = frame(mac(2), mac(1), 2);
        one.send(&last);
        assert_eq!(three.receive(), last);
        assert_eq!(node.fast_flow(2), None);
        node.until_fast(&mut one, &mut three, (1, 2));
        // So does a cable that is pulled.
        net.ip("link set h3 down");
        assert!(until(|| node.fast_flow(2).is_none()));
        net.ip("link set h3 up");
        node.assert_balances();
        node.assert_ends_well();
    });
}

#[test]
fn rules_end_with_a_device_and_come_back_with_it() {
    at_each_hook(3, |net, hook| {
        let node = net.node("a", &hook.file(), &ports(3));
        let [mut one, mut two, mut three] = net.stations();
        let hear = |from: &mut Station, number: u8, others: [&mut Station; 2]| {
            from.send(&frame(BROADCAST, mac(number), 0));
            for other in others {
                other.receive();
            }
        };
        hear(&mut two, 2, [&mut one, &mut three]);
        hear(&mut three, 3, [&mut one, &mut two]);
        node.until_fast(&mut one, &mut two, (1, 2));
        node.until_fast(&mut one, &mut three, (1, 3));
        drop(two);
        net.ip("link del n2");
        assert!(until(|| node.fast_flow(2).is_none()));
        node.until_fast(&mut one, &mut three, (1, 3));
        net.cable(2);
        if hook.name == XDP.name {
            net.poll("h2", true);
        }
        assert!(until(|| node.links_are("up")), "{}", node.log());
        let mut two = net.station("h2");
        hear(&mut two, 2, [&mut one, &mut three]);
        node.until_fast(&mut one, &mut two, (1, 2));
        node.assert_balances();
        node.assert_ends_well();
    });
}

#[test]
fn tags_are_changed_by_the_kernel_as_by_the_switch() {
    at_each_hook(3, |net, hook| {
        let trunk = port(1, "trunk = [10, 20]\nnative = 10");
        let access = ["10", "20"].map(|vlan| format!("vlan = {vlan}"));
        let node = net.node("a", &hook.file(), &[trunk, port(2, &access[0]), port(3, &access[1])]);
        let [mut one, mut two, mut three] = net.stations();
        three.send(&frame(mac(1), mac(3), 0));
        let tagged = |from: u8, to: u8, number: u8| {
            let mut bytes = frame(mac(to), mac(from), number);
            bytes.splice(12..12, [0x81, 0, 0, 20]);
            bytes
        };
        // Frames of a VLAN of the trunk have a tag there and none at the access port.
        let is_fast = until(|| {
            for number in 0..40 {
                one.send(&tagged(1, 3, number));
                assert_eq!(three.receive(), frame(mac(3), mac(1), number));
            }
            node.fast_flow(3).is_some_and(|f| f["packets"].as_u64().unwrap() > 0)
        });
        assert!(is_fast);
        assert_eq!(node.fast_flow(3).unwrap()["tag"], "pop");
        // Those of its own VLAN have none.
        two.send(&frame(mac(1), mac(2), 0));
        assert_eq!(one.receive()[..14], frame(mac(1), mac(2), 0)[..14]);
        node.until_fast(&mut one, &mut two, (1, 2));
        node.assert_balances();
    });
}

#[test]
fn a_traced_port_shows_every_frame_of_a_flow_that_went_by_the_kernel() {
    at_each_hook(2, |net, hook| {
        let node = net.node("a", &hook.file(), &ports(2));
        let [mut one, mut two] = fast_stations(net, &node);
        let socket = node.socket();
        let mut trace =
            net.command(&["trace", "p2", "--control", socket.to_str().unwrap(), "--count", "50"]);
        let trace = trace.stdout(Stdio::piped()).spawn().unwrap();
        let is_traced = |facts: &Value| item(&facts["ports"], "name", "p2")["forwards"] == false;
        assert!(until(|| is_traced(&node.facts("fast-table"))));
        for number in 0..50 {
            one.send(&frame(mac(2), mac(1), number));
            two.receive();
        }
        let out = trace.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 50);
        // Afterwards the kernel has it again.
        assert!(until(|| !is_traced(&node.facts("fast-table"))));
        node.until_fast(&mut one, &mut two, (1, 2));
    });
}

/// A router's three networks, 10.N.0.0/24 at port N, and the neighbour that a route leads to.
fn router(hook: Hook, via: u8) -> String {
    let interface = |n: u8| {
        format!("[[interface]]\nname = \"i{n}\"\nport = \"p{n}\"\naddress = [\"10.{n}.0.1/24\"]\n")
    };
    let file = hook.file();
    let interfaces: String = (1..=3).map(interface).collect();
    format!("{file}\n{interfaces}[[route]]\nprefix = \"192.0.2.0/24\"\nvia = \"10.{via}.0.2\"\n")
}

/// A host in one of these networks: 10.N.0.2 at `mac(N)`.
struct Host {
    n: u8,
    station: Station,
    got: VecDeque<Vec<u8>>,
}

impl Host {
    fn arp(&self, operation: u8, to: [u8; 6]) -> Vec<u8> {
        let mut frame = [to, mac(self.n)].concat();
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend(mac(self.n));
        frame.extend([10, self.n, 0, 2]);
        frame.extend(if operation == 1 { [0; 6] } else { to });
        frame.extend([10, self.n, 0, 1]);
        frame
    }

    /// A frame of ARP or IPv4 that has arrived; questions about this host are answered.
    fn poll(&mut self) -> Option<Vec<u8>> {
        let mut batch = Batch::new();
        while let Station { port, pool } = &mut self.station
            && port.receive(Time::ZERO, pool, &mut batch) > 0
        {
            let all: Vec<Vec<u8>> = batch.iter().map(|packet| pool.data(packet).to_vec()).collect();
            batch.drain(..).for_each(|packet| pool.free(packet));
            for bytes in all {
                let asks = bytes[12..14] == [8, 6] && bytes[21] == 1;
                if asks && bytes[38..42] == [10, self.n, 0, 2] {
                    let answer = self.arp(2, bytes[6..12].try_into().unwrap());
                    self.station.send(&answer);
                } else if bytes[12..14] == [8, 0] || (bytes[12..14] == [8, 6] && !asks) {
                    self.got.push_back(bytes);
                }
            }
        }
        self.got.pop_front()
    }

    /// The next frame of IPv4.
    #[track_caller]
    fn receive(&mut self) -> Vec<u8> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(frame) = self.poll().filter(|frame| frame[12..14] == [8, 0]) {
                return frame;
            }
            assert!(Instant::now() < end, "no frame comes");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The router's Ethernet address here. As hosts do, this one asks again until it is told.
    fn router(&mut self) -> [u8; 6] {
        let question = self.arp(1, BROADCAST);
        let mut answer = None;
        let is_told = until(|| {
            self.station.send(&question);
            answer = self.poll();
            answer.is_some()
        });
        assert!(is_told, "the router does not answer");
        let answer = answer.unwrap();
        assert_eq!(answer[12..14], [8, 6]);
        answer[6..12].try_into().unwrap()
    }
}

#[test]
fn routed_flows_go_by_the_kernel_until_their_route_changes() {
    common::turn();
    at_each_hook(3, |net, hook| {
        let node = net.node("a", &router(hook, 2), &ports(3));
        let mut n = 0;
        let [mut one, mut two, mut three] = net.stations().map(|station| {
            n += 1;
            Host { n, station, got: VecDeque::new() }
        });
        let to_router = one.router();
        let [own_2, own_3] = [two.router(), three.router()];
        let packet = |number: u8, ttl: u8| {
            let mut frame = [to_router, mac(1)].concat();
            frame.extend([8, 0, 0x45, 0, 0, 46, 0, number, 0, 0, ttl, 17, 0, 0, 10, 1, 0, 2]);
            frame.extend([192, 0, 2, 9]);
            let sum = plexus_wire::checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.resize(60, 0xA5);
            frame
        };
        let hop = |number: u8, n: u8, own: [u8; 6]| {
            let mut frame = packet(number, 63);
            frame[..6].copy_from_slice(&mac(n));
            frame[6..12].copy_from_slice(&own);
            frame
        };
        let is_fast = |node: &Node<'_>| {
            let facts = node.facts("fast-table");
            let mut flows = facts["flows"].as_array().unwrap().iter();
            flows.any(|f| f["route"]["destination"] == "192.0.2.9" && f["packets"] != 0)
        };
        let forwarded = until(|| {
            (0..40).for_each(|number| one.station.send(&packet(number, 64)));
            (0..40).for_each(|number| assert_eq!(two.receive(), hop(number, 2, own_2)));
            is_fast(&node)
        });
        assert!(forwarded, "{:#}", node.facts("fast-table"));
        let text = node.show("fast-table", &[]).expect(0).out;
        assert!(text.contains("10.1.0.2") && text.contains("192.0.2.9"), "{text}");
        // Each packet is counted, and the box answers where it always has.
        node.assert_balances();
        one.station.send(&packet(0, 1));
        let error = one.receive();
        assert_eq!((error[23], error[34]), (1, 11), "time exceeded");
        // The next hop has another address. No rule is made or ended elsewhere: the control plane
        // learns of it, and the worker, which has nothing to do, is told.
        (0..40).for_each(|number| one.station.send(&packet(number, 64)));
        (0..40).for_each(|number| assert_eq!(two.receive(), hop(number, 2, own_2)));
        let mut announced = two.arp(1, BROADCAST);
        announced[6..12].copy_from_slice(&mac(0x22));
        announced[22..28].copy_from_slice(&mac(0x22));
        two.station.send(&announced);
        let is_answered = until(|| two.poll().is_some_and(|frame| frame[12..14] == [8, 6]));
        assert!(is_answered, "the router learns the new address");
        let mut moved = hop(0, 2, own_2);
        moved[..6].copy_from_slice(&mac(0x22));
        one.station.send(&packet(0, 64));
        assert_eq!(two.receive(), moved);
        // The next packet after the change goes the new way, and so do all.
        net.write("a", &router(hook, 3), &ports(3));
        node.signal(Signal::HUP);
        let via = || node.show("route", &["192.0.2.9"]).expect(0).out;
        assert!(until(|| via().contains("10.3.0.2")), "{}", via());
        for number in 0..200 {
            one.station.send(&packet(number, 64));
            assert_eq!(three.receive(), hop(number, 3, own_3));
        }
        assert_eq!(two.poll(), None);
        node.assert_balances();
        node.assert_ends_well();
    });
}

#[test]
fn the_labs_that_ship_for_it_pass() {
    common::turn();
    let Some(desk) = common::Desk::root("fast") else { return };
    for name in ["fast-table", "fast-fabric", "fast-group", "fast-routed"] {
        let report = desk.json(&["lab", "run", &common::shipped(name)], 0);
        assert_eq!(report["passed"], true, "{report:#}");
    }
}

#[test]
fn nothing_goes_by_the_kernel_once_the_node_is_killed() {
    at_each_hook(2, |net, hook| {
        let node = net.node("a", &hook.file(), &ports(2));
        let [mut one, mut two] = fast_stations(net, &node);
        node.signal(Signal::KILL);
        assert!(until(|| node.has_ended()));
        for number in 100..110 {
            one.send(&frame(mac(2), mac(1), number));
        }
        let next = net.node("b", "backend = \"af_packet\"\nfast_table = \"off\"", &ports(2));
        let after = frame(mac(2), mac(1), 200);
        one.send(&after);
        assert_eq!(two.receive(), after, "the frames from before are lost");
        assert_eq!(next.facts("fast-table")["kind"], "off");
    });
}

#[test]
fn the_xdp_hook_needs_ports_that_have_it() {
    let Some(net) = Net::new(2) else { return };
    let none = net.write("a", "fast_table = \"xdp\"\nbackend = \"af_packet\"", &ports(2));
    let said = net.run_node(&none).expect(2);
    assert!(said.err.contains("no port is on AF_XDP in its driver"), "{}", said.err);
    assert!(said.err.contains("backend = \"af_xdp\""), "{}", said.err);
    // The file says which of two workers has which port: they cannot share one's frames.
    let of =
        |i: usize, backend: &str| port(i, &format!("backend = \"{backend}\"\nworker = {}", i - 1));
    let both = [of(1, "af_xdp"), of(2, "af_packet")];
    let node = net.node("a", "fast_table = \"xdp\"\nworkers = 2", &both);
    let facts = node.facts("fast-table");
    assert_eq!(facts["kind"], "xdp");
    assert!(facts["why"].as_str().unwrap().contains("without p2: not on AF_XDP"), "{facts:#}");
    let forwards =
        |name: &str| item(&node.facts("fast-table")["ports"], "name", name)["forwards"] == true;
    assert!(until(|| forwards("p1")));
    assert!(!forwards("p2"));
    node.assert_ends_well();
}

#[test]
fn a_cable_whose_far_end_stops_polling_gets_its_frames_from_the_switch() {
    let Some(net) = Net::new(2) else { return };
    (1..=2).for_each(|i| net.poll(&format!("h{i}"), true));
    let node = net.node("a", &XDP.file(), &ports(2));
    let [mut one, mut two] = fast_stations(&net, &node);
    net.poll("h2", false);
    assert!(until(|| node.fast_flow(2).is_none()), "{:#}", node.facts("fast-table"));
    for number in 0..100 {
        one.send(&frame(mac(2), mac(1), number));
        assert_eq!(two.receive(), frame(mac(2), mac(1), number));
    }
    assert!(node.log().contains("does not send frames that are redirected"), "{}", node.log());
    net.poll("h2", true);
    node.until_fast(&mut one, &mut two, (1, 2));
    node.assert_balances();
    node.assert_ends_well();
}

/// The node of a kernel that refuses the programs: here for want of a capability.
#[test]
fn a_node_forwards_by_itself_where_the_kernel_refuses_the_programs() {
    let Some(net) = Net::new(2) else { return };
    let run = |choice: &str| {
        let config = net.write("a", &format!("backend = \"af_packet\"\n{choice}"), &ports(2));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--bounding-set=-bpf,-sys_admin"]);
        command.args([env!("CARGO_BIN_EXE_plexus"), "node", "run", "--config"]).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        net.inside.apply(&mut command).unwrap();
        command
    };
    let said = Said::of(&mut run("fast_table = \"tcx\"")).expect(2);
    assert!(said.err.contains("cap_bpf") && said.err.contains("write fast_table = \"off\""));
    let child = RefCell::new(Running(run("").spawn().unwrap()));
    let node = Node { net: &net, name: "a".into(), child };
    assert!(until(|| node.links_are("up")));
    let facts = node.facts("fast-table");
    assert_eq!(facts["kind"], "off", "{facts:#}");
    assert!(facts["why"].as_str().unwrap().starts_with("tcx cannot be used: "), "{facts:#}");
    let [mut one, mut two] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 0));
    two.receive();
    for number in 0..100 {
        two.send(&frame(mac(1), mac(2), number));
        assert_eq!(one.receive(), frame(mac(1), mac(2), number));
    }
    node.assert_balances();
}
