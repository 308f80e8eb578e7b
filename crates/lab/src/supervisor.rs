//! Process 1 of a lab: builds it, answers requests, and ends it.
//!
//! Everything in a lab depends on this process: its descriptors hold the namespaces, and the
//! daemons are its children in a PID namespace of their own. However it ends, the kernel ends the
//! rest and frees the namespaces, their cables, and the programs attached to those. A pipe ties the
//! lab to its launcher: when the launcher ends in any way, the pipe closes, and the lab ends and
//! removes its directory; `up` releases the lab with a word when it is complete.

use std::borrow::Cow;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use plexus_io::namespace;
use plexus_io::process::put_session_before_others;
use plexus_report::first_of;
use plexus_topo::{Device, Topology};
use rustix::mount::MountFlags;
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, LabGroup};
use crate::control::{self, Answer, Request};
use crate::daemon::Daemon;
use crate::error::{Doing, Error};
use crate::etcd;
use crate::events::Daemons;
use crate::machines::{Outside, PartOrder};
use crate::nodes::{self, RunningNode};
use crate::plan::{NodeProgram, Plan};
use crate::run;
use crate::state::{Directory, Lock, State};
use crate::status::{ControllerStatus, HostStatus, LabStatus, LinkStatus, NodeStatus};
use crate::tools::IP;
use crate::world::World;
use crate::{bridges, dhcp, fabric, routing};

/// How long a client may be silent or not read before its connection is given up.
const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// The launcher's word for a lab that is up and has to outlive it.
pub(crate) const KEEP: &str = "keep";

/// The launcher's order: one line on the supervisor's standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) name: String,
    /// The directory of all labs, as the launcher sees it.
    pub(crate) base: PathBuf,
    pub(crate) node_program: NodeProgram,
    pub(crate) rootless: bool,
    /// The part of the topology to build, if other machines have the rest.
    pub(crate) part: Option<PartOrder>,
}

/// A lab that is up.
struct Lab {
    plan: Plan,
    world: World,
    nodes: Mutex<Vec<RunningNode>>,
    controllers: Mutex<Vec<Daemon>>,
    /// The store that the controllers share.
    etcd: Mutex<Vec<etcd::Member>>,
    /// Held while traffic runs.
    running: Mutex<()>,
    /// The current run has to end.
    cut: AtomicBool,
    state: State,
    directory: Directory,
    /// The lab's own user and PID namespaces.
    own: [OwnedFd; 2],
    /// Held as long as the lab is alive.
    _lock: Lock,
}

/// Runs a supervisor: the command `plexus lab supervise`. Its standard input carries the order and
/// is the launcher's lifeline; its standard output reports the progress to the launcher.
///
/// Returns the exit code if the lab could not be built; otherwise the process ends from within.
pub fn supervise() -> i32 {
    // A session of its own: the terminal's signals are for the launcher.
    let _ = rustix::process::setsid();
    // What a lab measures is not to depend on what else the machine does.
    put_session_before_others();
    let mut input = BufReader::new(io::stdin());
    let order: Order = match control::receive(&mut input) {
        Ok(Some(order)) => order,
        Ok(None) | Err(_) => {
            eprintln!("plexus: lab supervise is what lab up and lab run start; use those");
            return 2;
        }
    };
    watch_lifeline(input, &order);
    match start(&order) {
        Ok((lab, listener)) => serve(lab, listener),
        Err(e) => {
            let why = e.to_string();
            let file = matches!(e, Error::File(_) | Error::Unsupported(_));
            let _ = control::send(io::stdout(), &Answer::Refused { why, file });
            2
        }
    }
}

/// True while this process holds the lock of the lab's directory. A thread takes or clears the
/// directory only while it holds the mutex.
static IS_TAKEN: Mutex<bool> = Mutex::new(false);

/// A panic of another thread leaves the value valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process, and with it the lab, when the launcher's end of the pipe closes without
/// [`KEEP`].
fn watch_lifeline(mut input: BufReader<io::Stdin>, order: &Order) {
    let directory = Directory::within(order.base.clone(), &order.name);
    let lab = order.name.clone();
    thread::spawn(move || {
        if matches!(control::receive::<String>(&mut input), Ok(Some(word)) if word == KEEP) {
            return;
        }
        // From here on the lab takes no directory.
        let is_taken = lock(&IS_TAKEN);
        if let Ok(directory) = directory
            && *is_taken
        {
            let group = directory.state().and_then(|state| state.cgroup);
            directory.clear_while_it_fills();
            // Last, since the lab may still be under construction.
            routing::clear(&lab, outer_pid().unwrap_or(0));
            group.iter().for_each(|group| cgroup::end(group));
        }
        std::process::exit(0);
    });
}

