//! A naive node for management to command, and a client that signs.

use std::collections::BTreeMap;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use plexus_ndn::face::FaceId;
use plexus_ndn::fib::{FibError, NextHop};
use plexus_ndn::management::{
    CacheChange, CacheInfo, Claim, ED25519_SPKI, Erased, FaceRefusal, FaceRequest, FaceSettings,
    Host, Management, ManagementConfig, ManagementLimits, RibLimits, Route, Trust, TrustedKey,
};
use plexus_ndn::strategy::StrategyError;
use plexus_wire::Time;
use plexus_wire::ndn::data::{self, ContentType, MetaInfo};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{
    ControlParameters, ControlResponse, FaceStatus, GeneralStatus, Record, face_scope,
};
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signer};
use plexus_wire::ndn::{Data, Interest, Name, NameBuf, interest};
use sha2::{Digest, Sha256};

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410).
pub fn spki(key: &SigningKey) -> Vec<u8> {
    [&ED25519_SPKI[..], &key.verifying_key().to_bytes()].concat()
}

pub fn face_id(place: u32) -> FaceId {
    FaceId::new(place, 0).unwrap()
}

/// Two applications on this machine, and a neighbour.
pub const APP: u32 = 0;
pub const OTHER: u32 = 1;
pub const NEIGHBOUR: u32 = 2;

