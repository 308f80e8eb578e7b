//! A controller's tenure and its core: one that leads, or one that follows. The core that leads
//! hears that something is stored only while the lease on leadership holds, so nothing is promised
//! in doubt.

use plexus_wire::Time;

use crate::tenure::{Answer, Member, Output, Role, Tenure};
use crate::{Config, Controller, Input, Other, Others, Start};

/// A change for the driver: the sessions with nodes are to follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It follows now.
    Began,
    /// It does not follow any more.
    Ended,
}

/// A tenure and a core, for a driver that has the clock and the store.
#[derive(Debug)]
pub struct Reign {
    /// Decides whether it leads.
    pub tenure: Tenure,
    /// Only while it leads; [`lead`](Self::lead) puts it in.
    pub core: Option<Controller>,
    /// Only while it stands by and another one leads.
    pub follower: Option<Controller>,
    /// How often it has begun to follow.
    follows: u32,
    /// The others, as the core was told last.
    told: Option<Others>,
    /// The last ticket that is durable and not yet promised.
    stored: Option<u64>,
}

impl Reign {
    /// One that stands by.
    pub fn new(tenure: Tenure) -> Reign {
        Reign { tenure, core: None, follower: None, follows: 0, told: None, stored: None }
    }

    /// Begins to lead, with what it has learned while it followed.
    pub fn lead(&mut self, start: Start) -> &mut Controller {
        let now = start.now;
        let mut core = Controller::new(start);
        if let Some(follower) = self.follower.take() {
            core.inherit(follower, now);
        }
        self.told = None;
        self.core.insert(core)
    }

    /// The core, whether it leads or follows.
    fn any_core(&mut self) -> Option<&mut Controller> {
        self.core.as_mut().or(self.follower.as_mut())
    }

    /// Table sizes of the core.
    pub fn counts(&self) -> Option<crate::Counts> {
        self.core.as_ref().or(self.follower.as_ref()).map(Controller::counts)
    }

    /// Hands the core an input.
    pub fn handle(&mut self, now: Time, input: Input) {
        if let Some(core) = self.any_core() {
            core.handle(now, input);
        }
    }

    /// The core's next output.
    pub fn poll_core(&mut self) -> Option<crate::Output> {
        self.any_core()?.poll_output()
    }

    /// When the tenure or the core is to be run.
    pub fn next_deadline(&self) -> Time {
        let core = self.core.as_ref().or(self.follower.as_ref());
        let core = core.map_or(Time::FOREVER, Controller::next_deadline);
        core.min(self.tenure.next_deadline())
    }

    /// Begins or ends to follow, as the leader record says. Without a leader it goes on: another
    /// one will lead. Without the store it ends, because it cannot hear of that one.
    pub fn follow(
        &mut self,
        now: Time,
        config: &Config,
        seed: impl FnOnce() -> [u8; 32],
    ) -> Option<Follows> {
        let leads = matches!(self.tenure.role(), Role::Leading { .. });
        let stands_by = !leads && !self.tenure.is_provisional();
        let leader = self.tenure.leader().filter(|leader| self.tenure.is_other(leader));
        match (&mut self.follower, leader.map(|leader| leader.epoch)) {
            (Some(_), _) if !stands_by || !self.tenure.knows_leader() => {
                self.follower = None;
                Some(Follows::Ended)
            }
            (Some(follower), Some(epoch)) if follower.epoch() != epoch => {
                follower.follow_epoch(epoch);
                None
            }
            (None, Some(epoch)) if stands_by => {
                self.follows += 1;
                self.follower = Some(Controller::follower(config.clone(), epoch, now, seed()));
                Some(Follows::Began)
            }
            _ => None,
        }
    }

    /// Processes an answer or news of the store.
    pub fn hear(&mut self, now: Time, answer: Answer) {
        // A lease that has ended meanwhile comes first.
        self.tenure.run(now);
        match answer {
            Answer::Written { epoch, ticket } => {
                // Tickets of an earlier reign mean nothing to a later one.
                if self.core.as_ref().is_some_and(|core| core.epoch() == epoch) {
                    self.stored = Some(ticket);
                    self.promise(now);
                }
            }
            answer => self.tenure.answer(now, answer),
        }
    }

    /// The next thing to do. A core that retires has ended by then.
    pub fn poll_output(&mut self, now: Time) -> Option<Output> {
        let output = self.tenure.poll_output()?;
        match output {
            Output::Doubt(in_doubt) => {
                self.promise(now);
                if let Some(core) = &mut self.core {
                    core.handle(now, Input::Doubt(in_doubt));
                }
            }
            Output::Retire(_) => (self.core, self.stored) = (None, None),
            Output::Ask(_) | Output::Lead { .. } => {}
        }
        Some(output)
    }

