//! One fuzz target per decoder: decode, walk every getter and iterator, write the meaning back,
//! and check that it reads the same. A target panics if one of these fails. Four more play
//! scripts to the whole data plane, to a node's control plane, to a router's, and to the
//! controller's core.
//!
//! The tests run every target on random bytes and on mutations of [`samples`]; libFuzzer runs
//! them from `libfuzzer/` (`cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer ethernet`).

mod controller;
mod files;
mod join;
mod link;
mod management;
mod ndn;
mod node;
mod pipeline;
#[path = "../../crates/plane/tests/plane/common.rs"]
mod rig;
mod router;
#[path = "../../crates/control/tests/router/plane.rs"]
mod router_plane;
pub mod samples;
mod script;
mod session;

pub use controller::controller;
pub use files::{
    containerlab, controller_file, dot, graph_json, graphml, mininet, node_file, pcap,
    topology_file,
};
pub use join::{join, join_code};
pub use link::ndn_link;
pub use management::ndn_management;
pub use ndn::{ndn_data, ndn_interest, ndn_lp, ndn_name, ndn_nfd};
pub use node::node;
pub use pipeline::pipeline;
pub use router::router;
pub use session::{channel, credential, identity_file, message};

use std::hint::black_box;

use plexus_traffic::{PROBE_LEN, PROBE_UDP_PORT, Probe, find_probe};
use plexus_wire::checksum::{self, Sum};
use plexus_wire::{
    EtherType, FlowKey, MacAddr, Protocol, arp, describe, dhcpv4, ethernet, fabric, icmpv4, icmpv6,
    igmp, ipv4, ipv6, ipv6_ext, mld, ndp, partial, tcp, udp, vlan,
};

/// A decoder's fuzz target; panics if the decoder misbehaves on the bytes.
pub type Target = fn(&[u8]);

/// Every target that reads packets, by name.
pub const PACKET_TARGETS: &[(&str, Target)] = &[
    ("ethernet", ethernet),
    ("vlan", vlan),
    ("arp", arp),
    ("ipv4", ipv4),
    ("ipv6", ipv6),
    ("ipv6_ext", ipv6_ext),
    ("icmpv4", icmpv4),
    ("icmpv6", icmpv6),
    ("ndp", ndp),
    ("igmp", igmp),
    ("mld", mld),
    ("udp", udp),
    ("tcp", tcp),
    ("fabric", fabric),
    ("dhcpv4", dhcpv4),
    ("flow", flow),
    ("partial", owed_checksum),
    ("describe", description),
    ("mac", mac),
    ("sums", sums),
    ("probe", probe),
];

/// Well-formed inputs of a target.
pub type Seeds = fn() -> Vec<Vec<u8>>;

/// A target that reads something else, with its own seeds.
pub struct OtherTarget {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub run: Target,
    /// Well-formed inputs of it.
    pub seeds: Seeds,
    /// Whether it reads text, in lines.
    pub is_text: bool,
    /// How many inputs the tests usually give it: as many as take it a second or so.
    pub rounds: usize,
}

type Name = &'static str;

const fn text(name: Name, run: Target, seeds: Seeds, rounds: usize) -> OtherTarget {
    OtherTarget { name, run, seeds, is_text: true, rounds }
}

const fn binary(name: Name, run: Target, seeds: Seeds, rounds: usize) -> OtherTarget {
    OtherTarget { name, run, seeds, is_text: false, rounds }
}

