use plexus_wire::MacAddr;
use tempfile::TempDir;

use super::*;

/// A path of this test's own, in a folder that goes with it.
fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    (folder, path)
}

fn lease(last: u8) -> Lease {
    let ip = Ipv4Addr::new(10, 0, 0, last);
    Lease { ip, mac: MacAddr([2, 0, 0, 0, 0, last]), until_unix_s: 1_000 + u64::from(last) }
}

#[test]
fn applied_changes_are_loaded_and_epochs_increase() {
    let (_folder, path) = scratch();
    let put = |last| Change::Put(Record::Lease(lease(last)));
    let common = |version| {
        let text = format!("[all.switch]\nageing = \"{version}s\"\n");
        Record::Common(CommonVersion {
            version,
            kept_unix_s: 9,
            comment: "a".into(),
            plexus: String::new(),
            kept: true,
            text,
        })
    };
    {
        let store = Store::open(&path).unwrap();
        assert_eq!(store.next_epoch(), Ok(2));
        assert_eq!(store.load(), Ok(vec![]));
        store.apply(&[put(7), put(9), put(8)]).unwrap();
        store.apply(&[Change::RemoveLease(lease(9).ip), put(7)]).unwrap();
        store.apply(&[3, 4].map(|version| Change::Put(common(version)))).unwrap();
        store.apply(&[Change::RemoveCommon(3)]).unwrap();
        // One controller per store.
        let told = Store::open(&path).unwrap_err().to_string();
        assert!(told.contains("open in another process"), "{told}");
    }
    let store = Store::open(&path).unwrap();
    assert_eq!(store.next_epoch(), Ok(3));
    let stored = vec![Record::Lease(lease(7)), Record::Lease(lease(8)), common(4)];
    assert_eq!(store.load(), Ok(stored));
}

#[test]
fn an_epoch_that_versions_have_no_room_for_is_refused() {
    let (_folder, path) = scratch();
    let store = Store::open(&path).unwrap();
    store.raise_epoch((1 << 32) - 2).unwrap();
    assert_eq!(store.next_epoch(), Ok((1 << 32) - 1));
    let told = store.next_epoch().unwrap_err().to_string();
    assert!(told.contains("/store.redb: its epochs are used up: 4294967296"), "{told}");
    assert!(told.contains("restart every node"), "{told}");
}

#[test]
fn foreign_files_are_refused_by_name() {
    let (_folder, path) = scratch();
    std::fs::write(&path, "name = \"c1\"\n".repeat(1000)).unwrap();
    let told = Store::open(&path).unwrap_err().to_string();
    assert!(told.contains("/store.redb: is damaged (") && told.contains("move it away"), "{told}");
    let told = Store::open(Path::new("/proc/no/such/file")).unwrap_err().to_string();
    assert!(told.contains("cannot be read or written"), "{told}");
}

#[test]
fn a_cut_or_corrupted_file_is_an_error_or_whole_never_a_panic() {
    let (_folder, path) = scratch();
    {
        let store = Store::open(&path).unwrap();
        let changes: Vec<Change> =
            (0..=255).map(|i| Change::Put(Record::Lease(lease(i)))).collect();
        store.apply(&changes).unwrap();
    }
    let good = std::fs::read(&path).unwrap();
    let (mut refused, mut told) = (0, String::new());
    let cuts = (1..16).map(|i| good[..good.len() * i / 16].to_vec());
    let flips = (0..64).map(|i| {
        let mut bytes = good.clone();
        let at = (i * 7919) % bytes.len().min(40_000);
        bytes[at..(at + 16).min(good.len())].fill(0xA5);
        bytes
    });
    for bytes in cuts.chain(flips) {
        std::fs::write(&path, &bytes).unwrap();
        match Store::open(&path).and_then(|s| s.load()) {
            Ok(records) => assert!(records.len() <= 256),
            Err(e) => {
                refused += 1;
                told = e.to_string();
                assert!(told.contains("is damaged"), "{told}");
            }
        }
    }
    assert!(refused > 15, "{refused} refused, the last: {told}");
}

/// Writes a store as another version does: records as JSON texts, and the layout's number.
fn written_by_another(path: &Path, format: u64, lease: &str, common: &str) {
    let database = Database::create(path).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut meta = write.open_table(META).unwrap();
        meta.insert(FORMAT, format).unwrap();
        meta.insert(EPOCH, 41).unwrap();
        let key = Ipv4Addr::new(10, 0, 0, 7).to_bits();
        write.open_table(LEASES).unwrap().insert(key, lease.as_bytes()).unwrap();
        write.open_table(COMMON).unwrap().insert(3, common.as_bytes()).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_later_versions_fields_are_ignored_and_its_layout_is_refused() {
    let common = Record::Common(CommonVersion {
        version: 3,
        kept_unix_s: 9,
        comment: "a".into(),
        plexus: "1".into(),
        kept: true,
        text: "[all]".into(),
    });
    let lease_text = |more: &str| {
        let fields = r#""ip": "10.0.0.7", "mac": "02:00:00:00:00:07", "until_unix_s": 1007"#;
        format!("{{{fields}{more}}}")
    };
    let common_text = |more: &str| {
        let fields = r#""version": 3, "kept_unix_s": 9, "comment": "a", "plexus": "1""#;
        format!(r#"{{{fields}, "kept": true, "text": "[all]"{more}}}"#)
    };
    for (name, more) in [("same", ""), ("later", r#", "of_a_later_version": {"a": [1]}"#)] {
        let (_folder, path) = scratch();
        written_by_another(&path, FORMAT_NOW, &lease_text(more), &common_text(more));
        let store = Store::open(&path).unwrap();
        assert_eq!(store.load(), Ok(vec![Record::Lease(lease(7)), common.clone()]), "{name}");
        assert_eq!(store.next_epoch(), Ok(42));
    }
    // An earlier version knows less.
    let (_folder, path) = scratch();
    let earlier = common_text("").replace(r#", "plexus": "1""#, "");
    written_by_another(&path, FORMAT_NOW, &lease_text(""), &earlier);
    let Record::Common(common) = common else { unreachable!("it is one") };
    let common = Record::Common(CommonVersion { plexus: String::new(), ..common });
    let stored = Store::open(&path).unwrap().load();
    assert_eq!(stored, Ok(vec![Record::Lease(lease(7)), common]));
    // What this version would misread has another number, and is left as it is.
    let (_folder, path) = scratch();
    written_by_another(&path, FORMAT_NOW + 1, &lease_text(""), &common_text(""));
    for _ in 0..2 {
        let told = Store::open(&path).unwrap_err().to_string();
        assert!(told.ends_with("is of format 2, this program reads 1: update it"), "{told}");
    }
    // A record that lacks what this version needs is not guessed at.
    let (_folder, path) = scratch();
    written_by_another(&path, FORMAT_NOW, r#"{"ip": "10.0.0.7"}"#, &common_text(""));
    let told = Store::open(&path).unwrap().load().unwrap_err().to_string();
    assert!(told.contains("the lease of 10.0.0.7 is unreadable"), "{told}");
}
