//! Files without a name, which vanish with their descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Names tried in turn.
const TRIES: u32 = 100;

/// A file without a name in a folder (open(2), O_TMPFILE). On file systems without such files (NFS,
/// FUSE and overlays of them), a named file that is unlinked at once.
pub(crate) fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // To a kernel or file system without the flag, this opens a folder for writing.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => unlinked(folder),
        Err(error) => Err(error.into()),
    }
}

/// A file that is unlinked as soon as it exists. An existing file is neither opened nor truncated.
fn unlinked(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut last = io::ErrorKind::AlreadyExists.into();
    for number in 0..TRIES {
        let name = folder.join(format!(".plexus-{}-{number}", std::process::id()));
        match options.open(&name) {
            Ok(file) => {
                std::fs::remove_file(&name)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn works(mut file: File) {
        file.write_all(b"body").unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "body");
    }

    #[test]
    fn a_file_leaves_no_name_behind_whether_or_not_the_file_system_knows_such_files() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path();
        // An existing file with the first name is not touched.
        let other = folder.join(format!(".plexus-{}-0", std::process::id()));
        std::fs::write(&other, "theirs").unwrap();
        works(unnamed(folder).unwrap());
        works(unlinked(folder).unwrap());
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
        assert_eq!(unnamed(&folder.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// proc has folders but no such files: the kernel reports the same error there as on every file
    /// system without them.
    #[test]
    fn where_the_flag_is_not_known_a_named_file_is_tried() {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let error = rustix::fs::open("/proc", flags, Mode::RUSR).unwrap_err();
        assert!(matches!(error, Errno::OPNOTSUPP | Errno::ISDIR), "{error}");
    }
}
