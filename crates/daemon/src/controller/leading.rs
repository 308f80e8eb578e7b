//! The controller leads, or stands by, as its lease on leadership says.

use std::time::Duration;

use plexus_api::answer::fabric::{ControllerRole, Controllers, KnownController};
use plexus_config::{ControllerFile, EtcdSettings};
use plexus_controller::reign::Follows;
use plexus_controller::tenure::{Answer, Known, Output, Role, Times, Why};
use plexus_controller::{Input, Record, Start};
use plexus_io::clock::unix_ms;
use plexus_keeper::{Etcd, File, Keeper};
use plexus_wire::Time;
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;

use super::{Daemon, check_own_key};
use crate::identity;

/// The store of a controller's file, for one of this name.
///
/// # Errors
/// In words, when it cannot be used.
pub(super) fn keeper(
    file: &ControllerFile,
    name: &str,
    group: &[u8; 16],
    wake: impl Fn() + Send + Sync + 'static,
) -> Result<Box<dyn Keeper>, String> {
    Ok(match &file.etcd {
        None => Box::new(File::open(&file.state)?),
        Some(etcd) => Box::new(Etcd::start(etcd, name, group, &file.state, wake)?),
    })
}

/// The times of a controller's file.
pub(super) fn times(file: &ControllerFile) -> Times {
    let shared = |etcd: &EtcdSettings| Times::shared(etcd.lease, file.heartbeat);
    file.etcd.as_ref().map_or(Times::ALONE, shared)
}

/// Clocks that differ by no more seconds agree: reports are a moment old.
const CLOCKS_AGREE: u64 = 5;

impl Daemon {
    /// Takes the store's answers and news. True if there were any.
    pub(super) fn hear_keeper(&mut self, now: Time) -> bool {
        // A lease that has ended meanwhile comes first.
        self.reign.tenure.run(now);
        self.follow_tenure(now);
        let mut has_heard = false;
        while let Some(answer) = self.keeper.poll() {
            has_heard = true;
            // A write to a slow disk takes its time.
            let now = self.now();
            match &answer {
                Answer::Trouble(why) => {
                    self.done.not_stored += 1;
                    tracing::error!(store = self.keeper.describe(), "{why}");
                    self.store_trouble = Some(why.clone());
                }
                Answer::Written { .. } => {
                    self.done.stored += 1;
                    self.store_trouble = None;
                }
                Answer::Leased { .. } | Answer::Kept { .. } | Answer::Won { .. } => {
                    self.store_trouble = None;
                }
                _ => {}
            }
            self.reign.hear(now, answer);
            self.follow_tenure(now);
        }
        has_heard
    }

    /// Carries out what the tenure wants.
    pub(super) fn follow_tenure(&mut self, now: Time) {
        while let Some(output) = self.reign.poll_output(now) {
            match output {
                Output::Ask(ask) => self.keeper.ask(ask),
                Output::Lead { epoch, stored } => self.lead(now, epoch, stored),
                Output::Doubt(true) => {
                    tracing::warn!("the lease on leadership may have ended: no promises");
                }
                Output::Doubt(false) => {
                    tracing::info!("the lease on leadership holds again");
                }
                Output::Retire(why) => {
                    match why {
                        Why::Elected => tracing::info!("no longer leads provisionally: {why}"),
                        _ => tracing::warn!("stands by: {why}"),
                    }
                    self.hub.stand_by(now);
                }
            }
        }
    }

