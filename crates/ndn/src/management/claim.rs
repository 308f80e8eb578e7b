//! Claims: which keys asked for each route, so that it is withdrawn when they lose trust.
//!
//! After a change of trust, exactly those routes stay that could be ordered anew: a route is
//! removed if only trusted keys may order it and its key is no longer trusted. Time does not
//! matter: a route stays when a certificate expires, and goes when its key is removed. Other
//! effects of the key's commands stay: strategies, faces, cache settings.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::verify::{Maker, Policy, Trust};

/// The right by which a route stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim(Option<Order>);

/// The keys that ordered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Order {
    is_localhop: bool,
    /// `None`: anyone.
    key: Option<NonZeroU32>,
    /// For a route by announcement, the key that signed the announcement.
    announcer: Option<Option<NonZeroU32>>,
}

/// Key numbers, short enough to store with each route. Only keys that ever ordered a route have
/// one, so there are no more than were ever in the file.
#[derive(Default)]
pub(super) struct Claimants(BTreeMap<[u8; 32], NonZeroU32>);

impl Claimants {
    fn number(&mut self, maker: Maker) -> Option<NonZeroU32> {
        let Maker::Key(digest) = maker else { return None };
        let next = u32::try_from(self.0.len() + 1).ok().and_then(NonZeroU32::new)?;
        Some(*self.0.entry(digest).or_insert(next))
    }

    /// The claim of a command and of the announcement in it.
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

    /// A predicate that tells whether a claim is still valid.
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
    /// Of the node itself: ordered by no key.
    pub const OWN: Claim = Claim(None);
}
