//! The serial link between two boards: Aurora 8B/10B with one lane of two bytes
//! (netfpga-aurora.txt §3; Xilinx SP002).
//!
//! A frame takes a clock for the delimiter before it (SCP), one for every two bytes, an odd last
//! one with a pad, and one for the delimiter behind it (ECP). Then come idle clocks, and at times
//! clocks of compensation, which go before everything else, also in the middle of a frame. What is
//! left is idle.

/// Bytes in a clock.
const LANE: u64 = 2;

/// Clocks given to compensation: of every so many the last `takes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compensation {
    /// How often, in clocks.
    pub every: u64,
    /// For how many clocks; fewer than `every`.
    pub takes: u64,
}

impl Compensation {
    /// "6 USER_CLK cycles after each 5000 USER_CLK cycles" (§3.3.1), read as 6 of every 5000.
    pub const STATED: Compensation = Compensation { every: 5000, takes: 6 };

    /// Whether a clock is one of compensation.
    pub fn has(self, clock: u64) -> bool {
        clock % self.every >= self.every - self.takes
    }

    /// The clock at which `wanted` clocks that are not compensation have passed since `clock`.
    fn after(self, clock: u64, wanted: u64) -> u64 {
        let useful = self.every - self.takes;
        // Clocks without compensation before this one, and then back to all clocks.
        let before = clock / self.every * useful + (clock % self.every).min(useful);
        let goal = before + wanted;
        match goal % useful {
            // The last wanted clock is the last before a compensation.
            0 if wanted > 0 => (goal / useful - 1) * self.every + useful,
            rest => goal / useful * self.every + rest,
        }
    }
}

/// How frames are sent over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Clocks between frames (§3.3.1: 12). Only clocks that are not compensation count.
    pub idle_clocks: u64,
    /// None: the two boards share a clock.
    pub compensation: Option<Compensation>,
    /// Whether a clock before each frame and one behind it mark its ends. The paper does not name
    /// them; Aurora's framing, which it chose, has them.
    pub delimiters: bool,
    /// Each frame is padded to a multiple of so many bytes: the lane's two, or the data path's
    /// eight.
    pub word_bytes: u64,
    /// Bytes sent with each frame besides it: none are stated, the module header being removed
    /// before transmission (§2) and the checksum by the MAC.
    pub more_bytes: u64,
    /// Clocks that the transmitter takes for each frame besides; none are stated.
    pub more_clocks: u64,
}

impl Link {
    /// As the text states it, with the delimiters of the protocol that it names.
    pub const STATED: Link = Link {
        delimiters: true,
        word_bytes: LANE,
        idle_clocks: 12,
        compensation: Some(Compensation::STATED),
        more_bytes: 0,
        more_clocks: 0,
    };

    /// Clocks that a frame of `bytes` takes, with its delimiters, when no compensation comes
    /// between.
    pub fn frame_clocks(&self, bytes: u64) -> u64 {
        let padded = (bytes + self.more_bytes).next_multiple_of(self.word_bytes);
        padded.div_ceil(LANE) + if self.delimiters { 2 } else { 0 }
    }

    /// Mean clocks from the beginning of a frame of `bytes` to that of the next, if there always
    /// is one.
    pub fn mean_clocks(&self, bytes: u64) -> f64 {
        let clocks = (self.frame_clocks(bytes) + self.more_clocks + self.idle_clocks) as f64;
        match self.compensation {
            Some(Compensation { every, takes }) => clocks * every as f64 / (every - takes) as f64,
            None => clocks,
        }
    }

    fn after(&self, clock: u64, wanted: u64) -> u64 {
        self.compensation.map_or(clock + wanted, |c| c.after(clock, wanted))
    }
}

/// The transmitting side of a link: what it sends when.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    link: Link,
    /// The clock from which on a frame may begin.
    free_at: u64,
}

impl Lane {
    /// A lane that has sent nothing.
    pub fn new(link: Link) -> Lane {
        Lane { link, free_at: 0 }
    }

    /// The clock from which on the next frame may begin.
    pub fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Sends a frame of `bytes` as soon as it can from clock `now` on: its first clock, which is
    /// that of a delimiter if there are any, and the one behind its last.
    pub fn send(&mut self, now: u64, bytes: u64) -> (u64, u64) {
        let ready = self.link.after(self.free_at.max(now), self.link.more_clocks);
        let last = self.link.after(ready, self.link.frame_clocks(bytes));
        // It waits for a compensation that has begun.
        let first = self.link.after(ready, 1) - 1;
        self.free_at = self.link.after(last, self.link.idle_clocks);
        (first, last)
    }
}
