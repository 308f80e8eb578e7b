//! A flow of requests and responses (`proto = "request"`): a client that waits for answers.

use std::time::Duration;

use plexus_config::ValueError;
use plexus_config::document::{At, Lines, Section, quoted};
use plexus_config::units::{format_size, parse_duration, parse_size};

/// What a client asks, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialogue {
    /// Messages there and back, in turn, again and again; at least one.
    pub exchanges: Vec<Exchange>,
    /// How long the client waits after an answer before it asks for the next thing.
    pub think: Duration,
    /// Requests that may be unanswered at a time, at least one.
    pub outstanding: u16,
    /// How long the server works on each request, one after the other.
    pub service: Duration,
}

/// A request and its response, in bytes of UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// From the client.
    pub request: u32,
    /// From the server.
    pub response: u32,
}

/// Bytes of a message: room for its number, and no more parts than a host's queue takes.
const MESSAGE: std::ops::RangeInclusive<u64> = 18..=1 << 20;
const OUTSTANDING: std::ops::RangeInclusive<u64> = 1..=10_000;
const EXCHANGES_MAX: usize = 100_000;
const TIME_MAX: Duration = Duration::from_secs(3600);

impl Dialogue {
    /// Exchanges that follow each other at once.
    pub fn new(exchanges: Vec<Exchange>) -> Dialogue {
        Dialogue { exchanges, think: Duration::ZERO, outstanding: 1, service: Duration::ZERO }
    }

    /// Reads the keys of a `[[traffic]]` that are about it.
    pub(crate) fn read(section: &Section<'_>) -> Dialogue {
        let time = |key| {
            let At { value, span } = section.quantity(key, parse_duration)?;
            if value > TIME_MAX {
                section.problems().add(span, "more than an hour", "write a time up to 1h");
            }
            Some(value)
        };
        Dialogue {
            exchanges: read_exchanges(section),
            think: time("think").unwrap_or_default(),
            outstanding: section.integer_or("outstanding", OUTSTANDING, 1),
            service: time("service").unwrap_or_default(),
        }
    }

    /// Writes them.
    pub(crate) fn write(&self, lines: &mut Lines) {
        let size = |bytes: u32| format_size(bytes.into());
        match self.exchanges.as_slice() {
            [only] => {
                lines.text("request", &size(only.request));
                lines.text("response", &size(only.response));
            }
            all => {
                let texts = all.iter().map(|e| {
                    format!(
                        "    {},\n",
                        quoted(&format!("{} {}", size(e.request), size(e.response)))
                    )
                });
                lines.entry("exchanges", format_args!("[\n{}]", texts.collect::<String>()));
            }
        }
        lines.unusual("think", &self.think, &Duration::ZERO);
        lines.unusual("outstanding", &self.outstanding, &1);
        lines.unusual("service", &self.service, &Duration::ZERO);
    }
}

/// `request` and `response`, or `exchanges = ["128B 8KiB", …]`.
fn read_exchanges(section: &Section<'_>) -> Vec<Exchange> {
    let size = |key| section.quantity(key, message_size).map(|s| s.value);
    let (request, response) = (size("request"), size("response"));
    if let Some(texts) = section.texts("exchanges") {
        if let Some(span) = section.span_of("request").or(section.span_of("response")) {
            let message = "\"exchanges\" says already what is asked and answered";
            section.problems().add(span, message, "remove it");
        }
        if !(1..=EXCHANGES_MAX).contains(&texts.len()) {
            let message = format!("{} exchanges", texts.len());
            let help = format!("write 1 to {EXCHANGES_MAX}");
            section.problems().add(section.near("exchanges"), message, help);
        }
        let parse = |at: At<&str>| section.problems().note(at.span, parse_exchange(at.value));
        return texts.into_iter().filter_map(parse).collect();
    }
    section.require("request", "\"128B\"").require("response", "\"8KiB\"");
    let both = request.zip(response);
    both.map(|(request, response)| Exchange { request, response }).into_iter().collect()
}

