//! A worker's thread: the only place of the data plane that reads a clock or sleeps.

use std::num::NonZeroU32;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_config::{NodeFile, PortFile};
use plexus_io::process::go_before_others;
use plexus_io::wake::{LinkNews, Sleeper};
use plexus_io::{Link, Port, PortId};
use plexus_plane::{
    DeepReport, Facts, FastReport, LinkChange, Onlooker, Punt, Question, Report, Sampled, Worker,
};
use plexus_table::{MacKey, Station};
use plexus_wire::Time;

use super::inner::WorkerEnd;
use super::load::WorkerLoad;
use super::pause::{Frames, Order};
use super::ports;

/// How often links are looked at and stations aged.
const MAINTENANCE: Duration = Duration::from_millis(100);
/// How often a busy worker checks for changed links. A change wakes a sleeping worker.
const LINK_NEWS: Duration = Duration::from_millis(1);
/// How long to wait before a device that was full is tried again.
const RETRY: Duration = Duration::from_micros(100);

/// Stations, and the nanoseconds since each was last heard.
pub(crate) type Stations = Vec<(MacKey, Station, u64)>;

/// Requests to a worker, answered between two batches.
pub(crate) enum Ask {
    /// Report the counters. Every worker waits at the barrier before and after, so that no packet
    /// is between two workers while they count.
    Report(Arc<Barrier>, Sender<(usize, Report)>),
    /// Report every known station, with its age in nanoseconds.
    Stations(Sender<(usize, Stations)>),
    /// Report this worker's part of the fast table.
    Fast(Sender<(usize, FastReport)>),
    /// Begin a sample of flows.
    BeginSample(Sender<(usize, ())>),
    /// End it, and report it.
    EndSample(Sender<(usize, Option<Sampled>)>),
    /// Tell what decides about the frame of a question.
    Facts(Box<Question>, Sender<(usize, Facts)>),
    /// Report this worker's deep buffer.
    Deep(Sender<(usize, Option<DeepReport>)>),
    /// Show the frames of a port to the onlooker of this number; of those in the fast table, if it
    /// wants only samples, one in so many.
    Watch(PortId, u64, Option<NonZeroU32>, Onlooker),
    /// Remove the onlooker of this number.
    Unwatch(u64),
    /// Another worker's port has gone up or down.
    Link(PortId, Link),
    /// Make a port deaf, or let it hear again.
    Silence(PortId, bool),
    /// Open one more port over this worker's pool, and keep it until it is added.
    Open(Box<(NodeFile, PortFile)>, Sender<Result<ports::HowOpened, String>>),
    /// Add the ports that were opened, under these numbers in order. Without numbers close them.
    Add(Vec<PortId>),
    /// Give a port up.
    Remove(PortId),
    /// Take no further turn for a moment.
    Pause(Order),
    /// Send the control plane's frames.
    Inject(Frames),
    /// End.
    Stop,
}

/// The result of the requests.
enum Answered {
    /// Nothing to do about packets.
    Nothing,
    /// There are packets to send.
    Injected,
    /// The end.
    Stop,
}

/// What runs in the thread.
pub(crate) struct Thread {
    pub(crate) index: usize,
    pub(crate) worker: Worker,
    pub(crate) asks: Receiver<Ask>,
    pub(crate) sleeper: Sleeper,
    pub(crate) started: Instant,
    /// Called with every change of a link of this worker's ports, or of its longest frame.
    pub(crate) on_link: Box<dyn Fn(LinkChange) + Send>,
    /// Called with every frame for the control plane of a fabric node or a router.
    pub(crate) on_control: Option<OnControl>,
    /// The rings to and from the forwarder of names, if ports of this worker carry named data.
    pub(crate) named: Option<WorkerEnd>,
    /// Reports changed links at once. Without it, maintenance finds them.
    pub(crate) link_news: Option<LinkNews>,
    /// Its counts.
    pub(crate) load: Arc<WorkerLoad>,
    /// Ports that are open, and not yet added to the worker.
    pub(crate) opened: Vec<Box<dyn Port>>,
}

/// Takes a frame for the control plane: why, the port and the VLAN that it came in by, its bytes.
pub(crate) type OnControl = Box<dyn Fn(Punt, PortId, u16, Vec<u8>) + Send>;

