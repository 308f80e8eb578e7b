//! libFuzzer runs `plexus_fuzz::probe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::probe(data));
