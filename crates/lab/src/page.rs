//! The page of a lab: its controller's view of the network, with the file's names for hosts, and
//! the counters of all nodes. A lab without controller shows its cables.
//!
//! It runs in the launcher's process: control sockets are files, which every namespace sees.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::named::{Cache, Names};
use plexus_api::answer::network::{
    BoxCounters, BoxKind, Cable, Map, NamedCounters, Network, NetworkBox, NetworkHost, Pair,
    PortCounters, Ways,
};
use plexus_api::answer::node::{Drops, Ports};
use plexus_api::answer::router::Routes;
use plexus_api::{Client, Request, Topic};
use plexus_config::WebSettings;
use plexus_web::{Page, Source};
use plexus_wire::{MacAddr, Prefix};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::launch;
use crate::status::LabStatus;

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the supervisor is asked what runs.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// Prefixes of one forwarder that are shown.
const PREFIXES: usize = 20;

/// Serves the page of a lab that is up, until this process ends.
///
/// # Errors
/// When there is no such lab, or the page cannot be served.
pub fn serve_page(lab: &str, settings: &WebSettings) -> Result<Page, Error> {
    let status = launch::status(lab)?;
    let (name, began) = (lab.to_string(), Instant::now());
    let source = LabNetwork { name, status, began, read: began, clients: HashMap::new() };
    plexus_web::serve(settings, source).map_err(Error::Unsupported)
}

struct LabNetwork {
    name: String,
    status: LabStatus,
    began: Instant,
    /// When the status was read.
    read: Instant,
    clients: HashMap<PathBuf, Client>,
}

impl LabNetwork {
    /// Asks a daemon, over the connection of the last question if it still holds.
    fn ask<T: DeserializeOwned>(&mut self, socket: &Path, request: &Request) -> Result<T, String> {
        let told = |e: &dyn std::fmt::Display| format!("{}: {e}", socket.display());
        let mut client = match self.clients.remove(socket) {
            Some(client) => client,
            None => Client::connect(socket, PATIENCE).map_err(|e| told(&e))?,
        };
        let answer = client.get(request);
        // After a refusal the connection is as good as before.
        if matches!(&answer, Ok(_) | Err(plexus_api::ClientError::Refused(_))) {
            self.clients.insert(socket.to_path_buf(), client);
        }
        answer.map_err(|e| e.to_string())
    }

