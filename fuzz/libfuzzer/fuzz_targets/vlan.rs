//! libFuzzer runs `plexus_fuzz::vlan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::vlan(data));
