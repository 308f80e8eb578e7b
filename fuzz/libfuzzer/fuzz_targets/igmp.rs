//! libFuzzer runs `plexus_fuzz::igmp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::igmp(data));
