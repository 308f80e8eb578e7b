//! Quantities in human-readable form: `100Mbit`, `1MiB`, `10ms`, `5kpps`.
//!
//! Values are exact integers of the smallest unit (bits/s, bytes, nanoseconds, packets/s); other
//! values are refused, never rounded, so that writing and reading give the same value. Powers are
//! decimal, except for `KiB`, `MiB` and `GiB`.

use std::time::Duration;

use crate::error::ValueError;

/// Unit names with their factors, largest first; the first name of a factor is the one written.
type Scale = &'static [(&'static str, u64)];

const RATE: Scale = &[
    ("Tbit", 1_000_000_000_000),
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

const SIZE: Scale = &[
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

const DURATION: Scale = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const PACKET_RATE: Scale =
    &[("Mpps", 1_000_000), ("kpps", 1_000), ("pps", 1), ("M", 1_000_000), ("k", 1_000), ("", 1)];

const RATE_HELP: &str = "write a number and bit, kbit, Mbit, Gbit or Tbit, as in \"100Mbit\"";
const SIZE_HELP: &str =
    "write a number and B, kB, MB, GB, TB, KiB, MiB or GiB, as in \"1500\" or \"1MiB\"";
const DURATION_HELP: &str = "write a number and ns, us, ms, s, min or h, as in \"10ms\"";
const PACKET_RATE_HELP: &str = "write packets per second, as in 1000 or \"5kpps\"";

/// Bits per second from a text such as `1.5Gbit`; the unit may be followed by `/s`.
///
/// # Errors
/// When the text is not a number with one of the units, or not a whole number of bits/s.
pub fn parse_rate(text: &str) -> Result<u64, ValueError> {
    let bare = text.strip_suffix("/s").unwrap_or(text);
    parse(bare, RATE, "rate", "bit/s", RATE_HELP).map_err(|e| e.about(text, "rate"))
}

/// Writes bits per second so that [`parse_rate`] gives the same value.
pub fn format_rate(bits_per_s: u64) -> String {
    format(bits_per_s, RATE)
}

/// Bytes from a text such as `1500`, `64kB` or `1MiB`.
///
/// # Errors
/// When the text is not a number with one of the units, or not a whole number of bytes.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    parse(text, SIZE, "size", "byte", SIZE_HELP).map_err(|e| e.about(text, "size"))
}

/// Writes bytes so that [`parse_size`] gives the same value.
pub fn format_size(bytes: u64) -> String {
    let scale: Scale = if bytes != 0 && bytes.is_multiple_of(1 << 10) { &BINARY } else { &DECIMAL };
    format(bytes, scale)
}

const BINARY: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const DECIMAL: [(&str, u64); 5] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

/// A duration from a text such as `10ms`, `1.5us` or `5min`, at most 584 years.
///
/// # Errors
/// When the text is not a number with one of the units, or not a whole number of nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    parse(text, DURATION, "duration", "nanosecond", DURATION_HELP)
        .map(Duration::from_nanos)
        .map_err(|e| e.about(text, "duration"))
}

/// Writes a duration so that [`parse_duration`] gives the same value (up to 584 years).
pub fn format_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_string();
    }
    // Seconds and below: "300s" and "90s" read better than "5min" and "1.5min".
    format(nanos, &DURATION[2..])
}

/// Packets per second from a text such as `1000`, `5kpps` or `1.5M`.
///
/// # Errors
/// When the text is not a number with one of the units, or not a whole number of packets/s.
pub fn parse_packet_rate(text: &str) -> Result<u64, ValueError> {
    parse(text, PACKET_RATE, "packet rate", "packet/s", PACKET_RATE_HELP)
        .map_err(|e| e.about(text, "packet rate"))
}

/// Why a quantity was refused, before the text itself is known to the message.
struct Refusal {
    why: String,
    help: &'static str,
}

impl Refusal {
    fn about(self, text: &str, what: &str) -> ValueError {
        ValueError::new(
            format!("{} is not a {what}: {}", crate::error::quote(text), self.why),
            self.help,
        )
    }
}

