//! The commands of the guide, as its reader types them, and what it says that they print.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Desk, Said, plexus, shipped};

/// A command of a page, and the lines that the page shows below it.
struct Step {
    command: String,
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of a page's `console` blocks.
fn steps(page: &str) -> Vec<Step> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (line.strip_prefix("```"), line.strip_prefix("$ ")) {
            (Some(kind), _) => inside = kind == "console",
            (None, _) if !inside => {}
            (None, Some(command)) => {
                // Remarks are for the reader.
                let command = command.split("   # ").next().unwrap().to_string();
                steps.push(Step { command, shown: vec![] });
            }
            (None, None) => steps.last_mut().unwrap().shown.push(line.to_string()),
        }
    }
    steps
}

/// A line without what differs from run to run: numbers, and how columns are filled up.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let mut numbers = word.chars().peekable();
        while let Some(c) = numbers.next() {
            if c.is_ascii_digit() {
                shape.push('#');
                while numbers.next_if(|c| c.is_ascii_digit() || *c == '.').is_some() {}
            } else {
                shape.push(c);
            }
        }
        shape.push(' ');
    }
    shape
}

#[test]
fn every_command_of_the_tutorial_does_and_prints_what_it_says() {
    let Some(desk) = Desk::root("the tutorial") else { return };
    // The reader's folder, where the repository is.
    let folder = desk.dir.join("reader");
    fs::create_dir(&folder).unwrap();
    for part in ["labs", "sims"] {
        symlink(root().join(part), folder.join(part)).unwrap();
    }
    let steps = steps("tutorial.md");
    assert!(steps.len() > 10, "{}", steps.len());
    let program = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for Step { command, shown } in &steps {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&folder);
        shell.env("PATH", &path).env("PLEXUS_RUN_DIR", &desk.dir);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let said = Said::of(&mut shell);
        assert_eq!(said.code, Some(0), "{command}: {said:#?}");
        let printed: Vec<String> = said.out.lines().map(shape).collect();
        for line in shown.iter().filter(|line| *line != "...") {
            assert!(printed.contains(&shape(line)), "{command} does not print {line}:\n{said:#?}");
        }
    }
    desk.assert_nothing_left();
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
    let (mut pages, mut commands) = (Vec::new(), 0);
    for folder in ["", "docs", "docs/design", "labs"] {
        for entry in fs::read_dir(root().join(folder)).unwrap().flatten() {
            pages.extend(Some(entry.path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
        }
    }
    for page in pages {
        for mut words in named(&fs::read_to_string(&page).unwrap()) {
            // Help comes only if all before it is understood.
            words.push("--help".into());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let said = Said::of(&mut plexus(&words));
            assert_eq!(said.code, Some(0), "{}: {words:?}: {said:#?}", page.display());
            commands += 1;
        }
    }
    assert!(commands > 50, "{commands}");
}

/// Asks what the operator's guide asks, of a lab whose nodes have the names of the guide.
#[test]
fn the_questions_of_the_operators_guide_have_answers() {
    let Some(desk) = Desk::root("operating") else { return };
    desk.plexus(&["lab", "up", &shipped("demo-fabric")]).expect(0);
    let saved = desk.dir.join("leases").display().to_string();
    let text = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut asked = 0;
    for span in spans.filter(|span| span.contains("--node ")) {
        let span = span.replace("--node ", "--node demo-fabric/").replace("FILE", &saved);
        let words: Vec<&str> = span.split_whitespace().skip(1).collect();
        if !matches!(&words[..], ["show", ..] | ["controller", "snapshot", ..]) {
            continue;
        }
        let said = desk.plexus(&words).expect(0);
        assert!(!said.out.trim().is_empty(), "{span}: {said:?}");
        asked += 1;
    }
    assert!(asked >= 8, "{asked}");
    assert!(fs::read_to_string(&saved).unwrap().contains("10.0.0.1"), "the leases are saved");
    desk.down("demo-fabric");
}
