//! libFuzzer runs `plexus_fuzz::ndp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndp(data));
