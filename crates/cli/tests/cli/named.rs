//! A box that forwards named data, as people use it: the lab that ships, what `show` says, a cache
//! on a disk that outlives its node, a face that is made again, a changed file, Ethernets,
//! regions, hostile input.

mod commands;
mod descriptors;
mod disks;
mod groups;
mod hostile;
mod key_files;
mod keys;
mod workers;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{self, Desk, Running, Signal, ask, until};
use commands::Client;
use plexus_io::namespace::Namespaces;
use plexus_wire::ndn::nfd::ControlParameters;
use plexus_wire::ndn::tlv::Writer;
use plexus_wire::ndn::{Data, NameBuf, Names, interest};
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::{Value, json};

impl Desk {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn uri(&self, node: &str) -> String {
        format!("unix://{}", self.path(&format!("{node}.nfd")).display())
    }

    /// Starts a node that listens at a Unix socket, and nowhere else unless it is told to.
    fn node(&self, name: &str, more: &str) -> Node {
        self.node_within(name, more, None)
    }

    /// The same, with mounts of its own, which a shell's command makes.
    fn node_within(&self, name: &str, more: &str, mount: Option<&str>) -> Node {
        self.node_by(name, more, if mount.is_some() { &["unshare", "--mount"] } else { &[] }, mount)
    }

    /// The same, by a program that starts others, and after a shell's command.
    fn node_by(&self, name: &str, more: &str, by: &[&str], first: Option<&str>) -> Node {
        let file = self.write(name, more);
        let script = format!("{} && exec \"$@\"", first.unwrap_or("true"));
        let words = [by, &["sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_plexus")]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(["node", "run", "--config"]).arg(&file).stdin(Stdio::null());
        self.started(name, command)
    }

    /// The same, in a network of its own.
    fn node_in(&self, place: &Namespaces, name: &str, more: &str) -> Node {
        let file = self.write(name, more);
        let config = file.to_str().unwrap();
        let mut command = common::plexus_in(place, &["node", "run", "--config", config]);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        self.started(name, command)
    }

    fn started(&self, name: &str, mut command: Command) -> Node {
        let process = Running(command.spawn().unwrap());
        let node = Node { name: name.into(), process, control: self.control(name) };
        assert!(until(|| node.show("faces").is_some()), "{name} does not answer");
        node
    }

    fn control(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.sock"))
    }

    fn write(&self, name: &str, more: &str) -> PathBuf {
        let file = self.path(&format!("{name}.toml"));
        let (control, unix) = (self.control(name), self.path(&format!("{name}.nfd")));
        let mut text = format!(
            "name = \"{name}\"\ncontrol = \"{}\"\n[named]\nunix = [\"{}\"]\n",
            control.display(),
            unix.display()
        );
        for way in ["tcp", "udp", "websocket"] {
            if !more.contains(&format!("{way} = [")) {
                text += &format!("{way} = []\n");
            }
        }
        // Small files do no harm, however full the machine's disk is.
        if !more.contains("disk_free_percent") {
            text += "disk_free_percent = 0\n";
        }
        text += more;
        fs::write(&file, text).unwrap();
        file
    }

    /// A file of so many bytes, and these.
    fn object(&self, len: usize) -> (PathBuf, Vec<u8>) {
        let (file, content) = (self.path("object"), bytes(len));
        fs::write(&file, &content).unwrap();
        (file, content)
    }

    /// Publishes a file until the value is dropped. The node has the route to it.
    #[track_caller]
    fn serve(&self, node: &Node, prefix: &str, file: &Path) -> Running {
        let (file, uri) = (file.display().to_string(), self.uri(&node.name));
        let producer = self.program(&["ndn", "serve", prefix, &file, "--transport", &uri]);
        assert!(until(|| node.has_route(prefix)), "{prefix}");
        producer
    }

