//! Changes that the kernel reports partly, or not at all.

use plexus_io::netlink::{KernelRoute, RouteKey, TABLE_MAIN};

use crate::net::{hop, in_namespace, ip, prefix, two_devices, via, watching};

#[test]
fn a_device_set_down_takes_its_routes_along_and_up_again_brings_hops_back() {
    in_namespace("down", || {
        let [va, vb] = two_devices();
        ip("route add 10.1.0.0/16 via 10.0.0.2");
        ip("route add 10.2.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
        ip("-6 route add 2001:db8:100::/48 via 2001:db8:0::2");
        ip("-6 route add 2001:db8:200::/48 nexthop via 2001:db8:0::2 nexthop via 2001:db8:1::2");
        let (mut watcher, mut table) = watching();
        ip("link set va down");
        table.update(&mut watcher);
        assert_eq!(table.devices[&va], ("va".into(), false));
        assert_eq!(table.route("10.0.0.0/24"), None);
        assert_eq!(table.route("10.1.0.0/16"), None);
        assert_eq!(table.route("2001:db8:100::/48"), None);
        let both = via(&[hop(va, "10.0.0.2"), hop(vb, "10.0.1.2")]);
        assert_eq!(table.route("10.2.0.0/16"), both.as_ref(), "one hop's device is not up");
        table.assert_is_the_kernels();

        ip("link set va up");
        table.until(&mut watcher, |table| table.devices[&va].1);
        assert_eq!(table.devices[&va], ("va".into(), true));
        assert_eq!(table.route("10.1.0.0/16"), None);
        assert_eq!(table.route("10.0.0.0/24"), via(&[hop(va, "")]).as_ref());
        assert_eq!(table.route("10.2.0.0/16"), both.as_ref());
        table.assert_is_the_kernels();

        ip("link del vb");
        table.update(&mut watcher);
        assert!(!table.devices.contains_key(&vb));
        assert_eq!(table.route("10.2.0.0/16"), None, "the kernel takes all of it");
        assert_eq!(table.route("2001:db8:1::/64"), None);
        assert!(table.addresses.iter().all(|(device, ..)| *device != vb));
        table.assert_is_the_kernels();
    });
}

#[test]
fn a_cable_pulled_out_is_told_of_the_device_alone() {
    in_namespace("carrier", || {
        let [va, _] = two_devices();
        ip("route add 10.1.0.0/16 via 10.0.0.2");
        let (mut watcher, mut table) = watching();
        ip("link set va.px down");
        table.until(&mut watcher, |table| !table.devices[&va].1);
        assert_eq!(table.devices[&va], ("va".into(), false));
        assert!(table.route("10.1.0.0/16").is_some(), "the kernel keeps it");
        ip("link set va.px up");
        table.until(&mut watcher, |table| table.devices[&va].1);
        assert_eq!(table.devices[&va], ("va".into(), true));
        table.assert_is_the_kernels();
    });
}

#[test]
fn an_ipv4_address_removed_takes_along_what_preferred_it() {
    in_namespace("source", || {
        two_devices();
        ip("addr add 10.0.0.5/32 dev va");
        ip("route add 10.1.0.0/16 via 10.0.0.2 src 10.0.0.5");
        let (mut watcher, mut table) = watching();
        assert!(table.route("10.1.0.0/16").is_some());
        ip("addr del 10.0.0.5/32 dev va");
        table.update(&mut watcher);
        assert_eq!(table.route("10.1.0.0/16"), None);
        table.assert_is_the_kernels();
    });
}

#[test]
fn unused_objects_change_without_route_events() {
    in_namespace("others", || {
        let [va, _] = two_devices();
        let (mut watcher, mut table) = watching();
        ip("link add other type veth peer name other.px");
        ip("link set other up");
        ip("link set other.px up");
        ip("link set other down");
        ip("link del other");
        table.update(&mut watcher);
        table.assert_is_the_kernels();
        assert_eq!(table.resyncs, 1);

        // Nor does what routes go by have everything named without a rest.
        let hour = std::time::Duration::from_secs(3600);
        watcher = plexus_io::netlink::Watcher::open().unwrap().with_rest(hour);
        table.update(&mut watcher);
        assert_eq!((table.resyncs, watcher.wakes_in()), (2, None));
        ip("link set va down");
        table.update(&mut watcher);
        assert_eq!((table.resyncs, &table.devices[&va]), (2, &("va".into(), false)));
        assert!(watcher.wakes_in().is_some_and(|wait| !wait.is_zero() && wait <= hour));
        watcher = watcher.with_rest(std::time::Duration::ZERO);
        table.update(&mut watcher);
        table.assert_is_the_kernels();
    });
}

#[test]
fn addresses_of_links_between_two_and_without_a_subnet_leave_it_to_routes() {
    in_namespace("far ends", || {
        let [va, _] = two_devices();
        let (mut watcher, mut table) = watching();
        ip("addr add 10.9.0.1 peer 10.9.9.0/24 dev va");
        ip("addr add 10.8.0.1/24 dev va noprefixroute");
        ip("-6 addr add 2001:db8:8::1/64 dev va nodad noprefixroute");
        ip("-6 addr add 2001:db8:9::1 peer 2001:db8:9::2 dev va nodad");
        // The kernel reports IPv6 addresses a moment later, from another thread.
        table.until(&mut watcher, |table| {
            ["10.9.0.1/32", "10.8.0.1/32", "2001:db8:8::1/128", "2001:db8:9::1/128"]
                .iter()
                .all(|text| table.addresses.contains(&(va, prefix(text).0, prefix(text).1)))
        });
        let link = via(&[hop(va, "")]);
        assert_eq!(table.route("10.9.9.0/24"), link.as_ref());
        assert_eq!(table.route("2001:db8:9::2/128"), link.as_ref());
        assert_eq!((table.route("10.8.0.0/24"), table.route("2001:db8:8::/64")), (None, None));
        table.assert_is_the_kernels();
        ip("addr del 10.9.0.1 peer 10.9.9.0/24 dev va");
        ip("-6 addr change 2001:db8:8::1/64 dev va");
        table.update(&mut watcher);
        assert_eq!(table.route("10.9.9.0/24"), None);
        assert_eq!(table.route("2001:db8:8::/64"), link.as_ref());
        table.assert_is_the_kernels();
    });
}

#[test]
fn the_first_of_several_entries_with_one_key_wins() {
    in_namespace("shared", || {
        let [va, vb] = two_devices();
        let (mut watcher, mut table) = watching();
        let mut told = |command: &str| {
            ip(command);
            table.update(&mut watcher);
            table.assert_is_the_kernels();
            table.route("10.1.0.0/16").cloned()
        };
        let first = via(&[hop(va, "10.0.0.2")]);
        assert_eq!(told("route add 10.1.0.0/16 via 10.0.0.2"), first);
        assert_eq!(told("route append 10.1.0.0/16 via 10.0.1.2"), first);
        let front = via(&[hop(va, "10.0.0.9")]);
        assert_eq!(told("route prepend 10.1.0.0/16 via 10.0.0.9"), front);
        assert_eq!(told("route del 10.1.0.0/16 via 10.0.0.2"), front);
        assert_eq!(told("route del 10.1.0.0/16 via 10.0.0.9"), via(&[hop(vb, "10.0.1.2")]));
        let replaced = via(&[hop(vb, "10.0.1.7")]);
        assert_eq!(told("route replace 10.1.0.0/16 via 10.0.1.7"), replaced);
        assert_eq!(told("route add 10.1.0.0/16 via 10.0.0.2 metric 9"), replaced);
        assert_eq!(told("route del 10.1.0.0/16 metric 0"), first);

        // One subnet on two devices.
        ip("addr add 2001:db8:7::1/64 dev va nodad");
        ip("addr add 2001:db8:7::2/64 dev vb nodad");
        ip("addr add 10.7.0.1/24 dev va");
        ip("addr add 10.7.0.2/24 dev vb");
        table.until(&mut watcher, |table| {
            [(va, "2001:db8:7::1/64"), (vb, "2001:db8:7::2/64")]
                .iter()
                .all(|(at, text)| table.addresses.contains(&(*at, prefix(text).0, prefix(text).1)))
        });
        table.assert_is_the_kernels();
        ip("addr del 2001:db8:7::1/64 dev va");
        ip("addr del 10.7.0.1/24 dev va");
        table.update(&mut watcher);
        assert_eq!(table.route("2001:db8:7::/64"), via(&[hop(vb, "")]).as_ref());
        assert_eq!(table.route("10.7.0.0/24"), via(&[hop(vb, "")]).as_ref());
        table.assert_is_the_kernels();
    });
}

#[test]
fn routes_by_next_hop_objects_follow_the_objects() {
    // With 0 the kernel names only the object, and reports no route when the object changes.
    for compatible in ["1", "0"] {
        let name = if compatible == "1" { "written out" } else { "named only" };
        in_namespace(name, move || {
            let [va, vb] = two_devices();
            std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", compatible).unwrap();
            let (mut watcher, mut table) = watching();
            ip("nexthop add id 1 via 10.0.0.2 dev va");
            ip("nexthop add id 2 via 10.0.1.2 dev vb");
            ip("nexthop add id 3 via 2001:db8:1::2 dev vb");
            ip("nexthop add id 4 blackhole");
            ip("nexthop add id 10 group 1/2,3");
            ip("nexthop add id 11 group 3");
            ip("route add 10.1.0.0/16 nhid 10");
            ip("route add 10.2.0.0/16 nhid 1");
            ip("route add 10.3.0.0/16 nhid 3");
            ip("route add 10.4.0.0/16 nhid 4");
            ip("-6 route add 2001:db8:100::/48 nhid 11");
            table.update(&mut watcher);
            let a = hop(va, "10.0.0.2");
            let heavy = |hop| plexus_io::netlink::Hop { weight: 3, ..hop };
            let six = hop(vb, "2001:db8:1::2");
            assert_eq!(table.route("10.1.0.0/16"), via(&[a, heavy(hop(vb, "10.0.1.2"))]).as_ref());
            assert_eq!(table.route("10.3.0.0/16"), via(&[six]).as_ref());
            assert_eq!(table.route("10.4.0.0/16"), Some(&KernelRoute::Blackhole));
            assert_eq!(table.route("2001:db8:100::/48"), via(&[six]).as_ref());
            table.assert_is_the_kernels();
            let key = RouteKey { prefix: prefix("10.1.0.0/16"), table: TABLE_MAIN, metric: 0 };
            assert_eq!(table.routes[&key].1, 10, "the object is told");

            ip("nexthop replace id 2 via 10.0.1.7 dev vb");
            table.update(&mut watcher);
            assert_eq!(table.route("10.1.0.0/16"), via(&[a, heavy(hop(vb, "10.0.1.7"))]).as_ref());
            table.assert_is_the_kernels();

            ip("nexthop del id 1");
            table.update(&mut watcher);
            assert_eq!(table.route("10.1.0.0/16"), via(&[heavy(hop(vb, "10.0.1.7"))]).as_ref());
            assert_eq!(table.route("10.2.0.0/16"), None);
            table.assert_is_the_kernels();

            ip("nexthop del id 3");
            table.update(&mut watcher);
            assert_eq!(table.route("10.3.0.0/16"), None);
            assert_eq!(table.route("2001:db8:100::/48"), None, "its group is empty");
            table.assert_is_the_kernels();
            assert_eq!(table.resyncs, 1, "no need to ask again");

            // Objects are removed with their device's carrier, which the kernel does not report.
            ip("link set vb.px down");
            table.until(&mut watcher, |table| table.route("10.1.0.0/16").is_none());
            table.assert_is_the_kernels();
        });
    }
}
