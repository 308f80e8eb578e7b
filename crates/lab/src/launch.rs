//! The launcher's side: starts a supervisor, talks to it, enters its hosts.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plexus_config::LaneChoice;
use plexus_config::document::read_text;
use plexus_io::namespace::{self, Authority, InitProcess, Namespaces};
use plexus_topo::Topology;
use rustix::process::Signal;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::control::{self, Answer, Client, Request};
use crate::error::{Doing, Error};
use crate::machines::Part;
use crate::plan::NodeProgram;
use crate::state::{Directory, State};
use crate::status::LabStatus;
use crate::supervisor::{KEEP, Order};
use plexus_report::RunReport;

/// How long an orderly end may take before it becomes a disorderly one, in milliseconds.
const DOWN_LIMIT_MS: u32 = 10_000;
/// How long a killed process may take to be gone, in milliseconds.
const KILL_LIMIT_MS: u32 = 10_000;

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The topology file.
    pub file: PathBuf,
    /// What moves frames in the nodes.
    pub node_program: NodeProgram,
    /// The lane choice of flows, overriding the file.
    pub lanes: Option<LaneChoice>,
    /// The part of the lab that this machine has; absent: it has all of it.
    pub part: Option<Part>,
}

/// Whether [`up`] made the lab or found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// It was made.
    Made,
    /// It was up already, from the same file.
    Already,
}

/// A topology file that was read.
struct Source {
    file: PathBuf,
    text: String,
    topology: Topology,
    part: Option<Part>,
}

impl Launch {
    fn source(&self) -> Result<Source, Error> {
        let shown = self.file.display().to_string();
        // Once: it may be a pipe.
        let mut text = read_text(&self.file).map_err(|e| Error::File(e.to_string()))?;
        let topology = Topology::parse_to_run(&shown, &text, None);
        let mut topology = topology.map_err(|e| Error::File(e.to_string()))?;
        if let Some(lanes) = self.lanes {
            if topology.controllers.is_empty() {
                let text = format!("{shown} is no fabric: its nodes do not choose among lanes");
                return Err(Error::Unsupported(text));
            }
            topology.lanes = lanes;
            text = topology.to_toml();
        }
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        Ok(Source { file, text, topology, part: self.part.clone() })
    }
}

/// A lab's name from that name or from the path of its topology file.
///
/// # Errors
/// With everything that is wrong in the file.
pub fn name_of(lab: &str) -> Result<String, Error> {
    if !lab.contains('/') && !lab.ends_with(".toml") {
        return Ok(lab.to_string());
    }
    Ok(Topology::read(Path::new(lab)).map_err(|e| Error::File(e.to_string()))?.name)
}

/// A lab tied to this process: it ends when this value is dropped, or when this process ends in any
/// way.
#[derive(Debug)]
pub struct Tied {
    lifeline: Option<OwnedFd>,
    process: InitProcess,
    name: String,
}

impl Tied {
    /// Builds the lab of a file. Calls `say` with the progress.
    ///
    /// # Errors
    /// If the file is wrong, the lab cannot be built, or one with this name is up.
    pub fn up(launch: &Launch, say: &mut dyn FnMut(&str)) -> Result<Tied, Error> {
        Tied::start(launch.source()?, launch.node_program, say)
    }

    /// Builds the lab of a file, unless that is up; its name, too. Calls `say` with the progress.
    ///
    /// # Errors
    /// If the file is wrong, the lab cannot be built, or one with this name is up from something
    /// else.
    pub fn unless_up(
        launch: &Launch,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Option<Tied>, String), Error> {
        let source = launch.source()?;
        let name = source.topology.name.clone();
        if source.is_up(launch, |_| true)? {
            return Ok((None, name));
        }
        Ok((Some(Tied::start(source, launch.node_program, say)?), name))
    }

    /// Builds the lab of a topology that is in no file; `title` is what messages call it.
    ///
    /// # Errors
    /// As [`up`](Tied::up).
    pub fn of(
        topology: Topology,
        title: &str,
        node_program: NodeProgram,
        say: &mut dyn FnMut(&str),
    ) -> Result<Tied, Error> {
        let text = topology.to_toml();
        Tied::start(Source { file: title.into(), text, topology, part: None }, node_program, say)
    }

