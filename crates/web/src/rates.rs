//! Rates from counters: what passed between two of a box's reports.

use std::collections::{BTreeMap, HashMap, HashSet};

use plexus_api::answer::network::{BoxCounters, Network, NetworkBox, PortCounters};
use serde::Serialize;

/// The rates of a network, as the page reads them. Lists follow those of the map; `None`: not
/// known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// By cable: from its first end to the second, and back, in bits per second.
    pub(crate) cables: Vec<[Option<u64>; 2]>,
    /// By box.
    pub(crate) boxes: Vec<Option<BoxRates>>,
    /// By reason: packets dropped since the boxes started, and per second now.
    pub(crate) drops: BTreeMap<String, (u64, f64)>,
    /// By box that forwards named data.
    pub(crate) named: Vec<NamedRates>,
}

/// Of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct BoxRates {
    /// Sent by its hosts, in bits per second.
    pub(crate) from_hosts: u64,
    /// Received by its hosts.
    pub(crate) to_hosts: u64,
    /// Packets dropped per second.
    pub(crate) drops: f64,
}

/// Of a forwarder of named data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct NamedRates {
    /// The box.
    pub(crate) at: u32,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) hits_per_s: f64,
    pub(crate) misses_per_s: f64,
    pub(crate) packets: u64,
    pub(crate) pending: u64,
    pub(crate) prefixes: Vec<String>,
}

/// Two reports farther apart, in milliseconds, tell nothing of now.
const SPAN_MS: u64 = 10_000;

/// The last two reports of each box, by its name: places change when boxes come and go.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    boxes: HashMap<String, [BoxCounters; 2]>,
}

impl Meter {
    /// Takes the counters of a network in, and gives its rates.
    pub(crate) fn rates(&mut self, network: &Network) -> Rates {
        let boxes = &network.map.boxes;
        for counters in &network.counters {
            let Some(named) = boxes.get(counters.at as usize) else { continue };
            let known = self.boxes.get_mut(&named.name);
            match known {
                // The same report again.
                Some([_, last]) if last.time_ms == counters.time_ms => {}
                Some([_, last]) if counters.time_ms.saturating_sub(last.time_ms) > SPAN_MS => {
                    self.boxes.insert(named.name.clone(), [counters.clone(), counters.clone()]);
                }
                Some(both) => {
                    both.swap(0, 1);
                    both[1] = counters.clone();
                }
                None => {
                    let both = [counters.clone(), counters.clone()];
                    self.boxes.insert(named.name.clone(), both);
                }
            }
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        places.extend(boxes.iter().zip(0..).map(|(b, place)| (b.name.as_str(), place)));
        self.boxes.retain(|name, _| places.contains_key(name.as_str()));
        // A box that tells nothing now has no rates.
        let telling: HashSet<u32> = network.counters.iter().map(|c| c.at).collect();
        let span = |(b, place): (&NetworkBox, u32)| {
            self.boxes.get(&b.name).filter(|_| telling.contains(&place)).map(Span::of)
        };
        let spans: Vec<Option<Span<'_>>> = boxes.iter().zip(0..).map(span).collect();
        let mut rates = Rates::default();
        let mut inner = vec![[0_u64; 4]; boxes.len()];
        for cable in &network.map.cables {
            for (place, port) in cable.ends {
                if let Some(ports) = inner.get_mut(place as usize) {
                    ports[usize::from(port / 64)] |= 1 << (port % 64);
                }
            }
            let [a, b] = cable.ends.map(|(place, port)| {
                spans.get(place as usize).and_then(Option::as_ref).and_then(|s| s.port(port))
            });
            let sent = |own: Option<PortRates>, other: Option<PortRates>| {
                own.map(|own| own.tx).or(other.map(|other| other.rx))
            };
            rates.cables.push([sent(a, b), sent(b, a)]);
        }
        for ((place, span), inner) in (0..).zip(&spans).zip(&inner) {
            let is_inner = |port: u8| inner[usize::from(port / 64)] & 1 << (port % 64) != 0;
            rates.boxes.push(span.as_ref().map(|span| span.of_box(is_inner)));
            let Some(span) = span else { continue };
            for (reason, count) in &span.last.drops {
                let sum = rates.drops.entry(reason.clone()).or_default();
                sum.0 += count;
                sum.1 += span.per_s(span.before.drops.get(reason).copied(), *count);
            }
            rates.named.extend(span.named(place));
        }
        rates
    }
}

/// The time between two reports of a box.
struct Span<'a> {
    before: &'a BoxCounters,
    last: &'a BoxCounters,
    seconds: f64,
}

/// Of a port, in bits per second.
#[derive(Clone, Copy)]
struct PortRates {
    rx: u64,
    tx: u64,
}

