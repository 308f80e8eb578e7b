//! `deepbuf-flash`: a flash crowd of requests (`traffic-coprocessor.txt` §4, figure 5 and table 1).
//!
//! A client fetches 256 KB from 15 servers in turn, up to 1,024 times within a second, over its
//! cable of 1 Gbit/s. Every response is a TCP connection of its own, which the client opens.

use std::fmt::Write as _;

use plexus_report::Failure;
use plexus_sim::Sim;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Setting;
use super::deepbuf::{Buffer, Case, Ended, HOSTS, paper_hosts, run as run_network, topology};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

/// Bytes of a response.
const RESPONSE: u64 = 256 * 1024;
/// Requests within a second.
const REQUESTS: [u64; 7] = [128, 256, 384, 512, 640, 768, 1024];
/// The paper's table 1: drops, timeouts of SYN-ACKs and of data, mean time to finish in seconds.
const TABLE: [(Buffer, [f64; 4]); 3] = [
    (Buffer::Chip, [0.0, 0.0, 0.0, 0.65]),
    (Buffer::Shallow, [15_962.0, 109.0, 180.0, 0.82]),
    (Buffer::Dctcp, [3_302.0, 23.0, 395.0, 0.78]),
];
/// No flow of this experiment is long: 256 KB are what the deep buffer is for.
const LONG_AFTER: u64 = 1_000_000;
const DRAM: u64 = 1 << 30;

/// The figures of a run.
struct Crowd {
    drops: u64,
    syn_ack_timeouts: u64,
    data_timeouts: u64,
    /// Sorted, in seconds.
    finished: Vec<f64>,
    dram_max: u64,
    delay_mean_ms: f64,
    unfinished: usize,
}

impl Crowd {
    fn of(ended: &Ended) -> Crowd {
        let flows: Vec<_> = ended.flows.iter().flatten().collect();
        let mut finished: Vec<f64> =
            flows.iter().filter_map(|flow| Some(flow.finished?.as_secs_f64())).collect();
        finished.sort_by(f64::total_cmp);
        let counts = ended.deep.iter().flat_map(|deep| &deep.ports).map(|(_, _, counts)| counts);
        let (delayed, delay): (u64, u64) =
            counts.clone().fold((0, 0), |sum, c| (sum.0 + c.delayed, sum.1 + c.delay_ns));
        Crowd {
            drops: ended.drops,
            syn_ack_timeouts: flows.iter().map(|flow| flow.stats[0].syn_timeouts).sum(),
            data_timeouts: flows.iter().map(|flow| flow.stats[0].timeouts).sum(),
            unfinished: flows.len() - finished.len(),
            finished,
            dram_max: counts.map(|c| c.bytes_max).max().unwrap_or(0),
            delay_mean_ms: delay as f64 / delayed.max(1) as f64 / 1e6,
        }
    }

    fn mean(&self) -> f64 {
        self.finished.iter().sum::<f64>() / self.finished.len().max(1) as f64
    }

