//! Several controllers over a model of the store, with delays, partitions, pauses, crashes and
//! clocks that run wrong. Their promises are checked as a history. In every other one the store is
//! in-band: after all power was cut, it is reached over routes that a controller has set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::Ipv4Addr;

use plexus_wire::MacAddr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::model::Model;
use super::*;
use crate::Lease as AddressLease;

const COUNT: usize = 3;
const LEASE: Duration = Duration::from_secs(2);
const TIMES: Times = Times {
    lease: LEASE,
    report: Some(Duration::from_millis(200)),
    silence: Duration::from_millis(500),
};

fn number_of(at: usize) -> u64 {
    at as u64 + 1
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A controller that leads: it leases addresses to hosts that ask.
struct Reign {
    epoch: u64,
    in_doubt: bool,
    leased: BTreeMap<Ipv4Addr, MacAddr>,
    pending: BTreeMap<u64, (Ipv4Addr, MacAddr)>,
    ticket: u64,
}

struct One {
    name: String,
    tenure: Option<Tenure>,
    reign: Option<Reign>,
    /// Its life: what was sent to an earlier one does not arrive.
    life: u32,
    /// Its clock, against the true one: an offset, and thousandths that it is too fast or slow.
    clock: (u64, i64),
    paused_until: Time,
    /// Cut from the store, or from the nodes, until then.
    cut: [Time; 2],
    /// When its last write arrives at the store.
    written_at: Time,
}

impl One {
    fn read(&self, now: Time) -> Time {
        let nanos = i128::from(now.as_nanos());
        let nanos = nanos + nanos * i128::from(self.clock.1) / 1000 + i128::from(self.clock.0);
        Time::from_nanos(nanos as u64)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    ToStore(usize, u32, u64),
    ToController(usize, u32, u64),
    Heard(usize),
    Host,
    Fault,
}

struct World {
    rng: Pcg64,
    now: Time,
    store: Model,
    all: Vec<One>,
    due: BinaryHeap<Reverse<(Time, u64, Due)>>,
    order: u64,
    asks: BTreeMap<u64, Ask>,
    answers: BTreeMap<u64, Answer>,
    faults_until: Time,
    /// Promises to hosts: address, host, epoch.
    promised: BTreeMap<Ipv4Addr, (MacAddr, u64)>,
    led: BTreeSet<u64>,
    /// The epoch and number of the controller that nodes follow: the highest epoch that they have
    /// heard, and the lowest number of those that have it.
    followed: (u64, u64),
    is_in_band: bool,
    /// Some controller has set routes since the power was cut.
    has_routes: bool,
    /// How often a controller has led provisionally.
    provisional: u32,
    /// Writes that the store has refused.
    fenced: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Pcg64::seed_from_u64(seed);
        let one = |number: usize| One {
            name: format!("c{number}"),
            tenure: None,
            reign: None,
            life: 0,
            clock: (rng.random_range(0..1 << 50), rng.random_range(-20..=20)),
            paused_until: Time::ZERO,
            cut: [Time::ZERO; 2],
            written_at: Time::ZERO,
        };
        let all = (1..=COUNT).map(one).collect();
        let mut world = World {
            rng,
            now: Time::ZERO + ms(1),
            store: Model::default(),
            all,
            due: BinaryHeap::new(),
            order: 0,
            asks: BTreeMap::new(),
            answers: BTreeMap::new(),
            faults_until: Time::ZERO + ms(60_000),
            promised: BTreeMap::new(),
            led: BTreeSet::new(),
            followed: (0, 0),
            is_in_band: seed % 2 == 1,
            has_routes: false,
            provisional: 0,
            fenced: 0,
        };
        (0..COUNT).for_each(|at| world.start(at));
        world.later(ms(1), Due::Host);
        world.later(ms(5_000), Due::Fault);
        (0..COUNT).for_each(|at| world.later(ms(100), Due::Heard(at)));
        world
    }

    fn later(&mut self, after: Duration, due: Due) {
        self.order += 1;
        self.due.push(Reverse((self.now + after, self.order, due)));
    }

    fn start(&mut self, at: usize) {
        let one = &mut self.all[at];
        one.life += 1;
        one.tenure = Some(Tenure::new(&one.name, number_of(at), TIMES));
        one.written_at = Time::ZERO;
        // The store says what it has, as to anyone who begins to watch.
        self.store.state().into_iter().for_each(|answer| self.bring(at, answer));
    }

    fn crash(&mut self, at: usize) {
        self.all[at].tenure = None;
        self.all[at].reign = None;
    }

    /// Until when a controller is cut from the store, if it is.
    fn cut_from_store(&self, at: usize) -> Option<Time> {
        let is_reached = !self.is_in_band || self.has_routes;
        let until = if is_reached { self.all[at].cut[0] } else { self.now + ms(10) };
        Some(until).filter(|until| *until > self.now)
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(self.rng.random_range(200..20_000))
    }

    /// An answer is on its way. A connection keeps the order of news.
    fn bring(&mut self, at: usize, answer: Answer) {
        self.order += 1;
        let (number, life) = (self.order, self.all[at].life);
        self.answers.insert(number, answer);
        self.later(ms(50), Due::ToController(at, life, number));
    }

    /// A connection was lost; the next one tells what is there.
    fn lose(&mut self, at: usize) {
        self.bring(at, Answer::Lost);
        self.store.state().into_iter().for_each(|answer| self.bring(at, answer));
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let tenure = |one: &One| {
                let tenure = one.tenure.as_ref()?;
                // The true time of its deadline is found by looking often.
                (one.paused_until <= self.now && tenure.next_deadline() <= one.read(self.now))
                    .then_some(())
            };
            if let Some(at) = self.all.iter().position(|one| tenure(one).is_some()) {
                let now = self.all[at].read(self.now);
                if let Some(tenure) = &mut self.all[at].tenure {
                    tenure.run(now);
                }
                self.carry_out(at);
                continue;
            }
            let step = self.now + ms(5);
            match self.due.peek() {
                Some(Reverse((when, ..))) if *when <= step => {
                    let Some(Reverse((when, _, due))) = self.due.pop() else { return };
                    self.now = when.max(self.now);
                    self.happen(due);
                }
                _ => self.now = step,
            }
            if self.now >= end {
                return;
            }
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::ToStore(at, life, number) => {
                let Some(ask) = self.asks.remove(&number) else { return };
                let one = &self.all[at];
                // Requests of a crashed controller may still arrive.
                if self.cut_from_store(at).is_some() || one.life > life + 1 {
                    return self.lose(at);
                }
                let name = one.name.clone();
                self.check_expiry();
                let (answer, news) = self.store.serve(self.now, &name, ask);
                let is_late = |epoch| epoch != PROVISIONAL_EPOCH;
                let fenced = matches!(answer, Some(Answer::Fenced { epoch }) if is_late(epoch));
                self.fenced += u32::from(fenced);
                for news in news {
                    (0..COUNT).for_each(|to| self.bring(to, news.clone()));
                }
                if let Some(answer) = answer {
                    self.order += 1;
                    self.answers.insert(self.order, answer);
                    let (number, delay) = (self.order, self.delay());
                    self.later(delay, Due::ToController(at, life, number));
                }
            }
            Due::ToController(at, life, number) => {
                let Some(answer) = self.answers.remove(&number) else { return };
                let cut = self.cut_from_store(at);
                let one = &mut self.all[at];
                if one.life != life || one.tenure.is_none() {
                    return;
                }
                // The controller notices by itself that the connection is lost.
                if let Some(until) = cut.filter(|_| answer != Answer::Lost) {
                    // News waits for the connection, answers are lost.
                    if matches!(answer, Answer::Leader(_) | Answer::Member(..)) {
                        let after = until.since(self.now) + ms(10);
                        self.answers.insert(number, answer);
                        return self.later(after, Due::ToController(at, life, number));
                    }
                    return self.lose(at);
                }
                if one.paused_until > self.now {
                    let after = one.paused_until.since(self.now);
                    self.answers.insert(number, answer);
                    return self.later(after, Due::ToController(at, life, number));
                }
                self.take(at, answer);
            }
            Due::Heard(at) => {
                self.nodes_follow();
                let one = &mut self.all[at];
                let attached = one.cut[1] <= self.now;
                let leader = self.followed_now().filter(|_| attached);
                let leader = leader.map(|(epoch, controller)| hub::Leader { epoch, controller });
                let one = &mut self.all[at];
                let now = one.read(self.now);
                if let (Some(tenure), true) = (&mut one.tenure, one.paused_until <= self.now) {
                    let nodes = if attached && one.reign.is_some() { 10 } else { 0 };
                    tenure.describe(Member { nodes, ..Member::default() });
                    tenure.attach(now, attached);
                    tenure.hear(now, leader);
                    self.carry_out(at);
                }
                self.later(ms(100), Due::Heard(at));
            }
            Due::Host => {
                self.host_asks();
                let after = ms(self.rng.random_range(1..50));
                self.later(after, Due::Host);
            }
            Due::Fault => {
                if self.now < self.faults_until {
                    self.fault();
                    let after = ms(self.rng.random_range(100..6_000));
                    self.later(after, Due::Fault);
                }
            }
        }
    }

    /// The epochs and numbers of the leaders that nodes hear now.
    fn heard(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, one)| {
            let is_heard = one.cut[1] <= self.now && one.paused_until <= self.now;
            Some((one.reign.as_ref().filter(|_| is_heard)?.epoch, number_of(at)))
        })
    }

    /// Nodes obey the highest epoch that they have heard.
    fn nodes_follow(&mut self) {
        let best = self.heard().max_by_key(|(epoch, number)| (*epoch, Reverse(*number)));
        if let Some(best) = best.filter(|(epoch, _)| *epoch >= self.followed.0) {
            self.followed = best;
            self.has_routes = true;
        }
    }

    /// The controller that nodes follow, if it is alive.
    fn followed_now(&self) -> Option<(u64, u64)> {
        Some(self.followed).filter(|followed| self.heard().any(|heard| heard == *followed))
    }

    /// All boxes lose their power, and have it again at once. The store takes longer.
    fn power_cut(&mut self, store_takes: Duration) {
        (self.followed, self.has_routes) = ((0, 0), false);
        for at in 0..COUNT {
            self.crash(at);
            self.all[at].cut[0] = self.now + store_takes;
            self.start(at);
        }
    }

    fn fault(&mut self) {
        let at = self.rng.random_range(0..COUNT);
        let lasts = ms(self.rng.random_range(50..8_000));
        if self.rng.random_ratio(1, 13) {
            return self.power_cut(lasts);
        }
        match self.rng.random_range(0..6) {
            0 => self.crash(at),
            1 => {
                if self.all[at].tenure.is_none() {
                    self.start(at);
                }
            }
            2 => self.all[at].cut[0] = self.now + lasts,
            3 => self.all[at].cut[1] = self.now + lasts,
            4 => self.all[at].paused_until = self.now + lasts,
            // Nobody reaches the store.
            _ => self.all.iter_mut().for_each(|one| one.cut[0] = self.now + lasts),
        }
    }

    fn take(&mut self, at: usize, answer: Answer) {
        let one = &mut self.all[at];
        let now = one.read(self.now);
        let is_provisional = matches!(answer, Answer::Written { epoch, .. } if epoch < 2);
        assert!(!is_provisional, "{} has written without the store's consent", one.name);
        if let (Answer::Written { epoch, ticket }, Some(reign)) = (&answer, &mut one.reign) {
            // As the daemon does it: the promise follows the write, with nothing in between.
            if *epoch == reign.epoch
                && let Some((ip, mac)) = reign.pending.remove(ticket)
                && !reign.in_doubt
            {
                let before = self.promised.insert(ip, (mac, reign.epoch));
                assert!(
                    before.is_none_or(|(other, _)| other == mac),
                    "{ip} is promised to {mac}, and to {before:?}"
                );
            }
        }
        if let Some(tenure) = &mut one.tenure {
            tenure.answer(now, answer);
        }
        self.carry_out(at);
    }

    fn carry_out(&mut self, at: usize) {
        loop {
            let one = &mut self.all[at];
            let Some(output) = one.tenure.as_mut().and_then(Tenure::poll_output) else { return };
            match output {
                Output::Ask(ask) => self.send(at, ask),
                Output::Lead { epoch: PROVISIONAL_EPOCH, stored } => {
                    assert!(one.reign.is_none() && stored.is_empty(), "{} leads", one.name);
                    self.provisional += 1;
                    let (leased, pending) = (BTreeMap::new(), BTreeMap::new());
                    let (epoch, in_doubt, ticket) = (PROVISIONAL_EPOCH, false, 0);
                    one.reign = Some(Reign { epoch, in_doubt, leased, pending, ticket });
                }
                Output::Lead { epoch, stored } => {
                    let last = self.led.last().copied().unwrap_or(PROVISIONAL_EPOCH);
                    assert!(epoch > last, "epoch {epoch} comes after {last}");
                    assert!(self.led.insert(epoch), "epoch {epoch} is led twice");
                    assert!(one.reign.is_none(), "{} leads already", one.name);
                    let leases = stored.into_iter().filter_map(|record| match record {
                        Record::Lease(lease) => Some(lease),
                        Record::Common(_) => None,
                    });
                    let leased: BTreeMap<_, _> = leases.map(|l| (l.ip, l.mac)).collect();
                    for (ip, (mac, by)) in &self.promised {
                        assert!(*by < epoch);
                        assert_eq!(leased.get(ip), Some(mac), "a promise is lost");
                    }
                    let pending = BTreeMap::new();
                    one.reign = Some(Reign { epoch, in_doubt: false, leased, pending, ticket: 0 });
                }
                Output::Doubt(in_doubt) => {
                    one.reign.as_mut().expect("only a leader doubts").in_doubt = in_doubt;
                }
                Output::Retire(_) => {
                    assert!(one.reign.take().is_some(), "only a leader retires");
                }
            }
        }
    }

    fn send(&mut self, at: usize, ask: Ask) {
        self.order += 1;
        self.asks.insert(self.order, ask.clone());
        let (number, life) = (self.order, self.all[at].life);
        // Writes stay in order, other requests may overtake each other.
        let mut delay = self.delay();
        if matches!(ask, Ask::Write { .. }) {
            if self.rng.random_ratio(1, 30) {
                delay += ms(self.rng.random_range(0..4_000));
            }
            let written = &mut self.all[at].written_at;
            *written = (*written).max(self.now + delay);
            delay = written.since(self.now);
        }
        self.later(delay, Due::ToStore(at, life, number));
    }

    /// A host asks a leader for an address, or gives its own back.
    fn host_asks(&mut self) {
        let mac = MacAddr([2, 0, 0, 0, 0, self.rng.random_range(0..8)]);
        let ip = Ipv4Addr::new(10, 0, 0, self.rng.random_range(0..6));
        let at = self.rng.random_range(0..COUNT);
        let one = &mut self.all[at];
        if one.paused_until > self.now {
            return;
        }
        let Some(reign) = &mut one.reign else { return };
        if reign.in_doubt || reign.leased.get(&ip).is_some_and(|other| *other != mac) {
            return;
        }
        let is_promised = self.promised.get(&ip).is_some_and(|(holder, _)| *holder == mac);
        let change = match reign.leased.contains_key(&ip) {
            false => Change::Put(Record::Lease(AddressLease { ip, mac, until_unix_s: 0 })),
            // A host gives back only what it has been promised.
            true if is_promised => Change::RemoveLease(ip),
            true => return,
        };
        reign.ticket += 1;
        let (epoch, ticket) = (reign.epoch, reign.ticket);
        if is_promised {
            reign.leased.remove(&ip);
            self.promised.remove(&ip);
        } else {
            reign.leased.insert(ip, mac);
            reign.pending.insert(ticket, (ip, mac));
        }
        self.send(at, Ask::Write { epoch, ticket, changes: vec![change] });
    }

    /// When a lease ends by itself, its leader must already be in doubt by its own clock.
    fn check_expiry(&mut self) {
        let Some(leader) = &self.store.leader else { return };
        if self.store.leases.get(&leader.lease).is_none_or(|(until, _)| *until > self.now) {
            return;
        }
        // One that has just gone on after a pause looks at its clock first.
        let mut led = self.all.iter().filter(|one| {
            let due = one.tenure.as_ref().map(Tenure::next_deadline);
            one.paused_until <= self.now && due.is_some_and(|due| due > one.read(self.now))
        });
        let sure = led
            .find(|one| one.reign.as_ref().is_some_and(|r| r.epoch == leader.epoch && !r.in_doubt));
        assert!(sure.is_none(), "{} trusts a lease that has ended", sure.unwrap().name);
    }

    fn leaders(&self) -> Vec<(usize, u64, bool)> {
        let reign = |(at, one): (usize, &One)| {
            one.reign.as_ref().map(|reign| (at, reign.epoch, reign.in_doubt))
        };
        self.all.iter().enumerate().filter_map(reign).collect()
    }
}

