//! The image, unpacked as a container's root and run by its own configuration, and run by podman
//! where that is installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::debian::child_of;
use super::{Place, command, packed, script};
use crate::common::{Running, Said, Signal, directory, is_root, kill, until};
use crate::guide::page::Step;
use crate::guide::typed;

/// Messages that say that packages of Debian cannot be had here.
const NOT_HERE: [&str; 4] =
    ["command not found", "Failed to fetch", "Could not resolve", "Unable to connect"];

/// Its name on the page.
const ARCHIVE: &str = "plexus_0.1.0-1_amd64.oci.tar";

#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    Said::of(&mut command(program, arguments)).expect(0).out
}

/// The blob that a descriptor names, whose digest and size are right.
#[track_caller]
fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let bytes = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((digest, &descriptor["size"]), (&*format!("sha256:{hex}"), &bytes.len().into()));
    bytes
}

#[test]
fn a_container_of_the_image_waits_for_its_devices() {
    if !is_root("images") {
        return;
    }
    let place = Place(directory("image"));
    let Some(deb) = packed(&place) else { return };
    let path = |name: &str| place.0.join(name).display().to_string();
    let image = script("image").display().to_string();
    let mut make = command(&image, &[deb.to_str().unwrap(), &path(ARCHIVE)]);
    let said = Said::of(make.env("SOURCE_DATE_EPOCH", "1700000000"));
    if NOT_HERE.iter().any(|why| said.err.contains(why)) {
        eprintln!("SKIPPED: no packages of Debian: {}", said.err.lines().next().unwrap());
        return;
    }
    said.expect(0);

    // It is an OCI layout, with the list that older versions of docker read.
    let [layout, root] = ["layout", "root"].map(|name| place.0.join(name));
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    fs::create_dir(&layout).unwrap();
    fs::create_dir(&root).unwrap();
    run("tar", &["-xf", &path(ARCHIVE), "-C", &path("layout")]);
    let index = json(&fs::read(layout.join("index.json")).unwrap());
    let manifest = json(&blob(&layout, &index["manifests"][0]));
    let config = json(&blob(&layout, &manifest["config"]));
    let old = json(&fs::read(layout.join("manifest.json")).unwrap());
    assert_eq!(old[0]["RepoTags"][0], "plexus:0.1.0-1");
    let layers = manifest["layers"].as_array().unwrap();
    for (i, layer) in layers.iter().enumerate() {
        blob(&layout, layer);
        let file = old[0]["Layers"][i].as_str().unwrap();
        assert!(layer["digest"].as_str().unwrap().ends_with(file.rsplit('/').next().unwrap()));
        let unpacked = Said::of(Command::new("sh").arg("-c").stdout(Stdio::piped()).arg(format!(
            "gzip -dc {0}/{file} | tee {0}/layer.tar | sha256sum && tar -xf {0}/layer.tar -C {1}",
            layout.display(),
            root.display()
        )));
        let sum = unpacked.out.split(' ').next().unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][i], format!("sha256:{sum}"));
    }

    // It runs as it says, in a network without devices, as containerlab starts it.
    let words = |key: &str| {
        let words = config["config"][key].as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_string()).collect::<Vec<String>>()
    };
    let entry = [words("Entrypoint"), words("Cmd")].concat();
    let file = entry.last().unwrap().trim_start_matches('/');
    fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
    let node = "name = \"sw1\"\n[[port]]\nname = \"eth1\"\n";
    fs::write(root.join(file), node).unwrap();
    let root = root.to_str().unwrap();
    // A shell traps no signal that was ignored when it began, as nohup has it.
    let mut start = command("env", &["--default-signal=HUP", "unshare", "--pid", "--fork"]);
    start
        .args(["--kill-child", "--net", "--mount"])
        .args(["chroot", root])
        .args(&entry)
        .env_clear()
        .envs([("PATH", words("Env")[0].strip_prefix("PATH=").unwrap())]);
    let log = fs::File::create(path("log")).unwrap();
    start.stdout(log.try_clone().unwrap()).stderr(log);
    // `setpriv` is found by this test's path.
    let start = Running(start.spawn().unwrap());
    let logged = |text: &str| until(|| fs::read_to_string(path("log")).unwrap().contains(text));
    assert!(logged("eth1"), "{}", fs::read_to_string(path("log")).unwrap());
    let init = child_of(&start.0).unwrap();
    let within = |words: &str| {
        let net = format!("--net=/proc/{init}/ns/net");
        let words: Vec<&str> = words.split(' ').collect();
        Said::of(&mut command("nsenter", &[&[&*net, "chroot", root], &words[..]].concat()))
    };
    within("ip link add eth1 type veth peer name eth2").expect(0);
    for device in ["eth1", "eth2"] {
        within(&format!("ip link set {device} up")).expect(0);
    }
    let shows = |device: &str| {
        let said = within("plexus show ports --node sw1");
        said.code == Some(0) && said.out.contains(device)
    };
    assert!(until(|| shows("eth1")), "{}", fs::read_to_string(path("log")).unwrap());

    // Signals reach the daemon: one that reloads, and the one by which containers are stopped.
    fs::write(Path::new(root).join(file), format!("{node}[[port]]\nname = \"eth2\"\n")).unwrap();
    kill(init, Signal::HUP);
    assert!(until(|| shows("eth2")), "{}", fs::read_to_string(path("log")).unwrap());
    kill(init, Signal::TERM);
    let mut start = start;
    assert!(until(|| start.has_ended()), "{}", fs::read_to_string(path("log")).unwrap());
    assert!(logged("stopping"));
    runs_in_podman(&place, root);
}

