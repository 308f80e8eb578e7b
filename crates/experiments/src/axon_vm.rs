//! `axon-vm`: the traffic of real Linux hosts through the simulated network, in real time
//! (`axon.txt` §5: the paper's simulator carries virtual machines).
//!
//! Hosts are network namespaces, each with a TAP device whose other end is a host's cable in the
//! simulation. They ping each other and send by TCP; the same is done by simulated hosts in the
//! same network, not in real time. What differs is what the machine adds, and what Linux does
//! otherwise than the simulated hosts.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_config::Backend;
use plexus_io::namespace::Namespaces;
use plexus_report::Failure;
use plexus_sim::Sim;
use plexus_sim::real_time::{Kept, Outside};
use plexus_topo::{
    Arrivals, Device, Expect, Extent, Flow, Link, MTU_USUAL, Options, Proto, Shape, Target,
    Topology, generate,
};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::Setting;
use super::axon_table1::RING;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::simulate;
use super::verdict::Verdict;

/// Every cable: what they carry and how long it takes.
const RATE: u64 = 100_000_000;
const DELAY: Duration = Duration::from_millis(1);
/// Between nodes: room for a full frame of a host and its route.
const FABRIC_MTU: u16 = 2000;
/// Payload of a ping, as ping(8) has it, and the time between two.
const PING_SIZE: u16 = 56;
const PING_EVERY: &str = "0.02";
/// Frames that leave later than this are not in real time any more: the delay of a cable.
const LAG_MAX_US: f64 = 1000.0;
const PORT: u16 = 5001;
/// How long anything of a real host may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pings of a pair, and how long its connection sends.
struct Effort {
    pings: u32,
    time: Duration,
}

const FULL: Effort = Effort { pings: 200, time: Duration::from_secs(10) };
const QUICK: Effort = Effort { pings: 20, time: Duration::from_millis(500) };

/// A network and the hosts of it that are real: senders and receivers, by index.
struct Case {
    name: &'static str,
    topology: Topology,
    pairs: Vec<(usize, usize)>,
}

/// What a pair of hosts found.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    /// Fraction of the pings that were answered.
    answered: f64,
    /// Median, in milliseconds.
    rtt_ms: f64,
    /// Payload bits/s that arrived by TCP.
    bits_per_s: f64,
}

fn cases() -> Result<Vec<Case>, String> {
    let ring = Topology::parse("embedded", RING).map_err(|e| e.to_string())?;
    let shape = Shape::Torus { sides: vec![5, 5] };
    let mut torus = generate(&shape, Options::default()).map_err(|e| e.to_string())?;
    let between_nodes = |l: &&mut Link| l.devices().iter().all(|d| matches!(d, Device::Node(_)));
    torus.links.iter_mut().filter(between_nodes).for_each(|l| l.mtu = FABRIC_MTU);
    let torus = torus.to_toml()
        + "[[controller]]\nname = \"c1\"\non = \"s1\"\n\
           [[controller.subnet]]\nprefix = \"10.0.0.0/8\"\ngateway = \"10.255.255.254\"\n";
    let torus = Topology::parse("made", &torus).map_err(|e| e.to_string())?;
    // Each node of the ring sends to the next; in the torus, as far as it goes: two and two.
    let mut cases = vec![
        Case { name: "ring of 3", topology: ring, pairs: vec![(0, 2), (3, 5), (4, 1)] },
        Case { name: "torus of 25", topology: torus, pairs: vec![(0, 12)] },
    ];
    for case in &mut cases {
        let topology = &mut case.topology;
        topology.traffic.clear();
        topology.assertions.clear();
        topology.hosts.iter_mut().for_each(|h| h.dhcp = false);
        for link in &mut topology.links {
            (link.rate_bits_per_s, link.delay) = (Some(RATE), DELAY);
        }
    }
    Ok(cases)
}

fn address(topology: &Topology, host: usize) -> Result<Ipv4Addr, String> {
    match topology.hosts[host].addresses.first().map(|a| a.address) {
        Some(std::net::IpAddr::V4(ip)) => Ok(ip),
        _ => Err(format!("{} has no IPv4 address", topology.hosts[host].name)),
    }
}

