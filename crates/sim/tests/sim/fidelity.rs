//! `fidelity = "control"`: the same control plane over cables without queues.

use std::sync::{Arc, Mutex};

use plexus_controller::{FlowView, LinkView};
use plexus_sim::{Sim, SimTime};
use plexus_topo::{End, Fidelity, Topology};

/// A file in both fidelities, the full one first.
fn both(text: &str) -> [Topology; 2] {
    [Fidelity::Full, Fidelity::Control].map(|fidelity| {
        let topology = Topology::parse("both.toml", text).unwrap();
        Topology { fidelity, ..topology }
    })
}

/// So many hosts at each node of a shape, that ask for each other; `more` is the rest of the file.
fn asking(shape: &str, hosts: usize, more: &str) -> String {
    format!(
        "name = \"asking\"\nassert = [\"conserved == true\"]\n\
         [generate]\nshape = \"{shape}\"\nhosts = {hosts}\nrate = \"1Gbit\"\ndelay = \"1us\"\n\
         [arp]\nrate = 10.0\nfor = \"200ms\"\n{more}"
    )
}

const CONTROLLER: &str = "[[controller]]\nname = \"c1\"\non = \"s1\"\npolicy = \"shortest\"\n";

/// Runs it, and for some time longer, so that all ends at the same time.
fn ran(topology: &Topology) -> Sim {
    let mut sim = crate::run::ran(topology, 1);
    sim.run_until(SimTime::from_picos(6_000_000_000_000));
    sim
}

/// Frames and bytes by the end of the cable that they left by.
fn sent(sim: &Sim) -> Vec<(String, u64, u64)> {
    sim.traffic().map(|(end, sent)| (end, sent.frames, sent.bytes)).collect()
}

#[test]
fn where_nothing_waits_both_are_the_same_run() {
    // Three hosts, whose questions are far apart.
    let [full, control] = both(&asking("line 3", 1, "")).map(|topology| ran(&topology).work());
    assert_eq!(full, control);
    assert!(full.hops > 6, "{full:?}");
}

#[test]
fn where_frames_wait_a_little_the_control_plane_does_the_same() {
    let [full, control] = both(&asking("torus 3x4", 3, CONTROLLER)).map(|topology| ran(&topology));
    let known = |sim: &Sim| -> (Vec<LinkView>, Vec<String>) {
        let controller = sim.controller().unwrap();
        let flows = controller.flows().map(|flow| FlowView { version: 0, ..flow });
        let mut flows: Vec<String> = flows.map(|flow| format!("{flow:?}")).collect();
        flows.sort();
        (controller.links(), flows)
    };
    assert_eq!(known(&full), known(&control));
    assert!(known(&full).1.len() > 36, "{:?}", known(&full));
    // Every message that the one sent the other did, of the same length on the same cable.
    assert_eq!(sent(&full), sent(&control));
    let asked = |sim: &Sim| (sim.resolutions().asked, sim.resolutions().latency_ns.len());
    assert_eq!(asked(&full), asked(&control));
    assert!(asked(&full).0 >= 36 && asked(&full).0 as usize == asked(&full).1);
    // As many arrivals, and no other events where frames waited.
    let [full, control] = [full, control].map(|sim| sim.work());
    assert_eq!(full.hops, control.hops);
    assert!(control.events < full.events, "{control:?} {full:?}");
}

#[test]
fn where_frames_wait_long_answers_come_sooner_without_queues() {
    let usual = asking("torus 3x3", 4, CONTROLLER);
    let slow = usual.replace("1Gbit", "2Mbit").replace("rate = 10.0", "rate = 100.0");
    let answers = both(&slow.replace("200ms", "300ms")).map(|topology| {
        let sim = ran(&topology);
        let known = sim.resolutions();
        assert!(known.asked > 500 && known.open() == 0, "{known:?}");
        let latency_ns = &known.latency_ns;
        latency_ns.iter().sum::<u64>() / latency_ns.len() as u64
    });
    let [full, control] = answers;
    assert!(control < full, "mean of {control} ns without queues, {full} ns with them");
}

