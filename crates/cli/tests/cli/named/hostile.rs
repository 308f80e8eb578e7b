//! Whoever means harm, by real sockets. After each attempt a well-behaved client is served, and
//! what was refused is counted by reason.

use std::net::{TcpStream, UdpSocket};

use plexus_ndn::face::Scope;
use plexus_ndn_apps::command::Register;
use plexus_wire::Time;
use plexus_wire::ndn::Interest;
use plexus_wire::ndn::lp::{self, Headers};
use plexus_wire::ndn::nfd::{ControlResponse, Record};

use super::*;

/// Not a loopback address: who comes from there counts as another machine.
const BOX: &str = "192.0.2.1:6363";
const FORGED: &str = "/localhost from another machine";

struct Siege {
    desk: Desk,
    place: Namespaces,
    node: Node,
    _producer: Running,
    content: Vec<u8>,
}

impl Siege {
    fn new() -> Option<Siege> {
        let [place] = common::namespaces("hostile input", common::quiet)?;
        common::ip(&place, "link set lo up");
        common::ip(&place, "address add 192.0.2.1/32 dev lo");
        let desk = Desk::new("named-hostile");
        // Nobody answers at the silent face.
        let node = desk.node_in(
            &place,
            "n",
            &format!(
                "tcp = [\"{BOX}\"]\nudp = [\"{BOX}\"]\nopen = true\n[[named.face]]\n\
                 name = \"silent\"\nremote = \"udp4://192.0.2.1:9\"\n[[named.route]]\n\
                 prefix = \"/silent\"\nface = \"silent\"\n"
            ),
        );
        let (file, content) = desk.object(100_000);
        let producer = desk.serve(&node, "/object", &file);
        assert!(until(|| node.has_route("/silent")));
        Some(Siege { desk, place, node, _producer: producer, content })
    }

    #[track_caller]
    fn serves(&self) {
        assert!(self.desk.fetch("n", "/object").is_some_and(|got| got == self.content));
    }

    fn tcp(&self) -> TcpStream {
        let stream = self.place.run(|| TcpStream::connect(BOX)).unwrap().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn udp(&self) -> UdpSocket {
        let socket = self.place.run(|| UdpSocket::bind("192.0.2.1:0")).unwrap().unwrap();
        socket.connect(BOX).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// What the node says of the face of this socket.
    fn face(&self, remote: &str) -> Value {
        common::item(&self.node.show("faces").unwrap()["faces"], "remote", remote)
    }
}

fn uri(socket: &UdpSocket) -> String {
    format!("udp4://{}", socket.local_addr().unwrap())
}

fn interest(name: &str, nonce: u32, can_be_prefix: bool) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let nonce = Some(nonce.to_be_bytes());
    let repr = interest::Repr::new(name.as_name());
    interest::Repr { can_be_prefix, nonce, ..repr }.to_bytes().unwrap()
}

/// A signed `rib/register`.
fn register(scope: Scope) -> Vec<u8> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    let wall = (Time::ZERO, since.as_millis() as u64);
    let mut out = Vec::new();
    Register::new("/mine".parse().unwrap(), None, scope, wall, 7).poll(Time::ZERO, &mut out);
    out.pop().unwrap().1
}