pub fn name(text: &str) -> NameBuf {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Carries out what it is asked to, and nothing else.
#[derive(Default)]
pub struct Node {
    pub faces: BTreeMap<FaceId, FaceStatus>,
    pub fib: BTreeMap<NameBuf, Vec<NextHop>>,
    pub strategies: BTreeMap<NameBuf, NameBuf>,
    pub cache: CacheInfo,
    pub stored: Vec<NameBuf>,
    /// The FIB refuses every set of next hops that it does not have.
    pub fib_is_full: bool,
    /// Number of changes made to the FIB.
    pub orders: usize,
    pub destroyed: Vec<FaceId>,
    /// TCP faces are not connected at once; the last one is not.
    pub connects: bool,
    pub connecting: Option<FaceId>,
}

pub fn face(id: FaceId, uri: &str, scope: u64) -> FaceStatus {
    FaceStatus {
        face_id: id.number(),
        uri: uri.into(),
        local_uri: "udp4://192.0.2.254:6363".into(),
        scope,
        congestion_interval_ns: Some(100_000_000),
        congestion_threshold: Some(65536),
        mtu: Some(8800),
        in_bytes: 70_000,
        ..FaceStatus::default()
    }
}

fn apply(face: &mut FaceStatus, settings: &FaceSettings) {
    face.persistency = settings.persistency.unwrap_or(face.persistency);
    face.mtu = settings.mtu.or(face.mtu);
    let said = [settings.local_fields, settings.reliability, settings.congestion_marking];
    for (bit, on) in said.into_iter().enumerate() {
        face.flags &= !(u64::from(on.is_some()) << bit);
        face.flags |= u64::from(on == Some(true)) << bit;
    }
}

impl Host for Node {
    fn create_face(&mut self, _: Time, request: &FaceRequest) -> Result<FaceStatus, FaceRefusal> {
        let uri = request.remote.to_string();
        if let Some(known) = self.faces.values().find(|f| f.uri == uri) {
            return Err(FaceRefusal::Exists(Box::new(known.clone())));
        }
        match request.remote {
            FaceUri::Tcp(to) if to.port() == 6363 => {
                return Err(FaceRefusal::Failed("No channels available".into()));
            }
            FaceUri::Udp(_) | FaceUri::Tcp(_) => {}
            _ => return Err(FaceRefusal::Unsupported("Unsupported protocol".into())),
        }
        let id = face_id(self.faces.len() as u32 + 100);
        let mut made = face(id, &uri, face_scope::NON_LOCAL);
        apply(&mut made, &request.settings);
        self.faces.insert(id, made.clone());
        let is_tcp = matches!(request.remote, FaceUri::Tcp(_));
        self.connecting = (is_tcp && self.connects).then_some(id).or(self.connecting);
        Ok(made)
    }

    fn is_connecting(&self, face: FaceId) -> bool {
        self.connecting == Some(face)
    }

    fn update_face(
        &mut self,
        _: Time,
        face: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, FaceRefusal> {
        let face = self.faces.get_mut(&face).ok_or(FaceRefusal::Unknown)?;
        if settings.local_fields == Some(true) && face.scope == face_scope::NON_LOCAL {
            let local_fields = Some(true);
            return Err(FaceRefusal::Settings(FaceSettings { local_fields, ..Default::default() }));
        }
        apply(face, settings);
        Ok(face.clone())
    }

    fn destroy_face(&mut self, _: Time, face: FaceId) {
        if self.faces.remove(&face).is_some() {
            self.destroyed.push(face);
        }
    }

    fn faces(&self, _: Time, each: &mut dyn FnMut(&FaceStatus)) {
        self.faces.values().for_each(each);
    }

    fn channels(&self, each: &mut dyn FnMut(&FaceUri)) {
        ["udp4://0.0.0.0:6363", "unix:///run/nfd/nfd.sock"]
            .iter()
            .for_each(|uri| each(&uri.parse().unwrap()));
    }

    fn set_next_hops(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        self.orders += 1;
        let is_new = !hops.is_empty() && self.fib.values().all(|known| known != hops);
        if self.fib_is_full && is_new {
            return Err(FibError::Sets);
        }
        match hops {
            [] => drop(self.fib.remove(&prefix.to_buf())),
            hops => drop(self.fib.insert(prefix.to_buf(), hops.to_vec())),
        }
        Ok(())
    }

    fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        match strategy {
            Some(full) => drop(self.strategies.insert(prefix.to_buf(), full.clone())),
            None => drop(self.strategies.remove(&prefix.to_buf())),
        }
        Ok(())
    }

    fn cache(&self) -> CacheInfo {
        self.cache
    }

    fn set_cache(&mut self, change: CacheChange) {
        let cache = &mut self.cache;
        cache.capacity = change.capacity.unwrap_or(cache.capacity);
        cache.admits = change.admits.unwrap_or(cache.admits);
        cache.serves = change.serves.unwrap_or(cache.serves);
    }

    fn erase(&mut self, prefix: Name<'_>, count: u64) -> Erased {
        let is_under = |n: &NameBuf| prefix.is_prefix_of(&n.as_name());
        let before = self.stored.len();
        let mut left = count;
        self.stored.retain(|n| {
            let erase = left > 0 && is_under(n);
            left -= u64::from(erase);
            !erase
        });
        let more = self.stored.iter().any(is_under);
        Erased { count: (before - self.stored.len()) as u64, more }
    }

    fn status(&self) -> GeneralStatus {
        GeneralStatus { in_interests: 17, cs_entries: self.cache.entries, ..Default::default() }
    }
}

/// Signs with a digest, or by a given function.
pub struct Client {
    pub kind: SignatureType,
    pub time_ms: Option<u64>,
    pub seq_num: Option<u64>,
    pub nonce: Option<[u8; 8]>,
    pub key: Option<NameBuf>,
    pub sign: fn(&[u8]) -> Vec<u8>,
}

impl Client {
    pub fn at(time_ms: u64) -> Client {
        Client {
            kind: SignatureType::DIGEST_SHA256,
            time_ms: Some(time_ms),
            seq_num: None,
            nonce: Some([7; 8]),
            key: None,
            sign: |signed| sha256(signed).to_vec(),
        }
    }
}

impl Signer for Client {
    fn info(&self) -> SignatureInfo<'_> {
        use plexus_wire::ndn::signature::KeyLocator;
        SignatureInfo {
            time_ms: self.time_ms,
            seq_num: self.seq_num,
            nonce: self.nonce.as_ref().map(|n| &n[..]),
            key_locator: self.key.as_ref().map(|n| KeyLocator::Name(n.as_name())),
            ..SignatureInfo::new(self.kind)
        }
    }

    fn signature_len_max(&self) -> usize {
        128
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let signature = (self.sign)(&parts.concat());
        out[..signature.len()].copy_from_slice(&signature);
        signature.len()
    }
}

/// The Ed25519 key of a number, whose private key all tests know.
pub fn signing_key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

/// The same as a trusted key.
pub fn trusted_key(number: u8) -> TrustedKey {
    let name = name("/op/KEY").with([number]);
    TrustedKey::public(name, &spki(&signing_key(number))).unwrap()
}

/// Signs by the key of a number.
pub fn by<const NUMBER: u8>(time_ms: u64) -> Client {
    use ed25519_dalek::Signer as _;
    Client {
        kind: SignatureType::ED25519,
        key: Some(name("/op/KEY").with([NUMBER])),
        sign: |signed| signing_key(NUMBER).sign(signed).to_bytes().to_vec(),
        ..Client::at(time_ms)
    }
}

