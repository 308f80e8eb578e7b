//! A worker beside the first: a thread that owns a forwarder and its disks, and no socket.
//!
//! Packets come by a ring from the first worker, which has the faces, and return by another ring.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use plexus_io::wake::Sleeper;
use plexus_ndn::forwarder::Arrived;
use plexus_ndn::plan::Published;
use plexus_plane::carriers::Bell;
use plexus_wire::Time;

use super::crew::{Order, Other};
use super::crossing::{BATCH, Carrier, Inward, Outward, way};
use super::share::{Plot, Share, pin_to_processor};
use crate::node::thread::time_since;

/// The pause if the kernel refuses to let the thread sleep.
const RETRY: Duration = Duration::from_millis(1);

/// A worker that was started, and may still be making its tables.
pub(super) struct Begun {
    thread: JoinHandle<()>,
    orders: mpsc::Sender<Order>,
    ready: Receiver<Result<(Outward, Inward, Bell), String>>,
}

/// Starts the thread. `home` is the first worker's bell.
///
/// # Errors
/// In words, when the thread cannot be started.
pub(super) fn start(plot: Plot, home: Bell) -> Result<Begun, String> {
    let (orders, inbox) = mpsc::channel();
    let (told, ready) = mpsc::channel();
    let index = plot.index;
    let run = move || match Worker::new(plot, home, inbox) {
        Ok((worker, ends)) => {
            // The thread that starts this one waits for the message.
            let _ = told.send(Ok(ends));
            worker.run();
        }
        Err(why) => drop(told.send(Err(why))),
    };
    let run = move || {
        // Without one of its workers a node would never answer the names of that worker's share.
        // A restart is better.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            tracing::error!(worker = index, "a worker of named data ended with a panic");
            std::process::exit(70);
        }
    };
    let thread = std::thread::Builder::new().name(format!("named-data-{index}")).spawn(run);
    let thread = thread.map_err(|e| format!("starting worker {index} of named data: {e}"))?;
    Ok(Begun { thread, orders, ready })
}

impl Begun {
    /// Waits until it has its tables.
    ///
    /// # Errors
    /// In words, when it cannot make them.
    pub(super) fn wait(self) -> Result<Other, String> {
        let Begun { thread, orders, ready } = self;
        let gone = |_| String::from("a worker of named data has ended");
        let (to, from, bell) = ready.recv().map_err(gone)??;
        Ok(Other { to, from, bell, orders, thread: Some(thread) })
    }
}

struct Worker {
    share: Share,
    from: Inward,
    to: Outward,
    bell: Bell,
    sleeper: Sleeper,
    orders: Receiver<Order>,
    published: Published,
    started: Instant,
}

impl Worker {
    /// The worker, and the other ends of its rings with its bell.
    fn new(
        plot: Plot,
        home: Bell,
        orders: Receiver<Order>,
    ) -> Result<(Worker, (Outward, Inward, Bell)), String> {
        pin_to_processor(&plot.settings, plot.index)?;
        let (published, started) = (plot.published.clone(), plot.started);
        let (sleeper, waker) = Sleeper::new().map_err(|e| format!("event descriptor: {e}"))?;
        let bell = Bell::new(waker);
        let (theirs, from) = way(bell.clone());
        let (to, at_home) = way(home);
        let share = Share::open(plot)?;
        let ends = (theirs, at_home, bell.clone());
        Ok((Worker { share, from, to, bell, sleeper, orders, published, started }, ends))
    }

    fn run(mut self) {
        loop {
            // The order matters: see `crew`.
            let arrived = self.from.arrived().min(BATCH);
            if !self.obey() {
                break;
            }
            self.share.forwarder.refresh(&self.published);
            self.forward(arrived);
            let now = self.now();
            self.share.turn(now, &mut self.to);
            self.to.ring();
            if arrived == 0 {
                self.sleep(now);
            }
        }
        self.share.close(self.now(), &mut self.to);
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    /// Forwards a batch of packets that have arrived.
    fn forward(&mut self, arrived: usize) {
        let carriers: ArrayVec<Box<Carrier>, BATCH> =
            std::iter::from_fn(|| self.from.pop()).take(arrived).collect();
        let batch: ArrayVec<Arrived<'_>, BATCH> = carriers
            .iter()
            .map(|c| Arrived { face: c.face(), headers: c.headers(), packet: c.packet() })
            .collect();
        for (carrier, arrived) in carriers.iter().zip(&batch) {
            self.share.count_copy(carrier.is_copy(), arrived);
        }
        self.share.forwarder.receive_batch(self.now(), &batch, &mut self.to);
        drop(batch);
        carriers.into_iter().for_each(|carrier| self.from.send_home(carrier));
    }

    /// Carries out what was ordered; false at the end.
    fn obey(&mut self) -> bool {
        loop {
            // The asker may have gone.
            match self.orders.try_recv() {
                Ok(Order::Face(id, face)) => self.share.add_face(id, face),
                Ok(Order::Gone(id)) => self.share.remove_face(id),
                Ok(Order::Cache(change)) => self.share.set_cache(change),
                Ok(Order::Prefetch(chunks)) => self.share.set_prefetch(chunks),
                Ok(Order::Erase(prefix, count, reply)) => {
                    let _ = reply.send(self.share.erase(prefix.as_name(), count));
                }
                Ok(Order::Answered(faces, reply)) => {
                    let _ = reply.send(self.share.answered(&faces));
                }
                Ok(Order::Report(with_faces, reply)) => {
                    let mut report = self.share.report(with_faces);
                    report.returned = self.to.counted();
                    let _ = reply.send(report);
                }
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Sleeps until a packet or an order comes, or something is due.
    fn sleep(&mut self, now: Time) {
        if !self.bell.may_sleep(|| self.from.is_empty()) {
            return;
        }
        let limit = self.share.next_deadline().map(|due| due.since(now));
        if let Err(error) = self.sleeper.sleep(self.share.disks().fds(), limit) {
            tracing::error!(%error, "a worker of named data cannot sleep");
            std::thread::sleep(RETRY);
        }
        self.bell.awake();
    }
}
