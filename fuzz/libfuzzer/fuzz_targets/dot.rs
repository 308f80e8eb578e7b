//! libFuzzer runs `plexus_fuzz::dot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::dot(data));
