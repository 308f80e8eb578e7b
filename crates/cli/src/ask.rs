//! Talking to a running node over its control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::exit::Failure;

/// Where nodes have their sockets unless their file says otherwise.
const SOCKETS: &str = "/run/plexus";
const PATIENCE: Duration = Duration::from_secs(10);

/// Which node is meant.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The node, by its name, or LAB/NODE for one of a lab; not needed where only one runs.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Its control socket, where that is not /run/plexus/NAME.sock.
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    control: Option<PathBuf>,
}

/// A connection to a node.
pub(crate) struct Connection {
    reader: BufReader<UnixStream>,
}

impl Which {
    /// Connects to it.
    ///
    /// # Errors
    /// When there is no such node, more than one could be meant, or it does not answer.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        let path = match (&self.control, &self.node) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) => match name.split_once('/') {
                Some((lab, node)) => {
                    plexus_lab::node_socket(lab, node).map_err(Failure::unusable)?
                }
                None => Path::new(SOCKETS).join(format!("{name}.sock")),
            },
            (None, None) => the_only_one()?,
        };
        let stream = UnixStream::connect(&path).map_err(|e| {
            let advice = match e.kind() {
                io::ErrorKind::NotFound if self.control.is_some() => "no node listens there",
                io::ErrorKind::NotFound => {
                    "no node of that name runs here, or its file names another socket as control: \
                     give that by --control"
                }
                io::ErrorKind::ConnectionRefused => "the node has ended without tidying up",
                io::ErrorKind::PermissionDenied => "run as root, or as the socket's group",
                _ => "is the node running?",
            };
            Failure::unusable(format!("{}: {e}: {advice}", path.display()))
        })?;
        let limit = stream.set_read_timeout(Some(PATIENCE));
        limit.map_err(|e| Failure::unusable(format!("{}: {e}", path.display())))?;
        Ok(Connection { reader: BufReader::new(stream) })
    }
}

fn the_only_one() -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(SOCKETS).into_iter().flatten().flatten();
    let own = entries.map(|entry| entry.path()).filter_map(|path| {
        let is_socket = path.extension().is_some_and(|e| e == "sock");
        is_socket.then(|| (path.file_stem().unwrap_or_default().display().to_string(), path))
    });
    let mut found: Vec<(String, PathBuf)> = own
        .chain(plexus_lab::node_sockets())
        .filter(|(_, path)| UnixStream::connect(path).is_ok())
        .collect();
    found.sort();
    match found.as_slice() {
        [(_, one)] => Ok(one.clone()),
        [] => Err(Failure::unusable(format!(
            "no node runs here (no socket in {SOCKETS} or of a lab answers): start one with \
             `plexus node run --config FILE` or `plexus lab up FILE`"
        ))),
        many => {
            let names: Vec<&str> = many.iter().map(|(name, _)| name.as_str()).collect();
            Err(Failure::unusable(format!(
                "several nodes run here: say which with --node ({})",
                names.join(", ")
            )))
        }
    }
}

impl Connection {
    /// Asks a question and reads its answer.
    ///
    /// # Errors
    /// When the node hangs up or says that it cannot.
    pub(crate) fn ask(&mut self, question: &Value) -> Result<Value, Failure> {
        let mut line = question.to_string();
        line.push('\n');
        let stream = self.reader.get_mut();
        stream.write_all(line.as_bytes()).map_err(Failure::unusable)?;
        self.next()
    }

    /// Reads one more answer.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub(crate) fn next(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        if read.map_err(|e| Failure::unusable(format!("the node does not answer: {e}")))? == 0 {
            return Err(Failure::unusable("the node hung up"));
        }
        let answer: Value = serde_json::from_str(&line).map_err(Failure::unusable)?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::unusable(error)),
            None => Ok(answer),
        }
    }

    /// Asks for what `show` shows.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub(crate) fn show(&mut self, what: &str) -> Result<Value, Failure> {
        self.ask(&json!({"show": what}))
    }
}
