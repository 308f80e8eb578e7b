//! Recorded results: `--record` keeps a full run in its paper's folder, and the findings in the
//! paper's README are rendered from these files alone. So each figure in a README belongs to the
//! run that the README names, and `plexus experiment readme --check` reports any other.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use plexus_io::clock::unix_ms;
use plexus_report::{Failure, json};
use plexus_wire::ndn::signature::Validity;
use serde::{Deserialize, Serialize};

use super::report::Report;
use super::{EXPERIMENTS, Experiment, page};

/// Before a block of findings, up to the experiment's name; and behind it.
const BEGIN: &str = "<!-- findings of ";
const END: &str = "<!-- end of findings -->";
/// What a block holds whose experiment has no recorded run.
const NONE: &str = "**Findings.** No run of the present program is recorded.\n";
const WIDTH: usize = 100;

/// A run, as its file has it.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    name: String,
    /// Year, month and day, UTC.
    date: String,
    machine: String,
    commit: String,
    seed: u64,
    /// *holds*, *does not hold* or *cannot be told*.
    verdict: String,
    why: String,
    rows: Vec<Recorded>,
}

/// A row. What a reader sees is kept as text: bounds and comparisons are decided when it is run.
#[derive(Debug, Deserialize, Serialize)]
struct Recorded {
    quantity: String,
    unit: String,
    paper: String,
    ours: String,
    compared: String,
    note: String,
    /// Whether the README has it.
    is_first: bool,
}

impl Record {
    fn new(report: &Report, profile: &str) -> Record {
        let first = page::first_rows(&report.rows);
        let row = |row: &super::report::Row| Recorded {
            quantity: row.quantity.clone(),
            unit: row.unit.into(),
            paper: row.paper_text(),
            ours: row.ours_text(),
            compared: row.beside.clone(),
            note: row.note.clone(),
            is_first: first.iter().any(|one| std::ptr::eq(*one, row)),
        };
        Record {
            name: report.name.into(),
            date: today(),
            machine: machine(profile),
            commit: report.commit.into(),
            seed: report.seed,
            verdict: report.verdict.answer.name().into(),
            why: report.verdict.why.clone(),
            rows: report.rows.iter().map(row).collect(),
        }
    }

    /// What a README says of it.
    fn findings(&self) -> String {
        let Record { name, date, machine, commit, verdict, why, .. } = self;
        let mut text = wrapped(&format!(
            "**Findings** (full run, {date}, commit {commit}, {machine}): the claim **{verdict}**: \
             {why}."
        ));
        text.push_str("\n| quantity | unit | paper | ours | compared |\n|---|---|---|---|---|\n");
        let rows = || self.rows.iter().filter(|row| row.is_first);
        for Recorded { quantity, unit, paper, ours, compared, .. } in rows() {
            let cells = [quantity, unit, paper, ours, compared].map(|cell| cell.replace('|', "/"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        let (shown, all) = (rows().count(), self.rows.len());
        if shown < all {
            let file = format!("results/{name}.json");
            let _ = writeln!(text, "\nThe first {shown} of {all} rows of [{file}]({file}).");
        }
        text
    }
}

/// In lines as wide as a source may be.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n") + "\n"
}

fn today() -> String {
    let now_s = unix_ms() / 1000;
    let stamp = Validity::between(now_s, now_s).not_before;
    let text = String::from_utf8_lossy(&stamp);
    format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..8])
}

/// Processor, how many of them, and how the program was built.
fn machine(profile: &str) -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, name)| name.trim());
    let count = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{model}, {count} processors, {profile} build")
}

fn unusable(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::unusable(format!("{}: {error}", path.display()))
}

fn path_of(directory: &Path, experiment: &Experiment) -> PathBuf {
    directory.join(experiment.paper).join("results").join(format!("{}.json", experiment.name))
}

/// Keeps a run in `directory`, which has a folder for each paper.
pub(super) fn keep(
    directory: &Path,
    experiment: &Experiment,
    report: &Report,
    profile: &str,
) -> Result<(), Failure> {
    let path = path_of(directory, experiment);
    let folder = path.parent().unwrap_or(directory);
    fs::create_dir_all(folder).map_err(|e| unusable(folder, e))?;
    fs::write(&path, json(&Record::new(report, profile))?).map_err(|e| unusable(&path, e))
}