/// The pairs' pings and, after them, their connections, all between simulated hosts.
fn simulated(case: &Case, effort: &Effort) -> Result<Vec<Found>, Failure> {
    let mut topology = case.topology.clone();
    let pairs = case.pairs.len();
    for proto in [Proto::Icmp, Proto::Tcp] {
        for &(from, to) in &case.pairs {
            let extent = match proto {
                Proto::Icmp => Extent::Packets(effort.pings),
                _ => Extent::Duration(effort.time),
            };
            topology.traffic.push(Flow {
                name: format!("{}-{from}-{to}", proto.name()),
                from,
                to: Target::Host(to),
                to_address: address(&case.topology, to).map_err(Failure::unusable)?.into(),
                proto,
                rate_bits_per_s: None,
                extent,
                size: PING_SIZE,
                start: Duration::ZERO,
                after: (proto == Proto::Tcp).then_some(pairs - 1),
                verify: false,
                congestion: (proto == Proto::Tcp).then(|| "cubic".to_string()),
                expect: Expect::Pass,
                arrivals: Arrivals::Even,
                dialogue: None,
                site: None,
                catalogue: None,
            });
        }
    }
    let flows = simulate::run(&topology, topology.seed)?.facts.flows;
    let (pings, connections) = flows.split_at(pairs);
    let found = pings.iter().zip(connections).map(|(ping, tcp)| Found {
        answered: 1.0 - ping.loss,
        rtt_ms: ping.latency_us_p50.unwrap_or(0.0) / 1e3,
        bits_per_s: tcp.received_bits_per_s,
    });
    Ok(found.collect())
}

/// Runs a command in a namespace to its end; what it printed.
pub(super) fn command(place: &Namespaces, line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null()).env("LC_ALL", "C");
    place.apply(&mut command).map_err(|e| format!("{line}: {e}"))?;
    let output = command.output().map_err(|e| format!("{line}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{line}: {}{}", text(&output.stdout), text(&output.stderr))),
    }
}

/// A Linux host in place of one of the topology's: a namespace with a TAP device.
fn host(topology: &Topology, index: usize, outside: &mut Outside) -> Result<Namespaces, String> {
    let host = &topology.hosts[index];
    // It announces its address, as machines do: the fabric cannot find who never says anything.
    let notify = || std::fs::write("/proc/sys/net/ipv4/conf/all/arp_notify", "1");
    let place = Namespaces::create(notify)
        .map_err(|e| format!("making a network namespace for {} (root may): {e}", host.name))?;
    let opened = place.run(|| outside.open(index, &host.name, Backend::Tap, "eth0"));
    opened.map_err(|e| e.to_string())??;
    let at = host.addresses.first().ok_or_else(|| format!("{} has no address", host.name))?;
    for line in [
        "ip link set dev lo up".to_string(),
        "ip link set dev eth0 down".into(),
        format!("ip link set dev eth0 address {} mtu {MTU_USUAL}", host.mac),
        format!("ip address add {at} dev eth0"),
        "ip link set dev eth0 up".into(),
    ] {
        command(&place, &line)?;
    }
    Ok(place)
}

/// Pings by ping(8): the fraction that was answered, and the median of their times in ms.
fn ping(from: &Namespaces, to: Ipv4Addr, count: u32) -> Result<(f64, f64), String> {
    let said = command(from, &format!("ping -c {count} -i {PING_EVERY} -W 2 {to}"))?;
    let times = said.lines().filter_map(|l| l.split_once("time=")?.1.split(' ').next());
    let times: Vec<f64> = times.filter_map(|t| t.parse().ok()).collect();
    Ok((times.len() as f64 / f64::from(count), Spread::of(times).median))
}

/// A connection with cubic that sends for a time: payload bits/s that arrived.
fn connection([from, to]: [&Namespaces; 2], target: Ipv4Addr, time: Duration) -> io::Result<f64> {
    let target = SocketAddr::from((target, PORT));
    let listener = to.run(|| TcpListener::bind(target))??;
    let socket =
        from.run(|| rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None))??;
    sockopt::set_tcp_congestion(&socket, "cubic")?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    std::thread::scope(|s| {
        let sending = s.spawn(move || -> io::Result<()> {
            // socket(7): it says EINPROGRESS when the time is over.
            rustix::net::connect(&socket, &target)
                .map_err(|e| io::Error::new(io::ErrorKind::TimedOut, format!("connecting: {e}")))?;
            let mut stream = TcpStream::from(socket);
            let (started, block) = (Instant::now(), vec![0; 1 << 16]);
            while started.elapsed() < time {
                stream.write_all(&block)?;
            }
            Ok(())
        });
        // One that does not come is the sender's error.
        listener.set_nonblocking(true)?;
        let mut stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if !sending.is_finished() => std::thread::sleep(Duration::from_millis(1)),
                Err(e) => {
                    return match sending.join() {
                        Ok(Err(e)) => Err(e),
                        _ => Err(e),
                    };
                }
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (mut bytes, mut buffer) = (0u64, vec![0; 1 << 18]);
        let (mut first, mut last) = (None, Duration::ZERO);
        loop {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            bytes += n as u64;
            last = first.get_or_insert_with(Instant::now).elapsed();
        }
        sending.join().map_err(|_| io::Error::other("the sender panicked"))??;
        Ok(plexus_report::bits_per_s(bytes, last.as_secs_f64()))
    })
}

