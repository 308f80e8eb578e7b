//! `ndn-web`: web objects that are fetched by name through a router with two caches (seed augustus,
//! "HTTP requests to Wikipedia website"): `plexus ndn web-publish` has a folder of them, `plexus
//! ndn web-proxy` answers HTTP, and every byte of every answer is compared.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plexus_api::answer::named::{Faces, Names};
use plexus_api::{Request, Topic};
use plexus_benches::ndr::trial::Running;
use plexus_io::namespace::Namespaces;
use plexus_ndn::store::ContentStats;
use plexus_report::Failure;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};
use rand_pcg::Pcg64;

use super::Setting;
use super::ndn_rig::{DiskFile, Node, device, device_text, place, start};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};
use super::rig::Scratch;

const SEED: u64 = 1;
const EXPONENT: f64 = 0.8;
/// Sizes of objects are log-normal, with this median and this deviation of the logarithm.
const MEDIAN: f64 = 10_000.0;
const SIGMA: f64 = 1.3;
/// Bytes of the smallest object and of the largest.
const SIZES: (f64, f64) = (100.0, 2_000_000.0);
/// Connections that ask, each for one object at a time.
const CONNECTIONS: usize = 8;
/// Of all bytes, the part that memory has room for, and the disk.
const MEMORY_PART: u64 = 20;
const DISK_PART: u64 = 2;
/// The least that a node takes for them.
const MEMORY_MIN: u64 = 1 << 20;
const DISK_MIN: u64 = 8 << 20;
/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where the proxy listens, in its own namespace.
const LISTEN: &str = "127.0.0.1:8080";

/// How many objects, and the numbers of requests at which is counted.
struct Effort {
    objects: usize,
    stages: &'static [usize],
}

const FULL: Effort =
    Effort { objects: 5_000, stages: &[250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000] };
const QUICK: Effort = Effort { objects: 200, stages: &[50, 100, 200, 400] };

/// What was counted up to an instant.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Bytes that the node had from the publisher, and gave the proxy, packets whole.
    from_producer: u64,
    to_proxy: u64,
    cache: ContentStats,
}

impl Tally {
    fn read(node: &Node) -> Result<Tally, String> {
        let names: Names = node.ask(&Request::Show(Topic::Names))?;
        let faces: Faces = node.ask(&Request::Show(Topic::Faces))?;
        let producer = names.routes.iter().find(|r| r.prefix.starts_with("/web"));
        let producer =
            producer.ok_or_else(|| format!("no route leads to the objects: {:?}", names.routes))?;
        let mut tally = Tally { cache: node.counted()?, ..Tally::default() };
        for face in &faces.faces {
            match face.face == producer.face {
                true => tally.from_producer += face.received_bytes,
                false => tally.to_proxy += face.sent_bytes,
            }
        }
        Ok(tally)
    }

    fn since(&self, before: &Tally) -> Tally {
        Tally {
            from_producer: self.from_producer - before.from_producer,
            to_proxy: self.to_proxy - before.to_proxy,
            cache: self.cache.since(&before.cache),
        }
    }

    fn cached(&self) -> u64 {
        self.to_proxy.saturating_sub(self.from_producer)
    }
}

/// Objects by their popularity, the most popular first.
fn objects(count: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut random = Pcg64::seed_from_u64(SEED);
    let sizes = LogNormal::new(MEDIAN.ln(), SIGMA).map_err(|e| e.to_string())?;
    let objects = (0..count).map(|_| {
        let size = sizes.sample(&mut random).clamp(SIZES.0, SIZES.1) as usize;
        let mut bytes = vec![0; size];
        random.fill(&mut bytes[..]);
        bytes
    });
    Ok(objects.collect())
}

/// What the connections found.
struct Fetched {
    seconds: f64,
    /// Bytes of bodies.
    bytes: u64,
    latency_us: Histogram<u64>,
}

