//! A day of routing updates through the kernel of a running router, while packets go by routes that
//! stay: afterwards its table is the kernel's, and no packet is missing.
//!
//! The law, for want of a recording that may be given on: bursts at exponential intervals, sizes by
//! Pareto's law (exponent 1.2, at most 20,000), a mean of 5 updates a second; prefixes of the
//! Internet's table by Zipf's law (exponent 1) over a random order; of ten updates one withdraws
//! its route if there is one, all others bring another gateway, one in twenty two of them.
//!
//! The whole day, in two minutes, with the whole table:
//!
//! ```text
//! cargo test --release -p plexus-cli --test cli churn -- --ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{self, Daemons, Said, until};
use plexus_io::namespace::Namespaces;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::json;

const TABLE: &[u8] = include_bytes!("../../../table/data/prefixes.txt.gz");
/// Of the day.
const MEAN_PER_S: f64 = 5.0;
const DAY_S: f64 = 86_400.0;
const BURST_MAX: f64 = 20_000.0;
const GATEWAYS: u32 = 8;
/// What the probes go to, and the prefix that tells how far behind the router is: neither is in the
/// table.
const STABLE: &str = "198.51.100.1";
const CANARY: &str = "203.0.113.1";

/// How much of it.
struct Size {
    /// Of the table's prefixes every so many-th.
    every: usize,
    updates: usize,
    /// How long the updates take.
    time: Duration,
}

/// Sets of gateways by prefix, as a dump says them.
type Routes = BTreeMap<String, Vec<String>>;

fn prefixes(every: usize) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(TABLE).read_to_string(&mut text).unwrap();
    text.lines().step_by(every).map(str::to_string).collect()
}

/// The day's bursts: each with the part of the day that passes before it, and lines for ip(8).
fn bursts(prefixes: &[String], count: usize, random: &mut Pcg64) -> Vec<(f64, String)> {
    let mut order: Vec<usize> = (0..prefixes.len()).collect();
    order.shuffle(random);
    let mut is_there = vec![true; prefixes.len()];
    let mut bursts = Vec::new();
    let mut left = count;
    while left > 0 {
        let size = (1.0 / random.random::<f64>().max(1e-9)).powf(1.0 / 1.2).min(BURST_MAX);
        let size = (size as usize).min(left);
        left -= size;
        let mut lines = String::new();
        for _ in 0..size {
            // Zipf's law by its inverse: the logarithm of the rank is uniform.
            let rank = (prefixes.len() as f64).powf(random.random::<f64>()) as usize - 1;
            let which = order[rank.min(prefixes.len() - 1)];
            let prefix = &prefixes[which];
            let goes = is_there[which] && random.random_range(0..10) == 0;
            is_there[which] = !goes;
            let _ = match goes {
                true => writeln!(lines, "route del {prefix}"),
                false if random.random_range(0..20) == 0 => {
                    let first = random.random_range(0..GATEWAYS - 1);
                    let hop = |n: u32| format!("nexthop via {}", gateway(prefix, n));
                    writeln!(lines, "route replace {prefix} {} {}", hop(first), hop(first + 1))
                }
                false => writeln!(lines, "{}", replace(prefix, random.random_range(0..GATEWAYS))),
            };
        }
        bursts.push((-random.random::<f64>().max(1e-9).ln(), lines));
    }
    let all: f64 = bursts.iter().map(|b| b.0).sum();
    bursts.iter_mut().for_each(|b| b.0 /= all);
    bursts
}

fn gateway(prefix: &str, number: u32) -> String {
    match prefix.contains(':') {
        true => format!("fd00:1::{}", 2 + number),
        false => format!("10.1.0.{}", 2 + number),
    }
}

fn replace(prefix: &str, number: u32) -> String {
    format!("route replace {prefix} via {}", gateway(prefix, number))
}

/// ip(8) in a place, taking lines from its standard input. It ends with the test.
struct Batch(Child);

impl Batch {
    fn new(place: &Namespaces) -> Batch {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "ip", "-batch", "-"]).stdin(Stdio::piped());
        place.apply(&mut command).unwrap();
        Batch(command.spawn().unwrap())
    }

    fn write(&mut self, lines: &str) {
        self.0.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// All lines are done, and none was refused.
    fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

fn of_kernel(place: &Namespaces) -> Routes {
    let mut routes = of_family(place, "-4", 32);
    routes.append(&mut of_family(place, "-6", 128));
    routes
}

fn of_family(place: &Namespaces, family: &str, host_bits: u8) -> Routes {
    let mut command = Command::new("ip");
    command.args([family, "-oneline", "route", "show"]);
    place.apply(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let routes = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let prefix = match *words.first()? {
            prefix if prefix.contains('/') => prefix.to_string(),
            address => format!("{address}/{host_bits}"),
        };
        let after = words.windows(2).filter(|w| w[0] == "via");
        sorted(prefix, after.map(|w| w[1].to_string()).collect())
    });
    routes.collect()
}