fn fragment(sequence: u64, index: u64, count: u64) -> Vec<u8> {
    let headers = Headers {
        sequence: Some(sequence),
        frag_index: Some(index),
        frag_count: Some(count),
        ..Headers::default()
    };
    let repr = lp::Repr { headers, acks: &[], fragment: Some(&[6; 1000]) };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn whoever_means_harm_is_counted_and_harms_nobody_else() {
    let Some(siege) = Siege::new() else { return };
    siege.serves();
    streams_that_cannot_be_cut(&siege);
    siege.serves();
    datagrams_that_are_no_packets(&siege);
    siege.serves();
    fragments_that_never_complete(&siege);
    siege.serves();
    names_of_this_machine_from_another(&siege);
    siege.serves();
    commands_without_right(&siege);
    siege.serves();
    floods(&siege);
    siege.serves();
}

/// Truncated, endless, nothing: the connection ends, and only that.
fn streams_that_cannot_be_cut(siege: &Siege) {
    let giant = [&[5, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF][..], &[0; 5000]].concat();
    let long = [&[5, 0xFD, 0xFF, 0xFF][..], &[7; 5000]].concat();
    for bytes in [&[5, 10, 7][..], &giant, &long, &[0; 100], &[0xFF; 20]] {
        let mut stream = siege.tcp();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    assert!(until(|| {
        let faces = siege.node.show("faces").unwrap();
        let list = faces["faces"].as_array().unwrap();
        !list.iter().any(|f| f["remote"].as_str().unwrap().starts_with("tcp"))
    }));
}

fn datagrams_that_are_no_packets(siege: &Siege) {
    let socket = siege.udp();
    let malformed = [&[5][..], &[5, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF], &[7, 0], &[6, 5, 1], &[9; 99]];
    for bytes in malformed {
        socket.send(bytes).unwrap();
    }
    // Two link packets with something else inside, and an Interest without a name.
    socket.send(&[100, 4, 80, 2, 7, 0]).unwrap();
    socket.send(&[100, 6, 80, 4, 6, 0, 6, 0]).unwrap();
    socket.send(&[5, 0]).unwrap();
    let is_counted = || {
        let face = siege.face(&uri(&socket));
        face["link_malformed"] == 5 && face["link_refused"] == 2 && face["dropped"] == 1
    };
    assert!(until(is_counted), "{}", siege.face(&uri(&socket)));
}

fn fragments_that_never_complete(siege: &Siege) {
    let socket = siege.udp();
    for n in 0..3000 {
        socket.send(&fragment(n * 1000, n % 3, 4)).unwrap();
    }
    socket.send(&fragment(5, 0, 401)).unwrap();
    socket.send(&fragment(5, 0, u64::MAX)).unwrap();
    let is_counted = || siege.face(&uri(&socket))["fragments_refused"] == 2;
    assert!(until(is_counted), "{}", siege.face(&uri(&socket)));
    let memory = || siege.node.show("faces").unwrap()["reassembly"].clone();
    let now = memory();
    assert!(now["evicted"].as_u64().unwrap() > 0, "{now}");
    assert!(now["used_bytes"].as_u64().unwrap() <= 512 << 10, "{now}");
    assert!(until(|| memory()["used_bytes"] == 0 && memory()["timed_out"] != 0), "{}", memory());
}

fn names_of_this_machine_from_another(siege: &Siege) {
    let status = interest("/localhost/nfd/status/general", 1, true);
    let mut data = interest("/localhost/nfd/x", 2, false);
    data[0] = 6;
    // What is asked next is the first that is answered.
    let next = interest("/object/32=metadata", 3, true);
    let is_answer = |answer: &[u8]| {
        let fragment = lp::Packet::new_checked(answer).ok().and_then(|p| p.fragment());
        let data = Data::new_checked(fragment.unwrap_or(answer));
        data.is_ok_and(|data| data.name().to_string().starts_with("/object/32=metadata"))
    };
    let mut answer = vec![0; 9000];
    let socket = siege.udp();
    socket.send(&status).unwrap();
    socket.send(&next).unwrap();
    let n = socket.recv(&mut answer).unwrap();
    assert!(is_answer(&answer[..n]), "{:?}", &answer[..n]);
    let fates = siege.face(&uri(&socket))["fates"].clone();
    assert_eq!(fates[FORGED], 1, "{fates}");
    let mut stream = siege.tcp();
    stream.write_all(&[status, next].concat()).unwrap();
    let n = stream.read(&mut answer).unwrap();
    assert!(is_answer(&answer[..n]), "{:?}", &answer[..n]);
    let remote = format!("tcp4://{}", stream.local_addr().unwrap());
    let fates = siege.face(&remote)["fates"].clone();
    assert_eq!(fates[FORGED], 1, "{fates}");
}

fn commands_without_right(siege: &Siege) {
    let commands = || siege.node.show("names").unwrap()["commands"].clone();
    let before = commands();
    let counted = |why: &str| commands()[why].as_u64().unwrap() - before[why].as_u64().unwrap();
    // An application of this machine says the same twice, and something without a signature.
    let mut app = UnixStream::connect(siege.desk.path("n.nfd")).unwrap();
    app.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = vec![0; 9000];
    let mut code = |packet: &[u8]| {
        app.write_all(packet).unwrap();
        let n = app.read(&mut answer).unwrap();
        let data = Data::new_checked(&answer[..n]).unwrap();
        ControlResponse::parse(data.content()).unwrap().code
    };
    let mut signed = register(Scope::Local);
    assert_eq!((code(&signed), counted("done")), (200, 1));
    // The nonce is not signed, and no cache answers for the management.
    let nonce = Interest::new_checked(&signed).unwrap().nonce().unwrap();
    let at = signed.windows(4).rposition(|bytes| *bytes == nonce).unwrap();
    signed[at] = signed[at].wrapping_add(1);
    assert_eq!(code(&signed), 403);
    assert_eq!((counted("done"), counted("replayed")), (1, 1));
    let plain = interest("/localhost/nfd/rib/register/h%05%07%03%08%01a", 4, false);
    assert_eq!((code(&plain), counted("unsigned")), (403, 1));
    // A neighbour changes what was signed.
    let mut forged = register(Scope::NonLocal);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    siege.udp().send(&forged).unwrap();
    assert!(until(|| counted("forged") == 1), "{}", commands());
    assert!(!siege.node.show("names").unwrap()["routes"].to_string().contains("\"/a\""));
}

/// For names that nobody has, and for such as nobody answers.
fn floods(siege: &Siege) {
    let socket = siege.udp();
    for n in 0..20_000 {
        let silent = if n % 2 == 0 { "silent" } else { "none" };
        let _ = socket.send(&interest(&format!("/{silent}/{n}"), n, false));
    }
    let face = || siege.face(&uri(&socket));
    assert!(until(|| face()["received"]["interests"].as_u64().unwrap_or(0) > 5000), "{}", face());
    // While they are pending.
    let names = siege.node.show("names").unwrap();
    assert!(names["pending"].as_u64().unwrap() > 0, "{names}");
    assert!(face()["sent"]["nacks"].as_u64().unwrap() > 0, "{}", face());
}
