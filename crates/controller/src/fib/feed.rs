//! What one node has of the table, and what is on its way there.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{BODY_MAX, FIB_CHANGE_MAX, FibAck, FibUpdate};

use super::table::{Share, Table};

/// Most messages on their way to a node: as much as arrives during a round trip of a few
/// milliseconds, and less than a node's queue for its control plane holds.
const WINDOW: usize = 64;
/// As few after losses: enough for the answers that tell of the next one.
const WINDOW_MIN: usize = 16;
/// How long an answer is waited for at first; the time doubles with each repetition.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// A node whose table is wrong gets another one after this time, which doubles with each.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(300);
/// Equal answers that tell of a lost message.
const REPEATED: u8 = 3;
/// Bytes of an update without changes: kind, request, table, versions, sum and count.
const UPDATE_LEN: usize = 5 + 4 * 8 + 9 + 2;
// No change is too long for a message.
const _: () = assert!(UPDATE_LEN + FIB_CHANGE_MAX <= BODY_MAX);
/// Tables of one incarnation of the controller: one more with each fault of the node.
const GENERATION_BITS: u32 = 16;

/// A node's copy.
#[derive(Debug)]
pub(super) struct Feed {
    /// The number of its table.
    table: u64,
    /// Its share of the table.
    share: Share,
    state: State,
    /// The number of the last question.
    asked: u64,
    /// The version that it has.
    acked: u64,
    /// The same as far as it has said so in this session, also while it is asked again.
    said: Option<u64>,
    /// The same, of earlier sessions too.
    floor: u64,
    /// The versions that the table had forgotten when the node began with nothing.
    begun: u64,
    /// The version that it will have once it has all that was sent.
    sent: u64,
    /// The versions of the messages on their way.
    flight: VecDeque<u64>,
    due: Time,
    wait: Duration,
    /// How long a node with a wrong table waits for the next.
    rest: Duration,
    repeated: u8,
    /// The last version sent when a loss was noticed.
    recover: u64,
    /// The node's version when a loss was last noticed.
    rewound: Option<u64>,
    /// Most messages on their way now: half as many after a loss, one more after each answer.
    window: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no session.
    Closed,
    /// It was asked which version it has.
    Asked,
    Running,
}

/// The consequences of an answer.
pub(super) struct Heard {
    /// Ask it again: it begins anew.
    pub(super) question: Option<FibUpdate>,
    /// It has more than before.
    pub(super) is_news: bool,
    /// Its table is wrong.
    pub(super) is_wrong: bool,
}

impl Feed {
    /// `past`: the last table of this incarnation of the controller that the node had.
    pub(super) fn new(epoch: u64, past: Option<u64>, share: Share) -> Feed {
        Feed {
            table: past.map_or(epoch << GENERATION_BITS, |past| past + 1),
            share,
            state: State::Closed,
            asked: 0,
            acked: 0,
            said: None,
            floor: 0,
            begun: 0,
            sent: 0,
            flight: VecDeque::new(),
            due: Time::FOREVER,
            wait: WAIT_MIN,
            rest: REST_MIN,
            repeated: 0,
            recover: 0,
            rewound: None,
            window: WINDOW,
        }
    }

    /// The version that the node has, if it has said so.
    pub(super) fn version(&self) -> Option<u64> {
        self.said
    }

    /// The version that it had when it last said so: what has gone since is to be told.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// When [`again`](Self::again) is due.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Asks the node for its version, at the beginning of a session.
    pub(super) fn ask(&mut self, now: Time) -> FibUpdate {
        (self.wait, self.said) = (WAIT_MIN, None);
        self.question(now)
    }

    fn question(&mut self, now: Time) -> FibUpdate {
        (self.state, self.due) = (State::Asked, now + self.wait);
        (self.acked, self.sent, self.recover, self.repeated) = (0, 0, 0, 0);
        self.rewound = None;
        self.flight.clear();
        self.asked += 1;
        let (from, to) = (self.asked, self.asked);
        FibUpdate { table: self.table, from, to, made_at: 0, sum: None, changes: Vec::new() }
    }

    /// Begins another table, and asks for its version.
    fn next_table(&mut self, now: Time) -> FibUpdate {
        self.table += 1;
        (self.floor, self.said) = (0, None);
        self.question(now)
    }

    /// The number of the node's table.
    pub(super) fn table(&self) -> u64 {
        self.table
    }

    /// The node's share of the table.
    pub(super) fn share(&self) -> Share {
        self.share
    }

