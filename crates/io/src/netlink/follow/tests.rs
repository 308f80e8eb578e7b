//! Messages as bytes, true and hostile.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::netlink::message::{Builder, flag, messages};
use crate::netlink::parse::{INET, INET6, rta};
use crate::netlink::{Hop, KernelRoute, RouteKey, TABLE_MAIN};

/// Feeds a datagram's messages to a follower, as changes or as a dump's.
fn feed(follower: &mut Follower, datagram: &[u8], dump: bool) -> Vec<KernelEvent> {
    let mut events = Vec::new();
    for message in messages(datagram) {
        if dump {
            follower.dumped(message, &mut events);
        } else {
            follower.changed(message, &mut events);
        }
    }
    events
}

/// A message about 2001:db8::/32 by hops on these devices.
fn route(kind: u16, flags: u16, devices: &[u32]) -> Vec<u8> {
    let mut message = Builder::default();
    message.begin(kind, flags, 1, &[INET6, 32, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0]);
    message.put(rta::DST, &[0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    match devices {
        [one] => message.put(rta::OIF, &one.to_ne_bytes()),
        several => message.nest(rta::MULTIPATH, |list| {
            for device in several {
                let [a, b, c, d] = device.to_ne_bytes();
                list.record(&[0, 0, a, b, c, d], |_| {});
            }
        }),
    }
    message.bytes().to_vec()
}

/// The event that these are the route's hops.
fn told(devices: &[u32]) -> KernelEvent {
    let prefix = ("2001:db8::".parse().unwrap(), 32);
    let hop = |device: &u32| Hop { device: *device, gateway: None, weight: 1, on_link: false };
    let hops: Vec<Hop> = devices.iter().map(hop).collect();
    KernelEvent::Route {
        key: RouteKey { prefix, table: TABLE_MAIN, metric: 0 },
        protocol: 186,
        next_hop: 0,
        route: (!hops.is_empty()).then_some(KernelRoute::Via(hops)),
    }
}

#[test]
fn a_dump_that_is_older_than_a_message_before_it_does_not_count() {
    let mut follower = Follower::default();
    follower.begin();
    let new = flag::CREATE | flag::REPLACE;
    assert_eq!(feed(&mut follower, &route(kind::NEW_ROUTE, new, &[7]), false), [told(&[7])]);
    assert_eq!(feed(&mut follower, &route(kind::NEW_ROUTE, 0, &[6]), true), []);
    // Of a route that went before it was named, other entries may be there.
    follower.begin();
    feed(&mut follower, &route(kind::DEL_ROUTE, 0, &[7]), false);
    assert!(follower.disturbed());
    assert_eq!(feed(&mut follower, &route(kind::NEW_ROUTE, 0, &[7]), true), []);
    follower.begin();
    feed(&mut follower, &route(kind::DEL_ROUTE, 0, &[7]), false);
    assert_eq!(feed(&mut follower, &route(kind::NEW_ROUTE, 0, &[7, 8]), true), [told(&[8])]);
    assert!(!follower.asks_again());
}

#[test]
fn what_is_known_of_several_hops_outlasts_what_others_are_dumped() {
    let mut follower = Follower::default();
    follower.begin();
    feed(&mut follower, &route(kind::NEW_ROUTE, 0, &[1, 2, 3]), true);
    follower.end(&mut Vec::new());
    assert_eq!(feed(&mut follower, &route(kind::DEL_ROUTE, 0, &[2]), false), [told(&[1, 3])]);
    // Not named by the next round of dumps: it is gone, and one hop of it is news to nobody.
    follower.begin();
    follower.end(&mut Vec::new());
    assert_eq!(feed(&mut follower, &route(kind::DEL_ROUTE, 0, &[1]), false), [told(&[])]);
}

#[test]
fn nonsense_is_no_event() {
    let mut follower = Follower::default();
    let good = route(kind::NEW_ROUTE, flag::CREATE | flag::EXCLUSIVE, &[1]);
    for cut in 0..good.len() {
        assert_eq!(feed(&mut follower, &good[..cut], false), [], "cut at {cut}");
    }
    let mut long = good.clone();
    long[16 + 1] = 129;
    assert_eq!(feed(&mut follower, &long, false), [], "a prefix of 129 bits");
    let mut four = good.clone();
    four[16] = INET;
    assert_eq!(feed(&mut follower, &four, false), [], "16 bytes of IPv4");
    assert_eq!(feed(&mut follower, &good, false), [told(&[1])]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any bytes, in the envelope of every kind of message, and with attributes that make sense
    /// in length only.
    #[test]
    fn no_bytes_panic(
        kinds in vec((16u16..27, 0u16..0x1000, vec(any::<u8>(), 0..20)), 1..6),
        attributes in vec((0u16..40, vec(any::<u8>(), 0..40)), 0..8),
        tail in vec(any::<u8>(), 0..64),
        dump: bool,
    ) {
        let mut follower = Follower::default();
        follower.begin();
        let mut bytes = Builder::default();
        for (n, (kind, flags, fixed)) in kinds.iter().enumerate() {
            let kind = if n % 4 == 3 { kind + 88 } else { *kind };
            bytes.begin(kind, *flags, 1, fixed);
            for (attribute, value) in &attributes {
                bytes.put(*attribute, value);
            }
        }
        let mut bytes = bytes.bytes().to_vec();
        bytes.extend(&tail);
        feed(&mut follower, &bytes, dump);
        feed(&mut follower, &tail, !dump);
        follower.end(&mut Vec::new());
    }
}
