//! One suite that every back-end and every wrapper has to pass. A back-end comes with a
//! [`Bench`]: a way to open a port on it and to hold the other end of its cable.
//!
//! Back-ends of the kernel run on veth pairs in a network namespace that dies with the test's
//! thread; without the rights to make one they are skipped, aloud.

mod benches;
mod net;
mod sharing;
mod suite;

use benches::{Memory, Tap, Veth};

/// The suite on a back-end that needs nothing of the kernel.
macro_rules! conforms {
    ($name:ident, $bench:expr) => {
        #[test]
        fn $name() {
            suite::run(&mut $bench);
        }
    };
}

/// The suite on a back-end of the kernel, in a namespace of its own.
macro_rules! conforms_in_namespace {
    ($name:ident, $bench:expr) => {
        #[test]
        fn $name() {
            net::in_namespace(stringify!($name), || suite::run(&mut $bench));
        }
    };
}

conforms!(memory, Memory::new());
conforms_in_namespace!(af_packet, Veth::af_packet(2048));
conforms_in_namespace!(af_packet_with_large_frames, Veth::af_packet(plexus_io::SUPER_FRAME));
conforms_in_namespace!(af_xdp_native, Veth::af_xdp_native(2048));
conforms_in_namespace!(af_xdp_native_with_frames_of_a_page, Veth::af_xdp_native(4096));
conforms_in_namespace!(af_xdp_generic, Veth::af_xdp_generic());
conforms_in_namespace!(tap, Tap::new(2048));
conforms_in_namespace!(tap_with_large_frames, Tap::new(plexus_io::SUPER_FRAME));
