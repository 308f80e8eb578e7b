use plexus_io::memory::{self, Cable, MemoryPort};

use super::*;
use crate::meter::{Meter, MeterConfig};

const FRAMES: usize = 1024;

/// Two ports and what connects them; the test carries packets from one to the other.
struct Bench {
    pool: Pool,
    out: MemoryPort,
    from: Cable,
    into: MemoryPort,
    to: Cable,
}

impl Bench {
    fn new(depth: usize) -> Bench {
        let (out, from) = memory::port("out", depth);
        let (into, to) = memory::port("in", depth);
        Bench { pool: Pool::new(FRAMES, 2048).unwrap(), out, from, into, to }
    }

    /// Moves sent packets to the meter's port; if `keep` is false, the packet is lost.
    fn carry(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        while let Ok(packet) = self.from.from_port.pop() {
            if keep(self.pool.data(&packet)) {
                self.to.to_port.push(packet).unwrap();
            } else {
                self.pool.free(packet);
            }
        }
    }

    /// Runs until the generator is done, 1 us a turn. `keep` says which packets arrive.
    fn run(&mut self, generator: &mut Generator, meter: &mut Meter, keep: impl Fn(u64) -> bool) {
        let mut n = 0;
        for us in 0.. {
            let now = Time::from_micros(us);
            generator.turn(now, &mut self.pool, &mut self.out);
            self.carry(|_| {
                n += 1;
                keep(n)
            });
            while meter.turn(now, &mut self.pool, &mut self.into) > 0 {}
            if generator.is_done() {
                break;
            }
        }
        generator.stop(&mut self.pool);
        assert_eq!(self.pool.available(), FRAMES, "every frame came back");
    }
}

/// The frames of the first `count` packets of a stream.
fn frames(config: &GeneratorConfig, count: u64) -> Vec<Vec<u8>> {
    let mut bench = Bench::new(64);
    let config = GeneratorConfig { count: Some(count), ..config.clone() };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    let mut all = Vec::new();
    for us in 0.. {
        generator.turn(Time::from_micros(us), &mut bench.pool, &mut bench.out);
        bench.carry(|frame| {
            all.push(frame.to_vec());
            false
        });
        if generator.is_done() {
            return all;
        }
    }
    unreachable!()
}

fn busy() -> GeneratorConfig {
    GeneratorConfig {
        flows: FlowSpec { count: 50, ..FlowSpec::default() },
        choice: Choice::Zipf(1.0),
        sizes: Sizes::Range(64, 1518),
        rate: Rate::Packets(2_000_000),
        pattern: Pattern::Poisson,
        count: Some(20_000),
        seed: 11,
    }
}

#[test]
fn all_that_is_sent_is_received_or_lost() {
    let mut bench = Bench::new(256);
    let mut generator = Generator::new(&busy(), Time::ZERO).unwrap();
    let mut meter = Meter::new(MeterConfig::default());
    bench.run(&mut generator, &mut meter, |n| n % 10 != 0);
    for (flow, sent) in generator.sent_per_flow().enumerate() {
        meter.sent(flow as u32, sent);
    }
    let total = meter.total();
    assert_eq!(generator.sent().packets, 20_000);
    assert_eq!(generator.sent_per_flow().sum::<u64>(), 20_000);
    assert_eq!((total.received, total.lost), (18_000, 2_000));
    assert_eq!((total.duplicates, total.reordered, meter.arrived().foreign), (0, 0, 0));
}

#[test]
fn without_loss_bytes_and_rate_agree_at_both_ends() {
    let mut bench = Bench::new(256);
    let config = GeneratorConfig {
        sizes: Sizes::Imix,
        rate: Rate::Packets(100_000),
        pattern: Pattern::Constant,
        ..busy()
    };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    let mut meter = Meter::new(MeterConfig::default());
    bench.run(&mut generator, &mut meter, |_| true);
    let total = meter.total();
    assert_eq!((total.received, total.lost), (20_000, 0));
    assert_eq!(total.bytes, generator.sent().bytes);
    assert_eq!(total.packets_per_s.round(), 100_000.0);
    assert_eq!(generator.sent().late, 0);
}

