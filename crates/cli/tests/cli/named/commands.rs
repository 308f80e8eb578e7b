//! Commands by a node's socket, as NFD's tools send them, and answers as NFD's.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use plexus_ndn_apps::digest::{DigestSigner, sha256};
use plexus_wire::ndn::nfd::{
    ControlParameters, ControlResponse, FaceStatus, FibEntry, Record, RibEntry,
};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType, Signer};
use plexus_wire::ndn::{Data, Name, NameBuf, interest, types};
use sha2::Sha256;

use super::Desk;
use super::workers::own_address;
use crate::common::until;

const NONCE: [u8; 4] = [0xAB, 0xCD, 0xEF, 0x01];

/// An application that commands.
pub(crate) struct Client(UnixStream);

impl Client {
    pub(crate) fn new(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(stream)
    }

    /// The content of the Data that answers.
    fn ask(&mut self, packet: &[u8]) -> Vec<u8> {
        let answer = self.exchange(packet);
        Data::new_checked(&answer).unwrap().content().to_vec()
    }

    /// The Data that answers.
    fn exchange(&mut self, packet: &[u8]) -> Vec<u8> {
        self.0.write_all(packet).unwrap();
        let (mut answer, mut part) = (Vec::new(), [0; 9000]);
        while Data::new_checked(&answer).is_err() {
            let n = self.0.read(&mut part).unwrap();
            assert!(n > 0, "no answer");
            answer.extend_from_slice(&part[..n]);
        }
        answer
    }

    pub(crate) fn command(&mut self, verb: &str, asked: &ControlParameters) -> ControlResponse {
        ControlResponse::parse(&self.ask(&signed(verb, asked))).unwrap()
    }

    fn list(&mut self) -> Vec<FaceStatus> {
        FaceStatus::parse_dataset(&self.dataset("faces/list")).unwrap()
    }

    /// A whole dataset, segment by segment.
    fn dataset(&mut self, dataset: &str) -> Vec<u8> {
        let mut name: NameBuf = format!("/localhost/nfd/{dataset}").parse().unwrap();
        let mut content = Vec::new();
        for number in 0.. {
            let packet = self.exchange(&plain(name.as_name()));
            let data = Data::new_checked(&packet).unwrap();
            content.extend_from_slice(data.content());
            let versioned = data.name().prefix(data.name().len() - 1).to_buf();
            name = versioned.with_number(types::SEGMENT, number + 1);
            let last = data.meta().final_block.and_then(|last| last.number(types::SEGMENT));
            if last.expect("every segment says which is the last") == number {
                break;
            }
        }
        content
    }
}

/// An Interest for what is new of a name.
fn plain(name: Name<'_>) -> Vec<u8> {
    let nonce = Some(rand::random());
    let repr = interest::Repr::new(name);
    interest::Repr { can_be_prefix: true, must_be_fresh: true, nonce, ..repr }.to_bytes().unwrap()
}

fn signed(verb: &str, asked: &ControlParameters) -> Vec<u8> {
    let time_ms = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let nonce = rand::random::<[u8; 8]>();
    signed_by(verb, asked, &DigestSigner::command(&nonce, time_ms))
}

fn signed_by(verb: &str, asked: &ControlParameters, signer: &dyn Signer) -> Vec<u8> {
    let verb: NameBuf = format!("/localhost/nfd/{verb}").parse().unwrap();
    let name = verb.with(asked.to_bytes());
    let repr = interest::Repr {
        can_be_prefix: true,
        nonce: Some(NONCE),
        lifetime_ms: Some(10_000),
        ..interest::Repr::new(name.as_name())
    };
    repr.with_parameters(&[], Some(signer), sha256).unwrap()
}

/// Signs by a secret that the node has too.
struct Secret<'a> {
    name: Name<'a>,
    secret: &'a [u8],
    time_ms: u64,
}

impl Signer for Secret<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: Some(KeyLocator::Name(self.name)),
            time_ms: Some(self.time_ms),
            ..SignatureInfo::new(SignatureType::HMAC_WITH_SHA256)
        }
    }

    fn signature_len_max(&self) -> usize {
        32
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        out.copy_from_slice(&mac.finalize().into_bytes());
        32
    }
}

