//! Queues of the order `deep`: best-effort packets of such a port wait in the worker's deep buffer
//! ([`plexus_coproc::deep`]). Other classes keep their queues.

use plexus_config::{DeepBufferSettings, Detector, PortSettings, QueueOrder, Suspects};
use plexus_coproc::deep::{
    Address, Arrival, Counts, DeepBuffer, Distance, PortSettings as Line, Refusal, Settings,
    Source, State,
};
use plexus_coproc::lowrate::{self, Suspect};
use plexus_io::{Packet, PortId};
use plexus_wire::{FlowKey, MacAddr, Protocol, Time};

use super::shelf::Shelf;
use crate::drops::DropReason;
use crate::flow::Queued;
use crate::pace::wire_bytes;
use crate::snapshot::{PortPlan, Snapshot};

/// The class whose packets may wait in the deep buffer: best effort.
pub(super) const DEEP_CLASS: usize = 0;

/// Where a worker's packets wait.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) shelf: Shelf,
    pub(super) deep: Option<Box<DeepBuffer<Packet>>>,
    /// Which ports have a deep queue.
    ports: Vec<bool>,
    /// Ports that have lost a waiting packet to another one.
    pub(super) lost: Vec<PortId>,
}

/// A deep buffer, for people.
#[derive(Clone, Debug, Default)]
pub struct DeepReport {
    /// When it was made.
    pub now: Time,
    /// Bytes in use.
    pub used: u64,
    /// Flows that are long.
    pub long_flows: usize,
    /// Its ports.
    pub ports: Vec<(PortId, State, Counts)>,
    /// Sources of low-rate bursts.
    pub suspects: Vec<Suspect>,
    /// Sources that became suspects, oldest first; the last few hundred.
    pub history: Vec<Source>,
    /// How many there have been.
    pub found: u64,
}

impl Store {
    /// Follows a new configuration. Packets that wait stay where they are.
    pub(super) fn adopt(&mut self, plan: &Snapshot, worker: usize) {
        let is_mine = |port: &PortPlan| port.worker == worker;
        let is_deep = |settings: &PortSettings| settings.queue.order == QueueOrder::Deep;
        let settings = of_box(&plan.deep_buffer);
        let has_any = plan.ports.iter().any(|port| is_mine(port) && is_deep(&port.settings));
        match &mut self.deep {
            Some(deep) => deep.set_settings(settings),
            None if has_any => self.deep = Some(Box::new(DeepBuffer::new(settings))),
            None => return,
        }
        let Some(deep) = &mut self.deep else { return };
        let all = plan.ports.iter();
        self.ports = all.map(|port| is_mine(port) && is_deep(&port.settings)).collect();
        for (id, port) in plan.ports.iter().enumerate().filter(|(id, _)| self.ports[*id]) {
            let limit = port.settings.queue.packets;
            deep.set_port(id, Line::new(limit, port.settings.rate_bits_per_s));
        }
    }

    /// Looks for sources of low-rate bursts.
    pub(crate) fn tick(&mut self, now: Time) {
        let Some(deep) = &mut self.deep else { return };
        deep.tick(now);
        for (port, _) in self.ports.iter().enumerate().filter(|(_, is_deep)| !**is_deep) {
            deep.remove_port(port);
        }
    }

    pub(super) fn report(&self, now: Time) -> Option<DeepReport> {
        let deep = self.deep.as_ref()?;
        let ports = (0..).zip(deep.ports()).filter_map(|(port, line)| {
            let (state, counts) = line?;
            Some((port, state, counts))
        });
        Some(DeepReport {
            now,
            used: deep.used(),
            long_flows: deep.long_flows(now),
            ports: ports.collect(),
            suspects: deep.watch().into_iter().flat_map(|watch| watch.suspects()).collect(),
            found: deep.watch().map_or(0, |watch| watch.found()),
            history: deep.watch().into_iter().flat_map(|watch| watch.history()).collect(),
        })
    }
}

fn of_box(settings: &DeepBufferSettings) -> Settings {
    let DeepBufferSettings { bytes, long_after, .. } = *settings;
    let lowrate = (settings.suspects != Suspects::Off).then(|| lowrate::Settings {
        detector: match settings.detector {
            Detector::Harm => lowrate::Detector::Harm,
            Detector::Paper => lowrate::Detector::Paper,
        },
        rto_min: settings.rto_min,
        shape_bits_per_s: settings.shape_bits_per_s,
        shapes: settings.suspects == Suspects::Shape,
        ..lowrate::Settings::default()
    });
    let distance = settings.chip.map(|chip| Distance {
        setup: chip.setup,
        poll: chip.poll,
        bits_per_s: chip.link_bits_per_s,
        rules: chip.rules,
    });
    let keeps_order = settings.chip.is_none_or(|chip| chip.keeps_order);
    Settings { bytes, long_after, keeps_order, distance, lowrate }
}

/// A packet, as the deep buffer sees it. Its addresses are read once.
pub(super) fn arrival(packet: &Packet, queued: &Queued<'_>, seed: u64) -> Arrival {
    let frame = queued.host_frame();
    let key = FlowKey::from_frame(frame);
    let address = match key {
        Some(key) => Address::Ip(key.src),
        None => {
            let mac = frame.get(6..12).and_then(|bytes| bytes.first_chunk().copied());
            Address::Mac(MacAddr(mac.unwrap_or_default()))
        }
    };
    Arrival {
        // A host can make up addresses, and not the port that it sends by.
        flow: queued.flow_of(key.as_ref(), seed) ^ u64::from(packet.in_port).rotate_right(16),
        from: Source { port: packet.in_port, address },
        is_tcp: key.is_some_and(|key| key.protocol == Protocol::TCP),
        bytes: u32::try_from(wire_bytes(packet)).unwrap_or(u32::MAX),
        frames: match packet.offload.segment_size {
            0 => 1,
            size => (packet.len() / usize::from(size)).max(1) as u32,
        },
    }
}

pub(super) fn reason(refusal: Refusal) -> DropReason {
    match refusal {
        Refusal::Full => DropReason::QueuePackets,
        Refusal::Long => DropReason::LongFlow,
        Refusal::Budget => DropReason::DeepFull,
        Refusal::Link => DropReason::DeepLink,
    }
}