    fn start(
        source: Source,
        node_program: NodeProgram,
        say: &mut dyn FnMut(&str),
    ) -> Result<Tied, Error> {
        let name = source.topology.name.clone();
        let (lifeline, process) = start(source, node_program, say)?;
        Ok(Tied { lifeline: Some(lifeline), process, name })
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        if let Ok(directory) = Directory::of(&self.name) {
            // In order if it answers; the closed lifeline and the signal do it otherwise.
            let asked = Client::connect(&directory.control_socket())
                .and_then(|mut c| c.ask(&Request::Down));
            if asked.is_err() || !self.process.has_ended(DOWN_LIMIT_MS).unwrap_or(false) {
                drop(self.lifeline.take());
                if !self.process.has_ended(DOWN_LIMIT_MS).unwrap_or(false) {
                    let _ = self.process.kill();
                }
            }
            let _ = self.process.wait();
            let _ = directory.remove_stale();
        }
    }
}

/// Builds a lab that outlives this process, unless it is up already.
///
/// # Errors
/// Where the file is wrong, the lab cannot be built, or another of the name is up.
pub fn up(launch: &Launch, say: &mut dyn FnMut(&str)) -> Result<(Up, String), Error> {
    let source = launch.source()?;
    sweep();
    let name = source.topology.name.clone();
    let machine = launch.part.as_ref().map(|part| &part.machine);
    if source.is_up(launch, |state| state.machine.as_ref() == machine)? {
        return Ok((Up::Already, name));
    }
    let (lifeline, _) = start(source, launch.node_program, say)?;
    control::send(File::from(lifeline), &KEEP).doing(|| "letting go of the lab".into())?;
    Ok((Up::Made, name))
}

impl Source {
    /// Whether the lab of this file, as it is now, is up.
    ///
    /// # Errors
    /// When a lab of the name is up from something else.
    fn is_up(&self, launch: &Launch, fits: impl Fn(&State) -> bool) -> Result<bool, Error> {
        let directory = Directory::of(&self.topology.name)?;
        if !directory.is_alive() {
            return Ok(false);
        }
        let text = std::fs::read_to_string(directory.file("topology")).unwrap_or_default();
        let state = directory.state();
        let is_it = |state: &State| state.node_program == launch.node_program.name() && fits(state);
        if text == self.text && state.as_ref().is_some_and(is_it) {
            return Ok(true);
        }
        let file = state.map_or_else(|| self.file.clone(), |s| s.file);
        Err(Error::Taken { name: self.topology.name.clone(), file })
    }
}

/// Starts a supervisor and waits until its lab is up. Dropping the descriptor ends it, unless
/// [`KEEP`] was sent before.
fn start(
    source: Source,
    node_program: NodeProgram,
    say: &mut dyn FnMut(&str),
) -> Result<(OwnedFd, InitProcess), Error> {
    let rootless = !has_admin();
    let part = source.part.as_ref();
    let part = part.map(|part| part.order(&source.topology, node_program, rootless)).transpose()?;
    let order = Order {
        part,
        base: Directory::of(&source.topology.name)?.base().to_path_buf(),
        name: source.topology.name,
        file: source.file,
        text: source.text,
        node_program,
        rootless,
    };
    if rootless {
        say(
            "without root: the lab is in a user namespace, and its nodes use AF_PACKET, not AF_XDP",
        );
    }
    let doing = || "starting the lab's supervisor".to_string();
    let program = std::env::current_exe().doing(doing)?;
    let cloexec = rustix::pipe::PipeFlags::CLOEXEC;
    let (order_read, order_write) = rustix::pipe::pipe_with(cloexec).doing(doing)?;
    let (answer_read, answer_write) = rustix::pipe::pipe_with(cloexec).doing(doing)?;
    let authority = if rootless { Authority::NewUser } else { Authority::Caller };
    let stderr = io::stderr();
    let stdio = [order_read.as_fd(), answer_write.as_fd(), stderr.as_fd()];
    let arguments = ["lab".as_ref(), "supervise".as_ref()];
    let process =
        namespace::spawn_init(&program, &arguments, stdio, authority).map_err(|e| {
            match e.kind() {
                io::ErrorKind::PermissionDenied if rootless => Error::Unsupported(format!(
                    "this machine lets only root make namespaces ({e}): run as root, or allow user \
                 namespaces (sysctl kernel.unprivileged_userns_clone=1, \
                 user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0)"
                )),
                _ => Error::system(doing(), e),
            }
        })?;
    drop((order_read, answer_write));
    let mut lifeline = File::from(order_write);
    control::send(&mut lifeline, &order).doing(doing)?;
    lifeline.flush().doing(doing)?;
    let mut answers = BufReader::new(File::from(answer_read));
    loop {
        match control::understand(control::receive(&mut answers)) {
            Ok(Answer::Ready) => return Ok((lifeline.into(), process)),
            Ok(Answer::Progress { text }) => say(&text),
            Ok(_) => {}
            Err(e) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(e);
            }
        }
    }
}

