//! Who may command: the certificates and secrets that the file names.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_config::{NamedSecret, NamedSettings};
use plexus_io::secret::check_private;
use plexus_ndn::management::{Policy, Trust, TrustedKey};
use zeroize::Zeroizing;

use crate::certificate::{bytes, read};

/// Certificates at most, so that looking for their chains ends soon.
const CERTIFICATES_MAX: usize = 4096;
/// Bytes of a secret, at least: as many as AES-128 has.
const SECRET_LEN_MIN: usize = 16;
/// How files in folders end that are certificates.
const ENDINGS: [&str; 2] = ["ndncert", "cert"];

/// What the file asks for. A certificate that leads to no anchor is told and left out.
///
/// # Errors
/// In words: a file that cannot be read, or an anchor without a key.
pub(super) fn trust(settings: &NamedSettings) -> Result<Trust, String> {
    let mut trust = Trust {
        // Whoever signs at all, or as with applications here if nobody's key is known.
        localhop: match (settings.open, settings.trusts_somebody()) {
            (true, _) => Policy::Any,
            (false, false) => Policy::Nobody,
            (false, true) => Policy::Trusted,
        },
        ..Trust::default()
    };
    if settings.open && settings.signed {
        tracing::warn!(
            "neighbours may register prefixes unsigned (open), applications here may not (signed): \
             without open, neighbours who sign by a trusted key still may"
        );
    }
    if settings.signed {
        trust.localhost = Policy::Trusted;
        trust.announcements = Policy::Trusted;
    }
    for anchor in &settings.anchors {
        let told = |why: String| format!("the anchor {}: {why}", anchor.display());
        let key = TrustedKey::certificate(&read(anchor).map_err(told)?);
        trust.keys.push(key.map_err(|e| told(e.to_string()))?);
    }
    for NamedSecret { name, file } in &settings.secrets {
        let told = |why: String| format!("the secret {name} in {}: {why}", file.display());
        let secret = secret(file).map_err(told)?;
        trust.keys.push(TrustedKey::hmac(name.clone(), &secret));
    }
    let (mut files, mut packets) = (Vec::new(), Vec::new());
    for path in &settings.certificates {
        let told = |why| format!("certificates of {}: {why}", path.display());
        for file in listed(path).map_err(told)? {
            match read(&file) {
                Ok(packet) => {
                    files.push(file);
                    packets.push(packet);
                }
                // Folders are other programs' too.
                Err(why) if file != *path => {
                    tracing::warn!(file = %file.display(), %why, "a file that is no certificate");
                }
                Err(why) => return Err(told(why)),
            }
        }
    }
    if files.len() > CERTIFICATES_MAX {
        return Err(format!("{} certificates are more than {CERTIFICATES_MAX}", files.len()));
    }
    for (at, why) in trust.follow(&packets) {
        tracing::warn!(file = %files[at].display(), %why, "a certificate that does not count");
    }
    let of = |policy| match policy {
        Policy::Nobody => "nobody",
        Policy::Trusted => "trusted keys",
        Policy::Any => "anyone",
    };
    let (here, neighbours) = (of(trust.localhost), of(trust.localhop));
    tracing::info!(trusted_keys = trust.keys.len(), here, neighbours, "who may command");
    Ok(trust)
}

/// A secret in Base64, of bytes enough that nobody tries them all.
fn secret(file: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    check_private(file)?;
    let text = Zeroizing::new(bytes(file)?);
    let secret = Zeroizing::new(STANDARD.decode(text.trim_ascii()).map_err(|e| {
        format!("not Base64 ({e}): make one by openssl rand -base64 32 > {}", file.display())
    })?);
    match secret.len() < SECRET_LEN_MIN {
        true => Err(format!("{} bytes: it needs {SECRET_LEN_MIN} at least", secret.len())),
        false => Ok(secret),
    }
}

/// A file, or those certificates that are in a folder, by name.
fn listed(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let is_one = |file: &PathBuf| {
        file.extension().is_some_and(|e| ENDINGS.iter().any(|ending| e == *ending))
    };
    let files = fs::read_dir(path).map_err(|e| e.to_string())?;
    let files = files.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>();
    let mut files: Vec<_> = files.map_err(|e| e.to_string())?.into_iter().filter(is_one).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_long_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let read = |text: &str, mode| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            secret(&file).map(|secret| secret.to_vec())
        };
        let told = |text: &str, mode| read(text, mode).unwrap_err();
        assert_eq!(read(&format!("{}\n", STANDARD.encode([7; 16])), 0o600), Ok(vec![7; 16]));
        assert!(told(&STANDARD.encode([7; 15]), 0o600).starts_with("15 bytes: it needs 16"));
        assert!(told(&STANDARD.encode([7; 16]), 0o640).starts_with("others may read or change it"));
        assert!(told("a pass phrase", 0o600).starts_with("not Base64"));
    }

    #[test]
    fn certificates_of_folders_are_told_by_their_ends() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for other in ["a.ndncert", "b.cert", "README", "c.key"] {
            fs::write(dir.join(other), "").unwrap();
        }
        assert_eq!(listed(dir).unwrap(), [dir.join("a.ndncert"), dir.join("b.cert")]);
        assert_eq!(listed(&dir.join("c.key")).unwrap(), [dir.join("c.key")]);
    }
}
