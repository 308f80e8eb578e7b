//! The control socket of a daemon: it reads [requests](Request) and writes answers, a JSON object a
//! line each.
//!
//! The socket's owner and group may write to it, and so may ask and command.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plexus_api::answer::config::{Applied, Common, Running, Text, Versions};
use plexus_api::answer::explain::Explained;
use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{Network, Ways};
use plexus_api::answer::router::{Route, Routes};
use plexus_api::answer::{About, Done, Metrics};
use plexus_api::{Answer, Request};
use serde::Serialize;
use serde_json::json;
use signal_hook::iterator::Handle;

/// A client that says nothing for so long is hung up on; so is one that does not read.
const PATIENCE: Duration = Duration::from_secs(60);
/// A killed daemon keeps its socket until the kernel has freed its memory. The next daemon waits
/// for that at most this long.
const DYING_MAX: Duration = Duration::from_secs(3);
/// Time between two attempts.
const DYING_LOOK: Duration = Duration::from_millis(50);
/// A live daemon answers within this time.
const ALIVE_WITHIN: Duration = Duration::from_millis(500);
/// Longest request, in bytes: a common file has 256 KiB, and more in JSON.
const LINE_MAX: u64 = 1 << 20;
/// Clients at a time.
const CLIENTS_MAX: usize = 64;

/// A daemon that answers.
pub(crate) trait Asked: Send + Sync {
    /// Answers a request other than [`Request::Stop`].
    ///
    /// # Errors
    /// In words for the client.
    fn answer(&self, request: Request) -> Result<Reply, String>;

    /// Takes over the conversation, if the request asks for more than one answer.
    fn converse(&self, _: &Request, _: &UnixStream) -> Option<io::Result<()>> {
        None
    }
}

/// A daemon's answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Shown(Box<Answer>),
    Route(Route),
    GroupRoute(GroupRoute),
    Routes(Routes),
    Network(Box<Network>),
    Ways(Ways),
    Explained(Box<Explained>),
    About(About),
    Metrics(Metrics),
    Running(Box<Running>),
    Versions(Versions),
    Common(Common),
    Text(Text),
    Applied(Applied),
    Done(Done),
}

impl Reply {
    /// Done, and nothing to tell.
    pub(crate) const DONE: Reply = Reply::Done(Done { done: true });
}

/// The socket's path, which goes when the node ends.
pub(crate) struct Socket {
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What every client's thread needs.
#[derive(Clone)]
struct Server {
    asked: Arc<dyn Asked>,
    signals: Handle,
    clients: Arc<Clients>,
}

/// Takes a daemon's control socket, before anything else of it exists: who has it is the only
/// daemon of that name. Clients wait until [`serve`].
///
/// # Errors
/// When the socket cannot be made, or another node has it.
pub(crate) fn claim(path: &Path) -> Result<(UnixListener, Socket), String> {
    let problem = |what: &str, e: io::Error| format!("{what} {}: {e}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|e| problem("making the directory of", e))?;
    }
    wait_for_dying(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(format!(
                "{} is no socket and is left alone: choose another `control`",
                path.display()
            ));
        }
        Ok(_) => fs::remove_file(path).map_err(|e| problem("removing the stale socket", e))?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|e| problem("listening at", e))?;
    let socket = Socket { path: path.into() };
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))
        .map_err(|e| problem("restricting", e))?;
    Ok((listener, socket))
}

/// Waits until no process has the socket.
///
/// # Errors
/// When a live daemon has it, or a process keeps it.
fn wait_for_dying(path: &Path) -> Result<(), String> {
    let end = Instant::now() + DYING_MAX;
    let mut is_first = true;
    while let Ok(stream) = UnixStream::connect(path) {
        let (what, help) = match is_alive(&stream) {
            true => ("answers at", "stop it"),
            false => ("is silent at", "end it if it hangs (`ss -xlp` shows it)"),
        };
        if what == "answers at" || Instant::now() >= end {
            return Err(format!(
                "another daemon {what} {}: {help}, or choose another `name` or `control`",
                path.display()
            ));
        }
        if std::mem::take(&mut is_first) {
            let socket = path.display();
            tracing::info!(%socket, "waiting for the daemon that has the socket to end");
        }
        std::thread::sleep(DYING_LOOK);
    }
    Ok(())
}

/// Whether a daemon answers.
fn is_alive(stream: &UnixStream) -> bool {
    let asked = stream
        .set_read_timeout(Some(ALIVE_WITHIN))
        .and_then(|()| stream.set_write_timeout(Some(ALIVE_WITHIN)))
        .and_then(|()| say(stream, &Request::Version(true)));
    let mut stream = stream;
    asked.is_ok() && stream.read(&mut [0]).is_ok_and(|bytes| bytes > 0)
}

