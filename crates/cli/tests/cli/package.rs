//! The Debian package and the image, made of the program under test: installed, upgraded under
//! traffic and purged in a clean Debian 12 that runs systemd, and run as a container.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::{Running, Said, directory, is_root, until};
use crate::guide::page::Step;
use crate::guide::typed;

mod debian;
mod image;

use debian::Debian;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The package's version, and that of an upgrade.
const FIRST: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
const NEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "-2");

/// A directory that ends with the test.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

/// A command that ends with the test.
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The package of the program under test, which is made once; `None`, said aloud, where cargo-deb
/// is missing.
fn packed(place: &Place) -> Option<PathBuf> {
    let mut package = package();
    if package.is_none() {
        let deb = pack(&package, place)?;
        let name = deb.file_name().unwrap().to_os_string();
        *package = Some((name, fs::read(&deb).unwrap()));
    }
    let (name, bytes) = package.as_ref()?;
    let deb = place.0.join(name);
    fs::write(&deb, bytes).unwrap();
    Some(deb)
}

/// A package's name and bytes.
type Package = Option<(OsString, Vec<u8>)>;

/// The one that has been made. One is made at a time: they share the folder of the manual.
fn package() -> MutexGuard<'static, Package> {
    static PACKAGE: Mutex<Package> = Mutex::new(None);
    PACKAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a package.
fn pack(_alone: &MutexGuard<'_, Package>, place: &Place) -> Option<PathBuf> {
    if !script("../target/cargo-deb/bin/cargo-deb").exists() {
        eprintln!("SKIPPED: cargo-deb is not installed (scripts/setup package)");
        return None;
    }
    let directory = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().unwrap();
    let profile = directory.file_name().unwrap().to_str().unwrap().replace("debug", "dev");
    let mut command = Command::new(script("package"));
    command.args(["--no-build", &profile, "--out"]).arg(&place.0).args(["--", "--deb-version"]);
    command.arg(FIRST).env("CARGO_TARGET_DIR", directory.parent().unwrap());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = Said::of(&mut command).expect(0);
    Some(PathBuf::from(said.out.trim()))
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let (first, second) = (Place(directory("pack")), Place(directory("pack")));
    let Some(one) = packed(&first) else { return };
    let two = pack(&package(), &second).unwrap();
    assert_eq!(one.file_name(), two.file_name());
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{one:?} and {two:?} differ");
}

#[test]
fn a_clean_debian_installs_and_purges_the_package() {
    if !is_root("packages") {
        return;
    }
    let place = Place(directory("install"));
    let Some(deb) = packed(&place) else { return };
    let Some(debian) = Debian::boot("debian", &place.0) else { return };
    let before = debian.run(EVERYTHING);

    // By the commands of the page, those of the image apart.
    let steps = typed("docs/install.md").into_iter().filter(|step| !image::is_typed_there(step));
    let steps: Vec<Step> = steps.collect();
    let type_in = |step: &Step| {
        let line = format!("sudo() {{ \"$@\"; }}; cd /packages; {}", step.command);
        step.run(|| debian.try_run(&line));
    };
    assert!(steps[0].command.ends_with(deb.file_name().unwrap().to_str().unwrap()), "{steps:?}");
    type_in(&steps[0]);
    assert_eq!(debian.run("plexus --version"), format!("plexus {VERSION}\n"));
    assert_eq!(debian.run("dpkg --verify plexus"), "");
    assert_eq!(debian.run("id --name --user plexus && stat -c %U /etc/plexus"), "plexus\nroot\n");
    let page = debian.run("MANWIDTH=80 man plexus-show");
    assert!(page.contains("plexus show [--node]"), "{page}");
    assert_eq!(debian.run("man --whatis plexus | head -n 1 | cut -d ' ' -f 1"), "plexus\n");

    // Each shell finds the completions by itself.
    debian.run("source /etc/bash_completion; _completion_loader plexus; complete -p plexus");
    let zsh = "zsh -c 'autoload -U compinit; compinit -u -d /tmp/dump; echo $_comps[plexus]'";
    assert_eq!(debian.run(zsh), "_plexus\n");
    let fish = debian.run("fish -c 'complete --do-complete \"plexus sh\"'");
    assert!(fish.starts_with("show\t"), "{fish}");

    // Nothing runs and nothing is enabled; the units are good, also to systemd's own check.
    assert_eq!(debian.run("systemctl list-units --all --plain --no-legend 'plexus-*'"), "");
    assert_eq!(debian.run("find /etc/systemd -name '*plexus*'"), "");
    let verify = "systemd-analyze verify plexus-node@sw1.service plexus-controller@c1.service 2>&1";
    assert_eq!(debian.run(verify), "");
    // The files of labs that it ships are read where they lie.
    debian.run("plexus config check /usr/share/doc/plexus/examples/*.toml");
    // The licence of a library is named, and its text is there.
    debian.run("grep -q '^hyper .*: MIT$' /usr/share/doc/plexus/third-party.txt");
    debian.run("grep -q '2014-202. Sean McArthur' /usr/share/doc/plexus/third-party.txt");
    debian.run("plexus config check /usr/share/plexus/labs/demo*.toml");

    // An operator runs a node, then removes everything.
    debian.run(
        "for i in 1 2 3 4; do ip link add eth$i type veth peer name far$i; \
         ip link set eth$i up; ip link set far$i up; done; touch /etc/plexus/n1.identity",
    );
    steps[1..].iter().for_each(type_in);
    debian.run("rm /etc/plexus/n1.identity");
    debian.run("mkdir -p /var/lib/plexus && touch /var/lib/plexus/c1.redb");
    debian.run("dpkg --remove plexus");
    assert_eq!(
        debian.run("systemctl list-units --plain --no-legend --state=active 'plexus-*'"),
        ""
    );
    assert!(debian.run(EVERYTHING).contains("/var/lib/plexus/c1.redb\n"));
    debian.run("dpkg --purge plexus");
    let after = debian.run(EVERYTHING);
    let [before, after] = [&before, &after].map(|list| list.lines().collect::<BTreeSet<_>>());
    let left: Vec<&&str> = after.difference(&before).collect();
    assert_eq!(left, [&"/etc/plexus", &"/etc/plexus/sw1.toml"], "what people wrote stays");
}

