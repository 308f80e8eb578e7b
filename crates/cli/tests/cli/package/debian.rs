//! A clean Debian 12 whose systemd runs as the first process of its own namespaces. All of them
//! share a root that is made once and never changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::common::{LIMIT, Running, Said, Signal, directory, kill, until};

/// Packages that the tests need beside those of every Debian.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,adduser,iproute2,iputils-ping,man-db,\
                        bash-completion,zsh,fish";

pub(super) struct Debian {
    unshare: Running,
    /// The process id of its first process, outside of it.
    init: i32,
    cgroup: PathBuf,
    place: PathBuf,
}

/// The cached root, `None`, said aloud, where it cannot be made.
fn cached_root() -> Option<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(env!("CARGO_BIN_EXE_plexus")).parent()?.parent()?;
    let root = target.join("debian-12");
    if root.exists() {
        return Some(root);
    }
    let part = target.join(format!("debian-12.{}", std::process::id()));
    let mut make = Command::new("timeout");
    make.args(["400", "mmdebstrap", "--quiet", "--variant=apt", "--include", PACKAGES, "bookworm"]);
    make.arg(&part).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let why = match make.output() {
        Ok(made) if made.status.success() => {
            fs::rename(&part, &root).unwrap();
            return Some(root);
        }
        Ok(made) => String::from_utf8_lossy(&made.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    let _ = fs::remove_dir_all(&part);
    let why = why.lines().last().unwrap_or("it takes too long").to_string();
    eprintln!("SKIPPED: no Debian 12 by mmdebstrap (scripts/setup package): {why}");
    None
}

/// A new control group within this process' own, `None`, said aloud, where there is none.
fn control_group(name: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let place = mount.and_then(|line| line.split(' ').nth(4));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let (Some(place), Some(own)) = (place, own) else {
        eprintln!("SKIPPED: this test of systemd needs cgroup2");
        return None;
    };
    let group = Path::new(place).join(own).join(name);
    match fs::create_dir(&group) {
        Ok(()) => Some(group),
        Err(e) => {
            eprintln!("SKIPPED: this test of systemd needs {}: {e}", group.display());
            None
        }
    }
}

/// The first child of a process, if it has one.
pub(super) fn child_of(parent: &Child) -> Option<i32> {
    let id = parent.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

impl Debian {
    /// Boots one that sees the packages of a directory in /packages. `None`, said aloud, where that
    /// cannot be.
    pub(super) fn boot(test: &str, packages: &Path) -> Option<Debian> {
        let root = cached_root()?;
        let place = directory(test);
        let cgroup = control_group(place.file_name().unwrap().to_str().unwrap())?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c"]);
        command.arg(
            "echo $$ >\"$0/cgroup.procs\" && exec unshare --pid --fork --kill-child \
                     --mount --uts --ipc --net --cgroup sh -c \"$@\"",
        );
        command.arg(&cgroup).args([include_str!("boot"), "boot"]);
        command.args([&root, &place, packages]).stdin(Stdio::null());
        let log = fs::File::create(place.with_extension("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let unshare = Running(command.spawn().unwrap());
        let mut debian = Debian { unshare, init: 0, cgroup, place };
        let is_up = until(|| {
            assert!(!debian.unshare.has_ended(), "{}", debian.log());
            debian.init = child_of(&debian.unshare.0).unwrap_or_default();
            debian.init != 0 && {
                let said = debian.try_run("systemctl is-system-running 2>&1");
                ["running\n", "degraded\n"].contains(&&*said.out)
            }
        });
        assert!(is_up, "systemd is not up within {LIMIT:?}: {}", debian.log());
        Some(debian)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.with_extension("log")).unwrap_or_default()
    }

    /// A shell's command line in it, as root.
    pub(super) fn command(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter", "--target", &self.init.to_string()]);
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]);
        command.args(["env", "-i", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"]);
        command.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]);
        command.args(["bash", "-c", script]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn try_run(&self, script: &str) -> Said {
        Said::of(&mut self.command(script))
    }

    /// The output of a command line, which ends well.
    #[track_caller]
    pub(super) fn run(&self, script: &str) -> String {
        let said = self.try_run(script);
        assert_eq!(said.code, Some(0), "{script}\n{}{}", said.out, said.err);
        said.out
    }

    /// A property of a unit.
    #[track_caller]
    pub(super) fn property(&self, unit: &str, name: &str) -> String {
        self.run(&format!("systemctl show --value -p {name} {unit}")).trim().to_string()
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.try_run("journalctl -u 'plexus-*' --no-pager | tail -40");
            eprintln!("{}{}", self.log(), journal.out);
        }
        // The kernel ends all processes of a namespace with its first one.
        kill(self.init, Signal::KILL);
        let _ = self.unshare.0.wait();
        until(|| remove_groups(&self.cgroup).is_ok());
        let _ = fs::remove_file(self.place.with_extension("log"));
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Removes a control group and those within. The kernel refuses as long as a process is in it.
fn remove_groups(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
