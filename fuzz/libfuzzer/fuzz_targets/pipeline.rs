//! libFuzzer runs `plexus_fuzz::pipeline`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::pipeline(data));
