//! The thread of a fabric's control plane: the driver of [`plexus_node::fabric::Fabric`]. It reads
//! the clock, asks devices for their facts, records, logs, and exchanges frames with the workers.

mod answers;
mod mtu;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_api::word;
use plexus_config::{FabricFile, NodeFile, PortFile, PortUse, Tunnel};
use plexus_control::identity::{Identity, Role, short_key};
use plexus_control::link::{Pace, Pin};
use plexus_control::node::common::{Part, Task};
use plexus_control::node::{Event, Input, Node};
use plexus_io::netlink::{InterfaceSpec, ensure_interface, leave_arp};
use plexus_io::{Link, PortId};
use plexus_node::fabric::{self, Fabric};
use plexus_node::ports::kernel_port;
use plexus_plane::{LinkChange, PublishedFabric, RouterSource};
use plexus_wire::fabric::LINK_MTU_MIN;
use plexus_wire::fabric::message::{LinkFacts, PortRole, Refusal};
use plexus_wire::{MacAddr, Time};
use serde_json::{Value, json};

use self::mtu::{End, Mtus};
use super::links::LinkCells;
use super::load::{Loads, WorkerLoad};
use super::news::{News, Outlet, Wanted};
use super::thread::{start_control_plane, time_since};
use crate::identity;
use crate::quiet::Quiet;
use crate::recording::Start;

/// Inputs taken before the tables are published. A message about the forwarding table holds a
/// hundred routes, and neighbours must not miss Heartbeats meanwhile.
const BATCH: usize = 16;
/// Longest sleep: a clock that is set does not matter, a lost wake-up would.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Longest packet of routing daemons, as of any host (SPEC.md, 4).
const DAEMONS_MTU: u32 = 1500;

/// A fabric before its thread runs.
pub(crate) struct Prepared {
    fabric: Fabric,
    /// The node's number, and whether it wants cables without encapsulation.
    number: u64,
    native: bool,
    /// Routing daemons listen here for the whole group.
    has_daemons: bool,
    ports: Vec<PortName>,
    recording: Recording,
    mtus: Mtus,
    /// The node's part of the common file with which it starts.
    keeps: Part,
    /// Frames dropped because too many waited already.
    pub(crate) missed: Arc<AtomicU64>,
}

/// Reads the node's identity and makes its control plane.
///
/// # Errors
/// In words for the person who started it.
pub(crate) fn prepare(
    file: &NodeFile,
    settings: &FabricFile,
    keeps: Part,
) -> Result<Prepared, String> {
    let identity = identity::read(&settings.identity, Role::Node)?;
    let pace = Pace { heartbeat: settings.heartbeat };
    let (seed, lane_seed) = (identity::random()?, u64::from_ne_bytes(identity::random()?));
    let number = identity.claims().node;
    let native = settings.native;
    let node = Node::new(Arc::new(identity), pace, seed);
    let mut fabric = Fabric::new(node, file.ports.len(), settings.lanes, lane_seed)?;
    // A box has one router: its own, or its part of the group's.
    if file.router.is_none() {
        fabric = fabric.with_router(identity::random()?)?;
    }
    let recording = Recording::begin(settings, pace, seed)?;
    for device in &settings.kernel {
        let peer = kernel_port(device)?;
        let mtu = DAEMONS_MTU;
        let spec = InterfaceSpec { name: device, peer: &peer, mac: None, mtu, addresses: None };
        ensure_interface(&spec).map_err(|e| format!("[fabric] kernel: {e}"))?;
    }
    if let Some(device) = &settings.controller {
        let peer = kernel_port(device)?;
        let mtu = LINK_MTU_MIN.into();
        let spec = InterfaceSpec { name: device, peer: &peer, mac: None, mtu, addresses: None };
        ensure_interface(&spec).map_err(|e| format!("[fabric] controller: {e}"))?;
    }
    if !settings.kernel.is_empty() {
        // Hosts are to learn the group's Ethernet address, not that of the port.
        let in_fabric = file.ports.iter().filter(|port| port.role != PortUse::Switch);
        in_fabric.for_each(|port| leave_arp(&port.device));
    }
    let kernel = settings.kernel.clone();
    let ports = file.ports.iter().enumerate();
    let ports = ports.map(|(i, p)| PortName::new(p, i, number, native, &kernel));
    let devices: Vec<&str> = file.ports.iter().map(|p| p.device.as_str()).collect();
    Ok(Prepared {
        fabric,
        mtus: Mtus::new(&file.control, &devices),
        number,
        native,
        has_daemons: !kernel.is_empty(),
        ports: ports.collect(),
        recording,
        keeps,
        missed: Arc::default(),
    })
}

