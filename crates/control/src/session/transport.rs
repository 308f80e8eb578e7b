//! One pair of directional keys: the transport phase of Noise (revision 34, section 5.3), with
//! explicit counters, so that messages may be lost, duplicated and reordered.
//!
//! `snow` derives the keys, but seals without associated data; so its keys are used here, with the
//! nonce that Noise defines for ChaChaPoly (section 12.3).

use std::fmt;

use plexus_seal::Key;

use super::frame::{
    self, MESSAGE_LEN_MAX, SEALED_HEADER_LEN, SHORT_COUNTER_BITS, SHORT_PLAINTEXT_MAX, Sealed,
    TAG_LEN,
};
use super::keyed::open_with;
use super::{Refused, ReplayWindow};

/// Longest plaintext of a Sealed message.
pub const PLAINTEXT_LEN_MAX: usize = MESSAGE_LEN_MAX - SEALED_HEADER_LEN - TAG_LEN;
/// Counters from here on are never used: far more than any key's lifetime needs, and far below the
/// greatest, which Noise reserves.
pub(super) const COUNTER_END: u64 = 1 << 60;

/// Keys derived by the handshake.
pub(super) struct Keys {
    pub(super) send: [u8; 32],
    pub(super) receive: [u8; 32],
    pub(super) fingerprint: [u8; 32],
}

/// One pair of directional keys, with the counter of sealed messages and the window of opened ones.
/// The keys are wiped when it is dropped.
pub struct Session {
    id: u32,
    peer_id: u32,
    fingerprint: [u8; 32],
    send: Key,
    receive: Key,
    next: u64,
    window: ReplayWindow,
}

impl Session {
    pub(super) fn new(id: u32, peer_id: u32, keys: &Keys) -> Session {
        Session {
            id,
            peer_id,
            fingerprint: keys.fingerprint,
            send: Key::new(&keys.send),
            receive: Key::new(&keys.receive),
            next: 0,
            window: ReplayWindow::default(),
        }
    }

    /// Our number: the receiver's session in messages to us.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The hash of its handshake, the same on both sides and unique to the session. It is not
    /// secret.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Messages sealed so far.
    pub fn sealed(&self) -> u64 {
        self.next
    }

    /// Seals a plaintext of at most [`PLAINTEXT_LEN_MAX`] bytes into a complete message; its header
    /// is the associated data. `None` if the plaintext is longer or the counter has reached its
    /// end.
    pub fn seal(&mut self, plaintext: &[u8]) -> Option<Vec<u8>> {
        self.seal_as(plaintext, false)
    }

    /// The same as a short message, if it fits.
    pub fn seal_short(&mut self, plaintext: &[u8]) -> Option<Vec<u8>> {
        self.seal_as(plaintext, plaintext.len() <= SHORT_PLAINTEXT_MAX)
    }

    fn seal_as(&mut self, plaintext: &[u8], is_short: bool) -> Option<Vec<u8>> {
        if plaintext.len() > PLAINTEXT_LEN_MAX || self.next >= COUNTER_END {
            return None;
        }
        let counter = self.next;
        self.next += 1;
        let mut out = match is_short {
            true => frame::begin_short(self.peer_id, counter, plaintext.len()),
            false => frame::begin_sealed(self.peer_id, counter, plaintext.len()),
        };
        let (header, at) = (out.clone(), out.len());
        out.extend(plaintext);
        self.send.seal(&nonce(counter), &header, &mut out, at);
        Some(out)
    }

