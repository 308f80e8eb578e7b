//! A change of trust: what happens to routes, and to remembered commands.

use plexus_ndn::management::{ManagementConfig, ManagementLimits, Policy, Route, Trust};
use plexus_wire::ndn::nfd::{ControlParameters, origin};

use crate::node::*;

const HOP: &str = "/localhop/nfd/rib/register";
const HOST: &str = "/localhost/nfd/rib/register";

/// Only these keys.
fn signed(keys: &[u8]) -> Trust {
    Trust {
        keys: keys.iter().map(|number| trusted_key(*number)).collect(),
        localhost: Policy::Trusted,
        localhop: Policy::Trusted,
        announcements: Policy::Trusted,
    }
}

/// Anyone, local or neighbour, with these keys or none.
fn open(keys: &[u8]) -> Trust {
    let (localhost, localhop, announcements) = (Policy::Any, Policy::Any, Policy::Any);
    Trust { localhost, localhop, announcements, ..signed(keys) }
}

impl Rig {
    /// Carries out a command that the client signs now.
    #[track_caller]
    fn orders(&mut self, from: u32, verb: &str, prefix: &str, client: fn(u64) -> Client) {
        self.pass(1);
        let packet = command(verb, &of(prefix), &client(self.unix_ms));
        assert_eq!(self.respond(from, &packet).code, 200, "{prefix}");
    }

    #[track_caller]
    fn announces(&mut self, prefix: &str, announcer: fn(u64) -> Client, sender: fn(u64) -> Client) {
        self.pass(1);
        let data = announcement(prefix, &announcer(self.unix_ms));
        let packet = announce("localhop", &data, &sender(self.unix_ms));
        assert_eq!(self.respond(NEIGHBOUR, &packet).code, 200, "{prefix}");
    }

    /// The prefixes with next hops.
    fn prefixes(&self) -> Vec<String> {
        self.node.fib.keys().map(ToString::to_string).collect()
    }
}

fn own(face: u32) -> Route {
    route(face, origin::STATIC, 0, 0)
}

#[test]
fn routes_are_removed_with_their_key() {
    let mut rig = Rig::trusting(signed(&[1, 2]));
    rig.add("/file", own(OTHER));
    rig.orders(APP, HOST, "/here/one", by::<1>);
    rig.orders(APP, HOST, "/here/two", by::<2>);
    rig.orders(NEIGHBOUR, HOP, "/there/one", by::<1>);
    rig.orders(NEIGHBOUR, HOP, "/there/two", by::<2>);
    rig.orders(APP, "/localhost/nfd/fib/add-nexthop", "/hop/one", by::<1>);
    rig.orders(APP, "/localhost/nfd/fib/add-nexthop", "/hop/two", by::<2>);
    // The key that last registers a route owns it.
    rig.orders(APP, HOST, "/passed/to/one", by::<2>);
    rig.orders(APP, HOST, "/passed/to/one", by::<1>);
    rig.orders(APP, HOST, "/passed/to/two", by::<1>);
    rig.orders(APP, HOST, "/passed/to/two", by::<2>);
    // Next hops inherited from a removed route are removed too.
    rig.orders(APP, HOST, "/file", by::<1>);
    assert_eq!(rig.hops("/file").len(), 2);
    assert_eq!(rig.trust(signed(&[1, 2])), 0);
    assert_eq!(rig.prefixes().len(), 9);

    assert_eq!(rig.trust(signed(&[2])), 5);
    let two = ["/file", "/here/two", "/there/two", "/hop/two", "/passed/to/two"];
    let mut left = rig.prefixes();
    left.sort();
    let mut expected = two.to_vec();
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(rig.hops("/file"), [(0, face_id(OTHER))]);
    assert_eq!(rig.management.rib().len(), 5);
    // A key that comes back has no routes until it registers again, and then loses them again.
    assert_eq!(rig.trust(signed(&[1, 2])), 0);
    rig.orders(NEIGHBOUR, HOP, "/there/one", by::<1>);
    assert_eq!(rig.trust(signed(&[1])), 4);
    assert_eq!(rig.prefixes(), ["/file", "/there/one"]);
}

#[test]
fn a_route_of_the_file_stays_when_the_key_goes_that_has_registered_it_too() {
    let mut rig = Rig::trusting(signed(&[1]));
    rig.add("/file", own(APP));
    let both = ControlParameters { origin: Some(origin::STATIC), ..of("/file") };
    let packet = command(HOST, &both, &by::<1>(rig.unix_ms));
    assert_eq!(rig.respond(APP, &packet).code, 200);
    assert_eq!(rig.management.rib().len(), 1, "it is the same route");
    assert_eq!(rig.trust(signed(&[])), 0);
    assert_eq!(rig.hops("/file"), [(0, face_id(APP))]);
}

