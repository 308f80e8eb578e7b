//! Hosts, one or two boards and the cables between them.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::aurora::Link;
use super::memory::Memory;
use super::netfpga::Board;
use super::queues::{Arrival, Departure, Source};
use super::{ETHERNET, Frame, PORTS, SERIAL, ethernet_bytes, period_fs};

/// Bytes of an Ethernet, an IPv4 and a UDP header.
const HEADERS: u64 = 14 + 20 + 8;
const FS_PER_SECOND: u128 = 1_000_000_000_000_000;
/// Machines that one board has ports for.
pub(super) const MACHINES: usize = ETHERNET;

/// One machine sends UDP to another; numbered from 1 as in figure 1, four to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Who sends. No machine sends two streams.
    pub from: usize,
    /// Who receives.
    pub to: usize,
}

/// By which of the two serial links a frame goes to the other board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// By its destination: the first two ports of a board by the one, the others by the other
    /// (§5: "port5 and port6 are routed through one SATA port", 7 and 8 through the other).
    Static,
    /// By a hash of its stream, which differs from seed to seed.
    Hash,
    /// The link for which the fewest words wait, frame by frame; streams are not kept in order.
    Adaptive,
}

/// What the boards are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How the serial links send.
    pub link: Link,
    /// How the packet memory is shared.
    pub memory: Memory,
    /// A frame that begins to arrive is dropped if more bytes than this wait in its RX queue: 6,100
    /// of 8,192 in the reference design (`rxfifo_8kx9_to_72`); the same for serial ports, of which
    /// the text gives no size.
    pub rx_full_bytes: u32,
    /// Words of an output queue: the reference design divides 2^19 among 8.
    pub queue_words: u32,
    /// Words of a TX queue: 512 in the reference design (`txfifo_512x72_to_9`); the same for serial
    /// ports, whose FIFO is as wide but of unknown depth (§3.3.1).
    pub tx_words: u32,
    /// How a serial link is chosen.
    pub lanes: Lanes,
    /// By how many parts per million each board's clock is fast.
    pub boards_fast_ppm: [i32; 2],
    /// By how many every host's is.
    pub hosts_fast_ppm: i32,
}

impl Config {
    /// What the text states, and for the sizes that it does not, those of the reference design.
    pub const STATED: Config = Config {
        link: Link::STATED,
        memory: Memory::STATED,
        rx_full_bytes: 6_100,
        queue_words: (1 << 19) / 8,
        tx_words: 512,
        lanes: Lanes::Static,
        boards_fast_ppm: [0, 0],
        hosts_fast_ppm: 0,
    };
}

/// Frames that were dropped, by where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// An Ethernet port's RX queue was full.
    pub rx_queue: u64,
    /// A serial port's RX queue was full: there is no flow control.
    pub serial_rx_queue: u64,
    /// The output queue in memory was full.
    pub output_queue: u64,
}

/// What became of the frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Of each stream: frames sent in the window.
    pub sent: Vec<u64>,
    /// Of each stream: frames that began to leave for their machine in the window.
    pub delivered: Vec<u64>,
    /// How long the window was, in seconds.
    pub seconds: f64,
    /// UDP payload of a frame, in bytes.
    pub payload_bytes: u64,
    /// Of each board: the part of all clocks in which its memory moved a word.
    pub memory_use: Vec<f64>,
    /// Frames sent in the whole run, before the window too.
    pub sent_in_all: u64,
    /// Frames delivered in the whole run.
    pub delivered_in_all: u64,
    /// Frames dropped in the whole run.
    pub dropped: Dropped,
    /// On the boards and on the cables between them at the end.
    pub held: u64,
}

impl Outcome {
    /// The part of the frames that was not delivered, all streams together. What more and more
    /// waits in a queue counts as lost: a queue lasts for a moment, and a test for seconds.
    pub fn loss(&self) -> f64 {
        let (sent, delivered): (u64, u64) = (self.sent.iter().sum(), self.delivered.iter().sum());
        if sent == 0 { 0.0 } else { 1.0 - delivered as f64 / sent as f64 }
    }

