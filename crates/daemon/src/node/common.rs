//! The node's part of the group's common file, which it runs together with its own file. The part
//! that it keeps is in a file that people may read; only the daemon writes it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_api::answer::config::CommonPart;
use plexus_config::document::read_text;
use plexus_config::{COMMON_VERSION_MAX, NodeFile, with_common_part};
use plexus_control::node::common::{Done, Part, Task};
use plexus_io::secret;

use super::news::News;
use super::running::RunningNode;
use crate::adoption::beside;

/// The first line of the file, up to the version.
const HEAD: &str = "# The node's part of the group's common file, version ";

/// The two texts that a node runs together.
pub(crate) struct Common {
    /// The node's own file, as messages call it.
    shown: String,
    /// The file of the part that is kept.
    path: PathBuf,
    /// Held while a text is adopted.
    texts: Mutex<Texts>,
}

struct Texts {
    own: String,
    /// The part that runs.
    part: Part,
    /// The part on disk, to which a trial goes back.
    kept: Part,
}

impl Common {
    /// Reads the part that is kept; gives the node's whole file too. A part that does not fit the
    /// node's own file is left out until the controller offers it again, and says so.
    ///
    /// # Errors
    /// In words, when the node's own file is wrong.
    pub(super) fn open(config: &Path, own: String) -> Result<(Common, NodeFile), String> {
        let shown = config.display().to_string();
        let file = parse(&shown, &own)?;
        let path = beside(config, "common");
        let part = match file.fabric {
            Some(_) => read(&path).unwrap_or_else(|why| {
                tracing::warn!("{}: {why}: the node runs without it", path.display());
                Part::default()
            }),
            None => Part::default(),
        };
        let (part, whole) = match whole(&shown, &own, &part) {
            Ok(whole) => (part, whole),
            Err(why) => {
                tracing::warn!("{}: {why}: the node runs without it", path.display());
                (Part::default(), file)
            }
        };
        let texts = Mutex::new(Texts { own, kept: part.clone(), part });
        Ok((Common { shown, path, texts }, whole))
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        // A panic of another thread leaves the data valid.
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that runs.
    pub(super) fn part(&self) -> Part {
        self.lock().part.clone()
    }

    /// The part that runs, for people.
    pub(super) fn show(&self, node: &RunningNode) -> Option<CommonPart> {
        let Part { version, text } = self.part();
        let trial = node.ask_fabric(|driver| driver.common_trial()).ok().flatten();
        let left = trial.filter(|(tried, _)| *tried == version).map(|(_, left)| left);
        let left_s = left.map(|left| left.as_millis().div_ceil(1000) as u64);
        (version > 0).then_some(CommonPart { version, text, left_s })
    }

    /// Has the node run another own text. It has to fit the part to which a trial goes back, too.
    ///
    /// # Errors
    /// In words; nothing was changed.
    pub(super) fn adopt(&self, node: &RunningNode, own: &str) -> Result<(), String> {
        let mut texts = self.lock();
        if texts.kept != texts.part {
            node.read(whole(&self.shown, own, &texts.kept)?)?;
        }
        node.adopt(node.read(whole(&self.shown, own, &texts.part)?)?)?;
        texts.own = own.into();
        node.tell_fabric(News::OwnFile);
        Ok(())
    }

    /// Has the node run an earlier own text again. A part that came meanwhile may not fit it: then
    /// the node runs without the part, and the controller hears of that.
    ///
    /// # Errors
    /// In words; nothing was changed.
    pub(super) fn go_back(&self, node: &RunningNode, own: &str) -> Result<(), String> {
        let why = match self.adopt(node, own) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        let mut texts = self.lock();
        node.adopt(node.read(parse(&self.shown, own)?)?)?;
        tracing::warn!("the node runs without its part of the common file: {why}");
        *texts = Texts { own: own.into(), part: Part::default(), kept: Part::default() };
        node.tell_fabric(News::Keeps(Part::default()));
        Ok(())
    }

    /// Does what the control plane wants with a part.
    pub(super) fn carry_out(&self, node: &RunningNode, task: Task) -> Done {
        let (part, ran, keep) = match task {
            Task::Check(part) => (part, false, false),
            Task::Run { part, keep } => (part, true, keep),
        };
        let version = part.version;
        let refused = match ran {
            false => self.check(node, &part),
            true => self.run(node, part, keep),
        };
        if let Err(why) = &refused {
            tracing::warn!(version, "the common file does not fit: {why}");
        } else if ran {
            let word = if keep { "is kept" } else { "runs" };
            tracing::info!(version, "the node's part of the common file {word}");
        }
        Done { version, ran, keep, refused: refused.err() }
    }

    fn check(&self, node: &RunningNode, part: &Part) -> Result<(), String> {
        node.read(whole(&self.shown, &self.lock().own, part)?).map(drop)
    }

    fn run(&self, node: &RunningNode, part: Part, keep: bool) -> Result<(), String> {
        let mut texts = self.lock();
        if texts.part != part {
            node.adopt(node.read(whole(&self.shown, &texts.own, &part)?)?)?;
            texts.part = part.clone();
        }
        if keep {
            write(&self.path, &part)?;
            texts.kept = part;
        }
        Ok(())
    }
}

fn parse(shown: &str, text: &str) -> Result<NodeFile, String> {
    NodeFile::parse(shown, text).map_err(|e| e.to_string())
}

/// The node's own text and its part together. A fault of the own text is told with its line.
fn whole(shown: &str, own: &str, part: &Part) -> Result<NodeFile, String> {
    let file = parse(shown, own)?;
    if part.text.is_empty() {
        return Ok(file);
    }
    let text = with_common_part(own, &part.text)?;
    parse(&format!("{shown} with version {} of the common file", part.version), &text)
}

fn read(path: &Path) -> Result<Part, String> {
    if !path.exists() {
        return Ok(Part::default());
    }
    let text = read_text(path).map_err(|e| e.to_string())?;
    let (head, text) = text.split_once('\n').unwrap_or_default();
    let version = head.strip_prefix(HEAD).and_then(|version| version.parse().ok());
    let version = version.filter(|version| *version <= COMMON_VERSION_MAX);
    let version = version.ok_or("its first line does not say which version it is")?;
    Ok(Part { version, text: text.into() })
}

/// Replaces the file, unless somebody else has written it.
fn write(path: &Path, part: &Part) -> Result<(), String> {
    let shown = path.display();
    read(path).map_err(|why| format!("{shown}: {why}: move it away"))?;
    let text = format!("{HEAD}{}\n{}", part.version, part.text);
    let folder = path.parent().unwrap_or(Path::new("."));
    let new = path.with_extension("common-new");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    // A crash leaves the part before or the one after.
    let written = made.and_then(|()| {
        let _ = fs::remove_file(&new);
        secret::write_secret(&new, &text)?;
        fs::rename(&new, path)
    });
    written.map_err(|e| format!("keeping it in {shown}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_part_is_read_again_and_a_foreign_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n1.common");
        assert_eq!(read(&path), Ok(Part::default()));
        for (version, text) in [(7, "[switch]\nageing = \"60s\"\n"), (8, "")] {
            let part = Part { version, text: text.into() };
            write(&path, &part).unwrap();
            assert_eq!(read(&path), Ok(part));
        }
        for foreign in
            ["", "[switch]\n", "# The node's part of the group's common file, version x\n"]
        {
            fs::write(&path, foreign).unwrap();
            assert!(read(&path).unwrap_err().contains("which version"), "{foreign}");
            assert!(write(&path, &Part::default()).unwrap_err().contains("move it away"));
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }

    #[test]
    fn a_part_that_does_not_fit_is_left_out_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("n1.toml");
        let own = "name = \"n1\"\n[fabric]\nidentity = \"x\"\n[[port]]\nname = \"p1\"\n";
        let start = |text: &str| {
            write(&beside(&config, "common"), &Part { version: 3, text: text.into() }).unwrap();
            let (common, file) = Common::open(&config, own.into()).unwrap();
            (common.part().version, file.ports[0].settings.mac_limit)
        };
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nmac_limit = 5\n");
        assert_eq!(start(&port("p1")), (3, Some(5)));
        assert_eq!(start(&port("p2")), (0, None));
        assert_eq!(start("[[port"), (0, None));
    }
}
