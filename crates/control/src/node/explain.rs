//! Questions of the controller about packets: how many are answered, and answers that fit a
//! message.

use std::time::Duration;

use plexus_wire::fabric::message::{BODY_MAX, Body, Explained};

use super::effect::Effect;
use crate::budget::Budget;

/// Questions answered at once, and the time after which one more is: each takes the driver a
/// fraction of a millisecond.
const BURST: u32 = 32;
const REFILL: Duration = Duration::from_millis(20);

pub(super) fn budget() -> Budget {
    Budget::new(BURST, REFILL)
}

/// An answer for the controller. Frames that do not fit the message are counted instead.
pub(super) fn answer(mut told: Explained) -> Effect {
    while Body::from(told.clone()).to_bytes(0).len() > BODY_MAX {
        if told.leaves.pop().is_some() {
            told.more += 1;
        } else {
            // No packet has so many steps.
            told.steps.clear();
            break;
        }
    }
    Effect::Controller { body: told.into(), sure: false }
}

#[cfg(test)]
mod tests {
    use plexus_wire::fabric::message::Leaving;

    use super::*;

    #[test]
    fn an_answer_with_many_frames_fits_a_message_and_says_how_many_are_missing() {
        let leaf = |port| Leaving { port, port_name: vec![b'p'; 15], head: vec![0; 60], from: 0 };
        let leaves: Vec<Leaving> = (0..200).map(leaf).collect();
        let told = Explained { question: 1, port_name: vec![], steps: vec![3; 9], leaves, more: 2 };
        let Effect::Controller { body, sure: false } = answer(told) else { panic!("no message") };
        assert!(body.to_bytes(0).len() <= BODY_MAX);
        let Body::Explained(told) = body else { panic!("another message") };
        assert_eq!(told.leaves.len() + usize::from(told.more), 202);
        assert!(told.leaves.len() > 10);
    }
}
