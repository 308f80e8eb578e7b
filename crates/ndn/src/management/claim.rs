//! By what right routes stand: which keys have asked for them.
//!
//! When others are trusted, what stands is what could be ordered anew: a route goes whose key is
//! trusted no more, where only trusted keys may order it. Time is not asked: a route does not go
//! when a certificate runs out, but when its key is taken away. What it has ordered besides routes
//! stays: strategies, faces, the cache's settings.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::verify::{Maker, Policy, Trust};

/// By what right a route stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim(Option<Order>);

/// Who has ordered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Order {
    is_localhop: bool,
    /// `None`: anyone.
    key: Option<NonZeroU32>,
    /// Of a route by announcement, who has signed that.
    announcer: Option<Option<NonZeroU32>>,
}

/// Numbers of keys, short enough to stand with each route: of those that have ordered any, ever,
/// which are no more than have been in the file.
#[derive(Default)]
pub(super) struct Claimants(BTreeMap<[u8; 32], NonZeroU32>);

impl Claimants {
    fn number(&mut self, maker: Maker) -> Option<NonZeroU32> {
        let Maker::Key(digest) = maker else { return None };
        let next = u32::try_from(self.0.len() + 1).ok().and_then(NonZeroU32::new)?;
        Some(*self.0.entry(digest).or_insert(next))
    }

    /// The right of who has made a command, and the announcement in it.
    pub(super) fn claim(
        &mut self,
        is_localhop: bool,
        maker: Maker,
        announcer: Option<Maker>,
    ) -> Claim {
        let key = self.number(maker);
        let announcer = announcer.map(|maker| self.number(maker));
        Claim(Some(Order { is_localhop, key, announcer }))
    }

    /// Whether what somebody has ordered stands, by its right.
    pub(super) fn judge(&self, trust: &Trust) -> impl Fn(&Claim) -> bool {
        let digests = trust.digests();
        let trusted = self.0.iter().filter(|(digest, _)| digests.contains(*digest));
        let trusted: BTreeSet<NonZeroU32> = trusted.map(|(_, number)| *number).collect();
        let Trust { localhost, localhop, announcements, .. } = *trust;
        move |claim| {
            let Some(Order { is_localhop, key, announcer }) = claim.0 else { return true };
            let may = |policy, key: Option<NonZeroU32>| match policy {
                Policy::Nobody => false,
                Policy::Trusted => key.is_some_and(|key| trusted.contains(&key)),
                Policy::Any => true,
            };
            may(if is_localhop { localhop } else { localhost }, key)
                && announcer.is_none_or(|key| may(announcements, key))
        }
    }
}

impl Claim {
    /// The node's own: nobody's orders.
    pub const OWN: Claim = Claim(None);
}
