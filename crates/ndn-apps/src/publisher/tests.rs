//! The answers of a publisher for files in a folder.

use std::fs;
use std::os::unix::fs::symlink;

use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::{Data, types};
use tempfile::TempDir;

use super::*;
use crate::files::{Files, Plain};
use crate::metadata::Metadata;

struct Rig {
    folder: TempDir,
    publisher: Publisher<Files<Plain>>,
    now: Time,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("files/sub")).unwrap();
        fs::write(at("files/small"), b"hello").unwrap();
        fs::write(at("files/sub/large"), vec![7; 25_000]).unwrap();
        fs::write(at("secret"), b"secret").unwrap();
        symlink(at("secret"), at("files/out")).unwrap();
        symlink("../small", at("files/sub/in")).unwrap();
        let plain = Plain::open(&at("files"), 8000, Duration::from_millis(100)).unwrap();
        let publisher = Publisher::new("/p".parse().unwrap(), Files::new(plain), 20_000);
        Rig { folder, publisher, now: Time::from_secs(1) }
    }

    fn ask(&mut self, name: &str, can_be_prefix: bool) -> Option<Vec<u8>> {
        let name: NameBuf = name.parse().unwrap();
        let nonce = Some([1; 4]);
        let repr = Repr { can_be_prefix, nonce, ..Repr::new(name.as_name()) };
        let packet = repr.to_bytes().unwrap();
        let headers = Headers { pit_token: Some(b"token"), ..Headers::default() };
        let received = Received { kind: Kind::Interest, headers, packet: &packet };
        let mut out = Vec::new();
        self.publisher.packet(self.now, &received, &mut out);
        let (token, packet) = out.pop()?;
        assert_eq!(token.as_deref(), Some(&b"token"[..]));
        let data = Data::new_checked(&packet).unwrap();
        let last = name.as_name().last().unwrap();
        if let Some(digest) = last.digest(types::IMPLICIT_SHA256_DIGEST) {
            assert_eq!(sha256(&packet), *digest);
            return Some(packet);
        }
        let is_answer = match can_be_prefix {
            true => name.as_name().is_prefix_of(&data.name()),
            false => name.as_name() == data.name(),
        };
        assert!(is_answer, "{} does not answer {name}", data.name());
        Some(packet)
    }

    fn metadata(&mut self, path: &str) -> Option<Metadata> {
        let packet = self.ask(&format!("{path}/32=metadata"), true)?;
        let data = Data::new_checked(&packet).unwrap();
        match data.content_type() {
            ContentType::NACK => None,
            _ => Some(Metadata::of(&data).unwrap()),
        }
    }

    fn content(&mut self, name: &str) -> Option<Vec<u8>> {
        let packet = self.ask(name, false)?;
        let data = Data::new_checked(&packet).unwrap();
        (data.content_type() != ContentType::NACK).then(|| data.content().to_vec())
    }
}

#[test]
fn files_are_found_by_name_version_and_segment() {
    let mut rig = Rig::new();
    let large = rig.metadata("/p/sub/large").unwrap();
    assert_eq!((large.size, large.last, large.segment_size), (Some(25_000), Some(3), Some(8000)));
    assert_eq!(rig.content(&format!("{}/seg=3", large.name)), Some(vec![7; 1000]));
    assert_eq!(rig.content(&format!("{}/seg=4", large.name)), None);
    assert_eq!(rig.metadata("/p/sub/in").unwrap().size, Some(5));
    // Without metadata: the first segment matches the name, with or without version.
    for name in ["/p/small".to_string(), large.name.to_string()] {
        let packet = rig.ask(&name, true).unwrap();
        let data = Data::new_checked(&packet).unwrap();
        assert_eq!(data.name().last().unwrap().number(types::SEGMENT), Some(0));
    }
    // Metadata is an object with segments of its own.
    let exact = format!("/p/sub/large/32=metadata/{}/seg=0", large.name.as_name().last().unwrap());
    assert!(rig.content(&exact).is_some());
}

#[test]
fn missing_objects_are_denied() {
    let mut rig = Rig::new();
    for path in ["/p/none", "/p", "/p/sub", "/p/out", "/p/...../x", "/p/sub%2Flarge", "/p/..."] {
        assert_eq!(rig.metadata(path), None, "{path}");
    }
    for path in ["/p/small", "/p/small/v=1", "/p/small/v=1/seg=0"] {
        assert_eq!(rig.content(path), None, "{path}");
    }
    for other in ["/q/small", "/p/small/seg=0", "/p/small/v=1/seg=0/x", "/p/small/32=other"] {
        assert!(rig.ask(other, true).is_none(), "{other}");
    }
    // Two of them were shorter than a packet's name, and had no CanBePrefix.
    assert_eq!(rig.publisher.counters().ignored, 6);
}

#[test]
fn a_file_that_changes_is_a_new_version_and_the_old_one_is_gone() {
    let mut rig = Rig::new();
    let old = rig.metadata("/p/small").unwrap();
    let path = rig.folder.path().join("files/small");
    std::fs::write(&path, b"other").unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(7);
    file.set_modified(later).unwrap();
    assert_eq!(rig.content(&format!("{}/seg=0", old.name)), None, "never new bytes by an old name");
    rig.now = rig.now + Duration::from_secs(1);
    let new = rig.metadata("/p/small").unwrap();
    assert!(new.name > old.name);
    assert_eq!(rig.content(&format!("{}/seg=0", new.name)), Some(b"other".to_vec()));
    std::fs::remove_file(&path).unwrap();
    rig.now = rig.now + Duration::from_secs(1);
    assert_eq!(rig.metadata("/p/small"), None);
}

#[test]
fn packets_are_found_by_their_full_names_and_nothing_else_is() {
    let mut rig = Rig::new();
    let object = rig.metadata("/p/sub/large").unwrap().name;
    let version = object.as_name().last().unwrap();
    for name in [format!("{object}/seg=1"), format!("/p/sub/large/32=metadata/{version}/seg=0")] {
        let packet = rig.ask(&name, false).unwrap();
        let digest: String = sha256(&packet).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(rig.ask(&format!("{name}/sha256digest={digest}"), false), Some(packet));
        let sent = *rig.publisher.counters();
        let other = format!("/sha256digest={}", "00".repeat(32));
        let absent = format!("{object}/seg=9{other}");
        for other in [format!("{name}{other}"), format!("{object}{other}"), absent] {
            assert!(rig.ask(&other, true).is_none(), "{other}");
        }
        let now = rig.publisher.counters();
        assert_eq!((now.ignored, now.bytes), (sent.ignored + 3, sent.bytes));
        assert_eq!((now.segments, now.metadata), (sent.segments, sent.metadata));
    }
}

#[test]
fn packets_are_made_once_and_bounded_in_bytes() {
    let mut rig = Rig::new();
    let name = rig.metadata("/p/sub/large").unwrap().name;
    for _ in 0..5 {
        rig.content(&format!("{name}/seg=0"));
        rig.content(&format!("{name}/seg=3"));
    }
    assert_eq!(rig.publisher.counters().made, 2);
    for segment in 0..4 {
        rig.content(&format!("{name}/seg={segment}"));
    }
    assert!(rig.publisher.packets.bytes <= 20_000);
    assert_eq!(rig.publisher.packets.map.len(), rig.publisher.packets.order.len());
    let bytes: usize = rig.publisher.packets.map.values().map(|p| p.len()).sum();
    assert_eq!(bytes, rig.publisher.packets.bytes);
}
