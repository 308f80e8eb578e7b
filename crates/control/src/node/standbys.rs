//! Sessions with the controllers that stand by. Each of them follows the node's ports and hosts,
//! and may answer questions of its hosts if it is nearer than the one that leads. Whichever leads
//! next goes on with its session. The one that leads tells the others and the ways to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::fabric::CONTROL_HOP;
use plexus_wire::fabric::message::{
    Body, Hops, HostGone, HostReport, HostState, PortState, STANDBYS_MAX, Standbys as Told,
};
use plexus_wire::{MacAddr, Time};

use super::control_frame;
use super::effect::{Effect, Event, Timer, Turn, in_parts};
use super::resolve::short;
use super::stations::REPORT_HOSTS;
use super::uplink::pages;
use super::{Node, Output};
use crate::identity::Identity;
use crate::requests::Requests;
use crate::session::frame::Message;
use crate::session::{Channel, Handled, Refused};

/// A standby is told the ports again after this time, as a sign of life. The neighbours of a box
/// that has died tell of it at once, so this can be slow.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// One that has left a question without an answer may take so long to acknowledge a Hello.
const SILENCE: Duration = Duration::from_secs(1);
/// The value of [`HostReport::more`] for a host that has changed: it is no part of a report.
const CHANGE: u16 = u16::MAX;

/// The controllers that stand by, by their node numbers.
#[derive(Debug, Default)]
pub(super) struct Standbys {
    version: u64,
    /// Counts Hellos to any of them: one that is listed again may know an earlier one.
    generation: u64,
    known: BTreeMap<u64, Box<Standby>>,
}

/// A controller that stands by.
#[derive(Debug)]
struct Standby {
    answers: bool,
    path: Hops,
    channel: Channel,
    requests: Requests,
    /// It has been told all hosts in this session, and is told changes from then on.
    is_told: bool,
    /// When it is told the ports.
    hello_at: Time,
    /// When something authentic came from it.
    heard: Time,
    /// A question to it has timed out then, and nothing has come from it since.
    silent_since: Option<Time>,
}

impl Standbys {
    /// The nearest one that may be asked, if it is nearer than `hops`.
    pub(super) fn nearest(&self, hops: Option<usize>) -> Option<u64> {
        let open = self.known.iter().filter(|(_, s)| s.may_be_asked());
        let (len, controller) = open.map(|(number, s)| (s.path.len(), *number)).min()?;
        hops.is_none_or(|hops| len < hops).then_some(controller)
    }

    /// The one whose session has this number.
    fn owner(&self, number: u32) -> Option<u64> {
        let mut all = self.known.iter();
        all.find(|(_, s)| s.channel.numbers().any(|own| own == number)).map(|(number, _)| *number)
    }

    /// The ports have changed.
    pub(super) fn ports_changed(&mut self, timers: &mut super::Timers<Timer>, now: Time) {
        for (number, standby) in &mut self.known {
            standby.hello_at = now;
            timers.set(Timer::Standby(*number), now);
        }
    }

    /// Removes one that leads now. Returns its session, if there is one, and the hosts that have
    /// gone of which it may not have heard.
    pub(super) fn take(&mut self, controller: u64) -> Option<(Channel, Vec<Body>)> {
        let mut standby = self.known.remove(&controller)?;
        standby.channel.peer()?;
        let gone = standby.requests.take_back(|body| matches!(body, Body::HostGone(_)));
        Some((standby.channel, gone))
    }
}

impl Standby {
    fn may_be_asked(&self) -> bool {
        self.answers && self.silent_since.is_none() && self.channel.peer().is_some()
    }

    fn frame(&self, message: &[u8]) -> Option<Output> {
        control_frame(&self.path, message).map(|frame| Output::Send { frame })
    }

    fn seal(&mut self, now: Time, body: &[u8]) -> Option<Output> {
        let message = self.channel.seal_as(now, body, true).ok()?;
        self.frame(&message)
    }

