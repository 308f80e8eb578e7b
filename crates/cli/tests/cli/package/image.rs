//! The image, unpacked as a container's root and run by its own configuration.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::debian::child_of;
use super::{Place, pack, script};
use crate::common::{Running, Said, Signal, directory, is_root, kill, until};
use crate::guide::page::Step;

/// Messages that say that packages of Debian cannot be had here.
const NOT_HERE: [&str; 4] =
    ["command not found", "Failed to fetch", "Could not resolve", "Unable to connect"];

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

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
    let Some(deb) = pack(&place, "1.0-1") else { return };
    let path = |name: &str| place.0.join(name).display().to_string();
    let image = script("image").display().to_string();
    let mut make = command(&image, &[deb.to_str().unwrap(), &path("image.tar")]);
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
    run("tar", &["-xf", &path("image.tar"), "-C", &path("layout")]);
    let index = json(&fs::read(layout.join("index.json")).unwrap());
    let manifest = json(&blob(&layout, &index["manifests"][0]));
    let config = json(&blob(&layout, &manifest["config"]));
    let old = json(&fs::read(layout.join("manifest.json")).unwrap());
    assert_eq!(old[0]["RepoTags"][0], "plexus:1.0-1");
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
    let mut start = command("unshare", &["--pid", "--fork", "--kill-child", "--net", "--mount"]);
    start
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
}

/// Whether a command of docs/install.md is one for containers.
pub(super) fn is_typed_there(step: &Step) -> bool {
    step.command.contains("docker ")
}
