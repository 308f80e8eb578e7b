//! libFuzzer runs `plexus_fuzz::pcap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::pcap(data));
