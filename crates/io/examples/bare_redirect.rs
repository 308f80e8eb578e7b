//! Redirects all frames between two devices in the kernel, as a peer for the fast table:
//!
//! ```text
//! bare_redirect tcx|xdp A B      says "ready", and ends with a signal
//! ```

use plexus_io::bpf::Target;
use plexus_io::fast::{tcx, xdp};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [hook, a, b] = words.as_slice() else {
        eprintln!("usage: bare_redirect tcx|xdp A B");
        std::process::exit(2);
    };
    let [a, b] = [a, b].map(|name| Target::find(name).expect("a device of this name"));
    let ways = [(&a, b.index()), (&b, a.index())];
    match hook.as_str() {
        "tcx" => run(ways.map(|(from, to)| tcx::redirect(from.index(), to).expect("tcx"))),
        "xdp" => run(ways.map(|(from, to)| xdp::redirect(from, to).expect("native XDP"))),
        other => panic!("{other} is no hook"),
    }
}

/// Keeps the programs in place.
fn run<T>(_ways: T) -> ! {
    println!("ready");
    loop {
        std::thread::park();
    }
}
