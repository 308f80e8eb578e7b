//! A running node: the threads of its workers and control planes, and questions to them.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_api::answer::node::Counts;
use plexus_config::NodeFile;
use plexus_control::identity::{Identity, Role};
use plexus_control::node::common::Part;
use plexus_control::router::Route;
use plexus_io::disk::Reserved;
use plexus_io::wake::{LinkNews, Sleeper, Waker};
use plexus_io::{Link, PortId};
use plexus_node::ports::{Tables, expand};
use plexus_node::router::Router;
use plexus_plane::carriers::Bell;
use plexus_plane::{
    Account, Counters, DeepReport, Explanation, FastReport, Injection, LinkChange, Onlooker,
    PortReport, Published, Sampled, Snapshot, Worker, mesh,
};
use plexus_wire::Prefix;

use super::fast_table::HowFast;
use super::inner::WorkerEnd;
use super::links::LinkCells;
use super::load::WorkerLoad;
use super::named::{self, Named};
use super::news::{NEWS_MAX, News, Outlet, WANTED_MAX, Wanted};
use super::pause::Pauses;
use super::planes::{ControlPlane, ControlPlanes};
use super::ports::{self, Share};
use super::reload::Placed;
use super::router::RouterView;
use super::thread::{Ask, Stations, Thread, time_since};
use super::{fabric, fast_table, inner, reload, router};
use crate::ask::ask;
use crate::identity;

/// Most packets under way from one worker to another.
const CROSSING: usize = 512;
/// How long a worker may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A running node.
pub(crate) struct RunningNode {
    /// The threads of the control planes.
    control: ControlPlanes,
    /// The forwarder of named data.
    named: Option<Named>,
    /// The file in force, its ports by their numbers.
    file: RwLock<Arc<NodeFile>>,
    how: RwLock<Vec<ports::HowOpened>>,
    how_fast: HowFast,
    published: Published,
    tables: Tables,
    /// The state of every link, for people.
    links: Arc<LinkCells>,
    workers: Vec<Handle>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// One question to all workers at a time: two barriers at once would lock them up.
    asking: Mutex<()>,
    /// The next onlooker's number.
    onlookers: AtomicU64,
    started: Instant,
    /// Questions of the fabric's control plane.
    wanted: Mutex<Option<Receiver<Wanted>>>,
}

/// A configuration that a running node can adopt.
pub(crate) struct Changed {
    file: NodeFile,
    removed: Vec<PortId>,
    /// Another key of the node.
    identity: Option<Identity>,
    routes: Option<Vec<(Prefix, Route)>>,
    named: Option<named::Changed>,
    snapshot: Snapshot,
}

/// How to reach a worker.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) ask: Sender<Ask>,
    pub(crate) waker: Waker,
}

impl Handle {
    pub(crate) fn tell(&self, ask: Ask) {
        // A worker that has ended needs no messages.
        let _ = self.ask.send(ask);
        self.waker.wake();
    }
}

/// An onlooker at a port. Dropping this removes the onlooker.
pub(crate) struct Watching<'a> {
    worker: Option<&'a Handle>,
    number: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker {
            worker.tell(Ask::Unwatch(self.number));
        }
    }
}

/// The sum of all workers' reports.
pub(crate) struct Totals {
    /// By port number.
    pub(crate) ports: Vec<PortReport>,
    /// Summed over the workers.
    pub(crate) counters: Counters,
    /// Where every packet went.
    pub(crate) account: Account,
    /// Frames free and in all, by worker.
    pub(crate) frames: Vec<(usize, usize)>,
}

