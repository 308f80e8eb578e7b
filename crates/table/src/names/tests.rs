//! Names for the tests of all tables.

mod concurrent;
mod fib;
mod hash;
mod map;

use proptest::prelude::*;

use super::*;

/// A name and where its components end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Name {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Name {
    fn of<C: AsRef<[u8]>>(components: impl IntoIterator<Item = C>) -> Name {
        components.into_iter().fold(Name::default(), |name, component| name.with(component))
    }

    /// `/a/b/c`
    fn parse(uri: &str) -> Name {
        Name::of(uri.split('/').filter(|component| !component.is_empty()))
    }

    fn with(mut self, component: impl AsRef<[u8]>) -> Name {
        let component = component.as_ref();
        self.bytes.extend([8, component.len() as u8]);
        self.bytes.extend(component);
        self.ends.push(self.bytes.len());
        self
    }

    fn prefix(&self, components: usize) -> Name {
        let ends = self.ends[..components].to_vec();
        Name { bytes: self.bytes[..ends.last().copied().unwrap_or(0)].to_vec(), ends }
    }

    /// The result of `with` for the name hashed by `keys`.
    fn hashed<T>(&self, keys: Keys, with: impl FnOnce(HashedName) -> T) -> T {
        let mut hashes = NameHashes::default();
        let ends = self.ends.iter().copied();
        keys.hasher().hash(&self.bytes, ends, &mut hashes).expect("the ends ascend");
        if let Keys::Colliding(bits) = keys {
            hashes.whole &= bits;
            hashes.hashes.iter_mut().for_each(|hash| *hash &= bits);
        }
        with(HashedName { bytes: &self.bytes, hashes: &hashes })
    }
}

/// How names are hashed: properly, or so badly that they collide.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Good,
    /// Keeps only these bits of every hash.
    Colliding(u64),
}

impl Keys {
    fn hasher(self) -> NameHasher {
        NameHasher::new([0x5EED, 0x5EED_5EED])
    }

    /// Good ones, some that collide in half of the hash, and one that is equal for all names.
    fn any() -> impl Strategy<Value = Keys> {
        let colliding = prop_oneof![Just(0), Just(3), Just(3 << 62), Just(u64::MAX << 32)];
        prop_oneof![Just(Keys::Good), colliding.prop_map(Keys::Colliding)]
    }
}

/// Names with common beginnings: few components, of few kinds, some empty, some long.
fn name() -> impl Strategy<Value = Name> {
    let component = prop_oneof![
        4 => prop::sample::select(vec!["", "a", "b", "com", "seven77", "eightbyt"]),
        1 => Just("a component that is longer than a word or two"),
    ];
    prop::collection::vec(component, 0..6).prop_map(Name::of)
}
