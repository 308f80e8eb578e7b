//! Whatever the network does: every byte once, in order, and both ends close.

use std::time::Duration;

use plexus_sim::SimTime;
use plexus_sim::tcp::{Congestion, EcnUse, State, TcpConfig};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::world::{CLIENT, Link, SERVER, World, ms};

fn any_config(random: &mut Pcg64) -> TcpConfig {
    TcpConfig {
        mss: random.random_range(100..=9000),
        initial_window: random.random_range(1..=20),
        receive_buffer: 1 << random.random_range(15..24),
        window_scaling: random.random_bool(0.8),
        sack: random.random_bool(0.7),
        timestamps: random.random_bool(0.5),
        ecn: [EcnUse::Off, EcnUse::Data, EcnUse::All][random.random_range(0..3)],
        congestion: [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp]
            [random.random_range(0..3)],
        delayed_ack: random.random_bool(0.8).then_some(Duration::from_millis(40)),
        quick_acks: random.random_range(0..20),
        limited_transmit: random.random_bool(0.7),
        byte_counting: [None, Some(1), Some(2)][random.random_range(0..3)],
        idle_restart: random.random_bool(0.5),
        pacing: random.random_bool(0.3),
        initial_seq: u32::MAX - random.random_range(0..2_000_000),
        retries: 1_000,
        syn_retries: 1_000,
        // Long enough for the last acknowledgement to be heard over the worst of the links.
        rto_max: Duration::from_secs(10),
        time_wait: Duration::from_secs(1_000),
        ..TcpConfig::default()
    }
}

fn any_link(random: &mut Pcg64) -> Link {
    let mut link = Link::new(random.random_range(1_000_000..1_000_000_000), ms(0));
    link.delay = SimTime::from_picos(random.random_range(0..100_000_000_000));
    link.queue_bytes = random.random_range(20_000..2_000_000);
    link.mark_bytes = random.random_range(0..link.queue_bytes);
    link.loss = [0.0, 0.01, 0.1, 0.3][random.random_range(0..4)];
    link.duplicate = [0.0, 0.01, 0.2][random.random_range(0..3)];
    link.reorder = [0.0, 0.01, 0.5][random.random_range(0..3)];
    link.reorder_by = ms(random.random_range(0..50));
    link
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// The world holds every arrival against a model of its own.
    #[test]
    fn every_byte_arrives_once_and_in_order(seed in any::<u64>()) {
        let mut random = Pcg64::seed_from_u64(seed);
        let (there, back) = (any_link(&mut random), any_link(&mut random));
        let mut world = World::new(there, back, seed);
        world.as_bytes = true;
        let flows = random.random_range(1..4);
        let mut wanted = Vec::new();
        for flow in 0..flows {
            let (client, server) = (any_config(&mut random), any_config(&mut random));
            world.add(client, server);
            let bytes = [random.random_range(0..300_000), random.random_range(0..300_000)];
            for side in [CLIENT, SERVER] {
                // Half is written later.
                world.flows[flow][side].tcp.write(bytes[side] / 2);
            }
            wanted.push(bytes);
        }
        world.run(ms(random.random_range(0..2_000)));
        for (flow, bytes) in wanted.iter().enumerate() {
            for side in [CLIENT, SERVER] {
                world.flows[flow][side].tcp.write(bytes[side] - bytes[side] / 2);
            }
            world.client(flow).close();
        }
        world.run(world.now);
        for flow in 0..flows {
            while world.server(flow).state() == State::Listen {
                world.run(world.now + ms(100));
            }
            world.server(flow).close();
        }
        world.run(SimTime::from_picos(u64::MAX / 2));
        for (flow, bytes) in wanted.iter().enumerate() {
            for side in [CLIENT, SERVER] {
                let end = &world.flows[flow][side].tcp;
                prop_assert_eq!(end.delivered(), bytes[1 - side], "{:?}", end);
                prop_assert_eq!(end.acknowledged(), bytes[side], "{:?}", end);
                prop_assert_eq!(end.failure(), None);
            }
        }
        prop_assert!(world.closed());
    }
}
