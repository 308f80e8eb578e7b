//! Pauses of the workers, so that packets that wait for a control plane stay in order.
//!
//! A packet to a neighbour that is not known yet waits in the control plane. Later the control
//! plane enters the neighbour into the tables, and hands the packet back to be forwarded. Workers
//! see the tables first and the packet afterwards: the next packet of its flow would overtake it.
//! So the workers receive nothing in between.
//!
//! ```text
//! control plane: ask for a pause, take packets in, change tables, hand packets back, end it
//! worker:        hand over the last packets, pause .., forward them ................, go on
//! ```
//!
//! A packet may be handed back to another worker than the one that received it. So workers hand
//! over to each other what waits for the ports of others, before any of them receives more.
//!
//! Hosts can cause pauses: a new neighbour takes one. So a pause is short, and those of a control
//! plane take a tenth of the time at most. Beyond that, packets may overtake each other.

use std::mem::take;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plexus_plane::Injection;

use super::running::Handle;
use super::thread::Ask;

/// Packets that a control plane hands to a worker.
pub(crate) type Frames = Vec<(Injection, Vec<u8>)>;

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
    pause: Option<Pause>,
    /// No pause begins before this time.
    paid: Option<Instant>,
}

/// A pause of all workers.
struct Pause {
    since: Instant,
    /// By worker: tells it to take a step, and ends its pause when it is dropped; its packets.
    workers: Vec<(Sender<()>, Arc<Mutex<Frames>>)>,
    /// Workers that have come, or have taken a step.
    here: Receiver<()>,
}

/// An order to a worker to pause.
pub(crate) struct Order {
    here: Sender<()>,
    /// Tells it to take a step. It closes when the pause ends.
    steps: Receiver<()>,
    frames: Arc<Mutex<Frames>>,
    longest: Duration,
}

impl Order {
    /// Pauses. The worker has handed over all packets that it had for the control plane. `step`
    /// takes packets in, and exchanges packets with other workers.
    pub(crate) fn obey(self, mut step: impl FnMut(Frames)) {
        let _ = self.here.send(());
        let until = Instant::now() + self.longest;
        let left = || until.saturating_duration_since(Instant::now());
        while self.steps.recv_timeout(left()).is_ok() {
            step(take(&mut *lock(&self.frames)));
            let _ = self.here.send(());
        }
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
        let (own_here, here) = channel();
        let order = |worker: &Handle| {
            let (step, steps) = channel();
            let (here, frames) = (own_here.clone(), Arc::<Mutex<Frames>>::default());
            let order = Order { here, steps, frames: frames.clone(), longest: self.longest };
            worker.tell(Ask::Pause(order));
            (step, frames)
        };
        let workers: Vec<_> = self.workers.iter().map(order).collect();
        let pause = Pause { since: now, workers, here };
        let all = pause.have_come(self.workers.len(), now + self.arrival);
        self.pause = Some(pause);
        if !all {
            self.end(Instant::now());
        }
        all
    }

    /// Whether the workers still pause.
    pub(crate) fn goes_on(&self, now: Instant) -> bool {
        self.pause.as_ref().is_some_and(|pause| now < pause.since + self.longest)
    }

    /// Hands packets to the workers, of which `worker` tells the right one for each.
    pub(crate) fn hand(&mut self, frames: Frames, worker: impl Fn(Injection) -> usize) {
        if frames.is_empty() {
            return;
        }
        let mut shares = vec![Frames::new(); self.workers.len()];
        for frame in frames {
            if let Some(share) = shares.get_mut(worker(frame.0)) {
                share.push(frame);
            }
        }
        match &self.pause {
            // One that is alone sends them before it receives anything.
            Some(pause) if pause.workers.len() > 1 => {
                for ((_, frames), share) in pause.workers.iter().zip(shares) {
                    lock(frames).extend(share);
                }
                // All have handed over theirs before each takes in those of the others.
                let until = pause.since + self.longest;
                let _ = pause.step(until) && pause.step(until);
            }
            _ => give(&self.workers, shares),
        }
    }

    /// Lets the workers go on.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some(Pause { since, workers, .. }) = self.pause.take() {
            // A worker that went on by itself has left them.
            let left = workers.iter().map(|(_, frames)| take(&mut *lock(frames))).collect();
            give(&self.workers, left);
            drop(workers);
            let took = (now - since).min(2 * self.longest);
            let short = now.checked_sub(SHORT);
            let from = self.paid.max(short).unwrap_or(since);
            self.paid = Some(from + took * SHARE);
        }
    }
}

impl Pause {
    /// Waits until so many workers have come, or taken a step.
    fn have_come(&self, count: usize, until: Instant) -> bool {
        (0..count).all(|_| {
            let left = until.saturating_duration_since(Instant::now());
            self.here.recv_timeout(left).is_ok()
        })
    }

    /// Has all workers take a step, and waits for them. False: one of them goes on by itself.
    fn step(&self, until: Instant) -> bool {
        self.workers.iter().all(|(step, _)| step.send(()).is_ok())
            && self.have_come(self.workers.len(), until)
    }
}

/// Hands packets to workers that do not pause, by worker.
fn give(workers: &[Handle], shares: Vec<Frames>) {
    for (worker, share) in workers.iter().zip(shares) {
        if !share.is_empty() {
            worker.tell(Ask::Inject(share));
        }
    }
}

