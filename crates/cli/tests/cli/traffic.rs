//! `plexus gen` and `plexus meter` by their programs in the kernel, as their users meet them. As
//! root, in a network namespace with a cable from `t1` to `t2`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::common::{self, Said, Signal, signal};
use plexus_io::namespace::Namespaces;
use serde_json::Value;

struct Net(Namespaces);

impl Net {
    /// `None`, said aloud, where the test cannot run.
    fn new() -> Option<Net> {
        let [inside] = common::namespaces("programs in the kernel", common::quiet)?;
        let net = Net(inside);
        net.run("ip link add t1 type veth peer name t2");
        net.run("ip link set t1 up");
        net.run("ip link set t2 up");
        Some(net)
    }

    fn run(&self, line: &str) {
        common::run(&self.0, line);
    }

    /// Turning it on, not finding it on, makes the kernel take redirected frames there.
    fn turn_gro_on(&self) {
        self.run("ethtool -K t2 gro off");
        self.run("ethtool -K t2 gro on");
    }

    /// Starts `plexus`, which ends with the test's thread, however that ends.
    fn start(&self, arguments: &str, more: &[&str]) -> Child {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(more).arg(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments.split_whitespace()).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.0.apply(&mut command).unwrap();
        command.spawn().unwrap()
    }

    fn plexus(&self, arguments: &str) -> Said {
        Said::by(self.start(arguments, &[]))
    }

    /// A meter that is ready: its progress lines have begun.
    fn meter(&self, arguments: &str) -> Child {
        let options = "--json --from-start --interval 20ms --idle 500ms --duration 25s";
        let mut meter = self.start(&format!("meter t2 {options} {arguments}"), &[]);
        let mut lines = BufReader::new(meter.stderr.take().unwrap()).lines();
        let said: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|l| !l.starts_with("rec")).collect();
        assert!(said.iter().all(|l| !l.contains("error")), "{said:?}");
        // Read on: a full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        meter
    }
}

/// Sends from one back-end to the other, 4,000 packets of four flows, and holds their answers
/// against each other.
fn sent_is_received(net: &Net, from: &str, to: &str) {
    let meter = net.meter(&format!("--backend {to}"));
    let sent = net
        .plexus(&format!(
            "gen t1 --backend {from} --rate 20kpps --flows 4 --size imix --count 4000 --json"
        ))
        .json();
    let heard = Said::by(meter).json();
    assert_eq!((&sent["backend"], &heard["backend"]), (&from.into(), &to.into()));
    assert_eq!((&sent["packets"], &sent["rejected"]), (&4000.into(), &0.into()));
    let arrived = &heard["arrived"];
    assert_eq!((&arrived["probes"], &arrived["bytes"]), (&4000.into(), &sent["bytes"]));
    for (what, count) in
        [("received", 4000), ("lost", 0), ("duplicates", 0), ("reordered", 0), ("clock_errors", 0)]
    {
        assert_eq!(heard["total"][what], count, "{what}: {heard:#}");
    }
    let latency = &heard["total"]["latency"];
    assert!(latency["min_ns"].as_u64() > Some(0) && latency["max_ns"].is_u64(), "{latency}");
    let flows = heard["flows"].as_array().unwrap();
    let received: Vec<_> =
        flows.iter().map(|f| (f["flow"].clone(), f["received"].clone())).collect();
    assert_eq!(received, [0, 1, 2, 3].map(|n| (n.into(), 1000.into())));
}

#[test]
fn what_the_kernel_sends_every_meter_counts() {
    let Some(net) = Net::new() else { return };
    net.turn_gro_on();
    sent_is_received(&net, "xdp_live", "af_packet");
    // From here on the far end's own program takes redirected frames.
    net.run("ethtool -K t2 gro off");
    sent_is_received(&net, "xdp_live", "xdp");
    sent_is_received(&net, "xdp_live", "af_xdp");
}

#[test]
fn the_meter_in_the_kernel_counts_what_ports_send() {
    let Some(net) = Net::new() else { return };
    sent_is_received(&net, "af_packet", "xdp");
    sent_is_received(&net, "af_xdp", "xdp");
    // Nothing came: that is an answer, and no rate is made up.
    let said = net.plexus("meter t2 --backend xdp --duration 50ms").expect(1);
    assert!(said.err.contains("no probe arrived"), "{said:?}");
}

#[test]
fn a_meter_that_ends_with_silence_waits_for_the_first_probe() {
    let Some(net) = Net::new() else { return };
    net.run("ip address add 192.0.2.1/24 dev t1");
    for backend in ["xdp", "af_packet"] {
        let meter = net.meter(&format!("--backend {backend}"));
        // Asks for the address once a second: the silence between is longer than the meter's.
        let mut ping = Command::new("ping");
        net.0.apply(ping.args(["-c", "1", "-W", "1", "192.0.2.2"])).unwrap();
        assert!(!ping.output().unwrap().status.success());
        net.plexus("gen t1 --backend af_packet --rate 1kpps --count 10").expect(0);
        let heard = Said::by(meter).json();
        assert!(heard["arrived"]["foreign"].as_u64() > Some(0), "{heard:#}");
        assert_eq!(heard["arrived"]["probes"], 10, "{heard:#}");
    }
}

