use std::collections::{BTreeMap, VecDeque};

use plexus_io::Pool;
use proptest::prelude::*;

use super::*;

/// A class, its shelf and a pool; a packet's number is in its frame.
struct Rig {
    pool: Pool,
    shelf: Shelf,
    class: Class,
    order: QueueOrder,
}

impl Rig {
    fn new(order: QueueOrder) -> Rig {
        Rig::with_frames(order, 2048)
    }

    fn with_frames(order: QueueOrder, size: usize) -> Rig {
        let pool = Pool::new(2048, size).unwrap();
        Rig { pool, shelf: Shelf::default(), class: Class::default(), order }
    }

    fn push(&mut self, flow: u32, number: u32, len: usize) {
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&flow.to_be_bytes());
        bytes[4..8].copy_from_slice(&number.to_be_bytes());
        let packet = self.pool.alloc_from(&bytes).unwrap();
        let bucket = self.class.bucket(self.order, Key(flow));
        self.class.push(&mut self.shelf, bucket, Key(flow), packet);
    }

    /// Flow and number of a packet, which ends.
    fn read(&mut self, packet: Packet) -> (u32, u32) {
        let word = |at: usize| {
            let data = self.pool.data(&packet);
            u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
        };
        let read = (word(0), word(4));
        self.pool.free(packet);
        read
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        let packet = self.class.pop(&mut self.shelf)?;
        Some(self.read(packet))
    }

    fn evict(&mut self) -> Option<(u32, u32)> {
        let packet = self.class.evict(&mut self.shelf)?;
        Some(self.read(packet))
    }

    /// Whether a flow's next packet would give it its share.
    fn has_its_share(&mut self, flow: u32, len: usize) -> bool {
        let bucket = self.class.bucket(self.order, Key(flow));
        self.class.has_its_share(bucket, len)
    }
}

#[test]
fn fifo_serves_in_the_order_of_arrival() {
    let mut rig = Rig::new(QueueOrder::Fifo);
    (0..50).for_each(|i| rig.push(i % 7, i, 100 + i as usize));
    let left: Vec<u32> = std::iter::from_fn(|| rig.pop()).map(|p| p.1).collect();
    assert_eq!(left, (0..50).collect::<Vec<_>>());
}

#[test]
fn flows_share_the_cable_by_bytes_and_keep_their_order() {
    let mut rig = Rig::new(QueueOrder::Fair);
    // One sends full frames, one small ones, one came first with most of the packets.
    (0..600).for_each(|i| rig.push(1, i, 1514));
    (0..60).for_each(|i| rig.push(2, i, 1514));
    (0..900).for_each(|i| rig.push(3, i, 200));
    let mut bytes = BTreeMap::<u32, u64>::new();
    let mut next = BTreeMap::<u32, u32>::new();
    for _ in 0..300 {
        let (flow, number) = rig.pop().unwrap();
        let expected = next.entry(flow).or_default();
        assert_eq!(number, *expected, "flow {flow}");
        *expected += 1;
        *bytes.entry(flow).or_default() += if flow == 3 { 224 } else { 1538 };
    }
    let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
    assert!(most - least <= 2 * QUANTUM as u64, "{bytes:?}");
}

#[test]
fn a_flow_of_few_packets_does_not_wait_behind_large_ones() {
    let mut rig = Rig::new(QueueOrder::Fair);
    for flow in 1..=20 {
        (0..10).for_each(|i| rig.push(flow, i, 1514));
    }
    // All have had a turn.
    for _ in 0..20 {
        assert!(rig.pop().is_some());
    }
    rig.push(99, 0, 80);
    assert_eq!(rig.pop(), Some((99, 0)));
    // Coming again and again it does not starve the others.
    let mut others = 0;
    for i in 1..100 {
        rig.push(99, i, 80);
        others += usize::from(rig.pop().unwrap().0 != 99);
    }
    assert!(others > 0, "the others have had no turn");
}

#[test]
fn a_flow_of_super_packets_gets_no_more_than_its_share() {
    const SUPER: usize = 65_000;
    let mut rig = Rig::with_frames(QueueOrder::Fair, 68 * 1024);
    let mut bytes = [0_usize; 2];
    (0..9).for_each(|i| rig.push(1, i, 1514));
    rig.push(0, 0, SUPER);
    for i in 0..9000 {
        let (flow, _) = rig.pop().unwrap();
        bytes[flow as usize] += 24 + if flow == 0 { SUPER } else { 1514 };
        // The next one comes when the last one has gone: its bucket is empty each time.
        rig.push(flow, 100 + i, if flow == 0 { SUPER } else { 1514 });
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 2 * SUPER, "{bytes:?}");
}

