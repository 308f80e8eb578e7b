//! The generator and the meter in the kernel, over a virtual cable: compared with the wire formats
//! and with the meter in user space. As root, each in a separate namespace.

#[path = "../../io/tests/common/mod.rs"]
mod net;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plexus_io::af_packet::AfPacketPort;
use plexus_io::bpf::{Alu, Asm, If, Map, Program, Reg, Target, Verdict, Width, XdpMode, context};
use plexus_io::{Batch, Pool, Port};
use plexus_traffic::{
    Encapsulation, FlowSpec, GeneratorConfig, Meter, MeterConfig, PROBE_ETHERTYPE, PROBE_UDP_PORT,
    Pattern, Probe, Rate, Sizes, Start, XdpCounted, XdpGenerator, XdpMeter, XdpSent, find_probe,
};
use plexus_wire::checksum::Sum;
use plexus_wire::{Protocol, Time, ipv4, ipv6, udp};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How long anything may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test in a namespace with a cable from `t1` to `t2`; says so where it cannot. `t2` takes
/// redirected frames.
fn over_a_cable(test: impl FnOnce() + Send + 'static) {
    net::in_quiet_namespace("a cable", || {
        net::veth("t1", "t2");
        // The kernel makes the receive context only when GRO is turned on.
        net::command("ethtool", "-K t2 gro off");
        net::command("ethtool", "-K t2 gro on");
        test();
    });
}

/// Polls until `done`, within the limit; whether it was.
fn until(mut done: impl FnMut() -> bool) -> bool {
    let limit = Instant::now() + LIMIT;
    while !done() {
        if Instant::now() > limit {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// All frames that a generator in the kernel sends, as they arrive.
fn sent_by(config: &GeneratorConfig) -> Vec<Vec<u8>> {
    let count = config.count.unwrap();
    let (result, frames) = received(config, count);
    let sent = result.sent;
    assert_eq!(sent.packets, count);
    assert_eq!(result.counted, Some(XdpCounted { carried: count, dropped: 0 }));
    assert_eq!(sent.bytes, frames.iter().map(|f| f.len() as u64 + 4).sum::<u64>());
    assert_eq!(frames.len() as u64, count);
    frames
}

/// The result of a run, and the `expected` frames that arrive.
fn received(config: &GeneratorConfig, expected: u64) -> (XdpSent, Vec<Vec<u8>>) {
    let mut pool = Pool::new(4096, 2048).unwrap();
    let mut port = AfPacketPort::open("t2", "t2", &pool).unwrap();
    let mut generator = XdpGenerator::open(config, "t1", None).unwrap();
    let mut frames = Vec::new();
    let mut batch = Batch::new();
    let mut take = |frames: &mut Vec<Vec<u8>>| {
        while port.receive(Time::ZERO, &mut pool, &mut batch) > 0 {
            for packet in batch.drain(..) {
                frames.push(pool.data(&packet).to_vec());
                pool.free(packet);
            }
        }
    };
    let result = generator
        .run(|_| {
            take(&mut frames);
            false
        })
        .unwrap();
    until(|| {
        take(&mut frames);
        frames.len() as u64 >= expected
    });
    assert_eq!(generator.sent_per_flow().sum::<u64>(), result.sent.packets);
    (result, frames)
}

/// Asserts that a frame is what its headers say, checksums and padding included.
#[track_caller]
fn assert_valid(frame: &[u8]) {
    let padding = match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 => {
            let packet = ipv4::Packet::new_checked(&frame[14..]).unwrap();
            assert!(packet.checksum_ok());
            assert_eq!(packet.total_len(), frame.len() - 14);
            let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
            let len = datagram.datagram_len() as u16;
            assert_ne!(datagram.checksum(), 0);
            let pseudo = Sum::pseudo_v4(packet.src(), packet.dst(), Protocol::UDP, len);
            assert!(datagram.checksum_ok(pseudo));
            &frame[42 + 18..]
        }
        0x86DD => {
            let packet = ipv6::Packet::new_checked(&frame[14..]).unwrap();
            assert_eq!(packet.payload_len(), frame.len() - 54);
            let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
            let len = datagram.datagram_len() as u32;
            assert_ne!(datagram.checksum(), 0);
            let pseudo = Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::UDP, len);
            assert!(datagram.checksum_ok(pseudo));
            &frame[62 + 18..]
        }
        ethertype => {
            assert_eq!(ethertype, PROBE_ETHERTYPE);
            &frame[14 + 18..]
        }
    };
    assert!(padding.iter().all(|&b| b == 0));
}

/// Asserts that each flow's sequence numbers are all there, in order, and that times never run
/// backwards. Returns how many packets each flow has.
#[track_caller]
fn assert_complete(frames: &[Vec<u8>], flows: u32) -> Vec<u64> {
    let mut next = vec![0; flows as usize];
    let mut before = 0;
    for frame in frames {
        let probe = find_probe(frame, PROBE_UDP_PORT).expect("a probe");
        assert_eq!(probe.sequence, next[probe.flow as usize]);
        next[probe.flow as usize] += 1;
        assert!(probe.time_ns >= before);
        before = probe.time_ns;
    }
    next
}

fn config(flows: FlowSpec, sizes: &str, count: u64) -> GeneratorConfig {
    GeneratorConfig {
        flows,
        sizes: sizes.parse().unwrap(),
        rate: Rate::Packets(20_000),
        count: Some(count),
        ..GeneratorConfig::default()
    }
}

#[test]
fn every_frame_that_the_kernel_sends_is_valid_and_in_its_place() {
    over_a_cable(|| {
        let flows = FlowSpec { count: 5, source_macs: 5, ..FlowSpec::default() };
        let frames = sent_by(&config(flows, "imix", 6_000));
        frames.iter().for_each(|f| assert_valid(f));
        assert_eq!(assert_complete(&frames, 5), [1200; 5]);
        let of = |n| frames.iter().filter(|f| f.len() == n).count();
        assert_eq!((of(60), of(590), of(1514)), (3500, 2000, 500));
        for (frame, flow) in frames.iter().zip((0..5).cycle()) {
            assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 1 + flow]);
            assert_eq!(frame[34..36], (49_152 + u16::from(flow)).to_be_bytes());
            assert_eq!(frame[26..30], Ipv4Addr::new(198, 18, 0, 1).octets());
        }
    });
}

