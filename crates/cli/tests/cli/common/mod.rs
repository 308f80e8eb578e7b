//! What the tests of programs and daemons share: places to run them in, and ends to them.
//!
//! Every test has namespaces and a directory of its own; its daemons end with it.

// Each test file uses its part of it.
#![allow(dead_code)]

mod places;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use places::turn;
use plexus_io::namespace::Namespaces;
use rustix::mount::{MountFlags, mount, mount_bind};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use serde_json::{Value, json};

/// How long anything may take before it counts as hung.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The same of a whole command. The longest runs all experiments, and takes up to ten minutes where
/// other tests run too.
const COMMAND_LIMIT: Duration = Duration::from_secs(900);

/// Polls until `done`, within the limit; whether it was. It begins with short pauses: a forwarded
/// frame arrives within 0.1 ms, while a daemon may take 100 ms to start. After a look
/// that takes long, such as a program, it pauses for up to 50 ms, for what is waited for.
pub(crate) fn until(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LIMIT;
    let mut pause = Duration::from_micros(50);
    loop {
        let looked = Instant::now();
        if done() {
            return true;
        }
        if looked > end {
            return false;
        }
        let long = (3 * looked.elapsed()).min(Duration::from_millis(50));
        std::thread::sleep(pause.max(long));
        pause = (2 * pause).min(Duration::from_millis(5));
    }
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
    places::enter();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("plexus-{test}-{}-{count}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// `plexus` with these arguments, of which a test reads what it says.
pub(crate) fn plexus(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn shipped(lab: &str) -> String {
    format!("{}/../../labs/{lab}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// Sends a signal to a child, which is there.
#[track_caller]
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A process that ends when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The item of a JSON list with this value of a key, null if there is none.
pub(crate) fn item(list: &Value, key: &str, value: &str) -> Value {
    let mut items = list.as_array().into_iter().flatten();
    items.find(|item| item[key] == value).cloned().unwrap_or_default()
}

/// A run directory, and the user who runs labs in it. The labs end with the test.
pub(crate) struct Desk {
    pub(crate) dir: PathBuf,
    user: u32,
}

impl Desk {
    pub(crate) fn new(test: &str) -> Desk {
        Desk { dir: directory(test), user: 0 }
    }

    /// `None`, said aloud, where root does not run this test of `what`.
    pub(crate) fn root(what: &str) -> Option<Desk> {
        is_root(what).then(|| Desk::new(what))
    }

    /// For another user, who owns the directory.
    pub(crate) fn of_user(mut self, user: u32) -> Desk {
        chown(&self.dir, Some(user), Some(user)).unwrap();
        self.user = user;
        self
    }

    /// The same as root, where FRR and BIRD are installed; `None`, said aloud, elsewhere.
    pub(crate) fn with_routing_daemons(name: &str) -> Option<Desk> {
        let desk = Desk::root(name)?;
        for program in ["/usr/lib/frr/zebra", "/usr/sbin/bird"] {
            if !Path::new(program).exists() {
                eprintln!("SKIPPED: {program} is not installed (scripts/setup routing)");
                return None;
            }
        }
        Some(desk)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plexus(arguments);
        command.env("PLEXUS_RUN_DIR", &self.dir).current_dir("/");
        if self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    /// Runs `plexus` to its end, within the limit. The run of a lab that failed while the machine
    /// stood still says nothing of Plexus: there is a second one.
    pub(crate) fn plexus(&self, arguments: &[&str]) -> Said {
        let said = Said::of(&mut self.command(arguments));
        if !said.is_of_a_machine_that_stood_still() {
            return said;
        }
        eprintln!("the machine stood still, once more: {}{}", said.out, said.err);
        Said::of(&mut self.command(arguments))
    }

    /// Its answer with `--json` and this exit code.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str], code: i32) -> Value {
        let said = self.plexus(&[arguments, &["--json"]].concat()).expect(code);
        serde_json::from_str(&said.out).unwrap()
    }

    /// Runs a shell's command in a host or a node of a lab.
    pub(crate) fn exec(&self, lab: &str, place: &str, script: &str) -> Said {
        self.plexus(&["lab", "exec", lab, place, "--", "sh", "-c", script])
    }

    /// Whether a ping with these arguments is answered, and what it says.
    pub(crate) fn pings(&self, lab: &str, from: &str, arguments: &str) -> (bool, String) {
        let said = self.exec(lab, from, &format!("ping -n -c 1 -W 1 {arguments}"));
        (said.code == Some(0), said.out)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Processes that belong to this desk's labs.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("PLEXUS_RUN_DIR={}", self.dir.display());
        let ours = |entry: fs::DirEntry| -> Option<i32> {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let environ = fs::read(entry.path().join("environ")).ok()?;
            environ.split(|b| *b == 0).any(|v| v == mark.as_bytes()).then_some(pid)
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(ours).collect()
    }

    pub(crate) fn labs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join("labs")).into_iter().flatten();
        entries.flatten().map(|e| e.path()).collect()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert!(until(|| self.labs().is_empty()), "left: {:?}", self.labs());
        assert!(until(|| self.processes().is_empty()), "left: {:?}", self.processes());
    }

    /// Ends a lab, of which nothing stays.
    #[track_caller]
    pub(crate) fn down(&self, lab: &str) {
        self.plexus(&["lab", "down", lab]).expect(0);
        self.assert_nothing_left();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.plexus(&["lab", "down", "--all"]);
        self.processes().into_iter().for_each(|pid| kill(pid, Signal::KILL));
        let _ = fs::remove_dir_all(&self.dir);
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
    places::enter();
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

/// Mounts file systems in memory over the folders where daemons write: what they write is gone with
/// the namespace. The one for disks has the free space of a laptop for its 1 GB.
pub(crate) fn own_folders() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let memory = |place: &str, options: &CStr| {
        io::Result::Ok(mount("none", place, "tmpfs", flags, Some(options))?)
    };
    // Addresses are ready at once, as on a machine that has been up for a while.
    for which in ["all", "default"] {
        fs::write(format!("/proc/sys/net/ipv6/conf/{which}/accept_dad"), "0")?;
    }
    memory("/mnt", c"size=256M")?;
    let copied = Command::new("cp").args(["-a", "/etc/.", "/mnt/"]).status()?;
    assert!(copied.success(), "copying /etc");
    fs::create_dir_all("/mnt/plexus")?;
    mount_bind("/mnt", "/etc")?;
    memory("/run", c"size=64M")?;
    memory("/var/lib", c"size=64M")?;
    memory("/var/cache", c"size=1200M")
}

/// Runs a command line in a namespace to its end, which is a good one.
#[track_caller]
pub(crate) fn run(place: &Namespaces, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    place.apply(command.args(words)).unwrap();
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
}

/// The whole answer of a server on loopback in a place.
pub(crate) fn http(place: &Namespaces, port: u16, path: &str) -> io::Result<String> {
    place.run(|| http_here(port, path))?
}

/// The same in this process's namespace.
pub(crate) fn http_here(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Sends bytes by TCP to an address of another place, which get there as they are.
#[track_caller]
pub(crate) fn assert_tcp(from: &Namespaces, to: &Namespaces, address: Ipv4Addr, bytes: &[u8]) {
    let address = SocketAddr::from((address, 7000));
    let listener = to.run(|| TcpListener::bind(address)).unwrap().unwrap();
    let got = std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            got
        });
        let stream = from.run(|| TcpStream::connect_timeout(&address, LIMIT));
        let mut stream = stream.unwrap().expect("a connection");
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        received.join().unwrap()
    });
    assert!(got == bytes, "{} of {} bytes arrived, or not as sent", got.len(), bytes.len());
}

/// A counter of /proc/net/snmp, such as `Udp` `NoPorts`.
pub(crate) fn kernel_counter(snmp: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = snmp.lines().filter(|line| line.starts_with(&format!("{protocol}: ")));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(of, _)| *of == name).unwrap().1.parse().unwrap()
}

/// ip(8), likewise.
#[track_caller]
pub(crate) fn ip(place: &Namespaces, arguments: &str) {
    run(place, &format!("ip {arguments}"));
}

/// A cable from a device of one place to one of another, both up.
pub(crate) fn cable(from: (&Namespaces, &str), to: (&Namespaces, &str), mtu: u16) {
    // The process names the other place to ip(8).
    let mut sleep = Command::new("sleep");
    sleep.arg("60").stdin(Stdio::null());
    to.0.apply(&mut sleep).unwrap();
    let sleep = Running(sleep.spawn().unwrap());
    let (near, far, pid) = (from.1, to.1, sleep.0.id());
    let peer = format!("peer name {far} mtu {mtu} netns {pid}");
    ip(from.0, &format!("link add {near} mtu {mtu} type veth {peer}"));
    for (place, device) in [from, to] {
        ip(place, &format!("link set dev {device} up"));
    }
}

/// `plexus` with these arguments, in a namespace. Ends with the test's thread, however that ends.
/// As leader of a session it may run before others, as a service may.
pub(crate) fn plexus_in(place: &Namespaces, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["setpriv", "--pdeathsig", "KILL", env!("CARGO_BIN_EXE_plexus")]).args(arguments);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    place.apply(&mut command).unwrap();
    command
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What a command says whose output is piped.
    pub(crate) fn of(command: &mut Command) -> Said {
        Said::by(command.spawn().unwrap())
    }

    /// What a command says until it ends, or until it is killed at the limit.
    pub(crate) fn by(mut child: Child) -> Said {
        // Read meanwhile: a full pipe would stop it.
        let pid = child.id() as i32;
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if end.recv_timeout(COMMAND_LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                kill(pid, Signal::KILL);
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

    /// Whether this is the report of a lab's run that failed, on a machine that did not let nodes
    /// run for over a Heartbeat.
    fn is_of_a_machine_that_stood_still(&self) -> bool {
        let report: Value = serde_json::from_str(&self.out).unwrap_or_default();
        let is_noted = report["stalled_ms"].as_f64().is_some_and(|ms| ms >= 100.0)
            || self.out.contains("a processor of this machine stood still");
        self.code == Some(1) && is_noted
    }

    /// Whether a lab cannot be for want of a DHCP client; if so, says it.
    pub(crate) fn lacks_dhclient(&self) -> bool {
        let lacks = self.err.contains("`dhclient` is missing");
        if lacks {
            eprintln!("SKIPPED: this test of labs needs isc-dhcp-client");
        }
        lacks
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
    /// None yet, of no group.
    pub(crate) fn bare(test: &str) -> Daemons {
        Daemons { dir: directory(test), running: vec![] }
    }

    /// None yet, of a group with a controller `c1` and nodes `n1`, `n2` …, whose keys are issued.
    pub(crate) fn new(test: &str, nodes: usize) -> Daemons {
        let daemons = Daemons::bare(test);
        let path = |name: &str| daemons.dir.join(name).display().to_string();
        let group = path("group.key");
        Said::of(&mut plexus(&["identity", "group", "--out", &group])).expect(0);
        let issue = |number: usize, name: &str, role: &str| {
            let (number, out) = (number.to_string(), path(&format!("{name}.key")));
            let words =
                ["identity", "issue", "--group", &group, "--role", role, "--number", &number];
            Said::of(plexus(&words).args(["--name", name, "--out", &out])).expect(0);
        };
        issue(9, "c1", "controller");
        (1..=nodes).for_each(|i| issue(i, &format!("n{i}"), "node"));
        daemons
    }

    pub(crate) fn node_file(&self, name: &str) -> String {
        let dir = self.dir.display();
        format!(
            "name = \"{name}\"\ncontrol = \"{dir}/{name}.sock\"\nbackend = \"af_packet\"\n\
             [fabric]\nidentity = \"{dir}/{name}.key\"\n"
        )
    }

    pub(crate) fn controller_file(&self) -> String {
        let dir = self.dir.display();
        format!(
            "name = \"c1\"\ncontrol = \"{dir}/c1.sock\"\nidentity = \"{dir}/c1.key\"\n\
             state = \"{dir}/c1.redb\"\n"
        )
    }

    pub(crate) fn start_node(&mut self, place: &Namespaces, name: &str, ports: &[&str]) {
        let text = ports.iter().map(|port| format!("[[port]]\nname = \"{port}\"\n"));
        let text = self.node_file(name) + &text.collect::<String>();
        self.start(place, "node", name, &text);
    }

    /// Starts the controller; `more`: of its file.
    pub(crate) fn start_controller(&mut self, place: &Namespaces, more: &str) {
        let text = self.controller_file() + more;
        self.start(place, "controller", "c1", &text);
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

    /// Ends a daemon without warning, and forgets it.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut daemon = self.running.remove(at);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Has a daemon read its file again, which has this text.
    pub(crate) fn reload(&self, at: usize, name: &str, text: &str) {
        fs::write(self.dir.join(format!("{name}.toml")), text).unwrap();
        signal(&self.running[at], Signal::HUP);
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

    pub(crate) fn has_controller(&self, node: &str) -> bool {
        self.show(node, "links").is_some_and(|links| links["controller"]["path"].is_array())
    }

    /// What `show links` says of a node's port, null if nothing.
    pub(crate) fn link(&self, node: &str, port: &str) -> Value {
        item(&self.show(node, "links").unwrap_or_default()["ports"], "port", port)
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
