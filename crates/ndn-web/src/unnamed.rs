//! Files without a name, which go with their descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Names that are tried in turn.
const TRIES: u32 = 100;

/// A file without a name in a folder (open(2), O_TMPFILE). File systems that know no such files, as
/// NFS, FUSE and overlays of them, have one with a name that is taken away at once.
pub(crate) fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // A kernel or file system that does not know the flag sees a folder opened for writing.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => unlinked(folder),
        Err(error) => Err(error.into()),
    }
}

/// A file whose name is taken away as soon as it is there. Nobody else's is opened or truncated.
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
        let folder = std::env::temp_dir().join(format!("plexus-unnamed-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        // Somebody else's of the first name is left alone.
        let other = folder.join(format!(".plexus-{}-0", std::process::id()));
        std::fs::write(&other, "theirs").unwrap();
        works(unnamed(&folder).unwrap());
        works(unlinked(&folder).unwrap());
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(unnamed(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// proc has folders and no such files: what the kernel says to the flag there is what it says
    /// on every file system without them.
    #[test]
    fn where_the_flag_is_not_known_a_named_file_is_tried() {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let error = rustix::fs::open("/proc", flags, Mode::RUSR).unwrap_err();
        assert!(matches!(error, Errno::OPNOTSUPP | Errno::ISDIR), "{error}");
    }
}
