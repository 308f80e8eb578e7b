//! An ordered map from names to values, compact enough for millions of names.
//!
//! Neighbouring names share a prefix, so each is stored as the length shared with the one before,
//! and the rest. A leaf holds some dozens of names in exactly the memory they need; leaves are
//! found by their lowest name. Adding or removing a name rewrites one leaf, in some microseconds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Most names in a leaf; with one more it is split.
const NAMES_MAX: usize = 64;
/// Bytes that a leaf of several names may take before it is split, so that rewriting stays short
/// even with long names.
const BYTES_MAX: usize = 16 << 10;

/// Variable-length numbers, at most 65,535; small ones take a byte.
fn write_len(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(len) if len < u8::MAX => out.push(len),
        _ => {
            out.push(u8::MAX);
            out.extend((len as u32).to_le_bytes());
        }
    }
}

/// Length of the common prefix of both.
pub(super) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Names in order, encoded one after the other.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    last: Vec<u8>,
}

impl Written {
    fn push(&mut self, name: &[u8]) {
        let shared = shared(&self.last, name);
        write_len(&mut self.bytes, shared);
        write_len(&mut self.bytes, name.len() - shared);
        self.bytes.extend_from_slice(&name[shared..]);
        self.last.truncate(shared);
        self.last.extend_from_slice(&name[shared..]);
    }
}

/// Decodes the names of a leaf one after the other.
struct Reading<'a> {
    rest: &'a [u8],
    name: Vec<u8>,
}

impl Reading<'_> {
    fn len(&mut self) -> usize {
        let short = self.rest.split_off_first().copied().unwrap_or(0);
        match short {
            u8::MAX => {
                let long = self.rest.split_off(..4).unwrap_or(&[]);
                long.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte))
            }
            short => short.into(),
        }
    }

    /// Advances to the next name; false after the last.
    fn go_on(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (shared, more) = (self.len(), self.len());
        self.name.truncate(shared);
        self.name.extend_from_slice(self.rest.split_off(..more).unwrap_or(&[]));
        true
    }
}

struct Leaf<T> {
    /// The lowest name that belongs here.
    low: Arc<[u8]>,
    names: Box<[u8]>,
    values: Box<[T]>,
}

impl<T> Leaf<T> {
    fn read(&self) -> Reading<'_> {
        Reading { rest: &self.names, name: Vec::new() }
    }

    /// The index of a name if it is there; otherwise where it would be.
    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        let mut reading = self.read();
        for at in 0..self.values.len() {
            reading.go_on();
            match reading.name[..].cmp(name) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => return Err(at),
            }
        }
        Err(self.values.len())
    }
}

/// The leaves that an update has rewritten.
pub(super) struct Touched {
    /// The leaf to which the name belongs.
    pub(super) leaf: u32,
    /// The leaf split off from it.
    pub(super) other: Option<u32>,
}

/// Names and their values.
pub(super) struct Leaves<T> {
    /// By number; the first always exists. A free leaf has no name.
    leaves: Vec<Leaf<T>>,
    free: Vec<u32>,
    order: BTreeMap<Arc<[u8]>, u32>,
}

impl<T: Copy> Leaves<T> {
    pub(super) fn new() -> Leaves<T> {
        let low = Arc::from(&[][..]);
        let order = BTreeMap::from([(Arc::clone(&low), 0)]);
        let first = Leaf { low, names: Box::default(), values: Box::default() };
        Leaves { leaves: vec![first], free: Vec::new(), order }
    }

    fn leaf_of(&self, name: &[u8]) -> u32 {
        let until = (Bound::Unbounded, Bound::Included(name));
        self.order.range::<[u8], _>(until).next_back().map_or(0, |(_, number)| *number)
    }

