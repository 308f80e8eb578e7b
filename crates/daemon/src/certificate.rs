//! Files of certificates and keys of named data.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_wire::ndn::PACKET_LEN_MAX;

/// Most bytes of a file: a packet in Base64, with its ends of lines.
const FILE_LEN_MAX: usize = 2 * PACKET_LEN_MAX;

/// What is in a file of a certificate or a key, if that is no more than such a file has.
///
/// # Errors
/// In words.
pub fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    // In one piece, so that who wipes it wipes all of it.
    let mut bytes = Vec::with_capacity(FILE_LEN_MAX + 2);
    let opened = File::open(file).map_err(|e| e.to_string())?;
    let read = opened.take(FILE_LEN_MAX as u64 + 1).read_to_end(&mut bytes);
    match read.map_err(|e| e.to_string())? {
        0 => Err("it is empty".into()),
        len if len > FILE_LEN_MAX => Err("it is longer than any key or certificate".into()),
        _ => Ok(bytes),
    }
}

/// A packet: as it is; in Base64, as ndnsec, NDNts and `plexus ndn key` write it; or in PEM, as
/// ndnd does.
///
/// # Errors
/// In words.
pub fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = bytes(file)?;
    // The type of Data.
    if bytes.first() == Some(&6) {
        return Ok(bytes);
    }
    if let Some(inside) = pem(&bytes) {
        bytes = inside;
    }
    if bytes.starts_with(b"-----BEGIN ") && bytes.windows(11).any(|part| part == b"PRIVATE KEY") {
        return Err("it is a private key: name its certificate".into());
    }
    bytes.retain(|byte| !byte.is_ascii_whitespace());
    STANDARD.decode(&bytes).map_err(|e| format!("neither Data nor Base64: {e}"))
}

/// The Base64 that is in PEM, without the lines in front that say what it is.
fn pem(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, inside) = text.split_once("-----BEGIN NDN CERT-----")?;
    let (inside, _) = inside.split_once("-----END NDN CERT-----")?;
    let lines = inside.lines().filter(|line| !line.contains(':'));
    Some(lines.collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_as_clients_write_them_and_what_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("certificate");
        let of = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            read(&file)
        };
        assert_eq!(of(b"\x06\x01\x20"), Ok(b"\x06\x01\x20".to_vec()));
        assert_eq!(of(b"Bg\nEg\r\n"), Ok(b"\x06\x01\x20".to_vec()));
        let pem = "-----BEGIN NDN CERT-----\nName: /a\n\nBg\nEg\n-----END NDN CERT-----\n";
        assert_eq!(of(pem.as_bytes()), Ok(b"\x06\x01\x20".to_vec()));
        assert_eq!(of(b""), Err("it is empty".into()));
        for other in ["-----BEGIN", "-----BEGIN NDN CERT-----\nBgEg", &pem.replace("CERT", "KEY")] {
            let told = of(other.as_bytes()).unwrap_err();
            assert!(told.starts_with("neither Data nor Base64"), "{other}: {told}");
        }
        assert!(of(&[6; FILE_LEN_MAX + 1]).unwrap_err().contains("longer than any key"));
    }
}
