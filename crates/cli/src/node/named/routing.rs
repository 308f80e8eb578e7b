//! Where prefixes lead and which strategies they have, as the management decides it.

use std::collections::BTreeMap;
use std::sync::Arc;

use plexus_ndn::fib::{Fib, FibError, NextHop};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Plan;
use plexus_ndn::strategy::StrategyError;
use plexus_wire::ndn::{Name, NameBuf};

pub(super) struct Routing {
    hasher: NameHasher,
    hops: BTreeMap<NameBuf, Vec<NextHop>>,
    choices: BTreeMap<NameBuf, NameBuf>,
}

impl Routing {
    pub(super) fn new(hasher: NameHasher) -> Routing {
        Routing { hasher, hops: BTreeMap::new(), choices: BTreeMap::new() }
    }

    pub(super) fn set_next_hops(
        &mut self,
        prefix: Name<'_>,
        hops: &[NextHop],
    ) -> Result<(), FibError> {
        match hops {
            [] => self.hops.remove(&prefix.to_buf()),
            hops => self.hops.insert(prefix.to_buf(), hops.to_vec()),
        };
        Ok(())
    }

    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        match strategy {
            None => self.choices.remove(&prefix.to_buf()),
            Some(strategy) => self.choices.insert(prefix.to_buf(), strategy.clone()),
        };
        Ok(())
    }

    pub(super) fn plan(&self) -> Result<Arc<Plan>, StrategyError> {
        let mut fib = Fib::new(self.hops.len() + 16);
        for (prefix, hops) in &self.hops {
            fib.set(&self.hasher, prefix.as_name(), hops)?;
        }
        let choices: Vec<_> = self.choices.iter().map(|(p, s)| (p.clone(), s.clone())).collect();
        Ok(Arc::new(Plan::new(&self.hasher, Arc::new(fib), &choices, Vec::new())?))
    }
}
