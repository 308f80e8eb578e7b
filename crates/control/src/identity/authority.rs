//! Keys of an authority and of a box.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ed25519_dalek::{SigningKey, VerifyingKey};
use plexus_config::ValueError;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use zeroize::Zeroizing;

use super::{Claims, Credential, GroupId, Role};

/// The key that signs a group's credentials.
#[derive(Clone)]
pub struct Authority {
    group: GroupId,
    key: SigningKey,
}

impl Authority {
    /// The authority of `group` whose secret is these 32 bytes: the only randomness it needs.
    pub fn new(group: GroupId, secret: &[u8; 32]) -> Authority {
        Authority { group, key: SigningKey::from_bytes(secret) }
    }

    /// The group that it signs for.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The key with which others verify its signatures.
    pub fn public(&self) -> AuthorityPublic {
        AuthorityPublic(self.key.verifying_key())
    }

    pub(super) fn secret(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Signs a credential for the box that holds the private half of `static_public`.
    ///
    /// # Errors
    /// When the name is invalid, or the public key is one of the few whose shared secrets are
    /// publicly known (RFC 7748, 6.1).
    pub fn issue(
        &self,
        node: u64,
        name: &str,
        role: Role,
        static_public: &[u8; 32],
    ) -> Result<Credential, ValueError> {
        if KeyPair::generate(&[1; 32]).shared(static_public) == [0; 32] {
            return Err(ValueError::new(
                "the public key has small order, so it proves nothing",
                "use the public key of a freshly made key pair",
            ));
        }
        let (name, static_public) = (name.to_string(), *static_public);
        let claims = Claims { group: self.group, node, name, role, static_public };
        Credential::sign(claims, &self.key)
    }

    /// Issues an identity to a box whose key is these 32 random bytes.
    ///
    /// # Errors
    /// When the name is not one.
    pub fn issue_identity(
        &self,
        node: u64,
        name: &str,
        role: Role,
        random: &[u8; 32],
    ) -> Result<Identity, ValueError> {
        let keys = KeyPair::generate(random);
        let credential = self.issue(node, name, role, &keys.public)?;
        Identity::new(credential, keys, self.public())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("group", &self.group).finish_non_exhaustive()
    }
}

/// The public half of an authority's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuthorityPublic(VerifyingKey);

impl AuthorityPublic {
    /// The key of these bytes; `None` if they are no Ed25519 public key, or a weak one.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<AuthorityPublic> {
        let key = VerifyingKey::from_bytes(bytes).ok()?;
        (!key.is_weak()).then_some(AuthorityPublic(key))
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    pub(super) fn key(&self) -> &VerifyingKey {
        &self.0
    }
}

impl fmt::Debug for AuthorityPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorityPublic({})", plexus_wire::hex(self.0.as_bytes()))
    }
}

/// An X25519 key pair. The private half is wiped when dropped and never shown.
#[derive(Clone)]
pub struct KeyPair {
    private: Zeroizing<[u8; 32]>,
    /// The public half.
    pub public: [u8; 32],
}

impl KeyPair {
    /// The pair whose private half is these 32 random bytes.
    pub fn generate(random: &[u8; 32]) -> KeyPair {
        let mut public = [0; 32];
        public.copy_from_slice(x25519(random).pubkey());
        KeyPair { private: Zeroizing::new(*random), public }
    }

    pub(crate) fn private(&self) -> &[u8; 32] {
        &self.private
    }

    fn shared(&self, public: &[u8; 32]) -> [u8; 32] {
        let mut out = [0; 32];
        x25519(&self.private).dh(public, &mut out).expect("32 bytes are a public key of X25519");
        out
    }
}

/// The same X25519 as in the handshake, so that both agree on what a key's public half is.
fn x25519(private: &[u8; 32]) -> Box<dyn Dh> {
    let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
    let mut dh = dh.expect("the manifest asks for Curve25519");
    dh.set(private);
    dh
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", plexus_wire::hex(&self.public))
    }
}

/// Everything that a box needs to authenticate itself and to verify others.
#[derive(Clone, Debug)]
pub struct Identity {
    credential: Credential,
    keys: KeyPair,
    authority: AuthorityPublic,
    /// Public keys that are not trusted any more.
    revoked: Arc<BTreeSet<[u8; 32]>>,
}