#[test]
fn ipv6_and_bare_ethernet_are_valid_too() {
    over_a_cable(|| {
        let destination_ip = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 9).into();
        let flows = FlowSpec { count: 3, destination_ip, ..FlowSpec::default() };
        let frames = sent_by(&config(flows, "84-1518", 2_000));
        frames.iter().for_each(|f| assert_valid(f));
        assert_eq!(assert_complete(&frames, 3), [667, 667, 666]);
        let lengths = frames.iter().map(Vec::len);
        assert!(lengths.clone().min() < lengths.clone().max());
        let encapsulation = Encapsulation::Ethernet;
        let frames = sent_by(&config(FlowSpec { encapsulation, ..FlowSpec::default() }, "64", 500));
        frames.iter().for_each(|f| assert_valid(f));
        assert_eq!(assert_complete(&frames, 1), [500]);
    });
}

/// Overwrites the first 500 frames that arrive, and drops them: their pages return to the sender's
/// pool. Later ones pass.
fn scribble(seen: &Map) -> Asm {
    let mut asm = Asm::new();
    let pass = asm.label();
    asm.mov_value(Reg::R6, seen);
    asm.bump(Reg::R6, 0, 1, Reg::R2);
    asm.jump_imm(If::Gt, Reg::R2, 500, pass);
    asm.load(Width::W, Reg::R2, Reg::R1, context::DATA);
    asm.load(Width::W, Reg::R3, Reg::R1, context::DATA_END);
    asm.mov(Reg::R4, Reg::R2);
    asm.alu_imm(Alu::Add, Reg::R4, 1514);
    asm.jump(If::Gt, Reg::R4, Reg::R3, pass);
    for at in (0..1512).step_by(8) {
        asm.store_imm(Width::D, Reg::R2, at, -1);
    }
    asm.end(Verdict::Drop);
    asm.place(pass);
    asm.end(Verdict::Pass);
    asm
}

#[test]
fn pages_that_others_wrote_on_are_whole_again() {
    over_a_cable(|| {
        let seen = Map::array(1, 1).unwrap();
        let program = Program::load("scribble", scribble(&seen)).unwrap();
        let target = Target::find("t2").unwrap();
        let _attached = target.attach(&program, XdpMode::Native).unwrap();
        let flows = FlowSpec { count: 2, ..FlowSpec::default() };
        let (result, frames) = received(&config(flows, "1518", 900), 400);
        assert_eq!((result.sent.packets, frames.len()), (900, 400));
        assert_eq!(seen.words()[0].load(Ordering::Relaxed), 900);
        frames.iter().for_each(|f| assert_valid(f));
    });
}

