//! The files that `--out` writes.
//!
//! Each is written under another name and then given its own, so that an interrupted run leaves
//! whole files only; a page comes after what it leads to.

use std::fs;
use std::path::Path;

use plexus_report::{Failure, json};

use super::page::{self, Outcome, figure_name};
use super::plot::Size;
use super::report::{Findings, Report};
use super::{Experiment, Request};

/// Writes what belongs to the last of some results, and the index where all experiments run.
pub(super) fn write(
    directory: &Path,
    results: &[(&Experiment, Outcome)],
    request: &Request,
) -> Result<(), Failure> {
    if let Some((experiment, Outcome::Ran(report, findings))) = results.last() {
        write_one(directory, experiment, report, findings, request)?;
    }
    if request.is_all() {
        put(directory, page::INDEX, page::index(results, request).as_bytes())?;
    }
    Ok(())
}

fn write_one(
    directory: &Path,
    experiment: &Experiment,
    report: &Report,
    findings: &Findings,
    request: &Request,
) -> Result<(), Failure> {
    let name = experiment.name;
    put(directory, &format!("{name}.json"), json(report)?.as_bytes())?;
    put(directory, &format!("{name}.csv"), findings.runs.as_bytes())?;
    for (i, chart) in findings.charts.iter().enumerate() {
        let picture = chart.picture(Size::WHOLE);
        let png = picture.png().map_err(|e| Failure::unusable(format!("{name}: {e}")))?;
        let csv: String = chart.table().iter().map(csv_line).collect();
        for (kind, bytes) in
            [("svg", picture.svg().into_bytes()), ("png", png), ("csv", csv.into_bytes())]
        {
            put(directory, &figure_name(name, i + 1, kind), &bytes)?;
        }
    }
    let html = page::experiment(experiment, report, findings, request);
    put(directory, &format!("{name}.html"), html.as_bytes())
}

/// A line of RFC 4180.
fn csv_line(fields: &[String; 4]) -> String {
    let quoted = fields.each_ref().map(|field| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    });
    quoted.join(",") + "\n"
}

fn put(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = directory.join(name);
    let unfinished = directory.join(format!(".{name}.{}", std::process::id()));
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
    written.map_err(|e| {
        // What was written of it, if anything, is of no use.
        let _ = fs::remove_file(&unfinished);
        Failure::unusable(format!("writing {}: {e}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        let line = csv_line(&["a".into(), "b, c".into(), "\"d\"".into(), "1.5".into()]);
        assert_eq!(line, "a,\"b, c\",\"\"\"d\"\"\",1.5\n");
    }

    #[test]
    fn what_cannot_be_written_is_said_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::create_dir_all(directory.join("a.json")).unwrap();
        let failed = put(directory, "a.json", b"x");
        assert!(matches!(failed, Err(Failure::Unusable(why)) if why.contains("a.json")));
        put(directory, "b.json", b"x").unwrap();
        let mut left: Vec<_> =
            fs::read_dir(directory).unwrap().map(|f| f.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.json", "b.json"]);
    }
}