/// A prefix announcement (NFD wiki, "PrefixAnnouncement") for an hour.
pub fn announcement(prefix: &str, client: &Client) -> Vec<u8> {
    let name = name(prefix).to_string() + "/32=PA/v=1/seg=0";
    let name: NameBuf = name.parse().unwrap();
    let content = [109, 4, 0x00, 0x36, 0xEE, 0x80];
    let meta = MetaInfo { content_type: Some(ContentType(5)), ..MetaInfo::default() };
    let repr = data::Repr { name: name.as_name(), meta: Some(meta), content: Some(&content) };
    repr.to_bytes(client).unwrap()
}

/// The command to accept an announcement, under `/localhop` or `/localhost`.
pub fn announce(top: &str, announcement: &[u8], client: &Client) -> Vec<u8> {
    let name = name(&format!("/{top}/nfd/rib/announce"));
    let repr = interest::Repr::new(name.as_name());
    repr.with_parameters(announcement, Some(client), sha256).unwrap()
}

/// A command as of v0.3.
pub fn command(verb: &str, asked: &ControlParameters, client: &Client) -> Vec<u8> {
    let name = name(verb).with(asked.to_bytes());
    let repr = interest::Repr::new(name.as_name());
    repr.with_parameters(&[], Some(client), sha256).unwrap()
}

