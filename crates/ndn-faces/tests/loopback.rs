//! Each transport with real sockets, on this machine.

#[path = "loopback/room.rs"]
mod room;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_io::Pool;
use plexus_io::memory::{self, MemoryPort};
use plexus_ndn::face::{FaceId, LinkType, Scope};
use plexus_ndn::link::{Kind, Options, Received};
use plexus_ndn_faces::{
    BATCH, Bounds, Down, EthernetEnds, Faces, Facts, Group, Listen, Persistency, Receiver, Refusal,
    Settings, Table,
};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::tlv::Writer;
use plexus_wire::{MacAddr, Time};
use tempfile::TempDir;

/// Answers every Interest with Data of the same contents, and records events.
#[derive(Default)]
struct Echo {
    up: Vec<Facts>,
    down: Vec<(FaceId, Down)>,
    links: Vec<(FaceId, bool)>,
    packets: Vec<(FaceId, Kind, Vec<u8>)>,
    /// The sizes of the batches.
    batches: Vec<usize>,
    is_quiet: bool,
    /// The station that has answered an Interest.
    answering: Option<MacAddr>,
    /// How often it was asked which faces have answered.
    asked: usize,
}

impl Echo {
    fn packet(&mut self, now: Time, face: FaceId, received: &Received<'_>, out: &mut Table) {
        self.packets.push((face, received.kind, received.packet.to_vec()));
        if received.kind == Kind::Interest && !self.is_quiet {
            let mut data = received.packet.to_vec();
            data[0] = 6;
            let headers = Headers { pit_token: received.headers.pit_token, ..Headers::default() };
            out.send(now, face, &headers, &data);
        }
    }
}

impl Receiver for Echo {
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table) {
        assert!(!batch.is_empty() && batch.len() <= BATCH);
        self.batches.push(batch.len());
        for (face, received) in batch {
            self.packet(now, *face, received, out);
        }
    }

    fn face_up(&mut self, _now: Time, face: &Facts) {
        self.up.push(face.clone());
    }

    fn face_down(&mut self, _now: Time, face: FaceId, why: &Down) {
        self.down.push((face, why.clone()));
    }

    fn face_link(&mut self, _now: Time, face: FaceId, is_up: bool) {
        self.links.push((face, is_up));
    }

    fn answered(&mut self, faces: &[FaceId]) -> Vec<FaceId> {
        self.asked += 1;
        let answering = self.answering.map(FaceUri::Ether);
        let up = self.up.iter().filter(|face| Some(&face.remote) == answering.as_ref());
        up.map(|face| face.id).filter(|id| faces.contains(id)).collect()
    }
}

struct Rig {
    faces: Faces,
    echo: Echo,
    now: Time,
}

impl Rig {
    fn new(bounds: Bounds) -> Rig {
        let faces = Faces::new(bounds, 1).unwrap();
        Rig { faces, echo: Echo::default(), now: Time::from_secs(1) }
    }

    fn listen(&mut self, listen: &Listen) -> Option<SocketAddr> {
        self.faces.listen(listen).unwrap()
    }

    fn create(&mut self, remote: FaceUri, persistency: Persistency) -> FaceId {
        let settings = Settings::new(persistency);
        self.faces.create(self.now, &remote, None, settings, &mut self.echo).unwrap()
    }

    /// A forwarder that listens at a Unix socket.
    fn on_unix(bounds: Bounds) -> (Rig, TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut rig = Rig::new(bounds);
        rig.listen(&Listen::Unix(path.clone()));
        (rig, folder, path)
    }

    fn send(&mut self, face: FaceId, packet: &[u8]) {
        self.faces.table_mut().send(self.now, face, &Headers::default(), packet);
    }

    /// The face of the group on a port with this address.
    fn ethernet(&mut self, port: MemoryPort, pool: Pool, own: MacAddr) -> FaceId {
        let own = Box::new(move || Some(own));
        let ends = EthernetEnds { port: Box::new(port), pool, own, mtu: None };
        self.faces.create_ethernet(self.now, ends, &mut self.echo).unwrap()
    }

    fn turn(&mut self) {
        self.faces.sleep([], Some(Duration::from_millis(5))).unwrap();
        self.now = self.now + Duration::from_millis(1);
        self.faces.turn(self.now, &mut self.echo);
    }

    /// Runs turns until the condition holds.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Rig) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}: never");
            self.turn();
        }
    }
}

fn interest(len: usize) -> Vec<u8> {
    let value = vec![0x5A; len];
    let write = |w: &mut Writer<'_>| w.element(5, &value);
    let mut bytes = vec![0; Writer::count(write)];
    write(&mut Writer::new(&mut bytes));
    bytes
}

fn data_of(mut interest: Vec<u8>) -> Vec<u8> {
    interest[0] = 6;
    interest
}

const ANY: &str = "127.0.0.1:0";

