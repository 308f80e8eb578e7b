//! Both sides of the exchange. Each step consumes the state before it, so that no step is skipped
//! or repeated.

use plexus_config::name::{NAME_LEN_MAX, check_name};
use snow::{Builder, HandshakeState, TransportState};
use zeroize::Zeroizing;

use super::{JoinCode, JoinError, fingerprint};
use crate::identity::{AuthorityPublic, CREDENTIAL_LEN, Credential, Identity, KeyPair, Role};
use crate::session::{Random, Seeded};

/// Longest message of either side, in bytes.
pub const MESSAGE_LEN_MAX: usize = 512;
/// Longest reason of a refusal, in bytes.
const REASON_LEN_MAX: usize = 300;

const PATTERN: &str = "Noise_XNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"plexus join 1";
/// The first byte of the first message.
const VERSION: u8 = 1;
/// The first byte of the first box's answer.
const GRANTED: u8 = 1;
const REFUSED: u8 = 0;
const STORED: &[u8] = b"stored";

/// The new box, which has sent the first message.
pub struct Joiner {
    noise: HandshakeState,
    keys: KeyPair,
    fingerprint: [u8; 10],
    name: String,
    role: Role,
}

impl Joiner {
    /// Begins to ask for an identity of this name and role, for the key whose private half are
    /// these random bytes. Returns the first message too.
    pub fn new(
        code: &JoinCode,
        (name, role): (&str, Role),
        key: &[u8; 32],
        random: Random,
    ) -> (Joiner, Vec<u8>) {
        let mut noise = begin(code, Some(key), random);
        let first = [&[VERSION][..], &write(&mut noise, &[])].concat();
        let (keys, fingerprint) = (KeyPair::generate(key), code.fingerprint());
        (Joiner { noise, keys, fingerprint, name: name.to_string(), role }, first)
    }

    /// Takes the first box's answer to the first message. Returns the next message.
    ///
    /// # Errors
    /// [`JoinError::Malformed`] when it is not an answer by a box that knows the code.
    pub fn answered(mut self, message: &[u8]) -> Result<(Waiting, Vec<u8>), JoinError> {
        read(&mut self.noise, message)?;
        let request = write(&mut self.noise, self.name.as_bytes());
        let Joiner { noise, keys, fingerprint, name, role } = self;
        Ok((Waiting { noise: transport(noise)?, keys, fingerprint, name, role }, request))
    }

    /// The public key that the identity will have.
    pub fn key(&self) -> [u8; 32] {
        self.keys.public
    }
}

/// The new box, which waits for the operator of the first box.
pub struct Waiting {
    noise: TransportState,
    keys: KeyPair,
    fingerprint: [u8; 10],
    name: String,
    role: Role,
}

impl Waiting {
    /// Takes the first box's verdict.
    ///
    /// # Errors
    /// When it is a refusal, or the identity is not this box's and of the code's group.
    pub fn verdict(&mut self, message: &[u8]) -> Result<Identity, JoinError> {
        let verdict = open(&mut self.noise, message)?;
        let (kind, body) = verdict.split_first().ok_or(JoinError::Malformed)?;
        if *kind == REFUSED {
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            let why = String::from_utf8_lossy(body).chars().map(plain).collect();
            return Err(JoinError::Refused(why));
        }
        let (authority, credential) = body.split_first_chunk::<32>().ok_or(JoinError::Malformed)?;
        let authority = AuthorityPublic::from_bytes(authority).ok_or(JoinError::Malformed)?;
        if *kind != GRANTED || credential.len() != CREDENTIAL_LEN {
            return Err(JoinError::Malformed);
        }
        if fingerprint(&authority) != self.fingerprint {
            return Err(JoinError::OtherAuthority);
        }
        let credential = Credential::decode(credential).map_err(|_| JoinError::Malformed)?;
        let claims = credential.claims();
        if claims.name != self.name || claims.role != self.role {
            return Err(JoinError::OtherBox);
        }
        Identity::new(credential, self.keys.clone(), authority).map_err(|_| JoinError::OtherBox)
    }

    /// The last message: the identity is stored.
    pub fn stored(&mut self) -> Vec<u8> {
        seal(&mut self.noise, STORED)
    }
}

/// The first box, which has answered a box that knows the code.
pub struct Asked {
    noise: HandshakeState,
}

