//! libFuzzer runs `plexus_fuzz::join`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::join(data));
