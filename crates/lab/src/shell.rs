//! The commands that users of Mininet know, for a lab that is up.
//!
//! A command inside a device runs by `plexus lab exec`, in a process of its own: a process that has
//! entered a lab's namespaces cannot leave them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_report::{Failure, say};

use crate::{HostStatus, LabStatus, status};

type Outcome = Result<(), Failure>;

/// Hosts that ping at the same time.
const AT_ONCE: usize = 8;
/// A ping waits so many seconds for its answer.
const PING_WAIT: &str = "1";
/// How often, and how long apart, the client of `iperf` looks for its server.
const TRIES: usize = 50;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A command of the shell: its name, its arguments, and a line of help.
pub const COMMANDS: [(&str, &str, &str); 9] = [
    ("nodes", "", "list the hosts, nodes and other devices"),
    ("net", "", "list the cables"),
    ("dump", "", "what `plexus lab status` says"),
    ("pingall", "[4|6]", "every host pings every other one, by IPv4 or IPv6"),
    ("ping", "A B", "two hosts ping each other"),
    ("iperf", "A B [SECONDS]", "TCP from one host to another; needs iperf3 on this machine"),
    ("link", "A B down|up", "take the cable between two devices down, or up again"),
    ("xterm", "DEVICE", "open a terminal inside a device, on an X display"),
    ("graph", "FILE.svg", "draw the topology into a file"),
];

/// Draws a topology file, as SVG.
pub type Draw = fn(&Path) -> Result<String, Failure>;

/// A lab that takes commands.
pub struct Session {
    lab: String,
    status: LabStatus,
    program: PathBuf,
    draw: Draw,
}

/// Text that the shell cannot run.
fn wrong(why: impl Into<String>) -> Failure {
    Failure::unusable(why.into())
}

impl Session {
    /// Of the lab with this name, by the program that runs now: it has to be `plexus`.
    ///
    /// # Errors
    /// When it is not up.
    pub fn new(lab: String, draw: Draw) -> Result<Session, Failure> {
        let status = status(&lab)?;
        let program = std::env::current_exe().map_err(Failure::unusable)?;
        Ok(Session { lab, status, program, draw })
    }

    /// The lab's name.
    pub fn lab(&self) -> &str {
        &self.lab
    }

