//! libFuzzer runs `plexus_fuzz::ndn_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndn_link(data));
