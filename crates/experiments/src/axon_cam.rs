//! `axon-cam`: how large a port's route memory must be (`axon.txt` §5.3, figure 5).
//!
//! The paper looks for the packets before to the same destination in traces that are not public any
//! more, and takes their distance for the entries that are needed. Here the same is done to a
//! capture (`--input`) and to generated traces, whose law is ours.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use plexus_io::pcap::Reader;
use plexus_report::Failure;
use plexus_traffic::{DestinationTrace, Locality, Reading, ReuseProfile};
use plexus_wire::{EtherType, ethernet, vlan};

use super::Setting;
use super::plot::{Axis, Chart, Line, thousands};
use super::report::{Findings, Row};
use super::verdict::Verdict;

/// "A CAM of 4000 entries is sufficient for CESCA trace, which is analogous to an Axon at the
/// network edge".
const PAPER_ENTRIES: u64 = 4000;
/// What we take for sufficient: all but a hundredth of the hits of a table that forgets nothing.
/// The paper gives no figure for it.
const SUFFICIENT: f64 = 0.99;
const SEED: u64 = 1;

/// What generated traces are of: an Internet of a million destinations, popular by Zipf's law.
const LAW: Locality =
    Locality { destinations: 1_000_000, exponent: 1.0, flows: 1, packets_per_flow: 1.0 };

/// The generated traces: packets that know nothing of each other, which is the worst case, and
/// flows of 20 packets, as many at a time.
fn laws() -> [(&'static str, Locality); 4] {
    let flows = |flows| Locality { flows, packets_per_flow: 20.0, ..LAW };
    [
        ("100 flows", flows(100)),
        ("1,000 flows", flows(1000)),
        ("10,000 flows", flows(10_000)),
        ("independent packets", LAW),
    ]
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let packets = if setting.quick { 100_000 } else { 20_000_000 };
    let mut findings = Findings::new(SEED, "");
    let mut profiles = Vec::new();
    if let Some(path) = setting.input {
        setting.progress.detail(&path.display().to_string());
        let capture = Capture::read(path)?;
        findings.remarks.extend(capture.remarks(path));
        findings.doubts.extend(capture.broken);
        profiles.push(("capture".to_string(), capture.profile));
    }
    for (name, law) in laws() {
        setting.progress.detail(name);
        let trace = DestinationTrace::new(law, SEED).take(packets);
        profiles.push((name.to_string(), ReuseProfile::of(trace)));
    }
    let number = thousands(&packets.to_string());
    findings.remarks.push(format!(
        "generated traces are ours, not the paper's: {number} packets, a million destinations with \
         Zipf's popularity (exponent 1); flows of 20 packets on the average (geometric), as many \
         at a time as is said, each packet of any of them; independent packets are the worst case"
    ));
    findings.remarks.push(format!(
        "the paper does not say which hit rate is sufficient; here it is {:.0} % of what a table \
         without end hits",
        SUFFICIENT * 100.0
    ));
    findings.rows = profiles.iter().flat_map(|(name, profile)| rows(name, profile)).collect();
    let needed = profiles.iter().map(|(_, p)| p.entries_for(Reading::Destinations, SUFFICIENT));
    let within = needed.filter(|entries| *entries <= PAPER_ENTRIES).count();
    findings.verdict = Some(Verdict::open(format!(
        "the paper's traces are not public; {PAPER_ENTRIES} entries are sufficient for {within} of \
         the {} traces here",
        profiles.len()
    )));
    findings.charts = [Reading::Destinations, Reading::Packets].map(|r| chart(r, &profiles)).into();
    findings.runs = csv(&profiles);
    Ok(findings)
}

/// Its name in rows and charts.
fn named(reading: Reading) -> &'static str {
    match reading {
        Reading::Packets => "distance in packets",
        Reading::Destinations => "LRU",
    }
}

fn percent(hits: u64, profile: &ReuseProfile) -> f64 {
    hits as f64 / profile.packets().max(1) as f64 * 100.0
}

