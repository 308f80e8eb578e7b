//! libFuzzer runs `plexus_fuzz::arp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::arp(data));
