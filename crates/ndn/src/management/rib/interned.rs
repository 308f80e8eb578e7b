//! Interned values: each is stored once, under a number, however many prefixes use it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Values by number, with the number of users of each.
pub(super) struct Interned<T> {
    held: Vec<(Option<Arc<T>>, usize)>,
    numbers: HashMap<Arc<T>, u32>,
    free: Vec<u32>,
}

impl<T: Hash + Eq> Interned<T> {
    pub(super) fn new() -> Interned<T> {
        Interned { held: Vec::new(), numbers: HashMap::new(), free: Vec::new() }
    }

    /// The value of a number in use.
    pub(super) fn get(&self, number: u32) -> &Arc<T> {
        self.held[number as usize].0.as_ref().expect("the number is in use")
    }

    /// The number of a value, if it is in use.
    pub(super) fn number(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).copied()
    }

    /// Every value in use, and its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let held = self.held.iter().enumerate();
        held.filter_map(|(number, (value, _))| Some((number as u32, &**value.as_ref()?)))
    }

    /// How many users a number has.
    pub(super) fn count(&self, number: u32) -> usize {
        self.held[number as usize].1
    }

    /// The number of a value, with one more user.
    pub(super) fn acquire(&mut self, value: T) -> u32 {
        if let Some(number) = self.number(&value) {
            self.held[number as usize].1 += 1;
            return number;
        }
        let value = Arc::new(value);
        let held = (Some(Arc::clone(&value)), 1);
        let number = match self.free.pop() {
            Some(number) => {
                self.held[number as usize] = held;
                number
            }
            None => {
                self.held.push(held);
                self.held.len() as u32 - 1
            }
        };
        self.numbers.insert(value, number);
        number
    }

    /// One user releases this number.
    pub(super) fn release(&mut self, number: u32) {
        let (value, count) = &mut self.held[number as usize];
        *count -= 1;
        if *count == 0
            && let Some(value) = value.take()
        {
            self.numbers.remove(&value);
            self.free.push(number);
        }
    }
}
