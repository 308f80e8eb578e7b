//! libFuzzer runs `plexus_fuzz::ethernet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ethernet(data));
