//! An application's connection to its forwarder: one face, one thread, one `epoll`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use plexus_io::clock::now;
use plexus_io::wake::Waker;
use plexus_ndn::face::{FaceId, Scope};
use plexus_ndn::link::Received;
use plexus_ndn_faces::{Bounds, Down, Faces, Facts, Listen, Persistency, Receiver, Refusal};
use plexus_ndn_faces::{Settings, Table};
use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::lp::Headers;

use crate::app::{Application, Output};
use crate::command::{Refused, Register};
use crate::key::CommandKey;

/// The default address of a forwarder.
pub const USUAL: &str = "unix:///run/nfd/nfd.sock";
/// The environment variable that overrides it (ndn-cxx).
pub const VARIABLE: &str = "NDN_CLIENT_TRANSPORT";
/// Bytes that may be queued for writing: enough for the windows of several consumers at once.
const QUEUE: usize = 64 << 20;
/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two attempts to reach a lost forwarder: initial, and longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Why an endpoint failed.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The forwarder cannot be reached.
    #[error(
        "cannot reach a forwarder at {uri}: {why} (is one running? --transport and \
             NDN_CLIENT_TRANSPORT say where)"
    )]
    Unreachable {
        /// Its address.
        uri: FaceUri,
        /// The reason.
        why: String,
    },
    /// The connection was lost.
    #[error("the connection to the forwarder at {uri} was lost: {why}")]
    Lost {
        /// Its address.
        uri: FaceUri,
        /// The reason.
        why: Down,
    },
    /// The forwarder refused the registration.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// An error of the operating system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A random number of the operating system.
///
/// # Errors
/// When it has none to give.
pub fn random_seed() -> io::Result<u64> {
    plexus_io::secret::random().map(u64::from_ne_bytes)
}

/// A connection to a forwarder.
pub struct Endpoint {
    faces: Faces,
    uri: FaceUri,
    state: State,
}

struct State {
    face: Option<FaceId>,
    scope: Scope,
    down: Option<Down>,
    /// The forwarder was heard, or something was sent without an error.
    is_up: bool,
}

/// Lends an application to the faces for a turn.
struct Driven<'a, A> {
    state: &'a mut State,
    app: &'a mut A,
}

struct FaceOutput<'a> {
    now: Time,
    face: FaceId,
    table: &'a mut Table,
}

impl Output for FaceOutput<'_> {
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]) {
        self.table.send(self.now, self.face, headers, packet);
    }
}

impl<A: Application> Receiver for Driven<'_, A> {
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table) {
        for (face, received) in batch {
            // Other senders may send datagrams to this socket.
            if self.state.face == Some(*face) {
                self.state.is_up = true;
                let mut out = FaceOutput { now, face: *face, table: out };
                self.app.packet(now, received, &mut out);
            }
        }
    }

    fn face_up(&mut self, _: Time, facts: &Facts) {
        if self.state.face.is_none() {
            self.state.face = Some(facts.id);
            self.state.scope = facts.scope;
        }
    }

    fn face_down(&mut self, _: Time, face: FaceId, why: &Down) {
        if self.state.face == Some(face) {
            self.state.down = Some(why.clone());
        }
    }
}

/// A placeholder before there is an application.
struct Nobody;

impl Application for Nobody {
    fn packet(&mut self, _: Time, _: &Received<'_>, _: &mut dyn Output) {}

    fn is_done(&self) -> bool {
        true
    }
}

impl Endpoint {
    /// Connects to the forwarder at `uri`: `unix:`, `tcp4:`, `tcp6:`, `udp4:` or `udp6:`.
    ///
    /// # Errors
    /// When the forwarder cannot be reached. A closed TCP or UDP port is noticed later.
    pub fn connect(uri: &FaceUri) -> Result<Endpoint, EndpointError> {
        let bounds = Bounds { queue_bytes: QUEUE, faces: 64, ..Bounds::default() };
        let mut faces = Faces::new(bounds, random_seed()?)?;
        if let FaceUri::Udp(peer) = uri {
            let any: IpAddr = match (peer.ip(), peer.ip().is_loopback()) {
                // Bound to this machine, so that the socket receives nothing from elsewhere.
                (ip, true) => ip,
                (IpAddr::V4(_), false) => Ipv4Addr::UNSPECIFIED.into(),
                (IpAddr::V6(_), false) => Ipv6Addr::UNSPECIFIED.into(),
            };
            faces.listen(&Listen::Udp(SocketAddr::new(any, 0)))?;
        }
        let mut state = State { face: None, scope: Scope::NonLocal, down: None, is_up: false };
        let mut driven = Driven { state: &mut state, app: &mut Nobody };
        let settings = Settings::new(Persistency::Persistent);
        let made = faces.create(now(), uri, None, settings, &mut driven);
        let unreachable = |why: Refusal| {
            let why = why.to_string();
            let why = why.strip_prefix(&format!("{uri}: ")).unwrap_or(&why).to_string();
            EndpointError::Unreachable { uri: uri.clone(), why }
        };
        made.map_err(unreachable)?;
        Ok(Endpoint { faces, uri: uri.clone(), state })
    }