impl Asked {
    /// Takes the first message, and returns the answer to it.
    ///
    /// # Errors
    /// [`JoinError::Version`], [`JoinError::Malformed`]; [`JoinError::WrongCode`] when the message
    /// has the right form and another key.
    pub(super) fn new(
        code: &JoinCode,
        first: &[u8],
        random: Random,
    ) -> Result<(Asked, Vec<u8>), JoinError> {
        let (version, message) = first.split_first().ok_or(JoinError::Malformed)?;
        if *version != VERSION {
            return Err(JoinError::Version);
        }
        let mut noise = begin(code, None, random);
        read(&mut noise, message).map_err(|_| JoinError::WrongCode)?;
        let answer = write(&mut noise, &[]);
        Ok((Asked { noise }, answer))
    }

    /// Takes the request.
    ///
    /// # Errors
    /// When it is malformed, or the peer does not prove its key.
    pub fn request(mut self, message: &[u8]) -> Result<Applicant, JoinError> {
        let name = read(&mut self.noise, message)?;
        let name = String::from_utf8(name).map_err(|_| JoinError::Malformed)?;
        check_name("node", &name).map_err(|_| JoinError::Malformed)?;
        let key = self.noise.get_remote_static().and_then(|key| key.try_into().ok());
        let key = key.ok_or(JoinError::Malformed)?;
        Ok(Applicant { noise: transport(self.noise)?, name, key })
    }
}

/// The first box, with a request that its operator has to confirm.
pub struct Applicant {
    noise: TransportState,
    /// The name that the new box wants.
    pub name: String,
    /// The public key that it has proved.
    pub key: [u8; 32],
}

impl Applicant {
    /// The message that hands a credential out.
    pub fn grant(&mut self, credential: &Credential, authority: &AuthorityPublic) -> Vec<u8> {
        let parts = [&[GRANTED][..], &authority.to_bytes(), &credential.encode()];
        seal(&mut self.noise, &parts.concat())
    }

    /// The message that refuses, with the reason.
    pub fn refuse(&mut self, why: &str) -> Vec<u8> {
        let end = why.floor_char_boundary(REASON_LEN_MAX);
        seal(&mut self.noise, &[&[REFUSED][..], &why.as_bytes()[..end]].concat())
    }

    /// Whether this message says that the new box has stored its identity.
    pub fn has_stored(&mut self, message: &[u8]) -> bool {
        open(&mut self.noise, message).is_ok_and(|said| said == STORED)
    }
}

/// A handshake under the code's key: the new box's, which has a key, or the first box's.
fn begin(code: &JoinCode, key: Option<&[u8; 32]>, mut random: Random) -> HandshakeState {
    let (psk, seed) = (code.key(), Zeroizing::new(random.bytes()));
    let build = || -> Result<HandshakeState, snow::Error> {
        let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(Seeded(seed)))
            .psk(0, &psk)?
            .prologue(PROLOGUE)?;
        match key {
            Some(key) => builder.local_private_key(key)?.build_initiator(),
            None => builder.build_responder(),
        }
    };
    build().expect("the manifest asks for the pattern's primitives")
}

fn write(noise: &mut HandshakeState, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() <= NAME_LEN_MAX, "a name is the longest payload");
    let mut out = vec![0; MESSAGE_LEN_MAX];
    let len = noise.write_message(payload, &mut out);
    out.truncate(len.expect("it is our turn, and the buffer is large enough"));
    out
}

fn read(noise: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, JoinError> {
    let mut out = vec![0; message.len()];
    let len = noise.read_message(message, &mut out).map_err(|_| JoinError::Malformed)?;
    out.truncate(len);
    Ok(out)
}

fn transport(noise: HandshakeState) -> Result<TransportState, JoinError> {
    noise.into_transport_mode().map_err(|_| JoinError::Malformed)
}

fn seal(noise: &mut TransportState, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; MESSAGE_LEN_MAX];
    let len = noise.write_message(payload, &mut out);
    out.truncate(len.expect("the payload fits a message"));
    out
}

fn open(noise: &mut TransportState, message: &[u8]) -> Result<Vec<u8>, JoinError> {
    let mut out = vec![0; message.len()];
    let len = noise.read_message(message, &mut out).map_err(|_| JoinError::Malformed)?;
    out.truncate(len);
    Ok(out)
}
