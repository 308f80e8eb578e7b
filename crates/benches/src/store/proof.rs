//! Whether what was counted as a hit on the disk came from the disk.

use std::fs;

use plexus_io::disk::DeviceStats;

/// How many times the memory that a process can have its data must be.
const TIMES: u64 = 4;

/// What was seen while packets were asked for.
pub(super) struct Evidence {
    /// Bytes of the records that were read for all that came from the disk.
    pub(super) hit_bytes: u64,
    /// Whether the page cache was passed by.
    pub(super) is_direct: bool,
    /// What the device did; `None` if the file is on none.
    pub(super) device: Option<DeviceStats>,
    /// Bytes that this process had devices read ([`own_read_bytes`]).
    pub(super) own_bytes: Option<u64>,
    pub(super) data_bytes: u64,
    /// All the memory that the process can have, bytes; `None` if nothing limits it.
    pub(super) memory_bytes: Option<u64>,
}

/// What follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The hits came from the device.
    Proven,
    /// They may have; something was missing to tell.
    Unproven(String),
    /// They did not, at least not all.
    Refuted(String),
}

impl Evidence {
    pub(super) fn verdict(&self) -> Verdict {
        let fewer = |who: &str, read: u64| {
            let hits = self.hit_bytes;
            Verdict::Refuted(format!(
                "{who} read {read} bytes for hits of {hits} (does the file system compress?)"
            ))
        };
        let unproven = |why: &str| Verdict::Unproven(why.into());
        if !self.is_direct {
            return unproven("the page cache was not passed by");
        }
        let Some(device) = self.device else {
            return unproven("the file is on no block device that counts");
        };
        if device.read_bytes < self.hit_bytes {
            return fewer("the device", device.read_bytes);
        }
        match self.own_bytes {
            Some(own) if own < self.hit_bytes => return fewer("this process", own),
            _ => {}
        }
        match self.memory_bytes {
            None => unproven("nothing limits this process's memory"),
            Some(memory) if self.data_bytes < memory.saturating_mul(TIMES) => {
                Verdict::Unproven(format!(
                    "{} MiB of content are not {TIMES} times the {} MiB that this process can have",
                    self.data_bytes >> 20,
                    memory >> 20
                ))
            }
            Some(_) => Verdict::Proven,
        }
    }
}

/// Bytes that this process and its threads have had devices read so far (proc_pid_io(5)); `None`
/// where the kernel does not count them.
pub(super) fn own_read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        Evidence {
            hit_bytes: 1000,
            is_direct: true,
            device: Some(DeviceStats { read_bytes: 1000, ..DeviceStats::default() }),
            own_bytes: Some(1000),
            data_bytes: 400,
            memory_bytes: Some(100),
        }
    }

    #[test]
    fn hits_are_proven_by_all_counters_and_a_limit_of_memory() {
        assert_eq!(evidence().verdict(), Verdict::Proven);
        assert_eq!(Evidence { own_bytes: None, ..evidence() }.verdict(), Verdict::Proven);
        for unproven in [
            Evidence { is_direct: false, ..evidence() },
            Evidence { device: None, ..evidence() },
            Evidence { memory_bytes: None, ..evidence() },
            Evidence { memory_bytes: Some(101), ..evidence() },
            Evidence { memory_bytes: Some(u64::MAX), ..evidence() },
        ] {
            assert!(matches!(unproven.verdict(), Verdict::Unproven(_)));
        }
    }

    #[test]
    fn hits_that_a_device_has_not_read_are_refuted() {
        let less = DeviceStats { read_bytes: 999, ..DeviceStats::default() };
        for refuted in [
            Evidence { device: Some(less), ..evidence() },
            Evidence { own_bytes: Some(999), memory_bytes: None, ..evidence() },
        ] {
            let Verdict::Refuted(why) = refuted.verdict() else { panic!() };
            assert!(why.contains("999") && why.contains("1000"), "{why}");
        }
    }
}
