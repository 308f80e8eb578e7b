//! Limits repeated reports of fetch failures to the operator.

use std::time::{Duration, Instant};

/// The same reason is reported again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// Most reasons reported in that time.
const REASONS_MAX: usize = 16;

/// Recent reports.
#[derive(Default)]
pub(super) struct Told(Vec<(String, Instant)>);

impl Told {
    /// Whether to report a reason now; if so, it counts as reported.
    pub(super) fn is_due(&mut self, now: Instant, why: &str) -> bool {
        self.0.retain(|(_, at)| now.saturating_duration_since(*at) < AGAIN);
        let is_due = self.0.len() < REASONS_MAX && self.0.iter().all(|(told, _)| told != why);
        if is_due {
            self.0.push((why.into(), now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_reported_once_a_minute_within_a_renewing_limit() {
        let (mut told, start) = (Told::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(told.is_due(at(0), "a") && !told.is_due(at(59), "a") && told.is_due(at(60), "a"));
        let due = (0..100).filter(|i| told.is_due(at(61), &i.to_string())).count();
        assert_eq!(due, REASONS_MAX - 1);
        assert!(!told.is_due(at(119), "b") && told.is_due(at(121), "b"));
    }
}
