//! Named data's management: a script of Interests, signed and raw, and of faces that come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_ndn::face::FaceId;
use plexus_ndn::fib::{FibError, HOPS_MAX, NextHop};
use plexus_ndn::management::{
    CacheChange, CacheInfo, Erased, FaceRefusal, FaceRequest, FaceSettings, Host, Management,
    ManagementConfig, ManagementLimits, RibLimits,
};
use plexus_ndn::strategy::StrategyError;
use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{ControlParameters, FaceStatus, GeneralStatus, Record, Strategy};
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signer};
use plexus_wire::ndn::{Data, Interest, Name, NameBuf, PACKET_LEN_MAX, interest};
use sha2::{Digest, Sha256};

const ROUTES_MAX: usize = 32;
/// More steps would only make it slow.
const STEPS_MAX: usize = 64;
const FACES: u8 = 4;
const VERBS: [&str; 13] = [
    "rib/register",
    "rib/unregister",
    "rib/announce",
    "faces/create",
    "faces/update",
    "faces/destroy",
    "fib/add-nexthop",
    "fib/remove-nexthop",
    "strategy-choice/set",
    "strategy-choice/unset",
    "cs/config",
    "cs/erase",
    "rib/other",
];

/// Does what it is told.
#[derive(Default)]
struct Node {
    fib: BTreeMap<NameBuf, Vec<NextHop>>,
    /// A face has been made, whose connection is under way.
    is_connecting: bool,
}

/// The face that is made.
const MADE: u8 = 1;

fn face(place: u8) -> Option<FaceId> {
    FaceId::new((place % FACES).into(), 0)
}

fn status(id: FaceId) -> FaceStatus {
    // The last of them is no application's.
    let scope = u64::from(Some(id) != face(FACES - 1));
    FaceStatus { face_id: id.number(), uri: "fd://9".into(), scope, ..FaceStatus::default() }
}

impl Host for Node {
    fn create_face(&mut self, _: Time, asked: &FaceRequest) -> Result<FaceStatus, FaceRefusal> {
        if let (FaceUri::Tcp(_), Some(made)) = (&asked.remote, face(MADE)) {
            self.is_connecting = true;
            return Ok(status(made));
        }
        match face(0) {
            Some(id) => Err(FaceRefusal::Exists(Box::new(status(id)))),
            None => Err(FaceRefusal::Failed(asked.remote.to_string())),
        }
    }

    fn is_connecting(&self, id: FaceId) -> bool {
        self.is_connecting && Some(id) == face(MADE)
    }

    fn update_face(
        &mut self,
        _: Time,
        face: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, FaceRefusal> {
        match settings.mtu {
            Some(_) => Err(FaceRefusal::Settings(settings.clone())),
            None => Ok(status(face)),
        }
    }

    fn destroy_face(&mut self, _: Time, _: FaceId) {}

    fn faces(&self, _: Time, each: &mut dyn FnMut(&FaceStatus)) {
        (0..FACES).filter_map(face).for_each(|id| each(&status(id)));
    }

    fn channels(&self, each: &mut dyn FnMut(&FaceUri)) {
        each(&FaceUri::Internal);
    }

    fn set_next_hops(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        assert!(hops.len() <= HOPS_MAX && hops.is_sorted());
        match hops {
            [] => drop(self.fib.remove(&prefix.to_buf())),
            _ if self.fib.len() >= ROUTES_MAX / 2 => return Err(FibError::Sets),
            _ => drop(self.fib.insert(prefix.to_buf(), hops.to_vec())),
        }
        Ok(())
    }

    fn set_strategy(&mut self, _: Name<'_>, _: Option<&NameBuf>) -> Result<(), StrategyError> {
        Ok(())
    }

    fn cache(&self) -> CacheInfo {
        CacheInfo::default()
    }

    fn set_cache(&mut self, _: CacheChange) {}

    fn erase(&mut self, _: Name<'_>, count: u64) -> Erased {
        Erased { count, more: true }
    }

    fn status(&self) -> GeneralStatus {
        GeneralStatus::default()
    }
}

struct DigestAt(u64);

impl Signer for DigestAt {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo { time_ms: Some(self.0), ..SignatureInfo::new(SignatureType::DIGEST_SHA256) }
    }