fn rows(name: &str, profile: &ReuseProfile) -> Vec<Row> {
    let [packets, destinations] =
        [profile.packets(), profile.destinations()].map(|n| thousands(&n.to_string()));
    let size = format!("{packets} packets to {destinations} destinations");
    let endless = percent(profile.hits_at_most(), profile);
    let note = format!("{size}; the first packet to each always misses");
    let quantity = format!("{name}: hits of an endless table");
    let mut rows = vec![Row::new(quantity, "%", endless).note(note)];
    for reading in [Reading::Packets, Reading::Destinations] {
        let how = named(reading);
        let hits = percent(profile.hits(reading, PAPER_ENTRIES), profile);
        let quantity = format!("{name}: hits of {PAPER_ENTRIES} entries, {how}");
        let note = format!("{:.2} points below the endless table", endless - hits);
        rows.push(Row::new(quantity, "%", hits).note(note));
        let entries = profile.entries_for(reading, SUFFICIENT);
        let quantity = format!("{name}: sufficient, {how}");
        let row = Row::new(quantity, "entries", entries as f64).at_most(PAPER_ENTRIES as f64);
        rows.push(row.note("the paper's trace is another one"));
    }
    rows
}

/// Sizes of tables: 1, 2 and 5 times powers of ten until all fit, and the paper's.
fn sizes(profiles: &[(String, ReuseProfile)]) -> Vec<u64> {
    let most = profiles.iter().map(|(_, p)| p.destinations()).max().unwrap_or(0);
    let decades = (0..19).map(|n| 10_u64.pow(n));
    let round = decades.flat_map(|n| [n, 2 * n, 5 * n]).chain([PAPER_ENTRIES]);
    let mut sizes: Vec<u64> = round.collect();
    sizes.sort_unstable();
    let needed = sizes.partition_point(|size| *size < most.max(PAPER_ENTRIES));
    sizes.truncate(needed + 1);
    sizes
}

fn chart(reading: Reading, profiles: &[(String, ReuseProfile)]) -> Chart {
    let sizes = sizes(profiles);
    let line = |(name, profile): &(String, ReuseProfile)| {
        let rate = |entries: u64| percent(profile.hits(reading, entries), profile);
        let points = sizes.iter().map(|entries| (*entries as f64, rate(*entries))).collect();
        Line::ours(name.clone(), points)
    };
    let title = match reading {
        Reading::Packets => "Hits if every packet took an entry, as the paper counts",
        Reading::Destinations => "Hits of a route memory that drops the least recently used",
    };
    Chart::lines(
        title,
        Axis::log("entries"),
        Axis::linear("packets whose destination is in the table (%)"),
        profiles.iter().map(line).collect(),
    )
}

fn csv(profiles: &[(String, ReuseProfile)]) -> String {
    let mut csv = String::from("trace,packets,destinations,entries,hits_by_packets,hits_lru\n");
    for (name, profile) in profiles {
        let (packets, destinations) = (profile.packets(), profile.destinations());
        for entries in sizes(profiles) {
            let [by_packets, lru] =
                [Reading::Packets, Reading::Destinations].map(|r| profile.hits(r, entries));
            // The one comma is that of a name.
            let name = name.replace(',', "");
            let _ = writeln!(csv, "{name},{packets},{destinations},{entries},{by_packets},{lru}");
        }
    }
    csv
}

/// What a capture file tells.
struct Capture {
    profile: ReuseProfile,
    /// Frames without an IP packet.
    others: u64,
    /// What makes no sense in it, and where: it was read up to there.
    broken: Option<String>,
}

impl Capture {
    fn read(path: &Path) -> Result<Capture, Failure> {
        let bad = |e: &dyn std::fmt::Display| Failure::unusable(format!("{}: {e}", path.display()));
        let file = File::open(path).map_err(|e| bad(&e))?;
        let reader = Reader::new(BufReader::with_capacity(1 << 18, file)).map_err(|e| bad(&e))?;
        let mut frames = Frames { reader, bytes: Vec::new(), others: 0, broken: None };
        let profile = ReuseProfile::of(&mut frames);
        if profile.packets() == 0 {
            let why = frames.broken.unwrap_or(format!("{} frames, none of IP", frames.others));
            return Err(bad(&why));
        }
        let broken = frames.broken.map(|why| format!("{}: ends early: {why}", path.display()));
        Ok(Capture { profile, others: frames.others, broken })
    }

