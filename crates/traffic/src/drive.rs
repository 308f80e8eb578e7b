//! Generators and meters driven over a port in real time, until their end, their count or a flag,
//! or until their caller has had enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use plexus_io::clock::now;
use plexus_io::{Batch, Link, Pool, Port};
use plexus_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::generator::{Generator, idle_until};
use crate::meter::{Arrived, Meter};

/// How often a port is maintained.
const MAINTAIN: Duration = Duration::from_millis(100);

/// A driver tells this while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The port's link has changed.
    Link(Link),
    /// So many packets and bytes have passed; every 100 ms.
    Passed {
        /// Packets.
        packets: u64,
        /// Bytes with the FCS of each.
        bytes: u64,
    },
}

/// Sends until the end, the count or the flag, or until `tell` returns false; returns when it
/// stopped.
pub fn send(
    generator: &mut Generator,
    pool: &mut Pool,
    port: &mut dyn Port,
    end: Time,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Time, Told) -> bool,
) -> Time {
    let mut at = now();
    let mut maintain = at;
    let mut link = Link::Up;
    loop {
        generator.turn(at, pool, port);
        if generator.is_done() || at >= end || stop.load(Ordering::Relaxed) {
            return at;
        }
        if at >= maintain {
            maintain = at + MAINTAIN;
            let sent = generator.sent();
            let passed = Told::Passed { packets: sent.packets, bytes: sent.bytes };
            if !look_after(port, pool, at, &mut link, tell) || !tell(at, passed) {
                return at;
            }
        }
        let due = generator.next_departure().min(end);
        if let Some(idle) = idle_until(due, at) {
            // A full ring may still be on its way out.
            port.transmit(at, pool, &mut Batch::new());
            std::thread::sleep(idle.min(Duration::from_millis(50)));
        }
        at = now();
    }
}

/// Maintains a port, and tells if its link has changed. False if the driver is to stop.
fn look_after(
    port: &mut dyn Port,
    pool: &mut Pool,
    at: Time,
    link: &mut Link,
    tell: &mut dyn FnMut(Time, Told) -> bool,
) -> bool {
    let before = std::mem::replace(link, port.maintain(at, pool));
    before == *link || tell(at, Told::Link(*link))
}

/// Waits until the device has sent what it took, and at most a second for a device that is stuck.
pub fn flush(pool: &mut Pool, port: &mut dyn Port) {
    let begin = now();
    let mut held = pool.available();
    let mut changed = begin;
    loop {
        let at = now();
        port.transmit(at, pool, &mut Batch::new());
        let available = pool.available();
        if available != held {
            (held, changed) = (available, at);
        }
        if at.since(changed) > Duration::from_millis(5) || at.since(begin).as_secs() >= 1 {
            return;
        }
    }
}

/// When a meter stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// When nothing more comes at once, as at the end of a capture file.
    pub is_file: bool,
    /// After this time.
    pub duration: Option<Duration>,
    /// After so many probes.
    pub count: Option<u64>,
    /// When no probe has come for so long after the last one.
    pub idle: Option<Duration>,
}

/// Watches whether a meter is to stop.
#[derive(Debug)]
pub struct Watch {
    until: Until,
    begin: Time,
    probes: u64,
    heard: Option<Time>,
}

impl Watch {
    /// From now on.
    pub fn new(until: Until, begin: Time) -> Watch {
        Watch { until, begin, probes: 0, heard: None }
    }

    /// Whether the meter is to stop, having received so much by now.
    pub fn is_over(&mut self, at: Time, arrived: Arrived) -> bool {
        if arrived.probes > self.probes {
            (self.probes, self.heard) = (arrived.probes, Some(at));
        }
        let Until { duration, count, idle, .. } = self.until;
        let silent = self.heard.map_or(Duration::ZERO, |heard| at.since(heard));
        duration.is_some_and(|d| at.since(self.begin) >= d)
            || count.is_some_and(|c| arrived.probes >= c)
            || idle.is_some_and(|idle| silent >= idle)
    }
}

/// Receives until the meter is to stop, the flag is set, or `tell` returns false.
pub fn receive(
    meter: &mut Meter,
    pool: &mut Pool,
    port: &mut dyn Port,
    until: Until,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Time, Told) -> bool,
) {
    let begin = now();
    let mut watch = Watch::new(until, begin);
    let mut maintain = begin;
    let mut link = Link::Up;
    while !stop.load(Ordering::Relaxed) {
        let n = meter.receive(now(), pool, port);
        let at = now();
        meter.account_received(at, pool);
        let arrived = meter.arrived();
        if watch.is_over(at, arrived) || until.is_file && n == 0 {
            return;
        }
        if at >= maintain {
            maintain = at + MAINTAIN;
            let passed = Told::Passed { packets: arrived.probes, bytes: arrived.bytes };
            if !look_after(port, pool, at, &mut link, tell) || !tell(at, passed) {
                return;
            }
        }
        if n == 0 {
            wait(port);
        }
    }
}

/// Sleeps until something arrives or 10 ms are over.
fn wait(port: &dyn Port) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    match port.fd() {
        // A signal may wake it early. The loop looks again in any case.
        Some(fd) => drop(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout))),
        None => std::thread::sleep(Duration::from_millis(1)),
    }
}
