//! The pair of devices of a router's interface.

use std::net::IpAddr;

use plexus_io::netlink::{InterfaceSpec, KernelEvent, Watcher, ensure_interface};
use plexus_wire::MacAddr;

use crate::net::{in_namespace, ip};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

fn spec(addresses: &[(IpAddr, u8)]) -> InterfaceSpec<'_> {
    InterfaceSpec {
        name: "lan",
        peer: "lan.px",
        mac: Some(MAC),
        mtu: 1400,
        addresses: Some(addresses),
    }
}

fn address(text: &str) -> (IpAddr, u8) {
    crate::net::prefix(text)
}

#[test]
fn the_pair_is_made_once_and_then_left_alone() {
    in_namespace("pair", || {
        let addresses = [address("192.0.2.1/24"), address("2001:db8::1/64")];
        let made = ensure_interface(&spec(&addresses)).unwrap();
        assert!(made.created);
        let told = ip("addr show dev lan");
        for part in [
            "lan@lan.px",
            "mtu 1400",
            "02:00:00:00:00:07",
            "192.0.2.1/24 brd 192.0.2.255",
            "2001:db8::1/64",
            "LOWER_UP",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("2001:db8::1/64 scope global tentative"), "{told}");
        let peer = ip("addr show dev lan.px");
        assert!(peer.contains("mtu 1400") && peer.contains("LOWER_UP"), "{peer}");
        assert!(!peer.contains("inet"), "the data plane's end has no address: {peer}");

        // A daemon's address and route, and a watcher that would report any change.
        ip("addr add 192.0.2.77/24 dev lan");
        ip("route add 198.51.100.0/24 via 192.0.2.9");
        let mut watcher = Watcher::open().unwrap();
        let mut events = Vec::new();
        while watcher.next_events(&mut events).unwrap() {}
        events.clear();
        let again = ensure_interface(&spec(&addresses)).unwrap();
        assert_eq!((again.created, again.index), (false, made.index));
        watcher.next_events(&mut events).unwrap();
        assert_eq!(events, []);

        // One of our addresses is no longer wanted, and the MTU differs; the rest stays.
        let fewer = InterfaceSpec { mtu: 1500, ..spec(&addresses[..1]) };
        ensure_interface(&fewer).unwrap();
        let told = ip("addr show dev lan");
        assert!(!told.contains("2001:db8::1/64") && told.contains("192.0.2.77/24"), "{told}");
        assert!(told.contains("mtu 1500"), "{told}");
        assert!(ip("route show").contains("198.51.100.0/24"));
        watcher.next_events(&mut events).unwrap();
        let device = |e: &KernelEvent| {
            matches!(e, KernelEvent::Device { mtu: 1500, name, .. }
            if name == "lan")
        };
        assert!(events.iter().any(device), "{events:?}");

        ip("link del lan");
        assert!(ensure_interface(&spec(&addresses)).unwrap().created);
    });
}

#[test]
fn a_name_that_is_taken_is_an_error_that_says_by_what() {
    in_namespace("taken", || {
        ip("link add lan type veth peer name other");
        let e = ensure_interface(&spec(&[])).unwrap_err().to_string();
        assert!(e.contains("no other end 'lan.px'") && e.contains("ip link del lan"), "{e}");
        ip("link add br0 type bridge");
        let bridge = InterfaceSpec { name: "br0", peer: "other", ..spec(&[]) };
        let e = ensure_interface(&bridge).unwrap_err().to_string();
        assert!(e.contains("not one end of a veth pair with 'other'"), "{e}");
        let long = InterfaceSpec { name: "sixteen-letters-", ..spec(&[]) };
        let e = ensure_interface(&long).unwrap_err().to_string();
        assert!(e.contains("1 to 15 bytes"), "{e}");
    });
}