/// An application on a non-blocking Unix socket.
fn application(path: &Path) -> UnixStream {
    let app = UnixStream::connect(path).unwrap();
    app.set_nonblocking(true).unwrap();
    app
}

/// A caller on a non-blocking TCP socket.
fn caller(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Writes packets to a stream. If one is only partly written, the rest of it is written first.
fn writer(stream: &mut TcpStream) -> impl FnMut(&[u8]) {
    let mut rest = Vec::new();
    move |packet| {
        if rest.is_empty() {
            rest = packet.to_vec();
        }
        let n = stream.write(&rest).unwrap_or(0);
        rest.drain(..n);
    }
}

/// Reads from a non-blocking stream while the rig runs.
fn exchange(rig: &mut Rig, stream: &mut (impl Read + Write), send: &[u8], wanted: &[u8]) {
    let (mut sent, mut got) = (0, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    rig.until("the answer", |_| {
        if sent < send.len() {
            sent += stream.write(&send[sent..]).unwrap_or(0);
        }
        if let Ok(n) = stream.read(&mut buffer) {
            got.extend_from_slice(&buffer[..n]);
        }
        got.len() >= wanted.len()
    });
    assert!(got == wanted, "{} bytes came, {} wanted", got.len(), wanted.len());
}

fn is_closed(read: std::io::Result<usize>) -> bool {
    match read {
        Ok(n) => n == 0,
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn an_application_talks_by_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nfd/nfd.sock");
    // A socket file left by a killed forwarder is no obstacle.
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut rig = Rig::new(Bounds::default());
    rig.listen(&Listen::Unix(path.clone()));
    let mut app = application(&path);
    let all: Vec<Vec<u8>> = (0..300).map(|i| interest(i * 29)).collect();
    let answers: Vec<Vec<u8>> = all.iter().cloned().map(data_of).collect();
    exchange(&mut rig, &mut app, &all.concat(), &answers.concat());
    let facts = rig.echo.up[0].clone();
    assert_eq!((facts.scope, facts.persistency), (Scope::Local, Persistency::OnDemand));
    assert_eq!(facts.local, FaceUri::Unix(path.to_str().unwrap().into()));
    assert!(matches!(facts.remote, FaceUri::Fd(_)));
    let counters = rig.faces.table().counters(facts.id).unwrap();
    assert_eq!((counters.link.received, counters.link.sent), (300, 300));
    drop(app);
    rig.until("down", |rig| !rig.echo.down.is_empty());
    assert_eq!(rig.echo.down, [(facts.id, Down::Closed)]);
    drop(rig);
    assert!(!path.exists(), "the socket's file stays behind");
}

#[test]
fn packets_read_together_are_passed_on_in_batches_and_in_order() {
    let (mut rig, _folder, path) = Rig::on_unix(Bounds::default());
    let mut app = application(&path);
    let all: Vec<Vec<u8>> = (1..=41).map(interest).collect();
    let (bytes, cut) = (all.concat(), all[..39].concat().len() + 3);
    app.write_all(&bytes[..cut]).unwrap();
    rig.until("all that is whole", |rig| rig.echo.packets.len() == 39);
    // The rest of a packet that had begun arrives separately, because it lies elsewhere.
    app.write_all(&bytes[cut..]).unwrap();
    rig.until("the rest", |rig| rig.echo.packets.len() == 41);
    assert_eq!(rig.echo.batches, [BATCH, BATCH, 7, 1, 1]);
    let got: Vec<_> = rig.echo.packets.iter().map(|(_, _, packet)| packet.clone()).collect();
    assert_eq!(got, all);
    // Packets of several peers of one socket are batched too.
    let at = rig.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let peers = [0; 2].map(|_| UdpSocket::bind(ANY).unwrap());
    rig.echo.batches.clear();
    for i in 0..20 {
        peers[i % 2].send_to(&interest(i), at).unwrap();
    }
    rig.until("all datagrams", |rig| rig.echo.packets.len() == 61);
    assert_eq!(rig.echo.batches, [BATCH, 4]);
}

#[test]
fn garbage_ends_a_stream_and_only_that() {
    let mut rig = Rig::new(Bounds::default());
    let at = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let mut good = caller(at);
    let mut bad = TcpStream::connect(at).unwrap();
    bad.write_all(&[&interest(3)[..], b"GET / HTTP/1.1\r\n\r\n"].concat()).unwrap();
    rig.until("down", |rig| !rig.echo.down.is_empty());
    assert!(matches!(&rig.echo.down[0].1, Down::Broken(why) if why.contains("type 71")));
    let mut answer = Vec::new();
    // Earlier packets are answered. (Unread bytes make it a reset.)
    let _ = bad.read_to_end(&mut answer);
    assert!(answer == data_of(interest(3)) || answer.is_empty());
    exchange(&mut rig, &mut good, &interest(5), &data_of(interest(5)));
    assert_eq!(rig.echo.up[0].scope, Scope::Local);
}

#[test]
fn two_forwarders_talk_by_tcp_and_a_permanent_face_comes_back() {
    let mut near = Rig::new(Bounds::default());
    let mut far = Rig::new(Bounds::default());
    let at = far.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let face = near.create(FaceUri::Tcp(at), Persistency::Permanent);
    near.send(face, &interest(8000));
    near.until("the answer", |near| {
        far.turn();
        !near.echo.packets.is_empty()
    });
    assert_eq!(near.echo.packets, [(face, Kind::Data, data_of(interest(8000)))]);
    assert_eq!(near.echo.links, [], "it was up from the start");
    // The far end closes it: the face stays, and is reconnected.
    let theirs = far.echo.up[0].id;
    let now = far.now;
    assert!(far.faces.destroy(now, theirs, &mut far.echo));
    near.until("a second connection", |near| {
        far.turn();
        near.now = near.now + Duration::from_millis(50);
        far.echo.up.len() == 2
    });
    assert_eq!(near.echo.down, []);
    near.send(face, &interest(7));
    near.until("the second answer", |near| {
        far.turn();
        near.echo.packets.len() == 2
    });
    assert_eq!(near.echo.links, [(face, false), (face, true)]);
}

#[test]
fn a_persistent_face_to_nobody_goes_down() {
    let gone = std::net::TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let mut rig = Rig::new(Bounds::default());
    let face = rig.create(FaceUri::Tcp(gone), Persistency::Persistent);
    rig.until("down", |rig| !rig.echo.down.is_empty());
    assert!(matches!(&rig.echo.down[0], (id, Down::Failed(_)) if *id == face));
}

#[test]
fn a_udp_sender_has_a_face_until_it_is_idle() {
    let mut rig = Rig::new(Bounds::default());
    let at = rig.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let apps = [0; 3].map(|_| UdpSocket::bind(ANY).unwrap());
    for (i, app) in apps.iter().enumerate() {
        for _ in 0..100 {
            app.send_to(&interest(i + 1), at).unwrap();
        }
        app.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    rig.until("all packets", |rig| rig.echo.packets.len() == 300);
    let mut buffer = [0; 100];
    for (i, app) in apps.iter().enumerate() {
        for _ in 0..100 {
            let (n, from) = app.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..n], from), (&data_of(interest(i + 1))[..], at));
        }
    }
    assert!(rig.echo.up.iter().all(|f| f.scope == Scope::NonLocal && rig.echo.up.len() == 3));
    // The idle timeout of each is known.
    let faces = rig.echo.up.iter().map(|face| face.id);
    let last: Vec<_> = faces.map(|id| rig.faces.table().expires_in(rig.now, id)).collect();
    let near_all = Duration::from_secs(590)..=Duration::from_secs(600);
    assert!(last.iter().all(|left| near_all.contains(&left.unwrap())), "{last:?}");
    // A face created by command stays although it is silent.
    let kept = rig.create("udp4://127.0.0.1:9".parse().unwrap(), Persistency::Persistent);
    assert_eq!(rig.faces.table().expires_in(rig.now, kept), None);
    rig.now = rig.now + Duration::from_secs(599);
    apps[1].send_to(&interest(1), at).unwrap();
    rig.until("one more", |rig| rig.echo.packets.len() == 301);
    rig.now = rig.now + Duration::from_secs(2);
    rig.until("two down", |rig| rig.echo.down.len() == 2);
    assert!(rig.echo.down.iter().all(|(_, why)| *why == Down::Idle));
    let left: Vec<FaceUri> = rig.faces.table().facts().map(|f| f.remote.clone()).collect();
    assert_eq!(left.len(), 2);
    assert!(left.contains(&FaceUri::Udp(apps[1].local_addr().unwrap())));
    assert!(rig.faces.destroy(rig.now, kept, &mut rig.echo));
}

#[test]
fn packets_longer_than_a_faces_mtu_arrive_in_fragments() {
    let (mut near, mut far) = (Rig::new(Bounds::default()), Rig::new(Bounds::default()));
    near.listen(&Listen::Udp(ANY.parse().unwrap()));
    let at = far.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let settings =
        Settings { mtu: Some(1400), reliability: true, ..Settings::new(Persistency::Persistent) };
    let remote = FaceUri::Udp(at);
    let face = near.faces.create(near.now, &remote, None, settings, &mut near.echo).unwrap();
    let again = near.faces.create(near.now, &remote, None, settings, &mut near.echo);
    let told = format!("face {} leads there already", face.number());
    assert_eq!(again.unwrap_err().to_string(), told);
    near.send(face, &interest(8000));
    near.until("the answer", |near| {
        far.turn();
        !near.echo.packets.is_empty()
    });
    assert_eq!(near.echo.packets[0].2, data_of(interest(8000)));
    let counters = near.faces.table().counters(face).unwrap().link;
    assert_eq!((counters.fragmented, counters.link_packets_sent >= 6), (1, true));
}

#[test]
fn a_group_hears_what_is_sent_to_it_but_not_itself() {
    // On the loopback device, so that no packet leaves the machine.
    let (local, group) = (Ipv4Addr::LOCALHOST, "224.0.23.170:56363".parse().unwrap());
    let group = Group::V4 { local, group };
    let (mut one, mut two) = (Rig::new(Bounds::default()), Rig::new(Bounds::default()));
    two.echo.is_quiet = true;
    let made = [&mut one, &mut two]
        .map(|rig| rig.faces.create_group(rig.now, &group, None, &mut rig.echo));
    let [Ok(from), Ok(to)] = made else {
        eprintln!("skipped: no multicast here ({made:?})");
        return;
    };
    assert_eq!(one.echo.up[0].link_type, LinkType::MultiAccess);
    one.send(from, &interest(10));
    one.turn();
    two.until("it", |two| {
        one.turn();
        !two.echo.packets.is_empty()
    });
    assert_eq!(two.echo.packets, [(to, Kind::Interest, interest(10))]);
    assert_eq!(one.echo.packets, []);
}

#[test]
fn peers_that_never_read_share_what_there_is_for_queues() {
    let total = 200_000;
    let bounds = Bounds { queue_bytes_total: total, ..Bounds::default() };
    let (mut rig, _folder, path) = Rig::on_unix(bounds);
    let deaf: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(&path).unwrap()).collect();
    rig.until("their faces", |rig| rig.echo.up.len() == deaf.len());
    let ids: Vec<FaceId> = rig.echo.up.iter().map(|f| f.id).collect();
    let dropped = |rig: &Rig, id| {
        let counters = rig.faces.table().counters(id).unwrap();
        (counters.dropped_full, counters.dropped_crowded)
    };
    let data = data_of(interest(8000));
    // One after the other until nothing more is accepted.
    for id in &ids {
        while dropped(&rig, *id) == (0, 0) {
            rig.send(*id, &data);
        }
        assert_eq!(dropped(&rig, *id), (0, 1), "by the bound of all");
    }
    assert!(rig.faces.table().waiting() <= total + ids.len() * 9_000);
    // A peer that reads is served beside them.
    let mut reader = UnixStream::connect(&path).unwrap();
    reader.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for _ in 0..3 {
        let asked = interest(8000);
        reader.write_all(&asked).unwrap();
        let before = rig.echo.packets.len();
        rig.until("its packet", |rig| rig.echo.packets.len() > before);
        rig.turn();
        let mut got = vec![0; data_of(asked).len()];
        reader.read_exact(&mut got).unwrap();
    }
    drop(reader);
    // Closing faces frees room.
    drop(deaf);
    rig.until("their end", |rig| rig.echo.down.len() == ids.len() + 1);
    assert_eq!(rig.faces.table().waiting(), 0);
}

