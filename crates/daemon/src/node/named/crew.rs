//! The other workers, as the first one sees them: packets to and from them, orders, and reports.
//!
//! Orders have a channel of their own, because none may be lost. A worker counts the packets that
//! have arrived, executes the orders, and then takes those packets. So a packet is processed after
//! every order that was given before it was sent: its face exists, and changes that the management
//! has confirmed are in force. A packet sent before an order may be processed after it, as if it
//! had come later.
//!
//! A face's number is reused only after every worker has released it: in every channel `Gone` comes
//! before the next `Face`. Packets of the old face in a ring, and its records in a PIT, have its
//! old number, which returns after 4096 other faces in the same place.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use plexus_ndn::dispatch::{Depths, Dispatch, Workers};
use plexus_ndn::face::{Face, FaceId, LinkType};
use plexus_ndn::forwarder::{Arrived, Output};
use plexus_ndn::management::{CacheChange, Erased};
use plexus_plane::carriers::Bell;
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Name, NameBuf};

use super::crossing::{Inward, Outward};
use super::share::{Plot, Report};
use super::worker::{self, Begun};

/// An order to a worker.
pub(super) enum Order {
    /// A face was opened, or its properties have changed.
    Face(FaceId, Face),
    /// The face was closed.
    Gone(FaceId),
    /// Change the content store. The capacity is that of all workers together.
    Cache(CacheChange),
    /// Read this many chunks from disks together.
    Prefetch(u64),
    /// Erase so many packets under the prefix.
    Erase(NameBuf, u64, Sender<Erased>),
    /// Name the faces among these that have answered an Interest.
    Answered(Arc<[FaceId]>, Sender<Vec<FaceId>>),
    /// Report, with each face's counters if it is true.
    Report(bool, Sender<Report>),
    /// Write the rest to the disks, and end.
    Stop,
}

/// Another worker.
pub(super) struct Other {
    pub(super) to: Outward,
    pub(super) from: Inward,
    pub(super) bell: Bell,
    pub(super) orders: Sender<Order>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Other {
    fn tell(&self, order: Order) {
        // A worker that has ended needs no orders.
        let _ = self.orders.send(order);
        self.bell.wake();
    }

    /// Its answer to an order. It comes after its batch, because a worker never waits for this
    /// thread.
    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(order(reply));
        answer
    }
}

/// All other workers; none if one worker is enough.
pub(super) struct Crew {
    others: Vec<Other>,
    dispatch: Dispatch,
    /// The first worker's, rung by the others.
    bell: Bell,
}

impl Crew {
    /// Starts a worker for each plot. `bell` is the first worker's.
    ///
    /// # Errors
    /// In words, when one cannot make its tables.
    pub(super) fn start(plots: Vec<Plot>, depths: Depths, bell: Bell) -> Result<Crew, String> {
        let dispatch = Dispatch::new(plots.len() as u8 + 1, depths);
        let mut crew = Crew { others: Vec::new(), dispatch, bell };
        // All at once: tables of gigabytes take their time.
        let begun: Vec<_> =
            plots.into_iter().map(|plot| worker::start(plot, crew.bell.clone())).collect();
        let mut failed = None;
        for begun in begun {
            match begun.and_then(Begun::wait) {
                Ok(other) => crew.others.push(other),
                Err(why) => failed = Some(why),
            }
        }
        // Those that have begun end with the crew.
        failed.map_or(Ok(crew), Err)
    }

    /// True if there are no others.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// How many components of a name decide its worker.
    pub(super) fn depths(&self) -> &Depths {
        self.dispatch.depths()
    }

    /// The workers of a packet; 0 is the first worker.
    pub(super) fn workers(
        &mut self,
        now: Time,
        link: LinkType,
        headers: &Headers<'_>,
        packet: &[u8],
    ) -> Workers {
        self.dispatch.workers(now, link, headers, packet)
    }

    /// Sends a packet to one of the others; `is_copy` if another has it already. False if there was
    /// no room.
    pub(super) fn send(&mut self, worker: u8, arrived: &Arrived<'_>, is_copy: bool) -> bool {
        let Arrived { face, headers, packet } = arrived;
        let Some(at) = usize::from(worker).checked_sub(1) else { return false };
        let other = &mut self.others[at];
        match is_copy {
            true => other.to.push_copy(*face, headers, packet),
            false => other.to.push(*face, headers, std::iter::once(*packet)),
        }
    }

