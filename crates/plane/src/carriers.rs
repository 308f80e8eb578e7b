//! Rings between two threads: a carrier travels there full and home empty, and is filled again.
//!
//! Workers use them among themselves ([`crossing`](crate::Crossing)); the daemon also uses them to
//! and from the forwarder of named data. Neither end waits, locks or shares memory in use. Nothing
//! is allocated once as many carriers exist as are under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use plexus_io::wake::Waker;
use rtrb::{Consumer, Producer, RingBuffer};

/// The sender's ends of one direction.
pub struct Outward<C> {
    full: Producer<C>,
    home: Consumer<C>,
    /// Carriers at home. The last one that came home leaves first, so that as few as are under way
    /// at once pass through the processor's caches.
    free: Vec<C>,
    /// Carriers that exist.
    made: usize,
}

/// The receiver's ends of one direction.
pub struct Inward<C> {
    full: Consumer<C>,
    home: Producer<C>,
}

/// One direction, with at most `depth` carriers under way.
pub fn way<C>(depth: usize) -> (Outward<C>, Inward<C>) {
    let (full, arrived) = RingBuffer::new(depth);
    let (back, home) = RingBuffer::new(depth);
    let outward = Outward { full, home, free: Vec::with_capacity(depth), made: 0 };
    (outward, Inward { full: arrived, home: back })
}

impl<C: Default> Outward<C> {
    /// Fills a carrier and sends it. False if as many are under way as the ring holds.
    #[inline]
    pub fn send(&mut self, fill: impl FnOnce(&mut C)) -> bool {
        self.take_home(|_| {});
        self.send_free(fill)
    }

    /// Takes in the carriers that have come home, and shows each.
    #[inline]
    pub fn take_home(&mut self, mut see: impl FnMut(&C)) {
        while let Ok(carrier) = self.home.pop() {
            see(&carrier);
            self.free.push(carrier);
        }
    }

    /// As [`send`](Self::send), without taking carriers home first.
    #[inline]
    pub fn send_free(&mut self, fill: impl FnOnce(&mut C)) -> bool {
        let mut carrier = match self.free.pop() {
            Some(carrier) => carrier,
            None if self.made < self.depth() => {
                self.made += 1;
                C::default()
            }
            None => return false,
        };
        fill(&mut carrier);
        // There are as many carriers as places in the ring, so it has room.
        self.full.push(carrier).is_ok()
    }

    /// Carriers that are not at home.
    pub fn under_way(&self) -> usize {
        self.made - self.free.len()
    }

    /// Most carriers that may be under way.
    pub fn depth(&self) -> usize {
        self.full.buffer().capacity()
    }
}

impl<C> Inward<C> {
    /// Carriers that have arrived. Everything that the sender did before it sent them is visible
    /// now.
    pub fn arrived(&self) -> usize {
        self.full.slots()
    }

    /// True if no carrier has arrived.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// The next carrier, which the caller [sends home](Self::send_home).
    #[inline]
    pub fn pop(&mut self) -> Option<C> {
        self.full.pop().ok()
    }

    /// Sends an empty carrier home.
    #[inline]
    pub fn send_home(&mut self, carrier: C) {
        // The ring has a place for every carrier.
        let _ = self.home.push(carrier);
    }
}

/// Tells whether a thread sleeps, and wakes it.
#[derive(Clone, Default)]
pub struct Bell {
    is_asleep: Arc<AtomicBool>,
    /// Absent if the thread never sleeps.
    waker: Option<Waker>,
}

impl Bell {
    /// The bell of the thread that this wakes.
    pub fn new(waker: Waker) -> Bell {
        Bell { waker: Some(waker), ..Bell::default() }
    }

    /// Wakes the thread if it sleeps. One call is enough, however many threads ring: the sleeper
    /// looks at all its rings before it announces sleep again.
    pub fn ring(&self) {
        // Pairs with the fence in `may_sleep`: either the sleeper sees what was sent, or this sees
        // that it sleeps.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the thread, or ends its next sleep: for news that do not come by a ring.
    pub fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }

    /// Announces that the bell's owner is about to sleep. False if `is_quiet` finds that something
    /// has arrived by one of its rings.
    pub fn may_sleep(&self, is_quiet: impl FnOnce() -> bool) -> bool {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_quiet = is_quiet();
        if !is_quiet {
            self.awake();
        }
        is_quiet
    }

    /// The owner no longer sleeps.
    pub fn awake(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plexus_io::wake::Sleeper;

    use super::*;

    #[test]
    fn a_carrier_that_comes_home_is_filled_again_and_a_full_ring_refuses() {
        let (mut out, mut inward) = way::<Vec<u8>>(2);
        let mut send = |byte| out.send(|bytes| bytes.splice(.., [byte]).for_each(drop));
        assert!(send(1) && send(2) && !send(3));
        let carrier = inward.pop().unwrap();
        assert_eq!((&carrier[..], inward.arrived()), (&[1][..], 1));
        assert!(!send(3), "it is not home yet");
        let memory = carrier.as_ptr();
        inward.send_home(carrier);
        assert!(send(3) && !send(4));
        assert_eq!(inward.pop().as_deref(), Some(&[2][..]));
        let carrier = inward.pop().unwrap();
        assert_eq!((&carrier[..], carrier.as_ptr()), (&[3][..], memory));
        assert!(inward.is_empty());
        assert_eq!((out.under_way(), out.depth()), (2, 2));
    }

    #[test]
    fn the_carrier_that_came_home_last_leaves_first() {
        let (mut out, mut inward) = way::<Vec<u8>>(4);
        for _ in 0..100 {
            assert!(out.send(|bytes| bytes.resize(1, 0)));
            let carrier = inward.pop().unwrap();
            inward.send_home(carrier);
        }
        assert_eq!(out.made, 1);
    }

    #[test]
    fn a_thread_with_something_in_a_ring_stays_awake_and_a_sleeper_is_woken_once() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
        let bell = Bell::new(waker);
        let (mut out, mut inward) = way::<u8>(4);
        let mut send = || {
            assert!(out.send(|_| {}));
            bell.ring();
        };
        send();
        assert!(!bell.may_sleep(|| inward.is_empty()), "it came before");
        assert!(!sleeper.sleep([], Some(Duration::ZERO)).unwrap(), "nobody slept");
        inward.pop().unwrap();
        assert!(bell.may_sleep(|| inward.is_empty()));
        send();
        send();
        assert!(sleeper.sleep([], None).unwrap());
        assert!(!sleeper.sleep([], Some(Duration::ZERO)).unwrap(), "once is enough");
    }

    #[test]
    fn no_carrier_is_left_with_a_sleeper() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
        let bell = Bell::new(waker);
        let theirs = bell.clone();
        let (mut out, mut inward) = way::<u8>(64);
        const CARRIERS: usize = 20_000;
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < CARRIERS {
                let went = out.send(|_| {});
                sent += usize::from(went);
                if sent % 3 == 0 || !went {
                    theirs.ring();
                    std::thread::yield_now();
                }
            }
            theirs.ring();
        });
        let mut received = 0;
        while received < CARRIERS {
            while let Some(carrier) = inward.pop() {
                received += 1;
                inward.send_home(carrier);
            }
            // For ever, were a wake-up lost.
            if received < CARRIERS && bell.may_sleep(|| inward.is_empty()) {
                sleeper.sleep([], None).unwrap();
                bell.awake();
            }
        }
        sender.join().unwrap();
    }
}
