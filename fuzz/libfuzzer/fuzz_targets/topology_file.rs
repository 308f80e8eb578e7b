//! libFuzzer runs `plexus_fuzz::topology_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::topology_file(data));
