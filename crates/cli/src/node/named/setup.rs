//! What the file asks for: where to listen, and the faces, routes and strategies of its own.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use plexus_config::{NamedFace, NamedRoute, NamedSettings};
use plexus_faces::{Bounds, Faces, Listen, Persistency, Refusal, Settings};
use plexus_ndn::face::FaceId;
use plexus_ndn::forwarder::{Config, Forwarder, Store};
use plexus_ndn::names::NameHasher;
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_wire::Time;

use super::Ask;
use super::disks::Disks;
use super::plane::Plane;
use super::thread::{Thread, unix_ms};

/// Between two attempts to make a face: first, and at most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A cached packet for so many bytes of memory: 177 bytes of tables for each.
const BYTES_PER_PACKET: u64 = 1024;
/// Where NDN's multicast faces are.
const GROUP: &str = "224.0.23.170:56363";

/// A face that the file wants.
struct Wanted {
    face: NamedFace,
    /// Its number, once it was made.
    id: Option<FaceId>,
    /// When to make it; `None`: no more.
    due: Option<Time>,
    wait: Duration,
}

/// What the file wants beside listening.
pub(super) struct Ordered {
    faces: Vec<Wanted>,
    routes: Vec<NamedRoute>,
}

impl Ordered {
    fn new(settings: &NamedSettings) -> Ordered {
        let wanted = |face: &NamedFace| Wanted {
            face: face.clone(),
            id: None,
            due: Some(Time::ZERO),
            wait: RETRY,
        };
        let faces = settings.faces.iter().map(wanted).collect();
        Ordered { faces, routes: settings.routes.clone() }
    }

    /// When a face is to be made.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.faces.iter().filter_map(|wanted| wanted.due).min()
    }

    /// Makes the faces that are due; gives those that were made with their routes.
    pub(super) fn make(
        &mut self,
        now: Time,
        faces: &mut Faces,
        plane: &mut Plane,
    ) -> Vec<(FaceId, NamedRoute)> {
        let mut routes = Vec::new();
        for wanted in self.faces.iter_mut().filter(|w| w.due.is_some_and(|due| due <= now)) {
            let face = &wanted.face;
            let persistency = match face.permanent {
                true => Persistency::Permanent,
                false => Persistency::Persistent,
            };
            let settings = Settings {
                mtu: face.mtu.map(usize::from),
                reliability: face.reliability,
                ..Settings::new(persistency)
            };
            wanted.due = None;
            let made = match faces.create(now, &face.remote, settings, plane) {
                // Somebody called from there already, or ordered it.
                Err(Refusal::Exists(id)) => {
                    faces.table().set_persistency(id, persistency);
                    Ok(id)
                }
                made => made,
            };
            match made {
                Ok(id) => {
                    wanted.id = Some(id);
                    let own = self.routes.iter().filter(|route| route.face == face.name);
                    routes.extend(own.map(|route| (id, route.clone())));
                }
                Err(why) => {
                    tracing::warn!(face = face.name, remote = %face.remote, %why, "not made");
                    if face.permanent {
                        wanted.due = Some(now + wanted.wait);
                        wanted.wait = (wanted.wait * 2).min(RETRY_MAX);
                    }
                }
            }
        }
        routes
    }

    /// The number of a face that is there.
    fn id_of(&self, name: &str) -> Option<FaceId> {
        self.faces.iter().find(|wanted| wanted.face.name == name)?.id
    }
}