    /// `plexus` with these arguments, until the value is dropped.
    fn program(&self, arguments: &[&str]) -> Running {
        let mut command = common::plexus(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        Running(command.spawn().unwrap())
    }

    /// What is fetched, if it is.
    fn fetch(&self, node: &str, name: &str) -> Option<Vec<u8>> {
        self.fetch_by(&self.uri(node), name)
    }

    fn fetch_by(&self, uri: &str, name: &str) -> Option<Vec<u8>> {
        let to = self.path("fetched");
        let _ = fs::remove_file(&to);
        let to_text = to.display().to_string();
        let said = self.plexus(&["ndn", "fetch", name, "-o", &to_text, "--transport", uri]);
        (said.code == Some(0)).then(|| fs::read(&to).unwrap())
    }
}

struct Node {
    name: String,
    process: Running,
    control: PathBuf,
}

impl Node {
    /// Ends it as systemd does.
    fn stop(mut self) {
        common::signal(&self.process.0, Signal::TERM);
        assert!(self.process.0.wait().unwrap().success());
    }

    fn show(&self, what: &str) -> Option<Value> {
        ask(&self.control, &json!({"show": what}))
    }

    /// What it answers when it reads its file again.
    fn reload(&self) -> Value {
        ask(&self.control, &json!({"reload": true})).unwrap()
    }

    /// What `show cache` says of its first disk.
    fn disk(&self) -> Value {
        self.show("cache").unwrap()["disks"][0].clone()
    }

