//! Figures and results as text.

use serde::Serialize;

use crate::Failure;

/// A line on standard output. A reader that has gone (`| head`) is no reason to stop half-way, nor
/// to panic, as `println!` does.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// A number with the prefix that suits it.
pub fn si(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.3} G", v / 1e9),
        v if v >= 1e6 => format!("{:.3} M", v / 1e6),
        v if v >= 1e3 => format!("{:.3} k", v / 1e3),
        v => format!("{v:.0} "),
    }
}

/// A value as indented JSON with a newline.
///
/// # Errors
/// When it cannot be serialised.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(Failure::unusable)
}

/// A number of things: `1 port`, `2 ports`.
pub fn plural(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
