//! Who may command: the certificates that the file names.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_config::NamedSettings;
use plexus_ndn::management::{Policy, Trust, TrustedKey};
use plexus_wire::ndn::PACKET_LEN_MAX;

/// Most bytes of a file: a packet in Base64, with its ends of lines.
const FILE_LEN_MAX: usize = 2 * PACKET_LEN_MAX;
/// Certificates at most, so that looking for their chains ends soon.
const CERTIFICATES_MAX: usize = 4096;
/// How files in folders end that are certificates.
const ENDINGS: [&str; 2] = ["ndncert", "cert"];

/// What the file asks for. A certificate that leads to no anchor is told and left out.
///
/// # Errors
/// In words: a file that cannot be read, or an anchor without a key.
pub(super) fn trust(settings: &NamedSettings) -> Result<Trust, String> {
    let mut trust = Trust {
        // Whoever signs at all, or as with applications here if nobody's key is known.
        localhop: match (settings.open, settings.anchors.is_empty()) {
            (true, _) => Policy::Any,
            (false, true) => Policy::Nobody,
            (false, false) => Policy::Trusted,
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
    tracing::info!(keys = trust.keys.len(), "keys that may command");
    Ok(trust)
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

/// A packet, as it is or in Base64, as ndnsec and NDNts write it.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(|e| e.to_string())?;
    let read = opened.take(FILE_LEN_MAX as u64 + 1).read_to_end(&mut bytes);
    match read.map_err(|e| e.to_string())? {
        0 => Err("it is empty".into()),
        len if len > FILE_LEN_MAX => Err("it is longer than any certificate".into()),
        // The type of Data.
        _ if bytes[0] == 6 => Ok(bytes),
        _ => {
            bytes.retain(|byte| !byte.is_ascii_whitespace());
            STANDARD.decode(&bytes).map_err(|e| format!("neither Data nor Base64: {e}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_clients_write_them_and_what_is_none_is_told() {
        let dir = std::env::temp_dir().join(format!("plexus-trust-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("a.ndncert");
        let of = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            read(&file)
        };
        assert_eq!(of(b"\x06\x01\x20"), Ok(b"\x06\x01\x20".to_vec()));
        assert_eq!(of(b"Bg\nEg\r\n"), Ok(b"\x06\x01\x20".to_vec()));
        assert_eq!(of(b""), Err("it is empty".into()));
        assert!(of(b"-----BEGIN").unwrap_err().starts_with("neither Data nor Base64"));
        assert!(of(&[6; FILE_LEN_MAX + 1]).unwrap_err().contains("longer than any"));
        for other in ["b.cert", "README", "c.key"] {
            fs::write(dir.join(other), "").unwrap();
        }
        assert_eq!(listed(&dir).unwrap(), [file.clone(), dir.join("b.cert")]);
        assert_eq!(listed(&dir.join("c.key")).unwrap(), [dir.join("c.key")]);
        fs::remove_dir_all(dir).unwrap();
    }
}
