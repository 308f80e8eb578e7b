//! How a daemon comes to the configuration that it runs: from its file, or back from a trial.
//!
//! A trial is on disk before it begins, so that it ends with the daemon however that ends: a daemon
//! that starts goes back from a trial that it finds ([`Begin`]). Going back runs in the daemon, as
//! the change may have cut its operator off.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use plexus_api::answer::config::{self, Applied, Running, Text};
use plexus_api::{Apply, Config};
use plexus_config::document::read_text;
use plexus_config::with_revoked;
use plexus_io::secret;

use crate::metrics::begin_family;
use crate::socket::{self, Reply, Socket};
use crate::versions::Versions;

/// Longest trial: an operator that needs longer forgets it.
const TRIAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Time between two attempts to go back, where the first one fails.
const AGAIN: Duration = Duration::from_secs(5);

/// Where the files of a box are, and where its daemons keep what they need.
const FILES: &str = "/etc/plexus";
const STATE: &str = "/var/lib/plexus";

/// The comment of an earlier text with the keys that were revoked after it.
const REVOKED_SINCE: &str = "an earlier version, with the keys revoked since";

/// Adopts a text, to go forth or back; the error says why not, and then nothing has changed.
type Adopt = Box<dyn Fn(&str, Way) -> Result<(), String> + Send + Sync>;

/// The reason why a text is adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// An operator has changed it.
    Forth,
    /// A trial has ended: the earlier text has to run.
    Back,
}

/// Where a daemon keeps its own data: in the state of the box's daemons, or beside a file that is
/// elsewhere.
pub(crate) fn beside(config: &Path, extension: &str) -> PathBuf {
    let path = config.with_extension(extension);
    match (config.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent == Path::new(FILES) => Path::new(STATE).join(name),
        _ => path,
    }
}

/// The text that a daemon starts with.
pub(crate) struct Begin {
    config: PathBuf,
    /// The text: that of the file, or an earlier one after a trial.
    pub(crate) text: String,
    versions: Result<Versions, String>,
}

impl Begin {
    /// Reads the file.
    ///
    /// # Errors
    /// In words, when it cannot be read.
    pub(crate) fn read(config: &Path) -> Result<Begin, String> {
        let config = std::path::absolute(config).map_err(|e| e.to_string())?;
        let text = read_text(&config).map_err(|e| e.to_string())?;
        let versions = Versions::open(&beside(&config, "versions"));
        Ok(Begin { config, text, versions })
    }

    /// If the daemon ended during a trial, the text before it returns. Only who has the control
    /// socket may call this: another daemon of the name may be in that trial.
    ///
    /// # Errors
    /// In words, when the earlier text cannot be read.
    pub(crate) fn resume(&mut self) -> Result<(), String> {
        match &mut self.versions {
            Err(why) => tracing::warn!("no versions of the configuration are kept: {why}"),
            Ok(versions) => {
                if let Some(earlier) = resume(&self.config, versions, &self.text)? {
                    self.text = earlier;
                }
            }
        }
        Ok(())
    }

    /// Claims the control socket that the text names, then decides about the text, and reads it by
    /// `read`. A text that cannot be read names no socket: then the text that returns does.
    ///
    /// # Errors
    /// In words, when another daemon has the socket, or the text is wrong.
    pub(crate) fn claim<F>(
        &mut self,
        read: impl Fn(&str) -> Result<F, String>,
        control: impl Fn(&F) -> &Path,
    ) -> Result<(F, (UnixListener, Socket)), String> {
        let first = read(&self.text).ok();
        let claimed = first.as_ref().map(|file| socket::claim(control(file))).transpose()?;
        self.resume()?;
        let file = read(&self.text).map_err(|why| self.explain(why))?;
        let is_same = first.is_some_and(|first| control(&first) == control(&file));
        let claimed = match claimed.filter(|_| is_same) {
            Some(claimed) => claimed,
            None => socket::claim(control(&file))?,
        };
        Ok((file, claimed))
    }

    /// The path of the file.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// The file, as messages call it.
    pub(crate) fn shown(&self) -> String {
        self.config.display().to_string()
    }

