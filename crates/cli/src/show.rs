//! `plexus show`: what a running node knows and counts.

mod named;
mod router;

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::ask::Which;
use crate::exit::Outcome;

/// Show what a running node knows and counts.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus show ports
  plexus show macs --node sw1 --json
  plexus show drops --watch
  plexus show links --node n1
  plexus show topology --node c1
  plexus show route 192.0.2.1 --node r1
  plexus show routes --node r1
  plexus show faces --node ndn1")]
pub(crate) struct Args {
    /// What to show.
    what: What,
    /// Of `route`: the destination that packets go to.
    #[arg(required_if_eq("what", "route"))]
    address: Option<IpAddr>,
    #[command(flatten)]
    which: Which,
    /// Print the node's answer as JSON.
    #[arg(long)]
    json: bool,
    /// Show it again every second until interrupted.
    #[arg(long)]
    watch: bool,
}

/// What can be shown.
#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Each port's link, rate and counts.
    Ports,
    /// The stations that the switch knows.
    Macs,
    /// Where every packet went: the account, and drops by reason.
    Drops,
    /// What is at the other end of each port of a fabric node.
    Links,
    /// The hosts: of a node those on its ports, of a controller all.
    Hosts,
    /// Multicast groups: of a node who has joined what, and its trees; of a controller all trees.
    Groups,
    /// The route memory of a fabric node.
    SourceRoutes,
    /// The nodes and links that a controller knows.
    Topology,
    /// The routes that a controller has handed out.
    Flows,
    /// A router's interfaces, and how much is in its forwarding tables.
    Fib,
    /// A router's neighbours and their Ethernet addresses.
    Neighbours,
    /// What a router does with packets to an address, and why.
    Route,
    /// A router's routes in use, one a line, as its packet path has them.
    Routes,
    /// A named-data forwarder's faces.
    Faces,
    /// Its routes by name, its strategies, and what is pending.
    Names,
    /// Its content store.
    Cache,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut connection = args.which.connect()?;
    loop {
        let what = args.what.to_possible_value();
        let answer = match (args.what, args.address) {
            (What::Routes, _) => return router::routes(&mut connection, args.json),
            (What::Route, Some(address)) => connection.ask(&json!({"route": address}))?,
            _ => connection.show(what.as_ref().map_or("ports", |v| v.get_name()))?,
        };
        let text = match (args.json, args.what) {
            (true, _) => format!("{answer}\n"),
            (false, What::Ports) => ports(&answer),
            (false, What::Macs) => macs(&answer),
            (false, What::Drops) => drops(&answer),
            (false, What::Links) => links(&answer),
            (false, What::Hosts) => hosts(&answer),
            (false, What::Groups) => groups(&answer),
            (false, What::SourceRoutes) => source_routes(&answer),
            (false, What::Topology) => topology(&answer),
            (false, What::Flows) => flows(&answer),
            (false, What::Fib) => router::fib(&answer),
            (false, What::Neighbours) => router::neighbours(&answer),
            (false, What::Route | What::Routes) => router::route(&answer),
            (false, What::Faces) => named::faces(&answer),
            (false, What::Names) => named::names(&answer),
            (false, What::Cache) => named::cache(&answer),
        };
        let mut out = std::io::stdout().lock();
        let clear = if args.watch && out.is_terminal() { "\x1b[2J\x1b[H" } else { "" };
        // A reader that has had enough (`| head`) ends it.
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err() || !args.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What a port counts that never was in the pipeline's hands, or left them for nothing.
const LOSSES: [&str; 5] = ["rx_overflow", "rx_invalid", "rx_foreign", "tx_rejected", "tx_refused"];

fn ports(answer: &Value) -> String {
    let mut table = Table::new(&[
        "PORT",
        "LINK",
        "BACK-END",
        "VLAN",
        "RATE",
        "RX PACKETS",
        "RX BYTES",
        "TX PACKETS",
        "TX BYTES",
        "QUEUED",
        "DROPPED",
        "LOST",
    ]);
    for p in list(answer, "ports") {
        let rate = match p["rate_bits_per_s"].as_u64() {
            Some(rate) => plexus_config::units::format_rate(rate),
            None => "-".into(),
        };
        table.row([
            text(&p["name"]),
            text(&p["link"]),
            text(&p["backend"]),
            vlan(&p["vlan"]),
            rate,
            text(&p["rx_packets"]),
            text(&p["rx_bytes"]),
            text(&p["tx_packets"]),
            text(&p["tx_bytes"]),
            text(&p["queued_packets"]),
            text(&p["dropped"]),
            LOSSES.iter().map(|l| p[l].as_u64().unwrap_or(0)).sum::<u64>().to_string(),
        ]);
    }
    table.finish()
}

fn vlan(vlan: &Value) -> String {
    if let Some(access) = vlan["access"].as_u64() {
        return access.to_string();
    }
    let range = |r: &Value| match (&r[0], &r[1]) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a}-{b}"),
    };
    let mut all: Vec<String> = list(vlan, "trunk").map(range).collect();
    if let Some(native) = vlan["native"].as_u64() {
        all.push(format!("{native} untagged"));
    }
    all.join(",")
}

