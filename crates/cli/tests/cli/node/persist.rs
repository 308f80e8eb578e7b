//! A fast table that goes on without its node.

use std::io;
use std::ops::Range;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::fast_table::fast_stations;
use super::*;

const DIRECTORY: &str = "/sys/fs/bpf/plexus";

fn with_bpf_files() -> io::Result<()> {
    common::quiet()?;
    Ok(mount("bpf", "/sys/fs/bpf", "bpf", MountFlags::empty(), None)?)
}

fn without_bpf_files() -> io::Result<()> {
    common::quiet()?;
    Ok(mount("none", "/sys/fs/bpf", "tmpfs", MountFlags::empty(), None)?)
}

fn file(time: &str) -> String {
    format!("fast_table = \"tcx\"\nbackend = \"af_packet\"\nfast_table_persist = \"{time}\"")
}

impl Net {
    /// Names of tables that persist.
    fn tables(&self) -> usize {
        let list = || fs::read_dir(DIRECTORY).map_or(0, Iterator::count);
        self.inside.run(list).unwrap()
    }

    /// Whether somebody has set a device to take frames for any station.
    fn is_promiscuous(&self, device: &str) -> bool {
        let mut ip = Command::new("ip");
        self.inside.apply(ip.args(["link", "show", device])).unwrap();
        String::from_utf8(ip.output().unwrap().stdout).unwrap().contains("PROMISC")
    }
}

/// Numbered frames of one flow arrive, each once.
fn pass(one: &mut Station, two: &mut Station, numbers: Range<u8>) {
    for number in numbers {
        let frame = frame(mac(2), mac(1), number);
        one.send(&frame);
        assert_eq!(two.receive(), frame);
    }
}

#[test]
fn a_table_that_persists_forwards_until_the_next_node_starts() {
    let Some(net) = Net::with(3, with_bpf_files) else { return };
    let node = net.node("a", &file("1h"), &ports(3));
    let why = node.facts("fast-table")["why"].to_string();
    assert!(why.contains("it goes on for 3600s without the node"), "{why}");
    let [mut one, mut two] = fast_stations(&net, &node);
    node.signal(Signal::KILL);
    assert!(until(|| node.has_ended()));
    pass(&mut one, &mut two, 0..20);
    assert!(net.is_promiscuous("n1") && net.tables() == 1);
    // A flow without a rule waits for a node: the next frame of the other is the next to come.
    one.send(&frame(mac(9), mac(1), 0));
    pass(&mut one, &mut two, 20..21);

    // The next one ends what is left, and forwards itself.
    let next = net.node("a", &file("1h"), &ports(3));
    pass(&mut one, &mut two, 30..40);
    assert_eq!(next.facts("fast-table")["flows"].as_array().unwrap().len(), 0);
    two.send(&frame(BROADCAST, mac(2), 0));
    one.receive();
    next.until_fast(&mut one, &mut two, (1, 2));
    next.assert_ends_well();
    pass(&mut one, &mut two, 40..60);

    // So does one whose table does not persist.
    let last = net.node("a", "fast_table = \"off\"\nbackend = \"af_packet\"", &ports(3));
    assert!(net.tables() == 0 && !net.is_promiscuous("n1"));
    pass(&mut one, &mut two, 60..70);
    last.assert_ends_well();
}

#[test]
fn a_table_that_persists_ends_at_its_time() {
    let Some(net) = Net::with(2, with_bpf_files) else { return };
    let node = net.node("a", &file("1s"), &ports(2));
    let [mut one, mut two] = fast_stations(&net, &node);
    // As long as the node is there, the time is put off.
    for number in 0..40 {
        pass(&mut one, &mut two, number..number + 1);
        std::thread::sleep(Duration::from_millis(50));
    }
    node.signal(Signal::KILL);
    assert!(until(|| node.has_ended()));
    let mut number = 0;
    let mut passes = || {
        number += 1;
        one.send(&frame(mac(2), mac(1), number));
        std::thread::sleep(Duration::from_millis(20));
        two.waiting() > 0
    };
    assert!(passes());
    assert!(until(|| !passes()));
}

#[test]
fn a_table_that_cannot_persist_is_refused() {
    let Some(net) = Net::with(2, without_bpf_files) else { return };
    for choice in ["tcx", "auto"] {
        let lines = file("1s").replace("tcx", choice);
        let said = net.run_node(&net.write("a", &lines, &ports(2))).expect(2);
        assert!(said.err.contains("mount -t bpf bpf /sys/fs/bpf"), "{}", said.err);
    }
    let lines = file("1s").replace("tcx", "xdp");
    let said = net.run_node(&net.write("a", &lines, &ports(2))).expect(2);
    assert!(said.err.contains("fast_table = \"xdp\" cannot persist"), "{}", said.err);
    assert_eq!(net.tables(), 0);
}
