//! The Noise handshake itself, implemented by `snow`, with our randomness.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::transport::{Keys, Session};
use super::{Random, Refused};
use crate::identity::Identity;

const PATTERN: &str = "Noise_XX_25519_ChaChaPoly_BLAKE2s";
/// Prologue: together with the group, both sides need the same one for a handshake to succeed.
const PROLOGUE: &[u8] = b"plexus fabric 1";
/// Bytes of the first message: the ephemeral public key.
pub(super) const FIRST_LEN: usize = 32;
/// Most bytes that a message adds to its payload: ephemeral key, sealed static key, tag.
const OVERHEAD_MAX: usize = 32 + 48 + 16;

/// One side of one handshake.
pub(super) struct Noise {
    state: HandshakeState,
    /// The inputs of the state, for rebuilding it.
    initiator: bool,
    seed: Zeroizing<[u8; 32]>,
    past: Vec<Turn>,
}

/// A completed step.
enum Turn {
    /// This payload was written.
    Wrote(Vec<u8>),
    /// This message was read.
    Read(Vec<u8>),
}

/// `snow`'s own primitives, with randomness from a seed.
pub(crate) struct Seeded(pub(crate) Zeroizing<[u8; 32]>);

impl CryptoResolver for Seeded {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        Some(Box::new(Random::from_seed(*self.0)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn snow::types::Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn snow::types::Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn snow::types::Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl Noise {
    pub(super) fn new(identity: &Identity, initiator: bool, random: &mut Random) -> Noise {
        let seed = Zeroizing::new(random.bytes());
        Noise { state: begin(identity, initiator, &seed), initiator, seed, past: Vec::new() }
    }

    /// Our next message, with this payload.
    pub(super) fn write(&mut self, payload: &[u8]) -> Vec<u8> {
        let out = write(&mut self.state, payload);
        self.past.push(Turn::Wrote(payload.to_vec()));
        out
    }

    /// The payload of the peer's next message. A message that is not authentic changes nothing.
    pub(super) fn read(&mut self, identity: &Identity, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut out = vec![0; message.len()];
        match self.state.read_message(message, &mut out) {
            Ok(len) => out.truncate(len),
            Err(_) => {
                self.restore(identity);
                return Err(Refused::Authentication);
            }
        }
        self.past.push(Turn::Read(message.to_vec()));
        Ok(out)
    }

    /// Undoes a message that was not authentic. `snow` 0.10 restores the hashes, but not the
    /// cipher's key and nonce: after a message with only its end forged it would refuse the genuine
    /// one. So the handshake is replayed from the same seed, with the same result.
    fn restore(&mut self, identity: &Identity) {
        self.state = begin(identity, self.initiator, &self.seed);
        for turn in &self.past {
            match turn {
                Turn::Wrote(payload) => drop(write(&mut self.state, payload)),
                Turn::Read(message) => {
                    let again = self.state.read_message(message, &mut vec![0; message.len()]);
                    again.expect("it was read before");
                }
            }
        }
    }

    /// The public key that the peer has proved to hold, if it has.
    pub(super) fn remote_static(&self) -> Option<[u8; 32]> {
        self.state.get_remote_static()?.try_into().ok()
    }

    /// The keys (Noise, section 5.2, `Split`): the first is the initiator's sending key.
    pub(super) fn finish(mut self, id: u32, peer_id: u32) -> Session {
        debug_assert!(self.state.is_handshake_finished(), "only then are the keys final");
        let (first, second) = self.state.dangerously_get_raw_split();
        let (first, second) = (Zeroizing::new(first), Zeroizing::new(second));
        let (send, receive) = match self.state.is_initiator() {
            true => (*first, *second),
            false => (*second, *first),
        };
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(self.state.get_handshake_hash());
        Session::new(id, peer_id, &Keys { send, receive, fingerprint })
    }
}

fn begin(identity: &Identity, initiator: bool, seed: &Zeroizing<[u8; 32]>) -> HandshakeState {
    let build = || -> Result<HandshakeState, snow::Error> {
        let prologue = [PROLOGUE, &identity.claims().group].concat();
        let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(Seeded(seed.clone())))
            .local_private_key(identity.keys().private())?
            .prologue(&prologue)?;
        if initiator { builder.build_initiator() } else { builder.build_responder() }
    };
    build().expect("the manifest asks for the pattern's primitives")
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; payload.len() + OVERHEAD_MAX];
    let len = state.write_message(payload, &mut out);
    out.truncate(len.expect("it is our turn, and the buffer is large enough"));
    out
}