    /// Sends a body, again until it is acknowledged if it is `sure`.
    fn say(&mut self, now: Time, body: Body, sure: bool) -> Option<Output> {
        let bytes = match sure {
            true => self.requests.send(now, body)?,
            false => Requests::once(&body),
        };
        self.seal(now, &bytes)
    }

    /// Sends what is due; `ports` is the state of all ports, to be told in this generation.
    fn speak(&mut self, now: Time, generation: u64, ports: &[PortState]) -> Vec<Output> {
        let mut out = vec![];
        while let Some(message) = self.channel.poll(now) {
            out.extend(self.frame(&message));
        }
        if self.channel.peer().is_none() && !self.channel.is_opening() {
            let hello = self.channel.start(now);
            out.extend(self.frame(&hello));
        }
        if self.channel.peer().is_some() && self.hello_at <= now {
            // A controller that has started again does not know the session.
            let is_silent = self.silent_since.is_some_and(|since| now.since(since) >= SILENCE);
            let is_lost = is_silent || now.since(self.heard) > KEEP_ALIVE * 3 / 2;
            if is_lost && !self.channel.is_opening() {
                let hello = self.channel.start(now);
                out.extend(self.frame(&hello));
            }
            self.requests.give_up(|body| matches!(body, Body::ControllerHello(_)));
            self.hello_at = now + if self.silent_since.is_some() { SILENCE } else { KEEP_ALIVE };
            for hello in pages(generation, ports) {
                out.extend(self.say(now, hello.into(), true));
            }
        }
        for bytes in self.requests.due(now) {
            out.extend(self.seal(now, &bytes));
        }
        out
    }

    fn next_deadline(&self) -> Time {
        let channel = self.channel.next_deadline().unwrap_or(Time::FOREVER);
        match self.channel.peer() {
            Some(_) => channel.min(self.requests.next_deadline()).min(self.hello_at),
            None => channel,
        }
    }
}

impl Node {
    /// The controller that leads has told which others there are.
    pub(super) fn standbys_told(&mut self, now: Time, told: Told) {
        if told.version < self.standbys.version {
            return;
        }
        if told.standbys.len() > STANDBYS_MAX {
            let why = format!("{} controllers that stand by", told.standbys.len());
            return self.tell(Event::Refused(None, why));
        }
        self.standbys.version = told.version;
        let is_told = |number: &u64| told.standbys.iter().any(|s| s.controller == *number);
        let known = std::mem::take(&mut self.standbys.known);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            known.into_iter().partition(|(number, _)| is_told(number));
        self.standbys.known = kept;
        for number in gone.into_keys() {
            self.timers.cancel(Timer::Standby(number));
        }
        for one in told.standbys {
            if one.path.last() != Some(&CONTROL_HOP) {
                continue;
            }
            if let Some(known) = self.standbys.known.get_mut(&one.controller) {
                (known.answers, known.path) = (one.answers, one.path);
                known.requests.hurry(now);
                self.timers.set(Timer::Standby(one.controller), now);
                continue;
            }
            let mut channel = self.new_channel();
            let hello = channel.start(now);
            let standby = Standby {
                answers: one.answers,
                path: one.path,
                channel,
                requests: Requests::new(u32::from_be_bytes(self.random.bytes())),
                is_told: false,
                hello_at: now,
                heard: now,
                silent_since: None,
            };
            self.outputs.extend(standby.frame(&hello));
            self.timers.set(Timer::Standby(one.controller), standby.next_deadline());
            self.standbys.known.insert(one.controller, Box::new(standby));
        }
        self.choose_nearest();
    }

    /// Questions go to the nearest controller that may be asked.
    pub(super) fn choose_nearest(&mut self) {
        let hops = self.uplink.path().map(Vec::len);
        self.resolver.set_nearest(self.standbys.nearest(hops));
    }