/// This process's number outside the namespace, saved before `/proc` was mounted anew.
fn outer_pid() -> io::Result<i32> {
    static PID: std::sync::OnceLock<Option<i32>> = std::sync::OnceLock::new();
    let read = || fs::read_link("/proc/self").ok()?.to_str()?.parse().ok();
    PID.get_or_init(read).ok_or_else(|| io::Error::other("/proc/self does not say who we are"))
}

fn say(text: impl Into<String>) {
    // The lifeline handles a launcher that is gone.
    let _ = control::send(io::stdout(), &Answer::Progress { text: text.into() });
}

fn start(order: &Order) -> Result<(Arc<Lab>, UnixListener), Error> {
    let pid = outer_pid().doing(|| "starting a lab".into())?;
    let directory = Directory::within(order.base.clone(), &order.name)?;
    let taken = {
        let mut is_taken = lock(&IS_TAKEN);
        let taken = take(&directory, order)?;
        *is_taken = true;
        taken
    };
    let built = build(order, pid, directory.clone(), taken);
    if built.is_err() {
        let mut is_taken = lock(&IS_TAKEN);
        routing::clear(&order.name, pid);
        end_cgroup(&directory);
        let _ = directory.clear();
        *is_taken = false;
    }
    built
}

/// Ends the daemons in the control group of this lab, and removes the group.
fn end_cgroup(directory: &Directory) {
    if let Some(group) = directory.state().and_then(|state| state.cgroup) {
        cgroup::end(&group);
    }
}

/// Takes the lab's lock, and removes the remains of an earlier lab with this name.
fn take(directory: &Directory, order: &Order) -> Result<Lock, Error> {
    // Processes that check whether a lab is alive, or remove a dead one, also hold the lock
    // briefly.
    const TRIES: u32 = 40;
    for _ in 0..TRIES {
        directory.create()?;
        if let Some(lock) = directory.lock()? {
            directory.remove_cgroup();
            directory.empty(&["lock"])?;
            return Ok(lock);
        }
        thread::sleep(Duration::from_millis(25));
    }
    let file = directory.state().map_or_else(|| order.file.clone(), |s| s.file);
    Err(Error::Taken { name: order.name.clone(), file })
}