/// What the pairs' hosts do, all pairs at once: first they ping, then they send.
fn talk(case: &Case, hosts: &[[Namespaces; 2]], effort: &Effort) -> Result<Vec<Found>, String> {
    let targets: Result<Vec<Ipv4Addr>, String> =
        case.pairs.iter().map(|&(_, to)| address(&case.topology, to)).collect();
    let pairs: Vec<_> = hosts.iter().zip(targets?).collect();
    let join = |_: Box<dyn std::any::Any + Send>| "a host's thread panicked".to_string();
    std::thread::scope(|s| {
        let pings =
            pairs.iter().map(|&([from, _], to)| s.spawn(move || ping(from, to, effort.pings)));
        let pings: Vec<_> = pings.collect();
        let pings: Result<Vec<_>, String> =
            pings.into_iter().map(|p| p.join().map_err(join)?).collect();
        let rates = pairs.iter().map(|&([from, to], target)| {
            s.spawn(move || connection([from, to], target, effort.time))
        });
        let rates: Vec<_> = rates.collect();
        let rates =
            rates.into_iter().map(|r| r.join().map_err(join)?.map_err(|e| format!("TCP: {e}")));
        let rates: Result<Vec<f64>, String> = rates.collect();
        let found = pings?.into_iter().zip(rates?);
        let found =
            found.map(|((answered, rtt_ms), bits_per_s)| Found { answered, rtt_ms, bits_per_s });
        Ok(found.collect())
    })
}

/// The same between real hosts, through the simulated network in real time.
fn real(case: &Case, effort: &Effort) -> Result<(Vec<Found>, Kept), Failure> {
    let mut outside = Outside::new(MTU_USUAL).map_err(Failure::unusable)?;
    let mut make = |index| host(&case.topology, index, &mut outside).map_err(Failure::unusable);
    let hosts = case.pairs.iter().map(|&(from, to)| Ok([make(from)?, make(to)?]));
    let hosts: Vec<[Namespaces; 2]> = hosts.collect::<Result<_, Failure>>()?;
    let topology = &case.topology;
    let mut sim = Sim::new(topology, topology.seed).map_err(Failure::unusable)?;
    outside.attach_to(&mut sim).map_err(Failure::unusable)?;
    simulate::settle(&mut sim)?;
    sim.begin();
    let done = AtomicBool::new(false);
    let (found, kept) = std::thread::scope(|s| {
        let driving = s.spawn(|| outside.run(&mut sim, |_, _| !done.load(Ordering::Relaxed)));
        let found = talk(case, &hosts, effort);
        done.store(true, Ordering::Relaxed);
        (found, driving.join())
    });
    let kept = kept.map_err(|_| Failure::No("the simulation panicked".into()))?;
    let kept = kept.map_err(Failure::unusable)?;
    let found = found.map_err(|e| Failure::No(format!("{}: {e}; {kept}", case.name)))?;
    Ok((found, kept))
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let cases = cases().map_err(Failure::unusable)?;
    let head = "network,from,to,hosts,answered,rtt_ms,tcp_bits_per_s\n";
    let mut findings = Findings::new(cases[0].topology.seed, head);
    let mut groups = Vec::new();
    for case in &cases {
        setting.progress.say(case.name);
        let twins = simulated(case, &effort)?;
        let (reals, kept) = real(case, &effort)?;
        let name = |host: usize| &case.topology.hosts[host].name;
        for (hosts, found) in [("real", &reals), ("simulated", &twins)] {
            for (&(from, to), Found { answered, rtt_ms, bits_per_s }) in
                case.pairs.iter().zip(found)
            {
                let (from, to) = (name(from), name(to));
                let _ = writeln!(
                    findings.runs,
                    "{},{from},{to},{hosts},{answered},{rtt_ms:.4},{bits_per_s:.0}",
                    case.name
                );
            }
        }
        let carried =
            [&twins, &reals].map(|found| found.iter().map(|f| f.bits_per_s).sum::<f64>() / 1e6);
        groups.push((case.name.to_string(), carried.to_vec()));
        judge(case, &reals, &twins, &kept, &mut findings);
    }
    findings.charts.push(Chart::Bars(Bars {
        title: "TCP through a simulated network, all pairs of hosts together".into(),
        axis: "Mbit/s".into(),
        series: ["simulated hosts", "real hosts"].map(Series::ours).into(),
        groups,
    }));
    let least = findings.rows.iter().filter(|row| row.quantity.ends_with(OF_TWINS));
    let least = least.map(|row| row.ours).fold(f64::INFINITY, f64::min);
    findings.verdict = Some(Verdict::new(
        least >= CARRIED_LEAST,
        format!(
            "real Linux hosts ping and send by TCP through simulated networks in real time, at \
             least {least:.3} of what simulated hosts carry; {CARRIED_LEAST} is our own bound"
        ),
    ));
    findings.remarks.push(format!(
        "cables of 100Mbit and {} ms each; real hosts are Linux namespaces at TAP devices; the \
         simulator keeps real time for them, and goes as fast as it can for simulated ones",
        DELAY.as_millis()
    ));
    Ok(findings)
}

