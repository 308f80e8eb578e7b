//! One run beside another of the same file: a lab's and its simulated twin's, or two of either.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::report::{Facts, FlowReport, latency, rate};
use crate::table::columns;

/// Far above what any cable carries, and far below where sums overflow.
const RATE_MAX_BITS_PER_S: f64 = 1e18;

/// How a run's rates differ from those of another run of the same flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Each flow except ICMP, which has no meaningful rate, in the order of the file.
    pub flows: Vec<Difference>,
    /// All flows of each protocol together.
    pub totals: Vec<Difference>,
    /// The loss and median latency of every flow: there, here.
    #[serde(skip)]
    beside: Vec<[String; 6]>,
}

/// A rate there and here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The flow; of a total its protocol.
    pub name: String,
    /// `tcp` or `udp`.
    pub proto: String,
    /// Payload bits/s that arrived in the run that is compared with.
    pub there_bits_per_s: f64,
    /// Payload bits/s that arrived in this run.
    pub here_bits_per_s: f64,
    /// Relative difference of the rate here from the rate there; none if nothing arrived there.
    pub difference: Option<f64>,
}

impl Difference {
    fn new(name: &str, proto: &str, there: f64, here: f64) -> Difference {
        Difference {
            name: name.into(),
            proto: proto.into(),
            there_bits_per_s: there,
            here_bits_per_s: here,
            difference: (there > 0.0).then(|| here / there - 1.0),
        }
    }

    fn row(&self) -> [String; 5] {
        let difference = self.difference.map_or("-".into(), |d| format!("{:+.1} %", d * 100.0));
        let rates = [self.there_bits_per_s, self.here_bits_per_s].map(rate);
        let [there, here] = rates;
        [self.name.clone(), self.proto.clone(), there, here, difference]
    }
}

impl Comparison {
    /// Compares a run with another one.
    ///
    /// # Errors
    /// In words, when they are not runs of the same flows, or one contains impossible
    /// figures.
    pub fn of(there: &Facts, here: &Facts) -> Result<Comparison, String> {
        let names = |facts: &Facts| -> BTreeMap<String, FlowReport> {
            facts.flows.iter().map(|f| (f.name.clone(), f.clone())).collect()
        };
        let (theirs, ours) = (names(there), names(here));
        if let Some(name) = ours.keys().find(|name| !theirs.contains_key(*name)) {
            return Err(format!("there is no flow {name} in that run"));
        }
        if let Some(name) = theirs.keys().find(|name| !ours.contains_key(*name)) {
            return Err(format!(
                "there is a flow {name} in that run, which this one does not have"
            ));
        }
        theirs.values().chain(ours.values()).try_for_each(check)?;
        let mut flows = Vec::new();
        let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        let mut beside = Vec::new();
        for flow in &here.flows {
            let other = &theirs[&flow.name];
            let loss = |f: &FlowReport| format!("{:.2} %", f.loss * 100.0);
            let latencies = [other.latency_us_p50, flow.latency_us_p50].map(latency);
            let [p50_there, p50_here] = latencies;
            let (name, proto) = (flow.name.clone(), flow.proto.clone());
            beside.push([name, proto, loss(other), loss(flow), p50_there, p50_here]);
            if flow.proto == "icmp" {
                continue;
            }
            let rates = [other.received_bits_per_s, flow.received_bits_per_s];
            flows.push(Difference::new(&flow.name, &flow.proto, rates[0], rates[1]));
            let sum = sums.entry(&flow.proto).or_default();
            (0..2).for_each(|i| sum[i] += rates[i]);
        }
        let totals = sums.into_iter().map(|(p, [there, here])| Difference::new(p, p, there, here));
        Ok(Comparison { flows, totals: totals.collect(), beside })
    }
}

