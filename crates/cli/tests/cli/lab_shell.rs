//! `plexus lab shell`, by `-c` and from standard input.

use std::io::Write;
use std::process::Stdio;

use crate::common::{Desk, Said, until};

const FILE: &str = "name = \"shell\"\n\
    [[node]]\nname = \"s1\"\n\
    [[host]]\nname = \"h1\"\naddress = [\"10.0.0.1/24\", \"fd00::1/64\"]\n\
    [[host]]\nname = \"h2\"\naddress = [\"10.0.0.2/24\", \"fd00::2/64\"]\n\
    [[host]]\nname = \"h3\"\naddress = \"10.0.0.3/24\"\n\
    [[link]]\nends = [\"h1\", \"s1.p1\"]\n\
    [[link]]\nends = [\"h2\", \"s1.p2\"]\n\
    [[link]]\nends = [\"h3\", \"s1.p3\"]\n";

fn shell(desk: &Desk, commands: &[&str]) -> Said {
    let mut words = vec!["lab", "shell", "shell"];
    commands.iter().for_each(|command| words.extend(["-c", command]));
    desk.plexus(&words)
}

#[test]
fn commands_of_the_shell_do_as_they_say() {
    let Some(desk) = Desk::root("the shell of a lab") else { return };
    let file = desk.file("shell", FILE);
    desk.plexus(&["lab", "up", &file]).expect(0);

    let said = shell(&desk, &["pingall", "nodes", "net"]).expect(0);
    let pings = "h1 -> h2 h3\nh2 -> h1 h3\nh3 -> h1 h2\n6 of 6 pings answered\n";
    assert!(said.out.starts_with(pings), "{said:?}");
    assert!(said.out.contains("\nh1 h2 h3 s1\n") && said.out.contains("h3.eth0 - s1.p3"));
    // The third host has no IPv6 address.
    let said = shell(&desk, &["pingall 6"]).expect(1);
    assert!(said.out.contains("h1 -> h2 X\n") && said.out.contains("2 of 6"), "{said:?}");
    let said = shell(&desk, &["link s1 h2 down", "pingall"]).expect(1);
    assert!(said.out.contains("h1 -> X h3\n") && said.out.contains("2 of 6"), "{said:?}");
    shell(&desk, &["link s1 h2 up"]).expect(0);
    assert!(until(|| shell(&desk, &["ping h1 h2"]).code == Some(0)));

    // Names of hosts stand for their addresses, and the command's exit code counts.
    let said = shell(&desk, &["h1 echo h2 and h22"]).expect(0);
    assert_eq!(said.out, "10.0.0.2 and h22\n");
    let said = shell(&desk, &["h1 false", "h1 echo not reached"]).expect(1);
    assert!(said.out.is_empty() && said.err.contains("exit code 1"), "{said:?}");
    for (command, why) in [
        ("nonsense", "no command or device"),
        ("ping h1 h9", "no host \"h9\""),
        ("link h1 h2 down", "no cable between"),
        ("link h1", "use it so: link A B down|up"),
    ] {
        let said = shell(&desk, &[command]).expect(2);
        assert!(said.err.contains(why), "{command}: {said:?}");
    }

    let mut piped = desk.command(&["lab", "shell", "shell"]);
    let mut piped = piped.stdin(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"ping h1 h3\n\nexit\nnonsense\n").unwrap();
    let said = Said::by(piped).expect(0);
    assert_eq!(said.out, "h1 -> h3\nh3 -> h1\n2 of 2 pings answered\n");

    let said = desk.plexus(&["lab", "graph", "shell"]).expect(0);
    let drawing = roxmltree::Document::parse(&said.out).unwrap();
    assert!(drawing.descendants().any(|at| at.text() == Some("h3")));
    desk.down("shell");
    let said = shell(&desk, &["nodes"]).expect(1);
    assert!(said.err.contains("shell"), "{said:?}");
}