/// Asks for the objects of these numbers, in turn, by all connections; each answer is compared.
fn fetch(
    streams: &mut [BufReader<TcpStream>],
    wanted: &[usize],
    objects: &[Vec<u8>],
) -> Result<Fetched, String> {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let results: Result<Vec<(u64, Histogram<u64>)>, String> = std::thread::scope(|s| {
        let threads: Vec<_> = streams
            .iter_mut()
            .map(|stream| {
                let next = &next;
                s.spawn(move || -> Result<(u64, Histogram<u64>), String> {
                    let mut latency = Histogram::new(3).map_err(|e| e.to_string())?;
                    let (mut bytes, mut body) = (0, Vec::new());
                    while let Some(&object) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let begin = Instant::now();
                        get(stream, object, &mut body).map_err(|e| format!("/o/{object}: {e}"))?;
                        let taken = begin.elapsed().as_micros() as u64;
                        latency.record(taken).map_err(|e| e.to_string())?;
                        if body != objects[object] {
                            return Err(format!(
                                "/o/{object}: {} bytes came that are not the {} published",
                                body.len(),
                                objects[object].len()
                            ));
                        }
                        bytes += body.len() as u64;
                    }
                    Ok((bytes, latency))
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "a client panicked")?).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut fetched =
        Fetched { seconds, bytes: 0, latency_us: Histogram::new(3).map_err(|e| e.to_string())? };
    for (bytes, latency) in results? {
        fetched.bytes += bytes;
        fetched.latency_us.add(latency).map_err(|e| e.to_string())?;
    }
    Ok(fetched)
}

/// An object by HTTP/1.1, over a connection that stays.
fn get(stream: &mut BufReader<TcpStream>, object: usize, body: &mut Vec<u8>) -> Result<(), String> {
    let problem = |e: std::io::Error| e.to_string();
    let request = format!("GET /o/{object} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).map_err(problem)?;
    let (mut line, mut status, mut len) = (String::new(), None, None);
    loop {
        line.clear();
        if stream.read_line(&mut line).map_err(problem)? == 0 {
            return Err("the proxy hung up".into());
        }
        let text = line.trim_end();
        match (status.is_some(), text.split_once(':')) {
            (false, _) => status = Some(text.to_string()),
            (true, _) if text.is_empty() => break,
            (true, Some((name, value))) if name.eq_ignore_ascii_case("content-length") => {
                len = value.trim().parse::<usize>().ok();
            }
            (true, _) => {}
        }
    }
    let status = status.unwrap_or_default();
    let len = len.ok_or_else(|| format!("an answer without a length: {status}"))?;
    body.resize(len, 0);
    stream.read_exact(body).map_err(problem)?;
    match status.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(format!("{status}: {}", String::from_utf8_lossy(body))),
    }
}

/// The router and its ends.
struct Web {
    node: Node,
    _publisher: Running,
    _proxy: Running,
    streams: Vec<BufReader<TcpStream>>,
}

impl Web {
    fn start(scratch: &Scratch, site: &Path, memory: u64, disk: DiskFile) -> Result<Web, String> {
        let node = Node::start(scratch, memory, &[disk])?;
        let site = site.display().to_string();
        // Caches may take a version for the newest as long as the experiment lasts.
        let mut arguments = vec!["ndn", "web-publish", "/web", &site, "--freshness", "1h"];
        arguments.extend(["--transport", &node.uri]);
        let publisher = start(&place()?, "the publisher", &arguments)?;
        publisher.ready("publishing")?;
        let around: Namespaces = place()?;
        let mut arguments = vec!["ndn", "web-proxy", "--prefix", "/web", "--listen", LISTEN];
        arguments.extend(["--transport", &node.uri]);
        let proxy = start(&around, "the proxy", &arguments)?;
        proxy.ready("answering at")?;
        let connect = || -> std::io::Result<Vec<BufReader<TcpStream>>> {
            let to: SocketAddr = LISTEN.parse().map_err(std::io::Error::other)?;
            let one = |_| {
                let stream = TcpStream::connect(to)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(BufReader::with_capacity(1 << 16, stream))
            };
            (0..CONNECTIONS).map(one).collect()
        };
        let streams = around.run(connect).and_then(|s| s);
        let streams = streams.map_err(|e| format!("reaching the proxy: {e}"))?;
        Ok(Web { node, _publisher: publisher, _proxy: proxy, streams })
    }
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    measure(&effort, setting).map_err(Failure::unusable)
}

fn measure(effort: &Effort, setting: &mut Setting<'_>) -> Result<Findings, String> {
    let scratch = Scratch::new("ndn-web")?;
    let objects = objects(effort.objects)?;
    let site = scratch.join("site");
    std::fs::create_dir_all(site.join("o")).map_err(|e| format!("{}: {e}", site.display()))?;
    for (number, bytes) in objects.iter().enumerate() {
        scratch.write(&format!("site/o/{number}"), bytes)?;
    }
    let total: u64 = objects.iter().map(|o| o.len() as u64).sum();
    let memory = (total / MEMORY_PART).max(MEMORY_MIN);
    let size = (total / DISK_PART).max(DISK_MIN);
    let disk = DiskFile { path: scratch.join("disk"), size };
    let path = disk.path.clone();
    let mut web = Web::start(&scratch, &site, memory, disk)?;
    let zipf = Zipf::new(objects.len() as f64, EXPONENT).map_err(|e| e.to_string())?;
    let mut random = Pcg64::seed_from_u64(SEED + 1);
    let last = effort.stages.last().copied().unwrap_or(0);
    let wanted: Vec<usize> = (0..last)
        .map(|_| (zipf.sample(&mut random) as usize).clamp(1, objects.len()) - 1)
        .collect();

    let mut findings = Findings::new(
        SEED,
        "requests,seconds,objects_per_s,body_bytes,bytes_from_producer,bytes_from_cache,\
         memory_hits,disk_hits,misses,latency_us_p50,latency_us_p99,device_reads,\
         device_read_bytes,device_writes,device_written_bytes\n",
    );
    let (begin, first) = (Tally::read(&web.node)?, device(&path));
    let mut lines: [Vec<(f64, f64)>; 3] = Default::default();
    let mut from = 0;
    for &upto in effort.stages {
        setting.progress.say(&format!("{upto} requests"));
        let (before, earlier) = (Tally::read(&web.node)?, device(&path));
        let fetched = fetch(&mut web.streams, &wanted[from..upto], &objects)?;
        let (after, later) = (Tally::read(&web.node)?, device(&path));
        let (stage, so_far) = (after.since(&before), after.since(&begin));
        let per_s = (upto - from) as f64 / fetched.seconds;
        let quantile = |q| fetched.latency_us.value_at_quantile(q);
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        let done = earlier.zip(later).map(|(b, a)| a.since(&b)).unwrap_or_default();
        let _ = writeln!(
            findings.runs,
            "{upto},{:.3},{per_s:.1},{},{},{},{},{},{},{p50},{p99},{},{},{},{}",
            fetched.seconds,
            fetched.bytes,
            stage.from_producer,
            stage.cached(),
            stage.cache.memory_hits,
            stage.cache.disk_hits,
            stage.cache.misses,
            done.reads,
            done.read_bytes,
            done.writes,
            done.written_bytes
        );
        let cached = stage.cached() as f64 / stage.to_proxy.max(1) as f64 * 100.0;
        let sum = stage.cache.total().max(1) as f64;
        let part = |n: u64| n as f64 / sum * 100.0;
        findings.rows.extend([
            Row::new(format!("requests {} to {upto}: objects", from + 1), "1/s", per_s)
                .note(format!("p50 {p50} us, p99 {p99} us; {}", device_text(earlier, later))),
            Row::new(
                format!("requests {} to {upto}: bytes from the caches", from + 1),
                "%",
                cached,
            )
            .note(format!(
                "of {} MiB; Interests: DRAM {:.1} %, SSD {:.1} %, miss {:.1} %",
                stage.to_proxy >> 20,
                part(stage.cache.memory_hits),
                part(stage.cache.disk_hits),
                part(stage.cache.misses)
            )),
        ]);
        // What the proxy got is at least what it gave: bodies are in packets.
        if stage.to_proxy < fetched.bytes {
            findings.doubts.push(format!(
                "{upto} requests: {} bytes of bodies, but the node sent {} only",
                fetched.bytes, stage.to_proxy
            ));
        }
        let values = [per_s, so_far.cached() as f64 / 1e6, so_far.from_producer as f64 / 1e6];
        lines.iter_mut().zip(values).for_each(|(line, y)| line.push((upto as f64, y)));
        from = upto;
    }
    let whole = Tally::read(&web.node)?.since(&begin);
    findings.rows.push(
        Row::new("all requests: bytes that are right", "%", 100.0)
            .note(format!("{last} answers compared; {}", device_text(first, device(&path)))),
    );
    findings.rows.push(Row::new(
        "all requests: bytes from the caches",
        "%",
        whole.cached() as f64 / whole.to_proxy.max(1) as f64 * 100.0,
    ));
    web.node.stop()?;
    charts(lines, &mut findings);
    findings.remarks.push(format!(
        "{} objects of {} MiB together, log-normal of median {MEDIAN} bytes and sigma {SIGMA}, \
         {} to {} bytes; memory {} KiB, disk {} KiB",
        objects.len(),
        total >> 20,
        SIZES.0,
        SIZES.1,
        memory >> 10,
        size >> 10
    ));
    findings.remarks.push(format!(
        "{CONNECTIONS} connections, each with one request at a time; clients, proxy, router and \
         publisher share this machine's processors"
    ));
    Ok(findings)
}

fn charts(lines: [Vec<(f64, f64)>; 3], findings: &mut Findings) {
    let [rate, cached, produced] = lines;
    findings.charts = vec![
        Chart::lines(
            "Bytes to the proxy, by where they came from",
            Axis::linear("requests"),
            Axis::linear("MB so far"),
            vec![
                Line::ours("from the router's caches", cached),
                Line::ours("from the producer", produced),
            ],
        ),
        Chart::lines(
            "Objects over HTTP, by requests so far",
            Axis::log("requests"),
            Axis::linear("objects/s"),
            vec![Line::ours("", rate)],
        ),
    ];
}