#[test]
fn a_queue_in_the_kernel_marks_packets_as_one_of_ours_does() {
    let (mut rig, _folder, path) = Rig::on_unix(Bounds::default());
    let tcp = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let mut app = application(&path);
    let _far = TcpStream::connect(tcp).unwrap();
    rig.until("two faces", |rig| rig.echo.up.len() == 2);
    let data = data_of(interest(8000));
    let marked = |rig: &Rig, id| rig.faces.table().counters(id).unwrap().link.marked;
    for face in rig.echo.up.clone() {
        // The peer does not read, but the socket accepts everything.
        while marked(&rig, face.id) == 0 {
            rig.send(face.id, &data);
            rig.turn();
            assert_eq!(rig.faces.table().waiting(), 0);
            rig.now = rig.now + Duration::from_millis(60);
        }
    }
    // Once it has been read, later packets are not marked, however long they take.
    let mut buffer = vec![0; 1 << 20];
    while app.read(&mut buffer).is_ok() {}
    let id = rig.echo.up.iter().find(|face| matches!(face.local, FaceUri::Unix(_))).unwrap().id;
    for _ in 0..5 {
        rig.send(id, &data);
        rig.turn();
        let _ = app.read(&mut buffer);
        rig.now = rig.now + Duration::from_millis(60);
    }
    assert_eq!(marked(&rig, id), 1);
}

