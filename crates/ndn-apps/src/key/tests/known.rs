//! Keys for tests, here and of the program. They are public.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::data::{ContentType, MetaInfo, Repr};

use super::DigestSigner;

/// SEC 1, as ndnsec keeps it.
pub(super) const P256_SEC1: &str = "\
    MHcCAQEEIMtMeSn4QCRbZOvJw1365mk9RCrC4YaLMTURzD5thy5RoAoGCCqGSM49AwEHoUQDQgAErkrUOkFoHGkMWs\
    or/o9LsFPprhKNQjNKHLxqevJcca62MIwXhU1HbcE+yzuFq70nyPCcK3KE/f4z92p2ozUYLw==";
/// SubjectPublicKeyInfo.
pub(super) const P256_PUBLIC: &str = "\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErkrUOkFoHGkMWsor/o9LsFPprhKNQjNKHLxqevJcca62MIwXhU1Hbc\
    E+yzuFq70nyPCcK3KE/f4z92p2ozUYLw==";
/// PKCS #8.
pub(super) const ED25519_KEY: &str =
    "MC4CAQAwBQYDK2VwBCIEIMUMAAV8Fo5oPTlTIQg18qHnpajivNM8qXHGw8Djp3zJ";
/// SubjectPublicKeyInfo.
pub(super) const ED25519_PUBLIC: &str =
    "MCowBQYDK2VwAyEAImd4YxRP8UnNNTCvRDaHpFr1/EhqCuLkVXaMdBd+fvs=";

/// A certificate of a public key, signed only by a digest.
pub(super) fn certificate(name: &NameBuf, public: &str) -> Vec<u8> {
    let meta = Some(MetaInfo { content_type: Some(ContentType::KEY), ..MetaInfo::default() });
    let spki = STANDARD.decode(public).unwrap();
    let repr = Repr { name: name.as_name(), meta, content: Some(&spki) };
    repr.to_bytes(&DigestSigner::DATA).unwrap()
}
