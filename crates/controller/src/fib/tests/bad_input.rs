//! What neighbours of the routing daemons and nodes of the group may do wrong.

use plexus_wire::fabric::message::FibAck;

use super::super::table::Share;
use super::*;
use crate::Event;

/// Routes of the kernel.
fn routes(count: u64, to: u8) -> impl Iterator<Item = RouterInput> {
    (0..count).map(move |n| route(prefix(n), Some(to)))
}

fn route(prefix: Prefix, to: Option<u8>) -> RouterInput {
    let (gateway, on_link) = (to.map(via), true);
    let hop = NextHop { interface: InterfaceId(0), gateway, on_link, weight: 1 };
    let route = to.map(|_| Route::Via(vec![hop]));
    RouterInput::Route { source: Source::Kernel, prefix, metric: 1, route }
}

/// A world with a limit, and the events of its controller.
fn limited(routes: u32) -> World {
    let mut world = World::new(2, 1);
    let mut config = config();
    config.limits.routes = routes;
    world.input(Input::Configure(Box::new(config)));
    world
}

fn alarms(world: &mut World, inputs: Vec<RouterInput>) -> Vec<Event> {
    let mut events = Vec::new();
    world.core.handle(world.now, Input::Kernel(inputs));
    while let Some(output) = world.core.poll_output() {
        match output {
            Output::Log(event @ (Event::RoutesFull | Event::RoutesFit)) => events.push(event),
            Output::Send { node, body: Body::FibUpdate(update), .. } => {
                world.wire.push((node as usize - 1, update.into()));
            }
            _ => {}
        }
    }
    events
}

/// A neighbour leaks a million routes into a table that has room for some more: they are refused
/// with one alarm, the old ones stay with every node, and once the leak is over the rest is asked
/// for.
#[test]
fn a_leak_of_a_million_routes_is_refused_with_an_alarm_and_the_old_table_stays() {
    const OLD: u64 = 200;
    let mut world = limited(300);
    for n in 0..OLD {
        world.set(prefix(n), Some(1));
    }
    world.settle();
    world.compare();
    let leaked = |to: Option<u8>| (OLD..1_000_000 + OLD).map(move |n| route(prefix(n), to));
    assert_eq!(alarms(&mut world, leaked(Some(2)).collect()), [Event::RoutesFull], "told once");
    assert_eq!(world.core.routes_version().1, 300);
    assert_eq!(world.core.routes_refused(), (1_000_000 - 100, true));
    for node in &mut world.nodes {
        assert!(node.routes.len() <= 300);
    }
    for n in 200..300 {
        world.kernel.insert(prefix(n), 2);
        world.ever.entry(prefix(n)).or_default().push(2);
    }
    world.settle();
    world.compare();
    // The same leak in a list of all: those that were there before it stay.
    let mut list = vec![RouterInput::Begin(Source::Kernel)];
    list.extend(leaked(Some(2)));
    list.extend(routes(OLD, 1));
    list.push(RouterInput::End(Source::Kernel));
    assert_eq!(alarms(&mut world, list), []);
    world.settle();
    world.compare();
    // An old route may change and go while the leak lasts.
    world.set(prefix(0), Some(3));
    world.settle();
    world.compare();
    assert_eq!(alarms(&mut world, leaked(None).collect()), [Event::RoutesFit], "to be read anew");
    assert_eq!(world.core.routes_refused(), (2_000_000 - 200, false));
    world.kernel.retain(|to, _| *to < prefix(200));
    world.settle();
    world.compare();
}

/// A route is in the list of changes once, however often it has changed: what a node is sent does
/// not grow with the flaps that it did not see.
#[test]
fn a_default_route_that_flaps_costs_a_node_what_has_changed_in_the_end() {
    let mut world = World::filled(2, 1000);
    let default: Prefix = "0.0.0.0/0".parse().unwrap();
    world.messages = 0;
    for n in 0..10_000u32 {
        world.set(default, (n % 2 == 0).then_some((n % 7) as u8 + 1));
        // One node hears of it from time to time, the other of nothing.
        if n % 1000 == 0 {
            world.settle_others(1);
        }
    }
    world.set(default, Some(9));
    world.settle();
    world.compare();
    let (messages, kept) = (world.messages, world.core.fib.table.since(0, Share::Whole).count());
    assert!(messages < 1000, "{messages} messages for ten thousand flaps");
    assert!(kept < 1200, "{kept} changes are kept of a thousand routes");
}

