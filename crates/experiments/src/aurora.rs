//! What the experiments of netfpga-aurora.txt share: its traffic patterns, and the boards that they
//! run on.

use crate::board::{Config, Link, Memory, Outcome, Rig, Stream};

use plexus_report::Failure;

#[cfg(test)]
use super::{Setting, report::Findings};

/// iperf's "packet size of 1300 bytes" (§5), read as its option has it: UDP payload. A frame then
/// has 1346 bytes with its checksum, and takes 1366 of a cable's time.
pub(super) const PAYLOAD: u64 = 1300;
/// "Transmitting a UDP data stream with a rate of 1Gb/s" (§5): payload as iperf counts, so the
/// cable is always busy, and carries 951.7 Mbit/s of it.
pub(super) const GIGABIT: u64 = 1_000_000_000;

/// A traffic pattern of table 3.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    /// Sender and receiver: the first of a pair is taken for the "source terminal".
    pub(super) pairs: &'static [(usize, usize)],
    /// What the paper measured, in per cent. "The same" as a gigabit switch is none.
    pub(super) paper_loss: f64,
}

const fn pattern(name: &'static str, pairs: &'static [(usize, usize)], paper_loss: f64) -> Pattern {
    Pattern { name, pairs, paper_loss }
}

pub(super) const PATTERNS: [Pattern; 9] = [
    pattern("set 1 A", &[(1, 3), (2, 4)], 0.0),
    pattern("set 1 B", &[(1, 2), (3, 4)], 0.0),
    pattern("set 1 C", &[(1, 4), (2, 3)], 0.0),
    pattern("set 2 A", &[(1, 5), (4, 8)], 0.0),
    pattern("set 2 B", &[(1, 2), (3, 4)], 0.0),
    SET2_C,
    pattern("set 3 A", &[(1, 5), (2, 6), (3, 7), (4, 8)], 4.0),
    pattern("set 3 B", &[(1, 6), (2, 8), (3, 5), (4, 7)], 4.0),
    SET3_C,
];
/// Those that the paper varies the load of.
pub(super) const SET2_C: Pattern = pattern("set 2 C", &[(1, 8), (2, 7)], 0.89);
pub(super) const SET3_C: Pattern = pattern("set 3 C", &[(1, 8), (2, 7), (3, 6), (4, 5)], 4.3);

/// What else the boards may have been like: one thing that the text does not state.
pub(super) struct Assumption {
    pub(super) name: &'static str,
    pub(super) config: Config,
    /// The second of a pair sends to the first, too.
    pub(super) both_ways: bool,
}

const fn assumption(name: &'static str, config: Config) -> Assumption {
    Assumption { name, config, both_ways: false }
}

const fn link(name: &'static str, link: Link) -> Assumption {
    assumption(name, Config { link, ..Config::STATED })
}

/// What rows without an "if" run.
pub(super) const STATED: &str = "as stated, with Aurora's frame delimiters";

/// The packet memory is that of the reference design's sources, complete.
pub(super) const REFERENCE: Assumption = assumption(
    "memory takes turns and pauses as in the reference design",
    Config { memory: Memory::REFERENCE_DESIGN, ..Config::STATED },
);

/// What charts call it.
pub(super) const REFERENCE_SERIES: &str = "reference design's memory";

/// One by one; none of them is fitted.
pub(super) const ASSUMPTIONS: [Assumption; 15] = [
    link(
        "no frame delimiters, which the text does not name",
        Link { delimiters: false, ..Link::STATED },
    ),
    link("frames padded to the data path's 64 bits", Link { word_bytes: 8, ..Link::STATED }),
    link("no idle clocks between frames", Link { idle_clocks: 0, ..Link::STATED }),
    link("no compensation", Link { compensation: None, ..Link::STATED }),
    link("the checksum goes over the link", Link { more_bytes: 4, ..Link::STATED }),
    link("the module header goes over the link", Link { more_bytes: 8, ..Link::STATED }),
    link("2 more clocks per frame", Link { more_clocks: 2, ..Link::STATED }),
    link("3 more clocks per frame", Link { more_clocks: 3, ..Link::STATED }),
    link("4 more clocks per frame", Link { more_clocks: 4, ..Link::STATED }),
    assumption(
        "boards 100 ppm slow, hosts 100 ppm fast",
        Config { boards_fast_ppm: [-100, -100], hosts_fast_ppm: 100, ..Config::STATED },
    ),
    assumption("output queues of 8 frames", Config { queue_words: 8 * 169, ..Config::STATED }),
    assumption("RX queues for 2 frames", Config { rx_full_bytes: 1342, ..Config::STATED }),
    assumption(
        "memory takes turns as in the reference design",
        Config {
            memory: Memory { turns: Memory::REFERENCE_DESIGN.turns, ..Memory::STATED },
            ..Config::STATED
        },
    ),
    REFERENCE,
    Assumption { name: "pairs send both ways", config: Config::STATED, both_ways: true },
];

