//! Completions and manual pages, as shells and man(1) read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Desk, Said, directory, plexus};

/// The words that bash offers after these, by the program's own script.
fn offered(desk: &Desk, words: &str) -> BTreeSet<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_plexus"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let try_it = format!(
        "source <(plexus completions bash)\n\
         COMP_TYPE=9 COMP_WORDS=({words} '') COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _clap_complete_plexus plexus '' \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &try_it]).env("PATH", path).env("PLEXUS_RUN_DIR", &desk.dir);
    bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = Said::of(&mut bash).expect(0);
    assert_eq!(said.err, "");
    said.out.lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_topics_and_options() {
    let desk = Desk::new("completions");
    let commands = offered(&desk, "plexus");
    for command in ["node", "show", "lab", "completions"] {
        assert!(commands.contains(command), "{commands:?}");
    }
    assert!(!commands.contains("manual"), "a hidden command is offered");
    let topics = offered(&desk, "plexus show");
    assert!(topics.contains("macs"), "{topics:?}");
    let options = offered(&desk, "plexus node run");
    assert!(options.contains("--config"), "{options:?}");
}

#[test]
fn bash_completes_the_names_of_nodes_that_run() {
    let Some(desk) = Desk::root("completions of names") else { return };
    let lab = format!("completed-{}", std::process::id());
    let mut text = format!("name = \"{lab}\"\n");
    for i in [1, 2] {
        text += &format!("[[node]]\nname = \"s{i}\"\n[[host]]\nname = \"h{i}\"\n");
        text += &format!("[[link]]\nends = [\"h{i}\", \"s{i}.p1\"]\n");
    }
    let file = desk.file("lab", &text);
    desk.plexus(&["lab", "up", &file]).expect(0);
    let names = offered(&desk, "plexus show macs --node");
    for node in ["s1", "s2"] {
        assert!(names.contains(&format!("{lab}/{node}")), "{names:?}");
    }
    for command in ["lab exec", "lab down", "lab shell"] {
        let names = offered(&desk, &format!("plexus {command}"));
        assert!(names.contains(&lab), "{command}: {names:?}");
    }
    let places = offered(&desk, &format!("plexus lab exec {lab}"));
    assert!(["h1", "h2", "s1", "s2"].iter().all(|place| places.contains(*place)), "{places:?}");
    desk.down(&lab);
    let names = offered(&desk, "plexus show macs --node");
    assert!(!names.iter().any(|name| name.starts_with(&lab)), "{names:?}");
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let dir = directory("manual");
    let pages = dir.join("man1");
    Said::of(&mut plexus(&["manual", pages.to_str().unwrap()])).expect(0);
    let read = |name: &str| fs::read_to_string(pages.join(format!("{name}.1")));
    let found: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    // The help and the manual name the same commands, down to the last.
    let mut left: Vec<Vec<String>> = vec![vec![]];
    let mut seen = 0;
    while let Some(words) = left.pop() {
        let name = format!("plexus {}", words.join(" ")).trim_end().replace(' ', "-");
        let page = read(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
        seen += 1;
        let help = Said::of(plexus(&[]).args(&words).arg("--help")).expect(0).out;
        let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in commands.take_while(|line| !line.is_empty()) {
            let is_new = line.starts_with("  ") && !line.starts_with("   ");
            let command = line.split_whitespace().next().unwrap_or_default();
            if is_new && command != "help" {
                left.push([&words[..], &[command.to_string()]].concat());
            }
        }
    }
    assert!(seen > 40 && found.iter().all(|page| !page.contains("manual")), "{seen}: {found:?}");
    // The help subcommands of clap have no pages of their own.
    assert_eq!(found.len(), seen, "{found:?}");
    let show = read("plexus-show").unwrap();
    assert!(show.contains("macs") && show.contains("\\-\\-json"), "{show}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_manual_that_can_not_be_written_is_an_error_with_its_place() {
    let said = Said::of(&mut plexus(&["manual", "/proc/manual"])).expect(2);
    assert!(said.err.contains("/proc/manual: "), "{}", said.err);
    let said = Said::of(&mut plexus(&["completions", "cmd.exe"])).expect(2);
    assert!(said.err.contains("possible values: bash"), "{}", said.err);
}
