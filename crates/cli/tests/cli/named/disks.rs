//! Disks at the start, which may be full, and chunks that are read from them ahead.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Node;
use crate::common::{Desk, Said, Signal, signal, until};

/// A file of four workers, with so many MiB in all.
fn four(disk: &Path, mib: u64) -> String {
    format!(
        "workers = 4\ncache = \"4MiB\"\n[[named.disk]]\nfile = \"{}\"\nsize = \"{mib}MiB\"\n",
        disk.display()
    )
}

impl Desk {
    /// What a node says that does not start. One shell command runs before it and one after it, in
    /// mounts of their own.
    fn fails(&self, more: &str, first: &str, last: &str) -> Said {
        let file = self.write("n", more);
        let script = format!("{first} && {{ \"$@\"; code=$?; {last}; exit $code; }}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_plexus")]);
        command.args(["node", "run", "--config"]).arg(&file);
        Said::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
            .expect(2)
    }
}

fn files(folder: &Path) -> BTreeMap<String, u64> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    });
    files.collect()
}

#[test]
fn a_node_whose_disks_would_fill_the_file_system_does_not_start_and_takes_nothing() {
    let Some(desk) = Desk::root("named-room") else { return };
    let small = desk.path("small");
    fs::create_dir(&small).unwrap();
    let mount = |size: &str| format!("mount -t tmpfs -o {size} small {}", small.display());
    let list = format!("find {0} -type f -printf 'file %f %s\\n'; df -k {0}", small.display());
    let with = |free: u8, disk: &Path| format!("disk_free_percent = {free}\n{}", four(disk, 64));
    // Four files of 16 MiB. All of them would fit, but too little would stay free.
    let said = desk.fails(&with(10, &small.join("deep/cache")), &mount("size=70M"), &list);
    for part in ["the files need 67.1 MB", "73.4 MB are free", "7.3 MB (10 %)", "[[named.disk]]"] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    assert!(!said.out.contains("file "), "{}", said.out);
    // With another margin the same node starts.
    let more = with(1, &small.join("deep/cache"));
    let node = desk.node_within("n", &more, Some(&mount("size=70M")));
    let disks = |node: &Node| node.show("cache").unwrap()["disks"].as_array().unwrap().len();
    assert_eq!(disks(&node), 4);
    drop(node);
    // There is enough space, but no inode for the fourth file.
    let mounted = mount("size=100M,nr_inodes=4");
    let said = desk.fails(&with(10, &small.join("cache")), &mounted, &list);
    assert!(said.err.contains("No space left on device"), "{said:?}");
    assert!(!said.out.contains("file "), "{}", said.out);
}

#[test]
fn a_start_that_fails_later_gives_back_what_all_workers_had_reserved() {
    let desk = Desk::new("named-undo");
    let folder = desk.path("disks");
    fs::create_dir(&folder).unwrap();
    // One of the files is there already, and shorter.
    fs::write(folder.join("cache.1"), [7; 5000]).unwrap();
    let before = BTreeMap::from([("cache.1".to_string(), 5000)]);
    let more = four(&folder.join("cache"), 64);
    let fails = |more: &str, why: &str| {
        let said = desk.fails_here(more).expect(2);
        assert!(said.err.contains(why), "{said:?}");
        assert_eq!(files(&folder), before, "{why}");
    };
    // Another process uses the last worker's file.
    let last = folder.join("cache.3");
    let taken = File::create(&last).unwrap();
    taken.lock().unwrap();
    let said = desk.fails_here(&more).expect(2);
    assert!(said.err.contains("another process, or another worker, uses it"), "{said:?}");
    fs::remove_file(&last).unwrap();
    assert_eq!(files(&folder), before);
    // The forwarder cannot listen. Or it runs, and then the metrics cannot listen.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    fails(&format!("tcp = [\"{address}\"]\n{more}"), "in use");
    desk.write("n", &more);
    let text = fs::read_to_string(desk.path("n.toml")).unwrap();
    fs::write(desk.path("n.toml"), format!("metrics = \"{address}\"\n{text}")).unwrap();
    let said = desk.plexus(&["node", "run", "--config", desk.path("n.toml").to_str().unwrap()]);
    assert!(said.expect(2).err.contains("in use"));
    assert_eq!(files(&folder), before);
    // Nothing fails.
    drop(listener);
    desk.node("n", &more).stop();
    let all = ["cache", "cache.1", "cache.2", "cache.3"].map(|name| (name.into(), 16 << 20));
    assert_eq!(files(&folder), BTreeMap::from(all));
}

