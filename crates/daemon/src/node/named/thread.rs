//! The thread: the only place here that reads a clock or sleeps.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use plexus_config::NamedSettings;
use plexus_io::clock::unix_ms;
use plexus_io::wake::Waker;
use plexus_ndn::management::{Management, Route};
use plexus_ndn_faces::Faces;
use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;

use super::host::ManagedNode;
use super::ordered::Ordered;
use super::plane::{Mail, Plane};
use super::{Ask, Changed, status};
use crate::node::thread::time_since;

/// The pause if the kernel refuses to let the thread sleep.
const RETRY: Duration = Duration::from_millis(1);
/// Interests that the management answers in a turn. Each may take a millisecond, for a signature,
/// and nothing is forwarded meanwhile.
const COMMANDS: usize = 16;

/// What runs in the thread.
pub(crate) struct Thread {
    pub(super) faces: Faces,
    pub(super) plane: Plane,
    pub(super) management: Management,
    /// Where it listens.
    pub(super) channels: Vec<FaceUri>,
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
        while self.answer() {
            let now = time_since(self.started);
            self.plane.deliver(now, self.faces.table_mut());
            self.faces.turn(now, &mut self.plane);
            // Everything sent up to here has left.
            self.plane.take_owing();
            self.plane.turn(now, self.faces.table_mut());
            self.manage(now);
            self.plane.crew().ring();
            let is_owing = self.plane.take_owing() || self.plane.has_mail();
            let is_busy = is_owing || !self.plane.crew().may_sleep();
            let limit = if is_busy { Some(Duration::ZERO) } else { self.limit() };
            if let Err(error) = self.faces.sleep(self.plane.share().disks().fds(), limit) {
                tracing::error!(%error, "the forwarder of named data cannot sleep");
                std::thread::sleep(RETRY);
            }
            self.plane.crew().awake();
        }
        self.plane.close(time_since(self.started), self.faces.table_mut());
    }

    /// The time until something is due.
    fn limit(&self) -> Option<Duration> {
        let due = [
            self.faces.next_deadline(),
            self.plane.share().next_deadline(),
            self.management.next_deadline(),
            self.ordered.next_deadline(),
        ];
        let due = due.into_iter().flatten().min()?;
        Some(due.since(time_since(self.started)))
    }

    /// Lets the management answer its Interests, hear of faces, and do what is due.
    fn manage(&mut self, now: Time) {
        let Thread { faces, plane, management, channels, ordered, .. } = self;
        let mut data: Vec<Vec<u8>> = Vec::new();
        let mail = plane.take_mail(COMMANDS);
        let mut node = ManagedNode { faces, plane, channels };
        management.tick(now, &mut node);
        let answer = &mut |packet: &[u8]| data.push(packet.to_vec());
        management.write_datasets(now, answer);
        for mail in mail {
            match mail {
                Mail::Interest(from, packet) => {
                    management.interest(now, unix_ms(), from, &packet, &mut node, answer);
                }
                Mail::Up(facts) => management.face_up(now, &status::of_facts(&facts), answer),
                Mail::Link(id, is_up) => management.face_link(now, id, is_up, answer),
                Mail::Down(id, why) => {
                    ordered.forget(now, id);
                    management.face_down(now, id, &why, &mut node, answer);
                }
            }
        }
        management.connections(now, &mut node, answer);
        ordered.make(now, &mut node, management);
        for packet in data {
            plane.answer(now, &packet, faces.table_mut());
        }
    }

    /// Answers what was asked; false at the end.
    fn answer(&mut self) -> bool {
        loop {
            match self.asks.try_recv() {
                Ok(Ask::Question(question)) => question(self),
                Ok(Ask::Reload(changed)) => self.reload(*changed),
                Ok(Ask::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Routes Interests for the management to it, and takes the file's routes and strategies.
    ///
    /// # Errors
    /// In words, when a table is full.
    pub(super) fn begin(mut self, settings: &NamedSettings) -> Result<Thread, String> {
        let Thread { faces, plane, management, channels, ordered, .. } = &mut self;
        let mut node = ManagedNode { faces, plane, channels };
        lead_to_management(settings, &mut node, management)?;
        ordered.change(settings, &mut node, management);
        Ok(self)
    }

    fn reload(&mut self, Changed { settings, trust }: Changed) {
        let Thread { faces, plane, management, channels, ordered, .. } = self;
        plane.set_prefetch(settings.prefetch);
        let mut node = ManagedNode { faces, plane, channels };
        let withdrawn = management.set_trust(trust, &mut node);
        if withdrawn > 0 {
            tracing::info!(routes = withdrawn, "withdrawn: who registered them may no longer");
        }
        if let Err(why) = lead_to_management(&settings, &mut node, management) {
            tracing::error!(%why, "neighbours cannot command");
        }
        ordered.change(&settings, &mut node, management);
    }
}

/// Routes commands to the management: those of this box, and those of neighbours if any neighbour
/// may command.
fn lead_to_management(
    settings: &NamedSettings,
    node: &mut ManagedNode<'_>,
    management: &mut Management,
) -> Result<(), String> {
    let own = Route::of_file(node.plane.management, 0);
    let may_neighbours = settings.open || settings.trusts_somebody();
    for (prefix, may) in [("/localhost/nfd", true), ("/localhop/nfd", may_neighbours)] {
        let name: NameBuf = prefix.parse().map_err(|e| format!("{prefix}: {e}"))?;
        match may {
            true => {
                management.add_route(name.as_name(), own, node).map_err(|e| e.to_string())?;
            }
            false => drop(management.remove_route(name.as_name(), own.face, own.origin, node)),
        }
    }
    Ok(())
}
