//! Singly linked lists in one memory block of fixed size: for data that few entries need.

use super::left::shrink;

/// The end of a list.
pub(crate) const NONE: u32 = u32::MAX;

struct Node<T> {
    value: T,
    next: u32,
}

/// Lists of values; the caller keeps the heads.
pub(crate) struct Chains<T> {
    nodes: Vec<Node<T>>,
    unused: u32,
    len: usize,
    capacity: usize,
}

impl<T: Copy> Chains<T> {
    pub(crate) fn new(capacity: usize) -> Chains<T> {
        // This reserves address space; memory is used only when touched.
        Chains { nodes: Vec::with_capacity(capacity), unused: NONE, len: 0, capacity }
    }

    /// How many more values fit.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// Pushes a value; the caller has checked that there is room.
    pub(crate) fn push(&mut self, head: &mut u32, value: T) {
        self.len += 1;
        let node = Node { value, next: *head };
        match self.nodes.get_mut(self.unused as usize) {
            Some(place) => {
                *head = self.unused;
                self.unused = place.next;
                *place = node;
            }
            None => {
                *head = self.nodes.len() as u32;
                self.nodes.push(node);
            }
        }
    }

    /// Pops the first value.
    #[inline]
    pub(crate) fn pop(&mut self, head: &mut u32) -> Option<T> {
        let at = *head;
        let node = self.nodes.get_mut(at as usize)?;
        *head = node.next;
        node.next = self.unused;
        self.unused = at;
        self.len -= 1;
        Some(node.value)
    }

    /// Removes the first value for which `is` holds.
    pub(crate) fn take(&mut self, head: &mut u32, is: impl Fn(&T) -> bool) -> Option<T> {
        let mut before = NONE;
        let mut at = *head;
        while let Some(node) = self.nodes.get(at as usize) {
            if is(&node.value) {
                let mut from_here = at;
                let value = self.pop(&mut from_here);
                match self.nodes.get_mut(before as usize) {
                    Some(before) => before.next = from_here,
                    None => *head = from_here,
                }
                return value;
            }
            (before, at) = (at, node.next);
        }
        None
    }

    #[inline(always)]
    pub(crate) fn iter(&self, head: u32) -> impl Iterator<Item = &T> {
        let mut at = head;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.next;
            Some(&node.value)
        })
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        (self.unused, self.len) = (NONE, 0);
    }

    /// Returns some memory of an empty block to the system; false if it has none.
    pub(crate) fn shrink(&mut self) -> bool {
        shrink(&mut self.nodes)
    }

    /// Reserves the address space for all values again.
    pub(crate) fn reserve(&mut self) {
        self.nodes.reserve_exact(self.capacity);
    }

    /// The value at a place: a list's head at the time when the value was pushed.
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.nodes.get(at as usize).map(|node| &node.value)
    }

    /// The same, for changing it.
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.nodes.get_mut(at as usize).map(|node| &mut node.value)
    }

    /// The first value for which `is` holds, for changing it.
    pub(crate) fn find_mut(&mut self, head: u32, mut is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let mut at = head;
        loop {
            let node = self.nodes.get(at as usize)?;
            if is(&node.value) {
                return self.nodes.get_mut(at as usize).map(|node| &mut node.value);
            }
            at = node.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_added_and_removed_and_their_slots_reused() {
        let mut chains = Chains::new(3);
        let (mut a, mut b) = (NONE, NONE);
        chains.push(&mut a, 1);
        chains.push(&mut b, 2);
        chains.push(&mut a, 3);
        assert_eq!(chains.room(), 0);
        assert_eq!(chains.iter(a).copied().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(chains.take(&mut a, |v| *v == 1), Some(1));
        assert_eq!(chains.take(&mut a, |v| *v == 1), None);
        chains.push(&mut b, 4);
        assert_eq!(chains.iter(b).copied().collect::<Vec<_>>(), [4, 2]);
        assert_eq!((chains.room(), chains.nodes.len()), (0, 3));
        *chains.find_mut(b, |v| *v == 2).unwrap() = 5;
        assert_eq!(chains.take(&mut b, |v| *v == 4), Some(4));
        assert_eq!(
            (chains.pop(&mut b), chains.pop(&mut b), chains.pop(&mut a)),
            (Some(5), None, Some(3))
        );
        assert_eq!((a, b, chains.room()), (NONE, NONE, 3));
    }
}
