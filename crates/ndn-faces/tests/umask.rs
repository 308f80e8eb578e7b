//! A socket for all users, created by a process with a strict umask. A separate process: the umask
//! is shared by all threads.

use std::os::unix::fs::PermissionsExt;

use plexus_ndn_faces::{Bounds, Faces, Listen};

#[test]
fn every_user_can_reach_a_socket_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let mut faces = Faces::new(Bounds::default(), 1).unwrap();
    faces.listen(&Listen::Unix(path.join("run/nfd/nfd.sock"))).unwrap();
    rustix::process::umask(before);
    let mode = |file: &str| path.join(file).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(["run", "run/nfd", "run/nfd/nfd.sock"].map(mode), [0o755, 0o755, 0o666]);
    // Existing folders keep their mode.
    assert_eq!(mode(""), 0o700);
}
