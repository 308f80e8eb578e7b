use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::error::Format;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn ip4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn ips() -> Ips {
    Ips::new(ip4(1), ip4(2)).unwrap()
}

fn entry() -> RouteEntry {
    RouteEntry {
        port: 3,
        source: Some(A),
        destination: B,
        version: 7,
        routes: vec![vec![1, 2, 4], vec![2, 4]],
    }
}

/// One body of every kind.
fn samples() -> Vec<Body> {
    vec![
        Heartbeat { epoch: 3, controller: 9, path: Some(vec![1, 2, 0xFF]) }.into(),
        Heartbeat { epoch: 0, controller: 0, path: None }.into(),
        Ack {}.into(),
        Goodbye {}.into(),
        ControllerHello {
            generation: 5,
            page: 0,
            pages: 1,
            ports: vec![PortState {
                port: 1,
                role: PortRole::Fabric,
                mac: A,
                mtu: 2000,
                rate_mbit_per_s: 1000,
                peer: 77,
                peer_port: 2,
            }],
        }
        .into(),
        Welcome {
            epoch: 3,
            generation: 5,
            page: 0,
            report: true,
            group_mac: B,
            gateways: vec![Gateway { ip: ip4(1), prefix_len: 24, daemons: true, mtu: 1500 }],
        }
        .into(),
        HostReport { more: 1, hosts: vec![HostState { port: 1, mac: A, ips: vec![ip4(1)] }] }
            .into(),
        FlowReport { more: 0, flows: vec![entry()] }.into(),
        ResolveRequest {
            exchange: 1,
            key: [7; 32],
            port: 2,
            source_mac: A,
            source_ip: ip4(1),
            target_ip: "fd00::2".parse().unwrap(),
        }
        .into(),
        ResolveForward {
            exchange: 1,
            key: [7; 32],
            version: 8,
            source_mac: A,
            source_ip: ip4(1),
            target_mac: B,
            target_ip: ip4(2),
            target_port: 4,
            to_source: vec![vec![1, 2]],
            to_target: vec![vec![2, 1]],
        }
        .into(),
        ResolveReply { version: 8, target_mac: B, target_ip: ip4(2), to_target: vec![vec![2, 1]] }
            .into(),
        ShortRequest { secret: [7; 16], port: 2, source_mac: None, ips: ips() }.into(),
        ShortForward {
            secret: [7; 16],
            version: Number(1 << 32 | 8),
            source_mac: A,
            target_mac: B,
            ips: ips(),
            to_source: Routes::new(vec![vec![10, 13, 2]]).unwrap(),
            to_target: Routes::new(vec![vec![2, 1], vec![3, 1]]).unwrap(),
            recorded: 1,
        }
        .into(),
        ShortReply {
            target_mac: B,
            target_port: 1,
            recorded: 1,
            to_target: Routes::new(vec![vec![3, 1]]).unwrap(),
        }
        .into(),
        ResolveFailed { exchange: 1, reason: Refusal::Silent }.into(),
        RouteUpdate { routes: vec![entry(), RouteEntry { routes: vec![], ..entry() }] }.into(),
        HostSeen { port: 1, mac: A, ip: Some(ip4(1)) }.into(),
        HostVerdict { port: 1, mac: A, ip: None, refused: Some(Refusal::Claimed) }.into(),
        HostGone { port: 1, mac: A }.into(),
        HostProbe { exchange: 4, port: 1, mac: A, ip: ip4(1) }.into(),
        HostProbeReply { exchange: 4, alive: false }.into(),
        HostFrame { port: 1, frame: vec![1, 2, 3] }.into(),
        HostSend { port: 1, frame: vec![] }.into(),
        PortBlock { port: 1, reason: Some(Refusal::Scanning) }.into(),
        Invalidate { destination: A, source: B }.into(),
        TreeUpdate {
            earlier: true,
            add: vec![TreeEntry { tree: 7, ports: vec![0, 254] }],
            remove: vec![6],
        }
        .into(),
        TreesReady { trees: vec![7, u32::MAX] }.into(),
        GroupRoutes { routes: vec![way(Some(7)), way(None)] }.into(),
        GroupMembership { port: 1, mac: A, version: 3, groups: vec!["ff05::7".parse().unwrap()] }
            .into(),
        GroupSender { port: 1, mac: A, group: "239.1.2.3".parse().unwrap(), tree: Some(7) }.into(),
        GroupPolicy {
            version: 1,
            prefixes: vec![GroupPrefix { ip: ip4(0), prefix_len: 24, joined: true }],
        }
        .into(),
        NumberTaken { key: [9; 32] }.into(),
        FibUpdate {
            table: 1,
            from: 4,
            to: 9,
            made_at: 9,
            sum: Some(3),
            changes: vec![6, 0, 0, 0, 1],
        }
        .into(),
        FibAck { table: 1, question: 2, version: 9, wrong: false }.into(),
        Forwarders {
            version: 5,
            paths: vec![vec![1, 0xFE], vec![]],
            places: vec![1, 1],
            copies: 1,
        }
        .into(),
        Way {
            exchange: 4,
            version: 9,
            source_ip: ip4(1),
            target_mac: B,
            to_target: vec![vec![1, 2]],
            to_source: vec![vec![1, 3], vec![2, 3]],
        }
        .into(),
        Load { routed: 1_000_000, busy: 750 }.into(),
        Names { prefixes: vec![NamePrefix { uri: b"/a/b".to_vec() }], more: 2 }.into(),
        Watch { seconds: 10 }.into(),
        CommonOffer { version: 7, piece: 0, pieces: 2, text: b"[switch]".to_vec() }.into(),
        CommonOrder { version: 7, verb: CommonVerb::Try, seconds: 120 }.into(),
        CommonState {
            kept: 6,
            version: 7,
            fate: CommonFate::Refused,
            left_s: 0,
            why: b"no port".to_vec(),
        }
        .into(),
        Explain { question: 7, port: 3, frame: vec![2, 0, 0, 0, 0, 1] }.into(),
        Explained {
            question: 7,
            port_name: b"eth3".to_vec(),
            steps: Step::write_all(&[Step::FromHost { admitted: true }]),
            leaves: vec![Leaving {
                port: 1,
                port_name: b"eth1".to_vec(),
                head: vec![0, 8],
                from: 0,
            }],
            more: 0,
        }
        .into(),
        Revoked { version: 3, part: 0, parts: 1, keys: vec![[9; 32]] }.into(),
        Standbys {
            version: 5,
            standbys: vec![Standby { controller: 9, answers: true, path: vec![1, 2, 255] }],
        }
        .into(),
        Counters {
            time_ms: 1500,
            last: true,
            ports: vec![PortCount {
                port: 2,
                rx_packets: 10,
                rx_bytes: 1000,
                tx_packets: 20,
                tx_bytes: 2000,
            }],
            drops: vec![DropCount { reason: b"no_route".to_vec(), packets: 7 }],
            named: Some(NamedCount { hits: 9, misses: 1, packets: 100, pending: 3 }),
        }
        .into(),
        Classes {
            version: 7,
            classes: vec![Class {
                protocol: Some(6),
                from: None,
                to: Some(Network { ip: ip4(0), prefix_len: 24 }),
                port_first: 80,
                port_last: 89,
                both_ways: true,
                required: false,
                functions: vec![
                    Function { ip: ip4(1), mac: Some(A), unheard: false },
                    Function { ip: ip4(2), mac: None, unheard: true },
                ],
            }],
        }
        .into(),
    ]
}

