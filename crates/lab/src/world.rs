//! Builds the parts of a lab: a namespace per device, and the cables between them.
//!
//! Runs in the supervisor, whose own network namespace is empty, so that no interface name can
//! collide with the machine's or another lab's.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_config::QueueSettings;
use plexus_io::namespace::Namespaces;
use plexus_topo::{CONTROLLER_DEVICE, CONTROLLER_PORT, Device, End};
use rustix::mount::MountFlags;

use crate::bridges;
use crate::error::{Doing, Error};
use crate::machines::{self, Outside};
use crate::plan::Plan;
use crate::tools::{ETHTOOL, IP, TC};

/// Bytes that a frame costs on the cable beyond what the kernel counts: preamble 8, FCS 4, gap 12.
const OVERHEAD: u32 = 24;
/// The least that a frame costs: 60 bytes and the overhead (IEEE 802.3, 4.4.2).
const CHEAPEST: u32 = 84;
/// Frames queued at a host's end of a cable: the default of a Linux interface (`txqueuelen`), and
/// of simulated hosts.
const HOST_PACKETS: u64 = 1000;
/// Ethernet header and 802.1Q tag.
const HEADER: u32 = 18;
/// MTU of the cable between a controller and its node: control messages of any length.
const CONTROLLER_MTU: u16 = 2000;
/// How long duplicate address detection may take: one probe, one second, and a random delay
/// (RFC 4862, 5.4), with room for a slow machine.
const DAD_LIMIT: Duration = Duration::from_secs(15);

/// The namespaces of a lab, in the order of its plan.
#[derive(Debug)]
pub(crate) struct World {
    hosts: Vec<Namespaces>,
    nodes: Vec<Namespaces>,
    bridges: Vec<Namespaces>,
}

impl World {
    /// Makes devices and cables. Ports of nodes and bridges are up, hosts' interfaces still down.
    /// `outside`: the machine, if others have parts of the lab.
    pub(crate) fn build(plan: &Plan, outside: Option<&Outside>) -> Result<World, Error> {
        let addresses = hosts_file(plan);
        let hosts = plan.topology.hosts.iter().map(|host| {
            Namespaces::create(|| host_mounts(&host.name, &addresses))
                .doing(|| format!("making host {}", host.name))
        });
        let hosts = hosts.collect::<Result<_, _>>()?;
        let nodes = plan.topology.nodes.iter().map(|node| {
            Namespaces::create(|| node_mounts(&node.name))
                .doing(|| format!("making node {}", node.name))
        });
        let nodes = nodes.collect::<Result<_, _>>()?;
        let bridges = plan.topology.bridges.iter().map(|bridge| {
            Namespaces::create(|| node_mounts(&bridge.name))
                .doing(|| format!("making bridge {}", bridge.name))
        });
        let bridges = bridges.collect::<Result<_, _>>()?;
        let world = World { hosts, nodes, bridges };
        world.lay_cables(plan)?;
        if let Some(outside) = outside {
            machines::lay_tunnels(plan, &world, outside)?;
        }
        world.raise_nodes(plan)?;
        bridges::raise(plan, &world)?;
        Ok(world)
    }

    /// The namespaces of a device.
    pub(crate) fn place(&self, id: Device) -> &Namespaces {
        match id {
            Device::Host(i) => &self.hosts[i],
            Device::Node(i) => &self.nodes[i],
            Device::Bridge(i) => &self.bridges[i],
        }
    }

