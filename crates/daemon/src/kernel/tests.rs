//! What the kernel says, and what the control plane is told.

use plexus_io::netlink::TABLE_MAIN;

use super::*;

/// The kernel's numbers of the devices of our interfaces, and of one that is none.
const LAN: u32 = 3;
const WAN: u32 = 4;
const TUNNEL: u32 = 9;

/// A kernel that has named the devices of interfaces 0 and 1, both up.
fn kernel() -> Kernel {
    let names = [("lan".to_string(), 0), ("wan".to_string(), 1)];
    let mut kernel = Kernel { names: names.into(), ..Kernel::default() };
    let mut events = vec![KernelEvent::ResyncBegin];
    events.extend([(LAN, "lan"), (WAN, "wan"), (TUNNEL, "wg0")].map(|(i, n)| device(i, n)));
    events.push(KernelEvent::ResyncEnd);
    kernel.hear(events);
    kernel
}

fn device(index: u32, name: &str) -> KernelEvent {
    let name = name.to_string();
    KernelEvent::Device { index, name, mac: None, mtu: 1500, up: true, present: true }
}

fn key(prefix: &str, table: u32, metric: u32) -> RouteKey {
    let prefix: Prefix = prefix.parse().unwrap();
    RouteKey { prefix: (prefix.addr(), prefix.len()), table, metric }
}

/// A route to 10.5.0.0/16, by a next-hop object unless that is 0.
fn event(next_hop: u32, route: Option<KernelRoute>) -> KernelEvent {
    KernelEvent::Route { key: key("10.5.0.0/16", TABLE_MAIN, 20), protocol: 188, next_hop, route }
}

fn hop(device: u32, gateway: &str) -> Hop {
    Hop { device, gateway: gateway.parse().ok(), weight: 1, on_link: false }
}

fn by(hops: &[Hop]) -> Option<KernelRoute> {
    Some(KernelRoute::Via(hops.to_vec()))
}

/// What the control plane is told, a word for each.
fn told(kernel: &mut Kernel, events: Vec<KernelEvent>) -> Vec<String> {
    let word = |input: Input| match input {
        Input::Begin(_) => "begin".to_string(),
        Input::End(_) => "end".to_string(),
        Input::Route { prefix, metric, route, .. } => {
            let route = match route {
                Some(Route::Via(hops)) => {
                    let hop = |h: &NextHop| {
                        let gateway = h.gateway.map_or("link".into(), |g| g.to_string());
                        format!("{gateway} on {} x{}", h.interface.0, h.weight)
                    };
                    hops.iter().map(hop).collect::<Vec<_>>().join(", ")
                }
                route => format!("{route:?}"),
            };
            format!("{prefix} {}: {route}", kernel_metric(metric))
        }
        other => format!("{other:?}"),
    };
    kernel.hear(events).inputs.into_iter().map(word).collect()
}

#[test]
fn routes_by_an_object_follow_it_until_they_are_gone() {
    let mut kernel = kernel();
    let (first, second) = (by(&[hop(LAN, "10.0.0.2")]), by(&[hop(WAN, "10.1.0.2")]));
    let object = |route: &Option<KernelRoute>| KernelEvent::NextHop { id: 5, route: route.clone() };
    let route = event(5, first);
    assert_eq!(told(&mut kernel, vec![route.clone()]), ["10.5.0.0/16 20: 10.0.0.2 on 0 x1"]);
    let by_second = ["10.5.0.0/16 20: 10.1.0.2 on 1 x1"];
    assert_eq!(told(&mut kernel, vec![object(&second)]), by_second);
    assert_eq!(told(&mut kernel, vec![object(&None)]), ["10.5.0.0/16 20: None"]);
    // Named again by a resync, it follows; not named, it is no more, whatever the object does.
    let (begin, end) = (KernelEvent::ResyncBegin, KernelEvent::ResyncEnd);
    let wan = device(WAN, "wan");
    told(&mut kernel, vec![begin.clone(), wan, route, end.clone()]);
    assert_eq!(told(&mut kernel, vec![object(&second)]), by_second);
    assert_eq!(told(&mut kernel, vec![begin, end]), ["begin", "end"]);
    assert_eq!(told(&mut kernel, vec![object(&second)]), [""; 0]);
    // Nor does it follow an object that it has left.
    told(&mut kernel, vec![event(5, second.clone()), event(0, second.clone())]);
    assert_eq!(told(&mut kernel, vec![object(&None)]), [""; 0]);
}

