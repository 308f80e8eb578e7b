//! `plexus trace --explain`: what becomes of one packet, and why.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use plexus_api::answer::About;
use plexus_api::answer::explain::{Explained, Question};
use plexus_api::answer::fabric::Hosts;
use plexus_api::{Client, Request, Topic};
use plexus_io::pcap::Reader;
use plexus_traffic::{Described, Upper};
use plexus_view::{arrivals, explain};
use plexus_wire::{MacAddr, hex, unhex};

use crate::ask::Which;
use crate::exit::{Failure, Outcome};
use crate::text::print;

/// The packet to explain.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "With --explain")]
pub(crate) struct Packet {
    /// Its sender: Ethernet address, IP address, both with a comma, or a host of the lab.
    #[arg(long, value_name = "HOST", requires = "explain", value_delimiter = ',')]
    from: Vec<String>,
    /// Its destination, likewise.
    #[arg(long, value_name = "HOST", requires = "explain", value_delimiter = ',')]
    to: Vec<String>,
    /// A TCP segment to this port; a source port may come before.
    #[arg(long, value_name = "[FROM:]PORT", requires = "to", value_parser = parse_ports)]
    #[arg(conflicts_with = "udp")]
    tcp: Option<(u16, u16)>,
    /// A UDP datagram to this port. Without either it is an ICMP echo request.
    #[arg(long, value_name = "[FROM:]PORT", requires = "to", value_parser = parse_ports)]
    udp: Option<(u16, u16)>,
    /// Tagged with this VLAN.
    #[arg(long, value_name = "VLAN", requires = "to")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..4095))]
    vlan: Option<u16>,
    /// Its time to live, or hop limit.
    #[arg(long, value_name = "N", requires = "to", default_value_t = 64)]
    ttl: u8,
    /// Bytes of the frame.
    #[arg(long, value_name = "BYTES", requires = "to")]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=1500))]
    length: Option<u16>,
    /// The frame itself, in hexadecimal digits.
    #[arg(long, value_name = "HEX", requires = "explain", conflicts_with_all = ["from", "to"])]
    frame: Option<String>,
    /// The first frame of this pcap or pcapng file.
    #[arg(long, value_name = "FILE", requires = "explain")]
    #[arg(conflicts_with_all = ["from", "to", "frame"])]
    read: Option<PathBuf>,
    /// To a controller: the frame comes in at this node, by the port of this number. Otherwise
    /// where its sender is.
    #[arg(long, value_name = "NODE:PORT", requires = "explain", conflicts_with = "port")]
    at: Option<String>,
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    /// The first ephemeral port (RFC 6335, 6).
    const EPHEMERAL: u16 = 49152;
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no port"));
    match text.split_once(':') {
        Some((from, to)) => Ok((number(from)?, number(to)?)),
        None => Ok((EPHEMERAL, number(text)?)),
    }
}

/// A host, as far as it is described.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    mac: Option<MacAddr>,
    ip: Option<IpAddr>,
}

/// Asks, and says what becomes of the packet.
pub(super) fn run(packet: &Packet, port: Option<&str>, which: &Which, json: bool) -> Outcome {
    let mut client = which.connect()?;
    let question = question(packet, port, which, &mut client)?;
    let told = client.ask(&Request::Explain(question)).map_err(Failure::unusable)?;
    if json {
        print(&format!("{told}\n"))?;
    }
    let told: Explained = serde_json::from_value(told).map_err(Failure::unusable)?;
    if !json {
        print(&explain(&told))?;
    }
    match arrivals(&told) {
        0 => Err(Failure::No(String::new())),
        _ => Ok(()),
    }
}

fn question(
    packet: &Packet,
    port: Option<&str>,
    which: &Which,
    client: &mut Client,
) -> Result<Question, Failure> {
    let about: About = client.get(&Request::Version(true)).map_err(Failure::unusable)?;
    let is_controller = about.daemon == "controller";
    let mut question = Question { port: port.map(String::from), ..Question::default() };
    if is_controller && port.is_some() {
        let why = "a controller knows ports by node and number: give them by --at NODE:PORT";
        return Err(Failure::unusable(why));
    }
    if let Some(at) = &packet.at {
        let why = || Failure::unusable(format!("'{at}' is not NODE:PORT"));
        let (node, port) = at.rsplit_once(':').ok_or_else(why)?;
        (question.node, question.port) = (Some(node.into()), Some(port.into()));
    }
    question.frame = match (&packet.frame, &packet.read) {
        (Some(text), _) => match unhex(text) {
            Some(bytes) => hex(&bytes),
            None => return Err(Failure::unusable("--frame takes hexadecimal digits in pairs")),
        },
        (_, Some(path)) => hex(&first_of(path).map_err(Failure::unusable)?),
        _ => {
            let described = describe(packet, which, client, is_controller)?;
            question.resolve = is_controller;
            hex(&described.frame().map_err(Failure::unusable)?)
        }
    };
    Ok(question)
}