impl Prepared {
    /// The plan that workers read.
    pub(crate) fn source(&self) -> PublishedFabric {
        self.fabric.source()
    }

    /// The plan of the group's router that workers read.
    pub(crate) fn router_source(&self) -> Option<RouterSource> {
        self.fabric.router_source()
    }

    /// Calls this after each change of the data plane's plan, and of its router's.
    pub(crate) fn on_change(&mut self, call: impl FnMut() + Send + Clone + 'static) {
        self.fabric.on_change(call);
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn start(
        self,
        news: Receiver<News>,
        links: Arc<LinkCells>,
        outlet: Outlet,
        loads: Vec<Arc<WorkerLoad>>,
        want: SyncSender<Wanted>,
        started: Instant,
    ) -> Result<JoinHandle<()>, String> {
        let driver = Driver {
            own: self,
            news,
            links,
            outlet,
            loads: Loads::new(loads),
            want,
            tasks: VecDeque::new(),
            started,
            unserved: BTreeMap::new(),
            quiet: Quiet::default(),
        };
        start_control_plane(|| driver.run())
    }
}

/// Where every input and output is written, for replay; nowhere unless the file says so.
struct Recording(Option<BufWriter<File>>);

impl Recording {
    fn begin(settings: &FabricFile, pace: Pace, seed: [u8; 32]) -> Result<Recording, String> {
        let Some(path) = &settings.record else { return Ok(Recording(None)) };
        // It holds what makes the session keys: nobody else may read it.
        let mut new = File::options();
        let new = new.write(true).create(true).truncate(true).mode(0o600);
        let file = new.open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let start = Start {
            seed,
            heartbeat_ns: pace.heartbeat.as_nanos() as u64,
            identity: std::path::absolute(&settings.identity).ok(),
        };
        let start = serde_json::to_string(&start).map_err(|e| e.to_string())?;
        let mut file = BufWriter::new(file);
        writeln!(file, "{start}").map_err(|e| format!("writing the recording: {e}"))?;
        Ok(Recording(Some(file)))
    }