    /// Asks the controllers until one answers: the one that leads.
    fn ask_controller<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, String> {
        let sockets = self.status.controllers.iter().map(|c| c.control.clone());
        let mut why = "this lab has no controller".to_string();
        for socket in sockets.collect::<Vec<_>>() {
            match self.ask(&socket, request) {
                Ok(answer) => return Ok(answer),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// A node's counters.
    fn counters(&mut self, at: u32, socket: &Path) -> Option<BoxCounters> {
        let ports: Ports = self.ask(socket, &Request::Show(Topic::Ports)).ok()?;
        let drops: Drops = self.ask(socket, &Request::Show(Topic::Drops)).ok()?;
        let ports = ports.ports.iter().zip(0..=u8::MAX).map(|(port, number)| PortCounters {
            port: number,
            rx_packets: port.rx_packets,
            rx_bytes: port.rx_bytes,
            tx_packets: port.tx_packets,
            tx_bytes: port.tx_bytes,
        });
        let ports = ports.collect();
        let named = self.named(socket);
        // Read here and now, by the clock of this process.
        let time_ms = self.began.elapsed().as_millis() as u64;
        Some(BoxCounters { at, time_ms, ports, drops: drops.drops, named })
    }

    fn named(&mut self, socket: &Path) -> Option<NamedCounters> {
        let cache: Cache = self.ask(socket, &Request::Show(Topic::Cache)).ok()?;
        let names: Names = self.ask(socket, &Request::Show(Topic::Names)).ok()?;
        let mut prefixes: Vec<String> = names.routes.into_iter().map(|r| r.prefix).collect();
        prefixes.dedup();
        prefixes.truncate(PREFIXES);
        Some(NamedCounters {
            hits: cache.memory.hits + cache.disk_hits,
            misses: cache.misses,
            packets: cache.memory.packets,
            pending: names.pending as u64,
            prefixes,
        })
    }
}

impl Source for LabNetwork {
    fn network(&mut self) -> Result<Network, String> {
        if self.read.elapsed() >= STATUS_EVERY {
            self.read = Instant::now();
            self.status = launch::status(&self.name).map_err(|e| e.to_string())?;
        }
        let mut network = match self.status.controllers.is_empty() {
            true => cabled(&self.status),
            false => self.ask_controller(&Request::Network(true))?,
        };
        network.map.title = self.name.clone();
        dress(&mut network, &self.status);
        let nodes = self.status.nodes.iter();
        let sockets: BTreeMap<String, PathBuf> =
            nodes.filter_map(|n| Some((n.name.clone(), n.control.clone()?))).collect();
        let boxes = (0..).zip(&network.map.boxes);
        let counted = boxes.filter_map(|(at, b)| Some((at, sockets.get(&b.name)?)));
        network.counters = counted.filter_map(|(at, socket)| self.counters(at, socket)).collect();
        Ok(network)
    }

    fn ways(&mut self, pair: Pair) -> Result<Ways, String> {
        self.ask_controller(&Request::Ways(pair))
    }

    fn routes(&mut self, first: Prefix) -> Result<Routes, String> {
        self.ask_controller(&Request::RoutesFrom(first))
    }

    fn route(&mut self, address: IpAddr) -> Result<GroupRoute, String> {
        self.ask_controller(&Request::Route(address))
    }
}

/// The network of a lab without controller.
fn cabled(status: &LabStatus) -> Network {
    let mut places: HashMap<&str, (u32, Vec<&str>)> = HashMap::new();
    let mut network = Network::default();
    let nodes = status.nodes.iter().map(|n| {
        let ports = n.ports.iter().map(String::as_str).collect();
        (&n.name, BoxKind::Node, n.state == "running", ports)
    });
    let bridges = status.bridges.iter().map(|b| {
        let ports = b.ports.iter().map(|p| p.name.as_str()).collect();
        (&b.name, BoxKind::Bridge, true, ports)
    });
    for (name, kind, up, ports) in nodes.chain(bridges) {
        places.insert(name, (network.map.boxes.len() as u32, ports));
        network.map.boxes.push(NetworkBox { name: name.clone(), kind, up });
    }
    let end = |text: &str| {
        let (name, port) = text.rsplit_once('.')?;
        let (place, ports) = places.get(name)?;
        Some((*place, ports.iter().position(|p| *p == port)? as u8))
    };
    for link in &status.links {
        let rate_mbit_per_s = link.rate_bits_per_s.map_or(0, |r| (r / 1_000_000) as u32);
        let host = |text: &str| {
            let (name, _) = text.rsplit_once('.')?;
            status.hosts.iter().find(|host| host.name == name)
        };
        let (host, at) = match (end(&link.a), end(&link.b)) {
            (Some(a), Some(b)) => {
                network.map.cables.push(Cable { ends: [a, b], rate_mbit_per_s });
                continue;
            }
            (Some(at), None) => (host(&link.b), at),
            (None, Some(at)) => (host(&link.a), at),
            (None, None) => continue,
        };
        let Some(host) = host else { continue };
        let Ok(mac) = host.mac.parse::<MacAddr>() else { continue };
        let addresses = host.addresses.iter().filter_map(|a| a.split('/').next()?.parse().ok());
        network.hosts.push(NetworkHost {
            mac,
            name: None,
            at,
            addresses: addresses.collect(),
            tenants: vec![],
        });
    }
    network
}

/// Adds what the file knows: names of hosts, and rates of cables that no node has told.
fn dress(network: &mut Network, status: &LabStatus) {
    let names: HashMap<&str, &String> =
        status.hosts.iter().map(|host| (host.mac.as_str(), &host.name)).collect();
    for host in &mut network.hosts {
        host.name = names.get(host.mac.to_string().as_str()).map(|name| name.to_string());
    }
    let ports: HashMap<&str, &Vec<String>> =
        status.nodes.iter().map(|node| (node.name.as_str(), &node.ports)).collect();
    let rates: HashMap<&str, u64> = status
        .links
        .iter()
        .flat_map(|l| [(l.a.as_str(), l.rate_bits_per_s), (l.b.as_str(), l.rate_bits_per_s)])
        .filter_map(|(end, rate)| Some((end, rate?)))
        .collect();
    let Map { boxes, cables, .. } = &mut network.map;
    for cable in cables.iter_mut().filter(|cable| cable.rate_mbit_per_s == 0) {
        let (place, port) = cable.ends[0];
        let named = boxes.get(place as usize).and_then(|b| {
            let port = ports.get(b.name.as_str())?.get(usize::from(port))?;
            rates.get(format!("{}.{port}", b.name).as_str())
        });
        cable.rate_mbit_per_s = named.map_or(0, |rate| (rate / 1_000_000) as u32);
    }
}