/// Every target that reads something other than packets.
pub const OTHER_TARGETS: &[OtherTarget] = &[
    binary("pcap", pcap, samples::captures, 30_000),
    text("node_file", node_file, samples::node_files, 3_000),
    text("controller_file", controller_file, samples::controller_files, 1_000),
    text("topology_file", topology_file, samples::topology_files, 3_000),
    text("graphml", graphml, samples::graphml, 300),
    text("dot", dot, samples::dot, 300),
    text("graph_json", graph_json, samples::graph_json, 300),
    text("containerlab", containerlab, samples::containerlab, 300),
    text("mininet", mininet, samples::mininet, 300),
    binary("pipeline", pipeline, samples::scripts, 1_000),
    binary("router", router, samples::router_scripts, 1_300),
    binary("node", node, samples::node_scripts, 300),
    binary("controller", controller, samples::controller_scripts, 300),
    binary("ndn_name", ndn_name, samples::ndn_names, 10_000),
    binary("ndn_interest", ndn_interest, samples::ndn_interests, 10_000),
    binary("ndn_data", ndn_data, samples::ndn_data, 10_000),
    binary("ndn_lp", ndn_lp, samples::ndn_links, 10_000),
    binary("ndn_nfd", ndn_nfd, samples::ndn_records, 10_000),
    binary("credential", credential, session::credentials, 10_000),
    binary("ndn_link", ndn_link, link::link_packets, 3_000),
    binary("ndn_management", ndn_management, management::management_scripts, 7_000),
    binary("message", message, session::messages, 30_000),
    binary("channel", channel, session::conversations, 300),
    binary("join", join, join::exchanges, 300),
    text("join_code", join_code, join::codes, 1_000),
    text("identity_file", identity_file, session::identity_files, 1_000),
];

/// `parse(emit(repr)) == repr`, into a dirty buffer of exactly `buffer_len` bytes plus what the
/// view needs behind it; and a buffer one byte short is refused.
macro_rules! both_ways {
    ($repr:expr, $view:path, $parse:path, $behind:expr) => {{
        let repr = $repr;
        let len = repr.buffer_len();
        let mut out = vec![0xEE; len + $behind];
        repr.emit(&mut out).expect("what was read can be written");
        let view = <$view>::new_checked(&out[..]).expect("what was written can be read");
        assert_eq!($parse(&view).as_ref(), Ok(&repr));
        assert!(repr.emit(&mut out[..len - 1]).is_err(), "a short buffer is refused");
        black_box(repr.to_string());
    }};
}

/// [`plexus_wire::ethernet`].
pub fn ethernet(data: &[u8]) {
    let Ok(view) = ethernet::Frame::new_checked(data) else { return };
    assert_eq!(view.payload().len() + ethernet::HEADER_LEN, data.len());
    let Ok(repr) = ethernet::Repr::parse(&view) else { return };
    both_ways!(repr, ethernet::Frame<_>, ethernet::Repr::parse, 0);
    let mut copy = data.to_vec();
    let mut mutable = ethernet::Frame::new_checked(&mut copy[..]).expect("same length");
    mutable.set_dst(repr.src);
    mutable.set_src(repr.dst);
    mutable.payload_mut().fill(0);
    assert_eq!((mutable.dst(), mutable.src()), (repr.src, repr.dst));
}

/// [`plexus_wire::vlan`].
pub fn vlan(data: &[u8]) {
    if let Ok(tag) = vlan::Tag::new_checked(data)
        && let Ok(repr) = vlan::Repr::parse(&tag)
    {
        assert_eq!(repr.tci(), tag.tci());
        black_box(tag.payload());
        both_ways!(repr, vlan::Tag<_>, vlan::Repr::parse, 0);
    }
    let Ok(frame) = ethernet::Frame::new_checked(data) else { return };
    let Ok(stack) = vlan::stack(&frame) else { return };
    assert!(stack.payload_offset <= data.len() && stack.depth <= vlan::MAX_TAGS);
    let mut pushed = [&[0; vlan::TAG_LEN][..], data].concat();
    vlan::push(&mut pushed, EtherType::VLAN, 7).expect("there is room for a tag");
    let outer = vlan::stack(&ethernet::Frame::new_checked(&pushed[..]).expect("it is longer"));
    if stack.depth < vlan::MAX_TAGS {
        assert_eq!(outer.map(|s| (s.depth, s.vlan())), Ok((stack.depth + 1, Some(7))));
    }
}

/// [`plexus_wire::arp`].
pub fn arp(data: &[u8]) {
    let Ok(view) = arp::Packet::new_checked(data) else { return };
    let Ok(repr) = arp::Repr::parse(&view) else { return };
    both_ways!(repr, arp::Packet<_>, arp::Repr::parse, 0);
    let mut copy = data.to_vec();
    let mut mutable = arp::Packet::new_checked(&mut copy[..]).expect("same bytes");
    mutable.answer(MacAddr::BROADCAST);
    assert_eq!((mutable.sender_ip(), mutable.target_ip()), (repr.target_ip, repr.sender_ip));
}