/// Whether this process may make namespaces without a user namespace: `CAP_SYS_ADMIN` and
/// `CAP_NET_ADMIN` (capabilities(7)), which root lacks in some containers.
fn has_admin() -> bool {
    const NEEDED: u64 = 1 << 21 | 1 << 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    effective & NEEDED == NEEDED
}

/// Runs the traffic of a lab that is up. Calls `say` with the progress.
///
/// # Errors
/// If no lab with this name is up, a run is in progress, or a node failed.
pub fn run(name: &str, say: &mut dyn FnMut(&str)) -> Result<RunReport, Error> {
    ask_to_run(name, None, say)
}

/// Runs the traffic of a file in its lab if that is up, else in a lab of its own. That lab ends
/// with this process, whatever ends it: a pipe between the two closes. The first Ctrl-C ends the
/// run, which then reports. A second one, or one outside of a run, ends this process.
///
/// # Errors
/// As of [`Tied::unless_up`] and [`run`].
pub fn run_file(launch: &Launch, say: &mut dyn FnMut(&str)) -> Result<RunReport, Error> {
    let (_tied, name) = Tied::unless_up(launch, say)?;
    cut_short_on_interrupt(&name)
        .map_err(|e| Error::System { what: "waiting for signals".into(), source: e })?;
    run(&name, say)
}

fn cut_short_on_interrupt(name: &str) -> io::Result<()> {
    let name = name.to_string();
    let mut signals = Signals::new([SIGINT])?;
    std::thread::spawn(move || {
        let mut is_first = true;
        for _ in signals.forever() {
            if !std::mem::take(&mut is_first) || !matches!(cut_short(&name), Ok(true)) {
                std::process::exit(130);
            }
            eprintln!("interrupted: the run ends and reports; once more to give it up");
        }
    });
    Ok(())
}

/// Runs these flows of a lab that is up, and no others.
///
/// # Errors
/// As [`run`], and where a flow is not of the lab.
pub fn run_flows(
    name: &str,
    flows: Vec<String>,
    say: &mut dyn FnMut(&str),
) -> Result<RunReport, Error> {
    ask_to_run(name, Some(flows), say)
}