fn way(tree: Option<u32>) -> GroupRoute {
    GroupRoute { port: 1, source: A, group: B, version: 9, tree, credits: 2 }
}

#[test]
fn every_body_reads_back_and_no_cut_of_it_does() {
    for body in samples() {
        let bytes = body.to_bytes(0x0102_0304);
        let request = if body.kind() < SHORT_KINDS { 0x0102_0304 } else { 0 };
        assert_eq!(Body::parse(&bytes), Ok((request, body.clone())));
        for len in 0..bytes.len() {
            assert!(Body::parse(&bytes[..len]).is_err(), "{} cut to {len}", body.name());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Body::parse(&longer).is_err(), "{} with a byte more", body.name());
    }
}

#[test]
fn kinds_are_distinct_and_all_sampled() {
    let kinds: std::collections::BTreeSet<u8> = samples().iter().map(Body::kind).collect();
    let known = (0..=u8::MAX).filter(|&kind| {
        let unknown = Error::invalid(Format::FabricMessage, "kind", kind.into());
        Body::parse(&[kind, 0, 0, 0, 0]) != Err(unknown)
    });
    assert_eq!(kinds, known.collect());
}

#[test]
fn a_count_beyond_the_bytes_is_refused_before_it_is_believed() {
    let mut bytes = Body::from(RouteUpdate { routes: vec![] }).to_bytes(0);
    let at = bytes.len() - 2;
    bytes[at..].fill(0xFF);
    assert!(Body::parse(&bytes).unwrap_err().is_truncated());
}

