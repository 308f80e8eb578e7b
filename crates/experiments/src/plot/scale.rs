//! Where values stand on an axis, and which of them are written beside it.

/// An axis from its lowest to its highest value, both at round numbers.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
}

/// Values to be written on a linear axis, some.
const TICKS: f64 = 5.0;
/// Powers of ten that are written on a logarithmic one, at most.
const DECADES: i32 = 7;

impl Scale {
    /// From zero to the highest of some values, or somewhat beyond; linear.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        Scale::linear(values.fold(0.0, f64::max), 0.0)
    }

    /// Around some values, those left out that have no place on it.
    pub(super) fn around(values: impl Iterator<Item = f64>, log: bool) -> Scale {
        let fits = |v: &f64| v.is_finite() && (!log || *v > 0.0);
        let values: Vec<f64> = values.filter(fits).collect();
        let ends = values.iter().copied().reduce(f64::min).zip(values.into_iter().reduce(f64::max));
        match (ends, log) {
            (Some((low, high)), true) => Scale::logarithmic(low, high),
            // What is not far from zero is seen from there.
            (Some((low, high)), false) if low > 0.0 && low < high * 0.6 => Scale::linear(high, 0.0),
            (Some((low, high)), false) => Scale::linear(high, low),
            (None, true) => Scale::logarithmic(1.0, 10.0),
            (None, false) => Scale::linear(1.0, 0.0),
        }
    }

    fn linear(high: f64, low: f64) -> Scale {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = step(high - low);
        let first = (low / step + 1e-9).floor();
        let last = ((high / step - 1e-9).ceil()).max(first + 1.0);
        let ticks = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Scale { log: false, low: first * step, high: last * step, ticks }
    }

    fn logarithmic(low: f64, high: f64) -> Scale {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let last = last.max(first + 1);
        let fine = last - first <= 2;
        let every = (last - first + DECADES - 1) / DECADES;
        let in_decade: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let power = |exponent: i32| 10_f64.powi(exponent);
        let round = || (first..=last).flat_map(|e| [1.0, 2.0, 5.0].map(|n| n * power(e)));
        // The ends are the nearest of 1, 2 and 5 times a power of ten.
        let from = round().filter(|v| *v <= low * 1.000_001).fold(power(first), f64::max);
        let to = round().filter(|v| *v >= high / 1.000_001).fold(f64::INFINITY, f64::min);
        let to = if to > from { to } else { from * 10.0 };
        let ticks = (first..=last)
            .filter(|e| (e - first) % every == 0)
            .flat_map(|e| in_decade.iter().map(move |n| n * power(e)))
            .filter(|v| *v >= from / 1.000_001 && *v <= to * 1.000_001)
            .collect();
        Scale { log: true, low: from, high: to, ticks }
    }

    /// Where a value stands, from 0 at the low end to 1 at the high one; `None` where it has no
    /// place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let part = match self.log {
            true => (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
            false => (value - self.low) / (self.high - self.low),
        };
        (part.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&part)).then_some(part)
    }
}

/// The distance of round values: 1, 2 or 5 times a power of ten.
fn step(span: f64) -> f64 {
    let rough = span / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough).unwrap_or(power)
}

/// A value as it stands beside an axis: no more digits than it has, thousands apart, prefixes of
/// the SI beyond.
pub(super) fn number(value: f64) -> String {
    for (scale, prefix) in [(1e12, " T"), (1e9, " G"), (1e6, " M")] {
        if value.abs() >= scale {
            return format!("{}{prefix}", plain(value / scale));
        }
    }
    plain(value)
}

fn plain(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:e}");
    }
    grouped(&format!("{}", (value * 1e6).round() / 1e6))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Some three digits, thousands apart.
pub(in super::super) fn figure(value: f64) -> String {
    grouped(&three_digits(value))
}

fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("\u{2212}", rest));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    format!("{sign}{}{rest}", thousands(whole))
}

/// Digits in groups of three.
pub(in super::super) fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_round_numbers() {
        let wanted = [(0.0, 1.0), (5.69, 6.0), (100.0, 100.0), (0.9, 1.0), (3.0, 3.0)];
        for (highest, end) in wanted {
            let scale = Scale::from_zero([highest].into_iter());
            assert!((scale.high - end).abs() < 1e-9, "{highest}: {scale:?}");
            assert_eq!((scale.ticks[0], scale.place(0.0)), (0.0, Some(0.0)));
        }
        let scale = Scale::around([97.0, 99.5].into_iter(), false);
        assert_eq!((scale.low, scale.high, scale.ticks.len()), (97.0, 99.5, 6));
        assert_eq!(Scale::around([-3.0, 9.0].into_iter(), false).ticks, [-5.0, 0.0, 5.0, 10.0]);
    }

    #[test]
    fn decades_are_of_one_length_and_what_has_no_place_is_left_out() {
        let scale = Scale::around([0.0, 1.0, 30_000.0, f64::NAN].into_iter(), true);
        assert_eq!((scale.low, scale.high), (1.0, 50_000.0));
        assert_eq!(scale.ticks, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        let [ten, hundred] = [10.0, 100.0].map(|v| scale.place(v).unwrap());
        assert!((hundred - 2.0 * ten).abs() < 1e-12);
        assert_eq!((scale.place(0.0), scale.place(-1.0)), (None, None));
        assert_eq!(Scale::around([20.0, 80.0].into_iter(), true).ticks, [20.0, 50.0, 100.0]);
        assert!(Scale::around([1e-9, 1e12].into_iter(), true).ticks.len() <= 8);
        // Nothing, and one value, have an axis too.
        for values in [&[][..], &[7.0], &[0.0]] {
            for log in [false, true] {
                let scale = Scale::around(values.iter().copied(), log);
                assert!(scale.high > scale.low && !scale.ticks.is_empty(), "{scale:?}");
            }
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        let texts = [0.0, 0.25, 1000.0, 65_536.0, 2e6, 1.5e9, -1234.5].map(number);
        assert_eq!(texts, ["0", "0.25", "1,000", "65,536", "2 M", "1.5 G", "\u{2212}1,234.5"]);
        assert_eq!(number(0.000_02), "2e-5");
        assert_eq!([5.5, 2906.4, -0.25].map(figure), ["5.50", "2,906", "\u{2212}0.25"]);
    }
}
