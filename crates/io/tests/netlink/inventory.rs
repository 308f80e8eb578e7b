//! The kernel's facts about its devices.

use plexus_io::netlink::{DeviceInfo, devices};

use crate::net::{in_namespace, ip, two_devices};

fn find(name: &str) -> DeviceInfo {
    let all = devices().unwrap();
    all.into_iter().find(|device| device.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_device_is_described_as_it_is() {
    in_namespace("inventory", || {
        let [index, _] = two_devices();
        ip("link set va mtu 1400 address 02:00:00:00:00:07");
        ip("link add br0 type bridge");
        ip("link set vb.px master br0");
        ip("link set vb down");
        ip("route add default via 10.0.0.9");
        let va = find("va");
        assert_eq!((va.index, va.mtu, va.is_up, va.has_carrier), (index, 1400, true, true));
        assert_eq!(va.mac.unwrap().to_string(), "02:00:00:00:00:07");
        assert!(va.mtu_max > Some(60_000), "{va:?}");
        assert!(va.addresses.contains(&("10.0.0.1".parse().unwrap(), 24)), "{va:?}");
        assert!(va.addresses.contains(&("2001:db8::1".parse().unwrap(), 64)), "{va:?}");
        assert!(va.has_default_route && va.is_virtual && va.xdp.is_none(), "{va:?}");
        assert_eq!((va.kind.as_str(), va.driver.as_deref()), ("veth", Some("veth")));
        // veth says so since Linux 6.3.
        assert!(va.xdp_features.is_none_or(|features| features.native), "{va:?}");

        let vb = find("vb");
        assert!(!vb.has_default_route && !vb.is_up && !vb.has_carrier, "{vb:?}");
        assert_eq!(find("vb.px").master.as_deref(), Some("br0"));
        assert_eq!(find("lo").mac, None);
    });
}

#[test]
fn a_default_route_of_ipv6_counts_too() {
    in_namespace("inventory", || {
        two_devices();
        ip("-6 route add default via 2001:db8:1::9 dev vb onlink");
        assert!(find("vb").has_default_route && !find("va").has_default_route);
    });
}
