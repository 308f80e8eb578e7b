//! A quota of processor time in a lab: the kernel enforces it, and its control groups go with the
//! lab, however that ends.

use std::path::PathBuf;
use std::process::Stdio;

use crate::common::{Desk, Signal, item, kill, until};

/// More packets than the node can forward in its time.
fn flooded(name: &str, duration: &str) -> String {
    format!(
        "name = \"{name}\"\ncpu = 0.05\n\
         [[node]]\nname = \"s1\"\n\
         [[node]]\nname = \"s2\"\ncpu = 2\n\
         [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
         [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
         [[link]]\nends = [\"h1\", \"s1.p1\"]\n\
         [[link]]\nends = [\"h2\", \"s2.p1\"]\n\
         [[link]]\nends = [\"s1.up\", \"s2.up\"]\n\
         [[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
         rate = \"80Mbit\"\nsize = 200\nduration = \"{duration}\"\n"
    )
}

/// The control group of a lab that is up.
fn group(desk: &Desk, lab: &str) -> PathBuf {
    let list = desk.json(&["lab", "status"], 0);
    item(&list, "lab", lab)["state"]["cgroup"].as_str().unwrap().into()
}

#[test]
fn the_kernel_stops_a_node_whose_quota_is_used_up() {
    let Some(desk) = Desk::root("quotas") else { return };
    let file = desk.file("quota", &flooded("quota", "2s"));
    desk.plexus(&["lab", "up", &file]).expect(0);
    let group = group(&desk, "quota");
    assert!(group.join("s1").is_dir() && group.join("s2").is_dir(), "{}", group.display());
    let report = desk.json(&["lab", "run", &file], 0);
    let (limited, free) = (&report["cpu_quota"]["s1"], &report["cpu_quota"]["s2"]);
    assert_eq!((limited["cpu"].as_f64(), free["cpu"].as_f64()), (Some(0.05), Some(2.0)));
    // By the kernel's account: the node wanted more than it got.
    assert!(limited["throttled"].as_u64() > Some(0), "{report:#}");
    assert_eq!(free["throttled"], 0, "{report:#}");
    let used = report["cpu"]["s1"].as_f64().unwrap();
    assert!(used < 0.08, "{used} processors of 0.05");
    desk.down("quota");
    assert!(!group.exists(), "{} is left", group.display());
}

#[test]
fn control_groups_go_with_a_lab_that_is_killed() {
    let Some(desk) = Desk::root("quotas") else { return };
    // Its supervisor is killed: what is left, `lab down` removes.
    let file = desk.file("stale", &flooded("stale", "1h"));
    desk.plexus(&["lab", "up", &file]).expect(0);
    let group_of_stale = group(&desk, "stale");
    kill(desk.supervisor("stale"), Signal::KILL);
    assert!(until(|| desk.processes().is_empty()), "{:?}", desk.processes());
    assert!(group_of_stale.exists());
    desk.down("stale");
    assert!(!group_of_stale.exists(), "{} is left", group_of_stale.display());
    // Its launcher is killed: the supervisor removes all by itself.
    let mut run = desk.command(&["lab", "run", &file]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ready = || desk.plexus(&["lab", "status", "stale"]).code == Some(0);
    assert!(until(ready), "the lab did not come up");
    let group = group(&desk, "stale");
    kill(run.id() as i32, Signal::KILL);
    run.wait().unwrap();
    assert!(until(|| !group.exists()), "{} is left", group.display());
    desk.assert_nothing_left();
}