/// The packet, with the addresses that can be found.
fn describe(
    packet: &Packet,
    which: &Which,
    client: &mut Client,
    is_controller: bool,
) -> Result<Described, Failure> {
    if packet.from.is_empty() || packet.to.is_empty() {
        let why = "describe the packet by --from and --to, or give it by --frame or --read";
        return Err(Failure::unusable(why));
    }
    let mut ends = [End::default(); 2];
    for (end, texts) in ends.iter_mut().zip([&packet.from, &packet.to]) {
        for text in texts {
            named(end, text, which)?;
        }
    }
    let [from, to] = &mut ends;
    if is_controller {
        // An IP address alone is left to the controller, as an ARP question would be.
        let hosts = client.get::<Hosts>(&Request::Show(Topic::Hosts));
        let Hosts { hosts } = hosts.map_err(Failure::unusable)?;
        for end in [&mut *from, &mut *to] {
            let known = hosts.iter().find(|host| Some(host.mac) == end.mac);
            let is_v6 = to_version(packet);
            let fits = |ip: &&IpAddr| is_v6.is_none_or(|v6| ip.is_ipv6() == v6);
            end.ip = end.ip.or_else(|| known?.addresses.iter().find(fits).copied());
        }
        // A frame without IP has no other sign of its sender.
        if let (None, Some(ip), None) = (from.mac, from.ip, to.ip) {
            let has = hosts.iter().find(|host| host.addresses.contains(&ip));
            let why =
                || format!("the controller knows no host with {ip}: give its Ethernet address");
            from.mac = Some(has.ok_or_else(|| Failure::unusable(why()))?.mac);
        }
        // A host sends to the station that it has learned, or to its router.
        if to.ip.is_some() && packet.to.iter().all(|text| text.parse::<MacAddr>().is_err()) {
            to.mac = None;
        }
    } else if from.mac.is_none() || to.mac.is_none() {
        let why = "a node knows no host's Ethernet address: give --from and --to by these, with \
                   an IP address after a comma if it routes";
        return Err(Failure::unusable(why));
    }
    let upper = match (packet.tcp, packet.udp) {
        (Some((from, to)), _) => Upper::Tcp(from, to),
        (_, Some((from, to))) => Upper::Udp(from, to),
        _ => Upper::Echo,
    };
    Ok(Described {
        from: (from.mac.unwrap_or_default(), from.ip),
        to: (to.mac.unwrap_or_default(), to.ip),
        upper,
        vlan: packet.vlan,
        ttl: packet.ttl,
        length: packet.length.map(usize::from),
    })
}

/// Whether the destination that was written is of IPv6; none if it is not an IP address.
fn to_version(packet: &Packet) -> Option<bool> {
    let mut texts = packet.to.iter().chain(&packet.from);
    texts.find_map(|text| text.parse::<IpAddr>().ok()).map(|ip| ip.is_ipv6())
}

/// Adds what a text says of a host.
fn named(end: &mut End, text: &str, which: &Which) -> Result<(), Failure> {
    if let Ok(mac) = text.parse() {
        end.mac = Some(mac);
        return Ok(());
    }
    if let Ok(ip) = text.parse() {
        end.ip = Some(ip);
        return Ok(());
    }
    let unknown = || {
        let why = "is no Ethernet or IP address, and no host of the lab that --node names";
        Failure::unusable(format!("'{text}' {why}"))
    };
    let lab = which.lab().ok_or_else(unknown)?;
    let status = plexus_lab::status(lab).map_err(|e| Failure::unusable(e.to_string()))?;
    let host = status.hosts.iter().find(|host| host.name == text).ok_or_else(unknown)?;
    end.mac = host.mac.parse().ok();
    let address = host.addresses.first().and_then(|address| address.split('/').next());
    end.ip = address.and_then(|address| address.parse().ok());
    Ok(())
}

/// The first frame of a capture file.
fn first_of(path: &Path) -> Result<Vec<u8>, String> {
    let problem = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| problem(&e))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|e| problem(&e))?;
    let mut frame = Vec::new();
    match reader.next(&mut frame).map_err(|e| problem(&e))? {
        Some(_) => Ok(frame),
        None => Err(problem(&"it has no frame")),
    }
}
