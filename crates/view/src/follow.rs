//! Real packets across several boxes: every port of the daemons is traced, and what is the same
//! packet becomes a [`Journey`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use plexus_api::answer::Frame;
use plexus_api::answer::node::Ports;
use plexus_api::{Client, Request, Topic, Trace};
use plexus_report::Failure;
use plexus_wire::unhex;

use crate::journey::{Journey, Open, Sighting, Watched};
use crate::packet::{Key, seen};

/// A packet that was not seen anywhere for so long has arrived, or is lost.
const ARRIVED_AFTER: Duration = Duration::from_millis(300);
/// How often it is looked whether packets have arrived.
const LOOKS_EACH: Duration = Duration::from_millis(75);
/// Packets that are followed at a time.
const OPEN_MAX: usize = 4096;
/// Sightings that wait to be looked at. Beyond, the nodes wait, and leave packets out.
const WAITING_MAX: usize = 1 << 16;

/// The packets to follow.
#[derive(Clone, Copy, Debug)]
pub struct Follow<'a> {
    /// A word that the packet's line contains.
    pub filter: Option<&'a str>,
    /// How many packets.
    pub count: u64,
    /// How long to wait for one that fits.
    pub wait: Duration,
}

/// Nodes whose ports are traced.
pub struct Watch {
    nodes: Vec<Watched>,
    sightings: Receiver<Sighting>,
}

impl Watch {
    /// Traces every port of the nodes at these sockets; controllers among them are left out.
    ///
    /// # Errors
    /// When a daemon does not answer, or none is a node.
    pub fn new(sockets: &[(String, PathBuf)], patience: Duration) -> Result<Watch, Failure> {
        let (sender, sightings) = mpsc::sync_channel(WAITING_MAX);
        let mut nodes = Vec::new();
        for socket in sockets {
            nodes.extend(watch(nodes.len(), socket, patience, &sender)?);
        }
        if nodes.is_empty() {
            return Err(Failure::unusable("none of these is a node"));
        }
        Ok(Watch { nodes, sightings })
    }

    /// How many nodes are watched.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Follows packets until so many have been seen, or `tell`, which gets each one's way, gives
    /// false.
    ///
    /// # Errors
    /// When none comes in time, the nodes end, or `tell` fails.
    pub fn follow(
        &self,
        what: &Follow<'_>,
        tell: &mut dyn FnMut(&Journey) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut open: BTreeMap<Key, Open> = BTreeMap::new();
        let (mut found, mut heard, mut looked) = (0, Instant::now(), Instant::now());
        loop {
            match self.sightings.recv_timeout(LOOKS_EACH) {
                Ok(sighting) => {
                    let known = open.contains_key(&sighting.seen.key);
                    let fits = |word: &str| sighting.seen.text.contains(word);
                    if known || open.len() < OPEN_MAX && what.filter.is_none_or(fits) {
                        open.entry(sighting.seen.key).or_insert_with(Open::new).add(sighting);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::unusable("the nodes have ended".to_string()));
                }
            }
            if looked.elapsed() < LOOKS_EACH {
                continue;
            }
            looked = Instant::now();
            let arrived = open.extract_if(.., |_, open| open.last.elapsed() >= ARRIVED_AFTER);
            for (_, arrived) in arrived {
                let journey = arrived.journey(&self.nodes);
                let goes_on = tell(&journey)?;
                (found, heard) = (found + 1, Instant::now());
                if found >= what.count || !goes_on {
                    return Ok(());
                }
            }
            if open.is_empty() && heard.elapsed() >= what.wait {
                let why = "no packet that fits has passed: send some meanwhile, or wait longer";
                return Err(Failure::No(why.to_string()));
            }
        }
    }
}

/// Watches every port of a node. None: it has none, for it is a controller.
fn watch(
    at: usize,
    (name, path): &(String, PathBuf),
    patience: Duration,
    sightings: &SyncSender<Sighting>,
) -> Result<Option<Watched>, Failure> {
    let unusable = |e: String| Failure::unusable(format!("{}: {e}", path.display()));
    let connect = || Client::connect(path, patience).map_err(|e| unusable(e.to_string()));
    let Ok(shown) = connect()?.get::<Ports>(&Request::Show(Topic::Ports)) else { return Ok(None) };
    let ports: Vec<String> = shown.ports.into_iter().map(|port| port.name).collect();
    for (port, of) in ports.iter().enumerate() {
        let mut client = connect()?;
        let first = client.ask(&Request::Trace(Trace { port: of.clone(), sample: None }));
        let first = first.map_err(|e| unusable(e.to_string()))?;
        let sightings = sightings.clone();
        std::thread::spawn(move || {
            let mut next = Ok(first);
            while let Ok(answer) = next {
                if let Ok(frame) = serde_json::from_value::<Frame>(answer)
                    && let Some(seen) = unhex(&frame.frame).and_then(|bytes| seen(&bytes))
                {
                    let Frame { now_ns, out, .. } = frame;
                    if sightings.send(Sighting { node: at, port, out, now_ns, seen }).is_err() {
                        return;
                    }
                }
                next = client.next_answer();
            }
        });
    }
    Ok(Some(Watched { name: name.rsplit('/').next().unwrap_or(name).to_string(), ports }))
}