#[test]
fn packets_that_a_socket_accepts_are_not_dropped_for_a_short_queue() {
    let bounds = Bounds { queue_bytes: 30_000, ..Bounds::default() };
    let (mut rig, _folder, path) = Rig::on_unix(bounds);
    let udp = rig.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    let socket = UdpSocket::bind(ANY).unwrap();
    socket.send_to(&interest(4), udp).unwrap();
    rig.until("two faces", |rig| rig.echo.up.len() == 2);
    let data = data_of(interest(4000));
    let ids = [rig.echo.up[0].id, rig.echo.up[1].id];
    // Within one turn three times the size of the queue, and half of what sockets hold.
    for id in ids {
        for _ in 0..25 {
            rig.send(id, &data);
        }
        let counters = rig.faces.table().counters(id).unwrap();
        assert_eq!((counters.dropped_full, counters.dropped_unsent), (0, 0));
    }
    rig.turn();
    let mut got = vec![0; 25 * data.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got.chunks(data.len()).all(|packet| packet == data));
}

#[test]
fn a_peer_that_never_reads_takes_bounded_memory_and_stops_nobody() {
    let bounds = Bounds { queue_bytes: 100_000, ..Bounds::default() };
    let mut rig = Rig::new(bounds);
    let at = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let mut deaf = caller(at);
    rig.until("its face", |rig| rig.echo.up.len() == 1);
    // A mark would make some packets longer than others.
    let id = rig.echo.up[0].id;
    let options = *rig.faces.table().options(id).unwrap();
    rig.faces.table_mut().set_options(id, Options { marks: false, ..options });
    let packet = interest(8000);
    let mut sent = 0;
    rig.until("a full queue", |rig| {
        if let Ok(n) = deaf.write(&packet[sent % packet.len()..]) {
            sent += n;
        }
        let id = rig.echo.up.first().map(|f| f.id);
        let counters = id.and_then(|id| rig.faces.table().counters(id));
        rig.echo.packets.clear();
        counters.is_some_and(|c| c.dropped_full > 0)
    });
    let mut other = caller(at);
    exchange(&mut rig, &mut other, &interest(5), &data_of(interest(5)));
    // When it finally reads, complete packets arrive, and none that was begun is truncated.
    let wanted = data_of(interest(8000));
    let mut got = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    rig.until("what waited", |_| {
        while let Ok(n) = deaf.read(&mut buffer) {
            got.extend_from_slice(&buffer[..n]);
        }
        got.len() > 100_000 && got.len().is_multiple_of(wanted.len())
    });
    assert!(got.chunks(wanted.len()).all(|packet| packet == wanted));
}

