//! The path to the controller (seed §4.2.1): candidates come from the neighbours' Heartbeats, are
//! verified by an answered Controller Hello, and only then advertised.
//!
//! An unverified path is worth nothing: after a failure, neighbours would go on advertising paths
//! through each other, each longer than the last. Since a node advertises a path only after the
//! controller that leads has answered along it, stale paths end with the failure, without node
//! numbers in Heartbeats.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{ControllerHello, Heartbeat, Hops, PortState, Welcome};
use plexus_wire::fabric::{CONTROL_HOP, HOPS_MAX};

use super::Node;
use super::effect::{Event, Timer};
use crate::session::Channel;

/// A node whose number belongs to another node asks for it again after this time.
const NUMBER_AGAIN: Duration = Duration::from_secs(1);
/// Least time between two reports of that.
const NUMBER_TELL_AGAIN: Duration = Duration::from_secs(60);
/// A Controller Hello without an answer is retransmitted after twice the last round-trip time,
/// within these bounds, then each time after twice the last interval. With a fixed minimum, a
/// controller farther away than that would seem to have lost the session at every Hello.
const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_secs(1);
/// Interval of keep-alives: an answered Hello is repeated after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// A path with this many unanswered Hellos is ranked behind the others for a while.
const TRIES: u32 = 4;
const PENALTY: Duration = Duration::from_secs(3);
/// So is every path of a neighbour after this many Hellos that have verified none, however often it
/// names another one. They are more than four because a session that begins on the way starts the
/// count of its path anew.
const VAIN: u32 = 2 * TRIES;
/// Ports in one page: 22 bytes each, well under the longest body.
const PAGE: usize = 56;

/// A path advertised by a neighbour, our own port first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    hops: Hops,
    controller: u64,
    epoch: u64,
    penalty_until: Time,
}

/// Trials of a neighbour's paths since one of them was last verified.
#[derive(Debug, Default)]
struct Doubt {
    /// Hellos along its paths, and when the last one was sent.
    tries: u32,
    tried_at: Time,
    penalty_until: Time,
}

/// The node's way to the controller.
#[derive(Debug)]
pub(crate) struct Uplink {
    /// The newest controller incarnation heard of.
    epoch: u64,
    candidates: BTreeMap<u8, Candidate>,
    /// By port. They outlast paths and neighbours, because the other end of a cable changes these
    /// as it likes.
    doubts: BTreeMap<u8, Doubt>,
    /// The port whose path is verified.
    verified: Option<u8>,
    /// The port whose path is being tried.
    trying: Option<u8>,
    /// The generation when the trial began, or the port state changed.
    generation: u64,
    /// Pages of it without an answer.
    unanswered: Vec<u16>,
    sent: u32,
    sent_at: Time,
    wait: Duration,
    /// The first retransmission timeout of a generation.
    first_wait: Duration,
    hello_at: Time,
}

/// The meaning of a Welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// From a controller that another one has replaced: refused.
    Stale,
    /// Nothing new.
    Known,
    /// The path is now verified, and was not before.
    Verified,
}

/// A Hello with the state of all ports, in pages.
pub(super) fn pages(generation: u64, ports: &[PortState]) -> Vec<ControllerHello> {
    let pages = ports.len().div_ceil(PAGE).max(1) as u16;
    let part = |page: u16| ports.chunks(PAGE).nth(page.into()).unwrap_or_default().to_vec();
    let hello = |page| ControllerHello { generation, page, pages, ports: part(page) };
    (0..pages).map(hello).collect()
}

impl Uplink {
    pub(crate) fn new() -> Uplink {
        Uplink {
            epoch: 0,
            candidates: BTreeMap::new(),
            doubts: BTreeMap::new(),
            verified: None,
            trying: None,
            generation: 0,
            unanswered: vec![],
            sent: 0,
            sent_at: Time::ZERO,
            wait: RESEND_MIN,
            first_wait: RESEND_MIN,
            hello_at: Time::FOREVER,
        }
    }

