//! Reliable messages: retransmitted until acknowledged, and delivered once.
//!
//! Order is not kept; messages that could overtake each other carry a version or their whole state.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{Ack, Body};

/// Most unacknowledged messages; more are refused.
pub const PENDING_MAX: usize = 8192;
/// First retransmission timeout; it doubles each time.
pub const RESEND_MIN: Duration = Duration::from_millis(50);
/// Longest retransmission timeout.
pub const RESEND_MAX: Duration = Duration::from_secs(1);
/// Request numbers remembered, to detect duplicates.
const REMEMBERED: usize = 4096;

/// Both directions of one peer.
#[derive(Debug)]
pub struct Requests {
    next: u32,
    pending: BTreeMap<u32, Pending>,
    /// When each of them is due.
    due: BTreeSet<(Time, u32)>,
    seen: HashSet<u32>,
    order: VecDeque<u32>,
}

#[derive(Debug)]
struct Pending {
    body: Body,
    resend_at: Time,
    wait: Duration,
}

impl Requests {
    /// Nothing sent or received yet. `first` is the first number: random, so that those of a
    /// restarted peer are not taken for duplicates.
    pub fn new(first: u32) -> Requests {
        Requests {
            next: first,
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            seen: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// The bytes to seal for a message that is sent once.
    pub fn once(body: &Body) -> Vec<u8> {
        body.to_bytes(0)
    }

    /// The bytes to seal for a message that is retransmitted until it is acknowledged; `None` if
    /// the backlog is full.
    pub fn send(&mut self, now: Time, body: Body) -> Option<Vec<u8>> {
        if self.pending.len() >= PENDING_MAX {
            return None;
        }
        while self.next == 0 || self.pending.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let request = self.next;
        self.next = self.next.wrapping_add(1);
        let bytes = body.to_bytes(request);
        let pending = Pending { body, resend_at: now + RESEND_MIN, wait: RESEND_MIN };
        self.due.insert((pending.resend_at, request));
        self.pending.insert(request, pending);
        Some(bytes)
    }

    /// The retransmissions due now.
    pub fn due(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(&(at, request)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, request));
            let Some(pending) = self.pending.get_mut(&request) else { continue };
            pending.wait = (pending.wait * 2).min(RESEND_MAX);
            pending.resend_at = now + pending.wait;
            self.due.insert((pending.resend_at, request));
            bytes.push(pending.body.to_bytes(request));
        }
        bytes
    }

    /// When [`due`](Self::due) next returns something.
    pub fn next_deadline(&self) -> Time {
        self.due.first().map_or(Time::FOREVER, |(at, _)| *at)
    }

    /// Makes every retransmission due at once, because the path to the peer has changed.
    pub fn hurry(&mut self, now: Time) {
        for pending in self.pending.values_mut() {
            (pending.resend_at, pending.wait) = (now, RESEND_MIN);
        }
        self.due = self.pending.keys().map(|request| (now, *request)).collect();
    }

    /// Whether such a message is not acknowledged yet.
    pub fn is_waiting(&self, is_it: impl Fn(&Body) -> bool) -> bool {
        self.pending.values().any(|pending| is_it(&pending.body))
    }

    /// Takes back such messages, which the peer may have had.
    pub fn take_back(&mut self, is_it: impl Fn(&Body) -> bool) -> Vec<Body> {
        let found: Vec<Body> =
            self.pending.values().map(|p| &p.body).filter(|b| is_it(b)).cloned().collect();
        self.give_up(is_it);
        found
    }

    /// Gives up messages whose content is no longer true.
    pub fn give_up(&mut self, is_old: impl Fn(&Body) -> bool) {
        let is_kept = |pending: &Pending| !is_old(&pending.body);
        self.pending.retain(|_, pending| is_kept(pending));
        self.due.retain(|(_, request)| self.pending.contains_key(request));
    }

    /// A message arrived. Returns it unless it is a duplicate, and the bytes to seal as its
    /// acknowledgement.
    pub fn take(&mut self, request: u32, body: Body) -> (Option<Body>, Option<Vec<u8>>) {
        if let Body::Ack(_) = body {
            if let Some(pending) = self.pending.remove(&request) {
                self.due.remove(&(pending.resend_at, request));
            }
            return (None, None);
        }
        if request == 0 {
            return (Some(body), None);
        }
        let ack = Body::from(Ack {}).to_bytes(request);
        if !self.seen.insert(request) {
            return (None, Some(ack));
        }
        self.order.push_back(request);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        (Some(body), Some(ack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_wire::MacAddr;
    use plexus_wire::fabric::message::HostGone;
    use proptest::prelude::*;

    fn body(n: u64) -> Body {
        HostGone { port: 1, mac: MacAddr::from_u64(n) }.into()
    }

    proptest! {
        /// Over a channel that loses, duplicates and reorders, every message is delivered exactly
        /// once.
        #[test]
        fn every_body_arrives_once(fates in prop::collection::vec(0u8..5, 200), count in 1u64..20) {
            let (mut a, mut b) = (Requests::new(u32::MAX - 3), Requests::new(7));
            let mut now = Time::ZERO;
            let mut wire: Vec<Vec<u8>> =
                (0..count).map(|n| a.send(now, body(n)).unwrap()).collect();
            let mut arrived = Vec::new();
            let mut fates = fates.into_iter();
            while a.next_deadline() != Time::FOREVER {
                let mut late = Vec::new();
                for bytes in std::mem::take(&mut wire) {
                    // Once the random fates are used up, everything gets through.
                    let copies = match fates.next() {
                        Some(0) => 0,
                        Some(1) => 2,
                        Some(2) => { late.push(bytes); continue }
                        _ => 1,
                    };
                    for _ in 0..copies {
                        let (request, body) = Body::parse(&bytes).unwrap();
                        let (taken, ack) = b.take(request, body);
                        arrived.extend(taken);
                        let ack = ack.unwrap();
                        if fates.next() != Some(0) {
                            let (request, body) = Body::parse(&ack).unwrap();
                            prop_assert_eq!(a.take(request, body), (None, None));
                        }
                    }
                }
                wire = late;
                wire.reverse();
                now = now + RESEND_MIN;
                wire.extend(a.due(now));
            }
            arrived.sort_by_key(|b| b.to_bytes(0));
            prop_assert_eq!(arrived, (0..count).map(body).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_peer_that_never_answers_cannot_take_all_memory() {
        let mut requests = Requests::new(1);
        for n in 0..PENDING_MAX as u64 {
            assert!(requests.send(Time::ZERO, body(n)).is_some());
        }
        assert_eq!(requests.send(Time::ZERO, body(0)), None);
    }

    #[test]
    fn a_message_that_was_given_up_is_not_sent_again() {
        let mut requests = Requests::new(1);
        for n in 0..3 {
            requests.send(Time::ZERO, body(n));
        }
        requests.give_up(|known| *known == body(1));
        let later = Time::ZERO + RESEND_MIN;
        assert_eq!(requests.due(later), [(0, 1), (2, 3)].map(|(n, at)| body(n).to_bytes(at)));
        requests.give_up(|_| true);
        assert_eq!(requests.next_deadline(), Time::FOREVER);
    }
}
