//! The validity period of a certificate (packet format, "Certificate", "ValidityPeriod").

/// The validity period of a certificate, as `YYYYMMDDThhmmss` in UTC, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub not_before: [u8; 15],
    /// Until then.
    pub not_after: [u8; 15],
}

const DAY_S: u64 = 86_400;
/// Years end with 9999.
const END_S: u64 = 253_402_300_799;

impl Validity {
    /// From the one time to the other, in seconds since 1970. Times after the year 9999 become its
    /// end.
    pub fn between(first_s: u64, last_s: u64) -> Validity {
        Validity { not_before: stamp(first_s), not_after: stamp(last_s) }
    }

    /// True of a time within it, in milliseconds since 1970.
    pub fn includes(&self, unix_ms: u64) -> bool {
        let now = stamp(unix_ms / 1000);
        // Digits in order of their weight: as text as in time.
        self.not_before <= now && now <= self.not_after
    }
}

/// Seconds since 1970 as certificates write them.
fn stamp(unix_s: u64) -> [u8; 15] {
    let seconds = unix_s.min(END_S);
    let (days, second) = (seconds / DAY_S, seconds % DAY_S);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": days_to_civil, from 1970 on.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let text = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}");
    text.as_bytes().try_into().expect("years have four digits")
}

/// Seconds since 1970 of a time that certificates may write; `None` of any other text.
pub fn seconds(text: &[u8; 15]) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?.iter();
        digits.copied().try_fold(0, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    // The same author's days_from_civil: a year begins with March.
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let seconds = days * DAY_S + hour * 3600 + minute * 60 + second;
    // There is no 30th of February and no 25th hour.
    (stamp(seconds) == *text).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_as_in_certificates() {
        for (unix_s, text) in [
            (0, "19700101T000000"),
            (951_782_400, "20000229T000000"),
            (1_709_251_199, "20240229T235959"),
            (1_795_420_724, "20261123T075844"),
            (4_107_542_400, "21000301T000000"),
            (END_S, "99991231T235959"),
        ] {
            assert_eq!(stamp(unix_s), *text.as_bytes(), "{text}");
            assert_eq!(seconds(text.as_bytes().try_into().unwrap()), Some(unix_s), "{text}");
        }
        assert_eq!(stamp(u64::MAX), *b"99991231T235959");
        let period = Validity::between(1_709_251_199, 1_795_420_724);
        assert!(period.includes(1_709_251_199_000) && !period.includes(1_709_251_198_999));
        assert!(period.includes(1_795_420_724_999) && !period.includes(1_795_420_725_000));
    }

    #[test]
    fn invalid_times_have_no_seconds() {
        for text in [
            "19691231T235959",
            "00000101T000000",
            "20260230T000000",
            "20250229T000000",
            "20261301T000000",
            "20260001T000000",
            "20260100T000000",
            "20260101T240000",
            "20260101T006000",
            "20260101 000000",
            "2026-101T000000",
            "+0260101T000000",
        ] {
            assert_eq!(seconds(text.as_bytes().try_into().unwrap()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_second_is_read_as_it_is_written(unix_s in 0..=END_S) {
            prop_assert_eq!(seconds(&stamp(unix_s)), Some(unix_s));
        }

        #[test]
        fn no_text_is_too_much(text: [u8; 15]) {
            let known = seconds(&text);
            prop_assert!(known.is_none_or(|s| stamp(s) == text));
        }
    }
}