/// Sends Interests until no more answers are accepted, and reads none.
fn fill(rig: &mut Rig, which: usize, mut write: impl FnMut(&[u8])) -> FaceId {
    rig.until("a full queue", |rig| {
        write(&interest(8000));
        rig.echo.packets.clear();
        let id = rig.echo.up.get(which).map(|f| f.id);
        let counters = id.and_then(|id| rig.faces.table().counters(id));
        counters.is_some_and(|c| c.dropped_full > 0)
    });
    rig.echo.up[which].id
}

#[test]
fn a_connection_whose_peer_takes_nothing_ends_after_a_minute() {
    let bounds = Bounds { queue_bytes: 100_000, ..Bounds::default() };
    let mut rig = Rig::new(bounds);
    let tcp = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let web = rig.listen(&Listen::WebSocket(ANY.parse().unwrap())).unwrap();
    let mut deaf = caller(tcp);
    let deaf_id = fill(&mut rig, 0, writer(&mut deaf));
    let shaken = std::thread::spawn(move || {
        let stream = TcpStream::connect(web).unwrap();
        tungstenite::client(format!("ws://{web}/"), stream).unwrap().0
    });
    rig.until("a WebSocket", |rig| rig.echo.up.len() == 2);
    let mut ws = shaken.join().unwrap();
    ws.get_ref().set_nonblocking(true).unwrap();
    let web_id = fill(&mut rig, 1, |packet| {
        // What cannot be written waits in tungstenite.
        let _ = ws.send(tungstenite::Message::binary(packet.to_vec()));
    });
    let mut slow = caller(tcp);
    let slow_id = fill(&mut rig, 2, writer(&mut slow));
    // A peer with nothing to read may be silent indefinitely.
    let _silent = TcpStream::connect(tcp).unwrap();
    rig.until("four", |rig| rig.echo.up.len() == 4);
    let mut buffer = vec![0; 1 << 20];
    let dropped = |rig: &Rig, id| rig.faces.table().counters(id).unwrap().dropped_full;
    for _ in 0..3 {
        assert_eq!(rig.echo.down, []);
        rig.now = rig.now + Duration::from_secs(25);
        rig.turn();
        // It reads far less than others, but it reads; and there is always more for it.
        let (mut taken, before) = (0, dropped(&rig, slow_id));
        rig.until("some is taken", |_| {
            taken += slow.read(&mut buffer).unwrap_or(0);
            taken > 1 << 20
        });
        rig.until("a full queue", |rig| {
            let data = data_of(interest(8000));
            (0..100).for_each(|_| rig.send(slow_id, &data));
            dropped(rig, slow_id) > before
        });
    }
    let mut down = rig.echo.down.clone();
    down.sort_by_key(|(id, _)| *id);
    assert_eq!(down, [(deaf_id, Down::Unread), (web_id, Down::Unread)]);
    assert_eq!(rig.faces.table().ended_unread(), 2);
}