    /// Creates every cable in place, so that no end is ever renamed. One queue per direction,
    /// because a node's AF_XDP socket is bound to one.
    fn lay_cables(&self, plan: &Plan) -> Result<(), Error> {
        // The tool is a child, to which `self` would be itself.
        let own = fs::read_link("/proc/self").doing(|| "reading /proc/self".into())?;
        let mut batch = String::new();
        let is_here = |end: &End| plan.has(end.device());
        for (link, _, ends) in
            plan.topology.cables().filter(|(_, _, ends)| ends.iter().all(is_here))
        {
            let mtu = plan.topology.links[link].mtu;
            let [a, b] = ends.map(|end| {
                let net = self.place(end.device()).descriptors()[0].as_raw_fd();
                let (name, mac) = plan.device(end);
                let mac = mac.map_or(String::new(), |mac| format!("address {mac} "));
                let queues = "numtxqueues 1 numrxqueues 1";
                format!(
                    "name {name} {mac}mtu {mtu} {queues} netns /proc/{}/fd/{net}",
                    own.display()
                )
            });
            let _ = writeln!(batch, "link add {a} type veth peer {b}");
        }
        let has = |(node, _): &&(usize, _)| plan.has(Device::Node(*node));
        for (node, _) in plan.controller_files.iter().filter(has) {
            let net = self.nodes[*node].descriptors()[0].as_raw_fd();
            let place = format!("netns /proc/{}/fd/{net}", own.display());
            let ends = [CONTROLLER_PORT, CONTROLLER_DEVICE].map(|name| {
                format!("name {name} mtu {CONTROLLER_MTU} numtxqueues 1 numrxqueues 1 {place}")
            });
            let _ = writeln!(batch, "link add {} type veth peer {}", ends[0], ends[1]);
        }
        IP.batch(None, &batch)
    }

    fn raise_nodes(&self, plan: &Plan) -> Result<(), Error> {
        for (i, place) in self.nodes.iter().enumerate() {
            let mut batch = String::from("link set dev lo up\n");
            for (_, end) in plan.cables_of(Device::Node(i)) {
                let (device, _) = plan.device(end);
                raise_port(&mut batch, device);
            }
            if plan.controller_files.iter().any(|(node, _)| *node == i && plan.has(Device::Node(i)))
            {
                raise_port(&mut batch, CONTROLLER_PORT);
                raise_port(&mut batch, CONTROLLER_DEVICE);
            }
            IP.batch(Some(place), &batch)?;
        }
        Ok(())
    }

    /// Shapes, addresses and raises the hosts' interfaces, which keep the kernel's default
    /// offloads.
    pub(crate) fn raise_hosts(&self, plan: &Plan) -> Result<(), Error> {
        let hosts = self.hosts.iter().zip(&plan.topology.hosts).enumerate();
        for (i, (place, host)) in hosts.filter(|(i, _)| plan.has(Device::Host(*i))) {
            let mut batch = String::from("link set dev lo up\n");
            let mut shapers = String::new();
            for (link, end) in plan.cables_of(Device::Host(i)) {
                let (device, _) = plan.device(end);
                if plan.loses_tags(end) {
                    ETHTOOL.run(Some(place), &["-K", device, "txvlan", "off"], "")?;
                }
                if let Some(rate) = link.rate_bits_per_s {
                    let queue = host_queue(rate, link.mtu);
                    let _ = writeln!(shapers, "{}", shaper(device, rate, link.mtu, &queue));
                }
                let _ = writeln!(batch, "link set dev {device} up");
            }
            if let Some(first) = host.interfaces.first() {
                // A leased address is set later, if the controller can be waited for.
                let waits = plan.is_fabric() && !plan.is_part();
                let leased = host.leased_address().filter(|_| waits);
                let leased = leased.map(std::net::IpAddr::V4);
                for address in host.addresses.iter().filter(|a| Some(a.address) != leased) {
                    let _ = writeln!(batch, "address add {address} dev {}", first.name);
                }
                for gateway in &host.gateways {
                    let _ = writeln!(batch, "route add default via {gateway} dev {}", first.name);
                }
            }
            TC.batch(Some(place), &shapers)?;
            IP.batch(Some(place), &batch)?;
            if host.forwards {
                let devices: Vec<&str> = host.interfaces.iter().map(|i| &i.name[..]).collect();
                let done = place.run(|| forward(&devices));
                done.doing(|| format!("{}: forwarding", host.name))??;
            }
        }
        Ok(())
    }