/// A node cannot know what was never sent to it: neither in its first answer, nor later.
#[test]
fn an_answer_with_a_version_that_never_was_is_not_believed() {
    let mut world = World::filled(2, 100);
    let version = world.core.fib.version().0;
    let said = |world: &mut World, ack: FibAck| {
        world.input(Input::Message { node: 1, request: 0, body: ack.into() });
    };
    let (table, question) = (1 << 16, 1);
    for lie in [version + 1, u64::MAX] {
        said(&mut world, FibAck { table, question, version: lie, wrong: false });
        assert_eq!(world.core.fib.version_of(0), Some(version));
    }
    // Nor are answers to other questions, or about other tables.
    said(&mut world, FibAck { table, question: 77, version: 0, wrong: true });
    said(&mut world, FibAck { table: 5, question, version: 0, wrong: true });
    assert_eq!(world.core.fib.version_of(0), Some(version));
    world.set(prefix(7), Some(4));
    world.settle();
    world.compare();
    // In a new session: it gets another table, and has it whole before it is said to have it.
    world.node_up(0);
    world.wire.retain(|(node, _)| *node != 0);
    let ack = FibAck { table, question: 2, version: u64::MAX, wrong: false };
    world.input(Input::Message { node: 1, request: 0, body: ack.into() });
    assert_eq!(world.core.fib.version_of(0), None, "it is not said to have any");
    world.settle();
    world.compare();
}

/// A node that always says that its table is wrong costs less and less, and others nothing.
#[test]
fn a_node_whose_table_is_always_wrong_is_filled_ever_more_rarely() {
    let mut world = World::filled(2, 100);
    let (mut filled, end) = (0, world.now + Duration::from_secs(3600));
    let mut question = None;
    world.input(Input::NodeUp { node: 1, name: "n0".into(), version: 1 });
    while world.now < end {
        while let Some((node, body)) = world.wire.pop() {
            let (0, Body::FibUpdate(update)) = (node, body) else { continue };
            let wrong = update.from != update.to;
            match wrong {
                true => filled += usize::from(update.sum.is_some()),
                false => question = Some((update.table, update.from)),
            }
            let Some((table, question)) = question else { continue };
            let ack = FibAck { table, question, version: 0, wrong };
            world.input(Input::Message { node: 1, request: 0, body: ack.into() });
        }
        world.now = world.now + Duration::from_millis(100);
        world.input(Input::Tick);
    }
    // After 1 s, 2 s, 4 s … at last every 300 s.
    assert!((5..40).contains(&filled), "filled {filled} times in an hour");
    world.wire.clear();
    world.nodes[0] = Node::default();
    world.node_up(0);
    world.set(prefix(3), Some(2));
    world.settle();
    world.compare();
}

/// Messages that are not the controller's next are not taken, whatever they say.
#[test]
fn a_node_takes_no_message_of_an_earlier_table_nor_one_out_of_order() {
    let mut world = World::filled(1, 100);
    let version = world.core.fib.version().0;
    let mut changes = Vec::new();
    FibChange::Route { prefix: prefix(5), set: None }.write(&mut changes);
    let stale = |table, from, to| FibUpdate {
        table,
        from,
        to,
        made_at: version + 2,
        sum: None,
        changes: changes.clone(),
    };
    for update in [
        stale((1 << 16) - 1, version, version + 1),
        stale(1 << 16, version + 1, version + 2),
        stale(1 << 16, version - 2, version - 1),
        stale(1 << 16, 0, version),
    ] {
        let taken = world.nodes[0].copy.take(&update).unwrap();
        assert_eq!((taken.routes, taken.turned), (vec![], None), "{update:?}");
    }
    world.wire.clear();
    world.compare();
}
