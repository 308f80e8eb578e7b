//! Valid inputs of every format, as seeds for mutation.

mod ndn;
mod router;
mod says;
mod scripts;

use std::net::{Ipv4Addr, Ipv6Addr};

use plexus_analysis::exchange::{Format, export};
use plexus_io::pcap::{Direction, LinkType, Writer};
use plexus_topo::Topology;
use plexus_traffic::{PROBE_ETHERTYPE, PROBE_UDP_PORT, Probe};
use plexus_wire::checksum::Sum;
use plexus_wire::fabric::{self, encapsulation};
use plexus_wire::{
    EtherType, MacAddr, Protocol, Time, arp, dhcpv4, ethernet, icmpv4, icmpv6, igmp, ipv4, ipv6,
    mld, ndp, tcp, udp, vlan,
};

pub use ndn::{ndn_data, ndn_interests, ndn_links, ndn_names, ndn_records};
pub use router::router_scripts;
pub use says::{controller_scripts, node_scripts};
pub use scripts::scripts;

const FULL_NODE: &str = include_str!("samples/node.toml");
const FULL_TOPOLOGY: &str = include_str!("samples/topology.toml");

const GRAPHML: &str = include_str!("../../crates/analysis/tests/graphs/islands.graphml");
const DOT: &str = include_str!("../../crates/analysis/tests/graphs/office.dot");
const GRAPH_JSON: &str = include_str!("../../crates/analysis/tests/graphs/triangle.json");
const CONTAINERLAB: &str = include_str!("../../crates/analysis/tests/graphs/frr01.clab.yml");
const MININET: &str = include_str!("../../crates/analysis/tests/graphs/office.mn");

pub(crate) const HOST_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const HOST_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The fabric's own, in whose name its nodes ask.
pub(crate) const GROUP_OWN_MAC: MacAddr = MacAddr([2, 0x50, 0x4C, 0x58, 0, 1]);
/// The Ethernet address of 239.1.2.3.
pub(crate) const GROUP_MAC: MacAddr = MacAddr([1, 0, 0x5E, 1, 2, 3]);
const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));

fn v6() -> (Ipv6Addr, Ipv6Addr) {
    (Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2))
}

/// Room for a header written by `emit`, and bytes behind it.
macro_rules! written {
    ($repr:expr, $behind:expr) => {{
        let repr = &$repr;
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).expect("samples are valid");
        bytes.extend_from_slice($behind);
        bytes
    }};
}
use written;

fn frame(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut f = written!(ethernet::Repr { dst: HOST_B, src: HOST_A, ethertype }, payload);
    f.resize(f.len().max(ethernet::MIN_FRAME_LEN), 0);
    f
}

fn v4_frame(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr::new(V4.0, V4.1, protocol, payload.len());
    frame(EtherType::IPV4, &written!(repr, payload))
}

fn v6_frame(next: Protocol, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = v6();
    let mut repr = ipv6::Repr::new(src, dst, next, payload.len());
    repr.hop_limit = ndp::HOP_LIMIT;
    frame(EtherType::IPV6, &written!(repr, payload))
}

fn tagged(mut frame: Vec<u8>, tpid: EtherType, tci: u16) -> Vec<u8> {
    frame.splice(0..0, [0; vlan::TAG_LEN]);
    vlan::push(&mut frame, tpid, tci).expect("samples are valid");
    frame
}

fn datagram() -> Vec<u8> {
    written!(udp::Repr { src_port: 4000, dst_port: 53, payload_len: 5 }, b"hello")
}

fn segment() -> Vec<u8> {
    let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7];
    let repr = tcp::Repr {
        src_port: 40_000,
        dst_port: 80,
        seq: 1,
        ack: 0,
        flags: tcp::Flags::SYN,
        window: 64_240,
        urgent: 0,
        options: options.into_iter().collect(),
    };
    written!(repr, b"")
}

fn v6_message(mut message: Vec<u8>) -> Vec<u8> {
    let (src, dst) = v6();
    let len = u32::try_from(message.len()).unwrap_or(0);
    let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMPV6, len);
    icmpv6::Packet::new_checked(&mut message[..]).expect("samples are valid").fill_checksum(pseudo);
    v6_frame(Protocol::ICMPV6, &message)
}

fn igmp_messages() -> Vec<igmp::Repr> {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let v3 = igmp::QueryV3 { robustness: 2, interval_code: 125, ..Default::default() };
    let sources = vec![V4.0, V4.1];
    let record = |kind, sources| igmp::Record { kind, group, sources };
    vec![
        igmp::Repr::Query { response_code: 100, group: [0; 4].into(), v3: Some(v3) },
        igmp::Repr::Query { response_code: 0, group, v3: None },
        igmp::Repr::ReportV1(group),
        igmp::Repr::ReportV2(group),
        igmp::Repr::Leave(group),
        igmp::Repr::ReportV3(vec![
            record(igmp::RecordKind::TO_EXCLUDE, vec![]),
            record(igmp::RecordKind::ALLOW, sources),
        ]),
    ]
}