/// The node's routes by gateways, as `plexus show routes` says; its packet path has the same.
fn of_node(daemons: &Daemons) -> Routes {
    let socket = daemons.dir.join("r1.sock");
    let show = ["show", "routes", "--control", socket.to_str().unwrap()];
    let text = Said::of(&mut common::plexus(&show)).expect(0).out;
    let routes = text.lines().filter_map(|line| {
        let mut words = line.split(' ').map(str::to_string);
        let prefix = words.next()?;
        sorted(prefix, words.filter(|word| word.parse::<IpAddr>().is_ok()).collect())
    });
    routes.collect()
}

fn sorted(prefix: String, mut gateways: Vec<String>) -> Option<(String, Vec<String>)> {
    gateways.sort_unstable();
    (!gateways.is_empty()).then_some((prefix, gateways))
}

/// Ends the threads beside the test, however that ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a numbered packet every millisecond until told to stop; how many.
fn probe(from: &UdpSocket, stop: &AtomicBool) -> u64 {
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return number;
        }
        from.send_to(&number.to_be_bytes(), (STABLE, 7000)).unwrap();
        sleep(Duration::from_millis(1));
    }
    unreachable!("there are more numbers than milliseconds")
}

/// Moves the canary from gateway to gateway until told to stop. How long the node took to follow
/// what the kernel had already, in milliseconds, each time.
fn lags(inside: &Namespaces, daemons: &Daemons, pause: Duration, stop: &AtomicBool) -> Vec<f64> {
    let mut lags = Vec::new();
    for turn in 0u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        common::ip(inside, &replace("203.0.113.0/24", turn % GATEWAYS));
        let (since, wanted) = (Instant::now(), gateway(CANARY, turn % GATEWAYS));
        let has_followed = || {
            let answer = daemons.ask("r1", json!({"route": CANARY})).unwrap_or_default();
            answer.pointer("/routes/0/next_hops/0/gateway") == Some(&json!(wanted))
        };
        assert!(until(has_followed), "{}", daemons.log("r1", &["fib"]));
        lags.push(since.elapsed().as_secs_f64() * 1e3);
        sleep(pause);
    }
    lags
}