/// Faults for a minute, then ten seconds of peace. Gives how often a leader has begun to lead, how
/// many writes were refused, and how often a controller has led provisionally.
fn history(seed: u64) -> [u32; 3] {
    let mut world = World::new(seed);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.run_until(world.faults_until + ms(8_000));
        for at in 0..COUNT {
            if world.all[at].tenure.is_none() {
                world.start(at);
            }
        }
        world.run_until(world.now + ms(10_000));
        let leaders = world.leaders();
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        assert!(!leaders[0].2, "it is in doubt although nothing is wrong");
        let (at, epoch, _) = leaders[0];
        assert!(epoch > PROVISIONAL_EPOCH, "it does not know its store");
        assert_eq!(world.followed_now(), Some((epoch, number_of(at))));
    }));
    if let Err(panic) = told {
        eprintln!("seed {seed}, at {:?}", world.now);
        std::panic::resume_unwind(panic);
    }
    [world.led.len() as u32, world.fenced, world.provisional]
}

/// Histories in which leaders change and write too late, or they would show nothing.
fn histories(count: u64) {
    let add = |a: [u32; 3], b: [u32; 3]| std::array::from_fn(|i| a[i] + b[i]);
    let sum = (0..count).map(history).fold([0; 3], add);
    let [led, fenced, provisional] = sum.map(u64::from);
    println!("{count} histories: {led} leaders, {fenced} late writes, {provisional} provisional");
    assert!(led > 5 * count && fenced > count / 2 && provisional > count, "{sum:?}");
}