fn macs(answer: &Value) -> String {
    let mut table = Table::new(&["MAC", "VLAN", "PORT", "AGE"]);
    let mut count = 0;
    for m in list(answer, "macs") {
        count += 1;
        let age = match m["static"].as_bool() {
            Some(true) => "static".into(),
            _ => format!("{:.0} s", m["age_s"].as_f64().unwrap_or(0.0)),
        };
        table.row([text(&m["mac"]), text(&m["vlan"]), text(&m["port"]), age]);
    }
    format!("{}{count} of at most {} stations\n", table.finish(), answer["capacity"])
}

fn drops(answer: &Value) -> String {
    let a = &answer["account"];
    if a.is_null() {
        // A controller forwards nothing: it counts what it did not act on.
        let mut table = Table::new(&["REASON", "COUNT"]);
        for (reason, count) in answer["drops"].as_object().into_iter().flatten() {
            table.row([reason.clone(), count.to_string()]);
        }
        return table.finish();
    }
    let sign = if a["balances"] == true { "=" } else { "is not" };
    // Only a node with a control plane injects and consumes; few lose packets on arrival.
    let extra = |key: &str| match a[key].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(" + {count} {key}"),
    };
    let mut out = format!(
        "{} received + {} copied{} {sign} {} sent + {} rejected + {} dropped{}{} + {} held\n",
        a["received"],
        a["copied"],
        extra("injected"),
        a["sent"],
        a["rejected"],
        a["dropped"],
        extra("consumed"),
        extra("lost"),
        a["held"]
    );
    let mut table = Table::new(&["PORT", "REASON", "PACKETS", "MEANING"]);
    let of = |key: &str| answer[key].as_object().into_iter().flatten();
    for (port, reasons) in of("ports").chain(of("losses")) {
        for (reason, count) in reasons.as_object().into_iter().flatten() {
            let meaning = text(&answer["meaning"][reason.as_str()]);
            table.row([port.clone(), reason.clone(), count.to_string(), meaning]);
        }
    }
    if !table.rows.is_empty() {
        out.push_str(&table.finish());
    }
    for (reason, count) in of("unserved") {
        out.push_str(&format!("control plane: {count} {reason}\n"));
    }
    out
}

fn links(answer: &Value) -> String {
    let mut table =
        Table::new(&["PORT", "HOP", "ROLE", "NEIGHBOUR", "ITS HOP", "BY", "MTU", "MBIT/S"]);
    for p in list(answer, "ports") {
        let proved = !p["neighbour"].is_null();
        table.row([
            text(&p["port"]),
            text(&p["number"]),
            text(&p["role"]),
            if proved { text(&p["neighbour"]) } else { "-".into() },
            if proved { text(&p["peer_port"]) } else { "-".into() },
            p["encapsulation"].as_str().unwrap_or("-").to_string(),
            text(&p["mtu"]),
            text(&p["rate_mbit_per_s"]),
        ]);
    }
    let mut notes = String::new();
    for p in list(answer, "ports") {
        if p["role"] == "too_small" {
            notes.push_str(&too_small(&text(&p["port"]), p, answer));
        }
        if let Some(reason) = p["reason"].as_str() {
            let (port, role) = (text(&p["port"]), text(&p["role"]));
            notes.push_str(&format!("{port} is {role}: {reason}\n"));
        }
    }
    let controller = &answer["controller"];
    let way = match controller["path"].as_array() {
        Some(path) => format!("controller by {} (epoch {})\n", hops(path), controller["epoch"]),
        None => "no way to a controller: flows go on, nothing new is learned\n".into(),
    };
    format!("{}{notes}{way}", table.finish())
}

