//! A sample of the flows that a worker switches, for `plexus show flows`. It runs only while
//! somebody looks, and costs a worker with full batches one look at a frame per batch.
//!
//! Of each batch one packet is looked at, and counts for all packets of the batch. Batches of few
//! packets are counted exactly.

use plexus_io::{Batch, Packet, Pool, PortId};
use plexus_table::{Counted, FlowTable, PackedFlow};
use plexus_wire::{FlowKey, Time};

use crate::fabric::plan::FabricPlan;
use crate::flow::Queued;
use crate::verdict::Verdict;

/// Batches of so many packets are counted exactly.
const EXACT: usize = 4;
/// Flows of a sample; further ones are counted together.
const FLOWS: usize = 16_384;
/// No flow of a sample is idle for so long.
const IDLE_MS: u32 = 60_000;

/// A sample that is being taken.
pub(crate) struct Sample {
    since: Time,
    flows: FlowTable,
    /// By the flows' slots: the ports of the last packet that was looked at.
    ports: Vec<(PortId, Option<PortId>)>,
    others: u64,
    /// Chooses the packet of a batch.
    random: u64,
}

/// A flow of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledFlow {
    /// Its addresses and ports.
    pub key: FlowKey,
    /// The port that its packets come in by.
    pub in_port: PortId,
    /// The port that they leave by; none: they are flooded, or for the box itself.
    pub out_port: Option<PortId>,
    /// Its packets, as far as the sample tells.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A sample.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// Seconds that it lasted.
    pub seconds: f64,
    /// Its flows, in no order.
    pub flows: Vec<SampledFlow>,
    /// Packets that are no IP, or of flows beyond the table's size.
    pub others: u64,
}

impl Sample {
    pub(crate) fn new(now: Time, seed: u64) -> Sample {
        let flows = FlowTable::new(FLOWS, IDLE_MS, [seed, !seed]);
        let ports = vec![(0, None); flows.slots()];
        Sample { since: now, flows, ports, others: 0, random: seed | 1 }
    }

    /// A batch has its verdicts.
    #[cold]
    #[inline(never)]
    pub(crate) fn see(&mut self, now: Time, pool: &Pool, fabric: &FabricPlan, batch: &Batch) {
        if batch.len() <= EXACT {
            return batch.iter().for_each(|packet| self.count(now, pool, fabric, packet, 1));
        }
        // Marsaglia's xorshift: senders cannot keep in step with it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let packet = &batch[self.random as usize % batch.len()];
        self.count(now, pool, fabric, packet, batch.len() as u64);
    }

    /// Counts a packet so many times.
    fn count(&mut self, now: Time, pool: &Pool, fabric: &FabricPlan, packet: &Packet, times: u64) {
        let frame = pool.data(packet);
        let queued = Queued::new(fabric, packet.in_port, frame);
        let Some(key) = FlowKey::from_frame(queued.host_frame()) else {
            self.others += times;
            return;
        };
        let key = PackedFlow::from(&key);
        let hash = self.flows.hash(&key);
        match self.flows.count(&key, hash, now, packet.len() as u32) {
            Counted::Known(slot) | Counted::New(slot) => {
                let rest = times - 1;
                self.flows.add(slot, rest, rest * packet.len() as u64);
                let out = match Verdict::load(packet) {
                    Verdict::Forward(port) => Some(port),
                    _ => None,
                };
                self.ports[slot.0 as usize] = (packet.in_port, out);
            }
            Counted::Refused => self.others += times,
        }
    }

    /// The sample so far.
    pub(crate) fn report(&self, now: Time) -> Sampled {
        let flows = self.flows.iter().map(|(slot, key, counts)| {
            let (in_port, out_port) = self.ports[slot.0 as usize];
            let (packets, bytes) = (counts.packets, counts.bytes);
            SampledFlow { key: key.into(), in_port, out_port, packets, bytes }
        });
        Sampled {
            seconds: now.since(self.since).as_secs_f64(),
            flows: flows.collect(),
            others: self.others,
        }
    }
}
