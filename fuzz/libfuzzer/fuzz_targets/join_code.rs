//! libFuzzer runs `plexus_fuzz::join_code`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::join_code(data));
