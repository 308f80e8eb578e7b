//! Grace periods: when memory that readers may still be reading can be reused.
//!
//! A reader announces the period in which a batch begins, and withdraws the announcement when it
//! ends. The writer unlinks a block, tags it with the current period, and from time to time begins
//! the next period; a block is free once no reader announces its period or an earlier one. A reader
//! between two batches announces nothing, so a sleeping reader delays nothing.
//!
//! Why a block is not reused too early: a reader stores its announcement and then loads links, the
//! writer stores links and then loads announcements, and both have a sequentially consistent fence
//! in between. So either the writer sees the announcement and keeps the block, or the reader's
//! loads come after the unlinking and never reach it. A reader that announces a newer period than
//! the block's loaded that period (acquire) from the writer's store (release) after the unlinking,
//! so it does not see the old link either.

use std::sync::atomic::{AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, PoisonError};

const IDLE: u64 = 0;

/// The announcement of one reader, on a separate cache line.
#[repr(align(128))]
struct Announced(AtomicU64);

/// An instant in the life of a table's readers.
#[derive(Clone, Copy, Debug)]
pub struct Instant(u64);

/// Shared by the writer and all readers of a table.
pub struct Periods {
    current: AtomicU64,
    readers: Mutex<Vec<Arc<Announced>>>,
}

/// One reader's side.
pub(crate) struct Presence {
    own: Arc<Announced>,
}

impl Periods {
    pub(crate) fn new() -> Periods {
        Periods { current: AtomicU64::new(1), readers: Mutex::default() }
    }

    pub(crate) fn join(&self) -> Presence {
        let own = Arc::new(Announced(AtomicU64::new(IDLE)));
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        Presence { own }
    }

    /// The period that a block unlinked now is tagged with.
    fn now(&self) -> u64 {
        self.current.load(Relaxed)
    }

    /// Begins a new period; returns the earliest that a reader may still be in.
    fn advance(&self) -> u64 {
        self.begin();
        self.oldest()
    }

    /// The present instant.
    pub(crate) fn instant(&self) -> Instant {
        Instant(self.begin())
    }

    /// True once every batch that had begun by that instant has ended.
    pub(crate) fn has_passed(&self, instant: Instant) -> bool {
        self.oldest() >= instant.0
    }

    /// Begins a new period, and returns it.
    fn begin(&self) -> u64 {
        let next = self.current.load(Relaxed) + 1;
        self.current.store(next, Release);
        fence(SeqCst);
        next
    }

    /// The earliest period that a reader may still be in.
    fn oldest(&self) -> u64 {
        let next = self.current.load(Relaxed);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // If only this list holds it, its reader is gone.
        readers.retain(|r| Arc::strong_count(r) > 1);
        let announced = readers.iter().map(|r| r.0.load(Acquire)).filter(|&p| p != IDLE);
        announced.min().unwrap_or(next)
    }
}

impl Presence {
    #[inline]
    pub(crate) fn enter(&self, periods: &Periods) {
        self.own.0.store(periods.current.load(Acquire), Release);
        fence(SeqCst);
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.own.0.store(IDLE, Release);
    }
}

/// Blocks that were unlinked and wait for their period to end, oldest first.
pub(crate) struct Retired {
    waiting: std::collections::VecDeque<(u64, u32)>,
}

impl Retired {
    pub(crate) fn new() -> Retired {
        Retired { waiting: std::collections::VecDeque::new() }
    }

    pub(crate) fn push(&mut self, periods: &Periods, block: u32) {
        self.waiting.push_back((periods.now(), block));
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.waiting.capacity() * 16
    }

    /// Passes on every block that no reader can see any more.
    pub(crate) fn collect(&mut self, periods: &Periods, mut free: impl FnMut(u32)) {
        if self.waiting.is_empty() {
            return;
        }
        let oldest = periods.advance();
        while let Some(&(period, block)) = self.waiting.front() {
            if period >= oldest {
                break;
            }
            self.waiting.pop_front();
            free(block);
        }
    }
}
