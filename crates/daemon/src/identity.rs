//! The identity of a box: its file, read.

use std::path::Path;

use plexus_config::document::read_text;
use plexus_control::identity::{Identity, Role};
use plexus_io::secret::{self, check_private};

/// Bytes of the operating system's randomness.
///
/// # Errors
/// When it has none to give.
pub fn random<const N: usize>() -> Result<[u8; N], String> {
    secret::random().map_err(|e| format!("asking the system for randomness: {e}"))
}

/// Reads an identity that must have this role.
///
/// # Errors
/// When the file is no such identity, or others can read it.
pub fn read(path: &Path, role: Role) -> Result<Identity, String> {
    let identity = load(path)?;
    let found = identity.claims().role;
    if found != role {
        return Err(format!("{} is the identity of a {found}, not of a {role}", path.display()));
    }
    Ok(identity)
}

/// Reads an identity of any role.
///
/// # Errors
/// When the file is none, or others can read it.
pub fn load(path: &Path) -> Result<Identity, String> {
    check_private(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let text = read_text(path).map_err(|e| e.to_string())?;
    Identity::from_toml(&path.display().to_string(), &text).map_err(|e| e.to_string())
}