    /// Opens a message of this session, once.
    ///
    /// # Errors
    /// When it was opened before, may have been, or is not authentic: then nothing changes.
    pub fn open(&mut self, message: &Sealed<'_>) -> Result<Vec<u8>, Refused> {
        if message.receiver != self.id {
            return Err(Refused::UnknownSession);
        }
        let counter = match message.is_short {
            true => self.window.nearest(message.counter, SHORT_COUNTER_BITS),
            false => message.counter,
        };
        if counter >= COUNTER_END {
            return Err(Refused::Exhausted);
        }
        self.window.check(counter)?;
        let nonce = nonce(counter);
        let text = open_with(&self.receive, &nonce, message.header, message.ciphertext)?;
        self.window.note(counter);
        Ok(text)
    }
}

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("peer_id", &self.peer_id)
            .field("sealed", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Message;
    use super::*;

    fn pair() -> (Session, Session) {
        let keys = |send: u8, receive: u8| Keys {
            send: [send; 32],
            receive: [receive; 32],
            fingerprint: [0; 32],
        };
        (Session::new(10, 20, &keys(1, 2)), Session::new(20, 10, &keys(2, 1)))
    }

    fn open(session: &mut Session, bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        match Message::decode(bytes)? {
            Message::Sealed(sealed) => session.open(&sealed),
            _ => Err(Refused::Kind),
        }
    }

    #[test]
    fn messages_open_once_in_any_order_within_the_window() {
        let (mut a, mut b) = pair();
        let all: Vec<_> = (0..1100u64).map(|n| a.seal(&n.to_be_bytes()).unwrap()).collect();
        assert_eq!(open(&mut b, &all[1099]), Ok(1099u64.to_be_bytes().to_vec()));
        assert_eq!(open(&mut b, &all[76]), Ok(76u64.to_be_bytes().to_vec()));
        assert_eq!(open(&mut b, &all[75]), Err(Refused::TooOld));
        assert_eq!(open(&mut b, &all[76]), Err(Refused::Replayed));
        assert_eq!(open(&mut a, &all[80]), Err(Refused::UnknownSession));
    }

    #[test]
    fn short_messages_open_once_wherever_their_counter_is() {
        for first in [0, 1 << 24, (1 << 40) - 3] {
            let (mut a, mut b) = pair();
            a.next = first;
            // A long one before them tells where the counter is.
            let long = a.seal(b"long").unwrap();
            assert_eq!(open(&mut b, &long), Ok(b"long".to_vec()));
            let all: Vec<_> = (0..9u8).map(|n| a.seal_short(&[n]).unwrap()).collect();
            assert_eq!(all[0].len(), 9 + 1 + 16);
            for n in [8, 0, 5] {
                assert_eq!(open(&mut b, &all[n]), Ok(vec![n as u8]), "{first} and {n}");
                assert_eq!(open(&mut b, &all[n]), Err(Refused::Replayed));
            }
            // As many as half of what its bits distinguish may be lost.
            a.next += (1 << 23) - 100;
            let late = a.seal_short(b"late").unwrap();
            assert_eq!(open(&mut b, &late), Ok(b"late".to_vec()));
            a.next += (1 << 23) + 100;
            let lost = a.seal_short(b"lost").unwrap();
            assert!(open(&mut b, &lost).is_err());
            let long = a.seal_short(&[9; SHORT_PLAINTEXT_MAX + 1]).unwrap();
            assert_eq!(long[..2], [1, 2], "it is too long for a short one");
            assert_eq!(open(&mut b, &long), Ok(vec![9; SHORT_PLAINTEXT_MAX + 1]));
        }
    }

    #[test]
    fn a_message_does_not_open_in_the_other_direction() {
        let (mut a, mut b) = pair();
        let own = a.seal(b"x").unwrap();
        let mut reflected = own.clone();
        reflected[6..10].copy_from_slice(&10u32.to_be_bytes());
        assert_eq!(open(&mut a, &reflected), Err(Refused::Authentication));
        assert_eq!(open(&mut b, &own), Ok(b"x".to_vec()));
    }

    #[test]
    fn every_flipped_bit_is_refused_and_burns_no_counter() {
        let (mut a, mut b) = pair();
        for own in [a.seal(b"some plaintext").unwrap(), a.seal_short(b"some plaintext").unwrap()] {
            for bit in 0..own.len() * 8 {
                let mut altered = own.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&mut b, &altered).is_err(), "bit {bit}");
            }
            assert_eq!(open(&mut b, &own), Ok(b"some plaintext".to_vec()));
        }
    }

    #[test]
    fn a_key_seals_no_more_than_it_may() {
        let (mut a, mut b) = pair();
        a.next = COUNTER_END - 1;
        let last = a.seal(b"last").unwrap();
        assert_eq!(a.seal(b"more"), None);
        assert_eq!(open(&mut b, &last), Ok(b"last".to_vec()));
        assert_eq!(b.seal(&[0; PLAINTEXT_LEN_MAX + 1]), None);
        assert_eq!(b.seal(&[0; PLAINTEXT_LEN_MAX]).unwrap().len(), MESSAGE_LEN_MAX);
    }

    /// "Sealed" of crates/wire/src/fabric/vectors.json, computed by another implementation.
    #[test]
    fn a_message_of_another_implementation_opens() {
        let key = std::array::from_fn(|i| 0x40 + i as u8);
        let keys = Keys { send: [0; 32], receive: key, fingerprint: [0; 32] };
        let mut session = Session::new(0x0A0B0C0D, 1, &keys);
        let all = include_str!("../../../wire/src/fabric/vectors.json");
        let all: Vec<serde_json::Value> = serde_json::from_str(all).unwrap();
        let vector = all.iter().find(|v| v["name"] == "message/Sealed").unwrap();
        let unhex = |field: &str| plexus_wire::unhex(vector[field].as_str().unwrap()).unwrap();
        assert_eq!(open(&mut session, &unhex("bytes")), Ok(unhex("plaintext")));
    }
}