#[test]
fn loosening_the_policy_keeps_routes_and_tightening_withdraws_them() {
    let mut rig = Rig::trusting(open(&[1, 2]));
    rig.add("/file", own(OTHER));
    rig.orders(APP, HOST, "/here", Client::at);
    rig.orders(APP, HOST, "/here/one", by::<1>);
    rig.orders(NEIGHBOUR, HOP, "/there", Client::at);
    rig.orders(NEIGHBOUR, HOP, "/there/two", by::<2>);
    // Clients that need no key keep their routes.
    assert_eq!(rig.trust(open(&[2])), 0);
    assert_eq!(rig.prefixes().len(), 5);
    // From now on neighbours have to sign: routes that were signed stay.
    let closed = Trust { localhop: Policy::Trusted, ..open(&[2]) };
    assert_eq!(rig.trust(closed), 1);
    assert!(rig.hops("/there").is_empty() && !rig.hops("/there/two").is_empty());
    // The same for local applications.
    assert_eq!(rig.trust(signed(&[1, 2])), 1);
    assert!(rig.hops("/here").is_empty() && !rig.hops("/here/one").is_empty());
    // No neighbour may command.
    assert_eq!(rig.trust(Trust { localhop: Policy::Nobody, ..signed(&[1, 2]) }), 1);
    assert_eq!(rig.prefixes(), ["/file", "/here/one"]);
}

#[test]
fn announced_routes_go_with_the_key_of_the_announcement_and_with_that_of_the_command() {
    let mut rig = Rig::trusting(signed(&[1, 2, 3]));
    rig.announces("/by/one", by::<1>, by::<3>);
    rig.announces("/by/two", by::<2>, by::<3>);
    rig.announces("/sent/by/one", by::<2>, by::<1>);
    assert_eq!(rig.trust(signed(&[2, 3])), 2);
    assert_eq!(rig.prefixes(), ["/by/two"]);
    assert_eq!(rig.trust(Trust { announcements: Policy::Any, ..signed(&[3]) }), 0);
    assert_eq!(rig.trust(signed(&[2])), 1);
    assert!(rig.prefixes().is_empty());
}

#[test]
fn commands_are_not_replayed_when_their_key_returns() {
    let mut rig = Rig::trusting(signed(&[1, 2]));
    let old = command(HOST, &of("/old"), &by::<1>(rig.unix_ms));
    let counted = Client { time_ms: None, seq_num: Some(7), ..by::<2>(0) };
    let counted = command(HOST, &of("/counted"), &counted);
    for packet in [&old, &counted] {
        assert_eq!(rig.respond(APP, packet).code, 200);
    }
    rig.pass(50_000);
    for keys in [&[][..], &[3], &[1, 2, 3]] {
        rig.trust(signed(keys));
        for from in [APP, OTHER] {
            assert_eq!(rig.respond(from, &old).code, 403, "{keys:?}");
            assert_eq!(rig.respond(from, &counted).code, 403, "{keys:?}");
        }
    }
    let counters = rig.management.counters();
    assert_eq!((counters.untrusted, counters.replayed), (8, 4));
    assert!(rig.prefixes().is_empty());
    // New commands are carried out; and a sequence number stays used when its time is long past.
    rig.orders(APP, HOST, "/new", by::<1>);
    rig.trust(signed(&[]));
    rig.pass(3_600_000);
    rig.trust(signed(&[1, 2]));
    assert_eq!(rig.respond(APP, &counted).code, 403);
    assert_eq!(rig.management.counters().replayed, 5);
}

#[test]
fn memory_of_removed_keys_is_bounded_and_allows_no_replay() {
    let limits = ManagementLimits { signers: 1, ..ManagementLimits::default() };
    let trust = signed(&[1, 2, 3]);
    let mut rig = Rig::with(ManagementConfig { trust, limits, ..Default::default() });
    let made = rig.unix_ms;
    let packets = [by::<1>(made), by::<2>(made + 1), by::<3>(made + 2)]
        .map(|client| command(HOST, &of("/old"), &client));
    for packet in &packets {
        assert_eq!(rig.respond(APP, packet).code, 200);
    }
    // Three keys are removed, and one of them is remembered.
    rig.trust(signed(&[]));
    rig.trust(signed(&[1, 2, 3]));
    for packet in &packets {
        assert_eq!(rig.respond(APP, packet).code, 403);
    }
    assert_eq!(rig.management.counters().replayed, 3);
    assert!(rig.prefixes().is_empty());
    for (at, client) in [by::<1>(made + 3), by::<2>(made + 3)].iter().enumerate() {
        let packet = command(HOST, &of(&format!("/new/{at}")), client);
        assert_eq!(rig.respond(APP, &packet).code, 200, "what is newer is new");
    }
}

