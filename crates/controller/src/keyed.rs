//! Hash tables for lookups at every message. They cannot be iterated, so that nothing depends on
//! their order; and they are keyed by a seed, so that hosts cannot choose colliding addresses.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};

/// The seed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seed(pub(crate) [u64; 2]);

impl BuildHasher for Seed {
    type Hasher = DefaultHasher;

    /// SipHash, which is made for this, with the seed before the hashed bytes.
    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        self.0.iter().for_each(|part| hasher.write_u64(*part));
        hasher
    }
}

/// A map without an order.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V>(HashMap<K, V, Seed>);

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Keyed<K, V> {
        Keyed::new(Seed::default())
    }
}

impl<K, V> Keyed<K, V> {
    pub(crate) fn new(seed: Seed) -> Keyed<K, V> {
        Keyed(HashMap::with_hasher(seed))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K: Eq + Hash, V> Keyed<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }
}