    /// Adds to an error whether a newer program has run this text.
    pub(crate) fn explain(&self, error: String) -> String {
        let version = self.versions.as_ref().ok().and_then(|versions| versions.find(&self.text));
        let own = env!("CARGO_PKG_VERSION");
        match version.filter(|version| version.plexus != own) {
            Some(v) => format!(
                "{error}\n\nplexus {} kept this text as version {}, and this is plexus {own}",
                v.plexus, v.number
            ),
            None => error,
        }
    }
}

/// Decides between the file's text and an earlier one, which it returns.
fn resume(config: &Path, versions: &mut Versions, text: &str) -> Result<Option<String>, String> {
    let index = versions.index.clone();
    match (index.running, index.back_to, index.withdrawn) {
        (Some(version), Some(back_to), _) => {
            tracing::warn!(
                "version {version} was on trial when the daemon ended: version {back_to} returns"
            );
            let (on_trial, back) = match (versions.text(version), versions.text(back_to)) {
                (Ok(on_trial), Ok(back)) => (on_trial, back),
                (Err(why), _) | (_, Err(why)) => {
                    tracing::warn!("there is no way back, so the file's text runs: {why}");
                    return Ok(None);
                }
            };
            let (back_to, back) = match with_revoked(&back, &[&on_trial, text]) {
                Some(with) => (versions.add(&with, REVOKED_SINCE, true).unwrap_or(back_to), with),
                None => (back_to, back),
            };
            let ended = Ended { version, text: &on_trial, back_to, back: &back };
            ended.withdraw(config, versions).iter().for_each(|note| tracing::warn!("{note}"));
            Ok(Some(back))
        }
        (Some(running), None, Some(withdrawn))
            if versions.text(withdrawn).is_ok_and(|withdrawn| withdrawn == text) =>
        {
            tracing::warn!(
                "{} has version {withdrawn}, which was not confirmed: version {running} runs",
                config.display()
            );
            Ok(versions.text(running).inspect_err(|why| tracing::warn!("{why}")).ok())
        }
        _ => Ok(None),
    }
}

/// A trial that ends by going back.
struct Ended<'a> {
    version: u64,
    text: &'a str,
    back_to: u64,
    back: &'a str,
}

impl Ended<'_> {
    /// Puts the file and the index back; returns what a person has to know. An edit of the file
    /// meanwhile is kept as a version.
    fn withdraw(&self, config: &Path, versions: &mut Versions) -> Vec<String> {
        let mut notes = Vec::new();
        versions.index.running = Some(self.back_to);
        versions.index.back_to = None;
        versions.index.withdrawn = None;
        let found = read_text(config).map_err(|e| e.to_string());
        if found.as_deref() != Ok(self.back)
            && let Some(holds) = self.holds(found, config, versions, &mut notes)
            && let Err(e) = secret::replace(config, self.back)
        {
            versions.index.withdrawn = Some(holds);
            let (file, runs) = (config.display(), self.back_to);
            notes.push(match e.kind() {
                ErrorKind::NotFound => format!(
                    "{file} is gone: version {runs} runs, and no start finds it. `plexus config \
                     show` prints it"
                ),
                _ => format!(
                    "{file} still has version {holds}, since the daemon may not write it ({e}): \
                     version {runs} runs, also after a restart, and `plexus config rollback` with \
                     that number writes it into the file"
                ),
            });
        }
        notes.extend(versions.save().err());
        notes
    }

    /// The version that the file has. `None`: none, and it must stay as it is.
    fn holds(
        &self,
        found: Result<String, String>,
        config: &Path,
        versions: &mut Versions,
        notes: &mut Vec<String>,
    ) -> Option<u64> {
        let Some(edited) = found.ok().filter(|found| found != self.text) else {
            return Some(self.version);
        };
        let shown = config.display();
        let known = versions.find(&edited).map(|version| version.number);
        let comment = format!("edited during the trial of version {}, not applied", self.version);
        match known.map_or_else(|| versions.add(&edited, &comment, false), Ok) {
            Ok(number) => {
                notes.push(format!("{shown} was edited meanwhile: that text is version {number}"));
                Some(number)
            }
            Err(why) => {
                notes.push(format!("{shown} was edited meanwhile and stays as it is: {why}"));
                None
            }
        }
    }
}

