//! The driver of the controller: one thread that owns the clock, the port, the store, the sessions
//! ([`Hub`]) and the core ([`Controller`]).

mod answers;
mod common;
mod devices;
mod explain;
mod leading;
mod metrics;
mod network;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::mem::{Discriminant, discriminant};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plexus_api::answer::explain::Question as Explain;
use plexus_api::answer::{About, Metrics};
use plexus_api::{Common, Request, word};
use plexus_config::Backend;
use plexus_config::{ControllerFile, ControllerSettings, Revoked};
use plexus_control::hub::{self, Claimant, Hub};
use plexus_control::identity::{Role, short_key};
use plexus_control::link::Pace;
use plexus_controller::reign::Reign;
use plexus_controller::tenure::{Ask as ToStore, Tenure};
use plexus_controller::{Controller, Event, Input, Output};
use plexus_io::clock::{since_boot, unix_ms};
use plexus_io::process::go_before_others;
use plexus_io::spec::{self, PortSpec};
use plexus_io::wake::{LinkNews, Sleeper, Waker};
use plexus_io::{Batch, Link, Pool, Port};
use plexus_keeper::Keeper;
use plexus_wire::Time;
use plexus_wire::fabric::message::{Body, LinkFacts, Refusal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::devices::Devices;
use self::metrics::{Done, Facts};
use self::network::{Events, OwnNetwork};
pub use self::snapshot::{Restored, Snapshot, restore};
use crate::adoption::{Adoption, Begin};
use crate::ask::{Question, answer, answer_within, ask};
use crate::identity;
use crate::quiet::Quiet;
use crate::socket::{self, Asked, Reply};
pub use plexus_controller::CommonVersion;

/// Frames in flight; control messages are few.
const FRAMES: usize = 2048;
/// How often the link is looked at.
const MAINTENANCE: Duration = Duration::from_millis(100);

/// A question for the thread.
enum Ask {
    Question(Question<Daemon>),
    /// Somebody looks at the network.
    Watched,
    /// A client asks what becomes of a packet.
    Explain(Explain, explain::Reply),
    /// A client asks about the common file, or changes it.
    Common(Common, common::Answer),
    Configure(Box<ControllerSettings>),
    /// Hand over; the answer says why not.
    Drain(Sender<Result<(), String>>),
    Stop,
}

/// How the control socket reaches the thread.
struct Asks {
    ask: Mutex<Sender<Ask>>,
    waker: Waker,
}

impl Asks {
    fn send(&self, ask: Ask) {
        // A thread that has ended needs no questions.
        let _ = self.ask.lock().unwrap_or_else(PoisonError::into_inner).send(ask);
        self.waker.wake();
    }
}

/// The daemon as the control socket reaches it.
struct Answers {
    asks: Arc<Asks>,
    adoption: Arc<Adoption>,
}

impl Answers {
    fn send(&self, ask: Ask) {
        self.asks.send(ask);
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Daemon) -> T + Send + 'static,
    ) -> Result<T, String> {
        ask("the controller", question, |q| self.send(Ask::Question(q)))
    }
}

