//! The etcd cluster that a lab's controllers share: three members, each in a namespace of its own.
//! A bridge in the supervisor's own namespace joins them with the controllers: a network outside
//! the fabric.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plexus_config::EtcdSettings;
use plexus_io::namespace::Namespaces;
use plexus_topo::Device;

use crate::error::{Doing, Error};
use crate::plan::Plan;
use crate::tools::{IP, Tool};
use crate::world::{World, tmpfs};

/// As many as survive the loss of one.
const MEMBERS: usize = 3;
/// The bridge, and the devices of members and controllers.
const BRIDGE: &str = "etcd";
const DEVICE: &str = "etcd0";
const ETCD: Tool = Tool::new("etcd", "etcd-server");

/// A running member.
pub(crate) type Member = (Namespaces, Child);

/// The address of a member, and those of controllers' boxes: of a network for measurements (RFC
/// 2544), which no host of a lab has.
fn member(number: usize) -> String {
    format!("198.18.0.{}", number + 1)
}

fn place(node: usize) -> String {
    format!("198.18.{}.{}", 1 + node / 250, 1 + node % 250)
}

/// How a lab's controllers reach its members. Nobody else can.
pub(crate) fn settings() -> EtcdSettings {
    EtcdSettings {
        endpoints: (0..MEMBERS).map(|m| format!("http://{}:2379", member(m))).collect(),
        ca: None,
        certificate: None,
        insecure: true,
        lease: Duration::from_secs(2),
    }
}

/// Starts the members, if several controllers need them. They end with the lab.
///
/// # Errors
/// When etcd is not installed, or the network cannot be laid.
pub(crate) fn start(plan: &Plan, world: &World, directory: &Path) -> Result<Vec<Member>, Error> {
    if plan.controller_files.iter().all(|(_, file)| file.etcd.is_none()) {
        return Ok(Vec::new());
    }
    ETCD.run(None, &["--version"], "")?;
    let own = fs::read_link("/proc/self").doing(|| "reading /proc/self".into())?;
    // A member's data is in memory, and goes with it.
    let create =
        |_| Namespaces::create(|| tmpfs("/run")).doing(|| "making a member of etcd".into());
    let places = (0..MEMBERS).map(create).collect::<Result<Vec<_>, _>>()?;
    let controllers = plan.controller_files.iter().map(|(node, _)| *node);
    let controllers = controllers.map(|node| (world.place(Device::Node(node)), place(node)));
    let members = places.iter().enumerate().map(|(number, place)| (place, member(number)));
    let mut batch = format!("link add {BRIDGE} type bridge\nlink set {BRIDGE} up\n");
    let ends: Vec<_> = members.chain(controllers).collect();
    for (number, (place, _)) in ends.iter().enumerate() {
        let net = place.descriptors()[0].as_raw_fd();
        let place = format!("netns /proc/{}/fd/{net}", own.display());
        let _ = writeln!(batch, "link add e{number} type veth peer name {DEVICE} {place}");
        let _ = writeln!(batch, "link set e{number} master {BRIDGE} up");
    }
    IP.batch(None, &batch)?;
    for (place, address) in ends {
        let lines = format!(
            "link set lo up\nlink set {DEVICE} addrgenmode none up\n\
             address add {address}/16 dev {DEVICE}\n"
        );
        IP.batch(Some(place), &lines)?;
    }
    let start = |(number, place): (usize, Namespaces)| {
        let child = start_one(number, &place, directory)?;
        Ok((place, child))
    };
    places.into_iter().enumerate().map(start).collect()
}

fn start_one(number: usize, place: &Namespaces, directory: &Path) -> Result<Child, Error> {
    let all = (0..MEMBERS).map(|m| format!("e{}=http://{}:2380", m + 1, member(m)));
    let all = all.collect::<Vec<_>>().join(",");
    let name = format!("e{}", number + 1);
    let log = directory.join(format!("{name}.log"));
    let peer = format!("http://{}:2380", member(number));
    let client = format!("http://{}:2379", member(number));
    let spawn = |all: String| {
        let output = File::create(&log)?;
        let mut command = Command::new("etcd");
        command.args(["--name", &name, "--initial-cluster", &all]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--data-dir", "/run/etcd", "--auto-compaction-retention", "5m"]);
        command.args(["--auto-compaction-mode", "periodic"]);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        place.apply(&mut command)?;
        command.spawn()
    };
    let doing = format!("starting etcd, member {name}");
    spawn(all).doing(|| doing)
}
