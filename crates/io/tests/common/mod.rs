//! Network namespaces and devices for tests.

// Each test file uses its part of it.
#![allow(dead_code)]

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use plexus_io::namespace::Namespaces;

/// How long a test may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on a thread in fresh namespaces, which end with it. Prints a message and returns if
/// the process may not create any.
pub(crate) fn in_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    let world = match Namespaces::create(|| Ok(())) {
        Ok(world) => world,
        Err(e) => return eprintln!("SKIPPED {name}: making a network namespace needs root: {e}"),
    };
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = world.run(test);
        let _ = done.send(());
        result.unwrap();
    });
    match finished.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// The same where the kernel sends nothing of its own.
pub(crate) fn in_quiet_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    in_namespace(name, || {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            let _ = std::fs::write(path, "1");
        }
        test();
    });
}

/// Runs a program in the thread's namespace, and returns what it prints.
pub(crate) fn command(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn ip(arguments: &str) -> String {
    command("ip", arguments)
}

/// A veth pair, up on both sides.
pub(crate) fn veth(a: &str, b: &str) {
    ip(&format!("link add {a} type veth peer name {b}"));
    ip(&format!("link set {a} up"));
    ip(&format!("link set {b} up"));
}
