//! The explanation of a frame by a node's data plane, as a message to the controller.

use plexus_io::PortId;
use plexus_plane::Explanation;
use plexus_wire::fabric::message::{Explain, Explained, Leaving, Step};

/// Longest name of a port in a message, in bytes: as long as Linux has them.
const NAME_MAX: usize = 15;

/// The message. `name`: the name of a port.
pub fn message(asked: &Explain, told: &Explanation, name: impl Fn(PortId) -> String) -> Explained {
    let name = |port: PortId| name(port).bytes().take(NAME_MAX).collect();
    let leaves = told.leaves.iter().filter_map(|(port, frame)| {
        let (head, from) = difference(&asked.frame, frame);
        let number = u8::try_from(*port).ok()?;
        Some(Leaving { port: number, port_name: name(*port), head, from })
    });
    Explained {
        question: asked.question,
        port_name: name(asked.port.into()),
        steps: Step::write_all(&told.steps),
        leaves: leaves.collect(),
        more: 0,
    }
}

/// A frame as its first bytes and the rest of another one, from a byte on.
fn difference(before: &[u8], after: &[u8]) -> (Vec<u8>, u16) {
    let pairs = before.iter().rev().zip(after.iter().rev());
    let same = pairs.take_while(|(a, b)| a == b).count();
    // A message holds no longer frame.
    let from = u16::try_from(before.len() - same).unwrap_or(u16::MAX);
    (after[..after.len() - same].to_vec(), from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_first_bytes_and_the_rest_of_the_other() {
        let before = [1, 2, 3, 4, 5];
        let longer = [0, 1, 2, 3, 4, 5];
        for after in [&[9, 3, 4, 5][..], &before, &[3, 4, 5], &[7], &[], &longer] {
            let (head, from) = difference(&before, after);
            assert_eq!([&head[..], &before[usize::from(from)..]].concat(), after);
        }
        assert_eq!(difference(&before, &[9, 3, 4, 5]), (vec![9], 2));
    }
}
