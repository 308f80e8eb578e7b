//! The style of the repository, enforced: line width, file length, links, dependencies' licences,
//! and where `unsafe` may stand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const WIDTH: usize = 100;
/// Above this a file's head says why ("length:" in its first 30 lines); never above the maximum.
const LONG: usize = 900;
const LENGTH_MAX: usize = 1500;
/// Files over `LONG`: strike one off when it is split, add none without need.
const LONG_FILES: &[&str] = &[];

/// Licences that a dependency may have, each sufficient by itself.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
    "BSL-1.0",
];

/// Crates whose sources may hold `unsafe`, and the files of others that may.
const UNSAFE_CRATES: &[&str] = &["crates/io/"];
const UNSAFE_FILES: &[&str] = &[
    "crates/table/src/pages.rs",
    "crates/table/src/lpm/lanes.rs",
    "crates/table/src/lpm/trees.rs",
    "crates/table/src/prefetch.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file that git tracks, or would.
fn files() -> Vec<String> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files of its checkout");
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let list = String::from_utf8(list.stdout).expect("names are UTF-8");
    list.lines().filter(|f| root().join(f).is_file()).map(str::to_string).collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_default()
}

fn is_source(file: &str) -> bool {
    [".rs", ".c", ".h", ".sh", ".toml", ".md"].iter().any(|end| file.ends_with(end))
}

fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn lines_are_at_most_a_hundred_wide() {
    let mut wide = Vec::new();
    // C is indented by tabs, whose width is everyone's own.
    let counted = |f: &&String| is_source(f) && !f.ends_with(".c") && !f.ends_with(".h");
    for file in files().iter().filter(counted) {
        for (i, line) in read(file).lines().enumerate() {
            // A table row or a link cannot be broken.
            let unbreakable =
                file.ends_with(".md") && (line.starts_with('|') || line.contains("]("));
            if line.chars().count() > WIDTH && !unbreakable {
                wide.push(format!("{file}:{}", i + 1));
            }
        }
    }
    assert_none("lines over 100 characters", wide);
}

#[test]
fn files_are_short_enough_to_read() {
    let mut long = Vec::new();
    for file in files().iter().filter(|f| f.ends_with(".rs")) {
        let text = read(file);
        let lines = text.lines().count();
        assert!(lines <= LENGTH_MAX, "{file} has {lines} lines: split it");
        if lines > LONG {
            let head: String = text.lines().take(30).collect();
            assert!(head.contains("length:"), "{file} has {lines} lines, and its head not why");
            long.push(file.clone());
        }
    }
    assert_eq!(long, LONG_FILES, "the files over {LONG} lines");
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for file in files().iter().filter(|f| f.ends_with(".md")) {
        let text = read(file);
        let directory = root().join(file).parent().expect("a file is in a directory").to_path_buf();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.starts_with("http") || target.starts_with('#');
            if !elsewhere && !directory.join(path).exists() {
                dead.push(format!("{file}: {target}"));
            }
        }
    }
    assert_none("dead links", dead);
}

#[test]
fn nothing_is_left_unfinished() {
    // Spelt so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("X", "XX"),
    ];
    let mut found = Vec::new();
    for file in files().iter().filter(|f| is_source(f)) {
        for (i, line) in read(file).lines().enumerate() {
            if marks.iter().any(|m| line.contains(m)) {
                found.push(format!("{file}:{}", i + 1));
            }
        }
    }
    assert_none("unfinished", found);
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let forms = [concat!("un", "safe {"), concat!("un", "safe fn"), concat!("un", "safe impl")];
    let mut found = Vec::new();
    for file in files().iter().filter(|f| f.starts_with("crates/") && f.ends_with(".rs")) {
        let allowed = UNSAFE_CRATES.iter().any(|c| file.starts_with(c))
            || UNSAFE_FILES.contains(&file.as_str());
        for (i, line) in read(file).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !allowed && forms.iter().any(|form| code.contains(form)) {
                found.push(format!("{file}:{}", i + 1));
            }
        }
    }
    assert_none("unsafe outside its places", found);
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!((1..130).contains(&lines), "README.md has {lines} lines");
}

#[test]
fn dependencies_have_licences_that_agree_with_ours() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo describes the workspace");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20, "only {} packages were seen", packages.len());
    let mut bad = BTreeSet::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !is_acceptable(licence) {
            bad.insert(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    assert_none("licences", bad.into_iter().collect());
}

/// Whether an SPDX expression is met by licences of the list: of alternatives one must be, of
/// what is joined by AND all.
fn is_acceptable(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let stripped = expression.replace(['(', ')'], "");
    if expression.contains(" AND ") {
        let parts = expression.split(" AND ");
        return parts.map(|p| p.replace(['(', ')'], "")).all(|p| is_acceptable(&p));
    }
    stripped.split(" OR ").any(|licence| LICENCES.contains(&licence.trim()))
}

#[test]
fn licence_expressions_are_understood() {
    for good in ["MIT OR Apache-2.0", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(is_acceptable(good), "{good}");
    }
    for bad in ["GPL-3.0", "EUPL-1.2", "MIT AND GPL-2.0-only", "none stated"] {
        assert!(!is_acceptable(bad), "{bad}");
    }
}