impl Asked for Answers {
    fn answer(&self, request: Request) -> Result<Reply, String> {
        match request {
            Request::Show(topic) => {
                let shown = self.ask(move |daemon| daemon.show(topic))??;
                Ok(Reply::Shown(Box::new(shown)))
            }
            Request::Version(_) => {
                self.ask(|daemon| Reply::About(About::new("controller", &daemon.own.1)))
            }
            Request::Metrics(_) => {
                let metrics = self.ask(Daemon::metrics)? + &self.adoption.metrics("controller");
                Ok(Reply::Metrics(Metrics { metrics }))
            }
            Request::Route(address) => {
                let answer = self.ask(move |daemon| daemon.view()?.route(address))?;
                answer.map(Reply::GroupRoute)
            }
            Request::RoutesFrom(first) => {
                let answer = self.ask(move |daemon| Ok(daemon.view()?.routes_from(&first)))?;
                answer.map(Reply::Routes)
            }
            Request::Network(_) => {
                self.send(Ask::Watched);
                self.ask(Daemon::network)?.map(|network| Reply::Network(Box::new(network)))
            }
            Request::Ways(pair) => {
                self.ask(move |daemon| Ok(Reply::Ways(daemon.view()?.ways(pair))))?
            }
            Request::Explain(question) => {
                let told =
                    answer("the controller", |reply| self.send(Ask::Explain(question, reply)))??;
                Ok(Reply::Explained(Box::new(told)))
            }
            Request::Drain(_) => {
                answer("the controller", |reply| self.send(Ask::Drain(reply)))??;
                Ok(Reply::DONE)
            }
            Request::Reload(_) => self.adoption.reload().map(|()| Reply::DONE),
            Request::Config(request) => self.adoption.answer(request),
            Request::Common(request) => answer_within(common::LIMIT, "the controller", |reply| {
                self.send(Ask::Common(request, reply));
            })?,
            _ => Err("this is a controller: it answers show, explain, version, config, common, \
                      reload, drain and stop"
                .into()),
        }
    }
}

/// Reads a controller's configuration and serves until told to stop.
///
/// # Errors
/// In words for the person who started it.
pub fn run(config: &Path) -> Result<(), String> {
    let mut begin = Begin::read(config)?;
    let shown = begin.shown();
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| format!("waiting for signals: {e}"))?;
    let (file, (listener, _socket)) =
        begin.claim(|text| read(&shown, text), |file| &file.control)?;
    let (sleeper, waker) = Sleeper::new().map_err(|e| format!("event descriptor: {e}"))?;
    let (ask, asks) = mpsc::channel();
    let devices = Devices::follow(&file.settings, waker.clone())?;
    let daemon = Daemon::open(&file, sleeper, waker.clone(), asks, devices)?;
    let key = daemon.hub.key();
    let asks = Arc::new(Asks { ask: Mutex::new(ask), waker });
    let adoption = {
        let (file, asks) = (file.clone(), asks.clone());
        Adoption::new(&file.name.clone(), begin, move |text, _| {
            let settings = read(&shown, text).and_then(|new| fit(&file, new))?;
            check_own_key(&settings.revoked, &key)?;
            asks.send(Ask::Configure(Box::new(settings)));
            Ok(())
        })
    };
    let answers = Arc::new(Answers { asks, adoption });
    let thread = spawn(daemon)?;
    socket::serve(listener, answers.clone(), signals.handle())?;
    if let Some(address) = file.metrics {
        let answers = answers.clone();
        let own = move |_: &str| {
            Ok(answers.ask(Daemon::metrics)? + &answers.adoption.metrics("controller"))
        };
        plexus_web::serve_metrics(address, own)?;
    }
    if let Some(web) = &file.web {
        let page = plexus_web::serve(web, OwnNetwork(answers.clone()))?;
        tracing::info!("the page is at {}", page.url);
    }
    tracing::info!(controller = file.name, device = file.device, "running");
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        match answers.adoption.reload() {
            Ok(()) => tracing::info!("configuration read again"),
            Err(why) => tracing::error!("configuration kept as it was: {why}"),
        }
    }
    tracing::info!(controller = file.name, "stopping");
    answers.send(Ask::Stop);
    thread.join().map_err(|_| "the controller ended with a panic".to_string())
}

/// A controller's file, with the routes of the file that it names.
fn read(shown: &str, text: &str) -> Result<ControllerFile, String> {
    let mut file = ControllerFile::parse(shown, text).map_err(|e| e.to_string())?;
    file.settings.load_routes()?;
    Ok(file)
}

/// The settings of a changed file, if nothing else has changed.
fn fit(old: &ControllerFile, new: ControllerFile) -> Result<ControllerSettings, String> {
    let fixed = |f: &ControllerFile| ControllerFile {
        settings: ControllerSettings { group_mac: f.settings.group_mac, ..Default::default() },
        ..f.clone()
    };
    let is_fixed = devices::names(&old.settings) == devices::names(&new.settings);
    if fixed(old) != fixed(&new) || !is_fixed {
        return Err(
            "paths, name, etcd, devices, heartbeat, metrics, web and group_mac are fixed while \
                    the controller runs: restart it"
                .into(),
        );
    }
    Ok(new.settings)
}

