//! Figures of runs of one file with different seeds: each one's mean and spread.

use serde::Serialize;

use crate::report::{Facts, rate};
use crate::table::aligned;

/// Flows whose figures are printed one by one for people; JSON has all.
const FLOWS_SHOWN: usize = 16;

/// A figure of all runs.
#[derive(Serialize)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// Its unit; empty for what an assertion compares.
    pub unit: &'static str,
    /// Of the runs that measured it.
    pub mean: Option<f64>,
    /// Sample standard deviation; absent for fewer than two values.
    pub deviation: Option<f64>,
    /// The least value.
    pub least: Option<f64>,
    /// The greatest value.
    pub greatest: Option<f64>,
    /// In the order of the runs; absent where nothing was measured.
    pub values: Vec<Option<f64>>,
}

impl Quantity {
    fn new(name: impl Into<String>, unit: &'static str, values: Vec<Option<f64>>) -> Quantity {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let count = known.len() as f64;
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / count);
        let deviation = mean.filter(|_| known.len() > 1).map(|mean| {
            let squares: f64 = known.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (count - 1.0)).sqrt()
        });
        let least = known.iter().copied().reduce(f64::min);
        let greatest = known.iter().copied().reduce(f64::max);
        Quantity { name: name.into(), unit, mean, deviation, least, greatest, values }
    }

    fn text(&self, value: Option<f64>) -> String {
        match (value, self.unit) {
            (None, _) => "-".to_string(),
            (Some(v), "bit/s") => rate(v),
            (Some(v), "fraction") => format!("{:.3} %", v * 100.0),
            (Some(v), unit) => format!("{v:.1} {unit}").trim_end().to_string(),
        }
    }
}

/// The figures of runs of one file.
pub fn quantities(runs: &[&Facts]) -> Vec<Quantity> {
    let of = |figure: &dyn Fn(&Facts) -> Option<f64>| -> Vec<Option<f64>> {
        runs.iter().map(|f| figure(f).filter(|v| v.is_finite())).collect()
    };
    let mut all = vec![
        Quantity::new(
            "received, all flows",
            "bit/s",
            of(&|f| Some(f.flows.iter().map(|f| f.received_bits_per_s).sum())),
        ),
        Quantity::new(
            "loss, mean of flows",
            "fraction",
            of(&|f| Some(f.flows.iter().map(|f| f.loss).sum::<f64>() / f.flows.len() as f64)),
        ),
        Quantity::new(
            "latency p99, worst flow",
            "us",
            of(&|f| f.flows.iter().filter_map(|f| f.latency_us_p99).reduce(f64::max)),
        ),
    ];
    let Some(first) = runs.first() else { return all };
    // The first of them say that each flow arrived.
    for (i, assertion) in first.assertions.iter().enumerate().skip(first.flows.len()) {
        let values = of(&|f| f.assertions.get(i).and_then(|a| a.value));
        all.push(Quantity::new(&assertion.text, "", values));
    }
    for (i, flow) in first.flows.iter().enumerate() {
        let values = of(&|f| f.flows.get(i).map(|f| f.received_bits_per_s));
        all.push(Quantity::new(format!("{}.received", flow.name), "bit/s", values));
        let values = of(&|f| f.flows.get(i).map(|f| f.loss));
        all.push(Quantity::new(format!("{}.loss", flow.name), "fraction", values));
        let values = of(&|f| f.flows.get(i).and_then(|f| f.latency_us_p99));
        all.push(Quantity::new(format!("{}.latency_p99", flow.name), "us", values));
    }
    all
}

/// For people: what was measured of all flows and by assertions, and each flow if they are few.
pub fn table(quantities: &[Quantity], flows: usize) -> String {
    let of_flows = 3 * flows;
    let shown = match flows <= FLOWS_SHOWN {
        true => quantities.len(),
        false => quantities.len().saturating_sub(of_flows),
    };
    let mut rows = vec![["", "mean", "deviation", "least", "greatest"].map(String::from)];
    for q in quantities[..shown].iter().filter(|q| q.mean.is_some()) {
        let values = [q.mean, q.deviation, q.least, q.greatest].map(|v| q.text(v));
        let [mean, deviation, least, greatest] = values;
        rows.push([q.name.clone(), mean, deviation, least, greatest]);
    }
    aligned(&rows, |column| column > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_what_was_measured() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(Some).into_iter();
        let q = Quantity::new("x", "us", values.chain([None]).collect());
        assert_eq!((q.mean, q.least, q.greatest), (Some(5.0), Some(2.0), Some(9.0)));
        assert!((q.deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let one = Quantity::new("x", "us", vec![Some(1.0), None]);
        assert_eq!((one.mean, one.deviation), (Some(1.0), None));
    }
}