impl Identity {
    /// Combines the three.
    ///
    /// # Errors
    /// When they do not belong together.
    pub fn new(
        credential: Credential,
        keys: KeyPair,
        authority: AuthorityPublic,
    ) -> Result<Identity, ValueError> {
        if credential.claims().static_public != keys.public {
            return Err(ValueError::new(
                "the private key is not the one that the credential was issued for",
                "ask the authority for a credential of this key",
            ));
        }
        if let Err(e) = credential.verify(&authority) {
            let help = "take credential and authority key from the same group";
            return Err(ValueError::new(e.to_string(), help));
        }
        Ok(Identity { credential, keys, authority, revoked: Arc::default() })
    }

    /// The same identity, which trusts none of these public keys.
    pub fn without(&self, revoked: BTreeSet<[u8; 32]>) -> Identity {
        Identity { revoked: Arc::new(revoked), ..self.clone() }
    }

    /// A new identity of this box, which trusts as few keys as this one.
    pub fn renewed(&self, new: Identity) -> Identity {
        Identity { revoked: self.revoked.clone(), ..new }
    }

    /// Whether this public key was revoked.
    pub fn refuses(&self, key: &[u8; 32]) -> bool {
        self.revoked.contains(key)
    }

    /// The credential that it presents.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The claims of its credential.
    pub fn claims(&self) -> &Claims {
        self.credential.claims()
    }

    /// The authority that it trusts.
    pub fn authority(&self) -> &AuthorityPublic {
        &self.authority
    }

    pub(crate) fn keys(&self) -> &KeyPair {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x25519_is_that_of_the_rfc() {
        // RFC 7748, 6.1: two private keys, their public halves, and the secret they share.
        let hex = |text| plexus_config::hex::decode::<32>(text).unwrap();
        let alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
        let bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
        let (alice, bob) = (KeyPair::generate(&hex(alice)), KeyPair::generate(&hex(bob)));
        let alice_public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let bob_public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        assert_eq!((alice.public, bob.public), (hex(alice_public), hex(bob_public)));
        let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
        assert_eq!(
            (alice.shared(&bob.public), bob.shared(&alice.public)),
            (hex(shared), hex(shared))
        );
    }

    #[test]
    fn an_identity_needs_its_own_key_and_authority() {
        let authority = Authority::new([7; 16], &[1; 32]);
        let (own, other) = (KeyPair::generate(&[2; 32]), KeyPair::generate(&[3; 32]));
        let credential = authority.issue(1, "s1", Role::Node, &own.public).unwrap();
        let public = authority.public();
        assert!(Identity::new(credential.clone(), own.clone(), public).is_ok());
        assert!(Identity::new(credential.clone(), other, public).is_err());
        let stranger = Authority::new([7; 16], &[4; 32]).public();
        assert!(Identity::new(credential, own, stranger).is_err());
    }

    #[test]
    fn bad_names_and_keys_of_small_order_get_no_credential() {
        let authority = Authority::new([7; 16], &[1; 32]);
        let public = KeyPair::generate(&[2; 32]).public;
        for name in ["", "a/b", "a.b", &"x".repeat(33)] {
            assert!(authority.issue(1, name, Role::Node, &public).is_err(), "{name:?}");
        }
        let one: [u8; 32] = std::array::from_fn(|i| u8::from(i == 0));
        for weak in [[0; 32], one] {
            assert!(authority.issue(1, "s1", Role::Node, &weak).is_err());
        }
        assert!(AuthorityPublic::from_bytes(&one).is_none());
    }

    #[test]
    fn nothing_secret_is_shown() {
        let authority = Authority::new([7; 16], &[0x5A; 32]);
        let keys = KeyPair::generate(&[0x5A; 32]);
        let credential = authority.issue(1, "s1", Role::Node, &keys.public).unwrap();
        let identity = Identity::new(credential, keys, authority.public()).unwrap();
        let shown = format!("{authority:?} {identity:?}");
        assert!(!shown.contains("5a5a5a") && !shown.contains("90, 90, 90"), "{shown}");
    }
}
