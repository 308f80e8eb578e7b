//! A second of a node: the rates of its ports, hosts and flows.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use plexus_api::answer::node::{FlowRate, Flows, Port, Ports};
use plexus_report::{rate, table};
use serde::Serialize;

/// Lines of a terminal that does not tell its height, and of what is not a terminal.
pub const LINES: usize = 50;
/// Most hosts that are shown on a terminal.
const HOSTS: usize = 8;

/// A second of a node.
#[derive(Serialize)]
pub struct Second {
    node: String,
    /// Seconds that it lasted.
    seconds: f64,
    ports: Vec<PortRates>,
    /// Those with most traffic first.
    hosts: Vec<HostRates>,
    /// Likewise.
    flows: Vec<FlowRate>,
}

/// Rates of a port.
#[derive(Serialize)]
struct PortRates {
    name: String,
    link: &'static str,
    rx_bits_per_s: f64,
    rx_packets_per_s: f64,
    tx_bits_per_s: f64,
    tx_packets_per_s: f64,
    queued_packets: u64,
    dropped_per_s: f64,
}

/// Rates of a host.
#[derive(Serialize)]
struct HostRates {
    address: String,
    sends_bits_per_s: f64,
    receives_bits_per_s: f64,
}

impl Second {
    /// From the counters before and after it, and the sample of its flows.
    pub fn new(before: &Ports, now: &Ports, seconds: f64, flows: Flows) -> Second {
        let ports = now.ports.iter().map(|port| {
            let earlier = before.ports.iter().find(|p| p.name == port.name);
            PortRates::new(earlier, port, seconds)
        });
        Second {
            node: now.node.clone(),
            seconds,
            ports: ports.collect(),
            hosts: hosts(&flows.flows),
            flows: flows.flows,
        }
    }

    /// It as text, of at most so many lines.
    pub fn text(&self, lines: usize) -> String {
        let sum = |of: fn(&PortRates) -> f64| rate(self.ports.iter().map(of).sum());
        let drops: f64 = self.ports.iter().map(|p| p.dropped_per_s).sum();
        let head = format!(
            "{}: {} received, {} sent, {drops:.0} drops/s\n\n",
            self.node,
            sum(|p| p.rx_bits_per_s),
            sum(|p| p.tx_bits_per_s)
        );
        let count = |per_s: f64| format!("{per_s:.0}");
        let ports: Vec<Vec<String>> = self
            .ports
            .iter()
            .map(|p| {
                vec![
                    p.name.clone(),
                    p.link.into(),
                    rate(p.rx_bits_per_s),
                    count(p.rx_packets_per_s),
                    rate(p.tx_bits_per_s),
                    count(p.tx_packets_per_s),
                    p.queued_packets.to_string(),
                    count(p.dropped_per_s),
                ]
            })
            .collect();
        let of_ports =
            ["PORT", "LINK", "RX", "RX PACKETS/S", "TX", "TX PACKETS/S", "QUEUED", "DROPS/S"];
        let hosts: Vec<Vec<String>> = self
            .hosts
            .iter()
            .take(HOSTS)
            .map(|h| vec![h.address.clone(), rate(h.sends_bits_per_s), rate(h.receives_bits_per_s)])
            .collect();
        // The head and its empty line, three heads of tables, two empty lines, and the prompt's.
        let used = ports.len() + hosts.len() + 8;
        let flows: Vec<Vec<String>> = self
            .flows
            .iter()
            .take(lines.saturating_sub(used))
            .map(|f| {
                vec![
                    f.in_port.clone(),
                    f.out_port.clone().unwrap_or_else(|| "-".into()),
                    f.source.clone(),
                    f.destination.clone(),
                    f.protocol.clone(),
                    rate(f.bits_per_s),
                    count(f.packets_per_s),
                ]
            })
            .collect();
        let of_flows = ["FROM", "TO", "SOURCE", "DESTINATION", "PROTOCOL", "RATE", "PACKETS/S"];
        let parts = [
            table(&of_ports, &ports),
            table(&["HOST", "SENDS", "RECEIVES"], &hosts),
            table(&of_flows, &flows),
        ];
        head + &parts.join("\n")
    }
}

impl PortRates {
    fn new(before: Option<&Port>, now: &Port, seconds: f64) -> PortRates {
        // A port that was made anew counts from zero.
        let per_s = |of: fn(&Port) -> u64| {
            let earlier = before.map_or_else(|| of(now), of);
            of(now).saturating_sub(earlier) as f64 / seconds.max(1e-3)
        };
        PortRates {
            name: now.name.clone(),
            link: now.link.name(),
            rx_bits_per_s: per_s(|p| p.rx_bytes) * 8.0,
            rx_packets_per_s: per_s(|p| p.rx_packets),
            tx_bits_per_s: per_s(|p| p.tx_bytes) * 8.0,
            tx_packets_per_s: per_s(|p| p.tx_packets),
            queued_packets: now.queued_packets,
            dropped_per_s: per_s(|p| p.dropped),
        }
    }
}

/// The rates of each host, by its address, those with most traffic first.
fn hosts(flows: &[FlowRate]) -> Vec<HostRates> {
    let mut rates: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for flow in flows {
        rates.entry(host(&flow.source)).or_default()[0] += flow.bits_per_s;
        rates.entry(host(&flow.destination)).or_default()[1] += flow.bits_per_s;
    }
    let mut hosts: Vec<HostRates> = rates
        .into_iter()
        .map(|(address, [sends_bits_per_s, receives_bits_per_s])| HostRates {
            address,
            sends_bits_per_s,
            receives_bits_per_s,
        })
        .collect();
    let all = |h: &HostRates| h.sends_bits_per_s + h.receives_bits_per_s;
    hosts.sort_by(|a, b| all(b).total_cmp(&all(a)));
    hosts
}

/// The address in a flow's end, which may have a port behind it.
fn host(end: &str) -> String {
    let with_port = end.parse::<SocketAddr>().map(|at| at.ip());
    with_port.or_else(|_| end.parse::<IpAddr>()).map_or_else(|_| end.into(), |ip| ip.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, destination: &str, bits_per_s: f64) -> FlowRate {
        FlowRate {
            in_port: "p1".into(),
            out_port: None,
            source: source.into(),
            destination: destination.into(),
            protocol: "tcp".into(),
            bits_per_s,
            packets_per_s: 1.0,
            place: "pipeline".into(),
            why: String::new(),
        }
    }

    #[test]
    fn a_host_is_the_sum_of_its_flows_in_both_directions() {
        let flows = [
            flow("10.0.0.1:4000", "10.0.0.2:80", 100.0),
            flow("10.0.0.1:4001", "[fd00::2]:80", 50.0),
            flow("10.0.0.2:80", "10.0.0.1:4000", 5.0),
            flow("02:00:00:00:00:03", "10.0.0.1", 1.0),
        ];
        let hosts = hosts(&flows);
        let all: Vec<(&str, f64, f64)> = hosts
            .iter()
            .map(|h| (h.address.as_str(), h.sends_bits_per_s, h.receives_bits_per_s))
            .collect();
        assert_eq!(
            all,
            [
                ("10.0.0.1", 150.0, 6.0),
                ("10.0.0.2", 5.0, 100.0),
                ("fd00::2", 0.0, 50.0),
                ("02:00:00:00:00:03", 1.0, 0.0)
            ]
        );
    }
}
