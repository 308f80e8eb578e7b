//! libFuzzer runs `plexus_fuzz::ndn_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndn_name(data));
