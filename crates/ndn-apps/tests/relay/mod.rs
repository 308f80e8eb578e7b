//! A minimal forwarder for applications, in a thread: routes by `rib/register`, pending Interests
//! by name. It keeps the real forwarder out of these tests.
#![allow(unreachable_pub)] // a module of several tests

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plexus_ndn::face::FaceId;
use plexus_ndn::link::{Kind, Received};
use plexus_ndn_apps::digest::DigestSigner;
use plexus_ndn_apps::endpoint::now;
use plexus_ndn_faces::{Bounds, Down, Faces, Listen, Receiver, Table};
use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::nfd::{ControlParameters, ControlResponse, Record};
use plexus_wire::ndn::{Data, Interest, NameBuf, data};

/// A relay at a Unix socket, until it is dropped.
pub struct Relay {
    pub folder: PathBuf,
    pub uri: FaceUri,
    /// Packets relayed.
    #[allow(dead_code)] // not all tests ask
    pub packets: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Asker {
    face: FaceId,
    token: Option<Vec<u8>>,
    name: NameBuf,
    can_be_prefix: bool,
}

struct Core {
    routes: Vec<(NameBuf, FaceId)>,
    /// By the bytes of the requested name.
    pending: HashMap<NameBuf, Vec<Asker>>,
    packets: Arc<AtomicUsize>,
}

fn headers(token: Option<&[u8]>) -> Headers<'_> {
    Headers { pit_token: token, ..Headers::default() }
}

impl Core {
    fn command(&mut self, now: Time, face: FaceId, received: &Received<'_>, out: &mut Table) {
        let name = Interest::new_checked(received.packet).unwrap().name();
        let parameters = ControlParameters::of_command(&name, 4).unwrap();
        self.routes.push((parameters.name.clone().unwrap(), face));
        let parameters = Some(parameters);
        let response = ControlResponse { code: 200, text: "OK".into(), parameters };
        let content = response.to_bytes();
        let repr = data::Repr { name, meta: None, content: Some(&content) };
        let packet = repr.to_bytes(&DigestSigner::DATA).unwrap();
        out.send(now, face, &headers(received.headers.pit_token), &packet);
    }

    fn packet(&mut self, now: Time, face: FaceId, received: &Received<'_>, out: &mut Table) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        let token = received.headers.pit_token.map(<[u8]>::to_vec);
        match received.kind {
            Kind::Interest => {
                let interest = Interest::new_checked(received.packet).unwrap();
                let name = interest.name();
                if name.to_string().starts_with("/localhost/nfd/rib/register/") {
                    return self.command(now, face, received, out);
                }
                let routes = self.routes.iter().rev();
                let mut routes =
                    routes.filter(|(p, to)| p.as_name().is_prefix_of(&name) && *to != face);
                let Some((_, next)) = routes.next() else {
                    let nack = Some(NackReason::NO_ROUTE);
                    let headers = Headers { nack, ..headers(token.as_deref()) };
                    return out.send(now, face, &headers, received.packet);
                };
                let can_be_prefix = interest.can_be_prefix();
                let asker = Asker { face, token, name: name.to_buf(), can_be_prefix };
                self.pending.entry(name.to_buf()).or_default().push(asker);
                out.send(now, *next, &headers(Some(b"relay")), received.packet);
            }
            Kind::Data => {
                assert_eq!(token.as_deref(), Some(&b"relay"[..]), "a producer gives tokens back");
                let name = Data::new_checked(received.packet).unwrap().name();
                for len in 1..=name.len() {
                    let Some(askers) = self.pending.remove(&name.prefix(len).to_buf()) else {
                        continue;
                    };
                    for asker in askers {
                        if asker.can_be_prefix || asker.name.as_name() == name {
                            let headers = headers(asker.token.as_deref());
                            out.send(now, asker.face, &headers, received.packet);
                        }
                    }
                }
            }
            Kind::Nack(_) => {}
        }
    }
}

impl Receiver for Core {
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table) {
        batch.iter().for_each(|(face, received)| self.packet(now, *face, received, out));
    }

    fn face_down(&mut self, _: Time, face: FaceId, _: &Down) {
        self.routes.retain(|(_, to)| *to != face);
    }
}

impl Relay {
    /// Begins to listen in a folder of its own.
    pub fn new(name: &str) -> Relay {
        let folder = std::env::temp_dir().join(format!("plexus-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let uri = FaceUri::Unix(folder.join("nfd.sock").display().to_string());
        let packets = Arc::new(AtomicUsize::new(0));
        let mut relay = Relay { folder, uri, packets, stop: Arc::default(), thread: None };
        relay.start();
        relay
    }

    pub fn start(&mut self) {
        let bounds = Bounds { queue_bytes: 64 << 20, ..Bounds::default() };
        let mut faces = Faces::new(bounds, 1).unwrap();
        faces.listen(&Listen::Unix(self.folder.join("nfd.sock"))).unwrap();
        self.stop.store(false, Ordering::Relaxed);
        let stop = self.stop.clone();
        let packets = self.packets.clone();
        self.thread = Some(std::thread::spawn(move || {
            let mut core = Core { routes: Vec::new(), pending: HashMap::new(), packets };
            while !stop.load(Ordering::Relaxed) {
                faces.sleep([], Some(Duration::from_millis(20))).unwrap();
                faces.turn(now(), &mut core);
            }
        }));
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the relay failed");
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
