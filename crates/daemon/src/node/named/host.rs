//! What the management asks of the node: faces, next hops, strategies, the content store.

use std::time::Duration;

use plexus_ndn::face::{FaceCounters, FaceId, LinkType, Scope};
use plexus_ndn::fib::{FibError, NextHop};
use plexus_ndn::link::MTU_MIN;
use plexus_ndn::link::congestion::Marking;
use plexus_ndn::management::{
    CacheChange, CacheInfo, Erased, FaceRefusal, FaceRequest, FaceSettings, Host,
};
use plexus_ndn::strategy::StrategyError;
use plexus_ndn_faces::{Faces, Persistency, Refusal, Settings};
use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{FaceStatus, GeneralStatus, persistency};
use plexus_wire::ndn::{Name, NameBuf};

use super::plane::Plane;
use super::share::Report;
use super::status;

/// The node, as the management sees it.
pub(super) struct ManagedNode<'a> {
    pub(super) faces: &'a mut Faces,
    pub(super) plane: &'a mut Plane,
    /// Where it listens.
    pub(super) channels: &'a [FaceUri],
}

impl ManagedNode<'_> {
    /// A face's status as in answers to commands, which have no counters.
    fn status_of(&self, id: FaceId) -> Result<FaceStatus, FaceRefusal> {
        let counted = FaceCounters::default();
        status::of_face(self.faces, id, &counted).ok_or(FaceRefusal::Unknown)
    }

    fn sum(&self, with_faces: bool) -> Report {
        Report::sum(&self.plane.reports(with_faces))
    }

    /// The settings among those asked for that a face cannot have.
    fn impossible(&self, id: FaceId, asked: &FaceSettings) -> Option<FaceSettings> {
        let facts = self.faces.table().facts_of(id)?;
        let is_local = facts.scope == Scope::Local;
        // Sequence numbers and acknowledgements need a link between two.
        let is_shared = facts.link_type != LinkType::PointToPoint;
        // This node cannot connect to the port that a client connected from.
        let may_stay = facts.persistency != Persistency::OnDemand
            || !matches!(facts.remote, FaceUri::Tcp(_) | FaceUri::WebSocket(_) | FaceUri::Fd(_));
        let stays = |p: u64| match to_persistency(p) {
            Some(Persistency::Permanent) => may_stay,
            known => known.is_some(),
        };
        let is_datagram = self.faces.table().options(id)?.mtu < usize::MAX;
        // An MTU above the transport's is capped to it, as in NFD.
        let fits = |mtu: u64| is_datagram && mtu >= MTU_MIN as u64;
        let bad = FaceSettings {
            persistency: asked.persistency.filter(|p| !stays(*p)),
            local_fields: asked.local_fields.filter(|on| *on && !is_local),
            reliability: asked.reliability.filter(|on| *on && is_shared),
            mtu: asked.mtu.filter(|mtu| !fits(*mtu)),
            ..FaceSettings::default()
        };
        (bad != FaceSettings::default()).then_some(bad)
    }

    fn apply(&mut self, id: FaceId, asked: &FaceSettings) {
        if let Some(persistency) = asked.persistency.and_then(to_persistency) {
            self.faces.table_mut().set_persistency(id, persistency);
        }
        let Some(mut options) = self.faces.table().options(id).copied() else { return };
        options.marks = asked.congestion_marking.unwrap_or(options.marks);
        let Marking { threshold, interval } = &mut options.marking;
        let as_asked = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        *threshold = asked.congestion_threshold.map_or(*threshold, as_asked);
        *interval = asked.congestion_interval_ns.map_or(*interval, Duration::from_nanos);
        options.reliability = asked.reliability.unwrap_or(options.reliability);
        options.local_fields = asked.local_fields.unwrap_or(options.local_fields);
        options.mtu = asked.mtu.map_or(options.mtu, as_asked);
        self.faces.table_mut().set_options(id, options);
        if let Some(facts) = self.faces.table().facts_of(id) {
            self.plane.set_local_fields(facts, options.local_fields);
        }
    }
}

fn to_persistency(number: u64) -> Option<Persistency> {
    match number {
        persistency::PERSISTENT => Some(Persistency::Persistent),
        persistency::ON_DEMAND => Some(Persistency::OnDemand),
        persistency::PERMANENT => Some(Persistency::Permanent),
        _ => None,
    }
}

