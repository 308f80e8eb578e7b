//! Nodes that forward named data: what they cache, what gets lost, and what is refused.

use plexus_report::{FlowReport, NamedAccount, RunReport};
use plexus_sim::{Sim, Work};
use plexus_topo::Topology;

use crate::run::ran;

/// `h1` and `h2` at `edge`, `h3` at `core`, which `edge` asks for all below `/v`; `more` is the
/// rest.
fn line(more: &str) -> String {
    let ethernets = |ports: &[&str]| -> String {
        let ports = ports.iter();
        ports.map(|p| ethernet(p, p)).collect()
    };
    let host = |n: u8| format!("[[host]]\nname = \"h{n}\"\n");
    let link = |a: &str, b: &str| {
        format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"1Gbit\"\ndelay = \"100us\"\n")
    };
    [
        "name = \"line\"\nassert = [\"conserved == true\"]\n",
        "[[node]]\nname = \"edge\"\n[node.named]\ncache = \"4MiB\"\n",
        &ethernets(&["p1", "p2", "up"]),
        &route("/v", "up"),
        "[[node]]\nname = \"core\"\n[node.named]\ncache = \"4MiB\"\n",
        &ethernets(&["down", "p3"]),
        &route("/v", "p3"),
        &[host(1), host(2), host(3)].concat(),
        &link("h1", "edge.p1"),
        &link("h2", "edge.p2"),
        &link("edge.up", "core.down"),
        &link("h3", "core.p3"),
        more,
    ]
    .concat()
}

fn ethernet(name: &str, port: &str) -> String {
    format!("[[node.named.ethernet]]\nname = \"{name}\"\ndevice = \"{port}\"\n")
}

fn route(prefix: &str, face: &str) -> String {
    format!("[[node.named.route]]\nprefix = \"{prefix}\"\nface = \"{face}\"\n")
}

/// From a host to `h3`; `more` says how much, and what else there is to say.
fn flow(name: &str, from: &str, more: &str) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"h3\"\nproto = \"named\"\n\
         prefix = \"/v\"\n{more}\n"
    )
}

/// 200 chunks of one item, in order.
const FETCH: &str = "items = 1\nchunks = 200\ncount = 200\nwindow = 8";

fn parse(text: &str) -> Topology {
    Topology::parse("line.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

fn simulate(text: &str, seed: u64) -> (RunReport, Work) {
    let sim = ran(&parse(text), seed);
    let work = sim.work();
    let left: Vec<_> = sim.traffic().collect();
    let report = sim.report();
    // What a node says that it has sent is what left by its ports.
    for (node, account) in &report.accounts {
        let own = left.iter().filter(|(end, _)| end.split('.').next() == Some(node));
        assert_eq!(account.sent, own.map(|(_, t)| t.frames).sum::<u64>(), "{node}: {report}");
    }
    (report, work)
}

/// Runs it, and sees that every frame and every packet went somewhere, and that nobody waits any
/// more.
fn run(text: &str) -> RunReport {
    let (report, _) = simulate(text, 1);
    assert!(report.accounts.values().all(|a| a.balances()), "{report}");
    for (node, named) in &report.named {
        assert!(named.adds_up(), "{node}: {named:?}");
        assert_eq!((named.pending.held, named.pending.entries), (0, 0), "{node}: {named:?}");
    }
    report
}

fn flow_of<'r>(report: &'r RunReport, name: &str) -> &'r FlowReport {
    report.facts.flows.iter().find(|f| f.name == name).unwrap()
}

fn named<'r>(report: &'r RunReport, node: &str) -> &'r NamedAccount {
    &report.named[node]
}

#[test]
fn all_data_comes_through_two_nodes_and_the_second_time_out_of_the_nearer_cache() {
    let first = run(&line(&flow("first", "h1", FETCH)));
    assert!(first.facts.passed && flow_of(&first, "first").loss == 0.0, "{first}");
    for node in ["edge", "core"] {
        let NamedAccount { received, sent, cache_hits, cached, .. } = named(&first, node).clone();
        assert_eq!((received.interests, sent.interests), (200, 200), "{node}: {first}");
        assert_eq!((received.data, sent.data, cache_hits, cached), (200, 200, 0, 200), "{first}");
    }
    // Three cables there and back.
    let usual = flow_of(&first, "first").latency_us_p50.unwrap();
    assert!((600.0..700.0).contains(&usual), "{first}");

    let again = flow("again", "h2", &format!("{FETCH}\nafter = \"first\""));
    let asserts = "\"conserved == true\", \"edge.cached == 200\", \"core.cached == 0\"";
    let text = line(&(flow("first", "h1", FETCH) + &again));
    let both = run(&text.replace("\"conserved == true\"", asserts));
    assert!(both.facts.passed, "{both}");
    // Who has it sees each Interest once, whoever asked.
    assert_eq!(named(&both, "core").sent.interests, 200, "{both}");
    assert_eq!(named(&both, "core").received.interests, 200, "{both}");
    let (edge, again) = (named(&both, "edge"), flow_of(&both, "again"));
    assert_eq!((edge.received.interests, edge.sent.data, edge.cache_hits), (400, 400, 200));
    // One cable there and back.
    assert_eq!(again.loss, 0.0);
    assert!((200.0..250.0).contains(&again.latency_us_p50.unwrap()), "{both}");
}

