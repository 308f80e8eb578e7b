//! One trial: the meter is started in one host, then the generator in the other; both are this
//! program, run by `plexus lab exec`.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use plexus_lab::HostStatus;
use plexus_traffic::{Outcome, Rate};
use serde::Serialize;
use serde_json::Value;

use plexus_report::si;

/// How long a child may take until it is ready.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The meter tells how much it received as soon as its device is open.
pub const HEARS: &str = "received ";
/// Silence after which nothing more will come: far longer than any queue of one machine.
const IDLE: Duration = Duration::from_millis(500);
/// Beyond the time of sending, how long the meter waits for a generator that may be slow to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What trials have in common.
pub(super) struct Bench {
    pub(super) lab: String,
    /// Sender, receiver.
    pub(super) hosts: [HostStatus; 2],
    pub(super) devices: [String; 2],
    pub(super) size: String,
    /// Longest frame, in bytes.
    pub(super) frame_max: usize,
    pub(super) backend: String,
    pub(super) time: Duration,
}

/// What a trial showed. Rates are packets per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    pub(super) rate: u64,
    pub(super) offered: u64,
    sent: u64,
    received: u64,
    loss: f64,
    latency_us_p50: Option<f64>,
    /// Packets that the meter's own device dropped for want of time.
    overflow: u64,
    /// Why the trial says nothing of the lab, if so.
    pub void: Option<String>,
}

impl Trial {
    /// A trial's facts; `packets` are those sent and received.
    pub(super) fn new(
        rate: u64,
        offered: u64,
        packets: (u64, u64),
        overflow: u64,
        latency_us_p50: Option<f64>,
    ) -> Trial {
        let (sent, received) = packets;
        let lost = sent.saturating_sub(received);
        let void = if offered < rate - rate / 100 {
            Some(format!("the generator offered only {}packets/s", si(offered as f64)))
        } else if overflow > 0 && lost > 0 {
            Some(format!("the meter was overrun by {overflow} packets"))
        } else {
            None
        };
        let loss = if sent > 0 { lost as f64 / sent as f64 } else { 1.0 };
        Trial { rate, offered, sent, received, loss, latency_us_p50, overflow, void }
    }

    /// From the answers of the generator and the meter.
    fn read(rate: Rate, sent: &Value, heard: &Value) -> Option<Trial> {
        let number = |json: &Value, path: &str| json.pointer(path).and_then(Value::as_f64);
        let whole = |json: &Value, path: &str| number(json, path).map(|n| n as u64);
        // Each packet once: a duplicate makes no loss good.
        let once =
            whole(heard, "/total/received")?.saturating_sub(whole(heard, "/total/duplicates")?);
        let packets = (whole(sent, "/packets")?, once);
        let offered = whole(sent, "/packets_per_s")?;
        let asked = if let Rate::Packets(rate) = rate { rate } else { offered };
        let p50 = number(heard, "/total/latency/p50_ns").map(|ns| ns / 1e3);
        Some(Trial::new(asked, offered, packets, whole(heard, "/overflow")?, p50))
    }

    /// For the search.
    pub(super) fn outcome(&self) -> Outcome {
        let &Trial { rate, offered, sent, received, .. } = self;
        Outcome { rate, offered, sent, received }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.sent.saturating_sub(self.received);
        write!(f, "{}packets/s, lost {lost} of {}", si(self.rate as f64), self.sent)?;
        match &self.void {
            Some(why) => write!(f, "; void: {why}"),
            None => Ok(()),
        }
    }
}

impl Bench {
    /// Lets the receiver say where it is, so that no trial begins with flooding.
    pub(super) fn introduce(&self) -> Result<(), String> {
        let mut generator = self.generator([1, 0], Rate::Packets(1000));
        generator.args(["--count", "10"]);
        Running::start(generator, "the receiver's first frames")?.finish().map(drop)
    }

    /// Sends for the time of a trial and counts what arrives.
    pub(super) fn run(&self, rate: Rate) -> Result<Trial, String> {
        let meter = Running::start(self.meter(), "the meter")?;
        meter.ready(HEARS)?;
        let mut generator = self.generator([0, 1], rate);
        generator.args(["--duration", &format!("{}ms", self.time.as_millis())]);
        let sent = Running::start(generator, "the generator")?.finish()?;
        let heard = meter.finish()?;
        Trial::read(rate, &sent, &heard)
            .ok_or_else(|| format!("generator or meter gave an odd answer: {sent} {heard}"))
    }

