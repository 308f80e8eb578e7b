//! New files of keys and certificates. None is written over another.

use std::fs;
use std::path::{Path, PathBuf};

use plexus_io::secret::{self, IN_THE_WAY, not_written, write_new, write_secret};
use plexus_wire::ndn::signature::Validity;
use plexus_wire::ndn::{Data, Name, NameBuf};

use super::{self_signed, text};
use crate::key::{Algorithm, PrivateKey};

/// Makes a key, and the certificate that it signs itself: the files `out.key`, which only its owner
/// can read, and `out.ndncert`. Returns the certificate's name.
///
/// # Errors
/// In words, when one of the files exists or cannot be written, or there is no randomness. Then
/// neither is left.
pub fn make(
    identity: Name<'_>,
    out: &Path,
    algorithm: Algorithm,
    validity: Validity,
    now_ms: u64,
) -> Result<NameBuf, String> {
    let [key_file, certificate_file] = [".key", ".ndncert"].map(|end| {
        let mut file = out.as_os_str().to_owned();
        file.push(end);
        PathBuf::from(file)
    });
    // Said before a key is written that nothing certifies.
    if certificate_file.exists() {
        let file = certificate_file.display();
        return Err(format!("{file}: there is such a file{IN_THE_WAY}"));
    }
    let made = PrivateKey::generate(algorithm);
    let (key, key_text) = made.ok_or("the system has no randomness")?;
    // As ndnsec's: a second key of the same name gets another one.
    let key_id = secret::random();
    let key_id = key_id.map_err(|e| format!("asking the system for randomness: {e}"))?;
    let packet = self_signed(&key, identity, key_id, validity, now_ms);
    let packet = packet.map_err(|e| e.to_string())?;
    write_secret(&key_file, &key_text).map_err(|e| not_written(&key_file, &e))?;
    // A key without a certificate is of no use, and would stand in the way of the next try.
    write(&certificate_file, &packet).inspect_err(|_| drop(fs::remove_file(&key_file)))
}

/// Writes a certificate to a new file, in Base64. Returns its name.
///
/// # Errors
/// In words, when the file exists or cannot be written.
pub fn write(file: &Path, packet: &[u8]) -> Result<NameBuf, String> {
    let data = Data::new_checked(packet).map_err(|e| e.to_string())?;
    write_new(file, &text(packet)).map_err(|e| not_written(file, &e))?;
    Ok(data.name().to_buf())
}
