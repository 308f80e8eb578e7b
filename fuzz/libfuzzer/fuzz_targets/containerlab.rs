//! libFuzzer runs `plexus_fuzz::containerlab`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::containerlab(data));
