//! A router between two sources and two sinks on veth cables, as in figure 1 of
//! distributed-router.txt without its switch, and what it forwards of what is offered. Router and
//! test machines share this machine's processors.

pub(super) mod click;
mod programs;

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use plexus_benches::internet;
use plexus_benches::ndr::trial::{HEARS, Running};
use plexus_io::namespace::Namespaces;
use plexus_table::lpm::Prefix;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64;

use self::click::Click;
use super::axon_vm::command;
use super::rig::{Scratch, namespace, number, own, received_per_s};

/// The seed of samples and destinations.
pub(super) const SEED: u64 = 1;
/// Destinations of "many flows".
pub(super) const MANY: usize = 4096;
/// How often packets are tried until the first ones come through.
const TRIES: usize = 5;
/// How long a router may take until it knows its gateways, with the largest table.
const READY: Duration = Duration::from_secs(120);

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program<'a> {
    Plexus,
    Linux,
    Click(&'a Click),
}

impl Program<'_> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Plexus => "Plexus",
            Program::Linux => "Linux",
            Program::Click(_) => "Click",
        }
    }
}

/// How many flows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flows {
    /// From the first source to the first sink.
    One,
    /// And from the second one to the second one.
    Two,
    /// From both sources to destinations all over the table.
    Many,
}

impl Flows {
    pub(super) const ALL: [Flows; 3] = [Flows::One, Flows::Two, Flows::Many];

    pub(super) fn name(self) -> &'static str {
        match self {
            Flows::One => "one flow",
            Flows::Two => "two flows",
            Flows::Many => "many flows",
        }
    }
}

/// What came of a trial, packets per second of each source and each sink.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) offered: [f64; 2],
    pub(super) received: [f64; 2],
}

impl Outcome {
    pub(super) fn offered(&self) -> f64 {
        self.offered.iter().sum()
    }

    pub(super) fn received(&self) -> f64 {
        self.received.iter().sum()
    }
}

/// The address at a cable to a source ("s") or to a sink ("d").
pub(super) fn mac(kind: &str, i: usize) -> String {
    format!("02:00:00:00:{}:0{i}", if kind == "s" { "10" } else { "20" })
}

/// So many routes out of a table, and lines of [`MANY`] destinations in them.
pub(super) fn sample(table: &[(Ipv4Addr, u8)], routes: usize) -> (Vec<(Ipv4Addr, u8)>, String) {
    let mut random = Pcg64::seed_from_u64(SEED);
    let mut order: Vec<usize> = (0..table.len()).collect();
    order.shuffle(&mut random);
    let chosen: Vec<(Ipv4Addr, u8)> = order.into_iter().take(routes).map(|i| table[i]).collect();
    let destinations = (0..MANY).map(|_| {
        let (address, len) = chosen[random.random_range(0..chosen.len())];
        let host = random.random::<u32>().checked_shr(len.into()).unwrap_or(0);
        format!("{}\n", Ipv4Addr::from(address.to_bits() | host))
    });
    let destinations = destinations.collect();
    (chosen, destinations)
}

/// The IPv4 table, which is read once.
pub(super) fn internet() -> Result<&'static [(Ipv4Addr, u8)], String> {
    static TABLE: LazyLock<Result<Vec<(Ipv4Addr, u8)>, String>> = LazyLock::new(|| {
        let v4 = |prefix| match prefix {
            Prefix::V4(address, len) => Some((Ipv4Addr::from(address), len)),
            Prefix::V6(..) => None,
        };
        Ok(internet::prefixes()?.into_iter().filter_map(v4).collect())
    });
    TABLE.as_deref().map_err(Clone::clone)
}

/// The running arrangement; it ends with the value, the daemon before its folder.
pub(super) struct Bench {
    daemon: Option<Running>,
    around: Namespaces,
    router: Namespaces,
    dir: Scratch,
}

