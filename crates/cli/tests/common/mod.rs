//! What the tests of programs and daemons share: places to run them in, and ends to them.
//!
//! Every test has namespaces and a directory of its own; its daemons end with it.

// Each test file uses its part of it.
#![allow(dead_code)]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

/// How long anything may take before it counts as hung.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Polls until `done`, within the limit; whether it was.
pub(crate) fn until(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LIMIT;
    while !done() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Whether root runs this test of `what`; if not, says that it is skipped.
pub(crate) fn is_root(what: &str) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !is_root {
        eprintln!("SKIPPED: this test of {what} needs root");
    }
    is_root
}

/// A directory that no other test has.
pub(crate) fn directory(test: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("plexus-{test}-{}-{count}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A run directory, and the labs in it, which end with the test.
pub(crate) struct Desk(pub(crate) PathBuf);

impl Desk {
    pub(crate) fn plexus(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments).env("PLEXUS_RUN_DIR", &self.0).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Said::by(command.spawn().unwrap())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.plexus(&["lab", "down", "--all"]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon's answer to a question at its control socket, `None` if there is none.
pub(crate) fn ask(control: &Path, question: &Value) -> Option<Value> {
    serde_json::from_str(&say(control, question).ok()?).ok()
}

/// Says something to a daemon that is there; its answer, which may be empty.
pub(crate) fn say(control: &Path, what: &Value) -> io::Result<String> {
    let stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(LIMIT))?;
    writeln!(&stream, "{what}")?;
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    Ok(line)
}

/// Namespaces for a test of `what`, set up from within. `None`, said aloud, where it cannot run.
pub(crate) fn namespaces<const N: usize>(
    what: &str,
    set_up: fn() -> io::Result<()>,
) -> Option<[Namespaces; N]> {
    if !is_root(what) {
        return None;
    }
    let made: io::Result<Vec<Namespaces>> = (0..N).map(|_| Namespaces::create(set_up)).collect();
    match made {
        Ok(made) => made.try_into().ok(),
        Err(e) => {
            eprintln!("SKIPPED: making a network namespace: {e}");
            None
        }
    }
}

/// Sets a namespace up so that its kernel sends nothing of its own.
pub(crate) fn quiet() -> io::Result<()> {
    for which in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
    Ok(())
}

/// Runs a command line in a namespace to its end, which is a good one.
#[track_caller]
pub(crate) fn run(place: &Namespaces, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    place.apply(&mut command).unwrap();
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
}

/// ip(8), likewise.
#[track_caller]
pub(crate) fn ip(place: &Namespaces, arguments: &str) {
    run(place, &format!("ip {arguments}"));
}

/// A cable from a device of one place to one of another, both up.
pub(crate) fn cable(from: (&Namespaces, &str), to: (&Namespaces, &str), mtu: u16) {
    // A process of the other place, to name it by.
    let mut sleep = Command::new("sleep");
    sleep.arg("60").stdin(Stdio::null());
    to.0.apply(&mut sleep).unwrap();
    let mut sleep = sleep.spawn().unwrap();
    let (near, far, pid) = (from.1, to.1, sleep.id());
    ip(
        from.0,
        &format!("link add {near} mtu {mtu} type veth peer name {far} mtu {mtu} netns {pid}"),
    );
    let _ = sleep.kill();
    let _ = sleep.wait();
    for (place, device) in [from, to] {
        ip(place, &format!("link set dev {device} up"));
    }
}

/// `plexus` with these arguments, in a namespace. Ends with the test's thread, however that ends.
pub(crate) fn plexus_in(place: &Namespaces, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_plexus")]).args(arguments);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    place.apply(&mut command).unwrap();
    command
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What a command says until it ends, or until it is killed at the limit.
    pub(crate) fn by(mut child: Child) -> Said {
        // Read meanwhile: a full pipe would stop it.
        let pid = child.id().to_string();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if end.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
            }
        });
        child.stdin.take();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        drop(ended);
        guard.join().unwrap();
        Said {
            code: status.code(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The facts that a command printed, which ended well.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:#?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The daemons of one group, in the order of their start, and the directory of their keys, files,
/// sockets and logs, which stays if the test fails.
pub(crate) struct Daemons {
    pub(crate) dir: PathBuf,
    pub(crate) running: Vec<Child>,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in &mut self.running {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl Daemons {
    /// None yet, of a group with a controller `c1` and nodes `n1`, `n2` …, whose keys are issued.
    pub(crate) fn new(test: &str, nodes: usize) -> Daemons {
        let daemons = Daemons { dir: directory(test), running: vec![] };
        let path = |name: &str| daemons.dir.join(name).display().to_string();
        let group = path("group.key");
        plexus(&["identity", "group", "--out", &group]);
        let issue = |number: usize, name: &str, role: &str| {
            let (number, out) = (number.to_string(), path(&format!("{name}.key")));
            plexus(&[
                "identity", "issue", "--group", &group, "--role", role, "--number", &number,
                "--name", name, "--out", &out,
            ]);
        };
        issue(9, "c1", "controller");
        (1..=nodes).for_each(|i| issue(i, &format!("n{i}"), "node"));
        daemons
    }

    /// The first lines of a node's file.
    pub(crate) fn node_file(&self, name: &str) -> String {
        let dir = self.dir.display();
        format!(
            "name = \"{name}\"\ncontrol = \"{dir}/{name}.sock\"\nbackend = \"af_packet\"\n\
             [fabric]\nidentity = \"{dir}/{name}.key\"\n"
        )
    }

    /// The first lines of the controller's file.
    pub(crate) fn controller_file(&self) -> String {
        let dir = self.dir.display();
        format!(
            "name = \"c1\"\ncontrol = \"{dir}/c1.sock\"\nidentity = \"{dir}/c1.key\"\n\
             state = \"{dir}/c1.redb\"\n"
        )
    }

    /// Starts a node or the controller with a file of this text.
    pub(crate) fn start(&mut self, place: &Namespaces, what: &str, name: &str, text: &str) {
        fs::write(self.dir.join(format!("{name}.toml")), text).unwrap();
        self.start_again(place, what, name);
    }

    /// Starts it with the file that is there.
    pub(crate) fn start_again(&mut self, place: &Namespaces, what: &str, name: &str) {
        let log = File::create(self.dir.join(format!("{name}.log"))).unwrap();
        let config = self.dir.join(format!("{name}.toml"));
        let mut command = plexus_in(place, &[what, "run", "--config", config.to_str().unwrap()]);
        command.stdout(Stdio::null()).stderr(log);
        self.running.push(command.spawn().unwrap());
    }

    /// A daemon's answer to a question, `None` if there is none.
    pub(crate) fn ask(&self, name: &str, question: Value) -> Option<Value> {
        ask(&self.dir.join(format!("{name}.sock")), &question)
    }

    /// Says something to a daemon that is there; its answer, which may be empty.
    pub(crate) fn say(&self, name: &str, what: Value) -> io::Result<String> {
        say(&self.dir.join(format!("{name}.sock")), &what)
    }

    pub(crate) fn show(&self, name: &str, what: &str) -> Option<Value> {
        self.ask(name, json!({"show": what}))
    }

    /// What a daemon has logged, and what else it knows.
    pub(crate) fn log(&self, name: &str, facts: &[&str]) -> String {
        let log = fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
        let shown = facts
            .iter()
            .map(|what| format!("{name}, {what}: {}\n", self.show(name, what).unwrap_or_default()));
        log + &shown.collect::<String>()
    }
}

/// Runs `plexus` where the test runs, to a good end.
fn plexus(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_plexus")).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
}