    /// Processes a neighbour's Heartbeat. True if the path to the controller has changed.
    pub(crate) fn heard(&mut self, now: Time, port: u8, beat: &Heartbeat) -> bool {
        let Some(path) = &beat.path else { return self.lost(now, port) };
        // Our own hop is prepended, and an answer has to return in the same header.
        let usable = path.last() == Some(&CONTROL_HOP) && path.len() < HOPS_MAX;
        if beat.epoch < self.epoch || !usable {
            return self.lost(now, port);
        }
        let mut hops = vec![port];
        hops.extend(path);
        let known = self.candidates.get(&port);
        if known.is_some_and(|k| {
            (&k.hops, k.controller, k.epoch) == (&hops, beat.controller, beat.epoch)
        }) {
            return false;
        }
        let penalty_until = self.doubts.get(&port).map_or(Time::ZERO, |d| d.penalty_until);
        if penalty_until > now && self.verified.is_some_and(|verified| verified != port) {
            // Its first Heartbeat after that counts.
            return self.lost(now, port);
        }
        let candidate =
            Candidate { hops, controller: beat.controller, epoch: beat.epoch, penalty_until };
        self.candidates.insert(port, candidate);
        if self.verified == Some(port) {
            self.verified = None;
        }
        if self.trying == Some(port) {
            self.trying = None;
        }
        self.choose(now)
    }

    /// A neighbour has no path any more, or was lost. True if the path has changed.
    pub(crate) fn lost(&mut self, now: Time, port: u8) -> bool {
        if self.candidates.remove(&port).is_none() {
            return false;
        }
        let used = self.verified == Some(port) || self.trying == Some(port);
        if self.verified == Some(port) {
            self.verified = None;
        }
        if self.trying == Some(port) {
            self.trying = None;
        }
        if used {
            self.choose(now);
        }
        used
    }

    /// Tries the best candidate, unless the verified one is as good. True if anything changes.
    fn choose(&mut self, now: Time) -> bool {
        // A restarted controller first. Provisional leaders share an epoch: the lowest number
        // counts, so that all nodes agree. Then the shortest path.
        let rank =
            |c: &Candidate| (c.penalty_until > now, Reverse(c.epoch), c.controller, c.hops.len());
        let worth = |port: u8, c: &Candidate| (rank(c), port);
        let best = self.candidates.iter().min_by_key(|(port, c)| worth(**port, c));
        let Some((&best, candidate)) = best else {
            self.trying = None;
            self.hello_at = Time::FOREVER;
            return true;
        };
        let good = self.verified.and_then(|v| Some((v, self.candidates.get(&v)?)));
        if good.is_some_and(|(_, held)| rank(held) <= rank(candidate)) {
            self.trying = None;
            return false;
        }
        if self.trying == Some(best) {
            return false;
        }
        self.trying = Some(best);
        self.begin(now);
        true
    }

    /// A new generation: its Hello is due at once.
    fn begin(&mut self, now: Time) {
        self.generation += 1;
        self.unanswered.clear();
        self.sent = 0;
        self.wait = self.first_wait;
        self.hello_at = now;
    }

    /// The state of the ports has changed and has to be reported to the controller.
    pub(crate) fn ports_changed(&mut self, now: Time) {
        if self.path().is_some() {
            self.begin(now);
        } else {
            self.generation += 1;
        }
    }

    /// The path to use: the one being tried for a Hello, the verified one for everything else.
    pub(crate) fn path(&self) -> Option<&Hops> {
        let port = self.verified.or(self.trying)?;
        self.candidates.get(&port).map(|c| &c.hops)
    }

    /// The path that a Hello takes.
    pub(crate) fn hello_path(&self) -> Option<&Hops> {
        let port = self.trying.or(self.verified)?;
        self.candidates.get(&port).map(|c| &c.hops)
    }

    /// The controller at the end of the path.
    pub(crate) fn controller(&self) -> Option<u64> {
        let port = self.trying.or(self.verified)?;
        self.candidates.get(&port).map(|c| c.controller)
    }

    /// The controller whose path is verified.
    fn verified(&self) -> Option<u64> {
        let port = self.verified?;
        self.candidates.get(&port).map(|c| c.controller)
    }

