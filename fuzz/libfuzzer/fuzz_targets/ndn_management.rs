//! libFuzzer runs `plexus_fuzz::ndn_management`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndn_management(data));
