//! Settings of a named-data forwarder: listeners, faces, routes, strategies and caches.

mod dispatch;
mod face;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use plexus_wire::ndn::face_uri::WEBSOCKET_PORT;
use plexus_wire::ndn::{NameBuf, PACKET_LEN_MAX, PORT};

use crate::controller::parse_path;
use crate::document::{At, Lines, Section};
use crate::error::{ValueError, quote};
use crate::name::check_device;
use crate::node::parse_socket_path;
use crate::units::{format_size, parse_duration, parse_size};
use crate::words;
pub use dispatch::NamedDispatch;
pub use face::{NamedEthernet, NamedFace};

/// The least with which a packet of usual headers can be cut, and the longest datagram.
const MTU: std::ops::RangeInclusive<u64> = 64..=65_507;
const COST: std::ops::RangeInclusive<u64> = 0..=u32::MAX as u64;
const PREFIXES: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;
const WORKERS: std::ops::RangeInclusive<u64> = 1..=16;
const CPUS: std::ops::RangeInclusive<u64> = 0..=1023;
const FACES: std::ops::RangeInclusive<u64> = 1..=1_000_000;
const PREFETCH: std::ops::RangeInclusive<u64> = 0..=32;
const FREE_PERCENT: std::ops::RangeInclusive<u64> = 0..=90;
/// Smallest cache: the size of the longest packet, rounded up.
const CACHE_MIN: u64 = 1 << 20;

/// Settings of a named-data forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSettings {
    /// Threads that forward, each the names that hash to it. Memory and disks are split among them.
    pub workers: usize,
    /// How many components of a name select its worker, by prefix; 2 for other names.
    pub dispatch: Vec<NamedDispatch>,
    /// The processor of each worker; none: the operating system chooses.
    pub cpus: Vec<u16>,
    /// Paths of Unix stream sockets.
    pub unix: Vec<PathBuf>,
    /// TCP addresses listened on.
    pub tcp: Vec<SocketAddr>,
    /// UDP addresses listened on, from which faces to other boxes send too.
    pub udp: Vec<SocketAddr>,
    /// WebSocket addresses listened on.
    pub websocket: Vec<SocketAddr>,
    /// Local addresses on whose links there is a face for the group 224.0.23.170:56363.
    pub multicast: Vec<Ipv4Addr>,
    /// Devices on whose links there is a face for the group [ff02::1234]:56363.
    pub multicast6: Vec<String>,
    /// Longest link packet of UDP faces, in bytes; `None`: 8800, the buffers of other forwarders.
    pub mtu: Option<u16>,
    /// Idle timeout of on-demand UDP faces.
    pub idle: Duration,
    /// Faces at once, at most. Connections take a descriptor each.
    pub faces_max: usize,
    /// Prefixes at once, at most: about 120 bytes of memory each once there, FIB and RIB, of names
    /// of 50 bytes. If `cpus` are of several NUMA nodes, the FIB's part once for each of these.
    pub prefixes_max: usize,
    /// Every neighbour may register prefixes that lead to it (`/localhop/nfd/rib`).
    pub open: bool,
    /// Files of trusted certificates: neighbours that sign with their keys may register prefixes.
    pub anchors: Vec<PathBuf>,
    /// Files and folders of certificates that these keys have signed, or keys so certified.
    pub certificates: Vec<PathBuf>,
    /// Shared secrets of other trusted signers.
    pub secrets: Vec<NamedSecret>,
    /// Applications of this box, too, command only by such keys.
    pub signed: bool,
    /// Bytes of memory for cached Data; 0: nothing is cached.
    pub cache: u64,
    /// Files for cached Data beyond that.
    pub disks: Vec<NamedDisk>,
    /// Percent of each file system that stay free when these files are created or extended.
    pub disk_free_percent: u8,
    /// Chunks of an object that one request reads from disk together, a power of two; 0 or 1: each
    /// chunk is read alone.
    pub prefetch: u64,
    /// Names of the regions that contain this node: an Interest whose forwarding hint names one of
    /// them is forwarded by its own name.
    pub regions: Vec<NameBuf>,
    /// Ethernets on which there are faces.
    pub ethernets: Vec<NamedEthernet>,
    /// Faces that are made at the start.
    pub faces: Vec<NamedFace>,
    /// Routes of the box's own.
    pub routes: Vec<NamedRoute>,
    /// Strategies by prefix.
    pub strategies: Vec<NamedStrategy>,
}

