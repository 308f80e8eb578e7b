use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// A daemon's file and versions, and what the daemon has adopted.
struct Bench {
    dir: TempDir,
    adopted: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap(), adopted: Arc::default() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("n1.toml")
    }

    /// A text that differs by its comment.
    fn text(&self, what: &str) -> String {
        format!("name = \"n1\"\n# {what}\n")
    }

    fn write(&self, what: &str) {
        fs::write(self.file(), self.text(what)).unwrap();
    }

    /// The comment in the file.
    fn has(&self) -> String {
        let text = fs::read_to_string(self.file()).unwrap();
        text.lines().last().unwrap()[2..].to_string()
    }

    /// Starts a daemon that refuses texts with the word `bad`.
    fn start(&self) -> Arc<Adoption> {
        let mut begin = Begin::read(&self.file()).unwrap();
        begin.resume().unwrap();
        let adopted = self.adopted.clone();
        let say = move |text: &str| adopted.lock().unwrap().push(text.to_string());
        say(&begin.text);
        Adoption::new("n1", begin, move |text, _| match text.contains("bad") {
            true => Err("workers changes only with a restart".into()),
            false => {
                say(text);
                Ok(())
            }
        })
    }

    /// The comment in the text that runs.
    fn runs(&self) -> String {
        let text = self.adopted.lock().unwrap().last().unwrap().clone();
        text.lines().last().unwrap()[2..].to_string()
    }
}

fn within(seconds: u64) -> Apply {
    Apply { confirm_within_s: Some(seconds), comment: "c".into() }
}

fn plain() -> Apply {
    Apply::default()
}

/// A daemon that runs the text `a`, and `b` in its file.
fn edited() -> (Bench, Arc<Adoption>) {
    let bench = Bench::new();
    bench.write("a");
    let daemon = bench.start();
    bench.write("b");
    (bench, daemon)
}

fn shown(adoption: &Adoption) -> Vec<(u64, String, bool)> {
    let versions = adoption.versions().unwrap().versions;
    versions.into_iter().map(|v| (v.number, v.comment, v.good)).collect()
}

fn expire(adoption: &Arc<Adoption>, version: u64) {
    Adoption::expire(&Arc::downgrade(adoption), version);
}

#[test]
fn versions_are_in_the_state_of_the_box_or_beside_a_file_that_is_elsewhere() {
    let of = |file: &str| beside(Path::new(file), "versions").display().to_string();
    assert_eq!(of("/etc/plexus/n1.toml"), "/var/lib/plexus/n1.versions");
    assert_eq!(of("/tmp/lab/n1.toml"), "/tmp/lab/n1.versions");
    assert_eq!(of("/etc/plexus/old/n1"), "/etc/plexus/old/n1.versions");
}

#[test]
fn what_is_adopted_becomes_a_version_and_so_does_what_was_there() {
    let bench = Bench::new();
    bench.write("a");
    let daemon = bench.start();
    // A daemon of which nobody wants versions writes none.
    daemon.reload().unwrap();
    assert!(!bench.dir.path().join("n1.versions").exists());
    bench.write("b");
    assert_eq!(daemon.apply(&plain()).unwrap().version, Some(2));
    assert_eq!(bench.runs(), "b");
    let first = (1, "before the first change".to_string(), true);
    assert_eq!(shown(&daemon), [first, (2, String::new(), true)]);
    // A reload is one too, and refused texts are none.
    bench.write("c");
    daemon.reload().unwrap();
    bench.write("bad");
    assert!(daemon.reload().unwrap_err().contains("only with a restart"));
    assert!(daemon.apply(&within(60)).unwrap_err().contains("only with a restart"));
    assert_eq!((bench.runs(), daemon.running().version), ("c".into(), Some(3)));
    assert!(daemon.lock().trial.is_none());
    assert_eq!(shown(&daemon).len(), 3);
    // A refused trial leaves none for a start to go back from.
    bench.write("c");
    drop(daemon);
    bench.start();
    assert_eq!(bench.runs(), "c");
    // An edit between two runs is kept.
    bench.write("d");
    let daemon = bench.start();
    // The number of the refused trial is not used again.
    assert_eq!(daemon.running().version, Some(5));
    assert_eq!(daemon.lock().kept().unwrap().text(5).unwrap(), bench.text("d"));
}

