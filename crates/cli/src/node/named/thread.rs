//! The thread: the only place here that reads a clock or sleeps.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plexus_faces::Faces;
use plexus_io::wake::Waker;
use plexus_ndn::management::Management;
use plexus_wire::Time;

use super::disks::Disks;
use super::host::Host;
use super::plane::{Mail, Plane};
use super::setup::Ordered;
use super::{Ask, Topic, answers};
use crate::node::thread::{go_before_others, time_since};

/// How long to wait where the kernel does not let it sleep.
const RETRY: Duration = Duration::from_millis(1);

/// What runs in the thread.
pub(super) struct Thread {
    pub(super) faces: Faces,
    pub(super) plane: Plane,
    pub(super) management: Management,
    pub(super) disks: Disks,
    /// The file's faces, routes and strategies.
    pub(super) ordered: Ordered,
    pub(super) asks: Receiver<Ask>,
    pub(super) started: Instant,
}

impl Thread {
    /// Ends its sleep from another thread.
    pub(super) fn waker(&self) -> Waker {
        self.faces.waker()
    }

    /// Forwards until told to stop.
    pub(super) fn run(mut self) {
        go_before_others();
        while self.answer() {
            let now = time_since(self.started);
            // What was sent before this leaves with it.
            self.faces.turn(now, &mut self.plane);
            self.plane.take_owing();
            self.disks.turn(now, &mut self.plane, self.faces.table());
            self.plane.forwarder.tick(now);
            self.manage(now);
            let is_owing = self.plane.take_owing();
            let limit = if is_owing { Some(Duration::ZERO) } else { self.limit() };
            if let Err(error) = self.faces.sleep(self.disks.fds(), limit) {
                tracing::error!(%error, "the forwarder of named data cannot sleep");
                std::thread::sleep(RETRY);
            }
        }
        self.disks.close(time_since(self.started), &mut self.plane);
    }

    /// How long nothing is due.
    fn limit(&self) -> Option<Duration> {
        let due = [
            self.faces.next_deadline(),
            self.plane.forwarder.next_deadline(),
            self.management.next_deadline(),
            self.ordered.next_deadline(),
        ];
        let due = due.into_iter().flatten().min()?;
        Some(due.since(time_since(self.started)))
    }

    /// Lets the management answer its Interests, and hear of faces.
    fn manage(&mut self, now: Time) {
        for mail in self.plane.take_mail() {
            let Thread { faces, plane, management, disks, ordered, .. } = self;
            let mut answers = Vec::new();
            let mut host = Host { now, faces, plane, disks, ordered };
            match mail {
                Mail::Interest(from, packet) => {
                    management.interest(now, unix_ms(), from, &packet, &mut host, &mut |data| {
                        answers.push(data.to_vec());
                    });
                }
                Mail::Up(id) => {
                    if let Some(status) = host.status_of(id) {
                        management.face_up(now, &status, &mut |data| answers.push(data.to_vec()));
                    }
                }
                Mail::Down(facts) => {
                    management.face_down(now, &facts, &mut host, &mut |data| {
                        answers.push(data.to_vec());
                    });
                }
            }
            for data in answers {
                self.plane.answer(now, &data, self.faces.table());
            }
        }
    }

    /// Answers what was asked; false at the end.
    fn answer(&mut self) -> bool {
        loop {
            let now = time_since(self.started);
            match self.asks.try_recv() {
                Ok(Ask::Show(topic, reply)) => {
                    // Who asked may have gone.
                    let _ = reply.send(match topic {
                        Topic::Faces => answers::faces(&mut self.faces, &self.plane),
                        Topic::Names => answers::names(now, &self.plane, &self.management),
                        Topic::Cache => answers::cache(&self.plane, &self.disks),
                    });
                }
                Ok(Ask::Reload(settings)) => self.reload(&settings),
                Ok(Ask::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }
}

/// Milliseconds of Unix time, which signatures and what is on disks go by.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
