//! The facts of a box, as its kernel and its files say.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use plexus_config::NodeFile;
use plexus_control::identity::Role;
use plexus_io::clock;
use plexus_io::netlink::{DeviceInfo, devices};
use plexus_io::support::{Support, packet_sockets, xdp_sockets};
use plexus_io::users::user;

use crate::folder::UNIT_USER;

/// A box's facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The kernel's release, as `uname -r` says.
    pub release: String,
    /// Effective capabilities of the caller, by number.
    pub capabilities: u64,
    /// Whether there are packet sockets.
    pub packet_sockets: Support,
    /// Whether there are AF_XDP sockets.
    pub xdp_sockets: Support,
    /// Whether there is `/dev/net/tun`.
    pub has_tun: bool,
    /// Whether the clock is kept right; `None`: the kernel does not say.
    pub is_synchronised: Option<bool>,
    /// Whether the kernel forwards IPv4 packets between its interfaces.
    pub ip_forward: bool,
    /// The network devices.
    pub devices: Vec<DeviceInfo>,
    /// Programs that configure devices, by the device's number.
    pub managers: BTreeMap<u32, Manager>,
    /// Packet sockets of other programs, by the device's number.
    pub packet_users: BTreeMap<u32, Vec<Packet>>,
    /// `rp_filter` of each device, the global setting included.
    pub rp_filter: BTreeMap<String, u8>,
    /// The plan that follows from the node's file.
    pub gathered: Gathered,
}

/// The plan that follows from the node's file.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The node answers at its control socket.
    pub node_runs: bool,
    /// Why the identity cannot be used; `None`: it can, or the file names none.
    pub identity_trouble: Option<String>,
    /// The owner of the identity's file.
    pub identity_owner: Option<u32>,
    /// The number of the user that runs the daemons, if this box has it.
    pub unit_user: Option<u32>,
}

/// A program that configures network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// NetworkManager.
    NetworkManager,
    /// systemd-networkd.
    Networkd,
}

/// Another program's packet socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The program's name.
    pub program: String,
    /// Its process.
    pub pid: u32,
}

impl Facts {
    /// Gathers the facts of this box, and of the node of this file.
    ///
    /// # Errors
    /// In words, when the kernel cannot be asked for its devices.
    pub fn gather(node: Option<&NodeFile>) -> Result<Facts, String> {
        let devices = devices().map_err(|e| e.to_string())?;
        let managers = devices.iter().filter_map(|d| Some((d.index, manager(d.index)?))).collect();
        let setting = |path: String| fs::read_to_string(path).ok()?.trim().parse().ok();
        let filter = |device: &str| -> Option<u8> {
            setting(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter"))
        };
        // The kernel takes the larger of the two (ip-sysctl.rst).
        let global = filter("all").unwrap_or(0);
        let rp_filter = devices
            .iter()
            .map(|d| (d.name.clone(), filter(&d.name).unwrap_or(0).max(global)))
            .collect();
        Ok(Facts {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            capabilities: capabilities(),
            packet_sockets: packet_sockets(),
            xdp_sockets: xdp_sockets(),
            has_tun: fs::metadata("/dev/net/tun").is_ok(),
            is_synchronised: clock::is_synchronised().ok(),
            ip_forward: setting("/proc/sys/net/ipv4/ip_forward".into()).unwrap_or(0) == 1,
            managers,
            packet_users: packet_users(),
            rp_filter,
            devices,
            gathered: node.map(Gathered::of).unwrap_or_default(),
        })
    }

    /// The device of this name.
    pub(super) fn device(&self, name: &str) -> Option<&DeviceInfo> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// Major and minor version of the kernel; 0 if its release is no version.
    pub(super) fn version(&self) -> (u32, u32) {
        let mut parts = self.release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

impl Gathered {
    fn of(node: &NodeFile) -> Gathered {
        let identity = node.fabric.as_ref().map(|fabric| fabric.identity.as_path());
        let trouble =
            identity.and_then(|path| plexus_daemon::identity::read(path, Role::Node).err());
        Gathered {
            node_runs: UnixStream::connect(&node.control).is_ok(),
            identity_trouble: trouble,
            identity_owner: identity.and_then(|path| Some(fs::metadata(path).ok()?.uid())),
            unit_user: user(|user| user.name == UNIT_USER).map(|user| user.id),
        }
    }
}

/// The caller's effective capabilities (proc_pid_status(5)).
fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// The program that configures a device, by the files where these two say so.
fn manager(index: u32) -> Option<Manager> {
    let state = |path: String| fs::read_to_string(path).unwrap_or_default();
    let nm = state(format!("/run/NetworkManager/devices/{index}"));
    if nm.lines().any(|line| line == "managed=true") {
        return Some(Manager::NetworkManager);
    }
    let networkd = state(format!("/run/systemd/netif/links/{index}"));
    let admin = networkd.lines().find_map(|line| line.strip_prefix("ADMIN_STATE="));
    admin.filter(|state| *state != "unmanaged").map(|_| Manager::Networkd)
}

/// Other programs' packet sockets that are bound to a device. Those of other users' processes are
/// seen by root only.
fn packet_users() -> BTreeMap<u32, Vec<Packet>> {
    let table = fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
    let row = |line: &str| -> Option<(u64, u32)> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some((fields.get(8)?.parse().ok()?, fields.get(4)?.parse().ok()?))
    };
    let mut sockets: BTreeMap<u64, u32> = table.lines().skip(1).filter_map(row).collect();
    sockets.retain(|_, device| *device != 0);
    let mut found: BTreeMap<u32, Vec<Packet>> = BTreeMap::new();
    if sockets.is_empty() {
        return found;
    }
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let program = name.trim().to_string();
        for fd in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(fd.path()) else { continue };
            let inode = target.to_str().and_then(|t| t.strip_prefix("socket:[")?.strip_suffix(']'));
            let device = inode.and_then(|inode| sockets.get(&inode.parse().ok()?));
            let Some(device) = device.filter(|_| program != "plexus") else { continue };
            let user = Packet { program: program.clone(), pid };
            let users = found.entry(*device).or_default();
            if !users.contains(&user) {
                users.push(user);
            }
        }
    }
    found
}
