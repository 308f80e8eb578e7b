//! Freed memory returns to the system. A separate process that allocates nothing meanwhile.
#![cfg(target_env = "gnu")]

use plexus_io::heap::give_back;

/// Memory that the process holds, in KiB.
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn memory_freed_in_another_thread_returns_to_the_system() {
    const PIECES: usize = 100_000;
    let kept = std::thread::spawn(|| {
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 1000]).collect();
        // The last one keeps the heap from shrinking at its end.
        pieces.drain(..PIECES - 1).for_each(drop);
        pieces
    });
    let kept = kept.join().unwrap();
    let before = held();
    give_back();
    let after = held();
    assert!(before > after + 50_000, "{before} KiB before, {after} after");
    drop(kept);
}
