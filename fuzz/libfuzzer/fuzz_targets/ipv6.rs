//! libFuzzer runs `plexus_fuzz::ipv6`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::ipv6(data));