/// [`plexus_wire::ipv4`].
pub fn ipv4(data: &[u8]) {
    let Ok(view) = ipv4::Packet::new_checked(data) else { return };
    assert_eq!(view.header_len() + view.payload().len(), view.total_len());
    assert!(view.options().count() <= ipv4::OPTIONS_LEN_MAX);
    let ok = view.checksum_ok();
    if let Ok(repr) = ipv4::Repr::parse(&view) {
        assert!(ok, "a wrong checksum is refused");
        both_ways!(repr.clone(), ipv4::Packet<_>, ipv4::Repr::parse, repr.payload_len);
    }
    let mut copy = data.to_vec();
    let mut mutable = ipv4::Packet::new_checked(&mut copy[..]).expect("same bytes");
    let dst = mutable.dst();
    mutable.set_ecn(3);
    mutable.set_src(dst);
    assert_eq!(mutable.checksum_ok(), ok, "a rewrite neither breaks nor mends a checksum");
    mutable.fill_checksum();
    assert!(mutable.checksum_ok());
    mutable.payload_mut().fill(0);
}

/// [`plexus_wire::ipv6`].
pub fn ipv6(data: &[u8]) {
    let Ok(view) = ipv6::Packet::new_checked(data) else { return };
    assert_eq!(view.payload().len(), view.payload_len());
    if let Ok(upper) = view.upper() {
        assert!(upper.offset <= view.payload_len());
    }
    let Ok(repr) = ipv6::Repr::parse(&view) else { return };
    both_ways!(repr, ipv6::Packet<_>, ipv6::Repr::parse, repr.payload_len);
    let mut copy = data.to_vec();
    let mut mutable = ipv6::Packet::new_checked(&mut copy[..]).expect("same bytes");
    mutable.set_ecn(3);
    assert_eq!((mutable.flow_label(), mutable.dscp()), (repr.flow_label, repr.traffic_class >> 2));
    mutable.payload_mut().fill(0);
}

/// [`plexus_wire::ipv6_ext`]; the first byte is the first header's number.
pub fn ipv6_ext(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else { return };
    let found = ipv6_ext::find_upper(Protocol(first), bytes);
    let (mut len, mut count, mut failed) = (0, 0, false);
    for header in ipv6_ext::Walk::new(Protocol(first), bytes) {
        let Ok(header) = header else {
            failed = true;
            continue;
        };
        assert!(!failed, "nothing follows a fault");
        len += header.as_bytes().len();
        count += 1;
        assert!(header.options().count() <= header.as_bytes().len());
        black_box(header.routing());
        if let Some(fragment) = header.fragment() {
            let mut out = [0xEE; ipv6_ext::FRAGMENT_LEN];
            fragment.emit(&mut out).expect("what was read can be written");
            let again = ipv6_ext::Header::new_checked(Protocol::FRAGMENT, &out);
            assert_eq!(again.ok().and_then(|h| h.fragment()), Some(fragment));
            black_box(fragment.to_string());
        }
    }
    assert_eq!(failed, found.is_err());
    if let Ok(upper) = found {
        assert_eq!((upper.offset, upper.headers), (len, count));
        assert!(count <= ipv6_ext::MAX_HEADERS);
    }
}

/// [`plexus_wire::icmpv4`].
pub fn icmpv4(data: &[u8]) {
    let Ok(view) = icmpv4::Packet::new_checked(data) else { return };
    black_box((view.payload(), view.checksum(), view.checksum_ok()));
    let Ok(repr) = icmpv4::Repr::parse(&view) else { return };
    both_ways!(repr, icmpv4::Packet<_>, icmpv4::Repr::parse, 0);
    let mut copy = data.to_vec();
    let mut mutable = icmpv4::Packet::new_checked(&mut copy[..]).expect("same bytes");
    mutable.answer_echo();
    assert!(mutable.checksum_ok());
}

fn pseudo_v6(protocol: Protocol, len: usize) -> Sum {
    let (src, dst) = ([0xFE; 16].into(), [0x20; 16].into());
    Sum::pseudo_v6(src, dst, protocol, u32::try_from(len).unwrap_or(0))
}

