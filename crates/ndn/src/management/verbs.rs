//! Commands (NFD wiki, "ControlCommand" and the pages of its modules; ndn-cxx,
//! `control-command.cpp`, for the parameters of each and their defaults).

use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::nfd::{self, ControlParameters, cs_flags, origin, route_flags, status};

use super::authorize::Granted;
use super::command::{PARAMETERS_AT, Request, Verb};
use super::face_verbs::destroy_face;
use super::host::publish;
use super::reply::{Outcome, Refusal};
use super::{At, CacheChange, Claim, Host, Management, RibError, Route};
use crate::face::FaceId;
use crate::fib::FibError;
use crate::strategy::StrategyError;

/// Most packets that one command erases (NFD, `CsManager::ERASE_LIMIT`).
const ERASE_MAX: u64 = 256;

/// First components of names for which no neighbour may have a route.
const RESERVED: [&[u8]; 2] = [b"\x08\x09localhost", b"\x08\x08localhop"];
/// Upper bound of the cost of neighbours' routes: each cost creates another set of next hops.
const NEIGHBOUR_COST_MAX: u64 = 255;

impl Management {
    pub(super) fn carry_out(
        &mut self,
        at: At,
        verb: Verb,
        request: &Request<'_>,
        granted: Granted,
        host: &mut impl Host,
    ) -> Outcome {
        let mut announcer = None;
        let asked = match granted.announced {
            Some(announced) => {
                let announced = announced?;
                announcer = Some(announced.announcer);
                announced.asked
            }
            None => {
                let malformed = |_| Refusal::new(status::BAD_PARAMETERS, "Malformed command");
                let name = request.interest.name();
                ControlParameters::of_command(&name, PARAMETERS_AT).map_err(malformed)?
            }
        };
        // A neighbour may command only for its own face.
        if request.is_localhop && self.face(at, &asked).is_some_and(|face| face != at.from) {
            return Err(Refusal::unauthorized());
        }
        let claim = self.claimants.claim(request.is_localhop, granted.maker, announcer);
        match verb {
            Verb::RibRegister | Verb::RibAnnounce => self.register(at, asked, claim, host),
            Verb::RibUnregister => self.unregister(at, asked, host),
            Verb::FaceCreate => self.create_face(at, asked, host),
            Verb::FaceUpdate => self.update_face(at, &asked, host),
            Verb::FaceDestroy => destroy_face(at, asked, host),
            Verb::FibAdd => self.add_next_hop(at, asked, claim, host),
            Verb::FibRemove => self.remove_next_hop(at, asked, host),
            Verb::StrategySet => self.choose_strategy(asked, host),
            Verb::StrategyUnset => self.unset(asked, host),
            Verb::CacheConfig => configure_cache(&asked, host),
            Verb::CacheErase => erase(asked, host),
        }
    }

    /// The face that a command names, or else the one on which it arrived.
    pub(super) fn face(&self, at: At, asked: &ControlParameters) -> Option<FaceId> {
        let id = match asked.face_id.unwrap_or(0) {
            0 => at.from,
            number => FaceId::from_number(number)?,
        };
        self.faces.contains_key(&id).then_some(id)
    }

    fn register(
        &mut self,
        at: At,
        asked: ControlParameters,
        claim: Claim,
        host: &mut impl Host,
    ) -> Outcome {
        let prefix = asked.name.clone().ok_or_else(Refusal::parameters)?;
        let face = self.face(at, &asked).ok_or(NO_FACE)?;
        let mut origin = asked.origin.unwrap_or(origin::APP);
        let mut cost = asked.cost.unwrap_or(0);
        let mut flags = asked.flags.unwrap_or(route_flags::CHILD_INHERIT);
        let is_neighbour = self.is_neighbour(at.from);
        if is_neighbour {
            // A neighbour has one route per prefix, and may not displace this node's own routes.
            if RESERVED.iter().any(|own| prefix.as_name().value().starts_with(own)) {
                return Err(Refusal::unauthorized());
            }
            (origin, flags) = (origin::CLIENT, flags & route_flags::CHILD_INHERIT);
            cost = cost.min(NEIGHBOUR_COST_MAX);
        }
        let expires = asked.expiration_ms.map(|ms| at.now + Duration::from_millis(ms));
        let expires = expires.filter(|end| *end < Time::FOREVER);
        let route = Route { face, origin, cost, flags, expires, claim };
        let added = match is_neighbour {
            true => self.add_neighbours_route(prefix.as_name(), route, host),
            false => self.add_route(prefix.as_name(), route, host),
        };
        added.map_err(refused_route)?;
        Ok(ControlParameters {
            name: Some(prefix),
            face_id: Some(face.number()),
            origin: Some(origin),
            cost: Some(cost),
            flags: Some(flags),
            expiration_ms: asked.expiration_ms,
            ..ControlParameters::default()
        })
    }

    fn unregister(&mut self, at: At, asked: ControlParameters, host: &mut impl Host) -> Outcome {
        let prefix = asked.name.clone().ok_or_else(Refusal::parameters)?;
        let origin = match self.is_neighbour(at.from) {
            true => origin::CLIENT,
            false => asked.origin.unwrap_or(origin::APP),
        };
        let face = self.face(at, &asked);
        if let Some(face) = face {
            self.remove_route(prefix.as_name(), face, origin, host);
        }
        Ok(ControlParameters {
            name: Some(prefix),
            face_id: face.map(FaceId::number).or(asked.face_id),
            origin: Some(origin),
            ..ControlParameters::default()
        })
    }