/// How long a run is, in clocks: until queues are full where they will be, and then.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    before: u64,
    clocks: u64,
    /// So that queues fill sooner.
    queue_words_max: u32,
}

impl Effort {
    /// 0.52 and 0.2 seconds.
    const FULL: Effort =
        Effort { before: 65_000_000, clocks: 25_000_000, queue_words_max: u32::MAX };
    const QUICK: Effort = Effort { before: 1_500_000, clocks: 1_000_000, queue_words_max: 2_048 };

    /// Enough for unit tests to see what is lost and where.
    #[cfg(test)]
    const TINY: Effort = Effort { before: 200_000, clocks: 300_000, queue_words_max: 338 };

    pub(super) fn new(quick: bool) -> Effort {
        if quick { Effort::QUICK } else { Effort::FULL }
    }

    /// The window before and the window that counts, in clocks.
    pub(super) fn clocks(self) -> [u64; 2] {
        [self.before, self.clocks]
    }

    /// Said where it matters.
    pub(super) fn remark(self) -> String {
        let [before, clocks] = self.clocks().map(|c| c as f64 / 125e3);
        let queues = match self.queue_words_max {
            u32::MAX => String::new(),
            words => format!("; output queues of at most {words} words, to be full by then"),
        };
        format!("each run: {before} ms, then {clocks} ms that count{queues}")
    }
}

pub(super) fn streams(pairs: &[(usize, usize)], both_ways: bool) -> Vec<Stream> {
    let there = pairs.iter().map(|&(from, to)| Stream { from, to });
    let back = pairs.iter().filter(|_| both_ways).map(|&(to, from)| Stream { from, to });
    there.chain(back).collect()
}

/// Runs streams of so many bytes a datagram at a rate in bits/s of payload.
pub(super) fn run(
    config: &Config,
    streams: &[Stream],
    [payload_bytes, rate_bits_per_s]: [u64; 2],
    seed: u64,
    effort: Effort,
) -> Result<Outcome, Failure> {
    let queue_words = config.queue_words.min(effort.queue_words_max);
    let config = Config { queue_words, ..*config };
    let rig = Rig::new(&config, streams, payload_bytes, rate_bits_per_s, seed);
    let outcome = rig.map_err(Failure::unusable)?.run(effort.before, effort.clocks);
    if !outcome.balances() {
        return Err(Failure::No(format!("not every frame is accounted for: {outcome:?}")));
    }
    Ok(outcome)
}

/// A loss in per cent. Windows begin and end between frames, which may make it a hair below 0.
pub(super) fn percent(outcome: &Outcome) -> f64 {
    (outcome.loss() * 100.0).max(0.0)
}

/// The head of the CSV lines below.
pub(super) const HEAD: &str = "assumption,pattern,offered_bits_per_s,lanes,seed,sent,delivered,\
     loss,throughput_bits_per_s,dropped_rx,dropped_serial_rx,dropped_output_queue,memory_use_max\n";

pub(super) fn line(
    [assumption, pattern, lanes]: [&str; 3],
    offered_bits_per_s: u64,
    seed: u64,
    o: &Outcome,
) -> String {
    let (sent, delivered): (u64, u64) = (o.sent.iter().sum(), o.delivered.iter().sum());
    let memory = o.memory_use.iter().fold(0.0, |a: f64, b| a.max(*b));
    format!(
        "{assumption},{pattern},{offered_bits_per_s},{lanes},{seed},{sent},{delivered},{:.6},\
         {:.0},{},{},{},{memory:.4}\n",
        o.loss(),
        o.throughput_bits_per_s(),
        o.dropped.rx_queue,
        o.dropped.serial_rx_queue,
        o.dropped.output_queue
    )
}

/// What an experiment finds in the shortest time.
#[cfg(test)]
pub(super) fn tiny(find: fn(&mut Setting<'_>, Effort) -> Result<Findings, Failure>) -> Findings {
    let mut progress = plexus_report::Progress::new();
    find(&mut Setting { quick: true, input: None, progress: &mut progress }, Effort::TINY).unwrap()
}