#[test]
fn link_facts_read_back_whatever_follows_them() {
    let facts = LinkFacts {
        port: 3,
        mac: A,
        mtu: 2000,
        rate_mbit_per_s: 100,
        native: true,
        takes_owed: true,
    };
    let bytes = facts.to_bytes();
    assert_eq!(LinkFacts::parse(&bytes), Ok(facts));
    assert_eq!(LinkFacts::parse(&[&bytes[..], &[1, 2]].concat()), Ok(facts));
    let of_earlier = &bytes[..bytes.len() - 1];
    assert_eq!(LinkFacts::parse(of_earlier), Ok(LinkFacts { takes_owed: false, ..facts }));
    for len in 0..of_earlier.len() {
        assert!(LinkFacts::parse(&bytes[..len]).is_err());
    }
}

/// One step of every kind.
fn steps() -> Vec<Step> {
    vec![
        Step::Vlan { vlan: 10, tagged: true },
        Step::FromHost { admitted: true },
        Step::FromNode {},
        Step::FromController {},
        Step::Unproved {},
        Step::Station { port: 300 },
        Step::Unknown {},
        Step::Flooded {},
        Step::Routes { count: 2, chosen: Some(1), by: Choice::Flow },
        Step::NoRoutes {},
        Step::Pushed { hops: vec![2, 3] },
        Step::Hop { hop: 2, left: 1 },
        Step::Stripped {},
        Step::Tree { tree: 7, ports: vec![1, 2] },
        Step::ToRouter {},
        Step::Lookup {
            address: ip4(1),
            prefix_len: Some(24),
            target: Target::Forward,
            next_hops: 2,
        },
        Step::NextHop { mac: B, vlan: 0 },
        Step::Ttl { from: 64, to: 63 },
        Step::Kernel {},
        Step::Limit { of: Limited::Broadcast, most: 100 },
        Step::Function { mac: A },
        Step::Fragments { mtu: 1280 },
        Step::Handed { to: Handed::Host },
        Step::Dropped { port: 3, reason: b"no_route".to_vec() },
    ]
}

#[test]
fn steps_of_an_explanation_read_back_and_unknown_ones_are_refused() {
    let bytes = Step::write_all(&steps());
    assert_eq!(Step::read_all(&bytes), Ok(steps()));
    assert_eq!(steps().len(), Step::KINDS.len());
    for (step, (code, ..)) in steps().into_iter().zip(Step::KINDS) {
        let bytes = Step::write_all(&[step]);
        assert_eq!(bytes[0], *code);
        for len in 1..bytes.len() {
            assert!(Step::read_all(&bytes[..len]).unwrap_err().is_truncated());
        }
    }
    assert!(Step::read_all(&[0]).is_err() && Step::read_all(&[99]).is_err());
}

proptest! {
    /// The encoding is the only one of its meaning: whatever is accepted is written back the same.
    #[test]
    fn accepted_bytes_are_canonical(
        which in 0..samples().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = samples()[which].to_bytes(1);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok((request, body)) = Body::parse(&bytes) {
            prop_assert_eq!(body.to_bytes(request), bytes);
        }
    }

    #[test]
    fn any_bytes_are_judged_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((request, body)) = Body::parse(&bytes) {
            prop_assert_eq!(body.to_bytes(request), bytes);
        }
    }
}
