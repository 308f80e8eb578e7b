//! libFuzzer runs `plexus_fuzz::mininet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::mininet(data));
