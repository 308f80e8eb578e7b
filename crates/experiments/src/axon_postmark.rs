//! `axon-postmark`: PostMark over a file server (`axon.txt` §5.2, figure 4), one to five boxes
//! between client and server, Axons or store-and-forward switches.
//!
//! PostMark (Katcher, TR3022) creates a pool of small files, does transactions on it, each of which
//! creates or deletes a file and reads or appends to one, and deletes what is left. The client asks
//! for one thing at a time, in messages as long as those of NFS version 3 (RFC 1813) over UDP, cut
//! into datagrams of 1,500 bytes. Who works how long at either end the paper does not say: nothing
//! in one series, a stated time per request in others.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use plexus_report::Failure;
use plexus_topo::{Dialogue, Exchange, Extent, Flow, Proto, Topology};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Setting;
use super::boxes::{Kind, row};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};
use super::simulate;
use super::verdict::Verdict;

/// PostMark's own defaults.
const FILES: usize = 500;
const TRANSACTIONS: usize = 500;
const FILE_BYTES: std::ops::RangeInclusive<u32> = 500..=10_000;
/// Bytes that a READ or WRITE moves at most.
const BLOCK: u32 = 8_192;
/// Boxes in a row, as in the paper.
const BOXES: usize = 5;
/// How long the server works on a request, in microseconds: the paper gives none.
const SERVICE_US: [u64; 3] = [0, 100, 300];
/// "By 20–77 % for clients accessing an NFS file server over the network", for 1–5 devices: taken
/// to be those of one and of five.
const PAPER: [f64; 2] = [20.0, 77.0];

/// Bytes of NFS messages over RPC (RFC 5531) with AUTH_UNIX credentials, from the formats of RFC
/// 1813, with file handles of 32 bytes and names of 8: without a file's data.
const CALL: u32 = 72;
const HANDLE: u32 = 36;
const NAME: u32 = 12;
const REPLY: u32 = 24 + 4;
const ATTRIBUTES: u32 = 88;
const WEAK_CACHE: u32 = 116;

const fn exchange(arguments: u32, results: u32) -> Exchange {
    Exchange { request: CALL + arguments, response: REPLY + results }
}

const GETATTR: Exchange = exchange(HANDLE, 84);
const CREATE: Exchange = exchange(HANDLE + NAME + 32, HANDLE + 4 + ATTRIBUTES + WEAK_CACHE);
const REMOVE: Exchange = exchange(HANDLE + NAME, WEAK_CACHE);
const COMMIT: Exchange = exchange(HANDLE + 12, WEAK_CACHE + 8);

/// What PostMark makes a client ask, phase after phase: pool, transactions, the end.
struct Script {
    random: Pcg64,
    files: Vec<u32>,
    asked: Vec<Exchange>,
}

impl Script {
    fn new(seed: u64) -> Script {
        Script { random: Pcg64::seed_from_u64(seed), files: vec![], asked: vec![] }
    }

    fn write(&mut self, bytes: u32) {
        for block in blocks(bytes) {
            self.asked.push(exchange(HANDLE + 20 + block, WEAK_CACHE + 16));
        }
        self.asked.push(COMMIT);
    }

    fn create(&mut self) {
        let bytes = self.random.random_range(FILE_BYTES);
        self.files.push(bytes);
        self.asked.push(CREATE);
        self.write(bytes);
    }

    fn delete(&mut self) {
        if !self.files.is_empty() {
            let file = self.random.random_range(0..self.files.len());
            self.files.swap_remove(file);
            self.asked.push(REMOVE);
        }
    }

    fn read(&mut self, file: usize) {
        self.asked.push(GETATTR);
        for block in blocks(self.files[file]) {
            self.asked.push(exchange(HANDLE + 12, ATTRIBUTES + 12 + block));
        }
    }

    fn append(&mut self, file: usize) {
        let room = FILE_BYTES.end() - self.files[file];
        self.asked.push(GETATTR);
        if room > 0 {
            let bytes = self.random.random_range(1..=room);
            self.files[file] += bytes;
            self.write(bytes);
        }
    }

