//! `deepbuf-long`: long TCP flows through a switch with a deep buffer (`traffic-coprocessor.txt`
//! §4): it shall not change their throughput, and what a flow loses in order when it becomes long.
//!
//! Two senders, one receiver, 2 to 64 flows in all, for 10 s.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_report::Failure;
use plexus_sim::{Sim, SimTime};
use plexus_topo::End;

use super::Setting;
use super::deepbuf::{Buffer, Case, paper_hosts, run as run_network, topology};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

/// Flows of each run; 126 in all.
const FLOWS: [usize; 6] = [2, 4, 8, 16, 32, 64];
const PAPER_GOODPUT: f64 = 949.0;
const PAPER_EARLY: f64 = 315.0;
const PAPER_RECOVERIES: f64 = 22.0;
/// Bytes of a segment's headers, Ethernet's included.
const HEADERS: usize = 54;
/// The paper's threshold of a long flow.
const LONG_AFTER: u64 = 50_000;

/// Data segments on their way through the switch.
#[derive(Default)]
struct Order {
    /// By the ports of a connection: segments that have come in, oldest first.
    under_way: HashMap<u32, VecDeque<u32>>,
    /// Segments that later ones have overtaken, if they were not dropped.
    overtaken: HashMap<u32, Vec<u32>>,
    /// Segments that came out after later ones of their flow.
    late: u64,
    /// When the first one came out, and the payload of all until the flows' time is over, each
    /// byte of a flow once.
    since: Option<SimTime>,
    bytes: u64,
    come: HashSet<(u32, u32)>,
}

impl Order {
    /// A connection's ports and the sequence number, of a segment with data over IPv4.
    fn segment(frame: &[u8]) -> Option<(u32, u32)> {
        let word = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let is_data = frame.len() > 500 && frame[12..14] == [8, 0] && frame[23] == 6;
        is_data.then_some(()).and_then(|()| Some((word(34)?, word(38)?)))
    }

    fn come_in(&mut self, frame: &[u8]) {
        if let Some((flow, seq)) = Order::segment(frame) {
            self.under_way.entry(flow).or_default().push_back(seq);
        }
    }

    fn go_out(&mut self, now: SimTime, lasts: SimTime, frame: &[u8]) {
        let Some((flow, seq)) = Order::segment(frame) else { return };
        // A segment that was sent again has the same sequence number.
        if now < *self.since.get_or_insert(now) + lasts && self.come.insert((flow, seq)) {
            self.bytes += (frame.len() - HEADERS) as u64;
        }
        let under_way = self.under_way.entry(flow).or_default();
        let overtaken = self.overtaken.entry(flow).or_default();
        match under_way.iter().position(|own| *own == seq) {
            Some(place) => {
                overtaken.extend(under_way.drain(..place));
                under_way.pop_front();
            }
            None => {
                if let Some(place) = overtaken.iter().position(|own| *own == seq) {
                    overtaken.remove(place);
                    self.late += 1;
                }
            }
        }
    }
}

/// The figures of a run.
struct Long {
    goodput_mbits: f64,
    least_mbits: f64,
    greatest_mbits: f64,
    late: u64,
    recoveries: u64,
    drops: u64,
}