    fn has_route(&self, prefix: &str) -> bool {
        let names = self.show("names").unwrap();
        names["routes"].as_array().unwrap().iter().any(|route| route["prefix"] == prefix)
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn the_lab_serves_a_web_site_by_name_through_two_caches() {
    common::turn();
    let Some(desk) = Desk::root("named-lab") else { return };
    let run = desk.json(&["lab", "run", &common::shipped("named-data")], 0);
    assert_eq!(run["passed"], true, "{run}");
}

#[test]
fn what_a_disk_holds_is_served_after_a_restart_and_after_a_kill() {
    let desk = Desk::new("named-disk");
    let disk = desk.path("cache");
    // Memory for a tenth of the object: the rest is on the disk, once it was asked for twice.
    let more = format!(
        "cache = \"1MiB\"\n[[named.disk]]\nfile = \"{}\"\nsize = \"64MiB\"\n",
        disk.display()
    );
    let node = desk.node("n", &more);
    let (file, content) = desk.object(8_000_000);
    let producer = desk.serve(&node, "/object", &file);
    for _ in 0..3 {
        assert!(desk.fetch("n", "/object").unwrap() == content);
    }
    drop(producer);
    assert!(until(|| !node.has_route("/object")));
    let hits = |node: &Node| node.show("cache").unwrap()["disks"][0]["hits"].as_u64().unwrap();
    let recovered = |node: &Node| {
        let cache = node.show("cache").unwrap();
        assert_eq!(cache["disks"][0]["mismatches"], 0, "{cache}");
        cache["disks"][0]["recovered"].as_u64().unwrap()
    };
    let cache = node.show("cache").unwrap();
    assert!(cache["disks"][0]["writes"].as_u64().unwrap() > 0);
    assert_eq!(cache["memory"]["capacity_bytes"], 1 << 20, "{cache}");
    let used = cache["memory"]["used_bytes"].as_u64().unwrap();
    assert!((500_000..=1 << 20).contains(&used), "{cache}");
    // Whatever a killed node has left behind is right, or is not served.
    drop(node);
    let node = desk.node("n", &more);
    assert!(until(|| recovered(&node) > 0), "{}", node.show("cache").unwrap());
    node.stop();
    let node = desk.node("n", &more);
    assert!(until(|| recovered(&node) > 100), "{}", node.show("cache").unwrap());
    // The producer is back, but most of it is not asked for again.
    let _producer = desk.serve(&node, "/object", &file);
    assert!(desk.fetch("n", "/object").unwrap() == content);
    assert!(hits(&node) > 100, "{}", node.show("cache").unwrap());
}

#[test]
fn a_disk_that_was_another_workers_is_cleared_and_that_is_said() {
    let desk = Desk::new("named-displaced");
    let disks = |workers: usize| {
        let mut more = format!("workers = {workers}\ncache = \"2MiB\"\n");
        for name in ["a", "b"] {
            let file = desk.path(name);
            more += &format!("[[named.disk]]\nfile = \"{}\"\nsize = \"16MiB\"\n", file.display());
        }
        more
    };
    let cleared = |node: &Node| -> Vec<Value> {
        let is_good = |node: &Node| {
            let cache = node.show("cache").unwrap();
            cache["disks"].as_array().unwrap().iter().all(|disk| disk["health"] == "good")
        };
        assert!(until(|| is_good(node)), "{}", node.show("cache").unwrap());
        let cache = node.show("cache").unwrap();
        cache["disks"].as_array().unwrap().iter().map(|disk| disk["cleared"].clone()).collect()
    };
    for (workers, wanted) in [
        (2, [Value::Null, Value::Null]),
        (2, [Value::Null, Value::Null]),
        (
            1,
            [
                json!("it was for disk 0 of 1 of worker 0 of 2"),
                json!("it was for disk 0 of 1 of worker 1 of 2"),
            ],
        ),
        (1, [Value::Null, Value::Null]),
    ] {
        let node = desk.node("n", &disks(workers));
        assert_eq!(cleared(&node), wanted, "{workers} workers");
        node.stop();
    }
}

/// A node whose memory holds a tenth of an object, and whose disk of 16 MiB the rest, beside who
/// publishes that.
fn cached(desk: &Desk, disk: &Path, within: Option<&str>) -> (Node, Running, Vec<u8>) {
    let file = disk.display();
    let more = format!("cache = \"1MiB\"\n[[named.disk]]\nfile = \"{file}\"\nsize = \"16MiB\"\n");
    let node = desk.node_within("n", &more, within);
    let (file, content) = desk.object(8_000_000);
    let producer = desk.serve(&node, "/object", &file);
    (node, producer, content)
}

#[test]
fn a_disk_that_fills_up_is_read_only_and_all_is_still_served() {
    let Some(desk) = Desk::root("named-full") else { return };
    let small = desk.path("small");
    fs::create_dir(&small).unwrap();
    // A file system of its own, which goes with the node.
    let mount = format!("mount -t tmpfs -o size=18M small {}", small.display());
    let (node, _producer, content) = cached(&desk, &small.join("cache"), Some(&mount));
    assert!(until(|| node.disk()["health"] == "good"), "{}", node.disk());
    // Somebody takes the room: the file's own behind its superblock, and what was left.
    let root = PathBuf::from(format!("/proc/{}/root", node.process.0.id()));
    let inside = root.join(small.strip_prefix("/").unwrap());
    let cache = fs::File::options().write(true).open(inside.join("cache")).unwrap();
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&cache, how, 4096, (16 << 20) - 4096).unwrap();
    let mut other = fs::File::create(inside.join("other")).unwrap();
    let full = std::io::copy(&mut std::io::repeat(1), &mut other).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);

