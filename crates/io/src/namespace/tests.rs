use super::*;
use std::process::Stdio;

/// Namespaces need root; without it the test says that it did nothing.
fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: namespaces of their own need root");
    }
    root
}

fn shell(script: &str, authority: Authority) -> (io::Result<i32>, String) {
    let (mut output, end) = pipe_cloexec().unwrap();
    let null = File::open("/dev/null").unwrap();
    let arguments = [OsStr::new("-c"), OsStr::new(script)];
    let stdio = [null.as_fd(), end.as_fd(), end.as_fd()];
    let started = spawn_init(Path::new("/bin/sh"), &arguments, stdio, authority);
    drop(end);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    (started.and_then(|p| p.wait()), said)
}

#[test]
fn a_new_init_is_process_one_alone_with_its_loopback() {
    if !root() {
        return;
    }
    for authority in [Authority::Caller, Authority::NewUser] {
        let script = "echo $$; id -u; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; exit 7";
        let (code, said) = shell(script, authority);
        assert_eq!((code.unwrap(), said.as_str()), (7, "1\n0\nlo\n"), "{authority:?}");
    }
}

#[test]
fn an_ended_init_takes_its_children_with_it() {
    if !root() {
        return;
    }
    // The grandchild holds the pipe's other end and is never waited for: the reader sees the end
    // only because the kernel killed it.
    let (code, said) = shell("sleep 1000 & echo started", Authority::Caller);
    assert_eq!((code.unwrap(), said.as_str()), (0, "started\n"));
}

#[test]
fn a_missing_program_is_an_error_that_names_the_step() {
    if !root() {
        return;
    }
    let null = File::open("/dev/null").unwrap();
    let stdio = [null.as_fd(); 3];
    let e = spawn_init(Path::new("/nonexistent"), &[], stdio, Authority::Caller).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::NotFound);
    assert!(e.to_string().starts_with("starting the program"), "{e}");
}

#[test]
fn threads_and_commands_step_into_held_namespaces() {
    if !root() {
        return;
    }
    let made = Namespaces::create(|| {
        rustix::system::sethostname(b"inside")?;
        let none = rustix::mount::MountFlags::empty();
        Ok(rustix::mount::mount("none", "/mnt", "tmpfs", none, None)?)
    })
    .unwrap();
    std::fs::metadata("/mnt/mark").expect_err("the mount is not ours");
    made.run(|| std::fs::write("/mnt/mark", "x")).unwrap().unwrap();
    std::fs::metadata("/mnt/mark").expect_err("the file is only inside");

    let mut command = Command::new("/bin/sh");
    command.args(["-c", "hostname; cat /mnt/mark; tail -n +3 /proc/self/net/dev | wc -l"]);
    command.stdin(Stdio::null());
    made.apply(&mut command).unwrap();
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "inside\nx1\n");

    let e = made.run(|| panic!("on purpose")).map(|()| 0).unwrap_err();
    assert!(e.to_string().contains("panicked"), "{e}");
}