impl RunningNode {
    /// Opens the ports and starts the workers. `keeps`: the part of the common file that is in the
    /// file already. The caller keeps the reserved disk space when the whole node has started.
    ///
    /// # Errors
    /// In words for the person who started it.
    pub(crate) fn start(file: NodeFile, keeps: Part) -> Result<(RunningNode, Reserved), String> {
        let file = expand(file)?;
        let fabric = file.fabric.as_ref().map(|f| fabric::prepare(&file, f, keeps));
        let fabric = fabric.transpose()?;
        let router = file.router.as_ref().map(|r| router::prepare(&file, r)).transpose()?;
        let tables = Tables {
            fabric: fabric.as_ref().map(|f| f.source()),
            router: match &router {
                Some(router) => Some(router.source()),
                None => fabric.as_ref().and_then(|f| f.router_source()),
            },
        };
        let published = snapshot(&file, &tables)?.publish();
        let (shares, how) = ports::open(&file)?;
        let fast = fast_table::open(&file, &shares)?;
        let file = ports::pinned(file);
        let started = Instant::now();
        let links = Arc::new(LinkCells::new(file.ports.len()));
        let loads: Vec<Arc<WorkerLoad>> = shares.iter().map(|_| Arc::default()).collect();
        let mut handles = Vec::new();
        let mut beds = Vec::new();
        for _ in &shares {
            let (sleeper, waker) = Sleeper::new().map_err(|e| format!("event descriptor: {e}"))?;
            let (ask, asks) = mpsc::channel();
            handles.push(Handle { ask, waker });
            beds.push((sleeper, asks));
        }
        let plane = |missed: &Arc<AtomicU64>| {
            let (news, inbox) = mpsc::sync_channel(NEWS_MAX);
            let links = Arc::new(LinkCells::new(file.ports.len()));
            (ControlPlane { news, links, missed: missed.clone() }, inbox)
        };
        let (of_fabric, fabric_inbox) = fabric.as_ref().map(|f| plane(&f.missed)).unzip();
        let (of_router, router_inbox) = router.as_ref().map(|r| plane(&r.missed)).unzip();
        let control = ControlPlanes { fabric: of_fabric, router: of_router };
        let wakers: Vec<Waker> = handles.iter().map(|h: &Handle| h.waker.clone()).collect();
        let bells = wakers.iter().cloned().map(Bell::new);
        let meshed = bells.zip(shares.iter().map(|s| s.pool.max_len()));
        let crossings = mesh(&meshed.collect::<Vec<_>>(), CROSSING);
        let (face_ends, worker_ends) = inner::rings(&file, &wakers)?;
        let named = file.named.as_ref().map(|named| Named::start(named, face_ends, started));
        let (named, threads, reserved) = match named.transpose()? {
            Some((named, thread, reserved)) => (Some(named), vec![thread], reserved),
            None => (None, vec![], Reserved::default()),
        };
        let faces = named.as_ref().map(Named::waker);
        let node = RunningNode {
            control: control.clone(),
            named,
            file: RwLock::new(Arc::new(file)),
            how: RwLock::new(how),
            how_fast: fast.how,
            published,
            links: links.clone(),
            tables,
            workers: handles,
            threads: Mutex::new(threads),
            asking: Mutex::default(),
            onlookers: AtomicU64::default(),
            started,
            wanted: Mutex::default(),
        };
        let mut parts = fast.parts.into_iter();
        for (index, (((share, crossing), (sleeper, asks)), ports)) in
            shares.into_iter().zip(crossings).zip(beds).zip(worker_ends).enumerate()
        {
            let faces = faces.clone().filter(|_| !ports.is_empty());
            let named = faces.map(|faces| WorkerEnd { ports, faces });
            // The standard library keys its hash maps from the operating system's randomness; an
            // empty hash with such keys is a random number.
            let seed = RandomState::new().hash_one(index);
            let Share { pool, ports } = share;
            let mut worker = Worker::new(index, pool, ports, &node.published, crossing, seed);
            if let Some(part) = parts.next() {
                worker.set_fast_table(part, fast.clears.clone(), seed);
            }
            let on_link = node.on_link(index);
            let link_news = LinkNews::listen()
                .inspect_err(|error| tracing::warn!(%error, "links are looked at now and then"))
                .ok();
            let on_control = control.on_control();
            let opened = Vec::new();
            let thread = Thread {
                index,
                worker,
                asks,
                sleeper,
                started,
                on_link,
                on_control,
                named,
                link_news,
                load: loads[index].clone(),
                opened,
            };
            let handle = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || {
                    // Without one of its workers a node would go on half alive, and the others
                    // would wait for it. A restart is better.
                    if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                        tracing::error!("a worker ended with a panic: the node ends");
                        std::process::exit(70);
                    }
                })
                .map_err(|e| format!("starting a worker: {e}"))?;
            lock(&node.threads).push(handle);
        }
        // Packets that the kernel forwards wake nobody.
        let wake = || {
            let workers = node.workers.clone();
            move || workers.iter().for_each(|worker| worker.waker.wake())
        };
        let is_fast = node.how_fast().kind != "off";
        if let (Some(mut fabric), Some(inbox), Some(control)) =
            (fabric, fabric_inbox, &control.fabric)
        {
            if is_fast {
                fabric.on_change(wake());
            }
            let (links, outlet) = (control.links.clone(), node.outlet());
            let (want, wanted) = mpsc::sync_channel(WANTED_MAX);
            let handle = fabric.start(inbox, links, outlet, loads, want, started)?;
            *lock(&node.wanted) = Some(wanted);
            lock(&node.threads).push(handle);
        }
        if let (Some(mut router), Some(inbox), Some(control)) =
            (router, router_inbox, &control.router)
        {
            if is_fast {
                router.on_change(wake());
            }
            let news = (inbox, control.news.clone());
            let handle = router.start(news, control.links.clone(), node.outlet(), started)?;
            lock(&node.threads).push(handle);
        }
        Ok((node, reserved))
    }

    /// The way from a control plane to the workers.
    fn outlet(&self) -> Outlet {
        let pauses = Pauses::new(self.workers.to_vec());
        let published = self.published.clone();
        let worker = move |how| match how {
            Injection::Port(port) | Injection::Named(port) | Injection::Routed(port) => {
                published.load().ports.get(usize::from(port)).map_or(0, |p| p.worker)
            }
            // Any worker can process these; what it cannot send it passes on.
            Injection::Fabric | Injection::Vlan(_) | Injection::Received(_) => 0,
        };
        Outlet { worker: Box::new(worker), pauses }
    }

    /// Tells people and the other workers of a link that changed.
    fn on_link(&self, index: usize) -> Box<dyn Fn(LinkChange) + Send> {
        let links = self.links.clone();
        let plan = self.published.clone();
        let control = self.control.clone();
        let others: Vec<Handle> = self
            .workers
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != index)
            .map(|(_, h)| h.clone())
            .collect();
        Box::new(move |change| {
            let LinkChange { port, link, max_frame, .. } = change;
            let plan = plan.load();
            let name = plan.ports.get(usize::from(port)).map_or("?", |p| p.name.as_str());
            control.tell_link(change);
            if links.tell(change, None) {
                let word = if link == Link::Up { "up" } else { "down" };
                tracing::info!(port = name, "link is {word}");
                for other in &others {
                    other.tell(Ask::Link(port, link));
                }
            } else {
                tracing::info!(port = name, max_frame, "the longest frame has changed");
            }
        })
    }

    /// The configuration in force.
    pub(crate) fn file(&self) -> Arc<NodeFile> {
        self.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How each port was opened.
    pub(crate) fn how(&self) -> Vec<ports::HowOpened> {
        self.how.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Which fast table it has.
    pub(crate) fn how_fast(&self) -> &HowFast {
        &self.how_fast
    }

    /// Each worker's part of the fast table.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub(crate) fn fast(&self) -> Result<Vec<FastReport>, String> {
        self.ask_all(Ask::Fast)
    }

    /// Takes a sample of all workers' flows for this long.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub(crate) fn sample(&self, lasts: Duration) -> Result<Vec<Sampled>, String> {
        self.ask_all(Ask::BeginSample)?;
        std::thread::sleep(lasts);
        Ok(self.ask_all(Ask::EndSample)?.into_iter().flatten().collect())
    }

    /// Each worker's deep buffer, if it has one.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub(crate) fn deep(&self) -> Result<Vec<Option<DeepReport>>, String> {
        self.ask_all(Ask::Deep)
    }

    /// Its treatment of a frame that comes in by a port.
    ///
    /// # Errors
    /// When there is no such port, or a worker does not answer.
    pub(crate) fn explain(&self, port: PortId, frame: &[u8]) -> Result<Explanation, String> {
        let plan = self.published.load_full();
        plexus_plane::explain(&plan, port, frame, |question| {
            self.ask_all(|reply| Ask::Facts(Box::new(question.clone()), reply))
        })
    }

    /// How long it has been running.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Prepares a change of the configuration.
    ///
    /// # Errors
    /// When it changes what only a restart can, or something that it names cannot be read.
    pub(crate) fn read(&self, file: NodeFile) -> Result<Changed, String> {
        let now = self.file();
        let Placed { file, removed } = reload::place(&now, expand(file)?);
        reload::check(&now, &file)?;
        Ok(Changed {
            removed,
            identity: self.changed_identity(&file)?,
            routes: file.router.as_ref().map(router::static_routes).transpose()?,
            // This thread may wait for certificates to be read; the thread that forwards may not.
            named: file.named.as_ref().map(named::Changed::read).transpose()?,
            snapshot: snapshot(&file, &self.tables)?,
            file,
        })
    }

    /// Adopts a changed configuration. The caller reads and adopts one at a time.
    ///
    /// # Errors
    /// When a new port does not open; nothing was changed.
    pub(crate) fn adopt(&self, changed: Changed) -> Result<(), String> {
        let Changed { file, removed, identity, routes, named, snapshot } = changed;
        let now = self.file();
        let known = now.ports.len();
        let opened = self.open(&file, known)?;
        self.published.store(Arc::new(snapshot));
        let new = file.ports[known..].to_vec();
        if let (Some(control), false) = (&self.control.fabric, new.is_empty()) {
            let _ = control.news.send(News::Ports(file.ports.len(), new));
        }
        if let (Some(control), false) = (&self.control.fabric, removed.is_empty()) {
            let _ = control.news.send(News::Removed(removed.clone()));
        }
        for port in removed {
            let owner = now.ports[usize::from(port)].worker.and_then(|w| self.workers.get(w));
            owner.into_iter().for_each(|worker| worker.tell(Ask::Remove(port)));
        }
        self.add(opened, known);
        if let (Some(control), Some(identity)) = (&self.control.fabric, identity) {
            let _ = control.news.send(News::Identity(Box::new(identity)));
        }
        // A control plane that has ended needs no news.
        if let (Some(control), Some(fabric)) = (&self.control.fabric, &file.fabric) {
            let _ = control.news.send(News::Lanes(fabric.lanes));
        }
        if let (Some(control), Some(routes)) = (&self.control.router, routes) {
            let _ = control.news.send(News::Routes(routes));
        }
        if let (Some(running), Some(named)) = (&self.named, named) {
            running.reload(named);
        }
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
        self.workers.iter().for_each(|w| w.waker.wake());
        Ok(())
    }

    /// The identity in the file of a fabric's node, if it is another one than the node has.
    ///
    /// # Errors
    /// When it cannot be read, or is not this node's.
    fn changed_identity(&self, file: &NodeFile) -> Result<Option<Identity>, String> {
        let Some(fabric) = &file.fabric else { return Ok(None) };
        let path = &fabric.identity;
        let new = identity::read(path, Role::Node)?;
        let own = self.ask_fabric(|driver| driver.identity().clone())?;
        let (claims, has) = (new.claims(), own.claims());
        if (&claims.group, claims.node, &claims.name) != (&has.group, has.node, &has.name) {
            let (path, has, is) = (path.display(), own.credential(), new.credential());
            return Err(format!(
                "{path} is {is}, and this node is {has}: only its key changes while it runs"
            ));
        }
        Ok((claims.static_public != has.static_public).then_some(new))
    }

    /// Has the workers open the ports of a changed file from this number on. Gives for each port
    /// its worker, and how it was opened.
    ///
    /// # Errors
    /// When a port does not open; then none is kept.
    fn open(
        &self,
        file: &NodeFile,
        known: usize,
    ) -> Result<Vec<(usize, ports::HowOpened)>, String> {
        let mut opened = Vec::new();
        for port in &file.ports[known..] {
            let worker = port.worker.unwrap_or(0);
            let (reply, answer) = mpsc::channel();
            self.workers[worker].tell(Ask::Open(Box::new((file.clone(), port.clone())), reply));
            let how = answer.recv_timeout(ANSWER_LIMIT);
            match how.map_err(|_| "a worker does not answer".to_string()).flatten() {
                Ok(how) => opened.push((worker, how)),
                Err(error) => {
                    self.workers.iter().for_each(|worker| worker.tell(Ask::Add(vec![])));
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    /// Has the workers add the ports that they have opened, from this number on.
    fn add(&self, opened: Vec<(usize, ports::HowOpened)>, known: usize) {
        let mut shares: Vec<Vec<PortId>> = vec![vec![]; self.workers.len()];
        let mut how = self.how.write().unwrap_or_else(PoisonError::into_inner);
        for (port, (worker, its)) in (known..).zip(opened) {
            shares[worker].push(port as PortId);
            how.push(its);
        }
        for (worker, ports) in self.workers.iter().zip(shares) {
            if !ports.is_empty() {
                worker.tell(Ask::Add(ports));
            }
        }
    }

    /// Counts of all workers, taken while none of them moves a packet.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub(crate) fn totals(&self) -> Result<Totals, String> {
        let reports = {
            let _one = lock(&self.asking);
            let barrier = Arc::new(Barrier::new(self.workers.len()));
            self.ask_all(|reply| Ask::Report(barrier.clone(), reply))?
        };
        let mut ports = Vec::new();
        let mut counters = Counters::new(self.file().ports.len());
        let mut account = Account::default();
        let mut frames = Vec::new();
        for report in reports {
            for port in &report.ports {
                account.add_port(&port.stats);
            }
            account.add_counters(&report.counters);
            account.held += report.held as u64;
            for (sum, c) in counters.ports.iter_mut().zip(&report.counters.ports) {
                sum.add(c);
            }
            frames.push(report.frames);
            ports.extend(report.ports);
        }
        ports.sort_by_key(|p| p.id);
        for port in &mut ports {
            // The device's own counts are of packets that passed the pipeline.
            if let Some(fast) = counters.ports.get(usize::from(port.id)) {
                port.stats.rx_packets += fast.fast_received;
                port.stats.rx_bytes += fast.fast_received_bytes;
                port.stats.tx_packets += fast.fast_sent;
                port.stats.tx_bytes += fast.fast_sent_bytes;
            }
        }
        Ok(Totals { ports, counters, account, frames })
    }

    /// Every station known, each as the worker of its port knows it.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub(crate) fn stations(&self) -> Result<Stations, String> {
        let owners = ports::owners(&self.file());
        let lists = self.ask_all(Ask::Stations)?;
        let mut all: Vec<_> = lists
            .into_iter()
            .enumerate()
            .flat_map(|(worker, list)| {
                let owners = &owners;
                list.into_iter().filter(move |(_, station, _)| {
                    owners.get(usize::from(station.port())) == Some(&worker)
                })
            })
            .collect();
        all.sort_by_key(|(key, _, _)| (key.vlan(), key.mac()));
        Ok(all)
    }

    /// Asks the control plane of the fabric.
    ///
    /// # Errors
    /// When there is none, or it does not answer.
    pub(crate) fn ask_fabric<T: Send + 'static>(
        &self,
        question: impl FnOnce(&fabric::Driver) -> T + Send + 'static,
    ) -> Result<T, String> {
        let control = self.control.fabric.as_ref();
        let control = control.ok_or("this node is in no fabric: its file has no [fabric]")?;
        ask("the fabric's control plane", question, |q| control.tell(News::AskFabric(q)))
    }

    /// Where the fabric's control plane asks about the workers, once; `None`: there is none.
    pub(crate) fn take_wanted(&self) -> Option<Receiver<Wanted>> {
        lock(&self.wanted).take()
    }

    /// Tells the fabric's control plane.
    pub(crate) fn tell_fabric(&self, news: News) {
        if let Some(control) = &self.control.fabric {
            control.tell(news);
        }
    }

    /// Asks the control plane of the router.
    ///
    /// # Errors
    /// When there is none, or it does not answer.
    pub(crate) fn ask_router<T: Send + 'static>(
        &self,
        question: impl FnOnce(&RouterView<'_>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let control = self.control.router.as_ref().or(self.control.fabric.as_ref());
        let control = control
            .ok_or("this node is no router: its file has neither [[interface]] nor [fabric]")?;
        let (now, missed) = (time_since(self.started), control.missed.load(Ordering::Relaxed));
        let question = move |router: &Router| question(&RouterView { router, now, missed });
        ask("the router's control plane", question, |q| control.tell(News::AskRouter(q)))
    }

    /// Consumed packets that the control planes did not serve, by reason.
    ///
    /// # Errors
    /// When one does not answer.
    pub(crate) fn unserved(&self) -> Result<Counts, String> {
        let mut sum = Counts::new();
        let fabric =
            self.control.fabric.as_ref().map(|_| self.ask_fabric(fabric::Driver::unserved));
        let router =
            self.control.router.as_ref().map(|_| self.ask_router(|asked| asked.unserved()));
        for counts in fabric.into_iter().chain(router) {
            for (why, count) in counts? {
                *sum.entry(why).or_default() += count;
            }
        }
        Ok(sum)
    }

    /// Asks the forwarder of named data.
    ///
    /// # Errors
    /// When there is none, or it does not answer.
    pub(crate) fn ask_named<T: Send + 'static>(
        &self,
        question: impl FnOnce(&named::Thread) -> T + Send + 'static,
    ) -> Result<T, String> {
        let named = self.named.as_ref();
        named.ok_or("this node forwards no named data: its file has no [named]")?.ask(question)
    }

    /// Makes a port deaf, or hear again: a cable that dies and keeps its carrier.
    ///
    /// # Errors
    /// When there is no such port.
    pub(crate) fn silence(&self, name: &str, on: bool) -> Result<(), String> {
        let file = self.file();
        let port = file.ports.iter().position(|p| p.name == name && !p.is_vacant());
        let port = port.ok_or_else(|| format!("there is no port '{name}'"))?;
        let owner = ports::owners(&file).get(port).and_then(|o| self.workers.get(*o));
        if let Some(owner) = owner {
            tracing::warn!(port = name, "made {} on purpose", if on { "deaf" } else { "to hear" });
            owner.tell(Ask::Silence(port as PortId, on));
        }
        Ok(())
    }

    /// Shows a port's frames to `see` as long as the answer is kept: all of them, or one in so many
    /// of those that the fast table forwards.
    pub(crate) fn watch(
        &self,
        port: PortId,
        one_in: Option<NonZeroU32>,
        see: Onlooker,
    ) -> Watching<'_> {
        let number = self.onlookers.fetch_add(1, Ordering::Relaxed);
        let owner = ports::owners(&self.file()).get(usize::from(port)).copied();
        let worker = owner.and_then(|o| self.workers.get(o));
        if let Some(worker) = worker {
            worker.tell(Ask::Watch(port, number, one_in, see));
        }
        Watching { worker, number }
    }

    /// Ends the workers and waits for them.
    pub(crate) fn stop(&self) {
        {
            // Not during a question: a worker would wait at the barrier for one that has ended.
            let _one = lock(&self.asking);
            // The control planes were started last and end first, so that workers send their last
            // frames.
            for control in self.control.iter() {
                let _ = control.news.send(News::Stop);
            }
            for _ in self.control.iter() {
                let thread = lock(&self.threads).pop();
                // A panic would have ended the process.
                thread.map(|thread| thread.join());
            }
            self.workers.iter().for_each(|w| w.tell(Ask::Stop));
        }
        if let Some(named) = &self.named {
            named.stop();
        }
        for thread in lock(&self.threads).drain(..) {
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }

    /// Every worker's answer, by worker.
    fn ask_all<T>(&self, ask: impl Fn(Sender<(usize, T)>) -> Ask) -> Result<Vec<T>, String> {
        let (reply, answers) = mpsc::channel();
        for worker in &self.workers {
            worker.ask.send(ask(reply.clone())).map_err(|_| "a worker has ended".to_string())?;
            worker.waker.wake();
        }
        let mut all = Vec::new();
        for _ in &self.workers {
            let answer = answers.recv_timeout(ANSWER_LIMIT);
            all.push(answer.map_err(|_| "a worker does not answer".to_string())?);
        }
        all.sort_by_key(|(worker, _)| *worker);
        Ok(all.into_iter().map(|(_, answer)| answer).collect())
    }
}

fn snapshot(file: &NodeFile, tables: &Tables) -> Result<Snapshot, String> {
    plexus_node::ports::snapshot(file, &ports::owners(file), tables, &inner::named(file)?)
}

/// A panic of another thread leaves the data valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
