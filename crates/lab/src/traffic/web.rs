//! A web site published over named data, and a reader behind a proxy: HTTP at both ends, named data
//! in between. The programs are `plexus ndn web-publish` and `web-proxy`, run as any user would;
//! this module makes the reader's requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_io::namespace::Namespaces;
use plexus_report::{Outcome, bits_per_s};
use plexus_topo::{Extent, Host, Site, Target, Topology};
use plexus_traffic::{Choice, Chooser};
use plexus_wire::ndn::PORT;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use tempfile::TempDir;

use super::{Route, TICK};

/// Where the first flow's proxy listens, in the reader's host.
const PROXY: u16 = 8080;
/// How long a site may take until it can be read, and an object until it is there.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two attempts to read a site that is not there yet.
const RETRY: Duration = Duration::from_millis(100);
/// Bytes of a response's head.
const HEAD_MAX: usize = 16 << 10;

/// Runs the requests to their end.
pub(super) fn run(route: &Route<'_>, topology: &Topology) -> Outcome {
    read_site(route, topology).unwrap_or_else(Outcome::failed)
}

fn read_site(route: &Route<'_>, topology: &Topology) -> Result<Outcome, String> {
    let flow = route.flow;
    let site = flow.site.ok_or("it says nothing of a site")?;
    let Extent::Packets(count) = flow.extent else { return Err("it has no count".into()) };
    let (Target::Host(to), Some(place)) = (flow.to, route.to) else {
        return Err("no host of the lab has the address".into());
    };
    let folder = write(route, &site)?;
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PROXY + route.index as u16);
    let prefix = format!("/web/{}", flow.name);
    let publisher = [
        "web-publish",
        &prefix,
        &folder.path().display().to_string(),
        "--transport",
        &forwarder(&topology.hosts[to])?,
    ];
    let proxy = [
        "web-proxy",
        "--prefix",
        &prefix,
        "--listen",
        &at.to_string(),
        "--transport",
        &forwarder(&topology.hosts[flow.from])?,
    ];
    let _publisher = Program::start(place, &publisher)?;
    let _proxy = Program::start(route.from, &proxy)?;
    let reading = route.from.run(|| Reader::new(route, site, at).read(count));
    reading.map_err(|e| e.to_string())?
}

/// The forwarder of a host: its gateway.
fn forwarder(host: &Host) -> Result<String, String> {
    let gateway = host.gateways.iter().find(|gateway| gateway.is_ipv4());
    let gateway = gateway.ok_or_else(|| {
        format!("{} has no gateway, which would be its forwarder of named data", host.name)
    })?;
    Ok(format!("tcp4://{gateway}:{PORT}"))
}

/// The bytes of an object: the same for the same seed.
fn object(route: &Route<'_>, site: &Site, number: u32) -> Vec<u8> {
    let seed = u128::from(route.seed) << 64 | (route.index as u128) << 32 | u128::from(number);
    let mut bytes = vec![0; site.object_bytes as usize];
    // The generator's state is odd; another seed must give another state.
    Pcg64Mcg::new(seed << 1 | 1).fill_bytes(&mut bytes);
    bytes
}

