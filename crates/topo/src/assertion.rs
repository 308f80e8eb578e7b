//! Assertions: what must hold after a run, as in `bulk.received >= 80Mbit`.
//!
//! ```text
//! assertion = subject operator value
//! subject   = FLOW ".received" | FLOW ".sent" | FLOW ".loss" | FLOW ".latency_p50"
//!           | FLOW ".latency_p99" | FLOW ".first" | FLOW ".reordered" | FLOW ".duplicates"
//!           | "drops.total" | "drops." REASON | "conserved" | NODE ".cpu" | NODE ".cached"
//!           | NODE ".fast"
//! FLOW      = a flow's name, or how names begin and `*`: every flow with such a name
//! operator  = "<" | "<=" | ">" | ">=" | "==" | "!="
//! value     = a number with the subject's unit
//! ```

use std::fmt;

use plexus_config::document::known_names;
use plexus_config::error::quote;
use plexus_config::units::{parse_duration, parse_rate};
use plexus_config::{ValueError, words};

/// Something that must hold after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// As the file says it.
    pub text: String,
    /// What is measured, never empty: it must hold for each.
    pub subjects: Vec<Subject>,
    /// How it is compared.
    pub operator: Operator,
    /// With what, in [`Subject::unit`].
    pub value: f64,
}

/// What an assertion is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A figure of a flow: index into [`crate::Topology::traffic`].
    Flow {
        /// The flow.
        flow: usize,
        /// Which of its figures.
        metric: FlowMetric,
    },
    /// Frames dropped by all nodes, for whatever reason.
    DropsTotal,
    /// Frames dropped by all nodes for the reason of this name.
    Drops(String),
    /// Whether in = out + consumed + dropped on every node: 1 if so, else 0.
    Conserved,
    /// The fraction of a core that a node used: index into [`crate::Topology::nodes`].
    Cpu {
        /// The node.
        node: usize,
    },
    /// The fraction of a node's packets that went by its fast table.
    Fast {
        /// The node, likewise.
        node: usize,
    },
    /// Interests that a node answered out of its content store.
    Cached {
        /// The node, likewise.
        node: usize,
    },
}

/// A figure of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowMetric {
    /// Payload bits/s that arrived.
    Received,
    /// Payload bits/s that were sent.
    Sent,
    /// The fraction of packets that did not arrive, 0 to 1.
    Loss,
    /// Median latency in microseconds.
    LatencyP50,
    /// 99th percentile of latency in microseconds.
    LatencyP99,
    /// Latency of the first packet in microseconds, with all that had to be found out for it.
    First,
    /// Packets that came after a later one.
    Reordered,
    /// Packets that came more than once.
    Duplicates,
    /// Answered requests per second.
    Transactions,
}

words!(FlowMetric {
    Received = "received",
    Sent = "sent",
    Loss = "loss",
    LatencyP50 = "latency_p50",
    LatencyP99 = "latency_p99",
    First = "first",
    Reordered = "reordered",
    Duplicates = "duplicates",
    Transactions = "transactions",
});

/// The unit in which a subject is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// A fraction: 0 to 1, or a percentage in the file.
    Fraction,
    /// Microseconds.
    Microseconds,
    /// Packets.
    Count,
    /// 1 for true, 0 for false.
    Truth,
}

impl Subject {
    /// The unit of its value.
    pub fn unit(&self) -> Unit {
        match self {
            Subject::Flow { metric, .. } => match metric {
                FlowMetric::Received | FlowMetric::Sent => Unit::BitsPerSecond,
                FlowMetric::Loss => Unit::Fraction,
                FlowMetric::LatencyP50 | FlowMetric::LatencyP99 | FlowMetric::First => {
                    Unit::Microseconds
                }
                FlowMetric::Reordered | FlowMetric::Duplicates | FlowMetric::Transactions => {
                    Unit::Count
                }
            },
            Subject::DropsTotal | Subject::Drops(_) | Subject::Cached { .. } => Unit::Count,
            Subject::Conserved => Unit::Truth,
            Subject::Cpu { .. } | Subject::Fast { .. } => Unit::Fraction,
        }
    }
}

/// How a measured value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

// Two characters before one, so that `<=` is not read as `<`.
words!(Operator {
    LessOrEqual = "<=",
    GreaterOrEqual = ">=",
    Equal = "==",
    NotEqual = "!=",
    Less = "<",
    Greater = ">",
});

