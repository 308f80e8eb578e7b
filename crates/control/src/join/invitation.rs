//! An open invitation: when it ends, and how many guesses it endures.

use plexus_wire::Time;

use super::exchange::Asked;
use super::{JoinCode, JoinError};
use crate::session::Random;

/// After this many messages under another key, the invitation is closed: somebody guesses.
pub const WRONG_MAX: u32 = 10;

/// A code that one box can use, until it expires. It is in memory only.
#[derive(Debug)]
pub struct Invitation {
    code: JoinCode,
    until: Time,
    wrong: u32,
    is_used: bool,
}

impl Invitation {
    /// An invitation that ends at `until`.
    pub fn new(code: JoinCode, until: Time) -> Invitation {
        Invitation { code, until, wrong: 0, is_used: false }
    }

    /// Its code.
    pub fn code(&self) -> &JoinCode {
        &self.code
    }

    /// When it ends.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Takes a box's first message, and returns the answer to it.
    ///
    /// # Errors
    /// When the invitation has ended, or the peer does not know the code: that is counted.
    pub fn open(
        &mut self,
        now: Time,
        first: &[u8],
        random: Random,
    ) -> Result<(Asked, Vec<u8>), JoinError> {
        self.check(now)?;
        let opened = Asked::new(&self.code, first, random);
        if matches!(opened, Err(JoinError::WrongCode)) {
            self.wrong += 1;
        }
        opened
    }

    /// Whether a box may still use it.
    ///
    /// # Errors
    /// Why it has ended.
    pub fn check(&self, now: Time) -> Result<(), JoinError> {
        if self.is_used {
            return Err(JoinError::Used);
        }
        if now >= self.until {
            return Err(JoinError::Expired);
        }
        if self.wrong >= WRONG_MAX { Err(JoinError::Guessed) } else { Ok(()) }
    }

    /// A request has been decided on: no other box can use the code.
    pub fn use_up(&mut self) {
        self.is_used = true;
    }
}