    /// The Heartbeat for the neighbours.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let good = self.verified.and_then(|v| self.candidates.get(&v));
        Heartbeat {
            epoch: self.epoch,
            controller: good.map_or(0, |c| c.controller),
            path: good.map(|c| c.hops.clone()),
        }
    }

    /// Hellos sent since the last answer.
    pub(crate) fn unanswered(&self) -> u32 {
        self.sent
    }

    /// The Hello that is due, in pages; `ports` is the state of all ports.
    pub(crate) fn hello(&mut self, now: Time, ports: &[PortState]) -> Vec<ControllerHello> {
        if now < self.hello_at || self.hello_path().is_none() {
            return vec![];
        }
        let doubt = self.trying.and_then(|port| self.doubts.get(&port));
        if self.sent >= TRIES || doubt.is_some_and(|doubt| doubt.tries >= VAIN) {
            self.give_up(now);
            if now < self.hello_at || self.hello_path().is_none() {
                return vec![];
            }
        }
        let all = pages(self.generation, ports);
        if self.unanswered.is_empty() {
            self.unanswered = (0..all.len() as u16).collect();
        }
        if let Some(port) = self.trying {
            let doubt = self.doubts.entry(port).or_default();
            let is_old = now.since(doubt.tried_at) >= PENALTY;
            doubt.tries = if is_old { 1 } else { doubt.tries + 1 };
            doubt.tried_at = now;
        }
        self.sent += 1;
        self.sent_at = now;
        self.hello_at = now + self.wait;
        self.wait = (self.wait * 2).min(RESEND_MAX);
        all.into_iter().filter(|hello| self.unanswered.contains(&hello.page)).collect()
    }

    /// The path in use does not answer: it is ranked behind the others from now on.
    fn give_up(&mut self, now: Time) {
        let Some(port) = self.trying.or(self.verified) else { return };
        if let Some(candidate) = self.candidates.get_mut(&port) {
            candidate.penalty_until = now + PENALTY;
        }
        if let Some(doubt) = self.doubts.get_mut(&port) {
            (doubt.tries, doubt.penalty_until) = (0, now + PENALTY);
        }
        if self.verified == Some(port) {
            self.verified = None;
        }
        self.trying = None;
        self.choose(now);
        // It may be the only path.
        self.begin(now);
    }

    /// The controller of this number has answered.
    pub(crate) fn welcomed(&mut self, now: Time, welcome: &Welcome, from: u64) -> Greeting {
        // A controller that stands by says 0: it is no way to the one that leads.
        if welcome.epoch == 0 || welcome.epoch < self.epoch {
            return Greeting::Stale;
        }
        self.epoch = welcome.epoch;
        // The path of another one proves nothing, wherever it leads.
        if welcome.generation != self.generation || self.controller() != Some(from) {
            return Greeting::Known;
        }
        self.unanswered.retain(|&page| page != welcome.page);
        if !self.unanswered.is_empty() {
            return Greeting::Known;
        }
        // It is unknown which of several Hellos was answered: so keep the timeout that was long
        // enough (Karn's algorithm, RFC 6298, 3 and 5.5).
        let enough = match self.sent {
            0 => self.first_wait,
            1 => 2 * now.since(self.sent_at),
            _ => self.wait / 2,
        };
        self.first_wait = enough.clamp(RESEND_MIN, RESEND_MAX);
        self.wait = self.first_wait;
        self.sent = 0;
        self.hello_at = now + KEEP_ALIVE;
        let Some(tried) = self.trying.take() else { return Greeting::Known };
        self.doubts.remove(&tried);
        self.verified = Some(tried);
        Greeting::Verified
    }

    /// When [`hello`](Self::hello) is next due.
    pub(crate) fn next_deadline(&self) -> Time {
        self.hello_at
    }
}

/// The session with the verified controller while another one is tried. A neighbour may tell of any
/// controller, and if that does not answer, the session goes on.
#[derive(Debug)]
pub(super) struct Aside {
    controller: u64,
    channel: Channel,
    greeted: bool,
}

impl Node {
    /// Puts the session aside if it is with the verified controller, and another one is tried.
    pub(super) fn put_session_aside(&mut self) {
        let peer = self.channel.peer().map(|peer| peer.credential.claims().node);
        let Some(controller) = peer.filter(|peer| self.uplink.verified() == Some(*peer)) else {
            return;
        };
        let fresh = self.new_channel();
        let channel = std::mem::replace(&mut self.channel, fresh);
        let greeted = std::mem::take(&mut self.greeted);
        self.aside = Some(Box::new(Aside { controller, channel, greeted }));
    }

