//! More routes than fit into a message, a buffer or one step.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use plexus_io::netlink::{KernelEvent, KernelRoute, RouteKey, TABLE_MAIN, Watcher};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

use crate::net::{Table, hop, in_namespace, two_devices};

/// The nth route of a family: a /24 in 16.0.0.0/4, or a /48.
fn key(v6: bool, n: u32) -> RouteKey {
    let (address, len): (IpAddr, u8) = if v6 {
        let [.., a, b, c] = n.to_be_bytes();
        let segments = [0x2001, u16::from(a) + 0x4000, u16::from_be_bytes([b, c]), 0, 0, 0, 0, 0];
        (Ipv6Addr::from(segments).into(), 48)
    } else {
        (Ipv4Addr::from_bits(0x1000_0000 + (n << 8)).into(), 24)
    };
    RouteKey { prefix: (address, len), table: TABLE_MAIN, metric: 100 }
}

/// A route to be there instead of any other of its key, or not to be there.
type Change = (RouteKey, Option<KernelRoute>);

fn by_gateway(key: RouteKey, device: u32, host: u8) -> KernelRoute {
    let gateway = match key.prefix.0 {
        IpAddr::V4(_) => format!("10.0.0.{host}"),
        IpAddr::V6(_) => format!("2001:db8::{host}"),
    };
    KernelRoute::Via(vec![hop(device, &gateway)])
}

/// Has the kernel's table changed by one call of `ip`. Removing missing routes is refused, and
/// does not stop the rest.
fn write(changes: &[Change]) {
    let mut lines = String::new();
    for (key, route) in changes {
        let (address, len) = key.prefix;
        let (verb, to) = match route {
            None => ("del", String::new()),
            Some(KernelRoute::Blackhole) => ("replace blackhole", String::new()),
            Some(KernelRoute::Via(hops)) => {
                ("replace", format!("via {}", hops[0].gateway.unwrap()))
            }
            Some(other) => panic!("no test writes {other:?}"),
        };
        lines += &format!("route {verb} {address}/{len} {to} metric {} proto 186\n", key.metric);
    }
    let mut ip = Command::new("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    ip.wait().unwrap();
}

#[test]
fn a_hundred_thousand_routes_are_taken_over_in_small_steps() {
    in_namespace("takeover", || {
        let [va, _] = two_devices();
        let keys = (0..80_000).map(|n| key(false, n)).chain((0..20_000).map(|n| key(true, n)));
        let changes: Vec<_> = keys.map(|k| (k, Some(by_gateway(k, va, 2)))).collect();
        write(&changes);

        let mut watcher = Watcher::open().unwrap();
        let (mut table, mut events, mut most) = (Table::default(), Vec::new(), 0);
        loop {
            let more = watcher.next_events(&mut events).unwrap();
            most = most.max(events.len());
            table.take(&mut events);
            if !more {
                break;
            }
        }
        assert_eq!(table.resyncs, 1);
        assert!(most < 5_000, "a call gave {most} events at once");
        for (key, written) in &changes {
            let route = table.routes.remove(key).map(|(route, _)| route);
            assert_eq!(route, *written, "{key:?}");
        }
        assert!(table.routes.len() < 30, "no more than the devices' own: {:?}", table.routes);
    });
}

#[test]
fn changes_lost_while_nobody_read_are_made_good() {
    in_namespace("overflow", || {
        let [va, vb] = two_devices();
        let mut watcher = Watcher::with_buffer(4096).unwrap();
        let mut table = Table::default();
        table.update(&mut watcher);
        let keys: Vec<_> = (0..5_000).flat_map(|n| [key(false, n), key(true, n)]).collect();
        let add = keys.iter().map(|k| (*k, Some(by_gateway(*k, va, 2))));
        let remove = keys.iter().step_by(2).map(|k| (*k, None));
        let replace = keys.iter().skip(1).step_by(3).map(|k| {
            let route = KernelRoute::Blackhole;
            (*k, Some(if k.prefix.1 == 24 { route } else { by_gateway(*k, va, 9) }))
        });
        let changes: Vec<_> = add.chain(remove).chain(replace).collect();
        write(&changes);
        let mut events: Vec<KernelEvent> = Vec::new();
        while watcher.next_events(&mut events).unwrap() {}
        assert!(events.contains(&KernelEvent::ResyncBegin), "the buffer was too small");
        table.take(&mut events);
        assert_eq!(table.resyncs, 2);
        let mut wanted = std::collections::BTreeMap::new();
        for (key, route) in changes {
            match route {
                Some(route) => drop(wanted.insert(key, route)),
                None => drop(wanted.remove(&key)),
            }
        }
        let ours = table.routes.iter().filter(|(key, _)| key.metric == 100);
        let ours: std::collections::BTreeMap<_, _> =
            ours.map(|(key, (route, _))| (*key, route.clone())).collect();
        assert!(ours == wanted, "{} routes, not {}", ours.len(), wanted.len());
        // From here on it receives changes again.
        crate::net::ip("route add 10.9.0.0/16 via 10.0.1.2");
        table.update(&mut watcher);
        assert_eq!(table.route("10.9.0.0/16"), crate::net::via(&[hop(vb, "10.0.1.2")]).as_ref());
        table.assert_is_the_kernels();
    });
}

/// Dumps and changes cross: a dump's content may be older than an earlier message.
#[test]
fn changes_during_dumps_end_in_the_right_state() {
    in_namespace("churn", || {
        let [va, _] = two_devices();
        let keys: Vec<_> = (0..3_000).flat_map(|n| [key(false, n), key(true, n)]).collect();
        let stop = AtomicBool::new(false);
        let mut tables = Vec::new();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut random = Pcg64Mcg::new(7);
                while !stop.load(Ordering::Relaxed) {
                    let some = (0..500).map(|_| {
                        let key = keys[random.next_u32() as usize % keys.len()];
                        let host = 2 + (random.next_u32() % 3) as u8;
                        (key, (host != 4).then(|| by_gateway(key, va, host)))
                    });
                    write(&some.collect::<Vec<_>>());
                }
            });
            for _ in 0..30 {
                let mut watcher = Watcher::open().unwrap();
                let (mut table, mut events) = (Table::default(), Vec::new());
                while table.resyncs == 0 {
                    watcher.next_events(&mut events).unwrap();
                    table.take(&mut events);
                }
                tables.push((watcher, table));
            }
            stop.store(true, Ordering::Relaxed);
            writing.join().unwrap();
        });
        let fresh = Table::fresh();
        for (mut watcher, mut table) in tables {
            table.update(&mut watcher);
            let routes = (table.routes.len(), fresh.routes.len());
            let differ: Vec<_> = table
                .routes
                .iter()
                .filter(|(key, to)| fresh.routes.get(key) != Some(to))
                .chain(fresh.routes.iter().filter(|(key, _)| !table.routes.contains_key(key)))
                .collect();
            assert!(differ.is_empty(), "of {routes:?} routes differ {differ:?}");
        }
    });
}
