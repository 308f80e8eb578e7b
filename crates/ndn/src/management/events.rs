//! Notifications (NFD wiki, "Notification"): `/localhost/nfd/faces/events/seq=N`. The last ones are
//! kept; a client that asks for the next one waits for it.

use std::collections::VecDeque;

use plexus_wire::Time;
use plexus_wire::ndn::nfd::{FaceEventNotification, Record};
use plexus_wire::ndn::{Interest, NameBuf, types};

use super::command::PARAMETERS_AT;
use super::reply::{self, FRESHNESS_MS};

struct Notification {
    number: u64,
    made: Time,
    packet: Vec<u8>,
}

/// The answer to a client.
pub(super) enum Served<'a> {
    Now(&'a [u8]),
    /// Wait for the next notification.
    Later,
    /// The number is neither kept nor the next one.
    Never,
}

pub(super) struct Events {
    next: u64,
    kept: VecDeque<Notification>,
    kept_max: usize,
    /// Until then a client waits for the next notification.
    awaited: Time,
}

impl Events {
    pub(super) fn new(kept_max: usize) -> Events {
        let kept = VecDeque::new();
        Events { next: 0, kept, kept_max: kept_max.max(1), awaited: Time::ZERO }
    }

    /// A client asks for a notification by its number, or for any new one.
    pub(super) fn ask(&mut self, now: Time, interest: &Interest<'_>) -> Served<'_> {
        let name = interest.name();
        let number = match (name.len() - PARAMETERS_AT, name.last()) {
            (0, _) if interest.can_be_prefix() => None,
            (1, Some(last)) => match last.number(types::SEQUENCE_NUM) {
                Some(number) => Some(number),
                None => return Served::Never,
            },
            _ => return Served::Never,
        };
        let found = match number {
            Some(number) => self.kept.iter().position(|n| n.number == number),
            None => self.kept.len().checked_sub(1).filter(|at| {
                let age = now.since(self.kept[*at].made);
                !interest.must_be_fresh() || age.as_millis() < u128::from(FRESHNESS_MS)
            }),
        };
        if let Some(at) = found {
            return Served::Now(&self.kept[at].packet);
        }
        if number.is_some_and(|number| number != self.next) {
            return Served::Never;
        }
        self.awaited = self.awaited.max(now + interest.lifetime());
        Served::Later
    }

    /// Adds a notification. Returns how many Interests were answered: one packet is for all that
    /// wait.
    pub(super) fn notify(
        &mut self,
        now: Time,
        event: &FaceEventNotification,
        answer: &mut impl FnMut(&[u8]),
    ) -> u64 {
        let stream: NameBuf =
            ["localhost", "nfd", "faces", "events"].iter().fold(NameBuf::new(), NameBuf::with);
        let name = stream.with_number(types::SEQUENCE_NUM, self.next);
        let Some(packet) = reply::data(name.as_name(), &event.to_bytes(), None, None) else {
            return 0;
        };
        let is_awaited = std::mem::take(&mut self.awaited) > now;
        if is_awaited {
            answer(&packet);
        }
        if self.kept.len() >= self.kept_max {
            self.kept.pop_front();
        }
        self.kept.push_back(Notification { number: self.next, made: now, packet });
        self.next += 1;
        u64::from(is_awaited)
    }
}