fn build(
    order: &Order,
    pid: i32,
    directory: Directory,
    lock: Lock,
) -> Result<(Arc<Lab>, UnixListener), Error> {
    let file = order.file.display().to_string();
    let topology = Topology::parse(&file, &order.text).map_err(|e| Error::File(e.to_string()));
    let mut topology = topology?;
    topology.find_files(order.file.parent().unwrap_or(Path::new("")));
    let has_quota = topology.nodes.iter().any(|n| n.cpu.is_some());
    let groups = has_quota.then(|| LabGroup::find(&order.name, pid)).transpose()?;
    let state = State {
        lab: order.name.clone(),
        file: order.file.clone(),
        pid,
        rootless: order.rootless,
        node_program: order.node_program.name().to_string(),
        hosts: topology.hosts.iter().map(|h| h.name.clone()).collect(),
        nodes: topology.nodes.iter().map(|n| n.name.clone()).collect(),
        controllers: topology.controllers.iter().map(|c| c.name.clone()).collect(),
        cgroup: groups.as_ref().map(|g| g.path().to_path_buf()),
        machine: order.part.as_ref().map(|part| topology.machines[part.machine].name.clone()),
    };
    // First of all, so that a user can end the lab while it is being built.
    let socket = directory.control_socket();
    let listener =
        UnixListener::bind(&socket).doing(|| format!("listening on {}", socket.display()))?;
    directory.write_state(&state)?;
    let copy = directory.file("topology");
    fs::write(&copy, &order.text).doing(|| format!("writing {}", copy.display()))?;
    let log = directory.file("log");
    let log_file = fs::File::create(&log).doing(|| format!("creating {}", log.display()))?;
    rustix::stdio::dup2_stderr(&log_file).doing(|| "opening the log".into())?;

    let mut plan = Plan::new(topology, order.node_program, order.rootless, directory.path())?;
    plan.machine = order.part.as_ref().map(|part| part.machine);
    // Before /proc shows this lab alone.
    let outside = order.part.as_ref().map(|part| Outside::of(part.launcher, pid)).transpose()?;
    prepare_process()?;
    let (hosts, nodes) = (plan.topology.hosts.len(), plan.topology.nodes.len());
    let bridges = match plan.topology.bridges.len() {
        0 => String::new(),
        count => format!("{count} bridges, "),
    };
    let links = plan.topology.links.len();
    say(format!("building {hosts} hosts, {nodes} nodes, {bridges}{links} links"));
    let world = World::build(&plan, outside.as_ref())?;
    let laid = etcd::lay(&plan, &world)?;
    let secret = order.part.as_ref().map(|part| part.secret.as_str());
    fabric::issue_identities(&plan, directory.path(), secret)?;
    let mut nodes = nodes::start(&plan, &world, directory.path(), groups.as_ref())?;
    say("starting the nodes");
    nodes.iter_mut().try_for_each(RunningNode::wait_until_ready)?;
    let etcd = etcd::start(laid, &plan, &world, directory.path())?;
    let mut controllers = fabric::start_controllers(&plan, &world, directory.path())?;
    controllers.iter_mut().try_for_each(Daemon::wait_until_ready)?;
    // A fabric node takes frames as they are on a cable.
    world.raise_hosts(&plan)?;
    nodes.iter_mut().try_for_each(RunningNode::wait_for_ports)?;
    routing::start(&plan.topology, &world, pid)?;
    let time = bridges::time_for_trees(&plan);
    if !time.is_zero() {
        say(format!("waiting for the bridges' spanning tree ({} s)", time.as_secs_f64()));
        bridges::wait_for_trees(&plan, &world)?;
    }
    // Other machines may come later, so nothing waits for them.
    if plan.is_fabric() && !plan.is_part() {
        say("waiting until the nodes have found each other and the controller");
        fabric::wait_until_joined(&plan, &mut nodes)?;
        if plan.is_in_band() {
            say("waiting until a controller reaches etcd over the fabric, and leads");
            fabric::leader(&mut controllers)?;
        }
        say("waiting until the nodes have the group's routes");
        fabric::wait_for_tables(&plan, &mut controllers)?;
        say("waiting for the hosts' leases");
        dhcp::lease(&plan, &world)?;
    }
    say("waiting for the hosts' addresses (IPv6 duplicate address detection)");
    world.wait_for_addresses(&plan)?;
    if !plan.is_part() {
        fabric::wait_for_functions(&plan, &mut controllers)?;
    }
    if plan.topology.nodes.iter().any(|n| !n.daemons.is_empty()) {
        say("waiting for the routing daemons' routes");
        routing::wait_for_routes(&plan.topology, &mut nodes)?;
    }

    let own = namespace::own_world().doing(|| "looking at the lab's namespaces".into())?;
    let lab = Lab {
        plan,
        world,
        nodes: Mutex::new(nodes),
        controllers: Mutex::new(controllers),
        etcd: Mutex::new(etcd),
        running: Mutex::new(()),
        cut: AtomicBool::new(false),
        state,
        directory,
        own,
        _lock: lock,
    };
    Ok((Arc::new(lab), listener))
}

/// Makes the new world habitable: its own view of processes, its loopback, enough descriptors.
fn prepare_process() -> Result<(), Error> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // In a container the kernel may refuse (mount_too_revealing); the old view serves.
    let _ = rustix::mount::mount("proc", "/proc", "proc", flags, None);
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    IP.batch(None, "link set dev lo up\n")
}

