//! Pauses of the workers, so that packets that wait for a control plane stay in order.
//!
//! A packet to a neighbour that is not known yet waits in the control plane. Later the control
//! plane enters the neighbour into the tables, and hands the packet back to be forwarded. Workers
//! see the tables first and the packet afterwards: the next packet of its flow would overtake it.
//! So the workers receive nothing in between.
//!
//! ```text
//! control plane: ask for a pause, take packets in, change tables, hand packets back, end it
//! worker:        hand over the last packets, pause ..............................., forward them
//! ```
//!
//! Hosts can cause pauses: a new neighbour takes one. So a pause is short, and those of a control
//! plane take a tenth of the time at most. Beyond that, packets may overtake each other. They may
//! do so, too, in a node of several workers with a router of its own: that hands packets back to
//! the first worker, whichever received them.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::running::Handle;
use super::thread::Ask;

/// Longest pause. At some 500,000 packets/s the queue of a device holds what comes meanwhile.
const PAUSE_MAX: Duration = Duration::from_millis(4);
/// How long workers are waited for: the others pause already.
const ARRIVAL_MAX: Duration = Duration::from_millis(2);
/// Of any time that is long beside `SHORT`, pauses take at most one part in `SHARE`.
const SHARE: u32 = 10;
const SHORT: Duration = Duration::from_millis(200);

/// The pauses that one control plane asks for.
pub(crate) struct Pauses {
    workers: Vec<Handle>,
    longest: Duration,
    arrival: Duration,
    /// Since when the workers pause, and what ends it when it is dropped.
    pause: Option<(Instant, Vec<Sender<Infallible>>)>,
    /// No pause begins before this time.
    paid: Option<Instant>,
}

/// An order to a worker to pause.
pub(crate) struct Order {
    here: Sender<()>,
    /// It closes when the pause ends.
    end: Receiver<Infallible>,
    longest: Duration,
}

impl Order {
    /// Pauses. The worker has handed over all packets that it had for the control plane.
    pub(crate) fn obey(self) {
        let _ = self.here.send(());
        let _ = self.end.recv_timeout(self.longest);
    }
}

impl Pauses {
    /// Of these workers.
    pub(crate) fn new(workers: Vec<Handle>) -> Pauses {
        Pauses { workers, longest: PAUSE_MAX, arrival: ARRIVAL_MAX, pause: None, paid: None }
    }

    /// Waits until all workers pause. False: it was too soon, or one of them did not come.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        if self.goes_on(now) {
            return true;
        }
        self.end(now);
        if self.paid.is_some_and(|paid| now < paid) {
            return false;
        }
        let (here, arrivals) = channel();
        let order = |worker: &Handle| {
            let (hold, end) = channel();
            worker.tell(Ask::Pause(Order { here: here.clone(), end, longest: self.longest }));
            hold
        };
        self.pause = Some((now, self.workers.iter().map(order).collect()));
        let until = now + self.arrival;
        let has_come = |_: &Handle| {
            let left = until.saturating_duration_since(Instant::now());
            arrivals.recv_timeout(left).is_ok()
        };
        let all = self.workers.iter().all(has_come);
        if !all {
            self.end(Instant::now());
        }
        all
    }

    /// Whether the workers still pause.
    pub(crate) fn goes_on(&self, now: Instant) -> bool {
        self.pause.as_ref().is_some_and(|(since, _)| now < *since + self.longest)
    }

    /// Lets the workers go on.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some((since, _)) = self.pause.take() {
            // Workers go on by themselves.
            let took = (now - since).min(2 * self.longest);
            let short = now.checked_sub(SHORT);
            let from = self.paid.max(short).unwrap_or(since);
            self.paid = Some(from + took * SHARE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::TryRecvError;
    use std::thread;

    use plexus_io::wake::Sleeper;

    use super::*;

    /// A worker's thread, which counts its turns and answers nothing but orders to pause.
    struct Counting {
        turns: Arc<AtomicU64>,
        worker: Handle,
    }

    impl Counting {
        fn start() -> Counting {
            let (ask, asks) = channel();
            let ((_, waker), turns) = (Sleeper::new().unwrap(), Arc::new(AtomicU64::new(0)));
            let counted = turns.clone();
            thread::spawn(move || {
                loop {
                    counted.fetch_add(1, Ordering::SeqCst);
                    match asks.try_recv() {
                        Ok(Ask::Pause(order)) => order.obey(),
                        Ok(_) | Err(TryRecvError::Empty) => thread::yield_now(),
                        Err(TryRecvError::Disconnected) => return,
                    }
                }
            });
            Counting { turns, worker: Handle { ask, waker } }
        }

        fn turns(&self) -> u64 {
            self.turns.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn workers_take_no_turn_in_a_pause_and_go_on_afterwards() {
        let workers = [Counting::start(), Counting::start()];
        let handles = workers.iter().map(|counting| counting.worker.clone()).collect();
        let minute = Duration::from_secs(60);
        let mut pauses = Pauses { longest: minute, arrival: minute, ..Pauses::new(handles) };
        assert!(pauses.begin(Instant::now()));
        let before = workers.each_ref().map(Counting::turns);
        (0..1000).for_each(|_| thread::yield_now());
        assert_eq!(workers.each_ref().map(Counting::turns), before);
        assert!(pauses.goes_on(Instant::now()));
        pauses.end(Instant::now());
        while workers.iter().zip(before).any(|(counting, before)| counting.turns() == before) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_worker_that_does_not_come_is_not_waited_for_and_does_not_wait_later() {
        let (ask, asks) = channel();
        let (_, waker) = Sleeper::new().unwrap();
        let mut pauses = Pauses::new(vec![Handle { ask, waker }]);
        assert!(!pauses.begin(Instant::now()));
        assert!(!pauses.goes_on(Instant::now()));
        let Ok(Ask::Pause(order)) = asks.try_recv() else { panic!("no order") };
        Order { longest: Duration::from_secs(3600), ..order }.obey();
    }

    #[test]
    fn pauses_take_a_tenth_of_the_time() {
        let counting = Counting::start();
        let mut pauses = Pauses::new(vec![counting.worker.clone()]);
        (pauses.longest, pauses.arrival) = (Duration::from_secs(60), Duration::from_secs(60));
        let mut now = Instant::now();
        let mut count = 0;
        // One that follows the other takes what is left.
        for _ in 0..100_000 {
            if pauses.begin(now) {
                count += 1;
                now += Duration::from_millis(2);
                pauses.end(now);
            }
            now += Duration::from_micros(100);
        }
        // 2 ms of every 20, and those of the first 200 at once.
        assert!((555..=580).contains(&count), "{count}");
    }
}
