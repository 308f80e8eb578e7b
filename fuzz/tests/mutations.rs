//! Every target on random bytes and on mutated valid packets: the same ones in every run.

use plexus_fuzz::{TARGETS, samples};

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

/// Runs all targets; a panic names the target and the input that caused it.
fn run_all(data: &[u8]) {
    for (name, target) in TARGETS {
        if let Err(panic) = std::panic::catch_unwind(|| target(data)) {
            eprintln!("target {name} fails on {data:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
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

#[test]
fn random_bytes_break_nothing() {
    let mut dice = Dice(1);
    for _ in 0..30_000 {
        let n = dice.below(128);
        run_all(&dice.bytes(n));
    }
}

#[test]
fn mutated_packets_break_nothing() {
    let seeds = samples::seeds();
    let mut dice = Dice(2);
    for _ in 0..200_000 {
        run_all(&mutate(&mut dice, &seeds));
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
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in {dir}");
        assert!(std::fs::exists(format!("{dir}/fuzz_targets/{name}.rs")).unwrap(), "{name}.rs");
    }
}