#[test]
fn a_trial_ends_well_by_a_confirmation_alone() {
    let bench = Bench::new();
    bench.write("a");
    let daemon = bench.start();
    assert!(daemon.confirm().unwrap_err().contains("nothing to confirm"));
    assert!(daemon.apply(&within(0)).is_ok(), "the text that runs is no trial");
    bench.write("b");
    for seconds in [0, 24 * 3600 + 1] {
        assert!(daemon.apply(&within(seconds)).unwrap_err().contains("from one second to a day"));
    }
    let trial = daemon.apply(&within(3600)).unwrap().trial.unwrap();
    assert_eq!((trial.version, trial.back_to), (2, 1));
    assert!((3500..=3600).contains(&trial.left_s), "{trial:?}");
    assert!(daemon.metrics("node").contains("plexus_config_version{node=\"n1\"} 2\n"));
    // The same text again changes nothing, and another one is refused.
    daemon.reload().unwrap();
    bench.write("c");
    for told in [daemon.reload(), daemon.apply(&within(60)).map(|_| ())] {
        assert!(told.unwrap_err().contains("`plexus config confirm n1` keeps it"));
    }
    assert!(!shown(&daemon)[1].2);
    assert_eq!(daemon.confirm().unwrap().trial, None);
    assert!(shown(&daemon)[1].2);
    // A time that is over too late ends nothing.
    expire(&daemon, 2);
    assert_eq!(bench.runs(), "b");
    bench.write("b");
    drop(daemon);
    bench.start();
    assert_eq!(bench.runs(), "b");
}

#[test]
fn an_unconfirmed_trial_goes_back_in_the_daemon_and_in_the_file() {
    let (bench, daemon) = edited();
    daemon.apply(&within(3600)).unwrap();
    expire(&daemon, 2);
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
    assert_eq!(daemon.running().version, Some(1));
    // On request as well.
    bench.write("c");
    daemon.apply(&within(3600)).unwrap();
    daemon.answer(Config::Back(true)).ok().unwrap();
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
    // The time passes by itself.
    bench.write("d");
    daemon.apply(&within(1)).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while daemon.running().trial.is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
    assert_eq!(shown(&daemon).len(), 4);
    assert!(shown(&daemon)[1..].iter().all(|(_, _, good)| !good));
}

#[test]
fn a_trial_ends_with_its_daemon() {
    let (bench, daemon) = edited();
    daemon.apply(&within(3600)).unwrap();
    drop(daemon);
    let daemon = bench.start();
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
    assert_eq!((daemon.running().version, daemon.running().trial), (Some(1), None));
    // The file may be broken by then.
    bench.write("b");
    daemon.apply(&within(3600)).unwrap();
    drop(daemon);
    let broken = format!("{}[[port\n# broken\n", bench.text("x"));
    fs::write(bench.file(), broken).unwrap();
    bench.start();
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
}

#[test]
fn an_edit_during_a_trial_is_kept_as_a_version() {
    let (bench, daemon) = edited();
    daemon.apply(&within(3600)).unwrap();
    bench.write("edited");
    let Ok(Reply::Applied(applied)) = daemon.answer(Config::Back(true)) else { panic!() };
    let note = format!("{} was edited meanwhile: that text is version 3", bench.file().display());
    assert_eq!(applied.notes, [note]);
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "a".into()));
    assert_eq!(daemon.lock().kept().unwrap().text(3).unwrap(), bench.text("edited"));
    // The same if the daemon ends, and an edit that was undone is none.
    bench.write("b");
    daemon.apply(&within(3600)).unwrap();
    bench.write("a");
    drop(daemon);
    let daemon = bench.start();
    assert_eq!(bench.runs(), "a");
    assert_eq!(shown(&daemon).len(), 4);
}

#[test]
fn a_file_that_is_gone_is_told_of_when_a_trial_ends() {
    let (bench, daemon) = edited();
    daemon.apply(&within(3600)).unwrap();
    fs::remove_file(bench.file()).unwrap();
    let Ok(Reply::Applied(applied)) = daemon.answer(Config::Back(true)) else { panic!() };
    assert!(applied.notes[0].contains("n1.toml is gone: version 1 runs"), "{applied:?}");
    assert_eq!(bench.runs(), "a");
}

#[test]
fn a_file_that_the_daemon_may_not_write_does_not_bring_the_trial_back() {
    let (bench, daemon) = edited();
    daemon.apply(&within(3600)).unwrap();
    // The temporary file's name is taken by a folder, so that root cannot write it either.
    let taken = bench.dir.path().join("n1.toml.new");
    fs::create_dir(&taken).unwrap();
    let Ok(Reply::Applied(applied)) = daemon.answer(Config::Back(true)) else { panic!() };
    assert!(applied.notes[0].contains("n1.toml still has version 2"), "{applied:?}");
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "b".into()));
    drop(daemon);
    let daemon = bench.start();
    assert_eq!((bench.runs(), bench.has()), ("a".into(), "b".into()));
    assert_eq!(daemon.running().version, Some(1));
    // A person decides otherwise: by a reload, or by another text.
    daemon.reload().unwrap();
    assert_eq!(bench.runs(), "b");
    drop(daemon);
    bench.start();
    assert_eq!(bench.runs(), "b");
}