/// Refuses what no run measures: a report may have been written by hand.
fn check(flow: &FlowReport) -> Result<(), String> {
    let refuse = |key: &str, value: f64, allowed: &str| {
        let help = "let plexus write the report anew";
        Err(format!("the flow {} has {key} = {value:e}, which is not {allowed}: {help}", flow.name))
    };
    if !(0.0..=1.0).contains(&flow.loss) {
        return refuse("loss", flow.loss, "from 0 to 1");
    }
    let (sent, received) = (flow.sent_bits_per_s, flow.received_bits_per_s);
    for (key, value) in [("sent_bits_per_s", sent), ("received_bits_per_s", received)] {
        // A sum of finite ones may still be none.
        if !(0.0..=RATE_MAX_BITS_PER_S).contains(&value) {
            return refuse(key, value, &format!("from 0 to {RATE_MAX_BITS_PER_S:e}"));
        }
    }
    for latency_us in [flow.latency_us_first, flow.latency_us_p50, flow.latency_us_p99] {
        if let Some(us) = latency_us.filter(|us| !us.is_finite() || *us < 0.0) {
            return refuse("a latency in microseconds", us, "finite and at least 0");
        }
    }
    Ok(())
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["received", "", "there", "here", "difference"].map(String::from)];
        rows.extend(self.flows.iter().map(Difference::row));
        for total in &self.totals {
            let [_, proto, there, here, difference] = total.row();
            rows.push([format!("all {proto}"), proto, there, here, difference]);
        }
        f.write_str(&columns(&rows))?;
        let names = ["", "", "loss there", "loss here", "p50 there", "p50 here"];
        let mut rows = vec![names.map(String::from)];
        rows.extend(self.beside.iter().cloned());
        f.write_str(columns(&rows).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(flows: &[(&str, &str, f64)]) -> Facts {
        let flows = flows.iter().map(|&(name, proto, received_bits_per_s)| FlowReport {
            name: name.into(),
            proto: proto.into(),
            received_bits_per_s,
            ..FlowReport::default()
        });
        Facts {
            lab: "l".into(),
            passed: true,
            flows: flows.collect(),
            assertions: vec![],
            outages: vec![],
            drops: BTreeMap::new(),
            cpu: BTreeMap::new(),
            cpu_quota: BTreeMap::new(),
            stalled_ms: None,
            fast: BTreeMap::new(),
        }
    }

    #[test]
    fn flows_are_compared_by_name_and_summed_by_protocol() {
        let there = facts(&[("a", "udp", 40e6), ("b", "udp", 10e6), ("p", "icmp", 1.0)]);
        let here = facts(&[("b", "udp", 15e6), ("a", "udp", 30e6), ("p", "icmp", 2.0)]);
        let found = Comparison::of(&there, &here).unwrap();
        let flows: Vec<_> = found.flows.iter().map(|d| (&d.name[..], d.difference)).collect();
        assert_eq!(flows, [("b", Some(0.5)), ("a", Some(-0.25))]);
        assert_eq!(found.totals.len(), 1);
        assert!((found.totals[0].difference.unwrap() + 0.1).abs() < 1e-9);
        let text = found.to_string();
        assert!(text.contains("all udp") && text.contains("-10.0 %"), "{text}");
    }

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let good = facts(&[("a", "udp", 1.0)]);
        for bad in [-1.0, 1e308, f64::INFINITY, f64::NAN] {
            let e = Comparison::of(&facts(&[("a", "udp", bad)]), &good).unwrap_err();
            assert!(e.contains("flow a has received_bits_per_s"), "{e}");
            let mut lossy = good.clone();
            lossy.flows[0].loss = bad;
            let e = Comparison::of(&lossy, &good).unwrap_err();
            assert!(e.contains("flow a has loss") && e.contains("0 to 1"), "{e}");
        }
    }

    #[test]
    fn runs_of_other_flows_are_refused_by_name() {
        let (one, two) =
            (facts(&[("a", "udp", 1.0)]), facts(&[("a", "udp", 1.0), ("b", "tcp", 1.)]));
        assert!(Comparison::of(&one, &two).unwrap_err().contains("no flow b"));
        assert!(Comparison::of(&two, &one).unwrap_err().contains("a flow b"));
        let nothing = Comparison::of(&facts(&[("a", "tcp", 0.0)]), &facts(&[("a", "tcp", 1.0)]));
        assert_eq!(nothing.unwrap().flows[0].difference, None);
    }
}