fn spawn(daemon: Daemon) -> Result<JoinHandle<()>, String> {
    let thread = std::thread::Builder::new().name("controller".into());
    thread
        .spawn(move || {
            go_before_others();
            let run = std::panic::AssertUnwindSafe(|| daemon.run());
            if std::panic::catch_unwind(run).is_err() {
                tracing::error!("the controller ended with a panic");
                std::process::exit(70);
            }
        })
        .map_err(|e| format!("starting the controller: {e}"))
}

/// The thread's own.
struct Daemon {
    /// Its own number and name.
    own: (u64, String),
    group: [u8; 16],
    device: String,
    hub: Hub,
    settings: ControllerSettings,
    keeper: Box<dyn Keeper>,
    reign: Reign,
    /// The reason why the store cannot be used.
    store_trouble: Option<String>,
    port: Box<dyn Port>,
    pool: Pool,
    link: Link,
    /// The number of the node that the device is cabled to.
    attached: Option<u64>,
    sleeper: Sleeper,
    link_news: Option<LinkNews>,
    asks: Receiver<Ask>,
    /// When it started, by [`since_boot`].
    started: Duration,
    done: Done,
    /// The kernel's devices and routes, where routing daemons speak for the group.
    devices: Devices,
    /// What hosts caused in the log, by event and reason.
    quiet: Quiet<(Discriminant<Event>, Option<Refusal>)>,
    events: Events,
    /// Clients that wait to hear what becomes of a packet, and how many have asked.
    explaining: BTreeMap<u64, explain::Reply>,
    explained: u64,
    /// Clients that wait for a change of the common file.
    asking: common::Asking,
}

/// Checks that a controller does not have all nodes refuse itself.
fn check_own_key(revoked: &[Revoked], key: &[u8; 32]) -> Result<(), String> {
    match revoked.iter().any(|revoked| revoked.key == *key) {
        true => Err("[[revoked]] has the key with which this controller runs: restart it if its \
                     identity file has a new one"
            .into()),
        false => Ok(()),
    }
}

fn revoked(settings: &ControllerSettings) -> BTreeSet<[u8; 32]> {
    settings.revoked.iter().map(|revoked| revoked.key).collect()
}

/// Creates the folder of the store, for this user alone, if there is none.
///
/// # Errors
/// In words, when it cannot be created.
fn make_folder(state: &Path) -> Result<(), String> {
    let Some(folder) = state.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| format!("creating the folder of {}: {e}", state.display()))
}

impl Daemon {
    fn open(
        file: &ControllerFile,
        sleeper: Sleeper,
        waker: Waker,
        asks: Receiver<Ask>,
        devices: Devices,
    ) -> Result<Daemon, String> {
        let identity = Arc::new(identity::read(&file.identity, Role::Controller)?);
        let own = (identity.claims().node, identity.claims().name.clone());
        check_own_key(&file.settings.revoked, &identity.claims().static_public)?;
        if file.etcd.is_some() && own.1 != file.name {
            let text = "controllers that share a store have the names of their identities";
            return Err(format!("{text}: write name = \"{}\", or use another identity", own.1));
        }
        make_folder(&file.state)?;
        let group = identity.claims().group;
        let keeper = leading::keeper(file, &file.name, &group, move || waker.wake())?;
        let tenure = Tenure::new(&file.name, own.0, leading::times(file));
        let pace = Pace { heartbeat: file.heartbeat };
        let mut hub = Hub::new(identity, pace, identity::random()?);
        hub.set_node_timeout(node_timeout(&file.settings));
        hub.set_revoked(Time::ZERO, revoked(&file.settings));
        let spec = PortSpec {
            name: file.device.clone(),
            device: file.device.clone(),
            backend: Backend::AfPacket,
            ..PortSpec::default()
        };
        let mut pool = Pool::new(FRAMES, 4096).map_err(|e| e.to_string())?;
        let opened = spec::open(&spec, &mut pool).map_err(|e| e.to_string())?;
        let link_news = LinkNews::listen().ok();
        tracing::info!(store = keeper.describe(), "{}", opened.how);
        let mut daemon = Daemon {
            own,
            group,
            device: file.device.clone(),
            hub,
            settings: file.settings.clone(),
            keeper,
            reign: Reign::new(tenure),
            store_trouble: None,
            port: opened.port,
            pool,
            link: Link::Down,
            attached: None,
            sleeper,
            link_news,
            asks,
            started: since_boot(),
            done: Done::default(),
            devices,
            quiet: Quiet::default(),
            events: Events::default(),
            explaining: BTreeMap::new(),
            explained: 0,
            asking: common::Asking::default(),
        };
        while daemon.hear_keeper(Time::ZERO) {}
        // A controller that shares no store leads from the beginning, or not at all.
        match (&file.etcd, &daemon.reign.core) {
            (None, None) => Err(daemon.store_trouble.unwrap_or_default()),
            _ => Ok(daemon),
        }
    }

