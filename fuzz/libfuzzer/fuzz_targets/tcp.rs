//! libFuzzer runs `plexus_fuzz::tcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::tcp(data));
