//! A limit to this process's memory: a control group of its own, made within the one it is in, so
//! that whatever limits that one has hold on.

use std::fs;
use std::path::PathBuf;

use plexus_io::process::memory::{self, Group};

/// This process, and those it starts, in a group with a limit, until this is dropped.
pub(super) struct Confined {
    group: Group,
    /// The group that is made.
    own: PathBuf,
    limit: u64,
    /// What the process had before: the group does not count it.
    before: u64,
}

impl Confined {
    /// Makes a group with a limit, bytes, and goes there.
    ///
    /// # Errors
    /// In words, when this process may not, or the kernel has no such groups.
    pub(super) fn enter(limit: u64) -> Result<Confined, String> {
        let mut why = "no cgroup with the memory controller is mounted".to_string();
        for group in Group::of_this_process() {
            match Confined::enter_below(group, limit) {
                Ok(confined) => return Ok(confined),
                Err(problem) => why = problem,
            }
        }
        Err(format!(
            "{why}; run it as root, or so: systemd-run --user --scope -p MemoryMax={}M plexus …",
            limit >> 20
        ))
    }

    fn enter_below(group: Group, limit: u64) -> Result<Confined, String> {
        let own = group.own.join(format!("plexus-{}", std::process::id()));
        let failed = |e: std::io::Error| format!("{}: {e}", own.display());
        fs::create_dir(&own).map_err(failed)?;
        // From here on the end removes it.
        let before = memory::held().unwrap_or(0);
        let confined = Confined { group, own, limit, before };
        let (own, group) = (&confined.own, &confined.group);
        let failed = |e: std::io::Error| format!("{}: {e}", own.display());
        fs::write(own.join(group.limit), limit.to_string()).map_err(failed)?;
        // Without swap there is no such file, or it has nothing to limit.
        let (file, with_memory) = group.swap;
        let _ = fs::write(own.join(file), if with_memory { limit } else { 0 }.to_string());
        fs::write(own.join("cgroup.procs"), std::process::id().to_string()).map_err(failed)?;
        Ok(confined)
    }

    /// All the memory that the process can have: the limit, and what it had before.
    pub(super) fn bytes(&self) -> u64 {
        self.limit + self.before
    }

    /// The limit and what was used of it, for a person.
    pub(super) fn text(&self) -> String {
        let peak = memory::number(&self.own.join(self.group.peak));
        let peak = peak.map_or("?".into(), |bytes| (bytes >> 20).to_string());
        format!(
            "memory: a cgroup's limit of {} MiB, of which {peak} were used at most, and {} MiB \
             from before",
            self.limit >> 20,
            self.before >> 20
        )
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let id = std::process::id().to_string();
        let left = fs::write(self.group.own.join("cgroup.procs"), id);
        if let Err(error) = left.and_then(|()| fs::remove_dir(&self.own)) {
            tracing::warn!(group = %self.own.display(), %error, "the cgroup stays: remove it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's part is played by a folder, which keeps what is written to it.
    #[test]
    fn a_group_is_made_below_the_own_one_and_what_cannot_be_is_told() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("memory/a");
        fs::create_dir_all(&home).unwrap();
        let group = || Group::read(root.path(), "4:memory:/a\n").remove(0);
        let confined = Confined::enter_below(group(), 1 << 28).ok().unwrap();
        let own = home.join(format!("plexus-{}", std::process::id()));
        let read = |name: &str| fs::read_to_string(own.join(name)).unwrap();
        assert_eq!(read("memory.limit_in_bytes"), "268435456");
        assert_eq!(read("memory.memsw.limit_in_bytes"), "268435456");
        assert_eq!(read("cgroup.procs"), std::process::id().to_string());
        fs::write(own.join("memory.max_usage_in_bytes"), "5242880\n").unwrap();
        assert!(confined.text().contains("256 MiB, of which 5 were"), "{}", confined.text());
        assert!(confined.bytes() > 1 << 28, "what it had before counts too");
        // It is there already.
        let why = Confined::enter_below(group(), 1 << 28).err().unwrap();
        assert!(why.contains("plexus-"), "{why}");
        drop(confined);
        let back = fs::read_to_string(home.join("cgroup.procs")).unwrap();
        assert_eq!(back, std::process::id().to_string());
    }
}
