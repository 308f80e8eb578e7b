//! Messages as bytes, valid and hostile.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::netlink::message::{Builder, flag, messages};
use crate::netlink::parse::{INET, INET6};
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
    message.put(libc::RTA_DST, &[0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    match devices {
        [one] => message.put(libc::RTA_OIF, &one.to_ne_bytes()),
        several => message.nest(libc::RTA_MULTIPATH, |list| {
            for device in several {
                let [a, b, c, d] = device.to_ne_bytes();
                list.raw(&[8, 0, 0, 0, a, b, c, d]);
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
    assert_eq!(feed(&mut follower, &route(libc::RTM_NEWROUTE, new, &[7]), false), [told(&[7])]);
    assert_eq!(feed(&mut follower, &route(libc::RTM_NEWROUTE, 0, &[6]), true), []);
    // Of a route that went before it was named, other entries may be there.
    follower.begin();
    feed(&mut follower, &route(libc::RTM_DELROUTE, 0, &[7]), false);
    assert!(follower.disturbed());
    assert_eq!(feed(&mut follower, &route(libc::RTM_NEWROUTE, 0, &[7]), true), []);
    follower.begin();
    feed(&mut follower, &route(libc::RTM_DELROUTE, 0, &[7]), false);
    assert_eq!(feed(&mut follower, &route(libc::RTM_NEWROUTE, 0, &[7, 8]), true), [told(&[8])]);
    assert!(!follower.asks_again());
}

#[test]
fn known_multipath_routes_survive_dumps_of_others() {
    let mut follower = Follower::default();
    follower.begin();
    feed(&mut follower, &route(libc::RTM_NEWROUTE, 0, &[1, 2, 3]), true);
    follower.end(&mut Vec::new());
    assert_eq!(feed(&mut follower, &route(libc::RTM_DELROUTE, 0, &[2]), false), [told(&[1, 3])]);
    // Not named by the next round of dumps: it is removed, and the loss of one hop is not reported.
    follower.begin();
    follower.end(&mut Vec::new());
    assert_eq!(feed(&mut follower, &route(libc::RTM_DELROUTE, 0, &[1]), false), [told(&[])]);
}

/// A message about an IPv4 address of device 7: its prefix length and flags, and the far end's
/// address or itself again.
fn address(kind: u16, len: u8, flags: u32, own: [u8; 4], far: [u8; 4]) -> Vec<u8> {
    let mut message = Builder::default();
    message.begin(kind, 0, 1, &[INET, len, 0, 0, 7, 0, 0, 0]);
    message.put(1, &far);
    message.put(2, &own);
    message.put(8, &flags.to_ne_bytes());
    message.bytes().to_vec()
}

fn told_address(address: [u8; 4], prefix_len: u8, present: bool) -> KernelEvent {
    KernelEvent::Address { device: 7, address: address.into(), prefix_len, present }
}

#[test]
fn an_address_has_a_subnet_only_where_the_kernel_makes_one_of_it() {
    let (own, far) = ([10, 0, 0, 1], [10, 9, 9, 9]);
    let mut follower = Follower::default();
    let mut told =
        |kind, len, flags, far| feed(&mut follower, &address(kind, len, flags, own, far), false);
    let no_route = libc::IFA_F_NOPREFIXROUTE;
    let (there, gone) = (|len| told_address(own, len, true), |len| told_address(own, len, false));
    assert_eq!(told(libc::RTM_NEWADDR, 24, 0, own), [there(24)]);
    // The subnet is taken away, and later the address.
    assert_eq!(told(libc::RTM_NEWADDR, 24, no_route, own), [gone(24), there(32)]);
    assert_eq!(told(libc::RTM_DELADDR, 24, no_route, own), [gone(32)]);
    // The prefix is the far end's, which need not contain our own address.
    assert_eq!(told(libc::RTM_NEWADDR, 30, 0, far), [there(32)]);
    assert_eq!(told(libc::RTM_NEWADDR, 32, 0, own), [there(32)]);
    assert_eq!(told(libc::RTM_DELADDR, 32, 0, own), [], "the other one is there");
    assert_eq!(told(libc::RTM_DELADDR, 30, 0, far), [gone(32)]);
}

#[test]
fn an_address_that_others_turn_out_to_have_is_gone() {
    let own = [10, 0, 0, 1];
    let mut follower = Follower::default();
    let mut told =
        |flags: u32| feed(&mut follower, &address(libc::RTM_NEWADDR, 24, flags, own, own), false);
    let (tentative, failed) = (libc::IFA_F_TENTATIVE, libc::IFA_F_DADFAILED);
    assert_eq!(told(tentative), [], "not known yet");
    assert_eq!(told(0), [told_address(own, 24, true)]);
    assert_eq!(told(tentative), [told_address(own, 24, true)], "asked again, and ours meanwhile");
    assert_eq!(told(tentative | failed), [told_address(own, 24, false)]);
    assert_eq!(told(tentative | failed), []);
    assert_eq!(told(tentative), []);
}

/// A message about a device that is up or not.
fn device(kind: u16, index: u32, up: bool) -> Vec<u8> {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8] = u8::from(up);
    let mut message = Builder::default();
    message.begin(kind, 0, 1, &fixed);
    message.bytes().to_vec()
}

#[test]
fn only_what_routes_depend_on_has_everything_named_again() {
    let asks = |messages: &[Vec<u8>]| {
        let mut follower = Follower::default();
        follower.begin();
        feed(&mut follower, &device(libc::RTM_NEWLINK, 1, true), true);
        feed(&mut follower, &device(libc::RTM_NEWLINK, 7, true), true);
        feed(&mut follower, &route(libc::RTM_NEWROUTE, 0, &[1]), true);
        follower.end(&mut Vec::new());
        messages.iter().for_each(|message| drop(feed(&mut follower, message, false)));
        follower.asks_again()
    };
    let (own, no_flags) = ([10, 0, 0, 1], 0);
    let removed = address(libc::RTM_DELADDR, 24, no_flags, own, own);
    for change in
        [device(libc::RTM_DELLINK, 7, false), device(libc::RTM_NEWLINK, 7, false), removed]
    {
        assert!(!asks(&[change]), "nothing goes by device 7");
    }
    assert!(asks(&[device(libc::RTM_DELLINK, 1, false)]));
    assert!(asks(&[device(libc::RTM_NEWLINK, 1, false)]));
    let by_seven = route(libc::RTM_NEWROUTE, flag::CREATE | flag::EXCLUSIVE, &[7]);
    assert!(asks(&[by_seven.clone(), device(libc::RTM_DELLINK, 7, false)]));
    assert!(asks(&[by_seven, address(libc::RTM_DELADDR, 24, no_flags, own, own)]), "its last");
    // By a next-hop object: its number, and the device.
    let mut object = Builder::default();
    object.begin(NEW_NEXT_HOP, 0, 1, &[INET, 0, 0, 0, 0, 0, 0, 0]);
    object.put(1, &5u32.to_ne_bytes());
    object.put(5, &7u32.to_ne_bytes());
    assert!(asks(&[object.bytes().to_vec(), device(libc::RTM_DELLINK, 7, false)]));
}

#[test]
fn nonsense_is_no_event() {
    let mut follower = Follower::default();
    let good = route(libc::RTM_NEWROUTE, flag::CREATE | flag::EXCLUSIVE, &[1]);
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