#[test]
fn without_a_folder_there_are_reloads_and_no_trials() {
    let bench = Bench::new();
    bench.write("a");
    // A file is in the folder's place.
    fs::write(bench.dir.path().join("n1.versions"), "").unwrap();
    let daemon = bench.start();
    bench.write("b");
    assert!(daemon.apply(&within(60)).unwrap_err().contains("no versions are kept"));
    assert_eq!(bench.runs(), "a");
    let applied = daemon.apply(&plain()).unwrap();
    assert!(applied.notes[0].contains("it runs, and is not kept"), "{applied:?}");
    assert_eq!(bench.runs(), "b");
}

#[test]
fn versions_are_for_their_owner_alone() {
    let (bench, daemon) = edited();
    daemon.apply(&plain()).unwrap();
    let mode = |path: &str| fs::metadata(bench.dir.path().join(path)).unwrap().permissions().mode();
    let modes = ["n1.versions", "n1.versions/1.toml", "n1.versions/index.json"]
        .map(mode)
        .map(|mode| mode & 0o777);
    assert_eq!(modes, [0o700, 0o600, 0o600]);
}

#[test]
fn an_error_says_that_a_newer_program_ran_the_text() {
    let (bench, daemon) = edited();
    daemon.apply(&plain()).unwrap();
    let index = bench.dir.path().join("n1.versions/index.json");
    let own = format!("\"plexus\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let text = fs::read_to_string(&index).unwrap().replace(&own, "\"plexus\": \"9.1.0\"");
    fs::write(&index, text).unwrap();
    let begin = Begin::read(&bench.file()).unwrap();
    let told = begin.explain("x is not a setting of a node".into());
    assert!(
        told.contains("plexus 9.1.0 kept this text as version 2, and this is plexus"),
        "{told}"
    );
    bench.write("c");
    assert_eq!(Begin::read(&bench.file()).unwrap().explain("x".into()), "x");
}

/// A controller's file with these revoked keys.
fn controller(keys: &[u8]) -> String {
    let mut text = "name = \"c1\"\nidentity = \"c1.identity\"\ndevice = \"ctl0\"\n".to_string();
    for key in keys {
        let digits = plexus_wire::hex(&[*key; 32]);
        text.push_str(&format!("[[revoked]]\nname = \"n{key}\"\nkey = \"{digits}\"\n"));
    }
    text
}

fn revoked(text: &str) -> Vec<u8> {
    let file = plexus_config::ControllerFile::parse("", text).unwrap();
    file.settings.revoked.iter().map(|revoked| revoked.key[0]).collect()
}

#[test]
fn a_key_that_was_revoked_stays_so_whichever_way_a_trial_ends() {
    for is_killed in [false, true] {
        let bench = Bench::new();
        fs::write(bench.file(), controller(&[1])).unwrap();
        let daemon = bench.start();
        fs::write(bench.file(), controller(&[1, 2])).unwrap();
        daemon.apply(&within(60)).unwrap();
        // A box is taken out during the trial: its lines are in the file, and cannot be applied.
        fs::write(bench.file(), controller(&[1, 2, 3])).unwrap();
        assert!(daemon.reload().unwrap_err().contains("on trial"));
        match is_killed {
            true => {
                drop(daemon);
                bench.start();
            }
            false => expire(&daemon, 2),
        }
        let runs = bench.adopted.lock().unwrap().last().unwrap().clone();
        assert_eq!(revoked(&runs), [1, 2, 3], "{runs}");
        assert_eq!(fs::read_to_string(bench.file()).unwrap(), runs);
    }
}

#[test]
fn going_back_again_and_again_keeps_one_version() {
    let bench = Bench::new();
    fs::write(bench.file(), controller(&[1]) + "# bad\n").unwrap();
    let daemon = bench.start();
    fs::write(bench.file(), controller(&[1, 2])).unwrap();
    daemon.apply(&within(60)).unwrap();
    for _ in 0..3 {
        assert!(daemon.go_back(&mut daemon.lock()).is_err());
    }
    assert_eq!(shown(&daemon).len(), 3, "the first, the one on trial and the one to go back to");
}

#[test]
fn a_daemon_that_does_not_get_the_socket_ends_no_trial() {
    let (bench, daemon) = edited();
    daemon.apply(&within(60)).unwrap();
    let mut second = Begin::read(&bench.file()).unwrap();
    let socket = bench.dir.path().join("n1.sock");
    let (_listener, _own) = socket::claim(&socket).unwrap();
    let read = |_: &str| Ok(socket.clone());
    assert!(second.claim(read, |socket| socket.as_path()).is_err());
    assert_eq!(bench.has(), "b", "the file is as it was");
    assert_eq!(daemon.confirm().unwrap().version, Some(2));
}