#[test]
fn frames_of_one_length_take_their_bits_and_the_way_however_many_there_are() {
    const HOSTS: usize = 120;
    // Hosts announce themselves within half a second over a cable that each keeps for 0.7 ms.
    let mut text = String::from(
        "name = \"burst\"\n[[node]]\nname = \"s1\"\n[[node]]\nname = \"s2\"\n\
         [[host]]\nname = \"far\"\n[[link]]\nends = [\"s2.h\", \"far\"]\n\
         [[link]]\nends = [\"s1.x\", \"s2.x\"]\nrate = \"1Mbit\"\ndelay = \"10ms\"\n",
    );
    for h in 1..=HOSTS {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n\
             [[link]]\nends = [\"h{h}\", \"s1.p{h}\"]\nrate = \"1Gbit\"\n"
        );
    }
    // From s1's port until the last bit is there: 72 bytes with the preamble, and 10 ms.
    let way = SimTime::from_picos(72 * 8 * 1_000_000 + 10_000_000_000);
    let waits = both(&text).map(|topology| {
        let mut sim = Sim::new(&topology, 1).unwrap();
        let port = |node: usize, name: &str| End::Port {
            node,
            port: topology.nodes[node].ports.iter().position(|p| p.name == name).unwrap(),
        };
        let times = || Arc::new(Mutex::new(vec![]));
        let (left, came) = (times(), times());
        for h in 1..=HOSTS {
            let left = left.clone();
            sim.watch(port(0, &format!("p{h}")), move |at, _| left.lock().unwrap().push(at));
        }
        let coming = came.clone();
        sim.watch(port(1, "x"), move |at, _| coming.lock().unwrap().push(at));
        sim.run_until(SimTime::from_picos(2_000_000_000_000));
        let waits = left
            .lock()
            .unwrap()
            .iter()
            .zip(came.lock().unwrap().iter())
            .map(|(left, came)| *came - *left - way)
            .collect::<Vec<SimTime>>();
        assert_eq!(waits.len(), HOSTS, "each announced itself once by then");
        waits
    });
    let [full, control] = waits;
    assert!(full.iter().any(|wait| *wait > SimTime::ZERO), "{full:?}");
    assert_eq!(control, [SimTime::ZERO; HOSTS]);
}

#[test]
fn what_fails_fails_without_queues_too() {
    let fault = |lines: &str| {
        let text = asking("torus 3x3", 1, CONTROLLER);
        Topology::parse("fails.toml", &format!("{text}[[event]]\n{lines}\n")).unwrap()
    };
    let control = |lines: &str| {
        let sim = ran(&Topology { fidelity: Fidelity::Control, ..fault(lines) });
        let links = sim.controller().map_or(0, |c| c.links().len());
        let lost = sim.resolutions().given_up;
        (links, lost, sim.report())
    };
    let (links, lost, report) = control("kind = \"carrier\"\ncut = \"s1.p2\"");
    assert_eq!((links, lost), (17, 0), "{report}");
    let (links, lost, report) = control("kind = \"loss\"\nchance = 1.0\ncable = \"s2.p1\"");
    assert!(links == 18 && lost > 0, "{links}, {lost}: {report}");
    assert!(report.notes.iter().any(|n| n.contains("lost")), "{report}");
    assert!(report.notes.iter().any(|n| n.contains("no queues")), "{report}");
    assert!(report.accounts.values().all(|a| a.balances()), "{report}");
}

#[test]
fn traffic_is_refused_by_name() {
    let flow = "[[traffic]]\nname = \"bulk\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
        rate = \"1Mbit\"\ncount = 1\n";
    let [full, control] = both(&asking("line 2", 1, flow));
    assert!(Sim::new(&full, 1).is_ok());
    let told = Sim::new(&control, 1).err().unwrap();
    assert!(told.starts_with("flow bulk: ") && told.contains("fidelity = \"full\""), "{told}");
    // One of a pattern is in no [[traffic]] of the file.
    let pattern = "[[pattern]]\nname = \"mix\"\nkind = \"permutation\"\nproto = \"tcp\"\n\
        bytes = \"1MB\"\n";
    let [_, control] = both(&asking("line 2", 1, pattern));
    let told = Sim::new(&control, 1).err().unwrap();
    assert!(told.starts_with("flow mix-1: ") && told.contains("[[pattern]]"), "{told}");
}