/// [`plexus_wire::icmpv6`].
pub fn icmpv6(data: &[u8]) {
    let Ok(view) = icmpv6::Packet::new_checked(data) else { return };
    let pseudo = pseudo_v6(Protocol::ICMPV6, data.len());
    black_box((view.payload(), view.checksum(), view.checksum_ok(pseudo)));
    let Ok(repr) = icmpv6::Repr::parse(&view) else { return };
    both_ways!(repr, icmpv6::Packet<_>, icmpv6::Repr::parse, 0);
    let mut copy = data.to_vec();
    let mut mutable = icmpv6::Packet::new_checked(&mut copy[..]).expect("same bytes");
    mutable.fill_checksum(pseudo);
    assert!(mutable.checksum_ok(pseudo));
}

/// [`plexus_wire::ndp`].
pub fn ndp(data: &[u8]) {
    let Ok(view) = ndp::Packet::new_checked(data) else { return };
    assert!(view.options().count() <= data.len() / 8 + 1);
    black_box(view.target());
    let Ok(repr) = ndp::Repr::parse(&view) else { return };
    assert_eq!(repr.buffer_len(), data.len());
    both_ways!(repr, ndp::Packet<_>, ndp::Repr::parse, 0);
}

/// [`plexus_wire::igmp`].
pub fn igmp(data: &[u8]) {
    let Ok(view) = igmp::Packet::new_checked(data) else { return };
    black_box((view.kind(), view.checksum_ok()));
    let Ok(repr) = igmp::Repr::parse(&view) else { return };
    assert!(repr.buffer_len() <= data.len());
    both_ways!(repr, igmp::Packet<_>, igmp::Repr::parse, 0);
}

/// [`plexus_wire::mld`].
pub fn mld(data: &[u8]) {
    let Ok(view) = mld::Packet::new_checked(data) else { return };
    black_box((view.kind(), mld::is_mld(view.kind())));
    let Ok(repr) = mld::Repr::parse(&view) else { return };
    assert!(repr.buffer_len() <= data.len());
    both_ways!(repr, mld::Packet<_>, mld::Repr::parse, 0);
}

/// [`plexus_wire::udp`].
pub fn udp(data: &[u8]) {
    let Ok(view) = udp::Datagram::new_checked(data) else { return };
    let pseudo = pseudo_v6(Protocol::UDP, view.datagram_len());
    black_box(view.checksum_ok(pseudo));
    let Ok(repr) = udp::Repr::parse(&view) else { return };
    assert_eq!(view.payload().len(), repr.payload_len);
    both_ways!(repr, udp::Datagram<_>, udp::Repr::parse, repr.payload_len);
    let mut copy = data.to_vec();
    let mut mutable = udp::Datagram::new_checked(&mut copy[..]).expect("same bytes");
    mutable.fill_checksum(pseudo);
    assert!(mutable.checksum_ok(pseudo) && mutable.checksum() != 0);
    mutable.payload_mut().fill(0);
}

/// [`plexus_wire::tcp`].
pub fn tcp(data: &[u8]) {
    let Ok(view) = tcp::Segment::new_checked(data) else { return };
    assert!(view.options().count() <= tcp::OPTIONS_LEN_MAX);
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    if let Ok(repr) = tcp::Repr::parse(&view) {
        both_ways!(repr.clone(), tcp::Segment<_>, tcp::Repr::parse, 0);
    }
    let pseudo = pseudo_v6(Protocol::TCP, data.len());
    let mut copy = data.to_vec();
    let mut mutable = tcp::Segment::new_checked(&mut copy[..]).expect("same bytes");
    mutable.fill_checksum(pseudo);
    assert!(mutable.checksum_ok(pseudo));
}