impl Operator {
    /// Whether `left` compares so with `right`.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Operator::Less => left < right,
            Operator::LessOrEqual => left <= right,
            Operator::Greater => left > right,
            Operator::GreaterOrEqual => left >= right,
            Operator::Equal => left == right,
            Operator::NotEqual => left != right,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What became of an assertion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it holds; what was not measured does not.
    pub passed: bool,
    /// What was measured, in [`Subject::unit`]; `None`: nothing was.
    pub value: Option<f64>,
}

/// The names that an assertion can speak of, in the order of their indices.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Flows.
    pub flows: &'a [String],
    /// Nodes.
    pub nodes: &'a [String],
}

/// What is wrong with an assertion, and with which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionError {
    /// First byte of that part.
    pub offset: usize,
    /// Length of that part in bytes.
    pub len: usize,
    /// What is wrong and what to do.
    pub error: ValueError,
}

impl Assertion {
    /// Reads an assertion.
    ///
    /// # Errors
    /// When it does not follow the grammar, names what is not there, or compares with a value
    /// of another unit.
    pub fn parse(text: &str, names: Names<'_>) -> Result<Assertion, AssertionError> {
        let fault = |part: &str, message: String, help: String| {
            // `part` is a piece of `text`.
            let offset = part.as_ptr() as usize - text.as_ptr() as usize;
            AssertionError { offset, len: part.len(), error: ValueError::new(message, help) }
        };
        let at = text.find(['<', '>', '=', '!']);
        let found = at.and_then(|at| {
            let found = Operator::NAMES.iter().find(|(name, _)| text[at..].starts_with(name))?;
            Some((at, found))
        });
        let Some((at, &(symbol, operator))) = found else {
            let part = at.map_or(text, |at| &text[at..at + 1]);
            let message = format!("{} has no comparison", quote(text));
            let help = "write SUBJECT OP VALUE with OP one of < <= > >= == !=, as in \
                        \"bulk.received >= 80Mbit\"";
            return Err(fault(part, message, help.to_string()));
        };
        let subject_text = text[..at].trim();
        let value_text = text[at + symbol.len()..].trim();
        let subjects = parse_subjects(subject_text, names)
            .map_err(|(part, e)| fault(part, e.message, e.help))?;
        // All are of one kind.
        let unit = subjects.first().map_or(Unit::Truth, Subject::unit);
        let value =
            parse_value(value_text, unit).map_err(|e| fault(value_text, e.message, e.help))?;
        let is_order = !matches!(operator, Operator::Equal | Operator::NotEqual);
        if unit == Unit::Truth && is_order {
            let message = format!("{} is true or false, neither more nor less", subject_text);
            let help = format!("write {subject_text} == true");
            return Err(fault(&text[at..at + symbol.len()], message, help));
        }
        Ok(Assertion { text: text.to_string(), subjects, operator, value })
    }

    /// Compares what `measured` says of each subject, in [`Subject::unit`]. The verdict tells the
    /// first value that does not hold, or else the one nearest to that.
    pub fn evaluate(&self, measured: impl Fn(&Subject) -> Option<f64>) -> Verdict {
        let mut nearest: Option<f64> = None;
        for subject in &self.subjects {
            // NaN is no measurement: it would pass every `!=`.
            let value = measured(subject).filter(|v| !v.is_nan());
            let Some(value) = value.filter(|v| self.operator.holds(*v, self.value)) else {
                return Verdict { passed: false, value };
            };
            nearest = Some(match (nearest, self.operator) {
                (Some(other), Operator::Less | Operator::LessOrEqual) => value.max(other),
                (Some(other), Operator::Greater | Operator::GreaterOrEqual) => value.min(other),
                _ => value,
            });
        }
        Verdict { passed: nearest.is_some(), value: nearest }
    }
}

