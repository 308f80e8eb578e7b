//! Routes of every kind, and their changes.

use plexus_io::netlink::{KernelRoute, RouteKey, TABLE_LOCAL};

use crate::net::{Table, hop, in_namespace, ip, prefix, two_devices, via, watching};

#[test]
fn routes_of_every_kind_are_told_when_they_come_and_by_a_dump() {
    in_namespace("kinds", || {
        let [va, vb] = two_devices();
        let (mut watcher, mut table) = watching();
        ip("route add 10.1.0.0/16 via 10.0.0.2");
        ip("route add 10.2.0.0/16 dev vb scope link");
        ip("route add 10.3.0.0/16 via 192.0.2.7 dev va onlink");
        ip("route add 10.4.0.0/16 via inet6 2001:db8:1::2 dev vb");
        ip("route add 10.5.0.0/16 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.1.2");
        for kind in ["blackhole", "unreachable", "prohibit", "throw"] {
            ip(&format!("route add {kind} 10.6.{}.0/24", kind.len()));
            ip(&format!("-6 route add {kind} 2001:db8:6:{}::/64", kind.len()));
        }
        ip("-6 route add 2001:db8:100::/48 via 2001:db8:0::2");
        ip("-6 route add default via 2001:db8:1::9 metric 7");
        ip("route add 10.7.0.0/16 via 10.0.0.2 table 100");
        ip("route add 10.8.0.0/16 via 10.0.0.2 tos 4");
        ip("route add 10.9.0.0/16 encap ip id 7 dst 192.0.2.1 via 10.0.0.2");
        table.update(&mut watcher);
        for table in [&table, &Table::fresh()] {
            let route = |text: &str| table.route(text).cloned();
            assert_eq!(route("10.0.0.0/24"), via(&[hop(va, "")]));
            assert_eq!(route("2001:db8:1::/64"), via(&[hop(vb, "")]));
            assert_eq!(route("10.1.0.0/16"), via(&[hop(va, "10.0.0.2")]));
            assert_eq!(route("10.2.0.0/16"), via(&[hop(vb, "")]));
            let on_link = plexus_io::netlink::Hop { on_link: true, ..hop(va, "192.0.2.7") };
            assert_eq!(route("10.3.0.0/16"), via(&[on_link]));
            assert_eq!(route("10.4.0.0/16"), via(&[hop(vb, "2001:db8:1::2")]));
            let heavy = plexus_io::netlink::Hop { weight: 3, ..hop(va, "10.0.0.2") };
            assert_eq!(route("10.5.0.0/16"), via(&[heavy, hop(vb, "10.0.1.2")]));
            for (len, kind) in [
                (9, KernelRoute::Blackhole),
                (11, KernelRoute::Unreachable),
                (8, KernelRoute::Prohibited),
                (5, KernelRoute::Unreachable),
            ] {
                assert_eq!(route(&format!("10.6.{len}.0/24")).as_ref(), Some(&kind));
                assert_eq!(route(&format!("2001:db8:6:{len}::/64")).as_ref(), Some(&kind));
            }
            assert_eq!(route("2001:db8:100::/48"), via(&[hop(va, "2001:db8::2")]));
            assert_eq!(route("::/0"), via(&[hop(vb, "2001:db8:1::9")]));
            assert_eq!(route("10.7.0.0/16"), None, "another table");
            assert_eq!(route("10.8.0.0/16"), None, "one type of service");
            assert_eq!(route("10.9.0.0/16"), Some(KernelRoute::Encapsulated));
            let local = |address, metric| {
                let key = RouteKey { prefix: prefix(address), table: TABLE_LOCAL, metric };
                table.routes.get(&key).map(|(route, _)| route.clone())
            };
            assert_eq!(local("10.0.0.1/32", 0), Some(KernelRoute::Local));
            assert_eq!(local("10.0.0.255/32", 0), Some(KernelRoute::Broadcast));
            assert_eq!(local("2001:db8:1::1/128", 0), Some(KernelRoute::Local));
            assert!(table.addresses.contains(&(va, "2001:db8::1".parse().unwrap(), 64)));
            assert!(table.addresses.contains(&(vb, "10.0.1.1".parse().unwrap(), 24)));
            assert_eq!(table.devices[&va], ("va".to_string(), true));
        }
        table.assert_is_the_kernels();
        ip("route del 10.5.0.0/16");
        ip("-6 route del 2001:db8:100::/48");
        table.update(&mut watcher);
        assert_eq!(table.route("10.5.0.0/16"), None);
        assert_eq!(table.resyncs, 1);
        table.assert_is_the_kernels();
    });
}

#[test]
fn an_ipv6_route_by_several_hops_loses_and_gains_them_one_by_one() {
    in_namespace("several", || {
        let [va, vb] = two_devices();
        ip("-6 route add 2001:db8:100::/48 nexthop via 2001:db8:0::2 nexthop via 2001:db8:1::2");
        let (mut watcher, mut table) = watching();
        let mut told = |command: &str| {
            ip(command);
            table.update(&mut watcher);
            table.assert_is_the_kernels();
            assert_eq!(table.resyncs, 1, "no need to ask again");
            table.route("2001:db8:100::/48").cloned()
        };
        let [a, b, c] = [hop(va, "2001:db8::2"), hop(vb, "2001:db8:1::2"), hop(va, "2001:db8::3")];
        let three = told("-6 route append 2001:db8:100::/48 via 2001:db8:0::3");
        assert_eq!(three, via(&[a, c, b]));
        assert_eq!(told("-6 route del 2001:db8:100::/48 via 2001:db8:0::2"), via(&[c, b]));
        assert_eq!(told("-6 route del 2001:db8:100::/48 via 2001:db8:1::2"), via(&[c]));
        assert_eq!(told("-6 route del 2001:db8:100::/48 via 2001:db8:0::3"), None);
        let several = "2001:db8:100::/48 nexthop via 2001:db8:0::2 nexthop via 2001:db8:1::2";
        assert_eq!(told(&format!("-6 route add {several}")), via(&[a, b]));
        let one = told("-6 route replace 2001:db8:100::/48 via 2001:db8:0::3");
        assert_eq!(one, via(&[c]));
        assert_eq!(told(&format!("-6 route replace {several}")), via(&[a, b]));
        assert_eq!(told("-6 route del 2001:db8:100::/48"), None);
    });
}
