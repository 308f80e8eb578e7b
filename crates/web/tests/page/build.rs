//! The built page is what its sources make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Most bytes of the built files.
const BYTES: u64 = 400_000;

/// Licences of what runs in readers' browsers.
const SHIPPED: &[&str] = &["MIT", "ISC", "BSD-3-Clause"];
/// Licences of what builds and checks the page, which no one else gets.
const TOOLS: &[&str] = &["MIT", "ISC", "BSD-3-Clause", "MPL-2.0"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A copy of the page's sources with the packages of its lock file; `None`, said aloud, where there
/// is no npm or no registry.
pub(crate) fn packages() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        fs::create_dir_all(copy.join("src")).unwrap();
        let sources = fs::read_dir(folder("page/src")).unwrap().map(|e| e.unwrap().path());
        let files = ["package.json", "package-lock.json", ".npmrc", "build.mjs"];
        for file in sources.chain(files.map(|f| folder("page").join(f))) {
            let to = copy.join(file.strip_prefix(folder("page")).unwrap());
            fs::copy(&file, to).unwrap();
        }
        let npm = Command::new("timeout")
            .args(["300", "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"])
            .current_dir(&copy)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&npm.stderr);
        let is_away = ["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ENETUNREACH", "ETIMEDOUT"];
        if npm.status.code() == Some(127) {
            eprintln!("SKIPPED: there is no npm to build the page with");
            return None;
        }
        if !npm.status.success() && is_away.iter().any(|code| said.contains(code)) {
            eprintln!("SKIPPED: npm does not reach its registry: {said}");
            return None;
        }
        assert!(npm.status.success(), "npm ci: {said}");
        Some(copy)
    });
    made.as_deref()
}

#[test]
fn the_built_page_is_what_its_sources_make() {
    let Some(packages) = packages() else { return };
    let out = packages.join("built");
    // Files of an earlier build.
    let _ = fs::remove_dir_all(&out);
    let build = Command::new("timeout")
        .args(["60", "node", "build.mjs"])
        .arg(&out)
        .current_dir(packages)
        .output()
        .unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let names = |folder: &Path| {
        let mut all: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        all.sort();
        all
    };
    assert_eq!(names(&out), names(&folder("assets")));
    for name in names(&out) {
        let is_same =
            fs::read(out.join(&name)).unwrap() == fs::read(folder("assets").join(&name)).unwrap();
        assert!(
            is_same,
            "assets/{name:?} is old: run `npm ci && npm run build` in crates/web/page"
        );
    }
}

#[test]
fn the_built_page_is_small() {
    let files = fs::read_dir(folder("assets")).unwrap().map(|e| e.unwrap());
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!((1..=BYTES).contains(&bytes), "{bytes} bytes");
}

#[test]
fn packages_are_pinned_and_their_licences_agree_with_ours() {
    let lock = fs::read_to_string(folder("page/package-lock.json")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    assert!(packages.len() > 10, "{}", packages.len());
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        let allowed = if package["dev"] == true { TOOLS } else { SHIPPED };
        let licence = package["license"].as_str().unwrap_or("none stated");
        assert!(allowed.contains(&licence), "{name}: {licence}");
        assert!(package["integrity"].as_str().is_some(), "{name} has no checksum");
        assert!(package["resolved"].is_null(), "{name} names a registry");
    }
}