/// The configuration of a running daemon.
pub(crate) struct Adoption {
    name: String,
    config: PathBuf,
    adopt: Adopt,
    /// Held from reading the file to having adopted it, so that the text read last is the one in
    /// force.
    state: Mutex<State>,
    own: Weak<Adoption>,
}

struct State {
    /// The text in force.
    running: String,
    /// The kept versions, or why none are kept.
    versions: Result<Versions, String>,
    trial: Option<Trial>,
}

/// The version in force is on trial.
struct Trial {
    version: u64,
    back_to: u64,
    /// The text that returns.
    back: String,
    until: Instant,
    /// The thread that waits for the end goes when this is dropped.
    _waiter: Sender<()>,
}

impl Trial {
    fn shown(&self) -> config::Trial {
        let left = self.until.saturating_duration_since(Instant::now());
        let left_s = left.as_millis().div_ceil(1000) as u64;
        config::Trial { version: self.version, back_to: self.back_to, left_s }
    }
}

impl Adoption {
    /// Of a daemon that has started with this text. If versions are kept already and this is none
    /// of them, it becomes one.
    pub(crate) fn new(
        name: &str,
        begin: Begin,
        adopt: impl Fn(&str, Way) -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<Adoption> {
        let Begin { config, text, mut versions } = begin;
        if let Ok(versions) = &mut versions
            && let Some(running) = versions.index.running
            && versions.text(running).as_ref() != Ok(&text)
        {
            let kept = versions.add(&text, "found at the start", true).and_then(|number| {
                versions.index.running = Some(number);
                versions.index.withdrawn = None;
                versions.save()
            });
            kept.unwrap_or_else(|why| tracing::warn!("{why}"));
        }
        Arc::new_cyclic(|own| Adoption {
            name: name.into(),
            config,
            adopt: Box::new(adopt),
            state: Mutex::new(State { running: text, versions, trial: None }),
            own: own.clone(),
        })
    }

    /// Answers a request of the control socket.
    ///
    /// # Errors
    /// In words for the client.
    pub(crate) fn answer(&self, request: Config) -> Result<Reply, String> {
        match request {
            Config::Running(_) => Ok(Reply::Running(Box::new(self.running()))),
            Config::Versions(_) => self.versions().map(Reply::Versions),
            Config::Text(version) => {
                let text = self.lock().kept()?.text(version)?;
                Ok(Reply::Text(Text { version, text }))
            }
            Config::Keep(comment) => self.keep(&comment).map(Reply::Applied),
            Config::Apply(apply) => self.apply(&apply).map(Reply::Applied),
            Config::Confirm(_) => self.confirm().map(Reply::Applied),
            Config::Back(_) => {
                let mut state = self.lock();
                self.go_back(&mut state).map(Reply::Applied)
            }
        }
    }

    /// Reads the file again, as on SIGHUP.
    ///
    /// # Errors
    /// When it cannot be adopted; nothing was changed.
    pub(crate) fn reload(&self) -> Result<(), String> {
        self.apply(&Apply { comment: "reload".into(), ..Apply::default() })
            .map(|applied| applied.notes.iter().for_each(|note| tracing::warn!("{note}")))
    }

    /// The version in force and the seconds of its trial, for Prometheus. `label` says what the
    /// daemon is.
    pub(crate) fn metrics(&self, label: &str) -> String {
        let state = self.lock();
        let version = state.version().unwrap_or(0);
        let left = state.trial.as_ref().map_or(0, |trial| trial.shown().left_s);
        let mut out = String::new();
        for (key, help, value) in [
            (
                "plexus_config_version",
                "Version of the configuration in force, 0 if unknown",
                version,
            ),
            ("plexus_config_trial_seconds", "Seconds until an unconfirmed version is left", left),
        ] {
            begin_family(&mut out, key, help, "gauge");
            out.push_str(&format!("{key}{{{label}=\"{}\"}} {value}\n", self.name));
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves the data valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> Running {
        let state = self.lock();
        Running {
            name: self.name.clone(),
            file: self.config.display().to_string(),
            text: state.running.clone(),
            version: state.version(),
            trial: state.trial.as_ref().map(Trial::shown),
            common: None,
        }
    }

    fn versions(&self) -> Result<config::Versions, String> {
        let mut state = self.lock();
        let trial = state.trial.as_ref().map(Trial::shown);
        let versions = state.kept()?;
        Ok(config::Versions {
            name: self.name.clone(),
            folder: versions.folder().display().to_string(),
            running: versions.index.running,
            trial,
            versions: versions.index.versions.clone(),
        })
    }

    /// Keeps the file's text as a version, unless it is one.
    fn keep(&self, comment: &str) -> Result<Applied, String> {
        let mut state = self.lock();
        let text = read_text(&self.config).map_err(|e| e.to_string())?;
        let mut notes = Vec::new();
        if text != state.running && state.kept()?.find(&text).is_none() {
            let number = state.change(|versions| versions.add(&text, comment, false))?;
            notes.push(format!("what the file had is version {number}"));
        }
        Ok(state.applied(notes))
    }

    fn apply(&self, how: &Apply) -> Result<Applied, String> {
        let mut state = self.lock();
        let text = read_text(&self.config).map_err(|e| e.to_string())?;
        let is_new = text != state.running;
        if let Some(trial) = &state.trial
            && (is_new || how.confirm_within_s.is_some())
        {
            return Err(format!(
                "version {} is on trial: `plexus config confirm {}` keeps it, and `plexus config \
                 rollback {}` leaves it",
                trial.version, self.name, self.name
            ));
        }
        match how.confirm_within_s {
            Some(seconds) if is_new => self.try_out(&mut state, text, &how.comment, seconds),
            within => {
                (self.adopt)(&text, Way::Forth)?;
                let mut notes = Vec::new();
                if is_new {
                    let kept = state.keep_change(&text, &how.comment, true);
                    notes.extend(kept.err().map(|why| format!("it runs, and is not kept: {why}")));
                    state.running = text;
                } else if state.version_withdrawn() {
                    // The file has what runs again.
                    state.change(|versions| {
                        versions.index.withdrawn = None;
                        Ok(())
                    })?;
                } else if within.is_some() {
                    notes.push("the file has what runs already: there is no trial".into());
                }
                Ok(state.applied(notes))
            }
        }
    }

    /// Adopts a text for a while.
    fn try_out(
        &self,
        state: &mut State,
        text: String,
        comment: &str,
        seconds: u64,
    ) -> Result<Applied, String> {
        let lasts = Duration::from_secs(seconds);
        if lasts.is_zero() || lasts > TRIAL_MAX {
            return Err("a trial lasts from one second to a day".into());
        }
        let (waiter, end) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let own = self.own.clone();
        // Started first: a trial without it would have no end.
        std::thread::Builder::new()
            .name("trial".into())
            .spawn(move || {
                let Ok((version, lasts)) = begun.recv() else { return };
                if end.recv_timeout(lasts) == Err(RecvTimeoutError::Timeout) {
                    Adoption::expire(&own, version);
                }
            })
            .map_err(|e| format!("starting a thread for the trial: {e}"))?;
        let before = state.kept()?.index.clone();
        let (version, back_to) = state.keep_change(&text, comment, false)?;
        if let Err(why) = (self.adopt)(&text, Way::Forth) {
            let undone = state.change(|versions| {
                versions.undo(before);
                Ok(())
            });
            return Err(undone.err().map_or(why.clone(), |e| format!("{why}; {e}")));
        }
        let back = std::mem::replace(&mut state.running, text);
        let until = Instant::now() + lasts;
        state.trial = Some(Trial { version, back_to, back, until, _waiter: waiter });
        // The thread waits for it.
        let _ = begin.send((version, lasts));
        tracing::info!("version {version} is on trial for {seconds} s");
        Ok(state.applied(vec![]))
    }

    fn confirm(&self) -> Result<Applied, String> {
        let mut state = self.lock();
        let trial = state.trial.as_ref().map(|trial| trial.version);
        let version = trial.ok_or("no version is on trial: nothing to confirm")?;
        state.change(|versions| {
            versions.index.back_to = None;
            let its = versions.index.versions.iter_mut().find(|v| v.number == version);
            its.into_iter().for_each(|its| its.good = true);
            Ok(())
        })?;
        state.trial = None;
        tracing::info!("version {version} is confirmed");
        Ok(state.applied(vec![]))
    }

    /// Goes back from the trial.
    fn go_back(&self, state: &mut State) -> Result<Applied, String> {
        let trial = state.trial.as_ref().ok_or("no version is on trial")?;
        let (version, mut back_to, mut back) = (trial.version, trial.back_to, trial.back.clone());
        let file = read_text(&self.config).unwrap_or_default();
        let mut notes = Vec::new();
        if let Some(with) = with_revoked(&back, &[&state.running, &file]) {
            // An earlier attempt may have kept it.
            let known = state.kept().ok().and_then(|versions| versions.find(&with)?.number.into());
            let add = |versions: &mut Versions| versions.add(&with, REVOKED_SINCE, true);
            let kept = known.map_or_else(|| state.change(add), Ok);
            notes.extend(kept.as_ref().err().cloned());
            (back_to, back) = (kept.unwrap_or(back_to), with);
        }
        (self.adopt)(&back, Way::Back)?;
        let ended = Ended { version, text: &state.running, back_to, back: &back };
        match &mut state.versions {
            Ok(versions) => notes.extend(ended.withdraw(&self.config, versions)),
            Err(why) => notes.push(why.clone()),
        }
        tracing::warn!("back from version {version} to {back_to}");
        (state.running, state.trial) = (back, None);
        Ok(state.applied(notes))
    }

    /// The time of a trial is over. Going back can fail, as when a device of an earlier port is
    /// gone: then it is tried again.
    fn expire(own: &Weak<Adoption>, version: u64) {
        while let Some(own) = own.upgrade() {
            let mut state = own.lock();
            if state.trial.as_ref().is_none_or(|trial| trial.version != version) {
                return;
            }
            tracing::warn!("version {version} was not confirmed in time");
            match own.go_back(&mut state) {
                Ok(applied) => {
                    applied.notes.iter().for_each(|note| tracing::warn!("{note}"));
                    return;
                }
                Err(why) => tracing::error!("going back from version {version} failed: {why}"),
            }
            drop(state);
            drop(own);
            std::thread::sleep(AGAIN);
        }
    }
}

impl State {
    /// The version in force.
    fn version(&self) -> Option<u64> {
        self.versions.as_ref().ok().and_then(|versions| versions.index.running)
    }

    /// Whether the file had a version that was left.
    fn version_withdrawn(&self) -> bool {
        self.versions.as_ref().is_ok_and(|versions| versions.index.withdrawn.is_some())
    }

    fn applied(&self, notes: Vec<String>) -> Applied {
        let trial = self.trial.as_ref().map(Trial::shown);
        Applied { version: self.version(), trial, notes }
    }

    fn kept(&mut self) -> Result<&mut Versions, String> {
        self.versions.as_mut().map_err(|why| format!("no versions are kept: {why}"))
    }

    /// Changes what is kept, on disk too: all of it, or nothing.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Versions) -> Result<T, String>,
    ) -> Result<T, String> {
        let versions = self.kept()?;
        let before = versions.index.clone();
        let changed = change(versions).and_then(|done| versions.save().map(|()| done));
        changed.inspect_err(|_| versions.undo(before))
    }

    /// Keeps a text that comes into force, and before the first such the one in force. `good`: it
    /// is not on trial. Returns its version, and the one before.
    fn keep_change(&mut self, text: &str, comment: &str, good: bool) -> Result<(u64, u64), String> {
        let now = self.running.clone();
        self.change(|versions| {
            let before = match versions.index.running {
                Some(running) if versions.text(running).as_ref() == Ok(&now) => running,
                // None is kept, or the last change could not be.
                _ => versions.add(&now, "before the first change", true)?,
            };
            let number = versions.add(text, comment, good)?;
            versions.index.running = Some(number);
            versions.index.back_to = (!good).then_some(before);
            versions.index.withdrawn = None;
            Ok((number, before))
        })
    }
}

#[cfg(test)]
mod tests;