#[test]
fn departures_keep_their_distances() {
    over_a_cable(|| {
        let times = |config: &GeneratorConfig| -> Vec<u64> {
            let frames = sent_by(config);
            let probe = |f: &Vec<u8>| find_probe(f, PROBE_UDP_PORT).unwrap().time_ns;
            frames.iter().map(probe).collect()
        };
        // None leaves before it is due, however late the first ones were.
        let constant = config(FlowSpec::default(), "64", 400);
        let at = times(&constant);
        assert!(at.iter().zip(0..).all(|(t, n)| t - at[0] >= n * 50_000));
        let every = Duration::from_millis(1);
        let burst = GeneratorConfig {
            rate: Rate::Max,
            pattern: Pattern::Burst { packets: 8, every },
            ..constant
        };
        let at = times(&burst);
        assert!(at.iter().zip(0..).all(|(t, n)| t - at[0] >= n / 8 * 1_000_000));
    });
}

#[test]
fn time_ends_it_and_so_does_the_caller() {
    over_a_cable(|| {
        let endless = GeneratorConfig { count: None, ..config(FlowSpec::default(), "64", 0) };
        let duration = Some(Duration::from_millis(50));
        let mut generator = XdpGenerator::open(&endless, "t1", duration).unwrap();
        let result = generator.run(|_| false).unwrap();
        // At 20,000 packets/s: never more than were due.
        assert!((1..=1_001).contains(&result.sent.packets), "{result:?}");
        let mut generator = XdpGenerator::open(&endless, "t1", None).unwrap();
        let result = generator.run(|sent| sent.packets >= 10).unwrap();
        assert!(result.sent.packets >= 10);
    });
}

