//! The learning switch (IEEE 802.1Q, clause 8): which port each station is at, and where a frame
//! goes.
//!
//! - In: packets with `in_port`.
//! - Out: `verdict` (one port, or flood within the VLAN), `vlan`, `priority`, tag flag.
//! - Parameters: [`SwitchSettings`](plexus_config::SwitchSettings); per port VLANs, learning, MAC
//!   limit and storm limits.
//! - Verdicts to drop: `runt`, `bad_source`, `reserved`, `vlan_denied`, `untagged`, `own_address`,
//!   `static_elsewhere`, `mac_limit`, `same_port`, `storm_*`.
//!
//! A batch is read in two passes: the first computes keys and asks for their buckets, the second
//! uses them, so that the memory latency of 64 packets overlaps.
//!
//! Each of several workers has its own table. A worker tells the others what it learns
//! ([`LearnedMac`]), and again for each sixteenth of the ageing time that a station is heard. So
//! the worker of a station's port forgets it after exactly the ageing time. The others may forget
//! it up to a sixteenth earlier, and then flood to it.
//!
//! Example: station A at p1 sends a frame to B, which is unknown. The table learns A at p1, and the
//! frame floods. B's answer comes in by p2: the table learns B at p2, and the answer leaves by p1
//! only.

use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_io::{BATCH, Batch, Packet, PortId};
use plexus_table::{Full, Hashed, MacKey, MacTable, Station};
use plexus_wire::{MacAddr, Time};

use crate::bits::range;
use crate::context::Context;
use crate::drops::DropReason;
use crate::router::plan::{InterfacePlan, RouterPlan};
use crate::snapshot::{PORTS_MAX, Snapshot};
use crate::storm::{Cast, Storms};
use crate::verdict::Verdict;
use crate::vlan;

/// A station is forgotten when it has been silent for this many units of the 16-bit time stamp.
const AGE_UNITS: u16 = 256;
/// Other workers hear of a station again after this many units.
const REFRESH_UNITS: u16 = AGE_UNITS / 16;
/// The whole table is swept in this many units: long before a time stamp can wrap.
const SWEEP_UNITS: u64 = 16;
/// Buckets per step of a sweep: some ten microseconds.
const SWEEP_STEP: usize = 256;

/// Stations of a small switch beside the configured ones.
const SMALL: usize = 256;
/// The port of the router's own addresses in the table. So a packet to the router costs no other
/// packet a comparison.
const ROUTER: PortId = PORTS_MAX as PortId;

/// A station that a worker has heard, for the other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedMac {
    /// VLAN and address.
    pub key: MacKey,
    /// Where it is.
    pub port: PortId,
}

/// The switch of one worker.
pub struct Switch {
    table: MacTable,
    /// Stations that it may know, the router's own addresses aside.
    size: usize,
    seed: u64,
    /// Learned stations by port, for the limits.
    stations: Vec<u32>,
    storms: Storms,
    unit_ns: u64,
    share: bool,
    news: Vec<LearnedMac>,
    /// Places of the last batch's packets that go out by the port of a known station.
    sent: u64,
    /// Stations that were heard elsewhere than before; kept for a fast table.
    moved: Option<Vec<MacKey>>,
    sweep_at: usize,
    swept_until: u64,
}

/// The first pass's findings about a packet. Without a source it has been decided for.
#[derive(Clone, Copy, Default)]
struct Lookup {
    source: MacKey,
    source_hash: Hashed,
    destination: MacKey,
    destination_hash: Hashed,
}

impl Switch {
    /// An empty switch with its configured stations. `seed` keys the table's hash. With `share`,
    /// news for other workers is kept.
    pub fn new(plan: &Snapshot, seed: u64, share: bool) -> Switch {
        Switch::of_size(plan, plan.mac_table, seed, share)
    }

    /// A switch for few stations beside the configured ones.
    pub(crate) fn small(plan: &Snapshot, seed: u64) -> Switch {
        let size = plan.mac_table.min(4 * plan.static_macs.len() + SMALL);
        Switch::of_size(plan, size, seed, false)
    }