/// The time of a node that has been running since an instant.
pub(crate) fn time_since(started: Instant) -> Time {
    Time::from_nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Starts the thread of a control plane.
///
/// # Errors
/// When it cannot be.
pub(crate) fn start_control_plane(
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, String> {
    let run = || {
        go_before_others();
        run();
    };
    let thread = std::thread::Builder::new().name("control-plane".into()).spawn(run);
    thread.map_err(|e| format!("starting the control plane: {e}"))
}

impl Thread {
    /// Moves packets until told to stop.
    pub(crate) fn run(mut self) {
        go_before_others();
        let (mut maintenance, mut link_news) = (Time::ZERO, Time::ZERO);
        loop {
            let now = self.now();
            // It costs a system call, so not with every batch.
            let changed = now >= link_news && self.link_news.as_ref().is_some_and(LinkNews::take);
            if now >= link_news {
                link_news = now + LINK_NEWS;
            }
            if now >= maintenance || changed {
                self.worker.maintain(now).into_iter().for_each(&self.on_link);
                self.load.set_routed(self.worker.pipeline().counters().routed_in_all());
                maintenance = now + MAINTENANCE;
            }
            let busy = self.worker.turn(now);
            self.hand_over();
            let named = self.named.as_mut().is_some_and(|n| n.pass(now, &mut self.worker));
            match self.answer(now) {
                Answered::Stop => break,
                // Injected packets leave with the next turn.
                Answered::Injected => {}
                Answered::Nothing if busy || named => {}
                Answered::Nothing => self.sleep(now, maintenance),
            }
        }
        // The packets injected last have not left yet.
        let now = self.now();
        self.worker.turn(now);
        self.worker.close(now);
    }

    /// Hands packets over to the control planes.
    fn hand_over(&mut self) {
        if let Some(on_control) = &self.on_control {
            self.worker.take_control(|punt, port, vlan, bytes| {
                on_control(punt, port, vlan, bytes.into());
            });
        }
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    fn sleep(&mut self, now: Time, maintenance: Time) {
        let deadline = self.worker.next_deadline().min(maintenance);
        if deadline <= now || !self.worker.may_sleep() {
            return;
        }
        let mut limit = deadline.since(now);
        let ports = self.worker.wait_for().map(|(fd, full)| {
            if full {
                limit = limit.min(RETRY);
            }
            fd
        });
        let news = self.link_news.as_ref().map(LinkNews::fd);
        let ports: Vec<_> = ports.chain(news).collect();
        if let Err(error) = self.sleeper.sleep(ports, Some(limit)) {
            tracing::error!(%error, "a worker cannot sleep");
            std::thread::sleep(RETRY);
        }
        self.worker.awake();
        self.load.slept(self.now().since(now));
    }

    /// Answers what was asked.
    fn answer(&mut self, now: Time) -> Answered {
        let mut answered = Answered::Nothing;
        loop {
            match self.asks.try_recv() {
                Err(TryRecvError::Empty) => return answered,
                Ok(Ask::Report(barrier, reply)) => {
                    barrier.wait();
                    self.worker.count_fast(now);
                    let report = self.worker.report();
                    barrier.wait();
                    // The asker may have gone.
                    let _ = reply.send((self.index, report));
                }
                Ok(Ask::Stations(reply)) => {
                    let all = self.worker.pipeline().switch().stations(now).collect();
                    let _ = reply.send((self.index, all));
                }
                Ok(Ask::Fast(reply)) => {
                    let _ = reply.send((self.index, self.worker.fast()));
                }
                Ok(Ask::BeginSample(reply)) => {
                    self.worker.begin_sample(now);
                    let _ = reply.send((self.index, ()));
                }
                Ok(Ask::EndSample(reply)) => {
                    let _ = reply.send((self.index, self.worker.end_sample(now)));
                }
                Ok(Ask::Facts(question, reply)) => {
                    let _ = reply.send((self.index, self.worker.facts(now, &question)));
                }
                Ok(Ask::Deep(reply)) => {
                    let _ = reply.send((self.index, self.worker.deep(now)));
                }
                Ok(Ask::Watch(port, number, one_in, see)) => {
                    self.worker.watch(now, port, number, one_in, see);
                }
                Ok(Ask::Unwatch(number)) => self.worker.unwatch(now, number),
                Ok(Ask::Silence(port, on)) => self.worker.silence(now, port, on),
                Ok(Ask::Open(what, reply)) => {
                    let (file, port) = *what;
                    let opened = ports::open_beside(&file, &port, self.worker.pool());
                    let how = opened.map(|(port, how)| {
                        self.opened.push(port);
                        how
                    });
                    let _ = reply.send(how);
                }
                Ok(Ask::Add(ids)) => {
                    let mut ids = ids.into_iter();
                    for mut port in std::mem::take(&mut self.opened) {
                        match ids.next() {
                            Some(id) => self.worker.add_port(now, id, port),
                            None => port.close(self.worker.pool()),
                        }
                    }
                }
                Ok(Ask::Remove(port)) => {
                    self.worker.remove_port(now, port).into_iter().for_each(&self.on_link);
                }
                Ok(Ask::Pause(order)) => {
                    // An injected packet may be the control plane's again.
                    self.hand_over();
                    answered = Answered::Injected;
                    order.obey(|frames| {
                        let now = time_since(self.started);
                        inject(&mut self.worker, now, frames);
                        self.worker.exchange(now);
                    });
                }
                Ok(Ask::Inject(frames)) => {
                    answered = Answered::Injected;
                    inject(&mut self.worker, now, frames);
                }
                Ok(Ask::Link(port, link)) => self.worker.hear_link(now, port, link),
                Ok(Ask::Stop) | Err(TryRecvError::Disconnected) => return Answered::Stop,
            }
        }
    }
}

fn inject(worker: &mut Worker, now: Time, frames: Frames) {
    for (how, bytes) in frames {
        // The data plane counts drops.
        let _ = worker.inject(now, &bytes, how);
    }
}
