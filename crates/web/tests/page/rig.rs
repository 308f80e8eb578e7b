//! A page of a network that there is not, and a client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{
    BoxCounters, BoxKind, Cable, Clock, HostWay, Map, NamedCounters, Network, NetworkBox,
    NetworkEvent, NetworkHost, Pair, PortCounters, Ways,
};
use plexus_api::answer::router::Routes;
use plexus_config::WebSettings;
use plexus_web::{Command, Page, Source};
use plexus_wire::{MacAddr, Prefix};

/// No test waits longer for an answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A host's name that would be a program if anybody took it for HTML.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='run'\">";

/// A network whose counters grow with each look.
pub(crate) struct Made {
    network: Network,
    /// How often it was looked at.
    pub(crate) looks: Arc<AtomicU64>,
    commands: bool,
}

fn mac(number: usize) -> MacAddr {
    MacAddr([2, 0, 0, (number >> 16) as u8, (number >> 8) as u8, number as u8])
}

impl Made {
    /// Leaves, each cabled to two of the spines, and hosts at the leaves.
    pub(crate) fn new(leaves: usize, spines: usize, hosts: usize) -> Made {
        let named = |name: String| NetworkBox { name, kind: BoxKind::Node, up: true };
        let mut boxes: Vec<_> = (0..leaves).map(|n| named(format!("leaf{n}"))).collect();
        boxes.extend((0..spines).map(|n| named(format!("spine{n}"))));
        let cable = |leaf: usize, port: usize| {
            let spine = (leaf + port * (leaf / spines + 1)) % spines;
            let far = (leaf as u32 % 120 * 2 + port as u32) as u8;
            let ends = [(leaf as u32, port as u8), ((leaves + spine) as u32, far)];
            Cable { ends, rate_mbit_per_s: 1000 }
        };
        let cables = (0..leaves).flat_map(|leaf| [cable(leaf, 0), cable(leaf, 1)]).collect();
        let host = |n: usize| NetworkHost {
            mac: mac(n),
            name: (n == 3).then(|| HOSTILE.to_string()),
            at: ((n % leaves) as u32, 2 + (n / leaves % 200) as u8),
            addresses: vec![IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + n as u32))],
            tenants: vec![(n / 7 % 4) as u16],
        };
        let tenants = ["blue", "green", "printers", "guests"];
        let map = Map {
            title: "made".into(),
            notice: None,
            boxes,
            cables,
            tenants: tenants.map(String::from).to_vec(),
        };
        let event = |number: u64, bad: bool, text: &str| NetworkEvent {
            number,
            time_ms: 1_795_000_000_000 + number * 1000,
            bad,
            text: text.into(),
        };
        let network = Network {
            map,
            hosts: (0..hosts).map(host).collect(),
            events: vec![
                event(1, false, "node leaf0 is up"),
                event(2, true, "2 links of node spine1 lost: 7 flows rerouted"),
            ],
            ..Network::default()
        };
        Made { network, looks: Arc::default(), commands: false }
    }

    /// The same as a simulation, which takes commands.
    pub(crate) fn simulated(mut self) -> Made {
        self.network.clock =
            Some(Clock { now_s: 0.0, speed: 1.0, paused: false, done: Some(0.25) });
        self.commands = true;
        self
    }

    fn count(&mut self, look: u64) {
        let bytes = |place: usize, port: u64| {
            // Some cables carry much, most little.
            let rates = [1_000_000, 200_000, 6_000_000, 1_500_000, 20_000_000, 90_000, 55_000_000];
            let rate = rates[(place + port as usize * 3) % rates.len()];
            if place % 13 == 5 && port == 0 { 2 * rate * look } else { rate * look }
        };
        let counters = |place: usize| BoxCounters {
            at: place as u32,
            time_ms: look * 1000,
            ports: (0..3)
                .map(|port| PortCounters {
                    port: port as u8,
                    rx_bytes: bytes(place + 1, port),
                    tx_bytes: bytes(place, port),
                    ..PortCounters::default()
                })
                .collect(),
            drops: BTreeMap::from([
                ("no_route".into(), look * (place as u64 % 3)),
                ("queue_full".into(), look * look % 50 + look),
            ]),
            named: (place == 0).then(|| NamedCounters {
                hits: 900 * look,
                misses: 100 * look,
                packets: 4096,
                pending: 12,
                prefixes: vec!["/videos".into(), format!("/{HOSTILE}")],
            }),
        };
        self.network.counters = (0..self.network.map.boxes.len()).map(counters).collect();
    }
}

