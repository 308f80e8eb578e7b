//! Redirects all packets between two devices in the kernel, as a peer for the fast table:
//!
//! ```text
//! bare_tcx A B      says "ready", and ends with a signal
//! ```

use plexus_io::bpf::Target;
use plexus_io::fast::tcx;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = names.as_slice() else {
        eprintln!("usage: bare_tcx A B");
        std::process::exit(2);
    };
    let [a, b] = [a, b].map(|name| Target::find(name).expect("a device of this name").index());
    let _ways = [(a, b), (b, a)].map(|(from, to)| tcx::redirect(from, to).expect("tcx"));
    println!("ready");
    loop {
        std::thread::park();
    }
}