#[test]
fn who_shares_a_secret_with_the_node_commands_it() {
    let desk = Desk::new("named-secret");
    let file = desk.path("operator.secret");
    let named = format!(
        "signed = true\n[[named.secret]]\nname = \"/operator\"\nfile = {:?}\n",
        file.display().to_string()
    );
    let secret: Vec<u8> = (0..32).collect();
    fs::write(&file, STANDARD.encode(&secret)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let node = desk.node("n", &named);
    let mut client = Client::new(&desk.path("n.nfd"));
    let operator: NameBuf = "/operator".parse().unwrap();
    let mut register = |name: &str, secret: &[u8]| {
        let time_ms = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let signer = Secret { name: operator.as_name(), secret, time_ms };
        let told = client.ask(&signed_by("rib/register", &of(name), &signer));
        ControlResponse::parse(&told).unwrap().code
    };
    assert_eq!(register("/mine", &secret), 200);
    assert_eq!(register("/forged", &secret[1..]), 403);
    assert!(node.has_route("/mine") && !node.has_route("/forged"));
    assert_eq!(client.command("rib/register", &of("/unsigned")).code, 403);
}

/// What commands ask for that are of a prefix.
pub(crate) fn of(prefix: &str) -> ControlParameters {
    ControlParameters { name: Some(prefix.parse().unwrap()), ..ControlParameters::default() }
}

fn to(uri: &str) -> ControlParameters {
    ControlParameters { uri: Some(uri.into()), ..ControlParameters::default() }
}

#[test]
fn lists_of_many_prefixes_are_written_by_turns_and_answered() {
    let desk = Desk::new("named-lists");
    let _node = desk.node("n", "");
    let mut client = Client::new(&desk.path("n.nfd"));
    let expected: Vec<NameBuf> =
        (0..2000).map(|n| format!("/many/{n:04}").parse().unwrap()).collect();
    for prefix in &expected {
        let asked = of(&prefix.to_string());
        assert_eq!(client.command("rib/register", &asked).code, 200);
    }
    let mut rib = RibEntry::parse_dataset(&client.dataset("rib/list")).unwrap();
    rib.retain(|entry| entry.name.to_string().starts_with("/many/"));
    assert!(rib.iter().map(|entry| &entry.name).eq(&expected));
    let mut fib = FibEntry::parse_dataset(&client.dataset("fib/list")).unwrap();
    fib.retain(|entry| entry.name.to_string().starts_with("/many/"));
    assert!(fib.iter().map(|entry| &entry.name).eq(&expected));
}

#[test]
fn a_connection_is_told_of_when_it_is_there_or_cannot_be_made() {
    let desk = Desk::new("named-connecting");
    let node = desk.node("n", "");
    let mut client = Client::new(&desk.path("n.nfd"));
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", peer.local_addr().unwrap());
    let asked = ControlParameters { persistency: Some(2), ..to(&uri) };
    let made = client.command("faces/create", &asked);
    let face = made.parameters.unwrap();
    assert_eq!((made.code, face.persistency), (200, Some(2)));
    let local = face.local_uri.unwrap();
    assert!(local.starts_with("tcp4://127.0.0.1:") && !local.ends_with(":0"), "{local}");
    let gone = ControlParameters { face_id: face.face_id, ..ControlParameters::default() };
    assert_eq!(client.command("faces/destroy", &gone).code, 200);
    drop(peer);
    let refused = client.command("faces/create", &asked);
    assert_eq!(refused.code, 504, "{refused}");
    assert!(refused.text.starts_with("Connection failed: Connection refused"), "{refused}");
    // It is not tried again, permanent though it was to be.
    let is_gone = || !node.show("faces").unwrap().to_string().contains(&uri);
    assert!(until(is_gone));
}

#[test]
fn what_a_face_came_to_is_told_as_nfd_tells_it() {
    let desk = Desk::new("named-answers");
    let own = own_address(3);
    let _node = desk.node("n", &format!("udp = [\"{own}\"]\n"));
    let mut client = Client::new(&desk.path("n.nfd"));
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = format!("tcp4://{}", peer.local_addr().unwrap());
    let udp = "udp4://127.0.0.1:9";
    let with_mtu = |uri, mtu| ControlParameters { mtu: Some(mtu), ..to(uri) };
    let mut refused = |asked: &ControlParameters| {
        let told = client.command("faces/create", asked);
        assert_eq!(told.code, 406, "{told}");
        told.text
    };
    assert_eq!(refused(&with_mtu(&tcp, 1400)), "TCP faces do not support MTU overrides");
    assert_eq!(refused(&with_mtu(udp, 63)), "Override MTU cannot be less than 64");
    let local = ControlParameters { flags: Some(1), mask: Some(1), ..to(udp) };
    assert!(refused(&local).starts_with("Local fields can only be enabled"));

    // Answers have neither marking nor MTU, which clients want in two orders: the list has them.
    let status = |client: &mut Client, id: Option<u64>| {
        client.list().into_iter().find(|face| Some(face.face_id) == id).unwrap()
    };
    let made = client.command("faces/create", &with_mtu(udp, 1_000_000)).parameters.unwrap();
    assert_eq!((made.mtu, made.congestion_threshold), (None, None));
    let own = client.list().into_iter().find(|face| face.uri == "internal://").unwrap();
    assert!(own.face_id == 256 && own.out_interests >= 1 && own.expiration_ms.is_none(), "{own:?}");
    let listed = status(&mut client, made.face_id);
    let marking = (listed.congestion_interval_ns, listed.congestion_threshold);
    assert_eq!(marking, (Some(100_000_000), Some(65536)));
    assert_eq!(listed.mtu, Some(8800), "no longer than packets are");
    let off = ControlParameters {
        face_id: made.face_id,
        flags: Some(0),
        mask: Some(4),
        congestion_threshold: Some(1000),
        mtu: Some(1400),
        ..ControlParameters::default()
    };
    let changed = client.command("faces/update", &off).parameters.unwrap();
    assert_eq!(changed.flags, Some(0));
    let listed = status(&mut client, made.face_id);
    assert_eq!(listed.congestion_threshold, Some(1000), "though it marks nothing");
    assert_eq!((listed.congestion_interval_ns, listed.mtu), (Some(100_000_000), Some(1400)));
    let least = ControlParameters { mtu: Some(64), ..off.clone() };
    assert_eq!(client.command("faces/update", &least).code, 200);
    assert_eq!(status(&mut client, made.face_id).mtu, Some(64));
    let short = ControlParameters { mtu: Some(63), ..off };
    let told = client.command("faces/update", &short);
    assert_eq!((told.code, told.parameters.unwrap().mtu), (409, Some(63)));

    let stream = client.command("faces/create", &to(&tcp)).parameters.unwrap();
    assert_eq!(status(&mut client, stream.face_id).mtu, Some(8800));
    let longer = ControlParameters { face_id: stream.face_id, mtu: Some(9000), ..short };
    assert_eq!(client.command("faces/update", &longer).code, 409);
}