/// A controller with a lease, at a store without a leader; it has just asked to lead.
fn campaigner() -> Tenure {
    let mut tenure = Tenure::new("c1", 1, TIMES);
    tenure.attach(Time::ZERO, true);
    tenure.answer(Time::ZERO, Answer::Leader(None));
    let asked = Time::ZERO;
    tenure.answer(Time::ZERO, Answer::Leased { lease: 7, time: Some(LEASE), asked });
    assert_eq!(asks(&mut tenure).last(), Some(&Ask::Campaign { lease: 7, instead_of: 0 }));
    tenure
}

fn asks(tenure: &mut Tenure) -> Vec<Ask> {
    let outputs = std::iter::from_fn(|| tenure.poll_output());
    let ask = |output| match output {
        Output::Ask(ask) => Some(ask),
        _ => None,
    };
    outputs.filter_map(ask).collect()
}

#[test]
fn a_controller_alone_whose_answer_was_lost_asks_again() {
    let mut tenure = campaigner();
    let own = Leader { name: "c1".into(), lease: 7, epoch: 5 };
    tenure.answer(Time::ZERO + ms(10), Answer::Leader(Some(own)));
    assert_eq!(tenure.role(), Role::Campaigning { since: Time::ZERO, instead_of: 0 });
    tenure.answer(Time::ZERO + ms(20), Answer::Lost);
    assert!(!asks(&mut tenure).iter().any(|ask| matches!(ask, Ask::Campaign { .. })));
    // The new connection tells again what is there.
    let own = Leader { name: "c1".into(), lease: 7, epoch: 5 };
    tenure.answer(Time::ZERO + ms(30), Answer::Leader(Some(own)));
    let again = Ask::Campaign { lease: 7, instead_of: 5 };
    assert!(asks(&mut tenure).contains(&again));
}

