//! What moves frames in a lab's nodes: a daemon each, or the bridge of the Linux kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_config::VlanMode;
use plexus_io::namespace::Namespaces;
use plexus_topo::Device;
use serde_json::{Value, json};

use crate::control;
use crate::error::{Doing, Error};
use crate::plan::{NodeProgram, Plan};
use crate::report::Account;
use crate::tools::{BRIDGE, IP, TC};
use crate::world::{World, shaper};

/// How long a daemon may take until its socket answers and its ports are up.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a daemon may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a daemon may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);
/// How much of a log an error quotes, in bytes.
const LOG_QUOTED: u64 = 2000;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    name: String,
    daemon: Option<Daemon>,
}

#[derive(Debug)]
struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

/// Starts every node of the plan; they are not ready yet.
pub(crate) fn start(plan: &Plan, world: &World, directory: &Path) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    for (i, file) in plan.node_files.iter().enumerate() {
        let place = world.place(Device::Node(i));
        let daemon = match plan.program {
            NodeProgram::Plexus => {
                let config = directory.join(format!("{}.toml", file.name));
                fs::write(&config, file.to_toml())
                    .doing(|| format!("writing {}", config.display()))?;
                let log = directory.join(format!("{}.log", file.name));
                let child = start_daemon(&config, &log, place)
                    .doing(|| format!("starting node {}", file.name))?;
                Some(Daemon { child, socket: file.control.clone(), log })
            }
            NodeProgram::Bridge => {
                start_bridge(plan, i, place)?;
                None
            }
        };
        nodes.push(Node { name: file.name.clone(), daemon });
    }
    Ok(nodes)
}

fn start_daemon(config: &Path, log: &Path, place: &Namespaces) -> std::io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["node", "run", "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    place.apply(&mut command)?;
    command.spawn()
}

/// A bridge over all ports that filters VLANs as the node would, each port as fast as its cable.
fn start_bridge(plan: &Plan, node: usize, place: &Namespaces) -> Result<(), Error> {
    const BR: &str = "plexus-br";
    let file = &plan.node_files[node];
    let ageing = file.switch.ageing.as_secs() * 100;
    let vlans = file.ports.iter().any(|p| p.settings.vlan != VlanMode::Access(1));
    // Only asked for where needed: not every kernel's bridge can.
    let filtering = if vlans { " vlan_filtering 1" } else { "" };
    let mut links = format!(
        "link add {BR} type bridge stp_state 0 mcast_snooping 0 ageing_time {ageing}{filtering}\n\
         link set dev {BR} addrgenmode none\n"
    );
    let mut members = String::new();
    let mut shapers = String::new();
    for (link, end) in plan.cables_of(Device::Node(node)) {
        let (device, _) = plan.device(end);
        let _ = writeln!(links, "link set dev {device} master {BR}");
        let Some(port) = file.ports.iter().find(|p| p.name == device) else { continue };
        if let Some(rate) = port.settings.rate_bits_per_s {
            let _ = writeln!(shapers, "{}", shaper(device, rate, link.mtu));
        }
        if !vlans {
            continue;
        }
        let _ = writeln!(members, "vlan del dev {device} vid 1");
        match &port.settings.vlan {
            VlanMode::Access(vlan) => {
                let _ = writeln!(members, "vlan add dev {device} vid {vlan} pvid untagged");
            }
            VlanMode::Trunk { allowed, native } => {
                for (first, last) in allowed {
                    let _ = writeln!(members, "vlan add dev {device} vid {first}-{last}");
                }
                if let Some(native) = native {
                    let _ = writeln!(members, "vlan add dev {device} vid {native} pvid untagged");
                }
            }
        }
    }
    let _ = writeln!(links, "link set dev {BR} up");
    IP.batch(Some(place), &links)?;
    BRIDGE.batch(Some(place), &members)?;
    TC.batch(Some(place), &shapers)
}

impl Node {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `running`, or how it ended.
    pub(crate) fn state(&mut self) -> String {
        match &mut self.daemon {
            None => "running".into(),
            Some(daemon) => match daemon.child.try_wait() {
                Ok(None) => "running".into(),
                Ok(Some(status)) => format!("ended ({status})"),
                Err(e) => format!("unknown ({e})"),
            },
        }
    }

