use plexus_wire::MacAddr;

use super::*;

/// A path of this test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let file = format!("plexus-store-{}-{name}.redb", std::process::id());
        Scratch(std::env::temp_dir().join(file))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn lease(last: u8) -> Lease {
    let ip = Ipv4Addr::new(10, 0, 0, last);
    Lease { ip, mac: MacAddr([2, 0, 0, 0, 0, last]), until_unix_s: 1_000 + u64::from(last) }
}

#[test]
fn applied_changes_are_loaded_and_epochs_increase() {
    let path = Scratch::new("reopen");
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
        let store = Store::open(&path.0).unwrap();
        assert_eq!(store.next_epoch(), Ok(1));
        assert_eq!(store.load(), Ok(vec![]));
        store.apply(&[put(7), put(9), put(8)]).unwrap();
        store.apply(&[Change::RemoveLease(lease(9).ip), put(7)]).unwrap();
        store.apply(&[3, 4].map(|version| Change::Put(common(version)))).unwrap();
        store.apply(&[Change::RemoveCommon(3)]).unwrap();
        // One controller per store.
        let told = Store::open(&path.0).unwrap_err().to_string();
        assert!(told.contains("open in another process"), "{told}");
    }
    let store = Store::open(&path.0).unwrap();
    assert_eq!(store.next_epoch(), Ok(2));
    let stored = vec![Record::Lease(lease(7)), Record::Lease(lease(8)), common(4)];
    assert_eq!(store.load(), Ok(stored));
}

#[test]
fn foreign_files_are_refused_by_name() {
    let path = Scratch::new("text");
    std::fs::write(&path.0, "name = \"c1\"\n".repeat(1000)).unwrap();
    let told = Store::open(&path.0).unwrap_err().to_string();
    assert!(told.contains("-text.redb: is damaged (") && told.contains("move it away"), "{told}");
    let told = Store::open(Path::new("/proc/no/such/file")).unwrap_err().to_string();
    assert!(told.contains("cannot be read or written"), "{told}");
}

#[test]
fn a_cut_or_corrupted_file_is_an_error_or_whole_never_a_panic() {
    let path = Scratch::new("damage");
    {
        let store = Store::open(&path.0).unwrap();
        let changes: Vec<Change> =
            (0..=255).map(|i| Change::Put(Record::Lease(lease(i)))).collect();
        store.apply(&changes).unwrap();
    }
    let good = std::fs::read(&path.0).unwrap();
    let (mut refused, mut told) = (0, String::new());
    let cuts = (1..16).map(|i| good[..good.len() * i / 16].to_vec());
    let flips = (0..64).map(|i| {
        let mut bytes = good.clone();
        let at = (i * 7919) % bytes.len().min(40_000);
        bytes[at..(at + 16).min(good.len())].fill(0xA5);
        bytes
    });
    for bytes in cuts.chain(flips) {
        std::fs::write(&path.0, &bytes).unwrap();
        match Store::open(&path.0).and_then(|s| s.load()) {
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