impl Desk {
    /// What a node says that does not start.
    fn fails_here(&self, more: &str) -> Said {
        let file = self.write("n", more);
        self.plexus(&["node", "run", "--config", file.to_str().unwrap()])
    }
}

/// What `show cache` counts: chunks in a batch, read ahead, used, and reads of the disks.
fn counted(node: &Node) -> [u64; 4] {
    let cache = node.show("cache").unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let prefetch = &cache["prefetch"];
    let disks = cache["disks"].as_array().unwrap();
    [
        number(&prefetch["chunks"]),
        number(&prefetch["read_ahead"]),
        number(&prefetch["used"]),
        disks.iter().map(|disk| number(&disk["reads"])).sum(),
    ]
}

/// Fetches an object from the disks of a node with this many workers, without and with prefetch. A
/// reload turns prefetch on and off.
fn reads_ahead(desk: &Desk, workers: usize, prefix: &str, components: usize) {
    let disk = desk.path(&format!("cache-{workers}"));
    let with = |prefetch: u64| {
        format!(
            "prefetch = {prefetch}\nworkers = {workers}\ncache = \"4MiB\"\n\
             [[named.dispatch]]\nprefix = \"/\"\ncomponents = {components}\n\
             [[named.disk]]\nfile = \"{}\"\nsize = \"64MiB\"\n",
            disk.display()
        )
    };
    let node = desk.node("n", &with(0));
    let (file, content) = desk.object(16_000_000);
    let producer = desk.serve(&node, prefix, &file);
    let fetch = || assert!(desk.fetch("n", prefix).unwrap() == content);
    let rounds = || {
        let before = counted(&node);
        (0..2).for_each(|_| fetch());
        let after = counted(&node);
        let [_, ahead, used, reads] = std::array::from_fn(|at| after[at] - before[at]);
        (after[0], ahead, used, reads)
    };
    (0..4).for_each(|_| fetch());
    let (chunks, ahead, used, reads) = rounds();
    assert_eq!((chunks, ahead, used), (1, 0, 0), "off is off");
    assert!(reads > 500, "{reads}");
    let reload = |prefetch: u64| {
        desk.write("n", &with(prefetch));
        signal(&node.process.0, Signal::HUP);
        assert!(until(|| counted(&node)[0] == prefetch.max(1)), "{:?}", counted(&node));
    };
    reload(16);
    let (_, ahead, used, reads) = rounds();
    assert!(used <= ahead && ahead < reads, "{ahead} ahead, {used} used, {reads} reads");
    assert!(ahead > reads / 4 && used > ahead / 2, "{ahead} ahead, {used} used, {reads} reads");
    let control = node.control.display().to_string();
    let shown = desk.plexus(&["show", "cache", "--control", &control]).expect(0);
    assert!(shown.out.contains("batches of 16 chunks: "), "{}", shown.out);
    reload(1);
    let before = counted(&node);
    fetch();
    assert_eq!(counted(&node)[1], before[1]);
    drop(producer);
    node.stop();
    // From the start, too.
    let node = desk.node("n", &with(8));
    assert_eq!(counted(&node)[0], 8);
    node.stop();
}

#[test]
fn what_follows_a_chunk_is_read_ahead_and_served_from_memory() {
    reads_ahead(&Desk::new("named-ahead"), 1, "/object", 2);
}

#[test]
fn a_batch_that_is_read_ahead_lies_with_one_worker() {
    // The name, its version and its segment are hashed.
    reads_ahead(&Desk::new("named-ahead-two"), 2, "/object", 3);
}
