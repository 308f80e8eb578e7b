//! libFuzzer runs `plexus_fuzz::graphml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::graphml(data));
