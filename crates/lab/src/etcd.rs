//! The etcd cluster that a lab's controllers share: three members, each in a namespace of its own.
//! A bridge in the supervisor's own namespace joins them with the controllers: a network outside
//! the fabric.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plexus_config::EtcdSettings;
use plexus_io::namespace::Namespaces;
use plexus_topo::{Device, ETCD_MEMBERS};

use crate::error::{Doing, Error};
use crate::plan::Plan;
use crate::tools::{IP, Tool};
use crate::world::{World, mount_tmpfs};

/// The bridge, and the devices of members and controllers.
const BRIDGE: &str = "etcd";
pub(crate) const DEVICE: &str = "etcd0";
const ETCD: Tool = Tool::new("etcd", "etcd-server");
/// A member's disk, in memory: two pieces of its log and then some.
const DISK: &CStr = c"mode=755,size=256m";
/// The file that fills a disk.
const FILLER: &str = "/run/filler";

/// A member of the cluster.
pub(crate) struct Member {
    number: usize,
    place: Namespaces,
    child: Child,
    log: PathBuf,
}

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
        endpoints: (0..ETCD_MEMBERS.len()).map(|m| format!("http://{}:2379", member(m))).collect(),
        ca: None,
        certificate: None,
        insecure: true,
        lease: Duration::from_secs(2),
    }
}

/// The device of the supervisor's bridge at which a controller's box is.
pub(crate) fn bridge_port(controller: usize) -> String {
    format!("e{}", ETCD_MEMBERS.len() + controller)
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
    let create = |name: &&str| {
        let made = Namespaces::create(|| mount_tmpfs("/run", DISK));
        made.doing(|| format!("making a place for {name}"))
    };
    let places = ETCD_MEMBERS.iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let controllers = plan.controller_files.iter().map(|(node, _)| *node);
    let controllers = controllers.map(|node| (world.place(Device::Node(node)), place(node)));
    let members = places.iter().enumerate().map(|(number, place)| (place, member(number)));
    let mut batch = format!("link add {BRIDGE} type bridge\nlink set {BRIDGE} up\n");
    let ends: Vec<_> = members.chain(controllers).collect();
    // Members first: see `bridge_port`.
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
        let log = directory.join(format!("{}.log", ETCD_MEMBERS[number]));
        let child = spawn(number, &place, &log)?;
        Ok(Member { number, place, child, log })
    };
    places.into_iter().enumerate().map(start).collect()
}

impl Member {
    /// Kills it at once; its disk stays.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it runs. If it has ended, that is recorded.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Starts it as before, if it has ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        if self.is_running() {
            return Ok(());
        }
        self.child = spawn(self.number, &self.place, &self.log)?;
        Ok(())
    }

    /// Takes all room on its disk, or gives it back.
    ///
    /// # Errors
    /// When that is not possible.
    pub(crate) fn fill(&self, full: bool) -> Result<(), Error> {
        let work = || match full {
            false => fs::remove_file(FILLER),
            true => match std::io::copy(&mut std::io::repeat(0), &mut File::create(FILLER)?) {
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => Ok(()),
                other => other.map(drop),
            },
        };
        let name = ETCD_MEMBERS[self.number];
        self.place.run(work).flatten().doing(|| format!("filling the disk of {name}"))
    }
}

fn spawn(number: usize, place: &Namespaces, log: &Path) -> Result<Child, Error> {
    let names = ETCD_MEMBERS.iter().enumerate();
    let all = names.map(|(m, name)| format!("{name}=http://{}:2380", member(m)));
    let all = all.collect::<Vec<_>>().join(",");
    let name = ETCD_MEMBERS[number];
    let peer = format!("http://{}:2380", member(number));
    let client = format!("http://{}:2379", member(number));
    let spawn = || {
        let output = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new("etcd");
        command.args(["--name", name, "--initial-cluster", &all]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--data-dir", "/run/etcd", "--auto-compaction-retention", "5m"]);
        command.args(["--auto-compaction-mode", "periodic"]);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        place.apply(&mut command)?;
        command.spawn()
    };
    spawn().doing(|| format!("starting etcd, member {name}"))
}