    fn p99(&self) -> f64 {
        let at = (self.finished.len() * 99).div_ceil(100).max(1) - 1;
        self.finished.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// The crowd's flows; each begins at its even share of the second, and a little later by the seed.
fn traffic(requests: u64, seed: u64) -> String {
    let mut text = String::new();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for request in 0..requests {
        let server = 1 + request % (HOSTS as u64 - 1);
        // Less than the time between two requests, so that none is before another.
        let jitter = random.random_range(0..100);
        let start = request * 1_000_000 / requests + jitter;
        let _ = write!(
            text,
            "[[traffic]]\nname = \"r{request}\"\nfrom = \"h{server}\"\nto = \"h0\"\n\
             proto = \"tcp\"\nbytes = {RESPONSE}\nstart = \"{start}us\"\n"
        );
    }
    text
}

/// The hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hosts {
    /// See [`paper_hosts`].
    Paper,
    /// The same with windows of 1 MiB.
    WideWindows,
    /// Linux of today: CUBIC, ten segments at first, SYN again after 1 s, data after 200 ms.
    Today,
}

fn crowd(case: &Case, hosts: Hosts, requests: u64, seed: u64) -> Result<Crowd, Failure> {
    let topology = topology(case, &traffic(requests, seed)).map_err(Failure::unusable)?;
    let mut sim = Sim::new(&topology, seed).map_err(Failure::unusable)?;
    sim.tune_tcp(true, |config| {
        if hosts != Hosts::Today {
            paper_hosts(case.buffer)(config);
        }
        if hosts == Hosts::WideWindows {
            config.receive_buffer = 1 << 20;
        }
    });
    Ok(Crowd::of(&run_network(sim)?))
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let requests: &[u64] = if setting.quick { &[128, 1024] } else { &REQUESTS };
    let seeds = if setting.quick { 1 } else { 5 };
    let head = "buffer,requests,seed,drops,syn_ack_timeouts,data_timeouts,mean_s,p99_s,max_dram\n";
    let mut findings = Findings::new(1, head);
    let mut lines = Vec::new();
    for (buffer, paper) in TABLE {
        let case = Case { buffer, long_after: LONG_AFTER, bytes: DRAM, detector: None };
        let mut points = Vec::new();
        for &count in requests {
            setting.progress.detail(&format!("{}, {count} requests", buffer.name()));
            let mut crowds = Vec::new();
            for seed in 1..=seeds {
                let crowd = crowd(&case, Hosts::Paper, count, seed)?;
                let _ = writeln!(
                    findings.runs,
                    "{},{count},{seed},{},{},{},{:.4},{:.4},{}",
                    buffer.name(),
                    crowd.drops,
                    crowd.syn_ack_timeouts,
                    crowd.data_timeouts,
                    crowd.mean(),
                    crowd.p99(),
                    crowd.dram_max
                );
                crowds.push(crowd);
            }
            points.push((count as f64, mean(&crowds, Crowd::p99)));
            if count == 1024 {
                findings.rows.extend(rows(buffer, paper, &crowds));
            }
        }
        lines.push(Line::ours(buffer.name(), points));
    }
    others(setting, &mut findings)?;
    findings.charts.push(Chart::lines(
        "99th percentile of the time to finish",
        Axis::linear("requests in a second"),
        Axis::log("seconds"),
        lines,
    ));
    findings.remarks.push(
        "hosts: NewReno with SACK, windows of 64 KiB, three segments at first (the paper does not \
         say); a SYN again after 3 s, data after 300 ms at least, as the paper says"
            .into(),
    );
    let last = RESPONSE.div_ceil(1460) as f64 * 1538.0 * 8.0 / 1e9;
    findings.remarks.push(format!(
        "1,024 responses take the cable {:.2} s. Served one after the other, they would take \
         {:.2} s in the mean, which is near the paper's 0.65 s. Here all that have begun share \
         the cable. The paper's 16 MB of DRAM are a tenth of what its clients wait for after a \
         second, so its servers must have held most responses back; it does not say how",
        1024.0 * last,
        (1024.0 * last - 1.0) / 2.0
    ));
    Ok(findings)
}

fn mean(crowds: &[Crowd], of: impl Fn(&Crowd) -> f64) -> f64 {
    crowds.iter().map(of).sum::<f64>() / crowds.len().max(1) as f64
}

fn rows(buffer: Buffer, paper: [f64; 4], crowds: &[Crowd]) -> Vec<Row> {
    let name = buffer.name();
    let quantity = |what: &str| format!("{name}, 1,024 requests: {what}");
    let seeds = format!("mean of {} seeds", crowds.len());
    let [drops, syn_acks, data, finish] = paper;
    let count = |what: &str, paper: f64, of: fn(&Crowd) -> u64| {
        let row = Row::new(quantity(what), "", mean(crowds, |c| of(c) as f64)).note(&*seeds);
        if paper == 0.0 { row.at_most(0.0) } else { row.paper(paper) }
    };
    let mut rows = vec![
        count("packets dropped", drops, |c| c.drops),
        count("timeouts of SYN-ACKs", syn_acks, |c| c.syn_ack_timeouts),
        count("timeouts of data", data, |c| c.data_timeouts),
        Row::new(quantity("mean time to finish"), "s", mean(crowds, Crowd::mean))
            .paper(finish)
            .note(&*seeds),
        Row::new(quantity("99th percentile"), "s", mean(crowds, Crowd::p99)).note(&*seeds),
    ];
    if buffer == Buffer::Chip {
        let dram = mean(crowds, |c| c.dram_max as f64 / 1e6);
        rows.push(Row::new(quantity("most bytes in DRAM"), "MB", dram).at_most(16.0).note(&*seeds));
        let delay = mean(crowds, |c| c.delay_mean_ms);
        rows.push(Row::new(quantity("mean time in DRAM"), "ms", delay).note(&*seeds));
    }
    let unfinished = mean(crowds, |c| c.unfinished as f64);
    if unfinished > 0.0 {
        rows.push(Row::new(quantity("responses that did not finish"), "", unfinished).at_most(0.0));
    }
    rows
}

/// Cases besides the paper's: what a parameter changes.
fn others(setting: &mut Setting<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let usual = Case { buffer: Buffer::Chip, long_after: LONG_AFTER, bytes: DRAM, detector: None };
    let cases = [
        ("a box in software", Hosts::Paper, Case { buffer: Buffer::Software, ..usual }),
        ("order of packets not kept", Hosts::Paper, Case { buffer: Buffer::Unordered, ..usual }),
        ("flows long from 50 KB on", Hosts::Paper, Case { long_after: 50_000, ..usual }),
        ("a DRAM budget of 4 MB", Hosts::Paper, Case { bytes: 4_000_000, ..usual }),
        ("a DRAM budget of zero", Hosts::Paper, Case { bytes: 0, ..usual }),
        ("windows of 1 MiB", Hosts::WideWindows, usual),
        ("hosts of today", Hosts::Today, usual),
        ("hosts of today, no deep buffer", Hosts::Today, Case { buffer: Buffer::Shallow, ..usual }),
    ];
    let count = if setting.quick { 1 } else { cases.len() };
    for (name, hosts, case) in cases.into_iter().take(count) {
        setting.progress.detail(name);
        let crowd = crowd(&case, hosts, 1024, 1)?;
        let timeouts = crowd.syn_ack_timeouts + crowd.data_timeouts;
        let note = format!(
            "{timeouts} timeouts, mean {:.2} s, 99th percentile {:.2} s, {:.1} MB in DRAM",
            crowd.mean(),
            crowd.p99(),
            crowd.dram_max as f64 / 1e6
        );
        let quantity = format!("if {name}, 1,024 requests: packets dropped");
        findings.rows.push(Row::new(quantity, "", crowd.drops as f64).note(note).detail());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_buffer_loses_nothing_of_a_crowd_and_a_shallow_one_does() {
        let case = |buffer| Case { buffer, long_after: LONG_AFTER, bytes: DRAM, detector: None };
        let deep = crowd(&case(Buffer::Chip), Hosts::Paper, 768, 1).unwrap();
        assert_eq!((deep.drops, deep.data_timeouts, deep.unfinished), (0, 0, 0));
        let shallow = crowd(&case(Buffer::Shallow), Hosts::Paper, 768, 1).unwrap();
        assert!(shallow.drops > 0);
    }
}
