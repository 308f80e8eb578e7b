//! Reliability of one link: unacknowledged packets, acknowledgements to send, and retransmission
//! (NDNLPv2, "Reliability"; NFD: `LpReliability`).
//!
//! Every link packet with a fragment has a TxSequence, a new one for each retransmission; the
//! receiver acknowledges it. A link packet is lost when three sent later are acknowledged, or after
//! the retransmission timeout (RFC 6298). It is retransmitted three times; then the network packet
//! is given up with all its fragments. Receivers detect duplicates by the Sequence, which does not
//! change on retransmission. They forget it with time (as NFD does, after a timeout), because a
//! restarted peer may reuse numbers, and at once when a TxSequence shows that the peer has
//! restarted.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::lp::{self, Headers};

use super::counters::LinkCounters;
use crate::rtt::Rtt;

/// Retransmissions of a link packet.
const RETRIES_MAX: u8 = 3;
/// Acknowledgements of later link packets after which a packet counts as lost.
const LATER_ACKS: u8 = 3;
/// Most unacknowledged link packets, and their bytes. Packets beyond that are sent without
/// protection.
pub(super) const OPEN_MAX: usize = 1024;
const OPEN_BYTES_MAX: usize = 4 << 20;
/// How long an acknowledgement waits for a packet to carry it.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// Most acknowledgements that wait: without the others, the peer retransmits.
const OWED_MAX: usize = 2 * OPEN_MAX;
/// Remembered sequence numbers: as many as a peer with `OPEN_MAX` unacknowledged link packets can
/// retransmit.
const REMEMBERED: usize = 4 * OPEN_MAX;
/// For how long a received link packet is not accepted again. A later TxSequence means a
/// retransmission, which the sender makes up to three times, each after a minute at most (RFC 6298,
/// 2.5). Otherwise the network has duplicated it, or its sender has restarted with the same
/// numbers.
const AGAIN_MS: u32 = (RETRIES_MAX as u32 + 1) * 60_000;
const COPY_MS: u32 = 1_000;
/// No link packet is overtaken by more than a peer may have unacknowledged. A peer whose TxSequence
/// is farther behind has restarted; so has one that is behind at all when the others arrived too
/// long ago for a duplicate.
const OVERTAKEN_MAX: u64 = OPEN_MAX as u64;
/// Buffers kept for later link packets.
const SPARE_MAX: usize = 64;

/// A link packet that may have to be retransmitted.
#[derive(Debug)]
pub(super) struct Open {
    /// The whole of it, without acknowledgements.
    bytes: Vec<u8>,
    /// Sequence of the first fragment of its network packet.
    packet: u64,
    sent: Time,
    retries: u8,
    later_acks: u8,
}

impl Open {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn is_overtaken(&self) -> bool {
        self.later_acks >= LATER_ACKS
    }
}

/// A received link packet.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    /// The low bits of its Sequence.
    sequence: u32,
    beginning: u32,
    /// The low bits of its TxSequence.
    tx: u32,
    /// Time of arrival, in milliseconds.
    ms: u32,
}

/// A link's unacknowledged link packets, and the acknowledgements it has to send.
#[derive(Debug)]
pub(super) struct Reliability {
    /// TxSequence of the first of `open`; each following one has the next number.
    first: u64,
    /// In order of transmission; `None`: acknowledged or lost.
    open: VecDeque<Option<Open>>,
    lost: VecDeque<Open>,
    /// The last index in `open` that was acknowledged since `find_lost`.
    acknowledged: usize,
    /// Of both: how many, and how many bytes.
    count: usize,
    bytes: usize,
    rtt: Rtt,
    owed: VecDeque<u64>,
    /// When the first of `owed` is sent at the latest.
    ack_due: Time,
    /// Slot `n` holds the last one received whose Sequence has remainder `n`.
    came: Box<[Came]>,
    /// The largest TxSequence received, and when, in milliseconds.
    newest: Option<(u64, u32)>,
    /// How often the peer has restarted. Packets received before carry an older number, so one
    /// increment forgets them all, even if a forged packet triggers it.
    beginning: u32,
    spare: Vec<Vec<u8>>,
}

