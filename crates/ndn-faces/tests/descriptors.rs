//! A process without free descriptors. A separate process, because other tests would lack theirs.

use std::fs::File;
use std::os::unix::net::UnixStream;

use plexus_ndn::face::FaceId;
use plexus_ndn::link::Received;
use plexus_ndn_faces::{Bounds, Faces, Facts, Listen, Receiver, Table};
use plexus_wire::Time;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[derive(Default)]
struct Up(usize);

impl Receiver for Up {
    fn packets(&mut self, _: Time, _: &[(FaceId, Received<'_>)], _: &mut Table) {}

    fn face_up(&mut self, _: Time, _: &Facts) {
        self.0 += 1;
    }
}

#[test]
fn a_caller_waits_for_a_free_descriptor_without_polling() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut faces = Faces::new(Bounds::default(), 1).unwrap();
    faces.listen(&Listen::Unix(path.clone())).unwrap();
    let (mut up, mut now) = (Up::default(), Time::from_secs(1));
    faces.turn(now, &mut up);
    let _caller = UnixStream::connect(&path).unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..usual }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    assert_eq!(faces.next_deadline(), None, "nothing is due before a refusal");
    faces.sleep([], None).unwrap();
    faces.turn(now, &mut up);
    assert_eq!(up.0, 0);
    // No socket wakes it: it waits for a deadline.
    let again = faces.next_deadline().expect("it will listen again");
    taken.clear();
    faces.sleep([], Some(std::time::Duration::ZERO)).unwrap();
    faces.turn(now, &mut up);
    assert_eq!(up.0, 0, "not listened to yet");
    now = again.max(now + std::time::Duration::from_millis(1));
    faces.turn(now, &mut up);
    faces.sleep([], None).unwrap();
    faces.turn(now, &mut up);
    assert_eq!(up.0, 1);
    setrlimit(Resource::Nofile, usual).unwrap();
}
