use std::cell::Cell;
use std::time::{Duration, Instant};

use plexus_config::{NamedDispatch, NamedSettings};
use plexus_ndn::dispatch::{Depths, Dispatch};
use plexus_ndn::face::LinkType;
use plexus_ndn::fib::{Fib, NameLimits};
use plexus_ndn::names::NameHasher;
use plexus_ndn_faces::{Bounds, Faces, Persistency};
use plexus_wire::ndn::data::{self, MetaInfo};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::interest;
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signed};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::node::named::numa::{Nodes, tests::two_nodes};
use crate::node::named::replicas::Replicas;
use crate::node::named::setup;
use crate::node::thread::time_since;

/// Enough for whatever has to happen; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Workers and their tables, with faces that have no sockets.
struct Rig {
    faces: Faces,
    plane: Plane,
    started: Instant,
    nonce: u32,
    /// Packets that came in.
    received: u64,
}

fn face(place: u32, uses: u32) -> FaceId {
    // The lowest places are for whoever asks the table.
    FaceId::new(100 + place, uses).unwrap()
}

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

impl Rig {
    fn new(workers: usize) -> Rig {
        Rig::on(&Nodes::default(), workers, &[], &[])
    }

    /// With components to be hashed by prefix.
    fn with(workers: usize, dispatch: &[(&str, usize)]) -> Rig {
        Rig::on(&Nodes::default(), workers, &[], dispatch)
    }

    fn on(nodes: &Nodes, workers: usize, cpus: &[u16], dispatch: &[(&str, usize)]) -> Rig {
        let entry = |(prefix, components): &(&str, usize)| NamedDispatch {
            prefix: name(prefix),
            components: *components,
        };
        let settings = NamedSettings {
            workers,
            cpus: cpus.to_vec(),
            dispatch: dispatch.iter().map(entry).collect(),
            cache: 8 << 20,
            ..NamedSettings::default()
        };
        let (started, hasher) = (Instant::now(), NameHasher::new([1, 2]));
        // This machine may have one node, to which memory of another cannot be bound.
        let make = |_| Fib::new(hasher, NameLimits::default()).map_err(|e| e.to_string());
        let fib = Replicas::of(&settings, nodes, make).unwrap();
        let mut faces = Faces::new(Bounds::default(), 1).unwrap();
        let plane = setup::plane(&settings, hasher, fib, &mut faces, started).unwrap();
        Rig { faces, plane, started, nonce: 0, received: 0 }
    }

    fn up(&mut self, id: FaceId) {
        self.up_as(id, Scope::Local);
    }

    fn up_as(&mut self, id: FaceId, scope: Scope) {
        let end = FaceUri::Fd(id.number() as u32);
        let facts = Facts {
            id,
            local: end.clone(),
            remote: end,
            scope,
            link_type: LinkType::PointToPoint,
            persistency: Persistency::OnDemand,
        };
        self.plane.face_up(time_since(self.started), &facts);
    }

    fn down(&mut self, id: FaceId) {
        self.plane.face_down(time_since(self.started), id, &Down::Closed);
    }

    fn route(&mut self, hops: &[(FaceId, u64)]) {
        let hops: Vec<NextHop> =
            hops.iter().map(|(face, cost)| NextHop { face: *face, cost: *cost }).collect();
        self.plane.set_next_hops(Name::ROOT, &hops).unwrap();
    }

    fn packet(&mut self, from: FaceId, packet: &[u8]) {
        let now = time_since(self.started);
        self.received += 1;
        let table = self.faces.table_mut();
        let arrived = Arrived { face: from, headers: Headers::default(), packet };
        self.plane.forward(now, &[arrived], table);
    }

    fn interest(&mut self, from: FaceId, text: &str, change: impl FnOnce(&mut interest::Repr<'_>)) {
        self.nonce += 1;
        let name = name(text);
        let mut repr = interest::Repr::new(name.as_name());
        repr.nonce = Some(self.nonce.to_be_bytes());
        change(&mut repr);
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).unwrap();
        self.packet(from, &bytes);
    }

