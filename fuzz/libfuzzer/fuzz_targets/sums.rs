//! libFuzzer runs `plexus_fuzz::sums`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::sums(data));