    /// Waits until every address of every host may be used: duplicate address detection (RFC
    /// 4862, 5.4) runs as on any machine.
    pub(crate) fn wait_for_addresses(&self, plan: &Plan) -> Result<(), Error> {
        let limit = Instant::now() + DAD_LIMIT;
        for (place, host) in self.hosts.iter().zip(&plan.topology.hosts) {
            let what = || format!("reading the addresses of {}", host.name);
            loop {
                let table = place.run(|| fs::read_to_string("/proc/thread-self/net/if_inet6"));
                let table = match table.doing(what)? {
                    Ok(table) => table,
                    // A kernel without IPv6.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                    Err(e) => return Err(Error::system(what(), e)),
                };
                match detection(&table) {
                    Detection::Done => break,
                    Detection::Duplicate(address) => {
                        let text = format!("{}: {address} is in use by another", host.name);
                        return Err(Error::Unsupported(text));
                    }
                    Detection::Running if Instant::now() > limit => {
                        let text = format!("{}: its IPv6 addresses stay tentative", host.name);
                        return Err(Error::Unsupported(text));
                    }
                    Detection::Running => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        }
        Ok(())
    }

    /// Frames of each device's interfaces that the kernel has refused so far, by names: too many
    /// waited at the far end (`net.core.netdev_max_backlog`), or that was down.
    pub(crate) fn refused(&self, plan: &Plan) -> Result<BTreeMap<(String, String), u64>, Error> {
        let mut refused = BTreeMap::new();
        let topology = &plan.topology;
        let hosts = topology.hosts.iter().map(|host| &host.name).zip(&self.hosts);
        let nodes = topology.nodes.iter().map(|node| &node.name).zip(&self.nodes);
        let bridges = topology.bridges.iter().map(|bridge| &bridge.name).zip(&self.bridges);
        for (name, place) in hosts.chain(nodes).chain(bridges) {
            let doing = || format!("reading the devices of {name}");
            let read = || fs::read_to_string("/proc/thread-self/net/dev");
            let table = place.run(read).doing(doing)?.doing(doing)?;
            let counts = sends_refused(&table);
            refused.extend(counts.map(|(device, count)| ((name.clone(), device), count)));
        }
        Ok(refused)
    }
}

/// Without an address of its own the kernel sends nothing of its own to the cable.
pub(crate) fn raise_port(batch: &mut String, device: &str) {
    let _ = writeln!(batch, "link set dev {device} addrgenmode none");
    let _ = writeln!(batch, "link set dev {device} up");
}

/// Reads the interfaces of `/proc/net/dev`, and how many frames each could not send: the fourth of
/// the eight counters of sending, which follow eight of receiving.
fn sends_refused(table: &str) -> impl Iterator<Item = (String, u64)> + '_ {
    table.lines().filter_map(|line| {
        let (device, counters) = line.split_once(':')?;
        let count = counters.split_whitespace().nth(8 + 3)?.parse().ok()?;
        Some((device.trim().to_string(), count))
    })
}

/// State of duplicate address detection.
#[derive(Debug, PartialEq, Eq)]
enum Detection {
    Running,
    Done,
    Duplicate(String),
}

/// Reads `/proc/net/if_inet6`: address, index, prefix, scope, flags, device.
fn detection(table: &str) -> Detection {
    // IFA_F_TENTATIVE and IFA_F_DADFAILED of linux/if_addr.h; a failed one stays tentative.
    const TENTATIVE: u32 = 0x40;
    const DAD_FAILED: u32 = 0x08;
    let mut state = Detection::Done;
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, _, flags, _] = fields[..] else { continue };
        let Ok(flags) = u32::from_str_radix(flags, 16) else { continue };
        if flags & DAD_FAILED != 0 {
            let address = u128::from_str_radix(address, 16).unwrap_or(0);
            return Detection::Duplicate(std::net::Ipv6Addr::from(address).to_string());
        }
        if flags & TENTATIVE != 0 {
            state = Detection::Running;
        }
    }
    state
}