    fn write(&mut self, line: impl FnOnce() -> Value) {
        let Some(file) = &mut self.0 else { return };
        if let Err(error) = writeln!(file, "{}", line()).and_then(|()| file.flush()) {
            tracing::error!(%error, "the recording ends");
            self.0 = None;
        }
    }
}

/// What the thread has.
pub(crate) struct Driver {
    own: Prepared,
    news: Receiver<News>,
    links: Arc<LinkCells>,
    outlet: Outlet,
    loads: Loads,
    /// Has the rest of the node asked.
    want: SyncSender<Wanted>,
    /// Tasks that wait for room there.
    tasks: VecDeque<Task>,
    started: Instant,
    /// Hosts' frames not served and messages refused, by reason.
    unserved: BTreeMap<String, u64>,
    /// Log lines that stations caused, by port and reason.
    quiet: Quiet<(u8, Option<Refusal>)>,
}

/// A port as the file names it.
struct PortName {
    name: String,
    device: String,
    rate_mbit_per_s: u32,
    native: bool,
    /// It belongs to the fabric, and not to the switch.
    in_fabric: bool,
    pin: Option<Pin>,
    tunnel: Option<TunnelFacts>,
    /// A reload has removed it.
    is_removed: bool,
}

impl PortName {
    fn new(p: &PortFile, port: usize, node: u64, native: bool, kernel: &[String]) -> PortName {
        PortName {
            name: p.name.clone(),
            device: p.device.clone(),
            rate_mbit_per_s: p.settings.rate_bits_per_s.map_or(0, |r| (r / 1_000_000) as u32),
            native,
            in_fabric: p.role != PortUse::Switch,
            pin: fabric::pin(p, kernel),
            tunnel: p.tunnel.map(|ends| {
                let mac = tunnel_mac(node, port);
                TunnelFacts { mac, mtu: 0, ends }
            }),
            is_removed: false,
        }
    }
}

fn name_of(ports: &[PortName], port: u8) -> &str {
    ports.get(usize::from(port)).map_or("?", |p| p.name.as_str())
}

/// A tunnel's facts for its neighbour; a tunnel has no device.
#[derive(Clone, Copy, Debug)]
struct TunnelFacts {
    mac: MacAddr,
    /// Bytes that a datagram carries.
    mtu: u16,
    ends: Tunnel,
}

/// The Ethernet address of a tunnel: locally administered, and derived from the numbers of node and
/// port by the finalizer of MurmurHash3.
fn tunnel_mac(node: u64, port: usize) -> MacAddr {
    let mut h = node ^ (port as u64) << 56;
    for factor in [0xFF51_AFD7_ED55_8CCD_u64, 0xC4CE_B9FE_1A85_EC53] {
        h = (h ^ h >> 33).wrapping_mul(factor);
    }
    let [.., a, b, c, d, e, f] = (h ^ h >> 33).to_be_bytes();
    MacAddr([a & 0xFC | 2, b, c, d, e, f])
}

/// A port's facts for its neighbour; `None` if its device cannot be read.
fn facts(ports: &[PortName], port: PortId, takes_owed: bool) -> Option<LinkFacts> {
    let known = ports.get(usize::from(port))?;
    let number = u8::try_from(port).ok()?;
    let rate_mbit_per_s = known.rate_mbit_per_s;
    if let Some(TunnelFacts { mac, mtu, .. }) = known.tunnel {
        let (native, takes_owed) = (true, false);
        return Some(LinkFacts { port: number, mac, mtu, rate_mbit_per_s, native, takes_owed });
    }
    match plexus_io::device_facts(&known.device) {
        Ok(device) => Some(LinkFacts {
            port: number,
            mac: device.mac,
            mtu: u16::try_from(device.mtu).unwrap_or(u16::MAX),
            rate_mbit_per_s,
            native: known.native,
            takes_owed,
        }),
        Err(error) => {
            tracing::warn!(port = known.name, %error, "reading address and MTU");
            None
        }
    }
}

impl Driver {
    /// Serves until told to stop.
    fn run(mut self) {
        let keeps = std::mem::take(&mut self.own.keeps);
        if keeps.version > 0 {
            self.input(Input::Keeps(keeps));
        }
        self.pin_from(0);
        loop {
            let wait = self.own.fabric.next_deadline().since(self.now()).min(SLEEP_MAX);
            let mut next = match self.news.recv_timeout(wait) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut left = BATCH;
            while let Some(news) = next {
                if !self.hear(news) {
                    return;
                }
                left -= 1;
                next = if left > 0 { self.news.try_recv().ok() } else { None };
            }
            // Packets stay in order: those that workers have handed over leave with those that
            // waited, and workers receive no others meanwhile.
            if self.node().releases() && self.outlet.pauses.begin(Instant::now()) {
                while self.outlet.pauses.goes_on(Instant::now())
                    && let Ok(news) = self.news.try_recv()
                {
                    if !self.hear(news) {
                        return;
                    }
                }
            }
            self.hear_links();
            let used = self.own.fabric.take_used();
            used.into_iter().for_each(|input| self.input(input));
            if let Some((routed, busy)) = self.loads.read(self.now()) {
                self.input(Input::Load { routed, busy });
                if self.node().is_watched(self.now()) {
                    // If they are being read, they come soon.
                    let _ = self.want.try_send(Wanted::Counters);
                }
            }
            self.input(Input::Tick);
            self.carry_out();
            self.outlet.pauses.end(Instant::now());
            self.warn_of_small_ends();
            for (more, last) in self.quiet.take(self.now()) {
                tracing::warn!(more, "more like it in the last 10 s, the last: {last}");
            }
        }
    }

    /// Takes in one of the news. False: the thread is to end.
    fn hear(&mut self, news: News) -> bool {
        self.hear_links();
        match news {
            News::Stop => {
                self.input(Input::Stop);
                self.carry_out();
                return false;
            }
            News::Frame(punt, port, _, bytes) => {
                let input = self.own.fabric.frame(self.now(), punt, port, bytes);
                input.into_iter().for_each(|input| self.input(input));
            }
            News::Links | News::Routes(_) | News::Kernel(_) => {}
            News::Counters(counters) => self.input(Input::Counters(counters)),
            News::Names(some, all) => self.input(Input::Names(some, all)),
            News::Explained(told) => self.input(Input::Explained(told)),
            News::OwnFile => self.input(Input::OwnFile),
            News::Keeps(part) => self.input(Input::Keeps(part)),
            News::Common(done) => self.input(Input::Common(done)),
            News::Identity(new) => {
                tracing::info!(key = short_key(&new.claims().static_public), "a new key");
                self.own.fabric.set_identity(self.now(), *new);
            }
            News::Lanes(lanes) => self.own.fabric.set_lanes(lanes),
            News::Ports(count, new) => self.add_ports(count, &new),
            News::Removed(ports) => self.remove_ports(&ports),
            News::AskFabric(question) => question(self),
            News::AskRouter(question) => {
                if let Some(router) = self.own.fabric.router() {
                    question(router);
                }
            }
        }
        true
    }