fn parse(
    text: &str,
    scale: Scale,
    what: &str,
    smallest: &str,
    help: &'static str,
) -> Result<u64, Refusal> {
    let refuse = |why: String| Err(Refusal { why, help });
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    if number.is_empty() {
        let why = if text.starts_with('-') {
            format!("a {what} is not negative")
        } else {
            "it does not begin with a number".to_string()
        };
        return refuse(why);
    }
    // Case is ignored where no two units differ by it: tc(8) writes "100mbit".
    let found = scale
        .iter()
        .find(|(name, _)| *name == unit)
        .or_else(|| scale.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)));
    let Some(&(_, factor)) = found else {
        let why = if unit.is_empty() {
            "the unit is missing".to_string()
        } else {
            format!("the unit {} is not known", crate::error::quote(unit))
        };
        return refuse(why);
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return refuse(format!("{} is not a number", crate::error::quote(number)));
    }
    let fraction = fraction.trim_end_matches('0');
    let too_large = || Refusal { why: "it is too large".to_string(), help };
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let value = whole.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
    // No unit is finer than 10^13 of the smallest, so more digits cannot come out whole.
    let finer = || Refusal { why: format!("it is finer than one {smallest}"), help };
    let digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= 18).ok_or_else(finer)?;
    let mut extra = 0;
    if digits > 0 {
        let scaled = u128::from(fraction.parse::<u64>().map_err(|_| finer())?) * u128::from(factor);
        let power = 10u128.pow(digits);
        if !scaled.is_multiple_of(power) {
            return Err(finer());
        }
        extra = scaled / power;
    }
    u64::try_from(value.saturating_add(extra)).map_err(|_| too_large())
}

/// The largest unit in which the value is whole, or below 1000 with at most three decimals.
fn format(value: u64, scale: Scale) -> String {
    for &(name, factor) in scale {
        let decimals = (u128::from(value) * 1000).is_multiple_of(u128::from(factor));
        let short = value.is_multiple_of(factor) || (value / factor < 1000 && decimals);
        if value >= factor && short {
            let whole = value / factor;
            let milli = u128::from(value % factor) * 1000 / u128::from(factor);
            let decimals = format!(".{milli:03}");
            let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
            return format!("{whole}{decimals}{name}");
        }
    }
    let smallest = scale.last().map_or("", |(name, _)| name);
    format!("{value}{smallest}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_rate("100Mbit"), Ok(100_000_000));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(1_500_000_000));
        assert_eq!(parse_rate("800kbit"), Ok(800_000));
        assert_eq!(parse_rate("10 mbit"), Ok(10_000_000));
        assert_eq!(parse_rate("1bit"), Ok(1));
        assert_eq!(parse_size("1500"), Ok(1500));
        assert_eq!(parse_size("100MB"), Ok(100_000_000));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("64kB"), Ok(64_000));
        assert_eq!(parse_size("0.5KiB"), Ok(512));
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_duration("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(parse_duration("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_packet_rate("1000"), Ok(1000));
        assert_eq!(parse_packet_rate("1.5Mpps"), Ok(1_500_000));
    }

    #[test]
    fn writes_what_people_read() {
        assert_eq!(format_rate(100_000_000), "100Mbit");
        assert_eq!(format_rate(1_500_000_000), "1.5Gbit");
        assert_eq!(format_rate(1_000_000_001), "1000000001bit");
        assert_eq!(format_size(1 << 20), "1MiB");
        assert_eq!(format_size(100_000_000), "100MB");
        assert_eq!(format_size(1500), "1.5kB");
        assert_eq!(format_duration(Duration::from_secs(300)), "300s");
        assert_eq!(format_duration(Duration::from_nanos(1500)), "1.5us");
        assert_eq!(format_rate(0), "0bit");
    }

    #[test]
    fn says_what_is_wrong_and_what_is_allowed() {
        for (text, why) in [
            ("100", "the unit is missing"),
            ("100MB", "the unit \"MB\" is not known"),
            ("-1Mbit", "a rate is not negative"),
            ("fast", "it does not begin with a number"),
            ("", "it does not begin with a number"),
            ("1.5bit", "it is finer than one bit/s"),
            ("1..5Mbit", "\"1..5\" is not a number"),
            (".5Mbit", "\".5\" is not a number"),
            ("99999999999999999999Gbit", "it is too large"),
        ] {
            let error = parse_rate(text).unwrap_err();
            assert_eq!(error.message, format!("{text:?} is not a rate: {why}"));
            assert!(error.help.contains("Mbit"), "{error:?}");
        }
        assert!(parse_duration("10").unwrap_err().help.contains("min"));
        assert!(parse_size("1e9").is_err());
        assert!(parse_size(&"9".repeat(10_000)).is_err());
        assert!(parse_size(&format!("0.{}", "1".repeat(10_000))).is_err());
    }

    proptest! {
        #[test]
        fn formatting_loses_nothing(v in prop_oneof![0..10_000u64, any::<u64>(),
            (0..2000u64, 0..5u32).prop_map(|(m, e)| m * 1000u64.pow(e)), any::<u32>().prop_map(|v|
            u64::from(v) << 10)])
        {
            prop_assert_eq!(parse_rate(&format_rate(v)), Ok(v));
            prop_assert_eq!(parse_size(&format_size(v)), Ok(v));
            let d = Duration::from_nanos(v);
            prop_assert_eq!(parse_duration(&format_duration(d)), Ok(d));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(text in "\\PC{0,20}|[0-9.]{0,30}[a-zA-Z/]{0,5}") {
            let _ = (parse_rate(&text), parse_size(&text), parse_duration(&text));
            let _ = parse_packet_rate(&text);
        }
    }
}
