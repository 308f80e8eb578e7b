//! Names as if derived from URLs: `/ca-/3k9-example/f-section/c-some-page`, four components,
//! 47 bytes on average with their TLV headers. Half of the real ones are longer than 33 bytes.
//!
//! A table of `n` prefixes has 1,000 top-level names (fewer if it is small) and `n / 8` sites; of
//! each site one prefix of two components, three of three, and four of four.

use super::super::random::{below, splitmix, xorshift};

const TOPS: usize = 1000;
pub(super) const COMPONENTS: usize = 4;
/// TLV type of a generic name component.
const GENERIC: u8 = 8;

/// Names in one piece of memory.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// Where each name begins, and where its components end, counted from there.
    names: Vec<(usize, [u16; COMPONENTS], u8)>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// A name's bytes and its components' ends.
    pub(super) fn get(&self, i: usize) -> (&[u8], &[u16]) {
        let (start, ref ends, components) = self.names[i];
        let ends = &ends[..usize::from(components)];
        (&self.bytes[start..start + ends.last().map_or(0, |&end| usize::from(end))], ends)
    }

    /// Adds a name from numbers, one for each component.
    fn push(&mut self, numbers: &[usize]) {
        let (start, mut ends) = (self.bytes.len(), [0; COMPONENTS]);
        for (depth, (&number, end)) in numbers.iter().zip(&mut ends).enumerate() {
            self.component(depth, number);
            *end = (self.bytes.len() - start) as u16;
        }
        self.names.push((start, ends, numbers.len() as u8));
    }

    /// A word that begins with the number, in base 36, and is as long as chance will have it, or
    /// as the number needs.
    fn component(&mut self, depth: usize, number: usize) {
        const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut random = splitmix(number as u64 ^ (depth as u64) << 56);
        let (least, most) = [(2, 4), (6, 18), (4, 12), (8, 24)][depth];
        let len = least + below(random, most - least + 1);
        let header = self.bytes.len();
        self.bytes.extend([GENERIC, 0]);
        let mut left = number;
        while left > 0 {
            self.bytes.push(DIGITS[left % 36]);
            left /= 36;
        }
        // No two numbers make one word.
        self.bytes.push(b'-');
        while self.bytes.len() < header + 2 + len {
            random = xorshift(random);
            self.bytes.push(DIGITS[below(random, 36)]);
        }
        self.bytes[header + 1] = (self.bytes.len() - header - 2) as u8;
    }
}

/// Every prefix of a table of `count`, or of every `step`th site.
pub(super) fn table(count: usize, step: usize) -> Names {
    let mut names = Names::default();
    let (tops, sites) = shape(count);
    for top in (0..tops).step_by(step) {
        names.push(&[top]);
    }
    for site in (0..sites).step_by(step) {
        let top = site % tops;
        names.push(&[top, site]);
        (0..3).for_each(|section| names.push(&[top, site, section]));
        (0..4).for_each(|page| names.push(&[top, site, page % 3, page]));
    }
    names
}

/// `count` names of four components; the longest prefix that each has in a table of `prefixes` has
/// one to four components, by chance and equally often; or, of misses, none.
pub(super) fn asked(prefixes: usize, count: usize, hit: bool) -> Names {
    let mut names = Names::default();
    let (tops, sites) = shape(prefixes);
    let mut random = 88_172_645_463_325_252;
    for _ in 0..count {
        random = xorshift(random);
        let drawn = splitmix(random);
        let site = below(drawn, sites);
        let page = (drawn >> 40) as usize % 4;
        // What is beyond these numbers is not in the table.
        let mut numbers = [site % tops, site, page % 3, page];
        let beyond = [TOPS + page, sites + site, 3 + page, 4 + page];
        let depth = if hit { 1 + (drawn >> 60) as usize % 4 } else { 0 };
        numbers[depth..].copy_from_slice(&beyond[depth..]);
        names.push(&numbers);
    }
    names
}

/// Top-level names and sites.
fn shape(prefixes: usize) -> (usize, usize) {
    let tops = TOPS.min(prefixes / 16).max(1);
    (tops, ((prefixes - tops) / 8).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_table_has_the_prefixes_it_says_and_names_have_theirs() {
        let table = table(10_000, 1);
        let prefixes: HashSet<&[u8]> = (0..table.len()).map(|i| table.get(i).0).collect();
        assert_eq!(prefixes.len(), table.len());
        assert!((9_990..=10_000).contains(&table.len()), "{} prefixes", table.len());
        let mut depths = [0; COMPONENTS + 1];
        for hit in [true, false] {
            let asked = asked(10_000, 4000, hit);
            for (bytes, ends) in (0..asked.len()).map(|i| asked.get(i)) {
                assert_eq!(ends.len(), COMPONENTS);
                let is = |d: &usize| prefixes.contains(&bytes[..usize::from(ends[d - 1])]);
                depths[(1..=COMPONENTS).rev().find(is).unwrap_or(0)] += 1;
            }
            let bytes = asked.bytes.len() / asked.len();
            assert!((42..=52).contains(&bytes), "{bytes} bytes a name");
        }
        assert_eq!(depths[0], 4000);
        assert!(depths[1..].iter().all(|n| (900..1100).contains(n)), "{depths:?}");
    }
}
