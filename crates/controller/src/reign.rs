//! A controller's tenure and, while it leads, its core. The core hears that something is stored
//! only while the lease on leadership holds, so nothing is promised in doubt.

use plexus_wire::Time;

use crate::tenure::{Answer, Output, Role, Tenure};
use crate::{Controller, Input};

/// A tenure and a core, for a driver that has the clock and the store.
#[derive(Debug)]
pub struct Reign {
    /// Decides whether it leads.
    pub tenure: Tenure,
    /// Only while it leads; the driver puts it in.
    pub core: Option<Controller>,
    /// The last ticket that is durable and not yet promised.
    stored: Option<u64>,
}

impl Reign {
    /// One that stands by.
    pub fn new(tenure: Tenure) -> Reign {
        Reign { tenure, core: None, stored: None }
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
            Output::Doubt(_) => self.promise(now),
            Output::Retire(_) => (self.core, self.stored) = (None, None),
            Output::Ask(_) | Output::Lead { .. } => {}
        }
        Some(output)
    }

    /// Does everything that is due in the tenure; `unix_s` is the time of day by this clock.
    pub fn run(&mut self, now: Time, unix_s: u64) {
        self.tenure.reach(self.core.as_ref().map_or(0, Controller::nodes_up), unix_s);
        self.tenure.run(now);
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
