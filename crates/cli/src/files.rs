//! Files of keys and certificates: those that are their owner's alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A secret that others can read is none.
///
/// # Errors
/// In words, when they can, or there is no such file.
pub(crate) fn check_private(file: &Path) -> Result<(), String> {
    let mode = fs::metadata(file).map_err(|e| e.to_string())?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "others may read it: chmod 600 {}, and make another if anybody has",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_else_may_read_a_file_or_write_it_makes_it_no_secret() {
        let file = std::env::temp_dir().join(format!("plexus-files-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let check = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            check_private(&file)
        };
        assert_eq!([0o600, 0o400, 0o700].map(check), [Ok(()), Ok(()), Ok(())]);
        for mode in [0o640, 0o604, 0o660, 0o602, 0o644] {
            let told = check(mode).unwrap_err();
            let what_to_do = format!("others may read it: chmod 600 {}", file.display());
            assert!(told.starts_with(&what_to_do), "{mode:o}: {told}");
        }
        fs::remove_file(&file).unwrap();
        assert!(check_private(&file).unwrap_err().contains("No such file"));
    }
}