    /// Warns of neighbours that have not raised the MTU of their ends of fabric links.
    fn warn_of_small_ends(&mut self) {
        for port in self.own.mtus.overdue(self.now()) {
            let Some(known) = self.own.ports.get(usize::from(port)) else { continue };
            let ends = self.node().neighbour(port).zip(self.node().peer(port));
            let Some((there, at)) = ends else { continue };
            let device = match known.tunnel {
                Some(_) => "the one that its tunnel leaves by".to_string(),
                None => format!("the one with the address {}", at.mac),
            };
            let needed = match known.tunnel.map(|t| t.ends.peer.is_ipv4()) {
                Some(true) => LINK_MTU_MIN + 28,
                Some(false) => LINK_MTU_MIN + 48,
                None => LINK_MTU_MIN,
            };
            tracing::warn!(
                port = known.name,
                neighbour = there,
                "a fabric link needs an MTU of {LINK_MTU_MIN} bytes and the end at {there} has \
                 {}: nothing passes here until it is raised there. {there} logs the command for \
                 its device ({device}): `ip link set dev DEVICE mtu {needed}`",
                at.mtu
            );
        }
    }

    /// Raises the MTU of a fabric link that is too small, where it can be.
    fn follow_role(&mut self, port: u8, role: PortRole) {
        let now = self.now();
        let Some(known) = self.own.ports.get(usize::from(port)).filter(|p| !p.is_removed) else {
            return;
        };
        if role == PortRole::TooSmall {
            let end = match known.tunnel {
                Some(tunnel) => End::Tunnel(tunnel.ends, tunnel.mtu),
                None => End::Device(&known.device),
            };
            self.own.mtus.too_small(now, port, &known.name, &end);
        } else if matches!(role, PortRole::Fabric | PortRole::Down | PortRole::Host) {
            self.own.mtus.no_longer_small(port);
        }
    }

    /// Passes in the pins of the ports from this number on.
    fn pin_from(&mut self, first: usize) {
        for port in first..self.own.ports.len() {
            if let (Ok(number), Some(pin)) = (u8::try_from(port), self.own.ports[port].pin) {
                self.input(Input::Pinned { port: number, pin });
            }
        }
    }

    /// Takes in the ports that a reload has added.
    fn add_ports(&mut self, count: usize, new: &[PortFile]) {
        let first = count - new.len();
        let seed = identity::random().map(u64::from_ne_bytes).unwrap_or_default();
        if first != self.own.ports.len() || !self.own.fabric.grow(count, seed) {
            return tracing::error!(count, "new ports do not fit");
        }
        let (number, native) = (self.own.number, self.own.native);
        if self.own.has_daemons {
            let in_fabric = new.iter().filter(|port| port.role != PortUse::Switch);
            in_fabric.for_each(|port| leave_arp(&port.device));
        }
        let named = (first..).zip(new).map(|(i, p)| PortName::new(p, i, number, native, &[]));
        self.own.ports.extend(named);
        self.pin_from(first);
    }