    fn data(&mut self, from: FaceId, text: &str) {
        let name = name(text);
        let meta = MetaInfo { freshness_ms: Some(10_000), ..MetaInfo::default() };
        let repr = data::Repr { name: name.as_name(), meta: Some(meta), content: Some(b"x") };
        let signer = Signed { info: SignatureInfo::new(SignatureType(0)), value: &[0; 32] };
        let mut bytes = vec![0; repr.buffer_len(&signer)];
        let len = repr.emit(&signer, &mut bytes).unwrap();
        self.packet(from, &bytes[..len]);
    }

    /// What all workers say, once it is so.
    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&Report) -> bool) -> Report {
        let begun = Instant::now();
        loop {
            let now = time_since(self.started);
            self.plane.crew().ring();
            self.plane.deliver(now, self.faces.table_mut());
            self.plane.turn(now, self.faces.table_mut());
            let all = Report::sum(&self.plane.reports(true));
            if is_so(&all) {
                // What they have sent by then is in the rings.
                while !self.plane.crew().may_sleep() {
                    self.plane.deliver(now, self.faces.table_mut());
                }
                self.plane.crew().awake();
                return all;
            }
            let counters = &all.counters;
            assert!(begun.elapsed() < PATIENCE, "{what}: {counters:?}, {} pending", all.pending);
            std::thread::yield_now();
        }
    }

    /// When every worker has taken what it was given: a turn lies between two reports.
    #[track_caller]
    fn quiet(&mut self) -> Report {
        let last = Cell::new(u64::MAX);
        self.until("packets keep coming", |all| {
            let received = all.received.total();
            last.replace(received) == received
        })
    }

    /// When all packets that came in have come to something.
    #[track_caller]
    fn settled(&mut self) -> Report {
        let received = self.received;
        self.until("packets have not come to anything", |all| {
            all.received.total() + all.counters.unknown_face == received
        })
    }
}

#[test]
fn names_are_shared_out_and_orders_reach_every_worker() {
    let mut rig = Rig::new(3);
    let [consumer, first, second] = [face(0, 0), face(1, 0), face(2, 0)];
    [consumer, first, second].into_iter().for_each(|id| rig.up(id));
    rig.route(&[(first, 0), (second, 1)]);
    let ask = |rig: &mut Rig, prefix: &str| {
        (0..60).for_each(|i| rig.interest(consumer, &format!("/{prefix}/{i}/x"), |_| {}));
        rig.settled()
    };
    let all = ask(&mut rig, "a");
    assert_eq!((all.counters.asked.written, all.faces[&first].sent.interests), (60, 60));
    assert_eq!(all.faces[&second].sent.interests, 0);
    let shares = rig.plane.reports(false);
    assert!(shares.iter().all(|worker| worker.counters.asked.written > 0), "a worker has none");
    let given: u64 = shares.iter().map(|worker| worker.given.0).sum();
    assert_eq!(given + shares[0].counters.asked.written, 60);

    let multicast = name("/localhost/nfd/strategy/multicast");
    rig.plane.set_strategy(Name::ROOT, Some(&multicast)).unwrap();
    let all = ask(&mut rig, "b");
    assert_eq!(all.faces[&second].sent.interests, 60, "the other strategy is everywhere");

    (0..60).for_each(|i| rig.data(first, &format!("/a/{i}/x")));
    let all = rig.settled();
    assert_eq!((all.counters.asked.answered, all.faces[&consumer].sent.data), (60, 60));
    assert_eq!(all.cache.entries, 60);
    let shares = rig.plane.reports(false);
    let returned: u64 = shares.iter().map(|worker| worker.returned.0).sum();
    let here = shares[0].sent;
    assert_eq!(returned + here.interests + here.data, 60 + 120 + 60);
    assert_eq!(ask(&mut rig, "a").counters.cache_hits, 60);

    assert_eq!(rig.plane.erase(name("/a").as_name(), 50).count, 50);
    assert_eq!(rig.until("erased", |_| true).cache.entries, 10);
    let rest = rig.plane.erase(Name::ROOT, u64::MAX);
    assert_eq!((rest.count, rest.more), (10, false));
    let change = CacheChange { capacity: Some(31), serves: Some(false), ..CacheChange::default() };
    rig.plane.set_cache(change);
    assert!(rig.plane.reports(false).iter().all(|worker| !worker.cache.serves));
    (0..60).for_each(|i| rig.data(first, &format!("/b/{i}/x")));
    let all = rig.settled();
    assert_eq!(all.cache.capacity, 31);
    assert!((20..=31).contains(&all.cache.entries), "{}", all.cache.entries);
}

