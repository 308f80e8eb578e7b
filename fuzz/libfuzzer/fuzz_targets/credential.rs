//! libFuzzer runs `plexus_fuzz::credential`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::credential(data));
