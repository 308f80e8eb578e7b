//! The faces of the file with their routes, and its strategies and regions.

use std::time::Duration;

use plexus_config::{NamedFace, NamedRoute, NamedSettings, NamedStrategy};
use plexus_ndn::face::FaceId;
use plexus_ndn::management::{Management, Route};
use plexus_ndn_faces::{Persistency, Refusal, Settings};
use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::nfd::origin;

use super::host::ManagedNode;

/// The time between two attempts to make a face: at first, and at most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A face that the file wants.
struct Wanted {
    face: NamedFace,
    /// Its number, while it is there.
    id: Option<FaceId>,
    /// When to make it; `None`: not again.
    due: Option<Time>,
    wait: Duration,
}

/// What the file asks for besides addresses to listen at.
pub(super) struct Ordered {
    /// The groups of Ethernets, by the file's names for them.
    groups: Vec<(String, FaceId)>,
    faces: Vec<Wanted>,
    routes: Vec<NamedRoute>,
    strategies: Vec<NamedStrategy>,
    regions: Vec<NameBuf>,
}

impl Ordered {
    pub(super) fn new(settings: &NamedSettings, groups: Vec<(String, FaceId)>) -> Ordered {
        let wanted = |face: &NamedFace| Wanted {
            face: face.clone(),
            id: None,
            due: Some(Time::ZERO),
            wait: RETRY,
        };
        let faces = settings.faces.iter().map(wanted).collect();
        let (routes, strategies, regions) = Default::default();
        Ordered { groups, faces, routes, strategies, regions }
    }

    /// The face with this name in the file, if it exists.
    fn id_of(&self, name: &str) -> Option<FaceId> {
        let group = self.groups.iter().find(|(group, _)| group == name).map(|(_, id)| *id);
        group.or_else(|| self.faces.iter().find(|wanted| wanted.face.name == name)?.id)
    }

    /// When a face is to be made.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.faces.iter().filter_map(|wanted| wanted.due).min()
    }

    /// Makes the faces that are due, and their routes.
    pub(super) fn make(
        &mut self,
        now: Time,
        node: &mut ManagedNode<'_>,
        management: &mut Management,
    ) {
        for wanted in self.faces.iter_mut().filter(|w| w.due.is_some_and(|due| due <= now)) {
            wanted.due = None;
            match create(now, &wanted.face, node) {
                Ok(id) => {
                    wanted.id = Some(id);
                    let own = self.routes.iter().filter(|route| route.face == wanted.face.name);
                    own.for_each(|route| add(route, id, node, management));
                }
                Err(why) => {
                    let NamedFace { name, remote, .. } = &wanted.face;
                    tracing::warn!(face = name, %remote, %why, "could not be made");
                    if wanted.face.permanent {
                        wanted.due = Some(now + wanted.wait);
                        wanted.wait = (wanted.wait * 2).min(RETRY_MAX);
                    }
                }
            }
        }
    }

    /// A face was closed, and its routes are gone. A permanent face is made again.
    pub(super) fn forget(&mut self, now: Time, id: FaceId) {
        self.groups.retain(|(_, group)| *group != id);
        for wanted in self.faces.iter_mut().filter(|wanted| wanted.id == Some(id)) {
            wanted.id = None;
            wanted.due = wanted.face.permanent.then_some(now + RETRY);
        }
    }

    /// Replaces the routes, strategies and regions with those of the file.
    pub(super) fn change(
        &mut self,
        settings: &NamedSettings,
        node: &mut ManagedNode<'_>,
        management: &mut Management,
    ) {
        for old in self.routes.iter().filter(|route| !settings.routes.contains(route)) {
            if let Some(id) = self.id_of(&old.face) {
                management.remove_route(old.prefix.as_name(), id, origin::STATIC, node);
            }
        }
        for new in settings.routes.iter().filter(|route| !self.routes.contains(route)) {
            if let Some(id) = self.id_of(&new.face) {
                add(new, id, node, management);
            }
        }
        for old in &self.strategies {
            if !settings.strategies.iter().any(|new| new.prefix == old.prefix) {
                // Only a name that is too long is refused, and this one was accepted.
                let _ = management.unset_strategy(old.prefix.as_name(), node);
            }
        }
        for new in settings.strategies.iter().filter(|new| !self.strategies.contains(new)) {
            let name = format!("/localhost/nfd/strategy/{}", new.strategy.name());
            let set = name.parse::<NameBuf>().map_err(|e| e.to_string()).and_then(|name| {
                let set = management.set_strategy(new.prefix.as_name(), name.as_name(), node);
                set.map_err(|e| e.to_string())
            });
            if let Err(why) = set {
                tracing::error!(prefix = %new.prefix, %why, "its strategy stays as it was");
            }
        }
        // The regions change, and the plan keeps its strategies.
        if self.regions != settings.regions && node.plane.set_regions(&settings.regions).is_ok() {
            self.regions = settings.regions.clone();
        }
        self.routes = settings.routes.clone();
        self.strategies = settings.strategies.clone();
    }
}

fn create(now: Time, face: &NamedFace, node: &mut ManagedNode<'_>) -> Result<FaceId, Refusal> {
    let persistency = match face.permanent {
        true => Persistency::Permanent,
        false => Persistency::Persistent,
    };
    let settings = Settings {
        mtu: face.mtu.map(usize::from),
        reliability: face.reliability,
        ..Settings::new(persistency)
    };
    match node.faces.create(now, &face.remote, face.local.as_ref(), settings, node.plane) {
        // The neighbour has connected already, or a command has made the face.
        Err(Refusal::Exists(id)) => {
            node.faces.table_mut().set_persistency(id, persistency);
            Ok(id)
        }
        made => made,
    }
}

fn add(route: &NamedRoute, id: FaceId, node: &mut ManagedNode<'_>, management: &mut Management) {
    let own = Route::of_file(id, route.cost.into());
    if let Err(why) = management.add_route(route.prefix.as_name(), own, node) {
        tracing::error!(prefix = %route.prefix, face = route.face, %why, "no route");
    }
}
