//! The machine of a reader: a network and folders of its own, in which commands are typed as a page
//! has them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plexus_io::namespace::Namespaces;

use super::page::{Step, root};
use crate::common::{self, Desk, Running, Said, Signal, cable, ip, own_folders, signal, until};

pub(crate) struct Reader {
    pub(crate) desk: Desk,
    pub(crate) place: Namespaces,
    /// Cabled to `eth1` and `eth2`, with the addresses 10.0.0.1 and 10.0.0.2.
    pub(crate) hosts: [Namespaces; 2],
    folder: PathBuf,
    daemons: Vec<Running>,
}

/// A line as root's shell runs it in a place, with this program in the path.
pub(crate) fn shell_in(place: &Namespaces, line: &str) -> Command {
    let mut command = Command::new("setpriv");
    // Root needs no sudo(8), which is not installed everywhere.
    command.args(["--pdeathsig", "KILL", "bash", "-c"]);
    command.arg(format!("sudo() {{ exec \"$@\"; }}; {line}"));
    let program = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    place.apply(&mut command).unwrap();
    command
}

impl Reader {
    /// `None`, said aloud, where root does not run this test of `what`.
    pub(crate) fn new(what: &str) -> Option<Reader> {
        let [place] = common::namespaces(what, own_folders)?;
        let hosts: [Namespaces; 2] = common::namespaces(what, common::quiet)?;
        let desk = Desk::new("reader");
        let folder = desk.dir.join("folder");
        fs::create_dir(&folder).unwrap();
        for part in ["labs", "sims", "examples"] {
            symlink(root().join(part), folder.join(part)).unwrap();
        }
        ip(&place, "link set dev lo up");
        for (i, host) in hosts.iter().enumerate() {
            let address = format!("address add 10.0.0.{}/24 dev eth0", i + 1);
            ip(host, "link set dev lo up");
            cable((&place, &format!("eth{}", i + 1)), (host, "eth0"), 1500);
            ip(host, &address);
        }
        // Ports of the shipped switch without a cable.
        for i in [3, 4] {
            ip(&place, &format!("link add eth{i} type veth peer name far{i}"));
            ip(&place, &format!("link set dev eth{i} up"));
        }
        Some(Reader { desk, place, hosts, folder, daemons: vec![] })
    }

    fn command(&self, line: &str) -> Command {
        // To enter a place leaves the folder.
        let mut command = shell_in(&self.place, &format!("cd {}; {line}", self.folder.display()));
        command.env("PLEXUS_RUN_DIR", &self.desk.dir);
        command
    }

    /// The answer to a question that no page asks.
    pub(crate) fn ask(&self, line: &str) -> Said {
        Said::of(&mut self.command(line))
    }

    /// Types a command, which ends as it should and prints what the page shows.
    #[track_caller]
    pub(crate) fn type_in(&mut self, step: &Step) {
        if step.command.contains(" run --config ") {
            self.start(&step.command);
        } else if lasts(&step.command) {
            self.look(step);
        } else {
            step.run(|| self.ask(&step.command));
        }
    }

    fn spawn(&self, line: &str) -> (Running, PathBuf) {
        let path = self.desk.dir.join(format!("log-{}", self.daemons.len()));
        let log = File::create(&path).unwrap();
        let mut command = self.command(line);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        (Running(command.spawn().unwrap()), path)
    }

    /// Starts a daemon, which stays.
    #[track_caller]
    pub(crate) fn start(&mut self, line: &str) {
        let (mut daemon, log) = self.spawn(line);
        let log = || fs::read_to_string(&log).unwrap();
        let is_up = until(|| log().contains(" running ") || daemon.has_ended());
        assert!(is_up && !daemon.has_ended(), "{line}: {}", log());
        self.daemons.push(daemon);
    }

    /// Runs a command that goes on until Ctrl-C, until it has printed what the page shows.
    #[track_caller]
    fn look(&mut self, step: &Step) {
        let line = &step.command;
        let (mut running, log) = self.spawn(line);
        let log = || fs::read_to_string(&log).unwrap();
        let is_there = || log().contains("Ctrl-C") && step.missing(&log()).is_none();
        assert!(until(|| is_there() || running.has_ended()), "{line}: {}", log());
        assert!(!running.has_ended(), "{line}: {}", log());
        signal(&running.0, Signal::INT);
        assert!(until(|| running.has_ended()), "{line}: {}", log());
        assert_eq!(running.0.wait().unwrap().code(), Some(step.code()), "{line}: {}", log());
        step.assert_shows(&log());
    }

    /// Has the hosts talk until the reader is done.
    pub(crate) fn talk(&self) -> Running {
        let mut ping = shell_in(&self.hosts[0], "exec ping -i 0.05 10.0.0.2");
        Running(ping.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Ends the labs, of which nothing stays.
    pub(crate) fn leave(&mut self) {
        self.daemons.clear();
        self.ask("plexus lab down --all").expect(0);
        self.desk.assert_nothing_left();
    }
}

/// Whether a command goes on until Ctrl-C.
fn lasts(line: &str) -> bool {
    line.contains(" --web") || line.contains(" --prometheus")
}
