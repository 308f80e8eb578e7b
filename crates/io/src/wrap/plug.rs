//! A cable that can be unplugged and plugged in again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plexus_wire::Time;

use super::leave_to_inner;
use crate::{Batch, Link, Pool, Port, PortStats};

/// A port whose link is down, and which moves nothing, while its [`Plug`] is out.
pub struct Plugged<P> {
    inner: P,
    plug: Plug,
    /// Marks that were set, and the last one that was passed.
    marks: u64,
    passed: u64,
}

/// The hand at a port's cable; clones are of the same.
#[derive(Clone, Debug)]
pub struct Plug(Arc<State>);

#[derive(Debug)]
struct State {
    is_in: AtomicBool,
    lost: AtomicU64,
    hides: AtomicBool,
    keeps: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

/// The first bytes of a packet, and how many it had.
type Sample = (Vec<u8>, usize);

impl Plug {
    /// Puts the cable in, or pulls it out. Frames stop at once; the link follows with the port's
    /// next `maintain`.
    pub fn set(&self, is_in: bool) {
        self.0.is_in.store(is_in, Ordering::Relaxed);
    }

    /// Counts packets as lost because the port's queue was full.
    pub fn lose(&self, packets: u64) {
        self.0.lost.fetch_add(packets, Ordering::Relaxed);
    }

    /// Hides the packets that arrive, as a device does whose poll has not ended, or shows them.
    pub fn hide_arrivals(&self, on: bool) {
        self.0.hides.store(on, Ordering::Relaxed);
    }

    /// Makes the port say that its device does not have all packets yet that it was given.
    pub fn keep_departures(&self, on: bool) {
        self.0.keeps.store(on, Ordering::Relaxed);
    }

    /// Gives the port a sample of a packet of so many bytes, as a fast table does.
    pub fn sample(&self, bytes: Vec<u8>, len: usize) {
        self.samples().push((bytes, len));
    }

    fn samples(&self) -> std::sync::MutexGuard<'_, Vec<Sample>> {
        self.0.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is in.
    pub fn is_in(&self) -> bool {
        self.0.is_in.load(Ordering::Relaxed)
    }
}

impl<P: Port> Plugged<P> {
    /// `inner` with its cable in.
    pub fn new(inner: P) -> Plugged<P> {
        let (is_in, lost) = (AtomicBool::new(true), AtomicU64::new(0));
        let (hides, keeps, samples) = Default::default();
        let state = State { is_in, lost, hides, keeps, samples };
        Plugged { inner, plug: Plug(Arc::new(state)), marks: 0, passed: 0 }
    }

    /// The hand at its cable.
    pub fn plug(&self) -> Plug {
        self.plug.clone()
    }
}

impl<P: Port> Port for Plugged<P> {
    leave_to_inner!(next_deadline, close);

    fn stats(&self) -> PortStats {
        let mut stats = self.inner.stats();
        stats.rx_overflow += self.plug.0.lost.load(Ordering::Relaxed);
        stats
    }

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        if !self.plug.is_in() || self.plug.0.hides.load(Ordering::Relaxed) {
            return 0;
        }
        let received = self.inner.receive(now, pool, into);
        if !into.is_full() {
            self.passed = self.marks;
        }
        received
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.plug.is_in() { self.inner.transmit(now, pool, from) } else { 0 }
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        let link = self.inner.maintain(now, pool);
        if self.plug.is_in() { link } else { Link::Down }
    }

    fn take_samples(&mut self, see: &mut dyn FnMut(&[u8], usize)) {
        let samples = std::mem::take(&mut *self.plug.samples());
        samples.iter().for_each(|(bytes, len)| see(bytes, *len));
    }

    fn mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    fn passed_mark(&self) -> u64 {
        self.passed
    }

    fn has_sent(&self) -> bool {
        !self.plug.0.keeps.load(Ordering::Relaxed)
    }
}