#[test]
fn workers_of_two_nodes_have_a_fib_each_and_both_follow_changes() {
    let Some((nodes, cpus)) = two_nodes() else { return };
    let mut rig = Rig::on(&nodes, 2, &cpus, &[]);
    let [consumer, first, second] = [face(0, 0), face(1, 0), face(2, 0)];
    [consumer, first, second].into_iter().for_each(|id| rig.up(id));
    // What went to either of them, of sixty Interests for new names; and each worker's share.
    let ask = |rig: &mut Rig, prefix: &str| {
        let before = rig.plane.reports(true);
        (0..60).for_each(|i| rig.interest(consumer, &format!("/{prefix}/{i}/x"), |_| {}));
        rig.settled();
        let sent = |report: &Report, id| report.faces[&id].sent.interests;
        let after = rig.plane.reports(true);
        let of = |id| [0, 1].map(|worker| sent(&after[worker], id) - sent(&before[worker], id));
        [of(first), of(second)]
    };
    rig.route(&[(first, 0)]);
    let [shares, others] = ask(&mut rig, "a");
    assert!(shares.iter().all(|n| *n > 0) && shares[0] + shares[1] == 60, "{shares:?}");
    assert_eq!(others, [0, 0]);
    let to_second = NextHop { face: second, cost: 0 };
    // Each reads its own: a change of one of them is that worker's alone.
    rig.plane.routing.fib.one(1).set(Name::ROOT, &[to_second]).unwrap();
    let [of_first, of_second] = ask(&mut rig, "b");
    assert!(of_first[0] > 0 && of_second[1] > 0, "{of_first:?}, {of_second:?}");
    assert_eq!((of_first[1], of_second[0]), (0, 0));
    // What the management changes is both's.
    rig.route(&[(second, 0)]);
    let [of_first, of_second] = ask(&mut rig, "c");
    assert_eq!((of_first, of_second[0] + of_second[1]), ([0, 0], 60));
    assert!(of_second.iter().all(|n| *n > 0), "{of_second:?}");
    rig.route(&[]);
    assert_eq!(ask(&mut rig, "d"), [[0, 0], [0, 0]]);
}

#[test]
fn an_interest_shorter_than_what_is_hashed_gets_its_data() {
    let mut rig = Rig::new(4);
    let [consumer, producer] = [face(0, 0), face(1, 0)];
    [consumer, producer].into_iter().for_each(|id| rig.up(id));
    rig.route(&[(producer, 0)]);
    for i in 0..20 {
        rig.interest(consumer, &format!("/{i}"), |repr| repr.can_be_prefix = true);
        rig.interest(consumer, &format!("/{i}/b/c"), |_| {});
    }
    rig.settled();
    for i in 0..20 {
        rig.data(producer, &format!("/{i}/b/c"));
    }
    // Copies that go to a second worker are counted there too.
    let all = rig.until("all are answered", |all| all.counters.asked.answered == 40);
    assert_eq!(all.pending, 0);
    assert!(all.received.data > 20 && all.received.data < 40, "{:?}", all.received);
    // What is told of the face counts each packet once, also when the face has gone.
    let (counted, copies) = all.face(producer).unwrap();
    assert_eq!((counted.received.data, copies), (20, all.received.data - 20));
    assert_eq!(all.received_once().data, 20);
    // Data that one worker waits for, and another gets.
    (20..40).for_each(|i| rig.interest(consumer, &format!("/{i}/b/c"), |_| {}));
    rig.until("all have been sent", |all| all.faces[&producer].sent.interests == 60);
    (20..40).for_each(|i| rig.data(producer, &format!("/{i}/b/c")));
    let all = rig.quiet();
    assert_eq!(all.counters.asked.answered, 60);
    let (counted, copies) = all.face(producer).unwrap();
    assert!(counted.dropped() > 0, "{copies} copies");
    assert_eq!(*Report::dropped(&counted, copies).start(), 0, "nothing was dropped");
    rig.data(producer, "/nobody");
    let all = rig.quiet();
    let (counted, copies) = all.face(producer).unwrap();
    assert!(Report::dropped(&counted, copies).contains(&1), "{counted:?}, {copies}");
    rig.down(producer);
    let all = rig.until("the face has gone everywhere", |all| all.faces.len() < 3);
    assert_eq!(all.received_once().data, 41);
}