    /// The node's share is another one from now on, and has another content: it begins another
    /// table, and keeps its routes until that one is complete.
    pub(super) fn change_share(&mut self, now: Time, share: Share) -> Option<FibUpdate> {
        self.share = share;
        self.wait = WAIT_MIN;
        match self.state {
            State::Closed => {
                (self.table, self.floor) = (self.table + 1, 0);
                None
            }
            State::Asked | State::Running => Some(self.next_table(now)),
        }
    }

    /// The session has ended.
    pub(super) fn close(&mut self) {
        (self.state, self.due, self.said) = (State::Closed, Time::FOREVER, None);
        self.flight.clear();
    }

    /// The node has answered.
    pub(super) fn heard(&mut self, now: Time, table: &Table, ack: &FibAck) -> Heard {
        let mut heard = Heard { question: None, is_news: false, is_wrong: false };
        // An answer of before, perhaps of an incarnation of the node that knew more.
        let is_late = (ack.table, ack.question) != (self.table, self.asked);
        if is_late || self.state == State::Closed {
            return heard;
        }
        if ack.wrong {
            // The question is due later: a node that is always wrong is not filled all the time.
            heard.is_wrong = true;
            self.next_table(now);
            self.due = now + self.rest;
            self.rest = (2 * self.rest).min(REST_MAX);
            return heard;
        }
        if self.state == State::Asked && !table.reaches(ack.version, self.begun) {
            heard.question = Some(self.next_table(now));
            return heard;
        }
        if self.state == State::Asked {
            (self.state, self.acked, self.sent) = (State::Running, ack.version, ack.version);
            (self.wait, self.floor, self.said) = (WAIT_MIN, ack.version, Some(ack.version));
            if ack.version == 0 {
                self.begun = table.pruned();
            }
            heard.is_news = true;
        } else if ack.version > self.acked && ack.version <= self.sent.max(self.recover) {
            (self.acked, self.repeated, self.wait) = (ack.version, 0, WAIT_MIN);
            (self.floor, self.said) = (ack.version, Some(ack.version));
            self.sent = self.sent.max(ack.version);
            while self.flight.front().is_some_and(|version| *version <= ack.version) {
                self.flight.pop_front();
            }
            self.window = (self.window + 1).min(WINDOW);
            heard.is_news = true;
        } else if ack.version == self.acked && !self.flight.is_empty() {
            self.repeated = self.repeated.saturating_add(1);
            // A message that was sent twice waits for its time: these may be answers to the first.
            if self.repeated >= REPEATED && self.rewound != Some(self.acked) {
                self.rewind();
            }
        }
        if self.acked == table.version() {
            self.rest = REST_MIN;
        }
        match self.flight.is_empty() {
            true => self.due = Time::FOREVER,
            // A node that only repeats itself is asked when its time has come.
            false if heard.is_news => self.due = now + self.wait,
            false => {}
        }
        heard
    }

    /// Sends again from what the node has.
    fn rewind(&mut self) {
        self.recover = self.recover.max(self.sent);
        (self.sent, self.rewound) = (self.acked, Some(self.acked));
        self.window = (self.window / 2).max(WINDOW_MIN);
        self.flight.clear();
        self.repeated = 0;
    }

    /// No answer has come: asks which version the node has. It may have lost all of them.
    pub(super) fn again(&mut self, now: Time) -> Option<FibUpdate> {
        self.wait = (2 * self.wait).min(WAIT_MAX);
        self.window = WINDOW_MIN;
        (self.state != State::Closed).then(|| self.question(now))
    }

    /// The next messages, as many as may be on their way. `is_whole`: a node that has them all may
    /// route.
    pub(super) fn more(&mut self, now: Time, table: &Table, is_whole: bool) -> Vec<FibUpdate> {
        let mut updates = Vec::new();
        if self.state != State::Running {
            return updates;
        }
        while self.sent < table.version() && self.flight.len() < self.window {
            let (table_number, from, made_at) = (self.table, self.sent, table.version());
            let mut update =
                FibUpdate { table: table_number, from, to: 0, made_at, sum: None, changes: vec![] };
            let (mut to, mut last) = (table.version(), self.sent);
            for (version, change) in table.since(self.sent, self.share) {
                let before = update.changes.len();
                change.write(&mut update.changes);
                if UPDATE_LEN + update.changes.len() > BODY_MAX {
                    update.changes.truncate(before);
                    to = last;
                    break;
                }
                last = version;
            }
            update.to = to;
            update.sum = (is_whole && to == table.version()).then(|| table.sum(self.share));
            self.flight.push_back(to);
            self.sent = to;
            updates.push(update);
        }
        if !updates.is_empty() && self.due == Time::FOREVER {
            self.due = now + self.wait;
        }
        updates
    }
}
