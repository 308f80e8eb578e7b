//! Face commands (NFD wiki, "FaceMgmt").

use plexus_wire::ndn::face_uri::{FaceUri, UriError};
use plexus_wire::ndn::nfd::{ControlParameters, FaceStatus, face_flags, persistency, status};

use super::reply::{Outcome, Refusal};
use super::verbs::flags;
use super::{At, FaceRefusal, FaceRequest, FaceSettings, Host, Management};
use crate::face::FaceId;

/// Longest explanation in characters: it may quote arbitrary input.
const TEXT_MAX: usize = 256;

impl Management {
    pub(super) fn create_face(
        &mut self,
        at: At,
        asked: ControlParameters,
        host: &mut impl Host,
    ) -> Outcome {
        let malformed = |why: UriError| {
            let text: String = why.to_string().chars().take(TEXT_MAX).collect();
            Refusal::new(status::BAD_PARAMETERS, text)
        };
        let read = |text: &String| text.parse::<FaceUri>().map_err(malformed);
        let remote = read(asked.uri.as_ref().ok_or_else(Refusal::parameters)?)?;
        let local = asked.local_uri.as_ref().map(read).transpose()?;
        let mut settings = settings(&asked)?;
        settings.persistency.get_or_insert(persistency::PERSISTENT);
        let request = FaceRequest { remote, local, settings };
        match host.create_face(at.now, &request) {
            Ok(face) => Ok(created(&face)),
            Err(FaceRefusal::Exists(face)) => Err(Refusal {
                parameters: Some(Box::new(created(&face))),
                ..Refusal::new(status::FACE_CONFLICT, "Face with remote URI already exists")
            }),
            Err(other) => Err(refused_face(other)),
        }
    }

    pub(super) fn update_face(
        &mut self,
        at: At,
        asked: &ControlParameters,
        host: &mut impl Host,
    ) -> Outcome {
        let face = self.face(at, asked);
        let face = face.ok_or_else(|| refused_face(FaceRefusal::Unknown))?;
        let settings = settings(asked)?;
        let status = host.update_face(at.now, face, &settings).map_err(refused_face)?;
        if let Some(known) = self.faces.get_mut(&face) {
            (known.flags, known.persistency) = (status.flags, status.persistency);
        }
        Ok(updated(&status))
    }
}

fn refused_face(refusal: FaceRefusal) -> Refusal {
    match refusal {
        FaceRefusal::Unknown => Refusal::new(status::NOT_FOUND, "Specified face does not exist"),
        FaceRefusal::Unsupported(why) => Refusal::new(status::UNSUPPORTED_PROTOCOL, why),
        FaceRefusal::Failed(why) => Refusal::new(status::CANNOT_CREATE, why),
        FaceRefusal::Exists(face) => Refusal {
            parameters: Some(Box::new(updated(&face))),
            ..Refusal::new(status::FACE_CONFLICT, "Face with remote URI already exists")
        },
        FaceRefusal::Settings(settings) => Refusal {
            parameters: Some(Box::new(told(&settings))),
            ..Refusal::new(status::FACE_CONFLICT, "Invalid properties specified")
        },
    }
}

pub(super) fn destroy_face(at: At, asked: ControlParameters, host: &mut impl Host) -> Outcome {
    let number = asked.face_id.filter(|number| *number != 0).ok_or_else(Refusal::parameters)?;
    if let Some(face) = FaceId::from_number(number) {
        host.destroy_face(at.now, face);
    }
    Ok(ControlParameters { face_id: Some(number), ..ControlParameters::default() })
}

fn settings(asked: &ControlParameters) -> Result<FaceSettings, Refusal> {
    let flag = flags(asked)?;
    if asked.persistency.is_some_and(|p| p > persistency::PERMANENT) {
        return Err(Refusal::parameters());
    }
    Ok(FaceSettings {
        persistency: asked.persistency,
        local_fields: flag(face_flags::LOCAL_FIELDS),
        reliability: flag(face_flags::LP_RELIABILITY),
        congestion_marking: flag(face_flags::CONGESTION_MARKING),
        congestion_interval_ns: asked.congestion_interval_ns,
        congestion_threshold: asked.congestion_threshold,
        mtu: asked.mtu,
    })
}

/// Settings as command parameters.
fn told(settings: &FaceSettings) -> ControlParameters {
    let said = [
        (settings.local_fields, face_flags::LOCAL_FIELDS),
        (settings.reliability, face_flags::LP_RELIABILITY),
        (settings.congestion_marking, face_flags::CONGESTION_MARKING),
    ];
    let (mut flags, mut mask) = (0, 0);
    for (on, bit) in said {
        mask |= if on.is_some() { bit } else { 0 };
        flags |= if on == Some(true) { bit } else { 0 };
    }
    ControlParameters {
        flags: (mask != 0).then_some(flags),
        mask: (mask != 0).then_some(mask),
        persistency: settings.persistency,
        congestion_interval_ns: settings.congestion_interval_ns,
        congestion_threshold: settings.congestion_threshold,
        mtu: settings.mtu,
        ..ControlParameters::default()
    }
}

/// MTU and marking, which `faces/list` shows, are left out: NDNts parses them only after the flags,
/// as NFD writes them, python-ndn and ndnd only before them. NFD's `nfdc` prints whatever is there.
fn updated(face: &FaceStatus) -> ControlParameters {
    ControlParameters {
        face_id: Some(face.face_id),
        flags: Some(face.flags),
        persistency: Some(face.persistency),
        ..ControlParameters::default()
    }
}

pub(super) fn created(face: &FaceStatus) -> ControlParameters {
    let (uri, local_uri) = (Some(face.uri.clone()), Some(face.local_uri.clone()));
    ControlParameters { uri, local_uri, ..updated(face) }
}
