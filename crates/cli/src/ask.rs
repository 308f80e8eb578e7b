//! Which running daemon is meant, and the way to its control socket.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::{ArgValueCandidates, CompletionCandidate};
use plexus_api::Client;

use crate::exit::Failure;

/// Where nodes have their sockets unless their file says otherwise.
pub(crate) const SOCKETS: &str = "/run/plexus";
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Which daemon is meant.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The node, by its name, or LAB/NODE for one of a lab; not needed where only one runs.
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names))]
    node: Option<String>,
    /// Its control socket, where that is not /run/plexus/NAME.sock.
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    control: Option<PathBuf>,
}

impl Which {
    /// The lab that it is of, if its name says so.
    pub(crate) fn lab(&self) -> Option<&str> {
        self.node.as_deref()?.split_once('/').map(|(lab, _)| lab)
    }

    /// The daemon of a name, at its usual socket or at this one.
    pub(crate) fn named(name: &str, control: Option<PathBuf>) -> Which {
        let node = control.is_none().then(|| name.to_string());
        Which { node, control }
    }

    /// Connects to it.
    ///
    /// # Errors
    /// When there is no such node, more than one could be meant, or it does not answer.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        self.connect_for(PATIENCE)
    }

    /// The same, for questions whose answer may take so long.
    ///
    /// # Errors
    /// As of [`connect`](Which::connect).
    pub(crate) fn connect_for(&self, patience: Duration) -> Result<Client, Failure> {
        let path = match (&self.control, &self.node) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) => match name.split_once('/') {
                Some(("", _)) => {
                    let advice = "is a path, and no node's name: give a socket by --control";
                    return Err(Failure::unusable(format!("{name} {advice}")));
                }
                Some((lab, node)) => {
                    plexus_lab::node_socket(lab, node).map_err(Failure::unusable)?
                }
                None => Path::new(SOCKETS).join(format!("{name}.sock")),
            },
            (None, None) => the_only_one()?,
        };
        Client::connect(&path, patience).map_err(|e| {
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
        })
    }
}

/// The daemons that answer, by name, with their sockets.
fn running() -> Vec<(String, PathBuf)> {
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
    found
}

/// The names of running daemons that a shell offers.
pub(crate) fn names() -> Vec<CompletionCandidate> {
    running().into_iter().map(|(name, _)| CompletionCandidate::new(name)).collect()
}

fn the_only_one() -> Result<PathBuf, Failure> {
    let found = running();
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
