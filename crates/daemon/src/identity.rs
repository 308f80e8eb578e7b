//! The identity of a box: its file, read.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use plexus_config::document::read_text;
use plexus_control::identity::{Identity, Role};
use plexus_io::secret::{self, check_private};
use plexus_io::users::user;

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
/// When the file is none, or others can read it, or this process may not.
pub fn load(path: &Path) -> Result<Identity, String> {
    if File::open(path).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied) {
        return Err(unreadable(path));
    }
    check_permissions(path)?;
    let text = read_text(path).map_err(|e| e.to_string())?;
    Identity::from_toml(&path.display().to_string(), &text).map_err(|e| e.to_string())
}

/// Checks that only its owner can read a secret.
///
/// # Errors
/// With the file's name, when others can.
pub fn check_permissions(path: &Path) -> Result<(), String> {
    check_private(path).map_err(|why| format!("{}: {why}", path.display()))
}

/// What to do about an identity that this process may not read.
fn unreadable(path: &Path) -> String {
    let own = rustix::process::geteuid().as_raw();
    let user = user(|user| user.id == own).map_or_else(|| own.to_string(), |user| user.name);
    let file = path.display();
    if fs::metadata(path).is_err() {
        let directory = path.parent().unwrap_or(path).display();
        return format!(
            "{file}: user {user} may not search {directory}: as root, chmod +x {directory}"
        );
    }
    format!("{file}: user {user} runs this and may not read it: as root, chown {user}: {file}")
}