#[test]
fn a_seed_repeats_its_frames() {
    assert_eq!(frames(&busy(), 500), frames(&busy(), 500));
    let other = GeneratorConfig { seed: 12, ..busy() };
    assert_ne!(frames(&busy(), 500), frames(&other, 500));
}

#[test]
fn packets_refused_by_a_full_port_keep_their_order_and_get_new_stamps() {
    let mut bench = Bench::new(10);
    let config = GeneratorConfig { count: Some(30), ..GeneratorConfig::default() };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    let mut probes = Vec::new();
    for us in 1..=3 {
        assert_eq!(generator.turn(Time::from_micros(us), &mut bench.pool, &mut bench.out), 10);
        bench.carry(|frame| {
            probes.extend(crate::find_probe(frame, crate::PROBE_UDP_PORT));
            false
        });
    }
    assert!(generator.is_done());
    let expected: Vec<Probe> =
        (0..30).map(|i| Probe::new(0, i, Time::from_micros(1 + i / 10))).collect();
    assert_eq!(probes, expected);
}

#[test]
fn stopping_gives_back_frames_and_counts_only_what_was_taken() {
    let mut bench = Bench::new(10);
    let config = GeneratorConfig {
        flows: FlowSpec { count: 3, ..FlowSpec::default() },
        ..GeneratorConfig::default()
    };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    generator.turn(Time::ZERO, &mut bench.pool, &mut bench.out);
    generator.stop(&mut bench.pool);
    assert!(generator.is_done());
    assert_eq!(generator.sent_per_flow().collect::<Vec<_>>(), [4, 3, 3]);
    assert_eq!(bench.pool.available(), FRAMES - 10);
    assert_eq!(generator.turn(Time::ZERO, &mut bench.pool, &mut bench.out), 0);
}

#[test]
fn a_late_driver_is_told_and_the_rate_is_made_up_for() {
    let mut bench = Bench::new(256);
    let config = GeneratorConfig { rate: Rate::Packets(10_000), ..GeneratorConfig::default() };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    generator.turn(Time::from_millis(2), &mut bench.pool, &mut bench.out);
    let sent = generator.sent();
    assert_eq!((sent.packets, sent.late, sent.lag_ns_max), (21, 19, 2_000_000));
    assert_eq!(generator.next_departure(), Time::from_micros(2_100));
    bench.carry(|_| false);
}

#[test]
fn an_empty_pool_delays_and_loses_nothing() {
    let (mut port, mut cable) = memory::port("out", 64);
    let mut pool = Pool::new(4, 2048).unwrap();
    let config = GeneratorConfig { count: Some(8), ..GeneratorConfig::default() };
    let mut generator = Generator::new(&config, Time::ZERO).unwrap();
    assert_eq!(generator.turn(Time::ZERO, &mut pool, &mut port), 4);
    assert_eq!(generator.sent().starved, 1);
    while let Ok(packet) = cable.from_port.pop() {
        pool.free(packet);
    }
    assert_eq!(generator.turn(Time::ZERO, &mut pool, &mut port), 4);
    assert!(generator.is_done());
    while let Ok(packet) = cable.from_port.pop() {
        pool.free(packet);
    }
}

#[test]
fn frames_too_small_for_the_flows_are_refused() {
    let flows = FlowSpec { destination_ip: "2001:2::1".parse().unwrap(), ..FlowSpec::default() };
    let config = GeneratorConfig { flows, ..GeneratorConfig::default() };
    let error = Generator::new(&config, Time::ZERO).err().unwrap();
    assert_eq!(error, FlowError::TooSmall { given: 64, needed: 84 });
}