/// Writes the site's objects to a folder, which goes with the value.
fn write(route: &Route<'_>, site: &Site) -> Result<TempDir, String> {
    let folder = tempfile::Builder::new().prefix("plexus-site-").tempdir();
    let folder = folder.map_err(|e| e.to_string())?;
    for number in 0..site.objects {
        let path = folder.path().join(number.to_string());
        let written = std::fs::write(&path, object(route, site, number));
        written.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(folder)
}

/// A `plexus ndn` process that ends with this value.
struct Program(Child);

impl Program {
    fn start(place: &Namespaces, arguments: &[&str]) -> Result<Program, String> {
        let failed = |e: io::Error| format!("plexus ndn {}: {e}", arguments[0]);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("ndn").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        place.apply(&mut command).map_err(failed)?;
        command.spawn().map(Program).map_err(failed)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The reader, which makes one request after the other.
struct Reader<'a> {
    route: &'a Route<'a>,
    site: Site,
    proxy: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Reader<'_> {
    fn new<'a>(route: &'a Route<'a>, site: Site, proxy: SocketAddr) -> Reader<'a> {
        Reader { route, site, proxy, connection: None }
    }

    fn read(mut self, count: u32) -> Result<Outcome, String> {
        let (route, site) = (self.route, self.site);
        let mut chooser = Chooser::new(site.objects, Choice::Zipf(site.zipf), route.seed);
        let mut latencies = Vec::new();
        let (mut asked, mut arrived) = (0u64, 0u64);
        let mut problem = None;
        let mut started = None;
        for _ in 0..count {
            if route.live.is_cancelled() {
                break;
            }
            let number = chooser.next_flow() as u32;
            let expected = object(route, &site, number);
            // The first waits for the site to be there.
            if started.is_none() {
                self.wait_for(number)?;
            }
            started.get_or_insert_with(Instant::now);
            let before = Instant::now();
            let body = self.ask("GET", number);
            asked += site.object_bytes;
            route.live.add_sent(expected.len());
            match body {
                Ok((200, body)) if body == expected => {
                    latencies.push(before.elapsed());
                    arrived += site.object_bytes;
                    route.live.add_received(expected.len());
                }
                Ok((200, _)) => problem = Some(format!("object {number} came with other bytes")),
                Ok((status, _)) => problem = Some(format!("object {number}: HTTP {status}")),
                Err(e) => {
                    self.connection = None;
                    problem = Some(format!("object {number}: {e}"));
                }
            }
        }
        let seconds = started.map_or(0.0, |at| at.elapsed().as_secs_f64());
        let first = latencies.first().copied();
        latencies.sort_unstable();
        let micros = |latency: &Duration| latency.as_secs_f64() * 1e6;
        let part = |share: usize| latencies.get(latencies.len() * share / 100).map(micros);
        let lost = asked.saturating_sub(arrived);
        Ok(Outcome {
            sent_bytes: asked,
            received_bytes: arrived,
            sent_bits_per_s: bits_per_s(asked, seconds),
            received_bits_per_s: bits_per_s(arrived, seconds),
            loss: if asked > 0 { lost as f64 / asked as f64 } else { 1.0 },
            latency_us_first: first.as_ref().map(micros),
            latency_us_p50: part(50),
            latency_us_p99: part(99),
            transactions_per_s: Some(latencies.len() as f64 / seconds.max(1e-9)),
            set_out: asked > 0,
            problem,
            ..Outcome::default()
        })
    }

    /// Requests an object's head until the site answers.
    fn wait_for(&mut self, number: u32) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = match self.ask("HEAD", number) {
                Ok((200, _)) => return Ok(()),
                Ok((status, _)) => format!("HTTP {status}"),
                Err(e) => e.to_string(),
            };
            self.connection = None;
            if Instant::now() > end || self.route.live.is_cancelled() {
                return Err(format!("the site cannot be read: {said}"));
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Makes a request; returns status and body.
    fn ask(&mut self, method: &str, number: u32) -> io::Result<(u16, Vec<u8>)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect_timeout(&self.proxy, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE.max(TICK)))?;
                BufReader::new(stream)
            }
        };
        write!(connection.get_mut(), "{method} /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let (status, len) = read_head(&mut connection)?;
        let len = if method == "HEAD" { 0 } else { len };
        let mut body = vec![0; len];
        connection.read_exact(&mut body)?;
        self.connection = Some(connection);
        Ok((status, body))
    }
}

/// The status and the length of the body of a response (RFC 9112).
fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, usize)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let mut head = stream.take(HEAD_MAX as u64);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad("no answer in HTTP"))?;
    let mut len = None;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(bad("the head of the answer has no end"));
        }
        match line.trim_end().split_once(':') {
            None if line.trim_end().is_empty() => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                len = value.trim().parse().ok();
            }
            _ => {}
        }
    }
    Ok((status, len.ok_or_else(|| bad("the answer has no length"))?))
}
