//! `coproc-active`: how many flows are active, and what the largest k of them carry, second by
//! second (`traffic-coprocessor.txt` §3.1, figures 1 and 2).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use plexus_io::pcap::Reader;
use plexus_report::Failure;
use plexus_traffic::{FlowSizes, Published};
use plexus_wire::{FlowKey, Time};

use super::Setting;
use super::coproc_rig::{ActiveFlows, Best, Interval, Load, Train, Trains};
use super::coproc_tfor::{SERVERS, load};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};
use super::verdict::Verdict;

const SEED: u64 = 1;
/// The chips' sizes. Of each, the percentage of time with more active flows, the percentage of time
/// for which the paper gives an offload, and this offload in percent.
const TABLES: [(usize, f64, f64, f64); 2] = [(2048, 99.0, 90.0, 89.0), (4096, 95.0, 95.0, 92.0)];
const TIMEOUT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// Longest packet of a capture that is read.
const PACKET_MAX: usize = 1 << 16;
/// The longest capture: a broken clock would make years of it.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The loads: a name, flows per second in multiples of coproc-tfor's first load, servers.
const LOADS: [(&str, f64, usize); 3] = [
    ("8 servers, 172 flows/s", 1.0, SERVERS),
    ("8 servers, 1,720 flows/s", 10.0, SERVERS),
    ("80 servers, 17,200 flows/s", 100.0, 10 * SERVERS),
];

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let time = Duration::from_secs(if setting.quick { 4 } else { 180 });
    let mut findings =
        Findings::new(SEED, "traffic,second,flows_60_s,flows_1_s,best_2048,best_4096\n");
    let mut seen = Vec::new();
    if let Some(path) = setting.input {
        setting.progress.detail(&path.display().to_string());
        let (capture, remarks, broken) = capture(path)?;
        findings.remarks.extend(remarks);
        findings.doubts.extend(broken);
        seen.push(capture);
    }
    for (name, times, servers) in LOADS {
        for published in Published::ALL {
            let title = format!("{}, {name}", published.name());
            setting.progress.detail(&title);
            let load = Load { servers, ..load(published, times, time) };
            // In the first minute, flows of the timeout's time are still missing. After `end` no
            // more begin, and only the largest go on.
            let end = Time::ZERO + time;
            let trains = Trains::new(&load, SEED).take_while(|train| train.at < end);
            seen.push(Seen::of(title, trains, TIMEOUT.min(time / 2)));
        }
    }
    for seen in &seen {
        findings.rows.extend(seen.rows());
        findings.runs += &seen.lines();
    }
    findings.charts = charts(&seen);
    findings.verdict = Some(Verdict::open(
        "the paper's data center is not public; its flows per rack and second are not given",
    ));
    findings.remarks.push(
        "flow sizes are four published distributions, scaled to the mean of coproc-tfor \
         (325.6 kB); flows share links at flow level, as there. Loads are those of coproc-tfor, \
         and ten times the second with ten times the servers"
            .into(),
    );
    Ok(findings)
}

/// Traffic, second by second.
struct Seen {
    name: String,
    /// Flows that were active within the timeout.
    active: Vec<u32>,
    best: Best,
    /// Leading seconds that count for nothing.
    skip: usize,
}

impl Seen {
    fn of(name: String, trains: impl Iterator<Item = Train>, skip: Duration) -> Seen {
        let mut active = ActiveFlows::default();
        let mut best = Best::new(SECOND, &TABLES.map(|table| table.0));
        for train in trains {
            active.add(&train);
            best.add(&train);
        }
        best.finish();
        Seen { name, active: active.by_second(TIMEOUT), best, skip: skip.as_secs() as usize }
    }

    fn active(&self) -> Vec<f64> {
        self.active.iter().skip(self.skip).map(|flows| f64::from(*flows)).collect()
    }

    /// The seconds with traffic.
    fn seconds(&self) -> impl Iterator<Item = &Interval> {
        self.best.intervals.iter().filter(|second| second.number >= self.skip)
    }