/// A file of cached Data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDisk {
    /// Its path.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// A shared secret, for signatures by HMAC with SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    /// What signatures call it.
    pub name: NameBuf,
    /// The file that it is in.
    pub file: PathBuf,
}

/// A route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRoute {
    /// The prefix.
    pub prefix: NameBuf,
    /// The name of a face, or of an Ethernet.
    pub face: String,
    /// Routes of less cost are better.
    pub cost: u32,
}

/// A strategy for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStrategy {
    /// The prefix.
    pub prefix: NameBuf,
    /// Which.
    pub strategy: StrategyName,
}

/// How an Interest's next hop is chosen among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyName {
    /// The least cost; another when the consumer asks again.
    BestRoute,
    /// All.
    Multicast,
    /// The shortest round-trip time, with probes of others.
    Asf,
    /// All in turn, each as often as it is cheap.
    Weighted,
    /// Any.
    Random,
}

words!(StrategyName {
    BestRoute = "best-route",
    Multicast = "multicast",
    Asf = "asf",
    Weighted = "weighted",
    Random = "random",
});

impl Default for NamedSettings {
    /// NFD's: a Unix socket, TCP, UDP and WebSocket on all addresses, 600 s; and 64 MiB of cache.
    fn default() -> NamedSettings {
        let all = |port| {
            [IpAddr::from([0; 4]), IpAddr::from([0; 16])].map(|ip| SocketAddr::new(ip, port)).into()
        };
        NamedSettings {
            workers: 1,
            dispatch: Vec::new(),
            cpus: Vec::new(),
            unix: vec!["/run/nfd/nfd.sock".into()],
            tcp: all(PORT),
            udp: all(PORT),
            websocket: all(WEBSOCKET_PORT),
            multicast: Vec::new(),
            multicast6: Vec::new(),
            mtu: None,
            idle: Duration::from_secs(600),
            faces_max: 16_384,
            prefixes_max: 1_000_000,
            open: false,
            anchors: Vec::new(),
            certificates: Vec::new(),
            secrets: Vec::new(),
            signed: false,
            cache: 64 << 20,
            disks: Vec::new(),
            disk_free_percent: 10,
            prefetch: 0,
            regions: Vec::new(),
            ethernets: Vec::new(),
            faces: Vec::new(),
            routes: Vec::new(),
            strategies: Vec::new(),
        }
    }
}

