//! Flows at a bottleneck: what they get of it, what they make of its queue.

use plexus_sim::SimTime;
use plexus_sim::tcp::{Congestion, EcnUse, TcpConfig};

use crate::world::{CLIENT, OVERHEAD, World, ms, us};

const MSS: u64 = 1_460;
/// Payload's share of what a full segment takes on the wire.
const SHARE: f64 = MSS as f64 / (MSS + 20 + OVERHEAD) as f64;

fn config(congestion: Congestion) -> TcpConfig {
    let ecn = match congestion {
        Congestion::Dctcp => EcnUse::All,
        _ => EcnUse::Off,
    };
    TcpConfig { congestion, ecn, ..TcpConfig::default() }
}

/// Flows of these algorithms, one begun every 100 ms; what each delivers between two times, in bits
/// per second.
fn shares(world: &mut World, flows: &[Congestion], from: SimTime, to: SimTime) -> Vec<f64> {
    for (flow, congestion) in flows.iter().enumerate() {
        world.run(ms(100 * flow as u64));
        world.add(config(*congestion), config(*congestion));
        world.client(flow).write_unlimited();
    }
    world.run(from);
    let before: Vec<u64> = (0..flows.len()).map(|n| world.server(n).delivered()).collect();
    let (packets, sum) = (world.links[CLIENT].packets, world.links[CLIENT].queue_sum);
    world.run(to);
    world.links[CLIENT].packets -= packets;
    world.links[CLIENT].queue_sum -= sum;
    let seconds = (to - from).as_secs_f64();
    let each = before.iter().enumerate();
    each.map(|(n, was)| (world.server(n).delivered() - was) as f64 * 8.0 / seconds).collect()
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|x| x * x).sum::<f64>())
}

#[test]
fn equal_flows_get_equal_shares_and_fill_the_link() {
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        for count in [2, 8] {
            // A round trip's worth of queue.
            let mut world = World::symmetric(100_000_000, ms(20), 1);
            world.links[CLIENT].queue_bytes = 250_000;
            world.links[CLIENT].mark_bytes = 60_000;
            let shares = shares(&mut world, &vec![congestion; count], ms(10_000), ms(60_000));
            let (jain, used) = (jain(&shares), shares.iter().sum::<f64>() / (100e6 * SHARE));
            println!("{congestion:?} × {count}: Jain {jain:.3}, {:.1} % used", used * 100.0);
            assert!(jain > 0.95, "{congestion:?}: {shares:?}");
            assert!(used > 0.97 && used <= 1.0001, "{congestion:?}: {used}");
        }
    }
}

/// RFC 8257 leaves K to the operator; DCTCP's paper (Alizadeh et al., SIGCOMM 2010, 3.4) has
/// K > C × RTT / 7, and a queue that goes from K + N down by half of √(2 N (C × RTT + K)).
#[test]
fn dctcp_keeps_the_queue_near_the_threshold_and_the_link_busy() {
    const K: u64 = 65 * 1_538;
    for count in [2_usize, 10, 20] {
        // 10 Gbit/s, 100 µs: 81 segments.
        let mut world = World::symmetric(10_000_000_000, us(100), 1);
        world.links[CLIENT].mark_bytes = K;
        world.links[CLIENT].queue_bytes = 4_000_000;
        let flows = vec![Congestion::Dctcp; count];
        let settled = ms(500 + 100 * count as u64);
        let shares = shares(&mut world, &flows, settled, settled + ms(300));
        let link = &world.links[CLIENT];
        let queue = link.queue_sum as f64 / link.packets as f64 / 1_538.0;
        let used = shares.iter().sum::<f64>() / (10e9 * SHARE);
        println!(
            "{count} flows: mean queue {queue:.1} segments of K = 65, {:.1} % used",
            used * 100.0
        );
        assert_eq!(link.dropped, 0);
        assert!(used > 0.99, "{count} flows: {used}");
        let swing = (2.0 * count as f64 * (81.0 + 65.0)).sqrt() / 2.0;
        let (low, high) = (65.0 - swing, 65.0 + 2.0 * count as f64);
        assert!((low..=high).contains(&queue), "{count} flows: {queue}, not in {low}..{high}");
        assert!(jain(&shares) > 0.95, "{shares:?}");
    }
}

/// What a queue that only drops does under the same flows.
#[test]
fn reno_fills_any_queue_where_dctcp_does_not() {
    let mut world = World::symmetric(10_000_000_000, us(100), 1);
    world.links[CLIENT].queue_bytes = 1_000_000;
    shares(&mut world, &[Congestion::NewReno; 2], ms(1_000), ms(1_300));
    assert!(world.links[CLIENT].queue_max > 950_000);
}
