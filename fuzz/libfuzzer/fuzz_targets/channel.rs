//! libFuzzer runs `plexus_fuzz::channel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::channel(data));
