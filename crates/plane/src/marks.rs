//! Marks on ports: a set of them, in order, for as many as a box may have.

use plexus_io::PortId;

/// A bit per port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Vec<u64>);

impl Marks {
    /// Makes room for ports below this one.
    pub(crate) fn grow(&mut self, ports: usize) {
        let words = self.0.len().max(ports.div_ceil(64));
        self.0.resize(words, 0);
    }

    /// Adds a port that there is room for.
    #[inline]
    pub(crate) fn insert(&mut self, port: PortId) {
        if let Some(word) = self.0.get_mut(usize::from(port) / 64) {
            *word |= 1 << (port % 64);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, port: PortId) {
        if let Some(word) = self.0.get_mut(usize::from(port) / 64) {
            *word &= !(1 << (port % 64));
        }
    }

    /// The first port from this one on.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<PortId> {
        let mut index = from / 64;
        let mut word = self.0.get(index)? & (u64::MAX << (from % 64));
        while word == 0 {
            index += 1;
            word = *self.0.get(index)?;
        }
        Some((index * 64) as PortId + word.trailing_zeros() as PortId)
    }

    /// All ports, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = PortId> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let port = self.next(from)?;
            from = usize::from(port) + 1;
            Some(port)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(changes in prop::collection::vec((any::<bool>(), 0_u16..200), 0..100)) {
            let (mut set, mut model) = (Marks::default(), BTreeSet::new());
            set.grow(200);
            for (add, port) in changes {
                if add {
                    set.insert(port);
                    model.insert(port);
                } else {
                    set.remove(port);
                    model.remove(&port);
                }
                prop_assert!(set.iter().eq(model.iter().copied()));
                prop_assert_eq!(set.next(port.into()), model.range(port..).next().copied());
            }
        }
    }
}
