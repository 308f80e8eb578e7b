//! Today's figures: `bench/results.json`, and the table of `bench/README.md` that is rendered from
//! that file alone. A test fails if the two differ.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use plexus_report::Failure;
use serde::{Deserialize, Serialize};

const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- end of figures -->";

/// Turns of a full run. Rows of fewer say so.
const TURNS: u32 = 7;

/// A row of `plexus bench --json`, and where it was measured.
#[derive(Debug, Deserialize, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: String,
    peer: Option<String>,
    peer_value: Option<f64>,
    ratio: Option<f64>,
    /// Turns that its medians are of; rows from before this was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runs: Option<u32>,
    value_min: Option<f64>,
    value_max: Option<f64>,
    ratio_min: Option<f64>,
    ratio_max: Option<f64>,
    /// Year, month and day, UTC.
    date: String,
    commit: String,
    machine: String,
}

/// Renders the table of a directory's README.md from its results.json, after taking over the rows
/// of the file `add`, each in place of the one with its name and peer; or only compares them.
/// Returns the README if it was rendered.
///
/// # Errors
/// When a file cannot be read or written; [`Failure::No`] when it only compares and they differ.
pub fn readme(
    directory: &Path,
    add: Option<&Path>,
    is_check: bool,
) -> Result<Option<PathBuf>, Failure> {
    let results = directory.join("results.json");
    let mut figures = read(&results)?;
    if let Some(file) = add {
        merge(&mut figures, read(file)?);
        write(&results, &lines(&figures)?)?;
    }
    let path = directory.join("README.md");
    let readme = fs::read_to_string(&path).map_err(|e| unusable(&path, e))?;
    let marks = readme.find(BEGIN).zip(readme.find(END)).filter(|(from, to)| from < to);
    let (from, to) = marks.ok_or_else(|| unusable(&path, format!("no {BEGIN}... {END} in it")))?;
    let now = format!("{}{}{}", &readme[..from + BEGIN.len()], table(&figures), &readme[to..]);
    match (now == readme, is_check) {
        (true, _) => Ok(None),
        (false, true) => {
            let text = format!("{}: its figures differ from results.json", path.display());
            Err(Failure::No(text))
        }
        (false, false) => {
            write(&path, &now)?;
            Ok(Some(path))
        }
    }
}

fn unusable(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::unusable(format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<Vec<Figure>, Failure> {
    let text = fs::read_to_string(path).map_err(|e| unusable(path, e))?;
    serde_json::from_str(&text).map_err(|e| unusable(path, e))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| unusable(path, e))
}

fn merge(figures: &mut Vec<Figure>, rows: Vec<Figure>) {
    for row in rows {
        match figures.iter_mut().find(|f| f.name == row.name && f.peer == row.peer) {
            Some(old) => *old = row,
            None => figures.push(row),
        }
    }
}

/// As JSON, a row to a line, so that a change of one row is a change of one line.
fn lines(figures: &[Figure]) -> Result<String, Failure> {
    let rows: Result<Vec<_>, _> = figures.iter().map(serde_json::to_string).collect();
    let rows = rows.map_err(|e| Failure::unusable(e.to_string()))?;
    Ok(format!("[\n{}\n]\n", rows.join(",\n")))
}

fn table(figures: &[Figure]) -> String {
    let mut machines: Vec<&str> = Vec::new();
    let mut text = String::from("| name | Plexus | peer | ratio | date | commit | machine |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for f in figures {
        let known = machines.iter().position(|m| *m == f.machine);
        let machine = known.unwrap_or_else(|| {
            machines.push(&f.machine);
            machines.len() - 1
        });
        let mut ours = with_range(f.value, &format!(" {}", f.unit), f.value_min, f.value_max);
        if let Some(turns) = f.runs.filter(|turns| *turns < TURNS) {
            let _ = write!(ours, ", {turns} turns");
        }
        let theirs = f.peer_value.map(|v| format!(" {}", shown(v))).unwrap_or_default();
        let peer = f.peer.as_ref().map(|p| format!("{p}{theirs}")).unwrap_or_default();
        let ratio = f.ratio.map(|r| with_range(r, "", f.ratio_min, f.ratio_max));
        let ratio = ratio.unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{}` | {ours} | {peer} | {ratio} | {} | {} | {} |",
            f.name,
            f.date,
            f.commit,
            machine + 1
        );
    }
    text.push_str("\nMachines:\n\n");
    for (i, machine) in machines.iter().enumerate() {
        let _ = writeln!(text, "{}. {machine}", i + 1);
    }
    text
}

fn with_range(value: f64, unit: &str, min: Option<f64>, max: Option<f64>) -> String {
    let range = min.zip(max).filter(|(min, max)| min < max);
    let range = range.map(|(min, max)| format!(" ({} to {})", shown(min), shown(max)));
    format!("{}{unit}{}", shown(value), range.unwrap_or_default())
}

/// About three digits.
fn shown(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
    }

    #[test]
    fn the_readme_has_the_figures_of_the_results() {
        let found = readme(&bench(), None, true);
        assert!(found.is_ok(), "{found:?}: `plexus bench readme bench` renders them");
        let text = fs::read_to_string(bench().join("results.json")).unwrap();
        let figures = read(&bench().join("results.json")).unwrap();
        assert_eq!(lines(&figures).unwrap(), text, "one row to a line");
        for f in figures {
            // Anybody can build the measured program.
            assert!(!f.commit.contains("dirty") && f.commit != "unknown", "{f:?}");
        }
    }

    #[test]
    fn added_rows_replace_those_with_their_name_and_peer() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let row = |peer: &str, value: f64| {
            format!(
                r#"{{"name":"x","value":{value:?},"unit":"Mpps","peer":"{peer}","peer_value":2.0,
                "ratio":1.5,"runs":7,"value_min":1.0,"value_max":300.0,"ratio_min":1.5,
                "ratio_max":1.5,"date":"2026-11-24","commit":"abc","machine":"a box"}}"#
            )
        };
        let at = |name: &str| directory.join(name);
        fs::write(at("results.json"), format!("[{},{}]", row("a", 3.0), row("b", 4.0))).unwrap();
        fs::write(at("rows.json"), format!("[{},{}]", row("b", 5.25), row("c", 0.05))).unwrap();
        fs::write(at("README.md"), format!("before\n{BEGIN}former\n{END}\nafter\n")).unwrap();
        assert!(matches!(readme(directory, None, true), Err(Failure::No(_))));
        let rendered = readme(directory, Some(&at("rows.json")), false).unwrap();
        assert_eq!(rendered, Some(at("README.md")));
        assert_eq!(readme(directory, None, true).unwrap(), None);
        let text = fs::read_to_string(at("README.md")).unwrap();
        let expected = [
            "before\n",
            "| `x` | 3.00 Mpps (1.00 to 300) | a 2.00 | 1.50 | 2026-11-24 | abc | 1 |\n",
            "| `x` | 5.25 Mpps (1.00 to 300) | b 2.00 | 1.50 | 2026-11-24 | abc | 1 |\n",
            "| `x` | 0.050 Mpps (1.00 to 300) | c 2.00 | 1.50 | 2026-11-24 | abc | 1 |\n",
            "1. a box\n<!-- end of figures -->\nafter\n",
        ];
        for part in expected {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("former") && !text.contains("4.00"), "{text}");
    }
}
