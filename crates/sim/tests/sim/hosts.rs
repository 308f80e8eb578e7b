//! What hosts send: Poisson processes against the theory of queues, requests against arithmetic.

use std::sync::{Arc, Mutex};

use plexus_sim::{Sim, SimTime};
use plexus_topo::{End, Topology};
use plexus_traffic::Probe;

use crate::run::{report as run, settle};

/// Two hosts at a switch, the first by a cable so fast that it is no queue; `more` is the rest.
fn pair(more: &str) -> Topology {
    let text = format!(
        "name = \"pair\"\n[[node]]\nname = \"s1\"\n\
         [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
         [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
         [[link]]\nends = [\"h1\", \"s1.p1\"]\nrate = \"1Tbit\"\n\
         [[link]]\nends = [\"h2\", \"s1.p2\"]\nrate = \"1Gbit\"\ndelay = \"10us\"\n{more}"
    );
    Topology::parse("pair.toml", &text).unwrap()
}

/// Arrivals of probes at an end, with when they were sent.
fn probes(topology: &Topology, end: End) -> Vec<(u64, u64)> {
    let mut sim = Sim::new(topology, 1).unwrap();
    let seen = Arc::new(Mutex::new(vec![]));
    let noted = seen.clone();
    sim.watch(end, move |at: SimTime, bytes: &[u8]| {
        if let Some(probe) = bytes.get(42..).and_then(Probe::decode) {
            noted.lock().unwrap().push((probe.time_ns, at.as_picos()));
        }
    });
    settle(&mut sim);
    sim.run(|_| true);
    assert_eq!(sim.report().facts.flows[0].loss, 0.0);
    std::mem::take(&mut *seen.lock().unwrap())
}

const PING: &str = "[[traffic]]\nname = \"ping\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\n\
    count = 1\n";

/// 958 bytes of payload are 1,000 in a frame and 1,024 on the cable: 8.192 us at 1 Gbit/s.
fn poisson(load: f64, count: u32) -> Topology {
    let rate = (load * 958e9 / 1024.0).round();
    let flow = format!(
        "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\nsize = 958\n\
         rate = \"{rate}bit\"\ncount = {count}\narrivals = \"poisson\"\n"
    );
    pair(&flow)
}

#[test]
fn pauses_of_a_poisson_process_are_exponential() {
    let sent: Vec<f64> = probes(&poisson(0.5, 40_000), End::Host { host: 1, interface: 0 })
        .iter()
        .map(|(at, _)| *at as f64)
        .collect();
    let pauses: Vec<f64> = sent.windows(2).map(|w| w[1] - w[0]).collect();
    let n = pauses.len() as f64;
    let mean = pauses.iter().sum::<f64>() / n;
    let variance = pauses.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / n;
    // 16.384 us; the mean of n such is off by 1 / sqrt(n) of it, the variance by sqrt(8 / n).
    assert!((mean / 16_384.0 - 1.0).abs() < 3.0 / n.sqrt(), "{mean}");
    assert!((variance / mean.powi(2) - 1.0).abs() < 3.0 * (8.0 / n).sqrt(), "{variance}");
}

#[test]
fn a_queue_before_a_cable_is_m_d_1() {
    for load in [0.3, 0.6, 0.8] {
        let seen = probes(&poisson(load, 60_000), End::Host { host: 1, interface: 0 });
        let service = 8.192;
        // The first frames waited for an address.
        let seen = &seen[1000..];
        let latency = |(sent, at): &(u64, u64)| *at as f64 / 1e6 - *sent as f64 / 1e3;
        let mean = seen.iter().map(latency).sum::<f64>() / seen.len() as f64;
        // The frame itself without its gap, the cable, and its way to the switch.
        let idle = service - 0.096 + 10.0 + 1_012.0 * 0.000_008;
        let waiting = mean - idle;
        let theory = load * service / (2.0 * (1.0 - load));
        assert!((waiting / theory - 1.0).abs() < 0.05, "load {load}: {waiting} not {theory} us");
    }
}

#[test]
fn a_client_asks_as_often_as_the_way_and_its_thoughts_allow() {
    let flow = "[[traffic]]\nname = \"db\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"request\"\n\
        after = \"ping\"\nrequest = \"100B\"\nresponse = \"4000B\"\nthink = \"50us\"\n\
        service = \"20us\"\ncount = 200\n";
    let report = run(&pair(&(PING.to_string() + flow)));
    let db = &report.facts.flows[1];
    // On the cables: the request in one frame, the response in three, which follow each other.
    let wire = |payload: u64| payload + 42 + 12;
    let (gigabit, terabit) = (8_000, 8);
    let there = wire(100) * (terabit + gigabit) + 10_000_000;
    let parts = [1472, 1472, 1056];
    let back = parts[..2].iter().map(|p| (wire(*p) + 12) * gigabit).sum::<u64>()
        + wire(parts[2]) * (gigabit + terabit)
        + 10_000_000;
    let period_ps = there + back + 20_000_000 + 50_000_000;
    let exact = 1e12 / period_ps as f64;
    let rate = db.transactions_per_s.unwrap();
    assert!((rate / exact - 1.0).abs() < 1e-9, "{rate} not {exact}\n{report}");
    assert!(report.facts.passed && db.loss == 0.0, "{report}");
    let p50 = db.latency_us_p50.unwrap();
    assert!((p50 / ((period_ps - 50_000_000) as f64 / 1e6) - 1.0).abs() < 1e-3, "{p50}");
}

#[test]
fn more_that_are_outstanding_fill_the_server() {
    let flow = |outstanding: u32| {
        format!(
            "[[traffic]]\nname = \"db\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"request\"\n\
             after = \"ping\"\nrequest = \"100B\"\nresponse = \"100B\"\nservice = \"100us\"\n\
             outstanding = {outstanding}\nduration = \"1s\"\n"
        )
    };
    let rate = |n| {
        let report = run(&pair(&(PING.to_string() + &flow(n))));
        report.facts.flows[1].transactions_per_s.unwrap()
    };
    let (one, two, eight) = (rate(1), rate(2), rate(8));
    assert!(one < 8_300.0 && (9_900.0..=10_000.0).contains(&two), "{one} {two}");
    assert!((9_900.0..=10_000.0).contains(&eight), "{eight}");
}

#[test]
fn what_is_lost_is_asked_again_and_nobody_waits_for_ever() {
    let flow = "[[traffic]]\nname = \"db\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"request\"\n\
        request = \"5kB\"\nresponse = \"20kB\"\ncount = 100\n";
    let mut topology = pair(flow);
    topology.links[1].loss = 0.02;
    let report = run(&topology);
    let db = &report.facts.flows[0];
    assert!(report.facts.passed && db.loss == 0.0, "{report}");
    assert!(db.transactions_per_s.unwrap() < 100.0, "{report}");
    topology.links[1].loss = 1.0;
    let report = run(&topology);
    assert!(!report.facts.passed, "{report}");
    assert!(report.notes.iter().any(|n| n.contains("no answer for 15 s")), "{report}");
}