    /// Does everything that is due in core and tenure; `unix_s` is the time of day by this clock.
    pub fn run(&mut self, now: Time, unix_s: u64) {
        if let Some(core) = self.any_core()
            && core.next_deadline() <= now
        {
            core.handle(now, Input::Tick);
        }
        // Leading begins anew, with another epoch. Provisional leaders have no other.
        if self.is_sure() && self.core.as_ref().is_some_and(|core| core.flows.is_spent()) {
            self.tenure.renew(now);
        }
        if self.tenure.next_deadline() > now {
            return;
        }
        let core = self.core.as_ref().or(self.follower.as_ref());
        let nodes = core.map_or(0, Controller::nodes_up);
        let settings = core.map_or(0, Controller::settings_digest);
        let (number, follows) = (self.tenure.number(), self.follows);
        self.tenure.describe(Member {
            nodes,
            unix_s,
            number,
            settings,
            follows,
            ..Member::default()
        });
        self.tenure.run(now);
        self.tell_others(now);
    }

    /// Tells the core that leads of the controllers that stand by.
    fn tell_others(&mut self, now: Time) {
        let Some(core) = self.core.as_mut().filter(|_| self.tenure.is_shared()) else { return };
        let (settings, own) = (core.settings_digest(), self.tenure.number());
        let others = self.tenure.members().map(|(_, known)| known.member);
        let others = others.filter(|m| m.attached && m.number != 0 && m.number != own);
        let others: Others = others
            .map(|m| {
                let is_alike = m.settings == settings;
                (m.number, Other { is_alike, follows: m.follows })
            })
            .collect();
        if self.told.as_ref() != Some(&others) {
            self.told = Some(others.clone());
            core.handle(now, Input::Others(others));
        }
    }

    /// Whether it leads and may promise something.
    pub fn is_sure(&self) -> bool {
        matches!(self.tenure.role(), Role::Leading { in_doubt: false, .. })
    }

    /// Tells the core what is durable, unless the lease may have ended: it then promises it.
    fn promise(&mut self, now: Time) {
        if let (true, Some(core)) = (self.is_sure(), &mut self.core)
            && let Some(ticket) = self.stored.take()
        {
            core.handle(now, Input::Stored { ticket });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tenure::{Ask, Times};

    /// Leads with this epoch once the store, which one controller has for itself, grants it.
    fn leads(reign: &mut Reign, now: Time, epoch: u64) {
        let mut led = None;
        reign.run(now, 0);
        while let Some(output) = reign.poll_output(now) {
            match output {
                Output::Ask(Ask::Lease { asked, .. }) => {
                    reign.hear(now, Answer::Leased { lease: 1, time: None, asked });
                    reign.run(now, 0);
                }
                Output::Ask(Ask::Campaign { lease, .. }) => {
                    reign.hear(now, Answer::Won { lease, epoch, stored: vec![] });
                }
                Output::Lead { epoch, stored } => led = Some((epoch, stored)),
                _ => {}
            }
        }
        let (epoch, stored) = led.expect("it leads");
        let config = Config::default();
        let (provisional, unix_s, seed) = (false, 0, [0; 32]);
        reign.lead(Start { config, epoch, provisional, now, unix_s, stored, seed });
    }

    #[test]
    fn a_leader_gets_another_epoch_before_its_versions_are_used_up() {
        let (lease, silence) = (Duration::from_secs(2), Duration::from_secs(1));
        let mut reign = Reign::new(Tenure::new("c1", 1, Times { lease, report: None, silence }));
        let now = Time::from_secs(1);
        reign.hear(now, Answer::Leader(None));
        leads(&mut reign, now, 5);
        let core = reign.core.as_mut().unwrap();
        core.flows.spend(1 << 30);
        reign.run(now, 0);
        assert_eq!(reign.poll_output(now), None);
        reign.core.as_mut().unwrap().flows.next_version();
        leads(&mut reign, now, 6);
        let core = reign.core.as_mut().unwrap();
        assert_eq!(core.flows.next_version() >> 32, 6);
        // As long as it gets none.
        core.flows.spend(1);
        let versions = [(); 3].map(|()| core.flows.next_version());
        assert_eq!(versions, [(7 << 32) - 1; 3], "that of the next epoch is not used");
    }
}
