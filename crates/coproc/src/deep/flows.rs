//! Which flows are long. A table of fixed size: a flow whose place another one takes is short
//! again. So flows that were made up can cost a long flow its place. It then takes the deep buffer
//! once more, where its packets may overtake those that still wait in the port's own queue.

use std::time::Duration;

use plexus_wire::Time;

use super::{Arrival, Settings};

/// Flows that are known at once, a power of two.
const PLACES: usize = 1 << 13;
/// A flow may be in any of so many places.
const WAYS: usize = 4;
/// A flow without packets for this long begins anew.
const IDLE: Duration = Duration::from_secs(1);
/// A pause of a flow that is no TCP. After one, its time without a pause begins anew.
const PAUSE: Duration = Duration::from_millis(50);
/// A flow that is no TCP is long after so much time without a pause.
const STEADY: Duration = Duration::from_secs(1);
/// How often long flows are counted anew: each time all places are looked at.
const RECOUNT: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    hash: u64,
    port: u32,
    bytes: u64,
    last: Time,
    steady_since: Time,
    /// It is long from then on.
    long_at: Time,
    /// The position of its last packet in the deep buffer of its port.
    pub(super) deep: u64,
    /// The position of its last packet in the own queue of its port, if it was long then.
    pub(super) own: u64,
    /// Its frames in that queue, since it became long.
    pub(super) waiting: u32,
}

const NOBODY: Flow = Flow {
    hash: 0,
    port: u32::MAX,
    bytes: 0,
    last: Time::ZERO,
    steady_since: Time::ZERO,
    long_at: Time::FOREVER,
    deep: 0,
    own: 0,
    waiting: 0,
};

impl Flow {
    pub(super) fn is_long(&self, now: Time) -> bool {
        self.long_at <= now
    }
}

/// A flow's place in the table.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

pub(super) struct Flows {
    places: Vec<Flow>,
    /// How many were long when that was last counted, and those that became so since.
    counted: (Time, usize),
}

impl Default for Flows {
    fn default() -> Flows {
        Flows { places: vec![NOBODY; PLACES], counted: (Time::ZERO, 0) }
    }
}

impl Flows {
    /// Counts a packet; the place of its flow, until the next packet is counted. It may have been
    /// that of a flow with packets in the own queue of a port, which is then told too.
    pub(super) fn see(
        &mut self,
        now: Time,
        port: usize,
        arrival: &Arrival,
        settings: &Settings,
    ) -> (Place, Option<usize>) {
        let port = port as u32;
        let has_room = settings.distance.is_none_or(|distance| self.has_room(now, distance.rules));
        let first = arrival.flow as usize % (PLACES / WAYS) * WAYS;
        let ways = &self.places[first..first + WAYS];
        let known = ways.iter().position(|f| f.hash == arrival.flow && f.port == port);
        let oldest = || ways.iter().enumerate().min_by_key(|(_, flow)| flow.last);
        let way = known.or_else(|| oldest().map(|(way, _)| way)).unwrap_or(0);
        let flow = &mut self.places[first + way];
        let is_replaced = known.is_none() && flow.waiting > 0;
        let replaced = is_replaced.then_some(flow.port as usize);
        if known.is_none() || now >= flow.last + IDLE {
            // Its packets may still wait.
            let before = if known.is_some() { *flow } else { NOBODY };
            let Flow { deep, own, waiting, .. } = before;
            let (hash, steady_since) = (arrival.flow, now);
            *flow = Flow { hash, port, last: now, steady_since, deep, own, waiting, ..NOBODY };
        }
        if now >= flow.last + PAUSE {
            flow.steady_since = now;
        }
        flow.last = now;
        flow.bytes += u64::from(arrival.bytes);
        let lasts = arrival.is_tcp || now >= flow.steady_since + STEADY;
        let is_much = flow.bytes > settings.long_after;
        let becomes_long = flow.long_at == Time::FOREVER && is_much && lasts && has_room;
        if becomes_long {
            flow.long_at = now + settings.distance.map_or(Duration::ZERO, |d| d.setup);
        }
        self.counted.1 += usize::from(becomes_long);
        (Place(first + way), replaced)
    }

    /// Nothing waits at a port any more, and its positions end.
    pub(super) fn forget_port(&mut self, port: usize) {
        let its = self.places.iter_mut().filter(|flow| flow.port == port as u32);
        its.for_each(|flow| *flow = NOBODY);
    }

    /// The flow at a place.
    pub(super) fn at(&mut self, place: Place) -> &mut Flow {
        &mut self.places[place.0]
    }

    /// Whether the chip has a rule for one more long flow.
    fn has_room(&mut self, now: Time, rules: u32) -> bool {
        if now >= self.counted.0 + RECOUNT {
            self.counted = (now, self.long(now));
        }
        self.counted.1 < rules as usize
    }

    /// Frames of a flow have left the own queue of its port; true if none is known to wait there
    /// any more. They are not known if another flow has had the place since they came.
    pub(super) fn left(&mut self, port: usize, long: (Place, u64), frames: u32) -> bool {
        let (place, hash) = long;
        let flow = &mut self.places[place.0];
        if flow.waiting == 0 || flow.hash != hash || flow.port != port as u32 {
            return false;
        }
        flow.waiting = flow.waiting.saturating_sub(frames);
        flow.waiting == 0
    }

    /// Flows that are long by now.
    pub(super) fn long(&self, now: Time) -> usize {
        let is_used = |flow: &&Flow| now < flow.last + IDLE;
        self.places.iter().filter(|flow| flow.long_at != Time::FOREVER).filter(is_used).count()
    }
}