/// Answers clients, in a thread of its own.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn serve(
    listener: UnixListener,
    asked: Arc<dyn Asked>,
    signals: Handle,
) -> Result<(), String> {
    let server = Server { asked, signals, clients: Arc::default() };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                match stream.map(Arc::new) {
                    Ok(stream) => server.accept(stream),
                    Err(error) => {
                        tracing::warn!(%error, "control socket");
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            }
        })
        .map_err(|e| format!("starting a thread for the control socket: {e}"))?;
    Ok(())
}

/// A client that is connected.
struct Client {
    stream: Arc<UnixStream>,
    /// Nothing is being done for it: such a one goes when there are too many.
    is_waiting: AtomicBool,
}

/// Clients, the one that has been here longest first.
type Clients = Mutex<VecDeque<Arc<Client>>>;

impl Server {
    fn accept(&self, stream: Arc<UnixStream>) {
        let client = Arc::new(Client { stream, is_waiting: AtomicBool::new(true) });
        {
            let mut clients = lock(&self.clients);
            if clients.len() >= CLIENTS_MAX {
                let silent = clients.iter().position(|c| c.is_waiting.load(Ordering::Relaxed));
                let Some(silent) = silent.and_then(|i| clients.remove(i)) else {
                    tracing::warn!("{CLIENTS_MAX} control clients are busy: one was refused");
                    return;
                };
                // Its thread reads the end and goes.
                let _ = silent.stream.shutdown(Shutdown::Both);
                tracing::warn!("more than {CLIENTS_MAX} control clients: a silent one must go");
            }
            clients.push_back(client.clone());
        }
        let (server, mine) = (self.clone(), client.clone());
        let thread = std::thread::Builder::new().name("client".into()).spawn(move || {
            if let Err(error) = server.talk(&mine) {
                tracing::debug!(%error, "control client");
            }
            server.forget(&mine);
        });
        if let Err(error) = thread {
            self.forget(&client);
            tracing::warn!(%error, "control client");
        }
    }

    fn forget(&self, client: &Arc<Client>) {
        lock(&self.clients).retain(|c| !Arc::ptr_eq(c, client));
    }

    fn talk(&self, client: &Client) -> io::Result<()> {
        let stream = &*client.stream;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            client.is_waiting.store(true, Ordering::Relaxed);
            if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            client.is_waiting.store(false, Ordering::Relaxed);
            if line.last() != Some(&b'\n') {
                return refuse(stream, "a request is one line of JSON");
            }
            let answer = match Request::read(&line) {
                Ok(Request::Stop(_)) => {
                    say(stream, &Reply::DONE)?;
                    // The main thread ends the daemon as on a signal.
                    self.signals.close();
                    return Ok(());
                }
                Ok(request) => match self.asked.converse(&request, stream) {
                    Some(end) => return end,
                    None => self.asked.answer(request),
                },
                Err(why) => Err(why),
            };
            match answer {
                Ok(answer) => say(stream, &answer)?,
                Err(why) => refuse(stream, &why)?,
            }
        }
    }
}

/// A panic elsewhere does not make the list wrong.
fn lock(clients: &Clients) -> MutexGuard<'_, VecDeque<Arc<Client>>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says a line.
///
/// # Errors
/// When the client does not listen.
pub(crate) fn say(mut stream: &UnixStream, answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Says why not.
///
/// # Errors
/// As [`say`].
pub(crate) fn refuse(stream: &UnixStream, why: &str) -> io::Result<()> {
    say(stream, &json!({"error": why}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_owner_of_the_socket_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let dying = UnixListener::bind(&path).unwrap();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(dying);
        });
        let (_listener, socket) = claim(&path).unwrap();
        ends.join().unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn an_owner_that_answers_is_refused_and_a_silent_one_after_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let alive = UnixListener::bind(&path).unwrap();
        let has_told = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let answers = scope.spawn(|| {
                while !has_told.load(Ordering::Relaxed) {
                    let (stream, _) = alive.accept().unwrap();
                    // The client may have given up.
                    let _ = say(&stream, &json!({"error": "no"}));
                }
            });
            // On a busy machine the answer may come too late.
            let mut all = (0..100).map(|_| claim(&path).err().unwrap());
            let told = all.find(|told| !told.contains("silent")).unwrap();
            assert!(told.contains("another daemon answers at"), "{told}");
            has_told.store(true, Ordering::Relaxed);
            drop(UnixStream::connect(&path));
            answers.join().unwrap();
        });
        let started = Instant::now();
        let told = claim(&path).err().unwrap();
        assert!(told.contains("another daemon is silent at"), "{told}");
        assert!(started.elapsed() >= DYING_MAX);
    }
}
