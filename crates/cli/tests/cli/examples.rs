//! The files in `examples/`, started exactly as they ship. Each runs in namespaces of its own, with
//! the devices, addresses and identities that the file names, and with empty folders where daemons
//! write. Nothing here knows the examples' names: the files tell what they need.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Desk, Running, Said, Signal, ip, own_folders, plexus_in, signal, until};
use plexus_config::{Backend, CommonFile, ControllerFile, NodeFile};
use plexus_io::namespace::Namespaces;

/// What a file asks of the machine.
#[derive(Default)]
struct Needs {
    /// `plexus node` or `plexus controller`.
    daemon: &'static str,
    name: String,
    /// Devices that have to be there.
    devices: BTreeSet<String>,
    /// Addresses that the box has to have.
    addresses: BTreeSet<IpAddr>,
    /// The daemon's identity.
    identity: Option<PathBuf>,
    /// Files that an operator writes.
    files: Vec<PathBuf>,
    /// Files of disks, and their sizes.
    disks: Vec<(PathBuf, u64)>,
    /// What it can be asked.
    topics: Vec<&'static str>,
}

impl Needs {
    fn of_controller(file: ControllerFile) -> Needs {
        Needs {
            daemon: "controller",
            name: file.name,
            devices: [file.device].into(),
            identity: Some(file.identity),
            topics: vec!["topology", "hosts"],
            ..Needs::default()
        }
    }

    fn of_node(file: NodeFile) -> Needs {
        let mut needs = Needs { daemon: "node", name: file.name, ..Needs::default() };
        for port in file.ports {
            needs.topics = vec!["ports", "drops"];
            match (port.tunnel, port.backend) {
                (Some(tunnel), _) => _ = needs.addresses.insert(tunnel.local.ip()),
                (None, Some(Backend::Tap)) => {}
                (None, _) => _ = needs.devices.insert(port.device),
            }
        }
        needs.identity = file.fabric.map(|fabric| fabric.identity);
        needs.topics.extend(needs.identity.iter().map(|_| "links"));
        if let Some(router) = file.router {
            needs.files.extend(router.routes_file);
            needs.topics.push("neighbours");
        }
        if let Some(named) = file.named {
            needs.topics.extend(["faces", "names", "cache"]);
            needs.disks = named.disks.into_iter().map(|disk| (disk.file, disk.size)).collect();
            needs.devices.extend(named.multicast6);
            needs.devices.extend(named.ethernets.into_iter().map(|ethernet| ethernet.device));
            needs.addresses.extend(named.multicast.into_iter().map(IpAddr::V4));
        }
        needs
    }
}

/// The namespaces in which an example runs, with the devices and addresses that it names.
struct World(Namespaces);

impl World {
    fn new(needs: &Needs) -> World {
        let world = World(Namespaces::create(own_folders).unwrap());
        ip(&world.0, "link set dev lo up");
        let devices = needs.devices.iter().map(String::as_str);
        // An address of a box without a free device.
        let spare = needs.devices.is_empty() || needs.addresses.iter().any(IpAddr::is_ipv6);
        for (at, device) in devices.chain(spare.then_some("uplink")).enumerate() {
            ip(&world.0, &format!("link add {device} type veth peer name far{at}"));
            ip(&world.0, &format!("link set dev far{at} up"));
            ip(&world.0, &format!("link set dev {device} up"));
        }
        let on = if spare { Some("uplink") } else { needs.devices.first().map(String::as_str) };
        for (address, on) in needs.addresses.iter().zip(on.into_iter().cycle()) {
            let (len, how) = if address.is_ipv4() { (24, "") } else { (64, "nodad") };
            ip(&world.0, &format!("address add {address}/{len} dev {on} {how}"));
        }
        world
    }

    /// `plexus` with these arguments, which ends well.
    fn plexus(&self, arguments: &[&str]) -> Said {
        Said::of(&mut plexus_in(&self.0, arguments)).expect(0)
    }

    /// Has an authority issue what the file names, as its comments say.
    fn issue(&self, needs: &Needs) {
        let Some(identity) = needs.identity.as_ref().map(|path| path.display().to_string()) else {
            return;
        };
        let group = "/etc/plexus/group.key";
        self.plexus(&["identity", "group", "--out", group]);
        let whose = ["--role", needs.daemon, "--number", "1", "--name", &needs.name];
        let files = ["--group", group, "--out", &identity];
        self.plexus(&[&["identity", "issue"], &whose[..], &files].concat());
    }
}

/// How long the files in a folder are.
fn sizes(folder: &Path) -> io::Result<Vec<u64>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).collect()
}

/// Starts an example, asks it, and stops it.
fn starts(path: &Path, desk: &Desk) {
    let file = path.to_str().unwrap();
    let needs = match NodeFile::read(path) {
        Ok(file) => Needs::of_node(file),
        Err(of_node) => match ControllerFile::read(path) {
            Ok(file) => Needs::of_controller(file),
            Err(error) => panic!("{file}: neither {of_node} nor {error}"),
        },
    };
    let world = World::new(&needs);
    world.issue(&needs);
    for file in &needs.files {
        let made = world.0.run(|| fs::write(file, "# none yet\n"));
        made.unwrap().unwrap();
    }
    world.plexus(&["config", "check", file]);
    let log = desk.dir.join(format!("{}.log", path.file_stem().unwrap().display()));
    let mut command = plexus_in(&world.0, &[needs.daemon, "run", "--config", file]);
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut daemon = Running(command.spawn().unwrap());
    let log = || fs::read_to_string(&log).unwrap();
    until(|| log().contains(" running ") || daemon.has_ended());
    assert!(log().contains(" running ") && !daemon.has_ended(), "{file}: {}", log());
    for topic in &needs.topics {
        let said = world.plexus(&["show", topic, "--node", &needs.name, "--json"]).json();
        assert!(said.is_object() || said.is_array(), "{file}, {topic}: {said}");
    }
    // The files of disks have their whole size, divided among the workers.
    for (file, size) in &needs.disks {
        let made = world.0.run(|| sizes(file.parent().unwrap()).unwrap());
        assert_eq!(made.unwrap().iter().sum::<u64>(), *size, "{}", file.display());
    }
    signal(&daemon.0, Signal::TERM);
    assert!(daemon.0.wait().unwrap().success(), "{file}: {}", log());
    assert!(!log().contains("ERROR"), "{file}: {}", log());
}

#[test]
fn every_example_starts_as_it_ships_answers_and_stops() {
    let Some(desk) = Desk::root("examples") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(folder.canonicalize().unwrap()).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    // A common file is no daemon's.
    files.retain(|path| CommonFile::read(path).is_err());
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    files.iter().for_each(|path| starts(path, &desk));
}
