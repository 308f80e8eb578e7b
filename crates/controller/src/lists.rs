//! Short lists, one per node, in one block of memory: path computations read many of them, and each
//! must cost one access to its position and one to its items.

/// Position of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    first: u32,
    len: u32,
    /// Its capacity at this position.
    room: u32,
}

/// Lists by number, from 0.
#[derive(Clone, Debug)]
pub(crate) struct Lists<T> {
    blocks: Vec<Block>,
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { blocks: Vec::new(), items: Vec::new() }
    }
}

impl<T: Copy> Lists<T> {
    /// Adds an empty list.
    pub(crate) fn add_list(&mut self) {
        self.blocks.push(Block::default());
    }

    #[inline]
    pub(crate) fn get(&self, list: u32) -> &[T] {
        let Block { first, len, .. } = self.blocks[list as usize];
        &self.items[first as usize..first as usize + len as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, list: u32) -> &mut [T] {
        let Block { first, len, .. } = self.blocks[list as usize];
        &mut self.items[first as usize..first as usize + len as usize]
    }

    /// Inserts an item before the one at `at`, or at the end.
    pub(crate) fn insert(&mut self, list: u32, at: usize, item: T) {
        let Block { first, len, room } = self.blocks[list as usize];
        let (mut start, len) = (first as usize, len as usize);
        if len == room as usize {
            // A larger block at the end; sizes double, so that little memory is wasted.
            let grown = (2 * room).max(8);
            let moved = start..start + len;
            start = self.items.len();
            self.items.extend_from_within(moved);
            self.items.resize(start + grown as usize, item);
            self.blocks[list as usize] =
                Block { first: start as u32, len: len as u32, room: grown };
        }
        self.items.copy_within(start + at..start + len, start + at + 1);
        self.items[start + at] = item;
        self.blocks[list as usize].len += 1;
    }

    /// Keeps the items for which `keep` returns true.
    pub(crate) fn retain(&mut self, list: u32, mut keep: impl FnMut(&T) -> bool) {
        let items = self.get_mut(list);
        let mut kept = 0;
        for at in 0..items.len() {
            if keep(&items[at]) {
                items[kept] = items[at];
                kept += 1;
            }
        }
        self.blocks[list as usize].len = kept as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_what_a_vector_per_list_is(
            steps in proptest::collection::vec((0..4_u32, 0..40_usize, any::<u8>()), 0..200))
        {
            let mut lists = Lists::default();
            let mut model = vec![Vec::new(); 4];
            (0..4).for_each(|_| lists.add_list());
            for (list, at, item) in steps {
                let of = &mut model[list as usize];
                if at < 30 {
                    let at = at.min(of.len());
                    of.insert(at, item);
                    lists.insert(list, at, item);
                } else {
                    of.retain(|i| i % 3 != item % 3);
                    lists.retain(list, |i| i % 3 != item % 3);
                }
                for (list, of) in model.iter().enumerate() {
                    prop_assert_eq!(lists.get(list as u32), &of[..]);
                }
            }
        }
    }
}
