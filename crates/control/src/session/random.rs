//! Randomness as an input.

use std::fmt;

use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};

/// ChaCha20's key stream with a seed from the driver: from the operating system in a daemon, from
/// the scenario in a simulator.
pub struct Random(ChaCha20Rng);

impl Random {
    /// The stream of this seed. Equal seeds give equal streams: no two channels may share one.
    pub fn from_seed(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    /// The next `N` bytes of the stream.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.0.fill_bytes(&mut out);
        out
    }

    /// An independent stream, for another channel or one handshake.
    pub fn fork(&mut self) -> Random {
        Random::from_seed(self.bytes())
    }
}

impl snow::types::Random for Random {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
