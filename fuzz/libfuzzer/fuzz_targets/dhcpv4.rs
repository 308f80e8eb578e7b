//! libFuzzer runs `plexus_fuzz::dhcpv4`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::dhcpv4(data));
