//! A credential: an authority's claims about a box, with its signature.
//!
//! Integers are big-endian. Every byte has one meaning, so that a credential has one encoding:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | role: 1 node, 2 controller |
//! | 2 | 1 | length of the name, 1 to 32 |
//! | 3 | 1 | reserved, 0 |
//! | 4 | 16 | group |
//! | 20 | 8 | node |
//! | 28 | 32 | name, filled up with zeroes |
//! | 60 | 32 | X25519 static public key |
//! | 92 | 64 | Ed25519 signature of "plexus credential 1" and the bytes 0 to 91 |

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey};
use plexus_config::name::{NAME_LEN_MAX, check_name};
use plexus_config::{ValueError, hex};
use serde::{Deserialize, Serialize};

use super::AuthorityPublic;

/// Bytes of an encoded credential.
pub const CREDENTIAL_LEN: usize = CLAIMS_LEN + Signature::BYTE_SIZE;
const CLAIMS_LEN: usize = 92;
const VERSION: u8 = 1;
/// Prefix of the signed bytes, so that no other signature of this key is valid here.
const DOMAIN: &[u8] = b"plexus credential 1";

/// Number of a group, drawn at random when its authority is made.
pub type GroupId = [u8; 16];

/// The role of a box in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It forwards frames.
    Node,
    /// It knows the topology and hands out routes.
    Controller,
}

impl Role {
    const fn code(self) -> u8 {
        match self {
            Role::Node => 1,
            Role::Controller => 2,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Node => "node",
            Role::Controller => "controller",
        })
    }
}

/// The claims of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claims {
    /// The group that the box belongs to.
    pub group: GroupId,
    /// Its number, unique in the group.
    pub node: u64,
    /// Its human-readable name, as [`check_name`] allows.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// The public half of the X25519 key that it proves in handshakes.
    pub static_public: [u8; 32],
}

impl Claims {
    fn encode(&self) -> [u8; CLAIMS_LEN] {
        let mut out = [0; CLAIMS_LEN];
        out[0] = VERSION;
        out[1] = self.role.code();
        // Checked when the credential was created: at most 32 bytes.
        out[2] = self.name.len() as u8;
        out[4..20].copy_from_slice(&self.group);
        out[20..28].copy_from_slice(&self.node.to_be_bytes());
        out[28..28 + self.name.len()].copy_from_slice(self.name.as_bytes());
        out[60..92].copy_from_slice(&self.static_public);
        out
    }

    fn decode(bytes: &[u8; CLAIMS_LEN]) -> Result<Claims, CredentialError> {
        let wrong = |field| Err(CredentialError::Field(field));
        if bytes[0] != VERSION {
            return wrong("version");
        }
        let role = match bytes[1] {
            1 => Role::Node,
            2 => Role::Controller,
            _ => return wrong("role"),
        };
        let name_len = usize::from(bytes[2]);
        if name_len > NAME_LEN_MAX {
            return wrong("name length");
        }
        if bytes[3] != 0 {
            return wrong("reserved byte");
        }
        let (name, filling) = bytes[28..60].split_at(name_len);
        let Ok(name) = std::str::from_utf8(name) else { return wrong("name") };
        if check_name("node", name).is_err() || filling.iter().any(|&b| b != 0) {
            return wrong("name");
        }
        Ok(Claims {
            group: array(&bytes[4..20]),
            node: u64::from_be_bytes(array(&bytes[20..28])),
            name: name.to_string(),
            role,
            static_public: array(&bytes[60..92]),
        })
    }
}

/// Bytes whose number the caller has fixed.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

/// Claims with a signature, which is verified only after [`Credential::verify`].
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Credential {
    claims: Claims,
    signature: [u8; 64],
}

/// Why a credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialError {
    /// Not [`CREDENTIAL_LEN`] bytes.
    Length,
    /// This field has an invalid value.
    Field(&'static str),
    /// The signature is not the authority's.
    Signature,
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialError::Length => write!(f, "a credential has {CREDENTIAL_LEN} bytes"),
            CredentialError::Field(field) => write!(f, "the credential has a bad {field}"),
            CredentialError::Signature => {
                f.write_str("the credential is not signed by this group's authority")
            }
        }
    }
}

impl std::error::Error for CredentialError {}

