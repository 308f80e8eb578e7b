//! Memory: what this process holds, and what it can have.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory that the process holds.
pub fn held() -> Option<u64> {
    Some(kib(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")? * 1024)
}

/// The same to read, behind something else: `, 12 MiB`; nothing if it is not known.
pub fn held_text() -> String {
    held().map_or_else(String::new, |held| format!(", {} MiB", held >> 20))
}

/// Bytes that the process can still have: what the machine has left, or less where the process's
/// control group or one above it allows less. `None` where nobody says.
pub fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| Some(kib(&text, "MemAvailable:")? * 1024));
    let limits = left_in_groups(&Group::of_this_process());
    machine.into_iter().chain(limits).min()
}

/// The value of a line such as `VmRSS:  1234 kB`.
fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A control group that may limit memory, of either version (cgroups(7)).
pub struct Group {
    mount: PathBuf,
    /// Its directory.
    pub own: PathBuf,
    /// The file that has its limit.
    pub limit: &'static str,
    /// The file that has what is used.
    used: &'static str,
    /// The file that has the most that was used.
    pub peak: &'static str,
    /// The file that limits memory and swap together, or swap alone, and whether memory counts.
    pub swap: (&'static str, bool),
}

impl Group {
    /// Those that this process is in.
    pub fn of_this_process() -> Vec<Group> {
        Group::read(Path::new(MOUNT), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
    }

    /// Those that `/proc/self/cgroup` names, with what is mounted there.
    pub fn read(root: &Path, groups: &str) -> Vec<Group> {
        let group = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                return Some(Group {
                    mount: root.to_path_buf(),
                    own: root.join(path),
                    limit: "memory.max",
                    used: "memory.current",
                    peak: "memory.peak",
                    swap: ("memory.swap.max", false),
                });
            }
            controllers.split(',').any(|c| c == "memory").then(|| Group {
                mount: root.join("memory"),
                own: root.join("memory").join(path),
                limit: "memory.limit_in_bytes",
                used: "memory.usage_in_bytes",
                peak: "memory.max_usage_in_bytes",
                swap: ("memory.memsw.limit_in_bytes", true),
            })
        };
        groups.lines().filter_map(group).collect()
    }

    /// It, and those that it is in.
    fn with_parents(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take_while(|group| group.starts_with(&self.mount))
    }
}

/// A number in a control group's file. "max" is no limit, and no number either; the first version
/// says it by the greatest number of pages.
pub fn number(file: &Path) -> Option<u64> {
    let number: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (number < 1 << 62).then_some(number)
}

/// The narrowest limit of the control groups that this process is in, bytes.
pub fn limit() -> Option<u64> {
    let groups = Group::of_this_process();
    let limits = groups
        .iter()
        .flat_map(|group| group.with_parents().filter_map(|dir| number(&dir.join(group.limit))));
    limits.min()
}

/// What each control group that has a limit leaves.
fn left_in_groups(groups: &[Group]) -> Vec<u64> {
    let mut left = Vec::new();
    for group in groups {
        for dir in group.with_parents() {
            let (limit, used) = (number(&dir.join(group.limit)), number(&dir.join(group.used)));
            left.extend(limit.zip(used).map(|(limit, used)| limit.saturating_sub(used)));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_that_of_the_narrowest_group() {
        assert!(
            held().is_some_and(|held| held > 1 << 20) && available().is_some_and(|a| a > 1 << 20)
        );
        let root = std::env::temp_dir().join(format!("plexus-groups-{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(root.join("memory/c")).unwrap();
        for (file, text) in [
            ("a/memory.max", "1000\n"),
            ("a/memory.current", "900\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.current", "5\n"),
            ("memory/c/memory.limit_in_bytes", "70\n"),
            ("memory/c/memory.usage_in_bytes", "80\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.usage_in_bytes", "80\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        let left = |groups: &str| left_in_groups(&Group::read(&root, groups));
        assert_eq!(left("0::/a/b\n"), [100]);
        assert_eq!(left("4:cpu,memory:/c\n3:cpu:/c\nodd\n"), [0]);
        assert_eq!(left("0::/nowhere\n"), [] as [u64; 0]);
        fs::remove_dir_all(&root).unwrap();
    }
}
