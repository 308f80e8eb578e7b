//! Where prefixes lead and which strategies they have, as the management decides it.

use std::collections::BTreeMap;

use plexus_ndn::fib::{Fib, FibError, FibReader, NextHop};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::{Plan, Published};
use plexus_ndn::strategy::StrategyError;
use plexus_table::names::NameLimits;
use plexus_wire::ndn::{Name, NameBuf};

/// The control side's tables.
pub(super) struct Routing {
    hasher: NameHasher,
    fib: Fib,
    published: Published,
    /// Strategies by prefix, by their full names.
    choices: BTreeMap<NameBuf, NameBuf>,
}

impl Routing {
    pub(super) fn new(hasher: NameHasher, limits: NameLimits) -> Result<Routing, StrategyError> {
        let fib = Fib::new(hasher, limits)?;
        let choices = BTreeMap::new();
        let published = Published::new(plan(&hasher, &choices)?);
        Ok(Routing { hasher, fib, published, choices })
    }

    /// Where the plan is.
    pub(super) fn published(&self) -> &Published {
        &self.published
    }

    /// The FIB, for a worker.
    pub(super) fn reader(&self) -> FibReader {
        self.fib.reader()
    }

    /// Gives a prefix other next hops; none: it leaves the FIB.
    pub(super) fn set_next_hops(
        &mut self,
        prefix: Name<'_>,
        hops: &[NextHop],
    ) -> Result<(), FibError> {
        if hops.is_empty() {
            self.fib.remove(prefix);
            return Ok(());
        }
        self.fib.set(prefix, hops)
    }

    /// Gives a prefix another strategy, by its full name; `None`: the next shorter prefix's. The
    /// plan of it is published.
    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        let old = match strategy {
            None => self.choices.remove(prefix.value()),
            Some(strategy) => self.choices.insert(prefix.to_buf(), strategy.clone()),
        };
        match plan(&self.hasher, &self.choices) {
            Ok(plan) => {
                self.published.publish(plan);
                Ok(())
            }
            Err(why) => {
                match old {
                    Some(old) => self.choices.insert(prefix.to_buf(), old),
                    None => self.choices.remove(prefix.value()),
                };
                Err(why)
            }
        }
    }
}

fn plan(hasher: &NameHasher, choices: &BTreeMap<NameBuf, NameBuf>) -> Result<Plan, StrategyError> {
    let choices: Vec<_> = choices.iter().map(|(p, s)| (p.clone(), s.clone())).collect();
    Plan::new(hasher, &choices, Vec::new())
}