    /// Sends what is due to a standby.
    pub(super) fn speak_to_standby(&mut self, now: Time, number: u64) {
        let ports = self.ports();
        let Some(standby) = self.standbys.known.get_mut(&number) else { return };
        self.standbys.generation += 1;
        self.outputs.extend(standby.speak(now, self.standbys.generation, &ports));
        self.timers.set(Timer::Standby(number), standby.next_deadline());
    }

    /// Sends a body to a standby, if there is a session with it.
    pub(super) fn tell_standby(&mut self, now: Time, number: u64, body: Body, sure: bool) {
        let Some(standby) = self.standbys.known.get_mut(&number) else { return };
        if standby.channel.peer().is_none() {
            return;
        }
        self.outputs.extend(standby.say(now, body, sure));
        self.timers.set(Timer::Standby(number), standby.next_deadline());
    }

    /// A station has been admitted or refused, has gone, or its addresses have changed: the
    /// standbys that know the hosts are told.
    pub(super) fn host_changed(&mut self, now: Time, port: u8, mac: MacAddr) {
        if self.standbys.known.is_empty() {
            return;
        }
        let host = self.stations.list().into_iter().find(|h| h.port == port && h.mac == mac);
        let body: Body = match host {
            Some(host) => HostReport { more: CHANGE, hosts: vec![host] }.into(),
            None => HostGone { port, mac }.into(),
        };
        // A message about it that is still sent again could come later than this one.
        let is_of_it = |body: &Body| match body {
            Body::HostGone(gone) => (gone.port, gone.mac) == (port, mac),
            Body::HostReport(HostReport { more: CHANGE, hosts }) => {
                hosts.iter().any(|host| (host.port, host.mac) == (port, mac))
            }
            _ => false,
        };
        for number in self.standbys.known.keys().copied().collect::<Vec<u64>>() {
            let Some(standby) = self.standbys.known.get_mut(&number) else { continue };
            standby.requests.give_up(is_of_it);
            if standby.is_told {
                self.tell_standby(now, number, body.clone(), true);
            }
        }
    }

    /// The standby whose session this message names.
    pub(super) fn standby_of(&self, message: &Message<'_>) -> Option<u64> {
        let number = match message {
            Message::Hello(hello) => hello.receiver,
            Message::Sealed(sealed) => sealed.receiver,
            Message::Keyed(_) | Message::Reply(_) => 0,
        };
        let is_leaders = self.channel.numbers().any(|own| own == number);
        (number != 0 && !is_leaders).then(|| self.standbys.owner(number)).flatten()
    }

    /// Processes a message of the session with a standby.
    pub(super) fn standby_message(&mut self, now: Time, number: u64, message: &[u8]) {
        let Some(standby) = self.standbys.known.get_mut(&number) else { return };
        let handled = standby.channel.handle(now, message);
        let Handled { reply, established, body, .. } = match handled {
            Ok(handled) => handled,
            Err(refused) => return self.tell(Event::Refused(None, refused.to_string())),
        };
        let reply = reply.and_then(|reply| standby.frame(&reply));
        self.outputs.extend(reply);
        if let Some(established) = established {
            if established.peer.credential.claims().node != number {
                standby.channel.reset();
                return self.tell(Event::Refused(None, Refused::OtherPeer.to_string()));
            }
            // It may have started again, and asks for the hosts in any case.
            standby.requests.give_up(|_| true);
            (standby.hello_at, standby.is_told) = (now, false);
            self.resolver.begin_era(number);
        }
        if let Some(body) = body {
            (standby.heard, standby.silent_since) = (now, None);
            self.standby_says(now, number, &body);
        }
        self.choose_nearest();
        if let Some(standby) = self.standbys.known.get(&number) {
            self.timers.set(Timer::Standby(number), standby.next_deadline());
        }
    }

    /// A standby has not answered a question: the leader is asked until something comes from it.
    pub(super) fn standby_silent(&mut self, now: Time, number: u64) {
        let Some(standby) = self.standbys.known.get_mut(&number) else { return };
        (standby.silent_since, standby.hello_at) = (Some(now), now);
        self.timers.set(Timer::Standby(number), now);
        self.choose_nearest();
    }

