//! Counts per millisecond, and the bursts in them.

/// Pauses of so many milliseconds are still within a burst.
const PAUSE: usize = 10;

/// Counts of the last milliseconds.
pub(super) struct Ring {
    counts: Vec<u32>,
    /// The millisecond of the last count.
    last: u64,
    total: u64,
}

impl Ring {
    pub(super) fn new(milliseconds: usize) -> Ring {
        Ring { counts: vec![0; milliseconds], last: 0, total: 0 }
    }

    /// Milliseconds that it holds.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// Goes on to a millisecond.
    pub(super) fn turn(&mut self, to: u64) {
        if to <= self.last {
            return;
        }
        if to - self.last >= self.counts.len() as u64 {
            self.clear();
            self.last = to;
            return;
        }
        while self.last < to {
            self.last += 1;
            let place = self.last as usize % self.counts.len();
            self.total -= u64::from(std::mem::take(&mut self.counts[place]));
        }
    }

    pub(super) fn add(&mut self, millisecond: u64, count: u32) {
        self.turn(millisecond);
        let place = self.last as usize % self.counts.len();
        let before = self.counts[place];
        self.counts[place] = before.saturating_add(count);
        self.total += u64::from(self.counts[place] - before);
    }

    /// The counts, oldest first.
    fn iter(&self) -> impl Iterator<Item = u32> {
        let oldest = (self.last as usize + 1) % self.counts.len();
        let (young, old) = self.counts.split_at(oldest);
        old.iter().chain(young).copied()
    }
}

/// Bursts of a window: first and last millisecond of each, oldest first.
pub(super) struct Bursts {
    bursts: Vec<(usize, usize)>,
    window: usize,
    /// Milliseconds that are part of one.
    busy: usize,
}

impl Bursts {
    /// The bursts of a ring: milliseconds that `is_busy` holds for, and short pauses between them.
    pub(super) fn of(ring: &Ring, is_busy: impl Fn(u32) -> bool) -> Bursts {
        let mut bursts: Vec<(usize, usize)> = Vec::new();
        let mut busy = 0;
        for (at, _) in ring.iter().enumerate().filter(|(_, count)| is_busy(*count)) {
            busy += 1;
            match bursts.last_mut() {
                Some((_, last)) if at <= *last + PAUSE => *last = at,
                _ => bursts.push((at, at)),
            }
        }
        Bursts { bursts, window: ring.len(), busy }
    }

    pub(super) fn count(&self) -> usize {
        self.bursts.len()
    }

    /// The share of the window's milliseconds that are busy.
    pub(super) fn time_share(&self) -> f64 {
        self.busy as f64 / self.window.max(1) as f64
    }

    /// The share of milliseconds that are in a burst or near one, from the first to the last burst.
    pub(super) fn near_share(&self) -> f64 {
        let near = self.bursts.iter().map(|(first, last)| last - first + 1 + 2 * PAUSE);
        let span = match (self.bursts.first(), self.bursts.last()) {
            (Some(first), Some(last)) => last.1 - first.0 + 1,
            _ => 1,
        };
        near.sum::<usize>() as f64 / span as f64
    }

    /// The mean time from burst to burst in milliseconds, if there are three.
    pub(super) fn period(&self) -> Option<f64> {
        let [first, .., last] = self.bursts[..] else { return None };
        (self.bursts.len() >= 3).then(|| (last.0 - first.0) as f64 / (self.count() - 1) as f64)
    }

    /// Bytes of a ring within the bursts.
    pub(super) fn bytes(&self, ring: &Ring) -> u64 {
        self.bytes_within(ring, 0)
    }

    /// The same, and what comes shortly before and after them: a burst begins before the queue is
    /// long.
    pub(super) fn bytes_near(&self, ring: &Ring) -> u64 {
        self.bytes_within(ring, PAUSE)
    }

    fn bytes_within(&self, ring: &Ring, margin: usize) -> u64 {
        let mut bursts = self.bursts.iter().peekable();
        let mut bytes = 0;
        for (at, count) in ring.iter().enumerate() {
            while bursts.next_if(|(_, last)| last + margin < at).is_some() {}
            if bursts.peek().is_some_and(|(first, _)| first.saturating_sub(margin) <= at) {
                bytes += u64::from(count);
            }
        }
        bytes
    }
}