/// The remaining next hops of a prefix would be one more set, and there is no room for it.
#[test]
fn no_prefix_goes_on_leading_where_a_route_was_withdrawn() {
    let mut rig = Rig::trusting(signed(&[1, 2]));
    rig.add("/file", own(OTHER));
    rig.neighbour(50);
    for prefix in ["/file", "/none"] {
        rig.orders(NEIGHBOUR, HOP, prefix, by::<1>);
        let packet = command(HOP, &at_cost(prefix, 7), &by::<2>(rig.unix_ms));
        assert_eq!(rig.respond(50, &packet).code, 200);
    }
    // Next hops inherited from them, beside a route of its own.
    let packet = command(HOST, &at_cost("/file/below", 9), &by::<2>(rig.unix_ms));
    assert_eq!(rig.respond(APP, &packet).code, 200);
    // The node's own next hops alone are an existing set.
    rig.add("/alike", own(OTHER));
    assert_eq!(rig.hops("/file/below").len(), 3);
    rig.node.fib_is_full = true;
    assert_eq!(rig.trust(signed(&[2])), 2);
    rig.management.tick(rig.now, &mut rig.node);
    assert_eq!(rig.hops("/file"), [(0, face_id(OTHER))]);
    assert!(rig.hops("/none").is_empty() && rig.hops("/file/below").is_empty());
    assert_eq!(rig.management.counters().untaken, 3);
    let said = rig.management.rib().next_hops();
    assert!(said.eq(rig.node.fib.iter().map(|(of, hops)| (of.clone(), &hops[..]))));
    // The remaining routes are used again when there is room and something changes.
    rig.node.fib_is_full = false;
    rig.orders(NEIGHBOUR, HOP, "/none", by::<2>);
    assert_eq!(rig.hops("/none"), [(0, face_id(NEIGHBOUR)), (7, face_id(50))]);
    // An addition that is refused leaves the prefix unchanged.
    rig.node.fib_is_full = true;
    let before = rig.hops("/none");
    let packet = command(HOP, &at_cost("/none", 3), &by::<2>(rig.unix_ms));
    assert_eq!(rig.respond(NEIGHBOUR, &packet).code, 504);
    assert_eq!(rig.hops("/none"), before);
}

/// Signs like another client, with a number instead of a time.
fn counted(number: u64, client: Client) -> Client {
    Client { time_ms: None, seq_num: Some(number), ..client }
}

#[test]
fn numbered_commands_are_not_replayed_after_their_key_was_forgotten() {
    let limits = ManagementLimits { signers: 1, ..ManagementLimits::default() };
    let trust = signed(&[1, 2]);
    let mut rig = Rig::with(ManagementConfig { trust, limits, ..Default::default() });
    let first = command(HOST, &of("/one"), &counted(7, by::<1>(0)));
    let old = command(HOST, &of("/two"), &counted(8, by::<1>(0)));
    for packet in [&first, &old] {
        assert_eq!(rig.respond(APP, packet).code, 200);
    }
    rig.orders(APP, HOST, "/other", by::<2>);
    // Both are removed, and the other one is remembered.
    rig.trust(signed(&[]));
    rig.pass(3_600_000);
    rig.trust(signed(&[1, 2, 3]));
    // Not even after a command with a time.
    let packets = [first, old];
    packets.iter().for_each(|packet| assert_eq!(rig.respond(APP, packet).code, 403));
    rig.orders(APP, HOST, "/timed", by::<1>);
    packets.iter().for_each(|packet| assert_eq!(rig.respond(APP, packet).code, 403));
    assert_eq!(rig.management.counters().replayed, 4);
    assert_eq!(rig.prefixes(), ["/timed"]);
    // A higher number is new, and a signer with a time may start counting anywhere.
    let new = command(HOST, &of("/new"), &counted(9, by::<1>(0)));
    let client = Client { seq_num: Some(1), ..by::<3>(rig.unix_ms) };
    let from_one = command(HOST, &of("/from/one"), &client);
    for packet in [&new, &from_one] {
        assert_eq!(rig.respond(APP, packet).code, 200);
    }
}
