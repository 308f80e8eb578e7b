//! `lowrate-attack`: bursts of low average rate against a TCP flow (`traffic-coprocessor.txt` §4,
//! figure 6), without and with the defence; and how often two detectors are right and wrong.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plexus_config::Detector;
use plexus_report::Failure;
use plexus_sim::Sim;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Setting;
use super::deepbuf::{Buffer, Case, HOSTS, paper_hosts, run as run_network, topology};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

/// An attacker's burst, its rate in Mbit/s, and the time from one to the next.
const BURST: u64 = 200_000;
const PEAK: u64 = 200;
const EVERY_MS: u64 = 320;
/// The average rate of an attacker, in Mbit/s.
const AVERAGE: f64 = BURST as f64 * 8.0 / (EVERY_MS as f64 * 1e3);
/// Attackers, at most.
const ATTACKERS: usize = HOSTS - 2;
/// TCP beside 14 attackers in the paper, and what it loses with the defence.
const PAPER_UNDEFENDED: f64 = 40.0;
const PAPER_LOSS: f64 = 70.0;

/// The defences that are compared.
const DEFENCES: [(&str, Buffer, Option<Detector>); 4] = [
    ("no deep buffer", Buffer::Shallow, None),
    ("deep buffer, no defence", Buffer::Chip, None),
    ("the paper's detector", Buffer::Chip, Some(Detector::Paper)),
    ("by harm", Buffer::Chip, Some(Detector::Harm)),
];

/// One flow of the file.
fn udp(text: &mut String, host: usize, start_us: u64, bytes: u64, mbits: u64) {
    let _ = write!(
        text,
        "[[traffic]]\nname = \"u{host}-{start_us}\"\nfrom = \"h{host}\"\nto = \"h0\"\n\
         proto = \"udp\"\nbytes = {bytes}\nrate = \"{mbits}Mbit\"\nstart = \"{start_us}us\"\n"
    );
}

fn tcp(text: &mut String, name: &str, host: usize, start_us: u64, extent: &str) {
    let _ = write!(
        text,
        "[[traffic]]\nname = \"{name}\"\nfrom = \"h{host}\"\nto = \"h0\"\nproto = \"tcp\"\n\
         {extent}\nstart = \"{start_us}us\"\n"
    );
}

/// The TCP flow that is attacked, from `h1`.
fn victim(text: &mut String, seconds: u64) {
    tcp(text, "victim", 1, 0, &format!("duration = \"{seconds}s\""));
}

/// The end of a run.
struct End {
    /// The rate of the attacked flow, in Mbit/s.
    tcp_mbits: f64,
    /// Hosts that were suspects at any look.
    suspects: BTreeSet<usize>,
}

fn run_traffic(
    traffic: &str,
    (buffer, detector): (Buffer, Option<Detector>),
    seconds: u64,
) -> Result<End, Failure> {
    let case = Case { buffer, long_after: 50_000, bytes: 16 << 20, detector };
    let topology = topology(&case, traffic).map_err(Failure::unusable)?;
    let mut sim = Sim::new(&topology, 1).map_err(Failure::unusable)?;
    sim.tune_tcp(false, paper_hosts(buffer));
    let ended = run_network(sim)?;
    let delivered = ended.flows[0].map_or(0, |flow| flow.delivered);
    let suspects = ended.deep.iter().flat_map(|deep| &deep.history);
    Ok(End {
        tcp_mbits: delivered as f64 * 8.0 / seconds as f64 / 1e6,
        suspects: suspects.map(|source| usize::from(source.port)).collect(),
    })
}

/// The paper's attack on the flow.
fn attack(attackers: usize, seconds: u64) -> String {
    let mut text = String::new();
    victim(&mut text, seconds);
    for burst in 0..seconds * 1000 / EVERY_MS {
        for host in 2..2 + attackers {
            udp(&mut text, host, burst * EVERY_MS * 1000, BURST, PEAK);
        }
    }
    text
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (seconds, counts): (u64, &[usize]) =
        if setting.quick { (3, &[0, 14]) } else { (100, &[0, 2, 4, 6, 8, 10, 12, 14]) };
    let mut findings = Findings::new(1, "defence,attackers,tcp_mbit,suspects\n");
    let mut lines = Vec::new();
    for (name, buffer, detector) in DEFENCES {
        let mut points = Vec::new();
        for &attackers in counts {
            setting.progress.detail(&format!("{name}, {attackers} attackers"));
            let end = run_traffic(&attack(attackers, seconds), (buffer, detector), seconds)?;
            let found = end.suspects.len();
            let _ = writeln!(findings.runs, "{name},{attackers},{:.1},{found}", end.tcp_mbits);
            points.push((attackers as f64, end.tcp_mbits));
        }
        let (alone, attacked) = (points[0].1, points[points.len() - 1].1);
        let row = Row::new(format!("TCP beside 14 attackers, {name}"), "Mbit/s", attacked);
        findings.rows.push(match detector {
            None if buffer == Buffer::Shallow => row.paper(PAPER_UNDEFENDED),
            _ => row,
        });
        if detector.is_some() {
            let average = AVERAGE * ATTACKERS as f64;
            let row =
                Row::new(format!("what TCP loses to them, {name}"), "Mbit/s", alone - attacked)
                    .note(format!("the attackers' average rate is {average:.1}"));
            findings.rows.push(match detector {
                Some(Detector::Paper) => row.paper(PAPER_LOSS),
                _ => row.at_most(average),
            });
        }
        lines.push(Line::ours(name, points));
    }
    findings.charts.push(Chart::lines(
        "One TCP flow beside attackers",
        Axis::linear("attackers"),
        Axis::linear("TCP, in Mbit/s"),
        lines,
    ));
    // A quick look has the paper's attack alone, which is above.
    if !setting.quick {
        detectors(setting, &mut findings)?;
    }
    findings.remarks.push(
        "a deep buffer protects TCP without any defence: it loses no packet of these bursts. The \
         defence makes them wait, which spares other packets the delay"
            .into(),
    );
    findings.remarks.push(
        "the detector by harm suspects no TCP; attackers that forge TCP segments are not found"
            .into(),
    );
    Ok(findings)
}