    /// The names of all devices, hosts first.
    pub fn devices(&self) -> impl Iterator<Item = String> + '_ {
        let LabStatus { hosts, nodes, bridges, controllers, .. } = &self.status;
        let hosts = hosts.iter().map(|h| &h.name).chain(nodes.iter().map(|n| &n.name));
        let others = bridges.iter().map(|b| &b.name).chain(controllers.iter().map(|c| &c.name));
        hosts.chain(others).cloned()
    }

    fn host(&self, name: &str) -> Result<&HostStatus, Failure> {
        let found = self.status.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| wrong(format!("no host {name:?}: `nodes` lists them")))
    }

    /// Runs a line: a command of the shell, or a device and a command inside it.
    ///
    /// # Errors
    /// When there is no such command, or it fails.
    pub fn execute(&self, line: &str) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, rest)) = words.split_first() else { return Ok(()) };
        // A device may have the name of a command: then it is the device's.
        if self.devices().any(|device| device == first) {
            return self.inside(first, rest);
        }
        match (first, rest) {
            ("help", []) => help(),
            ("nodes", []) => say!("{}", self.devices().collect::<Vec<_>>().join(" ")),
            ("net", []) => {
                self.status.links.iter().for_each(|link| say!("{} - {}", link.a, link.b));
            }
            ("dump", []) => say!("{}", status(&self.lab)?),
            ("pingall", []) => return self.ping_all(true),
            ("pingall", ["4"]) => return self.ping_all(true),
            ("pingall", ["6"]) => return self.ping_all(false),
            ("ping", [a, b]) => {
                let pair = [self.host(a)?.clone(), self.host(b)?.clone()];
                return self.ping(&pair, true);
            }
            ("iperf", [a, b]) => return self.iperf(a, b, "5"),
            ("iperf", [a, b, seconds]) => return self.iperf(a, b, seconds),
            ("link", [a, b, state @ ("down" | "up")]) => return self.link(a, b, state),
            ("xterm", [device]) => return self.xterm(device),
            ("graph", [file]) => return self.graph(file),
            _ => return Err(misused(first)),
        }
        Ok(())
    }

    /// `plexus lab exec` of this lab.
    fn exec(&self, device: &str, command: &[&str]) -> Command {
        let mut exec = Command::new(&self.program);
        exec.args(["lab", "exec", &self.lab, device, "--"]).args(command);
        exec
    }

    /// Runs words as a shell's command inside a device, with hosts' addresses in place of names.
    fn inside(&self, device: &str, words: &[&str]) -> Outcome {
        let by_name = |word: &str| {
            let host = self.status.hosts.iter().find(|host| host.name == word)?;
            self.address_of(host, true).or_else(|| self.address_of(host, false))
        };
        let words: Vec<String> = words
            .iter()
            .map(|word| by_name(word).map_or_else(|| word.to_string(), |ip| ip.to_string()))
            .collect();
        let line = words.join(" ");
        let command: &[&str] = if words.is_empty() { &["sh"] } else { &["sh", "-c", &line] };
        succeeded(self.exec(device, command).status().map_err(Failure::unusable)?)
    }

    /// An address of a host: as the file says, or what it has got by DHCP.
    fn address_of(&self, host: &HostStatus, v4: bool) -> Option<IpAddr> {
        let of_file = host.addresses.iter().find_map(|text| address(text, v4));
        of_file.or_else(|| {
            let family = if v4 { "-4" } else { "-6" };
            let show = ["ip", "-o", family, "address", "show", "scope", "global"];
            let output = self.exec(&host.name, &show).stderr(Stdio::null()).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_whitespace().find_map(|word| address(word, v4))
        })
    }

    fn ping_all(&self, v4: bool) -> Outcome {
        self.ping(&self.status.hosts, v4)
    }

    /// Each of these hosts pings each other one.
    fn ping(&self, hosts: &[HostStatus], v4: bool) -> Outcome {
        let known: BTreeMap<&str, IpAddr> = hosts
            .iter()
            .filter_map(|host| Some((host.name.as_str(), self.address_of(host, v4)?)))
            .collect();
        let next = AtomicUsize::new(0);
        let others = |from: &HostStatus| {
            let from = from.name.clone();
            hosts.iter().filter(move |to| to.name != from)
        };
        let work = || {
            let mut rows = Vec::new();
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                let Some(from) = hosts.get(row) else { return rows };
                let is_there = |to: &HostStatus| {
                    known.get(to.name.as_str()).is_some_and(|ip| self.answers(from, *ip))
                };
                rows.push((row, others(from).map(is_there).collect::<Vec<bool>>()));
            }
        };
        let mut rows: Vec<(usize, Vec<bool>)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        });
        rows.sort_unstable();
        let (mut sent, mut answered) = (0, 0);
        for (row, answers) in &rows {
            let cell = |(to, answers): (&HostStatus, &bool)| match answers {
                true => to.name.clone(),
                false => "X".into(),
            };
            let cells: Vec<String> = others(&hosts[*row]).zip(answers).map(cell).collect();
            say!("{} -> {}", hosts[*row].name, cells.join(" "));
            sent += answers.len();
            answered += answers.iter().filter(|answer| **answer).count();
        }
        say!("{answered} of {sent} pings answered");
        if answered == sent { Ok(()) } else { Err(Failure::No(String::new())) }
    }

    fn answers(&self, from: &HostStatus, to: IpAddr) -> bool {
        let to = to.to_string();
        let mut ping = self.exec(&from.name, &["ping", "-q", "-c1", "-W", PING_WAIT, &to]);
        ping.stdout(Stdio::null()).stderr(Stdio::null());
        ping.status().is_ok_and(|status| status.success())
    }

    fn iperf(&self, a: &str, b: &str, seconds: &str) -> Outcome {
        let lasts = seconds.parse().ok().filter(|s| (1..=3600).contains(s));
        let lasts: u32 = lasts
            .ok_or_else(|| wrong(format!("{seconds:?}: give a number of seconds, 1 to 3600")))?;
        let (from, to) = (self.host(a)?, self.host(b)?);
        let address = self.address_of(to, true).or_else(|| self.address_of(to, false));
        let address = address.ok_or_else(|| wrong(format!("{b} has no address")))?.to_string();
        let is_there = Command::new("iperf3").arg("--version").output().is_ok();
        if !is_there {
            return Err(wrong("no iperf3 on this machine: apt install iperf3"));
        }
        // It ends with its first client, and without one by itself.
        let limit = (lasts + 15).to_string();
        let mut server = self.exec(b, &["timeout", &limit, "iperf3", "-s", "-1"]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = server.spawn().map_err(Failure::unusable)?;
        let mut done = self.client(from, &address, seconds);
        for _ in 1..TRIES {
            if !matches!(&done, Ok(text) if text.contains("Connection refused")) {
                break;
            }
            std::thread::sleep(TRY_AGAIN);
            done = self.client(from, &address, seconds);
        }
        let is_served = matches!(&done, Ok(text) if !text.contains("\"error\""));
        if !is_served {
            let _ = server.kill();
        }
        let _ = server.wait();
        let said = done?;
        let said: serde_json::Value = serde_json::from_str(&said).map_err(Failure::unusable)?;
        let rate = |end: &str| said["end"][end]["bits_per_second"].as_f64();
        match (rate("sum_sent"), rate("sum_received")) {
            (Some(sent), Some(received)) => {
                say!("{a} -> {b}: {:.1} Mbit/s sent, {:.1} received", sent / 1e6, received / 1e6);
                Ok(())
            }
            _ => Err(Failure::No(said["error"].as_str().unwrap_or("iperf3 failed").into())),
        }
    }

    fn client(&self, from: &HostStatus, to: &str, seconds: &str) -> Result<String, Failure> {
        let command = ["iperf3", "-J", "-c", to, "-t", seconds];
        let output = self.exec(&from.name, &command).output().map_err(Failure::unusable)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Sets the state of every cable between two devices, at the end of the first.
    fn link(&self, a: &str, b: &str, state: &str) -> Outcome {
        let ends = self.status.links.iter().flat_map(|l| [(&l.a, &l.b), (&l.b, &l.a)]);
        let device = |end: &str| end.split_once('.').map(|(device, _)| device.to_string());
        let here: Vec<&str> = ends
            .filter(|(x, y)| device(x).as_deref() == Some(a) && device(y).as_deref() == Some(b))
            .filter_map(|(x, _)| x.split_once('.').map(|(_, port)| port))
            .collect();
        if here.is_empty() {
            return Err(wrong(format!("no cable between {a} and {b}: `net` lists them")));
        }
        for port in here {
            // A port may have the name of a host, which `inside` would replace by its address.
            let set = ["ip", "link", "set", "dev", port, state];
            succeeded(self.exec(a, &set).status().map_err(Failure::unusable)?)?;
        }
        Ok(())
    }

    fn xterm(&self, device: &str) -> Outcome {
        if !self.devices().any(|known| known == device) {
            return Err(wrong(format!("no device {device:?}: `nodes` lists them")));
        }
        if std::env::var_os("DISPLAY").is_none() {
            return Err(wrong(format!("no X display: type `{device}` for a shell here")));
        }
        let mut xterm = Command::new("xterm");
        xterm.args(["-T", device, "-e"]).arg(&self.program);
        xterm.args(["lab", "exec", &self.lab, device, "--", "sh"]);
        xterm.spawn().map_err(|e| wrong(format!("xterm: {e}: apt install xterm")))?;
        Ok(())
    }

    fn graph(&self, file: &str) -> Outcome {
        let drawing = (self.draw)(&self.status.file)?;
        std::fs::write(file, drawing).map_err(|e| wrong(format!("{file}: {e}")))
    }
}

fn succeeded(status: ExitStatus) -> Outcome {
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::No(format!("exit code {}", code.unwrap_or(255)))),
    }
}

/// The address in `10.0.0.1/24`, if it is of this version.
fn address(text: &str, v4: bool) -> Option<IpAddr> {
    let (ip, length) = text.split_once('/')?;
    length.parse::<u8>().ok()?;
    let ip: IpAddr = ip.parse().ok()?;
    (ip.is_ipv4() == v4 && ip != IpAddr::V4(Ipv4Addr::LOCALHOST)).then_some(ip)
}

fn usage((name, arguments, _): &(&str, &str, &str)) -> String {
    format!("{name} {arguments}").trim_end().to_string()
}

fn misused(word: &str) -> Failure {
    match COMMANDS.iter().find(|command| command.0 == word) {
        Some(command) => wrong(format!("use it so: {}", usage(command))),
        None => wrong(format!("no command or device {word:?}: `help` lists the commands")),
    }
}

fn help() {
    for command in &COMMANDS {
        say!("{:<24}{}", usage(command), command.2);
    }
    say!(
        "{:<24}a command inside it, with hosts' names for addresses: h1 ping -c3 h2",
        "DEVICE COMMAND…"
    );
    say!("{:<24}a shell inside it", "DEVICE");
    say!("{:<24}leave; the lab stays up", "exit");
}