impl Reliability {
    pub(super) fn new(first: u64) -> Reliability {
        Reliability {
            first,
            open: VecDeque::new(),
            lost: VecDeque::new(),
            acknowledged: 0,
            count: 0,
            bytes: 0,
            rtt: Rtt::default(),
            owed: VecDeque::new(),
            ack_due: Time::ZERO,
            came: [Came::default(); REMEMBERED].into(),
            newest: None,
            beginning: 1,
            spare: Vec::new(),
        }
    }

    /// The number of the next link packet.
    pub(super) fn next_tx_sequence(&self) -> u64 {
        self.first.wrapping_add(self.open.len() as u64)
    }

    /// Keeps a link packet that is about to be sent and returns its number; `None` if too many are
    /// unacknowledged.
    pub(super) fn keep(
        &mut self,
        now: Time,
        mut headers: Headers<'_>,
        piece: &[u8],
        packet: u64,
    ) -> Option<u64> {
        let tx_sequence = self.next_tx_sequence();
        headers.tx_sequence = Some(tx_sequence);
        let repr = lp::Repr { headers, acks: &[], fragment: Some(piece) };
        let len = repr.buffer_len();
        if self.count == OPEN_MAX || self.bytes + len > OPEN_BYTES_MAX {
            return None;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(len, 0);
        repr.emit(&mut bytes).ok()?;
        self.count += 1;
        self.bytes += len;
        self.open.push_back(Some(Open { bytes, packet, sent: now, retries: 0, later_acks: 0 }));
        Some(tx_sequence)
    }

    /// A link packet to retransmit; the caller returns it by [`keep_again`](Self::keep_again).
    pub(super) fn take_lost(&mut self) -> Option<Open> {
        self.lost.pop_front()
    }

    pub(super) fn keep_again(&mut self, now: Time, lost: Open) {
        let retries = lost.retries + 1;
        self.open.push_back(Some(Open { sent: now, retries, later_acks: 0, ..lost }));
    }

    fn forget(&mut self, open: Open) {
        self.count -= 1;
        self.bytes -= open.bytes.len();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(open.bytes);
        }
    }