impl Span<'_> {
    fn of([before, last]: &[BoxCounters; 2]) -> Span<'_> {
        let seconds = last.time_ms.saturating_sub(before.time_ms) as f64 / 1e3;
        Span { before, last, seconds }
    }

    /// The rate of a count. A box that has started anew counts from zero.
    fn per_s(&self, before: Option<u64>, last: u64) -> f64 {
        let more = last.saturating_sub(before.unwrap_or(0));
        if self.seconds > 0.0 { more as f64 / self.seconds } else { 0.0 }
    }

    fn port_rates(&self, last: &PortCounters, before: &PortCounters) -> PortRates {
        let bits = |before: u64, last: u64| (self.per_s(Some(before), last) * 8.0) as u64;
        PortRates {
            rx: bits(before.rx_bytes, last.rx_bytes),
            tx: bits(before.tx_bytes, last.tx_bytes),
        }
    }

    fn port(&self, number: u8) -> Option<PortRates> {
        let of = |counters: &BoxCounters| counters.ports.iter().find(|p| p.port == number).copied();
        if self.seconds == 0.0 {
            return None;
        }
        Some(self.port_rates(&of(self.last)?, &of(self.before)?))
    }

    fn of_box(&self, is_inner: impl Fn(u8) -> bool) -> BoxRates {
        let mut sum = BoxRates::default();
        for port in self.last.ports.iter().filter(|p| !is_inner(p.port)) {
            // A port that is new has counted for an unknown time.
            let before = self.before.ports.iter().find(|p| p.port == port.port);
            let Some(before) = before else { continue };
            let rates = self.port_rates(port, before);
            sum.from_hosts += rates.rx;
            sum.to_hosts += rates.tx;
        }
        let dropped = |counters: &BoxCounters| counters.drops.values().sum::<u64>();
        sum.drops = self.per_s(Some(dropped(self.before)), dropped(self.last));
        sum
    }

    fn named(&self, at: u32) -> Option<NamedRates> {
        let last = self.last.named.as_ref()?;
        let before = self.before.named.as_ref();
        Some(NamedRates {
            at,
            hits: last.hits,
            misses: last.misses,
            hits_per_s: self.per_s(before.map(|n| n.hits), last.hits),
            misses_per_s: self.per_s(before.map(|n| n.misses), last.misses),
            packets: last.packets,
            pending: last.pending,
            prefixes: last.prefixes.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use plexus_api::answer::network::{BoxKind, Cable, Map};

    use super::*;

    fn report(at: u32, time_ms: u64, sent: u64, dropped: u64) -> BoxCounters {
        let port = |port, tx_bytes| PortCounters { port, tx_bytes, ..PortCounters::default() };
        BoxCounters {
            at,
            time_ms,
            ports: vec![port(0, sent), port(1, 2 * sent)],
            drops: BTreeMap::from([("no_route".into(), dropped)]),
            named: None,
        }
    }

    fn network(counters: Vec<BoxCounters>) -> Network {
        let named = |name: &str| NetworkBox { name: name.into(), kind: BoxKind::Node, up: true };
        let cable = Cable { ends: [(0, 0), (1, 0)], rate_mbit_per_s: 100 };
        let boxes = vec![named("n1"), named("n2")];
        let map = Map { boxes, cables: vec![cable], ..Map::default() };
        Network { map, counters, ..Network::default() }
    }

    #[test]
    fn rates_are_those_between_two_reports() {
        let mut meter = Meter::default();
        let first = meter.rates(&network(vec![report(0, 1_000, 500, 7)]));
        assert_eq!(first.cables, [[None, None]]);
        assert_eq!(first.drops["no_route"], (7, 0.0));
        let later = network(vec![report(0, 3_000, 1_500, 17)]);
        let rates = meter.rates(&later);
        // 1000 bytes in two seconds, and twice as many by the port where hosts are.
        assert_eq!(rates.cables, [[Some(4_000), Some(0)]]);
        let of_box = BoxRates { from_hosts: 0, to_hosts: 8_000, drops: 5.0 };
        assert_eq!(rates.boxes, [Some(of_box), None]);
        assert_eq!(rates.drops["no_route"], (17, 5.0));
        assert_eq!(meter.rates(&later), rates, "the same report again");
    }

    #[test]
    fn a_box_that_is_silent_or_was_not_looked_at_has_no_rates() {
        let mut meter = Meter::default();
        meter.rates(&network(vec![report(0, 1_000, 500, 7)]));
        meter.rates(&network(vec![report(0, 2_000, 1_500, 7)]));
        let silent = meter.rates(&network(vec![]));
        assert_eq!(
            (&silent.cables[..], &silent.boxes[..]),
            (&[[None, None]][..], &[None, None][..])
        );
        let later = meter.rates(&network(vec![report(0, 3_600_000, 1 << 40, 7)]));
        assert_eq!(later.cables, [[None, None]]);
    }

    #[test]
    fn a_box_that_starts_anew_has_no_huge_rates() {
        let mut meter = Meter::default();
        meter.rates(&network(vec![report(0, 1_000, 1 << 40, 1 << 40)]));
        let rates = meter.rates(&network(vec![report(0, 2_000, 10, 0)]));
        assert_eq!(rates.cables, [[Some(0), Some(0)]]);
        assert_eq!(rates.drops["no_route"], (0, 0.0));
        // A clock that jumps back divides by nothing.
        let back = meter.rates(&network(vec![report(0, 500, 20, 0)]));
        assert_eq!(back.cables, [[None, None]]);
    }
}