#[test]
fn what_only_the_kernel_can_send_on_goes_to_the_kernel() {
    let local = ["10.5.0.0/16 20: Some(Local)"];
    for route in [
        by(&[hop(TUNNEL, "")]),
        by(&[hop(TUNNEL, "10.9.0.2"), hop(99, "10.9.0.3")]),
        by(&[hop(LAN, ""), hop(WAN, "")]),
        Some(KernelRoute::Encapsulated),
    ] {
        assert_eq!(told(&mut kernel(), vec![event(0, route.clone())]), local, "{route:?}");
    }
    let partly = by(&[hop(LAN, "10.0.0.2"), hop(TUNNEL, "10.9.0.2")]);
    let ours = ["10.5.0.0/16 20: 10.0.0.2 on 0 x1"];
    assert_eq!(told(&mut kernel(), vec![event(0, partly)]), ours);
    assert_eq!(told(&mut kernel(), vec![event(0, None)]), ["10.5.0.0/16 20: None"]);
}

#[test]
fn gateways_are_as_near_as_the_kernel_says_and_weights_keep_their_ratio() {
    let weights = |weights: &[u16]| {
        let hops = weights.iter().enumerate().map(|(n, weight)| {
            let gateway = Some(std::net::Ipv4Addr::new(192, 0, 2, n as u8 + 1).into());
            Hop { device: LAN, gateway, weight: *weight, on_link: false }
        });
        let route = Some(KernelRoute::Via(hops.collect()));
        let heard = kernel().hear(vec![event(0, route)]).inputs;
        let [Input::Route { route: Some(Route::Via(hops)), .. }] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert!(hops.iter().all(|hop| hop.on_link));
        hops.iter().map(|hop| hop.weight).collect::<Vec<_>>()
    };
    assert_eq!(weights(&[1, 2]), [1, 2]);
    assert_eq!(weights(&[255, 100]), [255, 100]);
    assert_eq!(weights(&[512, 256]), [255, 128]);
    assert_eq!(weights(&[600, 300, 200]), [255, 128, 85]);
    assert_eq!(weights(&[u16::MAX, 1]), [255, 1]);
}

#[test]
fn own_addresses_come_first_and_what_no_router_forwards_to_is_not_told() {
    let told = |key: RouteKey, route| {
        let route = KernelEvent::Route { key, protocol: 2, next_hop: 0, route };
        kernel().hear(vec![route]).inputs
    };
    let metric_of = |key: RouteKey, route| match told(key, route)[..] {
        [Input::Route { metric, .. }] => metric,
        ref other => panic!("{other:?}"),
    };
    let own = metric_of(key("10.0.0.1/32", TABLE_LOCAL, 7), Some(KernelRoute::Local));
    let other = metric_of(key("10.0.0.1/32", TABLE_MAIN, 0), by(&[hop(WAN, "10.1.0.2")]));
    assert!(own < other);
    for prefix in ["127.0.0.0/8", "224.0.0.0/4", "ff00::/8", "::1/128"] {
        let heard = told(key(prefix, TABLE_LOCAL, 0), Some(KernelRoute::Local));
        assert!(heard.is_empty(), "{prefix}: {heard:?}");
    }
}

#[test]
fn an_interface_has_the_address_by_which_the_kernel_answers() {
    let mut kernel = kernel();
    let mac = |n| Some(MacAddr([2, 0, 0, 0, 0, n]));
    let name = || "lan".to_string();
    for (own, up) in [(mac(1), true), (mac(2), true), (mac(3), false)] {
        let is = KernelEvent::Device {
            index: LAN,
            name: name(),
            mac: own,
            mtu: 1500,
            up,
            present: true,
        };
        assert_eq!(kernel.hear(vec![is]).interfaces, BTreeSet::from([0]));
        assert_eq!(kernel.mac(0), own.filter(|_| up));
    }
}

#[test]
fn addresses_and_devices_that_are_not_named_again_are_gone() {
    let mut kernel = kernel();
    let address = |device: u32, text: &str, present: bool| {
        let prefix_len = 24;
        KernelEvent::Address { device, address: text.parse().unwrap(), prefix_len, present }
    };
    let heard = kernel.hear(vec![address(LAN, "10.0.0.1", true), address(WAN, "10.1.0.1", true)]);
    assert_eq!(heard.interfaces, BTreeSet::from([0, 1]));
    let wan: IpAddr = "10.1.0.1".parse().unwrap();
    assert_eq!(kernel.addresses(1), Some(vec![(wan, 24)]));
    let heard = kernel.hear(vec![address(TUNNEL, "10.9.0.1", true)]);
    assert!(heard.interfaces.is_empty(), "no interface's");

    let mut events = vec![KernelEvent::ResyncBegin, device(LAN, "lan")];
    events.push(KernelEvent::ResyncEnd);
    assert_eq!(kernel.hear(events).interfaces, BTreeSet::from([0, 1]));
    assert_eq!((kernel.addresses(0), kernel.addresses(1)), (Some(vec![]), None));
}