/// The subjects, or which part of the text is wrong and why.
fn parse_subjects<'t>(
    text: &'t str,
    names: Names<'_>,
) -> Result<Vec<Subject>, (&'t str, ValueError)> {
    if text == "conserved" {
        return Ok(vec![Subject::Conserved]);
    }
    let Some((owner, figure)) = text.split_once('.') else {
        let help = "write FLOW.received, FLOW.loss, drops.total, conserved or NODE.cpu";
        return Err((text, ValueError::new(format!("{} is no subject", quote(text)), help)));
    };
    if owner == "drops" {
        return match figure {
            "total" => Ok(vec![Subject::DropsTotal]),
            reason if is_reason(reason) => Ok(vec![Subject::Drops(reason.to_string())]),
            other => {
                let message = format!("{} is not the name of a drop reason", quote(other));
                let help = "write drops.total, or drops.REASON as `plexus show drops` names it";
                Err((other, ValueError::new(message, help)))
            }
        };
    }
    let position = |list: &[String]| list.iter().position(|n| n == owner);
    let unknown = |what: &str, list: &[String]| {
        let message = format!("there is no {what} {}", quote(owner));
        let help = known_names(what, owner, list.iter().map(String::as_str));
        (owner, ValueError::new(message, help))
    };
    if matches!(figure, "cpu" | "fast" | "cached") {
        let node = position(names.nodes).ok_or_else(|| unknown("node", names.nodes))?;
        return Ok(vec![match figure {
            "cpu" => Subject::Cpu { node },
            "fast" => Subject::Fast { node },
            _ => Subject::Cached { node },
        }]);
    }
    let flows: Vec<usize> = match owner.strip_suffix('*') {
        None => position(names.flows).into_iter().collect(),
        Some(prefix) => {
            let begins = |i: &usize| names.flows[*i].starts_with(prefix);
            (0..names.flows.len()).filter(begins).collect()
        }
    };
    if flows.is_empty() {
        return Err(unknown("flow", names.flows));
    }
    match FlowMetric::NAMES.iter().find(|(name, _)| *name == figure) {
        Some(&(_, metric)) => {
            Ok(flows.into_iter().map(|flow| Subject::Flow { flow, metric }).collect())
        }
        None => {
            let message = format!("a flow has no figure {}", quote(figure));
            let help = known_names("figure", figure, FlowMetric::NAMES.map(|(name, _)| name));
            Err((figure, ValueError::new(message, help)))
        }
    }
}

fn is_reason(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    !text.is_empty() && text.bytes().all(allowed)
}