#[test]
fn a_prefix_of_the_dispatch_table_is_shared_out_and_another_is_not() {
    let mut rig = Rig::with(4, &[("/web", 4)]);
    let [consumer, producer] = [face(0, 0), face(1, 0)];
    [consumer, producer].into_iter().for_each(|id| rig.up(id));
    rig.route(&[(producer, 0)]);
    let has = |rig: &Rig, what: fn(&Report) -> u64| -> usize {
        rig.plane.reports(false).iter().filter(|worker| what(worker) > 0).count()
    };
    for (site, workers) in [("/web/example.org", 4), ("/other/example.org", 1)] {
        (0..60).for_each(|i| rig.interest(consumer, &format!("{site}/page/{i}"), |_| {}));
        rig.settled();
        assert_eq!(has(&rig, |worker| worker.pending as u64), workers, "{site}");
        (0..60).for_each(|i| rig.data(producer, &format!("{site}/page/{i}")));
        let all = rig.settled();
        assert_eq!((all.pending, all.cache.entries), (0, 60));
        assert_eq!(has(&rig, |worker| worker.cache.entries), workers, "{site}");
        rig.plane.erase(Name::ROOT, u64::MAX);
    }
    // Prefixes of what several workers have: each is answered, and then by what was cached there,
    // in which a name is found by its three longest prefixes.
    let asked = ["/web", "/web/h", "/web/h/page", "/web/h/page/7", "/web/h/page/7/v"];
    let ask = |rig: &mut Rig, asked: &[&str]| {
        let longer = |repr: &mut interest::Repr<'_>| repr.can_be_prefix = true;
        asked.iter().for_each(|text| rig.interest(consumer, text, longer));
        rig.quiet()
    };
    assert_eq!(ask(&mut rig, &asked).pending, 5);
    rig.data(producer, "/web/h/page/7/v/0");
    let all = rig.until("all are answered", |all| all.pending == 0);
    assert_eq!((all.counters.asked.answered, all.counters.cache_hits), (120 + 5, 0));
    let all = ask(&mut rig, &asked[2..]);
    assert_eq!((all.pending, all.counters.cache_hits), (0, 3));
}

#[test]
fn a_face_has_answered_when_it_was_asked_and_by_whichever_worker() {
    for workers in [1, 4] {
        let mut rig = Rig::new(workers);
        let consumer = face(0, 0);
        rig.up(consumer);
        let neighbours: Vec<FaceId> = (1..5).map(|place| face(place, 0)).collect();
        neighbours.iter().for_each(|id| rig.up_as(*id, Scope::NonLocal));
        let [asked, late, stranger, answered] = neighbours[..] else { panic!() };
        // Names of every worker.
        for i in 0..20 {
            rig.route(&[(answered, 0)]);
            rig.interest(consumer, &format!("/{i}/a/x"), |_| {});
            rig.settled();
            rig.data(stranger, &format!("/{i}/a/x"));
            rig.data(answered, &format!("/{i}/a/x"));
            rig.settled();
            // Who comes after the answer has not answered.
            rig.data(late, &format!("/{i}/a/x"));
            rig.route(&[(asked, 0)]);
            rig.interest(consumer, &format!("/{i}/b/x"), |_| {});
            rig.interest(late, &format!("/{i}/a/x"), |_| {});
            rig.settled();
            rig.data(asked, &format!("/{i}/c/x"));
            let all = rig.settled();
            assert!(all.faces[&late].sent.data > 0, "it was sent something, and answered nothing");
            let told = rig.plane.answered(&neighbours);
            assert!(told.iter().all(|id| *id == answered) && !told.is_empty(), "{told:?}");
        }
        assert_eq!(rig.plane.answered(&[asked, stranger]), []);
    }
}