fn block(directory: &Path, experiment: &Experiment) -> Result<String, Failure> {
    let path = path_of(directory, experiment);
    let text = match fs::read_to_string(&path) {
        Ok(text) => {
            let record: Record = serde_json::from_str(&text).map_err(|e| unusable(&path, e))?;
            record.findings()
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => NONE.into(),
        Err(e) => return Err(unusable(&path, e)),
    };
    Ok(format!("{BEGIN}{} -->\n{text}{END}", experiment.name))
}

fn rendered(directory: &Path, paper: &str, readme: &str) -> Result<String, Failure> {
    let mut text = readme.to_string();
    for experiment in EXPERIMENTS.iter().filter(|e| e.paper == paper) {
        let begin = format!("{BEGIN}{} -->", experiment.name);
        let ends = text.find(&begin).and_then(|at| Some((at, at + text[at..].find(END)?)));
        let (from, to) = ends.ok_or_else(|| {
            let name = experiment.name;
            Failure::unusable(format!("{paper}/README.md has no findings of {name}: {begin}"))
        })?;
        text.replace_range(from..to + END.len(), &block(directory, experiment)?);
    }
    Ok(text)
}

/// Renders the findings of all papers' READMEs from the results beside them; or only looks whether
/// they are as they would be rendered.
///
/// Returns those that were rendered.
///
/// # Errors
/// When a file cannot be read or written; [`Failure::No`] when it only looks and one differs.
pub fn readmes(directory: &Path, is_check: bool) -> Result<Vec<PathBuf>, Failure> {
    let mut papers: Vec<&str> = EXPERIMENTS.iter().map(|e| e.paper).collect();
    papers.sort_unstable();
    papers.dedup();
    let (mut stale, mut written) = (Vec::new(), Vec::new());
    for paper in papers {
        let path = directory.join(paper).join("README.md");
        let readme = fs::read_to_string(&path).map_err(|e| unusable(&path, e))?;
        let now = rendered(directory, paper, &readme)?;
        if now == readme {
            continue;
        }
        if is_check {
            stale.push(format!("{}: its findings are not those of its results", path.display()));
            continue;
        }
        fs::write(&path, now).map_err(|e| unusable(&path, e))?;
        written.push(path);
    }
    if stale.is_empty() { Ok(written) } else { Err(Failure::No(stale.join("\n"))) }
}

/// A README's lines without findings of recorded runs: a page has its own.
pub(super) fn without_findings(text: &str) -> impl Iterator<Item = &str> {
    let mut is_within = false;
    text.lines().filter(move |line| {
        let was_within = is_within;
        is_within = (is_within || line.starts_with(BEGIN)) && *line != END;
        !is_within && !was_within
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Findings, Row};

    /// The papers' folders of this repository.
    fn experiments() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
    }

    #[test]
    fn the_readmes_say_what_the_recorded_runs_say() {
        let found = readmes(&experiments(), true);
        assert!(found.is_ok(), "{found:?}: `plexus experiment readme experiments` renders them");
        for experiment in EXPERIMENTS {
            let Ok(text) = fs::read_to_string(path_of(&experiments(), experiment)) else {
                continue;
            };
            let record: Record = serde_json::from_str(&text).unwrap();
            assert_eq!(record.name, experiment.name);
            // Everybody can build what it was.
            assert!(!record.commit.contains("dirty") && record.commit != "unknown", "{text}");
        }
    }

    #[test]
    fn a_figure_that_is_not_of_the_recorded_run_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        for experiment in EXPERIMENTS {
            fs::create_dir_all(directory.join(experiment.paper)).unwrap();
            let path = directory.join(experiment.paper).join("README.md");
            let mut text = fs::read_to_string(&path).unwrap_or_default();
            let _ = write!(text, "## {0}\n{BEGIN}{0} -->\nformer\n{END}\nafter\n", experiment.name);
            fs::write(&path, text).unwrap();
        }
        let experiment = &EXPERIMENTS[0];
        let rows = vec![Row::new("a", "Mbit/s", 81.0).paper(100.0).note("n")];
        let findings = Findings { rows, ..Findings::default() };
        keep(directory, experiment, &Report::new(experiment, &findings, false, "c"), "p").unwrap();
        assert!(matches!(readmes(directory, true), Err(Failure::No(_))));
        readmes(directory, false).unwrap();
        let path = directory.join(experiment.paper).join("README.md");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("| a | Mbit/s | 100 | 81.0 | x 0.81 |\n"), "{text}");
        assert!(text.contains("**holds**") && text.contains(NONE), "{text}");
        assert!(text.contains("after") && !text.contains("former"), "{text}");
        assert!(readmes(directory, true).is_ok());
        for (file, from, to) in [
            (path, "| 81.0 |", "| 82.0 |"),
            (path_of(directory, experiment), "\"81.0\"", "\"80.0\""),
        ] {
            let good = fs::read_to_string(&file).unwrap();
            fs::write(&file, good.replacen(from, to, 1)).unwrap();
            assert!(matches!(readmes(directory, true), Err(Failure::No(_))), "{file:?}");
            fs::write(&file, good).unwrap();
        }
    }

    #[test]
    fn findings_are_left_out_of_pages() {
        let text = format!("a\n{BEGIN}x -->\n**Findings** 1\n{END}\nb");
        assert_eq!(without_findings(&text).collect::<Vec<_>>(), ["a", "b"]);
    }
}