fn parse_exchange(text: &str) -> Result<Exchange, ValueError> {
    let help = "write both sizes, as in \"128B 8KiB\"";
    let mut words = text.split_whitespace();
    let (Some(request), Some(response), None) = (words.next(), words.next(), words.next()) else {
        return Err(ValueError::new(format!("{text:?} is no request and response"), help));
    };
    Ok(Exchange { request: message_size(request)?, response: message_size(response)? })
}

fn message_size(text: &str) -> Result<u32, ValueError> {
    let size = parse_size(text)?;
    match MESSAGE.contains(&size) {
        true => Ok(size as u32),
        false => {
            let help =
                format!("write a size from {}B to {}MiB", MESSAGE.start(), MESSAGE.end() >> 20);
            Err(ValueError::new(format!("a message of {size} bytes"), help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arrivals, Topology};

    fn parse(flow: &str) -> Result<Topology, String> {
        let text = format!(
            "name = \"t\"\n[[node]]\nname = \"s1\"\n\
             [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
             [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
             [[link]]\nends = [\"h1\", \"s1.p1\"]\n[[link]]\nends = [\"h2\", \"s1.p2\"]\n\
             [[traffic]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\n{flow}\n"
        );
        let topology = Topology::parse("t.toml", &text).map_err(|e| e.to_string())?;
        assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
        Ok(topology)
    }

    #[test]
    fn requests_are_read_and_written_back() {
        let one = parse(
            "proto = \"request\"\nrequest = \"128B\"\nresponse = \"8KiB\"\nthink = \"1ms\"\n\
             outstanding = 4\nservice = \"100us\"\ncount = 100",
        );
        let exchange = Exchange { request: 128, response: 8192 };
        let dialogue = one.unwrap().traffic[0].dialogue.clone().unwrap();
        assert_eq!(dialogue.exchanges, [exchange]);
        assert_eq!((dialogue.outstanding, dialogue.think), (4, Duration::from_millis(1)));
        let several =
            "proto = \"request\"\nduration = \"1s\"\nexchanges = [\"40B 1kB\", \"1kB 40B\"]";
        let dialogue = parse(several).unwrap().traffic[0].dialogue.clone().unwrap();
        assert_eq!(dialogue.exchanges[1], Exchange { request: 1000, response: 40 });
        assert_eq!(dialogue.outstanding, 1);
    }

    #[test]
    fn arrivals_are_even_unless_the_file_says_otherwise() {
        let udp = "proto = \"udp\"\nrate = \"1Mbit\"\ncount = 5\n";
        assert_eq!(parse(udp).unwrap().traffic[0].arrivals, Arrivals::Even);
        let poisson = parse(&format!("{udp}arrivals = \"poisson\"")).unwrap();
        assert_eq!(poisson.traffic[0].arrivals, Arrivals::Poisson);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let ask = "proto = \"request\"\nrequest = \"128B\"\n";
        for (flow, word) in [
            (format!("{ask}count = 1"), "response"),
            (format!("{ask}response = \"1B\"\ncount = 1"), "18B"),
            (format!("{ask}response = \"99MiB\"\ncount = 1"), "1MiB"),
            (format!("{ask}response = \"1kB\""), "count"),
            (format!("{ask}response = \"1kB\"\ncount = 1\nsize = 100"), "size"),
            (format!("{ask}exchanges = [\"40B 1kB\"]\ncount = 1"), "remove"),
            ("proto = \"request\"\nexchanges = [\"40B\"]\ncount = 1".into(), "128B 8KiB"),
            ("proto = \"tcp\"\nbytes = \"1kB\"\nthink = \"1ms\"".into(), "think"),
            ("proto = \"tcp\"\nbytes = \"1kB\"\narrivals = \"poisson\"".into(), "arrivals"),
        ] {
            let told = parse(&flow).unwrap_err();
            assert!(told.contains("t.toml:") && told.contains(word), "{flow}: {told}");
        }
    }
}
