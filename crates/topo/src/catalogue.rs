//! Named data that one host has and another asks for (`proto = "named"`): a catalogue of items, of
//! which some are wanted more than others.

use std::time::Duration;

use plexus_config::ValueError;
use plexus_config::document::{Lines, Section};
use plexus_config::units::parse_duration;
use plexus_wire::ndn::NameBuf;

/// What there is, and how it is asked for. Chunk `c` of item `i`, from 1 on, has the name
/// `PREFIX/i/seg=c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// What the producer answers.
    pub prefix: NameBuf,
    /// Items.
    pub items: u64,
    /// Chunks of each, which are asked for in order.
    pub chunks: u64,
    /// Exponent of Zipf's law of the items' popularity; 0: all alike.
    pub zipf: f64,
    /// How fast.
    pub pace: AskingPace,
    /// How long an Interest waits for its Data.
    pub lifetime: Duration,
}

/// How fast a consumer asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AskingPace {
    /// So many Interests wait at a time.
    Window(u32),
    /// So many are sent in a second, evenly.
    Rate(f64),
}

const ITEMS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000_000;
const CHUNKS: std::ops::RangeInclusive<u64> = 1..=1_000_000;
const ZIPF: std::ops::RangeInclusive<f64> = 0.0..=10.0;
const WINDOW: std::ops::RangeInclusive<u64> = 1..=65_536;
const INTERESTS: std::ops::RangeInclusive<f64> = 0.001..=10_000_000.0;
const LIFETIME_USUAL: Duration = Duration::from_secs(4);
const LIFETIME_MAX: Duration = Duration::from_secs(3600);

impl Catalogue {
    /// Reads the keys of a `[[traffic]]` that are about it.
    pub(crate) fn read(section: &Section<'_>) -> Catalogue {
        let prefix = section.require("prefix", "\"/video\"").parsed("prefix", parse_prefix);
        let window = section.integer_or("window", WINDOW, 16);
        let rate = section.number("interests", INTERESTS);
        if let (Some(_), Some(span)) = (&rate, section.span_of("window")) {
            let message = "\"interests\" says already how fast is asked";
            section.problems().add(span, message, "keep one of window and interests");
        }
        Catalogue {
            prefix: prefix.map(|p| p.value).unwrap_or_default(),
            items: section.integer_or("items", ITEMS, 100),
            chunks: section.integer_or("chunks", CHUNKS, 1),
            zipf: section.number_or("zipf", ZIPF, 0.8),
            pace: rate.map_or(AskingPace::Window(window), |rate| AskingPace::Rate(rate.value)),
            lifetime: section.quantity_or("lifetime", parse_lifetime, LIFETIME_USUAL),
        }
    }

    /// Writes them.
    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.value("prefix", &self.prefix);
        lines.value("items", &self.items);
        lines.value("chunks", &self.chunks);
        lines.value("zipf", &self.zipf);
        match self.pace {
            AskingPace::Window(window) => lines.value("window", &window),
            AskingPace::Rate(rate) => lines.value("interests", &rate),
        }
        lines.unusual("lifetime", &self.lifetime, &LIFETIME_USUAL);
    }
}

fn parse_prefix(text: &str) -> Result<NameBuf, ValueError> {
    let help = "write a name as in \"/video\"";
    text.parse::<NameBuf>().map_err(|e| ValueError::new(format!("{e}"), help))
}

/// Interests say it in milliseconds.
fn parse_lifetime(text: &str) -> Result<Duration, ValueError> {
    let lifetime = parse_duration(text)?;
    let is_whole = lifetime.subsec_nanos().is_multiple_of(1_000_000);
    match is_whole && !lifetime.is_zero() && lifetime <= LIFETIME_MAX {
        true => Ok(lifetime),
        false => Err(ValueError::new(
            format!("an Interest cannot wait {text:?}"),
            "write whole milliseconds up to \"1h\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extent, Target, Topology};

    fn parse(flow: &str) -> Result<Topology, String> {
        let text = format!(
            "name = \"t\"\n[[node]]\nname = \"s1\"\n\
             [[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n\
             [[link]]\nends = [\"h1\", \"s1.p1\"]\n[[link]]\nends = [\"h2\", \"s1.p2\"]\n\
             [[traffic]]\nname = \"f\"\nfrom = \"h1\"\nproto = \"named\"\n{flow}\n"
        );
        let topology = Topology::parse("t.toml", &text).map_err(|e| e.to_string())?;
        assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
        Ok(topology)
    }

    #[test]
    fn what_is_asked_for_by_name_is_read_and_written_back() {
        let usual = parse("to = \"h2\"\nprefix = \"/v\"\nduration = \"1s\"").unwrap();
        let flow = &usual.traffic[0];
        assert_eq!((flow.to, flow.size), (Target::Host(1), 1024));
        let catalogue = flow.catalogue.clone().unwrap();
        assert_eq!((catalogue.items, catalogue.pace), (100, AskingPace::Window(16)));
        let all = parse(
            "to = \"h2\"\nprefix = \"/v/w\"\ncount = 7\nitems = 3\nchunks = 5\nzipf = 0.0\n\
             interests = 12.5\nlifetime = \"250ms\"\nsize = 8000",
        );
        let flow = all.unwrap().traffic[0].clone();
        let expected = Catalogue {
            prefix: "/v/w".parse().unwrap(),
            items: 3,
            chunks: 5,
            zipf: 0.0,
            pace: AskingPace::Rate(12.5),
            lifetime: Duration::from_millis(250),
        };
        assert_eq!((flow.catalogue, flow.extent), (Some(expected), Extent::Packets(7)));
        assert_eq!(flow.size, 8000);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let ask = "to = \"h2\"\ncount = 1\n";
        for (flow, word) in [
            (ask.to_string(), "prefix"),
            ("to = \"h2\"\nprefix = \"/v\"".into(), "count"),
            (format!("{ask}prefix = \"v\""), "/video"),
            (format!("{ask}prefix = \"/v\"\nsize = 8001"), "8000"),
            (format!("{ask}prefix = \"/v\"\nwindow = 4\ninterests = 1"), "keep one"),
            (format!("{ask}prefix = \"/v\"\nlifetime = \"1us\""), "milliseconds"),
            (format!("{ask}prefix = \"/v\"\nrate = \"1Mbit\""), "rate"),
            (format!("{ask}prefix = \"/v\"\nobjects = 3"), "objects"),
            ("to = \"10.0.0.1\"\ncount = 1\nprefix = \"/v\"".into(), "no host"),
        ] {
            let told = parse(&flow).unwrap_err();
            assert!(told.contains("t.toml:") && told.contains(word), "{flow}: {told}");
        }
    }
}