impl Credential {
    /// Signs the claims.
    ///
    /// # Errors
    /// When the name is not one.
    pub(super) fn sign(claims: Claims, key: &SigningKey) -> Result<Credential, ValueError> {
        check_name("node", &claims.name)?;
        let signature = key.sign(&signed(&claims.encode())).to_bytes();
        Ok(Credential { claims, signature })
    }

    /// Its claims.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The bytes, laid out as in the table above.
    pub fn encode(&self) -> [u8; CREDENTIAL_LEN] {
        let mut out = [0; CREDENTIAL_LEN];
        out[..CLAIMS_LEN].copy_from_slice(&self.claims.encode());
        out[CLAIMS_LEN..].copy_from_slice(&self.signature);
        out
    }

    /// Reads bytes of any origin. This checks the form; [`Credential::verify`] the signature.
    ///
    /// # Errors
    /// With the field that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Credential, CredentialError> {
        let Some((claims, signature)) = bytes.split_first_chunk::<CLAIMS_LEN>() else {
            return Err(CredentialError::Length);
        };
        let signature = signature.try_into().map_err(|_| CredentialError::Length)?;
        Ok(Credential { claims: Claims::decode(claims)?, signature })
    }

    /// Verifies the authority's signature by the strict rules that give a signature one meaning
    /// (RFC 8032, 5.1.7, without small-order keys).
    ///
    /// # Errors
    /// [`CredentialError::Signature`] if it did not.
    pub fn verify(&self, authority: &AuthorityPublic) -> Result<(), CredentialError> {
        let signature = Signature::from_bytes(&self.signature);
        authority
            .key()
            .verify_strict(&signed(&self.claims.encode()), &signature)
            .map_err(|_| CredentialError::Signature)
    }
}

fn signed(claims: &[u8; CLAIMS_LEN]) -> Vec<u8> {
    [DOMAIN, claims].concat()
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credential").field(&self.claims).finish()
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claims { group, node, name, role, .. } = &self.claims;
        write!(f, "{role} {name} ({node}) of group {}", plexus_wire::hex(group))
    }
}

impl From<Credential> for String {
    fn from(credential: Credential) -> String {
        plexus_wire::hex(&credential.encode())
    }
}

impl TryFrom<String> for Credential {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Credential, ValueError> {
        let bytes = hex::decode::<CREDENTIAL_LEN>(&text)?;
        Credential::decode(&bytes).map_err(|e| {
            ValueError::new(e.to_string(), "copy the credential that the authority issued")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Authority, KeyPair};
    use super::*;

    fn issued() -> (Authority, Credential) {
        let authority = Authority::new([7; 16], &[1; 32]);
        let public = KeyPair::generate(&[2; 32]).public;
        let credential = authority.issue(300, "s1", Role::Node, &public).unwrap();
        (authority, credential)
    }

    #[test]
    fn the_layout_is_the_table() {
        let (authority, credential) = issued();
        let bytes = credential.encode();
        assert_eq!(bytes[..4], [1, 1, 2, 0]);
        assert_eq!(bytes[4..20], [7; 16]);
        assert_eq!(bytes[20..28], [0, 0, 0, 0, 0, 0, 1, 44]);
        assert_eq!(bytes[28..32], *b"s1\0\0");
        assert_eq!(bytes[60..92], credential.claims().static_public);
        assert_eq!(Credential::decode(&bytes), Ok(credential.clone()));
        assert_eq!(credential.verify(&authority.public()), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let (authority, credential) = issued();
        let public = authority.public();
        for bit in 0..CREDENTIAL_LEN * 8 {
            let mut bytes = credential.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Credential::decode(&bytes).and_then(|c| c.verify(&public));
            assert!(read.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        let mut bytes = issued().1.encode().to_vec();
        bytes.extend([0; 8]);
        for n in (0..bytes.len()).filter(|n| *n != CREDENTIAL_LEN) {
            assert_eq!(Credential::decode(&bytes[..n]), Err(CredentialError::Length), "{n}");
        }
    }

    #[test]
    fn another_authority_of_the_same_group_is_refused() {
        let (_, credential) = issued();
        let other = Authority::new([7; 16], &[9; 32]).public();
        assert_eq!(credential.verify(&other), Err(CredentialError::Signature));
    }

    #[test]
    fn text_is_read_back() {
        let (_, credential) = issued();
        let json = serde_json::to_string(&credential).unwrap();
        assert_eq!(serde_json::from_str::<Credential>(&json).unwrap(), credential);
        assert!(serde_json::from_str::<Credential>("\"00\"").is_err());
    }
}
