//! The FreshnessPeriod of a response, from its Cache-Control (RFC 9111, 5.2.2).

use std::time::Duration;

/// Upper bound.
const MAX: Duration = Duration::from_secs(24 * 3600);

/// The freshness of a response with this header; `otherwise` if it has no directive. A content
/// store is a shared cache, so `s-maxage` precedes `max-age`, and private responses are never
/// fresh.
pub fn of(cache_control: Option<&str>, otherwise: Duration) -> Duration {
    let (mut shared, mut any) = (None, None);
    for directive in cache_control.unwrap_or_default().split(',') {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = || {
            let value = value.trim().trim_matches('"');
            value.parse().map(|s: u64| Duration::from_secs(s.min(MAX.as_secs()))).ok()
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" | "private" => return Duration::ZERO,
            "s-maxage" => shared = shared.or_else(seconds),
            "max-age" => any = any.or_else(seconds),
            _ => {}
        }
    }
    shared.or(any).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_count_in_their_order_of_precedence() {
        for (header, seconds) in [
            (None, 7),
            (Some("public"), 7),
            (Some("max-age=60"), 60),
            (Some("Max-Age=\"60\" , public"), 60),
            (Some("max-age=60, s-maxage=5"), 5),
            (Some("max-age=60, no-store"), 0),
            (Some("private, max-age=60"), 0),
            (Some("max-age=0"), 0),
            (Some("max-age=-1"), 7),
            (Some("max-age=99999999999"), 86_400),
            (Some(",,=,"), 7),
        ] {
            let fresh = of(header, Duration::from_secs(7));
            assert_eq!(fresh, Duration::from_secs(seconds), "{header:?}");
        }
    }
}