#[test]
fn there_are_only_so_many_faces() {
    let mut rig = Rig::new(Bounds { faces: 3, ..Bounds::default() });
    let tcp = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
    let udp = rig.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let streams: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(tcp).unwrap()).collect();
    rig.until("three", |rig| rig.echo.up.len() == 3);
    let app = UdpSocket::bind(ANY).unwrap();
    app.send_to(&interest(1), udp).unwrap();
    // The faces beyond the limit were closed.
    let mut last = &streams[4];
    last.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    rig.until("closed", |_| is_closed(last.read(&mut [0])));
    assert_eq!((rig.echo.up.len(), rig.echo.packets.len()), (3, 0));
}

#[test]
fn a_browser_talks_by_a_websocket() {
    use tungstenite::{Message, client};
    let mut rig = Rig::new(Bounds::default());
    let at = rig.listen(&Listen::WebSocket(ANY.parse().unwrap())).unwrap();
    let client = std::thread::spawn(move || {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let url = format!("ws://{at}/");
        let (mut ws, _) = client(url, stream).unwrap();
        let mut got = Vec::new();
        for i in 0..1000 {
            ws.write(Message::binary(interest(i * 2))).unwrap();
        }
        ws.flush().unwrap();
        while got.len() < 1000 {
            if let Message::Binary(bytes) = ws.read().unwrap() {
                got.push(bytes.to_vec());
            }
        }
        ws.send(Message::text("hello")).unwrap();
        got
    });
    rig.until("down", |rig| !rig.echo.down.is_empty());
    let wanted: Vec<Vec<u8>> = (0..1000).map(|i| data_of(interest(i * 2))).collect();
    assert!(client.join().unwrap() == wanted);
    assert_eq!(rig.echo.up[0].scope, Scope::NonLocal);
    assert!(matches!(rig.echo.up[0].remote, FaceUri::WebSocket(_)));
    assert!(matches!(&rig.echo.down[0].1, Down::Broken(why) if why.contains("text")));
}

#[test]
fn a_browser_that_sends_without_a_pause_has_its_share_of_each_turn() {
    let mut rig = Rig::new(Bounds::default());
    rig.echo.is_quiet = true;
    let at = rig.listen(&Listen::WebSocket(ANY.parse().unwrap())).unwrap();
    let client = std::thread::spawn(move || {
        let stream = TcpStream::connect(at).unwrap();
        let mut ws = tungstenite::client(format!("ws://{at}/"), stream).unwrap().0;
        for _ in 0..10_000 {
            ws.write(tungstenite::Message::binary(interest(2))).unwrap();
        }
        ws.flush().unwrap();
        ws
    });
    rig.until("a face", |rig| !rig.echo.up.is_empty());
    // The sockets hold them all, unless this machine's are small.
    let begun = Instant::now();
    while !client.is_finished() && begun.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
    let mut most = 0;
    rig.until("all of them", |rig| {
        let before = rig.echo.packets.len();
        rig.turn();
        most = most.max(rig.echo.packets.len() - before);
        rig.echo.packets.len() == 10_000
    });
    assert!(most <= 256, "{most}");
    drop(client.join());
}

#[test]
fn half_a_handshake_is_no_face_and_does_not_last() {
    let mut rig = Rig::new(Bounds::default());
    let at = rig.listen(&Listen::WebSocket(ANY.parse().unwrap())).unwrap();
    let mut slow = TcpStream::connect(at).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
    for _ in 0..5 {
        rig.turn();
    }
    rig.now = rig.now + Duration::from_secs(11);
    slow.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    rig.until("closed", |_| is_closed(slow.read(&mut [0])));
    assert_eq!(rig.echo.up, []);
}

#[test]
fn a_sender_cannot_make_itself_a_thousand_faces() {
    // 127.0.0.0/8 is this machine, whose applications are not counted: the test uses the total
    // limit of faces, less the reserved eighth.
    let mut rig = Rig::new(Bounds { faces: 12, ..Bounds::default() });
    let at = rig.listen(&Listen::Udp(ANY.parse().unwrap())).unwrap();
    let mut by_sender: HashMap<u16, UdpSocket> = HashMap::new();
    for _ in 0..50 {
        let app = UdpSocket::bind(ANY).unwrap();
        app.send_to(&interest(1), at).unwrap();
        by_sender.insert(app.local_addr().unwrap().port(), app);
    }
    rig.until("eleven", |rig| rig.echo.packets.len() == 11);
    for _ in 0..5 {
        rig.turn();
    }
    assert_eq!((rig.echo.up.len(), rig.echo.packets.len()), (11, 11));
}

