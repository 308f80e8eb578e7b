//! Tells the program which commit it was built from, and by which profile, for the results of
//! experiments.
//!
//! `PLEXUS_COMMIT` names it where it is set; otherwise git is asked; without git, or outside of a
//! checkout of this repository, it is `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=PLEXUS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let named = std::env::var("PLEXUS_COMMIT").ok().filter(|c| is_plain(c));
    let commit = named.or_else(of_checkout).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=PLEXUS_COMMIT={commit}");
    let profile = profile().filter(|p| is_plain(p)).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=PLEXUS_PROFILE={profile}");
}

/// The profile's name: `PROFILE` has that of the one it inherits from, but OUT_DIR is
/// `…/DIRECTORY OF THE PROFILE/build/plexus-cli-HASH/out`.
fn profile() -> Option<String> {
    let out = std::env::var("OUT_DIR").ok()?;
    let name = Path::new(&out).ancestors().nth(3)?.file_name()?.to_str()?;
    Some(if name == "debug" { "dev" } else { name }.to_string())
}

/// The commit that is checked out, with `-dirty` where files differ from it.
fn of_checkout() -> Option<String> {
    // A tarball of ours may lie within a repository of somebody else.
    if git(&["rev-parse", "--show-prefix"])? != "crates/cli/" {
        return None;
    }
    // A commit or a switch of branches writes to the log of HEAD; where none is kept, HEAD has to
    // do. Sources are watched for `-dirty`: those that the program is built from, and no tests, so
    // that nothing is built again which would not be anyway.
    for name in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=../../labs");
    for entry in std::fs::read_dir("..").ok()?.flatten() {
        println!("cargo::rerun-if-changed={}", entry.path().join("src").display());
    }
    // No tag is called that: the commit itself is named, whatever tags there are.
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--match", "no-tag"])
        .filter(|c| is_plain(c))
}

/// Whether it can stand in a line of JSON and of a terminal as it is.
fn is_plain(commit: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._+".contains(c);
    (1..=64).contains(&commit.len()) && commit.chars().all(plain)
}

fn git(arguments: &[&str]) -> Option<String> {
    let out = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| said.trim().to_string())
}
