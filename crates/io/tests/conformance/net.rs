//! Network namespaces and devices for tests.

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// How long a test may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on a thread in a fresh network namespace, which ends with the thread. Prints a
/// message and returns if the process may not create one.
pub(crate) fn in_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            // SAFETY: no memory is passed; the calling thread alone moves.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                let error = std::io::Error::last_os_error();
                eprintln!("SKIPPED: making a network namespace needs root: {error}");
            } else {
                quiet();
                test();
            }
            let _ = done.send(());
        })
        .unwrap();
    match finished.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} hangs"),
        _ => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Keeps the kernel from sending anything of its own.
fn quiet() {
    for which in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
}

/// Runs `ip` in the thread's namespace.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
}

/// A veth pair, up on both sides.
pub(crate) fn veth(a: &str, b: &str) {
    ip(&format!("link add {a} type veth peer name {b}"));
    ip(&format!("link set {a} up"));
    ip(&format!("link set {b} up"));
}
