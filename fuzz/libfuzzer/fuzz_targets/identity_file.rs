//! libFuzzer runs `plexus_fuzz::identity_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::identity_file(data));