    fn lead(&mut self, now: Time, epoch: u64, stored: Vec<Record>) {
        let seed = match identity::random() {
            Ok(seed) => seed,
            Err(error) => {
                tracing::error!(error, "cannot lead");
                return self.reign.tenure.drain(now);
            }
        };
        let own_s = unix_ms() / 1000;
        let unix_s = self.reign.tenure.time_of_day(now, own_s);
        if unix_s.abs_diff(own_s) > CLOCKS_AGREE {
            let wrong_by = own_s as i64 - unix_s as i64;
            tracing::warn!(
                wrong_by,
                "this clock is so many seconds ahead of those of the other controllers, which \
                 count: set it right (`timedatectl`)"
            );
        }
        let provisional = epoch == PROVISIONAL_EPOCH;
        match provisional {
            false => tracing::info!(epoch, leases = stored.len(), "leads"),
            true => tracing::warn!(
                "leads provisionally, because neither the store nor a leader is heard: hosts get \
                 routes, and no promises"
            ),
        }
        let config = self.settings.clone();
        let start = Start { config, epoch, provisional, now, unix_s, stored, seed };
        let core = self.reign.lead(start);
        core.handle(now, Input::Attached { to: self.attached });
        for input in self.devices.again() {
            core.handle(now, input);
        }
        if let Some(kept) = core.unreadable_common() {
            tracing::error!(
                version = kept.version,
                "this controller cannot read the common file, which plexus {} has kept: nodes go \
                 on with it, and its [[revoked]] and [[drained]] are not in force. Update this \
                 controller",
                kept.plexus
            );
        }
        let common =
            core.common_file().map(|(_, file)| check_own_key(&file.revoked, &self.hub.key()));
        let has_common = common.is_some();
        if let Some(Err(why)) = common {
            tracing::error!("cannot lead: {why}");
            return self.reign.tenure.drain(now);
        }
        self.hub.lead(now, epoch);
        if has_common {
            self.configure(now);
        }
    }

    /// Begins or ends to follow the nodes, as the leader record says.
    pub(super) fn follow(&mut self, now: Time) {
        // The core of a follower keeps no secret: its numbers need not be guessed with effort.
        let seed = || identity::random().unwrap_or_default();
        match self.reign.follow(now, &self.settings, seed) {
            Some(Follows::Began) => {
                tracing::info!("follows the nodes");
                self.reign.handle(now, Input::Attached { to: self.attached });
                self.hub.follow();
            }
            Some(Follows::Ended) => self.hub.stand_by(now),
            None => {}
        }
    }

    /// Hands over to another controller, if there is one.
    ///
    /// # Errors
    /// In words, if there is nothing to hand over, or nobody to hand it to.
    pub(super) fn drain(&mut self, now: Time) -> Result<(), String> {
        if !matches!(self.reign.tenure.role(), Role::Leading { .. }) {
            return Err(match self.reign.tenure.leader() {
                Some(leader) => format!("{} leads, not this one: ask it to drain", leader.name),
                None => "no controller leads now".into(),
            });
        }
        if !self.reign.tenure.has_successor(now) {
            return Err("no other controller of the group is ready: nothing is handed over".into());
        }
        self.reign.tenure.drain(now);
        self.carry_out(now);
        Ok(())
    }

    pub(super) fn controllers(&self) -> Controllers {
        let now = self.now();
        let known = |(name, known): (&str, &Known)| KnownController {
            name: name.to_string(),
            attached: known.member.attached,
            nodes: known.member.nodes,
            reported_s: now.since(known.at).as_secs_f64(),
        };
        let lease_left =
            self.reign.tenure.lease_left(now).filter(|left| *left < Duration::from_secs(1 << 32));
        Controllers {
            controller: self.own.1.clone(),
            role: match self.reign.tenure.role() {
                _ if self.reign.tenure.is_provisional() => ControllerRole::Provisional,
                Role::Standby => ControllerRole::Standby,
                Role::Campaigning { .. } => ControllerRole::Campaigns,
                Role::Leading { in_doubt: false, .. } => ControllerRole::Leads,
                Role::Leading { in_doubt: true, .. } => ControllerRole::InDoubt,
            },
            epoch: self.reign.tenure.leader().map(|leader| leader.epoch),
            leader: self.reign.tenure.leader().map(|leader| leader.name.clone()),
            leader_since_s: now.since(self.reign.tenure.leader_since()).as_secs_f64(),
            store: self.keeper.describe(),
            trouble: self.store_trouble.clone(),
            lease_left_s: lease_left.map(|left| left.as_secs_f64()),
            controllers: self.reign.tenure.members().map(known).collect(),
        }
    }
}
