//! libFuzzer runs `plexus_fuzz::flow`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::flow(data));