    /// A standby sent a body.
    fn standby_says(&mut self, now: Time, number: u64, body: &[u8]) {
        let (request, body) = match Body::parse(body) {
            Ok(parsed) => parsed,
            Err(e) => return self.tell(Event::Refused(None, e.to_string())),
        };
        let Some(standby) = self.standbys.known.get_mut(&number) else { return };
        let (body, ack) = standby.requests.take(request, body);
        if let Some(ack) = ack {
            let ack = standby.seal(now, &ack);
            self.outputs.extend(ack);
        }
        // One that led in an earlier epoch may have lost sight of the nodes before it knew.
        let epoch = self.uplink.heartbeat().epoch;
        let is_current = |version: u64| version >> 32 == epoch;
        let may_tell = match &body {
            Some(Body::ResolveForward(forward)) => is_current(forward.version),
            Some(Body::ShortForward(forward)) => is_current(forward.version.0),
            Some(Body::RouteUpdate(update)) => update.routes.iter().all(|r| is_current(r.version)),
            _ => true,
        };
        if !may_tell {
            return self.tell(Event::Refused(None, "a standby's route of another epoch".into()));
        }
        let mut turn = Turn::new(now, &mut self.timers);
        match body {
            None => {}
            Some(Body::Welcome(welcome)) => {
                let is_part = |body: &Body| matches!(body, Body::HostReport(r) if r.more != CHANGE);
                if welcome.report && !standby.requests.is_waiting(is_part) {
                    standby.is_told = true;
                    return self.report_to_standby(now, number);
                }
            }
            Some(Body::ResolveForward(forward)) => {
                self.resolver.forward(&mut turn, number, (forward, None), self.group.as_ref());
            }
            Some(Body::ShortForward(told)) => {
                if let Some((forward, short)) = short::forward(told) {
                    let told = (forward, Some(short));
                    self.resolver.forward(&mut turn, number, told, self.group.as_ref());
                }
            }
            Some(Body::ResolveFailed(failed)) => {
                self.resolver.standby_failed(&mut turn, number, &failed, &mut self.random);
            }
            Some(Body::RouteUpdate(update)) => {
                self.resolver.standby_update(&mut turn, update.routes, number);
            }
            Some(other) => {
                let why = format!("{} is not for a standby to say", other.name());
                turn.push(Effect::Tell(Event::Refused(None, why)));
            }
        }
        let out = turn.out;
        self.carry_out(now, out);
    }

    /// Reports the admitted hosts to a standby.
    fn report_to_standby(&mut self, now: Time, number: u64) {
        let mut reports = vec![];
        in_parts(&self.stations.list(), REPORT_HOSTS, |more, hosts: Vec<HostState>| {
            reports.push(HostReport { more, hosts });
        });
        reports.into_iter().for_each(|report| self.tell_standby(now, number, report.into(), true));
    }

    /// Has the sessions with standbys judged anew, by a new identity.
    pub(super) fn trust_standbys(&mut self, now: Time, identity: &Arc<Identity>) {
        let mut refused = vec![];
        for (number, standby) in &mut self.standbys.known {
            if let Some(hello) = standby.channel.set_identity(now, identity.clone()) {
                self.outputs.extend(standby.frame(&hello));
            }
            let key = standby.channel.peer().map(|peer| peer.credential.claims().static_public);
            if key.is_some_and(|key| identity.refuses(&key)) {
                refused.push(*number);
            }
            self.timers.set(Timer::Standby(*number), standby.next_deadline());
        }
        for number in refused {
            self.standbys.known.remove(&number);
            self.timers.cancel(Timer::Standby(number));
            self.tell(Event::Refused(None, Refused::Revoked.to_string()));
        }
        self.choose_nearest();
    }
}
