//! Next hops and strategies of prefixes, as the management sets them; and the regions of the file.

use std::collections::BTreeMap;

use plexus_ndn::fib::{FibError, NextHop};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::{Plan, Published};
use plexus_ndn::strategy::StrategyError;
use plexus_wire::ndn::{Name, NameBuf};

use super::replicas::Replicas;

/// The control side's tables.
pub(super) struct Routing {
    hasher: NameHasher,
    pub(super) fib: Replicas,
    published: Published,
    /// Strategies by prefix, by their full names.
    choices: BTreeMap<NameBuf, NameBuf>,
    /// The regions that this node is in.
    regions: Vec<NameBuf>,
}

impl Routing {
    pub(super) fn new(hasher: NameHasher, fib: Replicas) -> Result<Routing, StrategyError> {
        let (choices, regions) = (BTreeMap::new(), Vec::new());
        let published = Published::new(plan(&hasher, &choices, &regions)?);
        Ok(Routing { hasher, fib, published, choices, regions })
    }

    /// Where the plan is.
    pub(super) fn published(&self) -> &Published {
        &self.published
    }

    /// Sets the next hops of a prefix. Without any it leaves the FIB.
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

    /// Sets the strategy of a prefix by its full name; `None`: that of the next shorter prefix. The
    /// new plan is published.
    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        let old = match strategy {
            None => self.choices.remove(prefix.value()),
            Some(strategy) => self.choices.insert(prefix.to_buf(), strategy.clone()),
        };
        self.publish().inspect_err(|_| {
            match old {
                Some(old) => self.choices.insert(prefix.to_buf(), old),
                None => self.choices.remove(prefix.value()),
            };
        })
    }

    /// Takes other regions.
    pub(super) fn set_regions(&mut self, regions: &[NameBuf]) -> Result<(), StrategyError> {
        self.regions = regions.to_vec();
        self.publish()
    }

    fn publish(&self) -> Result<(), StrategyError> {
        self.published.publish(plan(&self.hasher, &self.choices, &self.regions)?);
        Ok(())
    }
}

/// What workers read of this.
fn plan(
    hasher: &NameHasher,
    choices: &BTreeMap<NameBuf, NameBuf>,
    regions: &[NameBuf],
) -> Result<Plan, StrategyError> {
    let choices: Vec<_> = choices.iter().map(|(p, s)| (p.clone(), s.clone())).collect();
    Plan::new(hasher, &choices, regions.to_vec())
}