#[test]
fn who_asks_meanwhile_waits_along() {
    let both = [flow("a", "h1", FETCH), flow("b", "h2", FETCH)].concat();
    let report = run(&line(&both));
    assert_eq!(named(&report, "core").received.interests, 200, "{report}");
    let edge = named(&report, "edge");
    let waited = edge.fates["Interest waits for an answer that is already on its way"];
    assert_eq!(waited + edge.cache_hits, 200, "{report}");
    assert!(waited > 0 && edge.sent.data == 400, "{report}");
}

#[test]
fn without_a_cache_everything_is_fetched_twice() {
    let again = flow("again", "h2", &format!("{FETCH}\nafter = \"first\""));
    let text = line(&(flow("first", "h1", FETCH) + &again));
    let report = run(&text.replace("4MiB", "0B"));
    assert_eq!(named(&report, "core").sent.interests, 400, "{report}");
    assert_eq!(named(&report, "edge").cached, 0);
}

#[test]
fn a_seed_makes_the_run() {
    let zipf = "items = 500\nchunks = 2\nzipf = 1.0\ninterests = 4000\nduration = \"300ms\"";
    let text = line(&[flow("a", "h1", zipf), flow("b", "h2", zipf)].concat());
    let lossy = text.replace("delay = \"100us\"", "delay = \"100us\"\nloss = 0.01");
    // Acknowledged link packets have numbers, which begin at random.
    let numbered = acknowledged(&lossy);
    for text in [text, lossy, numbered] {
        let (first, again, other) = (simulate(&text, 7), simulate(&text, 7), simulate(&text, 8));
        assert_eq!(first, again);
        assert_ne!(first.1.digest, other.1.digest);
        assert_ne!(first.0.named, other.0.named);
        let edge = &first.0.named["edge"];
        assert!(edge.cache_hits > 100 && edge.received.interests > 2000, "{}", first.0);
    }
}

/// A cable that loses every tenth frame, between the nodes.
fn lossy(more: &str) -> String {
    let (whole, bad) = ("\"core.down\"]\n", "\"core.down\"]\nloss = 0.1\n");
    line(more).replace(whole, bad)
}

#[test]
fn what_a_cable_loses_expires_at_both_ends_and_nobody_waits_on() {
    let fetch = flow("a", "h1", &format!("{FETCH}\nlifetime = \"200ms\""));
    let report = run(&lossy(&fetch));
    let lost = (flow_of(&report, "a").loss * 200.0).round() as u64;
    assert!((20..60).contains(&lost), "{report}");
    let (edge, core) = (named(&report, "edge"), named(&report, "core"));
    // Those whose Interest was lost did not come to the other node, and left no trace there.
    assert_eq!((edge.pending.expired, edge.received.data), (lost, 200 - lost), "{report}");
    assert!(core.received.interests < 200 && core.pending.expired == 0, "{report}");
    assert_eq!(core.received.interests, core.sent.data, "{report}");
    assert_eq!(edge.links.retransmitted, 0);
}

/// Both nodes have a face of their own to the other, by the addresses of their ports.
fn acknowledged(text: &str) -> String {
    let face = |port: &str, to: &str| {
        format!(
            "[[node.named.face]]\nname = \"peer\"\nremote = \"ether://[{to}]\"\n\
             local = \"dev://{port}\"\nreliability = true\n"
        )
    };
    // The ports have the order in which links name them: p1, p2, up, and down, p3.
    let edge = face("up", "02:0a:00:00:01:00");
    let core = face("down", "02:0a:00:00:00:02");
    let (at_edge, at_core) = (route("/v", "up"), route("/v", "p3"));
    text.replace(&at_edge, &(edge + &route("/v", "peer"))).replace(&at_core, &(core + &at_core))
}

