//! libFuzzer runs `plexus_fuzz::ndn_interest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ndn_interest(data));