    /// A reload has removed these ports: their devices get their former MTU.
    fn remove_ports(&mut self, ports: &[PortId]) {
        for port in ports {
            let Some(known) = self.own.ports.get_mut(usize::from(*port)) else { continue };
            known.is_removed = true;
            if let (Ok(port), None) = (u8::try_from(*port), known.tunnel) {
                self.own.mtus.removed(port, &known.device);
            }
        }
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    /// The identity that the node proves.
    pub(crate) fn identity(&self) -> &Identity {
        self.node().identity()
    }

    /// The version of the common file on trial, and the time until it is left.
    pub(crate) fn common_trial(&self) -> Option<(u64, Duration)> {
        let (version, until) = self.node().common().1?;
        Some((version, until.since(self.now())))
    }

    /// The control plane, for questions.
    fn node(&self) -> &Node {
        self.own.fabric.control()
    }

    fn input(&mut self, input: Input) {
        let now = self.now();
        // A tick before the deadline changes nothing.
        if input == Input::Tick && self.own.fabric.next_deadline() > now {
            return;
        }
        let heard = self.own.fabric.heard(now, now);
        for input in heard.into_iter().chain([input]) {
            self.own.recording.write(|| json!({"now": now, "input": input}));
            self.own.fabric.handle(now, input);
        }
    }

    /// Takes the states of links. They come before frames, so that a frame's port is known to be
    /// up.
    fn hear_links(&mut self) {
        for change in self.links.take(self.own.ports.len()) {
            self.link(change);
        }
    }

    fn link(&mut self, LinkChange { port, link, max_frame, takes_owed }: LinkChange) {
        let Ok(number) = u8::try_from(port) else { return };
        if !self.own.ports.get(usize::from(port)).is_some_and(|p| p.in_fabric) {
            return;
        }
        let known = self.own.ports.get_mut(usize::from(port));
        if let Some(tunnel) = known.and_then(|known| known.tunnel.as_mut()) {
            tunnel.mtu = u16::try_from(max_frame).unwrap_or(u16::MAX);
        }
        let facts = (link == Link::Up).then(|| facts(&self.own.ports, port, takes_owed)).flatten();
        self.input(Input::Port { port: number, facts });
    }

    fn carry_out(&mut self) {
        let now = self.now();
        let Prepared { fabric, recording, .. } = &mut self.own;
        let rest = fabric.carry_out(now, std::thread::yield_now, |output| {
            recording.write(|| json!({"output": output}));
        });
        for event in &rest.events {
            self.tell(event);
            if let Event::Role(port, role) = event {
                self.follow_role(*port, *role);
            }
        }
        for question in rest.questions {
            // The controller asks again, or says that this node is silent.
            let _ = self.want.try_send(Wanted::Explanation(question));
        }
        self.tasks.extend(rest.tasks);
        while let Some(task) = self.tasks.pop_front() {
            if let Err(TrySendError::Full(Wanted::Common(task))) =
                self.want.try_send(Wanted::Common(task))
            {
                self.tasks.push_front(task);
                break;
            }
        }
        self.outlet.inject(rest.frames);
    }

    fn tell(&mut self, event: &Event) {
        let now = self.now();
        let ports = &self.own.ports;
        let name = |port: &u8| name_of(ports, *port);
        match event {
            Event::Dropped(port, why) => {
                let why = word(why);
                tracing::debug!(port = name(port), why, "host's frame not served");
                *self.unserved.entry(why).or_default() += 1;
            }
            Event::Role(port, role) => tracing::info!(port = name(port), ?role, "role"),
            Event::Refused(port, why) => {
                let port = port.as_ref().map_or("-", name);
                tracing::debug!(port, why, "control message refused");
                *self.unserved.entry("message_refused".into()).or_default() += 1;
            }
            Event::Uplink(Some(path)) => tracing::info!(?path, "way to the controller"),
            Event::Uplink(None) => tracing::warn!("no way to the controller: flows go on"),
            Event::Loop(port) => {
                tracing::warn!(
                    port = name(port),
                    "leads back into the fabric, past an ordinary \
                    switch: take one of its cables out"
                );
            }
            Event::Stranger(port, stranger) => tracing::warn!(
                port = name(port),
                "{stranger}. This port is no fabric port: {}",
                stranger.advice()
            ),
            Event::NumberTaken { key, same: false } => tracing::warn!(
                number = self.own.number,
                "another live node has this node's number, with the key {}: the controller refuses \
                 this node until the other one is gone. Switch one of them off, or issue another \
                 number to it (`plexus identity issue`)",
                short_key(key)
            ),
            Event::NumberTaken { same: true, .. } => tracing::warn!(
                number = self.own.number,
                "another live node uses this node's identity: the controller refuses this node \
                 until the other one is gone. Each box needs its own identity (`plexus identity \
                 issue`)"
            ),
            Event::TableWrong { version } => tracing::warn!(
                version,
                "the routes here are not those of the controller: nothing is routed until the \
                 controller has sent them again"
            ),
            Event::RoutesFull => tracing::warn!(
                "there is no room for some of the group's routes: their packets go by shorter \
                 prefixes until others leave"
            ),
            Event::Astray(port) => tracing::debug!(port = name(port), "fabric frame astray"),
            Event::Stale(port, mac) => {
                tracing::debug!(port = name(port), %mac, "called back: station has left");
            }
            Event::Station(port, mac) => {
                let line = || format!("station {mac} at {}", name(port));
                if self.quiet.admits(now, (*port, None), line) {
                    tracing::info!(port = name(port), %mac, "station");
                }
            }
            Event::Gone(port, mac) => {
                let line = || format!("station {mac} gone from {}", name(port));
                if self.quiet.admits(now, (*port, None), line) {
                    tracing::info!(port = name(port), %mac, "station gone");
                }
            }
            Event::Denied(port, mac, ip, why) => {
                let line = || format!("claim of {mac} at {} refused: {why:?}", name(port));
                if self.quiet.admits(now, (*port, Some(*why)), line) {
                    tracing::warn!(port = name(port), %mac, ?ip, ?why, "station's claim refused");
                }
            }
        }
    }
}