#[test]
fn forged_stations_are_removed_soon_and_answering_ones_stay() {
    for (forged, left) in [(700u16, 701), (800, 1)] {
        let (port, mut cable) = memory::port("eth0", 2048);
        let own = MacAddr([2, 0, 0, 0, 0, 1]);
        let mut pool = Pool::new(4096, 2048).unwrap();
        let mut frame = |from: MacAddr, bytes: &[u8]| {
            let frame = [&own.0[..], &from.0, &[0x86, 0x24], bytes].concat();
            cable.to_port.push(pool.alloc_from(&frame).unwrap()).unwrap();
        };
        let neighbour = MacAddr([2, 0, 0, 0, 0, 2]);
        frame(neighbour, &interest(3));
        for n in 0..forged {
            let [high, low] = n.to_be_bytes();
            // They are answered, and then send unsolicited answers.
            frame(MacAddr([6, 0, 0, 0, high, low]), &interest(5));
            frame(MacAddr([6, 0, 0, 0, high, low]), &data_of(interest(5)));
        }
        frame(neighbour, &data_of(interest(4)));
        let mut rig = Rig::new(Bounds::default());
        rig.echo.answering = Some(neighbour);
        rig.ethernet(port, pool, own);
        let all = usize::from(forged) + 2;
        let packets = 2 + 2 * usize::from(forged);
        rig.until("all packets", |rig| rig.echo.packets.len() == packets);
        for (pass, left) in [(59, all - 1), (2, left), (540, 0)] {
            rig.now = rig.now + Duration::from_secs(pass);
            (0..3).for_each(|_| rig.turn());
            let stations = rig.faces.table().facts();
            let stations = stations.filter(|f| matches!(f.remote, FaceUri::Ether(_)));
            // One of them is the group.
            assert_eq!(stations.count() - 1, left, "{forged} forged, {pass} s later");
        }
        assert_eq!(rig.echo.asked, usize::from(left == 1), "only where there are too many");
    }
}

#[test]
fn a_full_port_makes_room_for_a_retrying_station() {
    let (port, mut cable) = memory::port("eth0", 1024);
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    let mut pool = Pool::new(4096, 2048).unwrap();
    let mut frame = |from: [u8; 6], bytes: &[u8]| {
        pool.alloc_from(&[&own.0[..], &from, &[0x86, 0x24], bytes].concat()).unwrap()
    };
    let neighbour = [2, 0, 0, 0, 0, 2];
    let known = frame([2, 0, 0, 0, 0, 3], &interest(3));
    let answer = frame([2, 0, 0, 0, 0, 3], &data_of(interest(3)));
    let forged: Vec<_> = (0..1023_u16)
        .map(|n| frame([6, 0, 0, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], &interest(5)))
        .collect();
    let asks: Vec<_> = (0..2).map(|_| frame(neighbour, &interest(4))).collect();
    let mut rig = Rig::new(Bounds::default());
    rig.echo.answering = Some(MacAddr([2, 0, 0, 0, 0, 3]));
    rig.ethernet(port, pool, own);
    let is_there = |rig: &Rig, mac: [u8; 6]| {
        let is = |f: &Facts| matches!(&f.remote, FaceUri::Ether(a) if *a == MacAddr(mac));
        rig.faces.table().facts().any(is)
    };
    cable.to_port.push(known).unwrap();
    rig.until("one", |rig| rig.echo.up.len() == 2);
    cable.to_port.push(answer).unwrap();
    rig.turn();
    rig.now = rig.now + Duration::from_secs(1);
    forged.into_iter().for_each(|frame| cable.to_port.push(frame).unwrap());
    rig.until("all", |rig| rig.echo.up.len() == 1 + 1024);
    for (n, ask) in asks.into_iter().enumerate() {
        cable.to_port.push(ask).unwrap();
        rig.turn();
        assert_eq!(is_there(&rig, neighbour), n == 1, "once asked for, there is room");
        rig.now = rig.now + Duration::from_secs(1);
        (0..3).for_each(|_| rig.turn());
    }
    assert!(is_there(&rig, [2, 0, 0, 0, 0, 3]), "an answering station stays, though longest idle");
    let stations = rig.faces.table().facts().filter(|f| matches!(f.remote, FaceUri::Ether(_)));
    assert_eq!(stations.count() - 1, 1024 - 4 + 1, "a few left, not all");
}

#[test]
fn a_device_that_has_another_address_is_heard_by_that() {
    use std::sync::{Arc, Mutex};
    let (port, mut cable) = memory::port("eth0", 16);
    let mut pool = Pool::new(64, 2048).unwrap();
    let [first, second] = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0, n]));
    let mut frame = |to: MacAddr, len: usize| {
        let from = [2, 0, 0, 0, 0, 9];
        pool.alloc_from(&[&to.0[..], &from, &[0x86, 0x24], &interest(len)].concat()).unwrap()
    };
    let frames = [frame(first, 1), frame(second, 2), frame(first, 3), frame(second, 4)];
    let own = Arc::new(Mutex::new(Some(first)));
    let asked = own.clone();
    let ask = Box::new(move || *asked.lock().unwrap());
    let ends = EthernetEnds { port: Box::new(port), pool, own: ask, mtu: None };
    let mut rig = Rig::new(Bounds::default());
    rig.echo.is_quiet = true;
    rig.faces.create_ethernet(rig.now, ends, &mut rig.echo).unwrap();
    let mut frames = frames.into_iter();
    for _ in 0..2 {
        frames.by_ref().take(2).for_each(|frame| cable.to_port.push(frame).unwrap());
        rig.turn();
        // The device disappears, and returns with another address.
        for address in [None, Some(second)] {
            *own.lock().unwrap() = address;
            rig.now = rig.now + Duration::from_secs(1);
            rig.turn();
        }
    }
    let got: Vec<_> = rig.echo.packets.iter().map(|(_, _, packet)| packet.clone()).collect();
    assert_eq!(got, [interest(1), interest(4)]);
}

