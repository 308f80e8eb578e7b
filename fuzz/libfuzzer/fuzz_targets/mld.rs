//! libFuzzer runs `plexus_fuzz::mld`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::mld(data));