/// Ends the current run of a lab, which reports its results so far. False if there is none.
///
/// # Errors
/// If no lab with this name is up, or it does not answer.
pub fn cut_short(name: &str) -> Result<bool, Error> {
    let mut client = connect(name)?;
    client.ask(&Request::CutShort)?;
    match client.answer() {
        Ok(_) => Ok(true),
        Err(Error::Refused(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

fn ask_to_run(
    name: &str,
    flows: Option<Vec<String>>,
    say: &mut dyn FnMut(&str),
) -> Result<RunReport, Error> {
    let mut client = connect(name)?;
    client.ask(&Request::Run { flows })?;
    loop {
        match client.answer()? {
            Answer::Report(report) => return Ok(report),
            Answer::Progress { text } => say(&text),
            _ => {}
        }
    }
}

fn connect(name: &str) -> Result<Client, Error> {
    let directory = Directory::of(name)?;
    if !directory.is_alive() {
        return Err(Error::NoLab { name: name.to_string() });
    }
    Client::connect(&directory.control_socket())
}

/// A lab's status.
///
/// # Errors
/// Where no lab of the name is up.
pub fn status(name: &str) -> Result<LabStatus, Error> {
    let mut client = connect(name)?;
    client.ask(&Request::Status)?;
    match client.answer()? {
        Answer::Status(status) => Ok(status),
        other => Err(Error::Refused(format!("the lab gave an odd answer: {other:?}"))),
    }
}

/// One lab in the list of all.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Listed {
    /// Its name.
    pub lab: String,
    /// Whether it is up; otherwise it was killed and left its directory.
    pub alive: bool,
    /// What is known of it without contacting it.
    pub state: Option<State>,
}

impl Display for Listed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let killed = "was killed; what it left is removed";
        let Some(state) = &self.state else {
            let how = if self.alive { "is being built" } else { killed };
            return write!(f, "{}: {how}", self.lab);
        };
        let how = if self.alive { "up" } else { killed };
        let (hosts, nodes) = (state.hosts.len(), state.nodes.len());
        let file = state.file.display();
        write!(f, "{}: {how}, {hosts} hosts, {nodes} nodes, from {file}", self.lab)
    }
}

/// Removes what killed labs left. What cannot be removed stays: `down` says why.
fn sweep() {
    for directory in Directory::all().unwrap_or_default().iter().filter(|d| d.is_stale()) {
        let _ = directory.remove_stale();
    }
}

/// All labs of this user, by name. Killed ones are listed once, and their remains removed.
///
/// # Errors
/// If their directory cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    let listed =
        |d: Directory| Listed { lab: d.name().to_string(), alive: d.is_alive(), state: d.state() };
    let all = Directory::all()?.into_iter().map(listed).collect();
    sweep();
    Ok(all)
}

/// Ends a lab and removes its remains; returns whether there was a lab, or remains of one.
///
/// # Errors
/// If it does not end even when killed.
pub fn down(name: &str) -> Result<bool, Error> {
    let directory = Directory::of(name)?;
    if !directory.is_alive() {
        return directory.remove_stale();
    }
    let client = Client::connect(&directory.control_socket()).ok();
    let supervisor = client.as_ref().and_then(Client::supervisor);
    let (Some(mut client), Some(supervisor)) = (client, supervisor) else {
        let text = format!(
            "lab {name} is held by a process that does not answer for it, so nothing was ended: \
             try again when it is up"
        );
        return Err(Error::Refused(text));
    };
    let asked = client
        .wait_at_most(Duration::from_millis(DOWN_LIMIT_MS.into()))
        .and_then(|()| client.ask(&Request::Down))
        .and_then(|()| client.answer());
    let doing = || format!("ending lab {name}");
    let ended = |limit| namespace::process_ended(supervisor.as_fd(), limit).doing(doing);
    if asked.is_err() || !ended(DOWN_LIMIT_MS)? {
        let _ = rustix::process::pidfd_send_signal(&supervisor, Signal::KILL);
        if !ended(KILL_LIMIT_MS)? {
            let text = format!("lab {name} does not end though it was killed");
            return Err(Error::Refused(text));
        }
    }
    directory.remove_stale()?;
    Ok(true)
}

/// Runs a command inside a host or node of a lab and waits for it; its exit code, or 128 plus
/// the signal that ended it. The process must have one thread.
///
/// # Errors
/// Where there is no such lab or place, or no such program.
pub fn exec(name: &str, place: &str, command: &[String]) -> Result<i32, Error> {
    use std::os::unix::process::ExitStatusExt;
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Unsupported("which command? as in: exec LAB HOST -- ip address".into()));
    };
    let [user, pid, net, mount, uts] = connect(name)?.enter(place)?;
    let doing = || format!("stepping into {place}");
    namespace::enter_world([user.as_fd(), pid.as_fd()]).doing(doing)?;
    let mut child = Command::new(program);
    child.args(arguments);
    Namespaces::from_descriptors([net, mount, uts]).apply(&mut child).doing(doing)?;
    let status = child.status().doing(|| format!("running {program} in {place}"))?;
    Ok(status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(255))
}