/// Traffic, and the hosts that are attackers.
type Scenario = (&'static str, String, Vec<usize>);

/// Attackers that avoid a detector's thresholds, and honest hosts that look like attackers.
fn scenarios(seconds: u64) -> Vec<Scenario> {
    let all: Vec<usize> = (2..HOSTS).collect();
    let bursts = |text: &mut String, hosts: &[usize], every: &mut dyn FnMut() -> u64, peak| {
        let mut at = 0;
        while at < seconds * 1000 {
            for &host in hosts {
                udp(text, host, at * 1000, BURST, peak);
            }
            at += every();
        }
    };
    let begin = || {
        let mut text = String::new();
        victim(&mut text, seconds);
        text
    };
    let mut list: Vec<Scenario> = vec![("attack: the paper's", attack(14, seconds), all.clone())];
    let mut random = Pcg64::seed_from_u64(1);
    let mut text = begin();
    bursts(&mut text, &all, &mut || random.random_range(160..480), PEAK);
    list.push(("attack: at changing intervals", text, all.clone()));
    let mut text = begin();
    let mut turn = 0;
    let mut at = 0;
    while at < seconds * 1000 {
        for &host in all.iter().filter(|host| *host % 2 == turn) {
            udp(&mut text, host, at * 1000, BURST, PEAK);
        }
        (turn, at) = (1 - turn, at + EVERY_MS);
    }
    list.push(("attack: two groups in turn", text, all.clone()));
    let mut text = begin();
    bursts(&mut text, &all, &mut || 450, PEAK);
    list.push(("attack: every 450 ms", text, all.clone()));
    let mut text = begin();
    // Together just below the port's rate: with the flow it is more.
    bursts(&mut text, &all, &mut || EVERY_MS, 68);
    list.push(("attack: below the port's rate", text, all.clone()));
    let mut text = begin();
    bursts(&mut text, &all[..6], &mut || EVERY_MS, PEAK);
    list.push(("attack: six hosts", text, all[..6].to_vec()));

    let mut text = begin();
    for burst in 0..seconds * 1000 / 400 {
        for &host in &all {
            let name = format!("i{host}-{burst}");
            tcp(&mut text, &name, host, burst * 400_000, "bytes = 65536");
        }
    }
    list.push(("honest: incast of 14 responses every 400 ms", text, vec![]));
    let mut text = begin();
    for frame in 0..seconds * 25 {
        udp(&mut text, 2, frame * 40_000, 50_000, 900);
    }
    list.push(("honest: video, 25 frames a second", text, vec![]));
    let mut text = begin();
    for segment in 0..seconds / 2 {
        let name = format!("s{segment}");
        tcp(&mut text, &name, 2, segment * 2_000_000, "bytes = 2000000");
    }
    list.push(("honest: segments of video every 2 s", text, vec![]));
    let mut text = begin();
    tcp(&mut text, "backup", 2, 0, &format!("duration = \"{seconds}s\""));
    list.push(("honest: a backup", text, vec![]));
    let mut text = begin();
    for second in 0..seconds {
        for &host in &all {
            udp(&mut text, host, second * 1_000_000, 20_000, 900);
        }
    }
    list.push(("honest: 14 reports of 20 KB every second", text, vec![]));
    list
}

fn detectors(setting: &mut Setting<'_>, findings: &mut Findings) -> Result<(), Failure> {
    const SECONDS: u64 = 20;
    findings.runs.push_str("scenario,detector,attackers,found,wrong,tcp_mbit\n");
    for (scenario, traffic, attackers) in scenarios(SECONDS) {
        for (name, buffer, detector) in &DEFENCES[2..] {
            setting.progress.detail(&format!("{scenario}, {name}"));
            let end = run_traffic(&traffic, (*buffer, *detector), SECONDS)?;
            let right = attackers.iter().filter(|host| end.suspects.contains(host)).count();
            let wrong = end.suspects.iter().filter(|host| !attackers.contains(host)).count();
            let _ = writeln!(
                findings.runs,
                "{scenario},{name},{},{right},{wrong},{:.1}",
                attackers.len(),
                end.tcp_mbits
            );
            let note = format!("TCP {:.0} Mbit/s; honest hosts suspected: {wrong}", end.tcp_mbits);
            let row = match attackers.len() {
                0 => Row::new(format!("{scenario}, {name}: suspects"), "", wrong as f64),
                all => Row::new(
                    format!("{scenario}, {name}: attackers found"),
                    "%",
                    100.0 * right as f64 / all as f64,
                ),
            };
            findings.rows.push(row.note(note).detail());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defence_gives_the_attacked_flow_its_cable_back() {
        let run = |buffer, detector| run_traffic(&attack(14, 8), (buffer, detector), 8).unwrap();
        let bare = run(Buffer::Shallow, None);
        let defended = run(Buffer::Chip, Some(Detector::Harm));
        assert!(bare.tcp_mbits < 300.0, "{}", bare.tcp_mbits);
        assert!(defended.tcp_mbits > 2.0 * bare.tcp_mbits, "{}", defended.tcp_mbits);
        assert_eq!(defended.suspects, (2..HOSTS).collect());
    }
}