    fn run(mut self) {
        let mut maintenance = Time::ZERO;
        let mut batch = Batch::new();
        loop {
            let now = self.now();
            if now >= maintenance || self.link_news.as_ref().is_some_and(LinkNews::take) {
                self.look_after_link(now);
                for (more, last) in self.quiet.take(now) {
                    tracing::info!(more, "more like it in the last 10 s, the last: {last}");
                }
                maintenance = now + MAINTENANCE;
            }
            while let Ok(ask) = self.asks.try_recv() {
                match ask {
                    Ask::Stop => return self.stop(),
                    Ask::Question(question) => question(&self),
                    Ask::Watched => self.watched(),
                    Ask::Explain(question, reply) => self.explain(now, &question, reply),
                    Ask::Common(request, reply) => self.common(now, request, reply),
                    // A client may have given up by then.
                    Ask::Drain(reply) => drop(reply.send(self.drain(now))),
                    Ask::Configure(settings) => {
                        self.settings = *settings;
                        self.configure(now);
                    }
                }
            }
            let (inputs, hears_more) = self.devices.hear();
            for input in inputs {
                if let Some(core) = &mut self.reign.core {
                    core.handle(now, input);
                }
                self.carry_out(now);
            }
            let received = self.port.receive(now, &mut self.pool, &mut batch);
            for packet in batch.drain(..) {
                let bytes = self.pool.data(&packet).to_vec();
                self.pool.free(packet);
                self.hub.handle(now, hub::Input::Frame(bytes));
            }
            if self.hub.next_deadline() <= now {
                self.hub.handle(now, hub::Input::Tick);
            }
            if self.reign.next_deadline() <= now {
                self.reign.run(now, unix_ms() / 1000);
            }
            self.carry_out(now);
            // Everything that these frames have changed is written together.
            while self.hear_keeper(now) {
                self.carry_out(now);
            }
            if received == 0 && !hears_more {
                let deadline = self.hub.next_deadline().min(self.reign.next_deadline());
                self.sleep(now, deadline.min(maintenance));
            }
        }
    }

    /// Puts changed settings into force.
    fn configure(&mut self, now: Time) {
        let settings = match &self.reign.core {
            Some(core) => common::all_settings(&self.settings, core),
            None => self.settings.clone(),
        };
        self.hub.set_node_timeout(node_timeout(&settings));
        let gone = self.hub.set_revoked(now, revoked(&settings));
        self.devices.configure(&settings);
        for node in gone {
            self.reign.handle(now, Input::NodeDown { node });
        }
        self.reign.handle(now, Input::Configure(Box::new(settings)));
    }

    fn now(&self) -> Time {
        let running = since_boot().saturating_sub(self.started);
        Time::from_nanos(u64::try_from(running.as_nanos()).unwrap_or(u64::MAX))
    }

