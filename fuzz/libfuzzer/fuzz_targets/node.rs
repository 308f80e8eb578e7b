//! libFuzzer runs `plexus_fuzz::node`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::node(data));
