//! Where prefixes lead and which strategies they have, as the management decides it; and the
//! regions of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use plexus_ndn::fib::{Fib, FibError, FibReader, NextHop};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Plan;
use plexus_ndn::strategy::StrategyError;
use plexus_table::names::NameLimits;
use plexus_wire::ndn::{Name, NameBuf};

/// The control side's tables.
pub(super) struct Routing {
    hasher: NameHasher,
    fib: Fib,
    /// Strategies by prefix, by their full names.
    choices: BTreeMap<NameBuf, NameBuf>,
    /// The regions that this node is in.
    regions: Vec<NameBuf>,
}

impl Routing {
    pub(super) fn new(hasher: NameHasher, limits: NameLimits) -> Result<Routing, FibError> {
        let fib = Fib::new(hasher, limits)?;
        Ok(Routing { hasher, fib, choices: BTreeMap::new(), regions: Vec::new() })
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

    /// Gives a prefix another strategy, by its full name; `None`: the next shorter prefix's. What
    /// comes of it is the plan.
    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<Arc<Plan>, StrategyError> {
        let old = match strategy {
            None => self.choices.remove(prefix.value()),
            Some(strategy) => self.choices.insert(prefix.to_buf(), strategy.clone()),
        };
        self.plan().inspect_err(|_| {
            match old {
                Some(old) => self.choices.insert(prefix.to_buf(), old),
                None => self.choices.remove(prefix.value()),
            };
        })
    }

    /// Takes other regions. What comes of it is the plan.
    pub(super) fn set_regions(&mut self, regions: &[NameBuf]) -> Result<Arc<Plan>, StrategyError> {
        self.regions = regions.to_vec();
        self.plan()
    }

    /// The strategies and regions of now.
    pub(super) fn plan(&self) -> Result<Arc<Plan>, StrategyError> {
        let choices: Vec<_> = self.choices.iter().map(|(p, s)| (p.clone(), s.clone())).collect();
        Plan::new(&self.hasher, &choices, self.regions.clone()).map(Arc::new)
    }
}
