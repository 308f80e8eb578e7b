//! The identity of a box, and the authority that vouches for it.
//!
//! A group has one *authority*, an Ed25519 key that is kept away from the boxes. It signs a
//! [`Credential`] for each of them: group, node number, name, role, and the X25519 public key that
//! the box proves in every handshake. A box's [`Identity`] is its credential, the private half of
//! that key, and the authority's public key, which it holds others' credentials against.
//!
//! A role is bound to a key by the signature (rule 6 of the design): a node cannot turn itself
//! into a controller, nor present a credential whose private key it lacks.

mod authority;
mod credential;
mod file;

pub use authority::{Authority, AuthorityPublic, Identity, KeyPair};
pub use credential::{CREDENTIAL_LEN, Claims, Credential, CredentialError, GroupId, Role};

/// The first eight bytes of a box's public key, as logs name it: enough to tell two boxes apart.
pub fn short_key(public: &[u8; 32]) -> String {
    plexus_wire::hex(&public[..8])
}
