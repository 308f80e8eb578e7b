//! The plan: strategies by prefix, and the regions that this node is in. The control side changes
//! it rarely and workers read it, beside the FIB. A plan is immutable; a change is a new plan,
//! published by pointer.

mod prefixes;

use std::sync::Arc;

use arc_swap::ArcSwap;
use plexus_wire::ndn::{Name, NameBuf, Names};

use crate::fib::{FibError, NameRefused};
use crate::names::{HashedName, NameHasher};
use crate::strategy::{Strategy, StrategyError};
use prefixes::PrefixMap;

/// A strategy chosen for some prefix.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) strategy: Strategy,
    /// The key of its measurements, the same in every plan.
    pub(crate) key: u64,
}

/// The plan.
pub struct Plan {
    choices: PrefixMap,
    instances: Vec<Instance>,
    regions: Vec<NameBuf>,
}

impl Plan {
    /// A plan of strategies (pairs of prefix and strategy name; best route where no prefix
    /// matches), and of the names of the regions whose producers this node reaches (NFD developer
    /// guide, "Network Region Table").
    ///
    /// # Errors
    /// [`StrategyError`]: an unknown strategy name, or a prefix that is too long.
    pub fn new(
        hasher: &NameHasher,
        choices: &[(NameBuf, NameBuf)],
        regions: Vec<NameBuf>,
    ) -> Result<Plan, StrategyError> {
        let mut plan =
            Plan { choices: PrefixMap::new(choices.len() + 1), instances: Vec::new(), regions };
        plan.choose(hasher, Name::ROOT, Strategy::default(), 0)?;
        for (prefix, name) in choices {
            let (strategy, full) = Strategy::from_name(name.as_name())?;
            let key = hasher.bytes(full.as_name().value());
            plan.choose(hasher, prefix.as_name(), strategy, key)?;
        }
        Ok(plan)
    }

    fn choose(
        &mut self,
        hasher: &NameHasher,
        prefix: Name<'_>,
        strategy: Strategy,
        key: u64,
    ) -> Result<(), StrategyError> {
        let known = self.instances.iter().position(|i| i.key == key);
        let number = known.unwrap_or(self.instances.len());
        let limit = usize::from(u16::MAX);
        let full = FibError::Table(NameRefused::Prefixes { limit });
        let number = u16::try_from(number).map_err(|_| full)?;
        self.choices.set(hasher, prefix, number)?;
        if known.is_none() {
            self.instances.push(Instance { strategy, key });
        }
        Ok(())
    }

    /// The strategy for a name, and how many components its prefix has.
    #[inline]
    pub(crate) fn strategy(&self, name: &HashedName<'_>) -> (u16, usize) {
        self.choices.lookup(name).map_or((0, 0), |found| (found.value, found.components))
    }

    /// A strategy by its number; a stale plan's number may select another one, or the default.
    #[inline]
    pub(crate) fn instance(&self, number: u16) -> &Instance {
        self.instances.get(usize::from(number)).unwrap_or(&self.instances[0])
    }

    /// True if one of the hint's names leads to a region that this node is in.
    pub(crate) fn reaches(&self, hint: Names<'_>) -> bool {
        hint.iter().any(|n| self.regions.iter().any(|region| n.is_prefix_of(&region.as_name())))
    }
}

/// Where the control side publishes plans and workers pick them up between batches.
#[derive(Clone)]
pub struct Published(Arc<ArcSwap<Plan>>);

impl Published {
    /// With a first plan.
    pub fn new(plan: Plan) -> Published {
        Published(Arc::new(ArcSwap::from_pointee(plan)))
    }

    /// Publishes a plan.
    pub fn publish(&self, plan: Plan) {
        self.0.store(Arc::new(plan));
    }

    /// Replaces a stale plan with the current one; true if it was stale.
    pub fn refresh(&self, plan: &mut Arc<Plan>) -> bool {
        let present = self.0.load();
        let is_older = !Arc::ptr_eq(&present, plan);
        if is_older {
            *plan = Arc::clone(&present);
        }
        is_older
    }

    /// The present plan.
    pub fn load(&self) -> Arc<Plan> {
        self.0.load_full()
    }
}