/// [`plexus_wire::fabric`]: the header and its processing.
pub fn fabric(data: &[u8]) {
    let mut copy = data.to_vec();
    let advanced = fabric::advance(&mut copy, 7);
    let Ok(view) = fabric::Frame::new_checked(data) else {
        assert!(matches!(advanced, Err(fabric::FabricError::Header(_))) && copy == data);
        return;
    };
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    let Ok(repr) = fabric::Repr::parse(&view) else { return };
    both_ways!(repr.clone(), fabric::Frame<_>, fabric::Repr::parse, 0);
    match repr.forward.first() {
        _ if repr.kind == fabric::Kind::Tree => {
            assert!(advanced == Err(fabric::FabricError::Tree) && copy == data);
        }
        None => assert!(advanced == Err(fabric::FabricError::NoHop) && copy == data),
        Some(&hop) => {
            assert_eq!(advanced, Ok(fabric::Hop::new(hop)));
            let after = fabric::Frame::new_checked(&copy[..]).expect("processing keeps it sound");
            assert_eq!(after.payload(), view.payload());
            let after = fabric::Repr::parse(&after).expect("processing keeps it sound");
            assert_eq!((after.kind, &after.forward[..]), (repr.kind, &repr.forward[1..]));
            assert_eq!(after.reverse[..], [&[7][..], &repr.reverse[..]].concat());
        }
    }
}

/// [`plexus_wire::dhcpv4`].
pub fn dhcpv4(data: &[u8]) {
    let Ok(view) = dhcpv4::Packet::new_checked(data) else { return };
    black_box((view.chaddr(), view.is_request()));
    let Ok(repr) = dhcpv4::Repr::parse(&view) else { return };
    let held: usize = repr.options.iter().map(|o| o.data.len()).sum();
    assert!(held <= data.len(), "no more is kept than the message holds");
    both_ways!(repr, dhcpv4::Packet<_>, dhcpv4::Repr::parse, 0);
}

/// [`plexus_wire::flow`].
pub fn flow(data: &[u8]) {
    let Some(key) = FlowKey::from_frame(data) else { return };
    assert_eq!(key.reversed().reversed(), key);
    assert_eq!(key.src.is_ipv4(), key.dst.is_ipv4());
    assert_eq!(FlowKey::from_frame(data).map(|k| k.hash(1)), Some(key.hash(1)));
    black_box(key.to_string());
}

/// [`plexus_wire::partial`]: the checksum lies in the frame, behind the network header.
pub fn owed_checksum(data: &[u8]) {
    let Some(owed) = partial::find(data) else { return };
    assert!(usize::from(owed.start) >= ethernet::HEADER_LEN + ipv4::HEADER_LEN);
    assert!(usize::from(owed.start + owed.offset) + 2 <= data.len());
}

/// [`plexus_wire::describe`]: always one line.
pub fn description(data: &[u8]) {
    let text = describe(data).to_string();
    assert!(!text.is_empty() && !text.contains('\n'));
}

/// [`plexus_wire::MacAddr`] from text.
pub fn mac(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(mac) = text.parse::<MacAddr>() else { return };
    assert_eq!(mac.to_string().parse(), Ok(mac));
    assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
}

/// [`plexus_wire::checksum`]: the first four bytes are an update of the next words.
pub fn sums(data: &[u8]) {
    let [a, b, c, d, rest @ ..] = data else { return };
    let (old, new) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    let mut bytes = vec![0x45, 0, *a, *b];
    bytes.extend(rest);
    let before = checksum::checksum(&bytes);
    bytes[2..4].copy_from_slice(&new.to_be_bytes());
    assert_eq!(checksum::update(before, old, new), checksum::checksum(&bytes));
}

/// [`plexus_traffic::Probe`], and the way to it through a frame.
pub fn probe(data: &[u8]) {
    if let Some(probe) = find_probe(data, PROBE_UDP_PORT) {
        let bytes = probe.to_bytes();
        assert!(data.windows(PROBE_LEN).any(|w| w == bytes), "it is not in the frame");
    }
    let Some(probe) = Probe::decode(data) else { return };
    assert_eq!(probe.to_bytes()[..], data[..PROBE_LEN], "a probe has one encoding");
    let mut copy = data.to_vec();
    copy[..PROBE_LEN].fill(0xEE);
    assert!(probe.encode(&mut copy));
    assert_eq!(copy, data);
    assert_eq!(probe.latency_ns(plexus_wire::Time::from_nanos(probe.time_ns)), Some(0));
    assert!(!probe.encode(&mut copy[..PROBE_LEN - 1]));
}
