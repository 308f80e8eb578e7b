//! `axon-portland`: what PortLand's control plane costs each link, beside ours and a broadcasting
//! Ethernet (`axon.txt` §5.4, figure 6c).
//!
//! The same hosts, cables and questions four times: in a fabric, with PortLand's switches and
//! manager that know all hosts or none (`plexus_reference::portland`), and with bridges that speak
//! spanning tree. All of them send real messages over simulated cables, which count.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;
use plexus_topo::Shape;

use super::Setting;
use super::axon_discovery::discover;
use super::ethernet::bound;
use super::fabric_cost::{ARP_PER_S, Case, Fabric, Network, torus};
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row};

const SEED: u64 = 1;
/// What is sent is counted over so long: bridges say hello every other second.
const PERIOD: Duration = Duration::from_secs(2);
/// Each host asks once in this time, on average.
const ONCE: Duration = Duration::from_millis(100);
/// Room in each bridge: for all hosts, who all ask.
const STATIONS: usize = 4_096;
/// PortLand's cold start is looked at for so long.
const LONG: Duration = Duration::from_secs(1);

/// The networks, by the names that rows and charts give them.
const NETWORKS: [(&str, Network, Duration); 5] = [
    ("Plexus", Network::Plexus, ONCE),
    ("PortLand, warm", Network::PortLand { announce: true }, ONCE),
    ("PortLand, cold, first questions", Network::PortLand { announce: false }, ONCE),
    ("PortLand, cold, first second", Network::PortLand { announce: false }, LONG),
    ("Ethernet", Network::SpanningTree { stations: STATIONS }, ONCE),
];

fn cases(quick: bool) -> Vec<Case> {
    let case = |name, shape, hosts| Case { name, shape, hosts, controllers: 1 };
    if quick {
        return vec![
            case("fat tree", Shape::FatTree { ports: 4 }, 16),
            case("torus", torus(20), 100),
        ];
    }
    vec![
        case("fat tree, 16 ports", Shape::FatTree { ports: 16 }, 1_024),
        case("torus", torus(100), 1_000),
        case("torus, larger", torus(200), 2_000),
        case("random-low", Shape::Random { nodes: 100, degree: 4, seed: SEED }, 1_000),
    ]
}

/// What a run found; Mbit/s of one direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Bits of an average direction of a link until the network had found itself.
    found_bits: f64,
    asked: u64,
    /// On the average link, at the rate of [`ARP_PER_S`].
    keepalives: f64,
    arp: f64,
    /// Of the busiest cable, the controller's included.
    most: f64,
}

impl Cost {
    fn average(&self) -> f64 {
        self.keepalives + self.arp
    }
}