fn mld_messages() -> Vec<mld::Repr> {
    let group = Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 0, 7);
    let v2 = mld::QueryV2 { robustness: 2, interval_code: 125, ..Default::default() };
    let sources = vec![v6().0];
    vec![
        mld::Repr::Query { response_code: 10_000, group: [0; 16].into(), v2: Some(v2) },
        mld::Repr::ReportV1(group),
        mld::Repr::Done(group),
        mld::Repr::ReportV2(vec![mld::Record { kind: mld::RecordKind::ALLOW, group, sources }]),
    ]
}

fn ndp_messages() -> Vec<ndp::Repr> {
    let (target, destination) = v6();
    let prefix = ndp::Prefix {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_lifetime_s: 86_400,
        preferred_lifetime_s: 14_400,
        prefix: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0),
    };
    let advertisement = ndp::Message::RouterAdvertisement {
        hop_limit: 64,
        managed: true,
        other_config: false,
        router_lifetime_s: 1800,
        reachable_ms: 0,
        retransmit_ms: 0,
    };
    let neighbor = ndp::Message::NeighborAdvertisement {
        router: false,
        solicited: true,
        override_cache: true,
        target,
    };
    let source = || vec![ndp::NdpOption::SourceLinkLayer(HOST_A)];
    vec![
        ndp::Repr { message: ndp::Message::RouterSolicitation, options: source() },
        ndp::Repr {
            message: advertisement,
            options: vec![
                ndp::NdpOption::Mtu(1500),
                ndp::NdpOption::Prefix(prefix),
                ndp::NdpOption::Other(25, vec![0; 22]),
            ],
        },
        ndp::Repr { message: ndp::Message::NeighborSolicitation { target }, options: source() },
        ndp::Repr { message: neighbor, options: vec![ndp::NdpOption::TargetLinkLayer(HOST_B)] },
        ndp::Repr { message: ndp::Message::Redirect { target, destination }, options: vec![] },
    ]
}

/// Hop-by-hop, routing, first fragment, authentication and destination headers before UDP.
const CHAIN: [u8; 48] = [
    43, 0, 5, 2, 0, 0, 1, 0, 44, 0, 4, 0, 0, 0, 0, 0, 51, 0, 0, 1, 0, 0, 0, 9, 60, 2, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 9, 1, 2, 3, 4, 17, 0, 0, 30, 2, 7, 7, 0,
];

/// A DHCP request in its frame.
fn dhcp() -> Vec<u8> {
    let message = dhcpv4::Repr {
        is_request: true,
        hops: 0,
        xid: 7,
        secs: 1,
        broadcast: true,
        ciaddr: Ipv4Addr::UNSPECIFIED,
        yiaddr: Ipv4Addr::UNSPECIFIED,
        siaddr: Ipv4Addr::UNSPECIFIED,
        giaddr: Ipv4Addr::UNSPECIFIED,
        chaddr: HOST_A,
        message_type: dhcpv4::MessageType::REQUEST,
        options: vec![
            dhcpv4::DhcpOption::addresses(dhcpv4::option::REQUESTED_ADDRESS, &[V4.0]),
            dhcpv4::DhcpOption::new(dhcpv4::option::CLIENT_ID, [1; 7]),
        ],
    };
    let message = written!(message, b"");
    let ports = udp::Repr { src_port: 68, dst_port: 67, payload_len: message.len() };
    v4_frame(Protocol::UDP, &written!(ports, &message))
}

/// Frames that carry a probe, in each way there is.
fn probes() -> [Vec<u8>; 3] {
    let probe = Probe::new(7, 1 << 40, Time::from_secs(9)).to_bytes();
    let ports = udp::Repr { src_port: 49_152, dst_port: PROBE_UDP_PORT, payload_len: probe.len() };
    let datagram = written!(ports, &probe);
    [
        v4_frame(Protocol::UDP, &datagram),
        tagged(v6_frame(Protocol::UDP, &datagram), EtherType::VLAN, 0x2001),
        frame(EtherType(PROBE_ETHERTYPE), &probe),
    ]
}

