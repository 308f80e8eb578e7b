//! libFuzzer runs `plexus_fuzz::router`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::router(data));
