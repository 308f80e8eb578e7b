//! Files that are legal and odd, and what a run of them must not do.

use plexus_sim::{Sim, SimTime};
use plexus_topo::Topology;

use crate::run::{report as run, settled};

/// A switch and hosts with addresses 10.0.0.1 and so on; `more` is the rest of the file.
fn switched(hosts: usize, cabled: impl Fn(usize) -> bool, more: &str) -> Topology {
    let mut text = "name = \"odd\"\n[[node]]\nname = \"s1\"\n".to_string();
    for h in 1..=hosts {
        text += &format!("[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n");
    }
    for h in (1..=hosts).filter(|h| cabled(*h)) {
        text += &format!("[[link]]\nends = [\"h{h}\", \"s1.p{h}\"]\n");
    }
    Topology::parse("odd.toml", &(text + more)).unwrap()
}

fn flow(name: &str, from: usize, to: usize) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nproto = \"udp\"\n\
         rate = \"1Mbit\"\nduration = \"100ms\"\nsize = 100\n"
    )
}

#[test]
fn a_host_without_a_cable_reaches_nobody_and_disturbs_nobody() {
    for alone in [2, 3] {
        let lost = flow("lost", alone, 1) + "expect = \"blocked\"\n";
        let more = lost + &flow("fine", 1, 5 - alone);
        let report = run(&switched(3, |h| h != alone, &more));
        let [lost, fine] = &report.facts.flows[..] else { panic!("{report}") };
        assert_eq!((lost.loss, fine.loss), (1.0, 0.0), "{report}");
    }
}

#[test]
fn a_host_without_an_ipv4_address_announces_none_and_time_goes_on() {
    let more = "[[host]]\nname = \"bare\"\n[[link]]\nends = [\"bare\", \"s1.x\"]\n\
        [[host]]\nname = \"six\"\naddress = \"2001:db8::1/64\"\n\
        [[link]]\nends = [\"six\", \"s1.y\"]\n";
    let mut sim = Sim::new(&switched(1, |_| true, more), 1).unwrap();
    // Hosts announce themselves for the last time within three seconds.
    let end = SimTime::from_picos(4_000_000_000_000);
    sim.run_until(end);
    assert_eq!(sim.now(), end);
    let sent = |name: &str| sim.traffic().find(|(end, _)| end.starts_with(name)).unwrap().1.frames;
    assert_eq!(["h1", "bare", "six"].map(sent), [2, 0, 0]);
}

#[test]
fn what_is_under_way_when_a_cable_is_cut_does_not_arrive() {
    let text = "name = \"cut\"\n[[node]]\nname = \"s1\"\n[[node]]\nname = \"s2\"\n\
        [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
        [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
        [[link]]\nends = [\"h1\", \"s1.p1\"]\n[[link]]\nends = [\"h2\", \"s2.p1\"]\n\
        [[link]]\nends = [\"s1.x\", \"s2.x\"]\ndelay = \"200ms\"\n\
        [[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\nrate = \"1Mbit\"\n\
        duration = \"2s\"\nsize = 125\n\
        [[event]]\nat = \"1s\"\ncut = \"s1.x\"\nkind = \"carrier\"\n";
    let report = run(&Topology::parse("cut.toml", text).unwrap());
    // 1,000 datagrams/s until 1 s; those of the last 200 ms are on the cable then, and 100 wait for
    // an address at most.
    let sent = report.accounts["s1"].sent as f64;
    let arrived = (1.0 - report.facts.flows[0].loss) * 2000.0;
    assert!(sent - 220.0 <= arrived && arrived <= sent - 180.0, "{arrived} of {sent}\n{report}");
}

#[test]
fn drops_and_accounts_are_those_of_the_run() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/first-packet.toml");
    // Hosts ask for their leases while their ports' roles are unknown: before the run.
    let report = run(&Topology::read(path.as_ref()).unwrap());
    assert!(report.facts.passed && report.facts.drops.is_empty(), "{report}");
    assert!(report.accounts.values().all(|a| a.balances()), "{report}");
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let refused = |topology: &Topology| Sim::new(topology, 1).err().unwrap();
    let big = flow("big", 1, 2).replace("size = 100", "size = 1800");
    assert!(refused(&switched(2, |_| true, &big)).starts_with("flow big: "));
    let router = "[[node]]\nname = \"r\"\nrouter = { kernel = true }\n\
                  [[node.interface]]\nname = \"i\"\nport = \"p\"\n\
                  [[link]]\nends = [\"r.p\", \"s1.p9\"]\n";
    assert!(refused(&switched(2, |_| true, router)).contains("use plexus lab"));
    let reno = "[[traffic]]\nname = \"v\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"tcp\"\n\
                bytes = \"1kB\"\ncongestion = \"vegas\"\n";
    assert!(refused(&switched(2, |_| true, reno)).contains("cubic, reno and dctcp"));
}

#[test]
fn thousands_of_flows_one_after_the_other_end() {
    let mut more = String::new();
    for n in 0..2000 {
        let one = flow(&format!("f{n}"), 1 + n % 2, 2 - n % 2);
        more += &one.replace("duration = \"100ms\"", "count = 2");
    }
    let report = run(&switched(2, |_| true, &more));
    assert!(report.facts.passed, "{}", report.facts.flows.len());
}

#[test]
fn questions_of_a_host_that_loses_its_cable_are_over() {
    let more = flow("lost", 2, 1)
        + "expect = \"blocked\"\n"
        + "[[event]]\nat = \"50ms\"\ncut = \"s1.p1\"\nkind = \"carrier\"\n"
        + "[[event]]\nat = \"60ms\"\ncut = \"s1.p2\"\nkind = \"carrier\"\n"
        + "[arp]\nrate = 100.0\nfor = \"100ms\"\n";
    let mut sim = settled(&switched(3, |_| true, &more), 1);
    sim.run(|sim| sim.work().time.as_secs_f64() < 60.0);
    // The last question is given up three seconds after it was put.
    assert!(sim.work().time.as_secs_f64() < 10.0, "{:?}", sim.work());
    assert_eq!(sim.resolutions().open(), 0);
}