impl Source for Made {
    fn network(&mut self) -> Result<Network, String> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        self.count(look);
        Ok(self.network.clone())
    }

    fn ways(&mut self, pair: Pair) -> Result<Ways, String> {
        let hosts = &self.network.hosts;
        let of = |mac: Option<MacAddr>, other: usize| {
            let found = hosts.iter().find(|h| Some(h.mac) == mac);
            found.or(hosts.get(other)).ok_or("there is no such host")
        };
        let (from, to) = (of(pair.from, 0)?, of(pair.to, 1)?);
        let leaves = self.network.map.boxes.iter().filter(|b| b.name.starts_with("leaf")).count();
        let spine = leaves as u32;
        let boxes = vec![(from.at.0, from.at.1, 0), (spine, 0, 1), (to.at.0, 0, to.at.1)];
        Ok(Ways { ways: vec![HostWay { from: Some(from.mac), to: to.mac, boxes }], more: 0 })
    }

    fn routes(&mut self, first: Prefix) -> Result<Routes, String> {
        Ok(Routes { routes: vec![format!("{first} via 10.0.0.1")], disagree: vec![], next: None })
    }

    fn route(&mut self, _: IpAddr) -> Result<GroupRoute, String> {
        Err("this group does not route".into())
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        let Some(clock) = self.network.clock.as_mut().filter(|_| self.commands) else {
            return Err("this page shows the network and changes nothing".into());
        };
        match command {
            Command::Pause(paused) => clock.paused = paused,
            Command::Speed(speed) => clock.speed = speed,
            Command::Break(named) => {
                let Map { boxes, cables, .. } = &mut self.network.map;
                let name = |(place, port): (u32, u8)| (boxes[place as usize].name.clone(), port);
                let at = cables.iter().position(|cable| cable.ends.map(name) == named);
                cables.remove(at.ok_or("there is no such cable")?);
            }
        }
        Ok(())
    }
}

/// A page at a port of the kernel's choice.
pub(crate) fn settings() -> WebSettings {
    WebSettings::new("127.0.0.1:0".parse().unwrap())
}

pub(crate) fn serve(settings: &WebSettings, source: Made) -> Page {
    plexus_web::serve(settings, source).unwrap()
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request as it is written, and reads the answer until the server ends it. Of a stream,
/// which has no end, it reads the beginning.
pub(crate) fn say(stream: &mut (impl Read + Write), request: &str) -> Answer {
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    let mut some = [0; 4096];
    // The server may end a connection whose request it refuses.
    while let Ok(len @ 1..) = stream.read(&mut some) {
        all.extend_from_slice(&some[..len]);
        if String::from_utf8_lossy(&all).contains("text/event-stream") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&all).to_string();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    let (head, body) = (head.to_string(), body.to_string());
    Answer { status: status.unwrap_or_else(|| panic!("no answer: {text:?}")), head, body }
}

pub(crate) fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Asks with these header lines; without a `Host` among them it is the server's address.
pub(crate) fn get(at: SocketAddr, path: &str, headers: &[&str]) -> Answer {
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let is_host = |line: &&str| line.to_ascii_lowercase().starts_with("host:");
    let host = match headers.iter().any(is_host) {
        true => String::new(),
        false => format!("Host: {at}\r\n"),
    };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{lines}Connection: close\r\n\r\n");
    say(&mut connect(at), &request)
}

/// A reader of the stream, which has asked.
pub(crate) struct Reader(BufReader<TcpStream>);

impl Reader {
    pub(crate) fn new(at: SocketAddr) -> Reader {
        let mut stream = connect(at);
        write!(stream, "GET /api/stream HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
        Reader(BufReader::new(stream))
    }

    /// The next event of this name; `None` once the server has ended the connection.
    pub(crate) fn event(&mut self, name: &str) -> Option<serde_json::Value> {
        let mut line = String::new();
        let mut is_it = false;
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(of) = line.strip_prefix("event: ") {
                is_it = of.trim() == name;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}