/// Fabric frames: with an EtherType of their own, and in UDP over both families.
fn fabric_frames(carried: &[u8]) -> Vec<Vec<u8>> {
    let header = fabric::Repr {
        kind: fabric::Kind::Ethernet,
        forward: [3, 0, 1, fabric::CONTROL_HOP].into_iter().collect(),
        reverse: [2, 9].into_iter().collect(),
    };
    let bare = written!(header, carried);
    let mut all = vec![frame(encapsulation::ETHERTYPE, &bare)];
    let (src, dst) = v6();
    for ends in [(V4.0.into(), V4.1.into()), (src.into(), dst.into())] {
        let udp = plexus_wire::frame::udp((HOST_A, HOST_B), ends, (49_159, 18_773), &bare);
        all.push(udp.expect("samples are valid"));
    }
    all
}

/// Valid frames of every format.
pub fn frames() -> Vec<Vec<u8>> {
    let request = arp::Repr {
        operation: arp::Operation::REQUEST,
        sender_mac: HOST_A,
        sender_ip: V4.0,
        target_mac: MacAddr::default(),
        target_ip: V4.1,
    };
    let mut options = ipv4::Repr::new(V4.0, V4.1, Protocol::UDP, 13);
    options.options.extend([1, 148, 4, 0, 0, 0, 0, 0]);
    let mut fragment = ipv4::Repr::new(V4.0, V4.1, Protocol::UDP, 13);
    (fragment.fragment_offset, fragment.dont_fragment) = (1480, false);
    let udp = v4_frame(Protocol::UDP, &datagram());
    let mut chain = CHAIN.to_vec();
    chain.extend(datagram());
    let mut all = vec![
        frame(EtherType::ARP, &written!(request, b"")),
        frame(EtherType::LLDP, &[0; 46]),
        frame(EtherType::IPV4, &written!(options, &datagram())),
        frame(EtherType::IPV4, &written!(fragment, &datagram())),
        v4_frame(Protocol::TCP, &segment()),
        v6_frame(Protocol::UDP, &datagram()),
        v6_frame(Protocol::TCP, &segment()),
        v6_frame(Protocol::HOP_BY_HOP, &chain),
        tagged(udp.clone(), EtherType::VLAN, 0xE000),
        tagged(tagged(udp.clone(), EtherType::VLAN, 7), EtherType::SERVICE_VLAN, 0x6064),
        udp.clone(),
    ];
    all.push(dhcp());
    all.extend(probes());
    all.extend(ndn::ndn_frames());
    all.extend(fabric_frames(&udp));
    for repr in [
        icmpv4::Repr::EchoRequest { identifier: 1, sequence: 2 },
        icmpv4::Repr::EchoReply { identifier: 1, sequence: 2 },
        icmpv4::Repr::Unreachable { code: 4, mtu: 1500 },
        icmpv4::Repr::Redirect { code: 1, gateway: V4.1 },
        icmpv4::Repr::TimeExceeded { code: 0 },
        icmpv4::Repr::Other { kind: 13, code: 0, rest: [1, 2, 3, 4] },
    ] {
        all.push(v4_frame(Protocol::ICMPV4, &written!(repr, &udp[14..42])));
    }
    for repr in [
        icmpv6::Repr::Unreachable { code: 4 },
        icmpv6::Repr::PacketTooBig { mtu: 1280 },
        icmpv6::Repr::TimeExceeded { code: 0 },
        icmpv6::Repr::ParameterProblem { code: 1, pointer: 6 },
        icmpv6::Repr::EchoRequest { identifier: 1, sequence: 2 },
        icmpv6::Repr::EchoReply { identifier: 1, sequence: 2 },
    ] {
        all.push(v6_message(written!(repr, b"data")));
    }
    all.extend(ndp_messages().iter().map(|repr| v6_message(written!(repr, b""))));
    all.extend(igmp_messages().iter().map(|repr| v4_frame(Protocol::IGMP, &written!(repr, b""))));
    all.extend(mld_messages().iter().map(|repr| v6_message(written!(repr, b""))));
    all
}

/// The frames, and what is left of them from every header's start on: seeds for the targets
/// that start in the middle.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"02:00:5e:10:20:30".to_vec()];
    for frame in frames() {
        // Tags, IPv4 and IPv6 headers and their payloads start at these offsets.
        for at in [0, 14, 18, 22, 34, 42, 53, 54] {
            seeds.extend(frame.get(at..).map(<[u8]>::to_vec));
        }
    }
    seeds
}

/// Captures in each format and byte order.
pub fn captures() -> Vec<Vec<u8>> {
    let frames = &frames()[..3];
    let mut writer = Writer::new(Vec::new(), LinkType::User0, "p1").expect("memory takes all");
    for (i, frame) in (1_u64..).zip(frames) {
        writer.packet(i << 40, Direction::Out, frame).expect("memory takes all");
    }
    let mut captures = vec![writer.into_inner()];
    for magic in [0xA1B2_C3D4_u32, 0xA1B2_3C4D] {
        captures.push(old_capture(magic, frames, u32::to_le_bytes));
        captures.push(old_capture(magic, frames, u32::to_be_bytes));
    }
    captures.push(new_capture(frames, u32::to_le_bytes, u16::to_le_bytes));
    captures.push(new_capture(frames, u32::to_be_bytes, u16::to_be_bytes));
    captures
}