#[test]
fn room_is_made_at_the_cost_of_those_that_have_more_than_their_share() {
    let mut rig = Rig::new(QueueOrder::Fair);
    (0..5).for_each(|i| rig.push(1, i, 1000));
    (0..9).for_each(|i| rig.push(2, i, 1000));
    assert!(rig.has_its_share(2, 1000) && !rig.has_its_share(1, 1000));
    // One more flow: a third of what waits then would be too much.
    assert!(rig.has_its_share(3, 7000) && !rig.has_its_share(3, 1000));
    assert_eq!(rig.evict(), Some((2, 0)));
    assert_eq!((rig.class.packets, rig.class.bytes), (13, 13_000));
    // A single bucket drops what comes, as a queue does.
    let mut rig = Rig::new(QueueOrder::Fifo);
    (0..5).for_each(|i| rig.push(i, i, 1000));
    assert!(rig.has_its_share(6, 60));
    // Where each of many flows has but one packet, each has its share.
    let mut rig = Rig::new(QueueOrder::Fair);
    (0..20).for_each(|i| rig.push(i, 0, 1000));
    assert!(rig.has_its_share(20, 1000));
}

#[test]
fn flows_seldom_share_a_bucket() {
    let mut rig = Rig::new(QueueOrder::Fair);
    // Keys of one group: eight ways, and the ninth has to share.
    for i in 0..9 {
        rig.push(i * 32, 0, 100);
    }
    assert_eq!(rig.class.backlogged, 8);
    // Once all have left, others find places of their own.
    for _ in 0..9 {
        assert!(rig.pop().is_some());
    }
    for i in 20..28 {
        rig.push(i * 32, 0, 100);
    }
    assert_eq!((rig.class.backlogged, rig.class.packets), (8, 8));
}

proptest! {
    /// Whatever comes and goes, every packet leaves once, the order of each flow is kept, and the
    /// sums are right: for flows of their own groups, and for so many of one group that they share.
    #[test]
    fn nothing_is_lost_and_flows_keep_their_order(
        script in proptest::collection::vec((0..4_u32, 0..12_u32, 60..1514_usize), 1..400),
        order in proptest::sample::select(&[QueueOrder::Fair, QueueOrder::Port, QueueOrder::Fifo]),
        spacing in prop_oneof![Just(1), Just(32)],
    ) {
        let mut rig = Rig::new(order);
        let mut model = BTreeMap::<u32, VecDeque<(u32, usize)>>::new();
        let (mut count, mut bytes) = (0, 0_usize);
        for (number, (what, flow, len)) in (0..).zip(script) {
            let flow = flow * spacing;
            let share = bytes.checked_div(rig.class.backlogged).unwrap_or(0);
            let of_flow = |model: &BTreeMap<u32, VecDeque<(u32, usize)>>, flow| -> usize {
                model.get(&flow).map_or(0, |waits| waits.iter().map(|w| w.1).sum())
            };
            let is_alone = spacing == 1 && order != QueueOrder::Fifo;
            let gone = match what {
                0 | 1 => {
                    rig.push(flow, number, len);
                    model.entry(flow).or_default().push_back((number, len));
                    (count, bytes) = (count + 1, bytes + len);
                    None
                }
                2 => rig.pop(),
                _ => {
                    let evicted = rig.evict();
                    if let Some((flow, _)) = evicted.filter(|_| is_alone) {
                        prop_assert!(of_flow(&model, flow) >= share);
                    }
                    evicted
                }
            };
            if let Some((flow, number)) = gone {
                let expected = model.get_mut(&flow).and_then(VecDeque::pop_front);
                prop_assert_eq!(expected.map(|e| e.0), Some(number));
                (count, bytes) = (count - 1, bytes - expected.unwrap().1);
            }
            prop_assert_eq!((rig.class.packets, rig.class.bytes), (count, bytes));
        }
        while let Some((flow, number)) = rig.pop() {
            let expected = model.get_mut(&flow).and_then(VecDeque::pop_front);
            prop_assert_eq!(expected.map(|e| e.0), Some(number));
        }
        prop_assert!(model.values().all(VecDeque::is_empty));
        prop_assert_eq!(rig.pool.available(), 2048);
    }
}
