//! Storm limits: how many packets per second a port may send to many ports at once.

use plexus_io::Packet;
use plexus_wire::Time;

use crate::drops::DropReason;
use crate::pace::{Limiter, frames};
use crate::snapshot::Snapshot;
use crate::verdict::Verdict;

/// Kinds of packets that are flooded.
#[derive(Clone, Copy)]
pub(crate) enum Cast {
    Broadcast,
    Multicast,
    Unknown,
}

/// Each port's limiters, where it has any.
#[derive(Default)]
pub(crate) struct Storms {
    ports: Vec<[Option<Limiter>; 3]>,
}

impl Storms {
    /// Follows a new configuration. A limiter whose rate stays keeps its state, so that it grants
    /// no new burst.
    pub(crate) fn adopt(&mut self, plan: &Snapshot) {
        self.ports.resize_with(plan.ports.len(), Default::default);
        for (limiters, port) in self.ports.iter_mut().zip(&plan.ports) {
            let s = port.settings.storm;
            let rates = [s.broadcast_pps, s.multicast_pps, s.unknown_pps];
            for (limiter, rate) in limiters.iter_mut().zip(rates) {
                if limiter.as_ref().map(Limiter::packets_per_s) != rate {
                    *limiter = rate.map(Limiter::new);
                }
            }
        }
    }

    /// Flood, or drop if the packet's port has exceeded its rate of this kind. A super-packet
    /// counts as the frames that it is cut into.
    #[inline]
    pub(crate) fn admit(&mut self, packet: &Packet, cast: Cast, now: Time) -> Verdict {
        let limiter = &mut self.ports[usize::from(packet.in_port)][cast as usize];
        if limiter.as_mut().is_none_or(|l| l.admits_frames(now, frames(packet))) {
            return Verdict::Flood;
        }
        Verdict::Drop(match cast {
            Cast::Broadcast => DropReason::StormBroadcast,
            Cast::Multicast => DropReason::StormMulticast,
            Cast::Unknown => DropReason::StormUnknown,
        })
    }
}