#[test]
fn a_link_that_acknowledges_sends_again_what_its_cable_loses() {
    let fetch = flow("a", "h1", &format!("{FETCH}\nlifetime = \"4s\""));
    let report = run(&acknowledged(&lossy(&fetch)));
    assert!(report.facts.passed && flow_of(&report, "a").loss == 0.0, "{report}");
    let (edge, core) = (named(&report, "edge"), named(&report, "core"));
    assert!(edge.links.retransmitted >= 10 && core.links.retransmitted >= 10, "{report}");
    assert_eq!((edge.pending.expired, core.pending.expired), (0, 0), "{report}");
    assert_eq!(core.received.interests, 200, "{report}");
    // Without it, the same face is as lossy as its cable.
    let plain = acknowledged(&lossy(&fetch)).replace("reliability = true\n", "");
    let report = run(&plain.replace("lifetime = \"4s\"", "lifetime = \"200ms\""));
    assert!(flow_of(&report, "a").loss > 0.1, "{report}");
}

#[test]
fn what_is_longer_than_a_frame_is_cut_and_put_together() {
    let large = flow("a", "h1", &format!("{FETCH}\nsize = 8000"));
    let report = run(&line(&large));
    assert!(flow_of(&report, "a").loss == 0.0, "{report}");
    let (edge, core) = (named(&report, "edge"), named(&report, "core"));
    for links in [edge.links, core.links] {
        assert_eq!((links.reassembled, links.fragmented), (200, 200), "{report}");
    }
    // A packet of which a fragment is lost is dropped, and its Interest expires.
    let report = run(&lossy(&large.replace("count = 200", "lifetime = \"1s\"\ncount = 200")));
    let edge = named(&report, "edge");
    assert!(edge.links.incomplete > 20, "{report}");
    assert!(edge.pending.expired >= edge.links.incomplete, "{report}");
}

#[test]
fn a_cable_that_is_cut_is_missed_for_as_long_and_no_longer() {
    let steady = "items = 1000000\nzipf = 0.0\ninterests = 1000\nlifetime = \"100ms\"\n";
    let flow = flow("a", "h1", &format!("{steady}duration = \"2s\""));
    let cut = "[[event]]\nat = \"500ms\"\nkind = \"carrier\"\ncut = \"edge.up\"\nfor = \"500ms\"\n";
    let report = run(&line(&(flow + cut)));
    let loss = flow_of(&report, "a").loss;
    assert!((0.24..0.27).contains(&loss), "{report}");
    assert!((490.0..520.0).contains(&report.facts.outages[0].ms), "{report}");
    let expired = named(&report, "edge").pending.expired;
    assert!((490..520).contains(&expired), "{report}");
}

#[test]
fn strategies_and_costs_are_the_files() {
    // A second way to h3, by a cable of ten times the delay.
    let second =
        "[[link]]\nends = [\"edge.far\", \"core.near\"]\nrate = \"1Gbit\"\ndelay = \"1ms\"\n";
    let text = |strategy: &str, cost: u32| {
        let ways = ethernet("far", "far")
            + &format!("{}cost = {cost}\n", route("/v", "far"))
            + &format!("[[node.named.strategy]]\nprefix = \"/v\"\nstrategy = \"{strategy}\"\n");
        let up = route("/v", "up");
        let text = line(&(flow("a", "h1", FETCH) + second)).replace(&up, &(up.clone() + &ways));
        text.replace(
            &ethernet("down", "down"),
            &(ethernet("down", "down") + &ethernet("near", "near")),
        )
    };
    let interests = |strategy, cost| {
        let report = run(&text(strategy, cost));
        (named(&report, "edge").sent.interests, flow_of(&report, "a").latency_us_p50.unwrap())
    };
    let (once, near) = interests("best-route", 10);
    assert!(once == 200 && near < 700.0, "{once} {near}");
    let (both, fast) = interests("multicast", 10);
    assert!(both == 400 && fast < 700.0, "{both} {fast}");
}

