//! The commands of the documents, as their reader types them, and what the pages say that they
//! print. Every command is typed, but for the ones of a list.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::{Said, ip, plexus, turn, until};
use crate::group::boxes::Boxes;

pub(crate) mod page;
pub(crate) mod reader;

use page::{NOT_PRINTED, Step, root, steps};
use reader::Reader;

/// The pages, each with the test that types its commands.
const PAGES: [(&str, &str); 11] = [
    ("README.md", "guide.rs"),
    ("docs/README.md", "guide.rs"),
    ("docs/control-socket.md", "guide.rs"),
    ("docs/install.md", "package.rs and image.rs"),
    ("docs/operating.md", "guide.rs"),
    ("docs/reference.md", "guide.rs"),
    ("docs/three-boxes.md", "group.rs"),
    ("docs/tutorial.md", "guide.rs"),
    ("docs/watching.md", "guide.rs"),
    ("docs/web.md", "guide.rs"),
    ("labs/README.md", "guide.rs and machines.rs"),
];

/// Names of commands that need more words: typed alone they are refused.
const NAMES: [&str; 23] = [
    "plexus bench ndr",
    "plexus config",
    "plexus config apply",
    "plexus config common",
    "plexus controller run",
    "plexus gen",
    "plexus group",
    "plexus identity issue",
    "plexus lab",
    "plexus lab run",
    "plexus lab shell",
    "plexus lab up",
    "plexus meter",
    "plexus ndn",
    "plexus ndn gen",
    "plexus ndn web-publish",
    "plexus node run",
    "plexus show",
    "plexus show route",
    "plexus sim",
    "plexus topo",
    "plexus trace",
    "plexus trace --explain",
];

/// Commands that no test types, and why.
const NOT_TYPED: [(&str, &str); 9] = [
    ("plexus controller drain", "it needs a second controller: the guide shows it in a lab"),
    ("make build", "a release build takes minutes; it is this one with optimisations"),
    ("make demo", "it takes minutes"),
    ("make package", "a build for distribution takes minutes; package.rs packs another"),
    ("make test", "this is it"),
    ("scripts/package --target TRIPLE", "it needs a linker for another architecture"),
    ("scripts/setup base package", "it installs packages on this machine; `make test` has done so"),
    ("scripts/setup watch", "the same"),
    ("plexus node run --config /etc/plexus/node.toml", "the container runs it by itself: image.rs"),
];

fn is_typed(step: &Step) -> bool {
    let command = step.command.as_str();
    !NAMES.contains(&command) && !NOT_TYPED.iter().any(|(not, _)| *not == command)
}

/// The commands of a page that are typed.
pub(crate) fn typed(page: &str) -> Vec<Step> {
    let steps: Vec<Step> = steps(page).into_iter().filter(is_typed).collect();
    assert!(!steps.is_empty(), "{page} has no commands");
    steps
}

#[test]
fn every_page_with_commands_has_a_test_that_types_them() {
    let mut pages = vec!["README.md".to_string(), "labs/README.md".into()];
    for entry in fs::read_dir(root().join("docs")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        pages.extend(Some(format!("docs/{name}")).filter(|page| page.ends_with(".md")));
    }
    pages.retain(|page| !steps(page).is_empty());
    pages.sort();
    assert_eq!(pages, PAGES.map(|(page, _)| page));
    // The lists have nothing that no page has, and names are no commands.
    let all: Vec<Step> = pages.iter().flat_map(|page| steps(page)).collect();
    let commands: BTreeSet<&str> = all.iter().map(|step| step.command.as_str()).collect();
    let shown: BTreeSet<&String> = all.iter().flat_map(|step| &step.shown).collect();
    for line in NOT_PRINTED {
        assert!(shown.contains(&line.to_string()), "no page shows {line}");
    }
    for command in NAMES.iter().chain(NOT_TYPED.iter().map(|(command, _)| command)) {
        assert!(commands.contains(command), "no page has {command}");
    }
    for name in NAMES {
        let words: Vec<&str> = name.split(' ').skip(1).collect();
        let said = Said::of(&mut plexus(&words));
        assert_eq!(said.code, Some(2), "{name} is a command: {said:?}");
    }
}

/// Types all commands of a page on the machine of its reader.
fn walk(page: &str) {
    let Some(mut reader) = Reader::new(page) else { return };
    let steps = typed(page);
    // A switch that has to be there first.
    if ["docs/control-socket.md", "docs/reference.md"].contains(&page) {
        reader.start("plexus node run --config examples/switch.toml");
    }
    // Commands of other machines have a test of their own.
    for step in steps.iter().filter(|step| step.at.is_empty()) {
        reader.type_in(step);
    }
    reader.leave();
}

#[test]
fn the_commands_of_the_tutorial_print_what_it_shows() {
    walk("docs/tutorial.md");
}

#[test]
fn the_commands_of_the_list_of_documents_run() {
    walk("docs/README.md");
}