#[test]
fn a_leader_whose_write_is_refused_ends_at_once() {
    let mut tenure = campaigner();
    tenure.answer(Time::ZERO + ms(10), Answer::Won { lease: 7, epoch: 5, stored: vec![] });
    assert_eq!(tenure.role(), Role::Leading { epoch: 5, in_doubt: false });
    tenure.answer(Time::ZERO + ms(20), Answer::Fenced { epoch: 4 });
    assert_eq!(tenure.role(), Role::Leading { epoch: 5, in_doubt: false });
    tenure.answer(Time::ZERO + ms(20), Answer::Fenced { epoch: 5 });
    assert_eq!(tenure.role(), Role::Standby);
    assert!(asks(&mut tenure).contains(&Ask::Release { lease: 7 }));
}

#[test]
fn a_silent_leader_is_replaced_only_if_the_store_misses_it_too() {
    let mut tenure = campaigner();
    tenure.answer(Time::ZERO, Answer::Beaten);
    let leader = Leader { name: "c2".into(), lease: 8, epoch: 5 };
    tenure.answer(Time::ZERO, Answer::Leader(Some(leader)));
    let member = Member { nodes: 3, attached: true, ..Member::default() };
    let mut at = Time::ZERO;
    let mut campaigns = |tenure: &mut Tenure, heard: (bool, Option<u64>), reports, time| {
        let (attached, leader) = heard;
        let end = at + ms(time);
        while at < end {
            at = at + ms(100);
            let asked = at;
            tenure.answer(at, Answer::Kept { lease: 7, asked });
            if reports {
                tenure.answer(at, Answer::Member("c2".into(), Some(member)));
            }
            tenure.attach(at, attached);
            tenure.hear(at, leader.map(|epoch| hub::Leader { epoch, controller: 2 }));
        }
        asks(tenure).iter().any(|ask| matches!(ask, Ask::Campaign { .. }))
    };
    assert!(!campaigns(&mut tenure, (true, Some(5)), true, 3000));
    // Our node alone has lost the leader, then the store alone; then our cable is out.
    assert!(!campaigns(&mut tenure, (true, None), true, 3000));
    assert!(!campaigns(&mut tenure, (true, Some(5)), false, 3000));
    assert!(!campaigns(&mut tenure, (false, None), false, 3000));
    // Heartbeats of an earlier leader do not count.
    assert!(campaigns(&mut tenure, (true, Some(4)), false, 100));
}

