//! Which tests run at once. Most tests wait for daemons and labs, and need little of a processor:
//! so `make test` starts more of them than there are processors. A test that is measured, or loads
//! the whole machine, has at most one other beside it.
//!
//! A test has its places from its first directory, namespace or [`turn`] to the end of its thread.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Places that tests have.
static TAKEN: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

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

/// One more than processors.
fn all() -> usize {
    1 + std::thread::available_parallelism().map_or(1, usize::from)
}

/// So many places, until they are dropped.
struct Places(usize);

impl Places {
    fn take(count: usize) -> Places {
        let mut taken = taken();
        while *taken + count > all() {
            taken = CHANGED.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += count;
        Places(count)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        *taken() -= self.0;
        CHANGED.notify_all();
    }
}

fn taken() -> MutexGuard<'static, usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