    fn remarks(&self, path: &Path) -> Vec<String> {
        let (packets, destinations) = (self.profile.packets(), self.profile.destinations());
        let mut remarks = vec![format!(
            "capture: {}, {packets} packets of IP, {} other frames",
            path.display(),
            self.others
        )];
        if destinations < PAPER_ENTRIES {
            remarks.push(format!(
                "the capture has {destinations} destinations: too few to tell whether \
                 {PAPER_ENTRIES} entries are enough for more"
            ));
        }
        remarks
    }
}

/// The destinations of a capture's packets.
struct Frames {
    reader: Reader<BufReader<File>>,
    bytes: Vec<u8>,
    others: u64,
    broken: Option<String>,
}

impl Iterator for &mut Frames {
    type Item = IpAddr;

    fn next(&mut self) -> Option<IpAddr> {
        loop {
            match self.reader.next(&mut self.bytes) {
                Ok(Some(_)) => match destination(&self.bytes) {
                    Some(destination) => return Some(destination),
                    None => self.others += 1,
                },
                Ok(None) => return None,
                Err(e) => {
                    self.broken = Some(e.to_string());
                    return None;
                }
            }
        }
    }
}

/// Where a frame's IP packet goes. Of a packet that was cut short by the capture, as traces often
/// are, the fixed header is enough.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let stack = vlan::stack(&frame).ok()?;
    let header = frame.as_bytes().get(stack.payload_offset..)?;
    match (stack.ethertype, header.first()? >> 4) {
        (EtherType::IPV4, 4) => {
            Some(Ipv4Addr::from(<[u8; 4]>::try_from(header.get(16..20)?).ok()?).into())
        }
        (EtherType::IPV6, 6) => {
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(header.get(24..40)?).ok()?).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame to an address, cut after the fixed header.
    fn frame(to: IpAddr, tagged: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if tagged {
            frame.extend([0x81, 0x00, 0x00, 0x05]);
        }
        match to {
            IpAddr::V4(to) => {
                frame.extend([0x08, 0x00, 0x45, 0, 0x05, 0xdc]);
                frame.extend([0; 12]);
                frame.extend(to.octets());
            }
            IpAddr::V6(to) => {
                frame.extend([0x86, 0xdd, 0x60]);
                frame.extend([0; 23]);
                frame.extend(to.octets());
            }
        }
        frame
    }

    #[test]
    fn the_header_alone_tells_the_destination() {
        for to in ["192.0.2.7", "2001:db8::7"] {
            let to: IpAddr = to.parse().unwrap();
            for tagged in [false, true] {
                let frame = frame(to, tagged);
                assert_eq!(destination(&frame), Some(to));
                for len in 0..frame.len() {
                    assert_eq!(destination(&frame[..len]), None, "{len}");
                }
            }
        }
        // A version that is not the type's.
        let mut wrong = frame("192.0.2.7".parse().unwrap(), false);
        wrong[14] = 0x65;
        assert_eq!(destination(&wrong), None);
    }

    #[test]
    fn rows_say_what_4000_entries_hit_and_how_many_suffice() {
        // 5,000 destinations in turn, twice: 4,000 entries never hit, 5,000 always.
        let profile = ReuseProfile::of((0..10_000).map(|i| i % 5000));
        let rows = serde_json::to_value(rows("x", &profile)).unwrap();
        let ours: Vec<f64> =
            rows.as_array().unwrap().iter().map(|r| r["ours"].as_f64().unwrap()).collect();
        assert_eq!(ours, [50.0, 0.0, 5000.0, 0.0, 5000.0]);
        let profiles = [("a, b".to_string(), profile)];
        let csv = csv(&profiles);
        assert!(csv.contains("\na b,10000,5000,4000,0,0\n"), "{csv}");
        assert!(csv.ends_with(",5000,5000,5000\n"), "{csv}");
    }

    #[test]
    fn a_table_of_as_many_entries_as_flows_is_enough_but_for_independent_packets() {
        let profile = |law| ReuseProfile::of(DestinationTrace::new(law, SEED).take(100_000));
        let [few, .., independent] = laws().map(|(_, law)| profile(law));
        let hits = |p: &ReuseProfile| percent(p.hits(Reading::Destinations, PAPER_ENTRIES), p);
        assert!(hits(&few) > 90.0 && hits(&independent) < 70.0);
    }
}