impl NamedSettings {
    /// Reads `[named]` of a section; `None` if it has none. `taken` are the devices that ports of
    /// the node have for themselves.
    pub fn read(root: &Section<'_>, taken: &[&str]) -> Option<NamedSettings> {
        let section = root.section("named", "named data")?;
        let usual = NamedSettings::default();
        let workers = section.integer_or("workers", WORKERS, usual.workers);
        let mut read = NamedSettings {
            workers,
            cpus: read_cpus(&section, workers),
            unix: list(&section, "unix", parse_socket_path).unwrap_or(usual.unix),
            tcp: list(&section, "tcp", |t| parse_listen(t, PORT)).unwrap_or(usual.tcp),
            udp: list(&section, "udp", |t| parse_listen(t, PORT)).unwrap_or(usual.udp),
            websocket: list(&section, "websocket", |t| parse_listen(t, WEBSOCKET_PORT))
                .unwrap_or(usual.websocket),
            multicast: list(&section, "multicast", parse_own_address).unwrap_or_default(),
            multicast6: list(&section, "multicast6", |text| parse_device(text, taken))
                .unwrap_or_default(),
            mtu: section.integer("mtu", MTU).map(|m| m.value as u16),
            idle: section.quantity_or("idle", parse_idle, usual.idle),
            faces_max: section.integer_or("faces_max", FACES, usual.faces_max),
            prefixes_max: section.integer_or("prefixes_max", PREFIXES, usual.prefixes_max),
            open: section.is_set("open"),
            anchors: list(&section, "anchors", parse_path).unwrap_or_default(),
            certificates: list(&section, "certificates", parse_path).unwrap_or_default(),
            signed: section.is_set("signed"),
            cache: section.quantity_or("cache", |text| parse_cache(text, workers), usual.cache),
            disk_free_percent: section.integer_or(
                "disk_free_percent",
                FREE_PERCENT,
                usual.disk_free_percent,
            ),
            prefetch: read_prefetch(&section),
            regions: list(&section, "regions", parse_name).unwrap_or_default(),
            ..NamedSettings::default()
        };
        for secret in section.sections("secret", "a secret") {
            let one = read_secret(&secret, &read);
            read.secrets.extend(one);
        }
        read.check_trust(&section);
        for dispatch in section.sections("dispatch", "a line of the dispatch table") {
            let one = NamedDispatch::read(&dispatch, &read);
            read.dispatch.extend(one);
        }
        for disk in section.sections("disk", "a disk") {
            read.disks.extend(read_disk(&disk, &read));
        }
        for ethernet in section.sections("ethernet", "an Ethernet") {
            let one = NamedEthernet::read(&ethernet, &read, taken);
            read.ethernets.extend(one);
        }
        for face in section.sections("face", "a face") {
            let one = NamedFace::read(&face, &read);
            read.faces.extend(one);
        }
        for route in section.sections("route", "a route") {
            let one = read_route(&route, &read);
            read.routes.extend(one);
        }
        let mut prefixes = HashSet::new();
        for strategy in section.sections("strategy", "a strategy") {
            read.strategies.extend(read_strategy(&strategy, &mut prefixes));
        }
        Some(read)
    }

    /// Whether any signer is trusted.
    pub fn trusts_somebody(&self) -> bool {
        !(self.anchors.is_empty() && self.secrets.is_empty())
    }

    /// Without an anchor no certificate is valid, and without a secret either no signer is trusted.
    fn check_trust(&self, section: &Section<'_>) {
        let needs = [
            ("signed", self.signed && !self.trusts_somebody()),
            ("certificates", !self.certificates.is_empty() && self.anchors.is_empty()),
        ];
        for (key, _) in needs.into_iter().filter(|(_, lacks)| *lacks) {
            let message = format!("{key} without anchors: no signer is trusted then");
            let help =
                "name a certificate that is trusted: anchors = [\"/etc/plexus/root.ndncert\"]";
            section.problems().add(section.near(key), message, help);
        }
    }

    /// What routes may call the faces.
    fn face_names(&self) -> impl Iterator<Item = &str> {
        let groups = self.ethernets.iter().map(|e| e.name.as_str());
        groups.chain(self.faces.iter().map(|f| f.name.as_str()))
    }

    /// Writes the section, with `place` as the prefix of its headings: [`read`](Self::read) returns
    /// an equal value.
    pub fn write(&self, lines: &mut Lines, place: &str) {
        let usual = NamedSettings::default();
        lines.heading(&format!("[{place}named]"));
        lines.unusual("workers", &self.workers, &usual.workers);
        lines.list("cpus", &self.cpus);
        lines.unusual("unix", &self.unix[..], &usual.unix);
        lines.unusual("tcp", &self.tcp[..], &usual.tcp);
        lines.unusual("udp", &self.udp[..], &usual.udp);
        lines.unusual("websocket", &self.websocket[..], &usual.websocket);
        lines.list("multicast", &self.multicast);
        lines.list("multicast6", &self.multicast6);
        lines.given("mtu", self.mtu);
        lines.unusual("idle", &self.idle, &usual.idle);
        lines.unusual("faces_max", &self.faces_max, &usual.faces_max);
        lines.unusual("prefixes_max", &self.prefixes_max, &usual.prefixes_max);
        lines.unusual("open", &self.open, &false);
        lines.list("anchors", &self.anchors);
        lines.list("certificates", &self.certificates);
        lines.unusual("signed", &self.signed, &false);
        lines.unusual("cache", &format_size(self.cache), &format_size(usual.cache));
        lines.unusual("disk_free_percent", &self.disk_free_percent, &usual.disk_free_percent);
        lines.unusual("prefetch", &self.prefetch, &usual.prefetch);
        lines.list("regions", &self.regions);
        for secret in &self.secrets {
            lines.heading(&format!("[[{place}named.secret]]"));
            lines.value("name", &secret.name);
            lines.value("file", &secret.file);
        }
        self.dispatch.iter().for_each(|dispatch| dispatch.write(lines, place));
        for disk in &self.disks {
            lines.heading(&format!("[[{place}named.disk]]"));
            lines.value("file", &disk.file);
            lines.text("size", &format_size(disk.size));
        }
        self.ethernets.iter().for_each(|ethernet| ethernet.write(lines, place));
        self.faces.iter().for_each(|face| face.write(lines, place));
        for route in &self.routes {
            lines.heading(&format!("[[{place}named.route]]"));
            lines.value("prefix", &route.prefix);
            lines.text("face", &route.face);
            lines.unusual("cost", &route.cost, &0);
        }
        for strategy in &self.strategies {
            lines.heading(&format!("[[{place}named.strategy]]"));
            lines.value("prefix", &strategy.prefix);
            lines.value("strategy", &strategy.strategy);
        }
    }
}

