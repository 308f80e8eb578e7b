//! A fast table that goes on without its node.

use std::io;
use std::ops::Range;
use std::path::Path;
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
    /// Devices whose program persists.
    fn persisting(&self) -> usize {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let is_place = |name: &std::ffi::OsString| name.to_str().unwrap().parse::<u32>().is_ok();
        let count = || {
            let devices = entries(Path::new(DIRECTORY)).flat_map(|of| entries(&of.path()));
            devices.filter(|device| is_place(&device.file_name())).count()
        };
        self.inside.run(count).unwrap()
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

/// Frames that have arrived since the last look came once each, up to a last one.
fn pass_once(one: &mut Station, two: &mut Station) {
    let last = frame(mac(2), mac(1), u8::MAX);
    one.send(&last);
    let mut came = Vec::new();
    assert!(until(|| {
        came.extend(two.drain());
        came.contains(&last)
    }));
    let count = came.len();
    came.sort();
    came.dedup();
    assert_eq!(came.len(), count, "some came twice");
}

#[test]
fn a_table_that_persists_forwards_until_the_next_node_starts() {
    let Some(net) = Net::with(3, with_bpf_files) else { return };
    net.ip("link set n2 promisc on");
    let node = net.node("a", &file("1h"), &ports(3));
    let why = node.facts("fast-table")["why"].to_string();
    assert!(why.contains("it goes on for 3600s without the node"), "{why}");
    let [mut one, mut two] = fast_stations(&net, &node);
    node.signal(Signal::KILL);
    assert!(until(|| node.has_ended()));
    pass(&mut one, &mut two, 0..20);
    assert!(net.is_promiscuous("n1") && net.persisting() == 3);
    // A flow without a rule waits for a node: the next frame of the other is the next to come.
    one.send(&frame(mac(9), mac(1), 0));
    pass(&mut one, &mut two, 20..21);

    // The next one ends what is left, and forwards itself: no frame arrives twice.
    let next = net.start("a", &file("1h"), &ports(3), &[], "info");
    let mut number = 0;
    let is_up = until(|| {
        number += 1;
        one.send(&frame(mac(2), mac(1), number));
        number == u8::MAX || next.links_are("up")
    });
    assert!(is_up && number < u8::MAX);
    pass_once(&mut one, &mut two);
    pass(&mut one, &mut two, 30..40);
    assert_eq!(next.facts("fast-table")["flows"].as_array().unwrap().len(), 0);
    two.send(&frame(BROADCAST, mac(2), 0));
    one.receive();
    next.until_fast(&mut one, &mut two, (1, 2));
    next.assert_ends_well();
    pass(&mut one, &mut two, 40..60);

    // So does one whose table does not persist.
    let last = net.node("a", "fast_table = \"off\"\nbackend = \"af_packet\"", &ports(3));
    assert!(net.persisting() == 0 && !net.is_promiscuous("n1"));
    assert!(net.is_promiscuous("n2"), "somebody else had set it");
    pass(&mut one, &mut two, 60..70);
    last.assert_ends_well();
}

#[test]
fn a_table_that_persists_ends_at_its_time() {
    let Some(net) = Net::with(2, with_bpf_files) else { return };
    let node = net.node("a", &file("3s"), &ports(2));
    let [mut one, mut two] = fast_stations(&net, &node);
    // As long as the node is there, the time is put off.
    for number in 0..70 {
        pass(&mut one, &mut two, number..number + 1);
        std::thread::sleep(Duration::from_millis(50));
    }
    node.signal(Signal::KILL);
    assert!(until(|| node.has_ended()));
    let mut number = 0u8;
    let mut passes = || {
        number = number.wrapping_add(1);
        one.send(&frame(mac(2), mac(1), number));
        std::thread::sleep(Duration::from_millis(20));
        !two.drain().is_empty()
    };
    assert!(until(&mut passes), "nothing passes any more");
    assert!(until(|| !passes()));
}

#[test]
fn a_port_that_a_reload_removes_leaves_nothing() {
    let Some(net) = Net::with(3, with_bpf_files) else { return };
    let node = net.node("a", &file("1h"), &ports(3));
    assert!(until(|| net.persisting() == 3));
    net.write("a", &file("1h"), &ports(2));
    node.signal(Signal::HUP);
    assert!(until(|| net.persisting() == 2 && !net.is_promiscuous("n3")), "{}", node.log());
    assert!(net.is_promiscuous("n1"));
    // A node that takes these devices by a reload ends what is left there.
    node.signal(Signal::KILL);
    assert!(until(|| node.has_ended()));
    let lines = "fast_table = \"off\"\nbackend = \"af_packet\"";
    let other = net.node("b", lines, &ports(3)[2..]);
    assert_eq!(net.persisting(), 2);
    net.write("b", lines, &ports(3));
    other.signal(Signal::HUP);
    assert!(until(|| net.persisting() == 0 && !net.is_promiscuous("n1")), "{}", other.log());
}

#[test]
fn a_directory_of_another_user_is_not_touched() {
    let Some(net) = Net::with(2, with_bpf_files) else { return };
    let other = || {
        fs::create_dir(DIRECTORY)?;
        std::os::unix::fs::chown(DIRECTORY, Some(65534), None)
    };
    net.inside.run(other).flatten().unwrap();
    let said = net.run_node(&net.write("a", &file("1h"), &ports(2))).expect(2);
    assert!(said.err.contains("/sys/fs/bpf/plexus: it is not this user's alone"), "{}", said.err);
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
    assert_eq!(net.persisting(), 0);
}
