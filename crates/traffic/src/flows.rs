//! Flows: the headers of each, and the choice of the next flow.
//!
//! Each flow's headers are built once, as a template with prepared checksums to which a packet only
//! adds its length (RFC 1624): a packet costs a copy of the headers and a few additions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use plexus_wire::MacAddr;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::destinations::Destination;
use crate::probe::{PROBE_ETHERTYPE, PROBE_LEN, PROBE_SUM, PROBE_UDP_PORT, Probe};

/// Source ports that flows run through before the source address changes: the dynamic range,
/// RFC 6335, section 6.
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Ethernet, IPv6 and UDP.
const HEADERS_MAX: usize = 14 + 40 + 8;

/// The layers between Ethernet and the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// UDP over IPv4 or IPv6, as the addresses say.
    Udp,
    /// Nothing: the probe follows an Ethernet header with the experimental EtherType 0x88B6.
    Ethernet,
}

/// Which flows to make.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// How many; each has its own 5-tuple (source ports first, then source addresses).
    pub count: u32,
    /// What carries the probe.
    pub encapsulation: Encapsulation,
    /// The first source station.
    pub source_mac: MacAddr,
    /// How many source stations the flows use in rotation, counting up from the first.
    pub source_macs: u32,
    /// The first destination station.
    pub destination_mac: MacAddr,
    /// How many destination stations the flows use in rotation.
    pub destination_macs: u32,
    /// The first source address. Its family counts only where the destination has none.
    pub source_ip: Option<IpAddr>,
    /// The destination address, if `destinations` gives none.
    pub destination_ip: IpAddr,
    /// The UDP destination port.
    pub destination_port: u16,
    /// Whether IPv4 packets carry a UDP checksum (IPv6 ones do: RFC 8200, 8.1).
    pub checksum: bool,
    /// Destinations that the flows use in rotation; none: `destination_mac` and `destination_ip`.
    pub destinations: Vec<Destination>,
    /// Chooses addresses within prefixes.
    pub seed: u64,
}

impl Default for FlowSpec {
    /// One flow between the benchmarking networks of RFC 2544, C.2.2, and locally administered
    /// stations.
    fn default() -> FlowSpec {
        FlowSpec {
            count: 1,
            encapsulation: Encapsulation::Udp,
            source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            source_macs: 1,
            destination_mac: MacAddr([2, 0, 0, 0, 1, 1]),
            destination_macs: 1,
            source_ip: None,
            destination_ip: Ipv4Addr::new(198, 19, 0, 1).into(),
            destination_port: PROBE_UDP_PORT,
            checksum: true,
            destinations: Vec::new(),
            seed: 0,
        }
    }
}

/// Why flows cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// None, or more than a probe can number.
    #[error("{0} flows: a run has 1 to {max}", max = Probe::FLOW_MAX)]
    Count(u32),
    /// A source address given for another IP version than a destination's.
    #[error("source {0} and destination {1} are of different IP versions: give both alike")]
    Versions(IpAddr, IpAddr),
    /// A frame too small for its headers and the probe.
    #[error("frames of {given} bytes cannot hold the probe: {needed} is the least for these flows")]
    TooSmall {
        /// The requested size, with FCS.
        given: usize,
        /// The least possible.
        needed: usize,
    },
}

/// Headers of one flow, ready to be copied, and how many packets it has sent.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) sequence: u64,
    /// Sum of the IPv4 header's words without its length, not complemented.
    ip_sum: u16,
    /// Sum of UDP pseudo-header, header and probe without the length.
    udp_sum: u16,
    kind: Kind,
    headers: [u8; HEADERS_MAX],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Ethernet,
    Ipv4,
    /// Without a UDP checksum.
    Ipv4Plain,
    Ipv6,
}

