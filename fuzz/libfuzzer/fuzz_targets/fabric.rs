//! libFuzzer runs `plexus_fuzz::fabric`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::fabric(data));