    /// A transaction: one of either pair, each as likely as the other.
    fn transact(&mut self) {
        if self.random.random_bool(0.5) {
            self.create()
        } else {
            self.delete()
        }
        if self.files.is_empty() {
            return;
        }
        let file = self.random.random_range(0..self.files.len());
        if self.random.random_bool(0.5) { self.read(file) } else { self.append(file) }
    }

    /// What was asked since.
    fn phase(&mut self) -> Vec<Exchange> {
        std::mem::take(&mut self.asked)
    }
}

fn blocks(bytes: u32) -> impl Iterator<Item = u32> {
    (0..bytes.div_ceil(BLOCK)).map(move |b| BLOCK.min(bytes - b * BLOCK))
}

/// PostMark's three phases.
fn phases(seed: u64, files: usize, transactions: usize) -> [(&'static str, Vec<Exchange>); 3] {
    let mut script = Script::new(seed);
    (0..files).for_each(|_| script.create());
    let pool = script.phase();
    (0..transactions).for_each(|_| script.transact());
    let transactions = script.phase();
    while !script.files.is_empty() {
        script.delete();
    }
    [("pool", pool), ("transactions", transactions), ("end", script.phase())]
}

/// Client and server, and so many boxes between them.
fn topology(
    kind: Kind,
    boxes: usize,
    service: Duration,
    phases: &[(&str, Vec<Exchange>)],
) -> Result<Topology, String> {
    let first = "[[traffic]]\nname = \"first\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\n\
        count = 2\n";
    let mut topology = row(kind, boxes, first)?;
    for (after, (name, exchanges)) in phases.iter().enumerate() {
        let like = topology.traffic[0].clone();
        topology.traffic.push(Flow {
            name: name.to_string(),
            proto: Proto::Request,
            extent: Extent::Packets(exchanges.len() as u32),
            after: Some(after),
            dialogue: Some(Arc::new(Dialogue { service, ..Dialogue::new(exchanges.clone()) })),
            site: None,
            catalogue: None,
            ..like
        });
    }
    Ok(topology)
}

/// Seconds of PostMark's three phases.
fn seconds(
    kind: Kind,
    boxes: usize,
    service: Duration,
    phases: &[(&str, Vec<Exchange>)],
) -> Result<Vec<f64>, Failure> {
    let topology = topology(kind, boxes, service, phases).map_err(Failure::unusable)?;
    let report = simulate::run(&topology, 1)?;
    let whole = report.facts.flows.iter().all(|f| f.loss == 0.0);
    if !report.facts.passed || !whole {
        return Err(Failure::No(report.to_string()));
    }
    let rates = report.facts.flows[1..].iter().map(|f| f.transactions_per_s.unwrap_or(f64::NAN));
    Ok(phases.iter().zip(rates).map(|((_, asked), rate)| asked.len() as f64 / rate).collect())
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    const SEED: u64 = 1;
    let (files, transactions) = if setting.quick { (50, 50) } else { (FILES, TRANSACTIONS) };
    let phases = phases(SEED, files, transactions);
    let mut findings = Findings::new(SEED, "boxes,kind,service_us,pool_s,transactions_s,end_s\n");
    let (mut gains, mut lines) = (Vec::new(), Vec::new());
    for service_us in SERVICE_US {
        let mut rates: [Vec<f64>; 2] = Default::default();
        for boxes in 1..=BOXES {
            for (rates, kind) in rates.iter_mut().zip([Kind::Axon, Kind::Switch]) {
                setting.progress.detail(&format!("{boxes} {}, {service_us} us", kind.name()));
                let service = Duration::from_micros(service_us);
                let took = seconds(kind, boxes, service, &phases)?;
                let [pool, middle, end] = took[..] else { continue };
                let name = kind.name();
                let _ = writeln!(
                    findings.runs,
                    "{boxes},{name},{service_us},{pool:.6},{middle:.6},{end:.6}"
                );
                rates.push(transactions as f64 / middle);
            }
        }
        let [axon, switch] = &rates;
        let gain: Vec<f64> = axon.iter().zip(switch).map(|(a, s)| (a / s - 1.0) * 100.0).collect();
        for (boxes, gain) in (1..).zip(&gain) {
            let quantity = format!("gain with {boxes}, {service_us} us per request");
            let row = Row::new(quantity, "%", *gain);
            findings.rows.push(match boxes {
                1 => row.paper(PAPER[0]),
                BOXES => row.paper(PAPER[1]),
                _ => row,
            });
        }
        for (kind, rates) in [Kind::Axon, Kind::Switch].into_iter().zip(&rates) {
            for (boxes, rate) in [(1, rates[0]), (BOXES, rates[BOXES - 1])] {
                let quantity = format!("{}: {boxes}, {service_us} us per request", kind.name());
                findings.rows.push(Row::new(quantity, "transactions/s", rate));
            }
            let points = (1..).zip(rates).map(|(n, rate)| (f64::from(n), *rate)).collect();
            let name = format!("{}, {service_us} us", kind.name());
            lines.push(Line::ours(name, points));
        }
        let points = (1..).zip(&gain).map(|(n, gain)| (f64::from(n), *gain)).collect();
        gains.push(Line::ours(format!("{service_us} us per request"), points));
    }
    let is_rising = gains.iter().all(|line| line.points.is_sorted_by(|a, b| a.1 < b.1));
    let why = match is_rising {
        true => {
            "more boxes always give more gain, as in the paper; how much, the time that client \
                 and server take for a request decides, which the paper does not give"
        }
        false => "the gain does not always grow with the boxes",
    };
    findings.verdict = Some(match is_rising {
        true => Verdict::open(why),
        false => Verdict::new(false, why),
    });
    let marks = vec![(1.0, PAPER[0]), (BOXES as f64, PAPER[1])];
    gains.push(Line::paper("figure 4, ends of the range", marks));
    let requests: usize = phases.iter().map(|(_, asked)| asked.len()).sum();
    findings.remarks.push(format!(
        "{files} files of 500 to 10,000 bytes, {transactions} transactions, {requests} requests \
         one after the other; how long client and server work on a request decides the gain, and \
         the paper does not say"
    ));
    let chart = |title, y, series| {
        let x = Axis::linear("boxes between client and server");
        Chart::lines(title, x, Axis::linear(y), series)
    };
    findings.charts.push(chart("PostMark: Axons against switches", "gain, in %", gains));
    findings.charts.push(chart("PostMark", "transactions per second", lines));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_postmarks() {
        let [(_, pool), (_, middle), (_, end)] = phases(1, FILES, TRANSACTIONS);
        let count = |asked: &[Exchange], of| asked.iter().filter(|e| **e == of).count();
        assert_eq!((count(&pool, CREATE), count(&pool, COMMIT)), (FILES, FILES));
        // Files of 5,250 bytes on average.
        let written: u32 = pool.iter().filter(|e| e.request > 200).map(|e| e.request - 128).sum();
        assert!((written / 500).abs_diff(5_250) < 300, "{written}");
        let (created, deleted) = (count(&middle, CREATE), count(&middle, REMOVE));
        assert_eq!(created + deleted, TRANSACTIONS);
        assert_eq!(count(&middle, GETATTR), TRANSACTIONS);
        assert_eq!(count(&end, REMOVE), FILES + created - deleted);
        assert_eq!(end.len(), count(&end, REMOVE));
    }

    #[test]
    fn messages_have_the_sizes_of_the_rfc() {
        let both = [GETATTR, CREATE, REMOVE, COMMIT].map(|e| (e.request, e.response));
        assert_eq!(both, [(108, 112), (152, 272), (120, 144), (120, 152)]);
    }

    #[test]
    fn more_switches_cost_much_and_more_axons_little() {
        let phases = phases(1, 5, 10);
        let middle = |kind, boxes| seconds(kind, boxes, Duration::ZERO, &phases).unwrap()[1];
        let grows = |kind| middle(kind, 4) - middle(kind, 1);
        assert!(grows(Kind::Axon) > 0.0);
        assert!(grows(Kind::Switch) > 5.0 * grows(Kind::Axon));
    }
}