/// Management, its node, and the answers.
pub struct Rig {
    pub management: Management,
    pub node: Node,
    pub now: Time,
    pub unix_ms: u64,
    pub answers: Vec<Vec<u8>>,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(ManagementConfig { version: "plexus-test".into(), ..Default::default() })
    }

    pub fn with(config: ManagementConfig) -> Rig {
        let mut rig = Rig {
            management: Management::new(config),
            node: Node::default(),
            now: Time::from_secs(1000),
            unix_ms: 1_795_420_724_000,
            answers: Vec::new(),
        };
        rig.face_up(face(face_id(APP), "fd://30", face_scope::LOCAL));
        rig.face_up(face(face_id(OTHER), "fd://31", face_scope::LOCAL));
        rig.face_up(face(face_id(NEIGHBOUR), "udp4://192.0.2.2:6363", face_scope::NON_LOCAL));
        rig
    }

    pub fn trusting(trust: Trust) -> Rig {
        Rig::with(ManagementConfig { trust, ..Default::default() })
    }

    pub fn limited(limits: ManagementLimits) -> Rig {
        Rig::with(ManagementConfig { limits, ..Default::default() })
    }

    pub fn with_rib(rib: RibLimits) -> Rig {
        Rig::limited(ManagementLimits { rib, ..Default::default() })
    }

    /// Adds a route of the node itself.
    pub fn add(&mut self, prefix: &str, route: Route) {
        self.management.add_route(name(prefix).as_name(), route, &mut self.node).unwrap();
    }

    /// One more neighbour.
    pub fn neighbour(&mut self, place: u32) {
        let uri = format!("udp4://192.0.2.3:{place}");
        self.face_up(face(face_id(place), &uri, face_scope::NON_LOCAL));
    }

    pub fn face_up(&mut self, status: FaceStatus) {
        let id = FaceId::from_number(status.face_id).unwrap();
        self.node.faces.insert(id, status.clone());
        let answers = &mut self.answers;
        self.management.face_up(self.now, &status, &mut |p| answers.push(p.into()));
    }

    pub fn face_link(&mut self, id: FaceId, is_up: bool) {
        let answers = &mut self.answers;
        self.management.face_link(self.now, id, is_up, &mut |p| answers.push(p.into()));
    }

    pub fn face_down(&mut self, id: FaceId) {
        self.node.faces.remove(&id);
        let answers = &mut self.answers;
        let mut answer = |p: &[u8]| answers.push(p.into());
        self.management.face_down(self.now, id, "refused", &mut self.node, &mut answer);
    }

    /// Changes the trust; returns how many routes were withdrawn.
    pub fn trust(&mut self, trust: Trust) -> usize {
        self.management.set_trust(trust, &mut self.node)
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.unix_ms += ms;
    }

    /// Passes an Interest in; returns its answers.
    pub fn interest(&mut self, from: u32, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let mut answer = |p: &[u8]| answers.push(p.into());
        let (now, unix_ms, from) = (self.now, self.unix_ms, face_id(from));
        self.management.interest(now, unix_ms, from, packet, &mut self.node, &mut answer);
        answers
    }

    /// The one response to a command.
    pub fn respond(&mut self, from: u32, packet: &[u8]) -> ControlResponse {
        let answers = self.interest(from, packet);
        assert_eq!(answers.len(), 1, "a command has one answer");
        let data = Data::new_checked(&answers[0]).unwrap();
        assert_eq!(data.name(), Interest::new_checked(packet).unwrap().name());
        assert_eq!(data.freshness(), Duration::from_secs(1));
        assert_eq!(data.signature_value(), sha256(data.signed_portion()));
        ControlResponse::parse(data.content()).unwrap()
    }

    /// Signs and sends a command, a millisecond after the last.
    pub fn command(&mut self, verb: &str, asked: &ControlParameters) -> ControlResponse {
        self.command_from(APP, verb, asked)
    }

    pub fn command_from(
        &mut self,
        from: u32,
        verb: &str,
        asked: &ControlParameters,
    ) -> ControlResponse {
        let packet = self.signed(verb, asked);
        self.respond(from, &packet)
    }

    pub fn signed(&mut self, verb: &str, asked: &ControlParameters) -> Vec<u8> {
        self.pass(1);
        command(verb, asked, &Client::at(self.unix_ms))
    }

    /// The answers to clients that wait for a connection.
    pub fn connections(&mut self) -> Vec<ControlResponse> {
        let mut told = Vec::new();
        let mut answer = |packet: &[u8]| {
            let data = Data::new_checked(packet).unwrap();
            told.push(ControlResponse::parse(data.content()).unwrap());
        };
        self.management.connections(self.now, &mut self.node, &mut answer);
        told
    }

    /// The driver's next turn; returns the answers.
    pub fn turn(&mut self) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        self.management.tick(self.now, &mut self.node);
        let mut answer = |p: &[u8]| answers.push(p.into());
        self.management.write_datasets(self.now, &mut answer);
        answers
    }

    /// True if another turn has work to do at once.
    pub fn is_behind(&self) -> bool {
        self.management.next_deadline() == Some(Time::ZERO)
    }

    /// A plain Interest for a dataset, which may be answered some turns later.
    pub fn ask(&mut self, text: &str) -> Vec<Vec<u8>> {
        let answers = self.ask_once(text);
        self.wait(answers)
    }

    /// Runs turns until there is an answer or nothing left to do.
    pub fn wait(&mut self, mut answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        while answers.is_empty() && self.is_behind() {
            answers = self.turn();
        }
        answers
    }

    /// A plain Interest for a dataset, and what is answered at once.
    pub fn ask_once(&mut self, text: &str) -> Vec<Vec<u8>> {
        let name = name(text);
        let repr = interest::Repr {
            can_be_prefix: true,
            must_be_fresh: true,
            ..interest::Repr::new(name.as_name())
        };
        let packet = repr.to_bytes().unwrap();
        self.interest(APP, &packet)
    }

    /// Fetches a whole dataset, segment by segment.
    pub fn dataset(&mut self, text: &str) -> Vec<u8> {
        let first = self.ask(text);
        assert_eq!(first.len(), 1, "{text}");
        self.rest(&first[0])
    }

    /// Fetches the segments after the first.
    pub fn rest(&mut self, first: &[u8]) -> Vec<u8> {
        let data = Data::new_checked(first).unwrap();
        let prefix = data.name().prefix(data.name().len() - 1).to_buf();
        let last = data.meta().final_block.unwrap().number(50).unwrap();
        let mut content = data.content().to_vec();
        assert_eq!(data.name().last().unwrap().number(50), Some(0));
        for number in 1..=last {
            let wanted = prefix.clone().with_number(50, number);
            let answers = self.ask(&wanted.to_string());
            let data = Data::new_checked(&answers[0]).unwrap();
            assert_eq!(data.name(), wanted.as_name());
            content.extend_from_slice(data.content());
        }
        content
    }

    pub fn hops(&self, prefix: &str) -> Vec<(u64, FaceId)> {
        let hops = self.node.fib.get(&name(prefix)).cloned().unwrap_or_default();
        hops.iter().map(|hop| (hop.cost, hop.face)).collect()
    }
}

/// Command parameters for a prefix.
pub fn of(prefix: &str) -> ControlParameters {
    ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() }
}

pub fn at_cost(prefix: &str, cost: u64) -> ControlParameters {
    ControlParameters { cost: Some(cost), ..of(prefix) }
}

/// A route of the node itself.
pub fn route(face: u32, origin: u64, cost: u64, flags: u64) -> Route {
    Route { face: face_id(face), origin, cost, flags, expires: None, claim: Claim::OWN }
}
