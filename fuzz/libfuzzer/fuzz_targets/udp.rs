//! libFuzzer runs `plexus_fuzz::udp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::udp(data));
