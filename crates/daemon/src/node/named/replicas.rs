//! The FIB, once for each node of the machine's memory on which workers run: every worker reads
//! the one near it, and all say the same. Where there is one node, or the file says nothing of
//! processors, there is one.
//!
//! Memory is of the node where it is first touched, and the thread that changes the replicas is
//! near the first one alone. So the others' memory is bound to their nodes (`mbind`), which keeps
//! it there also from the kernel, which moves memory that is not bound to whom it sees use it.

use std::collections::BTreeMap;

use plexus_config::NamedSettings;
use plexus_ndn::fib::{Fib, FibError, FibReader, NextHop};
use plexus_ndn::names::NameHasher;
use plexus_table::names::NameLimits;
use plexus_wire::ndn::Name;

use super::numa::Nodes;

/// Bytes for a prefix's record in the FIB, on average.
const RECORD_BYTES: usize = 96;

/// The replicas.
pub(super) struct Replicas {
    /// The first is near the calling thread's processor, which is the first worker's.
    fibs: Vec<Fib>,
    /// Which one each worker reads.
    of_worker: Vec<usize>,
}

impl Replicas {
    /// As many as the workers need, each without prefixes.
    ///
    /// # Errors
    /// In words, when there is no memory for the first.
    pub(super) fn new(
        settings: &NamedSettings,
        nodes: &Nodes,
        hasher: NameHasher,
    ) -> Result<Replicas, String> {
        let limits = NameLimits {
            prefixes: settings.prefixes_max,
            record_bytes: settings.prefixes_max * RECORD_BYTES,
        };
        Replicas::of(settings, nodes, |node| {
            let fib = Fib::new(hasher, limits).map_err(|e| format!("the FIB: {e}"))?;
            if let Some(node) = node {
                let refused = |e| format!("memory of its node (containers: CAP_SYS_NICE): {e}");
                fib.bind(node).map_err(refused)?;
            }
            Ok(fib)
        })
    }

    /// The same, of FIBs that are made of the node's memory that is asked for. Without another than
    /// the first its workers read that, and a warning says so.
    pub(super) fn of(
        settings: &NamedSettings,
        nodes: &Nodes,
        make: impl Fn(Option<u32>) -> Result<Fib, String>,
    ) -> Result<Replicas, String> {
        let mut fibs = vec![make(None)?];
        let near = |worker: usize| nodes.of(*settings.cpus.get(worker)?);
        let mut of_node = BTreeMap::from([(None, 0), (near(0), 0)]);
        let replica_of = |worker| {
            *of_node.entry(near(worker)).or_insert_with_key(|node| match make(*node) {
                Ok(fib) => {
                    fibs.push(fib);
                    fibs.len() - 1
                }
                Err(why) => {
                    tracing::warn!(?node, %why, "no FIB of its own: workers read the first's");
                    0
                }
            })
        };
        let of_worker = (0..settings.workers).map(replica_of).collect();
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

#[cfg(test)]
mod tests;