impl Flow {
    /// Bytes before the probe.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        match self.kind {
            Kind::Ethernet => 14,
            Kind::Ipv4 | Kind::Ipv4Plain => 14 + 20 + 8,
            Kind::Ipv6 => 14 + 40 + 8,
        }
    }

    /// The smallest buffer that holds headers and probe.
    pub(crate) fn len_min(&self) -> usize {
        (self.header_len() + PROBE_LEN).max(60)
    }

    /// Writes headers and probe at the start of `frame`, which is at least `len_min` long, and
    /// zeroes after them.
    #[inline]
    pub(crate) fn write(&self, frame: &mut [u8], probe: &Probe) {
        match self.kind {
            Kind::Ethernet => self.write_headers::<14>(frame, probe, |_, _| ()),
            Kind::Ipv4 | Kind::Ipv4Plain => {
                self.write_headers::<42>(frame, probe, |h, len| {
                    let total = (len - 14) as u16;
                    let udp_len = (len - 34) as u16;
                    h[16..18].copy_from_slice(&total.to_be_bytes());
                    h[24..26].copy_from_slice(&(!add(self.ip_sum, total)).to_be_bytes());
                    h[38..40].copy_from_slice(&udp_len.to_be_bytes());
                    if self.kind == Kind::Ipv4 {
                        let sum = udp_checksum(self.udp_sum, udp_len);
                        h[40..42].copy_from_slice(&sum.to_be_bytes());
                    }
                });
            }
            Kind::Ipv6 => self.write_headers::<62>(frame, probe, |h, len| {
                let udp_len = (len - 54) as u16;
                h[18..20].copy_from_slice(&udp_len.to_be_bytes());
                h[58..60].copy_from_slice(&udp_len.to_be_bytes());
                let sum = udp_checksum(self.udp_sum, udp_len);
                h[60..62].copy_from_slice(&sum.to_be_bytes());
            }),
        }
    }

    #[inline]
    fn write_headers<const N: usize>(
        &self,
        frame: &mut [u8],
        probe: &Probe,
        patch: impl FnOnce(&mut [u8; N], usize),
    ) {
        let len = frame.len();
        let Some((headers, rest)) = frame.split_first_chunk_mut::<N>() else { return };
        headers.copy_from_slice(&self.headers[..N]);
        patch(headers, len);
        if let Some((probe_bytes, padding)) = rest.split_first_chunk_mut::<PROBE_LEN>() {
            *probe_bytes = probe.to_bytes();
            padding.fill(0);
        }
    }
}

/// Ones' complement sum of two words.
#[inline]
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The length counts twice, in the pseudo-header and in the header; a checksum of zero is sent as
/// all ones (RFC 768).
#[inline]
fn udp_checksum(sum: u16, len: u16) -> u16 {
    let checksum = !add(add(sum, len), len);
    if checksum == 0 { 0xFFFF } else { checksum }
}

fn sum_of(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum, w| add(sum, u16::from_be_bytes([w[0], w[1]])))
}

/// Makes the flows of `spec`, numbered from 0 in their probes.
pub(crate) fn build(spec: &FlowSpec) -> Result<Vec<Flow>, FlowError> {
    if spec.count == 0 || spec.count > Probe::FLOW_MAX {
        return Err(FlowError::Count(spec.count));
    }
    let mut rng = Pcg64Mcg::seed_from_u64(spec.seed);
    (0..spec.count).map(|i| flow(spec, i, &mut rng)).collect()
}

fn flow(spec: &FlowSpec, i: u32, rng: &mut Pcg64Mcg) -> Result<Flow, FlowError> {
    let nth = |first: MacAddr, of: u32| {
        MacAddr::from_u64(first.to_u64().wrapping_add(u64::from(i % of.max(1))))
    };
    let source_mac = nth(spec.source_mac, spec.source_macs);
    let mut destination_mac = nth(spec.destination_mac, spec.destination_macs);
    let mut destination_ip = spec.destination_ip;
    if !spec.destinations.is_empty() {
        match spec.destinations[i as usize % spec.destinations.len()] {
            Destination::Mac(mac) => destination_mac = mac,
            prefix @ Destination::Ip { .. } => {
                let random = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
                destination_ip = prefix.address(random).unwrap_or(destination_ip);
            }
        }
    }
    let mut flow = Flow {
        sequence: 0,
        ip_sum: 0,
        udp_sum: 0,
        kind: Kind::Ethernet,
        headers: [0; HEADERS_MAX],
    };
    let h = &mut flow.headers;
    h[..6].copy_from_slice(&destination_mac.0);
    h[6..12].copy_from_slice(&source_mac.0);
    if spec.encapsulation == Encapsulation::Ethernet {
        h[12..14].copy_from_slice(&PROBE_ETHERTYPE.to_be_bytes());
        return Ok(flow);
    }
    let ports = SOURCE_PORTS.len() as u32;
    let source_port = SOURCE_PORTS.start() + (i % ports) as u16;
    let source_ip = nth_address(spec.source_ip, destination_ip, i / ports);
    let mut udp = [0; 8];
    udp[..2].copy_from_slice(&source_port.to_be_bytes());
    udp[2..4].copy_from_slice(&spec.destination_port.to_be_bytes());
    match (source_ip, destination_ip) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            flow.kind = if spec.checksum { Kind::Ipv4 } else { Kind::Ipv4Plain };
            h[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
            h[14] = 0x45;
            // Flags: don't fragment, so that the identification may stay 0 (RFC 6864, 4.1).
            h[20] = 0x40;
            h[22] = 64;
            h[23] = 17;
            h[26..30].copy_from_slice(&source.octets());
            h[30..34].copy_from_slice(&destination.octets());
            h[34..42].copy_from_slice(&udp);
            flow.ip_sum = sum_of(&h[14..34]);
            flow.udp_sum = sum_of(&h[26..34]);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            flow.kind = Kind::Ipv6;
            h[12..14].copy_from_slice(&0x86DD_u16.to_be_bytes());
            h[14] = 0x60;
            h[20] = 17;
            h[21] = 64;
            h[22..38].copy_from_slice(&source.octets());
            h[38..54].copy_from_slice(&destination.octets());
            h[54..62].copy_from_slice(&udp);
            flow.udp_sum = sum_of(&h[22..54]);
        }
        (source, destination) => return Err(FlowError::Versions(source, destination)),
    }
    flow.udp_sum = add(add(flow.udp_sum, 17), add(sum_of(&udp), PROBE_SUM));
    Ok(flow)
}

