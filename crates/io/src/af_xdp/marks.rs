//! Marks in the stream of frames that the kernel hands to a port. A mark is passed when the port's
//! owner has received all frames from before it, or the kernel has dropped them.
//!
//! The program counts the frames that it hands to a queue's socket, and the queue those that it
//! takes from the ring, where they stand in the same order. In between the kernel may drop some
//! and count these, at once: a later frame may be dropped while an earlier one is on its way. So
//! only drops that were known *before* a mark was set are taken off its count. A frame that was
//! about to be dropped just then delays the mark, until the ring is found empty and the count is
//! taken anew.

use super::program::PortProgram;
use super::queue::Queue;

/// The marks of a port. They are numbered.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last one that was passed.
    passed: u64,
    /// By queue: frames that are to be taken before the next mark is passed; empty without one.
    goals: Vec<u64>,
    /// Another mark is to be set behind the next one.
    again: bool,
}

impl Marks {
    /// Sets a mark behind all frames that the kernel has handed over until now. Returns its number.
    pub(super) fn set(&mut self, queues: &mut [Queue], program: &PortProgram) -> u64 {
        if !self.goals.is_empty() {
            // The one that is set may be too early.
            self.again = true;
            return self.passed + 2;
        }
        self.goals.extend(queues.iter().map(|queue| goal(queue, program)));
        self.passed + 1
    }

    /// The number of the last mark that was passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Frames have been taken.
    #[inline]
    pub(super) fn look(&mut self, queues: &mut [Queue], program: &PortProgram) {
        if self.goals.is_empty() {
            return;
        }
        let mut is_passed = true;
        for (queue, its_goal) in queues.iter_mut().zip(&mut self.goals) {
            if queue.taken < *its_goal && queue.rx.available() == 0 {
                *its_goal = goal(queue, program);
            }
            is_passed &= queue.taken >= *its_goal;
        }
        if is_passed {
            self.passed += 1;
            self.goals.clear();
            if std::mem::take(&mut self.again) {
                self.set(queues, program);
            }
        }
    }

    /// There is no device any more: nothing is on its way.
    pub(super) fn pass_all(&mut self) {
        self.passed += 2;
        self.goals.clear();
        self.again = false;
    }
}

fn goal(queue: &Queue, program: &PortProgram) -> u64 {
    // In this order: see above.
    let drops = queue.drops();
    program.handed(queue.number).saturating_sub(drops)
}
