//! Which tests run at once. Most tests wait for daemons and labs, and need little of a processor:
//! so `make test` starts more of them than there are processors. A test that is measured, or loads
//! the whole machine, has at most one other beside it.
//!
//! A test has its places from its first directory, namespace or [`turn`] to the end of its thread.
//! Threads that a test starts must ask for none: they would wait for the test.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static QUEUE: Mutex<Queue> = Mutex::new(Queue { taken: 0, came: 0, served: 0 });
static CHANGED: Condvar = Condvar::new();

/// Tests get their places in the order in which they come, so that one that needs many is not
/// overtaken for ever.
struct Queue {
    /// Places that tests have.
    taken: usize,
    came: u64,
    served: u64,
}

thread_local! {
    static OWN: RefCell<Option<Places>> = const { RefCell::new(None) };
}

/// Waits for a place, if the test has none yet.
pub(super) fn enter() {
    OWN.with_borrow_mut(|own| {
        own.get_or_insert_with(|| Places::take(1));
    });
}

/// Waits until at most one other test runs, and lets no second one begin beside this one.
pub(crate) fn turn() {
    OWN.with_borrow_mut(|own| {
        *own = None;
        *own = Some(Places::take(all() - 1));
    });
}

/// Places that there are: one more than processors.
fn all() -> usize {
    1 + std::thread::available_parallelism().map_or(1, usize::from)
}

/// So many places, until they are dropped.
struct Places(usize);

impl Places {
    fn take(count: usize) -> Places {
        let mut queue = queue();
        let number = queue.came;
        queue.came += 1;
        while queue.served != number || queue.taken + count > all() {
            queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.served += 1;
        queue.taken += count;
        CHANGED.notify_all();
        Places(count)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        queue().taken -= self.0;
        CHANGED.notify_all();
    }
}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}