/// The `n`-th address from `first` on, or from the benchmarking network of the destination's IP
/// version (198.18.0.0/15, RFC 2544; 2001:2::/48, RFC 5180).
fn nth_address(first: Option<IpAddr>, destination: IpAddr, n: u32) -> IpAddr {
    let first = first.unwrap_or(match destination {
        IpAddr::V4(_) => Ipv4Addr::new(198, 18, 0, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).into(),
    });
    match first {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits().wrapping_add(n)).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits().wrapping_add(n.into())).into(),
    }
}

/// Which flow sends the next packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// One after the other.
    RoundRobin,
    /// At random: the n-th flow in proportion to 1/n^exponent; 0 makes all alike.
    Zipf(f64),
}

impl FromStr for Choice {
    type Err = String;

    /// `round-robin`, `uniform` or `zipf:EXPONENT`.
    fn from_str(text: &str) -> Result<Choice, String> {
        match (text, text.strip_prefix("zipf:").map(str::parse::<f64>)) {
            ("round-robin", _) => Ok(Choice::RoundRobin),
            ("uniform", _) => Ok(Choice::Zipf(0.0)),
            (_, Some(Ok(s))) if (0.0..=10.0).contains(&s) => Ok(Choice::Zipf(s)),
            _ => Err("write round-robin, uniform or zipf:EXPONENT, 0 to 10, as in zipf:1.1".into()),
        }
    }
}

/// Flow numbers one after another.
#[derive(Clone, Debug)]
pub struct Chooser {
    count: u32,
    next: u32,
    rng: Pcg64Mcg,
    /// For a random choice, Walker's alias table: a threshold of 32 bits and the alias.
    table: Vec<(u32, u32)>,
}

impl Chooser {
    /// A choice among `count` flows, 1 at least.
    pub fn new(count: u32, choice: Choice, seed: u64) -> Chooser {
        let table = match choice {
            Choice::Zipf(exponent) if count > 1 => alias_table(count, exponent),
            _ => Vec::new(),
        };
        Chooser { count, next: 0, rng: Pcg64Mcg::seed_from_u64(seed), table }
    }

    /// The next one.
    #[inline]
    pub fn next_flow(&mut self) -> usize {
        if self.table.is_empty() {
            let flow = self.next;
            self.next = if flow + 1 == self.count { 0 } else { flow + 1 };
            return flow as usize;
        }
        let random = self.rng.next_u64();
        let at = ((random >> 32) * u64::from(self.count)) >> 32;
        let (threshold, alias) = self.table[at as usize];
        if (random as u32) < threshold { at as usize } else { alias as usize }
    }
}

/// Walker's method: every column holds its own flow below a threshold and one other above, so a
/// draw takes the same time whatever the distribution.
fn alias_table(count: u32, exponent: f64) -> Vec<(u32, u32)> {
    let weights: Vec<f64> = (1..=count).map(|n| f64::from(n).powf(-exponent)).collect();
    let mean = weights.iter().sum::<f64>() / f64::from(count);
    let mut share: Vec<f64> = weights.iter().map(|w| w / mean).collect();
    let mut table: Vec<(u32, u32)> = (0..count).map(|i| (u32::MAX, i)).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..count).partition(|&i| share[i as usize] < 1.0);
    while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
        small.pop();
        table[s as usize] = ((share[s as usize] * 2f64.powi(32)) as u32, l);
        share[l as usize] -= 1.0 - share[s as usize];
        if share[l as usize] < 1.0 {
            large.pop();
            small.push(l);
        }
    }
    table
}

#[cfg(test)]
mod tests;
