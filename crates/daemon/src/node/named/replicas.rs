//! The FIB, with a replica on each NUMA node on which workers run. Every worker reads the nearest
//! one, and all are equal. There is one replica if the machine has one NUMA node, or if the file
//! names no processors.
//!
//! Memory belongs to the NUMA node of the thread that touches it first, and the thread that changes
//! the replicas is near the first one only. So the memory of the others is bound to their nodes
//! (`mbind`). This also keeps the kernel's NUMA balancing from moving it.

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
    /// The first one is near the calling thread, which is the first worker's.
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

    /// As [`new`](Self::new), with FIBs that `make` makes in the memory of the given node. If it
    /// fails for another node than the first, the workers there read the first replica, and a
    /// warning says so.
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
    /// [`FibError`]: a replica has refused, and none was changed.
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

    /// One replica alone, for tests.
    #[cfg(test)]
    pub(super) fn one(&mut self, replica: usize) -> &mut Fib {
        &mut self.fibs[replica]
    }
}

/// Sets the next hops in the first replica if all others accept them.
fn set(fibs: &mut [Fib], prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
    let Some((first, rest)) = fibs.split_first_mut() else { return Ok(()) };
    first.set_if(prefix, hops, || set(rest, prefix, hops))
}

#[cfg(test)]
mod tests;