#[test]
fn the_reference_names_a_command_that_runs() {
    walk("docs/reference.md");
}

#[test]
fn the_commands_of_the_pages_about_the_page_and_about_labs_run() {
    turn();
    walk("docs/web.md");
    walk("labs/README.md");
}

#[test]
fn a_lab_is_watched_as_its_document_says() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("SKIPPED: prometheus is not installed (scripts/setup watch)");
        return;
    }
    walk("docs/watching.md");
}

#[test]
fn a_control_socket_is_asked_as_its_document_says() {
    if Command::new("socat").arg("-V").output().is_err() {
        eprintln!("SKIPPED: socat is not installed (scripts/setup base)");
        return;
    }
    walk("docs/control-socket.md");
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    turn();
    let Some(mut reader) = Reader::new("the README") else { return };
    let mut talk = None;
    for step in typed("README.md") {
        // Its second cable comes later, as at the README's switch.
        let starts = step.command.contains("node run");
        if starts {
            ip(&reader.place, "link set dev eth2 down");
            talk = Some(reader.talk());
        }
        reader.type_in(&step);
        if starts {
            let drops = "plexus show drops --node sw1";
            let has_dropped = || reader.ask(drops).out.contains("no_egress");
            assert!(until(has_dropped), "{}", reader.ask(drops).out);
            ip(&reader.place, "link set dev eth2 up");
        }
    }
    drop(talk);
    reader.leave();
}

/// Types the commands of the operator's guide: those of boxes in the group of docs/three-boxes.md,
/// and those of a lab on a machine of its own.
#[test]
fn the_commands_of_the_operators_guide_run() {
    let Some(mut boxes) = Boxes::new() else { return };
    let Some(mut reader) = Reader::new("the operator's guide") else { return };
    let systemctl = |what: &str| Step {
        at: "n1".into(),
        command: format!("systemctl {what} plexus-controller@c1"),
        ..Step::default()
    };
    let group = typed("docs/three-boxes.md");
    let is_later = |step: &Step| step.command.contains("add-port");
    group.iter().take_while(|step| !is_later(step)).for_each(|step| boxes.type_in(step));
    boxes.await_links(3);
    // The guide's group routes, too.
    let subnet = "\n[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    boxes.append("n1", "/etc/plexus/c1.toml", subnet);
    boxes.type_in(&systemctl("reload"));
    for step in typed("docs/operating.md") {
        if !step.is_inline && step.at.is_empty() {
            reader.type_in(&step);
            continue;
        }
        // The guide says so beside the command.
        let restores = step.command.contains("snapshot restore");
        if restores {
            boxes.type_in(&systemctl("stop"));
        }
        boxes.type_in(&step);
        if restores {
            boxes.type_in(&systemctl("start"));
        }
        boxes.stop_waiting();
    }
    reader.leave();
}

/// The commands of this program that a document names, without placeholders such as FILE.
fn named(text: &str) -> Vec<Vec<String>> {
    let shell = text.lines().filter_map(|line| {
        let (prompt, rest) = line.split_once(' ')?;
        prompt.ends_with(['$', '#']).then_some(rest.trim_start_matches("sudo "))
    });
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let ours = shell.chain(spans).filter(|command| command.starts_with("plexus "));
    // More than one command, a pattern, or a part of one.
    let plain = ours.filter(|command| !command.contains(['|', '…', '[', '<', '>', '\'', '"', '$']));
    let is_placeholder = |word: &&str| {
        let letters = |c: char| c.is_ascii_uppercase() || "_/.:".contains(c);
        word.chars().all(letters) || word.starts_with('#')
    };
    let words = |command: &str| {
        // Words after "--" are another program's.
        let all = command.split_whitespace().skip(1);
        let all = all.take_while(|word| !["help", "--"].contains(word));
        let mut words: Vec<String> = Vec::new();
        for word in all.filter(|word| *word != "\\") {
            if is_placeholder(&word) {
                // An option's value, without which it would be refused.
                words.pop_if(|last| last.starts_with("--"));
                break;
            }
            words.push(word.into());
        }
        words
    };
    plain.map(words).collect()
}

#[test]
fn the_documents_name_commands_and_options_that_exist() {
    let (mut pages, mut commands) = (Vec::new(), BTreeSet::new());
    for folder in ["", "docs", "docs/design", "labs"] {
        for entry in fs::read_dir(root().join(folder)).unwrap().flatten() {
            pages.extend(Some(entry.path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
        }
    }
    for page in pages {
        for mut words in named(&fs::read_to_string(&page).unwrap()) {
            // Help comes only if all before it is understood.
            words.push("--help".into());
            if commands.contains(&words) {
                continue;
            }
            let said = Said::of(plexus(&[]).args(&words));
            assert_eq!(said.code, Some(0), "{}: {words:?}: {said:#?}", page.display());
            commands.insert(words);
        }
    }
    assert!(commands.len() > 50, "{commands:?}");
}