impl Bench {
    /// A router with so many routes out of `table`, all of them to the two sinks in turn.
    pub(super) fn new(
        program: Program<'_>,
        table: &[(Ipv4Addr, u8)],
        routes: usize,
    ) -> Result<Bench, String> {
        // An even number in all, with the two below: the last but one leads to the first sink.
        let sampled = (routes & !1).saturating_sub(2);
        let (mut chosen, destinations) = sample(table, sampled);
        // Those of the single flows: by the first sink, by the second.
        chosen.extend((0..2).map(|i| (Ipv4Addr::new(198, 18, i, 0), 24)));
        let quiet = || -> std::io::Result<()> {
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
            std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")?;
            std::fs::write("/proc/sys/net/ipv4/conf/default/rp_filter", "0")
        };
        let dir = Scratch::new(&format!("router-{}", program.name().to_lowercase()))?;
        dir.write("destinations", destinations.as_bytes())?;
        let mut bench =
            Bench { daemon: None, around: namespace(quiet)?, router: namespace(quiet)?, dir };
        bench.cables()?;
        match program {
            Program::Plexus => bench.plexus(&chosen)?,
            Program::Linux => bench.linux(&chosen)?,
            Program::Click(click) => bench.click(click, &chosen)?,
        }
        // The kernel may take a second to say that a cable is ready.
        let first = Duration::from_millis(100);
        for _ in 0..TRIES {
            if bench.run(Flows::Two, 64, Some(1000), first)?.received.iter().all(|r| *r > 0.0) {
                return Ok(bench);
            }
        }
        Err("no packets come through the router".into())
    }

    fn cables(&self) -> Result<(), String> {
        // The process names the router's place to ip(8).
        let mut sleep = Command::new("sleep");
        self.router.apply(sleep.arg("60")).map_err(|e| e.to_string())?;
        let sleep = Running::start(sleep, "sleep")?;
        (0..2).try_for_each(|i: usize| {
            for kind in ["s", "d"] {
                let peer = format!("r{kind}{i} netns {}", sleep.id());
                let link = format!("ip link add {kind}{i} type veth peer name {peer}");
                command(&self.around, &link)?;
                let mac = mac(kind, i);
                command(&self.router, &format!("ip link set r{kind}{i} address {mac} up"))?;
                command(&self.around, &format!("ip link set {kind}{i} up"))?;
            }
            command(&self.around, &format!("ip address add 10.1.{i}.2/24 dev d{i}")).map(drop)
        })
    }

    /// This program beside the router, with these words as arguments, and more.
    fn inside(&self, words: &str, more: &[&str]) -> Result<Command, String> {
        let arguments: Vec<&str> = words.split_whitespace().chain(more.iter().copied()).collect();
        own(&self.around, &arguments)
    }

    /// Offers packets for a time: `size` is the frame's on a cable, FCS included; `pps` in all, as
    /// many as possible without it.
    pub(super) fn run(
        &self,
        flows: Flows,
        size: u32,
        pps: Option<u64>,
        time: Duration,
    ) -> Result<Outcome, String> {
        let limit = format!("{}ms", (time + Duration::from_secs(6)).as_millis());
        let mut meters = Vec::new();
        for sink in if flows == Flows::One { &["d0"][..] } else { &["d0", "d1"] } {
            let meter = format!(
                "meter {sink} --json --backend xdp --interval 20ms --idle 500ms --duration {limit}"
            );
            let meter = Running::start(self.inside(&meter, &[])?, "the meter")?;
            meter.ready(HEARS)?;
            meters.push(meter);
        }
        let sources = if flows == Flows::One { 1 } else { 2 };
        let rate = match pps {
            Some(pps) => format!("{}pps", pps / sources),
            None => "max".into(),
        };
        let destinations = self.dir.join("destinations").display().to_string();
        let mut generators = Vec::new();
        for i in 0..sources as usize {
            let generator = format!(
                "gen s{i} --json --backend af_xdp --dst-mac {} --src-ip 10.0.{i}.2 --size {size} \
                 --rate {rate} --duration {}ms",
                mac("s", i),
                time.as_millis()
            );
            let target = format!("198.18.{i}.1");
            let to = match flows {
                Flows::Many => ["--destinations", &destinations],
                _ => ["--dst-ip", &target],
            };
            let generator = self.inside(&generator, &to)?;
            generators.push(Running::start(generator, "the generator")?);
        }
        let mut outcome = Outcome::default();
        let seconds = time.as_secs_f64();
        for (i, generator) in generators.into_iter().enumerate() {
            outcome.offered[i] = number(&generator.finish()?, "/packets")? / seconds;
        }
        for (i, meter) in meters.into_iter().enumerate() {
            outcome.received[i] = received_per_s(&meter.finish()?, time)?;
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_whole() {
        let table = internet().unwrap();
        assert_eq!(table.len(), 901_899);
        assert!(table.iter().all(|(_, len)| (1..=32).contains(len)));
    }
}