impl Host for ManagedNode<'_> {
    fn create_face(&mut self, now: Time, request: &FaceRequest) -> Result<FaceStatus, FaceRefusal> {
        let asked = &request.settings;
        let wanted = asked.persistency.unwrap_or(persistency::PERSISTENT);
        let Some(persistency) = to_persistency(wanted) else {
            let persistency = Some(wanted);
            let settings = FaceSettings { persistency, ..FaceSettings::default() };
            return Err(FaceRefusal::Settings(settings));
        };
        // A face that cannot be made is not tried again, even if it would be permanent.
        let settings = Settings::new(persistency.min(Persistency::Persistent));
        let (remote, local) = (&request.remote, request.local.as_ref());
        let id = match self.faces.create(now, remote, local, settings, self.plane) {
            Ok(id) => id,
            Err(Refusal::Exists(id)) => {
                return Err(FaceRefusal::Exists(Box::new(self.status_of(id)?)));
            }
            Err(Refusal::Unsupported(why)) => return Err(FaceRefusal::Unsupported(why)),
            Err(why @ (Refusal::Full | Refusal::Failed(_))) => {
                return Err(FaceRefusal::Failed(why.to_string()));
            }
        };
        if let Some(bad) = self.impossible(id, asked) {
            let is_stream = self.faces.table().options(id).is_some_and(|o| o.mtu == usize::MAX);
            self.faces.destroy(now, id, self.plane);
            // NFD's factories check these before anything else.
            return Err(match bad {
                FaceSettings { mtu: Some(_), .. } if is_stream => {
                    FaceRefusal::Unsupported("TCP faces do not support MTU overrides".into())
                }
                FaceSettings { mtu: Some(_), .. } => {
                    FaceRefusal::Unsupported(format!("Override MTU cannot be less than {MTU_MIN}"))
                }
                FaceSettings { local_fields: Some(_), .. } => FaceRefusal::Unsupported(
                    "Local fields can only be enabled on faces with local scope".into(),
                ),
                bad => FaceRefusal::Settings(bad),
            });
        }
        let mut asked = asked.clone();
        if self.is_connecting(id) {
            asked.persistency = None;
        }
        self.apply(id, &asked);
        self.status_of(id)
    }

    fn is_connecting(&self, id: FaceId) -> bool {
        self.faces.table().is_connecting(id)
    }

    fn update_face(
        &mut self,
        _now: Time,
        id: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, FaceRefusal> {
        self.status_of(id)?;
        if let Some(bad) = self.impossible(id, settings) {
            return Err(FaceRefusal::Settings(bad));
        }
        self.apply(id, settings);
        self.status_of(id)
    }

    fn destroy_face(&mut self, now: Time, id: FaceId) {
        self.faces.destroy(now, id, self.plane);
    }

    fn faces(&self, now: Time, each: &mut dyn FnMut(&FaceStatus)) {
        let all = self.sum(true);
        let own = self.plane.management;
        if let Some((counted, _)) = all.face(own) {
            each(&status::of_management(own, &counted));
        }
        let ids = self.faces.table().facts().map(|facts| facts.id);
        for id in ids {
            let counted = all.face(id).map(|(counted, _)| counted);
            let status = counted.and_then(|c| status::of_face(self.faces, id, &c));
            if let Some(mut status) = status {
                let left = self.faces.table().expires_in(now, id);
                status.expiration_ms = left.map(|left| left.as_millis() as u64);
                each(&status);
            }
        }
    }

    fn channels(&self, each: &mut dyn FnMut(&FaceUri)) {
        self.channels.iter().for_each(each);
    }

    fn set_next_hops(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        self.plane.set_next_hops(prefix, hops)
    }

    fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        self.plane.set_strategy(prefix, strategy)
    }

    fn cache(&self) -> CacheInfo {
        self.sum(false).cache
    }

    fn set_cache(&mut self, change: CacheChange) {
        self.plane.set_cache(change);
    }

    fn erase(&mut self, prefix: Name<'_>, count: u64) -> Erased {
        self.plane.erase(prefix, count)
    }

    fn status(&self) -> GeneralStatus {
        status::of_forwarder(&self.sum(false))
    }
}