    fn add_next_hop(
        &mut self,
        at: At,
        asked: ControlParameters,
        claim: Claim,
        host: &mut impl Host,
    ) -> Outcome {
        let prefix = asked.name.clone().ok_or_else(Refusal::parameters)?;
        let face = self.face(at, &asked).ok_or(NO_FACE)?;
        let cost = asked.cost.unwrap_or(0);
        self.rib
            .set_direct(prefix.as_name(), face, Some((cost, claim)), &mut publish(host))
            .map_err(refused_route)?;
        Ok(ControlParameters {
            name: Some(prefix),
            face_id: Some(face.number()),
            cost: Some(cost),
            ..ControlParameters::default()
        })
    }

    fn remove_next_hop(
        &mut self,
        at: At,
        asked: ControlParameters,
        host: &mut impl Host,
    ) -> Outcome {
        let prefix = asked.name.clone().ok_or_else(Refusal::parameters)?;
        let face = self.face(at, &asked);
        if let Some(face) = face {
            self.rib
                .set_direct(prefix.as_name(), face, None, &mut publish(host))
                .map_err(refused_route)?;
        }
        let face_id = face.map(FaceId::number).or(asked.face_id);
        Ok(ControlParameters { name: Some(prefix), face_id, ..ControlParameters::default() })
    }

    fn choose_strategy(&mut self, asked: ControlParameters, host: &mut impl Host) -> Outcome {
        let (Some(prefix), Some(strategy)) = (asked.name, asked.strategy) else {
            return Err(Refusal::parameters());
        };
        let refused = |e| match e {
            StrategyError::Unknown(_) | StrategyError::Version { .. } => {
                Refusal::new(status::NOT_FOUND, "Strategy not registered")
            }
            StrategyError::Parameter(_) => {
                let text = format!("Error instantiating strategy: {e}");
                Refusal::new(status::FACE_CONFLICT, text)
            }
            StrategyError::Prefix(FibError::Prefix) => {
                Refusal::new(status::NAME_TOO_LONG, "Prefix has too many components")
            }
            e @ (StrategyError::Prefix(_) | StrategyError::Full(_)) => {
                Refusal::new(status::CANNOT_CREATE, e.to_string())
            }
        };
        let full = self.set_strategy(prefix.as_name(), strategy.name.as_name(), host);
        let name = full.map_err(refused)?;
        Ok(ControlParameters {
            name: Some(prefix),
            strategy: Some(nfd::Strategy { name }),
            ..ControlParameters::default()
        })
    }

    fn unset(&mut self, asked: ControlParameters, host: &mut impl Host) -> Outcome {
        let is_longer = |prefix: &NameBuf| !prefix.as_name().is_empty();
        let prefix = asked.name.filter(is_longer).ok_or_else(Refusal::parameters)?;
        let unset = self.unset_strategy(prefix.as_name(), host);
        unset.map_err(|e| Refusal::new(status::CANNOT_CREATE, e.to_string()))?;
        Ok(ControlParameters { name: Some(prefix), ..ControlParameters::default() })
    }
}

/// A route to a face that does not exist (NFD, `FibManager::addNextHop`).
const NO_FACE: Refusal = Refusal {
    code: status::FACE_NOT_FOUND,
    text: std::borrow::Cow::Borrowed("Face not found"),
    parameters: None,
};

fn refused_route(e: RibError) -> Refusal {
    let code = match e {
        RibError::TooLong | RibError::Fib(FibError::Prefix) => status::NAME_TOO_LONG,
        _ => status::CANNOT_CREATE,
    };
    Refusal::new(code, e.to_string())
}

fn configure_cache(asked: &ControlParameters, host: &mut impl Host) -> Outcome {
    let flag = flags(asked)?;
    host.set_cache(CacheChange {
        capacity: asked.capacity,
        admits: flag(cs_flags::ADMIT),
        serves: flag(cs_flags::SERVE),
    });
    let cache = host.cache();
    let (capacity, flags) = (Some(cache.capacity), Some(cache.flags()));
    Ok(ControlParameters { capacity, flags, ..ControlParameters::default() })
}

fn erase(asked: ControlParameters, host: &mut impl Host) -> Outcome {
    let prefix = asked.name.ok_or_else(Refusal::parameters)?;
    let count = asked.count.unwrap_or(u64::MAX);
    if count == 0 {
        return Err(Refusal::parameters());
    }
    let erased = host.erase(prefix.as_name(), count.min(ERASE_MAX));
    let is_cut = erased.more && count > ERASE_MAX;
    Ok(ControlParameters {
        name: Some(prefix),
        count: Some(erased.count),
        // Tells the client to ask again: one command erases this many.
        capacity: is_cut.then_some(ERASE_MAX),
        ..ControlParameters::default()
    })
}

/// The requested flags: each on, off or unset.
pub(super) fn flags(asked: &ControlParameters) -> Result<impl Fn(u64) -> Option<bool>, Refusal> {
    let (flags, mask) = match (asked.flags, asked.mask) {
        (Some(flags), Some(mask)) => (flags, mask),
        (None, None) => (0, 0),
        _ => return Err(Refusal::parameters()),
    };
    Ok(move |bit| (mask & bit != 0).then_some(flags & bit != 0))
}
