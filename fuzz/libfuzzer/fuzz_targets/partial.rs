//! libFuzzer runs `plexus_fuzz::owed_checksum`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::owed_checksum(data));