#[test]
fn a_leader_counts_time_as_most_controllers_do() {
    let mut tenure = campaigner();
    let at = |time| Time::ZERO + ms(time);
    let report = |tenure: &mut Tenure, name: &str, unix_s| {
        let member = Member { attached: true, unix_s, ..Member::default() };
        tenure.answer(at(0), Answer::Member(name.into(), Some(member)));
    };
    assert_eq!(tenure.time_of_day(at(1000), 9_000), 9_000);
    // Its own report does not count twice, and one that says no time does not count.
    report(&mut tenure, "c1", 5_000);
    report(&mut tenure, "c4", 0);
    assert_eq!(tenure.time_of_day(at(1000), 9_000), 9_000);
    // Its own clock is an hour ahead; then another one's is, or is an hour behind.
    report(&mut tenure, "c2", 5_400);
    report(&mut tenure, "c3", 5_401);
    assert_eq!(tenure.time_of_day(at(1000), 9_000), 5_402);
    assert_eq!(tenure.time_of_day(at(1000), 5_403), 5_402);
    report(&mut tenure, "c2", 9_000);
    assert_eq!(tenure.time_of_day(at(1000), 5_402), 5_402);
    report(&mut tenure, "c2", 1_800);
    assert_eq!(tenure.time_of_day(at(1000), 5_402), 5_402);
}