    /// `plexus lab exec LAB HOST -- plexus …`
    fn inside(&self, host: usize, subcommand: &str) -> Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "plexus".into());
        let mut command = Command::new(&own);
        command.args(["lab", "exec", &self.lab, &self.hosts[host].name, "--"]).arg(own);
        command.args([subcommand, &self.devices[host], "--json"]);
        let backend = match (subcommand, self.backend.as_str()) {
            ("gen", "xdp") => "xdp_live",
            (_, backend) => backend,
        };
        command.args(["--backend", backend]);
        command
    }

    fn generator(&self, [from, to]: [usize; 2], rate: Rate) -> Command {
        let mut command = self.inside(from, "gen");
        command.args(["--size", &self.size]);
        command.args(["--src-mac", &self.hosts[from].mac, "--dst-mac", &self.hosts[to].mac]);
        if let (Some(source), Some(destination)) = (self.ipv4(from), self.ipv4(to)) {
            command.args(["--src-ip", source, "--dst-ip", destination]);
        }
        match rate {
            Rate::Packets(pps) => command.args(["--rate", &format!("{pps}pps")]),
            _ => command.args(["--rate", "max"]),
        };
        command
    }

    fn ipv4(&self, host: usize) -> Option<&str> {
        let addresses = self.hosts[host].addresses.iter();
        let mut plain = addresses.filter_map(|a| a.split('/').next());
        plain.find(|a| a.parse::<std::net::Ipv4Addr>().is_ok())
    }

    fn meter(&self) -> Command {
        let mut command = self.inside(1, "meter");
        let limit = self.time + PATIENCE;
        command.args(["--from-start", "--interval", "20ms"]);
        command.args(["--idle", &format!("{}ms", IDLE.as_millis())]);
        command.args(["--duration", &format!("{}ms", limit.as_millis())]);
        command.args(["--max-frame", &self.frame_max.to_string()]);
        command
    }
}

/// A child whose standard error is read line by line. It is killed with the value.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    /// Its name in errors.
    what: &'static str,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a child.
    ///
    /// # Errors
    /// In words, when it cannot be started.
    pub fn start(mut command: Command, what: &'static str) -> Result<Running, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("starting {what}: {e}"))?;
        let (told, lines) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // Read on when nobody listens: a full pipe would stop the child.
                    let _ = told.send(line);
                }
            });
        }
        Ok(Running { child, lines, what })
    }

    /// Waits until it says that it is ready, by a line that begins so; what follows.
    ///
    /// # Errors
    /// In words, when it does not for twenty seconds.
    pub fn ready(&self, begin: &str) -> Result<String, String> {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(START_LIMIT) {
                Ok(line) => match line.strip_prefix(begin) {
                    Some(rest) => return Ok(rest.trim().into()),
                    None => said.push(line),
                },
                Err(_) => return Err(format!("{} did not start: {}", self.what, said.join("\n"))),
            }
        }
    }

    /// How it ended, if it has; what it has said meanwhile is lost.
    ///
    /// # Errors
    /// In words, when the kernel does not tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|e| format!("{}: {e}", self.what))
    }

    /// What it has said so far that nobody has read.
    pub fn said(&self) -> String {
        self.lines.try_iter().collect::<Vec<_>>().join("\n")
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and reads its answer. A meter that heard nothing ends with 1, which is an
    /// answer too.
    ///
    /// # Errors
    /// In words, when it gives no answer.
    pub fn finish(self) -> Result<Value, String> {
        self.answer().map(|(_, answer)| answer)
    }

    /// The same, with how it ended.
    ///
    /// # Errors
    /// In words, when it gives no answer.
    pub fn answer(mut self) -> Result<(ExitStatus, Value), String> {
        let (what, mut out) = (self.what, String::new());
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).map_err(|e| format!("{what}: {e}"))?;
        }
        let status = self.child.wait().map_err(|e| format!("{what}: {e}"))?;
        let answer = serde_json::from_str(&out).map_err(|e| {
            let said: Vec<String> = self.lines.iter().collect();
            format!("{what} ({status}): {e}\n{}", said.join("\n")).trim_end().to_string()
        });
        Ok((status, answer?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_make_no_loss_good() {
        let sent = json!({"packets": 1000, "packets_per_s": 1000.0});
        let heard = json!({"total": {"received": 1000, "duplicates": 50}, "overflow": 0});
        let trial = Trial::read(Rate::Packets(1000), &sent, &heard).unwrap();
        assert_eq!((trial.received, trial.loss, &trial.void), (950, 0.05, &None));
        assert_eq!(Trial::read(Rate::Max, &json!({}), &heard), None);
    }
}