    fn leaf(&self, number: u32) -> &Leaf<T> {
        &self.leaves[number as usize]
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<T> {
        let leaf = self.leaf(self.leaf_of(name));
        leaf.find(name).ok().map(|at| leaf.values[at])
    }

    pub(super) fn values(&self, leaf: u32) -> &[T] {
        &self.leaf(leaf).values
    }

    pub(super) fn name(&self, leaf: u32, at: usize) -> Vec<u8> {
        let mut reading = self.leaf(leaf).read();
        (0..=at).all(|_| reading.go_on());
        reading.name
    }

    /// Sets the value of a name; `None` removes it.
    pub(super) fn set(&mut self, name: &[u8], value: Option<T>) -> Touched {
        let number = self.leaf_of(name);
        let leaf = &mut self.leaves[number as usize];
        let found = leaf.find(name);
        match (found, value) {
            (Ok(at), Some(value)) => leaf.values[at] = value,
            (Err(_), None) => {}
            _ => return Touched { leaf: number, other: self.rewrite(number, name, found, value) },
        }
        Touched { leaf: number, other: None }
    }

    /// Inserts a name into a leaf or removes it; returns the leaves split off.
    fn rewrite(
        &mut self,
        number: u32,
        name: &[u8],
        place: Result<usize, usize>,
        value: Option<T>,
    ) -> Option<u32> {
        let leaf = self.leaf(number);
        let len = leaf.values.len() + usize::from(value.is_some());
        let is_long = len > 1 && leaf.names.len() + name.len() > BYTES_MAX;
        let cut = if len > NAMES_MAX || is_long { len / 2 } else { usize::MAX };
        let mut halves = [(); 2].map(|()| (Written::default(), Vec::with_capacity(len)));
        let (mut low, mut count) = (Vec::new(), 0);
        let mut push = |name: &[u8], value: T| {
            if count == cut {
                low = name.to_vec();
            }
            let (names, values) = &mut halves[usize::from(count >= cut)];
            names.push(name);
            values.push(value);
            count += 1;
        };
        let mut reading = leaf.read();
        for (at, old) in leaf.values.iter().enumerate() {
            reading.go_on();
            if place == Err(at) {
                value.into_iter().for_each(|value| push(name, value));
            }
            if place != Ok(at) {
                push(&reading.name, *old);
            }
        }
        if place == Err(leaf.values.len()) {
            value.into_iter().for_each(|value| push(name, value));
        }
        let [first, second] = halves.map(|(names, values)| (names.bytes.into(), values.into()));
        let leaf = &mut self.leaves[number as usize];
        (leaf.names, leaf.values) = first;
        if leaf.values.is_empty() && number != 0 {
            self.order.remove(&leaf.low);
            self.free.push(number);
        }
        (cut < len).then(|| {
            let low: Arc<[u8]> = low.into();
            let (names, values) = second;
            let leaf = Leaf { low: Arc::clone(&low), names, values };
            let number = match self.free.pop() {
                Some(number) => {
                    self.leaves[number as usize] = leaf;
                    number
                }
                None => {
                    self.leaves.push(leaf);
                    self.leaves.len() as u32 - 1
                }
            };
            self.order.insert(low, number);
            number
        })
    }

    /// Every name from `from` on with its value, in order.
    pub(super) fn iter(&self, from: &[u8]) -> impl Iterator<Item = (Vec<u8>, T)> {
        let low = &self.leaf(self.leaf_of(from)).low[..];
        let behind = self.order.range::<[u8], _>((Bound::Included(low), Bound::Unbounded));
        behind.flat_map(move |(_, number)| {
            let leaf = self.leaf(*number);
            let mut reading = leaf.read();
            leaf.values.iter().filter_map(move |value| {
                reading.go_on();
                (reading.name[..] >= *from).then(|| (reading.name.clone(), *value))
            })
        })
    }

    /// The first name from `from` on.
    pub(super) fn first(&self, from: &[u8]) -> Option<Vec<u8>> {
        self.iter(from).next().map(|(first, _)| first)
    }

    fn next(&self, number: u32) -> Option<u32> {
        let longer = (Bound::Excluded(&self.leaf(number).low[..]), Bound::Unbounded);
        self.order.range::<[u8], _>(longer).next().map(|(_, number)| *number)
    }

    /// Visits names from `from` on in order and lets `each` change their values, until it returns
    /// false.
    pub(super) fn walk(&mut self, from: &[u8], mut each: impl FnMut(&[u8], &mut T) -> bool) {
        let mut next = Some(self.leaf_of(from));
        while let Some(number) = next {
            let Leaf { names, values, .. } = &mut self.leaves[number as usize];
            let mut reading = Reading { rest: names, name: Vec::new() };
            for value in values {
                reading.go_on();
                if reading.name[..] >= *from && !each(&reading.name, value) {
                    return;
                }
            }
            next = self.next(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Vec<u8>> {
        let long = prop::collection::vec(Just(7), 0..600);
        let short = prop::collection::vec(0..4u8, 0..6);
        (prop_oneof![9 => Just(Vec::new()), 1 => long], short).prop_map(|(a, b)| [a, b].concat())
    }

    fn values() -> impl Strategy<Value = Option<u16>> {
        prop::option::weighted(0.7, 0..99u16)
    }

    fn check(steps: &[(Vec<u8>, Option<u16>)], from: &[u8]) {
        let (mut leaves, mut naive) = (Leaves::new(), BTreeMap::new());
        for (name, value) in steps {
            let touched = leaves.set(name, *value);
            match value {
                Some(value) => drop(naive.insert(name.clone(), *value)),
                None => drop(naive.remove(name)),
            }
            assert_eq!(leaves.get(name), *value);
            let within = [Some(touched.leaf), touched.other].into_iter().flatten();
            let mut within = within.flat_map(|leaf| leaves.values(leaf));
            assert!(value.is_none_or(|value| within.any(|of| *of == value)));
        }
        let behind = || naive.range(from.to_vec()..);
        let owned = |(name, value): (&Vec<u8>, &u16)| (name.clone(), *value);
        assert!(leaves.iter(&[]).eq(naive.iter().map(owned)));
        assert!(leaves.iter(from).eq(behind().map(owned)));
        assert_eq!(leaves.first(from), behind().next().map(|(name, _)| name.clone()));
        let mut seen = Vec::new();
        leaves.walk(from, |name, value| {
            *value = value.wrapping_add(1);
            seen.push(name.to_vec());
            seen.len() < 100
        });
        assert!(seen.iter().eq(behind().map(|(name, _)| name).take(100)));
        let changed = |(name, value): (&Vec<u8>, &u16)| {
            let more = u16::from(seen.contains(name));
            leaves.get(name) == Some(value.wrapping_add(more))
        };
        assert!(naive.iter().all(changed));
        for (number, leaf) in leaves.leaves.iter().enumerate() {
            assert!(leaf.values.len() <= NAMES_MAX);
            assert!(leaf.values.len() < 2 || leaf.names.len() <= BYTES_MAX + 700);
            assert_eq!(leaves.free.contains(&(number as u32)), {
                number > 0 && leaf.values.is_empty()
            });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn names_are_kept_as_in_a_map(
            steps in prop::collection::vec((names(), values()), 0..1500),
            from in names(),
        ) {
            check(&steps, &from);
        }
    }
}
