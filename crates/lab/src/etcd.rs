//! The etcd cluster that a lab's controllers share: three members, each in a namespace of its own.
//! A bridge in the supervisor's own namespace joins them with the controllers: a network outside
//! the fabric. In-band, they are hosts of the fabric instead: each member is cabled to a node, and
//! so is each controller's box.

use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plexus_config::EtcdSettings;
use plexus_io::namespace::Namespaces;
use plexus_topo::{Device, ETCD_MEMBERS, IN_BAND_PORTS};
use rustix::fs::statvfs;
use rustix::mount::{MountFlags, mount_remount};

use crate::error::{Doing, Error};
use crate::plan::Plan;
use crate::tools::{IP, Tool};
use crate::world::{World, mount_tmpfs, raise_port};

/// The bridge, and the devices of members and controllers.
const BRIDGE: &str = "etcd";
pub(crate) const DEVICE: &str = "etcd0";
const ETCD: Tool = Tool::new("etcd", "etcd-server");
/// A member's disk, in memory: two pieces of its log and then some.
const DISK: &str = "/run";
const DISK_OPTIONS: &CStr = c"mode=755,size=256m";

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

/// The places of members and controllers' boxes, cabled to each other.
pub(crate) struct Laid {
    members: Vec<Namespaces>,
}

/// Makes the members' places and lays the cables, if several controllers need them. The ports of
/// nodes are up afterwards; the members' and controllers' ends are not.
///
/// # Errors
/// When etcd is not installed, or the network cannot be laid.
pub(crate) fn lay(plan: &Plan, world: &World) -> Result<Laid, Error> {
    if plan.controller_files.iter().all(|(_, file)| file.etcd.is_none()) {
        return Ok(Laid { members: Vec::new() });
    }
    ETCD.run(None, &["--version"], "")?;
    // A member's data is in memory, and goes with it.
    let create = |name: &&str| {
        let made = Namespaces::create(|| mount_tmpfs(DISK, DISK_OPTIONS));
        made.doing(|| format!("making a place for {name}"))
    };
    let members = ETCD_MEMBERS.iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let laid = Laid { members };
    match plan.is_in_band() {
        true => lay_in_band(plan, world, &laid)?,
        false => lay_outside(plan, world, &laid)?,
    }
    Ok(laid)
}

/// Cables a member to the node of each of the first controllers, and each controller's box too.
fn lay_in_band(plan: &Plan, world: &World, laid: &Laid) -> Result<(), Error> {
    let [member_port, own_port] = IN_BAND_PORTS;
    for (number, (node, _)) in plan.controller_files.iter().enumerate() {
        let place = world.place(Device::Node(*node));
        let near = in_place(place)?;
        let ends = [(member_port, laid.members.get(number)), (own_port, Some(place))];
        let (mut batch, mut ports) = (String::new(), String::new());
        for (port, far) in ends.into_iter().filter_map(|(port, far)| Some((port, far?))) {
            let queues = "numtxqueues 1 numrxqueues 1";
            let far = in_place(far)?;
            let _ = writeln!(
                batch,
                "link add name {port} {queues} {near} type veth peer name {DEVICE} {queues} {far}"
            );
            raise_port(&mut ports, port);
        }
        IP.batch(None, &batch)?;
        IP.batch(Some(place), &ports)?;
        // The box's own address is at its own device alone, not at the node's ports.
        let only_there = || fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
        place.run(only_there).flatten().doing(|| "setting arp_ignore".into())?;
    }
    Ok(())
}

/// A place as `ip` names it.
fn in_place(place: &Namespaces) -> Result<String, Error> {
    // The tool is a child, to which `self` would be itself.
    let own = fs::read_link("/proc/self").doing(|| "reading /proc/self".into())?;
    let net = place.descriptors()[0].as_raw_fd();
    Ok(format!("netns /proc/{}/fd/{net}", own.display()))
}

fn lay_outside(plan: &Plan, world: &World, laid: &Laid) -> Result<(), Error> {
    let mut batch = format!("link add {BRIDGE} type bridge\nlink set {BRIDGE} up\n");
    // Members first: see `bridge_port`.
    for (number, (place, _)) in laid.ends(plan, world).enumerate() {
        let place = in_place(place)?;
        let _ = writeln!(batch, "link add e{number} type veth peer name {DEVICE} {place}");
        let _ = writeln!(batch, "link set e{number} master {BRIDGE} up");
    }
    IP.batch(None, &batch)
}

impl Laid {
    /// The places of members, then those of controllers' boxes, with their addresses.
    fn ends<'a>(
        &'a self,
        plan: &'a Plan,
        world: &'a World,
    ) -> impl Iterator<Item = (&'a Namespaces, String)> {
        let nodes = plan.controller_files.iter().map(|(node, _)| *node);
        let boxes = nodes.map(|node| (world.place(Device::Node(node)), place(node)));
        let members = self.members.iter().enumerate();
        members.map(|(number, place)| (place, member(number))).chain(boxes)
    }
}

/// Starts the members, if there are places for them. They end with the lab.
///
/// # Errors
/// When a device has no address, or etcd cannot be started.
pub(crate) fn start(
    laid: Laid,
    plan: &Plan,
    world: &World,
    directory: &Path,
) -> Result<Vec<Member>, Error> {
    if laid.members.is_empty() {
        return Ok(Vec::new());
    }
    for (place, address) in laid.ends(plan, world) {
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
    laid.members.into_iter().enumerate().map(start).collect()
}

/// Forgets whom a place has found by ARP, as a box that starts anew.
///
/// # Errors
/// When that is not possible.
pub(crate) fn forget_neighbours(place: &Namespaces) -> Result<(), Error> {
    IP.run(Some(place), &["neigh", "flush", "dev", DEVICE], "").map(drop)
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
        forget_neighbours(&self.place)?;
        self.child = spawn(self.number, &self.place, &self.log)?;
        Ok(())
    }

    /// Makes its disk as small as what is on it, or as large as it was.
    ///
    /// # Errors
    /// When that is not possible.
    pub(crate) fn fill(&self, full: bool) -> Result<(), Error> {
        let name = ETCD_MEMBERS[self.number];
        let work = || if full { take_all_room() } else { resize_disk(DISK_OPTIONS) };
        self.place.run(work).flatten().doing(|| format!("filling the disk of {name}"))
    }
}

fn take_all_room() -> io::Result<()> {
    // It may grow in between, and the kernel makes no disk smaller than what is on it.
    const ATTEMPTS: usize = 100;
    let mut made = Ok(());
    for _ in 0..ATTEMPTS {
        let disk = statvfs(DISK)?;
        let used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
        made = resize_disk(&CString::new(format!("size={}", used.max(1)))?);
        if made.is_ok() {
            break;
        }
    }
    made
}

fn resize_disk(options: &CStr) -> io::Result<()> {
    Ok(mount_remount(DISK, MountFlags::NOSUID | MountFlags::NODEV, options)?)
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