    /// Percentages that the table of this index offloads in each second with traffic.
    fn offloads(&self, table: usize) -> Vec<f64> {
        self.seconds().map(|second| second.percent(table)).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (table, (k, busy, part, offload)) in TABLES.into_iter().enumerate() {
            let active = self.active();
            let more = active.iter().filter(|flows| **flows > k as f64).count();
            let percent = more as f64 / active.len().max(1) as f64 * 100.0;
            let quantity = format!("{}: time with more than {k} active flows", self.name);
            let most = active.iter().copied().fold(0.0, f64::max);
            let note = format!("60 s timeout; {most:.0} flows at most");
            rows.push(Row::new(quantity, "%", percent).at_least(busy).note(note));
            let mut offloads = self.offloads(table);
            offloads.sort_by(f64::total_cmp);
            let at = ((1.0 - part / 100.0) * offloads.len() as f64) as usize;
            let least = offloads.get(at).copied().unwrap_or(0.0);
            let quantity = format!("{}: offload in {part:.0} % of the time, k = {k}", self.name);
            let flows = self.seconds().map(|second| second.flows).max();
            let note = format!("the best of each second; {} flows in one", flows.unwrap_or(0));
            rows.push(Row::new(quantity, "%", least).at_least(offload).note(note));
        }
        rows
    }

    fn lines(&self) -> String {
        let mut lines = String::new();
        for second in &self.best.intervals {
            // The last second does not end.
            let Some(active) = self.active.get(second.number) else { continue };
            let name = self.name.replace(',', "");
            let _ = writeln!(
                lines,
                "{name},{},{active},{},{:.3},{:.3}",
                second.number,
                second.flows,
                second.percent(0),
                second.percent(1)
            );
        }
        lines
    }
}

/// Complementary distributions, as the paper has them.
fn charts(seen: &[Seen]) -> Vec<Chart> {
    let ccdf = |mut values: Vec<f64>| -> Vec<(f64, f64)> {
        values.sort_by(f64::total_cmp);
        let all = values.len().max(1) as f64;
        let above = |(i, value): (usize, &f64)| (*value, (1.0 - i as f64 / all) * 100.0);
        values.iter().enumerate().map(above).collect()
    };
    let lines = |of: &dyn Fn(&Seen) -> Vec<f64>| {
        seen.iter().map(|seen| Line::ours(seen.name.clone(), ccdf(of(seen)))).collect()
    };
    let time = || Axis::linear("time with at least as much (%)");
    vec![
        Chart::lines("Active flows", Axis::log("flows"), time(), lines(&Seen::active)),
        Chart::lines(
            "Traffic of the 2,048 largest flows of a second",
            Axis::linear("offloaded (%)"),
            time(),
            lines(&|seen| seen.offloads(0)),
        ),
    ]
}