/// draft-ietf-opsawg-pcap, section 4 and 5.
fn old_capture(magic: u32, frames: &[Vec<u8>], u32: fn(u32) -> [u8; 4]) -> Vec<u8> {
    // Version 2.4 is two halves: only their order tells the byte order.
    let version = if u32(1)[0] == 1 { 0x0004_0002 } else { 0x0002_0004 };
    let mut file: Vec<u8> = [magic, version, 0, 0, 65_535, 1].map(u32).concat();
    for frame in frames {
        let len = frame.len() as u32;
        file.extend([1_700_000_000, 999_999, len, len + 4].map(u32).concat());
        file.extend(frame);
    }
    file
}

/// draft-ietf-opsawg-pcapng, section 4: two interfaces, one with binary time stamps and an offset;
/// enhanced, simple, obsolete and unknown blocks; a second section.
fn new_capture(frames: &[Vec<u8>], u32: fn(u32) -> [u8; 4], u16: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let len = u32(padded.len() as u32 + 12);
        [&u32(kind)[..], &len, &padded, &len].concat()
    };
    let section = [&u32(0x1A2B_3C4D)[..], &u16(1), &u16(0), &[0xFF; 8]].concat();
    let mut file = block(0x0A0D_0D0A, &section);
    file.extend(block(1, &[&u16(1)[..], &[0; 2], &u32(64)].concat()));
    let resolution = [&u16(9)[..], &u16(1), &[0x94, 0, 0, 0]].concat();
    let offset = [&u16(14)[..], &u16(8), &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    let options = [resolution, offset, vec![0; 4]].concat();
    file.extend(block(1, &[&u16(147)[..], &[0; 2], &[0; 4], &options].concat()));
    for frame in frames {
        let len = u32(frame.len() as u32);
        let stamped = [&u32(7)[..], &u32(9), &len, &len, frame].concat();
        file.extend(block(6, &[&u32(1)[..], &stamped].concat()));
        file.extend(block(2, &[&u16(1)[..], &u16(0), &stamped].concat()));
        file.extend(block(3, &[&len[..], &frame[..frame.len().min(64)]].concat()));
        file.extend(block(0x0BAD, frame));
    }
    file.extend(block(0x0A0D_0D0A, &section));
    file
}

/// Valid controller files.
pub fn controller_files() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../examples/controller.toml").to_vec(), b"name = \"c\"\n".to_vec()]
}

/// Node files: those that are shipped, and one that says everything there is to say.
pub fn node_files() -> Vec<Vec<u8>> {
    let shipped =
        [include_str!("../../examples/switch.toml"), include_str!("../../examples/vlan.toml")];
    shipped.into_iter().chain([FULL_NODE]).map(|text| text.as_bytes().to_vec()).collect()
}

/// Topology files: those that are shipped, and one that says everything there is to say.
pub fn topology_files() -> Vec<Vec<u8>> {
    let shipped = [
        include_str!("../../labs/demo.toml"),
        include_str!("../../labs/ndr.toml"),
        include_str!("../../labs/ring.toml"),
        include_str!("../../labs/switch.toml"),
        include_str!("../../labs/switch-vlan.toml"),
    ];
    shipped.into_iter().chain([FULL_TOPOLOGY]).map(|text| text.as_bytes().to_vec()).collect()
}

/// A graph of another program, and one of ours with everything that it can say, if we write such.
fn graphs(other: &str, format: Format) -> Vec<Vec<u8>> {
    let ours = Topology::parse("sample", FULL_TOPOLOGY).expect("samples are valid");
    let ours = export(&ours, format).map(|made| made.text.into_bytes());
    std::iter::once(other.as_bytes().to_vec()).chain(ours).collect()
}

/// Graphs in GraphML.
pub fn graphml() -> Vec<Vec<u8>> {
    graphs(GRAPHML, Format::GraphMl)
}

/// Graphs in DOT.
pub fn dot() -> Vec<Vec<u8>> {
    graphs(DOT, Format::Dot)
}

/// Graphs in JSON.
pub fn graph_json() -> Vec<Vec<u8>> {
    graphs(GRAPH_JSON, Format::Json)
}

/// Labs of containerlab.
pub fn containerlab() -> Vec<Vec<u8>> {
    graphs(CONTAINERLAB, Format::Containerlab)
}

/// Networks of Mininet.
pub fn mininet() -> Vec<Vec<u8>> {
    graphs(MININET, Format::Mininet)
}