    /// Payload that was delivered, in bits/s, mean of the streams.
    pub fn throughput_bits_per_s(&self) -> f64 {
        let frames: u64 = self.delivered.iter().sum();
        let bits = (frames * self.payload_bytes * 8) as f64;
        bits / self.seconds / self.delivered.len().max(1) as f64
    }

    /// Whether every frame is accounted for.
    pub fn balances(&self) -> bool {
        let Dropped { rx_queue, serial_rx_queue, output_queue } = self.dropped;
        let gone = self.delivered_in_all + rx_queue + serial_rx_queue + output_queue;
        self.sent_in_all == gone + self.held
    }
}

/// Hosts and boards, ready to run.
pub struct Rig {
    boards: Vec<Board>,
    streams: Vec<Stream>,
    payload_bytes: u64,
    lanes: Lanes,
    /// Of each stream, under [`Lanes::Hash`].
    hashed: Vec<usize>,
    delivered: Vec<u64>,
    departures: Vec<(usize, Departure)>,
}

/// The frame of a UDP datagram.
pub(super) fn frame(stream: usize, payload_bytes: u64) -> Frame {
    Frame { stream: stream as u8, bytes: (payload_bytes + HEADERS) as u32 }
}

/// Femtoseconds from one datagram to the next at a rate in bits/s of payload: not faster than the
/// cable.
pub(super) fn interval_fs(payload_bytes: u64, rate_bits_per_s: u64, byte_fs: u64) -> u64 {
    let bits = u128::from(payload_bytes) * 8 * FS_PER_SECOND;
    let wanted = u64::try_from(bits / u128::from(rate_bits_per_s.max(1))).unwrap_or(u64::MAX / 4);
    wanted.max(ethernet_bytes(payload_bytes + HEADERS) * byte_fs)
}

impl Rig {
    /// As many boards as the streams need. Every source sends datagrams of `payload_bytes` at
    /// `rate_bits_per_s` of payload, as iperf counts, or as fast as its cable takes them; when it
    /// begins comes from the seed.
    ///
    /// # Errors
    /// In words, for streams between machines that are not there or that send twice, for datagrams
    /// that Ethernet does not carry, and where a frame does not fit a queue.
    pub fn new(
        config: &Config,
        streams: &[Stream],
        payload_bytes: u64,
        rate_bits_per_s: u64,
        seed: u64,
    ) -> Result<Rig, String> {
        let machines = 2 * MACHINES;
        for (i, s) in streams.iter().enumerate() {
            if !(1..=machines).contains(&s.from) || !(1..=machines).contains(&s.to) {
                return Err(format!("stream ({}, {}): machines are 1 to {machines}", s.from, s.to));
            }
            if s.from == s.to || streams[..i].iter().any(|other| other.from == s.from) {
                return Err(format!("machine {} sends one stream, to another machine", s.from));
            }
        }
        if !(1..=1472).contains(&payload_bytes) {
            return Err(format!("datagrams have 1 to 1472 bytes, not {payload_bytes}"));
        }
        let words = frame(0, payload_bytes).words();
        if words > config.queue_words.min(config.tx_words) {
            return Err(format!("a frame of {words} words fits no queue of that size"));
        }
        let count = if streams.iter().all(|s| s.from.max(s.to) <= MACHINES) { 1 } else { 2 };
        let ppm = &config.boards_fast_ppm[..count];
        let mut boards: Vec<Board> = ppm.iter().map(|ppm| Board::new(config, *ppm)).collect();
        let mut random = Pcg64::seed_from_u64(seed);
        let byte_fs = period_fs(config.hosts_fast_ppm);
        let interval_fs = interval_fs(payload_bytes, rate_bits_per_s, byte_fs);
        for (i, stream) in streams.iter().enumerate().filter(|_| rate_bits_per_s > 0) {
            let (board, port) = place(stream.from);
            boards[board].rx[port].source = Some(Source {
                frame: frame(i, payload_bytes),
                next_fs: random.random_range(0..interval_fs),
                interval_fs,
                period_fs: byte_fs,
            });
        }
        Ok(Rig {
            boards,
            streams: streams.to_vec(),
            payload_bytes,
            lanes: config.lanes,
            hashed: streams.iter().map(|_| random.random_range(0..SERIAL)).collect(),
            delivered: vec![0; streams.len()],
            departures: Vec::new(),
        })
    }

