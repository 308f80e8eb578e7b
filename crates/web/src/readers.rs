//! How many may read at a time.
//!
//! A new connection always gets in. At the limit it ends another one: the one that has read nothing
//! for the longest, of those first that have not shown the token. A reader that reads is sent
//! something every few seconds. A page whose connection has ended connects anew by itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use tokio::task::AbortHandle;

/// The connections.
#[derive(Debug)]
pub(crate) struct Readers {
    most: usize,
    next: Cell<u64>,
    all: RefCell<BTreeMap<u64, Rc<Reader>>>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Reader {
    /// When it has taken something last.
    took: Cell<Instant>,
    /// It has shown the token, or needs none.
    is_known: Cell<bool>,
    /// Its task.
    task: RefCell<Option<AbortHandle>>,
}

impl Reader {
    /// It has taken something.
    pub(crate) fn takes(&self) {
        self.took.set(Instant::now());
    }

    /// It has shown the token, or needs none.
    pub(crate) fn is_known(&self) {
        self.is_known.set(true);
    }

    /// The task that serves it.
    pub(crate) fn is_served_by(&self, task: AbortHandle) {
        *self.task.borrow_mut() = Some(task);
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.abort();
        }
    }
}

/// A connection's place, as long as this is there.
pub(crate) struct Place {
    readers: Rc<Readers>,
    number: u64,
    pub(crate) reader: Rc<Reader>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.readers.all.borrow_mut().remove(&self.number);
    }
}

impl Readers {
    pub(crate) fn new(most: usize) -> Rc<Readers> {
        Rc::new(Readers { most, next: Cell::default(), all: RefCell::default() })
    }

    /// A place for one more.
    pub(crate) fn place(self: &Rc<Readers>) -> Place {
        let number = self.next.replace(self.next.get() + 1);
        let took = Cell::new(Instant::now());
        let reader = Rc::new(Reader { took, is_known: Cell::default(), task: RefCell::default() });
        let mut all = self.all.borrow_mut();
        if all.len() >= self.most {
            let idle = all.iter().min_by_key(|(_, r)| (r.is_known.get(), r.took.get()));
            if let Some(number) = idle.map(|(number, _)| *number)
                && let Some(idle) = all.remove(&number)
            {
                idle.end();
            }
        }
        all.insert(number, reader.clone());
        Place { readers: self.clone(), number, reader }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_ends_the_one_that_has_read_nothing_for_the_longest() {
        let readers = Readers::new(2);
        let (first, second) = (readers.place(), readers.place());
        first.reader.took.set(second.reader.took.get() + std::time::Duration::from_secs(1));
        let third = readers.place();
        let kept: Vec<u64> = readers.all.borrow().keys().copied().collect();
        assert_eq!(kept, [first.number, third.number]);
        // One that has shown the token stays, however long ago it has read.
        first.reader.took.set(third.reader.took.get() - std::time::Duration::from_secs(1));
        first.reader.is_known();
        let fourth = readers.place();
        let kept: Vec<u64> = readers.all.borrow().keys().copied().collect();
        assert_eq!(kept, [first.number, fourth.number]);
        drop((first, second, third, fourth));
        assert!(readers.all.borrow().is_empty());
    }
}