#[test]
fn frames_that_the_far_end_cannot_take_are_no_success() {
    let Some(net) = Net::new() else { return };
    net.run("ethtool -K t2 gro off");
    let said = net.plexus("gen t1 --backend xdp_live --count 100 --rate 20kpps --json").expect(1);
    assert!(said.err.contains("GRO turned on"), "{said:?}");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&answer["packets"], &answer["rejected"]), (&100.into(), &100.into()));
}

#[test]
fn interrupted_they_still_answer() {
    let Some(net) = Net::new() else { return };
    let meter = net.start("meter t2 --backend xdp --json --interval 20ms", &[]);
    let mut generator = net.start("gen t1 --backend xdp_live --rate 1kpps --json", &[]);
    // Its first line of progress comes after a second.
    let mut line = String::new();
    let mut err = BufReader::new(generator.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    assert!(line.starts_with("sent "), "{line}");
    signal(&generator, Signal::INT);
    let sent = Said::by(generator).json();
    signal(&meter, Signal::INT);
    let heard = Said::by(meter).json();
    assert!(sent["packets"].as_u64() > Some(0));
    assert!(heard["total"]["received"].as_u64() <= sent["packets"].as_u64());
}

#[test]
fn a_device_that_is_removed_ends_them_with_what_they_have_counted() {
    for (from, to) in [("af_packet", "af_packet"), ("af_xdp", "af_xdp"), ("xdp_live", "xdp")] {
        let Some(net) = Net::new() else { return };
        net.turn_gro_on();
        let mut meter = net
            .start(&format!("meter t2 --backend {to} --json --interval 20ms --duration 25s"), &[]);
        let mut generator =
            net.start(&format!("gen t1 --backend {from} --rate 1kpps --duration 25s --json"), &[]);
        let counts = |child: &mut Child| {
            let lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let mut lines = lines.map_while(Result::ok);
            let begins = |line: &String| line.starts_with("sent ") || line.starts_with("received ");
            assert!(lines.by_ref().any(|line| begins(&line)));
            lines
        };
        // The generator's first line comes after a second.
        let (sent, received) = (counts(&mut generator), counts(&mut meter));
        net.run("ip link delete t1");
        for (child, lines, device) in [(generator, sent, "t1"), (meter, received, "t2")] {
            let why: Vec<String> = lines.filter(|line| line.contains("gone")).collect();
            assert_eq!(why.len(), 1, "{device}");
            assert!(why[0].contains(&format!("{device} is gone: it was removed")), "{why:?}");
            let answer: Value = serde_json::from_str(&Said::by(child).expect(1).out).unwrap();
            let packets =
                if device == "t1" { &answer["packets"] } else { &answer["total"]["received"] };
            assert!(packets.as_u64() > Some(0), "{answer:#}");
            // Packets that the kernel's program has sent are not rejected.
            assert!(device == "t2" || from != "xdp_live" || answer["rejected"] == 0, "{answer:#}");
        }
    }
}

#[test]
fn a_meter_says_that_its_device_is_down() {
    let Some(net) = Net::new() else { return };
    net.run("ip link set t2 down");
    for backend in ["af_packet", "xdp"] {
        let said = net.plexus(&format!("meter t2 --backend {backend} --duration 300ms")).expect(1);
        assert!(said.err.contains("t2 is down: waiting for it"), "{said:?}");
    }
}

#[test]
fn without_rights_they_say_what_is_missing() {
    let Some(net) = Net::new() else { return };
    for arguments in ["gen t1 --backend xdp_live --count 1", "meter t2 --backend xdp"] {
        let child = net.start(arguments, &["--inh-caps=-all", "--bounding-set=-all"]);
        let said = Said::by(child).expect(2);
        assert!(said.err.contains("needs cap_bpf,cap_net_admin: run as root"), "{said:?}");
    }
    for (arguments, why) in [
        ("gen t1 --backend xdp_live --pattern poisson --rate 1kpps", "use --backend af_xdp"),
        ("gen t1 --backend xdp", "'xdp' is no back-end: there are auto, af_xdp, af_packet, tap,"),
        ("gen no-such-dev --backend xdp_live", "there is no network device 'no-such-dev'"),
        ("meter no-such-dev --backend xdp", "there is no network device 'no-such-dev'"),
    ] {
        let said = net.plexus(arguments).expect(2);
        assert!(said.err.contains(why), "{said:?}");
    }
}
