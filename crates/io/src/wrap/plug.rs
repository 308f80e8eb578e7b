//! A cable that can be unplugged and plugged in again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plexus_wire::Time;

use super::leave_to_inner;
use crate::{Batch, Link, Pool, Port, PortStats};

/// A port whose link is down, and which moves nothing, while its [`Plug`] is out.
pub struct Plugged<P> {
    inner: P,
    plug: Plug,
}

/// The hand at a port's cable; clones are of the same.
#[derive(Clone, Debug)]
pub struct Plug(Arc<State>);

#[derive(Debug)]
struct State {
    is_in: AtomicBool,
    lost: AtomicU64,
}

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

    /// Whether it is in.
    pub fn is_in(&self) -> bool {
        self.0.is_in.load(Ordering::Relaxed)
    }
}

impl<P: Port> Plugged<P> {
    /// `inner` with its cable in.
    pub fn new(inner: P) -> Plugged<P> {
        let state = State { is_in: AtomicBool::new(true), lost: AtomicU64::new(0) };
        Plugged { inner, plug: Plug(Arc::new(state)) }
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
        if self.plug.is_in() { self.inner.receive(now, pool, into) } else { 0 }
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.plug.is_in() { self.inner.transmit(now, pool, from) } else { 0 }
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        let link = self.inner.maintain(now, pool);
        if self.plug.is_in() { link } else { Link::Down }
    }
}
