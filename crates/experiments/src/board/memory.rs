//! The packet memory of a board: one word is written or read in a clock, never both.

/// How writing and reading share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// They take turns of several words, and a change costs clocks; `None`: word by word, at no
    /// cost.
    pub turns: Option<Turns>,
    /// Clocks in which nothing is written before each frame.
    pub store_gap: u32,
    /// Clocks in which nothing is read before each frame.
    pub remove_gap: u32,
    /// Look at one output queue in a clock for the next frame to read, not at all of them at once.
    pub scan: bool,
}

/// Turns as the memory controller of the reference design takes them (`cnet_sram_sm`): a side has
/// the memory until it wants nothing, or has had its words while the other one waits. The clock
/// after a turn, in which the bus turns around, moves nothing; nor does one in which the controller
/// sees that a side wants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Words written in a turn while a read waits, at least 1.
    pub write: u32,
    /// Words read in a turn while a write waits, at least 1.
    pub read: u32,
}

impl Memory {
    /// A word in every clock in which there is one to write or to read. The text states no more of
    /// its memory than that output queues are in it; that it is as wide as the data path and as
    /// fast is the board's (two 36-bit SRAMs at 125 MHz, side by side).
    pub const STATED: Memory = Memory { turns: None, store_gap: 0, remove_gap: 0, scan: false };

    /// As in the sources of the reference switch that the text extends: turns of 21 and 16 words
    /// (counters that begin with 20 and 15 in `cnet_sram_sm`); three states before a frame is
    /// stored (`store_pkt`); one queue looked at per clock, and a state that latches its address
    /// (`remove_pkt`).
    pub const REFERENCE_DESIGN: Memory = Memory {
        turns: Some(Turns { write: 21, read: 16 }),
        store_gap: 3,
        remove_gap: 1,
        scan: true,
    };
}

/// Who has the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Write,
    Read,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Write => Side::Read,
            Side::Read => Side::Write,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Controller {
    turns: Option<Turns>,
    /// Whose turn it is, or was last.
    side: Side,
    /// Words after the next one in this turn; `None` between turns.
    left: Option<u32>,
}

impl Controller {
    pub(super) fn new(memory: Memory) -> Controller {
        Controller { turns: memory.turns, side: Side::Write, left: None }
    }

    /// Who moves a word in this clock, if these want to.
    #[inline]
    pub(super) fn clock(&mut self, write: bool, read: bool) -> Option<Side> {
        let (own, other) = match self.side {
            Side::Write => (write, read),
            Side::Read => (read, write),
        };
        let Some(turns) = self.turns else {
            if other {
                self.side = self.side.other();
            }
            return (own || other).then_some(self.side);
        };
        match self.left {
            None if own => {
                self.left = Some(match self.side {
                    Side::Write => turns.write - 1,
                    Side::Read => turns.read - 1,
                });
                None
            }
            Some(left) if own => {
                let side = self.side;
                self.left = Some(left.saturating_sub(1));
                if left == 0 && other {
                    (self.side, self.left) = (side.other(), None);
                }
                Some(side)
            }
            _ => {
                self.left = None;
                if other {
                    self.side = self.side.other();
                }
                None
            }
        }
    }
}
