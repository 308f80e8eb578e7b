//! libFuzzer runs `plexus_fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::message(data));
