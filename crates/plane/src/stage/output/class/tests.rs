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
        let pool = Pool::new(2048, 2048).unwrap();
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

    fn evict(&mut self, bytes: usize) -> Option<(u32, u32)> {
        let packet = self.class.evict(&mut self.shelf, bytes)?;
        Some(self.read(packet))
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
fn room_is_made_at_the_cost_of_the_bucket_with_the_most_bytes() {
    let mut rig = Rig::new(QueueOrder::Fair);
    (0..5).for_each(|i| rig.push(1, i, 1000));
    (0..9).for_each(|i| rig.push(2, i, 1000));
    assert_eq!(rig.evict(1000), Some((2, 0)));
    assert_eq!(rig.evict(8000), None, "nobody has more than the newcomer");
    assert_eq!((rig.class.packets, rig.class.bytes), (13, 13_000));
    // A single bucket drops what comes, as a queue does.
    let mut rig = Rig::new(QueueOrder::Fifo);
    (0..5).for_each(|i| rig.push(i, i, 1000));
    assert_eq!(rig.evict(6000), None);
}

#[test]
fn flows_seldom_share_a_bucket() {
    let mut rig = Rig::new(QueueOrder::Fair);
    // Keys of one group: eight ways, and the ninth has to share.
    for i in 0..9 {
        rig.push(i * 32, 0, 100);
    }
    assert_eq!(rig.class.backlogged, 8);
    // Once a flow has left, another finds its place.
    while rig.pop().is_some() {}
    rig.push(77 * 32, 0, 100);
    assert_eq!((rig.class.backlogged, rig.class.packets), (1, 1));
}

proptest! {
    /// Whatever comes and goes, every packet leaves once, the order of each flow is kept, and the
    /// sums are right. Flows of their own groups do not share buckets.
    #[test]
    fn nothing_is_lost_and_flows_keep_their_order(
        script in proptest::collection::vec((0..4_u32, 0..12_u32, 60..1514_usize), 1..400),
        order in prop_oneof![Just(QueueOrder::Fair), Just(QueueOrder::Port), Just(QueueOrder::Fifo)],
    ) {
        let mut rig = Rig::new(order);
        let mut model = BTreeMap::<u32, VecDeque<(u32, usize)>>::new();
        let (mut count, mut bytes) = (0, 0);
        for (number, (what, flow, len)) in (0..).zip(script) {
            let gone = match what {
                0 | 1 => {
                    rig.push(flow, number, len);
                    model.entry(flow).or_default().push_back((number, len));
                    (count, bytes) = (count + 1, bytes + len);
                    None
                }
                2 => rig.pop(),
                _ => rig.evict(0),
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