/// A list of texts that `parse` makes sense of, none twice.
fn list<T: PartialEq + Clone>(
    section: &Section<'_>,
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Option<Vec<T>> {
    let mut seen = Vec::new();
    section.list(key, |text| {
        let one = parse(text)?;
        if seen.contains(&one) {
            let message = format!("{} is there twice", quote(text));
            return Err(ValueError::new(message, "name each once"));
        }
        seen.push(one.clone());
        Ok(one)
    })
}

fn parse_listen(text: &str, port: u16) -> Result<SocketAddr, ValueError> {
    let address = text.parse().or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, port)));
    address.map_err(|_| {
        let help = format!("write an address, with a port unless it is {port}: \"0.0.0.0:{port}\"");
        ValueError::new(format!("{} is not an address to listen on", quote(text)), help)
    })
}

fn parse_own_address(text: &str) -> Result<Ipv4Addr, ValueError> {
    let is_own = |ip: &Ipv4Addr| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_broadcast();
    text.parse().ok().filter(is_own).ok_or_else(|| {
        let help = "write an IPv4 address of this box: the group is joined on that device";
        ValueError::new(format!("{} is no address of a device", quote(text)), help)
    })
}

fn parse_device(text: &str, taken: &[&str]) -> Result<String, ValueError> {
    check_device(text)?;
    check_free(text, taken)?;
    Ok(text.into())
}

/// Refuses a device that a port has for itself.
fn check_free(device: &str, taken: &[&str]) -> Result<(), ValueError> {
    if !taken.contains(&device) {
        return Ok(());
    }
    let help = "a port takes all frames of its device: name another, or the kernel's end of a port \
                with backend = \"tap\"";
    Err(ValueError::new(format!("device {} is that of a port", quote(device)), help))
}

fn parse_idle(text: &str) -> Result<Duration, ValueError> {
    let idle = parse_duration(text)?;
    match idle >= Duration::from_secs(1) {
        true => Ok(idle),
        false => Err(ValueError::new(
            format!("{} is too short", quote(text)),
            "write at least \"1s\": clients are silent between two questions",
        )),
    }
}

/// A size that leaves each worker enough.
fn parse_cache(text: &str, workers: usize) -> Result<u64, ValueError> {
    let least = CACHE_MIN * workers as u64;
    match parse_size(text)? {
        size if size == 0 || size >= least => Ok(size),
        _ => {
            let each = if workers > 1 { ", 1 MiB for each worker" } else { "" };
            let help = format!("write at least {:?}{each}, or 0 for none", format_size(least));
            Err(ValueError::new(format!("{} is too small for a cache", quote(text)), help))
        }
    }
}