#[test]
fn many_nodes_and_consumers_share_what_one_host_has() {
    // A tree of 1 + 4 + 16 nodes, of which the last have 4 consumers each.
    let mut text =
        String::from("name = \"tree\"\nassert = [\"conserved == true\", \"c*.loss == 0\"]\n");
    let (mut links, mut flows) = (String::new(), String::new());
    let link =
        |a: String, b: String| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"1Gbit\"\n");
    for n in 0..21 {
        text += &format!("[[node]]\nname = \"n{n}\"\n[node.named]\ncache = \"1MiB\"\n");
        text += &(0..5).map(|p| ethernet(&format!("p{p}"), &format!("p{p}"))).collect::<String>();
        text += &route("/v", "p4");
        let above = if n == 0 { "h3".into() } else { format!("n{}.p{}", (n - 1) / 4, (n - 1) % 4) };
        links += &link(format!("n{n}.p4"), above);
    }
    text += "[[host]]\nname = \"h3\"\n";
    for c in 0..64 {
        text += &format!("[[host]]\nname = \"c{c}\"\n");
        links += &link(format!("n{}.p{}", 5 + c / 4, c % 4), format!("c{c}"));
        flows += &flow(&format!("c{c}"), &format!("c{c}"), "items = 300\nwindow = 4\ncount = 500");
    }
    let report = run(&(text + &links + &flows));
    assert!(report.facts.passed, "{report}");
    // 32,000 are asked for; of 300 names each comes from the host once.
    let asked: u64 = (5..21).map(|n| named(&report, &format!("n{n}")).received.interests).sum();
    assert_eq!(asked, 32_000);
    assert!(named(&report, "n0").sent.interests <= 300, "{report}");
}

#[test]
fn what_is_not_simulated_is_refused_by_name() {
    let text = line(&flow("a", "h1", FETCH));
    let cache = "cache = \"4MiB\"\n";
    let with = |more: &str| text.replacen(cache, &format!("{cache}{more}"), 1);
    let up = route("/v", "up");
    let after = |more: &str| text.replacen(&up, &(up.clone() + more), 1);
    let disk = "[[node.named.disk]]\nfile = \"/d\"\nsize = \"1GB\"\n";
    let face = |remote: &str| format!("[[node.named.face]]\nname = \"x\"\nremote = \"{remote}\"\n");
    let crash = "[[event]]\nat = \"1s\"\nkind = \"crash\"\ndevice = \"edge\"\nfor = \"1s\"\n";
    let bare = "name = \"b\"\n[[node]]\nname = \"edge\"\n[node.named]\ncache = \"1MiB\"\n";
    let other = flow("b", "h2", &format!("{FETCH}\nsize = 99"));
    let faults = "[[node.port]]\nname = \"p1\"\nfaults = { drop = 0.1 }\n";
    let early = "sim = { forwarding = \"cut-through\", latency = \"1us\" }\n";
    for (text, words) in [
        (after(disk), ["node edge", "in memory alone"]),
        (with("workers = 2\n"), ["node edge", "one worker"]),
        (with("open = true\n"), ["node edge", "[[node.named.route]]"]),
        (with("multicast = [\"10.0.0.1\"]\n"), ["by Ethernet alone", "10.0.0.1"]),
        (after(&face("udp4://10.0.0.1:6363")), ["face x", "udp4://10.0.0.1:6363"]),
        (after(&face("unix:///s")), ["by Ethernet alone", "unix:///s"]),
        (
            after(&format!("{}local = \"dev://up\"\n", face("ether://[02:00:00:00:00:09]"))),
            ["nobody has the address", "02:00:00:00:00:09"],
        ),
        (bare.into(), ["node edge", "it has none"]),
        (text.replace("device = \"p2\"", "device = \"eth9\""), ["eth9", "p1, p2, up"]),
        (
            text.replacen("name = \"edge\"\n", &format!("name = \"edge\"\n{early}"), 1),
            ["node edge", "cut through"],
        ),
        (text.replacen(cache, &format!("{cache}{faults}"), 1), ["port p1", "[[event]]"]),
        (line(&(flow("a", "h1", FETCH) + crash)), ["node edge", "do not crash"]),
        (line(&(flow("a", "h1", FETCH) + &other)), ["flow b", "1024 bytes already"]),
    ] {
        let refused = Sim::new(&parse(&text), 1).err().unwrap_or_else(|| panic!("{text}"));
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    }
}

#[test]
fn what_waits_when_the_time_is_over_is_lost_or_comes_late() {
    // Nothing has lived to its end when the last is asked for.
    let more = "items = 100000\nzipf = 0\nduration = \"1s\"\nlifetime = \"4s\"\n";
    let report = run(&lossy(&flow("a", "h1", &format!("{more}interests = 1000"))));
    let loss = flow_of(&report, "a").loss;
    assert!((0.1..0.3).contains(&loss), "a tenth each way: {report}");
}
