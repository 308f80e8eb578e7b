//! The FIB, once for each node of the machine's memory on which workers run: every worker reads
//! the one near it, and all say the same. Where there is one node, or the file says nothing of
//! processors, there is one.
//!
//! Memory is of the node where it is first touched, and the thread that changes the replicas is
//! near the first one alone. So a thread near each of the others makes it and touches all that it
//! may grow to, and ends. A memory policy (`set_mempolicy`) would not take it all at once, but
//! containers usually forbid that, and `rustix` does not have it.

use std::collections::BTreeMap;
use std::thread;

use plexus_config::NamedSettings;
use plexus_ndn::fib::{Fib, FibError, FibReader, NextHop};
use plexus_wire::ndn::Name;

use super::numa::Nodes;
use super::share::settle;

/// The replicas.
pub(super) struct Replicas {
    /// The first is near the calling thread's processor, which is the first worker's.
    fibs: Vec<Fib>,
    /// Which one each worker reads.
    of_worker: Vec<usize>,
}

impl Replicas {
    /// As many as the workers need, each of them made by `make`.
    ///
    /// # Errors
    /// [`FibError`] for the first. Without another its workers read the first, and a warning says
    /// so.
    pub(super) fn new(
        settings: &NamedSettings,
        nodes: &Nodes,
        make: impl Fn() -> Result<Fib, FibError> + Sync,
    ) -> Result<Replicas, FibError> {
        let mut fibs = vec![make()?];
        let near = |worker: usize| nodes.of(*settings.cpus.get(worker)?);
        let mut of_node = BTreeMap::from([(None, 0), (near(0), 0)]);
        let mut replica_of = |worker: usize| {
            *of_node.entry(near(worker)).or_insert_with_key(|node| {
                match made_near(settings, worker, &make) {
                    Ok(fib) => fibs.push(fib),
                    Err(why) => {
                        tracing::warn!(?node, %why, "no FIB near these workers: the first's is far");
                        return 0;
                    }
                }
                fibs.len() - 1
            })
        };
        let of_worker = (0..settings.workers).map(&mut replica_of).collect();
        Ok(Replicas { fibs, of_worker })
    }

    /// A reader for a worker, of the replica near it.
    pub(super) fn reader(&self, worker: usize) -> FibReader {
        self.fibs[self.of_worker[worker]].reader()
    }

    /// Sets the next hops of a prefix in all replicas.
    ///
    /// # Errors
    /// [`FibError`]: one has refused, and none was changed.
    pub(super) fn set(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        set(&mut self.fibs, prefix, hops)
    }

    /// Takes a prefix out of all.
    pub(super) fn remove(&mut self, prefix: Name<'_>) {
        for fib in &mut self.fibs {
            fib.remove(prefix);
        }
    }

    /// Which replica each worker reads, and how many there are.
    pub(super) fn of_workers(&self) -> (&[usize], usize) {
        (&self.of_worker, self.fibs.len())
    }

    /// Bytes of memory that all of them take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.fibs.iter().map(|fib| fib.memory().total()).sum()
    }

    /// One of them alone, as nothing but a test may have it.
    #[cfg(test)]
    pub(super) fn one(&mut self, replica: usize) -> &mut Fib {
        &mut self.fibs[replica]
    }
}

/// Sets it in the first of these if it can be set in the rest.
fn set(fibs: &mut [Fib], prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
    let Some((first, rest)) = fibs.split_first_mut() else { return Ok(()) };
    first.set_if(prefix, hops, || set(rest, prefix, hops))
}

/// A replica whose memory is near a worker's processor.
fn made_near(
    settings: &NamedSettings,
    worker: usize,
    make: &(impl Fn() -> Result<Fib, FibError> + Sync),
) -> Result<Fib, String> {
    let run = || {
        settle(settings, worker)?;
        let mut fib = make().map_err(|e| e.to_string())?;
        fib.populate().map_err(|e| format!("its memory cannot be taken at once: {e}"))?;
        Ok(fib)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, run).map_err(|e| e.to_string())?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
