//! Figures and results as text.

use serde::Serialize;

use crate::Failure;

/// A line on standard output about what was done. A reader that has gone (`| head`) is no reason to
/// stop half-way, nor to panic, as `println!` does. An answer that was asked for is no such line:
/// where it cannot be written, the command has failed.
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

/// The first eight of these names, and how many there are besides.
pub fn first_of(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