/// Why nothing passes at a port whose role is `too_small`, and what to do.
fn too_small(at: &str, port: &Value, answer: &Value) -> String {
    let (needed, own) = (&answer["mtu_min"], &port["mtu"]);
    let needs =
        format!("{at}: a fabric link needs an MTU of {needed} bytes at both ends; here it is");
    let is_small = |mtu: &Value| mtu.as_u64() < needed.as_u64();
    let there = match &port["peer_mtu"] {
        Value::Null => String::new(),
        mtu => format!(", at {} {mtu}", text(&port["neighbour"])),
    };
    let command = match port["device"].as_str() {
        Some(device) if is_small(own) => format!(" (`ip link set dev {device} mtu {needed}`)"),
        _ => String::new(),
    };
    format!("{needs} {own}{there}{command}\n")
}

/// A node's name; the number of a node that the controller does not know, which has no name yet.
fn node(name: &Value) -> String {
    match name {
        Value::Null => "-".into(),
        Value::Number(number) => format!("node {number}, not heard"),
        name => text(name),
    }
}

/// A path as people read it: hops with points between, `ctl` for a control plane.
fn hops(path: &[Value]) -> String {
    let hop = |h: &Value| if h == 255 { "ctl".to_string() } else { h.to_string() };
    path.iter().map(hop).collect::<Vec<_>>().join(".")
}

fn hosts(answer: &Value) -> String {
    let mut table = Table::new(&["MAC", "NODE", "PORT", "ADDRESSES"]);
    for h in list(answer, "hosts") {
        let addresses: Vec<String> = list(h, "addresses").map(text).collect();
        table.row([text(&h["mac"]), node(&h["node"]), text(&h["port"]), addresses.join(" ")]);
    }
    table.finish()
}

fn groups(answer: &Value) -> String {
    let words = |v: &Value, key: &str| list(v, key).map(text).collect::<Vec<_>>().join(" ");
    if answer["groups"].is_array() {
        let mut table = Table::new(&["GROUP", "ADDRESSES", "OF", "TREE", "FROM", "TO", "NODES"]);
        for g in list(answer, "groups") {
            let node = |n: &Value| {
                let ports: Vec<String> = list(n, "ports").map(text).collect();
                format!("{}:{}", self::node(&n["name"]), ports.join(","))
            };
            let nodes: Vec<String> = list(g, "nodes").map(node).collect();
            let or = |words: String| if words.is_empty() { "-".to_string() } else { words };
            table.row([
                text(&g["group"]),
                or(words(g, "addresses")),
                or(words(g, "of")),
                if g["tree"].is_null() { "-".into() } else { text(&g["tree"]) },
                format!("{} hosts", list(g, "senders").count()),
                format!("{} ports", g["listeners"]),
                or(nodes.join(" ")),
            ]);
        }
        return table.finish();
    }
    let mut joined = Table::new(&["MAC", "PORT", "HAS JOINED"]);
    for j in list(answer, "joined") {
        joined.row([text(&j["mac"]), text(&j["port"]), words(j, "groups")]);
    }
    let mut trees = Table::new(&["TREE", "PORTS"]);
    for t in list(answer, "trees") {
        trees.row([text(&t["tree"]), words(t, "ports")]);
    }
    format!("{}{}", joined.finish(), trees.finish())
}

fn source_routes(answer: &Value) -> String {
    let mut table = Table::new(&["PORT", "FROM", "TO", "PATHS"]);
    for r in list(answer, "routes") {
        let from = if r["source"].is_null() { "any".into() } else { text(&r["source"]) };
        let paths = list(r, "paths").filter_map(Value::as_array).map(|p| hops(p));
        let paths = paths.collect::<Vec<_>>().join(" ");
        table.row([text(&r["port"]), from, text(&r["destination"]), paths]);
    }
    table.finish()
}

fn topology(answer: &Value) -> String {
    let mut table = Table::new(&["NODE", "PORT", "ROLE", "TO", "ITS PORT", "MBIT/S"]);
    let mut small = String::new();
    for its in list(answer, "nodes") {
        for p in list(its, "ports") {
            let to = node(&p["peer"]);
            if p["role"] == "too_small" {
                let at = format!("{} port {}", text(&its["name"]), p["port"]);
                small.push_str(&too_small(&at, p, answer));
            }
            let port = if p["peer"].is_null() { "-".into() } else { text(&p["peer_port"]) };
            let name = text(&its["name"]);
            let rate = text(&p["rate_mbit_per_s"]);
            table.row([name, text(&p["port"]), text(&p["role"]), to, port, rate]);
        }
    }
    table.finish() + &small
}

fn flows(answer: &Value) -> String {
    let mut table = Table::new(&["FROM", "TO", "NODE", "PATHS"]);
    for f in list(answer, "flows") {
        let paths = list(f, "paths").filter_map(Value::as_array).map(|p| hops(p));
        let paths = paths.collect::<Vec<_>>().join(" ");
        table.row([text(&f["from"]), text(&f["to"]), node(&f["node"]), paths]);
    }
    table.finish()
}