/// The line for `tc` that limits a device to a cable's `rate` in bits/s.
///
/// A token bucket of 1 ms, or two full frames if that is more, followed by `queue` as far as bytes
/// can express it: this many full frames, or its bytes if these are fewer. Packets that find it
/// full are lost, as at a real interface. A single UDP socket of a host does not get that far: its
/// default send buffer (`net.core.wmem_default`) holds some 90 full frames, and then the sender
/// waits.
pub(crate) fn shaper(device: &str, rate: u64, mtu: u16, queue: &QueueSettings) -> String {
    let frame = full_frame(mtu);
    let burst = (rate / 8 / 1000).max(2 * frame);
    let limit = (u64::from(queue.packets) * frame).min(queue.bytes.into());
    format!(
        "qdisc replace dev {device} root stab overhead {OVERHEAD} mpu {CHEAPEST} mtu 4096 \
         tsize 512 tbf rate {rate}bit burst {burst} limit {limit}"
    )
}

/// The size of a full frame in a shaper's queue and bucket: its table has steps of 8 bytes.
fn full_frame(mtu: u16) -> u64 {
    (u64::from(mtu) + u64::from(HEADER + OVERHEAD)).next_multiple_of(8)
}

/// The queue at a host's end of a cable: as many full frames as at a simulated host, or 5 ms if
/// that is more, because the kernel's clock rarely wakes the shaper of a fast cable. A queue of a
/// few frames would lose the bursts of a TCP sender's slow start, and that queue rather than the
/// network would limit the lab's connections.
fn host_queue(rate: u64, mtu: u16) -> QueueSettings {
    let packets = (rate / 8 / 200).div_ceil(full_frame(mtu)).max(HOST_PACKETS);
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    QueueSettings { packets, bytes: u32::MAX, ..QueueSettings::default() }
}

/// Makes the kernel of this namespace a router. What came in by an interface may leave by it: no
/// redirects then.
fn forward(devices: &[&str]) -> Result<(), Error> {
    let settings = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map(|s| (s.to_string(), "1"));
    let silent = devices.iter().chain(&["all"]);
    let silent = silent.map(|device| (format!("ipv4/conf/{device}/send_redirects"), "0"));
    for (name, value) in settings.into_iter().chain(silent) {
        let path = Path::new("/proc/sys/net").join(name);
        match fs::write(&path, value) {
            // A kernel without IPv6.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            written => written.doing(|| format!("writing {}", path.display()))?,
        }
    }
    Ok(())
}

fn hosts_file(plan: &Plan) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for host in &plan.topology.hosts {
        for at in &host.addresses {
            let _ = writeln!(text, "{} {}", at.address, host.name);
        }
    }
    text
}

/// A host's own view of the file system: writable state directories of its own, its names.
fn host_mounts(name: &str, hosts: &str) -> io::Result<()> {
    rustix::system::sethostname(name.as_bytes())?;
    let resolver = real_path("/etc/resolv.conf");
    let names = real_path("/etc/hosts");
    for directory in ["/run", "/var/lib/dhcp", "/var/lib/NetworkManager"] {
        if Path::new(directory).is_dir() {
            tmpfs(directory)?;
        }
    }
    for (target, content) in [(names, hosts), (resolver, "# no name server in a lab\n")] {
        let Some(target) = target else { continue };
        let file = format!("/run/plexus-{}", target.file_name().unwrap_or_default().display());
        fs::write(&file, content)?;
        // What pointed into /run now points to nothing.
        if !target.exists()
            && let Some(parent) = target.parent()
        {
            fs::create_dir_all(parent)?;
            File::create(&target)?;
        }
        rustix::mount::mount_bind(&file, &target)?;
    }
    kernel_views();
    Ok(())
}

