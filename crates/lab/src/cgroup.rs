//! A node's share of the processors: a control group (cgroups(7)) per node, with a quota of time in
//! each period. The supervisor makes the groups and removes them; a launcher removes those of a
//! supervisor that was killed. The kernel refuses to remove a group in which a process runs, so no
//! removal can hit another lab.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_report::Quota;
use rustix::process::{Pid, Signal};

use crate::error::{Doing, Error};

/// The usual period. The kernel's own, 100 ms, stops a node for up to 100 ms at a time.
const PERIOD_US: f64 = 10_000.0;
/// The least quota that the kernel takes. A smaller share has a longer period.
const QUOTA_US_MIN: f64 = 1_000.0;
/// How long processes that were killed may take to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(2);

/// How a kernel's control groups are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where a lab's groups are: a directory of its own in a mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabGroup {
    version: Version,
    path: PathBuf,
}

/// A node's group.
#[derive(Debug)]
pub(crate) struct NodeGroup {
    path: PathBuf,
    cpu: f64,
}

impl LabGroup {
    /// Finds the place for the groups of a lab; `pid` is its supervisor's process.
    ///
    /// # Errors
    /// When no hierarchy with the `cpu` controller is mounted.
    pub(crate) fn find(lab: &str, pid: i32) -> Result<LabGroup, Error> {
        let read = |path: &str| fs::read_to_string(path).doing(|| format!("reading {path}"));
        let mounts = read("/proc/self/mountinfo")?;
        let own = read("/proc/self/cgroup")?;
        let controls = |mount: &Path| {
            let controllers = fs::read_to_string(mount.join("cgroup.controllers"));
            controllers.is_ok_and(|c| c.split_whitespace().any(|c| c == "cpu"))
        };
        let (version, above) = find_hierarchy(&mounts, &own, controls).ok_or_else(|| {
            let text = "a node with cpu needs control groups, and no hierarchy with the cpu \
                        controller is mounted: mount -t cgroup2 none /sys/fs/cgroup, or take cpu \
                        out of the file";
            Error::Unsupported(text.into())
        })?;
        Ok(LabGroup { version, path: above.join(format!("plexus-lab.{lab}.{pid}")) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the group of a node that gets this share of one processor.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn make_node(&self, node: &str, cpu: f64) -> Result<NodeGroup, Error> {
        let refused = |e: io::Error| {
            Error::Unsupported(format!(
                "the control group of node {node} cannot be made in {} ({e}): run as root on a \
                 machine, or in a container, that may write there, or take cpu out of the file",
                self.path.display()
            ))
        };
        self.make(node, cpu).map_err(refused)
    }

    fn make(&self, node: &str, cpu: f64) -> io::Result<NodeGroup> {
        make_directory(&self.path)?;
        if self.version == Version::V2 {
            // From the top down: a group has the controllers that the one above it hands on.
            for above in self.path.parent().into_iter().chain([&*self.path]) {
                let control = above.join("cgroup.subtree_control");
                if !fs::read_to_string(&control)?.split_whitespace().any(|c| c == "cpu") {
                    fs::write(control, "+cpu")?;
                }
            }
        }
        let path = self.path.join(node);
        make_directory(&path)?;
        let (quota, period) = quota_us(cpu);
        match self.version {
            Version::V1 => {
                fs::write(path.join("cpu.cfs_period_us"), period.to_string())?;
                fs::write(path.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Version::V2 => fs::write(path.join("cpu.max"), format!("{quota} {period}"))?,
        }
        Ok(NodeGroup { path, cpu })
    }
}

impl NodeGroup {
    /// Moves a process in, with all its threads.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn enter(&self, process: u32) -> Result<(), Error> {
        let procs = self.path.join("cgroup.procs");
        fs::write(&procs, process.to_string()).doing(|| format!("writing {}", procs.display()))
    }

    /// The kernel's account of the quota so far.
    pub(crate) fn account(&self) -> Quota {
        let stat = fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        let (periods, throttled) = parse_stat(&stat);
        Quota { cpu: self.cpu, periods, throttled }
    }
}

/// Ends the processes in a lab's groups, and removes the groups. The caller is the lab's
/// supervisor, whose daemons they are.
pub(crate) fn end(lab: &Path) {
    for node in nodes_in(lab) {
        let procs = fs::read_to_string(node.join("cgroup.procs")).unwrap_or_default();
        let pids = procs.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        for pid in pids {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    remove(lab);
}

/// Removes a lab's groups as soon as no process is in them.
pub(crate) fn remove(lab: &Path) {
    let limit = Instant::now() + GONE_LIMIT;
    loop {
        for node in nodes_in(lab) {
            let _ = fs::remove_dir(node);
        }
        match fs::remove_dir(lab) {
            Err(e) if e.kind() != io::ErrorKind::NotFound && Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return,
        }
    }
}

fn nodes_in(lab: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Quota and period of a share of one processor, in microseconds.
fn quota_us(cpu: f64) -> (u64, u64) {
    let period = PERIOD_US.max(QUOTA_US_MIN / cpu).ceil();
    ((cpu * period).round().max(QUOTA_US_MIN) as u64, period as u64)
}

/// The group below which labs make theirs: the caller's own where version 1 has the controller, the
/// hierarchy's root in version 2, where a group with processes cannot have groups below it that are
/// controlled. `controls` says whether the second version's mount has the controller.
fn find_hierarchy(
    mounts: &str,
    own: &str,
    controls: impl Fn(&Path) -> bool,
) -> Option<(Version, PathBuf)> {
    let mut second = None;
    for line in mounts.lines() {
        // proc_pid_mountinfo(5): the root is field 4, the mount point field 5.
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut before = before.split(' ').skip(3);
        let (Some(root), Some(point)) = (before.next(), before.next()) else { continue };
        let point = PathBuf::from(unescaped(point));
        let mut after = after.split(' ');
        match (after.next(), after.nth(1)) {
            (Some("cgroup"), Some(options)) if options.split(',').any(|o| o == "cpu") => {
                let group = own_group(own).unwrap_or("/");
                // A container may see a part of the hierarchy only.
                let below = Path::new(group).strip_prefix(unescaped(root)).ok();
                let group = below.map(|below| point.join(below)).filter(|group| group.is_dir());
                return Some((Version::V1, group.unwrap_or(point)));
            }
            (Some("cgroup2"), _) if second.is_none() && controls(&point) => {
                second = Some((Version::V2, point));
            }
            _ => {}
        }
    }
    second
}

/// The group of version 1 in `/proc/self/cgroup`: lines of `NUMBER:CONTROLLERS:GROUP`.
fn own_group(own: &str) -> Option<&str> {
    own.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|c| c == "cpu").then_some(group)
    })
}

/// A path of mountinfo, in which blanks are written in octal.
fn unescaped(path: &str) -> String {
    let mut text = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => _ = write!(text, "{}", char::from(code)),
            None => text.push('\\'),
        }
        rest = if code.is_some() { &after[3..] } else { after };
    }
    text + rest
}

/// `nr_periods` and `nr_throttled`, which both versions have in `cpu.stat`.
fn parse_stat(stat: &str) -> (u64, u64) {
    let value = |key: &str| {
        let line = stat.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
    };
    (value("nr_periods"), value("nr_throttled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "9:name=systemd:/x\n1:cpu,cpuacct:/user\n0::/user.slice\n";
    const FIRST: &str = "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        31 24 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct\n";
    const SECOND: &str = "32 24 0:28 / /sys/fs/cgroup\\040two rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_hierarchy_with_the_controller_is_found() {
        let find = |mounts: &str, has: bool| find_hierarchy(mounts, OWN, |_| has);
        let both = format!("{SECOND}{FIRST}");
        // The group /user is not there: the mount's own is taken.
        let first = Some((Version::V1, PathBuf::from("/sys/fs/cgroup/cpu")));
        assert_eq!(find(&both, true), first);
        assert_eq!(find(SECOND, true), Some((Version::V2, "/sys/fs/cgroup two".into())));
        assert_eq!(find(SECOND, false), None, "hybrid: the other version has the controllers");
        assert_eq!(find("", true), None);
        assert_eq!(own_group(OWN), Some("/user"));
    }

    #[test]
    fn a_share_is_a_quota_of_a_short_period() {
        assert_eq!(quota_us(0.5), (5_000, 10_000));
        assert_eq!(quota_us(2.0), (20_000, 10_000));
        // Below the kernel's least quota the period grows.
        assert_eq!(quota_us(0.1), (1_000, 10_000));
        assert_eq!(quota_us(0.01), (1_000, 100_000));
        let (quota, period) = quota_us(0.03);
        assert!((quota as f64 / period as f64 - 0.03).abs() < 1e-4 && quota >= 1_000);
    }

    #[test]
    fn the_kernels_account_is_read_in_both_versions() {
        let first = "nr_periods 7\nnr_throttled 3\nthrottled_time 900\n";
        let second = "usage_usec 5\nnr_periods 7\nnr_throttled 3\nnr_bursts 0\n";
        assert_eq!([first, second].map(parse_stat), [(7, 3); 2]);
        assert_eq!(parse_stat(""), (0, 0));
    }
}
