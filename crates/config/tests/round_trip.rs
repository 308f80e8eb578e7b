//! A written node file reads back equal.

use std::net::SocketAddr;
use std::time::Duration;

use plexus_config::{
    Backend, DeepBufferSettings, Detector, FabricFile, FaultSettings, NodeFile, PortFile,
    PortSettings, PortUse, QueueOrder, QueueSettings, StaticMac, StormSettings, Suspects, Trust,
    Tunnel, VlanMode,
};
use plexus_wire::MacAddr;
use proptest::option::of;
use proptest::prelude::*;

fn vlan() -> impl Strategy<Value = VlanMode> {
    let trunk = (proptest::collection::btree_set(1..=4094_u16, 0..8), of(1..=4094_u16));
    prop_oneof![
        (1..=4094_u16).prop_map(VlanMode::Access),
        trunk.prop_map(|(bounds, native)| {
            // Sorted bounds taken in pairs never overlap.
            let bounds: Vec<u16> = bounds.into_iter().collect();
            let allowed = bounds.chunks(2).map(|c| (c[0], c[c.len() - 1])).collect();
            VlanMode::Trunk { allowed, native }
        }),
    ]
}

fn settings() -> impl Strategy<Value = PortSettings> {
    let order = (0..4_usize).prop_map(|i| QueueOrder::NAMES[i].1);
    let queue = (1..u32::MAX, 1518..u32::MAX, any::<bool>(), order);
    let storm = [of(any::<u32>()), of(any::<u32>()), of(any::<u32>())];
    let trust = prop_oneof![Just(Trust::None), Just(Trust::Pcp), Just(Trust::Dscp)];
    let rest = (of(1..u32::MAX), any::<bool>(), trust, 0..8_u8);
    (vlan(), of(1..u64::MAX), queue, storm, rest).prop_map(|(vlan, rate, queue, storm, rest)| {
        PortSettings {
            vlan,
            rate_bits_per_s: rate,
            queue: QueueSettings {
                order: queue.3,
                packets: queue.0,
                bytes: if queue.3 == QueueOrder::Deep { 1 << 20 } else { queue.1 },
                ecn_bytes: (queue.2 && queue.3 != QueueOrder::Deep).then_some(queue.1 / 3),
            },
            storm: StormSettings {
                broadcast_pps: storm[0],
                multicast_pps: storm[1],
                unknown_pps: storm[2],
            },
            mac_limit: rest.0,
            learning: rest.1,
            trust: rest.2,
            priority: rest.3,
        }
    })
}

fn faults() -> impl Strategy<Value = FaultSettings> {
    let chance = 0.0..=1.0_f64;
    ([chance.clone(), chance.clone(), chance.clone(), chance], any::<[u32; 2]>(), of(1..u64::MAX))
        .prop_map(|([drop, duplicate, reorder, corrupt], [delay, jitter], rate)| FaultSettings {
            drop,
            duplicate,
            reorder,
            corrupt,
            delay: Duration::from_nanos(delay.into()),
            jitter: Duration::from_nanos(jitter.into()),
            rate_bits_per_s: rate,
            seed: u64::from(delay) << 31,
        })
}

fn deep_buffer() -> impl Strategy<Value = DeepBufferSettings> {
    let suspects = (0..3_usize).prop_map(|i| Suspects::NAMES[i].1);
    let detector = (0..2_usize).prop_map(|i| Detector::NAMES[i].1);
    let sizes = [0..=1_u64 << 30, 0..=1_u64 << 30];
    (sizes, suspects, 1..u64::MAX, detector, 20..3000_u64).prop_map(
        |([bytes, long_after], suspects, shape_bits_per_s, detector, rto_ms)| DeepBufferSettings {
            bytes,
            long_after,
            suspects,
            shape_bits_per_s,
            detector,
            rto_min: Duration::from_millis(rto_ms),
            chip: None,
        },
    )
}

fn tunnel() -> impl Strategy<Value = [SocketAddr; 2]> {
    let port = || prop_oneof![Just(18_773), 1..0xC000_u16];
    let end = |last, v6: bool, port| match v6 {
        true => SocketAddr::new([0x2001, 0xDB8, 0, 0, 0, 0, 0, last].into(), port),
        false => SocketAddr::new([192, 0, 2, last as u8].into(), port),
    };
    (any::<bool>(), port(), port()).prop_map(move |(v6, a, b)| [end(1, v6, a), end(2, v6, b)])
}

proptest! {
    #[test]
    fn a_written_file_reads_back_equal(
        ports in proptest::collection::vec((settings(), of(faults()), 0..4_usize), 0..5),
        control in of("/[a-z\"\\\\é\t ]{1,20}"), metrics in of(any::<u16>()),
        tunnel in of(tunnel()), (ageing_ms, table) in (1..1_000_000_000_u64, 1..=1_usize << 24),
        deep in deep_buffer())
    {
        let mut node = NodeFile::new("sw-1");
        node.workers = 4;
        node.backend = Backend::AfPacket;
        node.fast_table_persist = Some(Duration::from_millis(1000 + ageing_ms % 3_599_000));
        node.switch.ageing = Duration::from_millis(ageing_ms);
        node.switch.mac_table = table;
        node.switch.deep_buffer = deep;
        if let Some(control) = control {
            node.control = control.into();
        }
        node.metrics = metrics.map(|port| ([127, 0, 0, 1], port).into());
        for (i, (settings, faults, worker)) in ports.into_iter().enumerate() {
            let vlan = match &settings.vlan {
                VlanMode::Access(vlan) => Some(*vlan),
                VlanMode::Trunk { native, .. } => *native,
            };
            let name = format!("p{i}");
            if let Some(vlan) = vlan {
                let mac = MacAddr([2, 0, 0, 0, 0, i as u8 + 1]);
                node.switch.static_macs.push(StaticMac { mac, vlan, port: name.clone() });
            }
            let port = PortFile { settings, faults, worker: Some(worker), ..PortFile::new(&name) };
            node.ports.push(PortFile { device: format!("eth{i}"), ..port });
        }
        if let Some([local, peer]) = tunnel {
            node.fabric = Some(FabricFile::new("/etc/plexus/n1.identity".into()));
            let (backend, tunnel) = (Some(Backend::Udp), Some(Tunnel { local, peer }));
            for ((_, role), port) in PortUse::NAMES.into_iter().zip(&mut node.ports) {
                port.role = role;
            }
            node.ports.push(PortFile { backend, tunnel, ..PortFile::new("wan") });
        }
        prop_assert_eq!(NodeFile::parse("written", &node.to_toml()), Ok(node));
    }
}
