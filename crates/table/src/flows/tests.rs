use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const SEED: [u64; 2] = [7, 8];
const IDLE_MS: u32 = 1000;

fn v4(i: u32) -> FlowKey {
    FlowKey {
        vlan: None,
        src: Ipv4Addr::from_bits(0x0A00_0000 | i >> 8).into(),
        dst: Ipv4Addr::new(192, 0, 2, i as u8).into(),
        protocol: Protocol::TCP,
        ports: Some((i as u16, 80)),
    }
}

fn count(table: &mut FlowTable, key: &PackedFlow, now_ms: u64, bytes: u32) -> Counted {
    let hash = table.prefetch(key);
    table.prefetch_record(hash);
    table.count(key, hash, Time::from_millis(now_ms), bytes)
}

fn ip() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

prop_compose! {
    fn key()(
        (src, dst) in ip(),
        vlan in prop::option::of(0u16..4096),
        ports in prop::option::of(any::<(u16, u16)>()),
        protocol: u8,
    ) -> FlowKey {
        FlowKey { vlan, src, dst, protocol: Protocol(protocol), ports }
    }
}

proptest! {
    #[test]
    fn a_packed_key_is_the_key(a in key(), b in key()) {
        prop_assert_eq!(FlowKey::from(PackedFlow::from(&a)), a);
        prop_assert_eq!(PackedFlow::from(&a) == PackedFlow::from(&b), a == b);
    }

    /// Any sequence of packets, removals and sweeps gives what a map would have.
    #[test]
    fn a_table_with_room_is_a_map(
        keys in prop::collection::vec(key(), 1..60),
        steps in prop::collection::vec((0u8..10, any::<prop::sample::Index>(), 0u64..400), 1..300),
    ) {
        let mut table = FlowTable::new(4096, IDLE_MS, SEED);
        let mut map: HashMap<PackedFlow, FlowCounts> = HashMap::new();
        let mut now = 5;
        for (what, which, bytes) in steps {
            now += bytes;
            let key = PackedFlow::from(&keys[which.index(keys.len())]);
            match what {
                0 => prop_assert_eq!(table.remove(&key), map.remove(&key)),
                1 => {
                    let mut swept = 0;
                    table.sweep(3, usize::MAX, Time::from_millis(now), |_| swept += 1);
                    let before = map.len();
                    map.retain(|_, counts| now as u32 - counts.last_ms < IDLE_MS);
                    prop_assert_eq!(swept, before - map.len());
                }
                _ => {
                    let known = map.contains_key(&key);
                    let first_ms = now as u32;
                    let new = FlowCounts { first_ms, ..FlowCounts::default() };
                    let counts = map.entry(key).or_insert(new);
                    counts.packets += 1;
                    counts.bytes += bytes;
                    counts.last_ms = now as u32;
                    let counted = count(&mut table, &key, now, bytes as u32);
                    prop_assert_eq!(matches!(counted, Counted::Known(_)), known);
                    prop_assert!(known || matches!(counted, Counted::New(_)));
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        let held: HashMap<_, _> = table.iter().map(|(_, key, counts)| (key, counts)).collect();
        prop_assert_eq!(held, map);
    }
}

#[test]
fn a_slot_stays_a_flows() {
    let mut table = FlowTable::new(1000, IDLE_MS, SEED);
    let mut slots = HashMap::new();
    for i in 0..1000 {
        let key = PackedFlow::from(&v4(i));
        let Counted::New(slot) = count(&mut table, &key, 0, 1) else { panic!("{i}") };
        assert!(slots.insert(slot, key).is_none(), "two flows in {slot:?}");
    }
    for (slot, key) in slots {
        assert_eq!(count(&mut table, &key, 1, 1), Counted::Known(slot));
        assert_eq!(table.at(slot).map(|(key, counts)| (key, counts.packets)), Some((key, 2)));
    }
    assert_eq!(table.at(FlowSlot(u32::MAX)), None);
}

#[test]
fn a_million_flows_find_room() {
    let flows = 1 << 20;
    let mut table = FlowTable::new(flows, IDLE_MS, SEED);
    let bytes = table.bytes();
    assert!(bytes < flows * 100, "{bytes}");
    for i in 0..flows as u32 {
        let counted = count(&mut table, &PackedFlow::from(&v4(i)), 0, 64);
        assert!(matches!(counted, Counted::New(_)), "{i}: {counted:?}");
    }
    assert_eq!(
        (table.len(), table.refused(), table.evicted(), table.bytes()),
        (flows, 0, 0, bytes)
    );
}

/// A million spoofed flows of one packet each: they evict each other, and no flow with two packets.
#[test]
fn spoofed_flows_evict_only_their_like() {
    let mut table = FlowTable::new(10_000, IDLE_MS, SEED);
    let honest: Vec<_> = (0..5000).map(|i| PackedFlow::from(&v4(i))).collect();
    for key in honest.iter().chain(&honest) {
        count(&mut table, key, 0, 1000);
    }
    for i in 0..1_000_000 {
        // In less than the time by which flows age.
        let key = PackedFlow::from(&v4(1_000_000 + i));
        count(&mut table, &key, u64::from(i) / 2000, 64);
    }
    assert!(table.len() <= table.slots());
    assert!(honest.iter().all(|key| table.find(key, table.hash(key)).is_some()));
    assert!(table.evicted() > 970_000, "{}", table.evicted());
    // A new flow still finds room while the flood lasts, and keeps it from its second packet on.
    let new = PackedFlow::from(&v4(999_999));
    assert!(matches!(count(&mut table, &new, 500, 64), Counted::New(_)));
    assert!(matches!(count(&mut table, &new, 500, 64), Counted::Known(_)));
}

/// Spoofed flows of two packets fill the table; then flows are refused and counted until these age.
#[test]
fn a_full_table_refuses_and_counts_until_flows_age() {
    let mut table = FlowTable::new(1000, IDLE_MS, SEED);
    let mut refused = 0;
    for i in 0..100_000 {
        let key = PackedFlow::from(&v4(i));
        let first = count(&mut table, &key, 0, 64);
        let second = count(&mut table, &key, 0, 64);
        refused += [first, second].iter().filter(|c| **c == Counted::Refused).count() as u64;
    }
    assert!(table.len() <= table.slots() && table.len() > 1000);
    assert_eq!(table.refused(), refused);
    assert!(refused > 180_000, "{refused}");
    let key = PackedFlow::from(&v4(1_000_000));
    assert_eq!(count(&mut table, &key, u64::from(IDLE_MS) - 1, 64), Counted::Refused);
    let Counted::New(_) = count(&mut table, &key, u64::from(IDLE_MS), 64) else {
        panic!("an aged flow is evicted");
    };
}

/// Flows that collide under one seed, in 16 bits of the tag and in both buckets, do not under
/// another: without the seed, nobody can aim at a bucket.
#[test]
fn collisions_are_those_of_the_seed() {
    let known = FlowTable::new(1000, IDLE_MS, SEED);
    let first = |table: &FlowTable, key: &PackedFlow| table.places(table.hash(key))[0];
    let chosen: Vec<_> = (0..2_000_000)
        .map(|i| PackedFlow::from(&v4(i)))
        .filter(|key| known.places(known.hash(key)).iter().all(|bucket| *bucket < 4))
        .collect();
    assert!(chosen.len() > 500, "{}", chosen.len());
    let fill = |seed| {
        let mut table = FlowTable::new(1000, IDLE_MS, seed);
        // Twice each, so that none evicts another.
        chosen.iter().take(500).for_each(|key| {
            count(&mut table, key, 0, 64);
            count(&mut table, key, 0, 64);
        });
        table
    };
    assert_eq!(fill(SEED).len(), 4 * WAYS);
    let other = fill([7, 9]);
    assert_eq!((other.len(), other.refused()), (500, 0));
    let most = (0..other.buckets.len())
        .map(|bucket| chosen.iter().take(500).filter(|k| first(&other, k) == bucket).count())
        .max();
    assert!(most.unwrap() < 20, "{most:?}");
}

#[test]
fn time_may_wrap_and_go_back() {
    let mut table = FlowTable::new(100, IDLE_MS, SEED);
    let key = PackedFlow::from(&v4(1));
    let wrap = u64::from(u32::MAX);
    count(&mut table, &key, wrap - 10, 64);
    let mut removed = 0;
    for now in [wrap + 900, wrap - 500] {
        table.sweep(0, usize::MAX, Time::from_millis(now), |_| removed += 1);
        assert_eq!(removed, 0, "{now}");
    }
    table.sweep(0, usize::MAX, Time::from_millis(wrap + 991), |_| removed += 1);
    assert_eq!((removed, table.len()), (1, 0));
}