    /// Restores the invariant that the front of `open` is an unacknowledged packet.
    fn trim(&mut self) {
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The peer acknowledges this one. Numbers that are not open are ignored: so each transmission
    /// costs work for only one acknowledgement.
    pub(super) fn acknowledged(&mut self, now: Time, tx: u64, counters: &mut LinkCounters) {
        let Ok(at) = usize::try_from(tx.wrapping_sub(self.first)) else { return };
        let Some(open) = self.open.get_mut(at).and_then(Option::take) else { return };
        if open.retries == 0 {
            self.rtt.sample(now.since(open.sent), 1);
            counters.acknowledged += 1;
        }
        self.forget(open);
        for earlier in self.open.range_mut(..at).flatten() {
            earlier.later_acks = earlier.later_acks.saturating_add(1);
        }
        self.acknowledged = self.acknowledged.max(at);
    }

    /// Finds lost packets, after all acknowledgements of a link packet were processed: these are in
    /// order of arrival, and a packet that arrived late may be acknowledged in the same link
    /// packet.
    pub(super) fn find_lost(&mut self, counters: &mut LinkCounters) {
        for at in 0..std::mem::take(&mut self.acknowledged) {
            if self.open.get(at).is_some_and(|o| o.as_ref().is_some_and(Open::is_overtaken)) {
                self.lose(at, counters);
            }
        }
        self.trim();
    }

    /// Marks packets as lost whose retransmission timeout has passed.
    pub(super) fn expire(&mut self, now: Time, counters: &mut LinkCounters) {
        let timeout = self.rtt.timeout();
        let mut any = false;
        while let Some(Some(open)) = self.open.front()
            && open.sent + timeout <= now
        {
            any = true;
            self.lose(0, counters);
            self.trim();
        }
        if any {
            self.rtt.back_off();
        }
    }

    /// The packet at this index is lost: it will be retransmitted, or its network packet is given
    /// up.
    fn lose(&mut self, at: usize, counters: &mut LinkCounters) {
        let Some(open) = self.open.get_mut(at).and_then(Option::take) else { return };
        if open.retries < RETRIES_MAX {
            self.lost.push_back(open);
            return;
        }
        counters.given_up += 1;
        let packet = open.packet;
        self.forget(open);
        for at in 0..self.open.len() {
            if self.open[at].as_ref().is_some_and(|o| o.packet == packet)
                && let Some(other) = self.open[at].take()
            {
                self.forget(other);
            }
        }
        while let Some(at) = self.lost.iter().position(|o| o.packet == packet)
            && let Some(other) = self.lost.remove(at)
        {
            self.forget(other);
        }
    }

    /// Notes that this one has to be acknowledged.
    pub(super) fn owe(&mut self, now: Time, tx_sequence: u64) {
        if self.owed.is_empty() {
            self.ack_due = now + ACK_DELAY;
        }
        if self.owed.len() < OWED_MAX {
            self.owed.push_back(tx_sequence);
        }
    }

    pub(super) fn has_acks(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Moves up to `most` acknowledgements to `into`.
    pub(super) fn take_acks(&mut self, most: usize, into: &mut Vec<u64>) {
        into.extend(self.owed.drain(..most.min(self.owed.len())));
    }

    /// Whether acknowledgements have waited long enough.
    pub(super) fn acks_are_due(&self, now: Time) -> bool {
        self.has_acks() && self.ack_due <= now
    }

    /// Whether a link packet with this Sequence was received before; notes it as received.
    pub(super) fn has_come_before(&mut self, now: Time, sequence: u64, tx: Option<u64>) -> bool {
        let ms = (now.as_nanos() / 1_000_000) as u32;
        if let Some(tx) = tx {
            self.note_newest(tx, ms);
        }
        let slot = &mut self.came[sequence as usize % REMEMBERED];
        let tx = tx.map_or(slot.tx, |tx| tx as u32);
        let beginning = self.beginning;
        let sequence = sequence as u32;
        if (slot.sequence, slot.beginning) == (sequence, beginning) {
            let was_sent_again = (tx.wrapping_sub(slot.tx) as i32) > 0;
            let limit = if was_sent_again { AGAIN_MS } else { COPY_MS };
            if ms.wrapping_sub(slot.ms) < limit {
                return true;
            }
        }
        *slot = Came { sequence, beginning, tx, ms };
        false
    }

    /// Forgets all received numbers if the TxSequence shows that the peer has restarted.
    fn note_newest(&mut self, tx: u64, ms: u32) {
        if let Some((newest, at)) = self.newest {
            let behind = newest.wrapping_sub(tx);
            let is_behind = behind <= u64::MAX / 2;
            if is_behind && behind <= OVERTAKEN_MAX && ms.wrapping_sub(at) < COPY_MS {
                return;
            }
            if is_behind {
                self.beginning = self.beginning.wrapping_add(1);
            }
        }
        self.newest = Some((tx, ms));
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        if !self.lost.is_empty() {
            return Some(Time::ZERO);
        }
        let ack = self.has_acks().then_some(self.ack_due);
        let open = self.open.front().and_then(Option::as_ref);
        let timeout = open.map(|o| o.sent + self.rtt.timeout());
        ack.into_iter().chain(timeout).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_numbers(reliability: &mut Reliability, n: u64) {
        for i in 0..n {
            let kept = reliability.keep(Time::ZERO, Headers::default(), &[6, 0], i);
            assert_eq!(kept, Some(i));
        }
    }

    #[test]
    fn three_later_acknowledgements_make_a_loss_and_repeated_ones_do_not() {
        let (mut r, mut c) = (Reliability::new(0), LinkCounters::default());
        open_numbers(&mut r, 5);
        r.acknowledged(Time::ZERO, 1, &mut c);
        r.acknowledged(Time::ZERO, 1, &mut c);
        r.acknowledged(Time::ZERO, 77, &mut c);
        r.acknowledged(Time::ZERO, u64::MAX, &mut c);
        r.acknowledged(Time::ZERO, 2, &mut c);
        r.find_lost(&mut c);
        assert!(r.take_lost().is_none());
        r.acknowledged(Time::ZERO, 3, &mut c);
        r.find_lost(&mut c);
        let lost = r.take_lost().unwrap();
        assert_eq!(lost.packet, 0);
        assert_eq!(r.next_tx_sequence(), 5);
        r.keep_again(Time::ZERO, lost);
        assert_eq!((r.first, r.next_tx_sequence(), r.count), (4, 6, 2));
    }

    #[test]
    fn packets_acknowledged_together_are_not_lost() {
        let (mut r, mut c) = (Reliability::new(0), LinkCounters::default());
        open_numbers(&mut r, 5);
        (0..5).rev().for_each(|tx| r.acknowledged(Time::ZERO, tx, &mut c));
        r.find_lost(&mut c);
        assert!(r.take_lost().is_none());
        assert_eq!((r.first, r.count, c.acknowledged), (5, 0, 5));
    }

    #[test]
    fn unacknowledged_packets_are_bounded() {
        let mut r = Reliability::new(0);
        open_numbers(&mut r, OPEN_MAX as u64);
        assert_eq!(r.keep(Time::ZERO, Headers::default(), &[6, 0], 9), None);
        let mut c = LinkCounters::default();
        r.acknowledged(Time::ZERO, 500, &mut c);
        r.find_lost(&mut c);
        assert!(r.keep(Time::ZERO, Headers::default(), &[6, 0], 9).is_some());
        let mut r = Reliability::new(0);
        let long = vec![0; 60_000];
        let kept = (0..100).filter(|i| r.keep(Time::ZERO, Headers::default(), &long, *i).is_some());
        assert_eq!(kept.count(), OPEN_BYTES_MAX / 60_000);
        for tx in 0..10_000 {
            r.owe(Time::ZERO, tx);
        }
        assert_eq!(r.owed.len(), OWED_MAX);
    }

    #[test]
    fn a_restarted_neighbour_that_reuses_numbers_is_heard() {
        let mut r = Reliability::new(0);
        let mut came =
            |ms, sequence, tx| r.has_come_before(Time::from_millis(ms), sequence, Some(tx));
        // NFD starts both numbers at the same value whenever it starts.
        for n in 0..50 {
            assert!(!came(n, n.wrapping_sub(1), n));
        }
        // A duplicate from the network, and a retransmission because the acknowledgement was lost.
        assert!(came(60, 8, 9) && came(60, 8, 50) && came(40_000, 9, 51));
        for n in 0..50 {
            assert!(!came(42_000 + n, n.wrapping_sub(1), n), "{n}");
            assert!(came(42_500, n.wrapping_sub(1), n), "{n}");
        }
    }

    #[test]
    fn a_restarted_neighbour_that_retransmits_at_once_is_heard() {
        let mut r = Reliability::new(0);
        let mut came =
            |ms, sequence, tx| r.has_come_before(Time::from_millis(ms), sequence, Some(tx));
        for n in 0..50 {
            assert!(!came(n, n, n));
        }
        // Within a second, a packet that overtakes others does not look like a restart.
        assert!(came(900, 3, 3) && came(900, 10, 60) && came(900, 11, 11));
        // The peer restarts and its first packets are lost: those that arrive are first
        // retransmissions.
        for (tx, sequence) in (5..).zip([4, 2, 3, 0, 1]) {
            assert!(!came(3_000, sequence, tx), "{sequence}");
        }
        // Second retransmissions, as the acknowledgements were lost.
        assert!((0..5).all(|sequence| came(3_500, sequence, 10 + sequence)));
        // So soon after that, only a large step back shows a restart.
        for n in 0..2000 {
            came(3_600, 100 + n, 100 + n);
        }
        assert!(!came(3_700, 0, 9));
    }

    #[test]
    fn a_packet_that_does_not_arrive_is_given_up_with_all_its_fragments() {
        let (mut r, mut c) = (Reliability::new(0), LinkCounters::default());
        for _ in 0..3 {
            r.keep(Time::ZERO, Headers::default(), &[6, 0], 7);
        }
        let mut now = Time::ZERO;
        let mut sent = 0;
        while let Some(at) = r.next_deadline() {
            now = now.max(at);
            r.expire(now, &mut c);
            while let Some(lost) = r.take_lost() {
                sent += 1;
                r.keep_again(now, lost);
            }
        }
        assert_eq!((sent, c.given_up, r.count, r.bytes), (9, 1, 0, 0));
        // 1 s, then doubled each time.
        assert_eq!(now, Time::from_secs(1 + 2 + 4 + 8));
    }
}