#[test]
fn what_is_for_the_management_comes_to_it_and_its_answers_go_back() {
    // Among so many workers it belongs to another than the first.
    let own = name("/localhost/nfd");
    let is_elsewhere = |n: &u8| Dispatch::new(*n, Depths::default()).worker_of(own.as_name()) != 0;
    let workers = (2..16).find(is_elsewhere).unwrap();
    let mut rig = Rig::new(workers.into());
    let consumer = face(0, 0);
    rig.up(consumer);
    rig.plane.take_mail(usize::MAX);
    let management = rig.plane.management;
    rig.route(&[(management, 0)]);
    rig.interest(consumer, "/localhost/nfd/status/general", |_| {});
    rig.until("the Interest has come", |all| all.sent.interests == 1);
    assert!(rig.plane.reports(false)[0].sent.interests == 0, "it is another worker's");
    let mail = rig.plane.take_mail(usize::MAX);
    assert!(matches!(&mail[..], [Mail::Interest(from, _)] if *from == consumer));
    rig.data(management, "/localhost/nfd/status/general");
    let all = rig.settled();
    assert_eq!(all.faces[&consumer].sent.data, 1);
}

#[test]
fn a_flood_for_the_management_leaves_room_for_other_faces() {
    let mut rig = Rig::new(1);
    let (flood, other) = (face(0, 0), face(1, 0));
    [flood, other].into_iter().for_each(|face| rig.up(face));
    rig.plane.take_mail(usize::MAX);
    rig.route(&[(rig.plane.management, 0)]);
    for number in 0..2 * COMMANDS_MAX {
        rig.interest(flood, &format!("/localhost/nfd/rib/{number}"), |_| {});
    }
    rig.interest(other, "/localhost/nfd/rib/register", |_| {});
    // The management takes a few in each turn, the oldest first.
    let first = rig.plane.take_mail(16);
    assert!(first.len() == 16 && rig.plane.has_mail());
    let mail = rig.plane.take_mail(usize::MAX);
    assert!(mail.len() > 100 && mail.len() <= COMMANDS_MAX, "{}", mail.len());
    assert!(matches!(mail.last(), Some(Mail::Interest(from, _)) if *from == other));
    assert!(!rig.plane.has_mail() && rig.plane.commands.all == 0);
}

#[test]
fn no_more_wait_for_the_management_than_it_takes_whoever_sends_them() {
    let mut commands = Commands::default();
    for number in 0..40 {
        let is_here = number < 2;
        while commands.admit(face(number, 0), is_here) {}
    }
    while commands.admit(face(1, 0), true) {}
    assert!(commands.all <= COMMANDS_MAX && commands.of_neighbours <= COMMANDS_MAX / 2);
    assert!(commands.all > COMMANDS_MAX - 10);
}

#[test]
fn every_interest_comes_to_an_end_while_faces_come_and_go() {
    let mut rig = Rig::new(3);
    let mut random = Pcg64Mcg::seed_from_u64(7);
    // Every Interest is written down.
    rig.plane.set_cache(CacheChange { serves: Some(false), ..CacheChange::default() });
    let producer = face(9, 0);
    rig.up(producer);
    rig.route(&[(producer, 0)]);
    let mut uses = [0; 4];
    (0..4).for_each(|place| rig.up(face(place, 0)));
    for step in 0..6000 {
        let place = random.random_range(0..4);
        let id = face(place, uses[place as usize]);
        let name = format!("/{}/{}/x", random.random_range(0..9), random.random_range(0..9));
        match random.random_range(0..40) {
            0 => {
                // The same place again, as the table gives it: the old face's packets and
                // records are still around.
                rig.down(id);
                uses[place as usize] += 1;
                rig.up(face(place, uses[place as usize]));
            }
            1 => rig.interest(face(place, 4000), &name, |_| {}),
            2..15 => rig.data(producer, &name),
            _ => rig.interest(id, &name, |repr| repr.lifetime_ms = Some(20)),
        }
        if step % 500 == 0 {
            rig.settled();
        }
    }
    rig.settled();
    let all = rig.until("all Interests have ended", |all| all.pending == 0);
    let asked = all.counters.asked;
    assert_eq!(asked.held(), 0, "{asked:?}");
    assert!(asked.answered > 0 && asked.expired > 0 && asked.withdrawn > 0, "{asked:?}");
    assert!(all.counters.unknown_face > 0);
    assert!(all.faces.values().all(|counted| counted.adds_up()));
    assert_eq!(all.faces.len(), 6, "the old faces have gone everywhere");
    let shares = rig.plane.reports(false);
    assert!(shares.iter().all(|w| w.given.1 == 0 && w.returned.1 == 0), "a ring was full");
}