/// Whether a command of docs/install.md is typed here.
pub(super) fn is_typed_there(step: &Step) -> bool {
    step.command.contains("docker ")
}

/// Settings of podman for a process that may not raise limits.
const LIMITS: &str = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
                      [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";

/// Types the page's commands for containers, with podman in docker's place. It has a network, a
/// store and a process 1 of its own, with which everything ends.
fn runs_in_podman(place: &Place, root: &str) {
    if Command::new("podman").arg("--version").output().is_err() {
        eprintln!("SKIPPED: podman is not installed");
        return;
    }
    let folder = place.0.display();
    fs::write(place.0.join("containers.conf"), LIMITS).unwrap();
    let node = "name = \"sw1\"\n[[port]]\nname = \"eth1\"\n[[port]]\nname = \"eth2\"\n";
    fs::write(place.0.join("sw1.toml"), node).unwrap();
    let ends = ["--pid", "--fork", "--kill-child", "--mount-proc", "--net"];
    // crun takes no mixture of both kinds of control groups.
    let first = "umount /sys/fs/cgroup/unified 2>/dev/null; echo up; exec sleep infinity";
    let mut machine = command("unshare", &[&ends[..], &["sh", "-c", first]].concat());
    let machine =
        Running(machine.stdout(fs::File::create(place.0.join("up")).unwrap()).spawn().unwrap());
    assert!(until(|| fs::read_to_string(place.0.join("up")).unwrap() == "up\n"));
    let init = child_of(&machine.0).unwrap().to_string();
    let podman = format!("podman --root {folder}/store --runroot {folder}/run");
    let shell = |line: &str| {
        let typed =
            format!("docker() {{ {podman} \"$@\"; }}; sudo() {{ \"$@\"; }}; cd {folder}; {line}");
        let enter = ["--target", &init, "--mount", "--net", "--pid", "bash", "-c", &typed];
        let mut command = command("nsenter", &enter);
        Said::of(command.env("CONTAINERS_CONF", place.0.join("containers.conf")))
    };
    // Whether it can run containers at all: one of the files that have just run without it.
    let said = shell(&format!("docker run --rm --network none --rootfs {root} plexus --version"));
    if said.code != Some(0) {
        eprintln!("SKIPPED: podman runs no containers here: {}", said.err);
        return;
    }
    for i in [1, 2] {
        shell(&format!("ip link add eth{i} type veth peer name far{i} && ip link set far{i} up"))
            .expect(0);
    }
    for step in typed("docs/install.md").iter().filter(|step| is_typed_there(step)) {
        step.run(|| shell(&step.command));
        if step.command.contains("HUP") {
            let log = || shell("docker logs sw1 2>&1").out;
            assert!(until(|| log().contains("configuration read again")), "{}", log());
        }
        if step.command == "docker stop sw1" {
            let code = shell("docker inspect --format '{{.State.ExitCode}}' sw1").expect(0).out;
            assert_eq!(code, "0\n", "it ends well: {}", shell("docker logs sw1 2>&1").out);
        }
    }
}
