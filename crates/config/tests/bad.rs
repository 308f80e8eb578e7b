//! Files with typical mistakes, and their messages: `bad/NAME.toml` gives exactly `bad/NAME.txt`.
//! After a change of wording, run with `BLESS=1` and read the difference.

use std::path::Path;

use plexus_config::document::read_text;
use plexus_config::error::{FileError, Problem};
use plexus_config::{ControllerFile, NodeFile};

#[test]
fn every_mistake_is_explained() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let told = match read_text(&path) {
            Ok(text) if name.starts_with("controller") => {
                ControllerFile::parse(&name, &text).unwrap_err().to_string()
            }
            Ok(text) => NodeFile::parse(&name, &text).unwrap_err().to_string(),
            Err(e) => e.to_string().replace(&path.display().to_string(), &name),
        };
        let expected = path.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, format!("{told}\n")).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(format!("{told}\n"), expected, "{name}");
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn a_missing_file_and_a_directory_are_explained() {
    for path in ["/no/such/file.toml", "/"] {
        let told = NodeFile::read(Path::new(path)).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{path}: cannot be read: ")), "{told}");
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let told = NodeFile::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(told.contains("is larger than 64 MiB"), "{told}");
}

#[test]
fn deep_nesting_and_many_mistakes_are_survived() {
    let deep = format!("name = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(NodeFile::parse("deep", &deep).is_err());
    let dotted = format!("name{} = 1", ".a".repeat(100_000));
    assert!(NodeFile::parse("dotted", &dotted).is_err());
    let many = format!("name = \"a\"\n{}", "[[port]]\nvlan = 0\n".repeat(20_000));
    let error: FileError = NodeFile::parse("many", &many).unwrap_err();
    let problems: &[Problem] = error.problems();
    assert_eq!(problems.len(), 1000);
}
