//! libFuzzer runs `plexus_fuzz::ndn_nfd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndn_nfd(data));
