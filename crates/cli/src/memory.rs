//! Memory: what this process holds, and what it can have.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory that the process holds, in MiB.
pub(crate) fn held_mib() -> Option<u64> {
    Some(kib(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")? / 1024)
}

/// Bytes that the process can still have: what the machine has left, or less where the process's
/// control group or one above it allows less. `None` where nobody says.
pub(crate) fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| Some(kib(&text, "MemAvailable:")? * 1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = left_in_groups(Path::new("/sys/fs/cgroup"), &groups);
    machine.into_iter().chain(limits).min()
}

/// The value of a line such as `VmRSS:  1234 kB`.
fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// What each control group that has a limit leaves, of either version (cgroups(7)).
fn left_in_groups(root: &Path, groups: &str) -> Vec<u64> {
    let mut left = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (mount, limit, used) = match controllers {
            "" => (root.to_path_buf(), "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let number = |file: PathBuf| -> Option<u64> {
            // "max" is no limit, and no number either.
            fs::read_to_string(file).ok()?.trim().parse().ok()
        };
        let own = mount.join(path.trim_start_matches('/'));
        for group in own.ancestors().take_while(|g| g.starts_with(&mount)) {
            if let (Some(limit), Some(used)) = (number(group.join(limit)), number(group.join(used)))
            {
                left.push(limit.saturating_sub(used));
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_that_of_the_narrowest_group() {
        assert!(held_mib().is_some_and(|m| m > 0) && available().is_some_and(|a| a > 1 << 20));
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
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        assert_eq!(left_in_groups(&root, "0::/a/b\n"), [100]);
        assert_eq!(left_in_groups(&root, "4:cpu,memory:/c\n3:cpu:/c\nodd\n"), [0]);
        assert_eq!(left_in_groups(&root, "0::/nowhere\n"), [] as [u64; 0]);
        fs::remove_dir_all(&root).unwrap();
    }
}