    fn of_size(plan: &Snapshot, size: usize, seed: u64, share: bool) -> Switch {
        let mut switch = Switch {
            table: MacTable::new(size, seed),
            size,
            seed,
            stations: Vec::new(),
            storms: Storms::default(),
            unit_ns: 1,
            share,
            news: Vec::with_capacity(if share { BATCH } else { 0 }),
            sent: 0,
            moved: None,
            sweep_at: 0,
            swept_until: 0,
        };
        switch.adopt_sized(Time::ZERO, plan, &RouterPlan::default(), size);
        switch
    }

    /// Decides for every packet of the batch.
    #[inline(never)]
    pub(crate) fn run(&mut self, context: &mut Context<'_>, batch: &mut Batch) {
        self.pass(context, batch, u64::MAX, |_, _, _| false);
    }

    /// The same for the packets at the places whose bits are set, but those to the router or to a
    /// group that `claims` decides for.
    #[inline(never)]
    pub(crate) fn run_some(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut [Packet],
        set: u64,
        claims: impl FnMut(&mut Context<'_>, usize, &mut Packet) -> bool,
    ) {
        // A pass of its own for the whole batch is 5 % quicker: it has no bits to look at.
        match set == range(0, batch.len()) {
            true => self.pass(context, batch, u64::MAX, claims),
            false => self.pass(context, batch, set, claims),
        }
    }

    #[inline(always)]
    fn pass(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut [Packet],
        set: u64,
        mut claims: impl FnMut(&mut Context<'_>, usize, &mut Packet) -> bool,
    ) {
        let mut lookups: ArrayVec<Lookup, BATCH> = ArrayVec::new();
        for (place, packet) in batch.iter_mut().enumerate() {
            lookups.push(match set >> place & 1 {
                0 => Lookup::default(),
                _ => self.lookup(context, packet),
            });
        }
        let (stamp, mut sent) = (self.stamp(context.now), 0);
        for (place, (packet, lookup)) in batch.iter_mut().zip(&lookups).enumerate() {
            // No station has address zero.
            if lookup.source.mac_u64() == 0 {
                continue;
            }
            let verdict = match self.learn(context, packet.in_port, lookup, stamp) {
                Err(reason) => Verdict::Drop(reason),
                Ok(()) => match self.port_of(lookup, stamp) {
                    // Most packets.
                    Some(port) if port != packet.in_port && port != ROUTER => {
                        sent |= 1 << place;
                        Verdict::Forward(port).store(packet);
                        continue;
                    }
                    port => {
                        let now = context.now;
                        let claims = |packet: &mut _| claims(context, place, packet);
                        let other = self.route_other(now, packet, lookup.destination, port, claims);
                        let Some(verdict) = other else { continue };
                        verdict
                    }
                },
            };
            verdict.store(packet);
        }
        self.sent |= sent;
    }

    #[inline(always)]
    fn lookup(&self, context: &mut Context<'_>, packet: &mut Packet) -> Lookup {
        let addresses = vlan::classify(context, packet);
        let source = MacKey::from_u64(addresses.vlan, addresses.source);
        let destination = MacKey::from_u64(addresses.vlan, addresses.destination);
        Lookup {
            source,
            source_hash: self.table.prefetch(source),
            destination,
            destination_hash: self.table.prefetch(destination),
        }
    }

    /// Learns the port of the source.
    #[inline(always)]
    fn learn(
        &mut self,
        context: &mut Context<'_>,
        port: PortId,
        lookup: &Lookup,
        stamp: u16,
    ) -> Result<(), DropReason> {
        let now_here = Station::learned(port, stamp);
        let Some(slot) = self.table.find(lookup.source, lookup.source_hash) else {
            return self.learn_new(context, port, lookup.source, now_here);
        };
        let known = self.table.at(slot);
        if known == now_here {
            return Ok(());
        }
        if known.is_static() {
            let here = known.port() == port;
            return if here { Ok(()) } else { refuse(context, port, lookup.source, known) };
        }
        if known.port() == port {
            self.table.set(slot, now_here);
            if self.share && stamp / REFRESH_UNITS != known.stamp() / REFRESH_UNITS {
                self.news.push(LearnedMac { key: lookup.source, port });
            }
            return Ok(());
        }
        let settings = &context.plan.ports[usize::from(port)].settings;
        if !settings.learning {
            return Ok(());
        }
        if self.at_limit(port, settings.mac_limit) {
            return Err(DropReason::MacLimit);
        }
        self.table.set(slot, now_here);
        self.count(known.port(), port);
        context.counters.ports[usize::from(port)].moved += 1;
        self.note_moved(lookup.source);
        self.tell(lookup.source, port);
        Ok(())
    }

    #[cold]
    fn learn_new(
        &mut self,
        context: &mut Context<'_>,
        port: PortId,
        key: MacKey,
        station: Station,
    ) -> Result<(), DropReason> {
        let settings = &context.plan.ports[usize::from(port)].settings;
        // At a routed port there is one place only, unless the kernel has a device there.
        let has_one_place = |i: &InterfacePlan| i.port.is_some() && i.kernel.is_none();
        let is_routed = context.router.interface(key.vlan()).is_some_and(has_one_place);
        if !settings.learning || is_routed {
            return Ok(());
        }
        if self.at_limit(port, settings.mac_limit) {
            return Err(DropReason::MacLimit);
        }
        let counters = &mut context.counters.ports[usize::from(port)];
        match self.table.insert(key, station) {
            Ok(_) => {
                self.stations[usize::from(port)] += 1;
                counters.learned += 1;
                self.tell(key, port);
            }
            // The frame is forwarded all the same; answers to it will be flooded.
            Err(Full) => counters.table_full += 1,
        }
        Ok(())
    }

    /// Where the destination is known to be. No group has a place.
    #[inline(always)]
    fn port_of(&self, lookup: &Lookup, stamp: u16) -> Option<PortId> {
        if lookup.destination.is_multicast() {
            return None;
        }
        let station =
            self.table.at(self.table.find(lookup.destination, lookup.destination_hash)?);
        fresh(station, stamp).then(|| station.port())
    }

    /// Decides for a packet that does not simply go to a station at another port; nothing if
    /// another forwarder `claims` it. `port`: where its destination is.
    #[inline(always)]
    fn route_other(
        &mut self,
        now: Time,
        packet: &mut Packet,
        destination: MacKey,
        port: Option<PortId>,
        mut claims: impl FnMut(&mut Packet) -> bool,
    ) -> Option<Verdict> {
        let cast = match (port, destination) {
            (Some(ROUTER), _) if claims(packet) => return None,
            // Or the kernel's own frame to itself: the router takes all others.
            (Some(_), _) => return Some(Verdict::Drop(DropReason::SamePort)),
            (None, group) if group.is_multicast() && claims(packet) => return None,
            (None, group) if group.is_broadcast() => Cast::Broadcast,
            (None, group) if group.is_multicast() => Cast::Multicast,
            (None, _) => Cast::Unknown,
        };
        Some(self.storms.admit(packet, cast, now))
    }

    fn at_limit(&self, port: PortId, limit: Option<u32>) -> bool {
        limit.is_some_and(|limit| self.stations[usize::from(port)] >= limit)
    }

    /// A station has moved from one port's count to another's.
    fn count(&mut self, from: PortId, to: PortId) {
        let from = &mut self.stations[usize::from(from)];
        *from = from.saturating_sub(1);
        self.stations[usize::from(to)] += 1;
    }

    fn tell(&mut self, key: MacKey, port: PortId) {
        if self.share {
            self.news.push(LearnedMac { key, port });
        }
    }

    fn note_moved(&mut self, station: MacKey) {
        if let Some(moved) = &mut self.moved {
            moved.push(station);
        }
    }

    /// Keeps what a fast table has to know from now on.
    pub(crate) fn note_moves(&mut self) {
        self.moved.get_or_insert_default();
    }

    /// The next station that was heard elsewhere than before.
    #[inline]
    pub(crate) fn take_moved(&mut self) -> Option<MacKey> {
        self.moved.as_mut()?.pop()
    }

    /// The places of a batch's packets that go out by the port of a known station. The next batch
    /// begins.
    #[inline]
    pub(crate) fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }

    /// A station has been heard at a port by the fast table. False if it is not known there.
    pub(crate) fn refresh(&mut self, now: Time, key: MacKey, port: PortId) -> bool {
        let stamp = self.stamp(now);
        match self.table.get(key).filter(|known| known.port() == port) {
            Some(known) if known.is_static() || known.stamp() == stamp => true,
            Some(known) => {
                if self.share && stamp / REFRESH_UNITS != known.stamp() / REFRESH_UNITS {
                    self.news.push(LearnedMac { key, port });
                }
                // A known key needs no further place.
                self.table.insert(key, Station::learned(port, stamp)).is_ok()
            }
            None => false,
        }
    }

    /// Whether a station is known at a port, and will be for as long if nothing is heard of it.
    pub(crate) fn stays(&self, now: Time, long: Duration, key: MacKey, port: PortId) -> bool {
        let stamp = self.stamp(now + long);
        self.table.get(key).is_some_and(|known| known.port() == port && fresh(known, stamp))
    }

    pub(crate) fn news(&mut self) -> &mut Vec<LearnedMac> {
        &mut self.news
    }

    /// Another worker has heard a station. Limits were applied there, by a configuration that may
    /// be older than `plan`: a station that `plan` would not have learned would lead frames out of
    /// their VLAN.
    pub(crate) fn hear(&mut self, now: Time, plan: &Snapshot, news: LearnedMac) {
        if !plan.ports.get(usize::from(news.port)).is_some_and(|p| p.may_learn(news.key.vlan())) {
            return;
        }
        let station = Station::learned(news.port, self.stamp(now));
        match self.table.get(news.key) {
            Some(known) if known.is_static() => {}
            known => {
                if self.table.insert(news.key, station).is_ok() {
                    match known {
                        Some(known) => {
                            self.count(known.port(), news.port);
                            if known.port() != news.port {
                                self.note_moved(news.key);
                            }
                        }
                        None => self.stations[usize::from(news.port)] += 1,
                    }
                }
            }
        }
    }

    /// Follows a new configuration. Stations whose port no longer carries their VLAN, or no longer
    /// learns, are forgotten; a table of another size is filled anew, and so is one whose time
    /// stamps count another unit.
    pub(crate) fn adopt(&mut self, now: Time, plan: &Snapshot, router: &RouterPlan) {
        self.adopt_sized(now, plan, router, plan.mac_table);
    }

    /// Follows a router's addresses: packets to them are no station's.
    pub(crate) fn adopt_router(&mut self, now: Time, plan: &Snapshot, router: &RouterPlan) {
        self.adopt_sized(now, plan, router, self.size);
    }

    fn adopt_sized(&mut self, now: Time, plan: &Snapshot, router: &RouterPlan, size: usize) {
        let unit_ns = (plan.ageing_ns / u64::from(AGE_UNITS)).max(1);
        // The router's addresses take no station's room.
        let capacity = MacTable::capacity_for(size + router.addresses().count());
        if self.table.capacity() != capacity || self.unit_ns != unit_ns {
            let mut table = MacTable::new(capacity, self.seed);
            for (key, station, age_ns) in self.stations(now) {
                let heard = now.as_nanos().saturating_sub(age_ns);
                let stamped = Station::learned(station.port(), (heard / unit_ns) as u16);
                // Stations that no longer fit are learned again.
                let _ = table.insert(key, if station.is_static() { station } else { stamped });
            }
            self.table = table;
            self.unit_ns = unit_ns;
            self.sweep_at = 0;
        }
        self.size = size;
        self.stations.clear();
        self.stations.resize(plan.ports.len().max(1), 0);
        let stations = &mut self.stations;
        self.table.sweep(0, self.table.buckets(), |key, station| {
            let port = usize::from(station.port());
            let keep = !station.is_static()
                && plan.ports.get(port).is_some_and(|p| p.may_learn(key.vlan()));
            if keep {
                stations[port] += 1;
            }
            keep
        });
        self.fix(plan.static_macs.iter().copied());
        self.fix(router.addresses().map(|key| (key, ROUTER)));
        self.storms.adopt(plan);
    }

    /// Enters stations that neither move nor age.
    fn fix(&mut self, stations: impl Iterator<Item = (MacKey, PortId)>) {
        for (key, port) in stations {
            let mut before = self.table.insert(key, Station::fixed(port));
            if before == Err(Full) {
                // Learned stations make room for configured ones: they are learned again.
                self.table.sweep(0, self.table.buckets(), |_, station| station.is_static());
                self.stations.fill(0);
                before = self.table.insert(key, Station::fixed(port));
            }
            if let Ok(Some(learned)) = before
                && !learned.is_static()
            {
                self.stations[usize::from(learned.port())] -= 1;
            }
        }
    }

    /// Forgets every learned station of a port.
    pub(crate) fn forget_port(&mut self, port: PortId) {
        self.table.sweep(0, self.table.buckets(), |_, station| {
            station.is_static() || station.port() != port
        });
        if let Some(count) = self.stations.get_mut(usize::from(port)) {
            *count = 0;
        }
    }

    /// Removes stations that have been silent too long, from the next part of the table.
    pub(crate) fn age(&mut self, now: Time) {
        let buckets = self.table.buckets();
        let step_ns = (self.unit_ns * SWEEP_UNITS / buckets.div_ceil(SWEEP_STEP) as u64).max(1);
        let due = (now.as_nanos().saturating_sub(self.swept_until) / step_ns) as usize;
        let steps = due.min(buckets.div_ceil(SWEEP_STEP));
        if steps == 0 {
            return;
        }
        self.swept_until = now.as_nanos();
        let stamp = self.stamp(now);
        let stations = &mut self.stations;
        let count = (steps * SWEEP_STEP).min(buckets);
        self.sweep_at = self.table.sweep(self.sweep_at, count, |_, station| {
            let keep = fresh(station, stamp);
            if !keep {
                let count = &mut stations[usize::from(station.port())];
                *count = count.saturating_sub(1);
            }
            keep
        });
    }

    fn stamp(&self, now: Time) -> u16 {
        (now.as_nanos() / self.unit_ns) as u16
    }

    /// Every station known, with the nanoseconds since it was last heard.
    pub fn stations(&self, now: Time) -> impl Iterator<Item = (MacKey, Station, u64)> {
        let stamp = self.stamp(now);
        let listed = move |&(_, s): &(_, Station)| fresh(s, stamp) && s.port() != ROUTER;
        self.table.iter().filter(listed).map(move |(key, station)| {
            let age = u64::from(stamp.wrapping_sub(station.stamp())) * self.unit_ns;
            (key, station, if station.is_static() { 0 } else { age })
        })
    }

    /// Which of these stations are in the table, and what it has of each.
    pub(crate) fn known(&self, keys: &[MacKey]) -> Vec<(MacKey, Station)> {
        let known = keys.iter().filter_map(|key| Some((*key, self.table.get(*key)?)));
        known.filter(|(_, station)| station.port() != ROUTER).collect()
    }

    /// Learned stations by port.
    pub(crate) fn counts(&self) -> &[u32] {
        &self.stations
    }

    /// Takes over what another switch knows of some stations, and how many it has by port.
    pub(crate) fn remember(&mut self, stations: &[(MacKey, Station)], counts: &[u32]) {
        for (key, station) in stations {
            // The other may not know the router's present address yet.
            if self.table.get(*key).is_none_or(|known| known.port() != ROUTER) {
                // The table is as large, and nearly empty.
                let _ = self.table.insert(*key, *station);
            }
        }
        self.stations.iter_mut().zip(counts).for_each(|(own, count)| *own = *count);
    }

    /// Where a station is.
    pub fn find(&self, now: Time, vlan: u16, mac: MacAddr) -> Option<PortId> {
        let station = self.table.get(MacKey::new(vlan, mac))?;
        (fresh(station, self.stamp(now)) && station.port() != ROUTER).then(|| station.port())
    }
}

/// False once a learned station has been silent for the ageing time.
#[inline]
fn fresh(station: Station, stamp: u16) -> bool {
    stamp.wrapping_sub(station.stamp()) <= AGE_UNITS || station.is_static()
}

/// Why a frame is dropped whose source cannot be at the port that it comes in by.
#[cold]
fn refuse(
    context: &Context<'_>,
    port: PortId,
    source: MacKey,
    known: Station,
) -> Result<(), DropReason> {
    let kernel = context.router.interface(source.vlan()).and_then(|interface| interface.kernel);
    match known.port() {
        ROUTER if kernel == Some(port) => Ok(()),
        ROUTER => Err(DropReason::OwnAddress),
        _ => Err(DropReason::StaticElsewhere),
    }
}

const _: () = assert!(PORTS_MAX < 1 << 14, "a station's port has 14 bits");