/// Answers until the lab is to end.
fn serve(lab: Arc<Lab>, listener: UnixListener) -> ! {
    let ending = Arc::clone(&lab);
    match signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM]) {
        Ok(mut signals) => {
            thread::spawn(move || {
                if signals.forever().next().is_some() {
                    ending.end();
                }
            });
        }
        Err(e) => eprintln!("no orderly end on SIGTERM: {e}"),
    }
    let mourner = Arc::clone(&lab);
    thread::spawn(move || bury_orphans(&mourner));
    let _ = control::send(io::stdout(), &Answer::Ready);
    if let Ok(null) = fs::File::options().write(true).open("/dev/null") {
        // The launcher must not wait for the end of our output.
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let lab = Arc::clone(&lab);
                thread::spawn(move || {
                    if let Err(e) = lab.answer(&stream) {
                        eprintln!("control socket: {e}");
                    }
                });
            }
            Err(e) => {
                eprintln!("control socket: {e}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Process 1 inherits every orphan and reaps it. It first records how each daemon ended, because
/// `status` may ask for that much later. Other children have a thread that soon waits for them, so
/// only a process that was a zombie twice in a row is reaped as an orphan.
fn bury_orphans(lab: &Lab) {
    let mut before: Vec<i32> = Vec::new();
    loop {
        thread::sleep(Duration::from_secs(1));
        // Where they are in use the orphans wait for the next time.
        let (Ok(mut nodes), Ok(mut controllers), Ok(mut etcd)) =
            (lab.nodes.try_lock(), lab.controllers.try_lock(), lab.etcd.try_lock())
        else {
            continue;
        };
        etcd.iter_mut().for_each(|member| _ = member.is_running());
        nodes.iter_mut().filter_map(RunningNode::daemon).for_each(|daemon| drop(daemon.state()));
        controllers.iter_mut().for_each(|daemon| drop(daemon.state()));
        drop((nodes, controllers, etcd));
        let zombies = zombie_children();
        for &pid in zombies.iter().filter(|p| before.contains(p)) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        before = zombies;
    }
}

/// Processes in state Z whose parent is process 1.
fn zombie_children() -> Vec<i32> {
    let zombie = |entry: io::Result<fs::DirEntry>| -> Option<i32> {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        (fields.next() == Some("Z") && fields.next() == Some("1")).then_some(pid)
    };
    fs::read_dir("/proc").into_iter().flatten().filter_map(zombie).collect()
}

impl Lab {
    /// Serves one connection: a request, its answers, the next.
    fn answer(self: &Arc<Lab>, stream: &UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(CLIENT_LIMIT))?;
        let mut reader = BufReader::new(stream);
        loop {
            stream.set_read_timeout(Some(CLIENT_LIMIT))?;
            let request = match control::receive::<Request>(&mut reader) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    let why = format!("not a request: {e}");
                    return control::send(stream, &Answer::Refused { why, file: false });
                }
                // Silence.
                Err(_) => return Ok(()),
            };
            match request {
                Request::Status => control::send(stream, &Answer::Status(self.status()))?,
                Request::Enter { place } => self.enter(stream, &place)?,
                Request::Run { flows } => self.run(stream, flows.as_deref())?,
                Request::CutShort => control::send(stream, &self.cut_short())?,
                Request::Down => {
                    // The request counts even if the client has gone.
                    let _ = control::send(stream, &Answer::Done);
                    self.end();
                }
            }
        }
    }

    fn enter(&self, stream: &UnixStream, name: &str) -> io::Result<()> {
        let topology = &self.plan.topology;
        let host = topology.hosts.iter().position(|h| h.name == name).map(Device::Host);
        let node = topology.nodes.iter().position(|n| n.name == name).map(Device::Node);
        let bridge = topology.bridges.iter().position(|b| b.name == name).map(Device::Bridge);
        // A controller is where its node is.
        let controller = topology.controllers.iter().find(|c| c.name == name);
        let controller = controller.map(|c| Device::Node(c.node));
        let Some(place) = host.or(node).or(bridge).or(controller) else {
            let hosts: Vec<&str> = topology.hosts.iter().map(|h| h.name.as_str()).collect();
            let nodes: Vec<&str> = topology.nodes.iter().map(|n| n.name.as_str()).collect();
            let why = format!(
                "no host or node {name:?} in lab {}: hosts {}; nodes {}",
                self.state.lab,
                first_of(&hosts),
                first_of(&nodes)
            );
            return control::send(stream, &Answer::Refused { why, file: false });
        };
        if !self.plan.has(place) {
            let why = format!(
                "{name} is on machine {}",
                topology.machines[topology.machine_of(place)].name
            );
            return control::send(stream, &Answer::Refused { why, file: false });
        }
        let [net, mount, uts] = self.world.place(place).descriptors();
        let [user, pid]: [BorrowedFd<'_>; 2] = self.own.each_ref().map(AsFd::as_fd);
        control::send_world(stream, [user, pid, net, mount, uts])
    }

    fn run(&self, stream: &UnixStream, flows: Option<&[String]>) -> io::Result<()> {
        if self.plan.is_part() {
            let why = "a lab on several machines runs no traffic by itself: use `plexus lab exec` \
                       with ping, iperf3, or plexus gen and plexus meter"
                .to_string();
            return control::send(stream, &Answer::Refused { why, file: false });
        }
        let mut plan = Cow::Borrowed(&self.plan);
        if let Some(names) = flows {
            let known = |name: &String| self.plan.topology.traffic.iter().any(|f| f.name == *name);
            if let Some(name) = names.iter().find(|name| !known(name)) {
                let why = format!("lab {} has no flow {name:?}", self.state.lab);
                return control::send(stream, &Answer::Refused { why, file: false });
            }
            plan.to_mut().topology.keep_flows(|f| names.contains(&f.name));
        }
        let Ok(_running) = self.running.try_lock() else {
            let why = format!("lab {} is running its traffic already", self.state.lab);
            return control::send(stream, &Answer::Refused { why, file: false });
        };
        self.cut.store(false, Ordering::Relaxed);
        let daemons =
            Daemons { nodes: &self.nodes, controllers: &self.controllers, etcd: &self.etcd };
        let report = run::run(&plan, &self.world, daemons, &self.cut, |text| {
            control::send(stream, &Answer::Progress { text }).is_ok()
        });
        let answer = match report {
            Ok(report) => Answer::Report(report),
            Err(e) => Answer::Refused { why: e.to_string(), file: false },
        };
        control::send(stream, &answer)
    }

    fn cut_short(&self) -> Answer {
        if self.running.try_lock().is_ok() {
            let why = format!("lab {} is not running its traffic", self.state.lab);
            return Answer::Refused { why, file: false };
        }
        self.cut.store(true, Ordering::Relaxed);
        Answer::Done
    }

    fn status(&self) -> LabStatus {
        let topology = &self.plan.topology;
        let host = |h: &plexus_topo::Host| HostStatus {
            name: h.name.clone(),
            mac: h.mac.to_string(),
            addresses: h.addresses.iter().map(ToString::to_string).collect(),
        };
        // Never both locks at once: `end` takes them in the other order.
        let nodes = {
            let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            let nodes = nodes.iter_mut().zip(&topology.nodes).map(|(node, plan)| NodeStatus {
                name: node.name().to_string(),
                state: node.state(),
                control: node.control().map(PathBuf::from),
                ports: plan.ports.iter().map(|p| p.name.clone()).collect(),
            });
            nodes.collect()
        };
        let controllers = {
            let mut daemons = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
            let daemons = daemons.iter_mut().zip(&topology.controllers);
            let controllers = daemons.map(|(daemon, plan)| ControllerStatus {
                name: plan.name.clone(),
                state: daemon.state(),
                control: daemon.socket().to_path_buf(),
                on: topology.nodes[plan.node].name.clone(),
            });
            controllers.collect()
        };
        let link = |(link, _, ends): (usize, usize, [plexus_topo::End; 2])| {
            let link = &topology.links[link];
            let [a, b] = ends.map(|end| topology.end_name(end));
            LinkStatus { a, b, mtu: link.mtu, rate_bits_per_s: link.rate_bits_per_s }
        };
        LabStatus {
            lab: self.state.lab.clone(),
            file: self.state.file.clone(),
            rootless: self.state.rootless,
            node_program: self.plan.program,
            hosts: topology.hosts.iter().map(host).collect(),
            nodes,
            bridges: bridges::status(&self.plan, &self.world),
            controllers,
            links: topology.cables().map(link).collect(),
        }
    }

    /// Ends the lab in order: the controller, the nodes, the directory, and the rest with this
    /// process.
    fn end(&self) -> ! {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.iter_mut().for_each(Daemon::stop);
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.iter_mut().for_each(RunningNode::stop);
        routing::clear(&self.plan.topology.name, self.state.pid);
        self.state.cgroup.iter().for_each(|group| cgroup::end(group));
        let _ = self.directory.clear();
        let _ = io::stdout().flush();
        std::process::exit(0)
    }
}