/// The row by which the verdict is made. Lost pings make the run doubtful.
const OF_TWINS: &str = "TCP of real hosts to that of simulated hosts";
/// Real hosts carry at least so much of it, unless the simulation stands in their way.
const CARRIED_LEAST: f64 = 0.8;

/// A network's rows.
fn judge(case: &Case, reals: &[Found], twins: &[Found], kept: &Kept, findings: &mut Findings) {
    let name = case.name;
    let median = |of: &[Found], what: fn(&Found) -> f64| Spread::of(of.iter().map(what)).median;
    let sum = |of: &[Found]| of.iter().map(|f| f.bits_per_s).sum::<f64>() / 1e6;
    let answered = reals.iter().map(|f| f.answered).sum::<f64>() / reals.len().max(1) as f64;
    let (rtt, twin_rtt) = (median(reals, |f| f.rtt_ms), median(twins, |f| f.rtt_ms));
    let pairs = case.pairs.len();
    findings.rows.extend([
        Row::new(format!("{name}: pings answered"), "%", answered * 100.0)
            .note(format!("{pairs} pairs of real hosts")),
        Row::new(format!("{name}: round trip, median"), "ms", rtt).note(format!(
            "simulated hosts {twin_rtt:.3} ms: the machine adds {:.3}",
            rtt - twin_rtt
        )),
        Row::new(format!("{name}: TCP, all pairs together"), "Mbit/s", sum(reals))
            .note(format!("simulated hosts {:.1} Mbit/s", sum(twins))),
        Row::new(format!("{name}: {OF_TWINS}"), "ratio", sum(reals) / sum(twins).max(1e-9)),
        Row::new(format!("{name}: frames left late, p99"), "us", kept.lag_us_p99).note(format!(
            "p50 {:.0} us, at most {:.0} us; {} frames in, {} out, {} found no room",
            kept.lag_us_p50, kept.lag_us_max, kept.frames_in, kept.frames_out, kept.lost
        )),
    ]);
    if kept.lag_us_p99 > LAG_MAX_US {
        let late = format!("a frame in 100 left {:.0} us late", kept.lag_us_p99);
        findings.doubts.push(format!("{name}: not in real time, {late}"));
    }
    if answered < 1.0 {
        let percent = answered * 100.0;
        findings.doubts.push(format!("{name}: only {percent:.1} % of the pings were answered"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_ping_takes_the_way_there_and_back() {
        for (case, cables) in cases().unwrap().iter().zip([3.0, 6.0]) {
            for found in simulated(case, &QUICK).unwrap() {
                // 1 ms for each cable, and at most 15 us for a frame of 98 bytes and a route.
                let range = 2.0 * cables..2.0 * cables * 1.015;
                assert!(range.contains(&found.rtt_ms), "{}: {found:?}", case.name);
                assert_eq!(found.answered, 1.0, "{}", case.name);
                assert!(found.bits_per_s > 1e6, "{}: {found:?}", case.name);
            }
        }
    }
}
