//! Faces whose connection is still being established: the client that created one is answered when
//! the connection succeeds or fails (NFD: `TcpChannel::connect`).

use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::nfd::{ControlParameters, status};

use super::command::{PARAMETERS_AT, Request};
use super::face_verbs::created;
use super::reply::{Outcome, Refusal};
use super::{At, FaceSettings, Host, Management};
use crate::face::FaceId;

/// Connection timeout (NFD: 8 s).
const LIMIT: Duration = Duration::from_secs(8);
/// Most connections being established.
const MAX: usize = 256;

/// A command that has not been answered yet.
pub(super) struct Connecting {
    face: FaceId,
    /// The command's name.
    name: NameBuf,
    persistency: Option<u64>,
    until: Time,
}

/// The created face, if it is not connected yet.
pub(super) fn connecting(made: &Outcome, host: &impl Host) -> Option<FaceId> {
    let face = made.as_ref().ok().and_then(|made| FaceId::from_number(made.face_id?))?;
    host.is_connecting(face).then_some(face)
}

fn refusal(text: String) -> Refusal {
    Refusal::new(status::CANNOT_CREATE, text)
}

impl Management {
    /// Defers the answer to the command until its face is connected or has failed. If too many
    /// wait, the face is removed again.
    pub(super) fn wait_for(
        &mut self,
        at: At,
        face: FaceId,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        if self.connecting.len() >= MAX {
            host.destroy_face(at.now, face);
            return Err(refusal("too many connections are being made: try again later".into()));
        }
        let name = request.interest.name();
        let asked = ControlParameters::of_command(&name, PARAMETERS_AT);
        self.connecting.push(Connecting {
            face,
            name: name.to_buf(),
            persistency: asked.ok().and_then(|asked| asked.persistency),
            until: at.now + LIMIT,
        });
        Ok(())
    }

    /// Answers commands whose connection was established or timed out. Call it whenever a
    /// connection may have changed state, after [`face_down`](Self::face_down).
    pub fn connections(&mut self, now: Time, host: &mut impl Host, answer: &mut impl FnMut(&[u8])) {
        let is_over = |c: &mut Connecting| c.until <= now || !host.is_connecting(c.face);
        let over: Vec<Connecting> = self.connecting.extract_if(.., is_over).collect();
        for Connecting { face, name, persistency, .. } in over {
            self.changes += 1;
            let outcome = if host.is_connecting(face) {
                host.destroy_face(now, face);
                Err(refusal("Connection timed out".into()))
            } else {
                let settings = FaceSettings { persistency, ..FaceSettings::default() };
                let made = host.update_face(now, face, &settings);
                if let (Ok(made), Some(known)) = (&made, self.faces.get_mut(&face)) {
                    known.persistency = made.persistency;
                }
                made.map(|made| created(&made)).map_err(|_| refusal("Connection failed".into()))
            };
            self.count(&outcome);
            self.respond(name.as_name(), outcome, answer);
        }
    }

    /// The face was removed before it was connected.
    pub(super) fn connection_failed(
        &mut self,
        face: FaceId,
        why: &str,
        answer: &mut impl FnMut(&[u8]),
    ) {
        let Some(at) = self.connecting.iter().position(|c| c.face == face) else { return };
        let Connecting { name, .. } = self.connecting.swap_remove(at);
        let outcome = Err(refusal(format!("Connection failed: {why}")));
        self.count(&outcome);
        self.respond(name.as_name(), outcome, answer);
    }

    /// When the first of them times out.
    pub(super) fn connecting_until(&self) -> Option<Time> {
        self.connecting.iter().map(|c| c.until).min()
    }
}
