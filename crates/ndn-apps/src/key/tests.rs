mod known;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use known::{ED25519_KEY, ED25519_PUBLIC, P256_PUBLIC, P256_SEC1, certificate};
use plexus_wire::ndn::signature::SignatureType;
use plexus_wire::ndn::{Interest, interest};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};

use super::*;
use crate::digest::{DigestSigner, sha256};

/// PKCS #8, as openssl writes it. All keys here are public.
const P256: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgy0x5KfhAJFtk68nDXfrmaT1EKsLhhosxNRHMPm2HLl\
    GhRANCAASuStQ6QWgcaQxayiv+j0uwU+muEo1CM0ocvGp68lxxrrYwjBeFTUdtwT7LO4WrvSfI8JwrcoT9/jP3anaj\
    NRgv";
/// A curve that NDN does not use.
const P384: &str = "\
    MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDB1hBH4C/FGtxHwNjP7N7HQjhzYzRe8ELDVGu13FuIQkx\
    YBgjwwZ845LfZd8kn99Q+hZANiAASm2iQpUz8JaWKCiGnU63bw4cp9xmrpXKhsWVAo1fm/tYH6nqFvMwSBMyk5J1Xm\
    tYPcSPT9U3ik3q+DWhdt+BrObjdXg8RjiECa/cugrBGvxFGvewVHnWsJJi1DyRdBBus=";
/// SubjectPublicKeyInfo.
const RSA_PUBLIC: &str = "\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAlqoK+Ihnpp8vVLGdvFq+xnPtMd5/wKhM8hO7Qx0tGLCon2\
    cWXCQ8721A4uLlbxLtKvhhakDdwoELDRYsqkyySw/kwo1qdS7MNX2tYzzAzq+aPhhELNBWRgygxsw+iyYk3EJKa2XZ\
    S9r3J3bxhewIlwqUwzr481TtPdfOvXQ6AjxgpV+CtD8AC0XDO0v/fUWUdMkRP0qeSDWWCThOwSWL0IncCnI1hLY/xW\
    nfBbOJ065L7n8hM7cQdc27VMQHRpAeW8ebB4Elht0e2/cPpto0e7iULKJvbxVAa+lTURMI2iPbsQh16bG9fEA/Vivy\
    5f5N/AF2SrsyE0ARr3SyEvTdTwIDAQAB";
/// PKCS #1 in PEM.
const RSA: &str = include_str!("rsa.pem");