/// Runs it; what there is to tell.
fn churn(size: &Size) -> Option<String> {
    let [inside, near, far] = common::namespaces("churn", || Ok(()))?;
    common::cable((&inside, "n1"), (&near, "h"), 1500);
    common::cable((&inside, "n2"), (&far, "h"), 1500);
    common::ip(&near, "address add 10.0.0.2/24 dev h");
    common::ip(&near, "route add default via 10.0.0.1");
    for n in 2..2 + GATEWAYS {
        common::ip(&far, &format!("address add 10.1.0.{n}/24 dev h"));
        common::ip(&far, &format!("address add fd00:1::{n}/64 dev h nodad"));
    }
    common::ip(&far, &format!("address add {STABLE}/32 dev h"));
    common::ip(&far, "route add default via 10.1.0.1");
    let mut daemons = Daemons::bare("churn");
    let file = format!(
        "name = \"r1\"\ncontrol = \"{}/r1.sock\"\nbackend = \"af_packet\"\n\
         [router]\nkernel = true\n\
         [[port]]\nname = \"p1\"\ndevice = \"n1\"\n[[port]]\nname = \"p2\"\ndevice = \"n2\"\n\
         [[interface]]\nname = \"k-near\"\nport = \"p1\"\naddress = \"10.0.0.1/24\"\n\
         [[interface]]\nname = \"k-far\"\nport = \"p2\"\n\
         address = [\"10.1.0.1/24\", \"fd00:1::1/64\"]\n",
        daemons.dir.display()
    );
    daemons.start(&inside, "node", "r1", &file);
    let has_come_up = || {
        let fib = daemons.show("r1", "fib").unwrap_or_default();
        fib["interfaces"].as_array().is_some_and(|all| all.iter().all(|i| i["up"] == true))
    };
    assert!(until(has_come_up), "{}", daemons.log("r1", &["fib"]));

    let mut random = Pcg64::seed_from_u64(20_260_101);
    let prefixes = prefixes(size.every);
    let mut lines = format!("{}\n", replace("198.51.100.0/24", 0));
    for prefix in &prefixes {
        let _ = writeln!(lines, "{}", replace(prefix, random.random_range(0..GATEWAYS)));
    }
    let loading = Instant::now();
    let mut batch = Batch::new(&inside);
    batch.write(&lines);
    batch.finish();
    let in_kernel = loading.elapsed();
    let knows = || {
        daemons
            .show("r1", "fib")
            .is_some_and(|fib| fib["routes"].as_u64() >= Some(prefixes.len() as u64))
    };
    assert!(until(knows), "{}", daemons.log("r1", &["fib"]));
    let in_node = loading.elapsed();

    let socket = |place: &Namespaces, address: &'static str| {
        place.run(move || UdpSocket::bind((address, 7000))).unwrap().unwrap()
    };
    let (from, to) = (socket(&near, "10.0.0.2"), socket(&far, STABLE));
    to.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // The first packet waits for two addresses to be asked for.
    let arrives = || from.send_to(b"first", (STABLE, 7000)).is_ok() && to.recv(&mut [0; 8]).is_ok();
    assert!(until(arrives), "{}", daemons.log("r1", &["fib", "neighbours", "drops"]));

    let day = bursts(&prefixes, size.updates, &mut random);
    let (greatest, stop) =
        (day.iter().map(|b| b.1.lines().count()).max().unwrap(), AtomicBool::new(false));
    let (mut behind, mut sent, mut taken) = (Vec::new(), 0, Duration::ZERO);
    let mut arrived = 0u64;
    std::thread::scope(|scope| {
        let prober = scope.spawn(|| probe(&from, &stop));
        let canary = scope.spawn(|| lags(&inside, &daemons, size.time / 50, &stop));
        let receiver = scope.spawn(|| {
            let mut next = 0u64;
            // Until two seconds after the last; those of the first, sent twice, are shorter.
            let mut bytes = [0; 8];
            while let Ok(len) = to.recv(&mut bytes) {
                next += u64::from(len == bytes.len());
            }
            next
        });
        let end = Stop(&stop);
        let begin = Instant::now();
        let mut batch = Batch::new(&inside);
        let mut due = Duration::ZERO;
        for (part, lines) in &day {
            due += size.time.mul_f64(*part);
            sleep(due.saturating_sub(begin.elapsed()));
            batch.write(lines);
        }
        batch.finish();
        taken = begin.elapsed();
        drop(end);
        (sent, behind) = (prober.join().unwrap(), canary.join().unwrap());
        arrived = receiver.join().unwrap();
    });

    let wanted = of_kernel(&inside);
    let has_followed = until(|| of_node(&daemons) == wanted);
    assert!(has_followed, "{}", daemons.log("r1", &["fib", "drops"]));
    assert!(wanted.len() > prefixes.len() / 2, "{} routes are left", wanted.len());
    assert_eq!(arrived, sent, "{}", daemons.log("r1", &["fib", "drops", "ports"]));
    behind.sort_by(f64::total_cmp);
    let log = daemons.log("r1", &[]);
    Some(format!(
        "{} prefixes: in the kernel after {in_kernel:.1?}, in the node after {in_node:.1?}\n\
         {} updates in {taken:.1?}, {} bursts, the greatest of {greatest}\n\
         behind the kernel, {} samples: median {:.1} ms, most {:.1} ms\n\
         {sent} probes sent, {arrived} arrived; {} routes at the end are the kernel's\n{log}",
        prefixes.len(),
        size.updates,
        day.len(),
        behind.len(),
        behind[behind.len() / 2],
        behind[behind.len() - 1],
        wanted.len(),
    ))
}

#[test]
fn after_some_churn_the_routes_are_the_kernels_and_no_packet_is_missing() {
    let size = Size { every: 90, updates: 10_000, time: Duration::from_secs(2) };
    churn(&size).into_iter().for_each(|told| println!("{told}"));
}

#[test]
#[ignore = "two minutes, and a processor for itself"]
fn after_a_day_of_churn_the_routes_are_the_kernels_and_no_packet_is_missing() {
    let updates = (MEAN_PER_S * DAY_S) as usize;
    let size = Size { every: 1, updates, time: Duration::from_secs(120) };
    churn(&size).into_iter().for_each(|told| println!("{told}"));
}
