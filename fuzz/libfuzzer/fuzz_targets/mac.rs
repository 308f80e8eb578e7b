//! libFuzzer runs `plexus_fuzz::mac`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::mac(data));