    /// Runs for `before` clocks, then for a window of `clocks`, and tells what became of the
    /// frames.
    pub fn run(mut self, before: u64, clocks: u64) -> Outcome {
        self.run_until(before);
        let (sent, delivered) = (self.sent(), self.delivered.clone());
        self.run_until(before + clocks);
        let since = |now: Vec<u64>, then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        let busy = |b: &Board| b.memory_busy as f64 / b.clock.max(1) as f64;
        let ports = || self.boards.iter().flat_map(|b| b.rx.iter().enumerate());
        let dropped = |serial: bool| {
            let those = ports().filter(|(port, _)| (*port >= ETHERNET) == serial);
            those.map(|(_, rx)| rx.dropped).sum()
        };
        Outcome {
            sent: since(self.sent(), &sent),
            delivered: since(self.delivered.clone(), &delivered),
            seconds: clocks as f64 / super::CLOCK_HZ as f64,
            payload_bytes: self.payload_bytes,
            memory_use: self.boards.iter().map(busy).collect(),
            sent_in_all: self.sent().iter().sum(),
            delivered_in_all: self.delivered.iter().sum(),
            dropped: Dropped {
                rx_queue: dropped(false),
                serial_rx_queue: dropped(true),
                output_queue: self.boards.iter().flat_map(|b| &b.queues).map(|q| q.dropped).sum(),
            },
            held: self.boards.iter().map(Board::held).sum(),
        }
    }

    /// Frames of each stream that its machine has begun to send.
    fn sent(&self) -> Vec<u64> {
        let of = |s: &Stream| {
            let (board, port) = place(s.from);
            self.boards[board].rx[port].begun
        };
        self.streams.iter().map(of).collect()
    }

    /// Steps the boards in the order of their clocks, up to this instant in clocks that are right.
    fn run_until(&mut self, clock: u64) {
        let end_fs = clock * super::PERIOD_FS;
        loop {
            let second = self.boards.get(1).map(Board::now_fs);
            let number = usize::from(second.is_some_and(|s| s < self.boards[0].now_fs()));
            if self.boards[number].now_fs() >= end_fs {
                return;
            }
            let Rig { boards, streams, lanes, hashed, departures, .. } = self;
            boards[number].step(
                |board, frame| {
                    let stream = usize::from(frame.stream);
                    let (to, port) = place(streams[stream].to);
                    if to == number {
                        return port;
                    }
                    ETHERNET
                        + match lanes {
                            Lanes::Static => port * SERIAL / ETHERNET,
                            Lanes::Hash => hashed[stream],
                            Lanes::Adaptive => {
                                let waiting = |lane: &usize| board.waiting(ETHERNET + lane);
                                (0..SERIAL).min_by_key(waiting).unwrap_or(0)
                            }
                        }
                },
                |port, departure| departures.push((port, departure)),
            );
            while let Some((port, departure)) = self.departures.pop() {
                self.depart(number, port, departure);
            }
        }
    }

    fn depart(&mut self, number: usize, port: usize, departure: Departure) {
        let stream = usize::from(departure.frame.stream);
        if port < ETHERNET {
            debug_assert_eq!(place(self.streams[stream].to), (number, port));
            self.delivered[stream] += 1;
            return;
        }
        // One board's master port is cabled to the other one's slave port (§2).
        let there = PORTS - 1 - (port - ETHERNET);
        let period_fs = self.boards[number].period_fs;
        let other = &mut self.boards[1 - number];
        other.rx[there].cable.push_back(Arrival {
            frame: departure.frame,
            begins_fs: departure.begins * period_fs,
            ends_fs: departure.ends * period_fs,
        });
        other.expect(there);
    }
}

/// The board and the port of a machine.
fn place(machine: usize) -> (usize, usize) {
    ((machine - 1) / MACHINES, (machine - 1) % MACHINES)
}