/// A frame around a probe, or one without a probe, sometimes with tags.
fn frame(rng: &mut Pcg64Mcg, probe: Option<Probe>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for _ in 0..rng.next_u32() % 3 {
        let tpid: u16 = if rng.next_u32().is_multiple_of(2) { 0x8100 } else { 0x88A8 };
        frame.extend(tpid.to_be_bytes());
        frame.extend([0, 7]);
    }
    let bytes = match probe {
        Some(probe) => probe.to_bytes().to_vec(),
        // Almost one: a bit is wrong, or its end is missing.
        None if rng.next_u32().is_multiple_of(2) => {
            let mut bytes = Probe::new(0, 0, Time::ZERO).to_bytes().to_vec();
            bytes[(rng.next_u32() % 18) as usize] ^= 1 << (rng.next_u32() % 8);
            bytes
        }
        None => Vec::new(),
    };
    let datagram = |port: u16| {
        let mut datagram = vec![0xC0, 0];
        datagram.extend(port.to_be_bytes());
        datagram.extend((8 + bytes.len() as u16).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(&bytes);
        datagram
    };
    match rng.next_u32() % 3 {
        0 => {
            frame.extend(PROBE_ETHERTYPE.to_be_bytes());
            frame.extend(&bytes);
        }
        1 => {
            frame.extend([0x08, 0]);
            let options = (rng.next_u32() % 11) as usize;
            let mut header = [0; 60];
            header[0] = 0x45 + options as u8;
            header[9] = 17;
            // A foreign protocol, a fragment.
            if probe.is_none() {
                header[9] += (rng.next_u32() % 2) as u8;
                header[7] = (rng.next_u32() % 2) as u8;
            }
            frame.extend(&header[..20 + 4 * options]);
            frame.extend(datagram(PROBE_UDP_PORT));
        }
        _ => {
            frame.extend([0x86, 0xDD]);
            let mut header = [0; 40];
            header[0] = 0x60;
            header[6] = 17;
            frame.extend(header);
            let off = if probe.is_none() { rng.next_u32() as u16 % 2 } else { 0 };
            frame.extend(datagram(PROBE_UDP_PORT + off));
        }
    }
    if rng.next_u32().is_multiple_of(2) {
        frame.resize(frame.len() + (rng.next_u32() % 900) as usize, 0);
    }
    frame
}

/// Probes as a bad network and several starts of a sender would deliver them: within the 960
/// numbers that the program surely remembers.
fn arrivals(rng: &mut Pcg64Mcg, flows: u32, count: usize) -> Vec<Option<Probe>> {
    const HOUR: u64 = 3_600_000_000_000;
    // Modulo 2^56, which a machine that was started just now needs.
    let begin = now_ns().wrapping_sub(HOUR);
    // The highest number of the run, and whether it was stamped by another clock: then a restart
    // would look like a packet that is very late.
    let mut heads = vec![(5_u64, false); flows as usize];
    let mut sent_at = begin;
    let mut all = Vec::new();
    for _ in 0..count {
        sent_at = sent_at.wrapping_add(1000);
        let flow = rng.next_u32() % flows;
        let (head, other_clock) = &mut heads[flow as usize];
        let (sequence, time) = match rng.next_u32() % 100 {
            0..60 => {
                *head += 1;
                *other_clock = false;
                (*head, sent_at)
            }
            60..75 => {
                *head += u64::from(1 + rng.next_u32() % 300);
                *other_clock = false;
                (*head, sent_at)
            }
            // Late or a duplicate: sent before all of this.
            75..95 => (head.saturating_sub(u64::from(rng.next_u32() % 900)), begin),
            95 if !*other_clock => {
                *head = u64::from(rng.next_u32() % 50);
                (*head, sent_at)
            }
            96 => {
                *head += 1;
                *other_clock = true;
                (*head, now_ns() + HOUR)
            }
            _ => {
                all.push(None);
                continue;
            }
        };
        all.push(Some(Probe::new(flow * 7, sequence, Time::from_nanos(time))));
    }
    all
}

fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn meters_agree(start: Start, seed: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let settings = MeterConfig { start, flows_max: 60, ..MeterConfig::default() };
    let mut kernel = XdpMeter::open("t2", &settings).unwrap();
    let mut model = Meter::new(MeterConfig { start, ..MeterConfig::default() });
    let mut pool = Pool::new(256, 2048).unwrap();
    let mut port = AfPacketPort::open("t1", "t1", &pool).unwrap();
    let frames: Vec<Vec<u8>> =
        arrivals(&mut rng, 10, 4_000).into_iter().map(|p| frame(&mut rng, p)).collect();
    let mut batch = Batch::new();
    for (n, bytes) in frames.iter().enumerate() {
        // Few enough in flight that no queue is full.
        batch.push(pool.alloc_from(bytes).unwrap());
        assert!(until(|| {
            port.transmit(Time::ZERO, &mut pool, &mut batch);
            let a = kernel.arrived();
            batch.is_empty() && a.probes + a.foreign > n as u64
        }));
        model.account(Time::from_nanos(now_ns()), bytes);
    }
    kernel.stop();

    // Of the ten flows 0, 7 … 63 one is beyond the program's limit.
    let (ours, theirs) = (kernel.arrived(), model.arrived());
    assert_eq!((ours.probes, ours.bytes), (theirs.probes, theirs.bytes));
    assert_eq!(ours.foreign, theirs.foreign);
    let expected = |flow| model.flows().find(|&(n, _)| n == flow).unwrap().1.summary();
    assert_eq!(ours.untracked, expected(63).received);
    let flows: Vec<_> = kernel.flows().collect();
    assert_eq!(flows.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 7, 14, 21, 28, 35, 42, 49, 56]);
    let mut latencies = 0;
    for (flow, stats) in flows {
        let (ours, theirs) = (stats.summary(), expected(flow));
        let of = |s: &plexus_traffic::Summary| {
            let seen = [s.received, s.bytes, s.lost, s.duplicates, s.reordered];
            (seen, s.ancient, s.restarts, s.clock_errors)
        };
        assert_eq!(of(&ours), of(&theirs), "flow {flow} of seed {seed}");
        assert!(theirs.lost * theirs.duplicates * theirs.reordered * theirs.restarts > 0);
        latencies += theirs.received - theirs.clock_errors;
    }
    // All were sent an hour ago, in the histogram's last bucket: the reported value is its lowest.
    let total = kernel.total();
    assert_eq!(total.received - total.clock_errors, latencies);
    let latency = total.latency.unwrap();
    assert!(latency.min_ns > 1_000_000_000_000 && latency.max_ns < 1 << 41, "{latency:?}");
}

#[test]
fn the_meter_in_the_kernel_counts_as_the_one_outside_does() {
    over_a_cable(|| {
        meters_agree(Start::Zero, 1);
        meters_agree(Start::Seen, 2);
    });
}

#[test]
fn a_device_has_one_meter_and_frees_it() {
    over_a_cable(|| {
        let open = || XdpMeter::open("t2", &MeterConfig::default());
        let first = open().unwrap();
        assert!(first.is_native());
        let error = open().err().expect("two programs").to_string();
        assert!(error.contains("another XDP program"), "{error}");
        drop(first);
        open().unwrap();
        let sizes = Sizes::Fixed(1519);
        let long = GeneratorConfig { sizes, ..GeneratorConfig::default() };
        let error = XdpGenerator::open(&long, "t1", None).err().unwrap().to_string();
        assert!(error.contains("1519 bytes by a device that carries 1518"), "{error}");
        assert!(XdpGenerator::open(&long, "no-such-dev", None).is_err());
    });
}
