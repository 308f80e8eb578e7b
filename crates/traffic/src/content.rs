use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// Bytes made and compared at a time.
const BLOCK: usize = 1 << 16;

/// The bytes of a connection. Both ends make them, so its receiver knows what was sent.
#[derive(Debug)]
pub struct Content {
    random: Option<Pcg64Mcg>,
    block: Vec<u8>,
    at: usize,
}

impl Content {
    /// Random bytes that the seed determines, or zeroes without one. Only the low 127 bits of the
    /// seed are used.
    #[must_use]
    pub fn new(seed: Option<u128>) -> Content {
        // The generator's state is odd; another seed must give another state.
        let random = seed.map(|seed| Pcg64Mcg::new(seed << 1 | 1));
        Content { random, block: vec![0; BLOCK], at: BLOCK }
    }

    /// The next bytes, at least one.
    pub fn ahead(&mut self) -> &[u8] {
        if self.at == BLOCK {
            if let Some(random) = &mut self.random {
                random.fill_bytes(&mut self.block);
            }
            self.at = 0;
        }
        &self.block[self.at..]
    }

    /// Goes on behind `n` bytes, which are no more than are [`ahead`](Content::ahead).
    pub fn advance(&mut self, n: usize) {
        self.at += n;
    }

    /// Whether `bytes` are the next ones; if so, they are consumed.
    pub fn accept(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let ahead = self.ahead();
            let n = ahead.len().min(bytes.len());
            if ahead[..n] != bytes[..n] {
                return false;
            }
            self.advance(n);
            bytes = &bytes[n..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(seed: Option<u128>, len: usize) -> Vec<u8> {
        let mut content = Content::new(seed);
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let ahead = content.ahead();
            let n = ahead.len().min(len - bytes.len()).min(10_001);
            bytes.extend(&ahead[..n]);
            content.advance(n);
        }
        bytes
    }

    #[test]
    fn what_arrives_is_accepted_if_it_is_whole_and_in_order() {
        let bytes = sent(Some(7), 3 * BLOCK);
        let accepts = |parts: &[&[u8]]| {
            let mut content = Content::new(Some(7));
            parts.iter().all(|part| content.accept(part))
        };
        let (first, last) = bytes.split_at(100_000);
        assert!(accepts(&[first, last]));
        assert!(!accepts(&[last, first]));
        assert!(!accepts(&[first, &last[1..]]));
        assert!(!accepts(&[&sent(Some(8), 10)]));
        assert!(!accepts(&[&sent(None, 10)]));
        assert!(Content::new(None).accept(&[0; 3 * BLOCK]));
    }
}
