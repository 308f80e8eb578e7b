//! A daemon of a lab: a node's or the controller's process, its log and its control socket.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_api::answer::{About, Done};
use plexus_api::{Client, Request};
use plexus_io::namespace::Namespaces;
use serde::de::DeserializeOwned;

use crate::error::{Doing, Error};

/// How long a daemon may take until its socket answers, and then until it is as it should be.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a daemon may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a daemon may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(3);
/// How often a daemon is looked at that is waited for.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// How much of a log an error quotes, in bytes.
const LOG_QUOTED: u64 = 2000;

/// The kind of a daemon: the `plexus` command that runs it, and the text it prints when it is
/// ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Node,
    Controller,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Controller => "controller",
        }
    }
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    kind: Kind,
    name: String,
    child: Child,
    socket: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Starts one in `place` with this configuration, its files in `directory`; it is not ready
    /// yet.
    ///
    /// # Errors
    /// When its files cannot be written, or it cannot be started.
    pub(crate) fn start(
        (kind, name): (Kind, &str),
        socket: &Path,
        config_text: &str,
        directory: &Path,
        place: &Namespaces,
    ) -> Result<Daemon, Error> {
        let config = directory.join(format!("{name}.toml"));
        fs::write(&config, config_text).doing(|| format!("writing {}", config.display()))?;
        let log = directory.join(format!("{name}.log"));
        let child = spawn(kind, &config, &log, place);
        let child = child.doing(|| format!("starting {} {name}", kind.name()))?;
        let (name, socket) = (name.to_string(), socket.to_path_buf());
        Ok(Daemon { kind, name, child, socket, config, log })
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it as before, if it has ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_again(&mut self, place: &Namespaces) -> Result<(), Error> {
        if self.state() == "running" {
            return Ok(());
        }
        let child = spawn(self.kind, &self.config, &self.log, place);
        self.child = child.doing(|| format!("starting {} {}", self.kind.name(), self.name))?;
        Ok(())
    }

    /// Its process, as the supervisor sees it.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// `running`, or how it ended.
    pub(crate) fn state(&mut self) -> String {
        match self.child.try_wait() {
            Ok(None) => "running".into(),
            Ok(Some(status)) => format!("ended ({status})"),
            Err(e) => format!("unknown ({e})"),
        }
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + START_LIMIT;
        loop {
            let state = self.state();
            if state != "running" {
                return Err(self.failed(&state));
            }
            if self.ask::<About>(&Request::Version(true)).is_ok() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(self.failed("does not answer on its control socket"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The error with the end of its log.
    pub(crate) fn failed(&self, what: &str) -> Error {
        let text = format!("{} {}: {what}\n{}", self.kind.name(), self.name, log_tail(&self.log));
        Error::Refused(text.trim_end().to_string())
    }

    /// Asks it; a refusal is an error.
    pub(crate) fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Error> {
        let what = || format!("asking {} {}", self.kind.name(), self.name);
        let mut client = Client::connect(&self.socket, ANSWER_LIMIT).doing(what)?;
        let answer = client.get(request);
        answer.map_err(|e| Error::Refused(format!("{} {}: {e}", self.kind.name(), self.name)))
    }

    /// Processor time it has used, user and system.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        cpu_time_of(self.child.id())
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        let asked = self.ask::<Done>(&Request::Stop(true)).is_ok();
        let limit = Instant::now() + STOP_LIMIT;
        while asked && Instant::now() < limit && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        // Even if it could not be stopped: afterwards it is dead.
        self.kill();
    }
}

/// Starts this program as a daemon.
fn spawn(kind: Kind, config: &Path, log: &Path, place: &Namespaces) -> std::io::Result<Child> {
    let output = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([kind.name(), "run", "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    place.apply(&mut command)?;
    command.spawn()
}

/// The end of a log, in whole lines.
fn log_tail(path: &Path) -> String {
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

/// Processor time that a process has used, user and system; none if there is no such process.
pub fn cpu_time_of(process: u32) -> Option<Duration> {
    parse_cpu_time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// User and system time of `/proc/PID/stat`, fields 14 and 15 (proc_pid_stat(5)), in ticks of
/// 10 ms, the USER_HZ of every architecture that runs this. The name before may contain anything.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
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
}