fn lock(frames: &Mutex<Frames>) -> MutexGuard<'_, Frames> {
    frames.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::TryRecvError;
    use std::thread;

    use plexus_io::PortId;
    use plexus_io::wake::Sleeper;

    use super::*;

    /// A worker's thread, which counts its turns and answers nothing but orders to pause.
    struct Counting {
        turns: Arc<AtomicU64>,
        worker: Handle,
        /// How many packets it got in each step, and without one.
        steps: Receiver<(bool, usize)>,
    }

    impl Counting {
        fn start() -> Counting {
            Counting::with(|order| order)
        }

        fn with(change: fn(Order) -> Order) -> Counting {
            let (ask, asks) = channel();
            let ((_, waker), turns) = (Sleeper::new().unwrap(), Arc::new(AtomicU64::new(0)));
            let ((told, steps), counted) = (channel(), turns.clone());
            thread::spawn(move || {
                loop {
                    counted.fetch_add(1, Ordering::SeqCst);
                    match asks.try_recv() {
                        Ok(Ask::Pause(order)) => {
                            change(order).obey(|frames| told.send((true, frames.len())).unwrap());
                        }
                        Ok(Ask::Inject(frames)) => told.send((false, frames.len())).unwrap(),
                        Ok(_) | Err(TryRecvError::Empty) => thread::yield_now(),
                        Err(TryRecvError::Disconnected) => return,
                    }
                }
            });
            Counting { turns, worker: Handle { ask, waker }, steps }
        }

        fn turns(&self) -> u64 {
            self.turns.load(Ordering::SeqCst)
        }
    }

    fn pauses_of(workers: &[Counting]) -> Pauses {
        let handles = workers.iter().map(|counting| counting.worker.clone()).collect();
        let minute = Duration::from_secs(60);
        Pauses { longest: minute, arrival: minute, ..Pauses::new(handles) }
    }

    /// The steps that each has taken since the last call.
    fn taken<const N: usize>(workers: &[Counting; N]) -> [Vec<(bool, usize)>; N] {
        workers.each_ref().map(|counting| counting.steps.try_iter().collect())
    }

    /// Packets for these workers.
    fn frames(workers: &[PortId]) -> Frames {
        workers.iter().map(|worker| (Injection::Port(*worker), vec![])).collect()
    }

    fn worker(how: Injection) -> usize {
        let Injection::Port(worker) = how else { panic!("{how:?}") };
        worker.into()
    }

    #[test]
    fn workers_take_no_turn_in_a_pause_and_go_on_afterwards() {
        let workers = [Counting::start(), Counting::start()];
        let mut pauses = pauses_of(&workers);
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

    /// In two steps: all forward what they get, and all exchange packets afterwards.
    #[test]
    fn workers_forward_what_they_get_before_any_of_them_goes_on() {
        let workers = [Counting::start(), Counting::start(), Counting::start()];
        let mut pauses = pauses_of(&workers);
        assert!(pauses.begin(Instant::now()));
        let before = workers.each_ref().map(Counting::turns);
        pauses.hand(frames(&[0, 2, 0]), worker);
        let steps = taken(&workers);
        let none = (true, 0);
        assert_eq!(steps, [vec![(true, 2), none], vec![none, none], vec![(true, 1), none]]);
        pauses.hand(frames(&[0]), worker);
        let steps = taken(&workers);
        assert_eq!(steps, [vec![(true, 1), none], vec![none, none], vec![none, none]]);
        pauses.hand(frames(&[]), worker);
        assert_eq!(taken(&workers), [const { vec![] }; 3]);
        assert_eq!(workers.each_ref().map(Counting::turns), before);
        pauses.end(Instant::now());
    }

    #[test]
    fn a_worker_that_has_gone_on_by_itself_gets_its_packets_later() {
        let impatient = || Counting::with(|order| Order { longest: Duration::ZERO, ..order });
        let workers = [impatient(), impatient()];
        let mut pauses = pauses_of(&workers);
        assert!(pauses.begin(Instant::now()));
        let turns = workers[0].turns();
        while workers[0].turns() == turns {
            thread::yield_now();
        }
        pauses.hand(frames(&[0, 0]), worker);
        pauses.end(Instant::now());
        assert_eq!(workers[0].steps.recv_timeout(Duration::from_secs(60)), Ok((false, 2)));
    }

    #[test]
    fn one_that_is_alone_needs_no_steps() {
        let counting = [Counting::start()];
        let mut pauses = pauses_of(&counting);
        assert!(pauses.begin(Instant::now()));
        pauses.hand(frames(&[0, 0]), worker);
        pauses.end(Instant::now());
        assert_eq!(counting[0].steps.recv_timeout(Duration::from_secs(60)), Ok((false, 2)));
    }

    #[test]
    fn a_worker_that_does_not_come_is_not_waited_for_and_does_not_wait_later() {
        let (ask, asks) = channel();
        let (_, waker) = Sleeper::new().unwrap();
        let mut pauses = Pauses::new(vec![Handle { ask, waker }]);
        assert!(!pauses.begin(Instant::now()));
        assert!(!pauses.goes_on(Instant::now()));
        let Ok(Ask::Pause(order)) = asks.try_recv() else { panic!("no order") };
        Order { longest: Duration::from_secs(3600), ..order }.obey(drop);
    }

    #[test]
    fn pauses_take_a_tenth_of_the_time() {
        let mut pauses = pauses_of(&[Counting::start()]);
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