    fn signature_len_max(&self) -> usize {
        32
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        out.copy_from_slice(&sha256(&parts.concat()));
        32
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A command whose parameters are any bytes, and so are its name's and its own.
fn command(verb: u8, parameters: &[u8], unix_ms: u64) -> Option<Vec<u8>> {
    let verb = VERBS[usize::from(verb) % VERBS.len()].split_once('/')?;
    let name = ["localhost", "nfd", verb.0, verb.1].iter().fold(NameBuf::new(), NameBuf::with);
    let name = name.with(parameters);
    let repr = interest::Repr::new(name.as_name());
    repr.with_parameters(parameters, Some(&DigestAt(unix_ms)), sha256).ok()
}

/// Steps, each an action, an argument, and bytes behind their length in two. Whatever they are:
/// an Interest has at most one answer, which is Data no longer than a packet and of the Interest's
/// name or a longer one; the FIB holds what the RIB says; and there are no more routes than may be.
pub fn ndn_management(data: &[u8]) {
    let rib = RibLimits {
        routes: ROUTES_MAX,
        neighbours: ROUTES_MAX / 2,
        per_face: ROUTES_MAX,
        per_prefix: 4,
        neighbours_sets: 4,
        turn: 2,
    };
    let limits = ManagementLimits { rib, ..ManagementLimits::default() };
    let mut management = Management::new(ManagementConfig { limits, ..Default::default() });
    let mut node = Node::default();
    let (mut now, mut unix_ms) = (Time::ZERO, 1_800_000_000_000);
    for id in (0..FACES).filter_map(face) {
        management.face_up(now, &status(id), &mut |_| unreachable!("nobody has asked"));
    }
    let mut rest = data;
    for _ in 0..STEPS_MAX {
        let Some((&[action, argument, high, low], behind)) = rest.split_first_chunk() else {
            break;
        };
        let len = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (bytes, behind) = behind.split_at(len);
        rest = behind;
        now = now + Duration::from_millis(argument.into());
        unix_ms += 1 + u64::from(argument);
        let mut events = |packet: &[u8]| assert!(Data::new_checked(packet).is_ok());
        let mut gone = None;
        let packet = match (action % 8, face(argument)) {
            (0..4, _) => command(argument, bytes, unix_ms),
            (6, Some(id)) => {
                management.face_down(now, id, "refused", &mut node, &mut events);
                gone = Some(id);
                None
            }
            (4, _) => {
                node.is_connecting = false;
                None
            }
            (7, Some(id)) => {
                management.face_up(now, &status(id), &mut events);
                None
            }
            _ => Some(bytes.to_vec()),
        };
        if let (Some(packet), Some(from)) = (packet, face(action >> 3)) {
            let mut answers = 0;
            let mut answer = |data: &[u8]| {
                answers += 1;
                check_answer(&packet, data);
            };
            management.interest(now, unix_ms, from, &packet, &mut node, &mut answer);
            assert!(answers <= 1);
        }
        // What a change of the RIB or a dataset leaves for later has its turns.
        loop {
            management.tick(now, &mut node);
            let answer = &mut |data: &[u8]| assert!(Data::new_checked(data).is_ok());
            management.write_datasets(now, answer);
            management.connections(now, &mut node, answer);
            if management.next_deadline().is_none_or(|at| at > now) {
                break;
            }
        }
        assert!(management.rib().len() <= ROUTES_MAX);
        let hops = || management.rib().next_hops().flat_map(|(_, hops)| hops);
        assert!(gone.is_none_or(|gone| hops().all(|hop| hop.face != gone)));
        let expected = management.rib().next_hops();
        assert!(expected.eq(node.fib.iter().map(|(name, hops)| (name.clone(), &hops[..]))));
    }
}

fn check_answer(asked: &[u8], answer: &[u8]) {
    let asked = Interest::new_checked(asked).expect("what is no Interest is not answered");
    let data = Data::new_checked(answer).expect("answers are Data");
    assert!(asked.name().is_prefix_of(&data.name()));
    assert!(answer.len() <= PACKET_LEN_MAX);
    assert_eq!(data.signature_value(), sha256(data.signed_portion()));
}

/// Every command with parameters that it takes, every dataset, and faces that go and come.
pub(crate) fn management_scripts() -> Vec<Vec<u8>> {
    let step = |action: u8, argument: u8, bytes: &[u8]| {
        let len = (bytes.len() as u16).to_be_bytes();
        [&[action, argument, len[0], len[1]][..], bytes].concat()
    };
    let name = |text: &str| text.parse::<NameBuf>().ok();
    let parameters = |prefix: &str, flags: u64| {
        let all = ControlParameters {
            name: name(prefix),
            uri: Some("udp4://192.0.2.1:6363".into()),
            cost: Some(7),
            flags: Some(flags),
            mask: Some(3),
            strategy: name("/localhost/nfd/strategy/asf").map(|name| Strategy { name }),
            expiration_ms: (flags == 2).then_some(300),
            count: Some(300),
            ..ControlParameters::default()
        };
        all.to_bytes()
    };
    let commands = |prefix: &str, flags| -> Vec<u8> {
        (0..VERBS.len() as u8).flat_map(|v| step(0, v, &parameters(prefix, flags))).collect()
    };
    let ask = |text: &str| {
        let name: NameBuf = text.parse().unwrap_or_default();
        let repr = interest::Repr { can_be_prefix: true, ..interest::Repr::new(name.as_name()) };
        let mut packet = vec![0; repr.buffer_len()];
        repr.emit(&mut packet).map(|()| step(4, 0, &packet)).unwrap_or_default()
    };
    let datasets = [
        "rib/list",
        "fib/list",
        "faces/list",
        "faces/query/%96%00",
        "faces/channels",
        "faces/events",
        "faces/events/seq=1",
        "strategy-choice/list",
        "cs/info",
        "status/general",
        "rib/list/v=1800000000001000/seg=0",
    ];
    let datasets: Vec<u8> =
        datasets.iter().flat_map(|text| ask(&format!("/localhost/nfd/{text}"))).collect();
    let inherit = [("/", 1), ("/a", 3), ("/a/b", 1), ("/a/b/c", 0), ("/a/b", 2)];
    let nested: Vec<u8> =
        inherit.iter().flat_map(|(n, f)| step(0, 0, &parameters(n, *f))).collect();
    let faces = [step(6, 0, &[]), step(7, 0, &[]), step(6, 3, &[])].concat();
    vec![
        commands("/a", 1),
        [commands("/a/b", 3), datasets.clone()].concat(),
        [nested.clone(), faces.clone(), datasets].concat(),
        [nested, faces].concat(),
    ]
}