#[test]
fn one_that_has_handed_over_leads_again_only_if_nobody_else_does() {
    let mut tenure = campaigner();
    tenure.answer(Time::ZERO, Answer::Won { lease: 7, epoch: 5, stored: vec![] });
    tenure.drain(Time::ZERO + ms(10));
    assert_eq!(tenure.role(), Role::Standby);
    assert!(asks(&mut tenure).contains(&Ask::Release { lease: 7 }));
    let at = |time| Time::ZERO + ms(time);
    tenure.answer(at(20), Answer::Leader(None));
    tenure.answer(at(20), Answer::Leased { lease: 8, time: Some(LEASE), asked: at(20) });
    tenure.run(at(900));
    assert_eq!(tenure.role(), Role::Standby);
    tenure.run(at(1100));
    assert_eq!(tenure.role(), Role::Campaigning { since: at(1100), instead_of: 0 });
}

/// A controller that was told nothing by its store.
fn unheard(number: u64) -> Tenure {
    let mut tenure = Tenure::new(&format!("c{number}"), number, TIMES);
    tenure.attach(Time::ZERO + ms(500), true);
    tenure
}

/// The epochs that it leads and its reasons to stop, in their order.
fn terms(tenure: &mut Tenure) -> Vec<Result<u64, Why>> {
    let outputs = std::iter::from_fn(|| tenure.poll_output());
    let term = |output| match output {
        Output::Lead { epoch, .. } => Some(Ok(epoch)),
        Output::Retire(why) => Some(Err(why)),
        _ => None,
    };
    outputs.filter_map(term).collect()
}

