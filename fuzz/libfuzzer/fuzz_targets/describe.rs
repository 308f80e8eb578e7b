//! libFuzzer runs `plexus_fuzz::description`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::description(data));
