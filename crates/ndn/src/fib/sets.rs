//! Sets of next hops by number, each stored once.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use plexus_table::names::{Instant, NameFib};

use super::{FibError, Hops, NextHop};

/// Most different sets at a time, including those that wait for batches to end.
pub const SETS_MAX: usize = 1 << 16;

/// Slots are made so many at a time: few forwarders have more sets than these.
const CHUNK: usize = 1 << 8;

type Slot = ArcSwapOption<Box<Hops>>;

/// The part that readers see.
#[derive(Clone)]
pub(super) struct SharedSets(Arc<[OnceLock<Box<[Slot]>>]>);

type Held = Guard<Option<Arc<Box<Hops>>>>;

/// The set that a batch found last, with its number.
pub(super) type Latest = Cell<Option<(u32, Held)>>;

impl SharedSets {
    /// The set with a number found in the batch that owns `latest`: a number keeps its meaning from
    /// the time a batch finds it until the batch ends.
    #[inline]
    pub(super) fn get<'a>(&self, number: u32, latest: &'a Latest) -> HopSet<'a> {
        let known = latest.take().filter(|(of, _)| *of == number);
        let load = || Some((number, self.slot(number)?.load()));
        HopSet { set: known.or_else(load), latest: Some(latest) }
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        let number = number as usize;
        self.0.get(number / CHUNK)?.get()?.get(number % CHUNK)
    }

    fn store(&self, number: u32, hops: Option<Arc<Box<Hops>>>) {
        let number = number as usize;
        let slots = || (0..CHUNK).map(|_| Slot::empty()).collect();
        self.0[number / CHUNK].get_or_init(slots)[number % CHUNK].store(hops);
    }
}

/// Next hops, the cheapest first, kept alive by this handle.
pub struct HopSet<'a> {
    set: Option<(u32, Held)>,
    /// Where to put the set back: most packets of a batch use the same set, and acquiring it anew
    /// costs as much as all other work on it.
    latest: Option<&'a Latest>,
}

impl HopSet<'_> {
    /// The empty set.
    pub const EMPTY: HopSet<'static> = HopSet { set: None, latest: None };
}

impl Deref for HopSet<'_> {
    type Target = Hops;

    #[inline]
    fn deref(&self) -> &Hops {
        self.set.as_ref().and_then(|(_, set)| set.as_deref()).map_or(&[], |hops| hops)
    }
}

impl Drop for HopSet<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(latest), Some(set)) = (self.latest, self.set.take()) {
            latest.set(Some(set));
        }
    }
}

/// The writer's side.
pub(super) struct Sets {
    shared: SharedSets,
    /// The set under each number ever allocated, and how many prefixes use it.
    known: Vec<(Arc<Box<Hops>>, usize)>,
    numbers: HashMap<Arc<Box<Hops>>, u32>,
    /// Numbers that no prefix uses, and since when.
    retired: VecDeque<(Instant, u32)>,
    free: Vec<u32>,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets {
            shared: SharedSets((0..SETS_MAX / CHUNK).map(|_| OnceLock::new()).collect()),
            known: Vec::new(),
            numbers: HashMap::new(),
            retired: VecDeque::new(),
            free: Vec::new(),
        }
    }
}

impl Sets {
    pub(super) fn shared(&self) -> SharedSets {
        self.shared.clone()
    }

    /// The set with this number, which some prefix uses.
    pub(super) fn get(&self, number: u32) -> &Hops {
        &self.known[number as usize].0
    }

    /// The number of a set for one more prefix; readers can find it from now on.
    pub(super) fn acquire(&mut self, hops: &[NextHop], names: &NameFib) -> Result<u32, FibError> {
        let mut hops: Box<Hops> = hops.into();
        hops.sort_unstable();
        if let Some(&number) = self.numbers.get(&hops) {
            self.known[number as usize].1 += 1;
            return Ok(number);
        }
        while let Some((_, number)) = self.retired.pop_front_if(|(at, _)| names.has_passed(*at)) {
            self.shared.store(number, None);
            self.free.push(number);
        }
        let hops = Arc::new(hops);
        let known = (hops.clone(), 1);
        let number = match self.free.pop() {
            Some(number) => {
                self.known[number as usize] = known;
                number
            }
            None if self.known.len() < SETS_MAX => {
                self.known.push(known);
                self.known.len() as u32 - 1
            }
            None => return Err(FibError::Sets),
        };
        self.shared.store(number, Some(hops.clone()));
        self.numbers.insert(hops, number);
        Ok(number)
    }

    /// A prefix stops using this number. The set of an unused number is dropped once no batch can
    /// read it.
    pub(super) fn release(&mut self, number: u32, names: &mut NameFib) {
        let (hops, prefixes) = &mut self.known[number as usize];
        *prefixes -= 1;
        if *prefixes == 0 {
            self.numbers.remove(&**hops);
            self.retired.push_back((names.instant(), number));
        }
    }

    /// Sets that some prefix uses.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.numbers.len()
    }

    /// Numbers ever allocated.
    #[cfg(test)]
    pub(super) fn ever_given(&self) -> usize {
        self.known.len()
    }
}
