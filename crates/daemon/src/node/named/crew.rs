//! The other workers, as the first sees them: packets to and from them, orders, and what they say.
//!
//! Orders come by a channel of their own, for none may be lost. A worker looks how many packets
//! have arrived, then carries out the orders, then takes those packets. So whatever was ordered
//! before a packet was sent is known when it is looked at: its face is there, and what the
//! management has answered for holds. What was sent before an order may be looked at after it, as
//! if it had come later.
//!
//! A face's number is not given again before every worker has let it go: "gone" is ahead of "there"
//! in every channel. What of the old face is still in a ring, or in a PIT, has its old number,
//! which comes again after 4096 others in its place.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use plexus_ndn::dispatch::{Depths, Dispatch, Workers};
use plexus_ndn::face::{Face, FaceId, LinkType};
use plexus_ndn::forwarder::{Arrived, Output};
use plexus_ndn::management::{CacheChange, Erased};
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Name, NameBuf};

use super::crossing::{Bell, Inward, Outward};
use super::share::{Plot, Report};
use super::worker::{self, Begun};

/// What a worker is told.
pub(super) enum Order {
    /// There is a face, or something else is to be known of it.
    Face(FaceId, Face),
    /// The face has gone.
    Gone(FaceId),
    /// The content store; its capacity is all workers'.
    Cache(CacheChange),
    /// Read this many chunks from disks together.
    Prefetch(u64),
    /// Erase so many packets under the prefix.
    Erase(NameBuf, u64, Sender<Erased>),
    /// Say which of these faces have answered what they were asked.
    Answered(Arc<[FaceId]>, Sender<Vec<FaceId>>),
    /// Say what was counted, at each face too if it is true.
    Report(bool, Sender<Report>),
    /// Write what is left to the disks, and end.
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
        // One that has ended needs no orders.
        let _ = self.orders.send(order);
        self.bell.wake();
    }

    /// Its answer to an order. It never waits for this thread, so it has one soon: after its batch.
    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(order(reply));
        answer
    }
}

/// All of them; none where one worker is enough.
pub(super) struct Crew {
    others: Vec<Other>,
    dispatch: Dispatch,
    /// Rung by the others.
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

    /// How many components of a name say whose it is.
    pub(super) fn depths(&self) -> &Depths {
        self.dispatch.depths()
    }

    /// Whose a packet is; 0 is the first worker.
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

    /// Sends on what the others had to send.
    pub(super) fn deliver(&mut self, out: &mut impl Output) {
        for other in &mut self.others {
            // What comes meanwhile is the next turn's.
            for _ in 0..other.from.arrived() {
                let Some(carrier) = other.from.pop() else { break };
                let packet = std::iter::once(carrier.packet());
                out.send(carrier.face(), &carrier.headers(), packet);
                other.from.send_home(carrier);
            }
        }
    }

    /// Wakes those that packets were sent to.
    pub(super) fn ring(&mut self) {
        self.others.iter_mut().for_each(|other| other.to.ring());
    }

    /// Says that the first worker is about to sleep. False if something has come for it.
    pub(super) fn may_sleep(&self) -> bool {
        self.is_empty() || self.bell.may_sleep(self.others.iter().map(|other| &other.from))
    }

    /// The first worker sleeps no more.
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

    /// Erases up to `count` packets under a prefix, of one worker's after the other's.
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

    /// What each says of itself, in their order: as of now, between two of its batches. All of them
    /// answer at the same time, but not for the same moment.
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

    /// Which of these faces have answered what one of them had them asked.
    pub(super) fn answered(&self, faces: &[FaceId]) -> Vec<FaceId> {
        let faces: Arc<[FaceId]> = faces.into();
        let ask = |other: &Other| other.ask(|reply| Order::Answered(faces.clone(), reply));
        let answers: Vec<_> = self.others.iter().map(ask).collect();
        answers.into_iter().flat_map(|answer| answer.recv().unwrap_or_default()).collect()
    }

    /// Tells all to end; that they have, is waited for when this goes.
    pub(super) fn stop(&self) {
        self.others.iter().for_each(|other| other.tell(Order::Stop));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
        for thread in self.others.iter_mut().filter_map(|other| other.thread.take()) {
            // One that panicked has ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_io::wake::Sleeper;

    use super::super::crossing::{DEPTH, way};
    use super::*;

    #[test]
    fn what_a_worker_is_too_slow_for_is_dropped_and_told() {
        let bell = Bell::new(Sleeper::new().unwrap().1);
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