fn parse_value(text: &str, unit: Unit) -> Result<f64, ValueError> {
    let refuse = |what: &str, help: &str| {
        Err(ValueError::new(format!("{} is not {what}", quote(text)), help))
    };
    // Not every float of Rust is a number of ours: no sign, no exponent, no infinity.
    let plain = |t: &str| {
        let digits = t.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let value = t.parse::<f64>().ok().filter(|v| v.is_finite());
        value.filter(|_| digits)
    };
    match unit {
        Unit::BitsPerSecond => parse_rate(text).map(|v| v as f64),
        Unit::Microseconds => parse_duration(text).map(|d| d.as_secs_f64() * 1e6),
        Unit::Fraction => {
            let value = match text.strip_suffix('%') {
                Some(percent) => plain(percent.trim()).map(|v| v / 100.0),
                None => plain(text),
            };
            let help = "write a number from 0 to 1, or as in 0.5%";
            value.map_or_else(|| refuse("a fraction", help), Ok)
        }
        Unit::Count => match text.parse::<u64>() {
            Ok(count) if !text.starts_with('+') => Ok(count as f64),
            _ => refuse("a count of packets", "write a whole number, as in 0"),
        },
        Unit::Truth => match text {
            "true" => Ok(1.0),
            "false" => Ok(0.0),
            _ => refuse("true or false", "write true or false"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Assertion, AssertionError> {
        let flows = ["bulk".to_string(), "ping".to_string()];
        let nodes = ["s1".to_string()];
        Assertion::parse(text, Names { flows: &flows, nodes: &nodes })
    }

    #[test]
    fn reads_every_subject_in_its_unit() {
        let flow = |metric| Subject::Flow { flow: 0, metric };
        let ping_first = Subject::Flow { flow: 1, metric: FlowMetric::First };
        for (text, subject, operator, value) in [
            ("bulk.received >= 80Mbit", flow(FlowMetric::Received), Operator::GreaterOrEqual, 8e7),
            ("bulk.sent<1Gbit", flow(FlowMetric::Sent), Operator::Less, 1e9),
            ("bulk.loss <= 0.5%", flow(FlowMetric::Loss), Operator::LessOrEqual, 0.005),
            ("bulk.loss == 0", flow(FlowMetric::Loss), Operator::Equal, 0.0),
            ("bulk.latency_p50 < 1ms", flow(FlowMetric::LatencyP50), Operator::Less, 1000.0),
            ("bulk.latency_p99 < 2us", flow(FlowMetric::LatencyP99), Operator::Less, 2.0),
            ("ping.first <= 5ms", ping_first, Operator::LessOrEqual, 5000.0),
            ("bulk.reordered == 0", flow(FlowMetric::Reordered), Operator::Equal, 0.0),
            ("bulk.duplicates != 3", flow(FlowMetric::Duplicates), Operator::NotEqual, 3.0),
            ("drops.total > 0", Subject::DropsTotal, Operator::Greater, 0.0),
            ("drops.queue_full == 0", Subject::Drops("queue_full".into()), Operator::Equal, 0.0),
            ("conserved == true", Subject::Conserved, Operator::Equal, 1.0),
            ("s1.cpu < 80%", Subject::Cpu { node: 0 }, Operator::Less, 0.8),
            ("s1.fast >= 0.9", Subject::Fast { node: 0 }, Operator::GreaterOrEqual, 0.9),
        ] {
            let assertion = parse(text).unwrap();
            let subjects = vec![subject];
            assert_eq!((assertion.subjects, assertion.operator), (subjects, operator), "{text}");
            assert!((assertion.value - value).abs() < 1e-9, "{text}");
        }
    }

    #[test]
    fn marks_the_part_that_is_wrong() {
        for (text, part, why) in [
            ("bulk.received", "bulk.received", "no comparison"),
            ("bulk.received = 3", "=", "no comparison"),
            ("bulc.received > 1Mbit", "bulc", "no flow \"bulc\""),
            ("bulk.recieved > 1Mbit", "recieved", "no figure \"recieved\""),
            ("bulk.received > 80MB", "80MB", "is not a rate"),
            ("bulk.loss < -1", "-1", "is not a fraction"),
            ("bulk.loss < 1e308", "1e308", "is not a fraction"),
            ("s2.cpu < 1", "s2", "no node \"s2\""),
            ("drops.Queue > 1", "Queue", "drop reason"),
            ("conserved > true", ">", "neither more nor less"),
            ("", "", "no comparison"),
            ("== 3", "", "no subject"),
        ] {
            let AssertionError { offset, len, error } = parse(text).unwrap_err();
            assert_eq!(&text[offset..offset + len], part, "{text}: {error}");
            assert!(format!("{error}").contains(why), "{text}: {error}");
        }
        assert!(parse("bulc.loss == 0").unwrap_err().error.help.contains("\"bulk\""));
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let assertion = parse("bulk.loss <= 1%").unwrap();
        assert_eq!(assertion.evaluate(|_| None), Verdict { passed: false, value: None });
        assert!(assertion.evaluate(|_| Some(0.01)).passed);
        assert!(!assertion.evaluate(|_| Some(0.011)).passed);
        assert!(!assertion.evaluate(|_| Some(f64::NAN)).passed);
    }

    #[test]
    fn a_star_stands_for_all_flows_whose_names_begin_so() {
        let flows = ["mix-1", "other", "mix-2", "mix-10"].map(String::from);
        let parse = |text| Assertion::parse(text, Names { flows: &flows, nodes: &[] });
        let at_most = parse("mix-*.loss <= 1%").unwrap();
        let metric = FlowMetric::Loss;
        assert_eq!(at_most.subjects, [0, 2, 3].map(|flow| Subject::Flow { flow, metric }));
        let losses = |losses: [f64; 4]| {
            move |subject: &Subject| match subject {
                Subject::Flow { flow, .. } => Some(losses[*flow]),
                _ => None,
            }
        };
        // Told is the worst of those that hold, or the one that does not.
        let told = |a: &Assertion, l| {
            let Verdict { passed, value } = a.evaluate(losses(l));
            (passed, value)
        };
        assert_eq!(told(&at_most, [0.002, 1.0, 0.009, 0.0]), (true, Some(0.009)));
        assert_eq!(told(&at_most, [0.002, 0.0, 0.02, 0.0]), (false, Some(0.02)));
        let at_least = parse("mix-*.loss >= 10%").unwrap();
        assert_eq!(told(&at_least, [0.5, 0.0, 0.2, 0.3]), (true, Some(0.2)));
        assert_eq!(parse("*.loss == 0").unwrap().subjects.len(), 4);
        let error = parse("mox-*.loss == 0").unwrap_err();
        assert!(error.error.to_string().contains("no flow \"mox-*\""), "{}", error.error);
    }
}