fn long(buffer: Buffer, flows: usize, time: Duration, seed: u64) -> Result<Long, Failure> {
    let case = Case { buffer, long_after: LONG_AFTER, bytes: 16 << 20, detector: None };
    let ms = time.as_millis();
    let mut traffic = String::new();
    for flow in 0..flows {
        let sender = 1 + flow % 2;
        let start = (flow as u64 * 7919 + seed * 97) % 1000;
        let _ = write!(
            traffic,
            "[[traffic]]\nname = \"f{flow}\"\nfrom = \"h{sender}\"\nto = \"h0\"\n\
             proto = \"tcp\"\nduration = \"{ms}ms\"\nstart = \"{start}us\"\n"
        );
    }
    let topology = topology(&case, &traffic).map_err(Failure::unusable)?;
    let mut sim = Sim::new(&topology, seed).map_err(Failure::unusable)?;
    sim.tune_tcp(false, paper_hosts(buffer));
    let order = Arc::new(Mutex::new(Order::default()));
    let with = |order: &Arc<Mutex<Order>>| order.clone();
    for sender in [1, 2] {
        let order = with(&order);
        sim.watch(End::Port { node: 0, port: sender }, move |_, frame| {
            order.lock().unwrap_or_else(PoisonError::into_inner).come_in(frame);
        });
    }
    let receiver = with(&order);
    let lasts = SimTime::from(time);
    sim.watch(End::Host { host: 0, interface: 0 }, move |now, frame| {
        receiver.lock().unwrap_or_else(PoisonError::into_inner).go_out(now, lasts, frame);
    });
    let ended = run_network(sim)?;
    let rates: Vec<f64> =
        ended.report.facts.flows.iter().map(|flow| flow.received_bits_per_s / 1e6).collect();
    let Order { late, bytes, .. } = *order.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Long {
        goodput_mbits: bytes as f64 * 8.0 / time.as_secs_f64() / 1e6,
        least_mbits: rates.iter().copied().fold(f64::MAX, f64::min),
        greatest_mbits: rates.iter().copied().fold(0.0, f64::max),
        late,
        recoveries: ended.flows.iter().flatten().map(|flow| flow.stats[0].fast_recoveries).sum(),
        drops: ended.drops,
    })
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (flows, time): (&[usize], _) = match setting.quick {
        true => (&[2, 16], Duration::from_millis(250)),
        false => (&FLOWS, Duration::from_secs(10)),
    };
    let head = "buffer,flows,goodput_mbit,least_mbit,greatest_mbit,late,recoveries,drops\n";
    let mut findings = Findings::new(1, head);
    let mut lines = Vec::new();
    for buffer in [Buffer::Shallow, Buffer::Unordered, Buffer::Chip, Buffer::Software] {
        let mut points = Vec::new();
        let mut runs = Vec::new();
        for &count in flows {
            setting.progress.detail(&format!("{}, {count} flows", buffer.name()));
            let run = long(buffer, count, time, 1)?;
            let _ = writeln!(
                findings.runs,
                "{},{count},{:.1},{:.1},{:.1},{},{},{}",
                buffer.name(),
                run.goodput_mbits,
                run.least_mbits,
                run.greatest_mbits,
                run.late,
                run.recoveries,
                run.drops
            );
            points.push((count as f64, run.goodput_mbits));
            runs.push((count, run));
        }
        findings.rows.extend(rows(buffer, &runs));
        lines.push(Line::ours(buffer.name(), points));
    }
    findings.charts.push(Chart::lines(
        "All long flows together",
        Axis::log("flows"),
        Axis::linear("arrived, in Mbit/s"),
        lines,
    ));
    findings.remarks.push(
        "a late packet is one that left the switch after a later packet of its flow; the paper \
         counts arrivals that came early at the hosts. Recoveries are those after drops too: a TCP \
         flow that is long loses packets whenever its queue is full"
            .into(),
    );
    Ok(findings)
}

fn rows(buffer: Buffer, runs: &[(usize, Long)]) -> Vec<Row> {
    let name = buffer.name();
    let goodputs = runs.iter().map(|(_, run)| run.goodput_mbits);
    let least = goodputs.clone().fold(f64::MAX, f64::min);
    let greatest = goodputs.fold(0.0, f64::max);
    let total = |of: fn(&Long) -> u64| runs.iter().map(|(_, run)| of(run)).sum::<u64>() as f64;
    let evenness = runs.iter().map(|(_, run)| run.least_mbits / run.greatest_mbits);
    let note = format!(
        "by the number of flows; the least flow of a run had {:.2} of the greatest",
        evenness.fold(f64::MAX, f64::min)
    );
    let late = Row::new(format!("{name}: late packets, of all flows"), "", total(|run| run.late));
    let recoveries =
        Row::new(format!("{name}: fast recoveries, of all flows"), "", total(|r| r.recoveries));
    vec![
        Row::new(format!("{name}: least goodput of a run"), "Mbit/s", least)
            .paper(PAPER_GOODPUT)
            .note(note),
        Row::new(format!("{name}: greatest goodput"), "Mbit/s", greatest).paper(PAPER_GOODPUT),
        match buffer {
            Buffer::Unordered => late.paper(PAPER_EARLY).detail(),
            Buffer::Chip | Buffer::Software => late.at_most(PAPER_EARLY),
            _ => late,
        },
        match buffer {
            Buffer::Unordered => recoveries
                .paper(PAPER_RECOVERIES)
                .note("the paper's are those that early arrivals caused")
                .detail(),
            _ => recoveries.note("after drops"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_becomes_long_stays_in_order_if_asked_to() {
        // Eight flows; sixteen wait once for their timers, which is much of a second.
        let [kept, loose] = [Buffer::Chip, Buffer::Unordered]
            .map(|buffer| long(buffer, 8, Duration::from_secs(1), 1).unwrap());
        assert_eq!(kept.late, 0);
        assert!(loose.late > 0, "or nothing was at stake");
        for run in [&kept, &loose] {
            assert!(run.goodput_mbits > 900.0, "{} Mbit/s", run.goodput_mbits);
        }
    }
}