fn pem(kind: &str, base64: &str) -> String {
    let lines: Vec<&str> =
        base64.as_bytes().chunks(64).map(|l| str::from_utf8(l).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

fn of_op(public: &str) -> Vec<u8> {
    certificate(&"/op/KEY/1/self/v=1".parse().unwrap(), public)
}

fn refused(key: &[u8], public: &str) -> String {
    CommandKey::read(key, &of_op(public)).unwrap_err().to_string()
}

#[test]
fn commands_are_signed_by_keys_as_openssl_and_ndn_s_tools_keep_them() {
    let parameters = pem("EC PARAMETERS", "BggqhkjOPQMBBw==");
    let sec1 = parameters + &pem("EC PRIVATE KEY", P256_SEC1);
    let der = |text| STANDARD.decode(text).unwrap();
    let ecdsa = (SignatureType::SHA256_WITH_ECDSA, P256_PUBLIC);
    let ed25519 = (SignatureType::ED25519, ED25519_PUBLIC);
    let rsa = (SignatureType::SHA256_WITH_RSA, RSA_PUBLIC);
    for ((kind, public), key) in [
        (ecdsa, pem("PRIVATE KEY", P256).into_bytes()),
        (ecdsa, sec1.into_bytes()),
        (ecdsa, P256_SEC1.into()),
        (ecdsa, der(P256_SEC1)),
        (ed25519, pem("PRIVATE KEY", ED25519_KEY).replace('\n', "\r\n").into_bytes()),
        (ed25519, der(ED25519_KEY)),
        (rsa, RSA.into()),
    ] {
        let key = CommandKey::read(&key, &of_op(public)).unwrap();
        let name: NameBuf = "/localhost/nfd/rib/register/x".parse().unwrap();
        let signer = key.command(b"12345678", 1_000_000);
        let signed =
            interest::Repr::new(name.as_name()).with_parameters(&[], Some(&signer), sha256);
        let packet = signed.unwrap();
        let signature = Interest::new_checked(&packet).unwrap().signature().unwrap();
        let info = signature.info().unwrap();
        assert!(signature.digest_is_last);
        assert_eq!(
            (info.kind, info.time_ms, info.nonce),
            (kind, Some(1_000_000), Some(&b"12345678"[..]))
        );
        let locator: NameBuf = "/op/KEY/1/self/v=1".parse().unwrap();
        assert_eq!(info.key_locator, Some(KeyLocator::Name(locator.as_name())));
        // The key itself is at the end.
        let (algorithm, len): (&dyn VerificationAlgorithm, usize) = match kind {
            SignatureType::SHA256_WITH_ECDSA => (&ECDSA_P256_SHA256_ASN1, 65),
            SignatureType::ED25519 => (&ED25519, 32),
            _ => (&RSA_PKCS1_2048_8192_SHA256, 270),
        };
        let spki = der(public);
        let public = UnparsedPublicKey::new(algorithm, &spki[spki.len() - len..]);
        public.verify(&signature.signed.concat(), signature.value).unwrap();
    }
}

#[test]
fn invalid_or_mismatched_keys_are_reported() {
    let other = refused(pem("PRIVATE KEY", P256).as_bytes(), ED25519_PUBLIC);
    assert_eq!(other, "the certificate /op/KEY/1/self/v=1 is that of another key");
    let algorithm = refused(pem("PRIVATE KEY", P384).as_bytes(), P256_PUBLIC);
    assert!(algorithm.starts_with("the key is neither P-256"), "{algorithm}");
    for encrypted in [
        pem("ENCRYPTED PRIVATE KEY", P256),
        pem("EC PRIVATE KEY", P256_SEC1).replacen('\n', "\nProc-Type: 4,ENCRYPTED\n", 1),
    ] {
        let told = refused(encrypted.as_bytes(), P256_PUBLIC);
        assert!(told.starts_with("it is encrypted"), "{told}");
    }
    for none in [&b""[..], b"key", b"\x30", b"-----BEGIN PRIVATE KEY-----", b"\xff\xfe"] {
        let told = refused(none, P256_PUBLIC);
        assert!(told.starts_with("there is no") || told.starts_with("the key is"), "{told}");
    }
    let told = refused(pem("PUBLIC KEY", P256_PUBLIC).as_bytes(), P256_PUBLIC);
    assert!(told.starts_with("there is no private key in it"), "{told}");
    // One bit more than allowed.
    let mut damaged = STANDARD.decode(P256_SEC1).unwrap();
    damaged[10] ^= 1;
    assert!(refused(&damaged, P256_PUBLIC).starts_with("the key is neither"));
    let no_certificate = CommandKey::read(pem("PRIVATE KEY", P256).as_bytes(), b"\x06\x00");
    assert!(no_certificate.unwrap_err().to_string().starts_with("the certificate: "));
}

#[test]
fn a_key_that_is_made_is_read_again() {
    for algorithm in [Algorithm::P256, Algorithm::Ed25519] {
        let (made, text) = PrivateKey::generate(algorithm).unwrap();
        let read = PrivateKey::read(text.as_bytes()).unwrap();
        assert_eq!(read.spki(), made.spki());
        assert_ne!(PrivateKey::generate(algorithm).unwrap().0.spki(), made.spki());
        assert!(text.lines().all(|line| line.len() <= 64), "{algorithm:?}");
        assert!(text.ends_with("\n-----END PRIVATE KEY-----\n"), "{algorithm:?}");
    }
}
