//! How many may read at a time.
//!
//! A new connection always gets in. If there are as many as allowed, the one ends for it that has
//! read nothing for the longest: a reader that reads is sent something every few seconds. A page
//! whose connection has ended connects anew by itself.

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
    /// Its task.
    task: RefCell<Option<AbortHandle>>,
}

impl Reader {
    /// It has taken something.
    pub(crate) fn takes(&self) {
        self.took.set(Instant::now());
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
        let reader = Rc::new(Reader { took: Cell::new(Instant::now()), task: RefCell::default() });
        let mut all = self.all.borrow_mut();
        if all.len() >= self.most {
            let idle = all.iter().min_by_key(|(_, reader)| reader.took.get());
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
        drop((first, second, third));
        assert!(readers.all.borrow().is_empty());
    }
}