    for round in 0.. {
        assert!(desk.fetch("n", "/object").unwrap() == content);
        if node.disk()["health"] == "read-only" {
            break;
        }
        assert!(round < 10, "{}", node.disk());
    }
    assert!(node.disk()["write_errors"].as_u64().unwrap() >= 8, "{}", node.disk());
    assert!(desk.fetch("n", "/object").unwrap() == content);
    let control = node.control.display().to_string();
    let shown = desk.plexus(&["show", "cache", "--control", &control]).expect(0);
    assert!(shown.out.contains("read-only"), "{}", shown.out);
}

#[test]
fn a_disk_that_is_cut_short_is_given_up_and_all_is_still_served() {
    let desk = Desk::new("named-short");
    let disk = desk.path("cache");
    let (node, _producer, content) = cached(&desk, &disk, None);
    while node.disk()["packets"].as_u64().unwrap() < 500 {
        assert!(desk.fetch("n", "/object").unwrap() == content);
    }
    // Writes under way make the file longer again.
    let is_given_up = until(|| {
        fs::File::options().write(true).open(&disk).unwrap().set_len(4096).unwrap();
        assert!(desk.fetch("n", "/object").unwrap() == content);
        node.disk()["health"] == "discarded"
    });
    assert!(is_given_up, "{}", node.disk());
    assert!(node.disk()["read_errors"].as_u64().unwrap() >= 8, "{}", node.disk());
    let hits = node.disk()["hits"].as_u64().unwrap();
    assert!(desk.fetch("n", "/object").unwrap() == content);
    assert_eq!(node.disk()["hits"], hits, "it is not asked any more");
}

#[test]
fn a_permanent_face_and_its_routes_come_back_with_the_neighbour() {
    let desk = Desk::new("named-face");
    let more = format!(
        "[[named.face]]\nname = \"up\"\nremote = \"{}\"\n[[named.route]]\nprefix = \"/far\"\n\
         face = \"up\"\n",
        desk.uri("far")
    );
    // The neighbour is not there yet.
    let near = desk.node("near", &more);
    let (file, content) = desk.object(100_000);
    for _ in 0..2 {
        let far = desk.node("far", "");
        let _producer = desk.serve(&far, "/far", &file);
        assert!(until(|| near.has_route("/far")), "{}", near.show("faces").unwrap());
        assert!(until(|| desk.fetch("near", "/far").is_some_and(|found| found == content)));
        drop(far);
    }
}

#[test]
fn routes_and_strategies_of_a_changed_file_are_taken_and_other_changes_refused() {
    let desk = Desk::new("named-reload");
    let _far = desk.node("far", "");
    let face = format!("[[named.face]]\nname = \"up\"\nremote = \"{}\"\n", desk.uri("far"));
    let route = |prefix: &str| {
        format!(
            "{face}[[named.route]]\nprefix = \"{prefix}\"\nface = \"up\"\n[[named.strategy]]\n\
             prefix = \"{prefix}\"\nstrategy = \"multicast\"\n"
        )
    };
    let node = desk.node("n", &route("/one"));
    assert!(until(|| node.has_route("/one")));
    desk.write("n", &route("/two"));
    assert_eq!(node.reload()["done"], true);
    assert!(until(|| node.has_route("/two") && !node.has_route("/one")));
    let names = node.show("names").unwrap();
    let strategy = |prefix: &str| {
        let all = names["strategies"].as_array().unwrap();
        all.iter().find(|s| s["prefix"] == prefix).map(|s| s["strategy"].to_string())
    };
    assert!(strategy("/two").is_some_and(|s| s.contains("multicast")), "{names}");
    assert_eq!(strategy("/one"), None);
    desk.write("n", &format!("cache = \"2MiB\"\n{}", route("/two")));
    let refused = node.reload();
    assert!(refused["error"].to_string().contains("only with a restart"), "{refused}");
}

/// Sends an Interest as an application, and gives the Data that answers it, if one does.
fn ask_with_hint(socket: &Path, name: &str, hint: &str) -> Option<Vec<u8>> {
    let (name, hint): (NameBuf, NameBuf) = (name.parse().unwrap(), hint.parse().unwrap());
    let mut names = vec![0; hint.as_name().encoded_len()];
    hint.as_name().write(&mut Writer::new(&mut names));
    let repr = interest::Repr {
        can_be_prefix: true,
        forwarding_hint: Names::new_checked(&names).unwrap(),
        nonce: Some([7; 4]),
        lifetime_ms: Some(2000),
        ..interest::Repr::new(name.as_name())
    };
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(&repr.to_bytes().unwrap()).unwrap();
    let mut answer = vec![0; 9000];
    let n = stream.read(&mut answer).unwrap_or(0);
    answer.truncate(n);
    // A Nack is a link packet.
    Data::new_checked(&answer).is_ok().then_some(answer)
}

#[test]
fn an_interest_for_a_region_goes_there_and_on_by_its_own_name() {
    let desk = Desk::new("named-region");
    // Nothing is cached, so that the producer answers each time.
    let region = "cache = \"0MiB\"\nregions = [\"/region\"]\n";
    let far = desk.node("far", region);
    let near = desk.node(
        "near",
        &format!(
            "[[named.face]]\nname = \"far\"\nremote = \"{}\"\n[[named.route]]\n\
             prefix = \"/region\"\nface = \"far\"\n",
            desk.uri("far")
        ),
    );
    let (file, _) = desk.object(1000);
    let _producer = desk.serve(&far, "/object", &file);
    assert!(until(|| near.has_route("/region")));
    let socket = desk.path("near.nfd");
    let far_socket = desk.path("far.nfd");
    assert!(ask_with_hint(&socket, "/object", "/elsewhere").is_none(), "by the hint alone");
    assert!(ask_with_hint(&socket, "/object", "/region").is_some());
    // Where the file says nothing of regions, the hint leads nowhere.
    desk.write("far", "cache = \"0MiB\"\n");
    assert_eq!(far.reload()["done"], true);
    assert!(until(|| ask_with_hint(&far_socket, "/object", "/region").is_none()));
    desk.write("far", region);
    assert_eq!(far.reload()["done"], true);
    assert!(until(|| ask_with_hint(&far_socket, "/object", "/region").is_some()));
}

/// Two nodes, each in a network of its own, which one Ethernet of 1,500 bytes joins. The first goes
/// by `backend`, or without one by a port of its data plane; its file names a station or the group
/// for the prefix.
fn on_an_ethernet(desk: &Desk, places: &[Namespaces; 2], backend: Option<&str>) {
    let [near, far] = places;
    let ethernet = "[[named.ethernet]]\nname = \"lan\"\ndevice = \"e0\"\n";
    let carrier = match backend {
        Some(backend) => format!("backend = \"{backend}\"\n"),
        None => "[[port]]\nname = \"e0\"\n".to_string(),
    };
    let near_node = desk.node_in(
        near,
        "near",
        &format!(
            "{ethernet}{carrier}[[named.face]]\nname = \"far\"\n\
             remote = \"ether://[02:00:00:00:00:02]\"\nlocal = \"dev://e0\"\n\
             [[named.route]]\nprefix = \"/alone\"\nface = \"far\"\n\
             [[named.route]]\nprefix = \"/all\"\nface = \"lan\"\n"
        ),
    );
    let far_node = desk.node_in(far, "far", ethernet);
    let (file, content) = desk.object(400_000);
    for (prefix, link) in [("/alone", "point-to-point"), ("/all", "multi-access")] {
        let _producer = desk.serve(&far_node, prefix, &file);
        assert!(until(|| near_node.has_route(prefix)));
        assert!(desk.fetch("near", prefix).is_some_and(|got| got == content), "{prefix}");
        // Segments are longer than frames.
        let faces = near_node.show("faces").unwrap();
        let is_it = |f: &&Value| f["local"] == "dev://e0" && f["link"] == link;
        let face = faces["faces"].as_array().unwrap().iter().find(is_it).unwrap();
        assert_eq!(face["mtu"], 1500, "{face}");
        assert!(face["received"]["data"].as_u64().unwrap() >= 50, "{face}");
        assert!(face["received_bytes"].as_u64().unwrap() > 400_000, "{face}");
    }
    if backend.is_none() {
        // Every frame went through the data plane, and stands in its account.
        let account = near_node.show("drops").unwrap()["account"].take();
        assert!(account["consumed"].as_u64().unwrap() > 500, "{account}");
        assert!(account["injected"].as_u64().unwrap() > 100, "{account}");
        assert_eq!(account["balances"], true, "{account}");
    }
    faces_are_created(&desk.path("near.nfd"));
    // The device's frames become shorter, and with them link packets.
    common::ip(near, "link set dev e0 mtu 1300");
    let mtus = || -> Vec<Value> {
        let faces = near_node.show("faces").unwrap();
        let list = faces["faces"].as_array().unwrap().iter();
        list.filter(|f| f["local"] == "dev://e0").map(|f| f["mtu"].clone()).collect()
    };
    assert!(until(|| mtus() == [1300, 1300, 1300]), "{:?}", mtus());
    common::ip(near, "link set dev e0 mtu 1500");
    // It is given another address, and goes by that.
    common::ip(near, "link set dev e0 address 02:00:00:00:00:05");
    let mut app = UnixStream::connect(desk.path("near.nfd")).unwrap();
    let mut asked = 0;
    let heard = || far_node.show("faces").unwrap().to_string().contains("[02:00:00:00:00:05]");
    let is_heard = until(|| {
        asked += 1;
        let name: NameBuf = format!("/alone/asked/{asked}").parse().unwrap();
        let repr = interest::Repr { nonce: Some([1; 4]), ..interest::Repr::new(name.as_name()) };
        app.write_all(&repr.to_bytes().unwrap()).unwrap();
        heard()
    });
    assert!(is_heard, "by its new address");
    common::ip(near, "link set dev e0 address 02:00:00:00:00:01");
}

/// As NFD does it: by device, with its codes (`EthernetFactory::doCreateFace`).
fn faces_are_created(socket: &Path) {
    let mut client = Client::new(socket);
    let mut code = |uri: &str, local_uri: Option<&str>| {
        let (uri, local_uri) = (Some(uri.into()), local_uri.map(Into::into));
        let asked = ControlParameters { uri, local_uri, ..ControlParameters::default() };
        client.command("faces/create", &asked).code
    };
    let station = "ether://[02:00:00:00:00:07]";
    assert_eq!(code(station, None), 406);
    assert_eq!(code(station, Some("dev://e9")), 504);
    assert_eq!(code("ether://[01:00:5e:00:17:aa]", Some("dev://e0")), 406);
    assert_eq!(code(station, Some("dev://e0")), 200);
    assert_eq!(code(station, Some("dev://e0")), 409);
}

#[test]
fn neighbours_on_an_ethernet_fetch_of_a_station_and_of_the_group() {
    let Some(places) = common::namespaces("an Ethernet", common::quiet) else { return };
    common::cable((&places[0], "e0"), (&places[1], "e0"), 1500);
    for (i, place) in places.iter().enumerate() {
        common::ip(place, &format!("link set dev e0 address 02:00:00:00:00:0{}", i + 1));
    }
    for backend in [Some("af_packet"), Some("af_xdp"), None] {
        on_an_ethernet(&Desk::new("named-ethernet"), &places, backend);
    }
}

#[test]
fn a_tap_device_carries_named_data_between_a_node_and_the_kernels_side() {
    let Some([place]) = common::namespaces("a TAP device", common::quiet) else { return };
    let desk = Desk::new("named-tap");
    let ethernet = "[[named.ethernet]]\nname = \"lan\"\ndevice = \"t0\"\n";
    let route = "[[named.route]]\nprefix = \"/all\"\nface = \"lan\"\n";
    let _near = desk.node_in(&place, "near", &format!("{ethernet}backend = \"tap\"\n{route}"));
    let far = desk.node_in(&place, "far", ethernet);
    let (file, content) = desk.object(100_000);
    let _producer = desk.serve(&far, "/all", &file);
    assert!(desk.fetch("near", "/all").is_some_and(|got| got == content));
}