    /// Sends the packets that came from the other workers.
    pub(super) fn deliver(&mut self, out: &mut impl Output) {
        for other in &mut self.others {
            // Packets that come meanwhile wait for the next turn.
            for _ in 0..other.from.arrived() {
                let Some(carrier) = other.from.pop() else { break };
                let packet = std::iter::once(carrier.packet());
                out.send(carrier.face(), &carrier.headers(), packet);
                other.from.send_home(carrier);
            }
        }
    }

    /// Wakes the workers that packets were sent to.
    pub(super) fn ring(&mut self) {
        self.others.iter_mut().for_each(|other| other.to.ring());
    }

    /// Announces that the first worker is about to sleep. False if a packet has come for it.
    pub(super) fn may_sleep(&self) -> bool {
        let is_quiet = || self.others.iter().all(|other| other.from.is_empty());
        self.is_empty() || self.bell.may_sleep(is_quiet)
    }

    /// The first worker no longer sleeps.
    pub(super) fn awake(&self) {
        self.bell.awake();
    }

    pub(super) fn add_face(&self, id: FaceId, face: Face) {
        self.others.iter().for_each(|other| other.tell(Order::Face(id, face)));
    }

    pub(super) fn remove_face(&self, id: FaceId) {
        self.others.iter().for_each(|other| other.tell(Order::Gone(id)));
    }

    pub(super) fn set_cache(&self, change: CacheChange) {
        self.others.iter().for_each(|other| other.tell(Order::Cache(change)));
    }

    pub(super) fn set_prefetch(&self, chunks: u64) {
        self.others.iter().for_each(|other| other.tell(Order::Prefetch(chunks)));
    }

    /// Erases up to `count` packets under a prefix, worker by worker.
    pub(super) fn erase(&self, prefix: Name<'_>, count: u64) -> Erased {
        let mut all = Erased::default();
        for other in &self.others {
            let rest = count - all.count.min(count);
            let answer = other.ask(|reply| Order::Erase(prefix.to_buf(), rest, reply)).recv();
            let erased = answer.unwrap_or_default();
            all.count += erased.count;
            all.more |= erased.more;
        }
        all
    }

    /// Each worker's report, in order. Each is made between two batches of its worker, so they are
    /// not of the same instant.
    pub(super) fn reports(&self, with_faces: bool) -> Vec<Report> {
        let ask = |other: &Other| other.ask(|reply| Order::Report(with_faces, reply));
        let answers: Vec<_> = self.others.iter().map(ask).collect();
        let reports = answers.into_iter().zip(&self.others).map(|(answer, other)| {
            let mut report = answer.recv().unwrap_or_default();
            let (sent, lost) = other.to.counted();
            report.given = (sent, lost);
            report
        });
        reports.collect()
    }

    /// The faces among these that have answered an Interest of one of the workers.
    pub(super) fn answered(&self, faces: &[FaceId]) -> Vec<FaceId> {
        let faces: Arc<[FaceId]> = faces.into();
        let ask = |other: &Other| other.ask(|reply| Order::Answered(faces.clone(), reply));
        let answers: Vec<_> = self.others.iter().map(ask).collect();
        answers.into_iter().flat_map(|answer| answer.recv().unwrap_or_default()).collect()
    }

    /// Tells all to end. Dropping the crew waits for them.
    pub(super) fn stop(&self) {
        self.others.iter().for_each(|other| other.tell(Order::Stop));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
        for thread in self.others.iter_mut().filter_map(|other| other.thread.take()) {
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::crossing::{DEPTH, way};
    use super::*;

    #[test]
    fn what_a_worker_is_too_slow_for_is_dropped_and_told() {
        let bell = Bell::default();
        let ((to, _theirs), (_, from)) = (way(bell.clone()), way(bell.clone()));
        let (orders, inbox) = mpsc::channel();
        let other = Other { to, from, bell: bell.clone(), orders, thread: None };
        let dispatch = Dispatch::new(2, Depths::default());
        let mut crew = Crew { others: vec![other], dispatch, bell };
        // It takes no packet, and no order.
        drop(inbox);
        for _ in 0..DEPTH / 2 + 3 {
            let (face, headers) = (FaceId::new(0, 0).unwrap(), Headers::default());
            crew.send(1, &Arrived { face, headers, packet: &[5, 0] }, false);
        }
        assert_eq!(crew.reports(false)[0].given, (DEPTH as u64 / 2, 3));
    }
}