/// A capture's flows, remarks on it, and where it ends early.
fn capture(path: &Path) -> Result<(Seen, Vec<String>, Option<String>), Failure> {
    let bad = |e: &dyn std::fmt::Display| Failure::unusable(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(|e| bad(&e))?;
    let reader = Reader::new(BufReader::with_capacity(1 << 18, file)).map_err(|e| bad(&e))?;
    let mut frames = Frames {
        reader,
        flows: HashMap::new(),
        sizes: vec![],
        others: 0,
        start: None,
        broken: None,
    };
    let seen = Seen::of("capture".into(), &mut frames, Duration::ZERO);
    let Some(sizes) = FlowSizes::of(frames.sizes) else {
        let why = frames.broken.unwrap_or(format!("{} frames, none of a flow", frames.others));
        return Err(bad(&why));
    };
    let remark = format!(
        "capture: {}, {} flows, {} other frames; sizes: median {:.0} bytes, mean {:.0}, 99 % at \
         most {:.0}",
        path.display(),
        frames.flows.len(),
        frames.others,
        sizes.quantile(0.5),
        sizes.mean(),
        sizes.quantile(0.99)
    );
    let broken = frames.broken.map(|why| format!("{}: ends early: {why}", path.display()));
    Ok((seen, vec![remark], broken))
}

/// The packets of a capture, each a train, from the time of the first one on.
struct Frames {
    reader: Reader<BufReader<File>>,
    flows: HashMap<FlowKey, u32>,
    /// Bytes of each flow.
    sizes: Vec<u64>,
    others: u64,
    start: Option<u64>,
    broken: Option<String>,
}

impl Iterator for &mut Frames {
    type Item = Train;

    fn next(&mut self) -> Option<Train> {
        let mut bytes = Vec::new();
        loop {
            let record = match self.reader.next(&mut bytes) {
                Ok(record) => record?,
                Err(e) => {
                    self.broken = Some(e.to_string());
                    return None;
                }
            };
            // A packet that the capture cut short is read as if zeros followed.
            bytes.resize(record.original_len.min(PACKET_MAX).max(bytes.len()), 0);
            let Some(key) = FlowKey::from_frame(&bytes) else {
                self.others += 1;
                continue;
            };
            let start = *self.start.get_or_insert(record.time_ns);
            let at = Time::from_nanos(record.time_ns.saturating_sub(start));
            if at > Time::ZERO + LONGEST {
                let days = LONGEST.as_secs() / 86_400;
                let why = format!("a packet is more than {days} days after the first one");
                self.broken = Some(why);
                return None;
            }
            let number = self.flows.len() as u32;
            let flow = *self.flows.entry(key).or_insert(number);
            if flow == number {
                self.sizes.push(0);
            }
            self.sizes[flow as usize] += bytes.len() as u64;
            return Some(Train { at, flow, bytes: bytes.len() as u32, packets: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_io::pcap::{Direction, LinkType, Writer};
    use plexus_wire::{MacAddr, Protocol};

    use super::*;

    #[test]
    fn rows_tell_the_time_above_and_the_offload_of_the_worst_seconds() {
        // 3,000 flows of a packet each in the first second, one in each further one.
        let first = (0..3000).map(|flow| (0, flow));
        let trains = first.chain((1..70).map(|s| (s, 3000))).map(|(s, flow)| Train {
            at: Time::from_secs(s),
            flow,
            bytes: 100,
            packets: 1,
        });
        let seen = Seen::of("a, b".into(), trains, Duration::ZERO);
        let ours =
            |i: usize| serde_json::to_value(&seen.rows()[i]).unwrap()["ours"].as_f64().unwrap();
        // Of 69 whole seconds, the first 60.
        assert!((ours(0) - 60.0 / 69.0 * 100.0).abs() < 0.01, "{}", ours(0));
        assert_eq!([ours(1), ours(2), ours(3)], [100.0, 0.0, 100.0]);
        assert_eq!(seen.offloads(0)[0], 2048.0 / 3000.0 * 100.0);
        assert!(seen.lines().starts_with("a b,0,3000,3000,68.267,100.000\n"), "{}", seen.lines());
    }

    #[test]
    fn a_silent_second_has_no_line_and_moves_no_other() {
        let train = |s, flow| Train { at: Time::from_secs(s), flow, bytes: 9, packets: 1 };
        let trains = [train(0, 0), train(4, 1), train(5, 2)];
        let seen = |skip| Seen::of("a".into(), trains.into_iter(), Duration::from_secs(skip));
        assert_eq!(seen(0).lines(), "a,0,1,1,100.000,100.000\na,4,2,1,100.000,100.000\n");
        assert_eq!(seen(1).offloads(0), [100.0, 100.0]);
    }

    #[test]
    fn a_capture_of_a_broken_clock_ends_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(file.reopen().unwrap(), LinkType::Ethernet, "p").unwrap();
        let (mac, ip) = (MacAddr([2, 0, 0, 0, 0, 1]), "10.0.0.1".parse().unwrap());
        let head = (Protocol::UDP, 64);
        let frame = plexus_wire::frame::ip((mac, mac), (ip, ip), head, &[0; 8]).unwrap();
        for time_ns in [0, 1, 1 << 60] {
            writer.packet(time_ns, Direction::In, &frame).unwrap();
        }
        writer.flush().unwrap();
        let (seen, _, broken) = capture(file.path()).unwrap();
        assert_eq!(seen.best.intervals[0].bytes, 2 * frame.len() as u64);
        assert!(broken.unwrap().contains("more than 7 days after"));
    }
}