    /// Goes on with the session that was put aside if it is with this controller.
    pub(super) fn take_session_back(&mut self, controller: u64) -> bool {
        let Some(aside) = self.aside.take_if(|aside| aside.controller == controller) else {
            return false;
        };
        (self.channel, self.greeted) = (aside.channel, aside.greeted);
        true
    }

    /// The number belongs to another node: this node asks again later.
    pub(super) fn number_taken(&mut self, now: Time, key: [u8; 32]) {
        self.channel.reset();
        self.timers.set(Timer::Number, now + NUMBER_AGAIN);
        let is_news = self
            .number_told
            .is_none_or(|(told, at)| told != key || now.since(at) >= NUMBER_TELL_AGAIN);
        if is_news {
            self.number_told = Some((key, now));
            let same = key == self.identity.claims().static_public;
            self.tell(Event::NumberTaken { key, same });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: [u8; 2] = [2, CONTROL_HOP];

    fn answer(hello: &ControllerHello) -> Welcome {
        let (generation, page) = (hello.generation, hello.page);
        let (group_mac, gateways) = (plexus_wire::MacAddr::BROADCAST, vec![]);
        Welcome { epoch: 7, generation, page, report: false, group_mac, gateways }
    }

    /// Runs generations one after the other, each until its Hello is answered; returns how often
    /// each was sent.
    fn generations(count: usize, answer_takes: Duration) -> Vec<u32> {
        let mut uplink = Uplink::new();
        let mut now = Time::from_secs(1);
        let path = Some(NEXT.to_vec());
        assert!(uplink.heard(now, 1, &Heartbeat { epoch: 7, controller: 9, path }));
        let run = |_| {
            let mut first = None;
            let mut sent = 0;
            loop {
                for hello in uplink.hello(now, &[]) {
                    first.get_or_insert((now, hello));
                    sent += 1;
                }
                let (since, hello) = first.as_ref().unwrap();
                let answered_at = *since + answer_takes;
                if answered_at <= uplink.next_deadline() {
                    now = answered_at;
                    uplink.welcomed(now, &answer(hello), 9);
                    break;
                }
                now = uplink.next_deadline();
            }
            uplink.ports_changed(now);
            sent
        };
        (0..count).map(run).collect()
    }

    /// The controller that a node follows which hears these by ports 1, 2, …, as (epoch, number,
    /// hops), whatever the order, once each Hello has been answered.
    fn followed(heard: &[(u64, u64, usize)]) -> u64 {
        let ports: Vec<(u8, (u64, u64, usize))> = (1..).zip(heard.iter().copied()).collect();
        let run = |order: Vec<&(u8, (u64, u64, usize))>| {
            let (mut uplink, mut now) = (Uplink::new(), Time::from_secs(1));
            for (port, (epoch, controller, hops)) in order {
                let path = Some([&vec![9; *hops][..], &[CONTROL_HOP]].concat());
                let (epoch, controller) = (*epoch, *controller);
                uplink.heard(now, *port, &Heartbeat { epoch, controller, path });
                for hello in uplink.hello(now, &[]) {
                    let tried = uplink.controller();
                    let of = |&&(epoch, number, _): &&(u64, u64, usize)| {
                        Some(number) == tried && epoch >= uplink.epoch
                    };
                    let epoch = heard.iter().filter(of).map(|(epoch, ..)| *epoch).max().unwrap();
                    let welcome = Welcome { epoch, ..answer(&hello) };
                    let from = tried.unwrap();
                    assert_eq!(uplink.welcomed(now, &welcome, from), Greeting::Verified);
                }
                now = now + Duration::from_millis(10);
            }
            uplink.heartbeat().controller
        };
        let there = run(ports.iter().collect());
        assert_eq!(run(ports.iter().rev().collect()), there, "{heard:?}");
        there
    }

    #[test]
    fn of_one_epoch_the_lowest_number_is_followed_and_then_the_shortest_path() {
        // Provisional leaders: the path does not count.
        assert_eq!(followed(&[(1, 4, 0), (1, 3, 5), (1, 5, 0)]), 3);
        // A real one comes before them, whatever its number.
        assert_eq!(followed(&[(1, 3, 0), (7, 9, 5), (1, 4, 0)]), 9);
        assert_eq!(followed(&[(6, 3, 0), (7, 9, 5)]), 9);
    }

    #[test]
    fn of_one_controller_the_shortest_path_is_taken() {
        let (mut uplink, now) = (Uplink::new(), Time::from_secs(1));
        for (port, hops) in [(1, 5), (2, 3), (3, 4)] {
            let path = Some([&vec![9; hops][..], &[CONTROL_HOP]].concat());
            uplink.heard(now, port, &Heartbeat { epoch: 7, controller: 9, path });
            for hello in uplink.hello(now, &[]) {
                uplink.welcomed(now, &answer(&hello), 9);
            }
        }
        assert_eq!(uplink.heartbeat().path.map(|path| path.len()), Some(5));
    }

    /// The neighbour at port 2 tells of a way to a later controller, which is not there, and of
    /// another one each time. The one at port 1 has a way to controller 9.
    struct Liar {
        uplink: Uplink,
        now: Time,
        told: u64,
    }

    impl Liar {
        fn beats(&mut self) {
            self.told += 1;
            let far = self.told.to_be_bytes();
            let path = Some([&far[..], &[CONTROL_HOP]].concat());
            // The penalty of a path is forgotten with it.
            let silence = Heartbeat { epoch: 0, controller: 0, path: None };
            self.uplink.heard(self.now, 2, &silence);
            let beat = Heartbeat { epoch: u64::MAX, controller: 99, path };
            self.uplink.heard(self.now, 2, &beat);
        }

        /// The controller whose session is in use after each of so many Heartbeats, one in 10 ms;
        /// controller 9 answers in 30 ms.
        fn run(&mut self, beats: u32) -> Vec<Option<u64>> {
            let mut asked = None;
            let run = |_| {
                self.beats();
                let hellos = self.uplink.hello(self.now, &[]);
                if self.uplink.controller() == Some(9) {
                    asked =
                        hellos.into_iter().next().map(|hello| (self.now, hello)).or(asked.take());
                }
                let answered = asked.take_if(|(at, _)| self.now.since(*at).as_millis() >= 30);
                if let Some((_, hello)) = answered {
                    self.uplink.welcomed(self.now, &answer(&hello), 9);
                }
                self.now = self.now + Duration::from_millis(10);
                self.uplink.controller()
            };
            (0..beats).map(run).collect()
        }
    }

    #[test]
    fn a_neighbour_whose_ways_lead_nowhere_is_skipped_whatever_it_tells() {
        for is_verified in [true, false] {
            let mut liar = Liar { uplink: Uplink::new(), now: Time::from_secs(9), told: 0 };
            if !is_verified {
                liar.beats();
            }
            let path = Some(NEXT.to_vec());
            liar.uplink.heard(liar.now, 1, &Heartbeat { epoch: 7, controller: 9, path });
            if is_verified {
                let hello = liar.uplink.hello(liar.now, &[]).remove(0);
                liar.uplink.welcomed(liar.now, &answer(&hello), 9);
            }
            let followed = liar.run(1500);
            let lost = followed.iter().filter(|controller| **controller != Some(9)).count();
            assert!(lost < 150, "no session for {lost} of 1500 Heartbeats");
            let changes = followed.windows(2).filter(|two| two[0] != two[1]).count();
            assert!((5..=11).contains(&changes), "it is tried every three seconds: {changes}");
        }
    }

    #[test]
    fn a_way_to_another_controller_than_the_one_told_of_is_not_taken() {
        let (mut uplink, now) = (Uplink::new(), Time::from_secs(1));
        let path = Some(NEXT.to_vec());
        uplink.heard(now, 1, &Heartbeat { epoch: 7, controller: 3, path });
        let hello = uplink.hello(now, &[]).remove(0);
        assert_eq!(uplink.welcomed(now, &answer(&hello), 9), Greeting::Known);
        assert_eq!(uplink.heartbeat().path, None);
        assert_eq!(uplink.welcomed(now, &answer(&hello), 3), Greeting::Verified);
    }

    #[test]
    fn a_far_controller_is_asked_once_when_its_distance_is_known() {
        for (ms, sent) in [(1, [1, 1, 1, 1]), (60, [2, 1, 1, 1]), (450, [4, 2, 1, 1])] {
            assert_eq!(generations(4, Duration::from_millis(ms)), sent, "{ms} ms");
        }
    }
}