    pub(crate) fn control(&self) -> Option<&Path> {
        self.daemon.as_ref().map(|d| d.socket.as_path())
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + START_LIMIT;
        while self.daemon.is_some() {
            let state = self.state();
            if state != "running" {
                return Err(self.failed(&state));
            }
            if self.ask(&json!({"show": "ports"})).is_ok() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(self.failed("does not answer on its control socket"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until it says of every port that it is up, the hosts' ends being up by now. A node
    /// that reports no link state is taken at its word that it is ready.
    pub(crate) fn wait_for_ports(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + START_LIMIT;
        while self.daemon.is_some() {
            let ports = self.ask(&json!({"show": "ports"}))?;
            let down = down_ports(&ports);
            if down.is_empty() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(self.failed(&format!("its ports {} stay down", down.join(", "))));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn failed(&self, what: &str) -> Error {
        let log = self.daemon.as_ref().map(|d| log_tail(&d.log)).unwrap_or_default();
        Error::Refused(format!("node {}: {what}\n{log}", self.name).trim_end().to_string())
    }

    /// Asks the daemon; an answer with an `error` is an error.
    pub(crate) fn ask(&self, question: &Value) -> Result<Value, Error> {
        let what = || format!("asking node {}", self.name);
        let Some(daemon) = &self.daemon else { return Ok(Value::Null) };
        let stream = UnixStream::connect(&daemon.socket).doing(what)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).doing(what)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT)).doing(what)?;
        control::send(&stream, question).doing(what)?;
        let answer: Option<Value> = control::receive(&mut BufReader::new(stream)).doing(what)?;
        let answer = answer.unwrap_or(Value::Null);
        match answer.get("error") {
            Some(error) => Err(Error::Refused(format!("node {}: {error}", self.name))),
            None => Ok(answer),
        }
    }

    /// What it has counted so far; `None` for the Linux bridge.
    pub(crate) fn counts(&mut self) -> Result<Option<Counts>, Error> {
        if self.daemon.is_none() {
            return Ok(None);
        }
        match self.ask(&json!({"show": "drops"})) {
            Ok(answer) => Ok(Some(Counts::read(&answer))),
            Err(e) => match self.state().as_str() {
                "running" => Err(e),
                ended => Err(self.failed(ended)),
            },
        }
    }

    /// Processor time it has used, user and system; `None` for the Linux bridge, whose work is
    /// done in the time of whoever sends.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.daemon.as_ref()?.child.id()));
        parse_cpu_time(&stat.ok()?)
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        let asked = self.ask(&json!({"stop": true})).is_ok();
        let Some(daemon) = &mut self.daemon else { return };
        let limit = Instant::now() + STOP_LIMIT;
        while asked && Instant::now() < limit && matches!(daemon.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        // Whatever happened before: afterwards it is gone.
        let _ = daemon.child.kill();
        let _ = daemon.child.wait();
    }
}

/// The end of a log, in whole lines.
pub(crate) fn log_tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_QUOTED)))?;
        let mut bytes = Vec::new();
        file.take(LOG_QUOTED).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_string())
    };
    read().unwrap_or_default()
}

/// User and system time of `/proc/PID/stat`, fields 14 and 15 (proc_pid_stat(5)), in ticks of
/// 10 ms, the USER_HZ of every architecture that runs this. The name before may contain anything.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}

/// The ports of `{"ports": [{"name", "link": "up" | "down"}]}` that are down.
fn down_ports(answer: &Value) -> Vec<String> {
    let ports = answer.get("ports").and_then(Value::as_array);
    let is_down = |p: &&Value| p["link"] == "down" || p["link"] == false;
    ports
        .into_iter()
        .flatten()
        .filter(is_down)
        .map(|p| p["name"].as_str().unwrap_or("?").to_string())
        .collect()
}

/// What a node has counted since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) account: Account,
    pub(crate) drops: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads `{"account": {"received", …}, "drops": {reason: count}}`.
    fn read(answer: &Value) -> Counts {
        let account = serde_json::from_value(answer["account"].clone()).unwrap_or_default();
        let drops = answer["drops"].as_object().into_iter().flatten();
        let count = |(name, n): (&String, &Value)| Some((name.clone(), n.as_u64()?));
        Counts { account, drops: drops.filter_map(count).collect() }
    }

    /// What was counted since `earlier`; what waited in queues then, still or again waits now.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let (a, b) = (&self.account, &earlier.account);
        let account = Account {
            received: a.received.saturating_sub(b.received) + b.held,
            copied: a.copied.saturating_sub(b.copied),
            injected: a.injected.saturating_sub(b.injected),
            sent: a.sent.saturating_sub(b.sent),
            consumed: a.consumed.saturating_sub(b.consumed),
            rejected: a.rejected.saturating_sub(b.rejected),
            dropped: a.dropped.saturating_sub(b.dropped),
            held: a.held,
        };
        let before = |reason| earlier.drops.get(reason).copied().unwrap_or(0);
        let drops = self.drops.iter().map(|(r, n)| (r.clone(), n.saturating_sub(before(r))));
        Counts { account, drops: drops.filter(|(_, n)| *n > 0).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b) ) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 0 0";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse_cpu_time("7 (a"), None);
        assert_eq!(parse_cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn differences_of_counts_still_balance() {
        let at = |received, sent, held, runts| {
            let drops = json!({"runt": runts, "mac_limit": 0});
            let account = json!({
                "received": received, "copied": 0, "sent": sent, "dropped": runts, "held": held,
            });
            Counts::read(&json!({"account": account, "drops": drops}))
        };
        let (before, after) = (at(10, 7, 2, 1), at(30, 25, 1, 4));
        let run = after.since(&before);
        assert!(before.account.balances() && after.account.balances());
        assert!(run.account.balances(), "{}", run.account);
        assert_eq!(run.drops, BTreeMap::from([("runt".to_string(), 3)]));
    }
}