/// Lists what bears the program's name, but for what runs, and pages that man(1) has formatted.
const EVERYTHING: &str = "find / -xdev -path /proc -prune -o -path /packages -prune -o -path /run \
                          -prune -o -path /var/cache/man -prune -o -path '*plexus*' -print | sort";

/// Two hosts at a switch.
const HOSTS: &str = "for i in 1 2; do
  ip netns add h$i
  ip link add p$i type veth peer name eth0 netns h$i
  ip link set p$i up
  ip netns exec h$i ip addr add 10.0.0.$i/24 dev eth0
  ip netns exec h$i ip link set eth0 up
  echo -e \"name = \\\"sw$i\\\"\\n\" >/etc/plexus/sw$i.toml
done
echo -e '[[port]]\\nname = \"p1\"\\n[[port]]\\nname = \"p2\"' >>/etc/plexus/sw1.toml
ip link add q1 type veth peer name q2
ip link set q1 up
echo -e '[[port]]\\nname = \"q1\"' >>/etc/plexus/sw2.toml
systemctl start plexus-node@sw1 plexus-node@sw2";

#[test]
fn an_upgrade_under_traffic_restarts_a_daemon_once() {
    if !is_root("packages") {
        return;
    }
    let place = Place(directory("upgrade"));
    let Some(old) = packed(&place) else { return };
    let Some(debian) = Debian::boot("debian", &place.0) else { return };
    let new = next(&place, &old);
    let install = |deb: &Path| {
        debian.try_run(&format!("dpkg -i /packages/{}", deb.file_name().unwrap().to_str().unwrap()))
    };
    install(&old).expect(0);
    debian.run(HOSTS);
    let answers = || debian.try_run("ip netns exec h1 ping -c 1 -W 1 10.0.0.2").code == Some(0);
    assert!(until(answers), "the switch carries nothing");
    let pid = |node: &str| debian.property(&format!("plexus-node@{node}"), "MainPID");
    let (first, other) = (pid("sw1"), pid("sw2"));
    // Root makes the daemon's user do with what the unit grants.
    assert_eq!(debian.run(&format!("stat -c %U /proc/{first}")), "plexus\n");

    // A new version may refuse a file that the old one took.
    debian.run("echo 'no_such_key = 1' >>/etc/plexus/sw2.toml");
    let ping =
        "ip netns exec h1 ping -i 0.002 -w 600 10.0.0.2 >/tmp/ping & echo $! >/tmp/pid; wait";
    let mut ping = Running(debian.command(ping).spawn().unwrap());
    let replies = |debian: &Debian| debian.run("grep -c icmp_seq /tmp/ping || true");
    let more = |than: u64| until(|| replies(&debian).trim().parse().is_ok_and(|n: u64| n > than));
    assert!(more(500));
    let said = install(&new).expect(0);
    assert_eq!(debian.run("dpkg-query -Wf '${Version}' plexus"), NEXT);
    let now = replies(&debian).trim().parse::<u64>().unwrap();
    assert!(more(now + 500), "nothing arrives after the upgrade");
    debian.run("kill -INT $(cat /tmp/pid)");
    assert!(until(|| ping.has_ended()));

    // One restart of one daemon, and one gap.
    assert_ne!(pid("sw1"), first);
    assert_eq!(debian.property("plexus-node@sw1", "NRestarts"), "0");
    let starts = "journalctl --no-pager -o cat -u plexus-node@sw1 | grep -c '^Started '";
    assert_eq!(debian.run(starts), "2\n");
    assert_eq!(pid("sw2"), other, "a daemon was ended whose file the new version refuses");
    let why = "plexus-node@sw2.service is not restarted";
    assert!(said.err.contains(why) && said.err.contains("no_such_key"), "{}", said.err);
    let gaps = gaps(&debian.run("cat /tmp/ping"));
    eprintln!("an upgrade under traffic: {gaps:?} of 500 packets/s lost");
    assert_eq!(gaps.len(), 1, "packets were lost apart from the restart: {gaps:?}");
}

/// The same package as the next version. Its files are not packed again, which would take longer
/// than all the rest.
fn next(place: &Place, package: &Path) -> PathBuf {
    let (files, next) = (place.0.join("next"), place.0.join("next.deb"));
    let dpkg = |words: &[&str], paths: [&Path; 2]| {
        Said::of(command("dpkg-deb", words).args(paths)).expect(0);
    };
    dpkg(&["--raw-extract"], [package, &files]);
    let control = files.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    let [old, new] = [FIRST, NEXT].map(|version| format!("\nVersion: {version}\n"));
    assert!(text.contains(&old), "{text}");
    fs::write(&control, text.replace(&old, &new)).unwrap();
    dpkg(&["-Znone", "--root-owner-group", "--build"], [&files, &next]);
    fs::remove_dir_all(&files).unwrap();
    next
}

/// How many packets lack an answer, for each run of such packets between two answers.
fn gaps(ping: &str) -> Vec<u64> {
    let number = |line: &str| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok();
    let mut answered: Vec<u64> = ping.lines().filter_map(number).collect();
    answered.sort_unstable();
    answered.windows(2).map(|two| two[1] - two[0]).filter(|d| *d > 1).map(|d| d - 1).collect()
}