#[test]
fn one_that_hears_neither_store_nor_leader_leads_provisionally_until_it_leads_by_the_store() {
    let at = |time| Time::ZERO + ms(time);
    let mut tenure = unheard(2);
    tenure.run(at(3400));
    assert!(terms(&mut tenure).is_empty() && !tenure.is_provisional());
    assert!(tenure.next_deadline() <= at(3500));
    tenure.run(at(3500));
    assert_eq!(terms(&mut tenure), [Ok(PROVISIONAL_EPOCH)]);
    // Its node finds it; one with a higher number has begun at the same time.
    for controller in [2, 3] {
        let epoch = PROVISIONAL_EPOCH;
        tenure.hear(at(3600), Some(hub::Leader { epoch, controller }));
        assert!(tenure.is_provisional() && terms(&mut tenure).is_empty());
    }
    // The store is there: a controller that is cut off from it by then has to lead on.
    tenure.answer(at(4000), Answer::Leader(None));
    tenure.answer(at(4000), Answer::Leased { lease: 7, time: Some(LEASE), asked: at(4000) });
    assert!(tenure.is_provisional());
    assert_eq!(tenure.role(), Role::Campaigning { since: at(4000), instead_of: 0 });
    assert!(terms(&mut tenure).is_empty());
    tenure.answer(at(4010), Answer::Won { lease: 7, epoch: 5, stored: vec![] });
    assert_eq!(terms(&mut tenure), [Err(Why::Elected), Ok(5)]);
    assert!(!tenure.is_provisional());
    // In doubt it goes on as it is.
    tenure.hear(at(4100), None);
    tenure.answer(at(4100), Answer::Lost);
    tenure.run(at(60_000));
    assert_eq!(tenure.role(), Role::Leading { epoch: 5, in_doubt: true });
    assert!(terms(&mut tenure).is_empty());
}

#[test]
fn one_that_leads_provisionally_yields_to_a_lower_number_and_to_a_higher_epoch() {
    let at = |time| Time::ZERO + ms(time);
    for (epoch, controller) in [(PROVISIONAL_EPOCH, 1), (2, 3)] {
        let mut tenure = unheard(2);
        tenure.run(at(3500));
        tenure.hear(at(3600), Some(hub::Leader { epoch, controller }));
        assert_eq!(terms(&mut tenure), [Ok(PROVISIONAL_EPOCH), Err(Why::Overruled)]);
        tenure.run(at(10_000));
        // That one dies.
        tenure.hear(at(10_000), None);
        tenure.run(at(12_900));
        assert!(terms(&mut tenure).is_empty());
        tenure.run(at(13_000));
        assert_eq!(terms(&mut tenure), [Ok(PROVISIONAL_EPOCH)]);
        // Then its own cable is out.
        tenure.attach(at(14_000), false);
        tenure.run(at(20_000));
        assert_eq!(terms(&mut tenure), [Err(Why::Detached)]);
    }
}

#[test]
fn nobody_leads_provisionally_while_the_store_or_a_leader_is_heard_or_without_others() {
    let at = |time| Time::ZERO + ms(time);
    let mut tenure = unheard(2);
    tenure.answer(at(1000), Answer::Leader(None));
    tenure.run(at(60_000));
    assert!(terms(&mut tenure).is_empty());
    // It knew its store, and loses it: then all nodes are started anew.
    tenure.hear(at(60_000), Some(hub::Leader { epoch: 9, controller: 1 }));
    tenure.answer(at(60_000), Answer::Lost);
    tenure.run(at(70_000));
    assert!(terms(&mut tenure).is_empty());
    tenure.hear(at(70_000), None);
    tenure.answer(at(71_000), Answer::Lost);
    tenure.run(at(73_000));
    assert_eq!(terms(&mut tenure), [Ok(PROVISIONAL_EPOCH)]);
    let mut alone = Tenure::new("c1", 1, Times::ALONE);
    alone.attach(Time::ZERO, true);
    alone.run(at(60_000));
    assert!(terms(&mut alone).is_empty());
}

#[test]
fn no_promise_is_lost_or_made_twice_whatever_fails() {
    histories(80);
}

#[test]
#[ignore = "takes minutes"]
fn no_promise_is_lost_or_made_twice_in_ten_thousand_histories() {
    histories(10_000);
}
