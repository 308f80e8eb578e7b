//! Third-party routing daemons in a lab's nodes: FRR and BIRD, as their packages install them. They
//! are processes of the lab and end with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plexus_api::Request;
use plexus_api::answer::router::Route;
use plexus_io::namespace::Namespaces;
use plexus_io::users::user;
use plexus_topo::{Device, RoutingDaemon, RoutingSuite, Topology};
use plexus_wire::Prefix;

use crate::daemon::Daemon;
use crate::error::{Doing, Error};
use crate::nodes::RunningNode;
use crate::tools::Tool;
use crate::world::World;

/// Where the daemons' files are: not with the lab's, which are its owner's alone, for FRR's daemons
/// run as a user of their own.
const FILES: &str = "/run/plexus-routing";
/// Where Debian's package keeps FRR's daemons.
const FRR: &str = "/usr/lib/frr";
/// An FRR daemon, the configuration keywords that need it, and its options. A restarted zebra
/// leaves the old one's routes in the kernel for a minute, until the other daemons have announced
/// theirs again.
const FRR_DAEMONS: [(&str, &str, &[&str]); 5] = [
    ("zebra", "", &["--graceful_restart", "60"]),
    ("staticd", "", &[]),
    ("ospfd", "router ospf\n", &[]),
    ("ospf6d", "router ospf6", &[]),
    ("bgpd", "router bgp", &[]),
];
const VTYSH: Tool = Tool::new("vtysh", "frr");
/// How long routes may take to appear: two daemons meet within some ten seconds.
const ROUTES_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// How long a daemon may take to listen on its socket.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);

/// Where a lab's routing daemons have their files: `pid` is its supervisor's process.
fn directory(lab: &str, pid: i32) -> PathBuf {
    Path::new(FILES).join(format!("{lab}.{pid}"))
}

/// Removes the files of a lab's routing daemons, if there are any.
pub(crate) fn clear(lab: &str, pid: i32) {
    // They are small, in memory, and of no use to another lab: what stays does no harm.
    let _ = fs::remove_dir_all(directory(lab, pid));
}

/// Starts every routing daemon of a topology.
///
/// # Errors
/// When one is not installed, or does not take its configuration.
pub(crate) fn start(topology: &Topology, world: &World, pid: i32) -> Result<(), Error> {
    clear(&topology.name, pid);
    for (index, node) in topology.nodes.iter().enumerate() {
        let place = world.place(Device::Node(index));
        for daemon in &node.daemons {
            let name = format!("{}.{}", node.name, daemon.suite.name());
            let own = directory(&topology.name, pid).join(name);
            fs::create_dir_all(&own).doing(|| format!("making {}", own.display()))?;
            let config = own.join("daemon.conf");
            let writing = || format!("writing {}", config.display());
            fs::write(&config, &daemon.config).doing(writing)?;
            match daemon.suite {
                RoutingSuite::Frr => start_frr(daemon, &own, &config, place)?,
                RoutingSuite::Bird => start_bird(&own, &config, place)?,
            }
        }
    }
    Ok(())
}

fn start_frr(
    daemon: &RoutingDaemon,
    own: &Path,
    config: &Path,
    place: &Namespaces,
) -> Result<(), Error> {
    let empty = own.join("empty.conf");
    fs::write(&empty, "").doing(|| format!("writing {}", empty.display()))?;
    let giving = || format!("giving {} to FRR's user", own.display());
    std::os::unix::fs::chown(own, Some(user_of_frr()?), None).doing(giving)?;
    for (name, needs, options) in FRR_DAEMONS {
        if !daemon.config.contains(needs) {
            continue;
        }
        let mut command = Command::new(Path::new(FRR).join(name));
        command.arg("-f").arg(&empty).arg("-i").arg(own.join(format!("{name}.pid")));
        command.arg("-z").arg(own.join("zserv.api")).arg("--vty_socket").arg(own);
        // No port for terminals: `vtysh` speaks to the sockets above.
        command.args(["-P", "0", "--log", "stdout"]).args(options);
        spawn(command, "frr", &own.join(format!("{name}.log")), place)?;
        wait_for(&own.join(format!("{name}.vty")))?;
    }
    let (own, config) = (own.to_string_lossy(), config.to_string_lossy());
    VTYSH.run(Some(place), &["--vty_socket", &own, "-f", &config], "").map(drop)
}

/// The user that FRR's package has made for it.
fn user_of_frr() -> Result<u32, Error> {
    let user = user(|user| user.name == "frr").map(|user| user.id);
    user.ok_or_else(|| Error::Unsupported("there is no user frr: apt-get install frr".into()))
}

fn start_bird(own: &Path, config: &Path, place: &Namespaces) -> Result<(), Error> {
    let mut command = Command::new("/usr/sbin/bird");
    command.arg("-f").arg("-c").arg(config);
    command.arg("-s").arg(own.join("bird.ctl")).arg("-P").arg(own.join("bird.pid"));
    spawn(command, "bird2", &own.join("bird.log"), place)?;
    wait_for(&own.join("bird.ctl"))
}

fn spawn(
    mut command: Command,
    package: &'static str,
    log: &Path,
    place: &Namespaces,
) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    if !program.exists() {
        let text = format!("{} is not installed: apt-get install {package}", program.display());
        return Err(Error::Unsupported(text));
    }
    let doing = || format!("starting {}", program.display());
    // Its folder is the daemons', which may have put a link there.
    let output = fs::File::create_new(log).doing(doing)?;
    command.stdin(Stdio::null()).stdout(output.try_clone().doing(doing)?).stderr(output);
    place.apply(&mut command).doing(doing)?;
    // This process, process 1 of the lab, ends and reaps it.
    command.spawn().map(drop).doing(doing)
}

/// Waits for the socket that shows that a daemon is running.
fn wait_for(socket: &Path) -> Result<(), Error> {
    let limit = Instant::now() + SOCKET_LIMIT;
    while !socket.exists() {
        if Instant::now() > limit {
            let log = socket.with_extension("log");
            let text = format!("a routing daemon did not start: see {}", log.display());
            return Err(Error::Refused(text));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until every node has the routes that its daemons' files name.
///
/// # Errors
/// When they do not come, with those that lack.
pub(crate) fn wait_for_routes(topology: &Topology, nodes: &mut [RunningNode]) -> Result<(), Error> {
    let limit = Instant::now() + ROUTES_LIMIT;
    for (node, running) in topology.nodes.iter().zip(nodes) {
        let Some(daemon) = running.daemon() else { continue };
        let mut wanted: Vec<Prefix> =
            node.daemons.iter().flat_map(|d| d.until.iter().copied()).collect();
        loop {
            wanted.retain(|prefix| !has_route(daemon, prefix));
            if wanted.is_empty() {
                break;
            }
            if Instant::now() > limit {
                let wanted: Vec<String> = wanted.iter().map(Prefix::to_string).collect();
                let what = format!("no route to {} after a minute", wanted.join(", "));
                return Err(daemon.failed(&what));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// Whether packets to the prefix's last address go by a route to exactly that prefix.
fn has_route(daemon: &Daemon, prefix: &Prefix) -> bool {
    let answer = daemon.ask::<Route>(&Request::Route(prefix.last()));
    answer.is_ok_and(|answer| {
        let prefix = prefix.to_string();
        answer.routes.iter().any(|route| route.prefix == prefix && route.standing == "in_use")
    })
}