/// Batches of chunks must not begin at one worker and end at another: these have runs of 64.
fn read_prefetch(section: &Section<'_>) -> u64 {
    let Some(At { value, span }) = section.integer("prefetch", PREFETCH) else { return 0 };
    if value > 0 && !value.is_power_of_two() {
        let message = format!("prefetch = {value} is no power of two");
        let help = "write 2, 4, 8, 16 or 32: such batches lie with one worker; 0 reads no chunk \
                    ahead";
        section.problems().add(span, message, help);
        return 0;
    }
    value
}

/// A processor for each worker, or none at all.
fn read_cpus(section: &Section<'_>, workers: usize) -> Vec<u16> {
    let Some(items) = section.items("cpus") else { return Vec::new() };
    let mut cpus = Vec::new();
    let mut first = None;
    for item in &items {
        first.get_or_insert(item.span.clone());
        let cpu = section.integer_of(item, "cpus", CPUS).map(|cpu| cpu as u16);
        if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
            let help = "two workers on one processor wait for each other: name another";
            section.problems().add(item.span.clone(), "this processor is there twice", help);
        }
        cpus.extend(cpu);
    }
    if let Some(first) = first.filter(|_| items.len() != workers) {
        let message = format!("{} processors for {workers} workers", items.len());
        section.problems().add(first, message, "name one for each worker, or leave the line out");
    }
    cpus
}

fn read_disk(section: &Section<'_>, named: &NamedSettings) -> Option<NamedDisk> {
    let file = section.required_text("file", "\"/var/cache/plexus/names\"");
    let size = section.require("size", "\"100GB\"");
    let size = size.quantity("size", |text| match parse_cache(text, named.workers)? {
        0 => Err(ValueError::new("a disk of no size is none", "write a size, as in \"100GB\"")),
        size => Ok(size),
    });
    let file = file?;
    let path = PathBuf::from(file.value);
    if named.disks.iter().any(|d| d.file == path) {
        let message = format!("{} is there twice", quote(file.value));
        section.problems().add(file.span, message, "give each disk its own file");
        return None;
    }
    Some(NamedDisk { file: path, size: size?.value })
}

fn read_secret(section: &Section<'_>, named: &NamedSettings) -> Option<NamedSecret> {
    let name = section.require("name", "\"/example/operator\"").parsed("name", parse_name);
    let file = section.required_text("file", "\"/etc/plexus/operator.secret\"");
    let name = name?;
    if named.secrets.iter().any(|secret| secret.name == name.value) {
        let message = format!("{} is there twice", name.value);
        section.problems().add(name.span, message, "give each secret a name of its own");
        return None;
    }
    Some(NamedSecret { name: name.value, file: file?.value.into() })
}

fn read_prefix(section: &Section<'_>) -> Option<At<NameBuf>> {
    section.require("prefix", "\"/example\"").parsed("prefix", parse_name)
}

fn parse_name(text: &str) -> Result<NameBuf, ValueError> {
    let help = "write a name as in \"/example/web\"; \"/\" is the prefix of all names";
    text.parse::<NameBuf>().map_err(|e| ValueError::new(format!("{e}"), help))
}

fn read_route(section: &Section<'_>, named: &NamedSettings) -> Option<NamedRoute> {
    let prefix = read_prefix(section);
    let face = section.required_text("face", "\"upstream\"");
    let cost = section.integer_or("cost", COST, 0);
    let face = face?;
    if !named.face_names().any(|name| name == face.value) {
        section.problems().unknown(face.span, "face", face.value, named.face_names());
    }
    Some(NamedRoute { prefix: prefix?.value, face: face.value.into(), cost })
}

fn read_strategy(section: &Section<'_>, seen: &mut HashSet<String>) -> Option<NamedStrategy> {
    let prefix = read_prefix(section);
    let strategy = section.require("strategy", "\"best-route\"");
    let strategy = strategy.choice("strategy", &StrategyName::NAMES);
    let prefix = prefix?;
    if !seen.insert(prefix.value.to_string()) {
        let message = "the prefix has a strategy already";
        section.problems().add(prefix.span, message, "keep one of them");
    }
    Some(NamedStrategy { prefix: prefix.value, strategy: strategy?.value })
}

// The longest packet fits into the smallest cache.
const _: () = assert!(PACKET_LEN_MAX < CACHE_MIN as usize);
