//! Every target on random bytes and on mutated valid inputs: the same ones in every run.
//! `FUZZ_TIMES=20 cargo test -p plexus-fuzz` goes on with 20 times as many.

use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_fuzz::{OTHER_TARGETS, OtherTarget, PACKET_TARGETS, Target, samples};

/// SplitMix64 (Steele, Lea, Flood, 2014): short, and the same on all machines.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `n - 1`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// How many rounds, given the usual number. Each run makes the same mutations: `FUZZ_TIMES` asks
/// for more of them.
fn rounds(usual: usize) -> usize {
    let times = std::env::var("FUZZ_TIMES").ok().and_then(|t| t.parse().ok());
    usual * times.unwrap_or(1)
}

/// Runs a target; a panic names it and the input that caused it.
fn run(name: &str, target: Target, data: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| target(data)) {
        match std::str::from_utf8(data) {
            Ok(text) => eprintln!("target {name} fails on {text:?}"),
            Err(_) => eprintln!("target {name} fails on {data:02x?}"),
        }
        std::panic::resume_unwind(panic);
    }
}

/// Runs all targets that read packets.
fn run_all(data: &[u8]) {
    PACKET_TARGETS.iter().for_each(|(name, target)| run(name, *target, data));
}

fn mutate(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.below(data.len());
        match dice.below(6) {
            0 => data.truncate(at),
            1 if !data.is_empty() => data[at] ^= 1 << dice.below(8),
            // The values that sit on edges of length fields.
            2 if !data.is_empty() => data[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][dice.below(6)],
            3 if !data.is_empty() => data[at] = dice.next() as u8,
            4 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            _ => {
                let n = dice.below(20);
                let more = dice.bytes(n);
                data.splice(at..at, more);
            }
        }
    }
    data
}

/// What stands at the edges of what a value may be.
const VALUES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "4094",
    "4095",
    "65536",
    "9223372036854775807",
    "1e308",
    "-0.0",
    "nan",
    "0.5",
    "true",
    "\"\"",
    "\"p1\"",
    "\"s1.p1\"",
    "\"\\u0000\"",
    "\"1Gbit\"",
    "\"0.001kbit\"",
    "\"1ns\"",
    "\"100%\"",
    "[]",
    "[1, \"2-3\"]",
    "{}",
    "\"ff:ff:ff:ff:ff:ff\"",
];

/// Changes lines of one text, with lines and values of the others.
fn mutate_text(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let lines = |i: usize| -> Vec<String> {
        String::from_utf8_lossy(&seeds[i]).lines().map(str::to_string).collect()
    };
    let mut text = lines(dice.below(seeds.len()));
    for _ in 0..=dice.below(4) {
        let at = dice.below(text.len());
        let other = lines(dice.below(seeds.len()));
        let line = &other[dice.below(other.len())];
        match dice.below(6) {
            0 if !text.is_empty() => drop(text.remove(at)),
            1 => text.insert(at, line.clone()),
            2 => {
                let from = dice.below(other.len());
                let to = from + dice.below(other.len() - from) + 1;
                text.splice(at..at, other[from..to].iter().cloned());
            }
            _ => {
                let Some((key, _)) = text.get(at).and_then(|l| l.split_once('=')) else { continue };
                let value = match line.split_once('=') {
                    Some((_, value)) if dice.below(2) == 0 => value,
                    _ => VALUES[dice.below(VALUES.len())],
                };
                text[at] = format!("{key}={value}");
            }
        }
    }
    text.join("\n").into_bytes()
}

#[test]
fn random_bytes_break_nothing() {
    let mut dice = Dice(1);
    for _ in 0..rounds(10_000) {
        let n = dice.below(128);
        run_all(&dice.bytes(n));
    }
}

#[test]
fn mutated_packets_break_nothing() {
    let seeds = samples::seeds();
    let mut dice = Dice(2);
    for _ in 0..rounds(70_000) {
        run_all(&mutate(&mut dice, &seeds));
    }
}

/// Random bytes and mutations for a target that reads something other than packets.
fn mutated(target: &OtherTarget) {
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| run(target.name, target.run, seed));
    let mut dice = Dice(3);
    for round in 0..rounds(target.rounds) {
        let data = match round % 8 {
            0 => {
                let n = dice.below(300);
                dice.bytes(n)
            }
            1..=5 if target.is_text => mutate_text(&mut dice, &seeds),
            _ => mutate(&mut dice, &seeds),
        };
        run(target.name, target.run, &data);
    }
}

/// The processors share the targets.
#[test]
fn mutated_inputs_break_no_other_target() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = OTHER_TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            mutated(target);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

#[test]
fn every_capture_and_file_that_is_a_sample_is_accepted() {
    for capture in samples::captures() {
        let mut reader = plexus_io::pcap::Reader::new(&capture[..]).unwrap();
        let mut count = 0;
        while reader.next(&mut Vec::new()).unwrap().is_some() {
            count += 1;
        }
        assert!(count >= 3, "{count} packets");
    }
    for text in samples::node_files() {
        let text = String::from_utf8(text).unwrap();
        plexus_config::NodeFile::parse("sample", &text).unwrap_or_else(|e| panic!("{e}"));
    }
    for text in samples::topology_files() {
        let text = String::from_utf8(text).unwrap();
        plexus_topo::Topology::parse("sample", &text).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn every_cut_and_bit_of_every_sample_breaks_nothing() {
    for frame in samples::frames() {
        for n in 0..=frame.len() {
            run_all(&frame[..n]);
        }
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            run_all(&flipped);
        }
    }
}

#[test]
fn every_sample_is_read_to_its_innermost_header() {
    for frame in samples::frames() {
        let text = plexus_wire::describe(&frame).to_string();
        for complaint in ["truncated", "bad ", "wrong ", "more than "] {
            assert!(!text.contains(complaint), "a sample is malformed: {text}");
        }
    }
}

#[test]
fn every_target_has_its_wrapper() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/libfuzzer");
    let manifest = std::fs::read_to_string(format!("{dir}/Cargo.toml")).unwrap();
    let others = OTHER_TARGETS.iter().map(|t| t.name);
    for name in PACKET_TARGETS.iter().map(|(name, _)| *name).chain(others) {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in {dir}");
        assert!(std::fs::exists(format!("{dir}/fuzz_targets/{name}.rs")).unwrap(), "{name}.rs");
    }
}