    fn sleep(&mut self, now: Time, until: Time) {
        let fds = self.port.fd().into_iter().chain(self.link_news.as_ref().map(LinkNews::fd));
        let fds: Vec<_> = fds.collect();
        if let Err(error) = self.sleeper.sleep(fds, Some(until.since(now))) {
            tracing::error!(%error, "the controller cannot sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn look_after_link(&mut self, now: Time) {
        let link = self.port.maintain(now, &mut self.pool);
        if link == self.link {
            return;
        }
        self.link = link;
        let facts = match (link, plexus_io::device_facts(&self.device)) {
            (Link::Up, Ok(device)) => Some(LinkFacts {
                port: 0,
                mac: device.mac,
                mtu: u16::try_from(device.mtu).unwrap_or(u16::MAX),
                rate_mbit_per_s: 0,
                native: false,
                takes_owed: false,
            }),
            _ => None,
        };
        tracing::info!(
            device = self.device,
            "link is {}",
            if facts.is_some() { "up" } else { "down" }
        );
        self.hub.handle(now, hub::Input::Port(facts));
    }

    /// Carries out what hub and core want, until neither wants anything.
    fn carry_out(&mut self, now: Time) {
        let mut frames = Vec::new();
        loop {
            self.follow_tenure(now);
            self.follow(now);
            if let Some(output) = self.hub.poll_output() {
                self.hub_output(now, output, &mut frames);
            } else if let Some(output) = self.reign.poll_core() {
                self.core_output(now, output);
            } else {
                break;
            }
        }
        for chunk in frames.chunks(plexus_io::BATCH) {
            let mut batch: Batch = chunk.iter().filter_map(|f| self.pool.alloc_from(f)).collect();
            self.port.transmit(now, &mut self.pool, &mut batch);
            self.done.unsent += batch.len() as u64;
            // What does not fit is sent again by whoever misses it.
            batch.drain(..).for_each(|packet| self.pool.free(packet));
        }
    }

    fn hub_output(&mut self, now: Time, output: hub::Output, frames: &mut Vec<Vec<u8>>) {
        let input = match output {
            hub::Output::Transmit(frame) => return frames.push(frame),
            hub::Output::Refused(why) => {
                self.done.refused += 1;
                return tracing::debug!(why, "message refused");
            }
            hub::Output::NumberTaken { node, holder, refused } => {
                return self.tell_of_dispute(node, &holder, &refused);
            }
            hub::Output::Stranger(stranger) => {
                let advice = stranger.advice();
                return tracing::warn!(device = self.device, "{stranger}: {advice}");
            }
            hub::Output::Attached(neighbour) => {
                match &neighbour {
                    Some(n) => tracing::info!(node = n.name, port = n.facts.port, "attached"),
                    None => tracing::warn!("attached to no node"),
                }
                self.attached = neighbour.map(|n| n.node);
                self.reign.tenure.attach(now, self.attached.is_some());
                Input::Attached { to: self.attached }
            }
            hub::Output::Leader(leader) => return self.reign.tenure.hear(now, leader),
            hub::Output::NodeUp { node, name, version } => Input::NodeUp { node, name, version },
            hub::Output::Said { node, body } => Input::Message { node, request: 0, body },
        };
        self.reign.handle(now, input);
    }

    /// Ends in order: the lease first, so that another controller can lead at once.
    fn stop(mut self) {
        self.reign.tenure.stop();
        self.follow_tenure(self.now());
        self.port.close(&mut self.pool);
    }

    /// Reports that two live nodes have the same number.
    fn tell_of_dispute(&self, number: u64, holder: &Claimant, refused: &Claimant) {
        let [keeps, not] = [holder, refused]
            .map(|c| format!("{} (key {}, at {})", c.name, short_key(&c.key), self.place(&c.path)));
        let what = match holder.key == refused.key {
            true => "Both use one identity: issue another one to one of the two boxes",
            false => "Switch one of them off, or issue another number to it",
        };
        tracing::warn!(
            number,
            "two live nodes have this number: {keeps} keeps it, and {not} is refused until the \
             first one is silent. {what} (`plexus identity issue`)"
        );
    }

    /// Where a node is: the last port on the path to it, which begins with the controller's port.
    fn place(&self, path: &[u8]) -> String {
        // The first hop is the controller's port, the last one the node's control plane.
        let hops = path.get(1..path.len().saturating_sub(1)).unwrap_or_default();
        let Some((port, way)) = hops.split_last() else {
            return format!("the controller's device {}", self.device);
        };
        let mut at = self.attached;
        for hop in way {
            let node =
                self.reign.core.iter().flat_map(Controller::nodes).find(|n| Some(n.node) == at);
            at = node.and_then(|n| n.ports.iter().find(|p| p.port == *hop).map(|p| p.peer));
        }
        let mut nodes = self.reign.core.iter().flat_map(Controller::nodes);
        let name = nodes.find(|n| Some(n.node) == at).map(|n| n.name);
        format!("port {port} of {}", name.unwrap_or_else(|| "an unknown node".into()))
    }

    fn core_output(&mut self, now: Time, output: Output) {
        match output {
            Output::Send { node, reliable, body, .. } => {
                self.done.routes += routes_in(&body);
                self.hub.say(now, node, body, reliable);
            }
            Output::Path { node, hops } => {
                // From our own port on.
                let whole = hops.map(|hops| [&[0], &hops[..]].concat());
                self.hub.set_path(node, whole);
            }
            Output::Store { ticket, changes } => {
                let Some(epoch) = self.reign.core.as_ref().map(Controller::epoch) else { return };
                self.keeper.ask(ToStore::Write { epoch, ticket, changes });
            }
            Output::Explained { question, told } => self.tell_explained(question, told),
            Output::CommonTold { question, told } => self.tell_common(now, question, told),
            Output::CommonKept => {
                tracing::info!("nodes keep another version of the common file");
                self.configure(now);
            }
            Output::Log(event) => self.log(now, &event),
        }
    }

    /// Writes an event into the log, unless hosts have caused many of its kind.
    fn log(&mut self, now: Time, event: &Event) {
        let why = match event {
            Event::ClaimRefused { why, .. } | Event::PortClosed { why, .. } => Some(*why),
            _ => None,
        };
        if *event == Event::RoutesFit {
            self.devices.read_again();
        }
        if self.quiet.admits(now, (discriminant(event), why), || event.to_string()) {
            self.events.keep(event, self.reign.core.as_ref());
            match event {
                Event::RoutesFull | Event::GroupsFull | Event::TableWrong { .. } => {
                    tracing::warn!("{event}");
                }
                _ => tracing::info!("{event}"),
            }
        }
    }

    fn metrics(&self) -> String {
        metrics::text(&Facts {
            name: &self.own.1,
            leads: self.reign.is_sure(),
            is_provisional: self.reign.tenure.is_provisional(),
            store_works: self.store_trouble.is_none(),
            epoch: self.reign.core.as_ref().map_or(0, Controller::epoch),
            follows: self.reign.follower.as_ref().map_or(0, Controller::nodes_up).into(),
            questions: self.reign.counts().map_or(0, |counts| counts.questions),
            counts: self.reign.core.as_ref().map(Controller::counts).unwrap_or_default(),
            drops: self.reign.core.as_ref().map(drops).unwrap_or_default(),
            attached: self.attached.is_some(),
            port: self.port.stats(),
            done: self.done,
        })
    }
}

/// Messages and frames that a core did not act on, by reason.
fn drops(core: &Controller) -> BTreeMap<String, u64> {
    core.drops().map(|(why, count)| (word(&why), count)).collect()
}

fn node_timeout(settings: &ControllerSettings) -> Duration {
    Duration::from_millis(settings.limits.node_timeout_ms.into())
}

/// Entries of route memories that a message carries.
fn routes_in(body: &Body) -> u64 {
    match body {
        Body::ResolveForward(_) | Body::ShortForward(_) => 2,
        Body::RouteUpdate(update) => update.routes.len() as u64,
        _ => 0,
    }
}