/// Builds a network, lets it find itself, has every host ask for `asks`, and measures. What the
/// questions cost is scaled to [`ARP_PER_S`] of each host: where broadcasts are too many to send
/// all, a short time gives what each costs, as many times as there would be.
pub(super) fn measure(
    case: &Case,
    network: Network,
    asks: Duration,
    mut say: impl FnMut(&str),
) -> Result<Cost, Failure> {
    let mut fabric = Fabric::of(case, SEED, network)?;
    if network == Network::Plexus {
        discover(&mut fabric, |what| say(&what))?;
    } else {
        fabric.settle(|sim| {
            say(&format!("{:.2} s: finding itself", sim.work().time.as_secs_f64()))
        })?;
    }
    let found_bits = fabric.bits().mean();
    fabric.settle(|_| say("until all hosts are known"))?;
    let load = fabric.ask(case.hosts, ARP_PER_S, asks, PERIOD, say)?;
    let (keepalives, arp, asked) = (load.anyhow, load.arp, load.asked);
    let directions = 2 * fabric.links.len();
    let mean = |of: &[f64]| of[..directions].iter().sum::<f64>() / directions as f64;
    let most = keepalives.iter().zip(&arp).map(|(k, a)| k + a).fold(0.0, f64::max);
    Ok(Cost { found_bits, asked, keepalives: mean(&keepalives), arp: mean(&arp), most })
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let mut findings = Findings::new(
        SEED,
        "topology,hosts,network,questions,until_found_bits,keepalives_mbit_per_s,arp_mbit_per_s,\
         busiest_cable_mbit_per_s\n",
    );
    let mut groups = vec![];
    for case in cases(setting.quick) {
        let mut costs = vec![];
        for (name, network, asks) in NETWORKS {
            let cost = measure(&case, network, asks, |what| {
                setting.progress.detail(&format!("{}, {name}: {what}", case.name));
            })?;
            let Cost { found_bits, asked, keepalives, arp, most } = cost;
            let _ = writeln!(
                findings.runs,
                "\"{}\",{},\"{name}\",{asked},{found_bits},{keepalives},{arp},{most}",
                case.name, case.hosts
            );
            costs.push(cost);
        }
        report(&mut findings, &case, &costs);
        groups.push((case.name.to_string(), costs.iter().map(Cost::average).collect()));
    }
    findings.remarks.push(format!(
        "each host asks for {ARP_PER_S} others in a second, drawn at random; keep-alives ten times \
         a second from every port of switches and nodes. Figures are of one direction of a link \
         between nodes, keep-alives and ARP together, frames with their checksum"
    ));
    findings.remarks.push(
        "PortLand's messages are neither sealed nor acknowledged, and each fits the smallest \
         frame; ours are sealed, carry their routes, and go to the other host too"
            .into(),
    );
    findings.charts.push(Chart::Bars(Bars {
        title: "Control messages on the average link, 10 questions of each host in a second".into(),
        axis: "Mbit/s of one direction".into(),
        series: NETWORKS.map(|(name, ..)| Series::ours(name)).into(),
        groups,
    }));
    Ok(findings)
}

fn report(findings: &mut Findings, case: &Case, costs: &[Cost]) {
    let &[ours, warm, first, second, flooded] = costs else { return };
    let ratio = |of: Cost| of.average() / ours.average();
    let told = |of: Cost| format!("{:.3} of {:.3} Mbit/s", of.average(), ours.average());
    let name = case.name;
    let row = |what: &str, value: f64| Row::new(format!("{name}, {what}"), "ratio", value);
    findings.rows.extend([
        row("PortLand warm, of ours", ratio(warm))
            .at_most(1.0)
            .note(format!("{}; the paper: slightly lower", told(warm))),
        row("PortLand cold, of ours, each host's first question", ratio(first))
            .at_least(10.0)
            .note(told(first)),
        row("PortLand cold, of ours, first second", ratio(second))
            .note(format!("{}; all have spoken after a tenth of it", told(second))),
        row("PortLand until found, of ours", first.found_bits / ours.found_bits)
            .between(1.5, 2.0)
            .note(format!(
                "{:.1} of {:.1} kbit on an average direction",
                first.found_bits / 1e3,
                ours.found_bits / 1e3
            )),
        row("Ethernet, both directions, of one broadcast per question", {
            2.0 * flooded.arp / bound(case.hosts)
        })
        .note(format!(
            "{:.3} Mbit/s, {:.1} times ours; answers are included",
            2.0 * flooded.arp,
            ratio(flooded)
        )),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flooded_question_is_on_every_link_once_and_its_answer_on_a_way_through_the_tree() {
        let case = Case { name: "torus", shape: torus(20), hosts: 60, controllers: 1 };
        let network = Network::SpanningTree { stations: STATIONS };
        let cost = measure(&case, network, ONCE, |_| ()).unwrap();
        // Both directions of a link carry each question once together. Its answer takes those of
        // the 30 links that are between two bridges: 3 on average were it not for the tree, and by
        // that no more than up to the root and down again, from which none is further than 1 + 5.
        let crossed = 2.0 * cost.arp / bound(case.hosts);
        let answered = (crossed - 1.0) * 30.0;
        assert!(answered > 2.0 && answered < 12.0, "{answered}: {cost:?}");
    }
}