#[test]
fn stations_of_an_ethernet_talk_by_the_group_and_each_alone() {
    let (port, mut cable) = memory::port("eth0", 256);
    // Frames of a cable in memory belong to the pool: the far end would need it to read and write
    // them, so here they travel in a circle, from one station's port back to itself under another
    // name.
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    let other = MacAddr([2, 0, 0, 0, 0, 2]);
    let mut pool = Pool::new(512, 2048).unwrap();
    let mut frame = |to: MacAddr, from: MacAddr, kind: [u8; 2], bytes: &[u8]| {
        let mut frame = [&to.0[..], &from.0, &kind, bytes].concat();
        // Ethernet pads short frames.
        frame.resize(frame.len().max(60), 0);
        cable.to_port.push(pool.alloc_from(&frame).unwrap()).unwrap();
    };
    let ours = [0x86, 0x24];
    frame(plexus_ndn_faces::ETHERNET_GROUP, other, ours, &interest(3));
    frame(own, other, ours, &interest(5));
    frame(own, other, [8, 0], &interest(6));
    frame(MacAddr([2, 0, 0, 0, 0, 9]), other, ours, &interest(7));
    frame(own, MacAddr([3, 0, 0, 0, 0, 9]), ours, &interest(8));
    let mut rig = Rig::new(Bounds::default());
    let group = rig.ethernet(port, pool, own);
    rig.turn();
    assert_eq!(rig.echo.up.len(), 2);
    let station = rig.echo.up[1].clone();
    let ends = (&station.local, &station.remote);
    assert_eq!(ends, (&FaceUri::Dev("eth0".into()), &FaceUri::Ether(other)));
    let heard = [(group, Kind::Interest, interest(3)), (station.id, Kind::Interest, interest(5))];
    assert_eq!(rig.echo.packets, heard);
    // Both were answered, in one frame each.
    let mut lens = || -> Vec<usize> {
        std::iter::from_fn(|| cable.from_port.pop().ok()).map(|p| p.len()).collect()
    };
    assert_eq!(lens(), [14 + 5, 14 + 7]);
    // Packets longer than a frame are fragmented.
    rig.send(station.id, &interest(4000));
    rig.turn();
    let lens = lens();
    assert!(lens.len() == 3 && lens.iter().all(|len| *len <= 1514), "{lens:?}");
    rig.now = rig.now + Duration::from_secs(601);
    rig.until("idle", |rig| !rig.echo.down.is_empty());
    assert_eq!(rig.echo.down, [(station.id, Down::Idle)]);
    // Faces created for stations belong to a device, and stay.
    let device = FaceUri::Dev("eth0".into());
    let mut create = |remote: &str, local: Option<&FaceUri>, persistency| {
        let settings = Settings { mtu: Some(1000), ..Settings::new(persistency) };
        let remote = remote.parse().unwrap();
        rig.faces.create(rig.now, &remote, local, settings, &mut rig.echo)
    };
    let far = "ether://[02:00:00:00:00:07]";
    let face = create(far, Some(&device), Persistency::Permanent).unwrap();
    assert_eq!(create(far, Some(&device), Persistency::Permanent), Err(Refusal::Exists(face)));
    let refused = |made| matches!(made, Err(Refusal::Unsupported(_)));
    assert!(refused(create(far, None, Persistency::Permanent)));
    assert!(refused(create(far, Some(&far.parse().unwrap()), Persistency::Permanent)));
    assert!(refused(create(far, Some(&device), Persistency::OnDemand)));
    let everybody = "ether://[01:00:5e:00:17:aa]";
    assert!(refused(create(everybody, Some(&device), Persistency::Permanent)));
    let other = FaceUri::Dev("eth1".into());
    assert!(matches!(create(far, Some(&other), Persistency::Permanent), Err(Refusal::Failed(_))));
    let udp = "udp4://127.0.0.1:9";
    assert!(refused(create(udp, Some(&device), Persistency::Permanent)));
    // A configured length beyond the device's MTU has no effect.
    let table = rig.faces.table_mut();
    let options = *table.options(face).unwrap();
    assert_eq!(options.mtu, 1000);
    assert!(table.set_options(face, plexus_ndn::link::Options { mtu: 9000, ..options }));
    assert_eq!(table.options(face).unwrap().mtu, 1500);
}
