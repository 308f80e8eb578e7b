//! The switch: a chip, the CPU behind it, and the policy between them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_coproc::chip::Way;
use plexus_coproc::{Chip, ChipModel, ChipSpec, Offload, OffloadConfig};
use plexus_table::PackedFlow;
use plexus_wire::{FlowKey, Protocol, Time};

use super::Train;

/// The internal link, in bytes per nanosecond: 4 Gb/s (`traffic-coprocessor.txt` §4).
const INTERNAL: f64 = 0.5;
/// From the CPU's reception of a packet until it is back in the chip. The paper gives no figure.
const CPU: Duration = Duration::from_micros(50);
/// The longest wait for the internal link: 500 kB. Trains beyond it are dropped.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// The five-tuple of a flow's number.
pub(crate) fn key(flow: u32) -> PackedFlow {
    PackedFlow::from(&FlowKey {
        vlan: None,
        src: Ipv4Addr::from_bits(0x0A00_0000 | flow >> 16).into(),
        dst: Ipv4Addr::new(10, 1, 0, 1).into(),
        protocol: Protocol::TCP,
        ports: Some((flow as u16, 5001)),
    })
}

/// The counts of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Done {
    pub(crate) bytes: u64,
    /// Bytes that the chip forwarded, parked ones included.
    pub(crate) fast: u64,
    /// Trains that the chip forwarded while earlier ones of their flow were on the CPU.
    pub(crate) early: u64,
    /// Packets dropped in front of the CPU or while parked.
    pub(crate) dropped: u64,
    /// The most that came to the CPU in a second, in bytes.
    pub(crate) cpu_most: u64,
}

/// A switch with a policy.
pub(crate) struct Switch {
    pub(crate) offload: Offload,
    pub(crate) chip: ChipModel,
    pub(crate) done: Done,
    /// Trains on the CPU: when each has left, and its number.
    cpu: VecDeque<(Time, u64)>,
    cpu_free: Time,
    /// When the last train of each flow leaves the CPU.
    leaves: Vec<Time>,
    second: u64,
    in_second: u64,
    now: Time,
}

impl Switch {
    pub(crate) fn new(config: OffloadConfig, spec: ChipSpec) -> Switch {
        Switch {
            offload: Offload::new(config, spec.rules),
            chip: ChipModel::new(spec),
            done: Done::default(),
            cpu: VecDeque::new(),
            cpu_free: Time::ZERO,
            leaves: Vec::new(),
            second: 0,
            in_second: 0,
            now: Time::ZERO,
        }
    }

    /// Everything that is due up to a time.
    fn run_to(&mut self, to: Time) {
        loop {
            let leaves = self.cpu.front().map_or(Time::FOREVER, |train| train.0);
            let next = leaves.min(self.offload.next_deadline(&self.chip)).max(self.now);
            if next > to {
                break;
            }
            let now = next;
            self.now = now;
            let mut left = None;
            while let Some((_, number)) = self.cpu.pop_front_if(|train| train.0 <= now) {
                left = Some(number);
            }
            if let Some(number) = left {
                self.offload.left(now, number);
            }
            self.offload.poll(now, &mut self.chip);
            if now == to {
                break;
            }
        }
        self.now = to;
    }

    /// A train comes in.
    pub(crate) fn train(&mut self, train: &Train) {
        let Train { at, flow, bytes, packets } = *train;
        self.run_to(at);
        let key = key(flow);
        let place = flow as usize;
        if place >= self.leaves.len() {
            self.leaves.resize(place + 1, Time::ZERO);
        }
        self.done.bytes += u64::from(bytes);
        match self.chip.packet(&key, bytes, packets) {
            Way::Fast => {
                self.done.fast += u64::from(bytes);
                self.done.early += u64::from(self.leaves[place] > at);
            }
            Way::Parked => self.done.fast += u64::from(bytes),
            Way::Dropped => self.done.dropped += u64::from(packets),
            // TCP would slow down.
            Way::Cpu { matched } if self.cpu_free.since(at) > WAIT_MAX => {
                self.done.dropped += u64::from(packets);
                if matched {
                    self.offload.dropped(&key, packets);
                }
            }
            Way::Cpu { matched } => {
                let number = self.offload.on_cpu(at, &key, bytes, packets, matched);
                let ns = (f64::from(bytes) / INTERNAL) as u64;
                self.cpu_free = self.cpu_free.max(at) + Duration::from_nanos(ns);
                self.leaves[place] = self.cpu_free + CPU;
                self.cpu.push_back((self.leaves[place], number));
                let second = at.as_nanos() / 1_000_000_000;
                if second != self.second {
                    (self.second, self.in_second) = (second, 0);
                }
                self.in_second += u64::from(bytes);
                self.done.cpu_most = self.done.cpu_most.max(self.in_second);
                self.offload.poll(at, &mut self.chip);
            }
        }
    }

    /// The percentage that the chip forwarded.
    pub(crate) fn percent(&self) -> f64 {
        self.done.fast as f64 / self.done.bytes.max(1) as f64 * 100.0
    }
}
