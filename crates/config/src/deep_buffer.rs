//! `deep_buffer = { … }`: the memory in which bursts wait for ports whose queue has the order
//! `deep`, and the defence against low-rate bursts.

use std::time::Duration;

use crate::document::{At, Lines, Section};
use crate::port::read_rate;
use crate::units::{format_rate, format_size, parse_duration, parse_rate, parse_size};
use crate::words;

/// Most bytes of a deep buffer.
const BYTES_MAX: u64 = 1 << 30;
/// Least and greatest timeout that hosts are said to have.
const RTO: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(3)];
/// The longest set-up of a rule.
const SETUP_MAX: Duration = Duration::from_secs(1);

/// A box's deep buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepBufferSettings {
    /// Bytes of packets that may wait in it, of all ports of a worker. Zero: none.
    pub bytes: u64,
    /// Bytes after which a flow counts as long.
    pub long_after: u64,
    /// The treatment of sources of low-rate bursts.
    pub suspects: Suspects,
    /// The rate of all suspects of a port together, in bits/s.
    pub shape_bits_per_s: u64,
    /// The way to tell an attack.
    pub detector: Detector,
    /// The least timeout of hosts' TCP.
    pub rto_min: Duration,
    /// A switching chip in front of the buffer. Simulation only.
    pub chip: Option<ChipSettings>,
}

impl Default for DeepBufferSettings {
    /// 16 MiB, as much as the paper's largest burst took, and the timeout of Linux. The paper's
    /// example of a long flow, from 50 KB on, would send most of its own burst past the buffer
    /// (experiment `deepbuf-flash`).
    fn default() -> DeepBufferSettings {
        DeepBufferSettings {
            bytes: 16 << 20,
            long_after: 1_000_000,
            suspects: Suspects::default(),
            shape_bits_per_s: 200_000_000,
            detector: Detector::default(),
            rto_min: Duration::from_millis(200),
            chip: None,
        }
    }
}

/// The treatment of sources of low-rate bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suspects {
    /// They are not looked for.
    #[default]
    Off,
    /// They are shown, and nothing else.
    Show,
    /// Their packets are shaped.
    Shape,
}

words!(Suspects { Off = "off", Show = "show", Shape = "shape" });

/// The way to tell an attack by low-rate bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// By bursts that fill the port's own queue.
    #[default]
    Harm,
    /// By rates (`traffic-coprocessor.txt` §3.2.3).
    Paper,
}

words!(Detector { Harm = "harm", Paper = "paper" });

/// A switching chip that redirects packets to the deep buffer over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipSettings {
    /// From a decision to its effect.
    pub setup: Duration,
    /// How often the lengths of queues are read.
    pub poll: Duration,
    /// Rate of the link to the processor, in bits/s.
    pub link_bits_per_s: u64,
    /// Flows that the chip can send by themselves.
    pub rules: u32,
    /// Whether packets of a flow that changes its way stay in order.
    pub keeps_order: bool,
}

impl Default for ChipSettings {
    /// The paper's (§3.2, §4).
    fn default() -> ChipSettings {
        ChipSettings {
            setup: Duration::from_micros(30),
            poll: Duration::from_micros(10),
            link_bits_per_s: 4_000_000_000,
            rules: 1792,
            keeps_order: true,
        }
    }
}

impl DeepBufferSettings {
    /// Reads `deep_buffer` of a section, if it is there.
    pub fn read(section: &Section<'_>) -> DeepBufferSettings {
        let usual = DeepBufferSettings::default();
        let Some(deep) = section.section("deep_buffer", "a deep buffer") else { return usual };
        let size = |key, usual| {
            let Some(At { value, span }) = deep.quantity(key, parse_size) else { return usual };
            if value > BYTES_MAX {
                let help = format!("write a size up to {}", format_size(BYTES_MAX));
                deep.problems().add(span, format!("\"{key}\" is out of range"), help);
            }
            value
        };
        let rto_min = deep.quantity("rto_min", parse_duration).map(|At { value, span }| {
            if !(RTO[0]..=RTO[1]).contains(&value) {
                let help = "write a time from 20ms to 3s; Linux has 200ms";
                deep.problems().add(span, "\"rto_min\" is out of range", help);
            }
            value
        });
        DeepBufferSettings {
            bytes: size("bytes", usual.bytes),
            long_after: size("long_after", usual.long_after),
            suspects: deep.choice_or("suspects", &Suspects::NAMES, usual.suspects),
            shape_bits_per_s: read_rate(&deep, "shape").unwrap_or(usual.shape_bits_per_s),
            detector: deep.choice_or("detector", &Detector::NAMES, usual.detector),
            rto_min: rto_min.unwrap_or(usual.rto_min),
            chip: ChipSettings::read(&deep),
        }
    }

    /// Writes what differs from the default.
    pub fn write(&self, lines: &mut Lines) {
        let usual = DeepBufferSettings::default();
        if *self == usual {
            return;
        }
        let mut deep = Lines::default();
        deep.value("bytes", &format_size(self.bytes));
        deep.unusual("long_after", &format_size(self.long_after), &format_size(usual.long_after));
        deep.unusual("suspects", &self.suspects, &usual.suspects);
        let [shape, usual_shape] = [self, &usual].map(|deep| format_rate(deep.shape_bits_per_s));
        deep.unusual("shape", &shape, &usual_shape);
        deep.unusual("detector", &self.detector, &usual.detector);
        deep.unusual("rto_min", &self.rto_min, &usual.rto_min);
        if let Some(chip) = &self.chip {
            let mut inner = Lines::default();
            inner.value("setup", &chip.setup);
            inner.value("poll", &chip.poll);
            inner.value("link", &format_rate(chip.link_bits_per_s));
            inner.entry("rules", chip.rules);
            inner.unusual("keeps_order", &chip.keeps_order, &true);
            deep.inline("chip", &inner);
        }
        lines.inline("deep_buffer", &deep);
    }
}

impl ChipSettings {
    fn read(section: &Section<'_>) -> Option<ChipSettings> {
        let usual = ChipSettings::default();
        let chip = section.section("chip", "a switching chip")?;
        let time = |key, usual| {
            let Some(At { value, span }) = chip.quantity(key, parse_duration) else { return usual };
            if value > SETUP_MAX {
                let help = "write a time up to 1s";
                chip.problems().add(span, format!("\"{key}\" is out of range"), help);
            }
            value
        };
        Some(ChipSettings {
            setup: time("setup", usual.setup),
            poll: time("poll", usual.poll),
            link_bits_per_s: chip
                .quantity("link", parse_rate)
                .map_or(usual.link_bits_per_s, |rate| rate.value.max(1)),
            rules: chip.integer_or("rules", 0..=u64::from(u32::MAX), usual.rules),
            keeps_order: chip.flag("keeps_order").map_or(usual.keeps_order, |flag| flag.value),
        })
    }
}
