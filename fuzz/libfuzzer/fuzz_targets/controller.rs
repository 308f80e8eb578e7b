//! libFuzzer runs `plexus_fuzz::controller`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::controller(data));