    /// Wakes [`Endpoint::run`], from another thread.
    pub fn waker(&self) -> Waker {
        self.faces.waker()
    }

    /// The face's counters.
    pub fn counters(&mut self) -> plexus_ndn_faces::FaceCounters {
        let counters = self.state.face.and_then(|face| self.faces.table().counters(face));
        counters.unwrap_or_default()
    }

    /// Runs an application until it is done, or `stop` is set.
    ///
    /// # Errors
    /// When the forwarder is lost.
    pub fn run<A: Application>(
        &mut self,
        app: &mut A,
        stop: &AtomicBool,
    ) -> Result<(), EndpointError> {
        self.run_with(app, stop, |_, _| {})
    }

    /// As [`Endpoint::run`], and calls `each` in every turn.
    ///
    /// # Errors
    /// When the forwarder is lost.
    pub fn run_with<A: Application>(
        &mut self,
        app: &mut A,
        stop: &AtomicBool,
        mut each: impl FnMut(Time, &mut A),
    ) -> Result<(), EndpointError> {
        while !stop.load(Ordering::Relaxed) {
            let Some(face) = self.state.face else { return Ok(()) };
            let at = now();
            app.poll(at, &mut FaceOutput { now: at, face, table: self.faces.table_mut() });
            self.faces.turn(at, &mut Driven { state: &mut self.state, app });
            each(at, app);
            if app.is_done() {
                break;
            }
            if let Some(why) = self.state.down.take() {
                self.state.face = None;
                let uri = self.uri.clone();
                return Err(match self.state.is_up {
                    true => EndpointError::Lost { uri, why },
                    false => EndpointError::Unreachable { uri, why: why.to_string() },
                });
            }
            let due = app.next_deadline().into_iter().chain(self.faces.next_deadline()).min();
            let limit = due.map_or(LOOK, |due| due.since(now()).min(LOOK));
            self.faces.sleep([], Some(limit))?;
        }
        Ok(())
    }

    /// Registers a prefix, by a command signed by the key or a digest, so that the forwarder sends
    /// its Interests here. Interests that arrive meanwhile go to the application.
    ///
    /// # Errors
    /// When the forwarder refuses or is lost.
    pub fn register<A: Application>(
        &mut self,
        prefix: &NameBuf,
        key: Option<&CommandKey>,
        app: &mut A,
        stop: &AtomicBool,
    ) -> Result<(), EndpointError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = (now(), since_1970.as_millis() as u64);
        let (scope, seed) = (self.state.scope, random_seed()?);
        let command = Register::new(prefix.clone(), key, scope, wall, seed);
        let mut registering = Registering { command, app };
        self.run(&mut registering, stop)?;
        match registering.command.answer() {
            Some(Err(refused)) => Err(refused.clone().into()),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

struct Registering<'a, A> {
    command: Register<'a>,
    app: &'a mut A,
}

impl<A: Application> Application for Registering<'_, A> {
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output) {
        if !self.command.handle(received) {
            self.app.packet(now, received, out);
        }
    }

    fn poll(&mut self, now: Time, out: &mut dyn Output) {
        self.command.poll(now, out);
        self.app.poll(now, out);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.command.next_deadline().into_iter().chain(self.app.next_deadline()).min()
    }

    fn is_done(&self) -> bool {
        self.command.answer().is_some()
    }
}

/// Publishes under prefixes until `stop` is set: connects, registers (with the key, or a digest),
/// and runs; it starts over when the forwarder is lost. `ready` is called each time that
/// registration is complete, with the application's waker.
///
/// # Errors
/// When the first attempt fails, or a forwarder refuses.
pub fn publish<A: Application>(
    uri: &FaceUri,
    prefixes: &[NameBuf],
    key: Option<&CommandKey>,
    app: &mut A,
    stop: &AtomicBool,
    mut ready: impl FnMut(&Waker),
) -> Result<(), EndpointError> {
    let (mut was_up, mut retry) = (false, RETRY.0);
    while !stop.load(Ordering::Relaxed) {
        let mut session = |app: &mut A, was_up: &mut bool| {
            let mut endpoint = Endpoint::connect(uri)?;
            for prefix in prefixes {
                endpoint.register(prefix, key, app, stop)?;
            }
            if !stop.load(Ordering::Relaxed) {
                *was_up = true;
                ready(&endpoint.waker());
            }
            endpoint.run(app, stop)
        };
        let began = now();
        match session(app, &mut was_up) {
            Ok(()) => return Ok(()),
            Err(error) if !was_up => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "will retry");
                if now().since(began) > RETRY.1 {
                    retry = RETRY.0;
                }
                let until = now() + retry;
                while now() < until && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(until.since(now()).min(LOOK));
                }
                retry = (retry * 2).min(RETRY.1);
            }
        }
    }
    Ok(())
}
