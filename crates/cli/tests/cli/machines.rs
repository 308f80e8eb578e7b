//! A lab on two machines, which are namespaces with a cable between them, by the commands of
//! labs/README.md.

use std::fs;

use plexus_io::namespace::Namespaces;

use crate::common::{self, Desk, Said, cable, ip, until};
use crate::guide::page::root;
use crate::guide::reader::shell_in;
use crate::guide::typed;

/// A machine, and where its labs are.
struct Machine {
    place: Namespaces,
    desk: Desk,
}

impl Machine {
    fn plexus(&self, words: &[&str]) -> Said {
        let mut command = self.desk.command(words);
        self.place.apply(&mut command).unwrap();
        Said::of(&mut command)
    }

    /// A line as its shell runs it, in a folder that both machines have.
    fn shell(&self, folder: &str, line: &str) -> Said {
        let mut command = shell_in(&self.place, &format!("cd {folder}; {line}"));
        Said::of(command.env("PLEXUS_RUN_DIR", &self.desk.dir))
    }
}

#[test]
fn hosts_on_two_machines_are_in_one_network() {
    let Some(desk) = Desk::root("machines") else { return };
    let Some(places) = common::namespaces::<2>("two machines", || Ok(())) else { return };
    cable((&places[0], "eth0"), (&places[1], "eth0"), 1500);
    let [left, right] = places.map(|place| {
        ip(&place, "link set dev lo up");
        Machine { place, desk: Desk::new("machine") }
    });
    ip(&left.place, "address add 192.0.2.1/24 dev eth0");
    ip(&right.place, "address add 192.0.2.2/24 dev eth0");
    let (file, folder) = (common::shipped("two-machines"), desk.dir.display().to_string());
    std::os::unix::fs::symlink(root().join("labs"), desk.dir.join("labs")).unwrap();
    let typed = typed("labs/README.md").into_iter().filter(|step| !step.at.is_empty());
    for step in typed {
        let machine = if step.at == "left" { &left } else { &right };
        step.run(|| machine.shell(&folder, &step.command));
    }
    let secret = format!("{folder}/lab.secret");
    let up = |machine: &Machine, name: &str| {
        machine.plexus(&["lab", "up", &file, "--machine", name, "--secret", &secret])
    };

    // Whole packets of the usual length cross the tunnels.
    let exec = |machine: &Machine, host: &str, words: &[&str]| {
        machine.plexus(&[&["lab", "exec", "two-machines", host, "--"], words].concat())
    };
    let ping = |machine: &Machine, from: &str, to: &str| {
        let words = ["ping", "-c", "3", "-i", "0.1", "-W", "1", "-s", "1472", "-M", "do", to];
        exec(machine, from, &words).code == Some(0)
    };
    assert!(until(|| ping(&left, "h1", "10.0.0.3")));
    assert!(until(|| ping(&right, "h2", "10.0.0.1")));
    let topology = ["show", "topology", "--node", "two-machines/c1", "--json"];
    // A tunnel has a carrier before its other end is there, so its port is a host's at first.
    let links = || left.plexus(&topology).json()["links"].as_array().unwrap().len();
    assert!(until(|| links() == 3), "{} links", links());
    // An answer about a device names the machine that has it.
    let said = exec(&left, "h3", &["true"]).expect(2);
    assert!(said.err.contains("h3 is on machine right"), "{said:?}");
    let said = left.plexus(&["lab", "run", &file]).expect(2);
    assert!(said.err.contains("on several machines"), "{said:?}");
    // A machine with another secret is of another group.
    right.plexus(&["lab", "down", "two-machines"]).expect(0);
    fs::write(&secret, "a5".repeat(32)).unwrap();
    let said = up(&right, "middle").expect(2);
    assert!(said.err.contains("no machine middle; it has left, right"), "{said:?}");
    up(&right, "right").expect(0);
    let links = ["show", "links", "--node", "two-machines/n2"];
    assert!(until(|| right.plexus(&links).out.contains("of another group")));
    assert!(!ping(&right, "h2", "10.0.0.1"));
    left.desk.down("two-machines");
    right.desk.down("two-machines");
}
