//! The control socket: a Unix stream socket, one JSON object per line each way.
//!
//! ```text
//! {"show":"ports"|"macs"|"drops"|"node"}  → what it says
//! {"trace":"PORT"}                        → {"now_ns":…,"out":…,"frame":"hex"} … until hung up
//! {"reload":true}                         → {"done":true}
//! {"stop":true}                           → {"done":true}, then the node ends
//! anything else                           → {"error":"…"}
//! ```
//!
//! Who may connect is who may write to the socket: its owner and group.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_config::NodeFile;
use plexus_io::PortId;
use serde_json::{Value, json};
use signal_hook::iterator::Handle;

use super::boxed::Node;
use super::show;

/// A client that says nothing for so long is hung up on; so is one that does not read.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest question, in bytes.
const LINE_MAX: u64 = 64 << 10;
/// Clients at a time.
const CLIENTS_MAX: usize = 64;
/// Frames that wait for a slow client of a trace.
const TRACE_QUEUE: usize = 4096;

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
    node: Arc<Node>,
    config: PathBuf,
    signals: Handle,
    clients: Arc<Clients>,
}

/// Takes a node's control socket, before anything else of the node exists: who has it is the
/// only node of that name. Clients wait until [`serve`].
///
/// # Errors
/// When the socket cannot be made, or another node has it.
pub(crate) fn claim(path: &Path) -> Result<(UnixListener, Socket), String> {
    let problem = |what: &str, e: io::Error| format!("{what} {}: {e}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|e| problem("making the directory of", e))?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(format!(
            "another node answers at {}: stop it, or choose another `name` or `control`",
            path.display()
        ));
    }
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

/// Answers clients, in a thread of its own.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn serve(
    listener: UnixListener,
    node: Arc<Node>,
    config: &Path,
    signals: Handle,
) -> Result<(), String> {
    let server = Server { node, config: config.into(), signals, clients: Arc::default() };
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
                return say(stream, &json!({"error": "a question is one line of JSON"}));
            }
            let question: Value = match serde_json::from_slice(&line) {
                Ok(question) => question,
                Err(e) => {
                    say(stream, &json!({"error": format!("not JSON: {e}")}))?;
                    continue;
                }
            };
            if let Some(port) = question.get("trace").and_then(Value::as_str) {
                return self.trace(stream, port);
            }
            let stop = question.get("stop").is_some();
            let answer = self.answer(&question).unwrap_or_else(|why| json!({"error": why}));
            say(stream, &answer)?;
            if stop {
                // The main thread ends the node as on a signal.
                self.signals.close();
                return Ok(());
            }
        }
    }

    fn answer(&self, question: &Value) -> Result<Value, String> {
        if let Some(what) = question.get("show").and_then(Value::as_str) {
            return show::answer(&self.node, what);
        }
        if question.get("reload").is_some() {
            let file = NodeFile::read(&self.config).map_err(|e| e.to_string())?;
            return self.node.reload(file).map(|()| json!({"done": true}));
        }
        if question.get("stop").is_some() {
            return Ok(json!({"done": true}));
        }
        Err("ask {\"show\":\"ports\"}, trace, reload or stop".into())
    }

    /// Sends every frame of a port until the client hangs up. What a slow client misses is counted
    /// in the next line.
    fn trace(&self, stream: &UnixStream, name: &str) -> io::Result<()> {
        let file = self.node.file();
        let Some(port) = file.ports.iter().position(|p| p.name == name) else {
            let names: Vec<&str> = file.ports.iter().map(|p| p.name.as_str()).collect();
            let why = format!("there is no port '{name}': there are {}", names.join(", "));
            return say(stream, &json!({"error": why}));
        };
        let (sender, frames) = mpsc::sync_channel(TRACE_QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let missing = missed.clone();
        let see = Box::new(move |seen: plexus_plane::Seen<'_>| {
            let frame = (seen.now.as_nanos(), seen.outgoing, seen.bytes.to_vec());
            if let Err(TrySendError::Full(_)) = sender.try_send(frame) {
                missing.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _watching = self.node.watch(port as PortId, see);
        loop {
            let line = match frames.recv_timeout(Duration::from_secs(1)) {
                Ok((now_ns, out, bytes)) => {
                    let missed = missed.swap(0, Ordering::Relaxed);
                    json!({"now_ns": now_ns, "out": out, "missed": missed, "frame": hex(&bytes)})
                }
                // An empty object shows whether the client is still there.
                Err(mpsc::RecvTimeoutError::Timeout) => json!({}),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            };
            say(stream, &line)?;
        }
    }
}

/// A panic elsewhere does not make the list wrong.
fn lock(clients: &Clients) -> MutexGuard<'_, VecDeque<Arc<Client>>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(mut stream: &UnixStream, answer: &Value) -> io::Result<()> {
    let mut line = answer.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}