/// A node or bridge keeps the machine's file system, but sees its own devices under `/sys`.
fn node_mounts(name: &str) -> io::Result<()> {
    rustix::system::sethostname(name.as_bytes())?;
    kernel_views();
    Ok(())
}

/// Mounts `/proc` and `/sys` anew, which show the processes and devices of their mounter. Inside a
/// container the kernel may refuse (mount_too_revealing): then the old views stay in use.
fn kernel_views() {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = rustix::mount::mount("proc", "/proc", "proc", flags, None);
    let _ = rustix::mount::mount("sysfs", "/sys", "sysfs", flags, None);
}

fn tmpfs(path: &str) -> io::Result<()> {
    mount_tmpfs(path, c"mode=755")
}

/// Mounts an empty file system of its own.
pub(crate) fn mount_tmpfs(path: &str, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(options))?)
}

/// Where a path leads, symbolic links resolved; `None` where there is nothing.
fn real_path(path: &str) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detection_reads_the_kernels_table() {
        let line = |flags| format!("20010db8000000000000000000000001 02 40 00 {flags} eth0\n");
        assert_eq!(detection(""), Detection::Done);
        assert_eq!(detection(&line("80")), Detection::Done);
        assert_eq!(detection(&(line("80") + &line("c0"))), Detection::Running);
        let failed = detection(&(line("c0") + &line("c8")));
        assert_eq!(failed, Detection::Duplicate("2001:db8::1".into()));
    }

    #[test]
    fn the_frames_that_an_interface_could_not_send_are_read_off_the_kernels_table() {
        // As Linux prints it, with narrower columns and no header line of the counters.
        let table = "\
Inter-|   Receive                     |  Transmit
    lo:       0    0 0 0 0 0 0 0        0    0 0  0 0  0  0  0
  eth0: 1586250 2174 1 2 3 4 5 6   126054 1604 7 81 9 10 11 12
";
        let found: Vec<_> = sends_refused(table).collect();
        assert_eq!(found, [("lo".to_string(), 0), ("eth0".to_string(), 81)]);
    }

    /// The bytes that wait by a line for `tc`.
    fn limit(line: &str) -> u64 {
        line.rsplit_once("limit ").unwrap().1.parse().unwrap()
    }

    #[test]
    fn a_hosts_queue_holds_full_frames_of_its_mtu_and_never_less_than_five_milliseconds() {
        let host = |rate, mtu| limit(&shaper("eth0", rate, mtu, &host_queue(rate, mtu)));
        // 1,500 bytes with header, tag, FCS, preamble and gap: 1,542, and in steps of 8 1,544.
        assert_eq!([1_000_000, 1_000_000_000].map(|rate| host(rate, 1500)), [1_544_000; 2]);
        assert_eq!(host(1_000_000, 9000), 9_048_000);
        // 5 ms of 10 Gbit/s, and of more than the field holds.
        assert!((6_250_000..6_252_000).contains(&host(10_000_000_000, 1500)));
        assert_eq!(host(u64::MAX, 1500), u64::from(u32::MAX));
    }

    #[test]
    fn a_boxs_queue_holds_what_its_simulated_twins_does() {
        let usual = QueueSettings::default();
        let at = |rate, mtu| limit(&shaper("p1", rate, mtu, &usual));
        // 512 frames at any rate, and of long ones 1 MiB.
        assert_eq!([1_000_000, 10_000_000_000].map(|rate| at(rate, 1500)), [790_528; 2]);
        assert_eq!(at(1_000_000, 9000), 1_048_576);
        let short = QueueSettings { packets: 10, ..usual };
        assert_eq!(limit(&shaper("p1", 1_000_000, 1500, &short)), 15_440);
    }
}