fn list<'a>(answer: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    answer[key].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Columns as wide as their widest cell; numbers to the right.
struct Table {
    rows: Vec<Vec<String>>,
    head: Vec<String>,
}

impl Table {
    fn new(head: &[&str]) -> Table {
        Table { rows: Vec::new(), head: head.iter().map(|h| h.to_string()).collect() }
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    fn finish(self) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|i| {
                let cells = self.rows.iter().filter_map(|r| r.get(i)).map(String::len);
                cells.chain([self.head[i].len()]).max().unwrap_or(0)
            })
            .collect();
        let number = |c: &str| !c.is_empty() && c.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let right: Vec<bool> = (0..self.head.len())
            .map(|i| !self.rows.is_empty() && self.rows.iter().all(|r| number(&r[i])))
            .collect();
        let mut out = String::new();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
                if *right {
                    line.push_str(&format!("{cell:>width$}  "));
                } else {
                    line.push_str(&format!("{cell:<width$}  "));
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology_of(port: &Value) -> String {
        let nodes = json!([{"name": "n1", "number": 1, "up": true, "ports": [port]}]);
        topology(&json!({"epoch": 1, "nodes": nodes, "links": [], "mtu_min": 1624}))
    }

    #[test]
    fn a_neighbour_without_a_name_is_no_bare_number() {
        let port = |peer: Value| {
            json!({"port": 4, "role": "fabric", "mtu": 1624, "peer": peer, "peer_port": 2,
                   "rate_mbit_per_s": 0})
        };
        let cells = |text: &str| {
            text.lines()
                .nth(1)
                .unwrap()
                .split("  ")
                .map(str::trim)
                .map(String::from)
                .filter(|cell| !cell.is_empty())
                .collect::<Vec<_>>()
        };
        let known = cells(&topology_of(&port("n2".into())));
        assert_eq!(known, ["n1", "4", "fabric", "n2", "2", "0"]);
        let unknown = cells(&topology_of(&port(7.into())));
        assert_eq!(unknown, ["n1", "4", "fabric", "node 7, not heard", "2", "0"]);
        let nobody = cells(&topology_of(&port(Value::Null)));
        assert_eq!(nobody, ["n1", "4", "fabric", "-", "-", "0"]);
        let hosts = hosts(&json!({"hosts": [
            {"mac": "m", "node": 7, "port": 1, "addresses": []}]}));
        assert!(hosts.contains("node 7, not heard"), "{hosts}");
        let flows = flows(&json!({"flows": [{"from": "a", "to": "b", "node": 7, "paths": []}]}));
        assert!(flows.contains("node 7, not heard"), "{flows}");
    }

    #[test]
    fn a_link_that_is_too_small_says_what_it_has_and_what_to_do() {
        let port = |mtu: u16, peer_mtu: u16| {
            json!({"port": "p1", "number": 0, "role": "too_small", "neighbour": "n2", "mtu": mtu,
                   "peer_mtu": peer_mtu, "peer_port": 1, "rate_mbit_per_s": 0, "device": "eth1"})
        };
        let line = |port: Value| {
            let controller = json!({"path": null, "epoch": 0});
            let shown = links(&json!({"controller": controller, "ports": [port], "mtu_min": 1624}));
            shown.lines().nth(2).unwrap().to_string()
        };
        let needs = "p1: a fabric link needs an MTU of 1624 bytes at both ends; here it is";
        let command = "(`ip link set dev eth1 mtu 1624`)";
        assert_eq!(line(port(1500, 1600)), format!("{needs} 1500, at n2 1600 {command}"));
        assert_eq!(line(port(1624, 1500)), format!("{needs} 1624, at n2 1500"));
        let end = json!({"port": 4, "role": "too_small", "mtu": 1500, "peer": "n2", "peer_port": 2,
                         "rate_mbit_per_s": 0});
        let shown = topology_of(&end);
        assert!(shown.contains("n1 port 4: a fabric link needs an MTU of 1624"), "{shown}");
    }

    #[test]
    fn links_say_why_a_port_is_what_it_is() {
        let port = json!({"port": "p1", "number": 0, "role": "host", "neighbour": null, "mtu": 1500,
                          "peer_port": 0, "rate_mbit_per_s": 0, "reason": "the neighbour is bad"});
        let controller = json!({"path": null, "epoch": 0});
        let shown = links(&json!({"controller": controller, "ports": [port], "mtu_min": 1624}));
        assert!(shown.contains("\np1 is host: the neighbour is bad\n"), "{shown}");
    }
}
